"""A score by a small network."""

import math

import numpy as np

from autograder import After, Case, Draw, Exercise, Instead, Misconception, Prediction, Variant
from solutions import scoring_functions as ref

Inputs = dict[str, np.ndarray]


PREDICT_TANH = Prediction(
    "predict_tanh",
    title="Predict: without the tanh",
    points=0.5,
    choices={
        "a": "nothing much, because the tanh only keeps the scores bounded",
        "b": "every query gets the same weights",
        "c": "all weights of a query are equal",
        "d": "they become the weights of a bilinear score",
    },
    holds="b",
    reveal="Every query gets the same weights. Without the tanh the score is a sum of two parts, one from the query and one from "
    "the key. The query's part is the same for all keys, and the softmax cancels it. Only the tanh lets the two meet.",
)


def _additive_by_hand(draw: Draw) -> Inputs:
    """The hidden units' inputs are small whole numbers and halves."""
    Q = draw.rng.permutation([[1.0], [-0.5]])
    K = draw.rng.permutation([[1.0, 0.0], [0.0, -1.0], [0.5, 0.5]])
    W_Q, W_K = np.array([[1.0, -1.0]]), draw.choice([-1, 1]) * np.array([[1.0, 0.0], [-1.0, 2.0]])
    return {"Q": Q, "K": K, "W_Q": W_Q, "W_K": W_K, "wv": np.array([2.0, float(draw.integer(-3, -2))])}


def _additive_larger(draw: Draw) -> Inputs:
    n, m, d_q, d_k, h = (int(size) for size in draw.rng.permutation([2, 3, 5, 7, 11]))
    W_Q, W_K = draw.normal(d_q, h) / math.sqrt(d_q), draw.normal(d_k, h) / math.sqrt(d_k)
    return {"Q": draw.normal(n, d_q), "K": draw.normal(m, d_k), "W_Q": W_Q, "W_K": W_K, "wv": draw.normal(h)}


def _additive_equal_counts(draw: Draw) -> Inputs:
    """n = m: here projections that were added without new axes raise no error."""
    n, d_q, d_k, h = (int(size) for size in draw.rng.permutation([2, 3, 5, 7]))
    W_Q, W_K = draw.normal(d_q, h) / math.sqrt(d_q), draw.normal(d_k, h) / math.sqrt(d_k)
    return {"Q": draw.normal(n, d_q), "K": draw.normal(n, d_k), "W_Q": W_Q, "W_K": W_K, "wv": draw.normal(h)}


def _hidden(Q, K, W_Q, W_K):
    return (Q @ W_Q)[:, None] + (K @ W_K)[None]


def _pair_by_pair(n, m):
    """Which query and which key each entry of the table is of."""
    i, j = np.divmod(np.arange(n * m), m)
    return i, j


def _additive(
    Q,
    K,
    W_Q,
    W_K,
    wv,
    *,
    pairs=_pair_by_pair,
    join=np.add,
    inside=np.tanh,
    outside=lambda S: S,
    before=lambda X: X,
    weigh=True,
):
    i, j = (rows.reshape(len(Q), len(K)) for rows in pairs(len(Q), len(K)))
    hidden = inside(join((before(Q) @ W_Q)[i], (before(K) @ W_K)[j]))
    return outside(hidden @ wv if weigh else hidden.sum(axis=-1))


def _additive_loops(Q, K, W_Q, W_K, wv):
    S = np.empty((len(Q), len(K)))
    for i in range(len(Q)):
        for j in range(len(K)):
            S[i, j] = sum(wv[u] * math.tanh(Q[i] @ W_Q[:, u] + K[j] @ W_K[:, u]) for u in range(len(wv)))
    return S


def _additive_concatenated(Q, K, W_Q, W_K, wv):
    """Luong's "concat": one matrix on the pair [q; k]."""
    n, m = len(Q), len(K)
    pairs = np.concatenate([np.repeat(Q, m, axis=0), np.tile(K, (n, 1))], axis=1)
    return (np.tanh(pairs @ np.vstack([W_Q, W_K])) @ wv).reshape(n, m)


