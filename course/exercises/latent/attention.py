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
    title="Find two bugs: latent attention",
    kind="bug",
    points=2,
    reference=ref.mla_naive,
    recipe=Made(_naive),
    tensors=True,
    difficulty=2,
    minutes=8,
    cases=(
        Case("three tokens, two heads", _whole(3, 2, 4, 3, 2, 5)),
        Case("more tokens and heads", _whole(7, 3, 5, 4, 6, 2), grad=("X", "W_DKV", "W_UK")),
        Case("a batch; more tokens than heads", _whole(5, 2, 6, 3, 4, 7, lead=(3,))),
    ),
    hints=(
        "Look at the two symptoms one at a time. What is special about the latent with which the output is right? And by which factor is the cache too "
        "large?",
        "Ask what each factor under the root counts. Dividing by a standard deviation only helps if it is that of the scores. For the cache, print "
        "`C[0]` and `C[1]` and compare them.",
        "A score is a dot product of a query and a key, so count *their* features. All heads have the same latents, so make `C` without a head axis, and give "
        "it one of length 1 only where `per_head` needs it.",
    ),
    misconceptions=(
        Misconception(
            "latents_for_each_head",
            "returned a copy of the latents for every head, so the cache is as many times too large as there are heads",
            "All heads read the same latents. Compute and return `C = X @ W_DKV`, which has no head axis.",
            Instead(cache=lambda C, k: C.unsqueeze(-3).expand(*k.shape[:-1], -1).clone()),
        ),
        Misconception(
            "cached_keys",
            "returned the heads' keys as what to cache",
            "Keys and values can be rebuilt from the latents at any time, so return `C`, which has no head axis.",
            Instead(cache=lambda C, k: k),
        ),
        Misconception(
            "scaled_by_latent",
            "scaled by $1/\\sqrt{d_c}$, the width of the latent",
            "A query and a key have $d$ features. Their dot product is a sum of $d$ products, so its standard deviation grows like $\\sqrt{d}$.",
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
            "scaled the weights or the output, so the scores entered the softmax unscaled",
            "Divide the **scores** by $\\sqrt{d}$, and leave the weights as the softmax returns them.",
            Instead(late=True),
        ),
        Misconception(
            "not_causal",
            "let tokens attend to later ones",
            "Use `causal_weights` from the set-up cell, which is the softmax with a causal mask.",
            Instead(weigh=_uncausal),
        ),
        Misconception(
            "merged_without_transpose",
            "concatenated the heads by a reshape alone, which mixes up tokens and heads",
            "Transpose to (..., n, head, d_v) before you flatten, or multiply each head by its own `W_O` and add.",
            Instead(merge=_merged_without_transpose),
        ),
        Misconception(
            "heads_averaged",
            "averaged the heads' contributions",
            "The output is their **sum**, `.sum(-3)`.",
            Instead(merge=lambda O, W_O: (O @ W_O).mean(-3)),
        ),
        Misconception(
            "no_head_axis",
            "multiplied rows without a head axis by a stack of matrices, so the batch axis met the heads",
            "`X.unsqueeze(-3)` has the shape (..., 1, n, d_model), so that every token meets every head. `C` needs the same.",
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
    minutes=13,
    search=0.25,  # its reference is slow
    cases=(
        Case("one new token, twelve latents", _newest(1, 12, 2, 4, 3, 2, 5)),
        Case("a few new tokens", _newest(3, 13, 2, 5, 4, 6, 5), grad=("X", "C", "W_UK", "W_UV")),
        Case("keys as wide as latents", _newest(2, 11, 3, 7, 4, 4, 4)),
        Case("a batch", _newest(2, 23, 3, 4, 7, 8, 6, lead=(2,))),
    ),
    hints=(
        "Write the score of one query with one latent, $q\\,(c W_{UK})^\\top$, and put brackets around what does not depend on $c$. Do the "
        "same for $\\sum_j a_j\\,(c_j W_{UV})$.",
        "The shapes are (…, H, new, d) for queries, (…, H, new, d_c) for absorbed queries and averages, and (…, H, new, key) for scores and "
        "weights. Only **two** products read the cache, one with `C.mT` and one with `C`, and `times_shared` makes both without a copy.",
        "Start with `q` as in `mla_naive`, and absorb with `per_head(q, W_UK.mT)`. Divide the scores by the root of the **original** query's "
        "width. From the averages two calls of `per_head` lead to the output. What is still missing after them?",
    ),
    misconceptions=(
        Misconception(
            "decorator_lost",
            "left out the line `@tells_copies` above your function",
            "It adds the last of the three values, so put it back above `def`.",
            ref.mla_absorbed.__wrapped__,
        ),
        Misconception(
            "scaled_by_latent",
            "scaled by $1/\\sqrt{d_c}$, because the sum now runs over $d_c$ terms",
            "Absorbing only moves brackets, so the score has the same value and needs the same scale, $1/\\sqrt{d}$. "
            "PyTorch's builtin divides by the root of what it sees, $d_c$, unless you pass `scale`.",
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
            "scaled the weights or their averages, so the scores entered the softmax unscaled",
            "Divide the **scores** by $\\sqrt{d}$, and leave the weights as the softmax returns them.",
            Instead(late=True),
        ),
        Misconception(
            "one_pattern_for_all_heads",
            "gave all heads the same weights, as if sharing the latents meant sharing the scores",
            "The latents are shared, but each head has its own absorbed query, and so its own scores, softmax and average.",
            Instead(scores=lambda S: S.mean(-3, keepdim=True).expand_as(S)),
        ),
        Misconception(
            "not_causal",
            "let the first of the new tokens attend to the later ones",
            "`causal_weights` takes the queries for the last of the tokens. Use it on scores of shape (…, new, key).",
            Instead(weigh=_uncausal),
        ),
        Misconception(
            "mask_from_the_start",
            "aligned the causal mask to the first token, so the newest one sees little more than the start",
            "The queries are the **last** of the tokens. `causal_weights` assumes this, and the builtin's `is_causal=True` does not.",
            Instead(weigh=probes.top_left_weights),
        ),
        Misconception(
            "no_head_axis",
            "let the batch axis meet the heads, because rows had no head axis or heads were not folded before the product with `C`",
            "`X.unsqueeze(-3)` has the shape (..., 1, new, d_model), so that every token meets every head. `C` needs no such axis in `times_shared`.",
            _absorbed_without_head_axis,
            raises=True,
        ),
        Misconception(
            "key_matrix_on_the_wrong_side",
            "multiplied the query by $W_{UK}$ without transposing it, which leads from latents to keys instead of the other way",
            "An absorbed query goes from width $d$ to $d_c$, so it is $q\\,W_{UK}^\\top$. Where $d = d_c$ no error warns you.",
            Instead(up=lambda W: W),
        ),
        Misconception(
            "key_matrix_reshaped",
            "reshaped $W_{UK}$ to (d, d_c), where it has to be transposed",
            "`W_UK.mT` swaps rows and columns. A reshape only cuts the same sequence of numbers elsewhere.",
            Instead(up=lambda W: W.reshape(W.shape[0], W.shape[2], W.shape[1])),
        ),
        Misconception(
            "one_matrix_for_all_heads",
            "used head 0's $W_{UK}$ for every head",
            "Each head makes its own keys from the shared latents. Head `h` needs `W_UK[h]`, which `per_head` uses.",
            Instead(up=lambda W: W[:1].mT.expand(len(W), -1, -1)),
        ),
        Misconception(
            "value_matrix_on_the_wrong_side",
            "transposed $W_{UV}$, as for the queries",
            "An average of latents is mapped as a latent is, $U\\,W_{UV}$. Only $d_c = d_v$ hides the mistake.",
            Instead(values=lambda W: W.mT),
        ),
        Misconception(
            "heads_averaged",
            "averaged the heads' contributions",
            "The output is their **sum**, `.sum(-3)`.",
            Instead(merge=lambda O, W_O: (O @ W_O).mean(-3)),
        ),
        Misconception(
            "merged_without_transpose",
            "concatenated the heads by a reshape alone, which mixes up heads and queries",
            "Multiply each head by its own `W_O` and add, or transpose to (…, query, head, d_v) before you flatten.",
            Instead(merge=_merged_without_transpose),
        ),
        Misconception(
            "heads_masked_as_tokens",
            "put a causal mask over all $H \\cdot n$ folded rows, as if they were successive tokens",
            "All heads of one token have the **same** position. Unfold the scores to (…, H, new, key) first.",
            Instead(weigh=probes.heads_as_tokens),
        ),
        Misconception(
            "unfolded_in_another_order",
            "folded heads and tokens in one order and unfolded them in the other, so queries got each other's scores",
            "Unfold in the order in which you folded, (head, new), without a transpose.",
            Instead(scores=probes.unfolded_as_new_by_head),
            also=(Instead(scores=probes.folded_as_new_by_head),),
        ),
        Misconception(
            "keys_and_values_made",
            "rebuilt the keys or values of all tokens for every head, which is what absorbing avoids",
            "The result is right, but it takes memory and time. Multiply `W_UK.mT` with the query and `W_UV` with the average, and neither with `C`.",
            _through_keys,
        ),
        Misconception(
            "latents_copied_for_each_head",
            "copied the latents for each head of each sequence, for the scores, the average or both",
            "The result is right, but it takes memory and time. `C.unsqueeze(-3)` makes no copy, but `torch.matmul` does when it stretches that axis in "
            "a batch. Make the heads rows of one matrix in **both** products with `C`.",
            Instead(ask=probes.broadcast, average=probes.broadcast),
        ),
        Misconception(
            "values_made",
            "returned averages of **values**, to which $W_{UV}$ has been applied already",
            "Average the latents, $U = A\\,C$, and apply $W_{UV}$ once per query.",
            Instead(mix=lambda A, shared, W_UV: A @ (shared @ W_UV)),
        ),
    ),
    variants=(
        Variant("matrices_multiplied_beforehand", _absorbed_loop),
        Variant("latents_on_the_left", _latents_left),
        Variant("einsum", _absorbed_einsum),
    ),
)
