"""Simple relations between what was returned and what is right: a factor, a transpose, a softmax too many, a shift by one.

In: two arrays and the sizes that occur in the case's inputs. Out: `Relation`s that hold between them, the most telling
first. A relation that holds in *every* failing case explains an answer that nobody listed; the same relation to the output
of a known mistake explains two slips at once. Pure NumPy; nothing here knows what is taught.
"""

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder.judging.exercise import Tolerance
from autograder.judging.judge import close
from autograder.judging.values import Array, EncodedValue

CONSTANTS = (2.0, 4.0, 8.0, 3.0, 10.0, 16.0, 1000.0, 1024.0, 2.0**20, 1e6, 1e9, 2.0**30, math.pi, math.log(2), math.sqrt(2))
MAX_ENTRIES = 200_000  # beyond that a relation is not looked for


@dataclass(frozen=True)
class Relation:
    """`says` completes "Your result …" (or "…, and it …"), `fix` is the next step. Equal relations of two cases are one."""

    says: str
    fix: str


@dataclass(frozen=True)
class Size:
    """A number that the inputs of a case hold: `symbol` is how the learner may call it."""

    symbol: str
    value: float


def sizes(inputs: EncodedValue) -> tuple[Size, ...]:
    """The lengths of the axes of a case's inputs and the positive numbers among them, each under its name."""
    found: dict[str, float] = {}
    for path, leaf in inputs.leaves():
        name = _name(path)
        if "a" in leaf:
            shape = inputs.arrays[leaf["a"]].shape
            for axis, length in enumerate(shape):
                found.setdefault(f"the length of axis {axis - len(shape)} of `{name}`", float(length))
        elif isinstance(leaf.get("s"), int | float) and not isinstance(leaf["s"], bool) and leaf["s"] > 0:
            found.setdefault(f"`{name}`", float(leaf["s"]))
    return tuple(Size(symbol, value) for symbol, value in found.items() if value != 1)


def _name(path: str) -> str:
    words = [part.strip("'\"") for part in path.strip("[]").split("][")]
    named = [word for word in words if not word.isdigit() and word not in ("init", "weights", "calls")]
    return named[-1] if named else path


def relations(got: Array, want: Array, known_sizes: Iterable[Size], tolerance: Tolerance) -> Iterator[Relation]:
    """Every simple relation by which `got` comes from `want`, the most telling first."""
    if max(got.size, want.size) > MAX_ENTRIES or got.size == 0 or want.size == 0:
        return
    if got.dtype.kind == "b" and want.dtype.kind == "b":
        if got.shape == want.shape:
            yield from _boolean(got, want)
        yield from _rearranged(got, want, tolerance)
        return
    if got.dtype.kind not in "fiu" or want.dtype.kind not in "fiu":
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # medians of nothing but NaN
        if got.shape == want.shape:
            yield from _factors(got, want, tuple(known_sizes), tolerance)
            yield from _functions(got, want, tolerance)
            yield from _moved(got, want, tolerance)
        yield from _rearranged(got, want, tolerance)
        yield from _reduced(got, want, tolerance)
        if got.shape == want.shape:
            yield from _by_rows(got, want, tolerance)
            yield from _degenerate(got, want, tolerance)


def _near(a: Array, b: Array, tolerance: Tolerance) -> bool:
    """Whether all entries agree; a relation adds an operation or two, so it is given ten times the tolerance."""
    wide = Tolerance(tolerance.rtol * 10, tolerance.atol * 10)
    return a.shape == b.shape and bool(close(a, b, wide).all())


