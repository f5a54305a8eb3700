"""A matrix between query and key: the scores, and a matrix to choose."""

import numpy as np

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Variant
from solutions import scoring_functions as ref

Inputs = dict[str, np.ndarray]


def _by_hand(draw: Draw) -> Inputs:
    """Few and short numbers, so that a score can be worked out on paper."""
    X_q = draw.rng.permutation(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]))
    X_k = draw.rng.permutation(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])) + draw.normal(2, 3).round(1)
    W_Q = np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, -1.0]])
    return {
        "X_q": X_q,
        "X_k": X_k,
        "W_Q": W_Q,
        "W_K": np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]),
    }


def _drawn(draw: Draw) -> Inputs:
    n, m, d_q, d_k = draw.sizes(4, low=3, high=13)
    p = 2
    return {
        "X_q": draw.normal(n, d_q),
        "X_k": draw.normal(m, d_k),
        "W_Q": draw.normal(d_q, p),
        "W_K": draw.normal(d_k, p),
    }


def _square(draw: Draw) -> Inputs:
    """One size for everything: a wrong transpose raises no error."""
    return {name: draw.normal(4, 4) for name in ("X_q", "X_k", "W_Q", "W_K")}


def _wide(draw: Draw) -> Inputs:
    """Vectors of 1,200 entries: M would have 1.44 million, and the inputs have fewer than 20,000."""
    return {
        "X_q": draw.normal(3, 1200),
        "X_k": draw.normal(4, 1200),
        "W_Q": draw.normal(1200, 2) / 30,
        "W_K": draw.normal(1200, 2) / 30,
    }


def _scores(
    X_q,
    X_k,
    W_Q,
    W_K,
    *,
    scale=lambda W_Q: np.sqrt(W_Q.shape[1]),
    queries=lambda X_q, W_Q: X_q @ W_Q,
    keys=lambda X_k, W_K: X_k @ W_K,
    turned=False,
):
    S = queries(X_q, W_Q) @ keys(X_k, W_K).T / scale(W_Q)
    return S.T if turned else S


BILINEAR_SCORES = Exercise(
    "bilinear_scores",
    title="Ask with one matrix, answer with another",
    points=2,
    difficulty=2,
    minutes=7,
    reference=ref.bilinear_scores,
    recipe=_scores,
    cases=(
        Case("three words ask, two answer", _by_hand),
        Case("other sizes", _drawn),
        Case("everything is square", _square, edge=0.15),
        Case("vectors of 1,200 entries, and no room for M", _wide, edge=0.3, room=3.0),
    ),
    hints=(
        "Each word that asks needs a query and each word that answers needs a key. What shapes do these have, and how do you get all "
        "dot products between them at once?",
        "`X_q @ W_Q` has shape (n, p) and `X_k @ W_K` has shape (m, p). Their product, with the second one transposed, has shape "
        "(n, m).",
        "Put the brackets so that only arrays with an axis of length `p` arise before the last product, and divide by the root of "
        "`W_Q.shape[1]`.",
    ),
    misconceptions=(
        Misconception(
            "not_scaled",
            "didn't divide the scores by √p",
            "Divide by the root of the number of columns of `W_Q`.",
            Instead(scale=lambda W_Q: 1.0),
        ),
        Misconception(
            "scaled_by_p",
            "divided the scores by p instead of √p",
            "The formula has the root: `np.sqrt(W_Q.shape[1])`.",
            Instead(scale=lambda W_Q: W_Q.shape[1]),
        ),
        Misconception(
            "scaled_by_the_width_of_the_words",
            "divided by the root of the width of the words in `X_q`",
            "A score sums over the p entries of a query, so the root is that of `W_Q.shape[1]`.",
            Instead(scale=lambda W_Q: np.sqrt(W_Q.shape[0])),
        ),
        Misconception(
            "formed_m",
            "formed the matrix $M = W_Q W_K^\\top$, which has 1.4 million entries for vectors of 1,200",
            "Make queries and keys first: `(X_q @ W_Q) @ (X_k @ W_K).T`.",
            lambda X_q, X_k, W_Q, W_K: X_q @ (W_Q @ W_K.T) @ X_k.T / np.sqrt(W_Q.shape[1]),
            raises=True,
        ),
        Misconception(
            "rows_and_columns_swapped",
            "gave each word that *answers* a row of its own",
            "There is one row for each word that asks: queries on the left of the product, keys transposed on the right.",
            Instead(turned=True),
        ),
        Misconception(
            "no_queries",
            "used the words that ask as they are, without `W_Q`",
            "The query of a word is its vector times `W_Q`.",
            lambda X_q, X_k, W_Q, W_K: X_q @ (X_k @ W_K).T / np.sqrt(W_Q.shape[1]),
            raises=True,
        ),
        Misconception(
            "matrices_swapped",
            "made the queries with `W_K` and the keys with `W_Q`",
            "`W_Q` belongs to the words that ask and `W_K` to the words that answer.",
            Before(lambda W_Q, W_K, **_: {"W_Q": W_K, "W_K": W_Q}),
            raises=True,
        ),
        Misconception(
            "softmax_taken",
            "returned the weights, where the scores are asked for",
            "Leave the softmax out. It comes later.",
            After(lambda S, **_: ref.softmax(S)),
        ),
    ),
    variants=(
        Variant("einsum", lambda X_q, X_k, W_Q, W_K: np.einsum("np,mp->nm", X_q @ W_Q, X_k @ W_K) / W_Q.shape[1] ** 0.5),
        Variant("scaled_queries", lambda X_q, X_k, W_Q, W_K: (X_q @ W_Q / np.sqrt(W_Q.shape[1])) @ (X_k @ W_K).T),
        Variant("from_the_right", lambda X_q, X_k, W_Q, W_K: X_q @ (W_Q @ (X_k @ W_K).T) / np.sqrt(W_Q.shape[1])),
    ),
)


