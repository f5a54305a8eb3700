"""One step of multi-query attention, with a cache."""

import math

import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from course.exercises.multi_query.attention import FLOAT32, HEADS_AVERAGED, cached, draw_weights, for_each_head
from solutions import multi_query as ref


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


def _in_runs(q, H):
    return q.unflatten(-1, (H, -1))


def _in_turn(q, H):
    """Column c goes to head c mod H."""
    return q.unflatten(-1, (-1, H)).mT


def _decode(
    *,
    split=_in_runs,
    queries=lambda Q: Q,
    joined=lambda old, new: torch.cat([old, new], dim=-2),
    seen=lambda old, grown: grown,
    scale=lambda d_k, H, d_model: math.sqrt(d_k),
    attend=_weigh,
    merge=lambda O: O.flatten(-2),
    kept=lambda old, grown: grown,
):
    """One decode step with one part replaced by a mistake."""

    def answer(x, W_Q, W_K, W_V, W_O, H, K, V):
        Q, old = queries(split(x @ W_Q, H)), (K, V)
        grown = [joined(T, (x @ W).unsqueeze(-2)) for T, W in ((K, W_K), (V, W_V))]
        O = attend(Q, *seen(old, grown), scale(Q.shape[-1], H, x.shape[-1]))
        return merge(O) @ W_O, *kept(old, grown)

    return answer


def _token_axis(x, W_Q, W_K, W_V, W_O, H, K, V):
    """As `mqa` does it: heads on an axis of their own, one query in each."""
    Q = ref.split_heads(x.unsqueeze(-2) @ W_Q, H)
    K = torch.cat([K, x.unsqueeze(-2) @ W_K], dim=-2)
    V = torch.cat([V, x.unsqueeze(-2) @ W_V], dim=-2)
    O = ref.causal_attention(Q, K.unsqueeze(-3), V.unsqueeze(-3))
    return (ref.merge_heads(O) @ W_O).squeeze(-2), K, V


def _rows_as_tokens(Q, K, V, scale):
    """A causal mask over the heads; with the right scale it is `causal_attention`."""
    keep = torch.ones(Q.shape[-2], K.shape[-2], dtype=torch.bool).tril(K.shape[-2] - Q.shape[-2])
    return torch.softmax((Q @ K.mT / scale).masked_fill(~keep, -torch.inf), dim=-1) @ V


def _heads_meet_sequences(Q, K, V, scale):
    """A head axis for the queries alone: right without a batch; with one, heads line up with its sequences."""
    return _weigh(Q.unsqueeze(-2), K, V, scale).squeeze(-2)


def _loop_over_heads(x, W_Q, W_K, W_V, W_O, H, K, V):
    K, V = (torch.cat([T, (x @ W)[..., None, :]], dim=-2) for T, W in ((K, W_K), (V, W_V)))
    parts = []
    for wq in W_Q.chunk(H, 1):
        a = torch.softmax((K @ (x @ wq)[..., None])[..., 0] / math.sqrt(K.shape[-1]), dim=-1)
        parts.append((a[..., None] * V).sum(-2))
    return torch.cat(parts, dim=-1) @ W_O, K, V


