"""Find the submission among the files in a student's folder, with notes on how it was found and on the other files.

In: `submitted/<student>/<assignment>/`, as any platform, browser or student left it. Out: a `Handed`. The notebook is looked
for under its own name, then under the names that copies and downloads get, then by its content; after that a script is
tried, and finally a zip that nobody unpacked. If there are several, the latest is read. Anything else gets no marks, and the
student's page gives the reason.
"""

import contextlib
import os
import re
from collections.abc import Collection, Sequence
from operator import attrgetter
from pathlib import Path

from autograder.grading.marking.read_submission import MAX_FILE_BYTES, MAX_FILES, Handed
from autograder.notebooks.archives import File, read_all, shown
from autograder.notebooks.rebuild_submission import UnreadableError, load

MAX_SEEN = 200  # files of a folder that are examined
MAX_READ = 10  # files that are opened to see whether they are renamed notebooks
MAX_ARCHIVES = 3  # archives, latest first, that are opened to look for a notebook
MAX_CLOSED = 5  # unreadable folders that are reported
_OURS = re.compile(
    r"timestamp\.txt|submission_secret\.txt|user_info\.json|feedback.*|.*\.probes\.npz|\..*|__pycache__|.*\.pyc"
    r"|(?i:__macosx|thumbs\.db|desktop\.ini)"
)
_HOW = "Hand in the notebook itself: in JupyterLab, File, Download"
LINKED = "it is a link, and the notebook behind it may change after the due date"
_SAID = {
    (".html", ".htm"): "it is a web page printed from a notebook, which holds no code to run",
    (".pdf",): "it is a PDF, which holds no code to run",
    (".docx", ".doc", ".odt"): "it is a document of an office program",
    (".md",): "it is text, not a notebook",
    (".zip",): "it is an archive with no notebook in it that can be read",
    (".7z", ".rar", ".gz"): "it is an archive that is not opened here: send a .zip",
    (".url", ".webloc"): LINKED,
    (".png", ".jpg", ".jpeg", ".heic"): "it is a picture of the work",
}
REASONS = {suffix: reason for suffixes, reason in _SAID.items() for suffix in suffixes}
TYPED = "it is text typed into the platform's box"
_CANVAS = r"(?:[^_]+_(?:late_)?\d+_(?:\d+_)?)?"  # the prefix that Canvas adds to a name
_TYPED = re.compile(rf"onlinetext\.html?|{_CANVAS}text\.html", re.IGNORECASE)
_LINKED = re.compile(rf"{_CANVAS}link\.html", re.IGNORECASE)


def in_place_of_a_file(name: str) -> str | None:
    """Return what the file `name` holds in place of a student's file (typed text or a link), or None if it is a student's own."""
    if _TYPED.fullmatch(name):
        return TYPED
    return LINKED if _LINKED.fullmatch(name) else None


def read_folder(folder: Path, assignment: str, known: Collection[str] = ()) -> Handed:
    """Return the submission of `assignment` in `folder`. `known` lists the file names that belong to the release."""
    expected = f"{assignment}.ipynb"
    files, closed = _files(folder)
    paths = [path for path in files if path.name not in known or path.name == expected]
    if os.path.lexists(folder / expected):
        return _notebook(folder / expected, paths, closed)
    renamed = [path for path in paths if path.suffix.lower() in (".txt", ".json")][:MAX_READ]
    notebooks = [path for path in paths if path.suffix.lower() == ".ipynb" or (path in renamed and _is_json_notebook(path))]
    if notebooks:
        chosen = max(_named(notebooks, assignment), key=lambda path: (_time(path), path.name))
        note = f"read from {shown(chosen.name)}{_among(notebooks)}: expected {expected}"
        return _notebook(chosen, paths, (note, *closed))
    if scripts := [path for path in paths if path.suffix.lower() == ".py"]:
        chosen = max(_named(scripts, assignment), key=lambda path: (path.stat().st_size, path.name))
        note = f"read from the script {shown(chosen.name)}, answers to questions in words are not in it: expected {expected}"
        return _notebook(chosen, paths, (note, *closed), script=True)
    if handed := _in_archive(paths, assignment, closed):
        return handed
    if not paths:
        return Handed(None, f"expected {expected}, found no file. {_HOW}", notes=closed)
    first = max(paths, key=lambda path: path.suffix.lower() in REASONS)
    reason = in_place_of_a_file(first.name) or REASONS.get(first.suffix.lower(), "it is no notebook")
    why = f"expected {expected}, found {shown(first.name)}: {reason}. {_HOW}"
    return Handed(None, why, files=_beside(paths, first), notes=closed)


