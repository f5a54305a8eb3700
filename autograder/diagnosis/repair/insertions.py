"""Make small changes that insert something, because what a learner forgot cannot be found by leaving things out.

In: the trees of an answer, and the inputs of a case. Out: `Edit`s in addition to those of `mutants.operators`: keep an axis,
transpose a matrix, take a root, copy an array, exchange two steps. A change that does not fit the code raises when it is tried
and is dropped.
"""

import ast
import itertools
from collections.abc import Iterator
from typing import Any

from autograder.diagnosis.finding import fact
from autograder.diagnosis.repair.calls import of_call
from autograder.diagnosis.repair.class_members import of_members
from autograder.diagnosis.repair.expressions import (
    Names,
    RankedChange,
    exchanged,
    expression,
    filled,
    names_of,
    plus,
    with_fields,
)
from autograder.diagnosis.repair.operations import of_operand, of_operation
from autograder.judging.values import EncodedValue
from autograder.mutants.call_operators import called
from autograder.mutants.course_operators import NONE, Operators
from autograder.mutants.operators import edits
from autograder.mutants.source import Change, Edit, Source, plain_slip


def changes(source: Source, inputs: EncodedValue, operators: Operators = NONE) -> list[Edit]:
    """Return every small change of the code, the most likely first, including those of the course's `operators`."""
    candidates = [edit for edit in edits(source, operators.for_repair) if not _strange(edit)]
    nodes = [node for tree in source.trees.values() for node in ast.walk(tree)]
    torch = any(isinstance(node, ast.Name) and node.id in ("torch", "F", "Tensor", "nn") for node in nodes)
    torch = torch or any(isinstance(node, ast.Attribute) and node.attr == "mT" for node in nodes)
    torch = torch or any(leaf.kind == "tensor" for leaf in inputs.flat())
    for name, tree in source.trees.items():
        names = names_of(tree, inputs, torch)
        inside = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            candidates += [Edit(name, node, change, None, rank) for rank, change in _of(node, inside, names)]
        candidates += [Edit(name, method, change, None, rank) for method, rank, change in of_members(tree)]
        candidates += [Edit(name, call, change, None, rank) for call, rank, change in _of_defaults(tree, source, names)]
        for first, second in _alike(names):
            what = fact("repair.swapped", one=first, two=second)
            candidates.append(
                Edit(name, tree, lambda n, first=first, second=second: _Swap(first, second).visit(_deep(n)), what, 2)
            )
    return sorted(candidates, key=lambda edit: edit.rank)


def _strange(edit: Edit) -> bool:
    """Return whether the edit makes a slip, but would never repair a learner's code."""
    key = plain_slip(edit.what).key if edit.what is not None else ""
    return key in _STRANGE or (key.startswith("slip.slice") and key.endswith(".unbounded"))


_STRANGE = ("slip.call.reshaped", "slip.power.turned")


def _of(node: ast.AST, inside: dict[int, ast.AST], names: Names) -> Iterator[RankedChange]:
    above = inside.get(id(node))
    if isinstance(node, ast.Call):
        yield from of_call(node, names)
    elif isinstance(node, ast.BinOp):
        yield from of_operation(node, names)
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith(".shape") and isinstance(above, ast.BinOp):
        yield 4, lambda n: ast.Constant(2)
    elif isinstance(node, ast.Attribute) and node.attr == "T" and names.torch:
        yield 0, lambda n: ast.Attribute(n.value, "mT", ast.Load())
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name | ast.BinOp) and isinstance(node.ctx, ast.Load):
        for step in (1, -1):
            yield 4, lambda n, step=step: ast.Subscript(n.value, plus(n.slice, step), n.ctx)
    elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load) and 2 <= len(node.elts) <= 4:
        if not isinstance(above, ast.Return):
            for place in range(len(node.elts) - 1):
                yield 2, lambda n, place=place: type(n)(exchanged(n.elts, place), ast.Load())
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        if isinstance(above, ast.Call) and called(above) == "sqrt":
            for width in (*names.widths(), *names.stored_widths()):
                yield 2, lambda n, width=width: width
        if abs(node.value) > 2 or isinstance(above, ast.BinOp | ast.Call):
            for number in names.numbers:
                yield 2 if node.value >= 1000 else 6, lambda n, number=number: ast.Name(number, ast.Load())
    elif isinstance(node, ast.For) and len(node.body) > 1 and isinstance(node.body[-1], ast.Return):
        yield 0, lambda n: [with_fields(n, body=n.body[:-1]), n.body[-1]]  # the return is indented too far
    elif isinstance(node, ast.With):
        yield 1, lambda n: n.body
    elif isinstance(node, ast.AugAssign):
        yield 1, _by_a_new_one
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _of_result(node, names)
    if isinstance(node, ast.Assign):
        if isinstance(node.value, ast.Name) and node.value.id in names.given:
            yield 1, lambda n: ast.Assign(n.targets, _copied(n.value, names.torch))
        if len(names.stored) + len(names.arrays) <= 14:
            for name in (*names.arrays, *names.stored):
                yield 5, lambda n, name=name: ast.Assign(n.targets, filled("y * x", y=ast.Name(name, ast.Load()), x=n.value))
    if isinstance(node, ast.Name | ast.Call | ast.Subscript) and above is not None and _is_read(node, above):
        yield from of_operand(node, above, names)
    if isinstance(node, ast.FunctionDef | ast.For | ast.If):
        yield from _of_steps(node)
    if isinstance(node, ast.FunctionDef):
        for name in names.arrays[:6]:
            yield 3, lambda n, name=name: with_fields(n, body=[_copy_of(name, names.torch), *n.body])


