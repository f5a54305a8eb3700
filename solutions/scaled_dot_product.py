"""Lesson 03: scaled dot-product attention, self-attention, softmax Jacobian and backward pass."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def scaled_scores(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
) -> Float[Tensor, "... query key"]:
    r"""The dot product of each query with each key, divided so that its standard
    deviation is 1 at every width $d_k$: one row per query, one column per key.

    That holds for vectors whose entries are independent, with mean 0 and variance 1.
    Any number of leading axes (batch, heads) is carried along. The result has the
    device and the dtype of the inputs.

    >>> K = torch.tensor([[2.0, 5.0, 5.0, 2.0], [0.0, 1.0, 1.0, 4.0]])
    >>> scaled_scores(torch.tensor([[3.0, 0.0, 0.0, 1.0]]), K)
    tensor([[4., 2.]])

    Source: Vaswani et al. (2017), "Attention Is All You Need", section 3.2.1, equation
    1.
    """
    return Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])


def sdpa(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
    V: Float[Tensor, "... key d_v"],
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query key"]]:
    r"""Output and weights $(O, A)$ of scaled dot-product attention:
    $A_{ij} = \mathrm{softmax}_j(S_{ij})$, $O = A V$.

    Each row of $A$ is non-negative and sums to 1, also where scores are in the
    thousands. Any number of leading axes is carried along. Gradients flow to all three
    inputs.

    >>> O, A = sdpa(torch.zeros(1, 3), torch.eye(2, 3), torch.tensor([[2.0], [6.0]]))
    >>> O, A
    (tensor([[4.]]), tensor([[0.5000, 0.5000]]))

    Source: Vaswani et al. (2017), section 3.2.1, equation 1.
    """
    A = torch.softmax(scaled_scores(Q, K), dim=-1)
    return A @ V, A


def self_attention(
    X: Float[Tensor, "... query d_model"],
    W_Q: Float[Tensor, "d_model d_k"],
    W_K: Float[Tensor, "d_model d_k"],
    W_V: Float[Tensor, "d_model d_v"],
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query query"]]:
    r"""Output and weights $(O, A)$ of one sequence that attends to itself: every token
    of `X` asks, and every token is looked up.

    Rows are tokens: a projection is a product with the matrix on the right. The widths
    $d_{model}$, $d_k$ and $d_v$ may all differ. Any number of leading axes of `X` is
    carried along, and the three matrices are shared by all of them. Gradients flow to
    all four inputs.

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
    r"""Two matrices $(W_Q, W_K)$ of shape (2, d_k), the width $d_k$ being yours, which
    make four words of the lesson's sentence look in a ring: *she* at *ate*, *ate* at
    *pear*, *pear* at *sweet*, *sweet* at *she*.

    >>> W_Q, W_K = choose_projections()
    >>> W_Q.shape == W_K.shape and len(W_Q) == 2
    True
    """
    # the four lie clockwise around the origin: turn each query clockwise, to the next
    return 12.0 * torch.tensor([[0.0, -1.0], [1.0, 0.0]]), torch.eye(2)


def head_statistics(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
) -> tuple[Float[Tensor, "... query"], Float[Tensor, "... query"]]:
    r"""For each query: the standard deviation of its scaled scores over the keys, and
    the entropy of its weights, $-\sum_j a_j \ln a_j$ (natural logarithm).

    The standard deviation divides by the number of keys. A weight of 0 counts nothing
    in the entropy (its limit is 0), so both numbers are finite for scores in the
    thousands too.

    >>> head_statistics(torch.zeros(1, 3), torch.eye(2, 3))
    (tensor([0.]), tensor([0.6931]))
    """
    S = scaled_scores(Q, K)
    entropy = torch.special.entr(torch.softmax(S, dim=-1)).sum(-1)
    return S.std(dim=-1, correction=0), entropy


def softmax_jacobian(s: Float[Tensor, " m"]) -> Float[Tensor, "m m"]:
    r"""The matrix of all partial derivatives $J_{jl} = \partial a_j / \partial s_l$ of
    the softmax $a = \mathrm{softmax}(s)$.

    Row $j$ belongs to the weight $a_j$, column $l$ to the score $s_l$. Finite also
    where `s` holds entries in the thousands. By hand: no `torch.autograd`.

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
    r"""The gradients
    $(\partial L/\partial Q, \partial L/\partial K, \partial L/\partial V)$ of a loss
    $L$.

    The gradient that arrives from above is `dO` $= \partial L/\partial O$, where
    `O, A = sdpa(Q, K, V)`; the loss depends on the inputs through $O$ alone. Each
    gradient has the shape of its input. By hand: no `backward()`, no `torch.autograd`.

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
