"""Scores for queries and keys of unequal lengths: bilinear and additive."""

import math

import numpy as np

from autograder import Case, Draw, Exercise, Misconception, Variant
from solutions import scoring_functions as ref

Inputs = dict[str, np.ndarray]


def _bilinear_by_hand(draw: Draw) -> Inputs:
    Q, M, K = (draw.rng.integers(-2, 3, shape).astype(float) for shape in ((2, 3), (3, 4), (5, 4)))
    M[0, :3] = 1.0, -1.0, 2.0
    return {"Q": Q + 0.5, "M": M, "K": K}


def _bilinear_larger(draw: Draw) -> Inputs:
    n, m, d_q, d_k = draw.sizes(4, low=3)
    return {"Q": draw.normal(n, d_q), "M": draw.normal(d_q, d_k), "K": draw.normal(m, d_k)}


def _bilinear_square(draw: Draw) -> Inputs:
    """M and K are square: here a transpose too many or too few raises no error."""
    n, d = draw.sizes(2, low=3, high=7)
    return {"Q": draw.normal(n, d), "M": draw.normal(d, d), "K": draw.normal(d, d)}


BILINEAR_SCORES = Exercise(
    "bilinear_scores",
    title="Bilinear scores: a matrix between query and key",
    points=1,
    reference=ref.bilinear_scores,
    cases=(
        Case("two queries, five keys", _bilinear_by_hand),
        Case("more of everything", _bilinear_larger),
        Case("square M and K", _bilinear_square),
    ),
    hints=(
        "For one pair: $M$ has one row per entry of $q$ and one column per entry of $k$. What shape has $q^\\top M$?",
        "`Q @ M` translates all queries at once into vectors as long as a key. From there it is the dot product again.",
        "`Q @ M @ K.T`.",
    ),
    misconceptions=(
        Misconception(
            "M_transposed",
            "used $M$ transposed. With unequal widths that raises an error; with equal ones it passes in silence",
            "The rows of `M` belong to the query: `Q @ M`. (Were $M$ symmetric, nobody would notice.)",
            lambda Q, M, K: Q @ M.T @ K.T,
        ),
        Misconception(
            "M_left_out",
            "left $M$ out: that is the plain dot product, which unequal widths do not allow",
            "Translate the queries first, `Q @ M`, then take dot products with the keys.",
            lambda Q, M, K: Q @ K.T,
        ),
        Misconception(
            "keys_by_queries",
            "put the keys on the rows: your result is (key, query)",
            "One row per **query**: start from `Q` on the left.",
            lambda Q, M, K: (Q @ M @ K.T).T,
        ),
        Misconception(
            "K_not_transposed",
            "multiplied by `K` as it stands: only a square `K` allows that, and then the entries of different keys are mixed",
            "The keys are the rows of `K`. Columns are what a product needs on its right: `K.T`.",
            lambda Q, M, K: Q @ M @ K,
        ),
        Misconception(
            "already_scaled",
            "divided by $\\sqrt{d_k}$",
            "No scale here: $M$ is learned and can take on any factor by itself.",
            lambda Q, M, K: Q @ M @ K.T / math.sqrt(K.shape[1]),
        ),
    ),
    variants=(
        Variant("keys_first", lambda Q, M, K: Q @ (M @ K.T)),
        Variant("einsum", lambda Q, M, K: np.einsum("ia,ab,jb->ij", Q, M, K)),
        Variant("translated_keys", lambda Q, M, K: ref.dot_scores(Q, K @ M.T)),
        Variant("loops", lambda Q, M, K: np.array([[q @ M @ k for k in K] for q in Q])),
    ),
)

PREDICT_TANH = Exercise(
    "predict_tanh",
    title="Predict: without the tanh",
    points=0.5,
    choices={
        "a": "nothing much: the tanh only keeps the scores bounded",
        "b": "every query gets the same weights",
        "c": "all weights are equal",
        "d": "they become the weights of a bilinear score",
    },
    reveal="Every query gets the same weights. Without the tanh the score is a sum of two parts, one from the query and one from "
    "the key. The query's part is the same for all keys, and the softmax cancels it. Only the tanh lets the two meet.",
)


def _additive_by_hand(draw: Draw) -> Inputs:
    """The hidden units' inputs are small whole numbers and halves."""
    Q = draw.rng.permutation([[1.0], [-0.5]])
    K = draw.rng.permutation([[1.0, 0.0], [0.0, -1.0], [0.5, 0.5]])
    Wq, Wk = np.array([[1.0, -1.0]]), draw.choice([-1, 1]) * np.array([[1.0, 0.0], [-1.0, 2.0]])
    return {"Q": Q, "K": K, "Wq": Wq, "Wk": Wk, "wv": np.array([2.0, float(draw.integer(-3, -2))])}


def _additive_larger(draw: Draw) -> Inputs:
    n, m, d_q, d_k, h = (int(size) for size in draw.rng.permutation([2, 3, 5, 7, 11]))
    Wq, Wk = draw.normal(d_q, h) / math.sqrt(d_q), draw.normal(d_k, h) / math.sqrt(d_k)
    return {"Q": draw.normal(n, d_q), "K": draw.normal(m, d_k), "Wq": Wq, "Wk": Wk, "wv": draw.normal(h)}