def _boolean(got: Array, want: Array) -> Iterator[Relation]:
    if (got == ~want).all():
        yield Relation(
            "is the exact opposite: True where it should be False", "Check what True means here, and turn it round once."
        )
    if got.all() or not got.any():
        yield Relation(f"is {bool(got.flat[0])} everywhere", "No entry depends on your inputs: follow one entry by hand.")
    elif (want & ~got).any() and not (got & ~want).any():
        yield Relation(
            "lets too few through: every True is right, but some are missing", "Look at the comparison: is it < where ≤ is meant?"
        )
    elif (got & ~want).any() and not (want & ~got).any():
        yield Relation(
            "lets too many through: nothing is missing, but some True should be False",
            "Look at the comparison: is it ≤ where < is meant?",
        )
    yield from _moved(got, want, Tolerance())


def _factors(got: Array, want: Array, known: tuple[Size, ...], tolerance: Tolerance) -> Iterator[Relation]:
    """One factor, or one summand, for all entries."""
    far = np.abs(want) > max(1e-9, 1e3 * tolerance.atol)
    if far.any() and _near(got[~far], want[~far], Tolerance(tolerance.rtol, max(tolerance.atol, 1e-6))) | (~far).all():
        ratio = float(np.median((got / np.where(far, want, 1.0))[far]))
        if math.isfinite(ratio) and ratio not in (0.0, 1.0) and _near(got, ratio * want, tolerance):
            yield from _factor(ratio, known, tolerance)
    gap = float(np.median(got - want))
    if math.isfinite(gap) and gap != 0 and _near(got, want + gap, tolerance):
        yield from _summand(gap, known)


def _factor(ratio: float, known: tuple[Size, ...], tolerance: Tolerance) -> Iterator[Relation]:
    slack = 1e-4 + 20 * tolerance.rtol
    if abs(ratio + 1) < slack:
        yield Relation("has the wrong sign", "Look for a minus too many, or a difference taken the other way round.")
        return
    sign = "minus " if ratio < 0 else ""
    ratio = abs(ratio)

    def alike(value: float) -> bool:
        return value > 0 and abs(ratio / value - 1) < slack

    for constant in CONSTANTS:
        shown = {math.pi: "π", math.log(2): "ln 2", math.sqrt(2): "√2", 2.0**20: "2^20", 2.0**30: "2^30"}.get(
            constant, f"{constant:g}"
        )
        if alike(constant):
            yield _times(sign + shown)
        if alike(1 / constant):
            yield _over(sign + shown)
    for size in known:
        for power, words in (
            (1.0, size.symbol),
            (0.5, f"the square root of {size.symbol}"),
            (2.0, f"the square of {size.symbol}"),
        ):
            if alike(size.value**power):
                yield _times(sign + words)
            if alike(size.value**-power):
                yield _over(sign + words)
    for size, constant in itertools.product(known, (2.0, 4.0, 0.5, 0.25)):
        if alike(size.value * constant):
            yield _times(f"{sign}{constant:g} times {size.symbol}")
        if alike(1 / (size.value * constant)):
            yield _over(f"{sign}{constant:g} times {size.symbol}")
    for one, two in itertools.combinations(known, 2):
        if alike(one.value * two.value):
            yield _times(f"{sign}{one.symbol} times {two.symbol}")
        if alike(1 / (one.value * two.value)):
            yield _over(f"{sign}{one.symbol} times {two.symbol}")
        if alike(one.value / two.value):
            yield _times(f"{sign}{one.symbol} over {two.symbol}")
        if alike(two.value / one.value):
            yield _times(f"{sign}{two.symbol} over {one.symbol}")
    yield Relation(
        "is the right one times a number that is the same for all entries",
        "One factor is wrong, missing or there twice. Compare any one entry with your formula.",
    )


def _times(what: str) -> Relation:
    return Relation(
        f"is {what} times the right one, in every entry",
        f"A factor {what} too many: it is not divided out, or it is there twice.",
    )


def _over(what: str) -> Relation:
    return Relation(
        f"is the right one divided by {what}, in every entry", f"A factor {what} is missing, or you divide by it once too often."
    )


