"""Read a submission as untrusted data, and rebuild it from the release with only the learner's answers put in.

The order, tags, flags, metadata and outputs of a submission are never trusted, so a deleted, duplicated, moved or forged cell
neither helps nor hurts. Cells that the learner added are kept, because they may define helpers, and run where they stood.
Nothing graded depends on what they claim to be. People read their prose in a browser, so markup and pictures in it are made
harmless (`prose`). Pictures pasted into an answer are kept separately and redrawn. Before all this, `matching` finds out which
answer a cell without a name belongs to.
"""

import codecs
import copy
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from autograder.notebooks import matching, pictures
from autograder.notebooks.flags import Flag
from autograder.notebooks.html_page import prose
from autograder.notebooks.roles import grade_id, is_answer

MAX_BYTES = 20 * 2**20
MAX_CELLS = 2000
MAX_PARTS = 500_000  # brackets in a file; parsing three million empty lists, which would fit, takes seconds
MAX_SOURCE = 200_000  # characters of a code cell
MAX_PROSE = 20_000  # characters of a Markdown cell; a long one can be made to slow down renderers
_ELSEWHERE = re.compile(r"!\[[^\[\]\n]{0,200}\]\((?!\w{1,20}:)([^)\s]{1,100})\)")  # a picture beside the notebook
MAX_TEXT = 1 << 20  # characters of all cells together


@dataclass(frozen=True)
class Cell:
    """What the grader reads of a submitted cell. It ignores everything else."""

    kind: str
    source: str
    grade_id: str | None
    cell_id: str | None
    pictures: tuple[str, ...] = ()  # base64 as submitted; not to be shown before it is redrawn


@dataclass
class Rebuilt:
    """The notebook to grade, `flags` for learner and grader about how it was read, and the pictures of answers by grade_id."""

    notebook: Any
    flags: list[Flag] = field(default_factory=list)
    pictures: dict[str, tuple[str, ...]] = field(default_factory=dict)


class UnreadableError(Exception):
    """The file cannot be read as a notebook. The message tells the learner why."""


def read(path: Path) -> list[Cell]:
    """Return the cells of the notebook at `path`. Raises UnreadableError."""
    return parse(load(path))


def load(path: Path) -> bytes:
    """Return the bytes of the file at `path`, without following a link, at most 20 MiB. Raises UnreadableError."""
    if path.parent.is_symlink():
        raise UnreadableError("its folder is a link; submit the folder itself")
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise UnreadableError(
            f"the file could not be opened ({error.strerror}); submit the notebook itself, not a link"
        ) from None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise UnreadableError("expected a regular file")
        if info.st_size > MAX_BYTES:
            raise UnreadableError(
                f"expected at most {MAX_BYTES >> 20} MiB, got {info.st_size >> 20} MiB; clear the outputs and submit again"
            )
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)


