"""Lesson 02: scores without a kernel: from the Gaussian to the dot product, learned maps, and a small network."""

import numpy as np
from jaxtyping import Float, Int


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


def pool_in_blocks(
    s: Float[np.ndarray, "m"],
    V: Float[np.ndarray, "m d_v"],
    size: int,
) -> Float[np.ndarray, "d_v"]:
    r"""The pooled value $o = \sum_j a_j v_j$ with $a = \operatorname{softmax}(s)$, read
    in blocks of `size` keys.

    Only sums are kept from block to block, so that no more than `size` exponentials
    exist at one time. The last block may be shorter. Scores may be of any finite size.

    >>> V = np.array([[0.0, 4.0], [4.0, 0.0], [4.0, 4.0]])
    >>> pool_in_blocks(np.log([1.0, 1.0, 2.0]), V, 2)
    array([3., 3.])
    """
    top, total, o = -np.inf, 0.0, np.zeros(V.shape[1])
    for start in range(0, len(s), size):
        block, values = s[start : start + size], V[start : start + size]
        new_top = max(top, block.max())
        shrink = np.exp(top - new_top)
        e = np.exp(block - new_top)
        total = total * shrink + e.sum()
        o = o * shrink + e @ values
        top = new_top
    pooled: np.ndarray = o / total
    return pooled


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


def learn_step(
    X: Float[np.ndarray, "m d"],
    asking: Int[np.ndarray, "n"],
    answers: Int[np.ndarray, "n"],
    W_Q: Float[np.ndarray, "d p"],
    W_K: Float[np.ndarray, "d p"],
    rate: float,
) -> tuple[Float[np.ndarray, "d p"], Float[np.ndarray, "d p"]]:
    r"""$W_Q$ and $W_K$ after one step of gradient descent.

    The words in the rows `asking` of `X` are the queries $X_q W_Q$, all words are the
    keys $X W_K$. The weights are the softmax of $S = X_q W_Q (X W_K)^\top / \sqrt{p}$
    over the keys. Query $i$ should look at word `answers[i]`; the loss is the mean over
    the queries of $-\ln a_{i, \text{answers}[i]}$. Both matrices are moved against
    their gradients, taken at the *old* matrices, by `rate` times the gradient. No input
    is changed.

    >>> X, one, two = np.eye(2), np.array([0]), np.array([1])
    >>> W_Q, W_K = learn_step(X, one, two, np.eye(2), np.eye(2), 1.0)
    >>> W_K.round(3)
    array([[0.526, 0.   ],
           [0.474, 1.   ]])
    """
    n, p = len(asking), W_Q.shape[1]
    X_q = X[asking]
    Q, K = X_q @ W_Q, X @ W_K
    A = softmax(Q @ K.T / np.sqrt(p))
    dS = (A - np.eye(len(X))[answers]) / n
    dW_Q = X_q.T @ dS @ K / np.sqrt(p)
    dW_K = X.T @ dS.T @ Q / np.sqrt(p)
    return W_Q - rate * dW_Q, W_K - rate * dW_K


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
