"""Observations that apply to any wrong answer: on which inputs it is wrong, and how its numbers compare with the right ones.

In: an exercise and the judged cases. Out: facts, the most telling first. They name no mistake. Each is about the returned values,
so a learner can check it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autograder.diagnosis.calls import written_call
from autograder.diagnosis.contrast import contrast
from autograder.diagnosis.finding import Diagnosis, Fact, Remark, fact
from autograder.diagnosis.outcome import right_outputs, same_value, values, wrong_at
from autograder.judging.behaviour import find
from autograder.judging.exercise import Tolerance
from autograder.judging.records import CaseRecord, CaseResult, ExerciseRecord
from autograder.judging.script import encoded_script
from autograder.judging.values import Array

BY_HAND, STEP_BY_STEP = fact("advice.by_hand"), fact("advice.step_by_step")
ONE_AT_A_TIME = fact("advice.one_at_a_time")  # a design has no intermediate values to check
MOST_CALLS = 8  # in a script, a first wrong call after this many is not reported
SHORT = 4  # results with fewer entries are written out
SLIGHTLY = 1e-3
FEW = 6  # fewer entries may be in order, or have one sign, by accident


def diagnose_from_facts(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    """Return the facts as a diagnosis for a learner whose mistake has no name."""
    sentences = facts(exercise, results)
    meant = meaning(exercise)
    if not sentences and meant is None:
        return None
    first = fact("not_yet.fact", said=sentences[0]) if sentences else fact("not_yet")
    has_inputs = any(True for case in exercise.cases for _ in case.probe.inputs.leaves())
    next_try = BY_HAND if has_inputs else ONE_AT_A_TIME if meant else STEP_BY_STEP
    then = (*(fact("advice", said=sentence) for sentence in sentences[1:2]), *([meant] if meant else []), next_try)
    return Diagnosis((Remark(first, then),))


def meaning(exercise: ExerciseRecord) -> Fact | None:
    """Say what is compared instead of the returned value, in the words of the behaviour function's docstring, or None."""
    if not exercise.behaviour:
        return None
    text = " ".join((find(exercise.behaviour).__doc__ or "").partition(">>>")[0].split())
    return fact("advice.behaviour", text=text) if text else None


