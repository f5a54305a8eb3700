"""Workshop 13b: a matrix of fixed size that is written to and read, in place of a cache."""

import torch
from jaxtyping import Float
from torch import Tensor


def linear_attention(
    Q: Float[Tensor, "n d_k"],
    K: Float[Tensor, "n d_k"],
    V: Float[Tensor, "n d_v"],
) -> Float[Tensor, "n d_v"]:
    r"""Causal attention whose weights are the bare scores.

    $o_i = \sum_{j \le i} (q_i \cdot k_j)\, v_j$, without softmax and without scaling.
    Use memory that doesn't grow with $n^2$, nor with $n\, d_k\, d_v$.

    >>> one = torch.ones(3, 1)
    >>> linear_attention(one, one, torch.tensor([[1.0], [10.0], [100.0]])).flatten()
    tensor([  1.,  11., 111.])

    Source: Katharopoulos et al. (2020), "Transformers are RNNs", with the feature map
    left out.
    """
    S = V.new_zeros(K.shape[-1], V.shape[-1])
    read = []
    for i in range(len(Q)):
        S = S + K[i, :, None] * V[i]
        read.append(Q[i] @ S)
    return torch.stack(read)


def crosstalk(pairs: int, d: int) -> float:
    r"""The noise in a value that is read from a sum of outer products.

    The state holds `pairs` pairs. All keys are unit vectors of `d` numbers in random
    directions, and all values have the same length and random directions. Returned is
    the mean squared length of the error, divided by the squared length of a value.

    >>> crosstalk(1, 64)
    0.0
    """
    return (pairs - 1) / d


def delta_write(
    S: Float[Tensor, "d_k d_v"],
    k: Float[Tensor, " d_k"],
    v: Float[Tensor, " d_v"],
    b: float,
) -> Float[Tensor, "d_k d_v"]:
    r"""The state after a write that replaces what the unit key `k` reads.

    Reading with `k` gives $(1 - b)$ times what it gave before, plus $b$ times `v`.
    Reading with a query at right angles to `k` gives what it gave before. `S` itself
    doesn't change.

    >>> S = torch.tensor([[7.0], [5.0]])
    >>> delta_write(S, torch.tensor([1.0, 0.0]), torch.tensor([9.0]), 1.0)
    tensor([[9.],
            [5.]])

    Source: Schlag, Irie and Schmidhuber (2021), "Linear Transformers Are Secretly Fast
    Weight Programmers".
    """
    return S + b * k[:, None] * (v - k @ S)


def delta_chunk(
    S: Float[Tensor, "... d_k d_v"],
    Q: Float[Tensor, "... n d_k"],
    K: Float[Tensor, "... n d_k"],
    V: Float[Tensor, "... n d_v"],
    b: Float[Tensor, "... n"],
) -> tuple[Float[Tensor, "... n d_v"], Float[Tensor, "... d_k d_v"]]:
    r"""Write a chunk of tokens by the delta rule, all at once, and read after each.

    Token $i$ writes first and reads afterwards, with its own query. Returned are what
    the tokens read and the state after the chunk. Write no loop over the tokens.

    >>> one, b = torch.ones(2, 1), torch.tensor([1.0, 0.5])
    >>> O, S = delta_chunk(torch.zeros(1, 1), one, one, torch.tensor([[8.0], [4.0]]), b)
    >>> O.flatten(), S
    (tensor([8., 6.]), tensor([[6.]]))

    Source: Yang et al. (2024), "Parallelizing Linear Transformers with the Delta Rule
    over Sequence Length".
    """
    earlier = (b[..., None] * (K @ K.mT)).tril(-1)
    system = earlier + torch.eye(K.shape[-2], dtype=K.dtype, device=K.device)
    wanted = b[..., None] * (V - K @ S)
    U = torch.linalg.solve_triangular(system, wanted, upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U