MQA_STEP = Exercise(
    "mqa_step",
    title="Find the bug: one decode step, the heads as rows",
    kind="bug",
    points=2,
    difficulty=3,
    minutes=6,
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
        "Take H = 3 and five cached tokens, and print the attention weights row by row. Does a row of that matrix belong to a token?",
        "`causal_attention` takes the rows of Q for the *last tokens* of the text and hides later tokens from earlier ones. Here all rows "
        "are heads of **one** token, the newest.",
        "One new token needs no mask, because nothing in the cache is later. Replace the call by the steps that it consists of, which are "
        "the scores divided by $\\sqrt{d_k}$, the softmax and the product with V, and leave out the mask.",
    ),
    misconceptions=(
        Misconception(
            "attended_before_append",
            "attended first and stored afterwards, so the new token can't attend to itself",
            "Append first, then attend. Each token is among its own keys.",
            Instead(seen=lambda old, grown: old),
        ),
        Misconception(
            "heads_masked_as_tokens",
            "applied a causal mask to rows that are **heads**, so head 0 misses the newest tokens and only the last head sees all of them",
            "The rows of the query matrix are $H$ heads of one token, not $H$ tokens. One decode step needs no mask.",
            Instead(attend=_rows_as_tokens),
        ),
        Misconception(
            "no_scale",
            "left out the scale $1/\\sqrt{d_k}$",
            "`causal_attention` divided the scores by $\\sqrt{d_k}$, so your replacement has to do it as well.",
            Instead(scale=lambda d_k, H, d_model: 1.0),
        ),
        Misconception(
            "scaled_by_heads",
            "divided the scores by $\\sqrt{H}$ instead of $\\sqrt{d_k}$",
            "The rows of Q are heads. The width $d_k$ is its last axis.",
            Instead(scale=lambda d_k, H, d_model: math.sqrt(H)),
        ),
        Misconception(
            "scaled_by_the_model_width",
            "divided the scores by $\\sqrt{d_{model}}$ instead of $\\sqrt{d_k}$",
            "A score is a sum over the $d_k$ features of one head, which is the last axis of Q and not of `x`.",
            Instead(scale=lambda d_k, H, d_model: math.sqrt(d_model)),
        ),
        Misconception(
            "prepended",
            "put the new token in front of the old ones",
            "Append it **behind** them. Without positions the output is the same, but the cache is in the wrong order.",
            Instead(joined=lambda old, new: torch.cat([new, old], dim=-2)),
        ),
        Misconception(
            "no_head_axis",
            "gave the queries a head axis that the keys and values lack, so in a batch the heads line up with its **sequences**",
            "Axes line up from the end, so queries of (…, H, 1, d) need keys of (…, 1, n, d). It is simpler to keep the heads as rows, "
            "(…, H, d), and drop the mask.",
            Instead(attend=_heads_meet_sequences),
        ),
        Misconception(
            "overwrote_the_last",
            "wrote the new token over the last cached one, so the cache did not grow",
            "The returned cache has $n + 1$ tokens, first all the old ones and then the new one.",
            Instead(joined=lambda old, new: torch.cat([old[..., :-1, :], new], dim=-2)),
        ),
        Misconception(
            "repeated_in_cache",
            "stored one copy of the keys and values per head",
            "The cache keeps its shape `(..., n, d)` and grows by one token. Nothing in it depends on $H$.",
            cached(for_each_head),
        ),
        Misconception(
            "shared_queries_too",
            "let all heads ask the same question",
            "Each head has its own $d_k$ columns of `W_Q`.",
            Instead(queries=lambda Q: Q.mean(-2, keepdim=True).expand_as(Q)),
        ),
        Misconception(
            "softmax_over_the_heads",
            "took the softmax over the heads instead of the tokens, so the weights of one head don't sum to 1",
            "Each head distributes a total weight of 1 over the tokens, which are the last axis.",
            Instead(attend=lambda Q, K, V, scale: _weigh(Q, K, V, scale, axis=-2)),
        ),
        Misconception(
            "new_token_not_kept",
            "attended to the new token but returned the cache without it",
            "The returned cache has $n + 1$ tokens, because the next step needs the key and value of this one.",
            Instead(kept=lambda old, grown: old),
        ),
        Misconception(
            "returned_the_new",
            "returned only the key and value of the new token, and not the cache that now ends with them",
            "The next step passes what you return as `K` and `V`, so return all $n + 1$ of each.",
            Instead(kept=lambda old, grown: [T[..., -1:, :] for T in grown]),
        ),
        Misconception(
            "scaled_by_d",
            "divided the scores by $d_k$ instead of $\\sqrt{d_k}$",
            "`causal_attention` divided by $\\sqrt{d_k}$, so your replacement has to do the same.",
            Instead(scale=lambda d_k, H, d_model: d_k),
        ),
        Misconception(
            "new_token_alone",
            "attended to the new token alone",
            "The query attends to all cached tokens and to itself, which makes $n + 1$ tokens.",
            Instead(seen=lambda old, grown: [T[..., -1:, :] for T in grown]),
        ),
        Misconception(
            "merged_in_turn",
            "merged the heads feature by feature, with the first feature of each head before the second of each",
            "Put whole heads side by side. In the output (…, H, d_v) each row is a head, and `flatten(-2)` puts the rows one after another.",
            Instead(merge=lambda O: O.mT.flatten(-2)),
        ),
        Misconception(
            "heads_in_turn",
            "gave column c of `W_Q` to head c mod H",
            "Head $h$ owns $d_k$ **neighbouring** columns, so reshape to (…, H, d_k).",
            Instead(split=_in_turn),
        ),
        HEADS_AVERAGED,
    ),
    variants=(
        Variant("with_a_token_axis", _token_axis),
        Variant("loop_over_heads", _loop_over_heads),
    ),
)
