"""The part of its own that rotary positions get: decoupled RoPE, with a cache."""

import math

import torch
from attention_course.memory import tells_copies

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from course.exercises.latent import probes
from solutions import latent as ref
from solutions.lib.rope import rotate_half_rope


def _step(new: int, past: int, heads: int, d_model: int, d_cq: int, d: int, d_rope: int, d_c: int, d_v: int, *, lead=()):
    def make(draw: Draw):
        content = probes.content(draw, heads, d_model, d, d_c, d_v)
        return {
            "X": draw.normal(*lead, new, d_model),
            "cache": (draw.normal(*lead, past, d_c), draw.normal(*lead, past, d_rope, scale=1.5)),
            "W_DQ": probes.weight(draw, d_model, d_cq),
            "W_UQ": probes.weight(draw, heads, d_cq, d, size=1.5),
            "W_QR": probes.weight(draw, heads, d_cq, d_rope, size=2.0),
            "W_DKV": content["W_DKV"],
            "W_KR": probes.weight(draw, d_model, d_rope, size=1.5),
            **{name: content[name] for name in ("W_UK", "W_UV", "W_O")},
        }

    return make


_turn, _weigh = ref.apply_rope, ref.causal_weights


def _as_it_is(x, pos=None):
    return x


def _from_zero(x, pos):
    """Rotated to 0, 1, 2, …, whatever is in the cache."""
    return ref.apply_rope(x, pos - pos[:1])


def _normed(x, pos=None):
    """An RMS norm without gains, as DeepSeek's code has it on both latents."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def _below(old, new):
    return torch.cat([old, new], dim=-2)


def _above(old, new):
    return torch.cat([new, old], dim=-2)


def _decoupled(
    *, width=None, apart=False, first=None, turn_query=_turn, turn_key=_turn, turn_cache=None, turn_latent=None, scores=_as_it_is, weigh=_weigh,
    keep=None, turn_latent_query=None, ask=probes.folded, average=probes.folded, join=_below, late=False,
):  # fmt: skip
    """An answer with its own width under the root, first position, rotations, change of the scores, weights, cache
    `keep(C, K_R, W_UK)`, order of its rows, or way to multiply all heads' rows with it; `late` scales weights and not scores."""

    @tells_copies
    def answer(X, cache, W_DQ, W_UQ, W_QR, W_DKV, W_KR, W_UK, W_UV, W_O):
        past, new = cache[0].shape[-2], X.shape[-2]
        pos = torch.arange(new) + (past if first is None else first)
        fresh = X @ W_DKV if turn_latent is None else turn_latent(X @ W_DKV, pos)
        C, K_R = join(cache[0], fresh), join(cache[1], turn_key(X @ W_KR, pos))
        if turn_cache is not None:
            K_R = turn_cache(K_R, torch.arange(past + new))
        c_q = (X @ W_DQ if turn_latent_query is None else turn_latent_query(X @ W_DQ, pos)).unsqueeze(-3)
        q, r = ref.per_head(c_q, W_UQ), turn_query(ref.per_head(c_q, W_QR), pos)
        content, position = ask(ref.per_head(q, W_UK.mT), C.mT), ask(r, K_R.mT)
        d, d_rope, d_c = q.shape[-1], r.shape[-1], C.shape[-1]
        both = math.sqrt(d + d_rope if width is None else width(d, d_rope, d_c))
        S = content / math.sqrt(d) + position / math.sqrt(d_rope) if apart else (content + position) / (1.0 if late else both)
        A = weigh(scores(S)) / (both if late else 1.0)
        Y = ref.absorb_output(average(A, C), W_UV, W_O)
        return Y, (C, K_R) if keep is None else keep(C, K_R, W_UK)

    return answer


def _per_head(C, K_R, W_UK):
    return C, K_R.unsqueeze(-3).expand(*K_R.shape[:-2], len(W_UK), -1, -1)


