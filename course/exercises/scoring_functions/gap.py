"""What the step from the Gaussian to the dot product costs."""

import numpy as np

from autograder import Case, Draw, Exercise, Misconception, Property, Variant
from solutions import scoring_functions as ref

Inputs = dict[str, np.ndarray]

PREDICT_DROP = Exercise(
    "predict_drop",
    title="Predict: without the key norms",
    points=0.5,
    choices={
        "a": "by less than 0.01",
        "b": "by about a quarter",
        "c": "by nearly 1",
        "d": "not at all, up to rounding",
    },
    holds="b",
    reveal="By about a quarter: 0.24 in the median of such draws, and 0.56 in the worst of 300. Half the squared norm varies from "
    "key to key 0.7 times as much as the dot product does. Only where all keys have the same norm is the answer (d), and only "
    "without the division by the root of d is it (c).",
)


def _first_of(draw: Draw, wanted) -> Inputs:
    """Keep drawing until the weights are far from one-hot and `wanted` holds: at most a few dozen draws."""
    while True:
        n, m, d = draw.sizes(3, low=2, high=7)
        given = {"Q": 1.5 * draw.normal(n, d), "K": 1.5 * draw.normal(m, d)}
        if wanted(_difference(given["Q"], given["K"])):
            return given


def _dot(Q, K):
    return Q @ K.T


def _weights(Q, K, score, *, axis=-1):
    return ref.softmax(score(Q, K) / np.sqrt(Q.shape[1]), axis)


def _difference(Q, K, *, axis=-1):
    return _weights(Q, K, ref.gaussian_scores, axis=axis) - _weights(Q, K, _dot, axis=axis)


def _a_weight_falls_most(draw: Draw) -> Inputs:
    """The largest change is a fall, clearly larger than any rise, and clearly less than half of some row's changes together.

    The first finds out a forgotten absolute value, the second a sum in place of a maximum (with three keys the two agree).
    """
    return _first_of(
        draw,
        lambda change: -change.min() > change.max() + 0.02 > 0.1 and np.abs(change).sum(1).max() / 2 > 0.02 - change.min(),
    )


def _two_by_three(draw: Draw) -> Inputs:
    return {"Q": draw.rng.integers(-1, 2, (2, 2)) + 0.5, "K": draw.rng.permutation([[1.0, 0.0], [0.0, -2.0], [1.0, 1.0]])}


def _equal_norms(draw: Draw) -> Inputs:
    K = draw.normal(5, 3)
    return {"Q": draw.normal(2, 3), "K": 1.5 * K / np.linalg.norm(K, axis=1, keepdims=True)}


def _gap_by_loops(Q, K):
    worst = 0.0
    for q in Q:
        a = np.exp(-0.5 * ((K - q) ** 2).sum(1) / len(q) ** 0.5)
        b = np.exp(K @ q / len(q) ** 0.5)
        worst = max(worst, *np.abs(a / a.sum() - b / b.sum()))
    return worst


def _with_root(Q, K, root):
    a, b = ref.softmax(ref.gaussian_scores(Q, K) / root), ref.softmax(_dot(Q, K) / root)
    return float(np.abs(a - b).max())


def _one_side_scaled(Q, K):
    a, b = ref.softmax(ref.gaussian_scores(Q, K)), ref.softmax(_dot(Q, K) / np.sqrt(Q.shape[1]))
    return float(np.abs(a - b).max())


WEIGHT_GAP = Exercise(
    "weight_gap",
    title="What dropping the key norms changes",
    points=2,
    kind="use",
    difficulty=2,
    minutes=9,
    reference=ref.weight_gap,
    cases=(
        Case("two queries, three keys", _two_by_three),
        Case("a weight falls most", _a_weight_falls_most),
        Case("keys of equal norm", _equal_norms, edge=0.25),
    ),
    properties=(Property("non_negative"), Property("at_most_one")),
    hints=(
        "Two tables of weights, `(n, m)` each. Compare weights, not scores: the scores differ by $\\lVert q \\rVert^2/2$ at least.",
        "Divide both tables of scores, your `gaussian_scores(Q, K)` and the dot products, by $\\sqrt{d}$. Take your `softmax` of each, "
        "along the keys, and compare entry by entry.",
        "Of the difference of the two tables of weights you want one number: the largest of its absolute values "
        "(`np.abs`, then `max` without an axis). `d` is the number of columns of `Q`.",
    ),
    misconceptions=(
        Misconception(
            "scores_compared",
            "compared the scores, not the weights",
            "Scores may differ by any constant per query without changing a weight. Take the softmax of both first.",
            lambda Q, K: float(np.abs(ref.gaussian_scores(Q, K) - _dot(Q, K)).max() / np.sqrt(Q.shape[1])),
        ),
        Misconception(
            "softmax_over_queries",
            "took the softmax over the queries (axis 0)",
            "Each query shares out its weight among the keys: the softmax runs along the last axis.",
            lambda Q, K: float(np.abs(_difference(Q, K, axis=0)).max()),
        ),
        Misconception(
            "not_scaled",
            "left out the division by $\\sqrt{d}$: the weights are closer to one-hot, and the gap is far too large",
            "Divide both tables of scores by $\\sqrt{d}$ before the softmax.",
            lambda Q, K: _with_root(Q, K, 1.0),
        ),
        Misconception(
            "divided_by_d",
            "divided by $d$ and not by its root",
            "The scale is $1 / \\sqrt{d}$.",
            lambda Q, K: _with_root(Q, K, Q.shape[1]),
        ),
        Misconception(
            "one_side_scaled",
            "divided the dot products only: then two different scales are compared, not two scores",
            "Divide both tables by $\\sqrt{d}$.",
            _one_side_scaled,
        ),
        Misconception(
            "counted_the_keys",
            "took $d$ for the number of keys",
            "$d$ is the length of a vector: the number of columns.",
            lambda Q, K: _with_root(Q, K, np.sqrt(len(K))),
        ),
        Misconception(
            "no_absolute_value",
            "took the largest *signed* difference: a weight that falls by more than any other rises goes unseen",
            "Take `np.abs` of the differences before `max`.",
            lambda Q, K: float(_difference(Q, K).max()),
        ),
        Misconception(
            "maxima_compared",
            "compared the largest weights of the two tables: they may belong to different queries and keys",
            "First the difference of the tables, entry by entry, then its largest absolute value.",
            lambda Q, K: abs(float(_weights(Q, K, ref.gaussian_scores).max() - _weights(Q, K, _dot).max())),
        ),
        Misconception(
            "mean_not_maximum",
            "averaged the changes",
            "The question is the worst weight: take the maximum.",
            lambda Q, K: float(np.abs(_difference(Q, K)).mean()),
        ),
        Misconception(
            "one_number_per_query",
            "stopped at one number per query",
            "Take the maximum over queries as well as keys: `max()` without an `axis`.",
            lambda Q, K: np.abs(_difference(Q, K)).max(axis=-1),
        ),
    ),
    variants=(
        Variant("loops", _gap_by_loops),
        Variant("largest_of_both_signs", lambda Q, K: max(_difference(Q, K).max(), -_difference(Q, K).min())),
        Variant("infinity_norm", lambda Q, K: np.linalg.norm(_difference(Q, K).ravel(), np.inf)),
    ),
)
