"""Chapter 12: smaller caches for a trained model: fewer bits, an honest interval, latents, fewer rotations."""

import math

import torch
from attention_course.memory import tells_copies
from jaxtyping import Float, Int
from torch import Tensor

from solutions.grouped_query import gqa_grouped
from solutions.lib.cache import KVCache
from solutions.lib.heads import merge_heads, split_heads
from solutions.lib.rope import apply_rope
from solutions.real_model import Layer


def round_to_bits(
    x: Float[Tensor, "..."],
    bits: int,
    dim: int,
) -> Float[Tensor, "..."]:
    r"""Round each number of `x` to the nearest of $2^{bits}$ levels of its group.

    The numbers along the axis `dim` form a group. Its levels are spaced equally from
    its least number to its largest, both included, so a cache needs `bits` bits per
    number and, for each group, the least number and the step. A group of equal numbers
    stays as it is.

    >>> x = torch.tensor([[0.0, 1.0, 2.0, 4.0, 9.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
    >>> round_to_bits(x, 2, dim=1)
    tensor([[0., 0., 3., 3., 9.],
            [5., 5., 5., 5., 5.]])

    Source: Liu et al. (2024), "KIVI", section 2, for keys and values of a cache.
    """
    least, largest = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    gaps = 2**bits - 1  # there is one level more than gaps
    unit = ((largest - least) / gaps).clamp(min=torch.finfo(x.dtype).tiny)
    y: Tensor = torch.round((x - least) / unit) * unit + least
    return y


def paired_interval(
    new: Float[Tensor, " token"],
    old: Float[Tensor, " token"],
    picks: Int[Tensor, "resample block"],
    size: int,
) -> tuple[float, float, float]:
    r"""Compute the ratio of two perplexities and the ends of its 95 % interval.

    `new` and `old` are the losses of two caches at the same tokens, and perplexity is
    $e$ to the mean loss. The text consists of blocks of `size` consecutive tokens. Each
    row of `picks` lists the numbers of the blocks that make up one resampled text, in
    which a block may occur several times. The interval reaches from the 2.5 % quantile
    to the 97.5 % quantile of the ratios of all resampled texts. The ratio itself is
    that of the text as it is.

    >>> old = torch.tensor([1.0, 2.0, 5.0, 1.0])
    >>> new = old + math.log(2)
    >>> picks = torch.tensor([[0, 0], [0, 1], [1, 1]])
    >>> [round(number, 6) for number in paired_interval(new, old, picks, size=2)]
    [2.0, 2.0, 2.0]

    Source: Künsch (1989), "The jackknife and the bootstrap for general stationary
    observations", for blocks; Efron and Tibshirani (1993), chapter 13, for quantiles.
    """
    difference = new - old
    means = difference.reshape(-1, size).mean(1)[picks].mean(1)
    low, high = (float(torch.quantile(means, q).exp()) for q in (0.025, 0.975))
    return float(difference.mean().exp()), low, high


def partial_rope(
    x: Float[Tensor, "... n d"],
    pos: Int[Tensor, " n"],
    pairs: int,
    base: float,
) -> Float[Tensor, "... n d"]:
    r"""Rotate the `pairs` **fastest** pairs of features in each row of `x` to `pos`.

    As in `apply_rope` with the interleaved layout, pair $i$ has the features $2i$ and
    $2i + 1$ and rotates by $base^{-2i/d}$ per position. All other pairs stay the same.

    >>> x = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    >>> partial_rope(x, torch.tensor([1]), 1, 100.0).round(decimals=2)
    tensor([[0.5400, 0.8400, 1.0000, 0.0000]])

    Source: Ji et al. (2025), "MHA2MLA", section 3.1.
    """
    y = apply_rope(x, pos, base)  # all pairs, at the right angles
    y[..., 2 * pairs :] = x[..., 2 * pairs :]
    return y


