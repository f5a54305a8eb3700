"""Latent attention with keys and values made from the latents, and with the matrices absorbed."""

import math

import torch
from attention_course.memory import tells_copies
from torch.nn.functional import scaled_dot_product_attention

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from course.exercises.latent import probes
from solutions import latent as ref


def _whole(n: int, heads: int, d_model: int, d: int, d_c: int, d_v: int, *, lead: tuple[int, ...] = ()):
    def make(draw: Draw):
        return {"X": draw.normal(*lead, n, d_model), **probes.content(draw, heads, d_model, d, d_c, d_v)}

    return make


def _heads(X, C, W_Q, W_UK, W_UV):
    shared = C.unsqueeze(-3)
    return X.unsqueeze(-3) @ W_Q, shared @ W_UK, shared @ W_UV


def _naive(*, width=None, weigh=ref.causal_weights, merge=None, cache=None, late=False):
    """An answer with its own scale `1/sqrt(width(d, d_c))`, weights, merging of the heads or cached thing; `late` scales weights."""

    def answer(X, W_Q, W_DKV, W_UK, W_UV, W_O):
        C = X @ W_DKV
        q, k, v = _heads(X, C, W_Q, W_UK, W_UV)
        scale = 1 / math.sqrt(q.shape[-1] if width is None else width(q.shape[-1], C.shape[-1]))
        O = (weigh(q @ k.mT) * scale if late else weigh(q @ k.mT * scale)) @ v
        Y = (O @ W_O).sum(-3) if merge is None else merge(O, W_O)
        return Y, C if cache is None else cache(C, k)

    return answer


def _merged_without_transpose(O, W_O):
    return O.reshape(*O.shape[:-3], O.shape[-2], -1) @ W_O.flatten(0, 1)


def _uncausal(S):
    return torch.softmax(S, dim=-1)


