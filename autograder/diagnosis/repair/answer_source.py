"""Read the text of a learner's answer as syntax trees, with the helper functions in the same cell.

In: a function or class. Out: a `Source` whose nodes have the line numbers of the cell, or None if the text is not available.
"""

import ast
import linecache
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from autograder.mutants.source import Bare, Edit, Source


class NoProgramError(Exception):
    """Python rejects the edited text, or its definition raises: decorators and class bodies run the learner's own code."""


class Written(Source):
    """The text of a learner's answer."""

    def build(self, edits: Sequence[Edit]) -> Any:
        """Return the program with `edits` made. Raises NoProgramError if the result is not a program."""
        try:
            return super().build(edits)
        except Exception as error:
            raise NoProgramError from error


def source_of(answer: Any) -> Written | None:
    """Return the trees of `answer` and of the functions in its cell that it uses, directly or not; None without the text."""
    if not isinstance(answer, FunctionType | type):
        return None
    first = _first_code(answer)
    if first is None or hasattr(answer, "__wrapped__"):
        return None
    try:
        cell = ast.parse("".join(linecache.getlines(first.__code__.co_filename)))
    except (SyntaxError, ValueError):
        return None
    kind = ast.ClassDef if isinstance(answer, type) else ast.FunctionDef
    defined = {node.name: node for node in cell.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    tree = defined.get(answer.__name__)
    if not isinstance(tree, kind) or (isinstance(answer, FunctionType) and not _defines(tree, answer)):
        return None
    trees: dict[str, ast.stmt] = {}
    waiting = [answer.__name__]
    while waiting:
        name = waiting.pop(0)
        if name not in trees:
            trees[name] = Bare().visit(defined[name])
            named = (node.id for node in ast.walk(trees[name]) if isinstance(node, ast.Name))
            waiting += [other for other in dict.fromkeys(named) if other in defined]
    return Written(answer.__name__, trees, dict(first.__globals__), {})


def _first_code(answer: Any) -> FunctionType | None:
    """Return the function itself, or the first method of a class; None if it uses names of an enclosing function."""
    candidates = [answer] if isinstance(answer, FunctionType) else vars(answer).values()
    functions = [candidate for candidate in candidates if isinstance(candidate, FunctionType)]
    return functions[0] if functions and not set(functions[0].__code__.co_freevars) - {"__class__"} else None


def _defines(tree: ast.FunctionDef | ast.ClassDef, answer: FunctionType) -> bool:
    """Return whether the definition is that of `answer`, and not of a later function with the same name."""
    lines = {tree.lineno, *(decorator.lineno for decorator in tree.decorator_list)}
    return answer.__code__.co_firstlineno in lines
