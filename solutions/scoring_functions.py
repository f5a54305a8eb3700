"""Lesson 02: scores without a kernel: from the Gaussian to the dot product, and scores for vectors of unequal lengths."""

import numpy as np
from jaxtyping import Float


def softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    r"""The softmax along one axis, $a_j = e^{x_j} \,/\, \sum_l e^{x_l}$: positive
    weights that sum to 1 along `axis`.

    `x` has any number of axes; each slice along `axis` is a softmax of its own. Scores
    may be of any finite size: thousands in one row and minus thousands in the next give
    finite weights all the same (a weight may round to 0). `x` itself is not changed.

    >>> softmax(np.log([[1.0, 3.0], [2.0, 2.0]]))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    >>> softmax(np.array([1000.0, 0.0]))
    array([1., 0.])

    Source: J. S. Bridle (1990), "Probabilistic Interpretation of Feedforward
    Classification Network Outputs".
    """
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    a: np.ndarray = e / e.sum(axis=axis, keepdims=True)
    return a


def gaussian_scores(
    Q: Float[np.ndarray, "n d"],
    K: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, "n m"]:
    r"""The exponent of the Gaussian kernel,
    $S_{ij} = -\tfrac{1}{2} \lVert q_i - k_j \rVert_2^2$.

    One row per query, one column per key; but for rounding no score is positive. No
    exponential yet: the softmax brings it. Form no array of shape (n, m, d) on the way:
    beside inputs and result a few of shape (n, m) or smaller are enough.

    >>> gaussian_scores(np.array([[0.0, 0.0]]), np.array([[2.0, 0.0], [-1.0, 1.0]]))
    array([[-2., -1.]])
    """
    q_squared = (Q**2).sum(axis=-1)[:, None]  # (n, 1)
    k_squared = (K**2).sum(axis=-1)[None, :]  # (1, m)
    S: np.ndarray = Q @ K.T - q_squared / 2 - k_squared / 2
    return S


def dot_scores(
    Q: Float[np.ndarray, "n d"],
    K: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, "n m"]:
    r"""The dot products $S_{ij} = q_i \cdot k_j = \sum_c q_{ic} k_{jc}$: one row per
    query, one column per key.

    >>> K = np.array([[3.0, 0.0], [0.0, 1.0], [-2.0, 1.0]])
    >>> dot_scores(np.array([[1.0, 2.0]]), K)
    array([[3., 2., 0.]])

    Source: M.-T. Luong, H. Pham, C. D. Manning (2015), section 3.1, score "dot".
    """
    S: np.ndarray = Q @ K.T
    return S


def weight_gap(Q: Float[np.ndarray, "n d"], K: Float[np.ndarray, "m d"]) -> float:
    r"""The largest change of any weight, $\max_{ij} |a_{ij} - b_{ij}|$, when the
    Gaussian gives way to the dot product.

    $a_{ij}$ are the weights of query $i$ over the keys from `gaussian_scores`, $b_{ij}$
    those from `dot_scores`, both by a softmax over the keys. The result is one number
    between 0 and 1.

    >>> round(weight_gap(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [2.0, 0.0]])), 3)
    0.354
    >>> weight_gap(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, -1.0]])) < 1e-15
    True
    """
    a, b = softmax(gaussian_scores(Q, K)), softmax(dot_scores(Q, K))
    return float(np.abs(a - b).max())


def bilinear_scores(
    Q: Float[np.ndarray, "n d_q"],
    M: Float[np.ndarray, "d_q d_k"],
    K: Float[np.ndarray, "m d_k"],
) -> Float[np.ndarray, "n m"]:
    r"""The bilinear scores $S_{ij} = q_i^\top M k_j = \sum_{ab} q_{ia} M_{ab} k_{jb}$,
    for queries and keys of any two widths.

    One row per query, one column per key.

    >>> M = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    >>> K = np.array([[1.0, 9.0, 0.0], [0.0, 9.0, 1.0]])
    >>> bilinear_scores(np.array([[3.0, 1.0]]), M, K)
    array([[3., 2.]])

    Source: M.-T. Luong, H. Pham, C. D. Manning (2015), section 3.1, score "general".
    """
    S: np.ndarray = Q @ M @ K.T
    return S


def additive_scores(
    Q: Float[np.ndarray, "n d_q"],
    K: Float[np.ndarray, "m d_k"],
    Wq: Float[np.ndarray, "d_q h"],
    Wk: Float[np.ndarray, "d_k h"],
    wv: Float[np.ndarray, "h"],
) -> Float[np.ndarray, "n m"]:
    r"""The additive scores $S_{ij} = w_v^\top \tanh(W_q^\top q_i + W_k^\top k_j)$, a
    small network with `h` hidden units.

    Each pair $(i, j)$ has its own vector of `h` hidden units. The weights stand in the
    course's convention, for vectors as rows: `Q @ Wq` has shape (n, h) and `K @ Wk`
    shape (m, h). One row per query, one column per key.

    >>> Q, K = np.array([[0.0], [2.0]]), np.array([[0.0, 0.0], [0.5, 0.5]])
    >>> Wq, Wk = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 1.0]])
    >>> additive_scores(Q, K, Wq, Wk, np.array([5.0, 1.0])).round(2)
    array([[0.  , 0.76],
           [4.82, 5.58]])

    Source: D. Bahdanau, K. Cho, Y. Bengio (2015), appendix A.1.2 (there $v_a$, $W_a$,
    $U_a$).
    """
    hidden = np.tanh((Q @ Wq)[:, None, :] + (K @ Wk)[None, :, :])  # (n, m, h)
    S: np.ndarray = hidden @ wv
    return S
