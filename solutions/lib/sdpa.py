"""Scaled dot-product attention under a mask: the scores, and what becomes of a query that may attend to no key.

`scaled_scores` is also the answer of chapter 03, and `masked_sdpa` the one of chapter 04.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def scaled_scores(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
) -> Float[Tensor, "... query key"]:
    r"""Return the dot product of every query with every key, divided so that its
    variance is 1 at every width $d_k$. There is one row per query and one column per
    key.

    The variance is 1 for vectors whose entries are independent, with mean 0 and
    variance 1. The function accepts any number of leading axes, such as a batch. The
    result has the device and the dtype of the inputs.

    >>> K = torch.tensor([[2.0, 5.0, 5.0, 2.0], [0.0, 1.0, 1.0, 4.0]])
    >>> scaled_scores(torch.tensor([[3.0, 0.0, 0.0, 1.0]]), K)
    tensor([[4., 2.]])

    Source: Vaswani et al. (2017), "Attention Is All You Need", section 3.2.1, equation
    1.
    """
    return Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])


def masked_sdpa(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
    V: Float[Tensor, "... key d_v"],
    keep: Bool[Tensor, "..."],
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query key"]]:
    r"""Return output and weights $(O, A)$ of `masked_attention`, where a query may also
    have no key at all.

    `keep` broadcasts to the shape of the scores. A row of $A$ is the softmax over the
    kept keys, and exactly 0 elsewhere. A query that may attend to **no** key gets zeros
    in $A$ and in $O$, and the gradients of all inputs stay finite. A NaN in a query
    that keeps something comes from a fault elsewhere and stays visible, so its row is
    NaN.

    >>> keep = torch.tensor([[True, True, False], [False, False, False]])
    >>> V = torch.tensor([[2.0], [6.0], [9.0]])
    >>> O, A = masked_sdpa(torch.zeros(2, 5), torch.zeros(3, 5), V, keep)
    >>> O
    tensor([[4.],
            [0.]])
    >>> A
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])

    Source: Vaswani et al. (2017), equation 1 and section 3.2.3; fully masked rows as
    `torch.nn.functional.scaled_dot_product_attention`.
    """
    # a row that may see nothing sees everything, so that no NaN arises; then its
    # weights are set to zero
    empty = ~keep.any(-1, keepdim=True)
    S = scaled_scores(Q, K).masked_fill(~(keep | empty), -math.inf)
    A = torch.softmax(S, dim=-1).masked_fill(empty, 0.0)
    return A @ V, A
