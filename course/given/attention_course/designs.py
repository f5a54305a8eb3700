"""How designs are judged: each function maps what a learner's function returned to the behaviour that is compared.

A design has many right answers, so its numbers are not compared. What is compared is what it *does*, measured here. Each
function takes the learner's output and the inputs of the case by name, and returns an array; it raises ValueError, with a
sentence for the learner, where the output has not the asked form. NumPy only.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def softmax(S: Array) -> Array:
    """The softmax of the last axis."""
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return np.asarray(E / E.sum(axis=-1, keepdims=True))


def _arrays(output: object, names: tuple[str, ...]) -> list[Array]:
    if not isinstance(output, tuple | list) or len(output) != len(names):
        raise ValueError(f"expected {len(names)} things, {', '.join(names)}, got {type(output).__name__}.")
    return [np.asarray(part, dtype=float) for part in output]


def looks_back(output: object, *, steps: int, d: int) -> Array:
    """Where each of eight tokens looks most (how far back), and whether it gives that token more than half of its weight.

    >>> same = np.full(4, 8.0)
    >>> looks_back((same, same), steps=1, d=4)[:2]
    array([[0., 0.],
           [0., 0.]])
    """
    q, k = _arrays(output, ("a query", "a key"))
    if q.shape != (d,) or k.shape != (d,):
        raise ValueError(f"expected a query and a key of shape ({d},), got {q.shape} and {k.shape}.")
    n = 32
    angles = np.arange(n)[:, None] * 10_000.0 ** (-np.arange(0, d, 2) / d)
    Q, K = (_turned(x, angles) for x in (q, k))
    A = softmax(Q @ K.T / math.sqrt(d))
    rows = np.arange(12, 20)  # in the middle: all that may be looked at stands on both sides
    sure = A[rows, rows - steps] > 0.5
    return np.stack([rows - A[rows].argmax(axis=-1), sure], axis=-1).astype(float)


def _turned(x: Array, angles: Array) -> Array:
    """The vector at every position, pairs of neighbours turned."""
    even, odd = x[0::2], x[1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    parts = even * cos - odd * sin, even * sin + odd * cos
    return np.asarray(np.stack(parts, axis=-1).reshape(len(angles), -1))
