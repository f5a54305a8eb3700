"""The softmax: along the right axis, and for scores of any size."""

import numpy as np

from autograder import Case, Draw, Exercise, Misconception, Property, Variant
from solutions import scoring_functions as ref

Inputs = dict[str, object]


def _two_rows(draw: Draw) -> Inputs:
    """Small whole numbers, different in every row and column."""
    return {"x": draw.rng.permutation(np.arange(-3.0, 3.0)).reshape(2, 3), "axis": -1}


def _columns(draw: Draw) -> Inputs:
    n, m = draw.sizes(2, low=3, high=7)
    return {"x": draw.normal(n, m), "axis": 0}


def _middle_axis(draw: Draw) -> Inputs:
    b, n, m = draw.sizes(3, low=2, high=5)
    return {"x": draw.normal(b, n, m), "axis": 1}


def _thousands(draw: Draw) -> Inputs:
    """One query: no other row can lend it a maximum. The spread exceeds any power trick's reach, the winners are close."""
    return {"x": 2000.0 + draw.rng.permutation([0.0, -1.0, -2.0, -2500.0, -3000.0]) + draw.uniform(5), "axis": -1}


def _rows_far_apart(draw: Draw) -> Inputs:
    """The lowest row lies more than 745 below the highest, so that its exponentials vanish beside a common maximum."""
    offsets = np.array([[0.0], [-1000.0], [400.0]])[draw.rng.permutation(3)]
    return {"x": offsets + draw.normal(3, 5), "axis": -1}


def _plain(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def _one_maximum(x, axis=-1):
    return _plain(x - x.max(), axis)


def _one_sum(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum()


def _clipped(x, axis=-1):
    return _plain(np.clip(x, -700, 700), axis)


def _forgot_keepdims(x, axis=-1):
    e = np.exp(x - x.max(axis=axis))
    return e / e.sum(axis=axis)


def _in_place(x, axis=-1):
    x -= x.max(axis=axis, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=axis, keepdims=True)
    return x


def _log_sum_exp(x, axis=-1):
    return np.exp(x - np.logaddexp.reduce(x, axis=axis, keepdims=True))


def _slice_by_slice(x, axis=-1):
    def one(row):
        e = [np.exp(value - max(row)) for value in row]
        return np.array(e) / sum(e)

    return np.apply_along_axis(one, axis, x)


def _by_differences(x, axis=-1):
    x = np.moveaxis(x, axis, -1)
    with np.errstate(over="ignore"):
        a = 1 / np.exp(x[..., None, :] - x[..., :, None]).sum(axis=-1)
    return np.moveaxis(a, -1, axis)


SOFTMAX = Exercise(
    "softmax",
    title="A softmax that survives any scores",
    points=2,
    reference=ref.softmax,
    cases=(
        Case("two rows", _two_rows),
        Case("along the first axis", _columns),
        Case("along the middle axis", _middle_axis),
        Case("scores in the thousands", _thousands, edge=0.25),
        Case("rows far apart", _rows_far_apart, edge=0.25),
    ),
    properties=(Property("non_negative"), Property("at_most_one")),
    hints=(
        "Adding the same number to all scores of a slice changes no weight. Which number would make the largest exponential "
        "exactly 1, and no other larger?",
        "Subtract from each slice **its own** largest score, take exponentials, divide by their sum. Both `max` and `sum` run "
        "along `axis`; with `keepdims=True` their results still line up with `x`.",
        "`e = np.exp(x - x.max(axis=axis, keepdims=True))`, then `e / e.sum(axis=axis, keepdims=True)`.",
    ),
    misconceptions=(
        Misconception(
            "no_shift",
            "let the exponentials overflow: of a number beyond 709 they are infinite (and below $-745$ they are all 0)",
            "Subtract the largest score of each slice first. The weights stay the same, and the largest exponential is 1.",
            _plain,
        ),
        Misconception(
            "one_maximum_for_all",
            "subtracted a number far above a slice's own maximum (that of the whole array?): the slice underflows to 0/0",
            "Each slice needs its own maximum: `x.max(axis=axis, keepdims=True)`.",
            _one_maximum,
        ),
        Misconception(
            "clipped",
            "cut off large scores before the exponential, which makes different scores equal",
            "Shift the scores (subtract their maximum) and don't clip them: differences between scores must survive.",
            _clipped,
        ),
        Misconception(
            "always_last_axis",
            "normalised along the last axis, whatever `axis` says",
            "Pass `axis=axis` to `max` and to `sum`.",
            lambda x, axis=-1: ref.softmax(x, -1),
        ),
        Misconception(
            "over_everything",
            "normalised over the whole array: all entries together sum to 1",
            "Each slice along `axis` has a sum of its own: `e.sum(axis=axis, keepdims=True)`.",
            lambda x, axis=-1: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
        ),
        Misconception(
            "one_sum_for_all",
            "gave each slice its own maximum, but divided all of them by one sum, that of the whole array",
            "The sum runs along `axis`, as the maximum does: `e.sum(axis=axis, keepdims=True)`.",
            _one_sum,
        ),
        Misconception(
            "no_keepdims",
            "dropped the axis in `max` or `sum`, so the result no longer lines up with `x` (for a square array NumPy would "
            "not even complain)",
            "Write `keepdims=True` in both: a column of maxima is then subtracted from the columns of `x`.",
            _forgot_keepdims,
        ),
        Misconception(
            "in_place",
            "have the right weights, but wrote them over the scores that were passed in",
            "The caller may still need the scores. Write `x = x - …`, which makes a new array, and not `x -= …`.",
            _in_place,
        ),
    ),
    variants=(
        Variant("log_sum_exp", _log_sum_exp),
        Variant("slice_by_slice", _slice_by_slice),
        Variant("sums_of_exponentials_of_differences", _by_differences),
    ),
)
