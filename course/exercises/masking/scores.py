"""From a mask to scores: fill, or add."""

import torch

from autograder import Call, Case, Code, Draw, Exercise, Misconception, Script, Variant
from solutions import masking as ref

INFINITY = float("inf")


def draw_keep(draw: Draw, *shape: int):
    """A random mask in which every row forbids at least one key and keeps at least two (of two keys: one), so that scores matter."""
    keep = draw.rng.random(shape) < 0.5
    for row in keep.reshape(-1, shape[-1]):
        no, *yes = draw.rng.permutation(shape[-1])[:3]
        row[no], row[yes] = False, True
    return keep


# ---------------------------------------------------------------------------------------------- fill


def _scores_by_hand(draw: Draw):
    return {"S": draw.rng.permutation(6).reshape(2, 3) + 1.0, "keep": draw_keep(draw, 2, 3)}


def _scores_and_padding(draw: Draw):
    b, n, m = draw.sizes(3, low=2, high=7)
    return {"S": draw.normal(b, n, m), "keep": draw_keep(draw, b, 1, m)}


def _an_empty_row(draw: Draw):
    keep = draw_keep(draw, 3, 5)
    keep[draw.integer(0, 2)] = False
    return {"S": draw.normal(2, 3, 5), "keep": keep}


def _fill(value: float):
    return lambda S, keep: S.masked_fill(~keep, value)


APPLY_MASK = Exercise(
    "apply_mask",
    title="Forbid by minus infinity",
    points=1,
    reference=ref.apply_mask,
    tensors=True,
    cases=(
        Case("scores by hand", _scores_by_hand),
        Case("a batch and its padding mask", _scores_and_padding),
        Case("an empty row", _an_empty_row),
    ),
    hints=(
        "Which score has weight exactly 0 after the softmax, whatever the other scores are?",
        "`masked_fill` writes a value where **its** mask is True. Ours is True where the score should stay.",
        "`S.masked_fill(~keep, float('-inf'))`.",
    ),
    misconceptions=(
        Misconception(
            "multiplied",
            "set the forbidden scores to 0, by a product with the mask or by filling in 0; but a score of 0 still has $e^0 = 1$",
            "Zero is an ordinary score, and often a good one. The score without any weight is $-\\infty$.",
            lambda S, keep: S * keep,
        ),
        Misconception(
            "added_zero_and_one",
            "added the mask as it is: kept scores rise by 1, forbidden ones stay as they were",
            "Nothing is forbidden this way. Put $-\\infty$ where `keep` is False.",
            lambda S, keep: S + keep,
        ),
        Misconception(
            "polarity_flipped",
            "hid what should be kept: `masked_fill` fills where its mask is **True**",
            "Fill where `keep` is False: `~keep`.",
            lambda S, keep: S.masked_fill(keep, -INFINITY),
        ),
        Misconception(
            "minus_1e9",
            "used a large finite number instead of $-\\infty$",
            "It does the same while something is kept. But float16 cannot hold -1e9, and a row in which **all** scores are "
            "equally low gets uniform weights. Use `float('-inf')`.",
            _fill(-1e9),
        ),
        Misconception(
            "zero_times_infinity",
            "multiplied the mask by $-\\infty$ and added it: where a score should stay, $0 \\cdot \\infty$ is NaN",
            "Choose, do not multiply: `masked_fill` or `torch.where`.",
            lambda S, keep: S + (~keep) * -INFINITY,
        ),
        Misconception(
            "in_place",
            "wrote into `S` itself (`masked_fill_`, or an assignment by index)",
            "Return a new tensor: `masked_fill` without the underscore. Autograd may still need the old scores.",
            lambda S, keep: S.masked_fill_(~keep, -INFINITY),
        ),
    ),
    variants=(
        Variant("where", lambda S, keep: torch.where(keep, S, -INFINITY)),
        Variant("add_the_logarithm", lambda S, keep: S + keep.to(S.dtype).log()),
    ),
)


# ---------------------------------------------------------------------------------------------- add

FLOATS = ("torch.float32", "torch.float64")


def _mask_by_hand(draw: Draw):
    return {"keep": draw_keep(draw, 2, 3), "dtype": Code(draw.choice(FLOATS))}


def _half(draw: Draw):
    """Asks for the entries and for their width, 2 bytes: -inf and 0 look the same in every precision."""
    n, m = draw.sizes(2, low=3, high=7)
    inputs = {"keep": draw_keep(draw, 2, n, m), "dtype": Code("torch.float16")}
    return Script(init=inputs, calls=(Call("clone"), Call("element_size")))


def _zeros(keep, dtype):
    return torch.zeros(keep.shape, dtype=dtype)


ADDITIVE_MASK = Exercise(
    "additive_mask",
    title="A mask to add, in any precision",
    points=1,
    reference=ref.additive_mask,
    tensors=True,
    cases=(Case("single or double precision", _mask_by_hand), Case("half precision", _half)),
    hints=(
        "Which number may be added to a score without changing it? Which one turns any finite score into $-\\infty$?",
        "Start from zeros of the right shape and `dtype` and fill in $-\\infty$. Every floating type has an infinity, also the small ones.",
        "`torch.zeros(keep.shape, dtype=dtype, device=keep.device).masked_fill(~keep, float('-inf'))`.",
    ),
    misconceptions=(
        Misconception(
            "minus_1e9",
            "used -1e9, which float16 cannot hold: its largest number is 65504. There `masked_fill` stops with an error, and `torch.where` "
            "silently writes something else",
            "$-\\infty$ exists in every floating type: `float('-inf')`.",
            lambda keep, dtype: _zeros(keep, dtype).masked_fill(~keep, -1e9),
        ),
        Misconception(
            "most_negative_number",
            "used the most negative finite number, `torch.finfo(dtype).min`",
            "It hides a key while another one is kept. Where none is, all scores are equally low, and the forbidden keys get uniform "
            "weights, silently. Use $-\\infty$; empty rows are a case of their own.",
            lambda keep, dtype: _zeros(keep, dtype).masked_fill(~keep, torch.finfo(dtype).min),
        ),
        Misconception(
            "zero_times_infinity",
            "multiplied the mask by $-\\infty$: where it is 0, that makes $0 \\cdot \\infty$, which is NaN",
            "Choose, do not multiply: `masked_fill` or `torch.where`.",
            lambda keep, dtype: (~keep).to(dtype) * -INFINITY,
        ),
        Misconception(
            "polarity_flipped",
            "put $-\\infty$ where the key should be kept",
            "True means keep, and what is kept gets 0. Fill where `~keep`.",
            lambda keep, dtype: _zeros(keep, dtype).masked_fill(keep, -INFINITY),
        ),
        Misconception(
            "dtype_ignored",
            "filled in the right numbers, but did not make them in the given `dtype`",
            "Pass `dtype=dtype` where you create the tensor, or end with `.to(dtype)`. In float32, the mask would turn half-precision "
            "scores into float32 as well.",
            lambda keep, dtype: torch.where(keep, 0.0, -INFINITY),
        ),
        Misconception(
            "zero_and_one",
            "turned the booleans into 0 and 1",
            "Added to the scores, these would only raise the kept ones by 1. Kept is 0, forbidden is $-\\infty$.",
            lambda keep, dtype: keep.to(dtype),
        ),
    ),
    variants=(
        Variant("logarithm", lambda keep, dtype: keep.to(dtype).log()),
        Variant("where", lambda keep, dtype: torch.where(keep, 0.0, -INFINITY).to(dtype)),
        Variant("apply_to_zeros", lambda keep, dtype: ref.apply_mask(_zeros(keep, dtype), keep)),
    ),
)
