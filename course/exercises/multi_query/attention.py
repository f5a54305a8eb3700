"""Multi-query attention over a whole sequence."""

import math

import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import multi_query as ref

FLOAT32 = Tolerance(rtol=1e-4, atol=1e-5)  # three products and a softmax in float32; mistakes are 1e-2 and more
HEADS_AVERAGED = Misconception(
    "heads_averaged_at_the_end",
    "averaged the contributions of the heads instead of adding them, so your output is too small by a factor of `H`",
    "Multiplying the concatenated heads by `W_O` **adds** their contributions. Nothing divides by `H`.",
    After(lambda out, H, **_: (out[0] / H, *out[1:])),
)
WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")


def draw_weights(draw: Draw, d_model, H, d_k, d_v):
    """Projections that give queries, keys and values of about unit variance; the queries a little more."""
    widths = {
        "W_Q": (d_model, H * d_k, 1.5),
        "W_K": (d_model, d_k, 1.0),
        "W_V": (d_model, d_v, 1.0),
        "W_O": (H * d_v, d_model, 1.0),
    }
    return {name: draw.normal(a, b, scale=factor / math.sqrt(a)) for name, (a, b, factor) in widths.items()} | {"H": H}


def _by_hand(draw: Draw):
    return {"X": draw.normal(3, 2)} | draw_weights(draw, 2, 2, 1, 1)


def _batch(draw: Draw):
    H, n, d_k, d_v = draw.sizes(4, low=2, high=7)
    return {"X": draw.normal(2, n, 5)} | draw_weights(draw, 5, H, d_k, d_v)


def _as_many_sequences_as_heads(draw: Draw):
    """Batch = heads, d_k = d_v: no wrong turn is stopped by a shape error."""
    n, d = draw.sizes(2, low=5, high=7)
    return {"X": draw.normal(3, n, 5)} | draw_weights(draw, 5, 3, d, d)


def _mqa(
    *,
    split=ref.split_heads,
    shared=lambda T: T.unsqueeze(-3),
    queries=lambda Q: Q,
    attend=ref.causal_attention,
    outputs=lambda O: O,
    merge=ref.merge_heads,
):
    """Multi-query attention with one part replaced by a mistake."""

    def answer(X, W_Q, W_K, W_V, W_O, H):
        Q, K, V = queries(split(X @ W_Q, H)), X @ W_K, X @ W_V
        return merge(outputs(attend(Q, shared(K), shared(V)))) @ W_O, K, V

    return answer


def _same(heads):
    """Every head is the mean over the heads."""
    return heads.mean(-3, keepdim=True).expand_as(heads)


def _reshaped(O):
    return O.reshape(*O.shape[:-3], O.shape[-2], -1)


def _split_without_transpose(x, H):
    return x.reshape(*x.shape[:-2], H, x.shape[-2], -1)


def _heads_in_turn(x, H):
    """Column c goes to head c mod H."""
    return x.unflatten(-1, (-1, H)).movedim(-1, -3)


def cached(kept):
    """The output as it is, and in the cache what `kept` makes of keys and of values."""
    return After(lambda out, H, **_: (out[0], *(kept(T, H) for T in out[1:])))


def for_each_head(T, H):
    return T.unsqueeze(-3).expand(*T.shape[:-2], H, -1, -1)


def _merged_in_turn(O):
    """The first feature of each head, then the second of each."""
    return O.movedim(-3, -1).flatten(-2)


def _queries_times(factor):
    """Scores times a `factor` of d_k and d_model."""
    return Before(lambda W_Q, H, **_: {"W_Q": W_Q * factor(W_Q.shape[1] / H, W_Q.shape[0])})


def _everything_visible(Q, K, V):
    return torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1) @ V


def _head_after_head(X, W_Q, W_K, W_V, W_O, H):
    K, V = X @ W_K, X @ W_V
    return sum(ref.causal_attention(X @ wq, K, V) @ wo for wq, wo in zip(W_Q.chunk(H, 1), W_O.chunk(H, 0), strict=True)), K, V


def _einsum(X, W_Q, W_K, W_V, W_O, H):
    Q, K, V = torch.einsum("...nm,mhk->...hnk", X, W_Q.reshape(W_Q.shape[0], H, -1)), X @ W_K, X @ W_V
    S = torch.einsum("...hik,...jk->...hij", Q, K) * Q.shape[-1] ** -0.5
    future = torch.ones(X.shape[-2], X.shape[-2], dtype=torch.bool).triu(1)
    A = torch.softmax(S.masked_fill(future, -torch.inf), dim=-1)
    return torch.einsum("...hij,...jv,hvm->...im", A, V, W_O.reshape(H, -1, W_O.shape[1])), K, V


