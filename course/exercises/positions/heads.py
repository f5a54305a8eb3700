"""Heads with rotary positions, to be repaired."""

import math

import torch

from autograder import Before, Case, Draw, Exercise, Instead, Made, Misconception, Of, Property, Variant
from course.exercises.positions import probes
from course.exercises.positions.rotary import ROTATION
from solutions import positions as ref


def _layer(n: int, d_model: int, H: int, d_k: int, d_v: int, *, lead: tuple[int, ...] = (), rising: bool = True):
    def make(draw: Draw):
        narrow = d_model**-0.5
        return {
            "X": draw.normal(*lead, n, d_model),
            "Wq": draw.normal(d_model, H * d_k, scale=2 * narrow),
            "Wk": draw.normal(d_model, H * d_k, scale=narrow),
            "Wv": draw.normal(d_model, H * d_v, scale=narrow),
            "Wo": draw.normal(H * d_v, d_model, scale=(H * d_v) ** -0.5),
            "H": H,
            "pos": probes.positions(draw, n) if rising else probes.positions(draw, n)[::-1].copy(),
        }

    return make


def _split(X, H):
    return X.unflatten(-1, (H, -1)).transpose(-3, -2)


def _merge(Y):
    return Y.transpose(-3, -2).flatten(-2)


def _every_hth_column(X, H):
    """Head h gets the columns h, h + H, h + 2 H, …"""
    return X.unflatten(-1, (-1, H)).movedim(-1, -3)


def _woven(Y):
    return Y.movedim(-3, -1).flatten(-2)


def _cut_elsewhere(X, H):
    """Rows cut into heads by a reshape alone: tokens and heads are mixed up."""
    return X.reshape(*X.shape[:-2], H, X.shape[-2], -1)


def _merged_without_transpose(Y):
    return Y.reshape(*Y.shape[:-3], Y.shape[-2], -1)


def _rotary(
    *, turn_q=True, turn_k=True, turn_v=False, keep=lambda n: torch.ones(n, n).tril() > 0, width=lambda d, X, H: d,
    order="split", rope=ref.apply_rope, split=_split, merge=_merge,
):  # fmt: skip
    """Causal heads with one part replaced by a mistake."""

    def answer(X, Wq, Wk, Wv, Wo, H, pos):
        turns = turn_q, turn_k, turn_v
        if order == "turn":  # as found: turned before the features are split into heads
            parts = [split(rope(X @ W, pos) if t else X @ W, H) for W, t in zip((Wq, Wk, Wv), turns, strict=True)]
        else:
            parts = [rope(split(X @ W, H), pos) if t else split(X @ W, H) for W, t in zip((Wq, Wk, Wv), turns, strict=True)]
        Q, K, V = parts
        S = Q @ K.mT / math.sqrt(width(Q.shape[-1], X, H))
        A = torch.softmax(S.masked_fill(~keep(X.shape[-2]), -math.inf), dim=-1)
        return merge(A @ V) @ Wo, A

    return answer


def _one_head_after_another(X, Wq, Wk, Wv, Wo, H, pos):
    keep = torch.ones(len(pos), len(pos)).tril() > 0
    O, A = [], []
    for wq, wk, wv in zip(Wq.chunk(H, 1), Wk.chunk(H, 1), Wv.chunk(H, 1), strict=True):
        q, k = ref.apply_rope(X @ wq, pos), ref.apply_rope(X @ wk, pos)
        S = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -math.inf)
        A.append(torch.softmax(S, dim=-1))
        O.append(A[-1] @ (X @ wv))
    return torch.cat(O, dim=-1) @ Wo, torch.stack(A, dim=-3)


def _builtin(X, Wq, Wk, Wv, Wo, H, pos):
    Q, K, V = (_split(X @ W, H) for W in (Wq, Wk, Wv))
    Q, K = ref.apply_rope(Q, pos), ref.apply_rope(K, pos)
    eye = torch.eye(len(pos), dtype=X.dtype).expand(*Q.shape[:-1], -1)
    A = torch.nn.functional.scaled_dot_product_attention(Q, K, eye, is_causal=True)
    return _merge(A @ V) @ Wo, A


def _turned_before_the_transpose(X, Wq, Wk, Wv, Wo, H, pos):
    """Right too: heads inside, and positions with an axis for them."""
    Q, K = (ref.apply_rope((X @ W).unflatten(-1, (H, -1)), pos[:, None]).transpose(-3, -2) for W in (Wq, Wk))
    return _builtin_from(Q, K, _split(X @ Wv, H), Wo)


def _builtin_from(Q, K, V, Wo):
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    A = torch.softmax(S + torch.full_like(S, -math.inf).triu(1), dim=-1)
    return _merge(A @ V) @ Wo, A


