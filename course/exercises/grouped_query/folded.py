"""Grouped-query attention without a copy of keys or values."""

import math

import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Made, Misconception, Property, Tolerance, Variant
from solutions import grouped_query as ref

FLOAT32 = Tolerance(rtol=1e-4, atol=1e-5)  # two products and a softmax in float32; mistakes are 1e-2 and more
FUSED = ("F.scaled_dot_product_attention", "scaled_dot_product_attention")


def _qkv(H, G, n, m, d_k, d_v, *lead):
    def make(draw: Draw):
        return {
            "Q": draw.normal(*lead, H, n, d_k, scale=1.3),
            "K": draw.normal(*lead, G, m, d_k),
            "V": draw.normal(*lead, G, m, d_v),
        }

    return make


def _lower_right(n, m):
    return torch.ones(n, m, dtype=torch.bool).tril(m - n)


def _upper_left(n, m):
    return torch.ones(n, m, dtype=torch.bool).tril()


def _upper_left_of_a_chunk(n, m):
    """As `is_causal=n > 1` makes it."""
    return torch.ones(n, m, dtype=torch.bool).tril(0 if n > 1 else m)


def _one_key_more(n, m):
    return torch.ones(n, m, dtype=torch.bool).tril(m - n + 1)


ONE_LATER_VISIBLE = Misconception(
    "one_later_visible",
    "let each query attend to the key after its own as well",
    "Query $i$ may see the keys $j \\le i + (m - n)$, which is `tril(m - n)`.",
    Instead(seen=_one_key_more),
)


def _everything(n, m):
    return torch.ones(n, m, dtype=torch.bool)


def _everything_behind_a_past(n, m):
    return _lower_right(n, m) if n == m else _everything(n, m)


def _for_each_head(keep, r):
    return keep.repeat(r, 1)


def _rows_repeated(keep, r):
    return keep.repeat_interleave(r, 0)


def _stairs(shift):
    """One staircase down the folded rows of r heads, moved to the right by shift(n, m, r n)."""

    def stacked(keep, r):
        n, m = keep.shape
        return torch.ones(r * n, m, dtype=torch.bool).tril(shift(n, m, r * n))

    return stacked


IN = "in"  # swapped on the way in only


def _fold(Q, G, swap):
    """The heads of a group below each other; with `swap`, h is s G + g and not g r + s."""
    heads = Q.unflatten(-3, (-1, G)).transpose(-4, -3) if swap else Q.unflatten(-3, (G, -1))
    return heads.flatten(-3, -2)


def _unfold(O, n, swap):
    heads = O.unflatten(-2, (-1, n))
    return (heads.transpose(-4, -3) if swap and swap != IN else heads).flatten(-4, -3)


def _as_wide_as_the_queries(O, Q):
    return O.reshape(Q.shape)


