"""Grouped-query attention by copies, and the same layer with more groups."""

import math

import torch

from autograder import Before, Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import grouped_query as ref
from solutions.lib.heads import merge_heads, split_heads
from solutions.multi_query import causal_attention

FLOAT32 = Tolerance(rtol=1e-4, atol=1e-5)  # three products and a softmax in float32; mistakes are 1e-2 and more


def _tile(x, r):
    """Head h gets group h % G."""
    return torch.cat([x] * r, dim=-3)


def _layer(n, d_model, H, G, d_k, d_v, *lead):
    widths = {
        "W_Q": (d_model, H * d_k, 1.5),
        "W_K": (d_model, G * d_k, 1.0),
        "W_V": (d_model, G * d_v, 1.0),
        "W_O": (H * d_v, d_model, 1.0),
    }

    def make(draw: Draw):
        weights = {name: draw.normal(a, b, scale=factor / math.sqrt(a)) for name, (a, b, factor) in widths.items()}
        return {"X": draw.normal(*lead, n, d_model)} | weights | {"H": H, "G": G}

    return make


def _gqa(
    *,
    repeat=ref.repeat_kv,
    queries=lambda Q, G: Q,
    attend=causal_attention,
    merge=merge_heads,
    stored=False,
    kept=lambda H, G: G,
    times=None,
):
    """Grouped-query attention with one part replaced by a mistake."""

    def answer(X, W_Q, W_K, W_V, W_O, H, G):
        Q, K, V = queries(split_heads(X @ W_Q, H), G), split_heads(X @ W_K, kept(H, G)), split_heads(X @ W_V, kept(H, G))
        r = H // G if times is None else times(H, G)
        copies = repeat(K, r), repeat(V, r)
        return merge(attend(Q, *copies)) @ W_O, *(copies if stored else (K, V))

    return answer


