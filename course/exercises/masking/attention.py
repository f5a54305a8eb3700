"""Attention that obeys a mask, with and without queries that may see nothing."""

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


# mistakes with a mask that is never empty; the build tries pairs in this order, so what goes with any other mistake comes first
WITH_ANY_MASK = (
    Misconception(
        "polarity_flipped",
        "attended to exactly the keys that are forbidden",
        "True means keep. `masked_fill` fills where its argument is True, so it needs `~keep`.",
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
        "divided by $\\sqrt{d_k}$ twice, because `scaled_scores` already divides",
        "Use the scores from `scaled_scores(Q, K)` as they are.",
        Instead(power=-1.0),
    ),
    Misconception(
        "softmax_over_queries",
        "normalised over the queries, so that the columns sum to 1 instead of the rows",
        "Each query distributes a total of 1 over the keys. The keys are the last axis, `dim=-1`.",
        Instead(axis=-2),
    ),
    Misconception(
        "weights_first",
        "returned the weights first and the outputs second",
        "The docstring asks for $(O, A)$, with the outputs first.",
        After(lambda out, **_: (out[1], out[0])),
    ),
    Misconception(
        "masked_after_softmax",
        "masked the weights **after** the softmax, so the weights that remain sum to less than 1",
        "Mask the scores instead. Then the softmax divides by the kept keys alone.",
        steps.unhidden(clear=steps.kept),
    ),
    Misconception(
        "renormalised_after_softmax",
        "masked the weights after the softmax and divided by their new sum. Where a forbidden key had almost all the weight, you get NaN "
        "or lose precision",
        "Mask the scores before the softmax, so that a forbidden key never enters the division.",
        steps.unhidden(clear=steps.shares),
    ),
    Misconception(
        "renormalised_with_a_floor",
        "masked the weights after the softmax and divided by their new sum, with a replacement where that sum is 0. Where a forbidden key "
        "had almost all the weight, the kept keys get none",
        "Mask the scores before the softmax, so that a forbidden key never enters the division.",
        steps.unhidden(clear=functools.partial(steps.shares, floor=1e-9)),
    ),
    Misconception(
        "values_zeroed",
        "set the forbidden **values** to zero, but their weights are still there",
        "A value of zero still takes its share of the total weight. Mask the scores, so that the kept weights sum to 1.",
        steps.unhidden(finish=Of(lambda V, keep, **_: lambda O, A: ((A * keep) @ V, A))),
    ),
    Misconception(
        "mask_without_effect",
        "attended to every key, so the mask has no effect",
        "`masked_fill` returns a **new** tensor and leaves the scores unchanged. Take the softmax of its result.",
        steps.unhidden(),
    ),
    Misconception(
        "multiplied_scores",
        "set the forbidden scores to 0, which is an ordinary score for the softmax",
        "Give them $-\\infty$, the only score that gets no weight.",
        Instead(hide=steps.filled(0.0), clear=steps.as_they_are),
    ),
    Misconception(
        "multiplied_scores_then_zero",
        "set the forbidden scores to 0 and their weights to 0 after the softmax. The softmax had already counted them, so the rest does not "
        "sum to 1",
        "Give them $-\\infty$ before the softmax, so that they don't enter the sum that it divides by.",
        Instead(hide=steps.filled(0.0), clear=steps.kept),
    ),
    Misconception(
        "sum_of_at_least_one",
        "divided by a sum of exponentials that you kept at 1 or more. Where all kept scores are low, the true sum is smaller and your weights "
        "sum to too little",
        "Replace the sum only where **nothing** is kept. `torch.softmax` divides by the right sum by itself.",
        Instead(share=steps.over(1.0)),
    ),
    Misconception(
        "exponentials_too_small_or_too_large",
        "took the exponentials of the raw scores. They are all 0 where the kept scores are very low, and infinite where one score is high",
        "Subtract the row's largest kept score first, or use `torch.softmax`, which does that for you.",
        Instead(share=steps.over(1e-30)),
    ),
    Misconception(
        "minus_infinity_times_zero",
        "multiplied the mask by $-\\infty$. Zero times infinity is NaN, and one NaN spreads over its whole row",
        "Write $-\\infty$ where a key is forbidden and change nothing else, with `masked_fill(~keep, -math.inf)`.",
        Instead(hide=lambda S, keep: S + (~keep) * -INFINITY, clear=steps.as_they_are),
        also=(Instead(hide=lambda S, keep: S + (~keep) * -INFINITY),),
    ),
    Misconception(
        "added_the_mask",
        "added the mask of True and False to the scores, which raises every kept score by 1 and forbids nothing",
        "An additive mask holds 0 and $-\\infty$. With a boolean mask use `masked_fill(~keep, -math.inf)`.",
        Instead(hide=lambda S, keep: S + keep, clear=steps.as_they_are),
    ),
    Misconception(
        "softmax_axis_1",
        "wrote `dim=1`, which is the key axis only as long as there is no batch",
        "Count from the end with `dim=-1`. Then any number of leading axes works.",
        Instead(axis=1),
    ),
)


