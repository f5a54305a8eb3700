"""Lesson 01: attention as a soft lookup, with weights that come from a kernel of the distance between query and key."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float


def hard_lookup(
    q: Float[np.ndarray, "d"],
    K: Float[np.ndarray, "m d"],
    V: Float[np.ndarray, "m d_v"],
) -> Float[np.ndarray, "d_v"]:
    r"""The mean of the value rows whose key is the query: $o = \sum_j a_j v_j$,
    $a_j = [k_j = q] / \sum_l [k_l = q]$.

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


def normalize(s: Float[np.ndarray, "*queries m"]) -> Float[np.ndarray, "*queries m"]:
    r"""Weights that sum to one over the keys, $a_j = s_j \,/\, \sum_l s_l$, along the
    last axis.

    `s` holds scores that are not negative, shape `(m,)` for one query or `(n, m)` for
    `n` queries, each row on its own. A row whose sum is zero stays all zero. However
    small a positive sum is, its row is divided by exactly that sum. `s` itself is not
    changed.

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
    r"""The Gaussian score of each key, $s_j = \exp(-u_j^2 / 2)$ with the distance
    $u_j = \lVert q - k_j \rVert_2$.

    Not normalised: the score of a key at distance 0 is 1.

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
    r"""The pooled value $o = \sum_j a_j v_j$ with $a_j = s_j \,/\, \sum_l s_l$ and
    scores $s = $ `kernel(q, K)`.

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


def mix_words(X: Float[np.ndarray, "n d"], width: float) -> Float[np.ndarray, "n d"]:
    r"""Every word's new vector, $o_i = \sum_j a_{ij} x_j$: each word asks with its own
    vector, and all words, itself included, are keys and values.

    The weights of word $i$ are the Gaussian's, $a_{ij} \propto \exp(-u_{ij}^2 / 2)$
    over $j$, with the distance $u_{ij} = \lVert x_i - x_j \rVert_2 / \sigma$ in units
    of `width`, $\sigma > 0$. Listed in another order, the words get the same vectors.

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
    r"""The kernel regression $\hat y_i = \sum_j a_{ij} y_j$ with
    $a_{ij} \propto \exp(-u_{ij}^2 / 2)$ over $j$.

    The distance $u_{ij} = |x^q_i - x_j| / \sigma$ counts in widths: `xq` are the `n`
    places asked about, `x` and `y` the `m` data points, and `width` is $\sigma > 0$ in
    the units of `x`. For each query $i$ the weights over the data sum to 1, unless
    every score is rounded to 0: then they are 0, as in `normalize`.
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
    r"""The mean squared error of `nadaraya_watson` on points that it was not shown,
    $\frac{1}{m} \sum_j (y_j - \hat y_j)^2$.

    $\hat y_j$ is the fit at $x_j$ from all points except point $j$ itself. `width` is
    the kernel's, in the units of `x`; the result is in the units of $y^2$.

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
