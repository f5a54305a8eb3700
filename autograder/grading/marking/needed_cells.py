"""Which of the lesson's own demonstrations grading must run: those whose names the learner's code leans on, mostly none.

Tables and figures between the exercises are the lesson's, not the learner's, and take most of a notebook's time. An answer
may use a name that one of them left behind, by luck or by habit, and would work in the notebook: then that one is run, and
those that it takes names from. Code that can reach any name, whatever it is called, has all of them run.
"""

import builtins
import functools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from autograder.notebooks.released import plain, statements_of
from autograder.notebooks.roles import grade_id, is_answer, is_grade
from autograder.notebooks.scopes import KEPT, scopes

# With these a program can ask for any name, so no reading of it is enough.
_REFLECTIVE = frozenset({"eval", "exec", "globals", "locals", "vars", "get_ipython", "__import__"})
_NAMESPACES = re.compile(r"__main__|_globals\b|__globals__|_locals\b|_getframe|currentframe|__builtins__|builtins")
_IPYTHON = re.compile(r"=[ \t]*[!%]|^[ \t]*%", re.MULTILINE)  # in what is no Python, this may still run


def to_run(released: Any, notebook: Any) -> list[Any]:
    """The cells to run: what the lesson gives and what the learner wrote, and the demonstrations that these lean on."""
    original = {cell.id: cell.source for cell in released.cells if cell.cell_type == "code" and grade_id(cell) is None}
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and not is_grade(cell)]
    shown, given, theirs = set(), [], []
    for cell in code:
        if cell.id in original and plain(original[cell.id]) == plain(cell.source):  # some editors change the ends of lines
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
    """Those of `demonstrations` (by id) whose names the code `theirs` may use; none that it or the cells run `always` bind.

    A cell that cannot run, for it is no Python, needs nothing.

    >>> sorted(needed([], ["def f(x): return x + y"], {"a": "z = 1", "b": "y = z", "c": "w = 2"}))
    ['a', 'b']
    >>> needed(["import numpy as np"], ["def f(x, y): return np.sum(x) + y"], {"b": "y = 1"})
    set()
    """
    for source in theirs:
        names = _used(source)
        if _IPYTHON.search(source) if names is None else names & _REFLECTIVE or _NAMESPACES.search(source):
            return set(demonstrations)
    return supporting([*always, *theirs], demonstrations)


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
    binds = {name: _bound(source) | _changed(source) for name, source in demonstrations.items()}
    while new := {name for name in demonstrations if name not in found and binds[name] & wanted}:
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


@functools.lru_cache(KEPT)  # a class shares the lesson's demonstrations, and no others get here
def _changed(source: str) -> frozenset[str]:
    """The names whose objects `source`, a demonstration of the lesson, seems to change in place."""
    return frozenset(name for one in statements_of(source) for name in one.changes)
