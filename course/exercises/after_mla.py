"""Lesson 13: what an index reads, how it learns, and rows that are keys and values at once."""

import math
from functools import partial

import numpy as np
import torch
from attention_course.language_model.sparse import rotate

from autograder import After, Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Tolerance, Variant
from solutions import after_mla as ref

PREDICT_READ = Prediction(
    "predict_read",
    title="Predict: what does a step read?",
    points=0.5,
    difficulty=2,
    minutes=1,
    choices={
        "a": "about a sixtieth, because 2,048 is a sixty-fourth of 131,072",
        "b": "about a fifth",
        "c": "about a half",
    },
    holds="b",
    reveal="**b.** To know which 2,048 latents are best, the step has to read the index of all tokens, which takes 132 bytes for every "
    "656 of the cache. That alone is a fifth, and the chosen latents add less than two per cent.",
)


def _weights(draw: Draw, *shape: int):
    S = draw.normal(*shape) * 2
    n, m = shape[-2:]
    S = np.where(np.arange(m) <= np.arange(n)[:, None] + (m - n), S, -np.inf)
    e = np.exp(S - S.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _attended(H: int, n: int, m: int, *, hidden: bool = True):
    def make(draw: Draw):
        scores = draw.normal(n, m)
        if hidden:
            scores = np.where(np.arange(m) <= np.arange(n)[:, None] + (m - n), scores, -np.inf)
            return {"scores": scores, "A": _weights(draw, H, n, m)}
        e = np.exp(draw.normal(H, n, m))
        return {"scores": scores, "A": e / e.sum(-1, keepdims=True)}

    return make


def _safe(scores):
    return scores.log_softmax(-1).masked_fill(scores == -math.inf, 0.0)


def _divergence(
    *,
    target=lambda A: A.mean(0),
    guess=_safe,
    apart=lambda p, log_q: torch.special.xlogy(p, p) - p * log_q,
    total=lambda each: each.sum(-1),
):
    """The loss with one part replaced by a mistake."""

    def answer(scores, A):
        return total(apart(target(A), guess(scores)))

    return answer


def _reversed(scores, A):
    p, q = A.mean(0), scores.softmax(-1)
    seen = p > 0
    return torch.where(seen, q * (q.clamp(min=1e-30).log() - p.clamp(min=1e-30).log()), 0.0).sum(-1)


def _each_head(scores, A):
    each = torch.special.xlogy(A, A) - A * _safe(scores)
    return each.sum(-1).mean(0)


def _with_where(scores, A):
    p = A.sum(0) / len(A)
    log_q = torch.where(scores == -math.inf, 0.0, scores - scores.logsumexp(-1, keepdim=True))
    return torch.where(p > 0, p * (p.clamp(min=1e-38).log() - log_q), 0.0).sum(-1)


def _with_nansum(scores, A):
    p = A.mean(0)
    return (p * (p.log() - scores.log_softmax(-1))).nansum(-1)


def _with_nan_to_num(scores, A):
    p = A.mean(0)
    return (p * (p.log() - scores.log_softmax(-1))).nan_to_num(nan=0.0).sum(-1)


def _diverged(draw: Draw):
    """A causal text in which one score that a query may see is not a number."""
    inputs = _attended(2, 5, 7)(draw)
    inputs["scores"][3, 2] = np.nan
    return inputs


def _far_off(draw: Draw):
    """A causal text in which the index gives one key that matters next to nothing."""
    inputs = _attended(2, 4, 6)(draw)
    inputs["scores"][3, 2] = inputs["scores"][3].max() - draw.integer(50, 70)
    return inputs


def _log_of_softmax(scores, A):
    p = A.mean(0)
    each = torch.special.xlogy(p, p) - p * scores.softmax(-1).log()
    return each.masked_fill(scores == -math.inf, 0.0).sum(-1)


def _log_of_softmax_and_target(scores, A):
    p = A.mean(0)
    return (p * (p.log() - scores.softmax(-1).log())).masked_fill(p == 0, 0.0).sum(-1)


def _with_eps(scores, A, eps=1e-9):
    p = A.mean(0)
    return (p * ((p + eps).log() - (scores.softmax(-1) + eps).log())).sum(-1)


def _with_clamp(scores, A, eps=1e-9):
    p = A.mean(0)
    return (p * (p.clamp(min=eps).log() - scores.softmax(-1).clamp(min=eps).log())).sum(-1)


def _masked_afterwards(scores, A):
    p = A.mean(0)
    return (p * (p.log() - scores.log_softmax(-1))).masked_fill(scores == -math.inf, 0.0).sum(-1)


def _with_kl_div(scores, A):
    return torch.nn.functional.kl_div(_safe(scores), A.mean(0), reduction="none").sum(-1)


INDEX_LOSS = Exercise(
    "index_loss",
    title="Find the bug: not a number",
    kind="bug",
    points=1.5,
    difficulty=3,
    minutes=6,
    tensors=True,
    search=0.3,
    reference=ref.index_loss,
    recipe=Made(_divergence),
    tolerance=Tolerance(rtol=1e-4, atol=1e-5),  # logarithms in float32
    cases=(
        Case("no key is hidden", _attended(2, 3, 5, hidden=False)),
        Case("a causal text", _attended(3, 7, 7)),
        Case("fewer queries than keys", _attended(2, 5, 11)),
        Case("its gradient", _attended(3, 5, 7), grad=("scores",), edge=0.2),
        Case("a score that is not a number", _diverged, edge=0.2),
        Case("a key that the index has missed", _far_off, edge=0.2),
    ),
    hints=(
        "Which keys have the weight zero, and what is the logarithm of their share? Compute 0 times minus infinity in Python.",
        "Two terms go wrong at a hidden key, p ln p and p ln p̂. Each of them should count as zero. `nansum` would also hide a NaN that comes "
        "from the scores themselves, and the logarithm of a softmax that is 0 has an infinite slope, which turns the gradient into NaN even "
        "if a mask repairs the value. So the infinity has to go before it is multiplied.",
        "`torch.special.xlogy(p, p)` is p ln p, and 0 where p is 0. For the other term, replace the logarithms of hidden keys by 0 with "
        "`masked_fill` before you multiply.",
    ),
    misconceptions=(
        Misconception(
            "as_shown",
            "let zero meet minus infinity, as the draft does",
            "0 · (−∞) is NaN. Replace the logarithms at hidden keys by a finite number before you multiply.",
            Instead(guess=lambda scores: scores.log_softmax(-1), apart=lambda p, log_q: p * (p.log() - log_q)),
            also=(Instead(guess=lambda scores: scores.log_softmax(-1)),),
        ),
        Misconception(
            "nan_swallowed",
            "left out every NaN, so a training run that has diverged would show a loss of zero",
            "`nansum` and `nan_to_num` hide any NaN, whatever its reason. Only at a hidden key is zero the right term, so handle hidden keys "
            "before you multiply and let other NaN through.",
            _with_nansum,
            also=(_with_nan_to_num,),
        ),
        Misconception(
            "log_of_softmax",
            "took the logarithm of a softmax that is 0 at hidden keys, so the gradient is NaN although the loss is right",
            "At 0 the logarithm has an infinite slope, and the mask multiplies it by 0. Use `log_softmax`, or put another number in the place "
            "of the zeros before you take the logarithm.",
            _log_of_softmax,
            also=(_log_of_softmax_and_target,),
        ),
        Misconception(
            "small_number_added",
            "kept the shares away from zero by a small number, so the loss hardly grows where the index is far off",
            "A key that matters may have a share of e to the −60, whose logarithm is −60. With 1e-9 in its place it is −21, and the gradient "
            "there is nearly zero. `log_softmax` needs no such number.",
            _with_eps,
            also=(_with_clamp, partial(_with_eps, eps=1e-8), partial(_with_eps, eps=1e-12)),
        ),
        Misconception(
            "turned_round",
            "measured the divergence the other way round",
            "The target comes first: Σ p ln(p / p̂), with the attention's weights in p.",
            _reversed,
        ),
        Misconception(
            "cross_entropy",
            "left out the part that doesn't depend on the index",
            "The divergence is Σ p ln p − Σ p ln p̂. Without the first part a perfect index would not reach zero.",
            Instead(apart=lambda p, log_q: -p * log_q),
        ),
        Misconception(
            "each_head_by_itself",
            "compared the index with each head and averaged afterwards",
            "One index serves all heads, so its target is the mean of their weights.",
            _each_head,
        ),
        Misconception(
            "sum_of_heads",
            "added the weights of the heads up",
            "A target has to sum to 1, so take the mean over the heads.",
            Instead(target=lambda A: A.sum(0)),
        ),
        Misconception(
            "mean_over_queries",
            "averaged over the queries",
            "Return one divergence for each query.",
            Instead(total=lambda each: each.sum(-1).mean()),
        ),
        Misconception(
            "mean_over_keys",
            "took the mean over the keys instead of the sum",
            "The divergence of a query is a sum over its keys.",
            Instead(total=lambda each: each.mean(-1)),
        ),
        Misconception(
            "sign",
            "returned the negative of the divergence",
            "A divergence is never negative.",
            After(lambda out, **_: -out),
        ),
    ),
    variants=(
        Variant("with_where", _with_where),
        Variant("with_kl_div", _with_kl_div),
        Variant("masked_afterwards", _masked_afterwards),
    ),
)


def _tied(H: int, n: int, m: int, d: int):
    """Queries at some of the positions of a text that begins somewhere."""

    def make(draw: Draw):
        at = np.arange(m) + draw.integer(2, 9)
        pos = np.append(np.sort(draw.rng.permutation(at[1:-1])[: n - 1]), at[-1])
        return {"Q": draw.normal(H, n, d), "C": draw.normal(m, d), "pos": pos, "at": at}

    return make


def _attending(
    *,
    query=lambda Q, pos: rotate(Q, pos),
    key=lambda C, at: C,
    value=lambda C, at: C,
    back=lambda O, pos: rotate(O, -pos),
    later=lambda pos, at: at > pos[:, None],
    scale=lambda d: math.sqrt(d),
):
    """Attention with tied rows, one part replaced by a mistake."""

    def answer(Q, C, pos, at):
        S = query(Q, pos) @ key(C, at).mT / scale(Q.shape[-1])
        A = torch.softmax(S.masked_fill(later(pos, at), -math.inf), dim=-1)
        return back(A @ value(C, at), pos)

    return answer


def _rows_by_complex_numbers(Q, C, pos, at):
    d = Q.shape[-1]
    theta = 10_000.0 ** (-torch.arange(0, d, 2, dtype=Q.dtype) / d)
    turn = torch.polar(torch.ones(len(pos), d // 2, dtype=Q.dtype), pos[:, None] * theta)
    asks = torch.view_as_real(torch.view_as_complex(Q.unflatten(-1, (-1, 2)).contiguous()) * turn).flatten(-2)
    S = (asks @ C.T * d**-0.5).masked_fill(at > pos[:, None], -math.inf)
    O = torch.view_as_complex((S.softmax(-1) @ C).unflatten(-1, (-1, 2)).contiguous()) * turn.conj()
    return torch.view_as_real(O).flatten(-2)


TIED_ATTENTION = Exercise(
    "tied_attention",
    title="Design: values that know distances",
    kind="design",
    points=1.5,
    difficulty=3,
    minutes=7,
    tensors=True,
    search=0.15,
    reference=ref.tied_attention,
    recipe=Made(_attending),
    tolerance=Tolerance(rtol=1e-4, atol=1e-5),  # angles in float32
    cases=(
        Case("one query", _tied(1, 1, 3, 2)),
        Case("some queries of a text", _tied(2, 5, 7, 6)),
        Case("more heads", _tied(3, 2, 11, 10)),
    ),
    hints=(
        "Write Rⱼ for the rotation to position j. The output of query i is Σ aᵢⱼ Rⱼ cⱼ. Which part of it changes if all tokens move by 500?",
        "The weights depend on j − i only. You would like the values to enter as R with the index j − i. By what can you multiply the "
        "sum to get there?",
        "R₋ᵢ Rⱼ is Rⱼ₋ᵢ, and R₋ᵢ can be applied to the sum as a whole. `rotate` takes negative positions.",
    ),
    misconceptions=(
        Misconception(
            "not_turned_back",
            "left the output as it is, so it changes with the place of the text",
            "The output is a mean of rotated rows. Rotate it back by the position of its own query.",
            Instead(back=lambda O, pos: O),
        ),
        Misconception(
            "turned_further",
            "rotated the output to its position instead of back",
            "You need R₋ᵢ Rⱼ = Rⱼ₋ᵢ, so rotate by −pos.",
            Instead(back=lambda O, pos: rotate(O, pos)),
        ),
        Misconception(
            "values_unrotated_in_the_cache",
            "undid the rotation of every cached row before the sum",
            "This gives values without any position and costs a rotation for each row. Rotate the output instead, once.",
            Instead(value=lambda C, at: rotate(C, -at), back=lambda O, pos: O),
        ),
        Misconception(
            "rotated_twice",
            "rotated the cached rows again",
            "The rows come out of the cache already rotated. Only the queries are not rotated yet.",
            Instead(key=lambda C, at: rotate(C, at), value=lambda C, at: rotate(C, at)),
        ),
        Misconception(
            "query_not_rotated",
            "didn't rotate the queries",
            "The scores depend on the distance only if both sides are rotated.",
            Instead(query=lambda Q, pos: Q),
        ),
        Misconception(
            "turned_back_by_the_row",
            "rotated the output back by the row of its query instead of its position",
            "The query in row i has the position `pos[i]`.",
            Instead(back=lambda O, pos: rotate(O, -torch.arange(len(pos)))),
        ),
        Misconception(
            "nothing_hidden",
            "let queries attend to later rows",
            "A query attends to the rows up to its own.",
            Instead(later=lambda pos, at: torch.zeros(len(pos), len(at), dtype=torch.bool)),
        ),
        Misconception(
            "no_scale",
            "didn't divide by the root of d",
            "Scores are divided by √d, as always.",
            Instead(scale=lambda d: 1.0),
        ),
    ),
    variants=(Variant("complex_numbers", _rows_by_complex_numbers),),
)

PREDICT_KEPT = Prediction(
    "predict_kept",
    title="Predict: what does a window miss?",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "about nine tenths, because most of language is local",
        "b": "about two thirds",
        "c": "less than a third, because this layer reads from far away",
    },
    holds="c",
    reveal="**c** in this layer, with 0.31. Such numbers differ between layers. In layer 25 the same window keeps more than nine tenths.",
)

EXERCISES = (PREDICT_READ, INDEX_LOSS, PREDICT_KEPT, TIED_ATTENTION)
