"""Attention that never builds the (query, key) matrix: its cost, the loop over tiles, and the merge of two parts."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def tiled_attention(
    Q: Float[Tensor, "*batch query d_k"],
    K: Float[Tensor, "*batch key d_k"],
    V: Float[Tensor, "*batch key d_v"],
    tile: int,
    causal: bool = True,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query"]]:
    r"""Output $O = \operatorname{softmax}(QK^\top/\sqrt{d_k})\,V$ and log-sum-exp
    $\ell_i = \ln \sum_j e^{S_{ij}}$, computed in tiles.

    At most `tile` queries meet at most `tile` keys at a time, and the last tile may be
    smaller. With `causal` there are as many queries as keys, query $i$ attends to keys
    $j \le i$, and tiles above the diagonal are skipped. Scores may be of any size. No
    tensor with a number for each pair of tokens is made.

    >>> V = torch.tensor([[0.0], [2.0], [4.0], [6.0]])
    >>> O, lse = tiled_attention(torch.zeros(4, 2), torch.zeros(4, 2), V, tile=2)
    >>> O.squeeze(), lse.exp().round()
    (tensor([0., 1., 2., 3.]), tensor([1., 2., 3., 4.]))

    Source: Dao (2023), "FlashAttention-2", algorithm 1.
    """
    n, m_keys = Q.shape[-2], K.shape[-2]
    outputs, lses = [], []
    for a in range(0, n, tile):
        q = Q[..., a : a + tile, :] / math.sqrt(Q.shape[-1])
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        z, o = torch.zeros_like(m), q.new_zeros((*q.shape[:-1], V.shape[-1]))
        for b in range(0, a + 1 if causal else m_keys, tile):
            S = q @ K[..., b : b + tile, :].mT
            if causal and b == a:  # a tile on the diagonal
                future = torch.ones_like(S, dtype=torch.bool).triu(1)
                S = S.masked_fill(future, -math.inf)
            new = torch.maximum(m, S.amax(-1, keepdim=True))
            shrink, e = torch.exp(m - new), torch.exp(S - new)
            z = z * shrink + e.sum(-1, keepdim=True)
            o = o * shrink + e @ V[..., b : b + tile, :]
            m = new
        outputs.append(o / z)
        lses.append((m + z.log()).squeeze(-1))
    return torch.cat(outputs, dim=-2), torch.cat(lses, dim=-1)


def choose_tile(n: int, d: int, room: int) -> tuple[int, float]:
    r"""Return the largest tile that fits into `room` bytes of fast memory, and the
    FLOPs per byte of attention in such tiles.

    One head has `n` queries and `n` keys of width `d` and no mask. A tile is a power of
    two, and it divides `n`. While `tile` queries meet `tile` keys, fast memory holds
    these rows of Q, K and V, their scores, which the weights overwrite, and the running
    results of the queries. What is computed has 4 bytes per number on the chip. Q, K
    and V have 2 bytes per number everywhere, and O is written in 2.

    >>> choose_tile(n=64, d=16, room=8000)
    (16, 12.8)

    Source: Dao (2023), "FlashAttention-2", section 3.1, for the loop.
    """
    tile = 1
    while _held(2 * tile, d) <= room:
        tile *= 2
    # Q and O travel once, K and V once for every tile of queries
    moved = 2 * (2 * n * d + 2 * n * d * (n // tile))
    return tile, 4 * n * n * d / moved


def _held(tile: int, d: int) -> int:
    """Count the bytes of a tile: Q, K, V, the scores, and o, m and z of each query."""
    return 2 * 3 * tile * d + 4 * (tile * tile + tile * d + 2 * tile)


def merge(
    o1: Float[Tensor, "*batch d_v"],
    lse1: Float[Tensor, "*batch"],
    o2: Float[Tensor, "*batch d_v"],
    lse2: Float[Tensor, "*batch"],
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch"]]:
    r"""Output and log-sum-exp of attention over two sets of keys, from those of each.

    Each output is weighted by its share $e^{\ell_i - \ell}$ of the whole sum, where
    $\ell = \ln(e^{\ell_1} + e^{\ell_2})$. The result can be merged again. A part
    without keys has $\ell = -\infty$, and then the other part has some.

    >>> o, lse = merge(torch.tensor([2.0]), torch.tensor(0.0),
    ...                torch.tensor([6.0]), torch.tensor(math.log(3)))
    >>> o.round(decimals=4), lse.exp().round(decimals=4)
    (tensor([5.]), tensor(4.))

    Source: Dao et al. (2023), "Flash-Decoding for long-context inference".
    """
    top = torch.maximum(lse1, lse2)
    w1, w2 = torch.exp(lse1 - top), torch.exp(lse2 - top)
    total = w1 + w2
    o = (w1[..., None] * o1 + w2[..., None] * o2) / total[..., None]
    return o, top + torch.log(total)
