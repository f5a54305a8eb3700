"""`attn update` and `attn reset`: a learner's answers carried into a new release, or given back; nothing is ever lost.

Answers go by `grade_id`, whatever else has moved. Cells of the learner's own stay behind the cell they stood behind. A
notebook is backed up before it is changed. Doing it twice, or again after a crash in the middle, changes nothing more.
"""

import copy
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError
from autograder.notebooks.atomic_write import write_whole
from autograder.notebooks.roles import grade_id, is_answer
from autograder.workspace import folder as workspace
from autograder.workspace import progress


@dataclass
class Carried:
    """A lesson brought up to date: the answers `kept`, how many cells of the learner's `own`, what to know, the old notebook.

    Or left as it was, for the `problem` said.
    """

    lesson: str
    kept: list[str] = field(default_factory=list)
    own: int = 0
    notes: list[str] = field(default_factory=list)
    backup: Path | None = None
    problem: str = ""


def update(folder: Path) -> list[Carried]:
    """Bring every lesson of the workspace `folder` to the course's version; a notebook that cannot be read is left alone."""
    workspace.prepare(folder)
    done = []
    for lesson in workspace.outdated(folder):
        try:
            done.append(_update(folder, lesson))
        except CourseError as error:
            done.append(Carried(lesson, problem=str(error)))
    return done


def _update(folder: Path, lesson: str) -> Carried:
    target, base = workspace.notebook(folder, lesson), workspace.release(folder, lesson)
    fresh = workspace.released()[lesson]
    old, new, mine = (workspace.load(path) for path in (base, fresh / target.name, target))
    if _version(mine) == _version(new) != _version(old):  # an update was cut short after it had written the notebook
        carried = Carried(lesson)
    else:
        made, carried = merge(old, new, mine)
        carried.lesson, carried.backup = lesson, workspace.backup(folder, lesson)
        workspace.save(made, target)
    for path in fresh.iterdir():
        if path.name != target.name:
            write_whole(target.parent / path.name, path.read_bytes())
            write_whole(base.parent / path.name, path.read_bytes())
    write_whole(base, (fresh / target.name).read_bytes())  # last: until now the lesson counts as outdated
    return carried


def _version(notebook: Any) -> Any:
    """What the build wrote into the release; it stays in the learner's copy."""
    return notebook.metadata.get("attn")


def merge(base: Any, fresh: Any, mine: Any) -> tuple[Any, Carried]:
    """The release `fresh` with what the learner did in `mine` since the release `base`."""
    made, carried = copy.deepcopy(fresh), Carried("")
    old = {grade_id(cell): cell for cell in base.cells if grade_id(cell)}
    untouched = {cell.source for cell in (*base.cells, *fresh.cells) if grade_id(cell) is None}
    before = {cell.id: cell.source for cell in base.cells if grade_id(cell) is None}
    named = {grade_id(cell): index for index, cell in enumerate(made.cells) if grade_id(cell)}
    texts = {cell.source: index for index, cell in enumerate(made.cells) if grade_id(cell) is None}
    own: dict[int, list[Any]] = {}
    at, filled = -1, set()
    for cell in mine.cells:
        name = grade_id(cell)
        at = named.get(name, at) if name else texts.get(cell.source, at)
        if name in named and name not in filled and _same_kind(made.cells[named[name]], cell):
            filled.add(name)
            _fill(made.cells[named[name]], cell, old.get(name), carried)
        elif name in old and (cell.source == old[name].source or not is_answer(old[name])):
            if cell.source != old[name].source:
                carried.notes.append(f"the locked cell `{name}` is gone from the course; your edit of it is in the backup")
        elif name is None and cell.source in untouched:
            pass  # the course's own text, in its old or its new words
        elif name is None and before.get(cell.id) in texts:
            at = texts[before[cell.id]]
            _write(made.cells[at], cell)
            carried.own += 1
        elif cell.source.strip():
            own.setdefault(at, []).append(cell)
            carried.own += 1
            if name:
                carried.notes.append(f"`{name}` is asked no more, or asked otherwise: what you wrote stays as a cell of your own")
    made.cells = _with_own(made.cells, own)
    if "kernelspec" in mine.metadata:
        made.metadata["kernelspec"] = mine.metadata["kernelspec"]
    return made, carried


def _same_kind(released: Any, cell: Any) -> bool:
    return not is_answer(released) or bool(released.cell_type == cell.cell_type)


def _fill(target: Any, cell: Any, old: Any, carried: Carried) -> None:
    """Put the learner's `cell` in the place of the released `target`, which was `old` before."""
    name, stub = str(grade_id(target)), target.source
    blank = None if old is None else old.source
    if cell.source in (stub, blank):
        return
    if not is_answer(target):
        carried.notes.append(f"your edit of the locked cell `{name}` is in the backup; the course's cell is in its place")
        return
    _write(target, cell)
    carried.kept.append(name)
    if stub != blank:
        carried.notes.append(f"`{name}` is asked in other words now; your answer is kept, check it again")


def _write(target: Any, cell: Any) -> None:
    for part in ("source", "outputs", "execution_count", "attachments"):
        if part in cell and target.cell_type == cell.cell_type:
            target[part] = copy.deepcopy(cell[part])


def _with_own(cells: list[Any], own: Mapping[int, list[Any]]) -> list[Any]:
    used = {cell.id for cell in cells}
    result = []
    for index in range(-1, len(cells)):
        result += [cells[index]] if index >= 0 else []
        for cell in own.get(index, []):
            extra = copy.deepcopy(cell)
            for part in ("nbgrader", "deletable", "editable"):
                extra.metadata.pop(part, None)
            if extra.id in used:
                extra.id = uuid.uuid4().hex[:8]
            used.add(extra.id)
            result.append(extra)
    return result


def reset(folder: Path, lesson: str, exercise: str | None) -> Path:
    """Give `lesson`, or the answer cell `exercise` of it, back as released; returns the backup of the notebook.

    Progress of what was given back starts anew. An answer cell that was deleted comes back where it stood.
    """
    target, base = workspace.notebook(folder, lesson), workspace.release(folder, lesson)
    if exercise is None:
        kept = workspace.backup(folder, lesson)
        write_whole(target, base.read_bytes())
        progress.forget(folder, lesson, workspace.load_pack(folder, lesson).exercises)
        return kept
    released, mine = workspace.load(base), workspace.load(target)
    where = next((i for i, cell in enumerate(released.cells) if is_answer(cell) and grade_id(cell) == exercise), None)
    if where is None:
        raise CourseError(f"{lesson}: expected an answer cell `{exercise}` in the release, found none. Reset the whole lesson.")
    fresh = released.cells[where]
    found = next((i for i, cell in enumerate(mine.cells) if grade_id(cell) == exercise), None)
    if found is None:
        before = {cell.id for cell in released.cells[:where]}
        place = max((i for i, cell in enumerate(mine.cells) if cell.id in before), default=-1)
        mine.cells.insert(place + 1, fresh)
    else:
        mine.cells[found] = fresh
    kept = workspace.backup(folder, lesson)
    workspace.save(mine, target)
    progress.forget(folder, lesson, [exercise])
    return kept
