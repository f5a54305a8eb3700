"""Read the text of a program and of its helpers as syntax trees, and build the program again from edited trees.

In: a function, lambda or class that is defined in Python. Out: a `Source`. One or two small edits of it make a program that a
learner might write by mistake. So a slip is recognised by what it does, in every exercise, and nobody has to list it.
"""

import ast
import copy
import inspect
import re
import sysconfig
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from autograder.judging.fact import Fact, fact

MOST_HELPERS = 6
_STDLIB = sysconfig.get_paths()["stdlib"]
ANSWER = "answer"  # the name that a lambda is given

LONG = 56  # only the beginning of a longer piece of code is quoted

Change = Callable[..., Any]
Slip = tuple[int, Change, Fact]  # how rare it is (0: common), the change of a node, and the fact that completes "You …"


@dataclass(frozen=True)
class Edit:
    """A `change` of `node` in the tree of `function`. The fact `what` completes "You …". A low `rank` means a common slip."""

    function: str
    node: ast.AST
    change: Change
    what: Fact | None  # None for an edit that is described by quoting the learner's own code
    rank: int


@dataclass(frozen=True)
class Source:
    """A program as syntax trees: its own tree under its `name`, and those of its helpers. `home` has the names that they use."""

    name: str
    trees: dict[str, ast.stmt]
    home: dict[str, Any]
    elsewhere: dict[str, dict[str, Any]]  # for each helper from another module, the names that it uses

    @property
    def loops(self) -> bool:
        """Return whether an edit may make the program run forever, because it has a `while` loop."""
        return any(isinstance(node, ast.While) for tree in self.trees.values() for node in ast.walk(tree))

    def build(self, edits: Sequence[Edit]) -> Any:
        """Return the program with `edits` made. Raises whatever Python raises if the edited text is not a valid program."""
        home = dict(self.home)
        touched = dict.fromkeys(edit.function for edit in edits)
        for name in dict.fromkeys([*touched, self.name]):
            tree = applied(self.trees[name], [edit for edit in edits if edit.function == name])
            module = ast.Module([tree], type_ignores=[])
            place = dict(self.elsewhere[name]) if name in self.elsewhere else home
            # the course's own text or, only in a learner's own process, the learner's (`diagnosis.repair.answer_source`)
            exec(compile(module, "<a slip>", "exec"), place)
            home[name] = place[name]
        return home[self.name]


def quote(node: ast.AST) -> str:
    """Return the code of a node, or its beginning, as a learner would write it: without `ref.`, which their notebook lacks."""
    text = re.sub(r"\bref\.", "", ast.unparse(node))
    return text if len(text) <= LONG else f"{text[: LONG - 2]}…"


def placed(what: Fact, node: ast.AST) -> Fact:
    """Return the fact together with the piece of code that it is about."""
    return fact("slip.place", what=what, code=quote(node))


def plain_slip(what: Fact) -> Fact:
    """Return the fact without the places that were put around it.

    >>> plain_slip(placed(fact("slip.divided", code="d"), ast.parse("x / d"))).key
    'slip.divided'
    """
    while what.key.startswith("slip.place") and isinstance(inner := what["what"], Fact):
        what = inner
    return what


def source_of(program: Any) -> Source | None:
    """Return the trees of a function, lambda or class and of the helpers that it uses, or None if its text is not available."""
    if not isinstance(program, FunctionType | type):
        return None
    tree = _tree(program)
    if tree is None:
        return None
    home = _home(inspect.unwrap(program) if isinstance(program, FunctionType) else program)
    trees, elsewhere = {tree.name: tree}, dict[str, dict[str, Any]]()
    waiting: list[ast.AST] = [tree]
    while waiting and len(trees) <= MOST_HELPERS:
        for node in undecorated(waiting.pop(0)):
            name = node.id if isinstance(node, ast.Name) else ""
            helper = home.get(name)
            if isinstance(helper, FunctionType) and name not in trees and _near(helper, program):
                found = _tree(helper)
                if found is not None and found.name in (name, ANSWER):
                    found.name = name  # a lambda gets the name under which it is called
                    trees[name] = found
                    if helper.__module__ != program.__module__:
                        elsewhere[name] = helper.__globals__
                    waiting.append(found)
    return Source(tree.name, trees, home, elsewhere)