def _is_read(node: ast.expr, above: ast.AST) -> bool:
    """Return whether a value is used in a computation, and not called or stored."""
    loaded = isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and getattr(above, "func", None) is not node
    return loaded and isinstance(above, ast.BinOp | ast.Call | ast.Assign | ast.Return)


def _of_defaults(tree: ast.AST, source: Source, names: Names) -> Iterator[tuple[ast.Call, int, Change]]:
    """Yield changes of calls to the answer's own helpers that leave a parameter at its default."""
    for node in ast.walk(tree):
        helper = source.trees.get(called(node)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        if not isinstance(node, ast.Call) or not isinstance(helper, ast.FunctionDef):
            continue
        passed = {keyword.arg for keyword in node.keywords}
        parameters = [parameter.arg for parameter in helper.args.args]
        omitted = [name for name in parameters[len(node.args) :] if name not in passed]
        for name in omitted[-len(helper.args.defaults) :] if helper.args.defaults else ():
            values = [*({name} & set(names.given)), *(other for other in names.numbers if other != name)]
            for value in [*map(expression, values), *names.widths()]:
                yield node, 1, lambda n, name=name, value=value: with_fields(n, keywords=[*n.keywords, ast.keyword(name, value)])


# ------------------------------------------------------------------------------------------ steps


def _by_a_new_one(node: ast.AugAssign) -> ast.stmt:
    """Return `x = x + y` for `x += y`, which would change an array that other names may refer to."""
    target: Any = node.target
    read = ast.Name(target.id, ast.Load())  # raises for part of an array, which cannot be replaced by a new one
    return ast.Assign([target], ast.BinOp(read, node.op, node.value))


def _copied(value: ast.expr, torch: bool) -> ast.expr:
    return filled("x.clone()" if torch else "x.copy()", x=value)


def _copy_of(name: str, torch: bool) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], _copied(ast.Name(name, ast.Load()), torch))


_DONE = (
    "x.mT", "x.T", "-x", "1 - x", "~x", "x[0]", "x[-1]", "x.squeeze(-2)", "x[..., None]", "x ** 0.5", "x ** 2",
    "float(x)", "max(1, x)", "x + 1", "x - 1", "x[:, -1]",
)  # fmt: skip


def _of_result(node: ast.Return, names: Names) -> Iterator[RankedChange]:
    if isinstance(node.value, ast.Tuple):
        for place in range(len(node.value.elts)):
            for text in ("x.squeeze(-1)", "x[..., None]", "x.mT", "x.T", "x[0]", "x.swapaxes(-3, -2)"):
                yield 3, lambda n, place=place, text=text: _result(n, place, text)
        return
    for text in _DONE:
        yield 2, lambda n, text=text: ast.Return(filled(text, x=n.value))
    for name in names.stored:
        yield 3, lambda n, name=name: ast.Return(ast.Tuple([n.value, ast.Name(name, ast.Load())], ast.Load()))


def _result(node: Any, place: int, text: str) -> ast.Return:
    parts = node.value.elts
    return ast.Return(ast.Tuple([*parts[:place], filled(text, x=parts[place]), *parts[place + 1 :]], ast.Load()))


def _of_steps(node: Any) -> Iterator[RankedChange]:
    for place in range(len(node.body) - 1):
        if not any(isinstance(step, ast.Return | ast.FunctionDef) for step in node.body[place : place + 2]):
            yield 2, lambda n, place=place: with_fields(n, body=exchanged(n.body, place))


# ------------------------------------------------------------------------------------------ names


def _alike(names: Names) -> Iterator[tuple[str, str]]:
    """Yield pairs of parameters that can be confused."""
    for kind in (names.arrays[:5], names.numbers[:5]):
        yield from itertools.combinations(kind, 2)


class _Swap(ast.NodeTransformer):
    """Exchanges two names wherever they are read."""

    def __init__(self, first: str, second: str):
        self.other = {first: second, second: first}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if isinstance(node.ctx, ast.Load) and node.id in self.other:
            return ast.Name(self.other[node.id], ast.Load())
        return node


def _deep(node: Any) -> Any:
    return ast.parse(ast.unparse(ast.fix_missing_locations(node))).body[0]
