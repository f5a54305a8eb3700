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
    title="From heads to groups: mean-pooling a projection",
    points=1.5,
    reference=ref.mha_to_gqa,
    tensors=True,
    difficulty=2,
    minutes=10,
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


# ---------------------------------------------------------------------------------------------- which heads share


def _families(H, G, d, d_model, own=0.3):
    """Heads of G families in a random order: each the family's matrix and a part of its own."""

    def make(draw: Draw):
        family = draw.rng.permutation([g for g in range(G) for _ in range(H // G)])
        common, parts = draw.normal(G, d_model, d), draw.normal(H, d_model, d, scale=own)
        heads = common[family] * draw.uniform(H, 1, 1, low=0.9, high=1.1) + parts
        return {"W": heads.transpose(1, 0, 2).reshape(d_model, H * d), "H": H, "G": G}

    return make


def _grouped_by(distance):
    """Groups around the first head that is left: it takes its nearest, by `distance` between rows of (H, features)."""

    def answer(W, H, G):
        heads = W.reshape(W.shape[0], H, -1).transpose(0, 1).flatten(1)
        far, left, groups = distance(heads), list(range(H)), []
        while left:
            nearest = sorted(left, key=lambda h: (h != left[0], float(far[left[0], h])))[: H // G]
            groups.append(sorted(nearest))
            left = [h for h in left if h not in nearest]
        return torch.tensor(groups)

    return answer


def _farthest(heads):
    return -torch.cdist(heads, heads)


def _cosine(heads):
    unit = heads / heads.norm(dim=-1, keepdim=True)
    return -(unit @ unit.mT)


def _by_norm(W, H, G):
    norms = W.reshape(W.shape[0], H, -1).norm(dim=(0, 2))
    return _in_order(norms.argsort().reshape(G, -1))


def _in_order(groups):
    groups = groups.sort(dim=1).values
    return groups[groups[:, 0].argsort()]


GROUP_HEADS = Exercise(
    "group_heads",
    title="Which heads should share?",
    points=2,
    reference=ref.group_heads,
    tensors=True,
    kind="design",
    difficulty=3,
    minutes=15,
    cases=(
        Case("two families of two", _families(4, 2, 3, 7)),
        Case("three families of four", _families(12, 3, 4, 11)),
        Case("many small families", _families(10, 5, 5, 13)),
        Case("every head alone", _families(5, 5, 2, 5), edge=0.1),
    ),
    hints=(
        "Pooling loses the squared distance of each head to the mean of its group. So which heads should be together? Look at the "
        "distances between all pairs of heads.",
        "View `W` as one row of features per head, `torch.cdist` gives an (H, H) table. Take the lowest head that is not placed yet, and "
        "with it those heads, also not placed yet, that are nearest to it. Repeat.",
        "`W.reshape(W.shape[0], H, -1).transpose(0, 1).flatten(1)` is (H, features). Sort the heads that are left by their distance to the "
        "first of them; the first $r = H/G$ are a group. Sort its numbers before you store them.",
    ),
    misconceptions=(
        Misconception(
            "neighbours",
            "grouped neighbours, as they happened to stand in the checkpoint",
            "A head's number says nothing about what it does. Compare the matrices.",
            lambda W, H, G: torch.arange(H).reshape(G, -1),
        ),
        Misconception(
            "farthest_together",
            "put the heads together that differ most",
            "Pooling replaces a group by its mean: heads should be **near** it.",
            _grouped_by(_farthest),
        ),
        Misconception(
            "compared_columns",
            "cut the heads out of `W` along the wrong axis",
            "A head is a run of columns, over all rows: reshape to (d_model, H, d) and bring the head axis to the front.",
            lambda W, H, G: _grouped_by(lambda heads: torch.cdist(heads, heads))(
                W.reshape(H, W.shape[0], -1).transpose(0, 1).reshape(W.shape[0], -1), H, G
            ),
        ),
        Misconception(
            "grouped_by_norm",
            "grouped heads of similar size, whatever direction they have",
            "Two matrices of one norm can be as far apart as you like: compare them entry by entry.",
            _by_norm,
        ),
    ),
    variants=(
        Variant("greedy_by_distance", _grouped_by(lambda heads: torch.cdist(heads, heads))),
        Variant("by_cosine", _grouped_by(_cosine)),
    ),
)
