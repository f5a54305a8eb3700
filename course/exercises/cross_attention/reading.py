"""Attention from one sequence to another."""

import math

import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Variant
from course.exercises.masking.attention import BUILTIN, WEIGHTS_ARE_WEIGHTS
from course.exercises.masking.scores import draw_keep
from course.exercises.masking.steps import attend
from solutions import masking as ref


def _cross(draw: Draw, lead: tuple[int, ...], n: int, m: int, d_q: int, d_kv: int, d_k: int, d_v: int):
    shapes = {"Xq": (*lead, n, d_q), "Xkv": (*lead, m, d_kv), "W_Q": (d_q, d_k), "W_K": (d_kv, d_k), "W_V": (d_kv, d_v)}
    inputs = {name: draw.normal(*shape) for name, shape in shapes.items()}
    for name in ("W_Q", "W_K", "W_V"):
        inputs[name] /= math.sqrt(len(inputs[name]))  # projections of unit variance: the softmax does not saturate
    return inputs | {"keep": draw_keep(draw, *lead, 1, m)}


def _cross_tiny(draw: Draw):
    return _cross(draw, (), 2, 3, 3, 2, 5, 4)


def _cross_batch(draw: Draw):
    n, m, d_q, d_kv = draw.sizes(4, low=3)
    return _cross(draw, (2,), n, m, d_q, d_kv, 4, 6)


def _cross_square(draw: Draw):
    """Two sequences of one length and width, all projections square: no wrong turn is stopped by a shape error."""
    n, d = draw.sizes(2, low=3, high=5)
    return _cross(draw, (), n, n, d, d, d, d)


def _cross_dead(draw: Draw):
    inputs = _cross(draw, (2,), 2, 3, 3, 2, 5, 4)
    inputs["keep"][draw.integer(0, 1)] = False
    return inputs


def _from(Xq, Xkv, W_Q, W_K, W_V, keep, *, q=0, k=1, v=1, **settings):
    """Queries, keys and values from the sequence of that number; the rest as `attend` is set."""
    X = Xq, Xkv
    return attend(X[q] @ W_Q, X[k] @ W_K, X[v] @ W_V, keep, **settings)


def _one_matrix_for_scores(Xq, Xkv, W_Q, W_K, W_V, keep):
    S = Xq @ (W_Q @ W_K.T) @ Xkv.mT / math.sqrt(W_Q.shape[1])
    A = (torch.softmax(S.masked_fill(~keep, -1e30), dim=-1)) * keep
    return A @ Xkv @ W_V, A


def _einsum(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q, K = torch.einsum("...ia,ak->...ik", Xq, W_Q), torch.einsum("...ja,ak->...jk", Xkv, W_K)
    return ref.masked_sdpa(Q, K, torch.einsum("...ja,av->...jv", Xkv, W_V), keep)


CROSS_ATTENTION = Exercise(
    "cross_attention",
    title="Cross-attention",
    points=1,
    difficulty=1,
    minutes=5,
    reference=ref.cross_attention,
    recipe=_from,
    tensors=True,
    properties=WEIGHTS_ARE_WEIGHTS,
    forbid=BUILTIN,
    cases=(
        Case("two tokens attend to three", _cross_tiny, grad=("Xq", "Xkv")),
        Case("a batch", _cross_batch),
        Case("equal lengths and widths", _cross_square),
        Case("a source of padding alone", _cross_dead, edge=0.1),
    ),
    hints=(
        "There are three projections. Which of the two sequences asks, and which one is looked up? What is looked up has keys **and** values.",
        "Rows are tokens, so a projection is `X @ W`. Queries come from `Xq`, keys and values from `Xkv`.",
        "Make `Q`, `K` and `V` with one `@` each, and pass them to `masked_sdpa` together with `keep`. Check which sequence each came from.",
    ),
    misconceptions=(
        Misconception(
            "self_attention",
            "took queries, keys and values all from `Xq`, which is self-attention",
            "Keys and values belong to the sequence that is read, `Xkv`.",
            Instead(k=0, v=0),
        ),
        Misconception(
            "roles_swapped",
            "exchanged the two sequences, so `Xkv` asks and `Xq` answers",
            "The output has one row for each row of `Xq`, because the queries come from there.",
            Instead(q=1, k=0, v=0),
        ),
        Misconception(
            "values_from_the_asker",
            "took the values from `Xq`",
            "Keys and values come in pairs from the same tokens, so both come from `Xkv`.",
            Instead(v=0),
        ),
        Misconception(
            "transposed_weights",
            "multiplied by the transposed matrices, the way `nn.Linear` stores them",
            "Here $W$ has shape (d_in, d_out) and acts from the right, as in `X @ W`.",
            Before(lambda W_Q, W_K, W_V, **_: {"W_Q": W_Q.T, "W_K": W_K.T, "W_V": W_V.T}),
        ),
        Misconception(
            "scaled_by_the_model_width",
            "scaled the scores by the width of the **tokens** instead of $\\sqrt{d_k}$",
            "The dot product sums over the $d_k$ columns of the projected queries, so divide by $\\sqrt{d_k}$.",
            Before(lambda W_Q, **_: {"W_Q": W_Q * math.sqrt(W_Q.shape[1] / W_Q.shape[0])}),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "`masked_sdpa` applies it. Pass the three projections and the mask to it.",
            Instead(power=0.0),
        ),
        Misconception(
            "mask_forgotten",
            "did not pass `keep` on, so the blanks of the source take part",
            "The source can be padded. Pass `keep` to `masked_sdpa`.",
            Before(lambda keep, **_: {"keep": torch.ones_like(keep)}),
        ),
        Misconception(
            "causal_too",
            "put a causal mask over the source",
            "The whole source is known before the first character is written, so nothing in it is the future. Only its padding is hidden.",
            Before(lambda Xq, Xkv, keep, **_: {"keep": keep & ref.causal_mask(Xq.shape[-2], Xkv.shape[-2])}),
        ),
        Misconception(
            "polarity_flipped",
            "attended to exactly what is forbidden",
            "In this course True means **keep**.",
            Before(lambda keep, **_: {"keep": ~keep}),
        ),
        Misconception(
            "keys_from_the_asker",
            "took the keys from `Xq`",
            "Keys and values come in pairs from the same tokens, so both come from `Xkv`.",
            Instead(k=0),
        ),
        Misconception(
            "scaled_twice",
            "divided by $\\sqrt{d_k}$ twice, because `masked_sdpa` does it already",
            "Pass the three projections to `masked_sdpa` as they are.",
            Instead(power=-1.0),
        ),
        Misconception(
            "values_not_projected",
            "used the source's tokens themselves as values, so `W_V` has no effect",
            "What a token is found by and what it passes on are two things. The values are `Xkv @ W_V`.",
            Before(lambda W_V, **_: {"W_V": torch.eye(len(W_V)).to(W_V)}),
        ),
        Misconception(
            "one_matrix_for_keys_and_values",
            "made the values with `W_K`, the matrix of the keys",
            "Each of the three roles has its own matrix, so the values are `Xkv @ W_V`.",
            Before(lambda W_K, **_: {"W_V": W_K}),
        ),
        Misconception(
            "weights_first",
            "returned the weights first and the outputs second",
            "The docstring says $(O, A)$, as `masked_sdpa` returns them.",
            After(lambda out, **_: (out[1], out[0])),
        ),
    ),
    variants=(
        Variant("einsum", _einsum),
        Variant("one_matrix_for_the_scores", _one_matrix_for_scores),
    ),
)
