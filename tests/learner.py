"""What tests of a learner's commands share: the first lesson, a right answer, and a hand that edits notebooks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

from autograder.cli import main
from autograder.notebooks.roles import grade_id

LESSON = "00_start_here"
RIGHT = "def average_pool(V):\n    return V.mean(axis=0)"
SetAnswer = Callable[[Path, str, str], None]


def attn(work: Path, *words: str) -> int:
    """The exit code of `attn WORDS` in the workspace `work`."""
    return main([*words, "--workspace", str(work)])


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Have `change` alter the notebook at `path` in place."""
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    nbformat.write(notebook, path)


def cell_of(notebook: Any, name: str) -> Any:
    """The cell of `notebook` whose grade_id is `name`."""
    return next(cell for cell in notebook.cells if grade_id(cell) == name)
