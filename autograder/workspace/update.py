"""Carry a learner's answers into a new release (`attn update`), or restore a lesson as released (`attn reset`).

Nothing is ever lost. Answers are matched by `grade_id`, wherever their cells have moved, and follow their exercise into
another notebook. An answer whose exercise has left the course is kept in a file beside the notebooks. The learner's own
cells stay after the cell they followed. A notebook is backed up before it is changed. Running an update twice, or again
after a crash in the middle, changes nothing more.
"""

import copy
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError
from autograder.notebooks.atomic_write import write_whole
from autograder.notebooks.lesson_names import chapter_of
from autograder.notebooks.roles import grade_id, is_answer
from autograder.workspace import folder as workspace
from autograder.workspace import progress

KEPT = "kept_answers.md"
KEPT_HEAD = "# Answers to exercises that the course asks no more\n"
LEFT = "attn_answer"  # in a cell's metadata: the name of the answer that it held before its exercise left the notebook


@dataclass
class Carried:
    """A lesson brought up to date: the answers `kept`, the number of the learner's `own` cells, notes, and the `backup`.

    If the lesson was left unchanged, `problem` says why.
    """

    lesson: str
    kept: list[str] = field(default_factory=list)
    own: int = 0
    notes: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)  # answers whose exercise moved, and the lesson it moved to
    left: dict[str, str] = field(default_factory=dict)  # the learner's text in cells that this lesson no longer has, by name
    backup: Path | None = None
    problem: str = ""


def update(folder: Path) -> list[Carried]:
    """Bring every lesson of the workspace `folder` to the course's version. An unreadable notebook is left alone."""
    workspace.prepare(folder)
    waiting = workspace.outdated(folder)
    homes = _homes()
    done: dict[str, Carried] = {}
    leaving: dict[str, dict[str, str]] = {}
    for lesson in waiting:  # all notebooks first, so an answer that moves finds its new place
        try:
            done[lesson], leaving[lesson] = _update(folder, lesson, homes)
        except CourseError as error:
            done[lesson] = Carried(lesson, problem=str(error))
    for lesson, names in leaving.items():
        _move_answers(folder, done[lesson], names)
        _release(folder, lesson)  # last, because until then the lesson counts as outdated
    return list(done.values())


def _homes() -> dict[str, list[str]]:
    """Return the lessons that have each answer cell of the course, by the cell's name."""
    homes: dict[str, list[str]] = {}
    for lesson, folder in workspace.released().items():
        for cell in workspace.load(folder / f"{lesson}.ipynb").cells:
            if is_answer(cell):
                homes.setdefault(str(grade_id(cell)), []).append(lesson)
    return homes


def _update(folder: Path, lesson: str, homes: Mapping[str, list[str]]) -> tuple[Carried, dict[str, str]]:
    """Bring the notebook of `lesson` up to date. Returns what was done, and `{answer: new lesson}` for answers that moved.

    Answers that moved stay in this notebook until they are in their new place.
    """
    target, base = workspace.notebook(folder, lesson), workspace.release(folder, lesson)
    fresh = workspace.released()[lesson] / target.name
    old, new, mine = (workspace.load(path) for path in (base, fresh, target))
    asked = {str(grade_id(cell)) for cell in old.cells if is_answer(cell)}
    still = {str(grade_id(cell)) for cell in new.cells if is_answer(cell)}
    gone = [name for name in asked - still if name not in homes]
    leaving = {  # if several lessons have a cell of that name, one of the same chapter is preferred
        name: next((home for home in homes[name] if chapter_of(home) == chapter_of(lesson)), homes[name][0])
        for name in asked - still
        if name in homes
    }
    if _version(mine) == _version(new) != _version(old):  # an earlier update was interrupted after writing the notebook
        return Carried(lesson), leaving
    merged, carried = merge(old, new, mine)
    carried.lesson, carried.backup = lesson, workspace.backup(folder, lesson)
    _keep_in_a_file(folder, lesson, {name: text for name, text in carried.left.items() if name in gone})
    for name in carried.left:
        if name not in leaving:
            also = f", and in {KEPT}" if name in gone else ""
            says = f"`{name}` is asked no more, or asked otherwise: what you wrote stays as a cell of your own{also}"
            carried.notes.append(says)
    workspace.save(merged, target)
    return carried, leaving


def _keep_in_a_file(folder: Path, lesson: str, answers: Mapping[str, str]) -> None:
    """Append the answers whose exercise is gone to a file in the workspace."""
    path = folder / KEPT
    text = path.read_text(encoding="utf-8") if path.exists() else KEPT_HEAD
    for name, answer in sorted(answers.items()):
        section = f"\n## {lesson}: `{name}`\n\n````\n{answer}\n````\n"
        text += section if section not in text else ""
    if answers:
        write_whole(path, text)


