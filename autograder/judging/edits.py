"""Small edits of a program's text, each said in words: a sign lost, another axis, a factor left out, a name mistaken for another.

In: a function or class that Python code defines. Out: `Source`, its syntax tree and those of the functions it calls, and the
`Edit`s that it allows. Applied one or two at a time they make the programs that learners write when they slip, so that a
slip is known by what it does, in every exercise, without being listed in any. The most common slips come first.
"""

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

MOST_HELPERS = 6
LONG = 56  # a longer piece of code is not quoted

Change = Callable[[Any], ast.AST | None]


@dataclass(frozen=True)
class Edit:
    """`change` is made to `node` of the tree of `function`; `says` completes "You …". A low `rank` is common."""

    function: str
    node: ast.AST
    change: Change
    says: str
    rank: int


@dataclass(frozen=True)
class Source:
    """A program as syntax trees: its own under its name, and those of its helpers; `home` holds the names that they use."""

    name: str
    trees: dict[str, ast.stmt]
    home: dict[str, Any]

    def edits(self) -> list[Edit]:
        """Every small edit, the most common first, those of the program itself before those of its helpers."""
        found = [(own != self.name, edit) for own, tree in self.trees.items() for edit in _edits(own, tree)]
        return [edit for _, edit in sorted(found, key=lambda each: each[0] * 2 + each[1].rank)]

    @property
    def loops(self) -> bool:
        """Whether an edit of it may run for ever."""
        return any(isinstance(node, ast.While) for tree in self.trees.values() for node in ast.walk(tree))

    def build(self, edits: Sequence[Edit]) -> Any:
        """The program with `edits` made. Raises whatever Python says of a program that is none."""
        home = dict(self.home)
        touched = dict.fromkeys(edit.function for edit in edits)
        for name in dict.fromkeys([*touched, self.name]):
            tree = _apply(self.trees[name], [edit for edit in edits if edit.function == name])
            module = ast.Module([tree], type_ignores=[])
            exec(compile(module, "<a slip>", "exec"), home)  # the course's own text, changed by the engine: nothing of a learner's
        return home[self.name]


def source_of(program: Any) -> Source | None:
    """The trees of a function, lambda or class and of the helpers in its own module, or None where there is no text."""
    if not isinstance(program, FunctionType | type):
        return None
    tree = _tree(program)
    if tree is None:
        return None
    home = _home(program)
    trees = {tree.name: tree}
    waiting: list[ast.AST] = [tree]
    while waiting and len(trees) <= MOST_HELPERS:
        for node in ast.walk(waiting.pop(0)):
            helper = home.get(node.id) if isinstance(node, ast.Name) else None
            if isinstance(helper, FunctionType) and node.id not in trees and _near(helper, program):
                found = _tree(helper)
                if found is not None and found.name == node.id:
                    trees[node.id] = found
                    waiting.append(found)
    return Source(tree.name, trees, home)


def _near(helper: FunctionType, program: Any) -> bool:
    """Whether the helper is of the same package as the program, and not of a library."""
    return (helper.__module__ or "").partition(".")[0] == (program.__module__ or "").partition(".")[0]


def _home(program: Any) -> dict[str, Any]:
    if isinstance(program, FunctionType):
        closed = inspect.getclosurevars(program).nonlocals if program.__closure__ else {}
        return {**program.__globals__, **closed}
    methods = [member for member in vars(program).values() if isinstance(member, FunctionType)]
    return dict(methods[0].__globals__) if methods else {}


def _tree(program: Any) -> Any:
    """The definition of a function or class, without documentation and annotations; a lambda is given a name."""
    if getattr(program, "__name__", "") == "<lambda>":
        return _lambda(program)
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(program))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return _Bare().visit(tree) if isinstance(tree, ast.FunctionDef | ast.ClassDef) else None


def _lambda(program: FunctionType) -> ast.FunctionDef | None:
    """The one lambda among those of a line that compiles to the same code."""
    try:
        with open(program.__code__.co_filename, encoding="utf-8") as file:
            whole = ast.parse(file.read())
    except (OSError, SyntaxError):
        return None
    for node in ast.walk(whole):
        if isinstance(node, ast.Lambda) and node.lineno == program.__code__.co_firstlineno:
            made = eval(compile(ast.fix_missing_locations(ast.Expression(copy.deepcopy(node))), "<a slip>", "eval"), {})
            if made.__code__.co_code == program.__code__.co_code and made.__code__.co_consts == program.__code__.co_consts:
                body: list[ast.stmt] = [ast.Return(node.body)]
                return ast.fix_missing_locations(ast.FunctionDef("answer", node.args, body, [], lineno=1, col_offset=0))
    return None


