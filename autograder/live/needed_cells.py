"""Find the code that must run before an exercise can be checked: all that its answer needs, directly or indirectly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.notebooks.roles import FIGURE
from autograder.notebooks.scopes import scopes, statements, texts_of


@dataclass(frozen=True)
class Piece:
    """A statement of a given cell, or a whole answer cell: its source, and the global names that it binds and reads.

    `name` is the cell's grade_id, or its id if it has none.
    """

    name: str
    source: str
    binds: frozenset[str]
    reads: frozenset[str]


def needed(cells: Sequence[Mapping[str, Any]], exercise: str, answers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the `(name, source)` of what runs for `exercise`, in the notebook's order, with its own answer cell last.

    `cells` are a notebook's, as in its JSON, and `answers` are the learner's, by exercise. A given cell contributes single
    statements, so an import that no answer uses is never loaded. Cells below the exercise are ignored. Raises KeyError for
    an unknown exercise.

    >>> cell = lambda name, source, **more: {"id": name, "cell_type": "code", "source": source, "metadata": more}
    >>> solution = {"nbgrader": {"grade_id": "f", "solution": True}}
    >>> notebook = [cell("setup", "import math\\nimport heavy"), cell("f", "", **solution)]
    >>> needed(notebook, "f", {"f": "def f(x): return math.exp(x)"})
    [('setup', 'import math'), ('f', 'def f(x): return math.exp(x)')]
    """
    pieces = _pieces(cells, exercise, answers)
    return _chosen(pieces[:-1], pieces[-1])


def needed_by_cell(
    cells: Sequence[Mapping[str, Any]], cell: str, source: str, answers: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return what runs for a given cell whose text a reader has changed to `source`. `cell` is its grade_id, or its id.

    Unlike in `needed`, cells that draw may run, because the reader's code may use a name that they bind. Raises KeyError for
    an unknown cell.

    >>> given = lambda name, source: {"id": name, "cell_type": "code", "source": source, "metadata": {}}
    >>> needed_by_cell([given("a", "x = 1\\ny = 2"), given("b", "print(y)")], "b", "print(x)", {})
    [('a', 'x = 1'), ('b', 'print(x)')]
    """
    return _chosen(_pieces(cells, cell, answers, figures=True), _piece(cell, source))


def name_of(cell: Mapping[str, Any]) -> str:
    """Return a cell's name: its grade_id, or its id if it has none."""
    return str(cell["metadata"].get("nbgrader", {}).get("grade_id") or cell["id"])


def _chosen(pieces: Sequence[Piece], own: Piece) -> list[tuple[str, str]]:
    """Return the `pieces` that must run before `own`, and `own` itself."""
    wanted, chosen = set(own.reads), [own]
    for piece in reversed(pieces):
        if piece.binds & wanted:
            chosen.append(piece)
            wanted |= piece.reads
    return [(piece.name, piece.source) for piece in reversed(chosen)]


def _pieces(cells: Sequence[Mapping[str, Any]], last: str, answers: Mapping[str, str], *, figures: bool = False) -> list[Piece]:
    """Return the pieces of all cells down to the one called `last`, which is included only if it is an answer cell."""
    pieces: list[Piece] = []
    for cell in cells:
        if cell["cell_type"] != "code" or (FIGURE in cell["metadata"].get("tags", ()) and not figures):
            continue
        grader = cell["metadata"].get("nbgrader", {})
        name, source = name_of(cell), "".join(cell["source"])
        if grader.get("solution"):
            pieces.append(_piece(name, answers.get(name, source)))
        elif name != last and not grader.get("grade"):
            pieces += [_piece(name, text) for text in texts_of(source, statements(source))]
        if name == last:
            return pieces
    raise KeyError(last)


def _piece(name: str, source: str) -> Piece:
    try:
        binds, reads = scopes(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it can't run, so the error is shown when its name is needed
        binds, reads = {name}, set()
    return Piece(name, source, frozenset(binds), frozenset(reads))
