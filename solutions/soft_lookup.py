"""Lesson 01: attention as a soft lookup, with weights that come from a kernel of the distance between query and key."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float


def hard_lookup(
    q: Float[np.ndarray, "d"],
    K: Float[np.ndarray, "m d"],
    V: Float[np.ndarray, "m d_v"],
) -> Float[np.ndarray, "d_v"]:
    r"""The mean of the value rows whose key is the query: $o = \sum_j \alpha_j v_j$,
    $\alpha_j = [k_j = q] / \sum_l [k_l = q]$.

    The bracket $[k_j = q]$ is 1 where the two are equal and 0 where they are not. A key
    matches when **all** of its `d` entries equal those of `q`. One match gives a
    one-hot weighting. Several matches share the weight evenly. No match gives the zero
    vector: every weight is 0 and nothing was found.

    >>> K = np.array([[6.0], [9.0], [12.0]])
    >>> V = np.array([[11.0, 80.0], [15.0, 66.0], [21.0, 48.0]])
    >>> hard_lookup(np.array([9.0]), K, V)
    array([15., 66.])
    >>> hard_lookup(np.array([10.0]), K, V)
    array([0., 0.])
    """
    matches = np.equal(K, q).all(axis=-1)
    weights = matches / max(matches.sum(), 1)
    o: np.ndarray = weights @ V
    return o


def normalize(w: Float[np.ndarray, "*queries m"]) -> Float[np.ndarray, "*queries m"]:
    r"""Weights that sum to one over the keys, $\alpha_j = w_j \,/\, \sum_l w_l$, along
    the last axis.

    `w` holds scores that are not negative, shape `(m,)` for one query or `(n, m)` for
    `n` queries, each row on its own. A row whose sum is zero stays all zero. However
    small a positive sum is, its row is divided by exactly that sum. `w` itself is not
    changed.

    >>> normalize(np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  , 0.  ]])
    """
    total = w.sum(axis=-1, keepdims=True)
    alpha: np.ndarray = w / np.where(total > 0, total, 1.0)
    return alpha


def gaussian(
    q: Float[np.ndarray, "d"],
    K: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, "m"]:
    r"""The Gaussian score of each key, $w_j = \exp(-u_j^2 / 2)$ with the distance
    $u_j = \lVert q - k_j \rVert_2$.

    Not normalised: the score of a key at distance 0 is 1.

    >>> gaussian(np.array([10.0]), np.array([[10.0], [9.0], [12.0]])).round(3)
    array([1.   , 0.607, 0.135])
    """
    u = np.linalg.norm(K - q, axis=-1)
    w: np.ndarray = np.exp(-(u**2) / 2)
    return w


def boxcar(
    q: Float[np.ndarray, "d"],
    K: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, "m"]:
    r"""The boxcar score of each key, $w_j = 1$ if $u_j \le 1$ and $0$ otherwise, with
    $u_j = \lVert q - k_j \rVert_2$.

    A key at distance exactly 1 is inside. The scores are floating-point numbers, not
    truth values.

    >>> boxcar(np.array([10.0]), np.array([[10.5], [9.0], [12.0]]))
    array([1., 1., 0.])
    """
    u = np.linalg.norm(K - q, axis=-1)
    w: np.ndarray = np.where(u <= 1, 1.0, 0.0)
    return w


def triangular(
    q: Float[np.ndarray, "d"],
    K: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, "m"]:
    r"""The triangular score of each key, $w_j = \max(0, 1 - u_j)$ with the distance
    $u_j = \lVert q - k_j \rVert_2$.

    >>> triangular(np.array([10.0]), np.array([[10.5], [9.0], [12.0]]))
    array([0.5, 0. , 0. ])
    """
    u = np.linalg.norm(K - q, axis=-1)
    w: np.ndarray = np.maximum(0.0, 1 - u)
    return w


def epanechnikov(
    q: Float[np.ndarray, "d"],
    K: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, "m"]:
    r"""The Epanechnikov score of each key, $w_j = \tfrac{3}{4} \max(0, 1 - u_j^2)$ with
    $u_j = \lVert q - k_j \rVert_2$.

    The factor 3/4 makes the area under the curve 1 when `d` is 1; the course keeps it
    for every `d`.
    Source: V. A. Epanechnikov (1969), Theory of Probability and Its Applications 14(1),
    153-158, with the half-width rescaled from $\sqrt{5}$ to 1.

    >>> epanechnikov(np.array([10.0]), np.array([[10.5], [9.0], [12.0]]))
    array([0.5625, 0.    , 0.    ])
    """
    u = np.linalg.norm(K - q, axis=-1)
    w: np.ndarray = 0.75 * np.maximum(0.0, 1 - u**2)
    return w


def attention_pool(
    q: Float[np.ndarray, "d"],
    K: Float[np.ndarray, "m d"],
    V: Float[np.ndarray, "m d_v"],
    kernel: Callable[
        [Float[np.ndarray, "d"], Float[np.ndarray, "m d"]],
        Float[np.ndarray, "m"],
    ],
) -> Float[np.ndarray, "d_v"]:
    r"""The pooled value $o = \sum_j \alpha_j v_j$ with
    $\alpha_j = w_j \,/\, \sum_l w_l$ and scores $w = $ `kernel(q, K)`.

    `kernel` is any function from a query and the keys to `m` scores that are not
    negative. Where every score is 0, the output is the zero vector, as `normalize`
    says.

    >>> K = np.array([[9.0], [12.0]])
    >>> V = np.array([[15.0, 66.0], [21.0, 48.0]])
    >>> attention_pool(np.array([10.0]), K, V, lambda q, K: np.array([2.0, 1.0]))
    array([17., 60.])
    """
    o: np.ndarray = normalize(kernel(q, K)) @ V
    return o


def nadaraya_watson(
    xq: Float[np.ndarray, "n"],
    x: Float[np.ndarray, "m"],
    y: Float[np.ndarray, "m"],
    width: float,
) -> Float[np.ndarray, "n"]:
    r"""The kernel regression $\hat y_i = \sum_j \alpha_{ij} y_j$ with
    $\alpha_{ij} \propto \exp(-u_{ij}^2 / 2)$ over $j$.

    The distance $u_{ij} = |x^q_i - x_j| / h$ counts in widths: `xq` are the `n` places
    asked about, `x` and `y` the `m` data points, and `width` is $h > 0$ in the units of
    `x`. For each query $i$ the weights over the data sum to 1.
    Sources: E. A. Nadaraya (1964), Theory of Probability and Its Applications 9(1),
    141-142; G. S. Watson (1964), Sankhya A 26(4), 359-372.

    >>> x, y = np.array([0.0, 2.0]), np.array([10.0, 20.0])
    >>> nadaraya_watson(np.array([0.0, 1.0]), x, y, 1.0).round(3)
    array([11.192, 15.   ])
    """
    u = (xq[:, None] - x[None, :]) / width  # (n, m)
    fit: np.ndarray = normalize(np.exp(-(u**2) / 2)) @ y
    return fit