def _move_answers(folder: Path, carried: Carried, leaving: Mapping[str, str]) -> None:
    """Move answers whose exercise left `carried.lesson` to the notebooks that have it now, if nothing is written there yet."""
    source = workspace.notebook(folder, carried.lesson)
    for name, home in leaving.items():
        mine, theirs = workspace.load(source), workspace.load(workspace.notebook(folder, home))
        left = next((cell for cell in mine.cells if cell.metadata.get(LEFT) == name), None)
        place = next((cell for cell in theirs.cells if is_answer(cell) and grade_id(cell) == name), None)
        if left is None:
            continue
        if (
            place is None
            or place.cell_type != left.cell_type
            or (name in workspace.answered(folder, home) and place.source != left.source)
        ):
            carried.notes.append(f"`{name}` is asked in {home} now, where you have written something else: both are kept")
            continue
        if place.source != left.source:
            workspace.backup(folder, home)
            _write(place, left)
            workspace.save(theirs, workspace.notebook(folder, home))
        progress.move(folder, name, carried.lesson, home)
        mine.cells.remove(left)
        workspace.save(mine, source)
        carried.own -= 1
        carried.moved[name] = home


def _release(folder: Path, lesson: str) -> None:
    """Copy the release's other files to the lesson, and record that it has been brought to this release."""
    target, base = workspace.notebook(folder, lesson), workspace.release(folder, lesson)
    fresh = workspace.released()[lesson]
    for path in fresh.iterdir():
        if path.name != target.name:
            write_whole(target.parent / path.name, path.read_bytes())
            write_whole(base.parent / path.name, path.read_bytes())
    write_whole(base, (fresh / target.name).read_bytes())


def _version(notebook: Any) -> Any:
    """Return what the build wrote into the release's metadata, which identifies its version in the learner's copy too."""
    return notebook.metadata.get("attn")


def merge(base: Any, fresh: Any, mine: Any) -> tuple[Any, Carried]:
    """Return the release `fresh` with the learner's changes in `mine` to the release `base`, and a record of what was carried."""
    merged, carried = copy.deepcopy(fresh), Carried("")
    old = {grade_id(cell): cell for cell in base.cells if grade_id(cell)}
    untouched = {cell.source for cell in (*base.cells, *fresh.cells) if grade_id(cell) is None}
    before = {cell.id: cell.source for cell in base.cells if grade_id(cell) is None}
    named = {grade_id(cell): index for index, cell in enumerate(merged.cells) if grade_id(cell)}
    texts = {cell.source: index for index, cell in enumerate(merged.cells) if grade_id(cell) is None}
    own: dict[int, list[Any]] = {}
    at, filled = -1, set()
    for cell in mine.cells:
        name = grade_id(cell)
        at = named.get(name, at) if name else texts.get(cell.source, at)
        target = merged.cells[named[name]] if name in named and name not in filled else None
        if target is not None and (not is_answer(target) or target.cell_type == cell.cell_type):
            filled.add(name)
            _fill(target, cell, old.get(name), carried)
        elif name in old and (cell.source == old[name].source or not is_answer(old[name])):
            if cell.source != old[name].source:
                carried.notes.append(f"the locked cell `{name}` is gone from the course; your edit of it is in the backup")
        elif name is None and cell.source in untouched:
            pass  # the course's own text, in the old or the new wording
        elif name is None and before.get(cell.id) in texts:
            at = texts[before[cell.id]]
            _write(merged.cells[at], cell)
            carried.own += 1
        elif cell.source.strip():
            own.setdefault(at, []).append(cell)
            carried.own += 1
            if name:
                carried.left[name] = cell.source
    merged.cells = _with_own(merged.cells, own)
    if "kernelspec" in mine.metadata:
        merged.metadata["kernelspec"] = mine.metadata["kernelspec"]
    return merged, carried


def _fill(target: Any, cell: Any, old: Any, carried: Carried) -> None:
    """Put the learner's `cell` in place of the released `target`, which was `old` before."""
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
            if grade_id(extra):
                extra.metadata[LEFT] = grade_id(extra)
            for part in ("nbgrader", "deletable", "editable"):
                extra.metadata.pop(part, None)
            if extra.id in used:
                extra.id = uuid.uuid4().hex[:8]
            used.add(extra.id)
            result.append(extra)
    return result


def reset(folder: Path, lesson: str, exercise: str | None) -> Path:
    """Restore `lesson`, or its answer cell `exercise`, as released, and return the backup of the notebook.

    The progress of the restored exercises starts anew. A deleted answer cell comes back where it was. Raises CourseError if
    the release has no such cell.
    """
    target, base = workspace.notebook(folder, lesson), workspace.release(folder, lesson)
    if exercise is None:
        kept = workspace.backup(folder, lesson)
        write_whole(target, base.read_bytes())
        progress.forget(folder, lesson, workspace.load_pack(folder, lesson).exercises)
        return kept
    released, mine = workspace.load(base), workspace.load(target)
    answers = [str(grade_id(cell)) if is_answer(cell) else "" for cell in released.cells]
    if not exercise or exercise not in answers:
        raise CourseError(f"{lesson}: expected an answer cell `{exercise}` in the release, found none. Reset the whole lesson.")
    where, names = answers.index(exercise), [grade_id(cell) for cell in mine.cells]
    if exercise in names:
        mine.cells[names.index(exercise)] = released.cells[where]
    else:
        before = {cell.id for cell in released.cells[:where]}
        place = max((i for i, cell in enumerate(mine.cells) if cell.id in before), default=-1)
        mine.cells.insert(place + 1, released.cells[where])
    kept = workspace.backup(folder, lesson)
    workspace.save(mine, target)
    progress.forget(folder, lesson, [exercise])
    return kept
