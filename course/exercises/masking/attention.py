"""Attention that obeys a mask."""

import functools

import numpy as np
import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Of, Property, Variant
from course.exercises.masking import steps
from course.exercises.masking.scores import INFINITY, draw_keep
from solutions import masking as ref

WEIGHTS_ARE_WEIGHTS = (Property("sums_to_one", axis=-1, output=1), Property("non_negative", output=1))
BUILTIN = ("F.scaled_dot_product_attention", "scaled_dot_product_attention")


def _tiny(draw: Draw):
    return {"Q": draw.normal(2, 5), "K": draw.normal(3, 5), "V": draw.normal(3, 7), "keep": draw_keep(draw, 2, 3)}


def _padded_batch(draw: Draw):
    n, m, d_k, d_v = draw.sizes(4, high=7)
    shapes = {"Q": (3, n, d_k), "K": (3, m, d_k), "V": (3, m, d_v)}
    return {name: draw.normal(*shape) for name, shape in shapes.items()} | {"keep": draw_keep(draw, 3, 1, m)}


def _square(draw: Draw):
    """Self-attention, causal, of a batch as long as each sequence: no wrong axis is stopped by a shape error."""
    n, d = draw.sizes(2, low=3, high=7)
    keep = torch.ones(n, n).tril().bool().numpy()
    return {name: draw.normal(n, n, d) for name in "QKV"} | {"keep": keep}


def _empty_rows(draw: Draw):
    inputs = _padded_batch(draw)
    n, m = inputs["Q"].shape[-2], inputs["K"].shape[-2]
    keep = draw_keep(draw, 3, n, m)
    keep[draw.integer(0, 2)] = False  # one sequence without a token,
    keep[:, draw.integer(0, n - 1)] = False  # and one query of all sequences
    keep[0, 0], keep[1, 1] = draw_keep(draw, m), draw_keep(draw, m)  # but something stays
    return inputs | {"keep": keep}


def _forbidden_giant(draw: Draw):
    """In each row the forbidden key's score is about 1000 above the kept ones, which lie a few apart."""
    d_k, d_v = draw.sizes(2, low=5, high=7)
    Q, K = draw.normal(2, d_k), draw.normal(3, d_k)
    Q[:, 0], keep = 50.0, torch.ones(2, 3).bool().numpy()
    K[:, 0], giant = draw.normal(3) / 50, draw.integer(0, 2)
    K[giant, 0], keep[:, giant] = 50.0, False
    return {"Q": Q, "K": K, "V": draw.normal(3, d_v), "keep": keep}


def _low_scores(draw: Draw):
    """In each row one key is kept. Its score is about -4e9, far below those of the forbidden ones, near 0; in one row it is 2000."""
    d_k, d_v = draw.sizes(2, low=5, high=7)
    Q, K = draw.normal(4, d_k), draw.normal(3, d_k)
    Q[:, 0], K[:, 0] = 1e5, 0.0
    Q[draw.integer(0, 3), 0] = -0.05
    low = draw.integer(0, 2)
    K[low] = 0.0
    K[low, 0] = -1e5  # the same score for all queries, however it is rounded
    keep = np.zeros((4, 3), dtype=bool)
    keep[:, low] = True
    return {"Q": Q, "K": K, "V": draw.normal(3, d_v), "keep": keep}


def _broken_query(draw: Draw):
    """One query holds a NaN and sees all keys; the others are as usual."""
    d_k, d_v = draw.sizes(2, low=3, high=7)
    Q, keep = draw.normal(3, d_k), draw_keep(draw, 3, 4)
    broken = draw.integer(0, 2)
    Q[broken, draw.integer(0, d_k - 1)] = np.nan
    keep[broken] = True
    return {"Q": Q, "K": draw.normal(4, d_k), "V": draw.normal(4, d_v), "keep": keep}