class _Bare(ast.NodeTransformer):
    """Takes away what does nothing: docstrings, annotations."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.generic_visit(node)
        node.returns = None
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        if len(node.body) > 1 and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
            node.body = node.body[1:]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return node if node.value is None else ast.copy_location(ast.Assign([node.target], node.value), node)


def _apply(tree: ast.stmt, edits: Sequence[Edit]) -> ast.stmt:
    changed: ast.stmt = _copied(tree, {id(edit.node): edit.change for edit in edits})
    return changed


def _copied(node: Any, changes: dict[int, Change]) -> Any:
    """A copy of the tree in which the nodes of `changes` are changed; a statement may become none or several."""
    if isinstance(node, list):
        parts = [_copied(part, changes) for part in node]
        return [one for part in parts for one in (part if isinstance(part, list) else [part])]
    if not isinstance(node, ast.AST):
        return node
    new = node.__class__.__new__(node.__class__)
    new.__dict__.update({name: _copied(value, changes) if isinstance(value, ast.AST | list) else value for name, value in vars(node).items()})
    change = changes.get(id(node))
    if change is None:
        return new
    made = change(new)
    for one in made if isinstance(made, list) else [made]:
        ast.fix_missing_locations(ast.copy_location(one, new))
    return made


# ------------------------------------------------------------------------------------------ which edits there are


def quote(node: ast.AST) -> str:
    """The code of a node, if it is short."""
    text = ast.unparse(node)
    return f"`{text}`" if len(text) <= LONG else f"`{text[: LONG - 2]}…`"


def _edits(function: str, tree: ast.AST) -> Iterator[Edit]:
    inside = _parents(tree)
    names = _names(tree)
    for node in ast.walk(tree):
        for rank, change, says in _of_node(node, inside, names):
            yield Edit(function, node, change, says, rank)


def _parents(tree: ast.AST) -> dict[int, ast.AST]:
    return {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _names(tree: ast.AST) -> list[str]:
    """The parameters and variables of a program, which can be mistaken for one another."""
    found = [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and node.arg != "self"]
    found += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return list(dict.fromkeys(found))


Slip = tuple[int, Change, str]


def _of_node(node: ast.AST, inside: dict[int, ast.AST], names: Sequence[str]) -> Iterator[Slip]:
    if isinstance(node, ast.BinOp):
        yield from _of_operation(node)
    elif isinstance(node, ast.UnaryOp):
        yield from _of_sign(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _of_comparison(node)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield from _of_attribute(node, inside)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node, inside)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from _of_name(node, inside, names)
    elif isinstance(node, ast.Slice):
        yield from _of_slice(node, inside)
    elif isinstance(node, ast.BoolOp):
        for kept in range(len(node.values)):
            if len(node.values) == 2:
                yield 4, lambda n, kept=kept: n.values[kept], f"looked at {quote(node.values[kept])} alone, not at {quote(node.values[1 - kept])}"
    elif isinstance(node, ast.IfExp):
        yield 3, lambda n: n.body, f"took {quote(node.body)} in every case, also where {quote(node.test)} is false"
        yield 3, lambda n: n.orelse, f"took {quote(node.orelse)} in every case, also where {quote(node.test)} is true"
    elif isinstance(node, ast.stmt):
        yield from _of_statement(node)


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
        word = {"2": f"did not square {left}", "0.5": f"took no square root of {left}"}
        yield 0, lambda n: n.left, word.get(ast.unparse(node.right), f"did not raise {left} to the power {right}")
        yield 5, lambda n: ast.BinOp(n.right, n.op, n.left), f"took the power the wrong way round: {right} to the power {left}"
        return
    if kind not in _LOST:
        return
    yield 0, lambda n: n.left, _LOST[kind].format(right)
    if kind in (ast.Mult, ast.Add, ast.MatMult, ast.BitAnd, ast.BitOr):
        yield 1, lambda n: n.right, _LOST[kind].format(left)
    elif kind in (ast.Sub, ast.Div):
        lost = f"kept {right} alone, without its minus and without {left}" if kind is ast.Sub else f"kept {right} alone of {quote(node)}"
        yield 6, lambda n: n.right, lost
    if kind in (ast.Sub, ast.Div, ast.MatMult):
        words = {
            ast.Sub: f"took the difference the other way round: {right} minus {left}",
            ast.Div: f"have the quotient upside down: {right} over {left}",
            ast.MatMult: f"multiplied the matrices in the other order: {right} before {left}",
        }
        yield 2, lambda n: ast.BinOp(n.right, n.op, n.left), words[kind]
    other, words = _OTHER[kind]
    yield 2, lambda n: ast.BinOp(n.left, other(), n.right), words.format(right)
    if kind is ast.FloorDiv:
        yield 3, lambda n: ast.BinOp(n.left, ast.Div(), n.right), f"did not round {quote(node)} down"
    if kind in (ast.Mult, ast.Div):
        yield 3, lambda n: ast.BinOp(n, n.op, copy.deepcopy(n.right)), f"{'multiplied' if kind is ast.Mult else 'divided'} by {right} twice"
        yield 4, lambda n: ast.BinOp(n.left, n.op, ast.BinOp(n.right, ast.Pow(), ast.Constant(0.5))), f"took the square root of {right}"


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
        yield place + 1, lambda n, other=other: ast.Compare(n.left, [other()], n.comparators), f"compared {left} with {right} by `{sign}`"


_RENAMED = {
    "max": ("min",), "min": ("max",), "amax": ("amin",), "amin": ("amax",), "sum": ("mean",), "mean": ("sum",), "all": ("any",),
    "any": ("all",), "argmax": ("argmin",), "argmin": ("argmax",), "tril": ("triu",), "triu": ("tril",), "cos": ("sin",),
    "sin": ("cos",), "maximum": ("minimum",), "minimum": ("maximum",), "floor": ("ceil", "round"), "ceil": ("floor", "round"),
    "repeat_interleave": ("repeat",), "repeat": ("tile",), "tile": ("repeat",), "var": ("std",), "std": ("var",), "zeros": ("ones",),
    "ones": ("zeros",), "zeros_like": ("ones_like",), "ones_like": ("zeros_like",), "log": ("log2", "log10"), "log2": ("log",),
    "sqrt": ("square",), "softmax": ("log_softmax",), "clip": ("abs",), "searchsorted": ("digitize",), "stack": ("concatenate",),
}  # fmt: skip


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""


def _of_call(node: ast.Call) -> Iterator[Slip]:
    name = _called(node)
    for other in _RENAMED.get(name, ()):
        yield 1, lambda n, other=other: _renamed(n, other), f"took `{other}` where `{name}` belongs, in {quote(node)}"
    module = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id in _MODULES
    if isinstance(node.func, ast.Attribute) and not module and name not in ("append", "items", "keys"):
        yield 1, lambda n: n.func.value, f"left out `.{name}(…)` in {quote(node)}"
    elif node.args and not isinstance(node.args[0], ast.Starred) and name not in ("range", "len", "enumerate", "zip", "list", "tuple"):
        if len(node.args) == 1 or name in ("softmax", "maximum", "minimum", "clip", "clamp"):
            yield 1, lambda n: n.args[0], f"left out `{name}`, in {quote(node)}"
    if len(node.args) >= 2 and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
        yield 3, lambda n: ast.Call(n.func, [n.args[1], n.args[0], *n.args[2:]], n.keywords), f"exchanged {quote(node.args[0])} and {quote(node.args[1])} in `{name}`"
        if name in ("max", "min", "maximum", "minimum"):
            yield 1, lambda n: n.args[1], f"took {quote(node.args[1])} always, where the {name[:3]}imum with {quote(node.args[0])} belongs"
    if name == "where" and len(node.args) == 3:
        for kept in (1, 2):
            yield 1, lambda n, kept=kept: n.args[kept], f"took {quote(node.args[kept])} everywhere, whatever {quote(node.args[0])} says"
        yield 2, lambda n: ast.Call(n.func, [n.args[0], n.args[2], n.args[1]], n.keywords), f"took the two ways of {quote(node)} the wrong way round"
    for number, keyword in enumerate(node.keywords):
        if keyword.arg in ("axis", "dim"):
            for axis in (0, -1, -2, 1, None):
                value = ast.Constant(axis)
                if ast.unparse(value) != ast.unparse(keyword.value):
                    over = "over everything" if axis is None else f"over axis {axis}"
                    yield (
                        0, lambda n, number=number, value=value: _with_keyword(n, number, value),
                        f"took `{name}` {over} instead of axis {ast.unparse(keyword.value)}",
                    )  # fmt: skip
        elif keyword.arg in ("keepdims", "keepdim", "dtype", "device", "ddof", "correction", "unbiased", "enable_gqa", "diagonal", "offset"):
            yield 2, lambda n, number=number: ast.Call(n.func, n.args, n.keywords[:number] + n.keywords[number + 1 :]), f"left out `{keyword.arg}=` in `{name}`"
    if name == "range":
        count = ast.unparse(node.args[-1]) if len(node.args) < 3 else ""
        if count:
            at = len(node.args) - 1
            for step, words in ((1, "one step too many"), (-1, "one step too few")):
                yield 3, lambda n, at=at, step=step: _stepped(n, at, step), f"let the loop over {quote(node)} run {words}"
    if name in ("var", "std"):
        key = "ddof" if isinstance(node.func, ast.Attribute) and ast.unparse(node.func).startswith("np") else "correction"
        for value in (0, 1):
            yield 2, lambda n, key=key, value=value: _with_option(n, key, value), f"divided by {'n' if value == 0 else 'n − 1'} in `{name}`"


_MODULES = ("np", "torch", "math", "F", "numpy", "nn")


def _renamed(node: ast.Call, name: str) -> ast.Call:
    func = ast.Attribute(node.func.value, name, ast.Load()) if isinstance(node.func, ast.Attribute) else ast.Name(name, ast.Load())
    return ast.Call(func, node.args, node.keywords)


def _with_keyword(node: ast.Call, number: int, value: ast.expr) -> ast.Call:
    keywords = [*node.keywords]
    keywords[number] = ast.keyword(keywords[number].arg, value)
    return ast.Call(node.func, node.args, keywords)


def _with_option(node: ast.Call, key: str, value: object) -> ast.Call:
    kept = [keyword for keyword in node.keywords if keyword.arg not in ("ddof", "correction", "unbiased")]
    return ast.Call(node.func, node.args, [*kept, ast.keyword(key, ast.Constant(value))])  # type: ignore[arg-type]  # a number


def _stepped(node: ast.Call, at: int, step: int) -> ast.Call:
    args = [*node.args]
    args[at] = ast.BinOp(args[at], ast.Add(), ast.Constant(step))
    return ast.Call(node.func, args, node.keywords)


def _of_attribute(node: ast.Attribute, inside: dict[int, ast.AST]) -> Iterator[Slip]:
    if node.attr in ("T", "mT", "real"):
        yield 0, lambda n: n.value, f"did not transpose {quote(node.value)}"
    if node.attr == "inf" and not isinstance(inside.get(id(node)), ast.UnaryOp):
        yield 3, lambda n: ast.Constant(0.0), "put 0 where infinity belongs"


def _of_constant(node: ast.Constant, inside: dict[int, ast.AST]) -> Iterator[Slip]:
    value, parent = node.value, inside.get(id(node))
    where = parent
    if isinstance(parent, ast.UnaryOp) and isinstance(inside.get(id(parent)), ast.AST):
        where = inside[id(parent)]
    if isinstance(parent, ast.keyword) and parent.arg in ("axis", "dim") or where is None:
        return
    around = quote(where) if isinstance(where, ast.expr) else ""
    words = f", in {around}" if around else ""
    if isinstance(value, bool):
        name = f"`{parent.arg}={not value}`" if isinstance(parent, ast.keyword) else f"`{not value}`"
        yield 2, lambda n: ast.Constant(not n.value), f"said {name} where `{value}` belongs"
    elif isinstance(value, int | float):
        sign = -1 if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub) else 1
        options: list[Any] = [value + 1, value - 1, 2 * value, 0] if isinstance(value, int) else [2 * value, value / 2, 1.0 - value, 0.0]
        if sign == -1 and isinstance(value, int):
            options = [2 if value == 1 else 1, 0, -1, -2] if value <= 3 else options
        if isinstance(value, float) and abs(value) >= 1e3:
            options += [value / 1000, value * 1000, value / 10]
        if value in (1e9, 2**30, 10**9):
            options.append(2**30 if value != 2**30 else 1e9)
        for other in dict.fromkeys(options):
            if other != value:
                rank = 3 if abs(value) != 1 or isinstance(where, ast.Subscript | ast.Call) else 4
                shown = f"{sign * other:g}" if isinstance(other, float) else f"{sign * other}"
                yield rank, lambda n, other=other: ast.Constant(other), f"wrote {shown} where {sign * value} belongs{words}"


def _of_name(node: ast.Name, inside: dict[int, ast.AST], names: Sequence[str]) -> Iterator[Slip]:
    parent = inside.get(id(node))
    if node.id not in names or (isinstance(parent, ast.Call) and parent.func is node):
        return
    around = f", in {quote(parent)}" if isinstance(parent, ast.expr) else ""
    for other in names:
        if other != node.id:
            yield 4, lambda n, other=other: ast.Name(other, ast.Load()), f"took `{other}` where `{node.id}` belongs{around}"


def _of_slice(node: ast.Slice, inside: dict[int, ast.AST]) -> Iterator[Slip]:
    around = quote(inside[id(node)])
    for name in ("lower", "upper"):
        bound = getattr(node, name)
        if bound is None:
            continue
        words = "begin" if name == "lower" else "end"
        yield 4, lambda n, name=name: ast.Slice(**{**vars_of(n), name: None}), f"let {around} run to its {words}, without a bound"
        for step in (1, -1):
            if not isinstance(bound, ast.Constant | ast.UnaryOp):
                yield (
                    4, lambda n, name=name, step=step: ast.Slice(**{**vars_of(n), name: ast.BinOp(getattr(n, name), ast.Add(), ast.Constant(step))}),
                    f"let {around} {words} one {'later' if step > 0 else 'earlier'}",
                )  # fmt: skip


def vars_of(node: ast.Slice) -> dict[str, Any]:
    """The three parts of a slice."""
    return {"lower": node.lower, "upper": node.upper, "step": node.step}


def _of_statement(node: ast.stmt) -> Iterator[Slip]:
    if isinstance(node, ast.AugAssign):
        target = quote(node.target)
        yield 1, lambda n: ast.Pass(), f"left out the step {quote(node)}"
        yield 1, lambda n: ast.Assign([_stored(n.target)], n.value), f"overwrote {target} where it should be changed by {quote(node.value)}"
    elif isinstance(node, ast.Assign):
        target = ast.unparse(node.targets[0])
        if "." in target or "[" in target:
            yield 1, lambda n: ast.Pass(), f"did not set `{target}`"
        elif isinstance(node.targets[0], ast.Name) and any(
            isinstance(part, ast.Name) and part.id == target for part in ast.walk(node.value)
        ):
            yield 1, lambda n: ast.Pass(), f"left out the step {quote(node)}"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if "__init__" not in ast.unparse(node):
            yield 1, lambda n: ast.Pass(), f"left out the step {quote(node)}"
    elif isinstance(node, ast.If):
        yield 2, lambda n: n.orelse or ast.Pass(), f"left out what is to be done if {quote(node.test)}"  # type: ignore[return-value]  # statements
        yield 2, lambda n: n.body, f"did always what is to be done only if {quote(node.test)}"
    elif isinstance(node, ast.Raise):
        yield 1, lambda n: ast.Pass(), f"raised no error: {quote(node)}"
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) <= 4:
        yield from _of_results(node.value)


def _stored(target: Any) -> Any:
    return target


def _of_results(results: ast.Tuple) -> Iterator[Slip]:
    count = len(results.elts)
    for one in range(count):
        yield 1, lambda n, one=one: ast.Return(n.value.elts[one]), f"returned {quote(results.elts[one])} alone, without the rest"
        for two in range(one + 1, count):
            yield 0, lambda n, one=one, two=two: ast.Return(_exchanged(n.value, one, two)), f"returned the results in another order: {quote(results.elts[one])} and {quote(results.elts[two])} have changed places"


def _exchanged(results: ast.Tuple, one: int, two: int) -> ast.Tuple:
    parts = [*results.elts]
    parts[one], parts[two] = parts[two], parts[one]
    return ast.Tuple(parts, ast.Load())
