"""The softmax: along the right axis, and for scores of any size."""

import numpy as np

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Property, Variant
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


def _own_maximum(x, axis):
    return x - x.max(axis=axis, keepdims=True)


def _own_sum(e, x, axis):
    return e.sum(axis=axis, keepdims=True)


def _normalised(x, axis=-1, *, shift=_own_maximum, rise=np.exp, total=_own_sum, rows=False):
    shape = x.shape
    if rows:
        x, axis = x.reshape(-1, shape[axis]), -1
    e = rise(shift(x, axis))
    return (e / total(e, x, axis)).reshape(shape)


def _written_over(out, x, **_):
    x[...] = out
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
    difficulty=2,
    minutes=9,
    reference=ref.softmax,
    recipe=_normalised,
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
        "Subtract from each slice **its own** largest score, take exponentials, and divide by their sum. Both `max` and `sum` run "
        "along `axis`, and with `keepdims=True` their results still line up with `x`.",
        "Two lines are enough, the exponentials of the shifted scores and their division by a sum. `max` and `sum` take the same arguments, "
        "`axis=axis` and `keepdims=True`.",
    ),
    misconceptions=(
        Misconception(
            "no_shift",
            "took the exponentials without subtracting the maximum first, so large scores overflow",
            "Subtract the largest score of each slice first. The weights stay the same, and the largest exponential is 1.",
            Instead(shift=lambda x, axis: x),
        ),
        Misconception(
            "one_maximum_for_all",
            "subtracted a number far above the slice's own maximum, so that all of its exponentials round to 0",
            "Each slice needs its own maximum, `x.max(axis=axis, keepdims=True)`, and not that of the whole array.",
            Instead(shift=lambda x, axis: x - x.max()),
        ),
        Misconception(
            "clipped",
            "cut off large scores before the exponential, which makes different scores equal",
            "Subtract the maximum and don't clip, because the differences between scores have to survive.",
            Instead(shift=lambda x, axis: np.clip(x, -700, 700)),
        ),
        Misconception(
            "always_last_axis",
            "normalised along the last axis, whatever `axis` says",
            "Pass `axis=axis` to `max` and to `sum`.",
            Before(lambda **_: {"axis": -1}),
        ),
        Misconception(
            "rows_by_reshape",
            "reshaped the array into rows as long as the axis, which is right only for the last axis",
            "Leave `x` as it is and pass `axis=axis` and `keepdims=True` to `max` and to `sum`. Or move the axis to the end with "
            "`np.moveaxis(x, axis, -1)` and back again afterwards.",
            Instead(rows=True),
        ),
        Misconception(
            "over_everything",
            "normalised over the whole array, so that all entries together sum to 1",
            "Each slice along `axis` has its own sum, `e.sum(axis=axis, keepdims=True)`.",
            Instead(shift=lambda x, axis: x - x.max(), total=lambda e, x, axis: e.sum()),
        ),
        Misconception(
            "one_sum_for_all",
            "divided all slices by the sum of the whole array",
            "The sum runs along `axis`, like the maximum: `e.sum(axis=axis, keepdims=True)`.",
            Instead(total=lambda e, x, axis: e.sum()),
        ),
        Misconception(
            "no_keepdims",
            "dropped the axis in `max` or `sum`, so the result no longer lines up with `x`",
            "Write `keepdims=True` in both, so that a column of maxima is subtracted from the columns of `x`. For a square array NumPy would "
            "not even complain.",
            Instead(shift=lambda x, axis: x - x.max(axis=axis), total=lambda e, x, axis: e.sum(axis=axis)),
            raises=True,
        ),
        Misconception(
            "in_place",
            "computed the right weights but changed the scores that were passed in",
            "The caller may still need the scores. Write `x = x - …`, which makes a new array, and not `x -= …`.",
            After(_written_over),
        ),
        Misconception(
            "shifted_by_another_number",
            "subtracted the slice's mean or its smallest score, so the largest one can still overflow",
            "Subtract the slice's **largest** score, so that no exponent is above 0.",
            Instead(shift=lambda x, axis: x - x.mean(axis=axis, keepdims=True)),
            also=(Instead(shift=lambda x, axis: x - x.min(axis=axis, keepdims=True)),),
        ),
        Misconception(
            "shifted_above_only",
            "subtracted the maximum in the numerator but not in the denominator",
            "Divide by the sum of the same exponentials, so that the shift cancels.",
            Instead(total=lambda e, x, axis: np.exp(x).sum(axis=axis, keepdims=True)),
        ),
        Misconception(
            "negated",
            "took the exponential of $-x$, so the smallest score gets the largest weight",
            "These are scores and not distances, so a larger one should count more. Use $e^{x}$ without a minus.",
            Before(lambda x, **_: {"x": -x}),
        ),
        Misconception(
            "base_two",
            "took powers of 2 instead of $e$",
            "The softmax takes $e^x$: `np.exp`.",
            Instead(rise=np.exp2),
        ),
    ),
    variants=(
        Variant("log_sum_exp", _log_sum_exp),
        Variant("slice_by_slice", _slice_by_slice),
        Variant("sums_of_exponentials_of_differences", _by_differences),
    ),
)


