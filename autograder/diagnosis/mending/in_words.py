"""A change of the learner's code in words: what stands there, in which line, and what passes the checks in its place.

In: the code and the changes that mend it. Out: a `Diagnosis`.
"""

import ast
import copy
import difflib
import re
from collections.abc import Sequence

from autograder.judging.near.programs import NEW
from autograder.judging.near.source import LONG, Edit, Source, applied
from autograder.judging.records import Diagnosis, Known

MENDED = "~mended"
_ONE = "With this change alone every check passes. Before you make it, say why it is right."
_EACH = "With this change in each of these places every check passes. Before you make it, say why it is right."
_PLACE = re.compile(r"have (`.*`) in line (\d+), where (`.*`) passes the checks( \(.*\))?")
_TWO = "With these changes alone every check passes. Before you make them, say why they are right."


def told(source: Source, changes: Sequence[tuple[Edit, ...]], left: Diagnosis | None = None) -> Diagnosis:
    """What the changes say of the code; `left` is what is known of it when the first of them is made."""
    if len(changes) == 2 and _place(source, changes[0]) is _place(source, changes[1]):
        changes, left = [(*changes[0], *changes[1])], None  # one line is quoted once, with both
    said = [_says(source, change) for change in changes]
    alone = _EACH if "(and the like in" in said[0] else _ONE
    knowns = [Known(MENDED, says, alone if len(said) == 1 else _TWO) for says in said]
    if left is not None and len(said) == 1:
        knowns = [Known(MENDED, said[0], "That change alone is not enough."), *left.known]
        fix = f"{left.advice} {knowns[0].fix}"
    elif left is not None and left.known and not left.known[0].id.startswith("~"):
        knowns[1] = Known(left.known[0].id, f"{left.known[0].says} ({said[1].removeprefix('have ')})", left.known[0].fix)
        fix = f"{knowns[1].fix} {knowns[0].fix}"
    else:
        fix = f"Exchange the two. {knowns[0].fix}" if said[0].startswith("take ") else knowns[0].fix
    headline = " And you ".join(f"{known.says}." for known in knowns)
    if len(said) == 2 and left is None and all(parts := [_PLACE.fullmatch(one) for one in said]):  # neither passes by itself
        places = "; and ".join(f"{part[3]} for {part[1]} in line {part[2]}{part[4] or ''}" for part in parts if part)
        return Diagnosis(f"Every check passes with two changes: {places}.", fix, tuple(knowns[:1]))
    if left is not None and left.known:  # it is not said that the two are two: one may be the other half of a replacement
        here, _, there = said[0].removesuffix(" passes the checks").partition(", where ")
        with_it = f"With {there} in its place" if there else "Without that"
        also = f" ({said[1].removeprefix('have ')})" if len(said) > 1 else ""
        supposed = " and if you ".join(known.briefly for known in left.known)
        headline = f"{here}. {with_it}, what is left is what comes out if you {supposed}{also}."
        if len(said) > 1 and left.known[0].id.startswith(NEW):  # told of the program of somebody else
            headline = f"{here}. {with_it}, what is left is {said[1].removeprefix('have ')}."
    return Diagnosis(f"You {headline}", fix, tuple({known.id: known for known in knowns}.values()))


def _place(source: Source, change: Sequence[Edit]) -> object:
    """The piece of code that is quoted for a change."""
    place = _around(source.trees[change[0].function], change[0].node)
    return object() if isinstance(place, ast.stmt) and not _short(place) else place


def _says(source: Source, change: Sequence[Edit]) -> str:
    """One change, which may be made in several places: all those in the piece of code that is quoted, and how many more."""
    edit = change[0]
    if isinstance(edit.node, ast.FunctionDef) and edit.says:
        return edit.says
    tree = source.trees[edit.function]
    node = _around(tree, edit.node)
    if isinstance(node, ast.stmt) and not _short(node):
        return _of_lines(tree, edit)
    inside = {id(part) for part in ast.walk(node)}
    here = [one for one in change if one.function == edit.function and id(one.node) in inside]
    more = len(change) - len(here)
    often = f" (and the like in {more} more place{'s' if more > 1 else ''})" if more else ""
    line = getattr(node, "lineno", getattr(tree, "lineno", 1))
    before, after = _text(node), _text(applied(node, here))
    if after in ("``", "`pass`"):
        return f"have {before} in line {line}, which does not belong there{often}"
    return f"have {before} in line {line}, where {after} passes the checks{often}"


def _of_lines(tree: ast.stmt, edit: Edit) -> str:
    """The lines that a change takes away, puts in, or exchanges."""
    before, after = (ast.unparse(part).splitlines() for part in (tree, applied(tree, [edit])))
    line = getattr(edit.node, "lineno", 1)
    if sorted(before) == sorted(after):
        first = next(number for number, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
        return f"take two steps in the wrong order: `{after[first].strip()}` has to come before `{before[first].strip()}`"
    marked = list(difflib.ndiff(before, after))
    new, gone = ([text[2:].strip() for text in marked if text.startswith(sign)] for sign in "+-")
    if new == gone and len(new) == 1:
        ends = "which ends it in its first turn; it belongs after the loop"
        return f"have `{new[0]}` inside the loop that begins in line {line}, {ends}"
    if new and not gone:
        return f"lack a step in the function of line {line}: `{new[0]}` at its beginning"
    if gone and (not new or gone[0].startswith(("if ", "elif ", "with ", "for ", "else"))):
        return f"have `{gone[0]}` in what begins in line {line}, which does not belong there"
    return f"have `{gone[0] if gone else '…'}` in what begins in line {line}, where `{new[0] if new else '…'}` passes the checks"


def _around(tree: ast.stmt, node: ast.AST) -> ast.AST:
    """The largest expression around a node that is short enough to be quoted."""
    inside = {id(child): parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    best = node
    while id(node) in inside:
        node = inside[id(node)]
        if isinstance(node, ast.stmt):
            if isinstance(best, ast.expr | ast.stmt):
                break
            best = node
            break
        called = isinstance(node, ast.Call) and node.func is best  # a call is quoted with its brackets
        if isinstance(node, ast.expr) and (called or len(ast.unparse(node)) <= LONG):
            best = node
        elif isinstance(node, ast.expr) and isinstance(best, ast.expr):
            break
    return best


def _short(node: ast.stmt) -> bool:
    return "\n" not in ast.unparse(node)


def _text(node: ast.AST | list[ast.AST]) -> str:
    parts = node if isinstance(node, list) else [node]
    return f"`{'; '.join(ast.unparse(_Tidy().visit(copy.deepcopy(part))) for part in parts)}`"


class _Tidy(ast.NodeTransformer):
    """Takes away a factor, or a divisor, of 1, which a change has left."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        is_one = isinstance(node.right, ast.Constant) and type(node.right.value) is int and node.right.value == 1
        return node.left if is_one and isinstance(node.op, ast.Div | ast.Mult) else node
