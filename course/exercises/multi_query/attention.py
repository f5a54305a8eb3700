"""Multi-query attention over a whole sequence, and one step of it with a cache."""

import math

import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import multi_query as ref

FLOAT32 = Tolerance(rtol=1e-4, atol=1e-5)  # three products and a softmax in float32; mistakes are 1e-2 and more
WEIGHTS = ("Wq", "Wk", "Wv", "Wo")


def draw_weights(draw: Draw, d_model, H, d_k, d_v):
    """Projections that give queries, keys and values of about unit variance; the queries a little more."""
    widths = {"Wq": (d_model, H * d_k, 1.5), "Wk": (d_model, d_k, 1.0), "Wv": (d_model, d_v, 1.0), "Wo": (H * d_v, d_model, 1.0)}
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

    def answer(X, Wq, Wk, Wv, Wo, H):
        Q, K, V = queries(split(X @ Wq, H)), X @ Wk, X @ Wv
        return merge(outputs(attend(Q, shared(K), shared(V)))) @ Wo, K, V

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


def _cached(kept):
    """The output as it is, and in the cache what `kept` makes of keys and of values."""
    return After(lambda out, H, **_: (out[0], *(kept(T, H) for T in out[1:])))


def _for_each_head(T, H):
    return T.unsqueeze(-3).expand(*T.shape[:-2], H, -1, -1)


def _everything_visible(Q, K, V):
    return torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1) @ V


def _head_after_head(X, Wq, Wk, Wv, Wo, H):
    K, V = X @ Wk, X @ Wv
    return sum(ref.causal_attention(X @ wq, K, V) @ wo for wq, wo in zip(Wq.chunk(H, 1), Wo.chunk(H, 0), strict=True)), K, V


def _einsum(X, Wq, Wk, Wv, Wo, H):
    Q, K, V = torch.einsum("...nm,mhk->...hnk", X, Wq.reshape(Wq.shape[0], H, -1)), X @ Wk, X @ Wv
    S = torch.einsum("...hik,...jk->...hij", Q, K) * Q.shape[-1] ** -0.5
    future = torch.ones(X.shape[-2], X.shape[-2], dtype=torch.bool).triu(1)
    A = torch.softmax(S.masked_fill(future, -torch.inf), dim=-1)
    return torch.einsum("...hij,...jv,hvm->...im", A, V, Wo.reshape(H, -1, Wo.shape[1])), K, V


MQA = Exercise(
    "mqa",
    title="Multi-query attention",
    points=3,
    difficulty=3,
    minutes=9,
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
        "Only the queries are split into heads. What shape do keys and values have, and what must stand where the queries have "
        "their head axis?",
        "Project: `X @ Wq` is split into `H` heads, `X @ Wk` and `X @ Wv` stay as they are. An axis of size 1, third from the end, "
        "lets one K and one V serve every head. Merge the heads, multiply by `Wo`, and return K and V **without** that axis.",
        "Three lines: K and V; the outputs by the given `causal_attention`, of queries with H heads and of K and V with a head axis of size "
        "1 put in by `unsqueeze`; then the merged heads times `Wo`, and K and V as they were before that axis came in.",
    ),
    misconceptions=(
        Misconception(
            "shared_queries_too",
            "shared the queries as well: all heads ask the same question, so all get the same answer",
            "Keep $H$ runs of $d_k$ columns in `Wq`, one for each head. Only keys and values are shared.",
            Instead(queries=_same),
        ),
        Misconception(
            "averaged_values",
            "gave every head the average of what the heads received",
            "The heads share the values they choose **from**. What each head mixes out of them is its own: concatenate, don't average.",
            Instead(outputs=_same),
        ),
        Misconception(
            "repeated_in_cache",
            "returned one copy of keys and values per head: the output is right, and the cache is as large as before",
            "Return `X @ Wk` and `X @ Wv` themselves. A head axis, if you need one to attend, is not for storage.",
            _cached(_for_each_head),
        ),
        Misconception(
            "merged_without_transpose",
            "merged the heads by a reshape alone, which keeps the memory order (head, token, feature)",
            "Each row must hold all heads of **one** token: swap heads and tokens first, as `merge_heads` does.",
            Instead(merge=_reshaped),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "The given `causal_attention` does it: hand queries, keys and values to it.",
            Before(lambda Wq, H, **_: {"Wq": Wq * math.sqrt(Wq.shape[1] / H)}),
        ),
        Misconception(
            "head_axis_in_cache",
            "returned keys and values with the axis of size 1 that lets them meet all heads",
            "The output is right. The cache needs no head axis: return `X @ Wk` and `X @ Wv` themselves.",
            _cached(lambda T, H: T.unsqueeze(-3)),
        ),
        Misconception(
            "no_head_axis",
            "gave keys and values no axis where the queries have their heads, so with a batch the heads meet its **sequences**",
            "Axes line up from the end: (…, H, n, d) needs (…, 1, n, d). Put the axis of size 1 in with `unsqueeze(-3)`.",
            Instead(shared=lambda T: T),
        ),
        Misconception(
            "future_visible",
            "let tokens look at later ones",
            "Sharing changes nothing about the mask: use `causal_attention`.",
            Instead(attend=_everything_visible),
        ),
        Misconception(
            "split_without_transpose",
            "split the queries by a reshape alone: a head gets rows of several tokens",
            "`split_heads` makes (…, n, H, d_k) first, and then swaps tokens and heads.",
            Instead(split=_split_without_transpose),
        ),
        Misconception(
            "heads_in_turn",
            "gave column c of `Wq` to head c mod H",
            "Head $h$ has a **run** of $d_k$ columns, as `split_heads` takes them.",
            Instead(split=_heads_in_turn),
        ),
    ),
    variants=(
        Variant("one_head_after_another_summed", _head_after_head),
        Variant("einsum", _einsum),
    ),
)


