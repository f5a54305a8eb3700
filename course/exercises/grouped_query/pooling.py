"""From a multi-head checkpoint to groups."""

import math

import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import grouped_query as ref


def _projection(H, G, d, d_model):
    return lambda draw: {"W": draw.normal(d_model, H * d), "H": H, "G": G}


def _drawn(draw: Draw):
    G, r, d, d_model = draw.sizes(4, low=2, high=7)
    return _projection(G * r, G, d, d_model)(draw)


def _pooled(*, view=lambda G, r, d: (G, r, d), axis=2, pool=torch.mean, made=lambda pooled, r: pooled):
    """The columns as three axes, of which one is pooled; `made` is what becomes of (d_model, G, d)."""

    def answer(W, H, G):
        r = H // G
        return made(pool(W.reshape(W.shape[0], *view(G, r, W.shape[1] // H)), axis), r).flatten(1)

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
    recipe=Made(_pooled),
    tensors=True,
    difficulty=2,
    minutes=5,
    cases=(
        Case("four heads of width 2, two groups", _projection(4, 2, 2, 1)),
        Case("other sizes", _drawn, grad=("W",)),
        Case("more groups than heads per group", _projection(10, 5, 3, 4)),
        Case("double precision", _projection(6, 3, 2, 5), double=True, edge=0.1),
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
            Instead(pool=torch.sum),
        ),
        Misconception(
            "distant_heads_pooled",
            "pooled the heads g, g + G, g + 2G, …, but the queries of neighbours share a group",
            "Group $g$ holds the heads $g r$ to $g r + r - 1$: view the columns as (G, r, d), not (r, G, d).",
            Instead(view=lambda G, r, d: (r, G, d), axis=1),
        ),
        Misconception(
            "first_head_only",
            "kept the first head of each group and dropped the others",
            "Average them. (Ainslie et al. tried this too; it came out second.)",
            Instead(pool=lambda heads, axis: heads.select(axis, 0)),
        ),
        Misconception(
            "neighbouring_columns_pooled",
            "averaged neighbouring columns, which are different features of one head",
            "Average feature $a$ of one head with feature $a$ of the others: columns that are $d$ apart.",
            Instead(view=lambda G, r, d: (G, d, r), axis=3),
        ),
        Misconception(
            "groups_for_group_size",
            "made groups of $G$ heads, so there are H/G of them",
            "`G` is the number of groups. Each has $r = H/G$ heads.",
            Instead(view=lambda G, r, d: (r, G, d)),
        ),
        Misconception(
            "divided_by_root_r",
            "divided the sum by $\\sqrt{r}$, which would keep the variance of independent heads",
            "The mean divides by $r$: equal heads must pool to themselves.",
            Instead(pool=lambda heads, axis: heads.sum(axis) / math.sqrt(heads.shape[axis])),
        ),
        Misconception(
            "divided_by_groups",
            "divided the sum by the number of groups, not of heads in one",
            "A group has $r = H/G$ heads: the mean divides by that.",
            Instead(pool=lambda heads, axis: heads.sum(axis) / heads.shape[2 if axis == 1 else 1]),
        ),
        Misconception(
            "averaged_over_the_groups",
            "averaged over the groups, and not over the heads in one: there are $H/G$ runs of columns left",
            "Each group becomes one head. The axis that goes is the one that counts the heads of a group.",
            Instead(axis=1),
        ),
        Misconception(
            "averaged_over_the_features",
            "averaged over the features of each head: of $d$ columns one is left",
            "Feature $a$ of one head meets feature $a$ of the others. The axis that goes is the one that counts the heads of a group.",
            Instead(axis=3),
        ),
        Misconception(
            "groups_on_an_axis_of_their_own",
            "left the groups on an axis of their own: your result has one axis too many",
            "A projection is a matrix, `G` runs of `d` columns side by side: put the last two axes together.",
            lambda W, H, G: ref.mha_to_gqa(W, H, G).unflatten(1, (G, -1)),
        ),
        Misconception(
            "copied_back",
            "gave each head of a group the mean: there are still $H$ runs of columns",
            "The result has `G` runs of $d$ columns. The copies are what grouping does away with.",
            Instead(made=lambda pooled, r: pooled.repeat_interleave(r, 1)),
        ),
        Misconception(
            "read_as_a_linear_layer",
            "read the numbers of `W` by a reshape as those of an (H d, d_model) weight, which scrambles them",
            "`W` is (d_model, H d): a reshape keeps the order in memory, so split the **last** axis, to (d_model, G, r, d). "
            "(`nn.Linear` keeps the transpose: `W.T`, not a reshape.)",
            Before(lambda W, **_: {"W": W.reshape(W.shape[1], W.shape[0]).T}),
        ),
        Misconception(
            "turned_over",
            "returned the transpose: your result is (G d, d_model), as `nn.Linear` keeps a weight",
            "Here a weight is (in, out), so the result is (d_model, G d), as `W` is (d_model, H d).",
            After(lambda out, **_: out.mT),
        ),
        Misconception(
            "single_precision",
            "returned single precision, whatever precision `W` has",
            "Keep the dtype of `W`: no `.float()`, and what you multiply by is made with `dtype=W.dtype`.",
            After(lambda out, **_: out.float()),
        ),
        Misconception(
            "groups_interleaved",
            "put the groups' columns in turn: feature 0 of each group, then feature 1 of each",
            "Group after group, each a run of $d$ columns: flatten (G, d), groups first.",
            Instead(made=lambda pooled, r: pooled.mT),
        ),
    ),
    variants=(
        Variant("loop_over_groups", _loop),
        Variant("times_a_pooling_matrix", _by_matrix),
    ),
)
