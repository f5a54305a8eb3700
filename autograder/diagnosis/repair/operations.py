"""Change an operation or its operands: a transpose, a scale, a root, a square, an inserted axis."""

import ast
from collections.abc import Iterator

from autograder.diagnosis.repair.expressions import Names, RankedChange, filled, plus, with_fields


def of_operation(node: ast.BinOp, names: Names) -> Iterator[RankedChange]:
    """Yield changes that add what may be missing in an operation, or replace it."""
    if isinstance(node.op, ast.MatMult):
        last = "x.mT" if names.torch else "x.T"
        yield 1, lambda n: ast.BinOp(n.left, n.op, filled(last, x=n.right))
        yield 1, lambda n: ast.BinOp(filled(last, x=n.left), n.op, n.right)
        for width in names.widths():
            yield 2, lambda n, width=width: filled("x / w ** 0.5", x=n, w=width)
    if isinstance(node.op, ast.Div | ast.Mult) and isinstance(node.left, ast.Call) and len(node.left.args) == 1:
        yield 1, lambda n: with_fields(n.left, args=[ast.BinOp(n.left.args[0], n.op, n.right)])  # bracket closed too early
    if isinstance(node.op, ast.Mult):
        yield 3, lambda n: ast.BinOp(n.left, ast.Add(), n.right)
    if isinstance(node.op, ast.Add):
        yield 3, lambda n: ast.BinOp(n.left, ast.Mult(), n.right)
    if isinstance(node.op, ast.Div):
        yield 2, lambda n: ast.BinOp(n.left, ast.FloorDiv(), n.right)
        yield 3, lambda n: filled("-(-a // b)", a=n.left, b=n.right)
    if isinstance(node.op, ast.Div | ast.FloorDiv):
        for step in (1, -1):
            yield 4, lambda n, step=step: ast.BinOp(n.left, n.op, plus(n.right, step))
    if isinstance(node.op, ast.Mod):
        for name in names.numbers:
            yield 2, lambda n, name=name: filled("a // (w // b)", a=n.left, b=n.right, w=ast.Name(name, ast.Load()))
    if isinstance(node.op, ast.Div | ast.Mult | ast.Sub | ast.Add) and not isinstance(node.right, ast.Constant):
        yield 2, lambda n: ast.BinOp(n.left, n.op, filled("x[..., None]", x=n.right))
        yield 2, lambda n: ast.BinOp(filled("x[..., None]", x=n.left), n.op, n.right)
    if isinstance(node.op, ast.Pow) and ast.unparse(node.right) in ("0.5", "-0.5", "1 / 2", "-1 / 2"):
        for width in names.widths():
            yield 2, lambda n, width=width: ast.BinOp(width, n.op, n.right)


def of_operand(node: ast.expr, above: ast.AST, names: Names) -> Iterator[RankedChange]:
    """Yield what may be missing at a name, a call or a part of an array."""
    if isinstance(above, ast.BinOp) and not isinstance(above.op, ast.MatMult | ast.Pow):
        yield 3, lambda n: filled("x ** 2", x=n)
        yield 4, lambda n: filled("x[..., None] * x", x=n)
    called = above.func if isinstance(above, ast.Call) else None
    if isinstance(called, ast.Attribute | ast.Name) and ast.unparse(called).endswith("sqrt"):
        for width in (*names.widths(), *names.stored_widths()):
            yield 2, lambda n, width=width: width
    if isinstance(node, ast.Name) and isinstance(above, ast.Call) and node in above.args:
        yield 3, lambda n: ast.UnaryOp(ast.Invert(), n)
    if isinstance(node, ast.Name) and isinstance(above, ast.Call) and node.id in names.arrays:
        yield 3, lambda n: filled("x[..., None, :, :]", x=n)
        yield 3, lambda n: filled("x[..., None]", x=n)
    if not isinstance(node, ast.Name) or node.id in (*names.arrays, *names.stored):
        for number in names.numbers[:3]:
            yield 4, lambda n, number=number: filled("x / w", x=n, w=ast.Name(number, ast.Load()))
            yield 4, lambda n, number=number: filled("x * w", x=n, w=ast.Name(number, ast.Load()))
