"""Replace the settings in a recipe's text by their values, because learners' code has no settings, so no slip may quote one.

In: the tree of a recipe and the values of its settings. Out: the tree without settings and without the branches they rule out.
"""

import ast
import contextlib
import copy
from collections.abc import Mapping
from typing import Any

_PLAIN = (bool, int, float, str, type(None))


def settled(tree: Any, settings: Mapping[str, Any], inputs: frozenset[str]) -> Any:
    """Return `tree` with each parameter that is not an input replaced by its value in `settings` or its default.

    Parameters stay if their value is not a plain one, or if the code also assigns to their name.
    """
    values = {name: value for name, value in _defaults(tree).items() if name not in inputs} | dict(settings)
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda) and node is not tree]
    stored |= {part.arg for node in inner for part in ast.walk(node.args) if isinstance(part, ast.arg)}
    known = {name: value for name, value in values.items() if name not in stored and isinstance(value, _PLAIN)}
    return ast.fix_missing_locations(_Settle(known).visit(copy.deepcopy(tree))) if known else tree


def _defaults(tree: Any) -> dict[str, Any]:
    if not isinstance(tree, ast.FunctionDef):
        return {}
    arguments = tree.args
    plain = [*arguments.posonlyargs, *arguments.args]  # the last of these have defaults
    pairs = [*zip(plain[::-1], arguments.defaults[::-1], strict=False)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is not None]
    defaults = {}
    for argument, value in pairs:
        with contextlib.suppress(ValueError):  # not a plain value
            defaults[argument.arg] = ast.literal_eval(value)
    return defaults


class _Settle(ast.NodeTransformer):
    """Replaces names by values, keeps only the branch that is taken, and drops factors of 1 and summands of 0."""

    def __init__(self, known: Mapping[str, Any]):
        self.known = known
        self.made: set[int] = set()

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.known and isinstance(node.ctx, ast.Load):
            constant = ast.copy_location(ast.Constant(self.known[node.id]), node)
            self.made.add(id(constant))
            return constant
        return node

    def visit_If(self, node: ast.If | ast.IfExp) -> Any:
        self.generic_visit(node)
        decided = _truth(node.test)
        return node if decided is None else (node.body if decided else node.orelse) or ast.Pass()

    visit_IfExp = visit_If  # noqa: N815 - the name that NodeTransformer asks for

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        for part, other in ((node.left, node.right), (node.right, node.left)):
            if id(part) in self.made and isinstance(part, ast.Constant) and not isinstance(part.value, str | None):
                idle = 1 if isinstance(node.op, ast.Mult) else 0 if isinstance(node.op, ast.Add) else None
                if part.value == idle and type(part.value) is not bool:
                    return other
        return node


def _truth(test: ast.expr) -> bool | None:
    """Return whether a condition holds, or None if constants alone don't decide that."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [_truth(part) for part in test.values]
        deciding = isinstance(test.op, ast.Or)
        if deciding in parts:
            return deciding
        return None if None in parts else not deciding
    if isinstance(test, ast.Compare) and all(isinstance(part, ast.Constant) for part in (test.left, *test.comparators)):
        return bool(eval(compile(ast.fix_missing_locations(ast.Expression(test)), "<a setting>", "eval"), {}))
    return None
