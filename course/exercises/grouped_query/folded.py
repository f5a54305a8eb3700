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
    "let each query see the key after its own as well",
    "Query $i$ sees the keys $j \\le i + (m - n)$: `tril(m - n)`.",
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
    title="Grouped, without a copy",
    points=3,
    difficulty=3,
    minutes=22,
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
        "A group's $r$ heads meet the same keys. To a matrix of keys, is there any difference between $r$ heads with one query each "
        "and one head with $r$ queries?",
        "Reshape `Q` from (…, H, n, d) to (…, G, r n, d): the head axis splits into (G, r), and r joins the queries. One product "
        "with `K.mT`. Then unfold the scores to (…, G, r, n, m), where a mask of shape (n, m) serves all. Fold again for `V`.",
        "Five shapes: folded queries (…, G, r n, d), scores (…, G, r n, m), unfolded (…, G, r, n, m), folded weights, outputs "
        "(…, G, r n, d_v). Reshapes alone lead from one to the next, without a transpose; the mask is `tril(m - n)`.",
    ),
    misconceptions=(
        Misconception(
            "heads_modulo_groups",
            "split the head axis as (r, G): head $h$ went to group h mod G",
            "Split it as (G, r), groups first: then $h = g r + s$, and neighbours share a group.",
            Instead(swap=True),
            also=(Instead(swap=IN),),
        ),
        Misconception(
            "output_heads_reordered",
            "returned the heads of the output in another order than those of `Q`",
            "Undo the split as you made it: (G, r) back to H, with no transpose between.",
            Instead(output=_turned),
        ),
        Misconception(
            "width_of_the_queries",
            "gave the outputs the width of the queries",
            "Outputs are made of values: their last axis is as wide as that of `V`, which need not be the width of `Q` and `K`.",
            lambda Q, K, V: (lambda O, A: (_as_wide_as_the_queries(O, Q), A))(*_grouped()(Q, K, V)),
            raises=True,
        ),
        Misconception(
            "heads_masked_as_tokens",
            "put a causal mask over all $r n$ folded rows, as if they were $r n$ successive tokens",
            "The heads of a group sit at the **same** token: the mask has $n$ rows and serves each head. Unfold first.",
            Instead(stacked=_stairs(lambda n, m, rows: m - rows)),
        ),
        Misconception(
            "mask_of_the_first_head",
            "let one staircase run down all folded rows, so that the heads of one token see different keys",
            "The staircase begins anew with each head of the group: unfold the scores, and let a mask of $n$ rows serve each head.",
            Instead(stacked=_stairs(lambda n, m, rows: m - n)),
            also=(Instead(stacked=_stairs(lambda n, m, rows: 0)),),
        ),
        Misconception(
            "future_visible",
            "let queries see later keys",
            "Query $i$ sees the keys $j \\le i + (m - n)$: mask the scores before the softmax.",
            Instead(seen=_everything),
        ),
        ONE_LATER_VISIBLE,
        Misconception(
            "outputs_read_by_queries",
            "took the rows of a group's folded outputs for (query, head), where they are (head, query) like those of the queries",
            "Unfold them as you folded: the $r n$ rows hold all queries of one head, then those of the next.",
            Instead(output=_read_back_by_queries),
        ),
        Misconception(
            "mask_interleaved",
            "repeated each row of the mask $r$ times in place, while the folded rows run through all queries of one head first",
            "Rows are ordered (head, query): the whole mask is repeated, not its rows. Or unfold the scores and let it broadcast.",
            Instead(stacked=_rows_repeated),
        ),
        Misconception(
            "mask_upper_left",
            "aligned the mask at the upper left: with a past in the cache, new tokens see only its beginning",
            "The queries are the **last** n of m tokens: `tril(m - n)`.",
            Instead(seen=_upper_left),
            also=(Instead(seen=_upper_left_of_a_chunk),),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "Divide the scores by $\\sqrt{d_k}$, whatever heads share.",
            Before(lambda Q, **_: {"Q": Q * Q.shape[-1] ** 0.5}),
        ),
        Misconception(
            "copied_for_each_head",
            "copied keys and values for each head of a group: a repeat does, and so does a product that broadcasts in a batch",
            "Let the heads join the queries of their group: (…, G, r n, d) meets (…, G, m, d) as it is.",
            _broadcast,
            also=(_repeated,),
            raises=True,
        ),
        Misconception(
            "weights_per_head",
            "got the values right, and returned the weights with one head axis",
            "Return them as (…, G, r, n, m): group, then head in the group.",
            After(lambda out, **_: (out[0], out[1].flatten(-4, -3))),
        ),
        Misconception(
            "weights_still_folded",
            "got the values right, and returned the weights folded, with $r n$ rows to a group",
            "Unfold them to (…, G, r, n, m): group, then head in the group, then query.",
            _still_folded,
        ),
        Misconception(
            "masked_after_the_softmax",
            "masked the weights after the softmax: the keys that a query may not see have taken their share, and what is left sums to less than 1",
            "Fill the forbidden **scores** with $-\\infty$, before the softmax.",
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
    minutes=12,
    cases=(
        Case("a prompt, two heads to a group", _qkv(4, 2, 3, 3, 5, 2)),
        Case("a decode step", _qkv(6, 2, 1, 5, 3, 2, 2)),
        Case("a chunk behind a past, in a batch", _qkv(6, 3, 3, 7, 5, 3, 2), grad=("Q", "K", "V")),
        Case("one head to a group", _qkv(3, 3, 2, 5, 4, 3)),
        Case("a longer batch, without room for its scores", _qkv(8, 2, 12, 17, 2, 2, 3), room=4.0, edge=0.2),
    ),
    hints=(
        "Print which keys each row of `folded` may see, for H = 2, G = 1, n = 2, m = 2, and name the token and head of each row. Do the "
        "same for a decode step, n = 1 and m = 5.",
        "Two things are wrong with `is_causal=True` here. It takes the rows for successive tokens, and it aligns them with the **first** "
        "keys. Build a boolean mask for the folded rows and pass it as `attn_mask`.",
        "The mask of one head is (n, m), lower-right: `tril(m - n)`. A group's rows run through all queries of its first head, then through "
        "those of the next. So which whole thing is repeated, and how often?",
    ),
    misconceptions=(
        Misconception(
            "not_repaired",
            "left `is_causal=True` in: row after row it lets the heads of one token see different keys, and a decode step only the first few",
            "Pass a mask of your own: (r n, m), each head's rows with the same lower-right pattern.",
            Instead(stacked=_stairs(lambda n, m, rows: 0)),
        ),
        Misconception(
            "single_steps_repaired",
            "repaired the single steps alone: with more queries than one, all rows still count as successive tokens, from the first key on",
            "Pass a mask of your own: (r n, m), each head's rows with the same lower-right pattern. It serves a single step, too.",
            Instead(stacked=_stairs_but_for_single_steps),
        ),
        Misconception(
            "heads_still_tokens",
            "aligned the mask to the end, but still took the folded rows for successive tokens",
            "Row $s\\,n + i$ is query $i$ of head $s$: it sees what query $i$ sees, whatever $s$ is.",
            Instead(stacked=_aligned_at_the_end),
            also=(Instead(stacked=_stairs(lambda n, m, rows: m - rows)),),
        ),
        Misconception(
            "mask_of_the_first_head",
            "aligned the mask to the end of the first head, and let one staircase run on through the others, which so see later keys",
            "The staircase begins anew with each head of the group: repeat the mask of one head.",
            Instead(stacked=_stairs(lambda n, m, rows: m - n)),
        ),
        Misconception(
            "scores_materialised",
            "made all scores yourself, which the fused kernel never writes to memory",
            "Keep `F.scaled_dot_product_attention` with the folded queries, and give it the right mask as `attn_mask`.",
            lambda Q, K, V: ref.gqa_grouped(Q, K, V)[0],
            raises=True,
        ),
        Misconception(
            "still_upper_left",
            "aligned the mask of each head to the first keys: with a past, new tokens see only its beginning",
            "The queries are the **last** n of m tokens: `tril(m - n)`.",
            Instead(seen=_upper_left),
            also=(Instead(seen=_upper_left_of_a_chunk),),
        ),
        Misconception(
            "mask_interleaved",
            "repeated each row of the mask in place, while the folded rows run through all queries of one head first",
            "Repeat the whole mask, not its rows.",
            Instead(stacked=_rows_repeated),
        ),
        Misconception(
            "no_mask",
            "left the mask out: right for a decode step, and wrong for every chunk",
            "Query $i$ sees the keys $j \\le i + (m - n)$.",
            Instead(seen=_everything),
        ),
        ONE_LATER_VISIBLE,
        Misconception(
            "outputs_read_by_queries",
            "took the rows of a group's folded outputs for (query, head), where they are (head, query) like those of the queries",
            "Unfold them as the queries were folded: the $r n$ rows hold all queries of one head, then those of the next.",
            Instead(output=_read_back_by_queries),
        ),
        Misconception(
            "no_mask_behind_a_past",
            "masked a prompt, but let a chunk behind a past see every key, those of its own later tokens too",
            "Only a single query sees all keys. Query $i$ of a chunk sees the keys $j \\le i + (m - n)$.",
            Instead(seen=_everything_behind_a_past),
        ),
        Misconception(
            "mask_added",
            "made numbers of the mask: 1 and 0 are **added** to the scores, and hide nothing",
            "A boolean mask hides where it is False. One of numbers needs minus infinity there.",
            Instead(given=lambda keep, Q: keep.to(Q.dtype)),
        ),
        Misconception(
            "heads_modulo_groups",
            "split the head axis as (r, G): head $h$ went to group h mod G",
            "The fold was right: (G, r), groups first, so that neighbours share a group.",
            Instead(swap=True),
        ),
        Misconception(
            "output_heads_reordered",
            "returned the heads of the output in another order than those of `Q`",
            "Reshape (…, G, r n, d) back to (…, H, n, d), with no transpose between.",
            Instead(output=_turned),
        ),
        Misconception(
            "scaled_twice",
            "scaled the queries or the scores before the kernel did it again, or had it divide by $d$",
            "`F.scaled_dot_product_attention` divides by $\\sqrt{d_k}$ itself.",
            Instead(scale=lambda d: 1 / d),
        ),
        Misconception(
            "unscaled",
            "switched the scale off: `scale=1.0`",
            "Leave `scale` out: the kernel divides by $\\sqrt{d_k}$ itself.",
            Instead(scale=lambda d: 1.0),
        ),
    ),
    variants=(
        Variant("mask_by_expand", _by_sdpa(stacked=lambda keep, r: keep.expand(r, *keep.shape).flatten(0, 1))),
        Variant("one_head_at_a_time", _one_head_at_a_time),
    ),
)
