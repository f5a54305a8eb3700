"""Attention in tiles: the exact result of `softmax(Q Kᵀ/√d) V` without ever holding the (query, key) matrix."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

QUERIES = 128  # queries to a tile: with 256 keys, a head's tile of scores fits the second-level cache of a core


def attention_tiled(
    Q: Float[Tensor, "*batch query d_k"],
    K: Float[Tensor, "*batch key d_k"],
    V: Float[Tensor, "*batch key d_v"],
    *,
    keep: Bool[Tensor, "*#batch query key"] | None = None,
    causal: bool = False,
    scale: float | None = None,
    block: int = 256,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query"]]:
    r"""$(O, \ell)$ with $O = \mathrm{softmax}(S) V$ and the log-sum-exp $\ell_i = \ln \sum_j e^{S_{ij}}$ of each query's scores.

    Keys come `block` at a time. For each query a running maximum $m$, sum $z$ and output $o$ are kept; a new block with
    maximum $m'$ rescales the old ones by $e^{m - m'}$. On a CPU the queries come in tiles too. Memory is O(n_q * block) at
    most, not O(n_q * n_k).

    `causal` aligns bottom right: query i sees keys j <= i + (n_k - n_q). Blocks that a tile may not see cost nothing.
    A query that may see nothing gets zeros and $\ell = -\infty$. $\ell$ lets two partial results be merged exactly.

    Source: Milakov & Gimelshein 2018, algorithm 3 (online normaliser); Dao et al. 2022 (FlashAttention), algorithm 1.

    >>> O, lse = attention_tiled(torch.zeros(2, 3), torch.zeros(4, 3), torch.arange(8.0).view(4, 2), block=3)
    >>> O[0], lse.exp()
    (tensor([3., 4.]), tensor([4., 4.]))
    """
    n_q, n_k = Q.shape[-2], K.shape[-2]
    if block < 1:
        raise ValueError(f"expected block >= 1 key at a time, got {block}.")
    if K.shape[-1] != Q.shape[-1] or V.shape[-2] != n_k:
        raise ValueError(f"expected K (key, {Q.shape[-1]}) and V (key, d_v), got {tuple(K.shape)} and {tuple(V.shape)}.")
    factor = 1 / math.sqrt(Q.shape[-1]) if scale is None else scale
    leading = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2], V.shape[:-2])
    Q = (Q * factor).expand(*leading, -1, -1)
    rows = QUERIES if Q.device.type == "cpu" else max(n_q, 1)  # a GPU is better served by few large launches
    tiles = [slice(first, first + rows) for first in range(0, max(n_q, 1), rows)]
    keeps = [None if keep is None else keep[..., tile, :] for tile in tiles]
    tokens = [tile.start + n_k - n_q if causal else None for tile in tiles]  # the place of a tile's first query among all tokens
    given = zip(tiles, keeps, tokens, strict=True)
    parts = [_queries(Q[..., tile, :], K, V, seen, token, block) for tile, seen, token in given]
    outs, lses = zip(*parts, strict=True)
    return torch.cat(outs, dim=-2), torch.cat(lses, dim=-1)


def _queries(Q: Tensor, K: Tensor, V: Tensor, keep: Tensor | None, token: int | None, block: int) -> tuple[Tensor, Tensor]:
    """One tile of queries, already scaled, over all blocks of keys; with `token`, over those up to each query's own token."""
    n_q, n_k = Q.shape[-2], K.shape[-2]
    high = Q.new_full((*Q.shape[:-1], 1), -math.inf)  # running maximum m
    total = Q.new_zeros((*Q.shape[:-1], 1))  # running sum z of exp(S - m)
    out = Q.new_zeros((*Q.shape[:-1], V.shape[-1]))  # running output, not yet divided by z
    for start in range(0, n_k if token is None else min(n_k, token + n_q), block):  # later blocks no query of the tile may see
        stop = min(start + block, n_k)
        scores = Q @ K[..., start:stop, :].mT
        if keep is not None:
            scores.masked_fill_(~keep[..., start:stop], -math.inf)
        if token is not None and stop > token + 1:
            past = torch.arange(n_q, device=Q.device)[:, None] + token >= torch.arange(start, stop, device=Q.device)
            scores.masked_fill_(~past, -math.inf)
        # The result does not depend on the maximum, so no gradient need pass through it, and the rest may work in place.
        new_high = torch.maximum(high, scores.detach().amax(dim=-1, keepdim=True))
        # a query that has seen nothing yet has m = -inf; any finite shift serves it
        shift = new_high.masked_fill(new_high == -math.inf, 0.0)
        weights = scores.sub_(shift).exp_()
        decay = (high - shift).exp()
        total = total * decay + weights.sum(dim=-1, keepdim=True)
        out = out * decay + weights @ V[..., start:stop, :]
        high = new_high
    lse = (high.masked_fill(high == -math.inf, 0.0) + total.log()).squeeze(-1)
    return out / total.masked_fill(total == 0, 1.0), lse


def merge_tiles(
    one: tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query"]],
    two: tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query"]],
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query"]]:
    r"""The attention over all keys from two results over parts of them: each output weighted by $e^{\ell - \ell_{all}}$.

    This is how decoding over a long cache is split among workers (FlashDecoding).

    >>> q, k, v = torch.ones(1, 2), torch.eye(2), torch.tensor([[1.0], [3.0]])
    >>> parts = [attention_tiled(q, k[i : i + 1], v[i : i + 1]) for i in range(2)]
    >>> merge_tiles(*parts)[0].round(decimals=4)
    tensor([[2.]])
    """
    (o1, l1), (o2, l2) = one, two
    lse = torch.logaddexp(l1, l2)
    shift = lse.masked_fill(lse == -math.inf, 0.0)
    return o1 * (l1 - shift).exp()[..., None] + o2 * (l2 - shift).exp()[..., None], lse