# -------------------------------------------------------------------------------------------- pool_in_blocks


def _largest_last(draw: Draw) -> Inputs:
    """The second block holds the largest score, so that the maximum has to change on the way."""
    return {"s": np.array([0.0, 1.0, 2.0, 0.5]) + draw.integer(-2, 2), "V": draw.rng.integers(-4, 5, (4, 2)) * 1.0, "size": 2}


def _largest_first(draw: Draw) -> Inputs:
    return {"s": np.array([3.0, 1.0, 2.0, 0.5, 1.5]) + draw.uniform(5, high=0.3), "V": draw.normal(5, 3), "size": 2}


def _many_blocks(draw: Draw) -> Inputs:
    """Rising in the middle, falling at the end; the last block is shorter."""
    m = 11
    s = 2.0 - 0.15 * np.abs(np.arange(m) - 6.0) ** 1.3 + 0.3 * draw.uniform(m)
    return {"s": s, "V": draw.normal(m, int(draw.sizes(1, low=3, high=7)[0])), "size": 3}


def _in_the_thousands(draw: Draw) -> Inputs:
    return {"s": draw.integer(1500, 2500) + np.array([0.0, 1.0, -1.0, 2.0, 2.5]), "V": draw.normal(5, 2) + 1, "size": 2}


def _far_below_zero(draw: Draw) -> Inputs:
    """Every score is below -745: a maximum that starts at 0 never comes down to them."""
    return {"s": -draw.integer(1500, 2500) + np.array([1.0, 0.0, 2.0, 2.5, -1.0]), "V": draw.normal(5, 2) + 1, "size": 2}


def _falling_far(draw: Draw) -> Inputs:
    """From one block to the next the scores fall by 900: a maximum that forgets the first block has to undo it."""
    s = np.array([0.0, 1.0, -900.0, -901.0, -899.5]) + draw.integer(-3, 3)
    return {"s": s, "V": draw.normal(5, 2) + 1, "size": 2}


def _rising_far(draw: Draw) -> Inputs:
    """From one block to the next the scores rise by 900: exponentials with the first block's maximum are infinite."""
    s = np.array([0.0, 1.0, 2.0, 0.5, 1.5, 900.0, 901.0, 899.5]) + draw.integer(-3, 3)
    return {"s": s, "V": draw.normal(8, 2) + 1, "size": 2}


def _thousands_of_keys(draw: Draw) -> Inputs:
    """So many keys that all their exponentials at once take more room than one block does."""
    s, v = draw.rng.integers(-8, 9, (2, 1500))
    return {"s": s / 4, "V": v[:, None] / 4, "size": 50}


def _to_the_new(old, new):
    return np.exp(old - new)


def _to_the_new_upside_down(old, new):
    return np.exp(new - old) if np.isfinite(old) else 1.0