def _summand(gap: float, known: tuple[Size, ...]) -> Iterator[Relation]:
    for value, words in [*((size.value, size.symbol) for size in known), (1.0, "1"), (2.0, "2")]:
        if abs(abs(gap) - value) < 1e-6 * value:
            more = "more" if gap > 0 else "less"
            yield Relation(
                f"is {words} {more} than the right one, in every entry",
                "Off by a constant: what is counted once too often, or not at all?",
            )
    yield Relation("differs from the right one by the same number in every entry", "A constant is added or left out.")


def _softmax(x: Array, axis: int) -> Array:
    shifted = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))


def _functions(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Relation]:
    """The right numbers before or after a function."""
    if _near(got, 1 - want, tolerance):
        yield Relation("is 1 minus the right one", "You have the share of what should be left out: turn it round.")
    for axis in range(-1, -want.ndim - 1, -1):
        if want.shape[axis] < 2:
            continue
        where = "" if axis == -1 else f" along axis {axis}"
        if _near(got, _softmax(want, axis), tolerance):
            yield Relation(f"has been through one softmax too many{where}", "The right result is not normalised once more.")
        if _near(_softmax(got, axis), want, tolerance):
            yield Relation(f"is what should go into the softmax{where}", "The softmax is missing.")
        total = want.sum(axis=axis, keepdims=True)
        if _near(got, want / total, tolerance) and not _near(want, want / total, tolerance):
            yield Relation(f"is the right one, normalised to sum to 1{where}", "Nothing should be normalised here.")
        whole = got.sum(axis=axis, keepdims=True)
        if _near(got / whole, want, tolerance):
            yield Relation(f"is right but for the normalisation{where}: each sum should be 1", "Divide by the sum.")
    pairs = (
        ("the exponential", np.exp), ("the logarithm", np.log), ("the square", np.square), ("the square root", np.sqrt),
        ("the reciprocal", np.reciprocal), ("the absolute value", np.abs), ("the whole part", np.floor), ("the rounded value", np.round),
        ("the positive part", lambda x: np.maximum(x, 0)), ("the value rounded up", np.ceil), ("the hyperbolic tangent", np.tanh),
    )  # fmt: skip
    for words, function in pairs:
        image = np.asarray(function(want))
        if np.isfinite(image).all() and _near(got, image, tolerance):
            yield Relation(f"is {words} of the right one", f"Leave out the last step: {words} is not asked for.")


def _moved(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Relation]:
    """The right entries, shifted or reversed along an axis."""
    for axis in range(-1, -want.ndim - 1, -1):
        length = want.shape[axis]
        if length < 2:
            continue
        if _near(got, np.flip(want, axis), tolerance):
            yield Relation(
                f"is the right one backwards along axis {axis}", "Turn the order round, or run through it from the other end."
            )
        for step in (1, -1, 2, -2):
            if abs(step) >= length:
                continue
            if _near(got, np.roll(want, step, axis), tolerance):
                yield Relation(
                    f"is the right one rolled by {abs(step)} along axis {axis}", "An index is off: where do you begin to count?"
                )
            kept, moved = _overlap(want, got, step, axis)
            if length > 2 and kept.size > 1 and _near(moved, kept, tolerance) and not _near(got, want, tolerance):
                ahead = "later" if step > 0 else "earlier"
                yield Relation(
                    f"is the right one, {abs(step)} {ahead} along axis {axis}",
                    "Off by one: check the first and the last index, and `<` against `<=`.",
                )


def _overlap(want: Array, got: Array, step: int, axis: int) -> tuple[Array, Array]:
    """The part of `want` that a shift by `step` keeps, and where it would be in `got`."""
    length = want.shape[axis]
    early, late = np.arange(0, length - abs(step)), np.arange(abs(step), length)
    a, b = (early, late) if step > 0 else (late, early)
    return np.take(want, a, axis), np.take(got, b, axis)


