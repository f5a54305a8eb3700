"""Simple relations between what was returned and what is right: a factor, a transpose, a softmax too many, a shift by one.

In: two arrays and the sizes that occur in the case's inputs. Out: `Relation`s that hold between them, the most telling
first. A relation that holds in *every* failing case explains an answer that nobody listed; the same relation to the output
of a known mistake explains two slips at once. Pure NumPy; nothing here knows what is taught.
"""

import warnings
from collections.abc import Iterable, Iterator

import numpy as np

from autograder.diagnosis.related.factors import factors
from autograder.diagnosis.related.places import moved, rearranged, reduced
from autograder.diagnosis.related.relation import Relation, Size, near
from autograder.judging.exercise import Tolerance
from autograder.judging.values import Array

MAX_ENTRIES = 200_000  # beyond that a relation is not looked for
FEW = 100  # a count below is many another count times something, or rounded


def is_few(want: Array) -> bool:
    """Whether it is a single small count."""
    return want.size == 1 and want.dtype.kind in "iu" and bool(abs(want.flat[0]) < FEW)


def relations(got: Array, want: Array, known_sizes: Iterable[Size], tolerance: Tolerance) -> Iterator[Relation]:
    """Every simple relation by which `got` comes from `want`, the most telling first."""
    if max(got.size, want.size) > MAX_ENTRIES or got.size == 0 or want.size == 0:
        return
    if got.dtype.kind == "b" and want.dtype.kind == "b":
        if got.shape == want.shape:
            yield from _boolean(got, want)
        yield from rearranged(got, want, tolerance)
        return
    if got.dtype.kind not in "fiu" or want.dtype.kind not in "fiu":
        return
    if is_few(want):
        return
    counted = want.dtype.kind in "iu"
    got, want = got.astype(np.float64), want.astype(np.float64)
    if want.size == 1:  # near many others: a tolerance as wide as that of an estimate would find a relation by accident
        tolerance = Tolerance(min(tolerance.rtol, 1e-6), min(tolerance.atol, 1e-9))
    if got.shape == want.shape and near(got, want, tolerance):
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # medians of nothing but NaN
        if got.shape == want.shape:
            yield from factors(got, want, tuple(known_sizes), tolerance)
            if not counted or want.size > 1:  # powers of two are squares of one another
                yield from _functions(got, want, tolerance)
            yield from moved(got, want, tolerance)
        yield from rearranged(got, want, tolerance)
        yield from reduced(got, want, tolerance)
        if got.shape == want.shape:
            yield from _by_rows(got, want, tolerance)
            yield from _degenerate(got, want, tolerance)


def _boolean(got: Array, want: Array) -> Iterator[Relation]:
    if (got == ~want).all():
        yield Relation(
            "is the exact opposite: True where it should be False", "Check what True means here, and turn it round once."
        )
    if got.all() or not got.any():
        yield Relation(f"is {bool(got.flat[0])} everywhere", "No entry depends on your inputs: follow one entry by hand.")
    elif (want & ~got).any() and not (got & ~want).any():
        yield Relation(
            "lets too few through: every True is right, but some are missing",
            "Look at the condition: is one too many joined to it, or is it < where ≤ is meant?",
        )
    elif (got & ~want).any() and not (want & ~got).any():
        yield Relation(
            "lets too many through: nothing is missing, but some True should be False",
            "Look at the condition: is a part of it missing, or is it ≤ where < is meant?",
        )
    yield from moved(got, want, Tolerance())


def _softmax(x: Array, axis: int) -> Array:
    shifted = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))