def _named(paths: list[Path], assignment: str) -> list[Path]:
    """Return the files that are named after the assignment, or all if none is."""
    return [path for path in paths if folded(assignment) in folded(path.name)] or paths


def _among(notebooks: Sequence[object]) -> str:
    return "" if len(notebooks) == 1 else f", the latest of {len(notebooks)}"


def _notebook(path: Path, paths: list[Path], notes: tuple[str, ...], *, script: bool = False) -> Handed:
    files = _beside(paths, path)
    try:
        return Handed(load(path), script=script, files=files, notes=notes)
    except UnreadableError as error:
        return Handed(None, str(error), files=files, notes=notes)


def _in_archive(paths: list[Path], assignment: str, notes: tuple[str, ...]) -> Handed | None:
    """Return the submission in the latest zip among `paths` that has a notebook, with its modules; None if there is none."""
    zips = [path for path in paths if path.suffix.lower() == ".zip"]
    for archive in sorted(zips, key=lambda path: (_time(path), path.name), reverse=True)[:MAX_ARCHIVES]:
        files = [file for file in read_all(archive, lambda _: "") if isinstance(file, File)]
        notebooks = [file for file in files if file.path.lower().endswith(".ipynb")]
        if not notebooks:
            continue
        named = [file for file in notebooks if folded(assignment) in folded(Path(file.path).name)] or notebooks
        chosen = max(named, key=lambda file: (file.time, file.path))
        note = f"read from {shown(chosen.path)} in {shown(archive.name)}{_among(notebooks)}: expected {assignment}.ipynb"
        beside = dict[str, bytes]()
        for file in files[:MAX_SEEN]:
            name = Path(file.path).name
            if file is not chosen and name not in beside and not is_ours(name):
                runs = name.endswith(".py") and len(beside) < MAX_FILES and len(file.data) <= MAX_FILE_BYTES
                beside[name] = file.data if runs else b""
        return Handed(chosen.data, files=beside, notes=(note, *notes))
    return None


def is_ours(name: str) -> bool:
    """Return whether the file `name` belongs to the grader or is irrelevant.

    The name in lower case counts too, because some file systems ignore case.
    """
    return bool(_OURS.fullmatch(name) or _OURS.fullmatch(name.casefold()))


def _files(folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Return the files in `folder` and one level below (some people upload a folder), and notes on unreadable folders."""
    files, closed = list[Path](), list[str]()
    if folder.is_symlink() or not folder.is_dir():
        return files, ()
    for entry in sorted(os.scandir(folder), key=attrgetter("name")):
        if len(files) >= MAX_SEEN:
            break
        if _OURS.fullmatch(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            try:
                inside = sorted(os.scandir(entry), key=attrgetter("name"))
            except OSError as error:
                closed.append(f"the folder {shown(entry.name)} was not read: {error.strerror}")
                continue
            files += [Path(file) for file in inside if file.is_file(follow_symlinks=False) and not _OURS.fullmatch(file.name)]
        elif entry.is_file(follow_symlinks=False):
            files.append(Path(entry))
    return files[:MAX_SEEN], tuple(closed[:MAX_CLOSED])


def _beside(paths: list[Path], chosen: Path) -> dict[str, bytes]:
    """Return the other files by name. Only modules that may run come with their content."""
    files: dict[str, bytes] = {}
    for path in paths:
        if path == chosen or path.name in files:
            continue
        files[path.name] = b""
        if path.suffix == ".py" and len(files) <= MAX_FILES:
            with contextlib.suppress(UnreadableError, OSError):
                if path.stat().st_size <= MAX_FILE_BYTES:
                    files[path.name] = load(path)
    return files


def _is_json_notebook(path: Path) -> bool:
    """Return whether a `.txt` or `.json` file is a notebook that a browser or a mail program renamed."""
    try:
        data = load(path)
    except UnreadableError:
        return False
    return data.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{") and b'"cells"' in data and b'"nbformat"' in data


def _time(path: Path) -> float:
    try:
        return path.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def folded(name: str) -> str:
    """Return a file name reduced to its letters and digits, for comparisons."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
