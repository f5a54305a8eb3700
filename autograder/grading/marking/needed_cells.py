"""Which of the lesson's own demonstrations grading must run: those whose names the learner's code leans on, mostly none.

Tables and figures between the exercises are the lesson's, not the learner's, and take most of a notebook's time. An answer
may use a name that one of them left behind, by luck or by habit, and would work in the notebook: then all of them are run.
"""

import builtins
import re
from collections.abc import Iterable, Mapping
from typing import Any

from autograder.notebooks.roles import grade_id, is_answer, is_grade
from autograder.notebooks.scopes import scopes

# With these a program can ask for any name, so no reading of it is enough.
_REFLECTIVE = frozenset({"eval", "exec", "globals", "locals", "vars", "get_ipython", "__import__"})
_NAMESPACES = re.compile(r"__main__|_globals\b|__globals__|_locals\b|_getframe|currentframe|__builtins__|builtins")


def to_run(released: Any, notebook: Any) -> list[Any]:
    """The cells to run: what the lesson gives and what the learner wrote, and its demonstrations where these lean on them."""
    original = {cell.id: cell.source for cell in released.cells if cell.cell_type == "code" and grade_id(cell) is None}
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and not is_grade(cell)]
    shown, given, theirs = set(), [], []
    for cell in code:
        if original.get(cell.id) == cell.source:
            shown.add(cell.id)
        elif grade_id(cell) and not is_answer(cell):
            given.append(cell.source)
        else:
            theirs.append(cell.source)
    kept = supporting(given, {name: original[name] for name in shown})
    shown -= kept
    if needed([*given, *(original[name] for name in kept)], theirs, [original[name] for name in shown]):
        return code
    return [cell for cell in code if cell.id not in shown]


def needed(always: Iterable[str], theirs: Iterable[str], demonstrations: Iterable[str]) -> bool:
    """Whether the code `theirs` may use a name that neither it nor the cells run `always` bind, but `demonstrations` do.

    >>> needed(["import numpy as np"], ["def f(x): return np.sum(x) + y"], ["y = 1"])
    True
    >>> needed(["import numpy as np"], ["def f(x, y): return np.sum(x) + y"], ["y = 1"])
    False
    """
    bound, used = set(vars(builtins)), set()
    for source in always:
        bound |= _bound(source)
    for source in theirs:
        names = _used(source)
        if names is None or names & _REFLECTIVE or _NAMESPACES.search(source):
            return True
        used |= names
        bound |= _bound(source)
    left = used - bound
    return bool(left) and any(left & _bound(source) for source in demonstrations)


def supporting(given: Iterable[str], demonstrations: Mapping[str, str]) -> set[str]:
    """Those of `demonstrations` (by id) whose names the lesson's `given` cells read, themselves or by way of another.

    Both are the lesson's own, so reading their names is enough: a rehearsal finds where it is not.

    >>> sorted(supporting(["print(Q @ K)"], {"a": "Q = X + 1", "b": "X = 2", "c": "Z = 3", "d": "K = 4"}))
    ['a', 'b', 'd']
    """
    sources = list(given)
    bound = set(vars(builtins)).union(*map(_bound, sources))
    wanted = set[str]().union(*((_used(source) or set()) for source in sources)) - bound
    found: set[str] = set()
    while new := {name for name, source in demonstrations.items() if name not in found and _bound(source) & wanted}:
        found |= new
        wanted |= set[str]().union(*((_used(demonstrations[name]) or set()) for name in new)) - bound
    return found


def _used(source: str) -> set[str] | None:
    """The global names that `source` reads; None where it is no plain Python: IPython runs `files = !ls` and `who` too."""
    try:
        return scopes(source)[1]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound(source: str) -> set[str]:
    """The global names that `source` binds; none where it does not parse."""
    try:
        return scopes(source)[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