def parse(data: bytes) -> list[Cell]:
    """Return the cells of a notebook with the content `data`, in any version of the format. Raises UnreadableError."""
    if data.count(b"[") + data.count(b"{") > MAX_PARTS:
        raise UnreadableError(
            f"expected at most {MAX_PARTS:,} lists and brackets in the file; clear the outputs and submit again"
        )
    try:
        text = data.decode("utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig")
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"the file is not a notebook: {_instead(data) or type(error).__name__}; {_AGAIN}") from None
    cells = document.get("cells") if isinstance(document, dict) else None
    if cells is None and isinstance(document, dict) and isinstance(document.get("worksheets"), list):  # before 2015
        sheets = [sheet.get("cells") for sheet in document["worksheets"] if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if not isinstance(cells, list) or len(cells) > MAX_CELLS:
        raise UnreadableError("the file holds no list of cells; was another file renamed to .ipynb?")
    return _bounded(cell_of(item) for item in cells if isinstance(item, dict))


def parse_script(data: bytes) -> list[Cell]:
    """Return the cells of a notebook saved as a Python script by Jupyter, Colab or an editor. Raises UnreadableError."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except ValueError:
        raise UnreadableError(f"the file is not a script: {_instead(data) or 'it is no text'}; {_AGAIN}") from None
    parts = _SCRIPT.split(text, maxsplit=2 * MAX_CELLS)
    if len(parts) > 2 * MAX_CELLS:
        raise UnreadableError(_TOO_MUCH)
    cells = []
    for part in parts:
        if _TEXT_PART.match(part):
            source = "\n".join(re.sub(r"^# ?", "", line) for line in part[: 4 * MAX_PROSE].split("\n")[1:])
            cells.append(Cell("markdown", source.strip()[:MAX_PROSE], None, None))
        elif part.strip():
            cells.append(Cell("code", part.strip()[:MAX_SOURCE], None, None))
    return _bounded(cells)


_TOO_MUCH = f"expected at most {MAX_TEXT >> 20} MiB of text in its cells; keep data in a file, not in a cell"
_AGAIN = "open it in JupyterLab, save, and submit again"
_SCRIPT = re.compile(r"^# (?:%%|In\[[ \d]*\]:|<(?:code|markdown)cell>)", re.MULTILINE)
_TEXT_PART = re.compile(r"[ \t]*\[(?:markdown|md)\]")


_KINDS = {
    b"%PDF": "it is a PDF",
    b"PK": "it is an archive, or a document of an office program",
    b"{\\rtf": "it is a document of an office program",
    b"\x89PNG": "it is a picture",
    b"\xff\xd8": "it is a picture",
    b"<": "it is a web page",
}


def _instead(data: bytes) -> str:
    """Return what a file that is not a notebook seems to be, or ""."""
    start = data[:400].lstrip(b"\xef\xbb\xbf \t\r\n")
    kind = next((text for begin, text in _KINDS.items() if start.startswith(begin)), "")
    if b"\n<<<<<<< " in data or start.startswith(b"<<<<<<< "):
        return "two versions of it were merged and not settled"
    if not data.strip():
        return "it is empty"
    return kind or ("it is cut off" if start.startswith(b"{") else "")


def _bounded(cells: Iterable[Cell]) -> list[Cell]:
    """Return `cells` as a list, or raise UnreadableError if there are too many or their text is too long."""
    kept, left = list[Cell](), MAX_TEXT
    for cell in cells:
        kept.append(cell)
        left -= len(cell.source)
        if len(kept) > MAX_CELLS or left < 0:
            raise UnreadableError(_TOO_MUCH)
    return kept


def cell_of(item: Mapping[str, Any]) -> Cell:
    """Return the relevant content of a submitted cell's JSON, whatever is in it."""
    source = item.get("source", item.get("input", ""))
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    metadata = item.get("metadata")
    about: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
    grader = about.get("nbgrader")
    name = grader.get("grade_id") if isinstance(grader, dict) else None
    kind, own = item.get("cell_type"), item.get("id", about.get("id"))  # Colab keeps the id in the metadata
    text = _whole(source).replace("\r\n", "\n").replace("\r", "\n") if isinstance(source, str) else ""  # Python's line ends
    attached = pictures.pasted(item) if kind != "code" else ()
    return Cell(
        kind if isinstance(kind, str) else "",
        text[:MAX_SOURCE] if kind == "code" else (pictures.unmarked(text, MAX_PROSE) if attached else text[:MAX_PROSE]),
        _whole(name) if isinstance(name, str) else None,
        own if isinstance(own, str) else None,
        attached,
    )


def _whole(text: str) -> str:
    """Replace each half of a surrogate pair by a question mark, because JSON can contain one but no file can."""
    return text.encode("utf-8", "replace").decode("utf-8")


def rebuild(released: Any, submitted: list[Cell]) -> Rebuilt:
    """Return the released notebook with the learner's answers in place, and the learner's extra cells where they stood."""
    restored = matching.restore(released, submitted)
    notebook = copy.deepcopy(released)
    answers = {name: cell for cell in notebook.cells if is_answer(cell) and (name := grade_id(cell))}
    locked = {name for cell in notebook.cells if not is_answer(cell) and (name := grade_id(cell))}
    plain = {cell.id: cell for cell in notebook.cells if grade_id(cell) is None}
    place = {cell.id: index for index, cell in enumerate(notebook.cells)}
    extras: dict[int, list[Any]] = {}
    flags = restored.notes
    pasted: dict[str, tuple[str, ...]] = {}
    filled: set[str] = set()
    anchor = -1
    for cell in restored.cells:
        name = cell.grade_id
        if name in answers and cell.kind == answers[name].cell_type:
            if name not in filled:
                filled.add(name)
                answers[name].source = _written(cell, answers[name].source)
                if cell.kind == "markdown":
                    pasted |= {name: cell.pictures} if cell.pictures else {}
                    absent = _ELSEWHERE.findall(cell.source)
                    flags += [Flag("no_picture", name, path) for path in absent]
                anchor = place[answers[name].id]
                continue
            flags.append(Flag("repeated", name))
        elif name in locked:
            anchor = max(anchor, next(place[c.id] for c in notebook.cells if grade_id(c) == name))
            continue
        elif cell.cell_id in plain and name is None and cell.kind == plain[cell.cell_id].cell_type:
            anchor = place[cell.cell_id]
            if cell.source != plain[cell.cell_id].source and cell.kind == "code":
                plain[cell.cell_id].source = cell.source
                plain[cell.cell_id].metadata.pop("tags", None)  # the cell is the learner's now, so it runs like any other
            continue
        elif name is not None:
            flags.append(Flag("unknown", name[:60]))
        if cell.kind in ("code", "markdown") and cell.source.strip():
            extras.setdefault(anchor, []).append(_extra(cell, sum(map(len, extras.values()))))
    if missing := [name for name in answers if name not in filled]:
        flags.append(Flag("missing", ", ".join(missing)))
    cells = list(extras.get(-1, []))
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        cells += [cell, *extras.get(index, [])]
    notebook.cells = cells
    return Rebuilt(notebook, list(dict.fromkeys(flags)), pasted)


def _written(cell: Cell, released: str) -> str:
    return cell.source if cell.kind == "code" or cell.source == released else prose(cell.source)


def _extra(cell: Cell, number: int) -> Any:
    extra = {"cell_type": cell.kind, "id": f"extra-{number}", "metadata": {}, "source": _written(cell, "")}
    return nbformat.from_dict(extra if cell.kind == "markdown" else {**extra, "outputs": [], "execution_count": None})
