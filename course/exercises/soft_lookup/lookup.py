"""How scores become weights: shares of a total."""

import numpy as np

from autograder import Case, Draw, Exercise, Instead, Misconception, Property, Variant
from solutions import soft_lookup as ref

Inputs = dict[str, np.ndarray]


def _three_scores(draw: Draw) -> Inputs:
    return {"s": draw.uniform(3, low=0.2, high=2.5).round(1)}


def _several_queries(draw: Draw) -> Inputs:
    n, m = draw.sizes(2, low=3, high=7)
    return {"s": draw.uniform(n, m, low=0.05, high=2.5)}


def _one_empty_row(draw: Draw) -> Inputs:
    s = draw.uniform(3, 5, low=0.05, high=2.5)
    s[draw.integer(0, 2)] = 0.0
    return {"s": s}


def _nothing_for_one_query(draw: Draw) -> Inputs:
    return {"s": np.zeros(int(draw.sizes(1, low=3, high=7)[0]))}


def _tiny_scores(draw: Draw) -> Inputs:
    return {"s": draw.uniform(5, low=0.2, high=2.5) * 1e-30}


def _row_by_row(s):
    flat = np.atleast_2d(s)
    rows = [row / row.sum() if row.sum() > 0 else np.zeros_like(row) for row in flat]
    return np.array(rows).reshape(s.shape)


def _divide_where(s):
    total = s.sum(axis=-1, keepdims=True)
    return np.divide(s, total, out=np.zeros_like(s), where=total != 0)


def _silenced_nan(s):
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(s / s.sum(-1)[..., None])


def _guarded(s, total):
    return s / np.where(total > 0, total, 1.0)


def _shares(s, *, total=lambda s: s.sum(axis=-1, keepdims=True), of=lambda s: s, by=_guarded):
    return by(of(s), total(of(s)))


def _uniform_where_empty(s):
    total = s.sum(axis=-1, keepdims=True)
    return np.where(total > 0, _guarded(s, total), 1 / s.shape[-1])


def _in_place(s):
    total = s.sum(axis=-1, keepdims=True)
    s /= np.where(total > 0, total, 1.0)
    return s


NORMALIZE = Exercise(
    "normalize",
    title="Shares of a total",
    points=2,
    difficulty=2,
    minutes=6,
    reference=ref.normalize,
    recipe=_shares,
    cases=(
        Case("three scores", _three_scores),
        Case("several queries at once", _several_queries),
        Case("a query that found nothing", _one_empty_row, edge=0.25),
        Case("a single query that found nothing", _nothing_for_one_query, edge=0.1),
        Case("tiny scores", _tiny_scores, edge=0.15),
    ),
    properties=(Property("non_negative"), Property("sums_to_one", axis=-1)),
    hints=(
        "By what must you divide each score so that the shares add up to 1? With `n` queries there are `n` totals.",
        "Sum over the **keys**, the last axis. With `keepdims=True` this axis keeps the length 1, so each total lines up with its own "
        "row. Then think of a row whose total is 0.",
        "A row of zeros stays zero if you divide it by any number but 0. `np.where` can put a 1 in the place of each total that is 0 "
        "before you divide.",
    ),
    misconceptions=(
        Misconception(
            "normalised_over_queries",
            "normalised down the columns, so each *key's* weights sum to 1 over the queries",
            "A query shares its weight among the keys, so sum over the last axis instead of the first.",
            Instead(total=lambda s: s.sum(axis=0, keepdims=True)),
        ),
        Misconception(
            "normalised_everything",
            "divided by the sum of the whole array, so all queries together share a total of 1",
            "Every query has its own total, `sum(axis=-1, keepdims=True)`.",
            Instead(total=lambda s: s.sum()),
        ),
        Misconception(
            "lost_the_axis",
            "divided the `(n, m)` scores by `n` sums of shape `(n,)`, which NumPy tries to line up with the *last* axis",
            "Keep the summed axis. `sum(axis=-1, keepdims=True)` has shape `(n, 1)` and stretches along each row.",
            Instead(total=lambda s: s.sum(axis=-1)),
            raises=True,
        ),
        Misconception(
            "a_number_for_a_row",
            "treated each number of a single query's scores as a row, and divided it by itself",
            "With one query `s` has shape `(m,)`, so a loop over it gives numbers and not rows. A sum over the last axis "
            "works for one query and for many.",
            lambda s: np.array([part / np.where(part.sum() > 0, part.sum(), 1.0) for part in s]),
        ),
        Misconception(
            "exponentiated_first",
            "took exponentials before dividing, which gives the softmax of lesson 02",
            "The scores here are already non-negative. Divide them by their sum as they are.",
            Instead(of=np.exp),
        ),
        Misconception(
            "nothing_gives_nan",
            "divided 0 by 0 for the query that found nothing, which gives NaN",
            "Replace a zero sum before you divide, for example by 1. The row then stays zero.",
            Instead(by=lambda s, total: s / total),
        ),
        Misconception(
            "nothing_gives_uniform",
            "gave every key the same weight where all scores are zero",
            "Equal weights would say that all keys fit equally well. A query that finds nothing keeps weights of 0, so nothing is added to its word.",
            _uniform_where_empty,
        ),
        Misconception(
            "added_an_epsilon",
            "treated tiny scores as zero, by adding a constant to the sum, by a lower limit for it, or by a test with a tolerance",
            "Only a sum of exactly zero is special. Divide every other row by its true sum.",
            Instead(by=lambda s, total: s / (total + 1e-12)),
        ),
        Misconception(
            "overwrote_the_scores",
            "divided in place with `s /= …`, which overwrites the caller's scores",
            "Return a new array, `s / …`.",
            _in_place,
        ),
    ),
    variants=(
        Variant("row_by_row", _row_by_row),
        Variant("divide_where", _divide_where),
        Variant("nan_to_num", _silenced_nan),
        Variant("transposed", lambda s: (s.T / np.where(s.T.sum(axis=0) > 0, s.T.sum(axis=0), 1)).T),
    ),
)