MASKED_ATTENTION = Exercise(
    "masked_attention",
    title="Masked attention",
    points=2,
    difficulty=3,
    minutes=8,
    reference=ref.masked_attention,
    recipe=steps.attend,
    tensors=True,
    properties=WEIGHTS_ARE_WEIGHTS,
    forbid=BUILTIN,
    cases=(
        Case("two queries, three keys", _tiny, grad=("Q", "K", "V")),
        Case("a padded batch", _padded_batch, grad=("Q", "K", "V")),
        Case("causal self-attention", _square),
        Case("a forbidden key with a huge score", _forbidden_giant, edge=0.1),
        Case("a kept key with a very low or high score", _low_scores, edge=0.1),
    ),
    hints=(
        "Follow your attention from notebook 03, and decide which of its steps the mask has to change.",
        "The softmax divides by the sum over a whole row, so a forbidden key has to vanish from that sum. Which score has the exponential 0?",
        "`scaled_scores(Q, K).masked_fill(~keep, -math.inf)` gives the masked scores. Take the softmax over the keys and multiply by `V`.",
    ),
    misconceptions=(
        *WITH_ANY_MASK,
        Misconception(
            "minus_1e9",
            "filled in a finite number such as -1e9, and a kept score may be lower still",
            "Only $-\\infty$ is below every score, and in float16 the number -1e9 doesn't even exist. Use `-math.inf`.",
            Instead(hide=steps.filled(-1e9), clear=steps.as_they_are),
            also=(Instead(hide=steps.filled(-1e9), clear=steps.kept),),
        ),
    ),
    variants=(
        Variant("fill_then_softmax", steps.plain),
        Variant("smallest_number", steps.finite_fill),
        Variant("own_exponentials", steps.own_exponentials),
        Variant("builtin_with_identity_values", steps.identity_values),
    ),
)