def _rearranged(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Relation]:
    """The right numbers in other places or in another shape."""
    if got.size != want.size:
        return
    if 2 <= want.ndim == got.ndim <= 5:
        for axes in itertools.permutations(range(want.ndim)):
            if axes == tuple(range(want.ndim)):
                continue
            if _near(got, want.transpose(axes), tolerance):
                changed = [axis for axis, old in enumerate(axes) if axis != old]
                if len(changed) == 2:
                    a, b = (axis - want.ndim for axis in changed)
                    yield Relation(
                        f"is right but transposed: axes {a} and {b} have changed places",
                        "Swap these two axes, or build the result with them in this order from the start.",
                    )
                else:
                    yield Relation(
                        f"holds the right numbers with its axes in the order {tuple(axes)}",
                        "Bring the axes back into order with `transpose` or `permute`.",
                    )
                return
    if got.shape != want.shape and _near(got.reshape(want.shape), want, tolerance):
        yield Relation(
            f"holds the right numbers in shape {got.shape} instead of {want.shape}",
            "Only the shape is off: a missing or extra axis (`keepdims`, `unsqueeze`, `squeeze`, `reshape`).",
        )
        return
    if want.ndim >= 2 and got.shape == want.shape:
        for axis in range(want.ndim):
            order = np.moveaxis(want, axis, -1)
            if _near(got, order.reshape(want.shape), tolerance):
                yield Relation(
                    "holds the right numbers in a wrong order: a `reshape` where a `transpose` is needed (or one without the other)",
                    "`reshape` never moves a number past another. To exchange axes, transpose; then reshape.",
                )
                return
    flat_got, flat_want = np.sort(got, axis=None), np.sort(want, axis=None)
    if want.dtype.kind != "b" and want.size > 2 and len(np.unique(want)) > 2 and _near(flat_got, flat_want, tolerance):
        yield Relation(
            "holds exactly the right numbers, in other places",
            "Nothing is computed wrongly; something is put in the wrong place: look at axes, order and `reshape`.",
        )


def _reduced(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Relation]:
    """Summed over an axis, not summed, averaged, or only a part of the result."""
    if got.ndim == want.ndim + 1:
        for axis in range(got.ndim):
            if _near(got.sum(axis=axis), want, tolerance):
                yield Relation(f"is not summed yet: the sum over its axis {axis - got.ndim} is right", "Sum over that axis.")
            if _near(got.mean(axis=axis), want, tolerance) and got.shape[axis] > 1:
                yield Relation(
                    f"is not averaged yet: the mean over its axis {axis - got.ndim} is right", "Average over that axis."
                )
    for axis in range(want.ndim):
        for keep in (False, True):
            if _near(got, want.sum(axis=axis, keepdims=keep), tolerance) and want.shape[axis] > 1:
                yield Relation(
                    f"is the sum of the right one over axis {axis - want.ndim}", "Leave that axis standing: one sum too many."
                )
            if _near(got, want.mean(axis=axis, keepdims=keep), tolerance) and want.shape[axis] > 1:
                yield Relation(
                    f"is the mean of the right one over axis {axis - want.ndim}",
                    "Leave that axis standing: nothing is averaged here.",
                )
        if got.ndim in (want.ndim, want.ndim - 1) and want.shape[axis] > 1:
            for index, words in ((0, "first"), (-1, "last")):
                part = np.take(want, [index] if got.ndim == want.ndim else index, axis)
                if _near(got, part, tolerance):
                    yield Relation(
                        f"is right, but only the {words} of {want.shape[axis]} along axis {axis - want.ndim}",
                        "Return all of them.",
                    )
        if got.ndim == want.ndim and got.shape[axis] != want.shape[axis]:
            shorter = min(got.shape[axis], want.shape[axis])
            for words, part in (("first", np.arange(shorter)), ("last", np.arange(-shorter, 0))):
                if _near(np.take(got, part, axis), np.take(want, part, axis), tolerance):
                    few = "too few" if got.shape[axis] < want.shape[axis] else "too many"
                    yield Relation(
                        f"has {few} entries along axis {axis - want.ndim}: the {words} {'ones are' if shorter > 1 else 'one is'} right",
                        "Check where the loop or the slice begins and ends.",
                    )
                    break