@tells_copies
def _concatenated(X, cache, W_DQ, W_UQ, W_QR, W_DKV, W_KR, W_UK, W_UV, W_O):
    """Keys and values made, content and position side by side in one dot product."""
    past = cache[0].shape[-2]
    pos = torch.arange(past, past + X.shape[-2])
    C = torch.cat([cache[0], X @ W_DKV], dim=-2)
    K_R = torch.cat([cache[1], ref.apply_rope(X @ W_KR, pos)], dim=-2)
    c_q, (k, v) = (X @ W_DQ).unsqueeze(-3), (ref.per_head(C.unsqueeze(-3), W) for W in (W_UK, W_UV))
    q = torch.cat([ref.per_head(c_q, W_UQ), ref.apply_rope(ref.per_head(c_q, W_QR), pos)], dim=-1)
    k = torch.cat([k, K_R.unsqueeze(-3).expand(*k.shape[:-1], -1)], dim=-1)
    A = ref.causal_weights(q @ k.mT / math.sqrt(q.shape[-1]))
    return ref.per_head(A @ v, W_O).sum(-3), (C, K_R)


@tells_copies
def _token_by_token(X, cache, **weights):
    rows = []
    for i in range(X.shape[-2]):
        row, cache, _ = ref.mla_decoupled(X[..., i : i + 1, :], cache, **weights)
        rows.append(row)
    return torch.cat(rows, dim=-2), cache


@tells_copies
def _side_by_side(X, cache, W_DQ, W_UQ, W_QR, W_DKV, W_KR, W_UK, W_UV, W_O):
    """One product of `d_c + d_rope` numbers with the rows of one joint cache, and loops over the heads."""
    past = cache[0].shape[-2]
    pos = torch.arange(past, past + X.shape[-2])
    new_rows = torch.cat([X @ W_DKV, ref.apply_rope(X @ W_KR, pos)], dim=-1)
    rows = torch.cat([torch.cat(cache, dim=-1), new_rows], dim=-2)
    d_c, Y = W_DKV.shape[-1], torch.zeros_like(X)
    for h in range(len(W_UQ)):
        q = torch.cat([X @ W_DQ @ W_UQ[h] @ W_UK[h].mT, ref.apply_rope(X @ W_DQ @ W_QR[h], pos)], dim=-1)
        A = ref.causal_weights(q @ rows.mT / math.sqrt(W_UQ.shape[-1] + W_QR.shape[-1]))
        Y = Y + A @ rows[..., :d_c] @ W_UV[h] @ W_O[h]
    return Y, (rows[..., :d_c], rows[..., d_c:])


