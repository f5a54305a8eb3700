"""How designs are judged: each function maps what a learner's function returned to the behaviour that is compared.

A design has many right answers, so its numbers are not compared. What is compared is what it *does*, measured here. Each
function takes the learner's output and the inputs of the case by name, and returns an array; it raises ValueError, with a
sentence for the learner, where the output has not the asked form. NumPy only.
"""

from typing import Any

import numpy as np

from attention_course.thread import INDEX, VECTORS


def _weights(S: Any) -> Any:
    """The softmax of the last axis; a row of which all entries are -inf gets zeros."""
    top = S.max(axis=-1, keepdims=True)
    E = np.exp(S - np.where(np.isfinite(top), top, 0.0))
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total > 0, total, 1.0)


def looks_at(output: Any) -> Any:
    """For *it* and for *pear*: the place in the sentence of the word with the largest weight, and 1 if that weight is 0.9 at least.

    >>> looks_at((np.eye(2), np.eye(2)))
    array([4, 0, 4, 0])
    """
    if not isinstance(output, tuple | list) or len(output) != 2:
        raise ValueError("expected two matrices, (W_Q, W_K).")
    W_Q, W_K = (np.asarray(W, dtype=float) for W in output)
    if W_Q.ndim != 2 or W_Q.shape != W_K.shape or len(W_Q) != 2 or W_Q.size == 0:
        raise ValueError(f"expected two matrices of one shape (2, d_k), got {W_Q.shape} and {W_K.shape}.")
    A = _weights(VECTORS @ W_Q @ (VECTORS @ W_K).T / np.sqrt(W_Q.shape[1]))
    rows = A[[INDEX["it"], INDEX["pear"]]]
    return np.stack([rows.argmax(-1), rows.max(-1) >= 0.9], axis=-1).astype(int).ravel()


def packed_outputs(output: Any, *, documents: Any) -> Any:
    """What the real tokens of a packed row receive under the mask `output`: attention over fixed queries, keys and values.

    >>> packed_outputs(np.tri(2, dtype=bool), documents=np.array([0, -1]))[1]
    array([0., 0., 0., 0.])
    """
    documents = np.asarray(documents)
    n = len(documents)
    keep = np.asarray(output)
    if keep.dtype != bool:
        raise ValueError(f"expected a boolean mask, got numbers of type {keep.dtype}. True means keep.")
    if keep.shape != (n, n):
        raise ValueError(f"expected a mask of shape (query, key) = ({n}, {n}), got {keep.shape}.")
    Q, K, V = np.random.default_rng(0).standard_normal((3, n, 4))
    received = _weights(np.where(keep, Q @ K.T / 2, -np.inf)) @ V
    return np.where(documents[:, None] >= 0, received, 0.0)  # what a blank receives does not matter


def latent_of_groups(output: Any, *, W_K: Any, W_V: Any, H: Any) -> Any:
    """What a latent made of groups does: its width, and the matrices by which each head makes its keys and its values of a token.

    >>> W_K, W_V = np.full((1, 2, 1), 3.0), np.full((1, 2, 1), 7.0)
    >>> down, key, value = np.array([[7.0, 3.0]] * 2), np.array([[[0.0], [1.0]]] * 2), np.array([[[1.0], [0.0]]] * 2)
    >>> width, keys, values = latent_of_groups((down, key, value), W_K=W_K, W_V=W_V, H=2)
    >>> width, keys[1].ravel(), values[1].ravel()
    (array([2]), array([3., 3.]), array([7., 7.]))
    """
    if not isinstance(output, tuple | list) or len(output) != 3:
        raise ValueError("expected three tensors, (W_DKV, W_UK, W_UV).")
    down, key, value = (np.asarray(W, dtype=float) for W in output)
    (_, d_model, d), d_v, heads = np.shape(W_K), np.shape(W_V)[-1], int(H)
    if down.ndim != 2 or len(down) != d_model:
        raise ValueError(f"W_DKV: expected the shape (d_model, d_c) with d_model = {d_model}, got {down.shape}.")
    for name, got, width in (("W_UK", key, d), ("W_UV", value, d_v)):
        if got.shape != (heads, down.shape[1], width):
            raise ValueError(f"{name}: expected (head, d_c, width) = {(heads, down.shape[1], width)}, got {got.shape}.")
    return np.array([down.shape[1]]), down @ key, down @ value