def _without_head_axis(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    A = ref.causal_weights(X @ W_Q @ (C @ W_UK).mT / math.sqrt(W_Q.shape[-1]))
    return (A @ (C @ W_UV) @ W_O).sum(0), C


def _builtin(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    O = scaled_dot_product_attention(*_heads(X, C, W_Q, W_UK, W_UV), is_causal=True)
    return O.transpose(-3, -2).flatten(-2) @ W_O.flatten(0, 1), C


def _loop(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    Y = torch.zeros_like(X)
    for h in range(len(W_Q)):
        A = ref.causal_weights((X @ W_Q[h]) @ (C @ W_UK[h]).mT / W_Q.shape[-1] ** 0.5)
        Y = Y + A @ (C @ W_UV[h]) @ W_O[h]
    return Y, C


MLA_NAIVE = Exercise(
    "mla_naive",
    title="Latent attention, with keys and values made",
    points=2,
    reference=ref.mla_naive,
    recipe=Made(_naive),
    tensors=True,
    difficulty=2,
    minutes=12,
    cases=(
        Case("three tokens, two heads", _whole(3, 2, 4, 3, 2, 5)),
        Case("more tokens and heads", _whole(7, 3, 5, 4, 6, 2), grad=("X", "W_DKV", "W_UK")),
        Case("a batch; more tokens than heads", _whole(5, 2, 6, 3, 4, 7, lead=(3,))),
    ),
    hints=(
        "Make `C` first: everything about keys and values comes from it, not from `X`. Then each head is attention as you know it.",
        "`X.unsqueeze(-3)` has a head axis of length 1, and `per_head` gives all heads' queries of it at once, (..., head, n, d). The "
        "same with `C.unsqueeze(-3)` for keys and values. Scale, `causal_weights`, mix, project, add the heads.",
        "Five lines: `C`; `q` of the tokens; `k` and `v` of the latents, each by `per_head`; the weights, of scores divided by the "
        "root of the width of a **query**; and `per_head` once more, with `W_O`, before the heads are added.",
    ),
    misconceptions=(
        Misconception(
            "cached_keys",
            "returned the heads' keys as the thing to cache",
            "Keys and values can be made from the latents again at any time: return `C`, which has no head axis.",
            Instead(cache=lambda C, k: k),
        ),
        Misconception(
            "scaled_by_latent",
            "scaled by $1/\\sqrt{d_c}$, the width of the latent",
            "The dot product of a query and a key runs over $d$ features: the variance is that of a sum over $d$.",
            Instead(width=lambda d, d_c: d_c),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d}$",
            "Divide the scores by $\\sqrt{d}$, with $d$ the width of a query, before the softmax.",
            Instead(width=lambda d, d_c: 1.0),
        ),
        Misconception(
            "scaled_after_softmax",
            "scaled the weights after the softmax, or the output: the scores went into it as they were",
            "Divide the **scores** by $\\sqrt{d}$. The weights stay as the softmax leaves them.",
            Instead(late=True),
        ),
        Misconception(
            "not_causal",
            "let tokens look at later ones",
            "Use `causal_weights` from the set-up cell: it is the softmax with the causal mask.",
            Instead(weigh=_uncausal),
        ),
        Misconception(
            "merged_without_transpose",
            "put the heads side by side by a reshape alone: that mixes up tokens and heads",
            "Either transpose first, (..., n, head, d_v), and then flatten; or multiply each head by its own `W_O` and add.",
            Instead(merge=_merged_without_transpose),
        ),
        Misconception(
            "heads_averaged",
            "averaged the heads' contributions",
            "The output is their **sum**: `.sum(-3)`.",
            Instead(merge=lambda O, W_O: (O @ W_O).mean(-3)),
        ),
        Misconception(
            "no_head_axis",
            "multiplied `X` by a stack of matrices with no head axis of its own: the batch then meets the heads",
            "`X.unsqueeze(-3)` is (..., 1, n, d_model): now every token meets every head. The same for `C`; add the heads by `.sum(-3)`.",
            _without_head_axis,
            raises=True,
        ),
    ),
    variants=(Variant("builtin_and_concatenation", _builtin), Variant("loop_over_heads", _loop)),
)


# ---------------------------------------------------------------------------------------------- absorbed


def _newest(new: int, key: int, heads: int, d_model: int, d: int, d_c: int, d_v: int, *, lead: tuple[int, ...] = ()):
    def make(draw: Draw):
        weights = probes.content(draw, heads, d_model, d, d_c, d_v)
        del weights["W_DKV"]
        return {"X": draw.normal(*lead, new, d_model), "C": draw.normal(*lead, key, d_c), **weights}

    return make


def _absorbed(
    *, width=None, scores=None, weigh=ref.causal_weights, mix=None, up=None, values=None, merge=None,
    ask=probes.folded, average=probes.folded, late=False,
):  # fmt: skip
    """An answer with its own width under the root, change of the scores, weights, second result, matrices, merging of heads,
    or way to multiply all heads' rows with the latents; `late` scales weights and not scores."""

    @tells_copies
    def answer(X, C, W_Q, W_UK, W_UV, W_O):
        q = ref.per_head(X.unsqueeze(-3), W_Q)
        asks = ref.per_head(q, W_UK.mT if up is None else up(W_UK))
        scale = 1 / math.sqrt(q.shape[-1] if width is None else width(q.shape[-1], C.shape[-1]))
        S = ask(asks, C.mT) * (1.0 if late else scale)
        A = weigh(S if scores is None else scores(S)) * (scale if late else 1.0)
        U = average(A, C)
        O = ref.per_head(U, W_UV if values is None else values(W_UV))
        Y = ref.per_head(O, W_O).sum(-3) if merge is None else merge(O, W_O)
        return Y, U if mix is None else mix(A, C.unsqueeze(-3), W_UV)

    return answer


@tells_copies
def _absorbed_without_head_axis(X, C, W_Q, W_UK, W_UV, W_O):
    A = ref.causal_weights(X @ W_Q @ W_UK.mT @ C.mT / math.sqrt(W_Q.shape[-1]))
    return (A @ C @ W_UV @ W_O).sum(0), A @ C


@tells_copies
def _through_keys(X, C, W_Q, W_UK, W_UV, W_O):
    q, k, v = (ref.per_head(x.unsqueeze(-3), W) for x, W in ((X, W_Q), (C, W_UK), (C, W_UV)))
    A = ref.causal_weights(q @ k.mT / math.sqrt(q.shape[-1]))
    return torch.einsum("...hqk,...hkv,hve->...qe", A, v, W_O), probes.folded(A, C)


@tells_copies
def _absorbed_loop(X, C, W_Q, W_UK, W_UV, W_O):
    mixtures = []
    for h in range(len(W_Q)):
        matrix = W_Q[h] @ W_UK[h].mT / W_Q.shape[-1] ** 0.5  # multiplied beforehand
        mixtures.append(ref.causal_weights(X @ matrix @ C.mT) @ C)
    U = torch.stack(mixtures, dim=-3)
    return ref.absorb_output(U, W_UV, W_O), U


@tells_copies
def _latents_left(X, C, W_Q, W_UK, W_UV, W_O):
    asks = ref.absorb_query(X.unsqueeze(-3) @ W_Q, W_UK) / W_Q.shape[-1] ** 0.5
    A = ref.causal_weights((C @ asks.flatten(-3, -2).mT).mT.unflatten(-2, asks.shape[-3:-1]))
    U = probes.folded(A, C)
    return (U @ W_UV @ W_O).sum(-3), U


@tells_copies
def _absorbed_einsum(X, C, W_Q, W_UK, W_UV, W_O):
    asks = torch.einsum("...qm,hmd,hcd->...hqc", X, W_Q, W_UK) / W_Q.shape[-1] ** 0.5
    A = ref.causal_weights(torch.einsum("...hqc,...kc->...hqk", asks, C))
    U = torch.einsum("...hqk,...kc->...hqc", A, C)
    return torch.einsum("...hqc,hcv,hve->...qe", U, W_UV, W_O), U


MLA_ABSORBED = Exercise(
    "mla_absorbed",
    title="Latent attention without keys and values",
    points=4,
    reference=ref.mla_absorbed,
    recipe=Made(_absorbed),
    tensors=True,
    difficulty=3,
    minutes=19,
    cases=(
        Case("one new token, twelve latents", _newest(1, 12, 2, 4, 3, 2, 5)),
        Case("a few new tokens", _newest(3, 13, 2, 5, 4, 6, 5), grad=("X", "C", "W_UK", "W_UV")),
        Case("keys as wide as latents", _newest(2, 11, 3, 7, 4, 4, 4)),
        Case("a batch", _newest(2, 23, 3, 4, 7, 8, 6, lead=(2,))),
    ),
    hints=(
        "Write the score of one query with one latent, $q\\,(c W_{UK})^\\top$, and put brackets round what does not depend on $c$. Its "
        "shape tells you on which side the matrix stands. Then the same for $\\sum_j a_j\\,(c_j W_{UV})$.",
        "Five shapes: queries (…, H, new, d), asks (…, H, new, d_c), scores and weights (…, H, new, key), averages (…, H, new, d_c). "
        "All heads ask the same latents: `times_shared(asks, C.mT)` folds, multiplies and unfolds. **Two** products read the cache: the "
        "average is `times_shared` once more, of the weights with `C`.",
        "Six lines: `q` as in `mla_naive`; `asks` by `per_head`, with a transposed matrix; the scores, divided by the root of the width "
        "of the **original** query; the weights; the averages; and of these two calls of `per_head` and a sum make the output.",
    ),
    misconceptions=(
        Misconception(
            "decorator_lost",
            "left out the line `@tells_copies` above your function",
            "It adds the last of the values that are asked for, whether anything was copied: put it back above `def`.",
            ref.mla_absorbed.__wrapped__,
        ),
        Misconception(
            "scaled_by_latent",
            "scaled by $1/\\sqrt{d_c}$, because the sum now runs over $d_c$ terms",
            "Absorbing only moves brackets: the score has the same value, so it needs the same scale, $1/\\sqrt{d}$. "
            "(PyTorch's builtin divides by the root of what it sees, $d_c$: pass it `scale`.)",
            Instead(width=lambda d, d_c: d_c),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d}$",
            "Divide the scores by $\\sqrt{d}$, with $d$ the width of the **original** query.",
            Instead(width=lambda d, d_c: 1.0),
        ),
        Misconception(
            "scaled_after_softmax",
            "scaled the weights after the softmax, or their averages: the scores went into it as they were",
            "Divide the **scores** by $\\sqrt{d}$. The weights stay as the softmax leaves them.",
            Instead(late=True),
        ),
        Misconception(
            "one_pattern_for_all_heads",
            "gave all heads the same weights, as if sharing the latents meant sharing the scores",
            "The latents are shared, the absorbed queries are not: each head has its own row of scores, softmax and mixture.",
            Instead(scores=lambda S: S.mean(-3, keepdim=True).expand_as(S)),
        ),
        Misconception(
            "not_causal",
            "let the first of the new tokens look at the later ones",
            "`causal_weights` takes the queries as the last of the tokens: use it on the (new, key) scores.",
            Instead(weigh=_uncausal),
        ),
        Misconception(
            "mask_from_the_start",
            "aligned the causal mask to the first token, so the newest one sees little more than the start",
            "The queries are the **last** of the tokens: `causal_weights` knows. The builtin's `is_causal=True` does not.",
            Instead(weigh=probes.top_left_weights),
        ),
        Misconception(
            "no_head_axis",
            "let a batch meet the heads: rows without a head axis times a stack of matrices, or heads that were not folded before `C`",
            "`X.unsqueeze(-3)` is (..., 1, new, d_model): now every token meets every head. `C` gets no such axis: `times_shared(asks, C.mT)`.",
            _absorbed_without_head_axis,
            raises=True,
        ),
        Misconception(
            "key_matrix_on_the_wrong_side",
            "multiplied the query by $W_{UK}$ without transposing it. That leads from latent to key; an absorbed query goes the other way",
            "Widths tell where they differ: from $d$ to $d_c$. That is $q\\,W_{UK}^\\top$. Where $d = d_c$, no error warns you.",
            Instead(up=lambda W: W),
        ),
        Misconception(
            "key_matrix_reshaped",
            "reshaped $W_{UK}$ to (d, d_c) where it has to be transposed: the same shape, other numbers",
            "`W_UK.mT` swaps rows and columns. A reshape only cuts the same sequence of numbers elsewhere.",
            Instead(up=lambda W: W.reshape(W.shape[0], W.shape[2], W.shape[1])),
        ),
        Misconception(
            "one_matrix_for_all_heads",
            "used head 0's $W_{UK}$ for every head",
            "Each head makes its own keys from the shared latents: head `h` needs `W_UK[h]`, which `per_head` sees to.",
            Instead(up=lambda W: W[:1].mT.expand(len(W), -1, -1)),
        ),
        Misconception(
            "value_matrix_on_the_wrong_side",
            "transposed $W_{UV}$, as for the queries",
            "Here nothing changes sides: an average of latents is mapped as a latent is, $U\\,W_{UV}$. Only $d_c = d_v$ hides it.",
            Instead(values=lambda W: W.mT),
        ),
        Misconception(
            "heads_averaged",
            "averaged the heads' contributions",
            "The output is their **sum**: `.sum(-3)`.",
            Instead(merge=lambda O, W_O: (O @ W_O).mean(-3)),
        ),
        Misconception(
            "merged_without_transpose",
            "put the heads side by side by a reshape alone: that mixes up heads and queries",
            "Multiply each head by its own `W_O` and add; or transpose to (…, query, head, d_v) before flattening.",
            Instead(merge=_merged_without_transpose),
        ),
        Misconception(
            "heads_masked_as_tokens",
            "put a causal mask over all $H \\cdot n$ folded rows, as if they were successive tokens",
            "The heads of one token stand at the **same** position. Unfold the scores to (…, H, new, key) first.",
            Instead(weigh=probes.heads_as_tokens),
        ),
        Misconception(
            "unfolded_in_another_order",
            "folded heads and tokens in one order and unfolded them in the other, so that queries got each other's scores",
            "Undo the flattening as you made it: (head, new), in this order, without a transpose.",
            Instead(scores=probes.unfolded_as_new_by_head),
            also=(Instead(scores=probes.folded_as_new_by_head),),
        ),
        Misconception(
            "keys_and_values_made",
            "made the keys or values of all tokens once more, for every head: that is what absorbing avoids",
            "It changes no value, only memory and time. No product of `C` with `W_UK` or `W_UV`: $W_{UK}^\\top$ goes to the query, $W_{UV}$ to the average.",
            _through_keys,
        ),
        Misconception(
            "latents_copied_for_each_head",
            "copied the latents for each head of each sequence, for the scores, the average or both",
            "That changes no value, only memory and time. `C.unsqueeze(-3)` makes no copy, but `torch.matmul` does when it stretches that axis for a batch. Make the heads rows of "
            "one matrix, in **both** products with `C`.",
            Instead(ask=probes.broadcast, average=probes.broadcast),
        ),
        Misconception(
            "values_made",
            "returned averages of **values** and not of latents: $W_{UV}$ has acted on them already",
            "Average the latents, $U = A\\,C$, and bring in $W_{UV}$ once per query.",
            Instead(mix=lambda A, shared, W_UV: A @ (shared @ W_UV)),
        ),
    ),
    variants=(
        Variant("matrices_multiplied_beforehand", _absorbed_loop),
        Variant("latents_on_the_left", _latents_left),
        Variant("einsum", _absorbed_einsum),
    ),
)