def undecorated(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of a program without those of its decorators, which are not part of what it computes."""
    decorators = {id(part) for node in ast.walk(tree) for part in getattr(node, "decorator_list", [])}
    watching = {id(inner) for node in ast.walk(tree) if id(node) in decorators for inner in ast.walk(node)}
    return [node for node in ast.walk(tree) if id(node) not in watching]


def _near(helper: FunctionType, program: Any) -> bool:
    """Return whether the helper is the course's own: in the program's top-level package, or not in an installed library."""
    same = (helper.__module__ or "").partition(".")[0] == (program.__module__ or "").partition(".")[0]
    place = helper.__code__.co_filename
    return same or not ("site-packages" in place or place.startswith((_STDLIB, "<")))


def _home(program: Any) -> dict[str, Any]:
    if isinstance(program, FunctionType):
        closed = inspect.getclosurevars(program).nonlocals if program.__closure__ else {}
        return {**program.__globals__, **closed}
    methods = [member for member in vars(program).values() if isinstance(member, FunctionType)]
    return dict(methods[0].__globals__) if methods else {}


def _tree(program: Any) -> Any:
    """Return the definition of a function, class or lambda without docstrings and annotations, or None without its text."""
    if getattr(program, "__name__", "") == "<lambda>":
        return _lambda(program)
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(program))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return Bare().visit(tree) if isinstance(tree, ast.FunctionDef | ast.ClassDef) else None


def _lambda(program: FunctionType) -> ast.FunctionDef | None:
    """Return a lambda as a function called `ANSWER`, found among the lambdas on its line by its compiled code; else None."""
    try:
        with open(program.__code__.co_filename, encoding="utf-8") as file:
            whole = ast.parse(file.read())
    except (OSError, SyntaxError):
        return None
    for node in ast.walk(whole):
        if isinstance(node, ast.Lambda) and node.lineno == program.__code__.co_firstlineno:
            expression = ast.fix_missing_locations(ast.Expression(copy.deepcopy(node)))
            code, wanted = eval(compile(expression, "<a slip>", "eval"), {}).__code__, program.__code__
            if code.co_code == wanted.co_code and code.co_consts == wanted.co_consts:
                body: list[ast.stmt] = [ast.Return(node.body)]
                return ast.fix_missing_locations(ast.FunctionDef(ANSWER, node.args, body, [], lineno=1, col_offset=0))
    return None


class Bare(ast.NodeTransformer):
    """Removes what has no effect: docstrings and annotations."""

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


def applied(tree: Any, edits: Sequence[Edit]) -> Any:
    """Return a part of a program with `edits` made in it: a node, or a list of the statements that a statement becomes."""
    if not hasattr(tree, "parents"):
        tree.parents = parents(tree)  # found once for each tree
    inside: dict[int, ast.AST] = tree.parents
    above, changes = set[int](), {id(edit.node): edit.change for edit in edits}
    for edit in edits:
        node: ast.AST | None = edit.node
        while node is not None and id(node) not in above:
            above.add(id(node))
            node = inside.get(id(node))
    return _copied(tree, changes, above)


def with_parts(node: Any, **parts: Any) -> Any:
    """Return a new node like `node`, with other `parts`."""
    return type(node)(**{**dict(ast.iter_fields(node)), **parts})


def plus(node: ast.expr, step: int) -> ast.BinOp:
    """Return the sum of an expression and a number."""
    return ast.BinOp(node, ast.Add(), ast.Constant(step))


def parents(tree: ast.AST) -> dict[int, ast.AST]:
    """Return the parent of each node by the node's `id`."""
    return {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _copied(node: Any, changes: dict[int, Change], above: set[int]) -> Any:
    """Return the tree with `changes` made, copying only the nodes in `above`. A statement may become none or several."""
    if isinstance(node, list):
        parts = [_copied(part, changes, above) for part in node]
        return [statement for part in parts for statement in (part if isinstance(part, list) else [part])]
    if id(node) not in above:
        return node
    new = node.__class__.__new__(node.__class__)
    for name, value in vars(node).items():
        setattr(new, name, _copied(value, changes, above) if isinstance(value, ast.AST | list) else value)
    change = changes.get(id(node))
    if change is None:
        return new
    changed = change(new)
    for part in changed if isinstance(changed, list) else [changed]:
        ast.fix_missing_locations(ast.copy_location(part, new))
    return changed
