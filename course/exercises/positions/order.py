"""Does a function see the order of its rows?"""

import torch

from autograder import Case, Code, Draw, Exercise, Instead, Misconception, Tolerance, Variant
from course.exercises.positions import probes
from solutions import positions as ref

# Looking at all rows alike is equivariant; a running sum, a neighbour and the first row depend on places.
ATTENDS = Code("lambda X: torch.softmax(X @ X.T, dim=-1) @ X")
RUNNING_SUM = Code("lambda X: X.cumsum(0)")
NEIGHBOUR = Code("lambda X: torch.tanh(X + X.roll(1, 0))[:, :2]")
FIRST_ROW = Code("lambda X: X - X[0]")


def _rows(f: Code, n: int, d: int):
    return lambda draw: {"f": f, "X": draw.normal(n, d), "order": probes.order(draw, n)}


def _one_sided(sign: int):
    """All differences have one sign: the first row is far below (or above) the others, and does not stay first."""

    def make(draw: Draw):
        X, order = draw.normal(3, 2), probes.order(draw, 3)
        X[0] -= 5 * sign
        return {"f": FIRST_ROW, "X": X, "order": order}

    return make


def _ordered(rows, order):
    return rows[order]


def _as_they_are(rows, order):
    return rows


def _gap(f, X, order, *, inside=_ordered, outside=_ordered, size=torch.abs, of=torch.max):
    return float(of(size(f(inside(X, order)) - outside(f(X), order))))


def _loop(f, X, order):
    out, moved = f(X), f(torch.stack([X[i] for i in order]))
    return max(float((moved[i] - out[order[i]]).abs().max()) for i in range(len(order)))


def _matrix(f, X, order):
    P = torch.eye(len(X), dtype=X.dtype)[order]
    return torch.linalg.vector_norm(f(P @ X) - P @ f(X), ord=float("inf")).item()


PERMUTATION_GAP = Exercise(
    "permutation_gap",
    title="How far from equivariant?",
    points=1,
    difficulty=1,
    minutes=7,
    reference=ref.permutation_gap,
    recipe=_gap,
    tensors=True,
    tolerance=Tolerance(rtol=1e-4, atol=1e-5),  # a difference of float32 numbers of size 1 to 5
    cases=(
        Case("a running sum", _rows(RUNNING_SUM, 3, 2)),
        Case("minus the first row", _one_sided(+1)),
        Case("minus the first row, which is the largest", _one_sided(-1)),
        Case("a neighbour", _rows(NEIGHBOUR, 5, 3)),
        Case("attention without weights", _rows(ATTENDS, 5, 7)),
    ),
    hints=(
        "Two routes lead from `X` to a result: reorder and then apply `f`, or apply `f` and then reorder. Where do they part?",
        "Indexing rows with `order` reorders them: `X[order]`. Do it once before `f` and once after, subtract, and take the "
        "largest absolute value.",
        "`X[order]` goes into `f` on one route; on the other, `[order]` stands behind `f(X)`. What is left is a difference, its "
        "largest absolute entry, and `float`.",
    ),
    misconceptions=(
        Misconception(
            "invariance",
            "compared `f` of the reordered rows with `f(X)` as it stands: that measures how far `f` is from *invariance*",
            "If the rows go in in another order, the rows should come out in that order too: compare with `f(X)[order]`.",
            Instead(outside=_as_they_are),
        ),
        Misconception(
            "inverse_order",
            "did not apply the order once on each side: on one of them it is undone, or applied twice",
            "Both routes use the same $P$: index with `order` before `f` on one side and after `f` on the other.",
            Instead(outside=lambda rows, order: rows[torch.argsort(order)]),
            also=(Instead(inside=lambda rows, order: rows[torch.argsort(order)]),),
        ),
        Misconception(
            "other_permutation",
            "reordered by the permutation that *undoes* `order`, on both sides",
            "`order[i]` says which row of $X$ comes to place $i$, so row $i$ of $P$ has its 1 in *column* `order[i]`.",
            Instead(
                inside=lambda rows, order: rows[torch.argsort(order)], outside=lambda rows, order: rows[torch.argsort(order)]
            ),
        ),
        Misconception(
            "signed_maximum",
            "took the largest difference with its sign, so large negative ones went unseen",
            "Take the absolute value before the maximum.",
            Instead(size=torch.positive),
        ),
        Misconception(
            "mean_gap",
            "averaged the differences, which hides a single row that is out of place",
            "The gap is the **largest** absolute entry: `.max()`.",
            Instead(of=torch.mean),
        ),
        Misconception(
            "output_only",
            "compared `f(X)` with its own reordering: `f` never saw the reordered input",
            "One of the two routes must reorder **before** `f`: `f(X[order])`.",
            Instead(inside=_as_they_are),
        ),
        Misconception(
            "summed_gap",
            "added all differences up",
            "The gap is the **largest** absolute entry: `.max()`.",
            Instead(of=torch.sum),
        ),
        Misconception(
            "norm_of_the_gap",
            "took the norm of the whole difference, the root of the sum of squares",
            "The gap is the **largest** absolute entry: `.abs().max()`.",
            Instead(of=torch.linalg.vector_norm),
        ),
        Misconception(
            "squared",
            "squared the differences",
            "The gap is in the units of `f`: take absolute values, not squares.",
            Instead(size=torch.square),
        ),
    ),
    variants=(
        Variant("row_by_row", _loop),
        Variant("permutation_matrix", _matrix),
        Variant("undo_the_order_after_f", lambda f, X, order: (f(X[order])[torch.argsort(order)] - f(X)).abs().max().item()),
    ),
)