def remade_ratio() -> float:
    """Return how many times the arithmetic of grouped-query attention latents need.

    Count the FLOPs of one layer for each cached token in a step that decodes one token.
    A multiplication with its addition counts as 2. There are 9 heads of 64 features in
    3 groups, and latents of 128 numbers. Rotary positions force the step to rebuild the
    keys of all 3 groups from each latent. Values are never made, because each head
    averages latents. Ignore the rotation of a key, and all work that is done once per
    step and not for each token. Grouped-query attention has only scores and averages.
    """
    H, G, d, r = 9, 3, 64, 128
    keys_again = 2 * r * G * d
    scores, averages = 2 * H * d, 2 * H * r
    return (keys_again + scores + averages) / (2 * H * d + 2 * H * d)


def best_angle(
    W: Float[Tensor, "2 2"],
    moment: Float[Tensor, "2 2"],
) -> float:
    r"""Find the direction in the plane that keeps most of the outputs $y = x W$.

    The inputs $x$ are rows with the second moment `moment` $= \mathbb{E}[x^\top x]$.
    Each output is replaced by its projection onto a line through the origin. The result
    is the line's angle in degrees, from 0 up to 180, for which the mean square of the
    error is smallest. The angle is measured from the first axis towards the second.

    >>> moment = torch.tensor([[9.0, 0.0], [0.0, 0.25]])
    >>> best_angle(torch.tensor([[1.0, 1.0], [-2.0, 2.0]]), moment)
    45.0

    Source: Pearson (1901), "On lines and planes of closest fit to systems of points in
    space".
    """
    (a, b), (_, c) = (W.mT @ moment @ W).tolist()
    return math.degrees(math.atan2(2 * b, a - c) / 2) % 180


def output_factors(
    W: Float[Tensor, "d_in d_out"],
    moment: Float[Tensor, "d_in d_in"],
) -> tuple[Float[Tensor, "d_in d_out"], Float[Tensor, "d_out d_out"]]:
    r"""Factor W into (down, up) with `down @ up` $= W$, the most important part first.

    The first $r$ columns of `down` and the first $r$ rows of `up` multiply to the
    matrix $W_r$ of rank $r$ that is best for the **outputs** $y = x W$ of inputs with
    the second moment `moment` $= \mathbb{E}[x^\top x]$. No other matrix of rank $r$ has
    a smaller $\mathbb{E}\,\lVert x W - x W_r \rVert^2$.

    The rows of `up` are orthonormal, and their signs are free.

    >>> W = torch.tensor([[3.0, 3.0], [-1.0, 1.0]])
    >>> down, up = output_factors(W, torch.eye(2))
    >>> up.abs().round(decimals=3)
    tensor([[0.7070, 0.7070],
            [0.7070, 0.7070]])
    >>> torch.allclose(down[:, :1] @ up[:1], torch.tensor([[3.0, 3.0], [0.0, 0.0]]))
    True

    Source: Eckart and Young (1936) where `moment` is the identity; Wang et al. (2024),
    "SVD-LLM", for factors that depend on the inputs.
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
    r"""Compute the weights $(W_{DKV}, W_{UK}, W_{UV})$ of one latent, `r` wide.

    Keys and values of all groups are factored **together**, by `output_factors` of the
    one wide matrix $[W_K / \kappa \,|\, W_V / \nu]$ with the same `moment`, and its
    first `r` directions are kept. The sizes $\kappa$ and $\nu$ make keys and values
    count alike for inputs with this moment. Both $\mathbb{E} \lVert x W_K / \kappa
    \rVert^2$ and $\mathbb{E} \lVert x W_V / \nu \rVert^2$ are 1.
    The matrices that lead up contain $\kappa$ and $\nu$ again, and at full rank
    $W_{DKV} W_{UK} = W_K$ and $W_{DKV} W_{UV} = W_V$.

    >>> W_K, W_V, moment = torch.eye(3, 2), torch.eye(3, 1), torch.eye(3)
    >>> W_DKV, W_UK, W_UV = latent_weights(W_K, W_V, moment, r=2)
    >>> W_DKV.shape, W_UK.shape, W_UV.shape
    (torch.Size([3, 2]), torch.Size([2, 2]), torch.Size([2, 1]))

    Source: Meng et al. (2025), "TransMLA", for balancing keys and values; Ji et al.
    (2025), "MHA2MLA", for the joint factors.
    """
    kappa, nu = ((W * (moment @ W)).sum().sqrt() for W in (W_K, W_V))
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=-1), moment)
    keys = W_K.shape[-1]
    return down[:, :r], up[:r, :keys] * kappa, up[:r, keys:] * nu


class LowRankAttention:
    r"""The attention of a layer of a Llama that caches latents, with rotary positions.

    `layer` holds `W_Q`, `W_O`, `H`, `G` and `base` as for `GroupedAttention`, and in the
    place of `W_K` and `W_V` the weights `W_DKV` (d_model, r), `W_UK` (r, G d) and `W_UV`
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
        Q = apply_rope(split_heads(x @ W["W_Q"], W["H"]), pos[start:], W["base"])
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
        y: Tensor = merge_heads(outputs) @ W["W_O"]
        return y

    def reset(self) -> None:
        """Forget all tokens."""
        self.cache.reset()