def _functions(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Relation]:
    """The right numbers before or after a function."""
    if near(got, 1 - want, tolerance):
        yield Relation("is 1 minus the right one", "You have the share of what should be left out: turn it round.")
    for axis in range(-1, -want.ndim - 1, -1):
        if want.shape[axis] < 2:
            continue
        where = "" if axis == -1 else f" along axis {axis}"
        if near(got, _softmax(want, axis), tolerance):
            yield Relation(f"has been through one softmax too many{where}", "The right result is not normalised once more.")
        if near(_softmax(got, axis), want, tolerance):
            yield Relation(f"is what should go into the softmax{where}", "The softmax is missing.")
        total = want.sum(axis=axis, keepdims=True)
        if near(got, want / total, tolerance) and not near(want, want / total, tolerance):
            yield Relation(f"is the right one, normalised to sum to 1{where}", "Nothing should be normalised here.")
        whole = got.sum(axis=axis, keepdims=True)
        shared = (np.abs(want) > tolerance.atol).sum(axis=axis).max() > 1  # a number alone is 1 when divided by itself
        if shared and near(got / whole, want, tolerance):
            yield Relation(f"is right but for the normalisation{where}: each sum should be 1", "Divide by the sum.")
    pairs = (
        ("the exponential", np.exp), ("the logarithm", np.log), ("the square", np.square), ("the square root", np.sqrt),
        ("the reciprocal", np.reciprocal), ("the absolute value", np.abs), ("the whole part", np.floor), ("the rounded value", np.round),
        ("the positive part", lambda x: np.maximum(x, 0)), ("the value rounded up", np.ceil), ("the hyperbolic tangent", np.tanh),
    )  # fmt: skip
    for words, function in pairs:
        image = np.asarray(function(want))
        blind = np.abs(want).max() > 5 and function is np.tanh  # 1 whatever the number was
        blind |= want.size == 1 and abs(want.flat[0]) < 10 and function in (np.floor, np.round, np.ceil)  # 2 may be a guess
        blind |= want.size > 1 and np.ptp(image) == 0  # one number for whatever it was
        changes = not near(want, image, tolerance)
        if np.isfinite(image).all() and changes and not blind and near(got, image, tolerance):
            yield Relation(f"is {words} of the right one", f"Leave out the last step: {words} is not asked for.")


def _by_rows(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Relation]:
    """A factor or a summand of its own for each row or column."""
    for axis in range(-1, -want.ndim - 1, -1):
        if want.shape[axis] < 3 or want.size == want.shape[axis] or not (np.ptp(want, axis=axis) > tolerance.atol).all():
            continue  # of a row whose entries are all the same any other such row is a multiple
        safe = np.where(np.abs(want) > 1e-9, want, np.nan)
        ratio = np.nanmedian(got / safe, axis=axis, keepdims=True)
        if np.isfinite(ratio).all() and near(got, ratio * want, tolerance):
            yield Relation(
                f"is right along axis {axis} up to a factor of its own for each row of that axis",
                "Look for what each row is multiplied or divided by: a sum over another axis, or a number that belongs to the row.",
            )
        gap = np.median(got - want, axis=axis, keepdims=True)
        if np.isfinite(gap).all() and near(got, want + gap, tolerance):
            yield Relation(
                f"is right along axis {axis} up to a number added to each row of that axis",
                "Something is added or subtracted once for each row.",
            )


def _degenerate(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Relation]:
    """Results that do not depend on what they should."""
    if want.size < 2:
        return
    if not got.any():
        yield Relation("is zero everywhere", "Is the result ever written into the array that you return?")
        return
    if np.abs(got).max() <= tolerance.atol < np.abs(want).max():
        yield Relation(
            f"is nearly zero everywhere, {np.abs(got).max():.1g} at most",
            "Print what goes into each exponential and each product: which is the first that vanishes?",
        )
        return
    if np.ptp(got) <= tolerance.atol and np.ptp(want) > 10 * tolerance.atol:
        yield Relation(
            f"is the same number, {got.flat[0]:.4g}, everywhere", "No entry depends on your inputs: follow one entry by hand."
        )
        return
    for axis in range(-1, -want.ndim - 1, -1):
        if want.ndim > 1 and got.shape[axis] > 1:
            first = np.take(got, [0], axis)
            if near(np.broadcast_to(first, got.shape), got, tolerance) and not near(
                np.broadcast_to(np.take(want, [0], axis), want.shape), want, tolerance
            ):
                yield Relation(
                    f"is the same all along axis {axis}, where it should differ",
                    "Which input should vary along it, and where does that get lost?",
                )
