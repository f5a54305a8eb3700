"""Describe a change of the learner's code: the line, what it says now, and what would pass the checks instead.

In: the code and the changes that repair it. Out: a `Diagnosis`.
"""

import ast
import copy
import difflib
import re
from collections.abc import Sequence
from typing import Any

from autograder.diagnosis.finding import Diagnosis, Fact, Mistake, Repaired, fact
from autograder.diagnosis.repair.kind_of_change import kind_of_change
from autograder.judging.records import UNLISTED
from autograder.mutants.source import LONG, Edit, Source, applied


def describe_repair(source: Source, changes: Sequence[tuple[Edit, ...]], remaining: Diagnosis | None = None) -> Diagnosis:
    """Return a diagnosis that describes the changes. `remaining` explains what is still wrong after the first of them."""
    if len(changes) == 2 and _place(source, changes[0]) is _place(source, changes[1]):
        changes, remaining = [(*changes[0], *changes[1])], None  # both changes are in one line, which is quoted once
    edits = tuple(_describe_edits(source, change) for change in changes)
    others: tuple[Mistake, ...] = remaining.known if remaining is not None else ()
    # a slip that nobody listed would be described in another program's code
    if not others or (len(edits) == 2 and others[0].id.startswith(UNLISTED)):
        return Diagnosis((Repaired(edits),), edits[:1])
    return Diagnosis((Repaired(edits, others),), (edits[0], *(mistake for mistake in others if mistake.id != edits[0].id)))


def _place(source: Source, change: Sequence[Edit]) -> object:
    """Return the piece of code that is quoted for a change."""
    place = _around(source.trees[change[0].function], change[0].node)
    return object() if isinstance(place, ast.stmt) and not _short(place) else place


def _describe_edits(source: Source, change: Sequence[Edit]) -> Fact:
    """Return a fact that describes one change. If it is made in several places, those outside the quoted code are counted."""
    edit = change[0]
    if isinstance(edit.node, ast.FunctionDef) and edit.what is not None:
        return edit.what
    tree = source.trees[edit.function]
    node = _around(tree, edit.node)
    if isinstance(node, ast.stmt) and not _short(node):
        return _of_lines(tree, edit)
    inside = {id(part) for part in ast.walk(node)}
    here = [other for other in change if other.function == edit.function and id(other.node) in inside]
    more = len(change) - len(here)
    also = fact("repair.elsewhere", count=more) if more else ""
    line = getattr(node, "lineno", getattr(tree, "lineno", 1))
    repaired = applied(node, here)
    before, after = _text(node), _text(repaired)
    if after in ("", "pass"):
        return fact("repair.surplus", before=before, line=line, also=also)
    kind = None if isinstance(repaired, list) else kind_of_change(_tidied(node), _tidied(repaired))
    why = fact("repair.why", what=kind) if kind is not None else ""
    return fact("repair.replaced", before=before, line=line, after=after, also=also, why=why)


def _of_lines(tree: ast.stmt, edit: Edit) -> Fact:
    """Return a fact about the lines that a change removes, inserts or exchanges."""
    before, after = (ast.unparse(part).splitlines() for part in (tree, applied(tree, [edit])))
    line = getattr(edit.node, "lineno", 1)
    if sorted(before) == sorted(after):
        first = next(number for number, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
        return fact("repair.order", first=after[first].strip(), second=before[first].strip())
    marked = list(difflib.ndiff(before, after))
    added, removed = ([text[2:].strip() for text in marked if text.startswith(sign)] for sign in "+-")
    if added == removed and len(added) == 1:
        return fact("repair.loop_end", code=added[0], line=line)
    if added and not removed:
        return fact("repair.lacking", line=line, code=added[0])
    if removed and (not added or removed[0].startswith(("if ", "elif ", "with ", "for ", "else"))):
        return fact("repair.surplus_block", code=removed[0], line=line)
    return fact("repair.block", before=removed[0] if removed else "…", line=line, after=added[0] if added else "…")


def _around(tree: ast.stmt, node: ast.AST) -> ast.AST:
    """Return the largest expression around a node that is short enough to quote."""
    inside = {id(child): parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    best = node
    while id(node) in inside:
        node = inside[id(node)]
        if isinstance(node, ast.stmt):
            return best if isinstance(best, ast.expr | ast.stmt) else node
        called = isinstance(node, ast.Call) and node.func is best  # quote a call with its arguments
        if isinstance(node, ast.expr) and (called or len(ast.unparse(node)) <= LONG):
            best = node
        elif isinstance(node, ast.expr) and isinstance(best, ast.expr):
            break
    return best


def _short(node: ast.stmt) -> bool:
    return "\n" not in ast.unparse(node)


def _text(node: ast.AST | list[ast.AST]) -> str:
    parts = node if isinstance(node, list) else [node]
    return "; ".join(_written(_tidied(part)) for part in parts)


def _written(node: ast.AST) -> str:
    """Return the code as people write it: without brackets around several values, and with 1e-5 for 1e-05."""
    several = node.value if isinstance(node, ast.Return) else node
    code = ast.unparse(node)
    if isinstance(several, ast.Tuple) and len(several.elts) > 1:
        code = ("return " if several is not node else "") + ", ".join(map(ast.unparse, several.elts))
    return re.sub(r"\b(\d(?:\.\d+)?)e-0(\d)\b", r"\1e-\2", code)


def _tidied(node: ast.AST) -> Any:
    return _Tidy().visit(copy.deepcopy(node))


class _Tidy(ast.NodeTransformer):
    """Removes a factor or divisor of 1 that a change has left behind."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        is_one = isinstance(node.right, ast.Constant) and type(node.right.value) is int and node.right.value == 1
        return node.left if is_one and isinstance(node.op, ast.Div | ast.Mult) else node
