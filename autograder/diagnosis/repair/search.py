"""Try small changes of an answer until every check passes: one change, or two in different places.

In: an exercise, the learner's function or class, and the judged cases. Out: a `Diagnosis`, or None. A diagnosis of one change is
true by construction, because with that change alone every check passes. Two changes are tried only if the first one helps: if
the program then makes one known mistake or raises a different error, or if something wrong becomes right.
"""

import ast
import contextlib
import copy
import functools
import io
import itertools
import math
import time
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autograder.diagnosis.finding import Also, Diagnosis
from autograder.diagnosis.from_checks import partial_findings
from autograder.diagnosis.known_mistakes import evidence, expected_evidence, match_listed, match_unlisted, one_number
from autograder.diagnosis.outcome import values
from autograder.diagnosis.repair.answer_source import NoProgramError, Written, source_of
from autograder.diagnosis.repair.describe_change import describe_repair
from autograder.diagnosis.repair.insertions import changes
from autograder.diagnosis.thresholds import ASKED, ASKED_AGAIN, HELPING, LITTLE, LONGEST, PATIENCE, SECONDS, SURE
from autograder.judging.behaviour import shown
from autograder.judging.call_answer import bare, observe, observe_within
from autograder.judging.compare import close, judge, mismatch
from autograder.judging.exercise import Tolerance
from autograder.judging.fingerprint import LENGTH, alike_each, fingerprint
from autograder.judging.observation import Observation
from autograder.judging.records import PAIR, UNLISTED, CaseRecord, CaseResult, ExerciseRecord
from autograder.judging.values import Array, EncodedValue, decode
from autograder.mutants.course_operators import installed
from autograder.mutants.source import Edit, applied

Change = tuple[Edit, ...]  # one small change, at one place or at every place with the same code
HEALS = -2.0  # the rank of a change that fixes at least the first failing case


