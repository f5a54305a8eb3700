"""The attention itself."""

import math
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Of, Property, Variant
from solutions import scaled_dot_product as ref

WEIGHTS_ARE_WEIGHTS = (Property("sums_to_one", axis=-1, output=1), Property("non_negative", output=1))
BUILTIN = ("F.scaled_dot_product_attention", "scaled_dot_product_attention")


def _tiny(draw: Draw):
    return {"Q": draw.normal(2, 5), "K": draw.normal(3, 5), "V": draw.normal(3, 7)}


def _batch(draw: Draw):
    n, m, d_k, d_v = draw.sizes(4, high=7)
    return {"Q": draw.normal(3, n, d_k), "K": draw.normal(3, m, d_k), "V": draw.normal(3, m, d_v)}


def _square(draw: Draw):
    """As many queries as keys, d_k = d_v: no wrong turn is stopped by a shape error."""
    n, d = draw.sizes(2, low=3, high=7)
    return {name: draw.normal(2, n, d) for name in "QKV"}


def _extreme(draw: Draw):
    """Scores near +900 in one row and -900 in the other, at most 38 apart: exp overflows or underflows in float64 too."""
    d_k, d_v = draw.sizes(2, low=5, high=7)
    Q, K = draw.normal(2, d_k), draw.normal(3, d_k)
    Q[:, 0], K[:, 0] = (50.0, -50.0), 50.0
    Q[:, 1], K[:, 1] = 10.0, draw.rng.permutation([0.0, 10.0, 20.0])
    return {"Q": Q, "K": K, "V": draw.normal(3, d_v)}


def _plain_softmax(S, dim):
    E = torch.exp(S)
    return E / E.sum(dim, keepdim=True)


def attend(Q, K, V, *, scale=None, axis=-1, softmax=torch.softmax, after=False):
    factor = Q.shape[-1] ** -0.5 if scale is None else scale
    A = softmax(Q @ K.mT * (1.0 if after else factor), dim=axis) * (factor if after else 1.0)
    return A @ V, A


def _rounded(decimals, out, Q, K, V):
    A = out[1].round(decimals=decimals)
    return A @ V, A


def _shifted(Q, K, V):
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    E = torch.exp(S - S.amax(-1, keepdim=True))
    A = E / E.sum(-1, keepdim=True)
    return A @ V, A


def _loop(Q, K, V):
    rows = []
    for i in range(Q.shape[-2]):
        s = (K @ Q[..., i, :, None])[..., 0] / math.sqrt(Q.shape[-1])
        rows.append(torch.softmax(s, dim=-1))
    A = torch.stack(rows, dim=-2)
    return (A.unsqueeze(-1) * V.unsqueeze(-3)).sum(-2), A


def _identity_values(Q, K, V):
    eye = torch.eye(K.shape[-2], dtype=V.dtype).expand(*V.shape[:-1], -1)
    return scaled_dot_product_attention(Q, K, V), scaled_dot_product_attention(Q, K, eye)


