"""What heads look at, in three numbers each."""

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import multi_head as ref


def _whole_percents(draw: Draw):
    """One head, causal, in hundredths: the three means can be found by hand."""
    rows = [draw.rng.multinomial(100 - 3 * (i + 1), draw.rng.dirichlet(np.ones(i + 1))) + 3 for i in range(6)]
    return {"A": np.array([np.pad(row, (0, 5 - i)) for i, row in enumerate(rows)]) / 100, "length": 3}


def _some_heads(draw: Draw):
    H, length = draw.sizes(2, low=3, high=7)
    A = draw.rng.random((H, 2 * length, 2 * length)) ** 2 * np.tri(2 * length)
    return {"A": A / A.sum(-1, keepdims=True), "length": length}


def _layers_and_heads(draw: Draw):
    """Without a causal mask: columns to the right of the diagonal are not 0."""
    A = draw.rng.random((2, 3, 10, 10)) ** 2
    return {"A": A / A.sum(-1, keepdims=True), "length": 5}


def _pairs(A, i, j):
    return A[..., i, j]


def _block(A, i, j):
    """Two slices: all these rows with all these columns."""
    return A[..., i[:, None], j].mean(-1)


def _head_shares(
    *,
    back=1,
    ahead=1,
    first_row=1,
    last_row=1,
    before_row=1,
    after_row=0,
    turned=lambda A: A,
    wrapped=False,
    pick=_pairs,
    mean=lambda a: a.mean(-1),
):
    """The three means with one idea replaced: which column is meant, which rows count (`last_row` readings), how they are averaged."""

    def answer(A, length):
        A, stop = turned(A), last_row * length
        i, j = torch.arange(before_row, stop), torch.arange(length + after_row, 2 * length)
        followed = j - length + ahead
        followed = followed % length if wrapped else followed
        picked = pick(A, i, i - back), A[..., first_row:stop, 0], pick(A, j, followed)
        return tuple(mean(a) for a in picked)

    return answer


def _but(**replaced):
    """The right three numbers, of which one is replaced."""

    def answer(A, length):
        right = dict(zip(("before", "first", "after"), ref.head_shares(A, length), strict=True))
        return tuple((right | {name: make(A, length) for name, make in replaced.items()}).values())

    return answer


def _one_axis_of_heads(A, length):
    i, j = torch.arange(1, length), torch.arange(length, 2 * length)
    picked = A[:, i, i - 1], A[:, i, 0], A[:, j, j - length + 1]
    return tuple(a.mean(1) for a in picked)


def _diagonals(A, length):
    after = A.diagonal(1 - length, -2, -1)[..., 1:]
    return A.diagonal(-1, -2, -1)[..., : length - 1].mean(-1), A[..., 1:length, 0].mean(-1), after.mean(-1)


def _masks(A, length):
    j = torch.arange(A.shape[-1])
    i = j[:, None]
    early = (i > 0) & (i < length)
    masks = (j == i - 1) & early, (j == 0) & early, (j == i - length + 1) & (i >= length)
    return tuple((A * m).sum((-2, -1)) / m.sum() for m in masks)


def _row_by_row(A, length):
    before = sum(A[..., i, i - 1] for i in range(1, length)) / (length - 1)
    first = sum(A[..., i, 0] for i in range(1, length)) / (length - 1)
    return before, first, sum(A[..., length + i, i + 1] for i in range(length)) / length


