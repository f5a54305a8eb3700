"""From a multi-head checkpoint to groups: the nearest projection."""

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
    title="The nearest projection with groups",
    kind="use",
    points=1.5,
    reference=ref.mha_to_gqa,
    recipe=Made(_pooled),
    tensors=True,
    difficulty=2,
    minutes=7,
    cases=(
        Case("four heads of width 2, two groups", _projection(4, 2, 2, 1)),
        Case("other sizes", _drawn, grad=("W",)),
        Case("more groups than heads per group", _projection(10, 5, 3, 4)),
        Case("double precision", _projection(6, 3, 2, 5), double=True, edge=0.1),
    ),
    hints=(
        "Take two heads whose matrices are single numbers, 1 and 3. Which one number has the least sum of squared differences to both?",
        "The derivative of that sum is zero at the mean, and this holds for every entry of the matrices. Which axes of `W` are then averaged?",
        "View the columns as three axes, (group, head in the group, feature). One of them goes, and the other two become columns again.",
    ),
    misconceptions=(
        Misconception(
            "summed",
            "added the heads of a group",
            "The sum of $r$ similar matrices is $r$ times as large as each of them, so it is far from all. Average them.",
            Instead(pool=torch.sum),
        ),
        Misconception(
            "distant_heads_pooled",
            "averaged the heads g, g + G, g + 2G and so on, but neighbouring heads share a group",
            "Group $g$ has the heads $g r$ to $g r + r - 1$. View the columns as (G, r, d) and not as (r, G, d).",
            Instead(view=lambda G, r, d: (r, G, d), axis=1),
        ),
        Misconception(
            "first_head_only",
            "kept the first head of each group and dropped the others",
            "The first head is nearest to itself but not to all. Ainslie et al. tried this as well, and it came second.",
            Instead(pool=lambda heads, axis: heads.select(axis, 0)),
        ),
        Misconception(
            "neighbouring_columns_pooled",
            "averaged neighbouring columns, which are different features of one head",
            "Average feature $a$ of one head with feature $a$ of the others. These columns are $d$ apart.",
            Instead(view=lambda G, r, d: (G, d, r), axis=3),
        ),
        Misconception(
            "groups_for_group_size",
            "made groups of $G$ heads, so there are H/G of them",
            "`G` is the number of groups, and each has $r = H/G$ heads.",
            Instead(view=lambda G, r, d: (r, G, d)),
        ),
        Misconception(
            "divided_by_root_r",
            "divided the sum by $\\sqrt{r}$, which keeps the variance of independent heads",
            "The nearest matrix is the mean, so equal heads are replaced by themselves. Divide by $r$.",
            Instead(pool=lambda heads, axis: heads.sum(axis) / math.sqrt(heads.shape[axis])),
        ),
        Misconception(
            "divided_by_groups",
            "divided the sum by the number of groups",
            "A group has $r = H/G$ heads, so divide by $r$.",
            Instead(pool=lambda heads, axis: heads.sum(axis) / heads.shape[2 if axis == 1 else 1]),
        ),
        Misconception(
            "averaged_over_the_groups",
            "averaged over the groups and not over the heads in a group, so $H/G$ runs of columns are left",
            "Each group becomes one head. The axis that goes is the one that counts the heads of a group.",
            Instead(axis=1),
        ),
        Misconception(
            "averaged_over_the_features",
            "averaged over the features of each head, so one of $d$ columns is left",
            "Average feature $a$ of all heads of a group. The axis that goes is the one that counts the heads of a group.",
            Instead(axis=3),
        ),
        Misconception(
            "groups_on_an_axis_of_their_own",
            "left the groups on an axis of their own, so the result has one axis too many",
            "A projection is a matrix with `G` runs of `d` columns side by side. Flatten the last two axes.",
            lambda W, H, G: ref.mha_to_gqa(W, H, G).unflatten(1, (G, -1)),
        ),
        Misconception(
            "copied_back",
            "gave each head of a group the mean, so there are still $H$ runs of columns",
            "The result has `G` runs of $d$ columns. Grouping does away with the copies.",
            Instead(made=lambda pooled, r: pooled.repeat_interleave(r, 1)),
        ),
        Misconception(
            "read_as_a_linear_layer",
            "read the numbers of `W` by a reshape as a weight of shape (H d, d_model), which scrambles them",
            "`W` is (d_model, H d), and a reshape keeps the order in memory. Split the **last** axis, to (d_model, G, r, d). "
            "(`nn.Linear` keeps the transpose, which is `W.T` and not a reshape.)",
            Before(lambda W, **_: {"W": W.reshape(W.shape[1], W.shape[0]).T}),
        ),
        Misconception(
            "turned_over",
            "returned the transpose, (G d, d_model), as `nn.Linear` keeps a weight",
            "Here a weight is (in, out). The result is (d_model, G d), just as `W` is (d_model, H d).",
            After(lambda out, **_: out.mT),
        ),
        Misconception(
            "single_precision",
            "returned single precision, whatever precision `W` has",
            "Keep the dtype of `W`. Leave out `.float()`, and make any matrix that you multiply by with `dtype=W.dtype`.",
            After(lambda out, **_: out.float()),
        ),
        Misconception(
            "groups_interleaved",
            "interleaved the groups, with feature 0 of each group before feature 1 of each",
            "Put group after group, each as a run of $d$ columns. Flatten (G, d) with the groups first.",
            Instead(made=lambda pooled, r: pooled.mT),
        ),
    ),
    variants=(
        Variant("loop_over_groups", _loop),
        Variant("times_a_pooling_matrix", _by_matrix),
    ),
)