def round_latents(
    c: Float[Tensor, "... n r"],
    bits: int,
    block: int,
) -> Float[Tensor, "... n r"]:
    r"""Round latents to few bits, one feature of one block of tokens at a time.

    Blocks of `block` tokens are counted from the first token. Within a block the
    numbers of one feature form a group, as in `round_to_bits`. A cache cannot undo a
    rounding, so a number that has been rounded stays the same whatever tokens follow.

    >>> c = torch.tensor([[0.0], [1.0], [2.0], [4.0], [9.0]])  # 5 tokens, r = 1
    >>> round_latents(c, bits=2, block=5).mT
    tensor([[0., 0., 3., 3., 9.]])

    Source: Liu et al. (2024), "KIVI", for groups along the tokens; Chang et al. (2024),
    "Palu", for latents in few bits.
    """
    parts = list(c.split(block, dim=-2))
    for i, part in enumerate(parts):
        if part.shape[-2] == block:
            parts[i] = round_to_bits(part, bits, -2)
    return torch.cat(parts, dim=-2)


@tells_copies
def absorbed_step(
    Q: Float[Tensor, "head d"],
    C: Float[Tensor, "key r"],
    K_fast: Float[Tensor, "group key fast"],
    W_UK: Float[Tensor, "group r rest"],
    W_UV: Float[Tensor, "group r d"],
) -> Float[Tensor, "head d"]:
    r"""Attend to latents with queries of which a part is rotated, for one new token.

    Row $j$ of `C` is the latent of token $j$, and the new token is the last row. The
    keys of group $g$ are `K_fast[g]`, already rotated, followed by `C @ W_UK[g]`, which
    has no positions. So the first `fast` features of each query are rotated and the
    others are not. The values of the group are `C @ W_UV[g]`. Heads $g H/G$ to
    $(g + 1) H/G - 1$ belong to group $g$. Return the output of each head.

    Make no key and no value. The decorator `tells_copies` adds a second result, which
    says whether any tensor made on the way has more bytes than the largest tensor
    given or returned. With many tokens it should be False.

    >>> C, K_fast = torch.tensor([[2.0, 0.0], [4.0, 6.0]]), torch.zeros(1, 2, 2)
    >>> ups = torch.zeros(1, 2, 2), torch.eye(2, 4)[None]
    >>> absorbed_step(torch.ones(2, 4), C, K_fast, *ups)[0]
    tensor([[3., 3., 0., 0.],
            [3., 3., 0., 0.]])

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.1; Ji et al. (2025), "MHA2MLA",
    for partial rotation.
    """
    fast = K_fast.shape[-1]
    q = Q.unflatten(0, (len(K_fast), -1))  # (group, heads of the group, d)
    asks = q[..., fast:] @ W_UK.mT  # (group, heads of the group, r)
    S = q[..., :fast] @ K_fast.mT + asks @ C.mT
    A = torch.softmax(S / math.sqrt(Q.shape[-1]), dim=-1)
    return ((A @ C) @ W_UV).flatten(0, 1)
