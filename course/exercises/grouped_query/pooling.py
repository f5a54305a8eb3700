"""From a multi-head checkpoint to groups."""

import math

import torch

from autograder import Case, Draw, Exercise, Misconception, Variant
from solutions import grouped_query as ref


def _projection(H, G, d, d_model):
    return lambda draw: {"W": draw.normal(d_model, H * d), "H": H, "G": G}


def _drawn(draw: Draw):
    G, r, d, d_model = draw.sizes(4, low=2, high=7)
    return _projection(G * r, G, d, d_model)(draw)


def _pool(pool):
    """`pool` maps (d_model, G, r, d) to (d_model, G, d)."""

    def answer(W, H, G):
        return pool(W.reshape(W.shape[0], G, H // G, -1)).flatten(1)

    return answer


def _loop(W, H, G):
    heads, r = W.chunk(H, dim=1), H // G
    return torch.cat([sum(heads[g * r : (g + 1) * r]) / r for g in range(G)], dim=1)


def _by_matrix(W, H, G):
    """W times a pooling matrix."""
    r, d = H // G, W.shape[1] // H
    pooling = torch.kron(torch.eye(G), torch.kron(torch.ones(r, 1), torch.eye(d))) / r
    return W @ pooling.to(W.dtype)


MHA_TO_GQA = Exercise(
    "mha_to_gqa",
    title="Pool a projection",
    points=1.5,
    reference=ref.mha_to_gqa,
    tensors=True,
    difficulty=2,
    minutes=5,
    cases=(
        Case("four heads of width 2, two groups", _projection(4, 2, 2, 1)),
        Case("other sizes", _drawn, grad=("W",)),
        Case("more groups than heads per group", _projection(10, 5, 3, 4)),
    ),
    hints=(
        "The columns of `W` hold head after head. Which heads end up in one group, and which of their columns belong together?",
        "View the columns as three axes, (group, head in the group, feature). Average over one of them, then flatten the other two.",
        "A reshape to (d_model, G, r, d), a mean over one axis, and a `flatten`. Check with the docstring's example which axis it is: heads 1 "
        "and 2 hold (1, 2) and (3, 4), and the result starts with (2, 3).",
    ),
    misconceptions=(
        Misconception(
            "summed",
            "added the heads of a group instead of averaging them",
            "Divide by $r = H/G$, or keys and scores grow with the group size.",
            _pool(lambda heads: heads.sum(2)),
        ),
        Misconception(
            "distant_heads_pooled",
            "pooled the heads g, g + G, g + 2G, …, but the queries of neighbours share a group",
            "Group $g$ holds the heads $g r$ to $g r + r - 1$: view the columns as (G, r, d), not (r, G, d).",
            lambda W, H, G: W.reshape(W.shape[0], H // G, G, -1).mean(1).flatten(1),
        ),
        Misconception(
            "first_head_only",
            "kept the first head of each group and dropped the others",
            "Average them. (Ainslie et al. tried this too; it came out second.)",
            _pool(lambda heads: heads[:, :, 0]),
        ),
        Misconception(
            "neighbouring_columns_pooled",
            "averaged neighbouring columns, which are different features of one head",
            "Average feature $a$ of one head with feature $a$ of the others: columns that are $d$ apart.",
            lambda W, H, G: W.reshape(W.shape[0], -1, H // G).mean(-1),
        ),
        Misconception(
            "groups_for_group_size",
            "made groups of $G$ heads, so there are H/G of them",
            "`G` is the number of groups. Each has $r = H/G$ heads.",
            lambda W, H, G: W.reshape(W.shape[0], H // G, G, -1).mean(2).flatten(1),
        ),
        Misconception(
            "divided_by_root_r",
            "divided the sum by $\\sqrt{r}$, which would keep the variance of independent heads",
            "The mean divides by $r$: equal heads must pool to themselves.",
            _pool(lambda heads: heads.sum(2) / math.sqrt(heads.shape[2])),
        ),
    ),
    variants=(
        Variant("loop_over_groups", _loop),
        Variant("times_a_pooling_matrix", _by_matrix),
    ),
)
