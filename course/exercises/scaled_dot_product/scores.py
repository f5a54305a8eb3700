"""The scores and their size."""

import math

import torch

from autograder import After, Case, Draw, Exercise, Misconception, Variant
from solutions import scaled_dot_product as ref


def _tiny(draw: Draw):
    return {"Q": draw.normal(2, 5), "K": draw.normal(3, 5)}


def _batch(draw: Draw):
    b, n, m, d = draw.sizes(4, high=7)
    return {"Q": draw.normal(b, n, d), "K": draw.normal(b, m, d)}


def _batch_and_heads(draw: Draw):
    n, m, d = draw.sizes(3, low=3, high=7)
    return {"Q": draw.normal(2, 1, n, d), "K": draw.normal(2, 1, m, d)}


def _double(draw: Draw):
    return {"Q": draw.normal(3, 7), "K": draw.normal(2, 7)}


def _dots(Q, K):
    return Q @ K.transpose(-2, -1)


def _cosines(Q, K):
    return _dots(Q / Q.norm(dim=-1, keepdim=True), K / K.norm(dim=-1, keepdim=True))


def _loop(Q, K):
    S = torch.empty(*Q.shape[:-1], K.shape[-2], dtype=Q.dtype)
    for i in range(Q.shape[-2]):
        for j in range(K.shape[-2]):
            S[..., i, j] = (Q[..., i, :] * K[..., j, :]).sum(-1) / Q.shape[-1] ** 0.5
    return S


# sqrt(d_model) for sqrt(d_k) is a mistake of lessons 04 and 05: no function of this lesson has d_model among its inputs.
SCALED_SCORES = Exercise(
    "scaled_scores",
    title="The cure",
    points=1,
    difficulty=1,
    minutes=5,
    reference=ref.scaled_scores,
    tensors=True,
    cases=(
        Case("two queries, three keys", _tiny),
        Case("a batch", _batch, grad=("Q", "K")),
        Case("a batch of heads", _batch_and_heads),
        Case("double precision", _double, double=True, edge=0.1),
    ),
    hints=(
        "Which two axes of `K` have to trade places so that a matrix product gives one number per (query, key) pair? Count them "
        "from the end: a batch may stand in front.",
        "The variance is $d_k$. Dividing a variable by $c$ divides its variance by $c^2$. Which $c$ leaves a variance of 1?",
        "Swap the last two axes of `K`, multiply `Q` by the result with `@`, then divide once. Read $d_k$ off the last axis, "
        "which is the feature axis for any number of leading axes.",
    ),
    misconceptions=(
        Misconception(
            "unscaled",
            "computed the dot products but did not scale them",
            "Divide by $\\sqrt{d_k}$, so that the scores' spread does not grow with the dimension.",
            After(lambda out, Q, K: out * math.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "scaled_by_d",
            "divided by $d_k$ instead of $\\sqrt{d_k}$",
            "The variance of the dot product is $d_k$. Divide by its standard deviation, the square root of that.",
            After(lambda out, Q, K: out / math.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "half_of_d",
            "divided by $d_k / 2$: half of the number, not its root",
            "`**` comes before `/`: `d_k ** 1/2` is `(d_k ** 1) / 2`. Write `** 0.5`, or `math.sqrt`.",
            After(lambda out, Q, K: out * 2 / math.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "twice_d",
            "divided by $d_k$ and then by 2",
            "`**` comes before `/`, and divisions go from left to right: `x / d ** 1/2` is `(x / d) / 2`. Write `** 0.5`, or `math.sqrt`.",
            After(lambda out, Q, K: out / math.sqrt(Q.shape[-1]) / 2),
        ),
        Misconception(
            "multiplied_by_sqrt_d",
            "multiplied by $\\sqrt{d_k}$ where you should divide",
            "The dot products are already too large for a large $d_k$: divide by $\\sqrt{d_k}$.",
            After(lambda out, Q, K: out * Q.shape[-1]),
        ),
        Misconception(
            "dimension_from_axis_1",
            "read $d_k$ off axis 1, which is the feature axis only while there is no batch",
            "With a batch in front, axis 1 counts queries. `Q.shape[-1]` is the feature axis for any number of leading axes.",
            After(lambda out, Q, K: out * math.sqrt(Q.shape[-1] / Q.shape[1])),
        ),
        Misconception(
            "root_of_the_number_of_keys",
            "divided by the root of the number of **keys**",
            "The dot product sums over the features, not over the keys: $d_k$ is the last axis of `Q`.",
            After(lambda out, Q, K: out * math.sqrt(Q.shape[-1] / K.shape[-2])),
        ),
        Misconception(
            "cosine",
            "divided by the norms of the vectors: these are cosines, which do lie in [-1, 1]",
            "Scaled scores keep the norms of queries and keys. Divide by $\\sqrt{d_k}$ and by nothing else.",
            _cosines,
            also=(lambda Q, K: _cosines(Q, K) / math.sqrt(Q.shape[-1]),),
        ),
        Misconception(
            "single_precision",
            "computed in float32 whatever the inputs are: scores of float64 vectors lose half their digits",
            "The result has the dtype of the inputs: leave out what converts them.",
            After(lambda out, **_: out.float()),
        ),
        Misconception(
            "keys_by_queries",
            "put the keys on the rows: your result is (key, query)",
            "One row per **query**: `Q` stands on the left of the product, and `K` is the one to transpose.",
            After(lambda out, **_: out.mT),
        ),
        Misconception(
            "all_axes_turned",
            "turned **all** axes of `K` round (`K.T`), which is right for plain matrices only",
            "With a batch in front, swap the last two axes: `K.mT` or `K.transpose(-2, -1)`.",
            lambda Q, K: Q @ K.permute(*reversed(range(K.ndim))) / math.sqrt(Q.shape[-1]),
            raises=True,
        ),
        Misconception(
            "two_axes_only",
            "wrote something that works for plain matrices only (`.t()`, say), so a batch raises an error",
            "Name the axes from the end: `K.transpose(-2, -1)` or `K.mT`. In an einsum, begin each term with `...`.",
            lambda Q, K: Q @ K.t() / math.sqrt(Q.shape[-1]),
            raises=True,
        ),
    ),
    variants=(
        Variant("einsum", lambda Q, K: torch.einsum("...nk,...mk->...nm", Q, K) / Q.shape[-1] ** 0.5),
        Variant("scale_the_queries_first", lambda Q, K: (Q / math.sqrt(Q.shape[-1])) @ K.mT),
        Variant("loops", _loop),
        Variant("broadcast", lambda Q, K: (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1) * Q.shape[-1] ** -0.5),
    ),
)
