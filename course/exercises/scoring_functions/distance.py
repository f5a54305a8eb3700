"""From the Gaussian to the dot product, and what the step costs."""

import math

import numpy as np

from autograder import Case, Draw, Exercise, Misconception, Property, Variant
from solutions import scoring_functions as ref

Inputs = dict[str, np.ndarray]


def _by_hand(draw: Draw) -> Inputs:
    """Entries in -2..2, no two rows equal, no zero row."""
    rows = [(a, b, c) for a in (-2, -1, 1, 2) for b in (-1, 0, 1) for c in (-2, 0, 1)]
    drawn = np.array(rows, dtype=float)[draw.rng.permutation(len(rows))[:7]]
    return {"Q": drawn[:2], "K": drawn[2:]}


def _larger(draw: Draw) -> Inputs:
    n, m, d = draw.sizes(3, low=3)
    return {"Q": draw.normal(n, d), "K": draw.normal(m, d)}


CASES = (Case("two queries, five keys", _by_hand), Case("more of everything", _larger))


def _squares(X):
    return (X**2).sum(axis=-1)


def _log_kernel(Q, K):
    S = np.zeros((len(Q), len(K)))
    for i, q in enumerate(Q):
        S[i] = [-sum((a - b) ** 2 for a, b in zip(q, k, strict=True)) / 2 for k in K]
    return S


def _one_feature_more(Q, K):
    """The Gaussian's exponent, up to |q|^2/2, is a dot product of vectors with one more entry."""
    longer_q = np.hstack([Q, np.ones((len(Q), 1))])
    longer_k = np.hstack([K, -_squares(K)[:, None] / 2])
    return longer_q @ longer_k.T - _squares(Q)[:, None] / 2


GAUSSIAN_SCORES = Exercise(
    "gaussian_scores",
    title="The Gaussian's exponent, for all pairs",
    points=2,
    reference=ref.gaussian_scores,
    cases=CASES,
    hints=(
        "Multiply out $\\lVert q - k \\rVert^2$ on paper. Which of the three terms needs both a query and a key?",
        "$-\\frac{1}{2}\\lVert q - k \\rVert^2 = q \\cdot k - \\frac{1}{2}\\lVert q \\rVert^2 - \\frac{1}{2}\\lVert k \\rVert^2$. "
        "The first term, for all pairs, is one matrix product. The second is a column (one number per query), the third a row.",
        "`Q @ K.T - (Q**2).sum(axis=-1)[:, None] / 2 - (K**2).sum(axis=-1)[None, :] / 2`.",
    ),
    misconceptions=(
        Misconception(
            "kernel_not_exponent",
            "took the exponential: that is the kernel of lesson 01, and here its exponent is wanted",
            "Return $-\\frac{1}{2}\\lVert q - k \\rVert^2$ itself. The softmax takes the exponential later, and only once.",
            lambda Q, K: np.exp(ref.gaussian_scores(Q, K)),
        ),
        Misconception(
            "no_half",
            "left out the factor 1/2",
            "Halve the whole squared distance; in its expansion the product $q \\cdot k$ then has the factor 1.",
            lambda Q, K: 2 * ref.gaussian_scores(Q, K),
        ),
        Misconception(
            "cross_term_halved",
            "halved the product $q \\cdot k$, too: the 2 of $2\\,q \\cdot k$ got lost in the expansion",
            "$\\lVert q - k \\rVert^2 = \\lVert q \\rVert^2 - 2\\,q \\cdot k + \\lVert k \\rVert^2$: halving leaves the product whole.",
            lambda Q, K: (Q @ K.T - _squares(Q)[:, None] - _squares(K)) / 2,
        ),
        Misconception(
            "key_norms_dropped",
            "dropped $-\\frac{1}{2}\\lVert k \\rVert^2$, which differs from key to key",
            "Keep all three terms here. Whether this one may go is the question of the next section.",
            lambda Q, K: Q @ K.T - _squares(Q)[:, None] / 2,
        ),
        Misconception(
            "query_norms_dropped",
            "dropped $-\\frac{1}{2}\\lVert q \\rVert^2$. The softmax would not mind, but these are not the scores asked for",
            "Keep all three terms: a query's score with an equal key is 0.",
            lambda Q, K: Q @ K.T - _squares(K) / 2,
        ),
        Misconception(
            "norms_do_not_line_up",
            "subtracted the queries' norms along the wrong axis: they are `n` numbers, and the last axis counts `m` keys",
            "Make them a column, shape `(n, 1)`: `(Q**2).sum(axis=-1)[:, None]`, or sum with `keepdims=True`.",
            lambda Q, K: Q @ K.T - _squares(Q) / 2 - _squares(K) / 2,
        ),
    ),
    variants=(
        Variant("broadcast", lambda Q, K: -0.5 * ((Q[:, None] - K[None]) ** 2).sum(-1)),
        Variant("loops", _log_kernel),
        Variant("one_feature_more", _one_feature_more),
        Variant("einsum", lambda Q, K: np.einsum("nd,md->nm", Q, K) - 0.5 * np.add.outer(_squares(Q), _squares(K))),
    ),
)