MQA = Exercise(
    "mqa",
    title="Find the bug: shared in a batch",
    kind="bug",
    points=2,
    difficulty=3,
    minutes=6,
    reference=ref.mqa,
    recipe=Made(_mqa),
    tensors=True,
    tolerance=FLOAT32,
    cases=(
        Case("three tokens, two heads of width 1", _by_hand),
        Case("a batch", _batch, grad=("X", *WEIGHTS)),
        Case("as many sequences as heads", _as_many_sequences_as_heads),
    ),
    hints=(
        "Two shapes broadcast from the last axis to the first. Write the shapes of `Q` and `K` under each other, flush right, for batches of "
        "1, 2 and 4.",
        "`Q` has the axes (batch, head, token, feature). `K` has no head axis, so its batch axis stands under the heads. In a batch of four, "
        "head h attends to the keys of text h.",
        "While it attends, `K` needs an axis of size 1 in the place of the heads. The cache doesn't need this axis.",
    ),
    misconceptions=(
        Misconception(
            "shared_queries_too",
            "shared the queries as well, so all heads ask the same question and get the same answer",
            "Each head keeps its own $d_k$ columns of `W_Q`. Only keys and values are shared.",
            Instead(queries=_same),
        ),
        Misconception(
            "averaged_values",
            "gave every head the average of what all heads received",
            "The heads share the values, but each head has its own weights and therefore its own output. Concatenate the outputs.",
            Instead(outputs=_same),
        ),
        Misconception(
            "repeated_in_cache",
            "returned one copy of the keys and values per head, so the output is right but the cache is as large as before",
            "Return `X @ W_K` and `X @ W_V` themselves. If you need a head axis to attend, don't store it.",
            cached(for_each_head),
        ),
        Misconception(
            "merged_without_transpose",
            "merged the heads by a reshape alone, which keeps the memory order (head, token, feature)",
            "Each row must hold all heads of **one** token. Swap heads and tokens first, as `merge_heads` does.",
            Instead(merge=_reshaped),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "The given `causal_attention` applies it, so pass the queries, keys and values to it unchanged.",
            _queries_times(lambda d_k, d_model: math.sqrt(d_k)),
        ),
        Misconception(
            "scaled_by_the_model_width",
            "divided the scores by $\\sqrt{d_{model}}$ instead of $\\sqrt{d_k}$",
            "A score is a sum over the $d_k$ features of one head. The given `causal_attention` divides by $\\sqrt{d_k}$.",
            _queries_times(lambda d_k, d_model: math.sqrt(d_k / d_model)),
        ),
        Misconception(
            "head_axis_in_cache",
            "returned the keys and values with the extra axis of size 1 that lets them meet all heads",
            "Your output is right. The cache needs no head axis, so return `X @ W_K` and `X @ W_V` themselves.",
            cached(lambda T, H: T.unsqueeze(-3)),
        ),
        Misconception(
            "no_head_axis",
            "left the keys and values without an axis in the place of the heads, as the draft does, so in a batch the heads line up with its **texts**",
            "Axes line up from the last one, so queries of (…, H, n, d) need keys of (…, 1, n, d).",
            Instead(shared=lambda T: T),
        ),
        Misconception(
            "future_visible",
            "let tokens attend to later tokens",
            "Sharing keys changes nothing about the mask. Use `causal_attention`.",
            Instead(attend=_everything_visible),
        ),
        Misconception(
            "split_without_transpose",
            "split the queries by a reshape alone, so a head gets features of several tokens",
            "`split_heads` first makes (…, n, H, d_k) and then swaps tokens and heads.",
            Instead(split=_split_without_transpose),
        ),
        Misconception(
            "heads_in_turn",
            "gave column c of `W_Q` to head c mod H",
            "Head $h$ owns $d_k$ **neighbouring** columns, which is how `split_heads` cuts them.",
            Instead(split=_heads_in_turn),
        ),
        Misconception(
            "merged_in_turn",
            "merged the heads feature by feature, with the first feature of each head before the second of each",
            "Put whole heads side by side, as `merge_heads` does: swap heads and tokens, then flatten (…, n, H, d).",
            Instead(merge=_merged_in_turn),
        ),
        HEADS_AVERAGED,
    ),
    variants=(
        Variant("one_head_after_another_summed", _head_after_head),
        Variant("einsum", _einsum),
    ),
)