def facts(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> list[Fact]:
    """Return the facts, the most telling first. Each can be told by itself."""
    failing = [pair for pair in zip(exercise.cases, results, strict=True) if not pair[1].passed]
    shown = [pair for pair in failing if pair[1].observation.failure is None and pair[0].expected.failure is None]
    candidates = [contrast(exercise.cases, results)]
    if shown:
        record, result = min(shown, key=lambda pair: (pair[1].edge > 0, pair[1].size))
        candidates.insert(0, first_call(record, result, exercise.tolerance))
        candidates += () if exercise.behaviour else _compare_values(record, result, exercise.tolerance)  # codes aren't quantities
    right, wrong = right_outputs(exercise, results)
    if right and wrong:
        candidates.append(fact("fact.outputs", count=len(right), right=tuple(right[:6]), wrong=tuple(wrong[:6])))
    return [candidate for candidate in candidates if candidate is not None]


# ------------------------------------------------------------------------------------------ calls


def first_call(record: CaseRecord, result: CaseResult, tolerance: Tolerance) -> Fact | None:
    """Return the first call of a class that returns something wrong; None for a function, a single call or a late one."""
    script = encoded_script(record.probe.inputs)
    if script is None:
        return None
    want = values(record.expected)
    wrong = {path.split("]")[0].strip("[") for path in want if wrong_at(path, (record, result), tolerance)}
    places = sorted(int(place) for place in wrong if place.isdigit())
    if not places or places[0] >= min(len(script.calls), MOST_CALLS):
        return None
    *before, call = map(written_call, script.calls[: places[0] + 1])
    if before:
        number = len(before) + 1
        return fact("fact.calls.later", case=record.name, before=tuple(dict.fromkeys(before)), number=number, call=call)
    key = "fact.calls.all" if len(places) == len(script.calls) else "fact.calls.some"
    return fact(key, case=record.name, call=call) if len(script.calls) > 1 else None


# ------------------------------------------------------------------------------------------ how


def _compare_values(record: CaseRecord, result: CaseResult, tolerance: Tolerance) -> Iterator[Fact]:
    """Yield facts that compare the first wrong part of a result with the right one."""
    want, got = values(record.expected), values(result.observation)
    for path, right in want.items():
        mine = got.get(path)
        if not isinstance(right, np.ndarray) or not isinstance(mine, np.ndarray) or right.shape != mine.shape:
            continue
        if same_value(right, mine, tolerance):
            continue
        where = fact("output", path=path) if len(want) > 1 else fact("your_result")
        yield from (
            fact("fact.beside", case=record.name, where=where, said=comparison)
            for comparison in compare_arrays(mine, right, tolerance)
        )
        return


def compare_arrays(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Fact]:
    """Yield facts that compare a wrong array with the right one."""
    if got.dtype.kind == "b" and want.dtype.kind == "b":
        more, fewer = int((got & ~want).sum()), int((want & ~got).sum())
        yield fact("beside.truth", count=more, fewer=fewer)
        return
    if got.dtype.kind not in "iuf" or want.dtype.kind not in "iuf" or want.size < 2:
        return
    a, b = want.astype(np.float64), got.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return
    if np.ptp(b - a) < 1e-9 and np.ptp(a) > 1e-9:
        yield fact("beside.large" if (b > a).all() else "beside.small", by=float(f"{abs(b - a).flat[0]:.4g}"))
    elif np.ptp(b) == 0:
        yield fact("beside.one_number", value=float(f"{b.flat[0]:.4g}"))
    if want.size < SHORT:
        yield fact("beside.written", got=_written(b), want=_written(a))
        return
    large = np.abs(a) > 1e-9
    codes = want.dtype.kind != "f"  # whole numbers may be codes, whose sign means nothing
    if not codes and large.sum() >= FEW and (np.sign(b[large]) == -np.sign(a[large])).all():
        yield fact("beside.sign")
    wrong = np.abs(a - b) > tolerance.atol + tolerance.rtol * np.abs(a)
    if 2 * wrong.sum() > wrong.size:
        yield from _as_a_function(a, b)
    sums = a.sum(axis=-1)
    if a.ndim and a.shape[-1] > 1 and np.allclose(sums, sums.flat[0], rtol=1e-5, atol=1e-6):
        mine = b.sum(axis=-1)
        if np.allclose(mine, sums, rtol=1e-4, atol=1e-5):
            yield fact("beside.sums", sum=float(f"{sums.flat[0]:.3g}"))
    if wrong.any() and not wrong.all():
        yield from _places(wrong)
    size = np.abs(b[large]) / np.abs(a[large]) if large.any() else np.ones(1)
    if np.ptp(size) < 1e-4 * size.max() and wrong.all():
        yield fact("beside.times", factor=float(f"{size[0]:.3g}"))
    elif size.min() > 1 + SLIGHTLY and wrong.all():
        yield fact("beside.factors.large", least=float(f"{size.min():.3g}"), most=float(f"{size.max():.3g}"))
    elif size.max() < 1 - SLIGHTLY and wrong.all():
        yield fact("beside.factors.small", least=float(f"{size.min():.2g}"), most=float(f"{size.max():.2g}"))
    elif want.size <= 9:
        yield fact("beside.written", got=_written(b), want=_written(a))
    else:
        yield fact("beside.mixed", wrong=int(wrong.sum()), of=wrong.size)


def _written(array: Array) -> str:
    return np.array2string(array, precision=3, separator=", ", suppress_small=True).replace("\n", "")


def _as_a_function(want: Array, got: Array) -> Iterator[Fact]:
    """Yield a fact if each entry depends only on the right entry: as a power of it, or in the same or the opposite order."""
    a, b = want.ravel(), got.ravel()
    if len(np.unique(a.round(9))) < FEW:
        return
    if (a != 0).all() and (b != 0).all():
        power, factor = np.polyfit(np.log(np.abs(a)), np.log(np.abs(b)), 1)
        if np.allclose(power * np.log(np.abs(a)) + factor, np.log(np.abs(b)), rtol=1e-4, atol=1e-4) and abs(power - 1) > 1e-3:
            yield fact("beside.power", power=float(f"{power:.3g}"), factor=float(f"{np.exp(factor):.3g}"))
            return
    order = np.argsort(a, kind="stable")
    steps = np.diff(b[order])[np.diff(a[order]) > 1e-9]
    if (steps > 0).all():
        yield fact("beside.right_order")
    elif (steps < 0).all():
        yield fact("beside.opposite_order")


def _places(wrong: Array) -> Iterator[Fact]:
    """Yield which slices are right and which are wrong, along the last axis that has both."""
    for axis in range(-1, -wrong.ndim - 1, -1):
        others = tuple(other for other in range(wrong.ndim) if other != axis % wrong.ndim)
        hit: Any = wrong.any(axis=others) if others else wrong
        if hit.any() and not hit.all():
            kind = "entry" if wrong.ndim == 1 else {-1: "column", -2: "row"}.get(axis, "index")
            yield fact("beside.places", right=_few(np.flatnonzero(~hit), kind, axis), wrong=_few(np.flatnonzero(hit), kind, axis))
            return


def _few(indices: Array, kind: str, axis: int) -> Fact:
    shown = ", ".join(str(int(index)) for index in indices[:6]) + (", …" if len(indices) > 6 else "")
    return fact(f"places.{kind}", count=len(indices), indices=shown, axis=axis)