DOT_SCORES = Exercise(
    "dot_scores",
    title="Dot products of every query with every key",
    points=1,
    reference=ref.dot_scores,
    cases=CASES,
    hints=(
        "`n` queries and `m` keys make `n * m` numbers. Which product of two matrices has all of them?",
        "In `Q @ B`, rows of `Q` meet columns of `B`. The keys are the **rows** of `K`: turn it over.",
        "`Q @ K.T`.",
    ),
    misconceptions=(
        Misconception(
            "keys_by_queries",
            "put the keys on the rows: your result is (key, query)",
            "One row per **query**: `Q` stands on the left of the product, and `K` is the one to transpose.",
            lambda Q, K: K @ Q.T,
        ),
        Misconception(
            "reshaped_not_transposed",
            "reshaped `K` to `(d, m)`: the shape is right, but the entries of different keys are mixed",
            "`reshape` reads the same numbers in the same order into other rows. Use `K.T`, which swaps the axes.",
            lambda Q, K: Q @ K.reshape(K.shape[::-1]),
        ),
        Misconception(
            "cosine",
            "divided by the norms: these are cosines",
            "A dot product keeps the lengths of its vectors. Don't normalise anything.",
            lambda Q, K: (Q / np.linalg.norm(Q, axis=1, keepdims=True)) @ (K / np.linalg.norm(K, axis=1, keepdims=True)).T,
        ),
        Misconception(
            "already_scaled",
            "divided by $\\sqrt{d}$ already",
            "That is the topic of lesson 03. Here the plain dot products are wanted.",
            lambda Q, K: Q @ K.T / math.sqrt(K.shape[1]),
        ),
        Misconception(
            "already_weights",
            "applied the softmax already: your rows sum to 1",
            "Return the scores. Turning them into weights is the softmax's part.",
            lambda Q, K: ref.softmax(Q @ K.T),
        ),
    ),
    variants=(
        Variant("einsum", lambda Q, K: np.einsum("id,jd->ij", Q, K)),
        Variant("broadcast", lambda Q, K: (Q[:, None, :] * K[None, :, :]).sum(axis=-1)),
        Variant("loops", lambda Q, K: np.array([[float(np.dot(q, k)) for k in K] for q in Q])),
    ),
)

PREDICT_DROP = Exercise(
    "predict_drop",
    title="Predict: without the key norms",
    points=0.5,
    choices={
        "a": "by less than 0.01",
        "b": "by about 0.1",
        "c": "by more than 0.5",
        "d": "not at all, up to rounding",
    },
    reveal="More than 0.5: 0.56 for these keys. Half the squared norm varies from key to key 0.7 times as much as the dot product "
    "itself does, so it often decides which key wins. Only where all keys have the same norm is the answer (d).",
)


def _first_of(draw: Draw, wanted) -> Inputs:
    """Keep drawing until the weights are far from one-hot and `wanted` holds: at most a few dozen draws."""
    while True:
        n, m, d = draw.sizes(3, low=2, high=7)
        given = {"Q": draw.normal(n, d, scale=0.8), "K": draw.normal(m, d)}
        if wanted(_difference(given["Q"], given["K"])):
            return given


def _difference(Q, K):
    return ref.softmax(ref.gaussian_scores(Q, K)) - ref.softmax(ref.dot_scores(Q, K))


def _a_weight_falls_most(draw: Draw) -> Inputs:
    """The largest change is a fall, clearly larger than the largest rise: who forgets the absolute value is found out."""
    return _first_of(draw, lambda change: -change.min() > change.max() + 0.02 > 0.1)


def _two_by_three(draw: Draw) -> Inputs:
    return {"Q": draw.rng.integers(-1, 2, (2, 2)) + 0.5, "K": draw.rng.permutation([[1.0, 0.0], [0.0, -2.0], [1.0, 1.0]])}


def _equal_norms(draw: Draw) -> Inputs:
    K = draw.normal(5, 3)
    return {"Q": draw.normal(2, 3), "K": 1.5 * K / np.linalg.norm(K, axis=1, keepdims=True)}


def _gap_by_loops(Q, K):
    worst = 0.0
    for q in Q:
        a, b = np.exp(-0.5 * ((K - q) ** 2).sum(1)), np.exp(K @ q)
        worst = max(worst, *np.abs(a / a.sum() - b / b.sum()))
    return worst


def _over_queries(Q, K):
    return float(np.abs(ref.softmax(ref.gaussian_scores(Q, K), 0) - ref.softmax(ref.dot_scores(Q, K), 0)).max())


WEIGHT_GAP = Exercise(
    "weight_gap",
    title="What dropping the key norms changes",
    points=1,
    reference=ref.weight_gap,
    cases=(
        Case("two queries, three keys", _two_by_three),
        Case("a weight falls most", _a_weight_falls_most),
        Case("keys of equal norm", _equal_norms, edge=0.25),
    ),
    properties=(Property("non_negative"), Property("at_most_one")),
    hints=(
        "Two tables of weights, `(n, m)` each. Compare weights, not scores: the scores differ by $\\lVert q \\rVert^2/2$ at least.",
        "Apply your `softmax` to `gaussian_scores(Q, K)` and to `dot_scores(Q, K)`, along the keys. Subtract, take absolute "
        "values, and then the largest entry.",
        "`float(np.abs(softmax(gaussian_scores(Q, K)) - softmax(dot_scores(Q, K))).max())`.",
    ),
    misconceptions=(
        Misconception(
            "scores_compared",
            "compared the scores, not the weights",
            "Scores may differ by any constant per query without changing a weight. Take the softmax of both first.",
            lambda Q, K: float(np.abs(ref.gaussian_scores(Q, K) - ref.dot_scores(Q, K)).max()),
        ),
        Misconception(
            "softmax_over_queries",
            "took the softmax over the queries (axis 0)",
            "Each query shares out its weight among the keys: the softmax runs along the last axis.",
            _over_queries,
        ),
        Misconception(
            "no_absolute_value",
            "took the largest *signed* difference: a weight that falls by more than any other rises goes unseen",
            "Take `np.abs` of the differences before `max`.",
            lambda Q, K: float(_difference(Q, K).max()),
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