ROTARY_MHA = Exercise(
    "rotary_mha",
    title="Find the bug: heads with rotary positions",
    points=2,
    reference=ref.rotary_mha,
    recipe=Made(_rotary),
    tensors=True,
    tolerance=ROTATION,
    kind="bug",
    difficulty=3,
    minutes=9,
    properties=(Property("sums_to_one", axis=-1, output=1), Property("non_negative", output=1)),
    cases=(
        Case("three tokens, two heads", _layer(3, 5, 2, 2, 1), grad=("X",)),
        Case("three heads", _layer(5, 7, 3, 6, 4)),
        Case("a batch", _layer(4, 6, 3, 4, 2, lead=(2,))),
        Case("positions that fall", _layer(4, 5, 2, 4, 6, rising=False), edge=0.1),
    ),
    hints=(
        "Every line is right by itself. Follow one number: with which angle does the first feature of head 1 turn?",
        "The frequencies are $b^{-2i/d}$, and $d$ is the width of what is handed to `apply_rope`. Which width is it here, and "
        "which should it be?",
        "Change the order of two steps: what `apply_rope` receives must already have the shape (..., H, n, d_k). The values do not "
        "turn.",
    ),
    misconceptions=(
        Misconception(
            "as_found",
            "turned with the angles of the given code: the first feature of head 1 turns more slowly than the first of head 0",
            "Every head has all of its clocks, fast ones and slow ones. Which width does `apply_rope` see, and which should it?",
            Instead(order="turn"),
        ),
        Misconception(
            "values_turned",
            "turned the values as well",
            "Only queries and keys turn: nothing undoes a turn in a sum of values.",
            Instead(turn_v=True),
        ),
        Misconception(
            "queries_only",
            "turned the queries and not the keys",
            "The turns leave a difference only if both are turned.",
            Instead(turn_k=False),
        ),
        Misconception(
            "positions_ignored",
            "numbered the rows 0, 1, 2, … and did not look at `pos`",
            "A row's place in the tensor is not its position in the text. Hand `pos` on to `apply_rope`.",
            Before(lambda pos, **_: {"pos": torch.arange(len(pos))}),
        ),
        Misconception(
            "nothing_turned",
            "turned nothing any more",
            "Queries and keys turn, each head by itself.",
            Instead(turn_q=False, turn_k=False),
        ),
        Misconception(
            "mask_lost",
            "lost the mask: your rows look at later rows",
            "Keep the line with `tril`: row $i$ looks at the rows up to $i$.",
            Instead(keep=lambda n: torch.ones(n, n) > 0),
        ),
        Misconception(
            "mask_of_positions",
            "compared the positions in the mask: a row then sees those that stand further left in the text, not the rows up to its own",
            "Row $i$ looks at the *rows* up to $i$, wherever they stand: `tril()` of the row numbers.",
            Instead(keep=Of(lambda pos, **_: lambda n: pos[:, None] >= pos[None, :])),
        ),
        Misconception(
            "mask_without_itself",
            "forbade each row to look at itself; the first row then has nothing to look at",
            "Row $i$ looks at the rows **up to** $i$: `tril()`, without `diagonal=-1`.",
            Instead(keep=lambda n: torch.ones(n, n).tril(-1) > 0),
        ),
        Misconception(
            "scaled_by_sqrt_d_model",
            "scaled by the width of the tokens",
            "A head's score is a sum over its own $d_k$ features: divide by $\\sqrt{d_k}$.",
            Instead(width=lambda d, X, H: X.shape[-1]),
        ),
        Misconception(
            "scaled_by_all_heads",
            "divided the scores by the root of the width of all heads together",
            "A head's score is a sum over its own $d_k$ features: divide by $\\sqrt{d_k}$.",
            Instead(width=lambda d, X, H: H * d),
        ),
        Misconception(
            "half_split",
            "turned queries and keys in the half-split layout: feature $i$ of a head with feature $i + d/2$",
            "Neighbours form a pair here, the features $2i$ and $2i + 1$ of a head: `apply_rope` turns them.",
            Instead(rope=ref.rotate_half_rope),
        ),
        Misconception(
            "every_hth_column",
            "gave each head every $H$-th feature, and not neighbouring ones",
            "Cut a row into `(H, -1)`, in this order: head 0 has the first $d_k$ features, head 1 the next.",
            Instead(split=_every_hth_column),
            also=(Instead(split=_every_hth_column, merge=_woven),),
        ),
        Misconception(
            "cut_without_transpose",
            "cut the rows into heads by a reshape alone: that mixes up tokens and heads",
            "Cut the last axis into (H, width), and then exchange the axes of tokens and heads.",
            Instead(split=_cut_elsewhere),
            also=(Instead(split=_cut_elsewhere, merge=_merged_without_transpose),),
        ),
        Misconception(
            "merged_without_transpose",
            "put the heads side by side by a reshape alone: that mixes up tokens and heads",
            "First bring the axis of the heads behind that of the tokens, (…, n, H, d_v), and then flatten the last two.",
            Instead(merge=_merged_without_transpose),
        ),
    ),
    variants=(
        Variant("one_head_after_another", _one_head_after_another),
        Variant("builtin_attention", _builtin),
        Variant("turned_before_the_transpose", _turned_before_the_transpose),
    ),
)
