"""Masked attention, as the learner writes it in notebooks 04 and 04b, for notebooks that only use it."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def causal_mask(n_q: int, n_k: int) -> Bool[Tensor, "query key"]:
    """Return the mask that lets the last `n_q` of `n_k` positions attend to themselves and to earlier ones; True means keep.

    >>> causal_mask(2, 3).int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return torch.arange(n_k) <= torch.arange(n_q)[:, None] + (n_k - n_q)


def masked_sdpa(
    Q: Float[Tensor, "*batch query d_k"],
    K: Float[Tensor, "*batch key d_k"],
    V: Float[Tensor, "*batch key d_v"],
    keep: Bool[Tensor, "*#batch query key"],
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
    """Return the output and the weights; a query that may attend to no key gets zeros.

    >>> O, A = masked_sdpa(torch.zeros(2, 5), torch.zeros(3, 5), torch.tensor([[3.0], [6.0], [9.0]]), causal_mask(2, 3))
    >>> O.tolist()
    [[4.5], [6.0]]
    """
    empty = ~keep.any(-1, keepdim=True)
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    S = S.masked_fill(~(keep | empty), -math.inf)
    A = torch.softmax(S, dim=-1).masked_fill(empty, 0.0)
    return A @ V, A
