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
    title="Scaled scores",
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
        "A matrix product should give one number for each pair of a query and a key. Which two axes of `K` have to be swapped? Count them from the end, because a batch may come first.",
        "The variance of the dot product is $d_k$. If you divide a variable by $c$, its variance is divided by $c^2$. Which $c$ leaves a variance of 1?",
        "Swap the last two axes of `K`, multiply `Q` by the result with `@`, and divide once. The last axis of `Q` has $d_k$ features, whatever comes before it.",
    ),
    misconceptions=(
        Misconception(
            "unscaled",
            "computed the dot products but didn't scale them",
            "The variance of a dot product is $d_k$, so these scores grow with the width. Which divisor brings the variance back to 1?",
            After(lambda out, Q, K: out * math.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "scaled_by_d",
            "divided by $d_k$ instead of $\\sqrt{d_k}$",
            "Dividing by $c$ divides the variance by $c^2$. Here that leaves a variance of $1/d_k$, so the scores shrink as the vectors get wider. Which $c$ makes $d_k / c^2$ equal to 1?",
            After(lambda out, Q, K: out / math.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "half_of_d",
            "wrote `d_k ** 1/2`, which is $d_k / 2$ and not the square root",
            "`**` binds tighter than `/`, so `d_k ** 1/2` means `(d_k ** 1) / 2`. Write `** 0.5` or `math.sqrt`.",
            After(lambda out, Q, K: out * 2 / math.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "twice_d",
            "wrote `x / d_k ** 1/2`, which divides by $d_k$ and then by 2",
            "`**` binds tighter than `/`, and divisions run from left to right. Write `** 0.5` or `math.sqrt`.",
            After(lambda out, Q, K: out / math.sqrt(Q.shape[-1]) / 2),
        ),
        Misconception(
            "multiplied_by_sqrt_d",
            "multiplied by $\\sqrt{d_k}$ instead of dividing",
            "Wide vectors already have large dot products. Divide to make them smaller.",
            After(lambda out, Q, K: out * Q.shape[-1]),
        ),
        Misconception(
            "dimension_from_axis_1",
            "took $d_k$ from axis 1, which holds the features only if there is no batch",
            "With a batch in front, axis 1 counts the queries. `Q.shape[-1]` counts the features in every case.",
            After(lambda out, Q, K: out * math.sqrt(Q.shape[-1] / Q.shape[1])),
        ),
        Misconception(
            "root_of_the_number_of_keys",
            "divided by the square root of the number of **keys**",
            "A dot product adds up features, not keys. Their number $d_k$ is the length of the last axis of `Q`.",
            After(lambda out, Q, K: out * math.sqrt(Q.shape[-1] / K.shape[-2])),
        ),
        Misconception(
            "cosine",
            "divided by the lengths of the vectors, which gives cosines",
            "Scaled scores keep the lengths of queries and keys. Divide by $\\sqrt{d_k}$ and by nothing else.",
            _cosines,
            also=(lambda Q, K: _cosines(Q, K) / math.sqrt(Q.shape[-1]),),
        ),
        Misconception(
            "single_precision",
            "converted the result to float32, which loses half of the digits of a float64 input",
            "Leave out the conversion, so that the result has the dtype of the inputs.",
            After(lambda out, **_: out.float()),
        ),
        Misconception(
            "keys_by_queries",
            "put the keys on the rows, so your result has the shape (key, query)",
            "There should be one row per **query**, so `Q` comes first in the product and `K` is the matrix to transpose.",
            After(lambda out, **_: out.mT),
        ),
        Misconception(
            "all_axes_turned",
            "used `K.T`, which reverses **all** axes of `K`",
            "A batch has three axes, and only the last two should be swapped. The PyTorch table at the top of the notebook has a name for that.",
            lambda Q, K: Q @ K.permute(*reversed(range(K.ndim))) / math.sqrt(Q.shape[-1]),
            raises=True,
            keeps=0.5,
        ),
        Misconception(
            "two_axes_only",
            "used something that works only for plain matrices, such as `.t()`",
            "Count the axes from the end, as in `K.mT` or `K.transpose(-2, -1)`. In an einsum, begin each term with `...`.",
            lambda Q, K: Q @ K.t() / math.sqrt(Q.shape[-1]),
            raises=True,
            keeps=0.5,
        ),
    ),
    variants=(
        Variant("einsum", lambda Q, K: torch.einsum("...nk,...mk->...nm", Q, K) / Q.shape[-1] ** 0.5),
        Variant("scale_the_queries_first", lambda Q, K: (Q / math.sqrt(Q.shape[-1])) @ K.mT),
        Variant("loops", _loop),
        Variant("broadcast", lambda Q, K: (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1) * Q.shape[-1] ** -0.5),
    ),
)