def _additive_equal_counts(draw: Draw) -> Inputs:
    """n = m: here projections that were added without new axes raise no error."""
    n, d_q, d_k, h = (int(size) for size in draw.rng.permutation([2, 3, 5, 7]))
    Wq, Wk = draw.normal(d_q, h) / math.sqrt(d_q), draw.normal(d_k, h) / math.sqrt(d_k)
    return {"Q": draw.normal(n, d_q), "K": draw.normal(n, d_k), "Wq": Wq, "Wk": Wk, "wv": draw.normal(h)}


def _hidden(Q, K, Wq, Wk):
    return (Q @ Wq)[:, None] + (K @ Wk)[None]


def _additive_loops(Q, K, Wq, Wk, wv):
    S = np.empty((len(Q), len(K)))
    for i in range(len(Q)):
        for j in range(len(K)):
            S[i, j] = sum(wv[u] * math.tanh(Q[i] @ Wq[:, u] + K[j] @ Wk[:, u]) for u in range(len(wv)))
    return S


def _additive_concatenated(Q, K, Wq, Wk, wv):
    """Luong's "concat": one matrix on the pair [q; k]."""
    n, m = len(Q), len(K)
    pairs = np.concatenate([np.repeat(Q, m, axis=0), np.tile(K, (n, 1))], axis=1)
    return (np.tanh(pairs @ np.vstack([Wq, Wk])) @ wv).reshape(n, m)


ADDITIVE_SCORES = Exercise(
    "additive_scores",
    title="Additive scores: a small network for each pair",
    points=2,
    reference=ref.additive_scores,
    cases=(
        Case("two queries, three keys", _additive_by_hand),
        Case("more of everything", _additive_larger),
        Case("as many keys as queries", _additive_equal_counts),
    ),
    hints=(
        "Every *pair* has its own hidden vector of `h` units. Which shape holds all of them, and how can a sum of an `(n, h)` "
        "and an `(m, h)` array fill it?",
        "Project first: `Q @ Wq` and `K @ Wk`. Give them the shapes `(n, 1, h)` and `(1, m, h)`, add, take the tanh, and only "
        "then multiply by `wv` and sum over the last axis.",
        "`np.tanh((Q @ Wq)[:, None, :] + (K @ Wk)[None, :, :]) @ wv`.",
    ),
    misconceptions=(
        Misconception(
            "tanh_outside",
            "took the tanh of the finished score, not of the hidden units",
            "First the tanh, unit by unit, then the weighted sum with $w_v$.",
            lambda Q, K, Wq, Wk, wv: np.tanh(_hidden(Q, K, Wq, Wk) @ wv),
        ),
        Misconception(
            "tanh_on_each_side",
            "took the tanh of query and key separately and added after: the query's part is then the same for all keys",
            "Add first: $\\tanh(a + b)$ is not $\\tanh(a) + \\tanh(b)$. Only inside the tanh do query and key meet.",
            lambda Q, K, Wq, Wk, wv: (np.tanh(Q @ Wq)[:, None] + np.tanh(K @ Wk)[None]) @ wv,
        ),
        Misconception(
            "no_tanh",
            "left the tanh out: the query's part is then the same for all keys, and the softmax cancels it",
            "Take the tanh of the sum, before $w_v$.",
            lambda Q, K, Wq, Wk, wv: _hidden(Q, K, Wq, Wk) @ wv,
        ),
        Misconception(
            "tanh_before_projection",
            "took the tanh of `Q` and `K` before the projections",
            "Project and add first. The tanh acts on the `h` hidden units.",
            lambda Q, K, Wq, Wk, wv: _hidden(np.tanh(Q), np.tanh(K), Wq, Wk) @ wv,
        ),
        Misconception(
            "multiplied_not_added",
            "multiplied the projected query and key",
            "The score is called additive: add the two projections inside the tanh.",
            lambda Q, K, Wq, Wk, wv: np.tanh((Q @ Wq)[:, None] * (K @ Wk)[None]) @ wv,
        ),
        Misconception(
            "not_all_pairs",
            "added the two projections row by row: that pairs query 1 with key 1, query 2 with key 2, and leaves out the rest",
            "Give them the shapes `(n, 1, h)` and `(1, m, h)`: broadcasting then forms every pair.",
            lambda Q, K, Wq, Wk, wv: np.tanh(Q @ Wq + K @ Wk) @ wv,
        ),
        Misconception(
            "wv_left_out",
            "summed the hidden units without $w_v$: all of them count alike",
            "Weight each hidden unit by its entry of $w_v$: `hidden @ wv`.",
            lambda Q, K, Wq, Wk, wv: np.tanh(_hidden(Q, K, Wq, Wk)).sum(axis=-1),
        ),
    ),
    variants=(
        Variant("loops", _additive_loops),
        Variant("concatenated_pairs", _additive_concatenated),
        Variant("einsum", lambda Q, K, Wq, Wk, wv: np.einsum("nmh,h->nm", np.tanh(_hidden(Q, K, Wq, Wk)), wv)),
    ),
)
