"""Chapter 03: scaled dot-product attention, self-attention, their gradients, and how to judge a head.

The answer `scaled_scores` is in `solutions.lib.sdpa`.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from solutions.lib.sdpa import scaled_scores


def sdpa(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
    V: Float[Tensor, "... key d_v"],
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query key"]]:
    r"""Return the output and the weights $(O, A)$ of scaled dot-product attention.

    Each row of $A$ belongs to one query. Its entries are never negative and sum to 1,
    even if the scores are in the thousands. The function accepts any number of leading
    axes, and gradients flow to all three inputs.

    >>> O, A = sdpa(torch.zeros(1, 3), torch.eye(2, 3), torch.tensor([[2.0], [6.0]]))
    >>> O, A
    (tensor([[4.]]), tensor([[0.5000, 0.5000]]))

    Source: Vaswani et al. (2017), section 3.2.1, equation 1.
    """
    A = torch.softmax(scaled_scores(Q, K), dim=-1)
    return A @ V, A


def start_and_step(d_k: int) -> tuple[float, float]:
    r"""Return the two factors `(start, step)` with which raw scores train exactly like
    scores that are divided by $\sqrt{d_k}$.

    `start` multiplies the initial $W_Q$ and the initial $W_K$. `step` multiplies the
    learning rate of both matrices. The optimizer is Adam.

    >>> start, step = start_and_step(1)  # at width 1 there is nothing to divide by
    >>> float(start), float(step)
    (1.0, 1.0)

    Source: Kingma and Ba (2015), "Adam", section 2.1, for the size of a step.
    """
    factor = d_k**-0.25  # a score contains both matrices, so it shrinks by the square
    return factor, factor


def self_attention(
    X: Float[Tensor, "... query d_model"],
    W_Q: Float[Tensor, "d_model d_k"],
    W_K: Float[Tensor, "d_model d_k"],
    W_V: Float[Tensor, "d_model d_v"],
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query query"]]:
    r"""Return the output and the weights $(O, A)$ of a sequence that attends to itself.

    Rows of `X` are tokens, so a matrix is applied from the right. Every token makes a
    query, a key and a value. The widths $d_{model}$, $d_k$ and $d_v$ may all differ. If
    `X` has leading axes, all of them share the three matrices. Gradients flow to all
    four inputs.

    >>> X, W = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.zeros(2, 3)
    >>> O, A = self_attention(X, W, W, torch.tensor([[2.0], [6.0]]))
    >>> O, A
    (tensor([[4.],
            [4.]]), tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]]))

    Source: Vaswani et al. (2017), sections 3.2.2 and 3.2.3, one head.
    """
    return sdpa(X @ W_Q, X @ W_K, X @ W_V)


def choose_projections() -> tuple[Float[Tensor, "2 d_k"], Float[Tensor, "2 d_k"]]:
    r"""Return two matrices $(W_Q, W_K)$ that make four words attend in a ring: *she* to
    *ate*, *ate* to *pear*, *pear* to *sweet*, and *sweet* to *she*.

    Both have the shape (2, d_k), and you choose $d_k$.

    >>> W_Q, W_K = choose_projections()
    >>> W_Q.shape == W_K.shape and len(W_Q) == 2
    True
    """
    # the four vectors follow each other clockwise, so rotate every query clockwise
    return 12.0 * torch.tensor([[0.0, -1.0], [1.0, 0.0]]), torch.eye(2)


def head_statistics(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
) -> tuple[Float[Tensor, "... query"], Float[Tensor, "... query"]]:
    r"""Return two numbers for each query: the standard deviation of its scaled scores
    over the keys, and the entropy of its weights, $-\sum_j a_j \ln a_j$.

    The standard deviation divides by the number of keys, and the logarithm is the
    natural one. A weight of 0 contributes 0 to the entropy, so both numbers are finite
    even if the scores are in the thousands.

    >>> head_statistics(torch.zeros(1, 3), torch.eye(2, 3))
    (tensor([0.]), tensor([0.6931]))
    """
    S = scaled_scores(Q, K)
    entropy = torch.special.entr(torch.softmax(S, dim=-1)).sum(-1)
    return S.std(dim=-1, correction=0), entropy


def softmax_jacobian(s: Float[Tensor, " m"]) -> Float[Tensor, "m m"]:
    r"""Return the matrix of all partial derivatives
    $J_{jl} = \partial a_j / \partial s_l$ of the softmax $a = \mathrm{softmax}(s)$.

    Row $j$ belongs to the weight $a_j$ and column $l$ to the score $s_l$. Every entry
    is finite, even if the scores are in the thousands. Write the formula yourself,
    without `torch.autograd`.

    >>> softmax_jacobian(torch.zeros(2))
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]])

    Source: Bridle (1990), "Probabilistic Interpretation of Feedforward Classification
    Network Outputs".
    """
    a = torch.softmax(s, dim=-1)
    return torch.diag(a) - torch.outer(a, a)


def sdpa_backward(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
    V: Float[Tensor, "... key d_v"],
    dO: Float[Tensor, "... query d_v"],
) -> tuple[
    Float[Tensor, "... query d_k"],
    Float[Tensor, "... key d_k"],
    Float[Tensor, "... key d_v"],
]:
    r"""Return the gradients
    $(\partial L/\partial Q, \partial L/\partial K, \partial L/\partial V)$ of a loss
    $L$.

    You get `dO` $= \partial L/\partial O$, where `O, A = sdpa(Q, K, V)`, and the loss
    depends on the inputs only through $O$. Each gradient has the shape of its input.
    Write the formulas yourself, without `backward()` and `torch.autograd`.

    >>> Q, K, V = torch.zeros(1, 3), torch.ones(2, 3), torch.ones(2, 1)
    >>> dQ, dK, dV = sdpa_backward(Q, K, V, torch.tensor([[8.0]]))
    >>> dV
    tensor([[4.],
            [4.]])

    Source: Dao et al. (2022), "FlashAttention", appendix B.2.
    """
    _, A = sdpa(Q, K, V)
    dV = A.transpose(-2, -1) @ dO
    dA = dO @ V.transpose(-2, -1)
    dS = A * (dA - (A * dA).sum(-1, keepdim=True)) / math.sqrt(Q.shape[-1])
    return dS @ K, dS.transpose(-2, -1) @ Q, dV


def most_sensitive_scores() -> Float[Tensor, " eight"]:
    r"""Return eight scores at which the softmax reacts as strongly as it can: the
    Frobenius norm of its Jacobian is 0.49 or more.

    >>> most_sensitive_scores().shape
    torch.Size([8])
    """
    return torch.tensor([30.0, 30.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])  # two keys are tied


def noun_attended(
    A: Float[Tensor, "query key"],
    query: int,
    nouns: Sequence[Sequence[int]],
) -> int:
    r"""Return the index of the noun to which position `query` gives the most weight.

    `A` holds the weights of one head on one sentence. A noun may be split into several
    tokens, so `nouns[i]` lists all positions of noun `i`.

    >>> A = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.6, 0.4, 0.0, 0.0],
    ...                   [0.2, 0.2, 0.6, 0.0], [0.4, 0.3, 0.3, 0.0]])
    >>> noun_attended(A, 3, [[0], [1, 2]])
    1
    """
    totals = [sum(float(A[query, j]) for j in positions) for positions in nouns]
    return totals.index(max(totals))


def luck(heads: int, sentences: int, right: int) -> float:
    r"""Return the probability that the luckiest of several guessing heads looks good.

    Each of `heads` heads guesses between two nouns in each of `sentences` sentences, by
    tossing a fair coin. All tosses are independent. The result is the probability that
    at least one of the heads is right in `right` sentences or more.

    >>> luck(1, 2, 2)
    0.25
    """
    ways = sum(math.comb(sentences, k) for k in range(right, sentences + 1))
    one = ways / float(2**sentences)
    return 1.0 - math.pow(1.0 - one, heads)
