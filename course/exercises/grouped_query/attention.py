"""Grouped-query attention by copies: which head belongs to which group."""

import math

import torch

from autograder import Before, Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import grouped_query as ref
from solutions.multi_query import causal_attention, merge_heads, split_heads

FLOAT32 = Tolerance(rtol=1e-4, atol=1e-5)  # three products and a softmax in float32; mistakes are 1e-2 and more


def _tile(x, r):
    """Head h gets group h % G."""
    return torch.cat([x] * r, dim=-3)


def _layer(n, d_model, H, G, d_k, d_v, *lead):
    widths = {
        "Wq": (d_model, H * d_k, 1.5),
        "Wk": (d_model, G * d_k, 1.0),
        "Wv": (d_model, G * d_v, 1.0),
        "Wo": (H * d_v, d_model, 1.0),
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

    def answer(X, Wq, Wk, Wv, Wo, H, G):
        Q, K, V = queries(split_heads(X @ Wq, H), G), split_heads(X @ Wk, kept(H, G)), split_heads(X @ Wv, kept(H, G))
        r = H // G if times is None else times(H, G)
        copies = repeat(K, r), repeat(V, r)
        return merge(attend(Q, *copies)) @ Wo, *(copies if stored else (K, V))

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


def _head_after_head(X, Wq, Wk, Wv, Wo, H, G):
    K, V = split_heads(X @ Wk, G), split_heads(X @ Wv, G)
    parts = []
    for h, wq in enumerate(Wq.chunk(H, dim=1)):
        g = h * G // H
        parts.append(causal_attention(X @ wq, K[..., g, :, :], V[..., g, :, :]))
    return torch.cat(parts, dim=-1) @ Wo, K, V


def _copied_weights(X, Wq, Wk, Wv, Wo, H, G):
    """Multi-head attention with a projection for every head, some of them equal."""
    Q, K, V = (split_heads(X @ W, heads) for W, heads in ((Wq, H), (Wk, G), (Wv, G)))
    wide = [W.reshape(W.shape[0], G, -1).repeat_interleave(H // G, 1).flatten(1) for W in (Wk, Wv)]
    outputs = causal_attention(Q, *(split_heads(X @ W, H) for W in wide))
    return merge_heads(outputs) @ Wo, K, V


def _looked_up(X, Wq, Wk, Wv, Wo, H, G):
    Q, K, V = split_heads(X @ Wq, H), split_heads(X @ Wk, G), split_heads(X @ Wv, G)
    group = torch.arange(H) * G // H
    return merge_heads(causal_attention(Q, K[..., group, :, :], V[..., group, :, :])) @ Wo, K, V


GQA = Exercise(
    "gqa",
    title="Grouped-query attention",
    points=3,
    reference=ref.gqa,
    recipe=Made(_gqa),
    tensors=True,
    difficulty=2,
    minutes=12,
    tolerance=FLOAT32,
    cases=(
        Case("six heads of width 1 in three groups", _layer(2, 2, 6, 3, 1, 1)),
        Case("a batch, six heads in three groups", _layer(4, 5, 6, 3, 3, 2, 2), grad=("X", "Wq", "Wk", "Wv", "Wo")),
        Case("as many sequences as groups", _layer(3, 4, 10, 5, 2, 2, 5)),
        Case("one group: multi-query", _layer(3, 4, 5, 1, 2, 3), edge=0.1),
        Case("as many groups as heads: multi-head", _layer(3, 4, 5, 5, 2, 3), edge=0.1),
    ),
    hints=(
        "Write down, for H = 6 and G = 2, which group serves the heads 0, 1, 2, 3, 4, 5. Then: where do `H` heads of queries meet `G` "
        "heads of keys, and what is missing there?",
        "Split `X @ Wq` into `H` heads, `X @ Wk` and `X @ Wv` into `G`. For attention alone, repeat each group **in place** along the head "
        "axis, which is third from the end. Return keys and values as they were before that.",
        "PyTorch has `repeat`, which goes 0, 1, 0, 1, and `repeat_interleave`, which goes 0, 0, 1, 1; give it how often, H / G, and "
        "`dim=-3`. The rest is `causal_attention`, `merge_heads` and `Wo`.",
    ),
    misconceptions=(
        Misconception(
            "repeat_for_repeat_interleave",
            "gave head $h$ the group h mod G",
            "Neighbours share: head $h$ belongs to group ⌊h / r⌋ with $r = H/G$. No shape shows the difference.",
            Instead(repeat=_tile),
        ),
        Misconception(
            "groups_for_group_size",
            "divided the head's number by the number of groups",
            "Divide by the group **size** $r = H/G$: head $h$ belongs to group ⌊h / r⌋.",
            Instead(repeat=_divided_by_groups),
            also=(Instead(repeat=_divided_by_groups_and_held),),
        ),
        Misconception(
            "keys_split_for_each_head",
            "split what `Wk` or `Wv` makes into `H` heads",
            "Only the queries have `H` heads. `Wk` and `Wv` have a run of columns for each of the `G` groups: split by `G`.",
            Instead(kept=lambda H, G: H),
            also=(Instead(kept=lambda H, G: H, repeat=lambda x, r: x),),
            raises=True,
        ),
        Misconception(
            "as_often_as_there_are_groups",
            "copied each group `G` times",
            "How many heads of queries does *one* group serve? That is how often its keys and values are needed.",
            Instead(times=lambda H, G: G),
            raises=True,
        ),
        Misconception(
            "cached_after_repeat",
            "returned keys and values after the repeat: the cache is as large as that of multi-head attention",
            "Return the `G` heads. Copies, where they are made at all, live for one step.",
            Instead(stored=True),
        ),
        Misconception(
            "axis_1",
            "repeated along axis 1, which is the head axis only with exactly one batch axis",
            "Count from the end, `dim=-3`: then any leading axes work, and none.",
            Instead(repeat=lambda x, r: x.repeat_interleave(r, dim=1)),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "`causal_attention` does it: hand queries, keys and values to it.",
            Before(lambda Wq, H, **_: {"Wq": Wq * math.sqrt(Wq.shape[1] / H)}),
        ),
        Misconception(
            "queries_averaged",
            "averaged the queries of a group, or added them or their scores up, so its heads all give the same answer",
            "Each of the `H` heads keeps its own query, and so its own scores and weights. Only keys and values are shared.",
            Instead(queries=_mean_of_the_group),
            also=(Instead(queries=_sum_of_the_group),),
        ),
        Misconception(
            "merge_without_transpose",
            "merged the heads by a reshape alone, so each row mixes several tokens",
            "Use `merge_heads`: it swaps tokens and heads back before it joins them.",
            Instead(merge=_merge_by_reshape),
        ),
        Misconception(
            "one_later_visible",
            "let each token look at the one after it as well",
            "Token $i$ sees the keys $j \\le i$: `tril()`, or `triu(1)` for what is hidden. `causal_attention` does it.",
            Instead(attend=_one_later_visible),
        ),
        Misconception(
            "masked_after_the_softmax",
            "masked the weights after the softmax: the keys that a token may not see have taken their share, and what is left sums to less than 1",
            "Fill the forbidden **scores** with $-\\infty$, before the softmax. `causal_attention` does it.",
            Instead(attend=_masked_late),
        ),
        Misconception(
            "future_visible",
            "let tokens look at later ones",
            "Use `causal_attention`: grouping changes nothing about the mask.",
            Instead(attend=_everything_visible),
        ),
    ),
    variants=(
        Variant("one_head_after_another", _head_after_head),
        Variant("copied_weights", _copied_weights),
        Variant("by_index", _looked_up),
    ),
)
