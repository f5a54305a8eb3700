"""One query on its way through self-attention, with its numbers: the figure of lesson 03 that goes step by step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_course.drawing import Drawing
from attention_course.moving import Moving, slider

STEPS = (
    "the whole way, step by step →",
    "1. X: the tokens, one a row",
    "2. its query: q = x W_Q",
    "3. a key and a value for every token",
    "4. dot products: q · k with every key",
    "5. divided by √d_k: the scores",
    "6. softmax: weights that sum to 1",
    "7. each value times its weight, added up",
    "8. the same for all queries at once",
)
_CELL = (40, 25)


def one_query(words: Sequence[str], X: Any, W_Q: Any, W_K: Any, W_V: Any, *, start: str, alt: str) -> Moving:
    """A slider for the step and one for the word that asks; the first frame shows the whole way of `start`."""
    X, W_Q, W_K, W_V = (np.asarray(M, dtype=float) for M in (X, W_Q, W_K, W_V))
    return slider(
        lambda step, query: draw_step(STEPS.index(step), list(words), list(words).index(query), X, W_Q, W_K, W_V),
        step=STEPS,
        query=words,
        start={"query": start},
        labels={"step": "step", "query": "the word that asks"},
        alt=alt,
    )


def draw_step(step: int, words: list[str], i: int, X: Any, W_Q: Any, W_K: Any, W_V: Any) -> Drawing:
    """Everything up to `step` with its numbers, what that step makes with strong edges, the rest empty; 0 shows all."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    raw = Q @ K.T
    S = raw / np.sqrt(K.shape[1])
    A = np.exp(S - S.max(axis=1, keepdims=True))
    A /= A.sum(axis=1, keepdims=True)
    if step == len(STEPS) - 1:
        return _all_at_once(words, i, X, Q, K, S, A, V)
    d = Drawing(alt=f"{words[i]}: {STEPS[step]}")

    def part(since: int, M: Any, label: str, role: str, entries: str = "{:g}", **how: Any) -> Any:
        """A matrix that is empty before step `since`, and has strong edges at it."""
        M = np.round(np.atleast_2d(M), 6 if entries == "{:g}" else 2) + 0.0  # + 0.0: no minus before a zero
        if step and step < since:
            blank = [[""] * M.shape[1]] * M.shape[0]
            return d.matrix(M.shape, label, role="plain", entries=blank, **{"cell": _CELL, **how})
        strong = list(np.ndindex(M.shape)) if step == since else []
        return d.matrix(M, label, role=role, entries=entries, **{"cell": _CELL, "highlight": strong, **how})

    word, asks = words[i], [(i, c) for c in range(X.shape[1])]
    look: dict[str, Any] = {"highlight": asks} if step in (0, 2) else {}
    tokens = part(1, X, "X\nn × d_{model}", "input", rows=words, **look)
    keys = part(3, K, "K = X W_K\nn × d_k", "key", right_of=tokens, gap=34)
    values = part(3, V, "V = X W_V\nn × d_v", "value", right_of=keys, gap=34)
    scores = part(4, raw[i][:, None], "q · k_j", "score", right_of=values, gap=34, cell=(52, 25))
    scaled = part(5, S[i][:, None], f"÷ √{K.shape[1]}\ns_j", "score", "{:.2f}", right_of=scores, gap=18, cell=(52, 25))
    weights = part(6, A[i][:, None], "softmax\na_j", "weight", "{:.2f}", right_of=scaled, gap=18, cell=(52, 25))
    shares = part(7, A[i][:, None] * V, "a_j v_j", "value", "{:.2f}", right_of=weights, gap=34, cell=(52, 25))
    up: dict[str, Any] = {"label_side": "above", "gap": 26}
    part(2, W_Q, "W_Q", "query", above=tokens, **up)
    part(3, W_K, "W_K", "key", above=keys, **up)
    part(3, W_V, "W_V", "value", above=values, **up)
    part(2, Q[i], f"q = x W_Q\nof {word}", "query", above=scores, shift=(10, -12), **up)
    part(7, (A @ V)[i], f"o of {word}: their sum", "output", "{:.2f}", below=shares, gap=26, cell=(52, 25))
    return d


def _all_at_once(words: list[str], i: int, X: Any, Q: Any, K: Any, S: Any, A: Any, V: Any) -> Drawing:
    d = Drawing(alt="All queries at once: Q times K transposed gives the scores, their softmax the weights A; A times V is O.")
    n = len(words)
    row: dict[str, Any] = {"entries": False, "cell": 18}
    asks, whole = [(i, a) for a in range(Q.shape[1])], [(i, j) for j in range(n)]
    first = d.matrix(Q, "Q = X W_Q", role="query", rows=words, sizes=("", "d_k"), highlight=asks, **row)
    d.text("·", gap=12)
    d.matrix(K.T, "K^T", role="key", sizes=("d_k", "n"), gap=12, **row)
    d.text("=", gap=12)
    d.matrix(S, "S = Q K^T / √d_k", role="score", sizes=("n", "n"), highlight=whole, gap=12, **row)
    d.matrix(A, "A: softmax, row by row", role="weight", rows=words, highlight=whole, below=first, gap=50, align="start", **row)
    d.text("·", gap=12)
    d.matrix(V, "V = X W_V", role="value", sizes=("n", "d_v"), gap=12, **row)
    d.text("=", gap=12)
    d.matrix(A @ V, "O = A V", role="output", sizes=("n", "d_v"), highlight=asks, gap=12, **row)
    return d
