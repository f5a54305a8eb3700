"""Chapter 02: scores without a kernel, from the Gaussian to the dot product, learned questions and a small network."""

import numpy as np
from jaxtyping import Float, Int


def softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    r"""Return the softmax along one axis, $a_j = e^{x_j} \,/\, \sum_l e^{x_l}$, which
    gives weights that sum to 1 along `axis`.

    `x` has any number of axes, and each slice along `axis` is a softmax of its own. The
    weights are finite for scores of any finite size, even if one row holds thousands
    and the next one minus thousands. `x` itself does not change.

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


def bilinear_scores(
    X_q: Float[np.ndarray, "n d_q"],
    X_k: Float[np.ndarray, "m d_k"],
    W_Q: Float[np.ndarray, "d_q p"],
    W_K: Float[np.ndarray, "d_k p"],
) -> Float[np.ndarray, "n m"]:
    r"""Return the scores $S = X_q W_Q (X_k W_K)^\top / \sqrt{p}$ of `n` words that ask
    and `m` words that answer, with one row for each word that asks.

    The two groups of words may have vectors of different widths. Form no matrix of
    shape (d_q, d_k) on the way, because real vectors have hundreds of entries while
    queries and keys have only `p`.

    >>> X_q, X_k = np.array([[1.0, 2.0]]), np.array([[3.0], [5.0]])
    >>> bilinear_scores(X_q, X_k, np.array([[1.0], [1.0]]), np.array([[2.0]]))
    array([[18., 30.]])
    """
    S: np.ndarray = (X_q @ W_Q) @ (X_k @ W_K).T / np.sqrt(W_Q.shape[1])
    return S


def choose_m() -> Float[np.ndarray, "2 2"]:
    r"""Return a matrix $M$ for which each of *ripe*, *pear*, *sharp* and *knife* finds
    its partner with a weight of at least 0.9.

    The weights of word $i$ are the softmax of $x_i M x_j^\top$ over all four words $j$.
    """
    return np.array([[-3.0, 0.0], [0.0, 3.0]])


def days_by_trying() -> float:
    r"""Return the days that one step takes if each number of every $W_Q$ and $W_K$ of
    SmolLM2 is changed in turn and every loss takes a tenth of a second.
    """
    queries, keys = 576 * 9 * 64, 576 * 3 * 64  # of one layer
    numbers = 30 * (queries + keys)
    return numbers * 0.1 / (24 * 60 * 60)


def pool_in_blocks(
    s: Float[np.ndarray, "m"],
    V: Float[np.ndarray, "m d_v"],
    size: int,
) -> Float[np.ndarray, "d_v"]:
    r"""Return the pooled value $o = \sum_j a_j v_j$ with
    $a = \operatorname{softmax}(s)$, read in blocks of `size` keys.

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
    r"""Return the exponent of the Gaussian kernel,
    $S_{ij} = -\tfrac{1}{2} \lVert q_i - k_j \rVert_2^2$.

    There is one row per query and one column per key. Apart from rounding, no score is
    positive. The exponential is left to the softmax. Form no array of shape (n, m, d)
    on the way, because a few arrays of shape (n, m) or smaller are enough.

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
    r"""Return $W_Q$ and $W_K$ after one step of gradient descent.

    The words in the rows `asking` of `X` make the queries $X_q W_Q$, and all words make
    the keys $X W_K$. The weights are the softmax of
    $S = X_q W_Q (X W_K)^\top / \sqrt{p}$ over the keys. Query $i$ should find word
    `answers[i]`, and the loss is the mean of $-\ln a_{i, \text{answers}[i]}$ over the
    queries. Each matrix moves against its gradient, by `rate` times the gradient. Both
    gradients are taken at the *old* matrices. The inputs do not change.

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
    W_Q: Float[np.ndarray, "d_q h"],
    W_K: Float[np.ndarray, "d_k h"],
    wv: Float[np.ndarray, "h"],
) -> Float[np.ndarray, "n m"]:
    r"""Return the additive scores
    $S_{ij} = w_v^\top \tanh(W_q^\top q_i + W_k^\top k_j)$, a small network with `h`
    hidden units.

    In this formula $q_i$ and $k_j$ are columns, while `Q` and `K` hold them as rows.
    The result has one row per query and one column per key.

    >>> Q, K = np.array([[0.0], [2.0]]), np.array([[0.0, 0.0], [0.5, 0.5]])
    >>> W_Q, W_K = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 1.0]])
    >>> additive_scores(Q, K, W_Q, W_K, np.array([5.0, 1.0])).round(2)
    array([[0.  , 0.76],
           [4.82, 5.58]])

    Source: D. Bahdanau, K. Cho, Y. Bengio (2015), appendix A.1.2 (there $v_a$, $W_a$,
    $U_a$).
    """
    hidden = np.tanh((Q @ W_Q)[:, None, :] + (K @ W_K)[None, :, :])  # (n, m, h)
    S: np.ndarray = hidden @ wv
    return S