# ---------------------------------------------------------------------------------------------- one step


def _step(d_model, H, d_k, d_v, n, *lead):
    def make(draw: Draw):
        cache = {"K": draw.normal(*lead, n, d_k), "V": draw.normal(*lead, n, d_v)}
        return {"x": draw.normal(*lead, d_model)} | draw_weights(draw, d_model, H, d_k, d_v) | cache

    return make


def _batch_step(draw: Draw):
    H, n, d_k, d_v = draw.sizes(4, low=2, high=7)
    return _step(5, H, d_k, d_v, n, 2)(draw)


def _square_step(draw: Draw):
    """Five cached tokens, and heads, batch and widths in the way of each other."""
    (d,) = draw.sizes(1, low=3, high=5)
    return _step(6, 3, d, d, 5, 3)(draw)


def _weigh(Q, K, V, scale, axis=-1):
    return torch.softmax(Q @ K.mT / scale, dim=axis) @ V


def _decode(
    *,
    queries=lambda Q: Q,
    joined=lambda old, new: torch.cat([old, new], dim=-2),
    seen=lambda old, grown: grown,
    scale=lambda d_k, H: math.sqrt(d_k),
    attend=_weigh,
    kept=lambda old, grown: grown,
):
    """One decode step with one part replaced by a mistake."""

    def answer(x, Wq, Wk, Wv, Wo, H, K, V):
        Q, old = queries((x @ Wq).unflatten(-1, (H, -1))), (K, V)
        grown = [joined(T, (x @ W).unsqueeze(-2)) for T, W in ((K, Wk), (V, Wv))]
        O = attend(Q, *seen(old, grown), scale(Q.shape[-1], H))
        return O.flatten(-2) @ Wo, *kept(old, grown)

    return answer


def _token_axis(x, Wq, Wk, Wv, Wo, H, K, V):
    """As `mqa` does it: heads on an axis of their own, one query in each."""
    Q = ref.split_heads(x.unsqueeze(-2) @ Wq, H)
    K = torch.cat([K, x.unsqueeze(-2) @ Wk], dim=-2)
    V = torch.cat([V, x.unsqueeze(-2) @ Wv], dim=-2)
    O = ref.causal_attention(Q, K.unsqueeze(-3), V.unsqueeze(-3))
    return (ref.merge_heads(O) @ Wo).squeeze(-2), K, V


def _rows_as_tokens(Q, K, V, scale):
    """A causal mask over the heads; with the right scale it is `causal_attention`."""
    keep = torch.ones(Q.shape[-2], K.shape[-2], dtype=torch.bool).tril(K.shape[-2] - Q.shape[-2])
    return torch.softmax((Q @ K.mT / scale).masked_fill(~keep, -torch.inf), dim=-1) @ V


def _heads_meet_sequences(Q, K, V, scale):
    """A head axis for the queries alone: right without a batch; with one, heads line up with its sequences."""
    return _weigh(Q.unsqueeze(-2), K, V, scale).squeeze(-2)


def _loop_over_heads(x, Wq, Wk, Wv, Wo, H, K, V):
    K, V = (torch.cat([T, (x @ W)[..., None, :]], dim=-2) for T, W in ((K, Wk), (V, Wv)))
    parts = []
    for wq in Wq.chunk(H, 1):
        a = torch.softmax((K @ (x @ wq)[..., None])[..., 0] / math.sqrt(K.shape[-1]), dim=-1)
        parts.append((a[..., None] * V).sum(-2))
    return torch.cat(parts, dim=-1) @ Wo, K, V


