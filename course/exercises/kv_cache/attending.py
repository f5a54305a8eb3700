"""Attention of the newest tokens over everything in the cache: where does the causal mask begin?"""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import kv_cache as ref


def _new_and_all(*lead, new, n):
    def make(draw: Draw):
        d_k, d_v = draw.sizes(2, low=2, high=7)
        return {"q": draw.normal(*lead, new, d_k), "K": draw.normal(*lead, n, d_k), "V": draw.normal(*lead, n, d_v)}

    return make


def _cached(
    *, refuses=True, of=lambda x, new: x, shift=lambda new, n: n - new, scale=math.sqrt, width=lambda q, K, V: q.shape[-1],
    late=False, hidden=-math.inf, late_scale=False, turned=False,
):  # fmt: skip
    """Query i sees key j where j <= i + shift(new, n), or, `turned`, where not; `late` hides weights, and `late_scale` scales them, and not scores."""

    def answer(q, K, V):
        new, n, root = q.shape[-2], K.shape[-2], scale(width(q, K, V))
        if refuses and new > n:
            raise ValueError("more queries than keys")
        K, V = of(K, new), of(V, new)
        keep = torch.ones(new, K.shape[-2], dtype=torch.bool).tril(shift(new, K.shape[-2])) ^ turned
        S = q @ K.mT / (1.0 if late_scale else root)
        A = torch.softmax(S if late else S.masked_fill(~keep, hidden), dim=-1)
        A = A.masked_fill(~keep, 0.0) if late or hidden == -math.inf else A
        return A @ V / (root if late_scale else 1.0)

    return answer


def _checked(answer):
    """A right answer with the error that is asked for."""

    def checked(q, K, V):
        if q.shape[-2] > K.shape[-2]:
            raise ValueError("more queries than keys")
        return answer(q, K, V)

    return checked


def _row_by_row(q, K, V):
    past = K.shape[-2] - q.shape[-2]
    rows = []
    for i in range(q.shape[-2]):
        seen = slice(0, past + i + 1)
        scores = (K[..., seen, :] @ q[..., i, :, None])[..., 0] / q.shape[-1] ** 0.5
        rows.append((torch.softmax(scores, -1)[..., None] * V[..., seen, :]).sum(-2))
    return torch.stack(rows, dim=-2)


