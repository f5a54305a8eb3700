"""Find two mistakes one after the other: once a change makes the intermediate values right again, look for the next wrong ones.

In: the code of an answer and the changes that the search tries. Out: pairs of changes worth trying, the likely ones first.
"""

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from autograder.diagnosis.repair.answer_source import Written
from autograder.diagnosis.repair.first_wrong_step import Step, departures
from autograder.diagnosis.thresholds import MOST_FIRST, MOST_HEALING, MOST_SECOND
from autograder.judging.records import CaseRecord
from autograder.mutants.source import Edit, applied

Change = tuple[Edit, ...]  # one small change, at one place or at every place with the same code


def within(changes: Sequence[Change], steps: Sequence[Step]) -> list[Change]:
    """Return the changes that touch the lines of `steps`."""
    lines = frozenset[tuple[str, int]]().union(*(step.lines for step in steps))
    return [made for made in changes if any((edit.function, _line(edit)) in lines for edit in made)]


def _line(edit: Edit) -> int:
    return getattr(edit.node, "lineno", 0)


def _place(step: Step) -> tuple[str, int]:
    return step.function, step.node.lineno


def edited(source: Written, made: Change) -> Written:
    """Return the trees of the program with a change made."""
    trees = dict(source.trees)
    for name in dict.fromkeys(edit.function for edit in made):
        trees[name] = _unshared(applied(source.trees[name], [edit for edit in made if edit.function == name]))
        vars(trees[name]).pop("parents", None)  # cached for the tree before the change
    return replace(source, trees=trees)


def _unshared(node: Any) -> Any:
    """Return a copy in which no node occurs twice, because one change made in several places inserts the same node into each."""
    if isinstance(node, list):
        return [_unshared(part) for part in node]
    if not isinstance(node, ast.AST):
        return node
    made = copy.copy(node)
    for name, value in ast.iter_fields(node):
        setattr(made, name, _unshared(value))
    return made


def pairs(
    source: Written, record: CaseRecord, steps: Sequence[Step], changes: Sequence[Change]
) -> Iterator[tuple[Change, Change]]:
    """Yield each change that fixes the first step together with changes at the place where the numbers next become wrong."""
    healing = 0
    for first in within(changes, steps[:1])[:MOST_FIRST]:
        left = departures(record, edited(source, first))
        if not left or _place(steps[0]) in map(_place, left):
            continue
        there = {id(made) for made in within(changes, left[:1])}
        after = [made for made in changes if id(made) in there or _line(made[0]) > left[0].node.lineno]
        after.sort(key=lambda made: made[0].rank - (id(made) in there))  # common changes first, and those at that very place
        yield from ((first, second) for second in after[:MOST_SECOND])
        healing += 1
        if healing == MOST_HEALING:
            return
