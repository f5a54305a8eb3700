"""Supply the material for changes: the available names, and expressions built from parts.

In: the trees of an answer and the inputs of a case. Out: `Names`, and expressions in which parts replace names.
"""

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autograder.judging.values import ArrayNode, EncodedValue
from autograder.mutants.source import Change

RankedChange = tuple[int, Change]  # how rarely it is needed (0: often), and the change of a node


@dataclass(frozen=True)
class Names:
    """The names that a function may use: its parameters, which of them are numbers or arrays, and the names that it stores."""

    given: Sequence[str]
    numbers: Sequence[str]
    arrays: Sequence[str]
    stored: Sequence[str]
    torch: bool

    def widths(self) -> list[ast.expr]:
        """Return the divisors to try, as they are or under a root: last axis lengths of arrays, numbers and variables."""
        last = [expression(f"{name}.shape[-1]") for name in self.arrays[:5]]
        return last + [ast.Name(name, ast.Load()) for name in (*self.numbers[:4], *self.stored[:8])]

    def stored_widths(self) -> list[ast.expr]:
        """Return the last axis lengths of the variables that the function stores."""
        return [expression(f"{name}.shape[-1]") for name in self.stored[:5]]


def names_of(tree: ast.AST, inputs: EncodedValue, torch: bool) -> Names:
    """Return the names of one function. Parameters that are not inputs of the case count as arrays."""
    given = [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and node.arg != "self"]
    stored = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    stored = [name for name in stored if name != "_"]  # by convention, `_` is never read
    values, given = inputs.items(), list(dict.fromkeys(given))
    numbers = [name for name, value in values.items() if isinstance(value.content, int | float) and name in given]
    arrays = [name for name in given if name not in values or isinstance(values[name], ArrayNode)]
    return Names(given, numbers, arrays, list(dict.fromkeys(stored)), torch)


def expression(text: str) -> ast.expr:
    """Parse `text` as an expression."""
    return ast.parse(text, mode="eval").body


class _Fill(ast.NodeTransformer):
    def __init__(self, parts: dict[str, ast.expr]):
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.parts[node.id]) if node.id in self.parts else node


def filled(text: str, **parts: ast.expr) -> ast.expr:
    """Parse `text` as an expression and replace names in it by `parts`."""
    tree: ast.expr = _Fill(parts).visit(expression(text))
    return tree


def plus(node: ast.expr, step: int) -> ast.expr:
    """Return the node plus or minus a number."""
    return ast.BinOp(node, ast.Add() if step > 0 else ast.Sub(), ast.Constant(abs(step)))


def exchanged(parts: Sequence[Any], place: int) -> list[Any]:
    """Return the parts with the one at `place` and the one after it exchanged."""
    return [*parts[:place], parts[place + 1], parts[place], *parts[place + 2 :]]


def with_fields(node: Any, **new: Any) -> Any:
    """Return the node with some of its fields replaced."""
    return type(node)(**{name: new.get(name, getattr(node, name)) for name in node._fields if hasattr(node, name)})
