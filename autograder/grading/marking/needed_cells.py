"""Choose which of the lesson's demonstrations grading must run: those whose names the learner's code needs, usually none.

Tables and figures between the exercises belong to the lesson, not the learner, and take most of a notebook's time. But an
answer may use a name that a demonstration left behind, because that works in the notebook. In that case the demonstration
runs too, and so do those from which it takes names. If the code can reach any name at all, every demonstration runs.
"""

import builtins
import functools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from autograder.notebooks.released import plain, statements_of
from autograder.notebooks.roles import grade_id, is_answer, is_grade
from autograder.notebooks.scopes import KEPT, scopes

# A program that uses these can reach any name, so reading its text is not enough.
_REFLECTIVE = frozenset({"eval", "exec", "globals", "locals", "vars", "get_ipython", "__import__"})
_NAMESPACES = re.compile(r"__main__|_globals\b|__globals__|_locals\b|_getframe|currentframe|__builtins__|builtins")
_IPYTHON = re.compile(r"=[ \t]*[!%]|^[ \t]*%", re.MULTILINE)  # IPython may still run such text although it is not Python


def to_run(released: Any, notebook: Any) -> list[Any]:
    """Return the cells to run: the lesson's given cells, the learner's cells, and the demonstrations that these need."""
    original = {cell.id: cell.source for cell in released.cells if cell.cell_type == "code" and grade_id(cell) is None}
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and not is_grade(cell)]
    shown, given, theirs = set(), [], []
    for cell in code:
        if cell.id in original and plain(original[cell.id]) == plain(cell.source):  # some editors change line endings
            shown.add(cell.id)
        elif grade_id(cell) and not is_answer(cell):
            given.append(cell.source)
        else:
            theirs.append(cell.source)
    kept = supporting(given, {name: original[name] for name in shown})
    left = {name: original[name] for name in shown - kept}
    kept |= needed([*given, *(original[name] for name in kept)], theirs, left)
    return [cell for cell in code if cell.id not in shown or cell.id in kept]


def needed(always: Iterable[str], theirs: Collection[str], demonstrations: Mapping[str, str]) -> set[str]:
    """Return those of `demonstrations` (by id) whose names the code `theirs` may use, unless it or an `always` cell binds them.

    A cell that is not Python cannot run, so it needs nothing.

    >>> sorted(needed([], ["def f(x): return x + y"], {"a": "z = 1", "b": "y = z", "c": "w = 2"}))
    ['a', 'b']
    >>> needed(["import numpy as np"], ["def f(x, y): return np.sum(x) + y"], {"b": "y = 1"})
    set()
    """
    for source in theirs:
        names = _names(source)
        if _IPYTHON.search(source) if names is None else names[1] & _REFLECTIVE or _NAMESPACES.search(source):
            return set(demonstrations)
    return supporting([*always, *theirs], demonstrations)


def supporting(given: Iterable[str], demonstrations: Mapping[str, str]) -> set[str]:
    """Return those of `demonstrations` (by id) whose names the lesson's `given` cells read, directly or through another.

    Both kinds belong to the lesson, so reading their names is enough; a rehearsal finds the cases where it isn't.

    >>> sorted(supporting(["print(Q @ K)"], {"a": "Q = X + 1", "b": "X = 2", "c": "Z = 3", "d": "K = 4"}))
    ['a', 'b', 'd']
    """
    sources = list(given)
    named = {source: _names(source) or (set(), set()) for source in (*sources, *demonstrations.values())}
    bound = set(vars(builtins)).union(*(named[source][0] for source in sources))
    wanted = set[str]().union(*(named[source][1] for source in sources)) - bound
    chosen: set[str] = set()
    binds = {name: named[source][0] | _changed(source) for name, source in demonstrations.items()}
    while new := {name for name in demonstrations if name not in chosen and binds[name] & wanted}:
        chosen |= new
        wanted |= set[str]().union(*(named[demonstrations[name]][1] for name in new)) - bound
    return chosen


def _names(source: str) -> tuple[set[str], set[str]] | None:
    """Return the global names that `source` binds and reads, or None if it is not plain Python: IPython runs `x = !ls` too."""
    try:
        return scopes(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(KEPT)  # only the lesson's demonstrations, which a class shares, get here
def _changed(source: str) -> frozenset[str]:
    """Return the names whose objects `source`, a demonstration of the lesson, seems to change in place."""
    return frozenset(name for statement in statements_of(source) for name in statement.changes)
