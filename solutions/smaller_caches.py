"""Lesson 12: smaller caches for a trained model: pooled layers, fewer bits, latents, fewer rotations."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from solutions.grouped_query import gqa_grouped
from solutions.kv_cache import KVCache
from solutions.multi_query import merge_heads, split_heads
from solutions.positions import apply_rope
from solutions.real_model import Layer


def round_to_bits(
    x: Float[Tensor, "..."],
    bits: int,
    dim: int,
) -> Float[Tensor, "..."]:
    r"""The numbers of `x`, each rounded to the nearest of $2^{bits}$ levels.

    The levels are spaced equally from the least to the largest number along the axis
    `dim`, both included: so each line along that axis needs `bits` bits a number, and
    its least number and its step beside them. Where all numbers of a line are equal,
    they stay as they are.

    >>> x = torch.tensor([[0.0, 1.0, 2.0, 4.0, 9.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
    >>> round_to_bits(x, 2, dim=1)
    tensor([[0., 0., 3., 3., 9.],
            [5., 5., 5., 5., 5.]])

    Source: Liu et al. (2024), "KIVI", section 2, for keys and values of a cache.
    """
    least, largest = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    gaps = 2**bits - 1  # between so many levels and one more
    unit = ((largest - least) / gaps).clamp(min=torch.finfo(x.dtype).tiny)
    y: Tensor = torch.round((x - least) / unit) * unit + least
    return y


def partial_rope(
    x: Float[Tensor, "... n d"],
    pos: Int[Tensor, " n"],
    pairs: int,
    base: float,
) -> Float[Tensor, "... n d"]:
    r"""Rows of `x` with their `pairs` **fastest** pairs of features turned to `pos`.

    As `apply_rope` in the interleaved layout: pair $i$ holds the features $2i$ and
    $2i + 1$, and turns by $base^{-2i/d}$ a position. All other pairs stay as they are.

    >>> x = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    >>> partial_rope(x, torch.tensor([1]), 1, 100.0).round(decimals=2)
    tensor([[0.5400, 0.8400, 1.0000, 0.0000]])

    Source: Ji et al. (2025), "MHA2MLA", section 3.1.
    """
    y = apply_rope(x, pos, base)  # all pairs, at the right angles
    y[..., 2 * pairs :] = x[..., 2 * pairs :]
    return y


def remade_ratio() -> float:
    """How many times the arithmetic of grouped-query attention a latent cache costs.

    Count the FLOP of one layer for each cached token in a step that decodes one token;
    a multiplication with its addition counts 2. There are 9 heads, 3 groups and 64
    features a head, and latents of 128 numbers. Rotary positions force the step to make
    the keys of all 3 groups again out of each latent. Values are never made: each head
    averages latents. Rotating a key, and what happens once in a step for all tokens
    together, is so little that it does not count. Grouped-query attention has scores
    and averages alone.
    """
    H, G, d, r = 9, 3, 64, 128
    keys_again = 2 * r * G * d
    scores, averages = 2 * H * d, 2 * H * r
    return (keys_again + scores + averages) / (2 * H * d + 2 * H * d)


def output_factors(
    W: Float[Tensor, "d_in d_out"],
    moment: Float[Tensor, "d_in d_in"],
) -> tuple[Float[Tensor, "d_in d_out"], Float[Tensor, "d_out d_out"]]:
    r"""Two matrices (down, up) with `down @ up` $= W$, the most important part first.

    Their first $r$ columns and rows make the matrix $W_r$ of rank $r$ that is best for
    the **outputs** $y = x W$ (rows) of inputs with the second moment
    `moment` $= \mathbb{E}[x^\top x]$: none has a smaller
    $\mathbb{E}\,\lVert x W - x W_r \rVert^2$.

    `up` has orthonormal rows, the principal directions of the outputs, the one in which
    they vary most first. Their signs are free.

    >>> W = torch.tensor([[3.0, 3.0], [-1.0, 1.0]])
    >>> down, up = output_factors(W, torch.eye(2))
    >>> up.abs().round(decimals=3)
    tensor([[0.7070, 0.7070],
            [0.7070, 0.7070]])
    >>> torch.allclose(down[:, :1] @ up[:1], torch.tensor([[3.0, 3.0], [0.0, 0.0]]))
    True

    Source: Eckart and Young (1936) where `moment` is the identity; Chang et al. (2024),
    "Palu", for keys and values in a cache.
    """
    _, U = torch.linalg.eigh(W.mT @ moment @ W)  # eigenvalues ascend
    U = U.flip(-1)
    return W @ U, U.mT


def latent_weights(
    W_K: Float[Tensor, "d_model keys"],
    W_V: Float[Tensor, "d_model values"],
    moment: Float[Tensor, "d_model d_model"],
    r: int,
) -> tuple[
    Float[Tensor, "d_model rank"],
    Float[Tensor, "rank keys"],
    Float[Tensor, "rank values"],
]:
    r"""The weights $(W_{DKV}, W_{UK}, W_{UV})$ of a latent `r` wide, for all groups.

    Keys and values are factored **together**, by `output_factors` of the one wide
    matrix $[W_K / \kappa \,|\, W_V / \nu]$ with the same `moment`. Its first `r`
    directions are kept. $\kappa^2 = \mathbb{E} \lVert x W_K \rVert^2$ and
    $\nu^2 = \mathbb{E} \lVert x W_V \rVert^2$: so keys and values count alike, large or
    small. The ups are multiplied by $\kappa$ and by $\nu$ again: at full rank
    $W_{DKV} W_{UK} = W_K$ and $W_{DKV} W_{UV} = W_V$.

    >>> W_K, W_V, moment = torch.eye(3, 2), torch.eye(3, 1), torch.eye(3)
    >>> W_DKV, W_UK, W_UV = latent_weights(W_K, W_V, moment, r=2)
    >>> W_DKV.shape, W_UK.shape, W_UV.shape
    (torch.Size([3, 2]), torch.Size([2, 2]), torch.Size([2, 1]))

    Source: DeepSeek-AI (2024), "DeepSeek-V2", equation 9, for the joint compression.
    """
    kappa, nu = ((W * (moment @ W)).sum().sqrt() for W in (W_K, W_V))
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=-1), moment)
    keys = W_K.shape[-1]
    return down[:, :r], up[:r, :keys] * kappa, up[:r, keys:] * nu


class LowRankAttention:
    r"""The attention of a layer of a Llama that caches latents, with rotary positions.

    `layer` holds `Wq`, `Wo`, `H`, `G` and `base` as for `GroupedAttention`, and in the
    place of `Wk` and `Wv` the weights `W_DKV` (d_model, r), `W_UK` (r, G d) and `W_UV`
    (r, G d). The cache holds the latents $c = x W_{DKV}$, **not** rotated. Each call
    makes all keys $c\, W_{UK}$, those of the past too, and rotates each to its own
    position. No value is ever made: each head averages latents, and its group's
    columns of `W_UV` act on the average.

    Source: DeepSeek-AI (2024), section 2.1.2, for values; section 2.1.3 says why keys
    are another matter.
    """

    def __init__(self, layer: Layer, capacity: int) -> None:
        """For a layer that has seen no token yet, with room for `capacity` tokens."""
        self.layer = layer
        self.cache = KVCache(capacity)

    @property
    def length(self) -> int:
        """How many tokens it has seen since the start, or since the last `reset`."""
        return self.cache.length

    def averages(
        self,
        x: Float[Tensor, "batch new d_model"],
    ) -> Float[Tensor, "batch head new rank"]:
        """Each head's average of latents for the tokens of `x`, which join the past."""
        W, start, stop = self.layer, self.length, self.length + x.shape[-2]
        pos = torch.arange(stop, device=x.device)
        new = (x @ W["W_DKV"]).unsqueeze(1)  # (batch, 1, new, r): one head of latents
        C, _ = self.cache.append(new, new[..., :0])  # and nothing beside it
        Q = apply_rope(split_heads(x @ W["Wq"], W["H"]), pos[start:], W["base"])
        K = apply_rope(split_heads(C.squeeze(1) @ W["W_UK"], W["G"]), pos, W["base"])
        _, A = gqa_grouped(Q, K, K[..., :1])  # the weights are all that is wanted
        # heads are rows of one matrix: no copy of the latents for each group
        U: Tensor = (A.flatten(1, 3) @ C.squeeze(1)).unflatten(1, Q.shape[1:3])
        return U

    def __call__(
        self,
        x: Float[Tensor, "batch new d_model"],
    ) -> Float[Tensor, "batch new d_model"]:
        """The outputs for the tokens of `x`, which follow those seen before."""
        W, U = self.layer, self.averages(x)
        up = split_heads(W["W_UV"], W["G"])  # (G, r, d)
        # (batch, H, new, d)
        outputs = U @ up.repeat_interleave(W["H"] // W["G"], dim=0)
        y: Tensor = merge_heads(outputs) @ W["Wo"]
        return y

    def reset(self) -> None:
        """Forget all tokens."""
        self.cache.reset()


def round_latents(
    c: Float[Tensor, "... n r"],
    bits: int,
    block: int,
) -> Float[Tensor, "... n r"]:
    r"""Latents as a cache of few bits gives them back.

    Each `block` tokens, counted from the first, make a block. Within a block, the
    numbers of one feature share their levels, as `round_to_bits` makes them. The newest
    tokens, while they do not fill a block, stay as they are.

    >>> c = torch.tensor([[0.0], [1.0], [2.0], [4.0], [9.0], [5.5]])  # 6 tokens, r = 1
    >>> round_latents(c, bits=2, block=5).mT
    tensor([[0.0000, 0.0000, 3.0000, 3.0000, 9.0000, 5.5000]])

    Source: Liu et al. (2024), "KIVI", for keys; Chang et al. (2024), "Palu", for
    latents in few bits.
    """
    parts = list(c.split(block, dim=-2))
    for i, part in enumerate(parts):
        if part.shape[-2] == block:
            parts[i] = round_to_bits(part, bits, -2)
    return torch.cat(parts, dim=-2)
