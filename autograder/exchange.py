"""nbgrader's exchange, for submissions that `attn grade` marked.

Feedback is filed under a hash of `submission_secret.txt`, which `nbgrader submit` lays beside the notebook. `attn grade` takes
nothing but the notebook from a submission, so nbgrader's own `release_feedback` looks for that file in vain.
"""

import glob
import os
import stat
from pathlib import Path

from nbgrader.exchange.default import ExchangeReleaseFeedback
from nbgrader.utils import temp_attrs

RECEIPT = ("timestamp.txt", "submission_secret.txt")
MAX_BYTES = 4096


class ReleaseFeedback(ExchangeReleaseFeedback):  # type: ignore[misc]  # nbgrader ships no types
    """`nbgrader release_feedback`, with each submission's receipt taken from where it was collected.

    A submission that did not come through the exchange has none: it is passed over with a warning, and stops nobody else's.
    """

    def copy_files(self) -> None:
        without = []
        for folder in sorted({Path(page).parent for page in glob.glob(os.path.join(self.src_path, "*.html"))}):
            student = folder.parent.name
            submitted = self.coursedir.format_path(self.coursedir.submitted_directory, student, self.coursedir.assignment_id)
            try:
                for name in RECEIPT:
                    (folder / name).write_bytes(read_receipt(Path(submitted) / name))
            except OSError as error:
                self.log.warning(f"{student}: no feedback released: {error}. Was it submitted through the exchange?")
                without.append(student)
        excluded = ",".join([*filter(None, [self.coursedir.student_id_exclude]), *without])
        with temp_attrs(self.coursedir, student_id_exclude=excluded):
            super().copy_files()


def read_receipt(path: Path) -> bytes:
    """The content of a small regular file that a student wrote. Raises OSError for a link, a pipe, or one that is too large."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
            raise OSError(f"expected a file of at most {MAX_BYTES} bytes, got {info.st_size} bytes: {path}")
        return file.read(MAX_BYTES)
