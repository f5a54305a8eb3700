"""Lesson 12: smaller caches for a trained model: pooled layers, latents, and which of them are worth having."""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from solutions.grouped_query import gqa_grouped
from solutions.kv_cache import KVCache
from solutions.multi_query import merge_heads, split_heads
from solutions.positions import apply_rope
from solutions.real_model import Layer


def layers_to_pool(harm: Sequence[float], saved: int, excess: int) -> list[int]:
    """The layers to convert so that a cache shrinks by `excess` bytes a token or more.

    Converting layer `i` saves `saved` bytes and does the harm `harm[i]`. As few layers
    as save enough; of all such choices the one whose harms have the least sum. The
    numbers of the layers ascend; there are none where `excess` is 0 or less.

    Raises ValueError where all layers together save too little.

    >>> layers_to_pool([0.5, 0.1, 0.9, 0.2], saved=10, excess=15)
    [1, 3]
    """
    count = max(0, math.ceil(excess / saved))
    if count > len(harm):
        most = len(harm) * saved
        problem = f"excess: expected at most {most} bytes, got {excess}"
        raise ValueError(f"{problem}. Allow the cache more.")
    return sorted(sorted(range(len(harm)), key=lambda i: harm[i])[:count])


def output_factors(
    W: Float[Tensor, "d_in d_out"],
    C: Float[Tensor, "d_in d_in"],
) -> tuple[Float[Tensor, "d_in d_out"], Float[Tensor, "d_out d_out"]]:
    r"""Two matrices (down, up) with `down @ up` $= W$, the most important part first.

    Their first $r$ columns and rows make the matrix $W_r$ of rank $r$ that is best for
    the **outputs** $y = x W$ (rows) of inputs with the second moment
    $C = \mathbb{E}[x^\top x]$: none has a smaller
    $\mathbb{E}\,\lVert x W - x W_r \rVert^2$. With $C = I$ that is the truncated
    singular value decomposition of `W`.

    `up` $= V^\top$ has orthonormal rows, the principal directions of the outputs: the
    eigenvectors of $\mathbb{E}[y^\top y]$, that of the largest eigenvalue first. Each
    has the sign that makes its first entry positive. And `down` $= W V$.

    >>> W = torch.tensor([[3.0, 3.0], [-1.0, 1.0]])
    >>> down, up = output_factors(W, torch.eye(2))
    >>> up.round(decimals=3)
    tensor([[ 0.7070,  0.7070],
            [ 0.7070, -0.7070]])
    >>> torch.allclose(down[:, :1] @ up[:1], torch.tensor([[3.0, 3.0], [0.0, 0.0]]))
    True

    Source: Eckart and Young (1936) for $C = I$; Yuan et al. (2023), "ASVD", is one of
    several works that look at the activations.
    """
    _, V = torch.linalg.eigh(W.mT @ C @ W)  # eigenvalues ascend
    V = V.flip(-1)
    V = torch.where(V[:1] < 0, -V, V)
    return W @ V, V.mT


def latent_weights(
    W_K: Float[Tensor, "d_model keys"],
    W_V: Float[Tensor, "d_model values"],
    C: Float[Tensor, "d_model d_model"],
    r: int,
) -> tuple[
    Float[Tensor, "d_model rank"],
    Float[Tensor, "rank keys"],
    Float[Tensor, "rank values"],
]:
    r"""The weights $(W_{DKV}, W_{UK}, W_{UV})$ of a latent `r` wide, for all groups.

    Keys and values are factored **together**, by `output_factors` of the one wide
    matrix $[W_K / \kappa \,|\, W_V / \nu]$ with the same `C`, of which the first `r`
    directions are kept. $\kappa^2 = \mathbb{E} \lVert x W_K \rVert^2$ and
    $\nu^2 = \mathbb{E} \lVert x W_V \rVert^2$: so keys and values count alike, large or
    small. The ups are multiplied by $\kappa$ and by $\nu$ again: at full rank
    $W_{DKV} W_{UK} = W_K$ and $W_{DKV} W_{UV} = W_V$.

    >>> W_K, W_V, C = torch.eye(3, 2), torch.eye(3, 1), torch.eye(3)
    >>> W_DKV, W_UK, W_UV = latent_weights(W_K, W_V, C, r=2)
    >>> W_DKV.shape, W_UK.shape, W_UV.shape
    (torch.Size([3, 2]), torch.Size([2, 2]), torch.Size([2, 1]))

    Source: DeepSeek-AI (2024), "DeepSeek-V2", equation 9, for the joint compression.
    """
    kappa, nu = ((W * (C @ W)).sum().sqrt() for W in (W_K, W_V))
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=-1), C)
    keys = W_K.shape[-1]
    return down[:, :r], up[:r, :keys] * kappa, up[:r, keys:] * nu


class LatentAttention:
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
        U, _ = gqa_grouped(Q, K, C.expand(-1, W["G"], -1, -1))  # latents for values
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


def pareto(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The names of the points worth having, by rising cost.

    `points` gives each name its (cost, loss); less is better in both. A point is
    dropped if another has neither a larger cost nor a larger loss, and one of the two
    smaller. Equal points both stay. Points of equal cost are ordered by name.

    >>> points = {"small": (1.0, 9.0), "large": (5.0, 2.0), "waste": (6.0, 3.0)}
    >>> pareto(points | {"middle": (3.0, 3.0)})
    ['small', 'middle', 'large']
    """

    def beaten(cost: float, loss: float) -> bool:
        others = [point for point in points.values() if point != (cost, loss)]
        return any(c <= cost and q <= loss for c, q in others)

    kept = [name for name, point in points.items() if not beaten(*point)]
    return sorted(kept, key=lambda name: (points[name][0], name))
