"""Chapter 01: attention as a soft lookup, with weights that come from a kernel of the distance between query and key."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float


def normalize(s: Float[np.ndarray, "*queries m"]) -> Float[np.ndarray, "*queries m"]:
    r"""Turn scores into weights by dividing each row by its own total.

    `s` holds scores that are not negative. Its shape is `(m,)` for one query or
    `(n, m)` for `n` queries, and the keys are always the last axis. A row whose sum is
    zero stays all zero. Any positive sum, however small, is used as it is. `s` itself
    does not change.

    >>> normalize(np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  , 0.  ]])
    """
    total = s.sum(axis=-1, keepdims=True)
    a: np.ndarray = s / np.where(total > 0, total, 1.0)
    return a


def gaussian(
    q: Float[np.ndarray, "d"],
    K: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, "m"]:
    r"""Score every key by $e^{-u_j^2 / 2}$, where $u_j$ is its distance from the query.

    >>> gaussian(np.array([10.0]), np.array([[10.0], [9.0], [12.0]])).round(3)
    array([1.   , 0.607, 0.135])
    """
    u = np.linalg.norm(K - q, axis=-1)
    s: np.ndarray = np.exp(-(u**2) / 2)
    return s


def attention_pool(
    q: Float[np.ndarray, "d"],
    K: Float[np.ndarray, "m d"],
    V: Float[np.ndarray, "m d_v"],
    kernel: Callable[
        [Float[np.ndarray, "d"], Float[np.ndarray, "m d"]],
        Float[np.ndarray, "m"],
    ],
) -> Float[np.ndarray, "d_v"]:
    r"""Look up `q` among the keys `K` and return the output `o`, made of values.

    `kernel(q, K)` is any function that returns `m` scores, none of them negative. It is
    called once and with all keys, because it may compare them with one another. If
    every score is 0, the output is the zero vector.

    >>> K = np.array([[9.0], [12.0]])
    >>> V = np.array([[15.0, 66.0], [21.0, 48.0]])
    >>> attention_pool(np.array([10.0]), K, V, lambda q, K: np.array([2.0, 1.0]))
    array([17., 60.])
    """
    o: np.ndarray = normalize(kernel(q, K)) @ V
    return o


def ask_for_a_thing() -> Float[np.ndarray, "2"]:
    r"""Choose a query that gives the thing at least 0.9 of the weight in each of the
    three sentences.

    The kernel is the Gaussian, and its width is 1.
    """
    return np.array([7.0, -2.0])  # from far away the direction decides


def mix_words(X: Float[np.ndarray, "n d"], width: float) -> Float[np.ndarray, "n d"]:
    r"""Compute the output of attention for every word, $o_{ic} = \sum_j a_{ij} x_{jc}$.

    Each word asks with its own vector, and all words, including itself, are keys and
    values. The weights come from the Gaussian of the distances, which are counted in
    units of `width`. A word gets the same output wherever it stands in the list, and
    `X` does not change.

    >>> mix_words(np.array([[0.0, 0.0], [2.0, 0.0]]), 2.0).round(3)
    array([[0.755, 0.   ],
           [1.245, 0.   ]])
    """
    new = np.empty_like(X)
    for i, q in enumerate(X):
        new[i] = normalize(gaussian(q / width, X / width)) @ X
    return new


def nadaraya_watson(
    xq: Float[np.ndarray, "n"],
    x: Float[np.ndarray, "m"],
    y: Float[np.ndarray, "m"],
    width: float,
) -> Float[np.ndarray, "n"]:
    r"""Fit the data at the `n` queries `xq` by the Nadaraya-Watson estimator.

    `x` and `y` are the `m` data points, and `width` is the Gaussian's $\sigma > 0$ in
    the units of `x`. The weights of each query sum to 1. Only where every score is
    rounded to 0 are they all 0, and so is the fit.

    Sources: E. A. Nadaraya (1964), Theory of Probability and Its Applications 9(1),
    141-142; G. S. Watson (1964), Sankhya A 26(4), 359-372.

    >>> x, y = np.array([0.0, 2.0]), np.array([10.0, 20.0])
    >>> nadaraya_watson(np.array([0.0, 1.0]), x, y, 1.0).round(3)
    array([11.192, 15.   ])
    """
    u = (xq[:, None] - x[None, :]) / width  # (n, m)
    fit: np.ndarray = normalize(np.exp(-(u**2) / 2)) @ y
    return fit


def leave_one_out(
    x: Float[np.ndarray, "m"],
    y: Float[np.ndarray, "m"],
    width: float,
) -> float:
    r"""Measure the mean squared error of `nadaraya_watson` on points it has not seen.

    The fit at each `x[j]` uses all points except point `j`. `width` is in the units of
    `x`, and the result is in the units of `y` squared.

    >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])
    >>> round(leave_one_out(x, y, 1e6), 6)
    6.0
    """
    errors = []
    for j in range(len(x)):
        others = np.arange(len(x)) != j
        fit = nadaraya_watson(x[j : j + 1], x[others], y[others], width)
        errors.append(y[j] - fit[0])
    return float(np.mean(np.square(errors)))
