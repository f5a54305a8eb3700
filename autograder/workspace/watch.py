"""Find the exercises that a saved change affects, from the names that cells define and use (`attn watch`)."""

import ast
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError
from autograder.notebooks.roles import exercise_of
from autograder.notebooks.scopes import changed_in, scopes
from autograder.workspace import folder as workspace

POLL_S = 0.5
EVERYTHING = "*"  # what `from x import *` defines


@dataclass(frozen=True)
class Cell:
    """A code cell: its text, and the names it defines and uses."""

    source: str
    check: str | None
    defines: frozenset[str]
    uses: frozenset[str]


def cells(notebook: Any) -> list[Cell]:
    """Return the code cells of a notebook, in order."""
    return [_cell(cell) for cell in notebook.cells if cell.cell_type == "code"]


def _cell(cell: Any) -> Cell:
    from IPython.core.inputtransformer2 import TransformerManager

    name = exercise_of(cell)
    if name:
        return Cell(cell.source, name, frozenset(), frozenset({name}))
    text = TransformerManager().transform_cell(cell.source)
    try:
        defines, uses = scopes(text)
        for node in ast.parse(text).body:
            defines.update(changed_in(node)[0])
            if isinstance(node, ast.ImportFrom) and node.names[0].name == EVERYTHING:
                defines.add(EVERYTHING)
    except (SyntaxError, ValueError):
        defines = uses = {word for word in re.findall(r"\w+", cell.source) if word.isidentifier()}
    return Cell(cell.source, None, frozenset(defines), frozenset(uses))


def affected(before: list[Cell], after: list[Cell]) -> set[str]:
    """Return the exercises whose cells differ between the two versions or depend on a cell that differs."""
    exercises = {cell.check for cell in after if cell.check}
    same = {cell.source for cell in before} & {cell.source for cell in after}
    if [c.source for c in before if c.source in same] != [c.source for c in after if c.source in same]:
        return exercises  # cells were moved, so the order of execution is unknown
    dirty = {cell.source for cell in (*before, *after) if cell.source not in same}
    names = {name for cell in (*before, *after) if cell.source in dirty for name in cell.defines}
    while True:
        reached = [cell for cell in after if cell.source not in dirty and (EVERYTHING in names or cell.uses & names)]
        if not reached:
            break
        dirty |= {cell.source for cell in reached}
        names |= {name for cell in reached for name in cell.defines}
    return {cell.check for cell in after if cell.check and cell.source in dirty}


def saves(folder: Path, lessons: list[str]) -> Iterator[tuple[str, set[str]]]:
    """Return an endless iterator of `(lesson, exercises)`, one for each save of a lesson's notebook that affects these exercises.

    Every save after this call counts, even one before the first item is asked for.
    """
    stamps = {lesson: _stamp(workspace.notebook(folder, lesson)) for lesson in lessons}
    known = {lesson: cells(workspace.load(workspace.notebook(folder, lesson))) for lesson in lessons}
    return _saves(folder, known, stamps)


def _saves(
    folder: Path, known: dict[str, list[Cell]], stamps: dict[str, tuple[int, int] | None]
) -> Iterator[tuple[str, set[str]]]:
    while True:
        time.sleep(POLL_S)
        for lesson in known:
            path = workspace.notebook(folder, lesson)
            stamp = _stamp(path)
            if stamp in (None, stamps[lesson]):
                continue
            try:
                now = cells(workspace.load(path))
            except CourseError:
                continue  # half written: try again next time
            stamps[lesson] = stamp
            exercises = affected(known[lesson], now)
            known[lesson] = now
            if exercises:
                yield lesson, exercises


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
