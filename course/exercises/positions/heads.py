"""Heads with rotary positions, in which a bug is to be found."""

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
            "W_Q": draw.normal(d_model, H * d_k, scale=2 * narrow),
            "W_K": draw.normal(d_model, H * d_k, scale=narrow),
            "W_V": draw.normal(d_model, H * d_v, scale=narrow),
            "W_O": draw.normal(H * d_v, d_model, scale=(H * d_v) ** -0.5),
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

    def answer(X, W_Q, W_K, W_V, W_O, H, pos):
        turns = turn_q, turn_k, turn_v
        if order == "turn":  # as found: turned before the features are split into heads
            parts = [split(rope(X @ W, pos) if t else X @ W, H) for W, t in zip((W_Q, W_K, W_V), turns, strict=True)]
        else:
            parts = [rope(split(X @ W, H), pos) if t else split(X @ W, H) for W, t in zip((W_Q, W_K, W_V), turns, strict=True)]
        Q, K, V = parts
        S = Q @ K.mT / math.sqrt(width(Q.shape[-1], X, H))
        A = torch.softmax(S.masked_fill(~keep(X.shape[-2]), -math.inf), dim=-1)
        return merge(A @ V) @ W_O, A

    return answer


def _one_head_after_another(X, W_Q, W_K, W_V, W_O, H, pos):
    keep = torch.ones(len(pos), len(pos)).tril() > 0
    O, A = [], []
    for wq, wk, wv in zip(W_Q.chunk(H, 1), W_K.chunk(H, 1), W_V.chunk(H, 1), strict=True):
        q, k = ref.apply_rope(X @ wq, pos), ref.apply_rope(X @ wk, pos)
        S = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -math.inf)
        A.append(torch.softmax(S, dim=-1))
        O.append(A[-1] @ (X @ wv))
    return torch.cat(O, dim=-1) @ W_O, torch.stack(A, dim=-3)


def _builtin(X, W_Q, W_K, W_V, W_O, H, pos):
    Q, K, V = (_split(X @ W, H) for W in (W_Q, W_K, W_V))
    Q, K = ref.apply_rope(Q, pos), ref.apply_rope(K, pos)
    eye = torch.eye(len(pos), dtype=X.dtype).expand(*Q.shape[:-1], -1)
    A = torch.nn.functional.scaled_dot_product_attention(Q, K, eye, is_causal=True)
    return _merge(A @ V) @ W_O, A


def _turned_before_the_transpose(X, W_Q, W_K, W_V, W_O, H, pos):
    """Right too: heads inside, and positions with an axis for them."""
    Q, K = (ref.apply_rope((X @ W).unflatten(-1, (H, -1)), pos[:, None]).transpose(-3, -2) for W in (W_Q, W_K))
    return _builtin_from(Q, K, _split(X @ W_V, H), W_O)


def _builtin_from(Q, K, V, W_O):
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    A = torch.softmax(S + torch.full_like(S, -math.inf).triu(1), dim=-1)
    return _merge(A @ V) @ W_O, A


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
        "Every line is correct by itself. Follow a single number. By which angle is the first feature of head 1 rotated?",
        "The frequencies are $b^{-2i/d}$, where $d$ is the width of the rows that `apply_rope` receives. Which width does it receive here, and "
        "which should it be?",
        "Swap two steps, so that `apply_rope` receives rows of shape (..., H, n, d_k). Values are not rotated.",
    ),
    misconceptions=(
        Misconception(
            "as_found",
            "rotated by the angles of the given code, in which the first pair of head 1 is slower than the first pair of head 0",
            "Every head should have all frequencies, fast and slow. Which width does `apply_rope` see, and which should it see?",
            Instead(order="turn"),
        ),
        Misconception(
            "values_turned",
            "rotated the values as well",
            "Only queries and keys are rotated. In a sum of values there is no second rotation that could cancel the first.",
            Instead(turn_v=True),
        ),
        Misconception(
            "queries_only",
            "rotated the queries but not the keys",
            "The score depends on the offset only if both are rotated.",
            Instead(turn_k=False),
        ),
        Misconception(
            "positions_ignored",
            "numbered the rows 0, 1, 2, … and ignored `pos`",
            "The index of a row in the tensor need not be its position in the text. Pass `pos` to `apply_rope`.",
            Before(lambda pos, **_: {"pos": torch.arange(len(pos))}),
        ),
        Misconception(
            "nothing_turned",
            "rotated neither queries nor keys",
            "Rotate queries and keys after you have split them into heads.",
            Instead(turn_q=False, turn_k=False),
        ),
        Misconception(
            "mask_lost",
            "lost the mask, so rows attend to later rows",
            "Keep the line with `tril`, which lets row $i$ attend to the rows up to $i$.",
            Instead(keep=lambda n: torch.ones(n, n) > 0),
        ),
        Misconception(
            "mask_of_positions",
            "built the mask from the positions, so a row sees what is earlier in the text instead of the rows up to its own",
            "Row $i$ attends to the *rows* up to $i$, whatever their positions are. The line with `tril` was right.",
            Instead(keep=Of(lambda pos, **_: lambda n: pos[:, None] >= pos[None, :])),
        ),
        Misconception(
            "mask_without_itself",
            "forbade each row to attend to itself, so the first row has no key left",
            "Row $i$ attends to the rows up to **and including** $i$, which is `tril()` without `diagonal=-1`.",
            Instead(keep=lambda n: torch.ones(n, n).tril(-1) > 0),
        ),
        Misconception(
            "scaled_by_sqrt_d_model",
            "divided the scores by the square root of the width of the tokens",
            "The score of a head is a sum over its own $d_k$ features, so divide by $\\sqrt{d_k}$.",
            Instead(width=lambda d, X, H: X.shape[-1]),
        ),
        Misconception(
            "scaled_by_all_heads",
            "divided the scores by the square root of the width of all heads together",
            "The score of a head is a sum over its own $d_k$ features, so divide by $\\sqrt{d_k}$.",
            Instead(width=lambda d, X, H: H * d),
        ),
        Misconception(
            "half_split",
            "rotated queries and keys in the half-split layout, which pairs feature $i$ of a head with feature $i + d/2$",
            "Here the features $2i$ and $2i + 1$ of a head form a pair, and `apply_rope` rotates them.",
            Instead(rope=ref.rotate_half_rope),
        ),
        Misconception(
            "every_hth_column",
            "gave each head every $H$-th feature instead of a block of neighbours",
            "Split a row into `(H, -1)`, in this order. Head 0 has the first $d_k$ features and head 1 the next.",
            Instead(split=_every_hth_column),
            also=(Instead(split=_every_hth_column, merge=_woven),),
        ),
        Misconception(
            "cut_without_transpose",
            "split the rows into heads with a reshape alone, which mixes up tokens and heads",
            "Split the last axis into (H, width) and then swap the axes of tokens and heads.",
            Instead(split=_cut_elsewhere),
            also=(Instead(split=_cut_elsewhere, merge=_merged_without_transpose),),
        ),
        Misconception(
            "merged_without_transpose",
            "put the heads side by side with a reshape alone, which mixes up tokens and heads",
            "First move the axis of the heads behind that of the tokens, which gives (…, n, H, d_v), and then flatten the last two.",
            Instead(merge=_merged_without_transpose),
        ),
    ),
    variants=(
        Variant("one_head_after_another", _one_head_after_another),
        Variant("builtin_attention", _builtin),
        Variant("turned_before_the_transpose", _turned_before_the_transpose),
    ),
)