MLA_DECOUPLED = Exercise(
    "mla_decoupled",
    title="Find the bugs: latent attention with positions",
    kind="bug",
    points=3,
    reference=ref.mla_decoupled,
    recipe=Made(_decoupled),
    tensors=True,
    difficulty=3,
    minutes=16,
    search=0.12,  # its reference is slow
    cases=(
        Case("one new token after eleven", _step(1, 11, 2, 3, 5, 4, 2, 4, 5)),
        Case("a chunk of new tokens", _step(3, 14, 2, 5, 3, 5, 2, 6, 7), grad=("X", "W_UQ", "W_QR", "W_KR", "W_UK")),
        Case("a batch", _step(2, 31, 3, 4, 6, 5, 4, 7, 6, lead=(2,))),
        Case("an empty cache", _step(5, 0, 2, 5, 4, 3, 4, 11, 7), edge=0.2),
    ),
    hints=(
        "Take the three tests one by one, since each fails for a reason of its own. What is different in a later piece of a text? What does "
        "the builtin divide by? What has to be stretched when heads and a batch meet?",
        "The first new token stands behind the `past` tokens that are in the cache. Absorbing changes no score, so the scale is that of the "
        "queries and keys which would have been made. A head axis of length 1 is stretched by `@` as soon as there is a batch.",
        "`cache[0].shape[-2]` is the number of past tokens. The root is over $d + d_{rope}$, and `W_UQ.shape[-1]` is $d$. Each of the "
        "three products that read the cache can go through `times_shared`, which takes the matrix of the sequence without a head axis.",
    ),
    misconceptions=(
        Misconception(
            "as_shown",
            "left the draft as it is",
            "It has three bugs, and each of the three tests shows one of them.",
            Instead(first=0, width=lambda d, d_rope, d_c: d_c + d_rope, ask=probes.broadcast, average=probes.broadcast),
        ),
        Misconception(
            "decorator_lost",
            "left out the line `@tells_copies` above your function",
            "The decorator adds the last of the results, which says whether anything was copied. Put it back above `def`.",
            ref.mla_decoupled.__wrapped__,
        ),
        Misconception(
            "scale_without_rope",
            "scaled by $1/\\sqrt{d}$, the width of the content part alone",
            "The two parts are one dot product over $d + d_{rope}$ features, so scale by the root of that width.",
            Instead(width=lambda d, d_rope, d_c: d),
        ),
        Misconception(
            "scaled_by_latent",
            "scaled by $1/\\sqrt{d_c + d_{rope}}$, the width of what is cached",
            "Absorbing changes no score, so it changes no scale. The root is over $d + d_{rope}$, where $d$ is the width of a head's query.",
            Instead(width=lambda d, d_rope, d_c: d_c + d_rope),
        ),
        Misconception(
            "two_scales",
            "scaled the two parts separately, content by $1/\\sqrt{d}$ and position by $1/\\sqrt{d_{rope}}$",
            "Side by side they are one dot product over $d + d_{rope}$ features, so add them first and divide the sum by one root.",
            Instead(apart=True),
        ),
        Misconception(
            "scaled_after_softmax",
            "scaled the weights after the softmax, or their averages, so the softmax saw unscaled scores",
            "Divide the **scores** by $\\sqrt{d + d_{rope}}$, and leave the weights as the softmax returns them.",
            Instead(late=True),
        ),
        Misconception(
            "rotated_key_per_head",
            "cached a rotated key for every head",
            "All heads share **one** rotated key per token, so cache it once. Only the queries are per head.",
            Instead(keep=_per_head),
        ),
        Misconception(
            "cached_keys",
            "cached the heads' keys instead of the latents",
            "Return the latents `C`, since they are what makes the cache small.",
            Instead(keep=lambda C, K_R, W_UK: (C.unsqueeze(-3) @ W_UK, K_R)),
        ),
        Misconception(
            "latent_rotated",
            "rotated the new latents, although values are made from them too, so absorbed scores no longer depend on offsets",
            "Append `X @ W_DKV` as it is. Positions enter through `W_QR` and `W_KR` alone.",
            Instead(turn_latent=ref.apply_rope),
        ),
        Misconception(
            "query_latent_rotated",
            "rotated the queries' latent $c^Q$, from which the content part is made too",
            "Rotate only what `W_QR` makes. If the content query were rotated, nothing could be absorbed.",
            Instead(turn_latent_query=ref.apply_rope, turn_query=_as_it_is),
        ),
        Misconception(
            "positions_from_zero",
            "numbered the new tokens from 0, whatever is in the cache",
            "The first new token stands at position `past`, which is the number of rows in the cache.",
            Instead(first=0),
        ),
        Misconception(
            "keys_from_zero",
            "rotated the new keys to the positions 0, 1, 2, …, while the queries continue behind the cache",
            "A token has the same position as a key and as a query. Pass the same `pos` to both, from `past` on.",
            Instead(turn_key=_from_zero),
        ),
        Misconception(
            "queries_from_zero",
            "rotated the new queries to the positions 0, 1, 2, …, while the keys continue behind the cache",
            "A token has the same position as a key and as a query. Pass the same `pos` to both, from `past` on.",
            Instead(turn_query=_from_zero),
        ),
        Misconception(
            "rows_above",
            "put the rows of the new tokens above those of the past",
            "Append them **below**, as `torch.cat([old, new], dim=-2)` does, because the causal mask takes the last rows for the newest.",
            Instead(join=_above),
        ),
        Misconception(
            "joined_along_the_batch",
            "joined new rows to old ones along the first axis, which counts the sequences of a batch",
            "Rows are the last axis but one, so `dim=-2` is right with and without a batch.",
            Instead(join=lambda old, new: torch.cat([old, new])),
            raises=True,
        ),
        Misconception(
            "normalised",
            "put a norm on a latent, as DeepSeek's code does, although this exercise leaves the norms out",
            "Cache `X @ W_DKV` as it is, and make the queries from `X @ W_DQ` as it is.",
            Instead(turn_latent=_normed),
            also=(Instead(turn_latent_query=_normed), Instead(turn_latent=_normed, turn_latent_query=_normed)),
        ),
        Misconception(
            "key_not_rotated",
            "cached the new keys without rotating them",
            "Rotate `X @ W_KR` to its positions before you append it. Old keys are rotated already.",
            Instead(turn_key=_as_it_is),
        ),
        Misconception(
            "query_not_rotated",
            "rotated the keys only, so $r_i$ entered the score without its rotation",
            "Rotate the queries that `W_QR` makes to the new tokens' positions. Only two rotations together leave an offset.",
            Instead(turn_query=_as_it_is),
        ),
        Misconception(
            "cache_rotated_again",
            "rotated the whole cache in this step, so the old keys have now been rotated twice",
            "Cached keys are rotated already. Rotate only the new ones, and then append them.",
            Instead(turn_key=_as_it_is, turn_cache=ref.apply_rope),
        ),
        Misconception(
            "half_split",
            "rotated entries $i$ and $i + d_{rope}/2$ together, which is the half-split layout",
            "In the cached keys neighbouring entries form a pair. Use `apply_rope`, which rotates such pairs.",
            Instead(turn_key=rotate_half_rope, turn_query=rotate_half_rope),
            also=(Instead(turn_key=rotate_half_rope), Instead(turn_query=rotate_half_rope)),
        ),
        Misconception(
            "heads_masked_as_tokens",
            "put a causal mask over all folded rows, as if the heads were successive tokens",
            "The heads of one token stand at the **same** position, so unfold the scores to (…, H, new, key) before `causal_weights`.",
            Instead(weigh=probes.heads_as_tokens),
        ),
        Misconception(
            "unfolded_in_another_order",
            "folded heads and tokens in one order and unfolded them in the other, so that queries got each other's scores",
            "Unfold in the order in which you folded, first heads and then new tokens, without a transpose.",
            Instead(scores=probes.unfolded_as_new_by_head),
            also=(Instead(scores=probes.folded_as_new_by_head),),
        ),
        Misconception(
            "keys_and_values_made",
            "made the keys or values of all tokens again, for every head",
            "Absorb, as the draft does. $W_{UK}^\\top$ multiplies the content query, and $W_{UV}$ the average of latents.",
            _concatenated,
        ),
        Misconception(
            "latents_copied_for_each_head",
            "copied the cache, or a part of it, for each head of each sequence",
            "It changes no value, but it takes memory and time. Three products read the cache, for the content scores, the position scores and the average. Fold the heads into rows in each, with `times_shared`.",
            Instead(ask=probes.broadcast, average=probes.broadcast),
        ),
        Misconception(
            "not_causal",
            "let the first of the new tokens attend to the later ones",
            "Use `causal_weights` on the (new, key) scores, because its queries are the last of the tokens.",
            Instead(weigh=lambda S: torch.softmax(S, dim=-1)),
        ),
        Misconception(
            "mask_from_the_start",
            "aligned the causal mask to the first token, so new tokens don't see most of the cache",
            "The queries are the **last** of the tokens, and `causal_weights` takes care of that.",
            Instead(weigh=probes.top_left_weights),
        ),
    ),
    variants=(Variant("side_by_side_in_a_loop", _side_by_side), Variant("token_by_token", _token_by_token)),
)