def _positions(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    keep = torch.arange(n)[None, :] <= torch.arange(n - new, n)[:, None]
    return scaled_dot_product_attention(q, K, V, attn_mask=keep)


ATTEND_CACHED = Exercise(
    "attend_cached",
    title="Find the bug: a chunk after a past",
    kind="bug",
    points=1.5,
    difficulty=3,
    minutes=6,
    reference=ref.attend_cached,
    recipe=Made(_cached),
    tensors=True,
    cases=(
        Case("two new tokens, one past", _new_and_all(new=2, n=3)),
        Case("one new token", _new_and_all(2, 3, new=1, n=5)),
        Case("a whole prompt", _new_and_all(2, 3, new=5, n=5)),
        Case("a chunk after a past", _new_and_all(2, 3, new=3, n=7)),
        Case("more queries than keys", _new_and_all(new=3, n=2), raises=ValueError, edge=0.1),
    ),
    hints=(
        "Write the mask for two new tokens and three keys on paper. Which of the three keys may the first new token see?",
        "Query i of the new ones is at position i + (n − new) of the text and sees every key up to its own position. Make "
        "a mask `keep` of shape (new, n) and call the given `attention`.",
        "`tril` takes a second argument, by which the diagonal moves to the right. Choose it so that the **last** row of "
        "the mask sees everything. By how many columns is the matrix wider than it is high?",
    ),
    misconceptions=(
        Misconception(
            "top_left",
            "aligned the causal mask with the **first** keys, so the new tokens see the oldest keys and not themselves",
            "Align it at the bottom right with `.tril(n - new)`. PyTorch's `is_causal=True` is aligned at the top left, so "
            "it fits only a whole prompt.",
            Instead(shift=lambda new, n: 0),
            also=(  # `is_causal=new > 1` is the function as shown
                Instead(shift=lambda new, n: 0 if new > 1 else n),
                Instead(shift=lambda new, n: 0 if new > 1 else n, refuses=False),
                Instead(shift=lambda new, n: 0, refuses=False),
            ),
        ),
        Misconception(
            "mask_the_other_way_round",
            "hid what a query may see and showed what it may not",
            "In `keep`, True means that the query may see the key. Reverse your mask.",
            Instead(turned=True),
        ),
        Misconception(
            "mask_skipped",
            "used no mask, so tokens see later tokens of their own chunk",
            "A single new token needs no mask, but a prompt or a chunk does, because token i must not see token i + 1.",
            Instead(shift=lambda new, n: n),
        ),
        Misconception(
            "cannot_see_itself",
            "hid each token from itself",
            "A token sees the past **and itself**, so the last query sees all n keys.",
            Instead(shift=lambda new, n: n - new - 1),
        ),
        Misconception(
            "sees_one_ahead",
            "let each token see one token of its future",
            "The last query sees n keys and the one before it n − 1, so the shift is `.tril(n - new)`.",
            Instead(shift=lambda new, n: n - new + 1),
        ),
        Misconception(
            "more_queries_than_keys",
            "accepted more queries than keys without an error, so a caller who forgets to append gets a wrong answer",
            "Raise a ValueError if `q` has more rows than `K`.",
            Instead(refuses=False),
        ),
        Misconception(
            "shifted_by_the_new_tokens",
            "moved the diagonal by the number of new tokens, and not by the number of old ones",
            "The first new token sees all old tokens and itself. There are n − new old tokens, so the shift is `.tril(n - new)`.",
            Instead(shift=lambda new, n: new),
        ),
        Misconception(
            "own_chunk_only",
            "attended only to the new tokens, so the past in `K` and `V` has no effect",
            "All n keys take part, and the mask hides no token of the past.",
            Instead(of=lambda x, new: x[..., -new:, :]),
        ),
        Misconception(
            "hidden_after_the_softmax",
            "hid weights after the softmax, so the weights that are left no longer sum to 1",
            "Hide scores before the softmax. The given `attention` does this with your `keep`.",
            Instead(late=True),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "Pass queries, keys and values to the given `attention`, which scales the scores.",
            Instead(scale=lambda d: 1.0),
        ),
        Misconception(
            "scaled_by_the_number_of_keys",
            "divided the scores by the square root of the number of keys",
            "The scale is $1/\\sqrt{d_k}$, where $d_k$ is the width of a query. The given `attention` applies it.",
            Instead(width=lambda q, K, V: K.shape[-2]),
        ),
        Misconception(
            "scaled_by_sqrt_d_v",
            "divided the scores by $\\sqrt{d_v}$, where $d_v$ is the width of the **values**",
            "A score is a sum over the $d_k$ features of query and key. The given `attention` applies the scale.",
            Instead(width=lambda q, K, V: V.shape[-1]),
        ),
        Misconception(
            "scaled_after_softmax",
            "scaled the weights or the output instead of the scores",
            "The **scores** are divided by $\\sqrt{d_k}$. Pass queries, keys and values to the given `attention`, which does it.",
            Instead(late_scale=True),
        ),
        Misconception(
            "hidden_scores_of_zero",
            "gave hidden keys the score 0, which is an ordinary score, so they keep weight",
            "The score of a hidden key is minus infinity, so that its weight is 0. The given `attention` does this with "
            "your `keep`.",
            Instead(hidden=0.0),
        ),
        Misconception(
            "scaled_by_d",
            "divided the scores by $d_k$ instead of its square root",
            "Pass queries, keys and values to the given `attention`, which divides by $\\sqrt{d_k}$.",
            Instead(scale=float),
        ),
    ),
    variants=(Variant("row_by_row", _checked(_row_by_row)), Variant("builtin_with_positions", _checked(_positions))),
)
