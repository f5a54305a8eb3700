"""Does a function see the order of its rows? And the first answer to "it should": a table that is added."""

import torch

from autograder import After, Before, Case, Code, Draw, Exercise, Misconception, Tolerance, Variant
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


def _inverse(f, X, order):
    return float((f(X[order]) - f(X)[torch.argsort(order)]).abs().max())


def _loop(f, X, order):
    out, moved = f(X), f(torch.stack([X[i] for i in order]))
    return max(float((moved[i] - out[order[i]]).abs().max()) for i in range(len(order)))


def _matrix(f, X, order):
    P = torch.eye(len(X), dtype=X.dtype)[order]
    return torch.linalg.vector_norm(f(P @ X) - P @ f(X), ord=float("inf")).item()


PERMUTATION_GAP = Exercise(
    "permutation_gap",
    title="Does the order matter?",
    points=1,
    difficulty=1,
    minutes=6,
    reference=ref.permutation_gap,
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
            lambda f, X, order: float((f(X[order]) - f(X)).abs().max()),
        ),
        Misconception(
            "inverse_order",
            "undid the order on one side instead of applying it on both",
            "Both routes use the same $P$: index with `order` before `f` on one side and after `f` on the other.",
            _inverse,
        ),
        Misconception(
            "signed_maximum",
            "took the largest difference with its sign, so large negative ones went unseen",
            "Take the absolute value before the maximum.",
            lambda f, X, order: float((f(X[order]) - f(X)[order]).max()),
        ),
        Misconception(
            "mean_gap",
            "averaged the differences, which hides a single row that is out of place",
            "The gap is the **largest** absolute entry: `.max()`.",
            lambda f, X, order: float((f(X[order]) - f(X)[order]).abs().mean()),
        ),
        Misconception(
            "output_only",
            "compared `f(X)` with its own reordering: `f` never saw the reordered input",
            "One of the two routes must reorder **before** `f`: `f(X[order])`.",
            lambda f, X, order: float((f(X)[order] - f(X)).abs().max()),
        ),
    ),
    variants=(
        Variant("row_by_row", _loop),
        Variant("permutation_matrix", _matrix),
        Variant("undo_the_order_after_f", lambda f, X, order: (f(X[order])[torch.argsort(order)] - f(X)).abs().max()),
    ),
)


# ---------------------------------------------------------------------------------------------- sinusoidal


def _table(n: tuple[int, int], widths: tuple[int, ...]):
    return lambda draw: {"n": draw.integer(*n), "d": draw.choice(widths), "base": probes.base(draw)}


def _weave(angle):
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def _exponent(rule, *, first=0):
    """An answer with its own exponents `rule(i, d)` for the pairs i = 0 … d/2 - 1, its positions counted from `first`."""

    def answer(n, d, base):
        frequency = base ** -rule(torch.arange(d // 2, dtype=torch.float64), d)
        return _weave(torch.arange(first, first + n)[:, None] * frequency)

    return answer


def _by_column(n, d, base):
    column = torch.arange(d, dtype=torch.float64)
    angle = torch.arange(n)[:, None] * base ** (-column / d)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


def _halves(n, d, base):
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def _swapped(n, d, base):
    return ref.sinusoidal(n, d, base=base).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


def _filled(n, d, base):
    table = torch.zeros(n, d)
    rate = torch.exp(torch.arange(0, d, 2) * (-torch.log(torch.tensor(base)) / d))
    table[:, 0::2] = torch.sin(torch.arange(n)[:, None] * rate)
    table[:, 1::2] = torch.cos(torch.arange(n)[:, None] * rate)
    return table


def _one_sine(n, d, base):
    column = torch.arange(d)
    angle = torch.arange(n)[:, None] / base ** ((column - column % 2) / d)
    return torch.sin(angle + (column % 2) * torch.pi / 2)


SINUSOIDAL = Exercise(
    "sinusoidal",
    title="The clocks as a table",
    points=1,
    difficulty=2,
    minutes=6,
    reference=ref.sinusoidal,
    tensors=True,
    tolerance=Tolerance(rtol=1e-4, atol=2e-5),  # float32 angles of up to 16 radians, and cos(a) as sin(a + pi/2)
    cases=(
        Case("a small table", _table((3, 6), (4, 6))),
        Case("a longer table", _table((7, 16), (10, 14))),
    ),
    hints=(
        "Your `rope_angles` has one angle per position and clock. Which positions are wanted here?",
        "Each angle becomes two entries, its sine and its cosine, side by side. All sines first and all cosines after them is "
        "another order.",
        "`torch.stack` of sines and cosines on a **new last** axis has the shape (n, d/2, 2). Flattening its last two axes puts "
        "each sine before its cosine.",
    ),
    misconceptions=(
        Misconception(
            "own_frequency_per_column",
            "gave each column a frequency of its own: the exponent runs over columns, so a cosine no longer goes with its sine",
            "Columns $2i$ and $2i+1$ share the frequency $b^{-2i/d}$. Only the even numbers stand in the exponent.",
            _by_column,
        ),
        Misconception(
            "exponent_i_over_d",
            "used the exponent $i/d$: your frequencies stop at about $1/\\sqrt{b}$, half-way down",
            "The exponent is $2i/d$ with $i$ up to $d/2 - 1$: `torch.arange(0, d, 2) / d`.",
            _exponent(lambda i, d: i / d),
        ),
        Misconception(
            "exponent_doubled",
            "doubled the exponent: `arange(0, d, 2)` holds $2i$ already, and you multiplied it by 2 once more",
            "Divide `torch.arange(0, d, 2)` by `d`, without another factor.",
            _exponent(lambda i, d: 4 * i / d),
        ),
        Misconception(
            "slowest_frequency_one_over_base",
            "spread the exponents from 0 to 1 inclusive (a division by $d/2 - 1$, as some libraries do)",
            "In the paper's formula the exponents are $2i/d$, and the last one, $(d-2)/d$, stays short of 1.",
            _exponent(lambda i, d: i / (d // 2 - 1)),
        ),
        Misconception(
            "halves",
            "put all sines first and all cosines after them. (The authors' own library did; it is a reordering of columns)",
            "The formula interleaves: even columns are sines, odd ones cosines. `stack` on a new last axis, then `flatten`.",
            After(lambda out, **_: torch.cat([out[..., 0::2], out[..., 1::2]], dim=-1)),
        ),
        Misconception(
            "sine_and_cosine_swapped",
            "put the cosines in the even columns and the sines in the odd ones",
            "Column 0 is a sine: position 0 reads 0, 1, 0, 1, …",
            After(lambda out, **_: out.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)),
        ),
        Misconception(
            "positions_from_one",
            "started at position 1",
            "The first row belongs to $p = 0$: all sines 0, all cosines 1.",
            _exponent(lambda i, d: 2 * i / d, first=1),
        ),
        Misconception(
            "base_ignored",
            "used 10000 whatever `base` says",
            "Use the argument `base`; 10000 is only its default.",
            Before(lambda **_: {"base": 10000.0}),
        ),
    ),
    variants=(
        Variant("fill_a_table", _filled),
        Variant("one_sine_with_a_phase", _one_sine),
    ),
)
