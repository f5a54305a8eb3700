"""Try simple relations between the returned and the right value: a factor, a transpose, an extra softmax, a shift by one.

In: two arrays and the sizes that occur in the case's inputs. Out: `Fact`s that hold between them, the most telling
first. A relation that holds in *every* failing case explains an answer that nobody listed. Pure NumPy; nothing here knows what is taught.
"""

import warnings
from collections.abc import Iterable, Iterator

import numpy as np

from autograder.diagnosis.finding import Fact, fact
from autograder.diagnosis.relations.factors import factors
from autograder.diagnosis.relations.places import moved, rearranged, reduced
from autograder.diagnosis.relations.same_array import Size, near
from autograder.judging.exercise import Tolerance
from autograder.judging.values import Array

MAX_ENTRIES = 200_000  # no relation is tried on larger arrays
FEW = 100  # a smaller count follows from many others by a factor or by rounding


def is_few(want: Array) -> bool:
    """Return whether the expected value is a single small count."""
    return want.size == 1 and want.dtype.kind in "iu" and bool(abs(want.flat[0]) < FEW)


def relations(got: Array, want: Array, known_sizes: Iterable[Size], tolerance: Tolerance) -> Iterator[Fact]:
    """Yield every simple relation by which `got` follows from `want`, the most telling first."""
    if max(got.size, want.size) > MAX_ENTRIES or got.size == 0 or want.size == 0:
        return
    if got.dtype.kind == "b" and want.dtype.kind == "b":
        if got.shape == want.shape:
            yield from _boolean(got, want)
        yield from rearranged(got, want, tolerance)
        return
    if got.dtype.kind not in "fiu" or want.dtype.kind not in "fiu" or is_few(want):
        return
    counted = want.dtype.kind in "iu"
    got, want = got.astype(np.float64), want.astype(np.float64)
    if want.size == 1:  # with the wide tolerance of an estimate, a relation would hold by accident
        tolerance = Tolerance(min(tolerance.rtol, 1e-6), min(tolerance.atol, 1e-9))
    if got.shape == want.shape and near(got, want, tolerance):
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # medians of NaN only
        if got.shape == want.shape:
            yield from factors(got, want, tuple(known_sizes), tolerance)
            if not counted or want.size > 1:  # single counts, such as powers of two, are often squares by chance
                yield from _functions(got, want, tolerance)
            yield from moved(got, want, tolerance)
        yield from rearranged(got, want, tolerance)
        yield from reduced(got, want, tolerance)
        if got.shape == want.shape:
            yield from _by_rows(got, want, tolerance)
            yield from _degenerate(got, want, tolerance)


def _boolean(got: Array, want: Array) -> Iterator[Fact]:
    if (got == ~want).all():
        yield fact("relation.opposite")
    if got.all() or not got.any():
        yield fact("relation.all_true" if got.flat[0] else "relation.all_false")
    elif (want & ~got).any() and not (got & ~want).any():
        yield fact("relation.too_few_true")
    elif (got & ~want).any() and not (want & ~got).any():
        yield fact("relation.too_many_true")
    yield from moved(got, want, Tolerance())


def _softmax(x: Array, axis: int) -> Array:
    shifted = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))


def _functions(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Fact]:
    """Yield functions that turn the right numbers into the returned ones, or the other way round."""
    if near(got, 1 - want, tolerance):
        yield fact("relation.complement")
    for axis in range(-1, -want.ndim - 1, -1):
        if want.shape[axis] < 2:
            continue
        if near(got, _softmax(want, axis), tolerance):
            yield fact("relation.softmax_twice", axis=axis)
        if near(_softmax(got, axis), want, tolerance):
            yield fact("relation.softmax_missing", axis=axis)
        total = want.sum(axis=axis, keepdims=True)
        if near(got, want / total, tolerance) and not near(want, want / total, tolerance):
            yield fact("relation.normalised", axis=axis)
        whole = got.sum(axis=axis, keepdims=True)
        shared = (np.abs(want) > tolerance.atol).sum(axis=axis).max() > 1  # a single number divided by itself is always 1
        if shared and near(got / whole, want, tolerance):
            yield fact("relation.not_normalised", axis=axis)
    functions = (
        ("exp", np.exp), ("log", np.log), ("square", np.square), ("root", np.sqrt), ("reciprocal", np.reciprocal), ("abs", np.abs),
        ("floor", np.floor), ("round", np.round), ("positive_part", lambda x: np.maximum(x, 0)), ("ceil", np.ceil), ("tanh", np.tanh),
    )  # fmt: skip
    for name, function in functions:
        image = np.asarray(function(want))
        blind = np.abs(want).max() > 5 and function is np.tanh  # tanh is 1 for every large number
        blind |= want.size == 1 and abs(want.flat[0]) < 10 and function in (np.floor, np.round, np.ceil)  # 2 may be a guess
        blind |= want.size > 1 and np.ptp(image) == 0  # the function maps every entry to the same number
        changes = not near(want, image, tolerance)
        if np.isfinite(image).all() and changes and not blind and near(got, image, tolerance):
            yield fact(f"relation.function.{name}")


def _by_rows(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Fact]:
    """Yield whether each row or column has its own factor or summand."""
    for axis in range(-1, -want.ndim - 1, -1):
        if want.shape[axis] < 3 or want.size == want.shape[axis] or not (np.ptp(want, axis=axis) > tolerance.atol).all():
            continue  # any two rows of equal entries are multiples of each other
        safe = np.where(np.abs(want) > 1e-9, want, np.nan)
        ratio = np.nanmedian(got / safe, axis=axis, keepdims=True)
        if np.isfinite(ratio).all() and near(got, ratio * want, tolerance):
            yield fact("relation.factor_each", axis=axis)
        gap = np.median(got - want, axis=axis, keepdims=True)
        if np.isfinite(gap).all() and near(got, want + gap, tolerance):
            yield fact("relation.summand_each", axis=axis)


def _degenerate(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Fact]:
    """Yield facts about results that don't depend on what they should."""
    if want.size < 2:
        return
    if not got.any():
        yield fact("relation.zero")
        return
    if np.abs(got).max() <= tolerance.atol < np.abs(want).max():
        yield fact("relation.nearly_zero", most=float(f"{np.abs(got).max():.1g}"))
        return
    if np.ptp(got) <= tolerance.atol and np.ptp(want) > 10 * tolerance.atol:
        yield fact("relation.one_number", value=float(f"{got.flat[0]:.4g}"))
        return

    def is_same(array: Array, axis: int) -> bool:
        return near(np.broadcast_to(np.take(array, [0], axis), array.shape), array, tolerance)

    for axis in range(-1, -want.ndim - 1, -1):
        if want.ndim > 1 and got.shape[axis] > 1 and is_same(got, axis) and not is_same(want, axis):
            yield fact("relation.same", axis=axis)