def _by_rows(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Relation]:
    """A factor or a summand of its own for each row or column."""
    for axis in range(-1, -want.ndim - 1, -1):
        if want.shape[axis] < 3 or want.size == want.shape[axis]:
            continue
        safe = np.where(np.abs(want) > 1e-9, want, np.nan)
        ratio = np.nanmedian(got / safe, axis=axis, keepdims=True)
        if np.isfinite(ratio).all() and _near(got, ratio * want, tolerance):
            yield Relation(
                f"is right along axis {axis} up to a factor of its own for each row of that axis",
                "A normalisation is missing, or runs over another axis.",
            )
        gap = np.median(got - want, axis=axis, keepdims=True)
        if np.isfinite(gap).all() and _near(got, want + gap, tolerance):
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
    if np.ptp(got) <= tolerance.atol and np.ptp(want) > 10 * tolerance.atol:
        yield Relation(
            f"is the same number, {got.flat[0]:.4g}, everywhere", "No entry depends on your inputs: follow one entry by hand."
        )
        return
    for axis in range(-1, -want.ndim - 1, -1):
        if want.ndim > 1 and got.shape[axis] > 1:
            first = np.take(got, [0], axis)
            if _near(np.broadcast_to(first, got.shape), got, tolerance) and not _near(
                np.broadcast_to(np.take(want, [0], axis), want.shape), want, tolerance
            ):
                yield Relation(
                    f"is the same all along axis {axis}, where it should differ",
                    "A broadcast has replaced the axis: which input should vary along it?",
                )


def where_wrong(wrong: Array) -> str:
    """Where the wrong entries of a result lie, in words, if they lie in a simple place; else ""."""
    if wrong.ndim == 0 or wrong.all() or not wrong.any():
        return ""
    if wrong.ndim >= 2:
        rows, columns = wrong.shape[-2:]
        grid = np.broadcast_to(np.arange(columns)[None, :] - np.arange(rows)[:, None], wrong.shape)
        if rows > 2 and columns > 2:
            for test, words in (
                (grid == 0, "on the diagonal"),
                (grid > 0, "above the diagonal"),
                (grid < 0, "below the diagonal"),
                (grid != 0, "off the diagonal"),
            ):
                if not (wrong & ~test).any():
                    return f"the wrong entries all lie {words}"
    for axis in range(wrong.ndim):
        others = tuple(a for a in range(wrong.ndim) if a != axis)
        hit = wrong.any(axis=others) if others else wrong
        length = wrong.shape[axis]
        if length > 2 and hit.sum() == 1:
            index = int(np.flatnonzero(hit)[0])
            words = "the first" if index == 0 else "the last" if index == length - 1 else f"index {index}"
            return f"only {words} along axis {axis - wrong.ndim} is wrong"
        if length > 2 and hit.sum() == length - 1 and not hit.all():
            index = int(np.flatnonzero(~hit)[0])
            words = "the first" if index == 0 else "the last" if index == length - 1 else f"index {index}"
            return f"{words} along axis {axis - wrong.ndim} is right, the others are not"
    return ""


def leaves(value: EncodedValue) -> Mapping[str, Any]:
    """Each leaf of a value by its path: an array, a number, a word."""
    found: dict[str, Any] = {}
    for path, leaf in value.leaves():
        if "a" in leaf:
            found[path] = value.arrays[leaf["a"]]
        elif "f" in leaf:
            found[path] = np.asarray(float(leaf["f"]))
        elif isinstance(leaf.get("s"), int | float) and not isinstance(leaf.get("s"), bool):
            found[path] = np.asarray(leaf["s"])
        else:
            found[path] = leaf.get("s")
    return found
