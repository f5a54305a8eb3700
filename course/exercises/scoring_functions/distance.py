"""The Gaussian's exponent, for all pairs."""

import numpy as np

from autograder import After, Case, Draw, Exercise, Instead, Misconception, Variant
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


def _as_many_keys_as_queries(draw: Draw) -> Inputs:
    """n = m: here norms along the wrong axis raise no error."""
    n, d = draw.sizes(2, low=3, high=7)
    return {"Q": draw.normal(n, d), "K": draw.normal(n, d)}


def _many_features(draw: Draw) -> Inputs:
    """Many small whole entries: a table of all differences is several times as large as both inputs."""
    return {name: draw.rng.integers(-2, 3, size=(7, 101)).astype(float) for name in ("Q", "K")}


CASES = (Case("two queries, five keys", _by_hand), Case("more of everything", _larger))


def _squares(X):
    return (X**2).sum(axis=-1)


def _expanded(Q, K, *, cross=1.0, of_queries=0.5, of_keys=0.5, norms=_squares, column=lambda norms: norms[..., None]):
    """The square, multiplied out: shares of the products and of both squared norms."""
    return cross * (Q @ K.T) - of_queries * column(norms(Q)) - of_keys * norms(K)


def _differences(Q, K):
    return -((Q[:, None, :] - K[None, :, :]) ** 2).sum(axis=-1) / 2


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
    title="All pairs at once",
    points=2,
    difficulty=3,
    minutes=8,
    reference=ref.gaussian_scores,
    recipe=_expanded,
    cases=(
        *CASES,
        Case("as many keys as queries", _as_many_keys_as_queries),
        Case("many features, and no room for a table of differences", _many_features, room=5.0, edge=0.3),
    ),
    hints=(
        "Multiply out $\\lVert q - k \\rVert^2$ on paper. Which of the three terms needs both a query and a key?",
        "$-\\frac{1}{2}\\lVert q - k \\rVert^2 = q \\cdot k - \\frac{1}{2}\\lVert q \\rVert^2 - \\frac{1}{2}\\lVert k \\rVert^2$. "
        "The first term, for all pairs, is one matrix product. The second is a column with one number per query, and the third is a row.",
        "`(Q**2).sum(axis=-1)` holds the squared norms of the queries. To act as a column on the `(n, m)` products it needs a "
        "new axis at the end, `[:, None]`. The keys' norms already act as a row.",
    ),
    misconceptions=(
        Misconception(
            "kernel_not_exponent",
            "took the exponential, where only its exponent is asked for",
            "Return $-\\frac{1}{2}\\lVert q - k \\rVert^2$ itself. The softmax takes the exponential later, and only once.",
            After(lambda out, **_: np.exp(out)),
        ),
        Misconception(
            "all_differences",
            "built the array of all differences, (n, m, d), which is several times as large as queries and keys together",
            "Multiply the square out. Then one matrix product and two sums of squares are enough.",
            _differences,
            raises=True,
        ),
        Misconception(
            "no_half",
            "left out the factor 1/2",
            "Halve the whole squared distance. In its expansion the product $q \\cdot k$ then has the factor 1.",
            After(lambda out, **_: 2 * out),
        ),
        Misconception(
            "divided_by_d",
            "multiplied the squared distance by $1/d$ where 1/2 belongs",
            "The exponent is $-\\frac{1}{2}\\lVert q - k \\rVert^2$, however many features there are. Some libraries use $1/d$ by default.",
            After(lambda out, Q, **_: 2 * out / Q.shape[-1]),
        ),
        Misconception(
            "cross_term_halved",
            "halved the product $q \\cdot k$ as well, although the expansion contains it twice",
            "Since $\\lVert q - k \\rVert^2 = \\lVert q \\rVert^2 - 2\\,q \\cdot k + \\lVert k \\rVert^2$, half of it contains the product once.",
            Instead(cross=0.5),
        ),
        Misconception(
            "norms_not_halved",
            "halved neither of the two squared norms",
            "The 1/2 belongs to the whole square. It cancels the 2 of $2\\,q \\cdot k$, and both norms keep it.",
            Instead(of_queries=1.0, of_keys=1.0),
        ),
        Misconception(
            "norms_not_squared",
            "used the norms themselves where their squares belong",
            "`np.linalg.norm` takes a root at the end. Use the sums of squares, `(Q**2).sum(axis=-1)`.",
            Instead(norms=lambda X: np.sqrt(_squares(X))),
        ),
        Misconception(
            "no_minus",
            "lost the minus sign, so your scores grow with the distance",
            "The best key is the nearest one. Return $-\\frac{1}{2}\\lVert q - k \\rVert^2$, which is never positive.",
            After(lambda out, **_: -out),
        ),
        Misconception(
            "key_norms_dropped",
            "dropped $-\\frac{1}{2}\\lVert k \\rVert^2$, which differs from key to key",
            "Keep all three terms here. The next exercise asks when this one may be dropped.",
            Instead(of_keys=0.0),
        ),
        Misconception(
            "query_norms_dropped",
            "dropped $-\\frac{1}{2}\\lVert q \\rVert^2$, which a softmax would forgive, but which belongs to these scores",
            "Keep all three terms. The score of a query with an equal key is 0.",
            Instead(of_queries=0.0),
        ),
        Misconception(
            "norms_do_not_line_up",
            "subtracted the norms of the `n` queries along the axis of the `m` keys",
            "Make them a column of shape `(n, 1)` with `(Q**2).sum(axis=-1)[:, None]`, or sum with `keepdims=True`.",
            Instead(column=lambda norms: norms),
        ),
        Misconception(
            "cross_term_doubled",
            "halved only the norms and kept the 2 of $2\\,q \\cdot k$",
            "The 1/2 belongs to the whole square, so the product $q \\cdot k$ has the factor 1.",
            Instead(cross=2.0),
        ),
        Misconception(
            "cross_term_subtracted",
            "gave the product the wrong sign, as in $\\lVert q + k \\rVert^2$",
            "$-\\frac{1}{2}\\lVert q - k \\rVert^2$ contains $+\\,q \\cdot k$, so similar vectors score high.",
            Instead(cross=-1.0),
        ),
        Misconception(
            "norms_added",
            "added the squared norms instead of subtracting them",
            "Both squared norms are subtracted, so the score of a vector with itself is 0.",
            Instead(of_queries=-0.5, of_keys=-0.5),
        ),
        Misconception(
            "one_norm_for_all",
            "summed the squares of the whole array into one number, although each row has its own norm",
            "Sum only over the features, with `axis=-1`.",
            Instead(norms=lambda X: np.sum(X**2)),
        ),
        Misconception(
            "divided_by_the_root_of_d",
            "divided by $\\sqrt{d}$ as well",
            "The scale belongs to the dot product. Return the exponent of the Gaussian as it is.",
            After(lambda out, Q, **_: out / np.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "keys_in_the_rows",
            "returned the table transposed, with a row for each key",
            "Each row belongs to a query, as in `Q @ K.T`.",
            After(lambda out, **_: out.T),
        ),
    ),
    variants=(
        Variant("loops", _log_kernel),
        Variant("one_feature_more", _one_feature_more),
        Variant("einsum", lambda Q, K: np.einsum("nd,md->nm", Q, K) - 0.5 * np.add.outer(_squares(Q), _squares(K))),
    ),
)