def _divided_by_groups(x, r):
    G = x.shape[-3]
    return x[..., torch.arange(G * r) // G, :, :]


def _divided_by_groups_and_held(x, r):
    """The same, and the last group for the heads beyond it."""
    G = x.shape[-3]
    return x[..., (torch.arange(G * r) // G).clamp(max=G - 1), :, :]


def _mean_of_the_group(Q, G):
    grouped = Q.reshape(*Q.shape[:-3], G, -1, *Q.shape[-2:])
    return grouped.mean(-3, keepdim=True).expand_as(grouped).reshape(Q.shape)


def _sum_of_the_group(Q, G):
    return _mean_of_the_group(Q, G) * (Q.shape[-3] // G)


def _merge_by_reshape(Y):
    return Y.reshape(*Y.shape[:-3], Y.shape[-2], -1)


def _one_later_visible(Q, K, V):
    keep = torch.ones(Q.shape[-2], K.shape[-2], dtype=torch.bool).tril(1)
    return torch.softmax((Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(~keep, -math.inf), dim=-1) @ V


def _masked_late(Q, K, V):
    return torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1).tril() @ V


def _everything_visible(Q, K, V):
    return torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1) @ V


def _head_after_head(X, W_Q, W_K, W_V, W_O, H, G):
    K, V = split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    parts = []
    for h, wq in enumerate(W_Q.chunk(H, dim=1)):
        g = h * G // H
        parts.append(causal_attention(X @ wq, K[..., g, :, :], V[..., g, :, :]))
    return torch.cat(parts, dim=-1) @ W_O, K, V


def _copied_weights(X, W_Q, W_K, W_V, W_O, H, G):
    """Multi-head attention with a projection for every head, some of them equal."""
    Q, K, V = (split_heads(X @ W, heads) for W, heads in ((W_Q, H), (W_K, G), (W_V, G)))
    wide = [W.reshape(W.shape[0], G, -1).repeat_interleave(H // G, 1).flatten(1) for W in (W_K, W_V)]
    outputs = causal_attention(Q, *(split_heads(X @ W, H) for W in wide))
    return merge_heads(outputs) @ W_O, K, V


def _looked_up(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    group = torch.arange(H) * G // H
    return merge_heads(causal_attention(Q, K[..., group, :, :], V[..., group, :, :])) @ W_O, K, V


GQA = Exercise(
    "gqa",
    title="Find two bugs: grouped-query attention",
    kind="bug",
    points=3,
    reference=ref.gqa,
    recipe=Made(_gqa),
    tensors=True,
    difficulty=2,
    minutes=10,
    tolerance=FLOAT32,
    cases=(
        Case("six heads of width 1 in three groups", _layer(2, 2, 6, 3, 1, 1)),
        Case("a batch, six heads in three groups", _layer(4, 5, 6, 3, 3, 2, 2), grad=("X", "W_Q", "W_K", "W_V", "W_O")),
        Case("as many sequences as groups", _layer(3, 4, 10, 5, 2, 2, 5)),
        Case("one group: multi-query", _layer(3, 4, 5, 1, 2, 3), edge=0.1),
        Case("as many groups as heads: multi-head", _layer(3, 4, 5, 5, 2, 3), edge=0.1),
    ),
    hints=(
        "The printed lines show two different symptoms. For which G is the output wrong, and for which G is the cache too large? Each "
        "symptom has its own cause.",
        "Write down which copy each of six heads gets in the draft when G = 2, and compare it with 0, 0, 0, 1, 1, 1. Then follow the names K "
        "and V from the line where they are made to the `return`.",
        "PyTorch repeats a tensor in two orders: `repeat` gives 0, 1, 0, 1 and `repeat_interleave` gives 0, 0, 1, 1. The copies also need "
        "names of their own, because the cache stores what was there before.",
    ),
    misconceptions=(
        Misconception(
            "repeat_for_repeat_interleave",
            "gave head $h$ the group h mod G",
            "Neighbouring heads share, so head $h$ belongs to group ⌊h / r⌋ with $r = H/G$. No shape shows the difference.",
            Instead(repeat=_tile),
        ),
        Misconception(
            "groups_for_group_size",
            "divided the number of the head by the number of groups",
            "Divide by the **size** of a group, $r = H/G$. Head $h$ belongs to group ⌊h / r⌋.",
            Instead(repeat=_divided_by_groups),
            also=(Instead(repeat=_divided_by_groups_and_held),),
        ),
        Misconception(
            "keys_split_for_each_head",
            "split the keys or values into `H` heads",
            "Only the queries have `H` heads. `W_K` and `W_V` have one run of columns for each of the `G` groups, so split by `G`.",
            Instead(kept=lambda H, G: H),
            also=(Instead(kept=lambda H, G: H, repeat=lambda x, r: x),),
            raises=True,
        ),
        Misconception(
            "as_often_as_there_are_groups",
            "copied each group `G` times",
            "How many query heads does *one* group serve? That is how many copies it needs.",
            Instead(times=lambda H, G: G),
            raises=True,
        ),
        Misconception(
            "cached_after_repeat",
            "returned the copies, which makes the cache as large as in multi-head attention",
            "Return the `G` heads that were there before the copy. Copies are needed for one step only.",
            Instead(stored=True),
        ),
        Misconception(
            "axis_1",
            "repeated along axis 1, which is the head axis only if there is exactly one batch axis",
            "Count from the end with `dim=-3`. Then any number of leading axes works.",
            Instead(repeat=lambda x, r: x.repeat_interleave(r, dim=1)),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "The given `causal_attention` applies it, so pass the queries, keys and values to it unchanged.",
            Before(lambda W_Q, H, **_: {"W_Q": W_Q * math.sqrt(W_Q.shape[1] / H)}),
        ),
        Misconception(
            "queries_averaged",
            "combined the queries or the scores of a group, so all its heads give the same answer",
            "Each of the `H` heads keeps its own query and therefore its own scores and weights. Only keys and values are shared.",
            Instead(queries=_mean_of_the_group),
            also=(Instead(queries=_sum_of_the_group),),
        ),
        Misconception(
            "merge_without_transpose",
            "merged the heads by a reshape alone, so each row mixes several tokens",
            "Use `merge_heads`, which swaps tokens and heads before it joins them.",
            Instead(merge=_merge_by_reshape),
        ),
        Misconception(
            "one_later_visible",
            "let each token attend to the next one as well",
            "Token $i$ may see the keys $j \\le i$. The given `causal_attention` masks the others.",
            Instead(attend=_one_later_visible),
        ),
        Misconception(
            "masked_after_the_softmax",
            "masked the weights after the softmax, so what is left of each row sums to less than 1",
            "Fill the forbidden **scores** with $-\\infty$ before the softmax. The given `causal_attention` does it.",
            Instead(attend=_masked_late),
        ),
        Misconception(
            "future_visible",
            "let tokens attend to later tokens",
            "Sharing keys changes nothing about the mask. Use `causal_attention`.",
            Instead(attend=_everything_visible),
        ),
    ),
    variants=(
        Variant("one_head_after_another", _head_after_head),
        Variant("copied_weights", _copied_weights),
        Variant("by_index", _looked_up),
    ),
)


# ---------------------------------------------------------------------------------------------- the same layer, more groups


def _projection(G, more, d, d_model):
    return lambda draw: {"W": draw.normal(d_model, G * d), "G": G, "more": more}


def _drawn(draw: Draw):
    G, r, d, d_model = draw.sizes(4, low=2, high=7)
    return _projection(G, G * r, d, d_model)(draw)


def _widened(*, view=lambda W, G: W.reshape(-1, G, W.shape[1] // G), axis=1, copies=None, flat=lambda wide: wide.flatten(1)):
    """The groups of columns copied, with one part replaced by a mistake."""

    def answer(W, G, more):
        groups, r = view(W, G), more // G
        wide = groups.repeat_interleave(r, dim=axis) if copies is None else copies(groups, r)
        return flat(wide)

    return answer


def _chunk_by_chunk(W, G, more):
    return torch.cat([group for group in W.chunk(G, dim=1) for _ in range(more // G)], dim=1)


def _by_matrix(W, G, more):
    spread = torch.kron(torch.eye(G), torch.kron(torch.ones(1, more // G), torch.eye(W.shape[1] // G)))
    return W @ spread.to(W.dtype)


WITH_MORE_GROUPS = Exercise(
    "with_more_groups",
    title="The same layer with more groups",
    kind="design",
    points=2,
    reference=ref.with_more_groups,
    recipe=Made(_widened),
    tensors=True,
    difficulty=2,
    minutes=8,
    tolerance=FLOAT32,
    cases=(
        Case("two groups of width 2 become four", _projection(2, 4, 2, 1)),
        Case("three groups become six", _projection(3, 6, 2, 5), grad=("W",)),
        Case("other sizes", _drawn),
        Case("one group: multi-query", _projection(1, 3, 2, 5), edge=0.1),
        Case("no more groups than before", _projection(3, 3, 2, 4), edge=0.1),
    ),
    hints=(
        "Take H = 4 heads, two groups, and ask for four. Which keys does each head attend to before, and so which keys must the new group "
        "of that head have?",
        "With twice as many groups, the heads of old group 0 belong to new groups 0 and 1. Both must produce the keys of old group 0. The "
        "columns of one group stay together and in order.",
        "View the columns as (G, d), so that whole groups can be copied along their own axis, each copy next to the first. Then flatten "
        "the last two axes again.",
    ),
    misconceptions=(
        Misconception(
            "groups_in_turn",
            "put the copies in turn, 0, 1, 0, 1, so most heads now attend to another group",
            "Neighbouring heads share. The copies of group 0 must therefore come first, next to each other.",
            Instead(copies=lambda groups, r: torch.cat([groups] * r, dim=1)),
        ),
        Misconception(
            "columns_repeated",
            "repeated single columns, which mixes up the features of a key",
            "Copy whole groups. Group $g$ owns a run of $d$ columns that stay together.",
            Instead(axis=2),
        ),
        Misconception(
            "filled_with_zeros",
            "gave the new groups zeros",
            "A head whose group has zero keys attends to all tokens equally. Each new group must produce the keys its heads had before.",
            Instead(
                copies=lambda groups, r: torch.cat(
                    [groups.unsqueeze(2)] + [groups.new_zeros(groups.unsqueeze(2).shape)] * (r - 1), 2
                ).flatten(1, 2)
            ),
        ),
        Misconception(
            "shared_out",
            "divided the columns by the number of copies",
            "The heads of a group don't add up their keys. Each head attends to one copy, so each copy must be whole.",
            Instead(copies=lambda groups, r: groups.repeat_interleave(r, dim=1) / r),
        ),
        Misconception(
            "all_groups_averaged",
            "gave every new group the average of all old ones",
            "Each head must keep exactly the keys of its own old group.",
            Instead(copies=lambda groups, r: groups.mean(1, keepdim=True).expand(-1, groups.shape[1] * r, -1)),
        ),
        Misconception(
            "copies_of_copies",
            "made `more` copies of each group, so there are too many columns",
            "The result has `more` groups in all. How many new groups replace one old group?",
            Instead(copies=lambda groups, r: groups.repeat_interleave(r * groups.shape[1], dim=1)),
        ),
        Misconception(
            "rows_repeated",
            "repeated the rows, which are the features of a token",
            "The layer still reads tokens of width $d_{model}$. New groups are new **columns**.",
            Instead(axis=0),
        ),
        Misconception(
            "groups_on_an_axis_of_their_own",
            "left the groups on an axis of their own, so the result has one axis too many",
            "A projection is a matrix with the groups' columns side by side. Flatten the last two axes.",
            Instead(flat=lambda wide: wide),
        ),
        Misconception(
            "features_in_turn",
            "interleaved the groups, with the first feature of each group before the second of each",
            "Each group owns a run of $d$ neighbouring columns, so flatten (groups, d) in this order.",
            Instead(flat=lambda wide: wide.mT.flatten(1)),
        ),
    ),
    variants=(
        Variant("chunk_by_chunk", _chunk_by_chunk),
        Variant("times_a_matrix", _by_matrix),
    ),
)
