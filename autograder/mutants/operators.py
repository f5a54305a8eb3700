"""Make small edits of a program's text, each with a fact: a lost sign, a factor left out, another axis, one name for another.

In: a `Source`. Out: its `Edit`s, the most common first. This module edits operators, comparisons, numbers and names;
`call_operators` edits calls, attributes and statements.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from autograder.judging.fact import Fact, fact
from autograder.mutants.call_operators import of_attribute, of_call, of_statement, root
from autograder.mutants.course_operators import NONE, Operators
from autograder.mutants.source import Edit, Slip, Source, parents, placed, plain_slip, plus, quote, undecorated, with_parts


def edits(source: Source, operators: Operators = NONE) -> list[Edit]:
    """Return every small edit, the most common first, including those of the course's `operators`.

    An edit of a helper counts as two ranks rarer than the same edit of the program itself.
    """
    of_trees = [(own != source.name, edit) for own, tree in source.trees.items() for edit in _edits(own, tree, operators)]
    often = Counter(edit.what for _, edit in of_trees)
    of_trees = [(other, _where(edit) if often[edit.what] > 1 else edit) for other, edit in of_trees]
    return [edit for _, edit in sorted(of_trees, key=lambda pair: pair[0] * 2 + pair[1].rank)]


def _where(edit: Edit) -> Edit:
    """Return the edit with its place added to the fact, because the same edit is possible in another place."""
    if edit.what is None or (edit.what.key == "slip.place" and plain_slip(edit.what).key == "slip.left_out"):
        return edit
    again = edit.what.key == "slip.place"  # the fact already quotes the code around it
    return replace(edit, what=fact("slip.place.again" if again else "slip.place", what=edit.what, code=quote(edit.node)))


def _edits(function: str, tree: ast.AST, operators: Operators) -> Iterator[Edit]:
    inside, names = parents(tree), _names(tree)
    for node in undecorated(tree):
        for rank, change, what in _of_node(node, inside, names, operators):
            yield Edit(function, node, change, what, rank)


def _names(tree: ast.AST) -> list[str]:
    """Return the parameters and variables of a program, which can be mistaken for one another."""
    names = [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and node.arg != "self"]
    names += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return [name for name in dict.fromkeys(names) if name != "_"]


def _of_node(node: ast.AST, inside: dict[int, ast.AST], names: Sequence[str], operators: Operators) -> Iterator[Slip]:
    if isinstance(node, ast.BinOp):
        yield from _of_operation(node)
    elif isinstance(node, ast.UnaryOp):
        yield from _of_sign(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _of_comparison(node)
    elif isinstance(node, ast.Call):
        yield from of_call(node, operators)
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
            yield 4, lambda n, kept=kept: n.values[kept], fact("slip.condition", one=one, other=other)
    elif isinstance(node, ast.IfExp):
        yield 3, lambda n: n.body, fact("slip.branch.first", code=quote(node.body), test=quote(node.test))
        yield 3, lambda n: n.orelse, fact("slip.branch.second", code=quote(node.orelse), test=quote(node.test))
    elif isinstance(node, ast.stmt):
        yield from of_statement(node)


_LOST = {
    ast.Mult: "factor", ast.Div: "divisor", ast.Add: "summand", ast.Sub: "subtrahend", ast.MatMult: "product",
    ast.FloorDiv: "divisor", ast.Mod: "remainder", ast.BitAnd: "condition", ast.BitOr: "condition",
}  # fmt: skip
_OTHER: dict[type, tuple[type, str]] = {
    ast.Mult: (ast.Div, "divided"),
    ast.Div: (ast.Mult, "multiplied"),
    ast.Add: (ast.Sub, "subtracted"),
    ast.Sub: (ast.Add, "added"),
    ast.FloorDiv: (ast.Mod, "remainder"),
    ast.Mod: (ast.FloorDiv, "quotient"),
    ast.BitAnd: (ast.BitOr, "or"),
    ast.BitOr: (ast.BitAnd, "and"),
    ast.MatMult: (ast.Mult, "entrywise"),
}
_POWERS = {"2": "slip.power.not_squared", "0.5": "slip.power.no_root"}


def _of_operation(node: ast.BinOp) -> Iterator[Slip]:
    kind = type(node.op)
    left, right = quote(node.left), quote(node.right)
    if kind is ast.Pow:
        key = _POWERS.get(ast.unparse(node.right))
        yield 0, lambda n: n.left, fact(key, code=left) if key else fact("slip.power.not_raised", code=left, power=right)
        if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Div | ast.Mult):
            inner = quote(node.left.right)
            key = f"slip.power.{'divided' if isinstance(node.left.op, ast.Div) else 'multiplied'}"
            what = fact(f"{key}.square", code=inner) if right in ("2", "2.0") else fact(key, code=inner, power=right)
            yield 0, lambda n: ast.BinOp(ast.BinOp(n.left.left, n.op, n.right), n.left.op, n.left.right), what
        yield 5, lambda n: ast.BinOp(n.right, n.op, n.left), fact("slip.power.turned", base=right, power=left)
        return
    if kind not in _LOST:
        return
    yield 0, lambda n: n.left, fact(f"slip.lost.{_LOST[kind]}", code=right)
    if kind in (ast.Mult, ast.Add, ast.MatMult, ast.BitAnd, ast.BitOr):
        yield 1, lambda n: n.right, fact(f"slip.lost.{_LOST[kind]}", code=left)
    elif kind is ast.Sub:
        yield 6, lambda n: n.right, fact("slip.kept.subtrahend", code=right, other=left)
    elif kind is ast.Div:
        yield 6, lambda n: n.right, fact("slip.kept.divisor", code=right, whole=quote(node))
    if kind in _TURNED:
        yield 2, lambda n: ast.BinOp(n.right, n.op, n.left), fact(f"slip.turned.{_TURNED[kind]}", first=right, second=left)
    other, key = _OTHER[kind]
    yield 2, lambda n: ast.BinOp(n.left, other(), n.right), fact(f"slip.instead.{key}", code=right)
    if kind is ast.FloorDiv:
        yield 3, lambda n: ast.BinOp(n.left, ast.Div(), n.right), fact("slip.not_rounded", code=quote(node))
    if kind in (ast.Mult, ast.Div):
        what = fact(f"slip.twice.{'multiplied' if kind is ast.Mult else 'divided'}", code=right)
        yield 3, lambda n: ast.BinOp(n, n.op, copy.deepcopy(n.right)), what
        yield 4, lambda n: ast.BinOp(n.left, n.op, root(n.right)), fact("slip.root", code=right)


_TURNED: dict[type, str] = {ast.Sub: "difference", ast.Div: "quotient", ast.MatMult: "matrices"}


def _of_sign(node: ast.UnaryOp) -> Iterator[Slip]:
    inner = quote(node.operand)
    if isinstance(node.op, ast.USub):
        if not isinstance(node.operand, ast.Constant):
            yield 0, lambda n: n.operand, fact("slip.sign.lost", code=inner)
        if isinstance(node.operand, ast.Attribute) and node.operand.attr == "inf":
            yield 0, lambda n: ast.Constant(0.0), fact("slip.sign.infinity")
    elif isinstance(node.op, ast.Invert | ast.Not):
        yield 0, lambda n: n.operand, fact("slip.sign.not_turned", code=inner)


_COMPARED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt, ast.GtE), ast.LtE: (ast.Lt, ast.GtE, ast.Gt), ast.Gt: (ast.GtE, ast.Lt, ast.LtE),
    ast.GtE: (ast.Gt, ast.LtE, ast.Lt), ast.Eq: (ast.NotEq, ast.LtE, ast.GtE), ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip


def _of_comparison(node: ast.Compare) -> Iterator[Slip]:
    left, right = quote(node.left), quote(node.comparators[0])
    for place, other in enumerate(_COMPARED.get(type(node.ops[0]), ())):
        sign = ast.unparse(ast.Compare(ast.Name("a"), [other()], [ast.Name("b")]))[2:-2]
        what = fact("slip.compared", left=left, right=right, sign=sign)
        yield place + 1, lambda n, other=other: ast.Compare(n.left, [other()], n.comparators), what


def _of_constant(node: ast.Constant, inside: dict[int, ast.AST]) -> Iterator[Slip]:
    value, parent = node.value, inside.get(id(node))
    where = parent
    if isinstance(parent, ast.UnaryOp) and isinstance(inside.get(id(parent)), ast.AST):
        where = inside[id(parent)]
    if (isinstance(parent, ast.keyword) and parent.arg in ("axis", "dim")) or where is None:
        return
    if isinstance(value, bool):
        name = f"{parent.arg}={not value}" if isinstance(parent, ast.keyword) else f"{not value}"
        yield 2, lambda n: ast.Constant(not n.value), _within(fact("slip.truth", got=name, want=str(value)), where)
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
                what = _within(fact("slip.number", got=shown, want=str(sign * value)), where)
                yield rank, lambda n, other=other: ast.Constant(other), what


def _within(what: Fact, around: ast.AST | None) -> Fact:
    """Return the fact with the code `around` it, if that is an expression."""
    return placed(what, around) if isinstance(around, ast.expr) else what


def _of_name(node: ast.Name, inside: dict[int, ast.AST], names: Sequence[str]) -> Iterator[Slip]:
    parent = inside.get(id(node))
    if node.id not in names or (isinstance(parent, ast.Call) and parent.func is node):
        return
    rank = 2 if isinstance(parent, ast.Attribute) and parent.attr == "shape" else 4  # the width of another array
    for other in names:
        if other != node.id:
            what = _within(fact("slip.name", got=other, want=node.id), parent)
            yield rank, lambda n, other=other: ast.Name(other, ast.Load()), what


def _of_slice(node: ast.Slice, inside: dict[int, ast.AST]) -> Iterator[Slip]:
    around = quote(inside[id(node)])
    for name in ("lower", "upper"):
        bound = getattr(node, name)
        if bound is None:
            continue
        key = f"slip.slice.{'begin' if name == 'lower' else 'end'}"
        yield 4, lambda n, name=name: with_parts(n, **{name: None}), fact(f"{key}.unbounded", code=around)
        for step in (1, -1) if not isinstance(bound, ast.Constant | ast.UnaryOp) else ():
            what = fact(f"{key}.{'later' if step > 0 else 'earlier'}", code=around)
            yield 4, lambda n, name=name, step=step: with_parts(n, **{name: plus(getattr(n, name), step)}), what
