"""A result in a wrong wrapping: several results for one, a list for an array, numbers for truth values, an axis too many.

In: an exercise and the judged cases. Out: a `Diagnosis`: the wrapping alone, where what is in it is right; the wrapping and a
mistake, where that explains the rest; or None.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autograder.judging.judge import in_double, judge
from autograder.judging.observation import Observation
from autograder.judging.records import CaseRecord, CaseResult, Diagnosis, ExerciseRecord, Known
from autograder.judging.values import Array, EncodedValue, Spec

WRAPPED = "~wrapped"
Explain = Callable[[ExerciseRecord, Sequence[CaseResult]], Diagnosis | None]


@dataclass(frozen=True)
class Wrapping:
    """`says` completes "You …"; `off` takes it off a value, given the right one, or returns None where it is not there."""

    says: str
    fix: str
    off: Callable[[EncodedValue, EncodedValue], EncodedValue | None]
    doubles: bool = False  # only of cases in double precision


def unwrapped(exercise: ExerciseRecord, results: Sequence[CaseResult], explain: Explain) -> Diagnosis | None:
    """What explains the failing cases once a wrong wrapping is taken off; `explain` is asked about what is left."""
    for wrapping in _wrappings(exercise.cases, results):
        seen = [_off(wrapping, record, result.observation) for record, result in zip(exercise.cases, results, strict=True)]
        if all(one is result.observation for one, result in zip(seen, results, strict=True)):
            continue
        inner = judge(exercise, seen).cases
        known = Known(WRAPPED, wrapping.says, wrapping.fix)
        if all(case.passed for case in inner):
            return Diagnosis(f"What you compute is right, but you {wrapping.says}.", wrapping.fix, (known,))
        if sum(case.passed for case in inner) < sum(case.passed for case in results):
            continue
        left = explain(exercise, inner)
        if left is not None and left.certain and left.known:
            headline = f"{left.headline} And you {wrapping.says}."
            return replace(left, headline=headline, advice=f"{left.advice} {wrapping.fix}", known=(*left.known, known))
    return None


def _off(wrapping: Wrapping, record: CaseRecord, seen: Observation) -> Observation:
    if seen.value is None or record.expected.value is None or (wrapping.doubles and not in_double(record)):
        return seen
    value = wrapping.off(seen.value, record.expected.value)
    if value is None:
        return seen
    grads = seen.grads or record.expected.grads  # of a result in another shape none was asked for
    return replace(seen, value=value, grads=grads)


def _wrappings(cases: Sequence[CaseRecord], results: Sequence[CaseResult]) -> Iterator[Wrapping]:
    """What the first value that does not fit may be wrapped in."""
    for record, result in zip(cases, results, strict=True):
        want, got = record.expected.value, result.observation.value
        if not result.passed and want is not None and got is not None:
            yield from _of_sequence(want.spec, got.spec)
            yield Wrapping(
                "returned a tensor or an array of no axes where a plain number is asked for",
                "Say `float(…)`, or `.item()`.",
                _plain,
            )
            yield Wrapping(
                "returned a NumPy array where a tensor is asked for", "Stay in PyTorch from input to output.", _as_kind("tensor")
            )
            yield Wrapping("returned a tensor where a NumPy array is asked for", "Use the `np.` functions.", _as_kind("array"))
            yield Wrapping(
                "returned numbers where truth values are asked for",
                "Return the comparison itself: its entries are True and False.",
                _truth,
            )
            yield Wrapping(
                "returned 0 and minus infinity, to be added to scores, where truth values are asked for",
                "Return the comparison itself.",
                _additive,
            )
            yield Wrapping(
                "returned whole numbers, or truth values, where floating-point numbers are asked for",
                "Make it floating.",
                _cast("f"),
            )
            yield Wrapping("returned floating-point numbers where whole ones are asked for", "Make it whole.", _cast("i"))
            yield Wrapping(
                "returned single precision where double is asked for",
                "Make new tensors in the type of an input: `x.new_zeros(…)`, `dtype=x.dtype`.",
                _double,
                doubles=True,
            )
            yield Wrapping("returned an axis of length 1 too many", "Index it away, or squeeze it.", _squeezed)
            yield Wrapping(
                "lost an axis of length 1 that belongs to the result", "Keep it: `keepdims=True`, or `[..., None]`.", _stretched
            )
            return


# ------------------------------------------------------------------------------------------ tuples


def _parts(spec: Spec) -> list[Spec] | None:
    return spec.get("t", spec.get("l"))


def _of_sequence(want: Spec, got: Spec) -> Iterator[Wrapping]:
    inside, asked = _parts(got), _parts(want)
    if inside is None:
        return
    if asked is None and len(inside) <= 6:
        for place in range(len(inside)):
            many = (
                f"returned {len(inside)} results where one is asked for"
                if len(inside) > 1
                else "returned a tuple of one (a comma?)"
            )
            yield Wrapping(many, "Return the one that the docstring asks for.", _item(place))
    if asked is not None and len(inside) == len(asked) + 1:
        for place in reversed(range(len(inside))):
            said = f"returned {len(inside)} results where {len(asked)} are asked for: number {place + 1} is one too many"
            yield Wrapping(said, "Return those that the docstring names, in its order.", _without(place))


def _item(place: int) -> Callable[[EncodedValue, EncodedValue], EncodedValue | None]:
    def off(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
        inside = _parts(got.spec)
        return EncodedValue(inside[place], got.arrays) if inside and place < len(inside) and _parts(want.spec) is None else None

    return off


def _without(place: int) -> Callable[[EncodedValue, EncodedValue], EncodedValue | None]:
    def off(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
        inside, asked = _parts(got.spec), _parts(want.spec)
        if inside is None or asked is None or len(inside) != len(asked) + 1:
            return None
        return EncodedValue({"t": [part for number, part in enumerate(inside) if number != place]}, got.arrays)

    return off


# ------------------------------------------------------------------------------------------ leaves


def _each(
    change: Callable[[Spec, Array, Spec, EncodedValue], Array | None],
) -> Callable[[EncodedValue, EncodedValue], EncodedValue | None]:
    """Each array that `change` has something else for, in its place; None where it has for none, or the structures differ."""

    def off(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
        theirs, right = list(got.leaves()), dict(want.leaves())
        if [path for path, _ in theirs] != list(right):
            return None
        arrays = [*got.arrays]
        for path, leaf in theirs:
            if "a" in leaf and (made := change(leaf, got.arrays[leaf["a"]], right[path], want)) is not None:
                arrays[leaf["a"]] = made
        same = all(one is two for one, two in zip(arrays, got.arrays, strict=True))
        return None if same else EncodedValue(got.spec, arrays)

    return off


def _wanted(leaf: Spec, want: EncodedValue) -> Array | None:
    return want.arrays[leaf["a"]] if "a" in leaf else None


def _truth_of(leaf: Spec, got: Array, wanted: Spec, want: EncodedValue) -> Array | None:
    right = _wanted(wanted, want)
    if right is None or right.dtype.kind != "b" or got.dtype.kind == "b" or not np.isin(got, (0, 1)).all():
        return None
    return np.asarray(got != 0)


def _additive_of(leaf: Spec, got: Array, wanted: Spec, want: EncodedValue) -> Array | None:
    right = _wanted(wanted, want)
    if right is None or right.dtype.kind != "b" or got.dtype.kind != "f" or not ((got == 0) | (got < -1e3)).all():
        return None
    return np.asarray(got == 0)


def _cast(kind: str) -> Callable[[EncodedValue, EncodedValue], EncodedValue | None]:
    def change(leaf: Spec, got: Array, wanted: Spec, want: EncodedValue) -> Array | None:
        right = _wanted(wanted, want)
        if right is None or right.dtype.kind not in (kind, "u" if kind == "i" else kind) or got.dtype.kind in (kind, "c"):
            return None
        if kind == "i" and not (np.isfinite(got) & (got == np.round(got))).all():
            return None
        return got.astype(right.dtype)

    return _each(change)


def _double_of(leaf: Spec, got: Array, wanted: Spec, want: EncodedValue) -> Array | None:
    return got.astype(np.float64) if got.dtype.kind == "f" and got.dtype.itemsize < 8 else None


def _squeezed_of(leaf: Spec, got: Array, wanted: Spec, want: EncodedValue) -> Array | None:
    right = _wanted(wanted, want)
    if right is None or got.ndim <= right.ndim or got.shape == right.shape or got.size != right.size:
        return None
    return got.reshape(right.shape) if [n for n in got.shape if n != 1] == [n for n in right.shape if n != 1] else None


def _stretched_of(leaf: Spec, got: Array, wanted: Spec, want: EncodedValue) -> Array | None:
    right = _wanted(wanted, want)
    if right is None or got.ndim >= right.ndim or got.size != right.size:
        return None
    return got.reshape(right.shape) if [n for n in got.shape if n != 1] == [n for n in right.shape if n != 1] else None


_truth, _additive, _double = _each(_truth_of), _each(_additive_of), _each(_double_of)
_squeezed, _stretched = _each(_squeezed_of), _each(_stretched_of)


def _as_kind(kind: str) -> Callable[[EncodedValue, EncodedValue], EncodedValue | None]:
    def off(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
        other = "array" if kind == "tensor" else "tensor"
        held = {leaf.get("k") for _, leaf in want.leaves() if "a" in leaf}
        return got.of_kind(kind) if held == {kind} and any(leaf.get("k") == other for _, leaf in got.leaves()) else None

    return off


def _plain(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
    """Arrays of no axes as numbers, where numbers are asked for."""
    right = dict(want.leaves())
    found = False

    def change(leaf: Spec) -> Spec:
        nonlocal found
        if "a" in leaf and got.arrays[leaf["a"]].size == 1 and got.arrays[leaf["a"]].dtype.kind in "iuf":
            found = True
            number = got.arrays[leaf["a"]].reshape(()).item()
            return {"s": number} if np.isfinite(number) else {"f": str(number)}
        return leaf

    if not all("a" not in leaf for leaf in right.values()):
        return None
    made = got.map(change)
    return made if found else None
