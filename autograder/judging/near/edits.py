"""Small edits of a program's text, each said in words: a sign lost, a factor left out, another axis, a name for another.

In: a `Source`. Out: its `Edit`s, the most common first. Here are those of operators, comparisons, numbers and names;
`calls` has those of calls, attributes and statements.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from autograder.judging.near.calls import of_attribute, of_call, of_statement
from autograder.judging.near.source import Edit, Slip, Source, quote, undecorated


def edits(source: Source) -> list[Edit]:
    """Every small edit, the most common first, those of the program itself before those of its helpers."""
    found = [(own != source.name, edit) for own, tree in source.trees.items() for edit in _edits(own, tree)]
    often = Counter(edit.says for _, edit in found)
    found = [(other, _where(edit) if often[edit.says] > 1 else edit) for other, edit in found]
    return [edit for _, edit in sorted(found, key=lambda each: each[0] * 2 + each[1].rank)]


def _where(edit: Edit) -> Edit:
    """The edit, said with its place: the same can be done in another one."""
    return edit if "`, in `" in edit.says else replace(edit, says=f"{edit.says}, in {quote(edit.node)}")


def _edits(function: str, tree: ast.AST) -> Iterator[Edit]:
    inside = _parents(tree)
    names = _names(tree)
    for node in undecorated(tree):
        for rank, change, says in _of_node(node, inside, names):
            yield Edit(function, node, change, says, rank)


def _parents(tree: ast.AST) -> dict[int, ast.AST]:
    return {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _names(tree: ast.AST) -> list[str]:
    """The parameters and variables of a program, which can be mistaken for one another."""
    found = [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and node.arg != "self"]
    found += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return [name for name in dict.fromkeys(found) if name != "_"]


def _of_node(node: ast.AST, inside: dict[int, ast.AST], names: Sequence[str]) -> Iterator[Slip]:
    if isinstance(node, ast.BinOp):
        yield from _of_operation(node)
    elif isinstance(node, ast.UnaryOp):
        yield from _of_sign(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _of_comparison(node)
    elif isinstance(node, ast.Call):
        yield from of_call(node)
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield from of_attribute(node, inside)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node, inside)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from _of_name(node, inside, names)
    elif isinstance(node, ast.Slice):
        yield from _of_slice(node, inside)
    elif isinstance(node, ast.BoolOp):
        for kept in range(2 if len(node.values) == 2 else 0):
            one, other = quote(node.values[kept]), quote(node.values[1 - kept])
            yield 4, lambda n, kept=kept: n.values[kept], f"looked at {one} alone, not at {other}"
    elif isinstance(node, ast.IfExp):
        yield 3, lambda n: n.body, f"took {quote(node.body)} in every case, also where {quote(node.test)} is false"
        yield 3, lambda n: n.orelse, f"took {quote(node.orelse)} in every case, also where {quote(node.test)} is true"
    elif isinstance(node, ast.stmt):
        yield from of_statement(node)


_LOST = {
    ast.Mult: "left out the factor {}", ast.Div: "did not divide by {}", ast.Add: "left out the summand {}",
    ast.Sub: "did not subtract {}", ast.MatMult: "left out the product with {}", ast.FloorDiv: "did not divide by {}",
    ast.Mod: "left out the remainder by {}", ast.BitAnd: "left out the condition {}", ast.BitOr: "left out the condition {}",
}  # fmt: skip
_OTHER: dict[type, tuple[type, str]] = {
    ast.Mult: (ast.Div, "divided by {} instead of multiplying"),
    ast.Div: (ast.Mult, "multiplied by {} instead of dividing"),
    ast.Add: (ast.Sub, "subtracted {} instead of adding it"),
    ast.Sub: (ast.Add, "added {} instead of subtracting it"),
    ast.FloorDiv: (ast.Mod, "took the remainder by {} instead of the quotient"),
    ast.Mod: (ast.FloorDiv, "took the quotient by {} instead of the remainder"),
    ast.BitAnd: (ast.BitOr, "joined the conditions by *or* instead of *and* before {}"),
    ast.BitOr: (ast.BitAnd, "joined the conditions by *and* instead of *or* before {}"),
    ast.MatMult: (ast.Mult, "multiplied by {} entry by entry, not as matrices"),
}


def _of_operation(node: ast.BinOp) -> Iterator[Slip]:
    kind = type(node.op)
    left, right = quote(node.left), quote(node.right)
    if kind is ast.Pow:
        roots = {"2": f"did not square {left}", "0.5": f"took no square root of {left}"}
        yield 0, lambda n: n.left, roots.get(ast.unparse(node.right), f"did not raise {left} to the power {right}")
        if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Div | ast.Mult):
            inner = quote(node.left.right)
            verb = "divided" if isinstance(node.left.op, ast.Div) else "multiplied"
            power = "square" if right in ("`2`", "`2.0`") else f"power {right}"
            yield (
                0,
                lambda n: ast.BinOp(ast.BinOp(n.left.left, n.op, n.right), n.left.op, n.left.right),
                f"{verb} by {inner}, not by its {power}",
            )
        yield 5, lambda n: ast.BinOp(n.right, n.op, n.left), f"took the power the wrong way round: {right} to the power {left}"
        return
    if kind not in _LOST:
        return
    yield 0, lambda n: n.left, _LOST[kind].format(right)
    if kind in (ast.Mult, ast.Add, ast.MatMult, ast.BitAnd, ast.BitOr):
        yield 1, lambda n: n.right, _LOST[kind].format(left)
    elif kind in (ast.Sub, ast.Div):
        lost = (
            f"kept {right} alone, without its minus and without {left}"
            if kind is ast.Sub
            else f"kept {right} alone of {quote(node)}"
        )
        yield 6, lambda n: n.right, lost
    if kind in (ast.Sub, ast.Div, ast.MatMult):
        turned = {
            ast.Sub: f"took the difference the other way round: {right} minus {left}",
            ast.Div: f"have the quotient upside down: {right} over {left}",
            ast.MatMult: f"multiplied the matrices in the other order: {right} before {left}",
        }
        yield 2, lambda n: ast.BinOp(n.right, n.op, n.left), turned[kind]
    other, words = _OTHER[kind]
    yield 2, lambda n: ast.BinOp(n.left, other(), n.right), words.format(right)
    if kind is ast.FloorDiv:
        yield 3, lambda n: ast.BinOp(n.left, ast.Div(), n.right), f"did not round {quote(node)} down"
    if kind in (ast.Mult, ast.Div):
        yield (
            3,
            lambda n: ast.BinOp(n, n.op, copy.deepcopy(n.right)),
            f"{'multiplied' if kind is ast.Mult else 'divided'} by {right} twice",
        )
        yield (
            4,
            lambda n: ast.BinOp(n.left, n.op, ast.BinOp(n.right, ast.Pow(), ast.Constant(0.5))),
            f"took the square root of {right}",
        )


def _of_sign(node: ast.UnaryOp) -> Iterator[Slip]:
    inner = quote(node.operand)
    if isinstance(node.op, ast.USub):
        if not isinstance(node.operand, ast.Constant):
            yield 0, lambda n: n.operand, f"left out the minus sign before {inner}"
        if isinstance(node.operand, ast.Attribute) and node.operand.attr == "inf":
            yield 0, lambda n: ast.Constant(0.0), "put 0 where minus infinity belongs"
    elif isinstance(node.op, ast.Invert | ast.Not):
        yield 0, lambda n: n.operand, f"did not turn {inner} round: what is kept is left out"


_COMPARED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt, ast.GtE), ast.LtE: (ast.Lt, ast.GtE, ast.Gt), ast.Gt: (ast.GtE, ast.Lt, ast.LtE),
    ast.GtE: (ast.Gt, ast.LtE, ast.Lt), ast.Eq: (ast.NotEq, ast.LtE, ast.GtE), ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip


def _of_comparison(node: ast.Compare) -> Iterator[Slip]:
    left, right = quote(node.left), quote(node.comparators[0])
    for place, other in enumerate(_COMPARED.get(type(node.ops[0]), ())):
        sign = ast.unparse(ast.Compare(ast.Name("a"), [other()], [ast.Name("b")]))[2:-2]
        yield (
            place + 1,
            lambda n, other=other: ast.Compare(n.left, [other()], n.comparators),
            f"compared {left} with {right} by `{sign}`",
        )


def _of_constant(node: ast.Constant, inside: dict[int, ast.AST]) -> Iterator[Slip]:
    value, parent = node.value, inside.get(id(node))
    where = parent
    if isinstance(parent, ast.UnaryOp) and isinstance(inside.get(id(parent)), ast.AST):
        where = inside[id(parent)]
    if (isinstance(parent, ast.keyword) and parent.arg in ("axis", "dim")) or where is None:
        return
    around = quote(where) if isinstance(where, ast.expr) else ""
    words = f", in {around}" if around else ""
    if isinstance(value, bool):
        name = f"`{parent.arg}={not value}`" if isinstance(parent, ast.keyword) else f"`{not value}`"
        yield 2, lambda n: ast.Constant(not n.value), f"said {name} where `{value}` belongs{words}"
    elif isinstance(value, int | float):
        sign = -1 if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub) else 1
        options: list[Any] = (
            [value + 1, value - 1, 2 * value, 0] if isinstance(value, int) else [2 * value, value / 2, 1.0 - value, 0.0]
        )
        if sign == -1 and isinstance(value, int):
            options = [2 if value == 1 else 1, 0, -1, -2] if value <= 3 else options
        if isinstance(value, float) and abs(value) >= 1e3:
            options += [value / 1000, value * 1000, value / 10]
        if value in (1e9, 2**30, 10**9):
            options.append(2**30 if value != 2**30 else 1e9)
        for other in dict.fromkeys(options):
            if other != value:
                rank = 3 if abs(value) != 1 or isinstance(where, ast.Subscript | ast.Call) else 4
                rank = 1 if isinstance(where, ast.arguments) else rank  # a default, such as the axis
                shown = f"{sign * other:g}" if isinstance(other, float) else f"{sign * other}"
                yield rank, lambda n, other=other: ast.Constant(other), f"wrote {shown} where {sign * value} belongs{words}"


def _of_name(node: ast.Name, inside: dict[int, ast.AST], names: Sequence[str]) -> Iterator[Slip]:
    parent = inside.get(id(node))
    if node.id not in names or (isinstance(parent, ast.Call) and parent.func is node):
        return
    around = f", in {quote(parent)}" if isinstance(parent, ast.expr) else ""
    rank = 2 if isinstance(parent, ast.Attribute) and parent.attr == "shape" else 4  # the width of another array
    for other in names:
        if other != node.id:
            yield rank, lambda n, other=other: ast.Name(other, ast.Load()), f"took `{other}` where `{node.id}` belongs{around}"


def _of_slice(node: ast.Slice, inside: dict[int, ast.AST]) -> Iterator[Slip]:
    around = quote(inside[id(node)])
    for name in ("lower", "upper"):
        bound = getattr(node, name)
        if bound is None:
            continue
        words = "begin" if name == "lower" else "end"
        yield 4, lambda n, name=name: ast.Slice(**{**_parts(n), name: None}), f"let {around} run to its {words}, without a bound"
        for step in (1, -1) if not isinstance(bound, ast.Constant | ast.UnaryOp) else ():
            said = f"let {around} {words} one {'later' if step > 0 else 'earlier'}"
            yield 4, lambda n, name=name, step=step: _bounded(n, name, step), said


def _bounded(node: ast.Slice, name: str, step: int) -> ast.Slice:
    moved = ast.BinOp(getattr(node, name), ast.Add(), ast.Constant(step))
    return ast.Slice(**{**_parts(node), name: moved})


def _parts(node: ast.Slice) -> dict[str, Any]:
    return {"lower": node.lower, "upper": node.upper, "step": node.step}
