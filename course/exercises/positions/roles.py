"""What trained heads attend to."""

import numpy as np
import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Prediction, Variant
from solutions import positions as ref


def _patterns(heads: int, n: int, low: int, high: int):
    def make(draw: Draw):
        A = draw.rng.random((heads, n, n)) ** 2 * np.tri(n)
        return {"A": A / A.sum(-1, keepdims=True), "period": draw.integer(low, high)}

    return make


def _of_rows(rows, found, n):
    return rows


def _of_found(rows, found, n):
    return found


def _of_all(rows, found, n):
    return n


def _roles(A, period, *, back=1, after=1, early=0, count=_of_rows, count_copies=None):
    """Mean weights `back` tokens before, and `after` the copy one period ago; from `early` rows before the first copy.

    Each is a sum divided by a `count` (of the second by another): of the rows, of those `found` to have such a token, of all `n`.
    """
    n, means = A.shape[-1], []
    for rows, offset, divisor in (
        (range(1, n), -back, count),
        (range(period - early, n), after - period, count_copies or count),
    ):
        weights = [A[:, i, i + offset] for i in rows if 0 <= i + offset < n]
        means.append(sum(weights) / divisor(len(rows), len(weights), n))
    return tuple(means)


def _but(**replaced):
    """The right two means, of which one is replaced."""

    def answer(A, period):
        right = dict(zip(("previous", "induction"), ref.head_roles(A, period), strict=True))
        return tuple((right | {name: make(A, period) for name, make in replaced.items()}).values())

    return answer


def _previous_of_the_first_axes(A, period):
    return A.diagonal(-1).mean(-1)


def _induction_of_the_first_axes(A, period):
    return A.diagonal(1 - period)[..., 1:].mean(-1)


def _diagonals(A, period):
    return A.diagonal(-1, -2, -1).mean(-1), A.diagonal(1 - period, -2, -1)[..., 1:].mean(-1)


def _masked(A, period):
    j = torch.arange(A.shape[-1])
    i = j[:, None]
    masks = j == i - 1, (j == i - period + 1) & (i >= period)
    return tuple((A * m).sum((-2, -1)) / m.sum() for m in masks)


HEAD_ROLES = Exercise(
    "head_roles",
    title="Find the bugs: what does each head attend to?",
    points=1.5,
    reference=ref.head_roles,
    recipe=_roles,
    tensors=True,
    kind="bug",
    difficulty=3,
    minutes=8,
    cases=(
        Case("seven tokens, two heads", _patterns(2, 7, 3, 4)),
        Case("eleven tokens, five heads", _patterns(5, 11, 3, 7)),
    ),
    hints=(
        "Row $i$ is the token that attends. In which column is the token before it? In which column is the token that followed its last copy, "
        "and which rows have such a copy?",
        "The first mean is over $n - 1$ rows, since row 0 has no token before it. The copy of token $i$ is at $i - p$, so what followed the "
        "copy is at $i - p + 1$. Which diagonal is that, and what does its first entry belong to?",
        "`A.diagonal(1 - period, -2, -1)` begins in row $p - 1$, which has no earlier copy, so leave its first entry out.",
    ),
    misconceptions=(
        Misconception(
            "draft_unchanged",
            "left both bugs in the draft",
            "Count the rows that have a token before them. Then find the column of the token that *followed* the copy of token $i$.",
            Instead(after=0, count=_of_all, count_copies=_of_rows),
        ),
        Misconception(
            "the_copy_itself",
            "measured the weight on the earlier copy of the token, $i - p$, instead of what **followed** it",
            "What followed the copy is one position further on, at $i - p + 1$.",
            Instead(after=0),
        ),
        Misconception(
            "before_the_copy",
            "measured the weight on the token **before** the earlier copy",
            "What followed the copy is at $i - p + 1$ and not at $i - p - 1$.",
            Instead(after=-1),
            also=(Instead(after=-1, count_copies=_of_found),),
        ),
        Misconception(
            "itself_for_previous",
            "used the diagonal, where each token attends to itself, for the token before",
            "The token before is one column to the left, $j = i - 1$.",
            Instead(back=0),
        ),
        Misconception(
            "rows_and_columns_exchanged",
            "swapped rows and columns",
            "Rows are the tokens that attend, so the weight of token `i` on token `j` is `A[:, i, j]`.",
            Before(lambda A, **_: {"A": A.mT}),
        ),
        Misconception(
            "all_rows_counted",
            "divided by the number of all rows, although some have no token before them or no earlier copy",
            "Leave row 0 out of the first mean, and the rows before `period` out of the second.",
            Instead(count=_of_all),
            also=(Instead(count=_of_all, count_copies=_of_rows), Instead(count_copies=_of_all)),
        ),
        Misconception(
            "diagonal_of_the_first_axes",
            "took a diagonal of the *first* two axes, which are heads and queries",
            "`diagonal` uses the axes 0 and 1 unless you pass `dim1=-2, dim2=-1`.",
            _but(previous=_previous_of_the_first_axes),
            also=(
                _but(induction=_induction_of_the_first_axes),
                _but(previous=_previous_of_the_first_axes, induction=_induction_of_the_first_axes),
            ),
        ),
        Misconception(
            "a_whole_diagonal",
            "included one row too many for induction, since row $p - 1$ is on that diagonal but has no earlier copy",
            "The first row with an earlier copy is row $p$, so leave out the first entry of that diagonal.",
            Instead(early=1),
        ),
        Misconception(
            "order_exchanged",
            "returned the two means in the other order",
            "Return the mean for the token before first and the one for induction second.",
            After(lambda out, **_: out[::-1]),
        ),
        Misconception(
            "two_after_the_copy",
            "measured the weight on the token **two** after the earlier copy",
            "What followed the copy is at $i - p + 1$.",
            Instead(after=2),
        ),
        Misconception(
            "two_before",
            "used the token two before instead of the one before",
            "The token before is one column to the left, $j = i - 1$.",
            Instead(back=2),
            also=(Instead(back=2, count=_of_found, count_copies=_of_rows),),
        ),
        Misconception(
            "summed",
            "summed the weights over the rows without dividing",
            "A mean weight is between 0 and 1. Use `.mean(-1)` instead of `.sum(-1)`.",
            Instead(count=lambda rows, found, n: 1),
        ),
        Misconception(
            "averaged_over_the_heads",
            "averaged over the heads as well",
            "Each head has its own role, so average over the rows only and return one number per head.",
            After(lambda out, **_: tuple(each.mean() for each in out)),
        ),
    ),
    variants=(
        Variant("diagonals", _diagonals),
        Variant("masks", _masked),
        Variant("row_by_row", _roles),
    ),
)

PREDICT_ABLATION = Prediction(
    "predict_ablation",
    title="Predict: one head of the first layer is removed",
    points=0.5,
    minutes=2,
    choices={
        "a": "hardly at all, because the heads that copy are all in layer 1",
        "b": "a little, because one head of eight is missing",
        "c": "a lot, because the heads of layer 1 no longer find what to copy",
    },
    holds="c",
    reveal="**c.** A head of layer 1 looks for a token *whose predecessor* is the word that was just read. The predecessor was written into "
    "each token's vector by the head of layer 0. Without it the keys of layer 1 say nothing about predecessors, so the heads of layer 1 attend "
    "to the wrong tokens, although their own weights have not changed.",
)