SDPA = Exercise(
    "sdpa",
    title="Attention for all queries",
    points=2,
    difficulty=2,
    minutes=6,
    reference=ref.sdpa,
    recipe=attend,
    tensors=True,
    properties=WEIGHTS_ARE_WEIGHTS,
    forbid=BUILTIN,
    cases=(
        Case("two queries, three keys", _tiny, grad=("Q", "K", "V")),
        Case("a batch", _batch, grad=("Q", "K", "V")),
        Case("a batch of square self-attention", _square),
        Case("scores near 900 and -900", _extreme, edge=0.2),
    ),
    hints=(
        "You need three things with three shapes. The scores are (query, key), the weights have the same shape, and the output is (query, d_v). You have already written the first.",
        "Each query distributes a total weight of 1 over the **keys**. Which axis is that? Then each row of weights multiplies the values.",
        "Two lines are enough once you have the scores. Call `torch.softmax` with the axis counted from the end, then multiply the weights by `V` with `@`. Return the output first.",
    ),
    misconceptions=(
        Misconception(
            "unscaled",
            "left out the factor $1/\\sqrt{d_k}$",
            "Start from `scaled_scores(Q, K)`, which divides **before** the softmax.",
            Instead(scale=1.0),
        ),
        Misconception(
            "scaled_by_d",
            "divided the scores by $d_k$ instead of $\\sqrt{d_k}$, which makes the weights too even",
            "Divide by the square root, as your `scaled_scores` does.",
            Instead(scale=Of(lambda Q, K, V: 1 / Q.shape[-1])),
        ),
        Misconception(
            "half_of_d",
            "wrote `d_k ** 1/2`, which is $d_k / 2$ and not the square root",
            "`**` binds tighter than `/`, so `d_k ** 1/2` means `(d_k ** 1) / 2`. Write `** 0.5` or `math.sqrt`. Your `scaled_scores` already does this.",
            Instead(scale=Of(lambda Q, K, V: 2 / Q.shape[-1])),
        ),
        Misconception(
            "no_exponential",
            "divided the scores by their sum, without the exponential",
            "Scores can be negative, and then so are these weights. The softmax first takes $e^s$, which is always positive.",
            Instead(softmax=lambda S, dim: S / S.sum(dim, keepdim=True)),
        ),
        Misconception(
            "scaled_by_sqrt_d_v",
            "scaled by $1/\\sqrt{d_v}$, where $d_v$ is the width of the **values**",
            "A dot product adds up the $d_k$ features of a query and a key. The values play no part in the scores.",
            Instead(scale=Of(lambda Q, K, V: V.shape[-1] ** -0.5)),
        ),
        Misconception(
            "scaled_after_softmax",
            "scaled the weights after the softmax, so they no longer sum to 1",
            "Scale the scores first, and leave the weights as the softmax returns them.",
            Instead(after=True),
        ),
        Misconception(
            "softmax_over_queries",
            "ran the softmax along the queries, so each column sums to 1 where each row should",
            "In attention the keys compete for a query. Check the `dim` of your softmax, and remember that the keys are the last axis.",
            Instead(axis=-2),
        ),
        Misconception(
            "softmax_axis_1",
            "wrote `dim=1`, which is the key axis only if there is no batch",
            "Count the axis from the end, so that any number of leading axes works.",
            Instead(axis=1),
        ),
        Misconception(
            "swapped_queries_and_keys",
            "swapped queries and keys, that is, computed $K Q^\\top$ instead of $Q K^\\top$",
            "Each row should belong to a query. With as many queries as keys PyTorch cannot notice the swap, so check the order of your arguments.",
            Before(lambda Q, K, V: {"Q": K, "K": Q}),
        ),
        Misconception(
            "unstable_softmax",
            "took `exp` of the raw scores, which overflows above 88 in float32 and above 709 in float64",
            "Subtract the largest score of each row before `exp`, or use `torch.softmax`, which does that.",
            Instead(softmax=_plain_softmax),
        ),
        Misconception(
            "detached_weights",
            "got the values right but detached the weights, so no gradient reaches `Q` and `K`",
            "Stay in PyTorch from start to end, without `.detach()`, `.item()`, `.numpy()` or `torch.no_grad()`.",
            After(lambda out, Q, K, V: (out[1].detach() @ V, out[1].detach())),
        ),
        Misconception(
            "rounded",
            "rounded the weights, so they no longer sum to 1 and pass no gradient on to `Q` and `K`",
            "PyTorch rounds only what it prints. Leave the weights as the softmax returns them.",
            After(partial(_rounded, 4)),
            also=tuple(After(partial(_rounded, decimals)) for decimals in (2, 3)),
        ),
        Misconception(
            "scores_for_weights",
            "returned the scores in place of the weights",
            "The weights are the softmax of the scores. Return them as the second result.",
            After(lambda out, Q, K, V: (out[0], ref.scaled_scores(Q, K))),
            also=(After(lambda out, Q, K, V: (out[0], Q @ K.mT)),),
        ),
        Misconception(
            "weights_first",
            "returned the weights first and the output second",
            "The docstring asks for $(O, A)$, with the output first.",
            After(lambda out, **_: (out[1], out[0])),
        ),
    ),
    variants=(
        Variant("own_stable_softmax", _shifted),
        Variant("loop_over_queries", _loop),
        Variant("builtin_with_identity_values", _identity_values),
        Variant("scale_both_sides", lambda Q, K, V: attend(Q * Q.shape[-1] ** -0.25, K * Q.shape[-1] ** -0.25, V, scale=1.0)),
    ),
)