def _nothing(draw: Draw):
    return {}


def _matrix(*rows):
    return lambda: np.array(rows, dtype=float)


CHOOSE_M = Exercise(
    "choose_m",
    title="Design: two nouns and two adjectives",
    kind="design",
    points=2,
    difficulty=3,
    minutes=10,
    reference=ref.choose_m,
    behaviour="attention_course.designs:finds_its_partner",
    cases=(Case("ripe, pear, sharp and knife", _nothing),),
    hints=(
        "Draw the four words in the plane. A word and its partner agree in one of their two numbers. In which one, and what happens to the "
        "other?",
        "The question of word $x$ is $xM$, and it should point at the partner. So *ripe*, $(-1, 1)$, should ask in the direction of "
        "$(1, 1)$. Which matrix changes the sign of the first number and keeps the second?",
        "A diagonal matrix does it. Its size decides how much weight the partner gets, because a softmax sees differences of scores.",
    ),
    misconceptions=(
        Misconception(
            "identity",
            "left every word asking for itself",
            "With a multiple of the identity the question is the word itself. The partner differs in its first number.",
            _matrix((3, 0), (0, 3)),
            also=(_matrix((1, 0), (0, 1)),),
        ),
        Misconception(
            "other_topic",
            "kept the kind of word and changed the topic, so *ripe* finds *sharp*",
            "Keep the second number and change the sign of the first.",
            _matrix((3, 0), (0, -3)),
            also=(_matrix((1, 0), (0, -1)),),
        ),
        Misconception(
            "opposite",
            "changed both signs, so each word finds the one that has nothing in common with it",
            "Only the first number changes its sign.",
            _matrix((-3, 0), (0, -3)),
            also=(_matrix((-1, 0), (0, -1)),),
        ),
        Misconception(
            "too_small",
            "pointed every question in the right direction, but with less than 0.9 of the weight on the partner",
            "Multiply the matrix by a number. All differences of scores grow with it.",
            _matrix((-1, 0), (0, 1)),
        ),
        Misconception(
            "nouns_only",
            "asked only for the other kind of word, so *ripe* gives *pear* and *knife* the same weight",
            "The topic has to count as well, so a question keeps the second number of its word.",
            _matrix((-3, 0), (0, 0)),
        ),
    ),
    variants=(
        Variant("larger", _matrix((-8, 0), (0, 8))),
        Variant("slanted", _matrix((-4, 1), (1, 4))),
    ),
)


DAYS_BY_TRYING = Exercise(
    "days_by_trying",
    title="Estimate: one step by trying",
    kind="estimate",
    points=1,
    difficulty=2,
    minutes=4,
    reference=ref.days_by_trying,
    cases=(Case("your estimate", _nothing),),
    hints=(
        "How many numbers are there to change? Count one layer first.",
        "One layer makes the queries of 9 heads and the keys of 3 heads, each with 64 entries, from vectors of 576.",
        "30 layers with 576 · (9 + 3) · 64 numbers each. Every number takes a tenth of a second, and a day has 86,400 seconds.",
    ),
    misconceptions=(
        Misconception(
            "nine_heads_of_keys",
            "counted keys for all nine heads",
            "In SmolLM2 three query heads share one head of keys, so each layer has 3 of them.",
            lambda: 30 * 576 * 18 * 64 * 0.1 / 86400,
        ),
        Misconception(
            "one_layer",
            "counted one layer of the 30",
            "Each layer has a $W_Q$ and a $W_K$ of its own.",
            lambda: 576 * 12 * 64 * 0.1 / 86400,
        ),
        Misconception(
            "queries_only",
            "counted only the queries",
            "$W_K$ has numbers as well: 3 heads of 64 entries.",
            lambda: 30 * 576 * 9 * 64 * 0.1 / 86400,
        ),
        Misconception(
            "one_head",
            "counted one head in each layer",
            "A layer has 9 heads of queries and 3 heads of keys.",
            lambda: 30 * 2 * 576 * 64 * 0.1 / 86400,
        ),
        Misconception(
            "hours",
            "returned hours",
            "Divide by 24 to get days.",
            lambda: 30 * 576 * 12 * 64 * 0.1 / 3600,
        ),
        Misconception(
            "seconds",
            "returned seconds",
            "A day has 86,400 seconds.",
            lambda: 30 * 576 * 12 * 64 * 0.1,
        ),
        Misconception(
            "one_second_each",
            "took a whole second for each loss",
            "A loss takes a tenth of a second.",
            lambda: 30 * 576 * 12 * 64 / 86400,
        ),
    ),
    variants=(Variant("counted_with_the_first_loss", lambda: (30 * 576 * 12 * 64 + 1) * 0.1 / 86400),),
)
