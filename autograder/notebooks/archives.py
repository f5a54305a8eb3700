"""Read files from untrusted folders and zip archives into memory, within limits, or refuse them with a reason.

Nothing is ever extracted under the name that an archive gives it. Links, special files, encrypted entries, duplicate names, names
that lead out of the archive or that some system misreads, and zip bombs are refused one by one. The other files are still read.
"""

import io
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autograder.notebooks.rebuild_submission import MAX_BYTES

MAX_NESTED = 50 << 20  # bytes of a zip in a zip
MAX_TOTAL = 2 << 30  # bytes read from one collection
MAX_WITHIN = 5 * MAX_BYTES  # bytes read from a zip in a zip
MAX_EACH = MAX_NESTED + MAX_WITHIN  # bytes read from one learner, who must not use up everybody's share
MAX_ENTRIES = 50_000  # entries in an archive; a nested archive may have a fiftieth of that
MAX_RATIO = 100  # uncompressed to compressed size, from a megabyte on; notebooks reach 10
TEXTS = (".py", ".txt", ".json")  # may be a notebook or a module under another name
BESIDE = (
    ".html", ".htm", ".pdf", ".docx", ".doc", ".odt", ".md", ".csv", ".png", ".jpg", ".jpeg", ".heic", ".url", ".webloc",
)  # fmt: skip
LONG_AGO, NEVER = datetime(1980, 1, 1), datetime(2200, 1, 1)
PACKED = (".gz", ".tgz", ".tar", ".7z", ".rar", ".xz", ".bz2")
_JUNK = re.compile(r"(^|/)(__MACOSX|\.ipynb_checkpoints|\.DS_Store|\._[^/]*|Thumbs\.db|desktop\.ini)(/|$)")
_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(\..*)?$")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffd\ud800-\udfff]")


@dataclass(frozen=True)
class File:
    """A file that was read. `path` is its path in the collection, in which archives count as folders.

    `time` says when it was written; for a file in a nested archive, that is the time of the outermost entry.
    """

    path: str
    data: bytes
    time: datetime


@dataclass(frozen=True)
class Refused:
    """A file that was not read, and the reason in words for the instructor."""

    path: str
    reason: str


class _Budget:
    """The bytes that may still be read from the whole collection, from one learner's files, or from an archive among those."""

    def __init__(self, most: int, where: str, above: "_Budget | None" = None) -> None:
        self.most, self.left, self.where, self.above = most, most, where, above

    def take(self, size: int) -> None:
        """Count `size` bytes as read."""
        self.left -= size
        if self.above is not None:
            self.above.take(size)

    def problem(self, size: int) -> str | None:
        """Return why `size` more bytes may not be read, or None."""
        if size > self.left:
            return f"more than {self.most >> 20} MiB {self.where}"
        return self.above.problem(size) if self.above is not None else None


def read_all(source: Path, whose: Callable[[str], str] = str) -> Iterator[File | Refused]:
    """Yield every notebook in the folder `source`, or in the zip or notebook `source`, in the order of their paths.

    Other files (`BESIDE`, `PACKED`) come by name only, without content; `TEXTS` are read. `whose` maps the name of an outermost
    folder or file to the learner who submitted it. At most `MAX_EACH` bytes are read of one learner's files.
    """
    whole, each = _Budget(MAX_TOTAL, "in one collection: collect in parts"), dict[str, _Budget]()

    def budget(path: str) -> _Budget:
        return each.setdefault(whose(path.partition("/")[0]), _Budget(MAX_EACH, "from one student", whole))

    if source.is_symlink():
        yield Refused(source.name, "it is a link; name the file or folder itself")
    elif source.is_dir():
        for folder, folders, names in os.walk(source):
            folders.sort()
            for name in sorted([*names, *(link for link in folders if (Path(folder) / link).is_symlink())]):
                path = Path(folder) / name
                yield from _on_disk(path, path.relative_to(source).as_posix(), budget)
    else:
        yield from _on_disk(source, "" if source.suffix.lower() == ".zip" else source.name, budget)


def _on_disk(path: Path, name: str, budget: Callable[[str], _Budget]) -> Iterator[File | Refused]:
    label = shown(name or path.name)
    if _JUNK.search(name):
        return
    if problem := name_problem(name):
        yield Refused(label, problem)
        return
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        yield Refused(label, f"it could not be opened ({error.strerror}); links are not followed")
        return
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            yield Refused(label, "expected a regular file")
        elif path.suffix.lower() == ".zip":
            # a learning platform wrote the source itself, but a learner made a zip in a folder, and the times in it
            yield from _in_zip(file, name, budget, _at(info.st_mtime) if name else None)
        elif problem := _size_problem(name, info.st_size, budget(name)):
            yield Refused(label, problem)
        else:
            data = file.read(MAX_BYTES) if _is_read(name) else b""
            budget(name).take(len(data))
            yield File(name, data, _at(info.st_mtime))


