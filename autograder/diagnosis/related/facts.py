"""What is so of every wrong answer, whoever wrote it: when it is wrong and when not, and how its numbers lie beside the right ones.

In: an exercise and the judged cases. Out: sentences, the most telling first. They name no mistake: each is a fact about what was
returned, which a learner could check.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autograder.diagnosis.outcome import right_outputs, same_value, values
from autograder.diagnosis.related.contrast import contrast, counted
from autograder.judging.behaviour import find
from autograder.judging.exercise import Tolerance
from autograder.judging.records import CaseRecord, CaseResult, Diagnosis, ExerciseRecord
from autograder.judging.values import Array, EncodedValue

BY_HAND = "Work the small input below by hand, print each intermediate, and find the first that is not what you expect."
STEP_BY_STEP = "Go through what it does by hand, and print each intermediate: which is the first that is not what you expect?"
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
SHORT = 4  # fewer entries are written out
SLIGHTLY = 1e-3
FEW = 6  # fewer entries are in order, or of one sign, by accident


def described(exercise: ExerciseRecord, results: Sequence[CaseResult], place: str) -> Diagnosis | None:
    """The facts as what a learner is told where no name is known; `place` says in a clause where the wrong entries lie."""
    said = facts(exercise, results)
    meant = meaning(exercise)
    if not place and not said and not meant:
        return None
    first = f"Not yet right: {place}." if place else " ".join(["Not yet right.", *said[:1]])
    rest = said[:1] if place else said[1:2]
    given = any(True for case in exercise.cases for _ in case.probe.inputs.leaves())
    return Diagnosis(first, " ".join([*rest, *([meant] if meant else []), BY_HAND if given else STEP_BY_STEP]))


def meaning(exercise: ExerciseRecord) -> str:
    """What is compared where that is not what was returned, in the words of the function that looks at it."""
    if not exercise.behaviour:
        return ""
    text = " ".join((find(exercise.behaviour).__doc__ or "").partition(">>>")[0].split())
    return f"What is compared is what your answer does: {text}" if text else ""


def facts(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> list[str]:
    """The sentences, none of which needs another."""
    failing = [pair for pair in zip(exercise.cases, results, strict=True) if not pair[1].passed]
    shown = [pair for pair in failing if pair[1].observation.failure is None and pair[0].expected.failure is None]
    found = [said for said in (contrast(exercise.cases, results),) if said]
    if shown:
        record, result = min(shown, key=lambda pair: (pair[1].edge > 0, pair[1].size))
        if call := first_call(record, result, exercise.tolerance):
            found.insert(0, call)
        found += () if exercise.behaviour else _beside(record, result, exercise.tolerance)  # codes lie beside nothing
    right, wrong = right_outputs(exercise, results)
    if right and wrong:
        found.append(
            f"Of the outputs {_quoted(right)} {'is' if len(right) == 1 else 'are'} right in every case; look at {_quoted(wrong)}."
        )
    return found


def _quoted(paths: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths[:6])


# ------------------------------------------------------------------------------------------ calls


def first_call(record: CaseRecord, result: CaseResult, tolerance: Tolerance) -> str:
    """Which call of a class is the first that returns something wrong; "" where it is no class, or the very first."""
    given = record.probe.inputs.items()
    if set(given) != {"init", "weights", "calls"}:
        return ""
    calls = [call.entries or () for call in given["calls"].entries or ()]
    want, got = values(record.expected), values(result.observation)
    wrong = {
        path.split("]")[0].strip("[") for path in want if path not in got or not same_value(want[path], got[path], tolerance)
    }
    places = sorted(int(place) for place in wrong if place.isdigit())
    if not places or places[0] >= min(len(calls), len(ORDINALS)):
        return ""
    first = places[0]
    told = [_call(call) for call in calls[: first + 1]]
    before = told[:-1]
    if not before:
        rest = "and so are all later ones" if len(places) == len(calls) else "and of the later ones some are right"
        return f"Of the calls on “{record.name}” already the first, {told[0]}, is wrong, {rest}." if len(calls) > 1 else ""
    shown = ", ".join(dict.fromkeys(before))
    return (
        f"On “{record.name}” what comes first is right ({shown}); the first wrong result is number {first + 1}, of {told[-1]}: "
        "look at what is kept from one call for the next."
    )


def _call(call: Sequence[EncodedValue]) -> str:
    method, arguments, attribute = str(call[0].content), call[1].items(), call[2].content
    if method == "__kept__":
        return "how many numbers are kept"
    return f"`.{method}`" if attribute else f"`{'obj' if method == '__call__' else method}({', '.join(arguments)})`"


# ------------------------------------------------------------------------------------------ how


def _beside(record: CaseRecord, result: CaseResult, tolerance: Tolerance) -> Iterator[str]:
    """How the wrong parts of a result lie beside the right ones."""
    want, got = values(record.expected), values(result.observation)
    for path, right in want.items():
        mine = got.get(path)
        if not isinstance(right, np.ndarray) or not isinstance(mine, np.ndarray) or right.shape != mine.shape:
            continue
        if same_value(right, mine, tolerance):
            continue
        where = f"output `{path}`" if len(want) > 1 else "your result"
        yield from (f"On “{record.name}” {where} {said}." for said in beside(mine, right, tolerance))
        return


def beside(got: Array, want: Array, tolerance: Tolerance) -> Iterator[str]:
    """Clauses about a wrong array beside the right one."""
    if got.dtype.kind == "b" and want.dtype.kind == "b":
        more, fewer = int((got & ~want).sum()), int((want & ~got).sum())
        yield f"is True in {counted(more, 'place', 'places')} where it should be False, and False in {fewer} where it should be True"
        return
    if got.dtype.kind not in "iuf" or want.dtype.kind not in "iuf" or want.size < 2:
        return
    a, b = want.astype(np.float64), got.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return
    if np.ptp(b - a) < 1e-9 and np.ptp(a) > 1e-9:
        yield f"is by {abs(b - a).flat[0]:.4g} too {'large' if (b > a).all() else 'small'} in every entry"
    elif np.ptp(b) == 0:
        yield f"is {b.flat[0]:.4g} in every entry"
    if want.size < SHORT:
        yield f"is {_written(b)}, where {_written(a)} is right"
        return
    large = np.abs(a) > 1e-9
    codes = want.dtype.kind != "f"  # whole numbers may stand for something, and have no sign that could be turned
    if not codes and large.sum() >= FEW and (np.sign(b[large]) == -np.sign(a[large])).all():
        yield "has the other sign in every entry"
    wrong = np.abs(a - b) > tolerance.atol + tolerance.rtol * np.abs(a)
    if 2 * wrong.sum() > wrong.size:
        yield from _as_a_function(a, b)
    sums = a.sum(axis=-1)
    if a.ndim and a.shape[-1] > 1 and np.allclose(sums, sums.flat[0], rtol=1e-5, atol=1e-6):
        mine = b.sum(axis=-1)
        if np.allclose(mine, sums, rtol=1e-4, atol=1e-5):
            yield f"has the right sums along the last axis ({sums.flat[0]:.3g}): what is off is how each is shared out"
    if wrong.any() and not wrong.all():
        yield from _places(wrong)
    size = np.abs(b[large]) / np.abs(a[large]) if large.any() else np.ones(1)
    if np.ptp(size) < 1e-4 * size.max() and wrong.all():
        yield f"is in size {size[0]:.3g} times the right one in every entry"
    elif size.min() > 1 + SLIGHTLY and wrong.all():
        yield f"is too large in size in every entry, by factors from {size.min():.3g} to {size.max():.3g}"
    elif size.max() < 1 - SLIGHTLY and wrong.all():
        yield f"is too small in size in every entry, by factors from {size.min():.2g} to {size.max():.2g}"
    elif want.size <= 9:
        yield f"is {_written(b)}, where {_written(a)} is right"
    else:
        yield f"is wrong in {int(wrong.sum())} of {wrong.size} entries, neither too large nor too small in all of them"


def _written(array: Array) -> str:
    return np.array2string(array, precision=3, separator=", ", suppress_small=True).replace("\n", "")


def _as_a_function(want: Array, got: Array) -> Iterator[str]:
    """Whether each entry follows from the right one alone: by a power, or in their order."""
    a, b = want.ravel(), got.ravel()
    if len(np.unique(a.round(9))) < FEW:
        return
    if (a != 0).all() and (b != 0).all():
        power, factor = np.polyfit(np.log(np.abs(a)), np.log(np.abs(b)), 1)
        if np.allclose(power * np.log(np.abs(a)) + factor, np.log(np.abs(b)), rtol=1e-4, atol=1e-4) and abs(power - 1) > 1e-3:
            yield f"is, entry by entry and but for its sign, the right one to the power {power:.3g}, times {np.exp(factor):.3g}"
            return
    order = np.argsort(a, kind="stable")
    steps = np.diff(b[order])[np.diff(a[order]) > 1e-9]
    if (steps > 0).all():
        yield "has its entries in the right order, the largest where it should be; only how large they are is off"
    elif (steps < 0).all():
        yield "has its entries in the opposite order: the largest where the smallest should be"


def _places(wrong: Array) -> Iterator[str]:
    """Along which axis whole rows are right, and which."""
    for axis in range(-1, -wrong.ndim - 1, -1):
        others = tuple(other for other in range(wrong.ndim) if other != axis % wrong.ndim)
        hit: Any = wrong.any(axis=others) if others else wrong
        if hit.any() and not hit.all():
            one, many = {1: ("entry", "entries")}.get(
                wrong.ndim,
                {-1: ("column", "columns"), -2: ("row", "rows")}.get(axis, (f"index of axis {axis}", f"indices of axis {axis}")),
            )
            right, bad = np.flatnonzero(~hit), np.flatnonzero(hit)
            told = [one if len(found) == 1 else many for found in (right, bad)]
            yield f"is right in {told[0]} {_few(right)}, and wrong in {told[1]} {_few(bad)}"
            return


def _few(indices: Array) -> str:
    return ", ".join(str(int(index)) for index in indices[:6]) + (", …" if len(indices) > 6 else "")
