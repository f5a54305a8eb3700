"""Small edits of calls, attributes and statements: `min` for `max`, a step left out, the results in another order.

In: a node of a program's tree. Out: `Slip`s, each of which says how rare it is, what it changes, and how to say it.
"""

import ast
from collections.abc import Iterator
from typing import Any

from autograder.judging.fact import fact
from autograder.mutants.course_operators import NONE, CallOperator, Operators
from autograder.mutants.source import Slip, placed, plus, quote, with_parts

_RENAMED = {
    "max": ("min",), "min": ("max",), "amax": ("amin",), "amin": ("amax",), "sum": ("mean", "max"), "mean": ("sum",),
    "all": ("any",), "any": ("all",), "argmax": ("argmin",), "argmin": ("argmax",), "tril": ("triu",), "triu": ("tril",),
    "cos": ("sin",), "sin": ("cos",), "maximum": ("minimum",), "minimum": ("maximum",), "floor": ("ceil", "round"),
    "ceil": ("floor", "round"), "repeat_interleave": ("repeat",), "repeat": ("tile",), "tile": ("repeat",), "var": ("std",),
    "std": ("var",), "zeros": ("ones",), "ones": ("zeros",), "zeros_like": ("ones_like",), "ones_like": ("zeros_like",),
    "log2": ("log",), "log": ("log2", "log10"), "sqrt": ("square",), "softmax": ("log_softmax",), "clip": ("abs",),
    "searchsorted": ("digitize",), "stack": ("concatenate",),
}  # fmt: skip


