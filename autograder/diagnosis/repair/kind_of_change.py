"""Name the kind of mistake in a piece of code, given what passes in its place: an axis, a transpose, a factor, a name.

In: the code before and after a change. Out: a fact about the code before that does not give the change away, or None.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.diagnosis.finding import Fact, fact
from autograder.mutants.call_operators import called
from autograder.mutants.source import quote

_AXIS, _KEPT = ("axis", "dim"), ("keepdim", "keepdims")
_OPERATIONS = {
    ast.Mult: "factor", ast.Div: "divisor", ast.Add: "summand", ast.Sub: "subtrahend", ast.BitAnd: "condition",
}  # fmt: skip


@dataclass(frozen=True)
class _Difference:
    """The smallest parts in which two pieces of code differ, and the call of which they are an argument."""

    before: ast.AST
    after: ast.AST
    call: ast.Call | None = None
    argument: str | None = None


def kind_of_change(before: ast.AST, after: ast.AST) -> Fact | None:
    """Say what is wrong with `before` if `after` is right.

    >>> kind_of_change(ast.parse("x.sum(0)"), ast.parse("x.sum(-1)")).key
    'mistake.axis'
    >>> kind_of_change(ast.parse("q @ k"), ast.parse("q @ k.T")).key
    'mistake.transpose'
    """
    return _kind(_Difference(before, after))


def _kind(whole: _Difference) -> Fact | None:
    """Return the kind of the smallest difference. If there are several differences, return the kind that they share."""
    before, after = whole.before, whole.after
    if _text(before) == _text(after):
        return None
    parts = list(_parts(before, after)) if type(before) is type(after) and _number(before) is None else [None]
    apart = [part for part in parts if part is None or _text(part[1]) != _text(part[2])]
    if len(apart) == 1 and apart[0] is not None:
        return _kind(_inner(whole, *apart[0]))
    if (kind := next(_kinds(whole), None)) is not None:
        return kind
    kinds = {_kind(_inner(whole, *part)) if part is not None else None for part in apart}
    return kinds.pop() if len(kinds) == 1 else None


def _inner(whole: _Difference, name: str, before_part: ast.AST, after_part: ast.AST) -> _Difference:
    """Return the difference between two parts, with the call of which they are an argument."""
    before = whole.before
    if isinstance(before, ast.Call) and name in ("args", "keywords"):
        return _Difference(before_part, after_part, before, "")
    if isinstance(before, ast.keyword):
        return _Difference(before_part, after_part, whole.call, before.arg)
    return _Difference(before_part, after_part)


def _parts(before: ast.AST, after: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST] | None]:
    """Yield the children in pairs, with the field they are in; None if they cannot be paired or their own values differ."""
    for name in before._fields:
        old, new = getattr(before, name, None), getattr(after, name, None)
        if isinstance(old, ast.AST) and isinstance(new, ast.AST):
            yield name, old, new
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            yield from ((name, a, b) for a, b in zip(old, new, strict=True))
        elif old != new:
            yield None


def _kinds(difference: _Difference) -> Iterator[Fact]:
    before, after = difference.before, difference.after
    if (moved := _moved(before, after) or _exchanged(before, after)) is not None:
        yield moved
    match after:
        case ast.Call(ast.Attribute(copied, "copy" | "clone")) if _text(copied) == _text(before):
            yield fact("mistake.no_copy", code=quote(before))
    if difference.call is not None and _is_axis(difference):
        yield fact("mistake.axis", name=called(difference.call))
    if isinstance(before, ast.Call) and isinstance(after, ast.Call):
        yield from _of_calls(before, after)
    if isinstance(after, ast.Call) and _closes_too_early(before, after):
        yield fact("mistake.bracket", name=called(after))
    if isinstance(after, ast.UnaryOp) and _text(after.operand) == _text(before):
        yield from _of_sign(after.op, before)
    if isinstance(before, ast.UnaryOp) and _text(before.operand) == _text(after):
        yield from _of_sign(before.op, before)
    if isinstance(after, ast.BinOp):
        if isinstance(after.op, ast.Sub) and difference.call is not None and called(difference.call) in ("exp", "exp2"):
            yield fact("mistake.overflow", name=called(difference.call))
        yield from _of_operation(before, after)
    if isinstance(before, ast.BinOp) and type(before.op) in _OPERATIONS and _text(before.left) == _text(after):
        yield fact(f"mistake.surplus.{_OPERATIONS[type(before.op)]}", code=quote(before.right))
    if isinstance(after, ast.Subscript) and _text(after.value) == _text(before) and "None" in _text(after.slice):
        yield fact("mistake.no_axis", code=quote(before))
    if isinstance(before, ast.Name) and (isinstance(after, ast.Name) or ".shape[" in _text(after)):
        yield fact("mistake.name", code=before.id)
    if (wrong := _number(before)) is not None:
        right = _number(after)
        yield fact("mistake.number" if right is not None else "mistake.fixed", value=wrong)
    if isinstance(before, ast.cmpop):
        yield fact("mistake.comparison")
    if isinstance(before, ast.operator):
        yield fact("mistake.operation")


def _moved(before: ast.AST, after: ast.AST) -> Fact | None:
    """Return a fact about an array whose axes are in the wrong order."""
    match before, after:
        case ast.Attribute(attr="T"), ast.Attribute(attr="mT"):
            return fact("mistake.all_axes", code=quote(before))
        case _, ast.Attribute(base, "T" | "mT") | ast.Call(ast.Attribute(base, "swapaxes" | "transpose")):
            return fact("mistake.transpose", code=quote(before)) if _text(base) == _text(before) else None
    return None


def _exchanged(before: ast.AST, after: ast.AST) -> Fact | None:
    """Return a fact about the same parts in another order."""
    match before, after:
        case ast.BinOp(), ast.BinOp() if type(before.op) is type(after.op):
            same = (_text(before.left), _text(before.right)) == (_text(after.right), _text(after.left))
            return fact("mistake.sides") if same else None
        case ast.Tuple() | ast.List(), ast.Tuple() | ast.List():
            same = sorted(map(_text, before.elts)) == sorted(map(_text, after.elts))
            return fact("mistake.order") if same else None
    return None


def _is_axis(difference: _Difference) -> bool:
    assert difference.call is not None
    by_place = difference.argument == "" and called(difference.call) in _ALONG and _number(difference.before) is not None
    return difference.argument in _AXIS or by_place


_ALONG = (
    "sum", "mean", "max", "min", "amax", "amin", "std", "var", "norm", "logsumexp", "prod", "any", "all", "softmax", "cumsum",
    "argmax", "argmin", "unsqueeze", "squeeze", "flip", "cumprod", "log_softmax",
)  # fmt: skip


def _of_calls(before: ast.Call, after: ast.Call) -> Iterator[Fact]:
    if _text(before.func) == _text(after.func):
        old, new = ({keyword.arg for keyword in call.keywords} for call in (before, after))
        if new - old & set(_KEPT) and new - old <= {*_KEPT, *_AXIS}:
            yield fact("mistake.axis_lost" if new - old <= set(_KEPT) else "mistake.all_entries", code=quote(before))
        elif new - old == {"dtype"}:
            yield fact("mistake.dtype", code=quote(before))
        elif len(new - old) == 1 and isinstance(before.func, ast.Name):
            yield fact("mistake.default", name=called(before), argument=(new - old).pop())


def _closes_too_early(before: ast.AST, after: ast.Call) -> bool:
    """Return whether `f(x) / y` was written for `f(x / y)`."""
    if not isinstance(before, ast.BinOp) or not isinstance(before.left, ast.Call):
        return False
    return _text(before.left.func) == _text(after.func) and _text(before.right) in map(_text, ast.walk(after))


def _of_sign(op: ast.unaryop, code: ast.AST) -> Iterator[Fact]:
    if isinstance(op, ast.Invert | ast.Not):
        yield fact("mistake.inverted", code=quote(code))
    elif isinstance(op, ast.USub):
        yield fact("mistake.sign", code=quote(code))


def _of_operation(before: ast.AST, after: ast.BinOp) -> Iterator[Fact]:
    if _text(after.left) != _text(before):
        return
    if isinstance(after.op, ast.Pow):
        kind = {"2": "square", "0.5": "root"}.get(_text(after.right), "power")
        yield fact(f"mistake.lacks.{kind}", code=quote(before))
    elif type(after.op) in _OPERATIONS:
        yield fact(f"mistake.lacks.{_OPERATIONS[type(after.op)]}", code=quote(before))


def _number(node: ast.AST) -> float | None:
    """Return the number that is written, with its sign; None for anything else."""
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    inner = node.operand if isinstance(node, ast.UnaryOp) and sign < 0 else node
    if isinstance(inner, ast.Constant) and isinstance(inner.value, int | float) and not isinstance(inner.value, bool):
        return sign * inner.value
    return None


def _text(node: ast.AST) -> str:
    """Return the code of a node, or the type name of an operator."""
    if isinstance(node, ast.operator | ast.cmpop | ast.unaryop | ast.boolop | ast.expr_context):
        return type(node).__name__
    return ast.unparse(node)