def _in_zip(
    file: io.IOBase, name: str, budget: Callable[[str], _Budget], time: datetime | None, *, nested: bool = False
) -> Iterator[File | Refused]:
    """Yield the files of a zip. If `time` is given (of the archive around it, or of a learner's own zip), it replaces theirs."""
    try:
        archive = zipfile.ZipFile(file)
        entries = archive.infolist()
    except Exception as error:  # on malformed input, zipfile may raise anything
        yield Refused(shown(name or "the archive"), f"it is not a zip archive that can be read ({type(error).__name__})")
        return
    if len(entries) > MAX_ENTRIES:
        yield Refused(shown(name or "the archive"), f"expected at most {MAX_ENTRIES} files in it, got {len(entries)}")
        return
    names = [_folded(entry.filename) for entry in entries]
    doubled = {each for each, times in Counter(names).items() if times > 1}
    prefix = f"{name}/" if name else ""
    for entry in sorted(entries, key=lambda each: each.filename):
        path = prefix + entry.filename
        if entry.filename.endswith("/") or _JUNK.search(path):
            continue
        problem = _entry_problem(entry, budget(path), nested=nested)
        if _folded(entry.filename) in doubled:
            problem = "the archive holds this name twice, or twice but for capitals: which one counts?"
        if problem:
            yield Refused(shown(path), problem)
            continue
        yield from _entry(archive, entry, path, budget(path), time)


def _entry(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: str, budget: _Budget, time: datetime | None
) -> Iterator[File | Refused]:
    limit = MAX_NESTED if path.lower().endswith(".zip") else MAX_BYTES
    if not _is_read(path):
        yield File(path, b"", time or _written(entry))
        return
    try:
        with archive.open(entry) as file:
            data = file.read(limit + 1)  # don't trust the size that the archive states
        written = time or _written(entry)
    except Exception as error:
        yield Refused(shown(path), f"it could not be unpacked ({type(error).__name__}: {shown(str(error))[:80]})")
        return
    budget.take(len(data))
    if len(data) > limit:
        yield Refused(shown(path), f"expected at most {limit >> 20} MiB, got more than it said")
    elif not path.lower().endswith(".zip"):
        yield File(path, data, written)
    elif data.count(b"PK\x01\x02") > MAX_ENTRIES // 50:  # the signature of an entry in a zip's directory
        yield Refused(shown(path), f"expected at most {MAX_ENTRIES // 50} files in an archive within an archive")
    else:
        within = _Budget(MAX_WITHIN, "in one archive", budget)
        yield from _in_zip(io.BytesIO(data), path, lambda _: within, written, nested=True)


def _written(entry: zipfile.ZipInfo) -> datetime:
    """Return when the archive says that `entry` was written, or `LONG_AGO` if that is not a valid date."""
    try:
        return datetime(*entry.date_time)
    except ValueError:
        return LONG_AGO


def _at(seconds: float) -> datetime:
    """Return the time of a file, or `LONG_AGO` if it is outside the calendar."""
    try:
        found = datetime.fromtimestamp(seconds)
    except (ValueError, OverflowError, OSError):
        return LONG_AGO
    return found if LONG_AGO <= found < NEVER else LONG_AGO


def _entry_problem(entry: zipfile.ZipInfo, budget: _Budget, *, nested: bool) -> str | None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    name = entry.filename
    if entry.orig_filename.split("\0")[0] != entry.orig_filename:
        return "its name goes on behind a zero byte"
    if problem := name_problem(name):
        return problem
    if kind not in (0, stat.S_IFREG):
        return "it is a link or a special file"
    if entry.flag_bits & 1:
        return "it is encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others can be made to take gigabytes
        return "it is packed in an unusual way: make the zip with the system's own tool"
    if nested and name.lower().endswith(".zip"):
        return "an archive in an archive in an archive is not opened"
    if entry.file_size > 1 << 20 and entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
        return f"it is packed {entry.file_size // max(entry.compress_size, 1)} to 1, as no notebook is"
    return _size_problem(name, entry.file_size, budget)


def _size_problem(name: str, size: int, budget: _Budget) -> str | None:
    suffix = Path(name).suffix.lower()
    if not _is_read(name):
        return None
    if suffix not in (".ipynb", ".zip", *TEXTS):
        return no_notebook(name)
    limit = MAX_NESTED if suffix == ".zip" else MAX_BYTES
    if size > limit:
        return f"expected at most {limit >> 20} MiB, got {size >> 20} MiB"
    return budget.problem(size)


def _is_read(name: str) -> bool:
    return Path(name).suffix.lower() not in (*BESIDE, *PACKED)


def no_notebook(name: str) -> str:
    """Return why a file called `name` is not accepted."""
    return "expected a .zip archive" if name.lower().endswith(PACKED) else "expected a notebook (.ipynb) or a .zip archive"


def name_problem(name: str) -> str | None:
    """Return why no file may have this `name` (a path with /), or None.

    >>> name_problem("ann/a.ipynb"), name_problem("../a.ipynb")
    (None, 'its name leads out of the archive')
    """
    parts = name.split("/")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "its name is an absolute path"
    if ".." in parts:
        return "its name leads out of the archive"
    if _UNSEEN.search(name):
        return "its name has characters that cannot be shown"
    if "\\" in name or ":" in name:
        return "its name has a backslash or a colon, which some systems read as a path"
    if any(_DEVICE.match(part) or part != part.rstrip(". ") for part in parts):
        return "its name is no file's name on Windows"
    if len(name) > 1000 or any(len(part.encode()) > 255 for part in parts):
        return "its name is too long"
    return None


def _folded(name: str) -> str:
    return name.replace("\\", "/").rstrip("/").casefold()


def shown(name: str) -> str:
    """Return a name that is safe to print in a terminal."""
    return _UNSEEN.sub("?", name)[:200]