@dataclass
class _Search:
    """The exercise, the code, and the cases in the order in which they are tried: the smallest failing case first."""

    exercise: ExerciseRecord
    source: Written
    order: list[int]
    results: Sequence[CaseResult]  # the verdicts on the unchanged answer
    begun: tuple[float, float] = field(default_factory=lambda: (time.process_time(), time.perf_counter()))
    helping: list[tuple[float, Change]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loops = self.source.loops

    @property
    def before(self) -> Observation:
        """Return what the unchanged answer does in the first case."""
        return self.results[self.order[0]].observation

    @functools.cached_property
    def cases(self) -> list[CaseRecord]:
        return [self.exercise.cases[index] for index in self.order]

    @functools.cached_property
    def known(self) -> Array:
        """Return what known mistakes and single slips do in the first case, as one fingerprint per row."""
        first = self.cases[0]
        rows = [fingerprint(observation) for observation in first.mistakes.values()]
        rows += [row for name, row in first.near.items() if PAIR not in name]
        return np.stack([row for row in rows if row is not None] or [np.full(LENGTH, np.nan, np.float32)])

    def run(self, answer: Any, record: CaseRecord, how: Any = bare) -> Observation:
        if self.loops:
            return observe_within(LONGEST, answer, record.probe, how=how)
        observation: Observation = how(answer, record.probe)
        return observation

    @property
    def over(self) -> bool:
        """Return whether the time is up: `SECONDS` of the processor, or `PATIENCE` by the clock."""
        processor, clock = self.begun
        return time.process_time() - processor >= SECONDS or time.perf_counter() - clock > PATIENCE

    def has_a_length_of_one(self, change: Change) -> bool:
        """Return whether the change replaces a length by one that is 1 in every case, so that the cases cannot prove it right."""
        return any(self._is_one_everywhere(after) for edit in change if (after := self._length_after(edit)) is not None)

    def _length_after(self, edit: Edit) -> ast.expr | None:
        """Return the length, such as `X.shape[-2]`, that the edit makes of the length around its place; None if there is none."""
        around = {id(part): node for node in ast.walk(self.source.trees[edit.function]) for part in ast.iter_child_nodes(node)}
        node: ast.AST | None = edit.node
        for _ in range(3):  # from `X`, or `-2`, to `X.shape[-2]`
            if node is not None and not _is_length(node):
                node = around.get(id(node))
        after = applied(node, [edit]) if node is not None and _is_length(node) else None
        return after if isinstance(after, ast.expr) and _is_length(after) else None

    def _is_one_everywhere(self, length: ast.expr) -> bool:
        code = ast.unparse(length)
        try:
            return all(eval(code, {"__builtins__": {}, "len": len}, decode(case.probe.inputs)) == 1 for case in self.cases)
        except Exception:  # the length of an intermediate value, which is not among the inputs
            return False

    def program(self, change: Change) -> Any | None:
        """Return the answer with the change made, or None if that is not a program."""
        try:
            return self.source.build(change)
        except NoProgramError:
            return None

    def passes(self, change: Change, *, single: bool) -> bool:
        """Return whether every check passes with the change. With `single`, a change that only helps is remembered."""
        answer = self.program(change)
        if answer is None:
            return False
        observation = self.run(answer, self.cases[0])
        if mismatch(self.exercise, self.cases[0], observation) is not None:
            if single:
                self._remember(change, observation)
            return False
        for right, record in enumerate(self.cases[1:], start=1):
            if mismatch(self.exercise, record, self.run(answer, record)) is not None:
                if single:
                    self.helping.append((-1.0 - right, change))
                return False
        return judge(self.exercise, [self.run(answer, record, observe) for record in self.exercise.cases]).passed

    def _remember(self, change: Change, observation: Observation) -> None:
        if observation.failure is not None:
            old = self.before.failure
            if old is not None and (old.type, old.message) != (observation.failure.type, observation.failure.message):
                self.helping.append((0.0, change))  # a different error may be one step further
            return
        numbers = fingerprint(shown(self.exercise.behaviour, observation, self.cases[0].probe))
        if numbers is None:
            return
        if alike_each(self.known, numbers, self.exercise.tolerance).any():
            self.helping.append((-0.5, change))
        elif self._right(observation) > self._right(self.before) + 0.1:
            self.helping.append((-1.0, change))

    def _right(self, observation: Observation) -> float:
        """Return how much of the first case's result is right: the sum over its outputs of the shares of right entries."""
        got = values(shown(self.exercise.behaviour, observation, self.cases[0].probe))
        return sum(_share(want, got.get(path), self.exercise.tolerance) for path, want in values(self.cases[0].expected).items())


def _share(want: object, got: object, tolerance: Tolerance) -> float:
    if isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        return float(close(want, got, tolerance).mean()) if want.shape == got.shape and want.size else 0.0
    return float(type(want) is type(got) and want == got)


def find_repair(exercise: ExerciseRecord, answer: Any, results: Sequence[CaseResult]) -> Diagnosis | None:
    """Find one or two changes that make a wrong answer right, and return them as a diagnosis; None if there are none."""
    if one_number(exercise):
        return None
    here = [place for place, case in enumerate(exercise.cases) if not case.probe.elsewhere]
    if len(here) < len(results) and any(not results[place].passed for place in here):
        return _on_one_device(exercise, answer, results, here)
    failures = [result.observation.failure for result in results if result.observation.failure is not None]
    if any(failure.kind not in ("raised", "unfit") for failure in failures):
        return None
    source = source_of(answer)
    if source is None:
        return None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            return _search_changes(exercise, source, results)


def _on_one_device(exercise: ExerciseRecord, answer: Any, results: Sequence[CaseResult], here: Sequence[int]) -> Diagnosis | None:
    """Find a repair for the cases on the usual device, and add what goes wrong on another device.

    Tensors made on the wrong device are a common second mistake, which must not hide the first one.
    """
    diagnosis = find_repair(_with_cases(exercise, here), answer, [results[place] for place in here])
    there = [place for place in range(len(results)) if place not in here and not results[place].passed]
    if diagnosis is None or not there:
        return diagnosis
    besides = partial_findings(_with_cases(exercise, there), [results[place] for place in there])
    return replace(diagnosis, findings=(*diagnosis.findings, *(Also(part.proof) for part in besides)))


def _with_cases(exercise: ExerciseRecord, places: Sequence[int]) -> ExerciseRecord:
    return replace(exercise, cases=[exercise.cases[place] for place in places])


def _search_changes(exercise: ExerciseRecord, source: Written, results: Sequence[CaseResult]) -> Diagnosis | None:
    order = sorted(range(len(results)), key=lambda i: (results[i].passed, results[i].size, i))
    search = _Search(exercise, source, order, results)
    inputs = exercise.cases[order[0]].probe.inputs
    grouped = _grouped(changes(source, inputs, installed(exercise.operators)), inputs.items())
    tried = list(itertools.islice(grouped, ASKED))
    bits, missed = expected_evidence(exercise, results), expected_evidence(exercise, results, missed=True)
    for number, change in enumerate(tried):
        if search.over:
            break
        if (
            search.passes(change, single=True)
            and not search.has_a_length_of_one(change)
            and missed - math.log2(1 + number) >= LITTLE
        ):
            return describe_repair(source, [change])  # if the results say little, one of many changes passes by accident
    helping = sorted(search.helping, key=lambda helper: helper[0])[:HELPING]
    if bits - math.log2(1 + len(helping) * min(len(tried), ASKED_AGAIN)) < SURE:
        return None  # among so many pairs, one reaches a few small numbers by accident
    for _, first in helping:
        for second in [change for change in tried if _apart(first, change)][:ASKED_AGAIN]:
            if search.over:
                break
            if search.passes((*first, *second), single=False):
                return describe_repair(source, [first, second], _remaining_mistake(search, first))
    return _with_a_mistake_remaining(search, helping, len(tried))


def _with_a_mistake_remaining(search: _Search, helping: Sequence[tuple[float, Change]], tried: int) -> Diagnosis | None:
    """Find a change that fixes some cases or one factor, such that a known mistake explains everything that remains."""
    pairs = list(zip(search.exercise.cases, search.results, strict=True))
    inputs = search.cases[0].probe.inputs
    for score, first in helping:
        heals = score <= HEALS
        if not heals and (not _is_factor(first, inputs) or _repeated(search.source, first)):
            continue
        remaining = _remaining_mistake(search, first, heals=heals)
        if remaining is None or remaining.known[0].id.startswith(UNLISTED):
            continue
        bits = expected_evidence(search.exercise, search.results, missed=True) if heals else evidence(pairs)
        if bits - math.log2(tried) >= SURE:
            return describe_repair(search.source, [first], remaining)
    return None


def _is_length(node: ast.AST) -> bool:
    """Return whether code is a length: `X.shape[i]`, `X.size(i)` or `len(X)`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    return (isinstance(called, ast.Name) and called.id == "len") or (isinstance(called, ast.Attribute) and called.attr == "size")


def _is_factor(change: Change, inputs: EncodedValue) -> bool:
    """Return whether the change inserts, removes or replaces a single number as a factor, which can cause no other mistake."""
    kinds = inputs.items()
    numbers = {name for name, value in kinds.items() if isinstance(value.content, int | float)}
    arrays = set(kinds) - numbers
    for edit in change:
        after = edit.change(copy.deepcopy(edit.node))
        if isinstance(edit.node, ast.Name) and isinstance(after, ast.Name):
            if after.id not in numbers:
                return False
            continue
        if not isinstance(after, ast.AST):
            return False  # several steps
        larger = after if len(ast.dump(after)) > len(ast.dump(edit.node)) else edit.node
        if not (
            isinstance(larger, ast.BinOp) and isinstance(larger.op, ast.Mult | ast.Div) and _scalar(larger.right, numbers, arrays)
        ):
            return False
    return True


def _repeated(source: Written, change: Change) -> bool:
    """Return whether a change is inside a loop, where a factor is applied again in each round."""
    rounds = [node for tree in source.trees.values() for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    inside = {id(part) for node in rounds for part in ast.walk(node)}
    return any(id(edit.node) in inside for edit in change)


def _scalar(factor: ast.AST, numbers: Collection[str], arrays: Collection[str]) -> bool:
    """Return whether an expression is a number, made of constants, lengths, numeric inputs and their roots."""
    if isinstance(factor, ast.Name):
        return factor.id in numbers or (factor.id not in arrays and len(factor.id) <= 2 and factor.id.islower())
    if isinstance(factor, ast.Subscript):
        return ast.unparse(factor.value).endswith(".shape")
    if isinstance(factor, ast.BinOp):
        return _scalar(factor.left, numbers, arrays) and _scalar(factor.right, numbers, arrays)
    if isinstance(factor, ast.UnaryOp):
        return _scalar(factor.operand, numbers, arrays)
    if isinstance(factor, ast.Call) and len(factor.args) == 1 and not factor.keywords:
        called = ast.unparse(factor.func)
        return called == "len" or (called.endswith("sqrt") and _scalar(factor.args[0], numbers, arrays))
    return isinstance(factor, ast.Constant)


def _remaining_mistake(search: _Search, first: Change, *, heals: bool = False) -> Diagnosis | None:
    """Return the known mistake that remains after the change `first`, or None.

    If the change `heals`, a listed mistake needs no further evidence.
    """
    answer = search.program(first)
    if answer is None:
        return None
    cases = judge(search.exercise, [search.run(answer, record, observe) for record in search.exercise.cases]).cases
    if any(before.passed and not case.passed for before, case in zip(search.results, cases, strict=True)):
        return None  # the change itself causes what would be reported as remaining
    pairs = list(zip(search.exercise.cases, cases, strict=True))
    little = evidence(pairs) < SURE  # many mistakes give, for example, only zeros
    if little and not heals:
        return None
    mistake = match_listed(search.exercise, pairs)
    if mistake is None and not little:
        mistake = match_unlisted(search.exercise, pairs, single=True)
    return mistake if mistake is not None and mistake.certain else None


def _grouped(edits: Sequence[Edit], given: Collection[str]) -> Iterator[Change]:
    """Yield each change alone, and then the same change at every place with the same code."""
    alike: dict[object, list[Edit]] = {}
    for edit in edits:
        alike.setdefault(_kind(edit), []).append(edit)
    for edit in edits:
        yield (edit,)
        group = alike[_kind(edit)]
        if edit is group[0] and 2 <= len(group) <= 4 and not (isinstance(edit.node, ast.Name) and _local(edit, given)):
            yield tuple(group)


def _local(edit: Edit, given: Collection[str]) -> bool:
    """Return whether the change replaces a name by a local variable. Done everywhere, that would drop the other variable."""
    replacement = edit.change(edit.node)
    return isinstance(replacement, ast.Name) and replacement.id not in given


def _kind(edit: Edit) -> object:
    """Return what two changes share if a learner would make them together: everything but the names in them."""
    defaults = tuple(ast.unparse(d) if isinstance(d, ast.AST) else repr(d) for d in edit.change.__defaults__ or ())
    shape = edit.node.id if isinstance(edit.node, ast.Name) else _nameless(edit.node)
    return edit.function, edit.change.__code__, defaults, shape


def _nameless(node: ast.AST) -> object:
    return tuple(
        (type(part).__name__, getattr(part, "attr", ""), repr(part.value) if isinstance(part, ast.Constant) else "")
        for part in ast.walk(node)
    )


def _apart(first: Change, second: Change) -> bool:
    """Return whether two changes are in separate places, neither inside the other."""
    return not any(
        {id(edit.node) for edit in inner} & {id(part) for edit in outer for part in ast.walk(edit.node)}
        for outer, inner in ((first, second), (second, first))
    )
