"""Change a call: add or keep an axis, invert a condition, exchange two axes, or use another function."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from autograder.diagnosis.repair.expressions import Names, RankedChange, exchanged, expression, filled, with_fields
from autograder.mutants.call_operators import called, with_keyword

_REDUCES = ("sum", "mean", "max", "min", "amax", "amin", "std", "var", "norm", "logsumexp", "prod", "any", "all")
_MAKES = ("zeros", "ones", "full", "eye", "arange", "tensor", "empty", "linspace", "as_tensor")
_SHAPES = ("reshape", "view", "flatten", "unflatten")
_SETTINGS = ("axis", "dim", "dtype", "device", "keepdim", "keepdims")  # arguments that are not conditions
_SIZED = ("arange", "range", "zeros", "ones", "full", "eye", "reshape", "view", "new_zeros", "new_ones", "linspace", "split")


def of_call(node: ast.Call, names: Names) -> Iterator[RankedChange]:
    """Yield changes that add what may be missing in a call, or replace it."""
    name = called(node)
    keys = [keyword.arg for keyword in node.keywords]
    if name in _REDUCES and "keepdim" not in keys and "keepdims" not in keys:
        yield from _of_reduction(node, name, keys, names)
    for number, keyword in enumerate(node.keywords):
        if keyword.arg not in _SETTINGS and isinstance(keyword.value, ast.Name | ast.Compare | ast.Call):
            yield 0, lambda n, number=number: with_keyword(n, number, ast.UnaryOp(ast.Invert(), n.keywords[number].value))
        if keyword.arg == "dtype":
            yield 2, lambda n, number=number: with_keyword(n, number, expression("torch.bool" if names.torch else "bool"))
        if keyword.arg in ("axis", "dim"):
            for word in [word for word in names.given if word in ("axis", "dim") and ast.unparse(keyword.value) != word]:
                yield 1, lambda n, number=number, word=word: with_keyword(n, number, ast.Name(word, ast.Load()))
            for axis in (-3, 2):
                yield 1, lambda n, number=number, axis=axis: with_keyword(n, number, ast.Constant(axis))
    if name == "sqrt" and node.args and isinstance(node.args[0], ast.BinOp):
        for width in names.widths():
            yield 1, lambda n, width=width: with_fields(n, args=[width])
    if name in ("exp", "exp2"):
        shifted = "x - x.amax(-1, keepdim=True)" if names.torch else "x - x.max(axis=-1, keepdims=True)"
        yield 2, lambda n: with_fields(n, args=[ast.UnaryOp(ast.USub(), n.args[0])])
        yield 2, lambda n: with_fields(n, args=[filled(shifted, x=n.args[0])])
    if name in ("masked_fill", "masked_fill_", "where") and node.args:
        yield 0, lambda n: with_fields(n, args=[ast.UnaryOp(ast.Invert(), n.args[0]), *n.args[1:]])
    if name in _MAKES and names.torch and "dtype" not in keys:
        for word in names.arrays[:4]:
            kind = ast.keyword("dtype", expression(f"{word}.dtype"))
            yield 2, lambda n, kind=kind: with_fields(n, keywords=[*n.keywords, kind])
    if name in _MAKES:
        for word in names.arrays[:4]:
            yield 3, lambda n, word=word: ast.Name(word, ast.Load())
    if name in ("arange", "range") and len(node.args) == 1 and not isinstance(node.args[0], ast.Constant):
        yield 2, lambda n: with_fields(n, args=[filled("x // 2", x=n.args[0])])  # one number for each pair
    if name in _SIZED:
        for place in range(len(node.args)):
            for size in names.numbers:
                yield 2, lambda n, place=place, size=size: _with_argument(n, place, ast.Name(size, ast.Load()))
    if isinstance(node.func, ast.Attribute):
        yield from _of_method(node, name)
    yield from _of_other(node, name, names)


def _of_reduction(node: ast.Call, name: str, keys: list[str | None], names: Names) -> Iterator[RankedChange]:
    kept = ast.keyword("keepdim" if names.torch else "keepdims", ast.Constant(True))
    if node.args or keys:
        yield 0, lambda n: with_fields(n, keywords=[*n.keywords, kept])
    if "axis" in keys or "dim" in keys:
        return
    if names.torch and name in ("max", "min") and isinstance(node.func, ast.Attribute) and not node.args:
        yield 1, lambda n: filled(f"x.a{name}(-1, keepdim=True)", x=n.func.value)
    for axis in (-1, 0, -2):
        along = ast.keyword("dim" if names.torch else "axis", ast.Constant(axis))
        yield 2, lambda n, along=along: with_fields(n, keywords=[*n.keywords, along, kept])
        yield 2, lambda n, along=along: with_fields(n, keywords=[*n.keywords, along])
    for word in [word for word in names.given if word in ("axis", "dim")]:
        stated = ast.keyword("dim" if names.torch else "axis", ast.Name(word, ast.Load()))
        yield 1, lambda n, stated=stated: with_fields(n, keywords=[*n.keywords, stated, kept])


def _of_method(node: ast.Call, name: str) -> Iterator[RankedChange]:
    if name in _SHAPES:
        yield 1, lambda n: _moved(n, before=True)
        yield 2, lambda n: _moved(n, before=False)
    if name in ("reshape", "view") and len(node.args) >= 3:
        for first in range(len(node.args) - 1):
            yield 1, lambda n, first=first: _split_and_moved(n, first)
    if name in ("transpose", "swapaxes") and len(node.args) == 2:
        for pair in ((-2, -1), (-3, -2), (-3, -1), (0, 1), (1, 2)):
            axes: list[ast.expr] = [ast.Constant(axis) for axis in pair]
            yield 2, lambda n, axes=axes: with_fields(n, args=axes)
    if name == "numel" or name == "size":
        for axis in (-1, 0, 1):
            yield 2, lambda n, axis=axis: filled(f"x.shape[{axis}]", x=n.func.value)
    if name in ("repeat", "tile"):
        ones = [place for place, arg in enumerate(node.args) if not (isinstance(arg, ast.Constant) and arg.value == 1)]
        if len(ones) == 1 and len(node.args) > 1:
            axis = ones[0] - len(node.args)
            yield 1, lambda n: filled(f"x.repeat_interleave(r, dim={axis})", x=n.func.value, r=n.args[ones[0]])
    if name == "repeat_interleave":
        for axis in (-1, -2, -3, 0, 1):
            yield 3, lambda n, axis=axis: filled(f"torch.cat([x] * r, dim={axis})", x=n.func.value, r=n.args[0])


def _of_other(node: ast.Call, name: str, names: Names) -> Iterator[RankedChange]:
    """Yield calls of another function, or the expression without a call."""
    if name == "abs" and node.args:
        yield 2, lambda n: filled("x ** 2", x=n.args[0])
    if name == "isclose" and len(node.args) >= 2:
        yield 1, lambda n: filled("x == y", x=n.args[0], y=n.args[1])
    if name in ("bmm", "matmul", "mm") and len(node.args) == 2:
        yield 0, lambda n: filled("x @ y", x=n.args[0], y=n.args[1])
    if name == "einsum" and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
        text = node.args[0].value
        for letters in (text, re.sub(r"(^|,|->)( *)[a-zA-Z]", r"\1\2", text)):  # with and without the first letter of each term
            batched = re.sub(r"(^|,|->)( *)", r"\1\2...", letters)
            yield 1, lambda n, letters=batched: _with_argument(n, 0, ast.Constant(letters))
    if name in ("einsum", "matmul"):
        for width in names.widths():
            yield 2, lambda n, width=width: filled("x / w ** 0.5", x=n, w=width)
    if name == "multinomial" and node.args:
        yield 1, lambda n: filled("x.argmax(-1, keepdim=True)", x=n.args[0])
    if name in ("cat", "concatenate", "concat") and node.args and isinstance(node.args[0], ast.BinOp):
        repeated: Any = node.args[0]
        if isinstance(repeated.op, ast.Mult) and isinstance(repeated.left, ast.List) and len(repeated.left.elts) == 1:
            for axis in (-1, -2, -3, 0, 1):
                text = f"x.repeat_interleave(r, dim={axis})" if names.torch else f"np.repeat(x, r, axis={axis})"
                yield 1, lambda n, text=text: filled(text, x=n.args[0].left.elts[0], r=n.args[0].right)


def _with_argument(node: ast.Call, place: int, value: ast.expr) -> ast.Call:
    return ast.Call(node.func, [*node.args[:place], value, *node.args[place + 1 :]], node.keywords)


def _moved(node: Any, *, before: bool) -> ast.expr:
    """Return the call with two axes exchanged before or after it."""
    moved = filled("x.swapaxes(-3, -2)", x=node.func.value if before else node)
    return ast.Call(ast.Attribute(moved, node.func.attr, ast.Load()), node.args, node.keywords) if before else moved


def _split_and_moved(node: ast.Call, place: int) -> ast.expr:
    """Return the call with two lengths exchanged, and the axes exchanged back after it."""
    args = exchanged(node.args, place)
    return filled(f"x.swapaxes({place - len(args)}, {place + 1 - len(args)})", x=ast.Call(node.func, args, node.keywords))
