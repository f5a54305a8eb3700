"""Make nbgrader's exchange safe with untrusted students: collect regular files only, and return feedback to its owner."""

import glob
import os
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback
from nbgrader.utils import temp_attrs

from autograder.grading.submitted_folders import utc

TIME = "timestamp.txt"
RECEIPT = (TIME, "submission_secret.txt")
MAX_BYTES = 4096  # of a receipt


class ReleaseFeedback(ExchangeReleaseFeedback):  # type: ignore[misc]  # nbgrader ships no types
    """Run `nbgrader release_feedback`, but take each submission's receipt from the folder where it was collected.

    Feedback is filed under a hash of `submission_secret.txt`, which `nbgrader submit` puts beside the notebook. `attn grade`
    copies only the notebook from a submission, so nbgrader would not find the secret beside the graded notebook. A submission
    that did not come through the exchange has no such file. It is skipped with a warning, and everybody else's feedback is
    released.
    """

    def copy_files(self) -> None:
        without = []
        for folder in sorted({Path(page).parent for page in glob.glob(os.path.join(self.src_path, "*.html"))}):
            student = folder.parent.name
            submitted = self.coursedir.format_path(self.coursedir.submitted_directory, student, self.coursedir.assignment_id)
            try:
                for name in RECEIPT:
                    (folder / name).write_bytes(read_regular(Path(submitted) / name, MAX_BYTES))
            except OSError as error:
                self.log.warning(f"{student}: no feedback released: {error}. Was it submitted through the exchange?")
                without.append(student)
        excluded = ",".join([*filter(None, [self.coursedir.student_id_exclude]), *without])
        with temp_attrs(self.coursedir, student_id_exclude=excluded):
            super().copy_files()


class Collect(ExchangeCollect):  # type: ignore[misc]  # nbgrader ships no types
    """Run `nbgrader collect`, but copy only regular files and watch for whatever could harm the instructor.

    nbgrader follows links with the instructor's rights. A link in place of a notebook would submit any file that the instructor
    can read, and return it in the feedback. A pipe, a folder that is too large or an invalid time would end the collection for
    everybody.
    """

    def _path_to_record(self, path: str) -> dict[str, Any]:
        """Return user and time from a folder's name, which anybody may have chosen. An invalid time counts as the earliest."""
        name = os.path.basename(path)
        user, _, stamp, *_ = name.rsplit("+", 3)
        try:
            time = utc(stamp)
        except ValueError:
            self.log.warning(f"{name}: its name holds no time: any other submission of {user} counts before it")
            time = datetime.min
        return {"username": user, "filename": name, "timestamp": time}

    def _sort_by_timestamp(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a student's submissions, the latest first, without any that another account submitted in the student's name.

        If the student has no submission of their own, the others are returned.
        """
        own = [record for record in records if _is_theirs(Path(self.inbound_path) / record["filename"], record["username"])]
        for record in records if own else ():
            if record not in own:
                self.log.warning(f"{record['filename']}: left out, because another account's; {record['username']} has their own")
        sorted_records: list[dict[str, Any]] = super()._sort_by_timestamp(own or records)
        return sorted_records

    def do_copy(self, src: str, dest: str, log: object = None) -> None:
        files, left_out = read_folder(Path(src), 1000 * self.coursedir.max_file_size)
        if left_out:
            self.log.warning(f"{Path(src).name}: not collected, because no regular file or too large: {', '.join(left_out)}")
        if TIME in files and not _is_time(files[TIME]):  # an invalid time would stop nbgrader's next collection
            self.log.warning(f"{Path(src).name}: {TIME} holds no time: left out")
            del files[TIME]
        Path(dest).mkdir(parents=True)
        for name, data in files.items():
            (Path(dest) / name).write_bytes(data)


def read_folder(folder: Path, most: int) -> tuple[dict[str, bytes], list[str]]:
    """Return the regular files in a student's folder, together at most `most` bytes, and the names of the entries left out."""
    files: dict[str, bytes] = {}
    left_out = []
    try:
        within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return {}, [folder.name]
    try:
        for name in sorted(os.listdir(within)):
            try:
                files[name] = read_regular(name, most - sum(map(len, files.values())), within)
            except OSError:
                left_out.append(name)
    finally:
        os.close(within)
    return files, left_out


def _is_theirs(folder: Path, student: str) -> bool:
    """Return whether the folder belongs to the account called `student` or to the collector; True if no such account exists."""
    try:
        import pwd

        return os.lstat(folder).st_uid in (pwd.getpwnam(student).pw_uid, os.geteuid(), 0)
    except (KeyError, ImportError, OSError):
        return True


def _is_time(data: bytes) -> bool:
    try:
        return bool(utc(data.decode("ascii").strip()))
    except ValueError:
        return False


def read_regular(path: Path | str, most: int, within: int | None = None) -> bytes:
    """Return the content of a file that a student wrote. Raises OSError for a link, a pipe, or more than `most` bytes."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), dir_fd=within)
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or info.st_size > most:
            raise OSError(f"expected a file of at most {most} bytes, got {info.st_size} bytes: {path}")
        return file.read(most)