MASKED_SDPA = Exercise(
    "masked_sdpa",
    title="Attention that obeys a mask",
    points=3,
    difficulty=4,
    minutes=18,
    reference=ref.masked_sdpa,
    recipe=steps.attend,
    tensors=True,
    properties=WEIGHTS_ARE_WEIGHTS,
    forbid=BUILTIN,
    cases=(
        Case("two queries, three keys", _tiny, grad=("Q", "K", "V")),
        Case("a padded batch", _padded_batch, grad=("Q", "K", "V")),
        Case("causal self-attention", _square),
        Case("queries that may see nothing", _empty_rows, edge=0.2),
        Case("gradients where queries see nothing", _empty_rows, grad=("Q", "K", "V"), edge=0.2),
        Case("a forbidden key with a huge score", _forbidden_giant, edge=0.1),
        Case("a kept key with a very low or high score", _low_scores, edge=0.2),
        Case("a query that holds a NaN", _broken_query, edge=0.15),
    ),
    hints=(
        "The mask acts on the **scores**, before the softmax; the softmax then shares out 1 among what is left. First get that "
        "right, then ask which rows have nothing left.",
        "A row of only $-\\infty$ gives NaN, and $0 \\cdot$ NaN is NaN again, in the backward pass too. Best let none arise: `keep.any(-1, "
        "keepdim=True)` finds the rows with something to see. Leave the others unmasked, then set **their weights** to 0.",
        "Call those rows `dead`. The mask `keep | dead` leaves no row empty: fill with $-\\infty$ where **it** is False, take the softmax, "
        "and only then fill the weights of the dead rows with 0, before they meet `V`.",
    ),
    misconceptions=(
        # first what is met beside any other mistake: the build tries pairs in this order, and not all
        Misconception(
            "polarity_flipped",
            "attended to exactly what is forbidden",
            "True means keep. If you call `masked_fill`, it wants `~keep`.",
            Before(lambda keep, **_: {"keep": ~keep}),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "Start from `scaled_scores(Q, K)`, which is given.",
            Instead(power=0.0),
        ),
        Misconception(
            "scaled_twice",
            "divided by $\\sqrt{d_k}$ twice: `scaled_scores` does it already",
            "Take the scores from `scaled_scores(Q, K)` as they are.",
            Instead(power=-1.0),
        ),
        Misconception(
            "softmax_over_queries",
            "normalised over the queries: your columns sum to 1, not your rows",
            "Each query shares out a total of 1 among the keys. The keys are the last axis: `dim=-1`.",
            Instead(axis=-2),
        ),
        Misconception(
            "weights_first",
            "returned the weights first and the outputs second",
            "The docstring says $(O, A)$: the outputs first.",
            After(lambda out, **_: (out[1], out[0])),
        ),
        Misconception(
            "masked_after_softmax",
            "masked the weights **after** the softmax, so what is left sums to less than 1",
            "Mask the scores instead. The softmax then divides by the kept keys alone.",
            steps.unhidden(clear=steps.kept),
        ),
        Misconception(
            "renormalised_after_softmax",
            "masked the weights after the softmax and divided by their new sum. Where a forbidden key had nearly all the weight, nothing is "
            "left to divide: NaN, or precision lost",
            "Mask the scores before the softmax, so that a forbidden key has no say in the division.",
            steps.unhidden(clear=steps.shares),
        ),
        Misconception(
            "renormalised_with_a_floor",
            "masked the weights after the softmax and divided by their new sum, with something else where that is 0. Where a forbidden key had "
            "nearly all the weight, the kept ones get none",
            "Mask the scores before the softmax, so that a forbidden key has no say in the division.",
            steps.unhidden(clear=functools.partial(steps.shares, floor=1e-9)),
        ),
        Misconception(
            "values_zeroed",
            "made the forbidden **values** vanish, but left their weights standing",
            "A zero value still takes its share of the 1. Mask the scores: then the weights of what is kept sum to 1.",
            steps.unhidden(finish=Of(lambda V, keep, **_: lambda O, A: ((A * keep) @ V, A))),
        ),
        Misconception(
            "mask_without_effect",
            "attended to everything: the mask has no effect",
            "`masked_fill` returns a **new** tensor and leaves the scores as they are: take the softmax of its result.",
            steps.unhidden(),
        ),
        Misconception(
            "multiplied_scores",
            "set the forbidden scores to 0, which the softmax takes for an ordinary score",
            "Give them $-\\infty$, which is the one score without any weight.",
            Instead(hide=steps.filled(0.0), clear=steps.as_they_are),
        ),
        Misconception(
            "multiplied_scores_then_zero",
            "set the forbidden scores to 0, and their weights to 0 after the softmax: it had counted them, so what is left does not sum to 1",
            "Give them $-\\infty$ before the softmax. Then they have no share in what it divides by.",
            Instead(hide=steps.filled(0.0), clear=steps.kept),
        ),
        Misconception(
            "sum_of_at_least_one",
            "divided by a sum of exponentials that cannot be less than 1: where the kept scores are low it is, and the weights sum to too little",
            "Replace the sum only where **nothing** is kept; every other sum is what it is. (`torch.softmax` divides by the right one.)",
            Instead(share=steps.over(1.0)),
        ),
        Misconception(
            "exponentials_too_small_or_too_large",
            "took the exponentials of the scores as they are: they are all 0 where the kept scores are very low, and infinite where one is high",
            "Take the row's largest kept score off all of them first, or leave it to `torch.softmax`, which does that.",
            Instead(share=steps.over(1e-30)),
        ),
        Misconception(
            "minus_infinity_only",
            "gave the softmax rows of only $-\\infty$: those become NaN",
            "Find those rows with `keep.any(-1, keepdim=True)`. Leave them unmasked for the softmax, then set their weights to 0.",
            steps.only_infinity(),
        ),
        Misconception(
            "minus_infinity_times_zero",
            "multiplied the mask by $-\\infty$. Where the mask is 0 the product is NaN, and one NaN spreads over its whole row",
            "Write $-\\infty$ where a key is forbidden and touch nothing else: `masked_fill(~keep, -math.inf)`.",
            Instead(hide=lambda S, keep: S + (~keep) * -INFINITY, clear=steps.as_they_are),
            also=(Instead(hide=lambda S, keep: S + (~keep) * -INFINITY),),
        ),
        Misconception(
            "minus_1e9",
            "filled in a finite number such as -1e9: a kept score may be lower, and a query that may see nothing gets the mean of **all** values",
            "Only $-\\infty$ is below every score. Then ask what becomes of a row in which nothing is kept.",
            Instead(hide=steps.filled(-1e9), clear=steps.as_they_are),
        ),
        Misconception(
            "smallest_number",
            "gave equal scores to a query that may see nothing: its weights come out equal, those of the forbidden keys too",
            "Set the weights to 0 where nothing is kept.",
            Instead(hide=lambda S, keep: S.masked_fill(~keep, torch.finfo(S.dtype).min), clear=steps.as_they_are),
        ),
        Misconception(
            "minus_1e9_then_zero",
            "filled in a number such as -1e9, and a kept score may be lower still: then the forbidden keys take the weight",
            "$-\\infty$ is below every score. Fill with `-math.inf`.",
            Instead(hide=steps.filled(-1e9), clear=steps.kept),
            also=(Instead(hide=functools.partial(steps.filled_but_for_empty_rows, number=-1e9)),),
        ),
        Misconception(
            "nan_to_num_on_the_weights",
            "turned every NaN among the weights into 0, also one that came in with a query that sees something: a fault made elsewhere is hidden",
            "Set to 0 the rows in which nothing is **kept**: ask the mask, not the numbers. Best is that no NaN arises in them.",
            steps.only_infinity(clear=steps.no_nan),  # no NaN in the gradients: the fill's own backward pass drops it
        ),
        Misconception(
            "nan_to_num_on_the_output",
            "replaced NaN by 0 in the results alone. For finite inputs the values are right; "
            "but the weights were NaN when they met `V`, so its gradient is NaN",
            "Zero the **weights**, before they multiply `V`; better still, let no NaN arise.",
            steps.only_infinity(finish=steps.nan_to_zero),
        ),
        Misconception(
            "nan_to_num_after_adding",
            "let NaN arise among the weights, and replaced it by 0 afterwards. For finite inputs the values are right; "
            "but the backward pass computes "
            "$0 \\cdot$ NaN, and that reaches `Q` and `K`",
            "Let no NaN arise: leave the empty rows unmasked for the softmax, then set their weights to 0.",
            steps.only_infinity(hide=steps.added, clear=steps.no_nan),
        ),
        Misconception(
            "mended_after_adding",
            "added $-\\infty$ and mended the weights of the empty rows after the softmax. The values are right; "
            "but the backward pass of the softmax computes $0 \\cdot$ NaN, and that reaches `Q` and `K`",
            "Let no NaN arise: leave the empty rows unmasked for the softmax, then set their weights to 0.",
            Instead(hide=steps.added),
        ),
        Misconception(
            "nan_to_num_on_the_output_after_adding",
            "let NaN arise among the weights, and replaced it by 0 in the results alone. For finite inputs the values are right; "
            "but the backward pass meets the NaN weights "
            "twice, at `V` and in the softmax, and no input gets a usable gradient",
            "Let no NaN arise: leave the empty rows unmasked for the softmax, then set their weights to 0.",
            steps.only_infinity(hide=steps.added, finish=steps.nan_to_zero),
        ),
        Misconception(
            "weights_left_nan",
            "replaced NaN by 0 in the outputs, but returned the weights of the empty rows as NaN",
            "Set the **weights** of those rows to 0. The outputs are then 0 by themselves.",
            steps.only_infinity(finish=lambda O, A: (torch.nan_to_num(O), A)),
        ),
        Misconception(
            "empty_rows_left_open",
            "left the empty rows unmasked for the softmax and forgot them there: a query that may see nothing sees **everything**",
            "That is the first half. After the softmax set the weights of these rows to 0.",
            Instead(clear=steps.as_they_are),
        ),
        Misconception(
            "added_the_mask",
            "added the mask of True and False to the scores: what is kept has a score higher by 1, and nothing is forbidden",
            "What is *added* is 0 or $-\\infty$. With a boolean mask, fill: `masked_fill(~keep, -math.inf)`.",
            Instead(hide=lambda S, keep: S + keep, clear=steps.as_they_are),
        ),
        Misconception(
            "softmax_axis_1",
            "wrote `dim=1`, which is the key axis only while there is no batch",
            "Count from the end, `dim=-1`: then any number of leading axes works.",
            Instead(axis=1),
        ),
    ),
    variants=(
        Variant("finite_fill_then_zero", steps.finite_fill),
        Variant("own_exponentials", steps.own_exponentials),
        Variant("empty_rows_of_the_weights_filled", steps.empty_rows_filled),
        Variant("builtin_with_identity_values", steps.identity_values),
    ),
)
