"""Explanations in parts: for each output, for each gradient, two factors at once.

In: an exercise and the judged cases, none of which raised. Out: a `Diagnosis`, or None.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from autograder.diagnosis.calls import call_at
from autograder.diagnosis.finding import Diagnosis, Fact, Finding, InGradient, InOutputs, Manner, Matched, fact
from autograder.diagnosis.known_mistakes import manner_of, worth
from autograder.diagnosis.outcome import Case, same_value, values, wrong_at
from autograder.diagnosis.relations.same_array import sizes
from autograder.diagnosis.relations.simple import relations
from autograder.diagnosis.thresholds import SURE
from autograder.judging.exercise import Tolerance
from autograder.judging.records import CaseRecord, ExerciseRecord, Known

VAGUE = {  # these say little: where a name is looked for they do not count
    "relation.one_factor", "relation.one_summand", "relation.elsewhere", "relation.factor_each", "relation.summand_each",
    "relation.one_number", "relation.same",
}  # fmt: skip


def by_output(exercise: ExerciseRecord, cases: Sequence[Case], *, vague: bool = False) -> Diagnosis | None:
    """Find a known mistake or a relation for each wrong part of the result.

    Gradients are explained only if all parts are right.
    """
    parts: list[tuple[str, Known | Fact]] = []
    paths = dict.fromkeys(path for record, _ in cases for path in values(record.expected))
    for path in paths:
        if any(wrong_at(path, case, exercise.tolerance) for case in cases):
            if (part := _part(exercise, path, cases, vague)) is None:
                return None
            parts.append((path, part))
    if not parts:
        return _gradient(exercise, cases)
    if (same := _same_relation(exercise, parts, cases)) is not None:
        parts = [(path, same) for path, _ in parts]
    names = list(dict.fromkeys(part for _, part in parts if isinstance(part, Known)))
    sure = len(names) < 2 or all(_worth(cases, [path for path, part in parts if part == name]) >= SURE for name in names)
    findings: list[Finding] = []
    for part in dict.fromkeys(part for _, part in parts):
        at = tuple(path for path, other in parts if other == part)
        whole = len(at) == len(paths)
        if whole and isinstance(part, Known):
            findings.append(Matched((part,), manner_of(cases) if sure else Manner.HEDGED))
        else:
            findings.append(InOutputs(() if whole else at, part, sure, _one_call(cases, at, exercise.tolerance)))
    return Diagnosis(tuple(findings), tuple(names), certain=sure)


def _same_relation(exercise: ExerciseRecord, parts: Sequence[tuple[str, Known | Fact]], cases: Sequence[Case]) -> Fact | None:
    """Return the one relation shared by all parts, if they are told differently only because their lengths differ."""
    if len({part for _, part in parts}) < 2 or not any(isinstance(part, Fact) for _, part in parts):
        return None
    found = [part if isinstance(part, Fact) else _relation(exercise, path, cases, vague=False) for path, part in parts]
    return _only({_without_count(relation) if relation is not None else None for relation in found})


def _only(found: set[Fact | None]) -> Fact | None:
    return found.pop() if len(found) == 1 else None


def _without_count(relation: Fact) -> Fact:
    """Return the relation without the number of entries, which differs from case to case."""
    which, _, end = relation.key.removeprefix("relation.").partition(".")
    if which not in ("too_few", "too_many", "only"):
        return relation
    return fact(f"relation.{which.replace('only', 'too_few')}.{end.partition('.')[0]}.some", axis=relation["axis"])


def _one_call(cases: Sequence[Case], paths: Sequence[str], tolerance: Tolerance) -> Fact | None:
    """Return the call of a class that returns all wrong parts at `paths`, wherever it is in the script; None if several do."""
    wrong = [(record, path) for path in paths for record, result in cases if wrong_at(path, (record, result), tolerance)]
    return _only({called[1] if (called := call_at(record.probe.inputs, path)) is not None else None for record, path in wrong})


def _worth(cases: Sequence[Case], paths: Sequence[str]) -> float:
    """Return how many bits the parts of the result at `paths` are worth. Chance alone reaches a small count or two."""
    seen = [values(result.observation) for _, result in cases if not result.passed]
    return sum(worth(found.get(path)) for found in seen for path in paths)


def _part(exercise: ExerciseRecord, path: str, cases: Sequence[Case], vague: bool) -> Known | Fact | None:
    """Return what explains the part of the result at `path` in every case in which it is wrong."""
    wrong = [case for case in cases if wrong_at(path, case, exercise.tolerance)]
    many_paths = len(values(cases[0][0].expected)) > 1
    if many_paths:  # a single output was compared as a whole before
        for known in exercise.known:
            if all(_known_at(known.id, path, case, exercise.tolerance) for case in cases):
                return known
    if many_paths and sum(worth(values(result.observation).get(path)) for _, result in wrong) < SURE:
        return None  # a small number is a multiple of many others by chance
    return _relation(exercise, path, cases, vague=vague)


def _relation(exercise: ExerciseRecord, path: str, cases: Sequence[Case], *, vague: bool) -> Fact | None:
    """Return how the part at `path` is related to the right one, in every case in which it is wrong."""
    wrong = [case for case in cases if wrong_at(path, case, exercise.tolerance)]
    both = [(values(record.expected).get(path), values(result.observation).get(path), record) for record, result in wrong]
    return _common([_related(want, got, record, exercise) for want, got, record in both], vague=vague)


def _known_at(name: str, path: str, case: Case, tolerance: Tolerance) -> bool:
    """Return whether the mistake gives what was observed at `path`, whether that is right or wrong."""
    would, got = values(case[0].mistakes.get(name, case[0].expected)), values(case[1].observation)
    if path not in got or path not in would:
        return path not in got and path not in would
    return same_value(would[path], got[path], tolerance)


def _related(want: object, got: object, record: CaseRecord, exercise: ExerciseRecord) -> Iterator[Fact]:
    codes = bool(exercise.behaviour)  # codes of a behaviour have no factors and no neighbours
    if isinstance(want, np.ndarray) and isinstance(got, np.ndarray) and not codes:
        yield from relations(got, want, sizes(record.probe.inputs), exercise.tolerance)


def _common(each: Sequence[Iterator[Fact]], *, vague: bool) -> Fact | None:
    """Return the first relation that holds in all cases. Vague relations count only with `vague`."""
    if not each:
        return None
    first, *others = each
    left = [relation for relation in dict.fromkeys(first) if vague or relation.key not in VAGUE]
    open_count = [_without_count(relation) for relation in left]
    for other in others:
        if not open_count:
            break
        found = set(other)
        left = [relation for relation in left if relation in found]
        open_count = [relation for relation in open_count if relation in {*map(_without_count, found)}]
    return next(iter((*left, *open_count)), None)


def _gradient(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    """Explain the gradients of an answer whose values are all right."""
    said: list[Finding] = []
    for name in dict.fromkeys(name for record, _ in cases for name in record.expected.grads):
        pairs = [(record.expected.grads.get(name), result.observation.grads.get(name), record) for record, result in cases]
        both = [(want, got, record) for want, got, record in pairs if want is not None and got is not None]
        if len(both) < sum(want is not None for want, _, _ in pairs):
            return None  # a gradient is missing, and the message of that check says so
        wrong = [(want, got, record) for want, got, record in both if not same_value(want, got, exercise.tolerance)]
        if not wrong:
            continue
        relation = _common([_related(want, got, record, exercise) for want, got, record in wrong], vague=True)
        if relation is None:
            return None
        said.append(InGradient(name, relation))
    return Diagnosis(tuple(said)) if said else None