MQA_STEP = Exercise(
    "mqa_step",
    title="Find the bug: one decode step, the heads as rows",
    kind="bug",
    points=2,
    difficulty=3,
    minutes=7,
    reference=ref.mqa_step,
    recipe=Made(_decode),
    tensors=True,
    tolerance=FLOAT32,
    cases=(
        Case("two heads, three cached tokens", _step(2, 2, 3, 1, 3)),
        Case("a batch", _batch_step),
        Case("as many sequences as heads", _square_step),
        Case("an empty cache", _step(5, 3, 2, 7, 0, 2), edge=0.2),
    ),
    hints=(
        "Take H = 3 and five cached tokens, and print the weights row by row. What are the rows of that matrix: tokens, or something else?",
        "`causal_attention` takes the rows of Q for the *last tokens* of the text, and hides later tokens from earlier ones. Here all rows "
        "are heads of **one** token, the newest.",
        "One new token needs no mask: nothing in the cache is later than it. Replace the call by the three steps that it is made of, scores "
        "divided by the root of d_k, softmax, values, without the mask.",
    ),
    misconceptions=(
        Misconception(
            "attended_before_append",
            "attended first and stored afterwards, so the new token does not see itself",
            "Append, then attend: each token is among its own keys.",
            Instead(seen=lambda old, grown: old),
        ),
        Misconception(
            "heads_masked_as_tokens",
            "put a causal mask over rows that are **heads**: head 0 misses the newest tokens, only the last head sees all",
            "The rows of the query matrix are $H$ heads of one token, not $H$ tokens. One decode step needs no mask.",
            Instead(attend=_rows_as_tokens),
        ),
        Misconception(
            "no_scale",
            "left out the scale $1/\\sqrt{d_k}$",
            "`causal_attention` divided the scores by the root of $d_k$. Whoever replaces it must do that too.",
            Instead(scale=lambda d_k, H: 1.0),
        ),
        Misconception(
            "scaled_by_heads",
            "divided the scores by the root of $H$, not of $d_k$",
            "The rows of Q are heads; a row's width is $d_k$, its last axis.",
            Instead(scale=lambda d_k, H: math.sqrt(H)),
        ),
        Misconception(
            "prepended",
            "put the new token in front of the old ones",
            "Append it **behind** them. Without positions the output is the same; the cache is not.",
            Instead(joined=lambda old, new: torch.cat([new, old], dim=-2)),
        ),
        Misconception(
            "no_head_axis",
            "gave the queries an axis for their heads, and keys and values none, so with a batch the heads meet its **sequences**",
            "Axes line up from the end: (…, H, 1, d) needs (…, 1, n, d). Or leave the heads as rows, (…, H, d), and drop the mask.",
            Instead(attend=_heads_meet_sequences),
        ),
        Misconception(
            "overwrote_the_last",
            "wrote the new token over the last cached one: the cache did not grow",
            "The returned cache has $n + 1$ tokens: all the old ones, then the new one.",
            Instead(joined=lambda old, new: torch.cat([old[..., :-1, :], new], dim=-2)),
        ),
        Misconception(
            "repeated_in_cache",
            "stored one copy of keys and values per head",
            "The cache keeps the shape it came in, `(..., n, d)`, and is one token longer. Nothing in it depends on $H$.",
            _cached(_for_each_head),
        ),
        Misconception(
            "shared_queries_too",
            "let all heads ask the same question",
            "Every head has its own run of $d_k$ columns in `Wq`.",
            Instead(queries=lambda Q: Q.mean(-2, keepdim=True).expand_as(Q)),
        ),
        Misconception(
            "softmax_over_the_heads",
            "took the softmax over the heads and not over the tokens: the weights of one head do not sum to 1",
            "Each head shares its weight out among the tokens: the softmax goes along their axis.",
            Instead(attend=lambda Q, K, V, scale: _weigh(Q, K, V, scale, axis=-2)),
        ),
        Misconception(
            "new_token_not_kept",
            "attended to the new token, and returned the cache without it",
            "The returned cache has $n + 1$ tokens: the next step needs this one's key and value.",
            Instead(kept=lambda old, grown: old),
        ),
        Misconception(
            "scaled_by_d",
            "divided the scores by $d_k$, not by its root",
            "`causal_attention` divided by $\\sqrt{d_k}$. Whoever replaces it must do that too.",
            Instead(scale=lambda d_k, H: d_k),
        ),
        Misconception(
            "new_token_alone",
            "attended to the new token alone",
            "The query asks all that is cached, and itself: the $n + 1$ tokens.",
            Instead(seen=lambda old, grown: [T[..., -1:, :] for T in grown]),
        ),
    ),
    variants=(
        Variant("with_a_token_axis", _token_axis),
        Variant("loop_over_heads", _loop_over_heads),
    ),
)
