"""What trained heads look at."""

import numpy as np
import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Variant
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
    title="What does each head look at?",
    points=1,
    reference=ref.head_roles,
    recipe=_roles,
    tensors=True,
    kind="use",
    difficulty=2,
    minutes=10,
    cases=(
        Case("seven tokens, two heads", _patterns(2, 7, 3, 4)),
        Case("eleven tokens, five heads", _patterns(5, 11, 3, 7)),
    ),
    hints=(
        "The row is the token that looks. At which column stands the token before it? And the token that followed its last copy?",
        "The copy of row $i$ stands at $i - p$, so what followed it stands at $i - p + 1$. Only rows $i \\ge p$ have a copy.",
        "With `i = torch.arange(n)`, `A[:, i[1:], i[:-1]]` are the weights on the token before: one row index and one column "
        "index for each. The others are at the rows `i[period:]`; at which columns?",
    ),
    misconceptions=(
        Misconception(
            "the_copy_itself",
            "measured the weight on the earlier copy of the token, $i - p$, and not on what **followed** it",
            "What followed the copy stands one further on: $i - p + 1$.",
            Instead(after=0),
        ),
        Misconception(
            "before_the_copy",
            "measured the weight on the token **before** the earlier copy",
            "What followed stands at $i - p + 1$, not at $i - p - 1$.",
            Instead(after=-1),
            also=(Instead(after=-1, count_copies=_of_found),),
        ),
        Misconception(
            "itself_for_previous",
            "took the diagonal for the token before",
            "The diagonal is the token itself. The one before stands one column to the left: $j = i - 1$.",
            Instead(back=0),
        ),
        Misconception(
            "rows_and_columns_exchanged",
            "exchanged rows and columns: rows are the tokens that look",
            "The weight of token `i` on token `j` is `A[:, i, j]`.",
            Before(lambda A, **_: {"A": A.mT}),
        ),
        Misconception(
            "all_rows_counted",
            "divided by the number of all rows, where some have no token before, or no earlier copy",
            "Row 0 does not count in the first mean, and rows below the period do not in the second.",
            Instead(count=_of_all),
            also=(Instead(count=_of_all, count_copies=_of_rows), Instead(count_copies=_of_all)),
        ),
        Misconception(
            "diagonal_of_the_first_axes",
            "took a diagonal of the *first* two axes, of heads and queries",
            "`diagonal` takes axes 0 and 1 unless you name two others: `dim1=-2, dim2=-1`.",
            _but(previous=_previous_of_the_first_axes),
            also=(
                _but(induction=_induction_of_the_first_axes),
                _but(previous=_previous_of_the_first_axes, induction=_induction_of_the_first_axes),
            ),
        ),
        Misconception(
            "a_whole_diagonal",
            "took one row too many for induction: row $p - 1$ looks at token 0 there, and has no earlier copy",
            "The first row with an earlier copy is row $p$: leave out the first entry of that diagonal.",
            Instead(early=1),
        ),
        Misconception(
            "order_exchanged",
            "returned the two means in the other order",
            "First the token before, then induction.",
            After(lambda out, **_: out[::-1]),
        ),
        Misconception(
            "two_after_the_copy",
            "measured the weight on the token **two** after the earlier copy",
            "What followed the copy at $i - p$ stands at $i - p + 1$.",
            Instead(after=2),
        ),
        Misconception(
            "two_before",
            "took the token two before for the one before",
            "The one before stands one column to the left: $j = i - 1$.",
            Instead(back=2),
            also=(Instead(back=2, count=_of_found, count_copies=_of_rows),),
        ),
        Misconception(
            "summed",
            "summed the weights over the rows and did not divide",
            "A mean weight lies between 0 and 1: `.mean(-1)` in place of `.sum(-1)`.",
            Instead(count=lambda rows, found, n: 1),
        ),
        Misconception(
            "averaged_over_the_heads",
            "averaged over the heads as well",
            "Each head has a role of its own: one number per head, so only the rows are averaged.",
            After(lambda out, **_: tuple(each.mean() for each in out)),
        ),
    ),
    variants=(
        Variant("diagonals", _diagonals),
        Variant("masks", _masked),
        Variant("row_by_row", _roles),
    ),
)

PREDICT_ABLATION = Exercise(
    "predict_ablation",
    title="Predict: one head of the first layer is switched off",
    points=0.5,
    minutes=2,
    choices={
        "a": "hardly anything: the copying is done in layer 1, and its heads are all still there",
        "b": "it rises somewhat: one head of eight is gone",
        "c": "it rises a great deal: without it the heads of layer 1 do not know where to look",
    },
    holds="c",
    reveal="**c.** A head of layer 1 looks for a token *whose predecessor* is the token it has just read. Who the predecessor was, the "
    "head of layer 0 wrote into every token. Without that, the head of layer 1 has nothing to find. Copying takes two heads in a "
    "row, which is why one layer cannot learn it.",
)