def _blockwise(
    s,
    V,
    size,
    *,
    first=-np.inf,
    factor=_to_the_new,
    keep_total=False,
    keep_o=False,
    own_top=False,
    averaged=False,
    whole=False,
):
    """`factor` brings sums from the old to the new maximum; `whole` blocks alone leave out a rest."""
    top, total, o = first, 0.0, np.zeros(V.shape[1])
    for start in range(0, len(s) // size * size if whole else len(s), size):
        block, values = s[start : start + size], V[start : start + size]
        new_top = block.max() if own_top else max(top, block.max())
        shrink = factor(top, new_top)
        e = np.exp(block - new_top)
        total = total * (1.0 if keep_total else shrink) + e.sum()
        o = o * (1.0 if keep_o else shrink) + e @ values
        o = o / total if averaged else o
        top = new_top
    return o if averaged else o / total


def _mean_of_blocks(s, V, size):
    starts = range(0, len(s), size)
    return sum(ref.softmax(s[i : i + size]) @ V[i : i + size] for i in starts) / len(starts)


def _sum_of_blocks(s, V, size):
    return sum(ref.softmax(s[i : i + size]) @ V[i : i + size] for i in range(0, len(s), size))


def _without_shift(s, V, size):
    total, o = 0.0, np.zeros(V.shape[1])
    for i in range(0, len(s), size):
        e = np.exp(s[i : i + size])
        total, o = total + e.sum(), o + e @ V[i : i + size]
    return o / total


def _first_maximum_kept(s, V, size):
    top, total, o = s[:size].max(), 0.0, np.zeros(V.shape[1])
    for i in range(0, len(s), size):
        e = np.exp(s[i : i + size] - top)
        total, o = total + e.sum(), o + e @ V[i : i + size]
    return o / total


def _two_passes(s, V, size):
    top = max(s[i : i + size].max() for i in range(0, len(s), size))
    total, o = 0.0, np.zeros(V.shape[1])
    for i in range(0, len(s), size):
        e = np.exp(s[i : i + size] - top)
        total, o = total + e.sum(), o + e @ V[i : i + size]
    return o / total


def _averages_kept(s, V, size):
    """Keeps the pooled value and the logarithm of the sum so far, and mixes the two pools by their shares."""
    log_total, o = -np.inf, np.zeros(V.shape[1])
    for i in range(0, len(s), size):
        block = np.logaddexp.reduce(s[i : i + size])
        both = np.logaddexp(log_total, block)
        o = np.exp(log_total - both) * o + np.exp(block - both) * (ref.softmax(s[i : i + size]) @ V[i : i + size])
        log_total = both
    return o


POOL_IN_BLOCKS = Exercise(
    "pool_in_blocks",
    title="Find the bug: a softmax read in blocks",
    points=2,
    kind="bug",
    difficulty=3,
    minutes=12,
    reference=ref.pool_in_blocks,
    recipe=_blockwise,
    cases=(
        Case("the largest score comes last", _largest_last),
        Case("the largest score comes first", _largest_first),
        Case("many blocks, the last one shorter", _many_blocks),
        Case("scores in the thousands", _in_the_thousands, edge=0.2),
        Case("scores far below zero", _far_below_zero, edge=0.15),
        Case("a later block far below the first", _falling_far, edge=0.1),
        Case("a later block far above the first", _rising_far, edge=0.1),
        Case("thousands of keys, and room for a block", _thousands_of_keys, room=0.6, edge=0.15),
    ),
    hints=(
        "The code is right as long as the first block holds the largest score. What changes in the loop when a later block has a "
        "larger one, and which results were computed with the old one?",
        "The sums so far are made of $e^{s_j - \\text{old}}$, the new terms of $e^{s_j - \\text{new}}$. Bring the old sums to the new "
        "maximum before you add: which factor turns one exponential into the other?",
        "The factor is the exponential of the *old* maximum minus the *new* one, which is at most 1. Both sums, `total` and `o`, need it, "
        "so remember the old maximum before you overwrite it.",
    ),
    misconceptions=(
        Misconception(
            "as_shown",
            "added terms with the new maximum to sums that were made with an older one, as the draft does",
            "When the maximum grows, multiply what has been summed so far by $e^{\\text{old} - \\text{new}}$.",
            Instead(keep_total=True, keep_o=True),
        ),
        Misconception(
            "total_not_rescaled",
            "rescaled the sum of values when the maximum grew, but not the sum of weights",
            "`total` was made with the old maximum as well, so it needs the same factor.",
            Instead(keep_total=True),
        ),
        Misconception(
            "values_not_rescaled",
            "rescaled the sum of weights when the maximum grew, but not the sum of values",
            "`o` was made with the old maximum as well, so it needs the same factor.",
            Instead(keep_o=True),
        ),
        Misconception(
            "average_taken_for_a_sum",
            "divided `o` by the total after each block and then added to it as if it were still a sum",
            "Keep the sum and divide once, at the end.",
            Instead(averaged=True),
        ),
        Misconception(
            "upside_down",
            "multiplied the old sums by $e^{\\text{new} - \\text{old}}$, so they grow where they should shrink",
            "A term $e^{s - \\text{old}}$ becomes $e^{s - \\text{new}}$ by the factor $e^{\\text{old} - \\text{new}}$.",
            Instead(factor=_to_the_new_upside_down),
        ),
        Misconception(
            "nan_from_the_first_block",
            "multiplied by an infinite factor at the first block, where the old maximum is $-\\infty$, and 0 times infinity is NaN",
            "The factor is $e^{\\text{old} - \\text{new}}$, which is 0 at the first block and never above 1.",
            Instead(factor=lambda old, new: np.exp(new - old)),
        ),
        Misconception(
            "sums_thrown_away",
            "threw away the old sums when the maximum grew",
            "The old sums still count. Multiply both by $e^{\\text{old} - \\text{new}}$ and add the new terms.",
            Instead(factor=lambda old, new: 1.0 if new == old else 0.0),
        ),
        Misconception(
            "last_block_alone",
            "returned the result of the last block alone",
            "Multiply the sums so far by $e^{\\text{old} - \\text{new}}$, and **add** the terms of the new block.",
            Instead(factor=lambda old, new: 0.0),
        ),
        Misconception(
            "maximum_starts_at_zero",
            "let the running maximum start at 0, so that scores far below zero all round to 0",
            "Start from $-\\infty$ (`-np.inf`), or from the first block's own maximum.",
            Instead(first=0.0),
        ),
        Misconception(
            "maximum_of_the_block_alone",
            "used each block's own maximum and forgot the older ones, so the old sums can overflow",
            "The running maximum never falls: `max(top, block.max())`.",
            Instead(own_top=True),
        ),
        Misconception(
            "mean_of_the_blocks",
            "averaged the results of the blocks, so that each block counts equally whatever its scores are",
            "All keys share one denominator. Keep `total` over the blocks and divide once, at the end.",
            _mean_of_blocks,
        ),
        Misconception(
            "sum_of_the_blocks",
            "added a softmax of each block, so that the weights sum to the number of blocks",
            "Divide once, at the end, by the total over all blocks.",
            _sum_of_blocks,
        ),
        Misconception(
            "rest_left_out",
            "left out the last block where it is shorter than `size`",
            "`s[start : start + size]` ends by itself where the scores end.",
            Instead(whole=True),
        ),
        Misconception(
            "first_maximum_kept",
            "kept the first block's maximum, so exponentials of much larger scores are infinite",
            "Let the maximum grow with each block and rescale the old sums to it.",
            _first_maximum_kept,
        ),
        Misconception(
            "softmax_of_everything",
            "took one softmax of all scores, which needs all exponentials at once",
            "Go through the blocks and keep three running results, the largest score so far and the two sums.",
            lambda s, V, size: ref.softmax(s) @ V,
            raises=True,
        ),
        Misconception(
            "no_shift",
            "left the maximum out, so exponentials of scores in the thousands are infinite",
            "Keep the running maximum and rescale the sums when it grows.",
            _without_shift,
        ),
    ),
    variants=(
        Variant("maximum_found_first", _two_passes),
        Variant("averages_and_log_sums", _averages_kept),
    ),
)