HEAD_SHARES = Exercise(
    "head_shares",
    title="Measure what a head looks at",
    points=2,
    kind="use",
    difficulty=2,
    minutes=12,
    reference=ref.head_shares,
    recipe=Made(_head_shares),
    tensors=True,
    cases=(
        Case("one head, three tokens read twice", _whole_percents),
        Case("some heads", _some_heads),
        Case("two layers, no mask", _layers_and_heads),
    ),
    hints=(
        "Rows ask, columns are looked at. For each of the three, write down the rows that count, and for row $i$ the one column that is "
        "meant.",
        "Row $i$ of the second reading saw the same token at column $i - \\text{length}$. What followed stands one further on. A list of "
        "rows and a list of columns, both as long, pick one entry for each pair.",
        "With `i = torch.arange(1, length)`, the entries `A[..., i, i - 1]` are the weights on the token before, (..., length - 1). Take the "
        "mean over this last axis alone. The other two are picked alike: which rows, and which columns?",
    ),
    misconceptions=(
        Misconception(
            "the_same_token",
            "measured, in the second reading, the weight on the **same token** of the first, not on what followed it",
            "What followed stands one column further on: $i - \\text{length} + 1$.",
            Instead(ahead=0),
        ),
        Misconception(
            "itself_for_the_one_before",
            "took the diagonal, where each token looks at itself, for the token before",
            "The token before row $i$ stands in column $i - 1$.",
            Instead(back=0),
        ),
        Misconception(
            "columns_for_rows",
            "exchanged rows and columns: row $i$ holds what token $i$ looks at",
            "The weight that token $i$ gives token $j$ is `A[..., i, j]`.",
            Instead(turned=lambda A: A.mT),
        ),
        Misconception(
            "both_readings_counted",
            "averaged `before` and `first` over both readings",
            "These two are measured where nothing repeats yet: in rows 1 to `length - 1`.",
            Instead(last_row=2),
        ),
        Misconception(
            "before_in_both_readings",
            "averaged `before` over both readings",
            "It is measured where nothing repeats yet: in rows 1 to `length - 1`. A diagonal of the whole table has the second reading "
            "in it, too.",
            _but(before=lambda A, length: A.diagonal(-1, -2, -1).mean(-1)),
        ),
        Misconception(
            "diagonal_of_the_first_axes",
            "took a diagonal of the *first* two axes, which are those of the tokens only where no axis of heads stands in front",
            "`diagonal` takes axes 0 and 1 unless you name two others: `dim1=-2, dim2=-1`.",
            _but(before=lambda A, length: A.diagonal(-1)[..., : length - 1].mean(-1)),
            also=(
                _but(after=lambda A, length: A.diagonal(1 - length)[..., 1:].mean(-1)),
                _but(
                    before=lambda A, length: A.diagonal(-1)[..., : length - 1].mean(-1),
                    after=lambda A, length: A.diagonal(1 - length)[..., 1:].mean(-1),
                ),
            ),
        ),
        Misconception(
            "above_the_diagonal",
            "took the weight on the token that comes *after* each one for `before`",
            "Row $i$ asks, and the token before it stands in column $i - 1$: below the diagonal, where a negative offset lies.",
            _but(before=lambda A, length: A.diagonal(1, -2, -1)[..., : length - 1].mean(-1)),
            also=(Instead(back=-1), _but(before=lambda A, length: A.diagonal(1, -2, -1).mean(-1))),
        ),
        Misconception(
            "last_row_left_out",
            "left out of `after` the last token of the second reading",
            "After the last token of the first reading came the first of the second, in column `length`: a block that ends with the "
            "first reading has no such column.",
            _but(after=lambda A, length: A[..., length:, :length].diagonal(1, -2, -1).mean(-1)),
        ),
        Misconception(
            "wrapped_to_column_0",
            "let the last token of the first reading be followed by token 0: its `after` was taken from column 0",
            "The text goes on after the first reading. What followed its last token is the first token of the second: in which column does "
            "that stand?",
            Instead(wrapped=True),
        ),
        Misconception(
            "token_0_counted",
            "counted token 0 among those that ask: it stands at the first place itself, and no token is before it",
            "Begin with row 1 in both means of the first reading.",
            Instead(first_row=0),
            also=(_head_shares(first_row=0, before_row=0),),
        ),
        Misconception(
            "a_whole_diagonal",
            "took a row too many for `after`: the last of the first reading, which has no earlier copy",
            "The second reading begins at row `length`. A diagonal that holds what followed begins one row above: leave out its first entry.",
            Instead(after_row=-1),
        ),
        Misconception(
            "block_for_pairs",
            "averaged a whole block, all these rows with all these columns: each row has one column of its own",
            "Two slices cut out a block. Two index tensors of one length pick pairs: `A[..., i, i - 1]`.",
            Instead(pick=_block),
        ),
        Misconception(
            "summed",
            "added the weights up: a mean is the sum divided by the number of rows",
            "Take `mean(-1)` over the rows that count.",
            Instead(mean=lambda a: a.sum(-1)),
        ),
        Misconception(
            "heads_averaged",
            "averaged over the heads too: which of them looks where is lost",
            "Take the mean over the last axis alone, `mean(-1)`.",
            Instead(mean=lambda a: a.mean()),
        ),
        Misconception(
            "one_axis_of_heads",
            "assumed exactly one axis of heads",
            "Index from the end, `A[..., i, j]`: then any leading axes stay, or none.",
            _one_axis_of_heads,
            raises=True,
        ),
    ),
    variants=(
        Variant("diagonals", _diagonals),
        Variant("masks", _masks),
        Variant("row_by_row", _row_by_row),
    ),
)