MASKED_SDPA = Exercise(
    "masked_sdpa",
    title="Queries that may see nothing",
    points=3,
    difficulty=4,
    minutes=15,
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
        "`masked_attention` is right wherever a query may see something. Which rows of `keep` are the exception, and what does the "
        "softmax make of them?",
        "A row of nothing but $-\\infty$ becomes NaN, and $0 \\cdot$ NaN is NaN again, in the backward pass as well. It is best if no NaN "
        "ever arises. `keep.any(-1, keepdim=True)` says which rows keep something.",
        "Call the other rows `empty`. The mask `keep | empty` has no empty row, so fill with $-\\infty$ where **it** is False and take the "
        "softmax. Then fill the weights of the empty rows with 0, before they meet `V`.",
    ),
    misconceptions=(
        *WITH_ANY_MASK,
        Misconception(
            "minus_infinity_only",
            "gave the softmax rows of nothing but $-\\infty$, which become NaN",
            "Find these rows with `keep.any(-1, keepdim=True)`. Leave them unmasked for the softmax, then set their weights to 0.",
            steps.only_infinity(),
        ),
        Misconception(
            "minus_1e9",
            "filled in a finite number such as -1e9. A kept score may be lower, and a query that may see nothing gets the mean of **all** values",
            "Only $-\\infty$ is below every score. Then decide what happens to a row in which nothing is kept.",
            Instead(hide=steps.filled(-1e9), clear=steps.as_they_are),
        ),
        Misconception(
            "smallest_number",
            "gave equal scores to every key of a query that may see nothing, so its weights are equal, on forbidden keys as well",
            "Set the weights to 0 where nothing is kept.",
            Instead(hide=lambda S, keep: S.masked_fill(~keep, torch.finfo(S.dtype).min), clear=steps.as_they_are),
        ),
        Misconception(
            "minus_1e9_then_zero",
            "filled in a number such as -1e9. A kept score may be lower still, and then the forbidden keys take the weight",
            "$-\\infty$ is below every score. Fill with `-math.inf`.",
            Instead(hide=steps.filled(-1e9), clear=steps.kept),
            also=(Instead(hide=functools.partial(steps.filled_but_for_empty_rows, number=-1e9)),),
        ),
        Misconception(
            "nan_to_num_on_the_weights",
            "turned every NaN among the weights into 0, even one that came in with a query that sees something. That hides a fault made elsewhere",
            "Set to 0 only the rows in which nothing is **kept**, which the mask tells you. It is best if no NaN arises in them.",
            steps.only_infinity(clear=steps.no_nan),  # no NaN in the gradients: the fill's own backward pass drops it
        ),
        Misconception(
            "nan_to_num_on_the_output",
            "replaced NaN by 0 in the results alone. For finite inputs the values are right, but the weights were NaN when they met `V`, so "
            "the gradient of `V` is NaN",
            "Set the **weights** to 0 before they multiply `V`. It is better still if no NaN arises.",
            steps.only_infinity(finish=steps.nan_to_zero),
        ),
        Misconception(
            "nan_to_num_after_adding",
            "let NaN arise among the weights and replaced it by 0 afterwards. For finite inputs the values are right, but the backward pass "
            "computes $0 \\cdot$ NaN, which reaches `Q` and `K`",
            "Let no NaN arise. Leave the empty rows unmasked for the softmax, then set their weights to 0.",
            steps.only_infinity(hide=steps.added, clear=steps.no_nan),
        ),
        Misconception(
            "mended_after_adding",
            "added $-\\infty$ and set the weights of the empty rows to 0 after the softmax. The values are right, but the backward pass of the "
            "softmax computes $0 \\cdot$ NaN, which reaches `Q` and `K`",
            "Let no NaN arise. Leave the empty rows unmasked for the softmax, then set their weights to 0.",
            Instead(hide=steps.added),
        ),
        Misconception(
            "nan_to_num_on_the_output_after_adding",
            "let NaN arise among the weights and replaced it by 0 in the results alone. For finite inputs the values are right, but the backward "
            "pass meets the NaN weights twice, at `V` and in the softmax, and no input gets a usable gradient",
            "Let no NaN arise. Leave the empty rows unmasked for the softmax, then set their weights to 0.",
            steps.only_infinity(hide=steps.added, finish=steps.nan_to_zero),
        ),
        Misconception(
            "weights_left_nan",
            "replaced NaN by 0 in the outputs, but returned the weights of the empty rows as NaN",
            "Set the **weights** of these rows to 0. Then the outputs are 0 by themselves.",
            steps.only_infinity(finish=lambda O, A: (torch.nan_to_num(O), A)),
        ),
        Misconception(
            "empty_rows_left_open",
            "left the empty rows unmasked for the softmax and never returned to them, so a query that may see nothing sees **everything**",
            "That is the first half. After the softmax, set the weights of these rows to 0.",
            Instead(clear=steps.as_they_are),
        ),
    ),
    variants=(
        Variant("finite_fill_then_zero", steps.finite_fill),
        Variant("own_exponentials", steps.own_exponentials),
        Variant("empty_rows_of_the_weights_filled", steps.empty_rows_filled),
        Variant("builtin_with_identity_values", steps.identity_values),
    ),
)