def _grouped(*, seen=_lower_right, stacked=_for_each_head, swap=False, output=lambda O, G: O):
    """Folded grouped attention. `seen` is the mask of one head, `stacked` makes of it that of the r n folded rows."""

    def answer(Q, K, V):
        (H, n, d), (G, m) = Q.shape[-3:], K.shape[-3:-1]
        S = _fold(Q, G, swap) @ K.mT / math.sqrt(d)
        A = torch.softmax(S.masked_fill(~stacked(seen(n, m), H // G), -math.inf), dim=-1)
        return output(_unfold(A @ V, n, swap), G), A.unflatten(-2, (H // G, n))

    return answer


def _turned(O, G):
    return O.unflatten(-3, (G, -1)).transpose(-4, -3).flatten(-4, -3)


def _read_back_by_queries(O, G):
    """The folded rows are taken for (query, head)."""
    folded = O.unflatten(-3, (G, -1)).flatten(-3, -2)
    return folded.unflatten(-2, (O.shape[-2], -1)).transpose(-3, -2).flatten(-4, -3)


def _still_folded(Q, K, V):
    O, A = ref.gqa_grouped(Q, K, V)
    return O, A.flatten(-3, -2)


def _masked_late(Q, K, V):
    """The mask acts on the weights."""
    G, n, m = K.shape[-3], Q.shape[-2], K.shape[-2]
    S = Q.unflatten(-3, (G, -1)).flatten(-3, -2) @ K.mT / math.sqrt(Q.shape[-1])
    A = torch.softmax(S, dim=-1).unflatten(-2, (-1, n)) * _lower_right(n, m)
    return (A.flatten(-3, -2) @ V).reshape(*Q.shape[:-1], V.shape[-1]), A


def _einsum(Q, K, V):
    G, n, m = K.shape[-3], Q.shape[-2], K.shape[-2]
    S = torch.einsum("...grid,...gjd->...grij", Q.unflatten(-3, (G, -1)), K) * Q.shape[-1] ** -0.5
    A = torch.softmax(S.masked_fill(~_lower_right(n, m), -torch.inf), dim=-1)
    return torch.einsum("...grij,...gjd->...grid", A, V).flatten(-4, -3), A


def _broadcast(Q, K, V):
    G, n, m = K.shape[-3], Q.shape[-2], K.shape[-2]
    S = Q.unflatten(-3, (G, -1)) @ K.unsqueeze(-3).mT / math.sqrt(Q.shape[-1])
    A = torch.softmax(S + torch.where(_lower_right(n, m), 0.0, -torch.inf).to(S.dtype), dim=-1)
    return (A @ V.unsqueeze(-3)).flatten(-4, -3), A


def _repeated(Q, K, V):
    G, r = K.shape[-3], Q.shape[-3] // K.shape[-3]
    K, V = (X.repeat_interleave(r, -3) for X in (K, V))
    S = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(~_lower_right(Q.shape[-2], K.shape[-2]), -torch.inf)
    A = torch.softmax(S, dim=-1)
    return A @ V, A.unflatten(-3, (G, r))


def _query_major(Q, K, V):
    """The other fold: for each query, its heads below each other."""
    G, n, m = K.shape[-3], Q.shape[-2], K.shape[-2]
    folded = Q.unflatten(-3, (G, -1)).transpose(-3, -2)  # (..., G, n, r, d)
    r = folded.shape[-2]
    S = folded.flatten(-3, -2) @ K.mT / math.sqrt(Q.shape[-1])
    A = torch.softmax(S.masked_fill(~_lower_right(n, m).repeat_interleave(r, 0), -torch.inf), dim=-1)
    O = (A @ V).unflatten(-2, (n, r)).transpose(-3, -2).flatten(-4, -3)
    return O, A.unflatten(-2, (n, r)).transpose(-3, -2)


GQA_GROUPED = Exercise(
    "gqa_grouped",
    title="Attend without a copy",
    points=3,
    difficulty=3,
    minutes=17,
    reference=ref.gqa_grouped,
    recipe=Made(_grouped),
    tensors=True,
    tolerance=FLOAT32,
    properties=(Property("sums_to_one", axis=-1, output=1), Property("non_negative", output=1)),
    forbid=FUSED,
    cases=(
        Case("four heads in two groups, two tokens", _qkv(4, 2, 2, 2, 1, 1)),
        Case("a chunk behind a past, in a batch", _qkv(6, 3, 2, 7, 5, 3, 2), grad=("Q", "K", "V")),
        Case("a decode step, without room for a copy", _qkv(6, 2, 1, 5, 3, 2, 2), room=1.0, edge=0.3),
        Case("two leading axes", _qkv(4, 2, 3, 5, 2, 2, 2, 3)),
    ),
    hints=(
        "The $r$ heads of a group meet the same keys. For a matrix of keys, is there any difference between $r$ heads with one query each and "
        "one head with $r$ queries?",
        "Reshape `Q` from (…, H, n, d) to (…, G, r n, d), so that the head axis splits into (G, r) and r joins the queries. Multiply by "
        "`K.mT` once, then unfold the scores to (…, G, r, n, m), where one mask of shape (n, m) serves all heads.",
        "Write down five shapes: folded queries (…, G, r n, d), scores (…, G, r n, m), unfolded scores (…, G, r, n, m), folded weights, and "
        "outputs (…, G, r n, d_v). Reshapes alone lead from each to the next, without a transpose.",
    ),
    misconceptions=(
        Misconception(
            "heads_modulo_groups",
            "split the head axis as (r, G), so head $h$ went to group h mod G",
            "Split it as (G, r) with the groups first. Then $h = g r + s$, and neighbouring heads share a group.",
            Instead(swap=True),
            also=(Instead(swap=IN),),
        ),
        Misconception(
            "output_heads_reordered",
            "returned the heads of the output in another order than the heads of `Q`",
            "Undo the split as you made it, from (G, r) back to H, with no transpose in between.",
            Instead(output=_turned),
        ),
        Misconception(
            "width_of_the_queries",
            "gave the outputs the width of the queries",
            "Outputs are averages of values, so their last axis is as wide as that of `V`.",
            lambda Q, K, V: (lambda O, A: (_as_wide_as_the_queries(O, Q), A))(*_grouped()(Q, K, V)),
            raises=True,
        ),
        Misconception(
            "heads_masked_as_tokens",
            "put a causal mask over all $r n$ folded rows, as if they were $r n$ successive tokens",
            "The heads of a group belong to the **same** tokens, so the mask has $n$ rows and serves each head. Unfold the scores first.",
            Instead(stacked=_stairs(lambda n, m, rows: m - rows)),
        ),
        Misconception(
            "mask_of_the_first_head",
            "let one staircase run down all folded rows, so the heads of one token see different keys",
            "The staircase starts again for every head of the group. Unfold the scores, and let a mask of $n$ rows serve each head.",
            Instead(stacked=_stairs(lambda n, m, rows: m - n)),
            also=(Instead(stacked=_stairs(lambda n, m, rows: 0)),),
        ),
        Misconception(
            "future_visible",
            "let queries attend to later keys",
            "Query $i$ may see the keys $j \\le i + (m - n)$. Mask the scores before the softmax.",
            Instead(seen=_everything),
        ),
        ONE_LATER_VISIBLE,
        Misconception(
            "outputs_read_by_queries",
            "read the rows of the folded outputs as (query, head), although they are (head, query) like those of the queries",
            "Unfold them as you folded. The $r n$ rows hold all queries of one head, then all queries of the next.",
            Instead(output=_read_back_by_queries),
        ),
        Misconception(
            "mask_interleaved",
            "repeated each row of the mask $r$ times in place, although the folded rows hold all queries of one head first",
            "The rows are ordered (head, query), so repeat the whole mask, or unfold the scores and let the mask broadcast.",
            Instead(stacked=_rows_repeated),
        ),
        Misconception(
            "mask_upper_left",
            "aligned the mask at the upper left, so new tokens see only the beginning of the cache",
            "The queries are the **last** n of m tokens, which gives `tril(m - n)`.",
            Instead(seen=_upper_left),
            also=(Instead(seen=_upper_left_of_a_chunk),),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "Divide the scores by $\\sqrt{d_k}$. Sharing keys changes nothing about it.",
            Before(lambda Q, **_: {"Q": Q * Q.shape[-1] ** 0.5}),
        ),
        Misconception(
            "copied_for_each_head",
            "copied keys and values for each head of a group, which a repeat does and a product that broadcasts in a batch also does",
            "Let the heads join the queries of their group. Then (…, G, r n, d) meets (…, G, m, d) as it is.",
            _broadcast,
            also=(_repeated,),
            raises=True,
        ),
        Misconception(
            "weights_per_head",
            "returned the weights with a single head axis",
            "Your values are right. Return the weights as (…, G, r, n, m), with one axis for the group and one for the head in the group.",
            After(lambda out, **_: (out[0], out[1].flatten(-4, -3))),
        ),
        Misconception(
            "weights_still_folded",
            "returned the weights still folded, with $r n$ rows to a group",
            "Your values are right. Unfold the weights to (…, G, r, n, m).",
            _still_folded,
        ),
        Misconception(
            "masked_after_the_softmax",
            "masked the weights after the softmax, so what is left of each row sums to less than 1",
            "Fill the forbidden **scores** with $-\\infty$ before the softmax.",
            _masked_late,
        ),
    ),
    variants=(
        Variant("einsum", _einsum),
        Variant("folded_query_by_query", _query_major),
    ),
)


# ---------------------------------------------------------------------------------------------- by the fused kernel


def _by_sdpa(
    *,
    seen=_lower_right,
    stacked=_for_each_head,
    given=lambda keep, Q: keep,
    swap=False,
    scale=lambda d: d**-0.5,
    output=lambda O, G: O,
):
    """The fold handed to PyTorch's builtin, with what is `given` of the mask."""

    def answer(Q, K, V):
        (H, n, d), (G, m) = Q.shape[-3:], K.shape[-3:-1]
        mask = given(stacked(seen(n, m), H // G), Q)
        O = torch.nn.functional.scaled_dot_product_attention(_fold(Q, G, swap), K, V, attn_mask=mask, scale=scale(d))
        return output(_unfold(O, n, swap), G)

    return answer


def _one_head_at_a_time(Q, K, V):
    r, (n, m) = Q.shape[-3] // K.shape[-3], (Q.shape[-2], K.shape[-2])
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return torch.stack(
        [
            sdpa(Q[..., h, :, :], K[..., h // r, :, :], V[..., h // r, :, :], attn_mask=_lower_right(n, m))
            for h in range(Q.shape[-3])
        ],
        dim=-3,
    )


def _stairs_but_for_single_steps(keep, r):
    return _stairs(lambda n, m, rows: m if n == 1 else 0)(keep, r)


def _aligned_at_the_end(keep, r):
    """Successive tokens, the last folded row at the end; some key for every row, so that nothing is undefined."""
    stairs = _stairs(lambda n, m, rows: m - rows)(keep, r)
    stairs[:, 0] = True
    return stairs


GROUPED_CHUNK = Exercise(
    "grouped_chunk",
    title="Find the bug: the fold in a fused kernel",
    points=2,
    reference=ref.grouped_chunk,
    recipe=Made(_by_sdpa),
    tensors=True,
    tolerance=FLOAT32,
    kind="bug",
    difficulty=3,
    minutes=10,
    cases=(
        Case("a prompt, two heads to a group", _qkv(4, 2, 3, 3, 5, 2)),
        Case("a decode step", _qkv(6, 2, 1, 5, 3, 2, 2)),
        Case("a chunk behind a past, in a batch", _qkv(6, 3, 3, 7, 5, 3, 2), grad=("Q", "K", "V")),
        Case("one head to a group", _qkv(3, 3, 2, 5, 4, 3)),
        Case("a longer batch, without room for its scores", _qkv(8, 2, 12, 17, 2, 2, 3), room=4.0, edge=0.2),
    ),
    hints=(
        "Take H = 2, G = 1 and n = m = 2. Which token and which head does each of the four rows of `folded` belong to, and which keys may it "
        "see under `is_causal=True`? Do the same for a decode step with n = 1 and m = 5.",
        "`is_causal=True` is wrong here in two ways. It takes the rows for successive tokens, and it aligns them with the **first** keys. "
        "Build a boolean mask for the folded rows and pass it as `attn_mask`.",
        "One head needs the mask (n, m) that is aligned at the lower right. The folded rows hold all queries of the first head, then all "
        "queries of the next. Is it the rows of the mask or the whole mask that you must repeat?",
    ),
    misconceptions=(
        Misconception(
            "not_repaired",
            "left `is_causal=True` in, so the heads of one token see different keys and a decode step sees only the first few",
            "Pass a mask of your own with r n rows, in which every head has the same pattern, aligned at the lower right.",
            Instead(stacked=_stairs(lambda n, m, rows: 0)),
        ),
        Misconception(
            "single_steps_repaired",
            "repaired single steps only, so a chunk is still masked as if all its rows were successive tokens, from the first key on",
            "Pass a mask of your own with r n rows, in which every head has the same pattern. It also serves a single step.",
            Instead(stacked=_stairs_but_for_single_steps),
        ),
        Misconception(
            "heads_still_tokens",
            "aligned the mask with the end, but still took the folded rows for successive tokens",
            "Row $s\\,n + i$ is query $i$ of head $s$. It sees what query $i$ sees, whatever $s$ is.",
            Instead(stacked=_aligned_at_the_end),
            also=(Instead(stacked=_stairs(lambda n, m, rows: m - rows)),),
        ),
        Misconception(
            "mask_of_the_first_head",
            "let the staircase of the first head run on through the other heads, which therefore see later keys",
            "The staircase starts again for every head of the group, so repeat the mask of one head.",
            Instead(stacked=_stairs(lambda n, m, rows: m - n)),
        ),
        Misconception(
            "scores_materialised",
            "computed all scores yourself, which the fused kernel never writes to memory",
            "Keep `F.scaled_dot_product_attention` with the folded queries, and pass it the right mask as `attn_mask`.",
            lambda Q, K, V: ref.gqa_grouped(Q, K, V)[0],
            raises=True,
        ),
        Misconception(
            "still_upper_left",
            "aligned the mask of each head with the first keys, so new tokens see only the beginning of the cache",
            "The queries are the **last** n of m tokens, which gives `tril(m - n)`.",
            Instead(seen=_upper_left),
            also=(Instead(seen=_upper_left_of_a_chunk),),
        ),
        Misconception(
            "mask_interleaved",
            "repeated each row of the mask in place, although the folded rows hold all queries of one head first",
            "Repeat the whole mask and not its rows.",
            Instead(stacked=_rows_repeated),
        ),
        Misconception(
            "no_mask",
            "left out the mask, which is right for a decode step and wrong for every chunk",
            "Query $i$ may see the keys $j \\le i + (m - n)$.",
            Instead(seen=_everything),
        ),
        ONE_LATER_VISIBLE,
        Misconception(
            "outputs_read_by_queries",
            "read the rows of the folded outputs as (query, head), although they are (head, query) like those of the queries",
            "Unfold them as the queries were folded. The $r n$ rows hold all queries of one head, then all queries of the next.",
            Instead(output=_read_back_by_queries),
        ),
        Misconception(
            "no_mask_behind_a_past",
            "masked a prompt, but let a chunk after a past attend to every key, also to its own later tokens",
            "Only a single query sees all keys. Query $i$ of a chunk sees the keys $j \\le i + (m - n)$.",
            Instead(seen=_everything_behind_a_past),
        ),
        Misconception(
            "mask_added",
            "turned the mask into numbers, so 1 and 0 are **added** to the scores and hide nothing",
            "A boolean mask hides the entries that are False. A mask of numbers needs minus infinity there.",
            Instead(given=lambda keep, Q: keep.to(Q.dtype)),
        ),
        Misconception(
            "heads_modulo_groups",
            "split the head axis as (r, G), so head $h$ went to group h mod G",
            "The colleague's fold was right: (G, r), with the groups first, so that neighbouring heads share a group.",
            Instead(swap=True),
        ),
        Misconception(
            "output_heads_reordered",
            "returned the heads of the output in another order than the heads of `Q`",
            "Reshape (…, G, r n, d) back to (…, H, n, d), with no transpose in between.",
            Instead(output=_turned),
        ),
        Misconception(
            "scaled_twice",
            "divided by $\\sqrt{d_k}$ a second time, or by $d$",
            "`F.scaled_dot_product_attention` already divides by $\\sqrt{d_k}$.",
            Instead(scale=lambda d: 1 / d),
        ),
        Misconception(
            "unscaled",
            "switched off the scale with `scale=1.0`",
            "Leave `scale` out. The kernel then divides by $\\sqrt{d_k}$.",
            Instead(scale=lambda d: 1.0),
        ),
    ),
    variants=(
        Variant("mask_by_expand", _by_sdpa(stacked=lambda keep, r: keep.expand(r, *keep.shape).flatten(0, 1))),
        Variant("one_head_at_a_time", _one_head_at_a_time),
    ),
)