def called(node: ast.Call) -> str:
    """Return the name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""


def of_call(node: ast.Call, operators: Operators = NONE) -> Iterator[Slip]:
    """Yield the slips that are possible in a call: those of the course's `operators` first, then the engine's own."""
    name = called(node)
    of_course = [operator for operator in operators.calls if operator.applies_to(name)]
    omitted = any(operator.omits for operator in of_course)
    for operator in (*of_course, *_OF_CALLS):
        if operator.applies_to(name) and not (omitted and operator is _OMISSION):
            yield from operator.slips(node)


def is_of_module(node: ast.Call) -> bool:
    """Return whether the call is of a function in a module such as `np`, and not of a method."""
    return isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value).split(".")[0] in _MODULES


def _other_function(node: ast.Call) -> Iterator[Slip]:
    name = called(node)
    for other in _RENAMED.get(name, ()):
        yield 1, lambda n, other=other: _renamed(n, other), placed(fact("slip.name", got=other, want=name), node)


def _omission(node: ast.Call) -> Iterator[Slip]:
    """Yield the slip of leaving the call out, so that only its object or its first argument stays."""
    name, method = called(node), isinstance(node.func, ast.Attribute) and not is_of_module(node)
    if method and name not in ("append", "items", "keys"):
        yield 1, lambda n: n.func.value, fact("slip.call.method", name=f".{name}(…)", code=quote(node))
    elif node.args and (name in _OF_ONE or (len(node.args) == 1 and name not in _NEEDED)) and not _of_a_list(node):
        yield 1, lambda n: n.args[0], placed(fact("slip.left_out", code=name), node)


def _reshape(node: ast.Call) -> Iterator[Slip]:
    if isinstance(node.func, ast.Attribute):
        yield 2, _reshaped, fact("slip.call.reshaped", code=quote(node))


def _exchange(node: ast.Call) -> Iterator[Slip]:
    name = called(node)
    if len(node.args) < 2 or any(isinstance(arg, ast.Starred) for arg in node.args[:2]):
        return
    first, second = quote(node.args[0]), quote(node.args[1])
    what = fact("slip.call.exchanged", one=first, two=second, name=name)
    yield 3, lambda n: with_parts(n, args=[n.args[1], n.args[0], *n.args[2:]]), what
    if name in ("max", "min", "maximum", "minimum"):
        yield 1, lambda n: n.args[1], fact(f"slip.call.always.{name[:3]}", code=second, other=first)


def _where(node: ast.Call) -> Iterator[Slip]:
    if len(node.args) != 3:
        return
    for kept in (1, 2):
        what = fact("slip.call.everywhere", code=quote(node.args[kept]), test=quote(node.args[0]))
        yield 1, lambda n, kept=kept: n.args[kept], what
    what = fact("slip.call.two_ways", code=quote(node))
    yield 2, lambda n: with_parts(n, args=[n.args[0], n.args[2], n.args[1]]), what


def _keywords(node: ast.Call) -> Iterator[Slip]:
    """Yield the slips in keyword arguments: another axis, or an option left out."""
    for number, keyword in enumerate(node.keywords):
        if keyword.arg in ("axis", "dim"):
            yield from _other_axis(node, number, keyword)
        elif keyword.arg in _OPTIONS:
            yield without_option(node, number)


def _other_axis(node: ast.Call, number: int, keyword: ast.keyword) -> Iterator[Slip]:
    given = isinstance(keyword.value, ast.Name)
    stated = fact("slip.axis.code" if given else "slip.axis.number", axis=ast.unparse(keyword.value))
    for axis in (0, -1, -2, 1, None):
        value = ast.Constant(axis)
        if ast.unparse(value) != ast.unparse(keyword.value):
            over = fact("slip.axis.all") if axis is None else fact("slip.axis.number", axis=str(axis))
            what = fact("slip.call.axis", name=called(node), over=over, stated=stated)
            yield 0, lambda n, value=value: with_keyword(n, number, value), what


def without_option(node: ast.Call, number: int) -> Slip:
    """Return the slip of leaving out keyword `number` of a call."""
    what = fact("slip.call.option", option=node.keywords[number].arg, name=called(node))
    return 2, lambda n: with_parts(n, keywords=n.keywords[:number] + n.keywords[number + 1 :]), what


def _range(node: ast.Call) -> Iterator[Slip]:
    if not 0 < len(node.args) < 3:
        return
    for step, key in ((1, "slip.loop.more"), (-1, "slip.loop.less")):
        what = fact(key, code=quote(node))
        yield 3, lambda n, step=step: with_parts(n, args=[*n.args[:-1], plus(n.args[-1], step)]), what


def _divisor(node: ast.Call) -> Iterator[Slip]:
    of_numpy = isinstance(node.func, ast.Attribute) and ast.unparse(node.func).startswith("np")
    for less in (0, 1):
        what = fact(f"slip.call.divided_by.{'one_less' if less else 'all'}", name=called(node))
        yield 2, lambda n, less=less: _with_option(n, "ddof" if of_numpy else "correction", less), what


def _similar_function(node: ast.Call) -> Iterator[Slip]:
    """Yield the slips of using a similar function: a sigmoid instead of tanh, or another norm."""
    name, of_a_module = called(node), is_of_module(node)

    def of(n: Any) -> Any:
        return n.args[0] if of_a_module else n.func.value

    def again(n: Any, x: ast.expr, other: str) -> ast.Call:
        args = [x, *n.args[1:]] if of_a_module else n.args
        return ast.Call(ast.Attribute(n.func.value if of_a_module else x, other, ast.Load()), args, n.keywords)

    if not isinstance(node.func, ast.Attribute) or (of_a_module and not node.args):
        return
    if name == "tanh":
        one, what = ast.Constant(1.0), placed(fact("slip.call.sigmoid", name=name), node)

        def falling(n: Any) -> ast.Call:
            return again(n, ast.UnaryOp(ast.USub(), of(n)), "exp")

        yield 2, lambda n: ast.BinOp(one, ast.Div(), ast.BinOp(one, ast.Add(), falling(n))), what
    elif name == "sum":
        what = placed(fact("slip.call.root_of_squares"), node)
        yield 2, lambda n: root(again(n, ast.BinOp(of(n), ast.Mult(), of(n)), "sum")), what
    elif name == "norm" and of_a_module and len(node.args) == 1 and not any(keyword.arg == "ord" for keyword in node.keywords):
        for order, key in ((1.0, "slip.call.norm.sum"), (float("inf"), "slip.call.norm.largest")):
            value = ast.Call(ast.Name("float", ast.Load()), [ast.Constant(str(order))], [])
            what = placed(fact(key), node)
            yield 2, lambda n, value=value: with_parts(n, keywords=[*n.keywords, ast.keyword("ord", value)]), what


def _triangle(node: ast.Call) -> Iterator[Slip]:
    """Yield the slips in `tril` and `triu`: no triangle, or its diagonal one off, at the first column or with the other sign."""
    method = isinstance(node.func, ast.Attribute) and not is_of_module(node)
    if method or node.args:
        yield -1, lambda n: n.func.value if method else n.args[0], fact("slip.call.triangle", name=called(node))
    place = 0 if method else 1
    at = next((number for number, keyword in enumerate(node.keywords) if keyword.arg in ("diagonal", "k")), None)

    def stated(n: Any) -> Any:
        return n.keywords[at].value if at is not None else n.args[place] if len(n.args) > place else ast.Constant(0)

    def diagonal(n: Any, value: ast.expr) -> Any:
        return with_parts(n, args=[*n.args[:place], value]) if at is None else with_keyword(n, at, value)

    offset = stated(node)
    for step, key in ((1, "slip.triangle.later"), (-1, "slip.triangle.earlier")):
        yield 0, lambda n, step=step: diagonal(n, plus(stated(n), step)), fact(key, code=quote(node))
    if not isinstance(offset, ast.Constant):
        what = fact("slip.triangle.first", code=quote(node), offset=quote(offset))
        yield 0, lambda n: diagonal(n, ast.Constant(0)), what
        yield 1, lambda n: diagonal(n, ast.UnaryOp(ast.USub(), offset)), fact("slip.triangle.sign", code=quote(node))


def _reshaped(node: ast.Call) -> ast.Call:
    """Return a call that gives the right shape without reordering the numbers."""
    made: Any = ast.parse("(lambda before, after: before.reshape(after.shape))(0, 0)", mode="eval").body
    func: Any = node.func
    return ast.Call(made.func, [func.value, node], [])


def _of_a_list(node: ast.Call) -> bool:
    """Return whether the call makes an array of pieces. Without it there would be a list, which is reported as such."""
    return isinstance(node.args[0], ast.List | ast.ListComp | ast.GeneratorExp)


def _renamed(node: ast.Call, name: str) -> Any:
    return with_parts(node, func=with_parts(node.func, **{"attr" if isinstance(node.func, ast.Attribute) else "id": name}))


def with_keyword(node: ast.Call, number: int, value: ast.expr) -> ast.Call:
    """Return the call with another value for one of its keywords."""
    keywords = [*node.keywords]
    keywords[number] = ast.keyword(keywords[number].arg, value)
    return ast.Call(node.func, node.args, keywords)


def _with_option(node: ast.Call, key: str, value: int) -> Any:
    kept = [keyword for keyword in node.keywords if keyword.arg not in ("ddof", "correction", "unbiased")]
    return with_parts(node, keywords=[*kept, ast.keyword(key, ast.Constant(value))])


def root(node: ast.expr) -> ast.BinOp:
    """Return the square root of an expression."""
    return ast.BinOp(node, ast.Pow(), ast.Constant(0.5))


_OF_ONE = ("softmax", "maximum", "minimum", "clip", "clamp")  # take further arguments, but return a changed first argument
_NEEDED = ("range", "len", "enumerate", "zip", "list", "tuple")
_MODULES = ("np", "torch", "math", "F", "numpy", "nn")
_OPTIONS = ("keepdims", "keepdim", "dtype", "device", "ddof", "correction", "unbiased", "diagonal", "offset")
_OMISSION = CallOperator(_omission)
_OF_CALLS = (  # among slips of the same rank, those of earlier operators are tried first
    CallOperator(_other_function, tuple(_RENAMED)),
    CallOperator(_similar_function, ("tanh", "sum", "norm")),
    CallOperator(_triangle, ("tril", "triu")),
    _OMISSION,
    CallOperator(_reshape, ("transpose", "permute", "swapaxes", "movedim")),
    CallOperator(_exchange),
    CallOperator(_where, ("where",)),
    CallOperator(_keywords),
    CallOperator(_range, ("range",)),
    CallOperator(_divisor, ("var", "std")),
)


def of_statement(node: ast.stmt) -> Iterator[Slip]:
    """Yield the slips in a statement: a step left out, a branch always or never taken, results in another order."""
    if isinstance(node, ast.AugAssign):
        target = quote(node.target)
        yield 1, lambda n: ast.Pass(), fact("slip.step.left_out", code=quote(node))
        what = fact("slip.step.overwrote", code=target, value=quote(node.value))
        yield 1, lambda n: ast.Assign([n.target], n.value), what
    elif isinstance(node, ast.Assign):
        target = ast.unparse(node.targets[0])
        if "." in target or "[" in target:
            yield 1, lambda n: ast.Pass(), fact("slip.step.not_set", code=target)
        elif isinstance(node.targets[0], ast.Name) and any(
            isinstance(part, ast.Name) and part.id == target for part in ast.walk(node.value)
        ):
            yield 1, lambda n: ast.Pass(), fact("slip.step.left_out", code=quote(node))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if "__init__" not in ast.unparse(node):
            yield 1, lambda n: ast.Pass(), fact("slip.step.left_out", code=quote(node))
    elif isinstance(node, ast.If):
        yield 2, lambda n: n.orelse or ast.Pass(), fact("slip.if.never", test=quote(node.test))
        yield 2, lambda n: n.body, fact("slip.if.always", test=quote(node.test))
    elif isinstance(node, ast.Raise):
        yield 1, lambda n: ast.Pass(), fact("slip.raise", code=quote(node))
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) <= 4:
        yield from _of_results(node.value)


def _of_results(results: ast.Tuple) -> Iterator[Slip]:
    count = len(results.elts)
    for at in range(count):
        yield 1, lambda n, at=at: ast.Return(n.value.elts[at]), fact("slip.returned.alone", code=quote(results.elts[at]))
        for other in range(at + 1, count):
            first, second = quote(results.elts[at]), quote(results.elts[other])
            what = fact("slip.returned.order", first=first, second=second)
            yield 0, lambda n, at=at, other=other: ast.Return(_exchanged(n.value, at, other)), what


def _exchanged(results: ast.Tuple, at: int, other: int) -> ast.Tuple:
    parts = [*results.elts]
    parts[at], parts[other] = parts[other], parts[at]
    return ast.Tuple(parts, ast.Load())


def of_attribute(node: ast.Attribute, inside: dict[int, ast.AST]) -> Iterator[Slip]:
    """Yield the slips in an attribute: a transpose left out, or 0 instead of infinity."""
    if node.attr in ("T", "mT", "real"):
        yield 0, lambda n: n.value, fact("slip.transpose", code=quote(node.value))
    if node.attr == "inf" and not isinstance(inside.get(id(node)), ast.UnaryOp):
        yield 3, lambda n: ast.Constant(0.0), fact("slip.infinity")