ADDITIVE_SCORES = Exercise(
    "additive_scores",
    title="Additive scores",
    points=2,
    difficulty=3,
    minutes=6,
    reference=ref.additive_scores,
    recipe=_additive,
    cases=(
        Case("two queries, three keys", _additive_by_hand),
        Case("more of everything", _additive_larger),
        Case("as many keys as queries", _additive_equal_counts),
    ),
    hints=(
        "Every *pair* has its own hidden vector of `h` units. Which shape holds all of them, and how can a sum of an `(n, h)` "
        "and an `(m, h)` array fill it?",
        "Project first: `Q @ W_Q` and `K @ W_K`. Give them the shapes `(n, 1, h)` and `(1, m, h)`, add, take the tanh, and only "
        "then multiply by `wv` and sum over the last axis.",
        "Broadcasting turns `(n, 1, h)` plus `(1, m, h)` into `(n, m, h)`, one hidden vector per pair. `@ wv` at the end sums over its "
        "last axis.",
    ),
    misconceptions=(
        Misconception(
            "tanh_outside",
            "took the tanh of the finished score instead of the hidden units",
            "Take the tanh of each hidden unit first, and then the weighted sum with $w_v$.",
            Instead(inside=lambda H: H, outside=np.tanh),
        ),
        Misconception(
            "tanh_on_each_side",
            "took the tanh of query and key separately and then added, so the part of the query is the same for all keys",
            "Add first, because query and key meet only inside the tanh.",
            lambda Q, K, W_Q, W_K, wv: (np.tanh(Q @ W_Q)[:, None] + np.tanh(K @ W_K)[None]) @ wv,
        ),
        Misconception(
            "no_tanh",
            "left the tanh out, so the part of the query is the same for all keys and a softmax cancels it",
            "Take the tanh of the sum, before $w_v$.",
            Instead(inside=lambda H: H),
        ),
        Misconception(
            "tanh_before_projection",
            "took the tanh of `Q` and `K` before the projections",
            "Project and add first, then take the tanh of the `h` hidden units.",
            Instead(inside=lambda H: H, before=np.tanh),
        ),
        Misconception(
            "multiplied_not_added",
            "multiplied the projected query and key",
            "The score is called additive: add the two projections inside the tanh.",
            Instead(join=np.multiply),
        ),
        Misconception(
            "not_all_pairs",
            "added the two projections row by row, which pairs query 1 with key 1 and leaves out all other pairs",
            "Give them the shapes `(n, 1, h)` and `(1, m, h)`, so that broadcasting forms every pair.",
            lambda Q, K, W_Q, W_K, wv: np.tanh(Q @ W_Q + K @ W_K) @ wv,
        ),
        Misconception(
            "paired_in_step",
            "repeated queries and keys in the same order, so entry $(i, j)$ doesn't belong to query $i$ and key $j$",
            "Repeat each query in place with `np.repeat` and the keys as a whole with `np.tile`, or let broadcasting add "
            "`(n, 1, h)` and `(1, m, h)`.",
            Instead(pairs=lambda n, m: (np.repeat(np.arange(n), m), np.repeat(np.arange(m), n))),
            also=(Instead(pairs=lambda n, m: (np.tile(np.arange(n), m), np.tile(np.arange(m), n))),),
        ),
        Misconception(
            "listed_key_by_key",
            "listed all pairs key after key, so a row of `m` of them doesn't belong to one query",
            "Repeat each query in place with `np.repeat` and the keys as a whole with `np.tile`, or transpose at the end.",
            Instead(pairs=lambda n, m: (np.tile(np.arange(n), m), np.repeat(np.arange(m), n))),
        ),
        Misconception(
            "keys_in_the_rows",
            "returned the table transposed, with a row for each key",
            "Each row belongs to a query, so its axis comes first, `(n, 1, h)`.",
            After(lambda out, **_: out.T),
        ),
        Misconception(
            "averaged_over_the_units",
            "averaged over the hidden units where their weighted *sum* belongs",
            "`hidden @ wv` adds the weighted units up.",
            After(lambda out, W_Q, **_: out / W_Q.shape[1]),
        ),
        Misconception(
            "wv_left_out",
            "summed the hidden units without $w_v$",
            "Weight each hidden unit by its entry of $w_v$: `hidden @ wv`.",
            Instead(weigh=False),
        ),
    ),
    variants=(
        Variant("loops", _additive_loops),
        Variant("concatenated_pairs", _additive_concatenated),
        Variant("einsum", lambda Q, K, W_Q, W_K, wv: np.einsum("nmh,h->nm", np.tanh(_hidden(Q, K, W_Q, W_K)), wv)),
    ),
)
