"""A small decoder for lesson 07, of parts that earlier lessons wrote: rotary positions, masked attention, projections to heads.

Its weights are random. What two ways of computing agree on does not depend on that.

    model = toy_model()
    project(x, model["layers"][0]["W_Q"]).shape   # (batch, head, n, d)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def apply_rope(x: Float[Tensor, "... n d"], pos: Int[Tensor, "... n"], base: float = 10_000.0) -> Float[Tensor, "... n d"]:
    """Rotary positions (lesson 06, interleaved): row i of `x` at position `pos[..., i]`."""
    dtype = torch.promote_types(x.dtype, torch.float32)  # half precision is too coarse for angles
    d = x.shape[-1]
    theta = base ** (-torch.arange(0, d, 2, device=x.device, dtype=dtype) / d)
    angle = pos[..., None].to(dtype) * theta  # (..., n, d/2)
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angle.cos(), angle.sin()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x.dtype)


def attention(
    q: Float[Tensor, "... query d_k"],
    k: Float[Tensor, "... key d_k"],
    v: Float[Tensor, "... key d_v"],
    keep: Bool[Tensor, "... query key"],
) -> Float[Tensor, "... query d_v"]:
    """Masked attention (lesson 04). Query i sees key j where `keep[..., i, j]` is True."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores.masked_fill(~keep, -math.inf), dim=-1)
    return weights.masked_fill(~keep, 0.0) @ v  # a query that sees no key gets zeros


def project(x: Float[Tensor, "batch n d_model"], W: Float[Tensor, "d_model head d"]) -> Float[Tensor, "batch head n d"]:
    """One vector per token and head (lesson 05)."""
    return torch.einsum("bne,ehd->bhnd", x, W)


def combine(o: Float[Tensor, "batch head n d"], W_O: Float[Tensor, "head d d_model"]) -> Float[Tensor, "batch n d_model"]:
    """The heads' outputs through the output projection, summed (lesson 05)."""
    return torch.einsum("bhnd,hde->bne", o, W_O)


def toy_model(vocab: int = 17, d_model: int = 24, layers: int = 2, heads: int = 3, d: int = 8) -> dict[str, Any]:
    """Random weights of a decoder, in float64: `embed` (vocab, d_model), `unembed` (d_model, vocab), and for each layer
    `W_Q`, `W_K`, `W_V` (d_model, head, d) and `W_O` (head, d, d_model)."""
    generator = torch.Generator().manual_seed(7)

    def normal(*shape: int, scale: float) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) * scale

    def layer() -> dict[str, Tensor]:
        wide = d_model**-0.5
        q, k = (normal(d_model, heads, d, scale=1.5 * wide) for _ in range(2))  # 1.5: attention far from uniform
        v, o = normal(d_model, heads, d, scale=wide), normal(heads, d, d_model, scale=(heads * d) ** -0.5)
        return {"W_Q": q, "W_K": k, "W_V": v, "W_O": o}

    return {
        "embed": normal(vocab, d_model, scale=1.0),
        "layers": [layer() for _ in range(layers)],
        "unembed": normal(d_model, vocab, scale=d_model**-0.5),
    }


def step_in_rows(
    model: dict[str, Any],
    tokens: Int[Tensor, " batch"],
    lengths: Int[Tensor, " batch"],
    buffers: list[Float[Tensor, "2 batch head capacity d"]],
    batch_positions: Callable[..., tuple[Int[Tensor, "batch 1"], Bool[Tensor, "batch 1 capacity"]]],
) -> Float[Tensor, "batch vocab"]:
    """One decode step for texts of unequal `lengths`: the logits at `tokens`, whose keys and values are written into slot
    `lengths[b]` of row b of each layer's buffer (keys first, then values). `batch_positions` says where they stand and what
    they see."""
    rows = torch.arange(len(tokens))
    pos, keep = batch_positions(lengths, 1, buffers[0].shape[3])
    x: Tensor = model["embed"][tokens][:, None]  # (batch, 1, d_model)
    for layer, (K, V) in zip(model["layers"], buffers, strict=True):
        q, k, v = (project(x, layer[name]) for name in ("W_Q", "W_K", "W_V"))
        q, k = (apply_rope(y, pos[:, None]) for y in (q, k))  # a position per row, the same in all heads
        K[rows, :, lengths], V[rows, :, lengths] = k[:, :, 0], v[:, :, 0]
        x = x + combine(attention(q, K, V, keep[:, None]), layer["W_O"])
    logits: Tensor = x @ model["unembed"]
    return logits[:, 0]


def copy_to_row(buffers: list[Float[Tensor, "2 batch head capacity d"]], row: int, caches: Sequence[Any]) -> None:
    """What the caches of one text hold, one cache for each layer, into row `row` of the layers' buffers."""
    for buffer, cache in zip(buffers, caches, strict=True):
        nothing = buffer.new_zeros(1, buffer.shape[2], 0, buffer.shape[4])  # to be given what is stored
        for part, stored in zip(buffer, cache.append(nothing, nothing), strict=True):
            part[row, :, : cache.length] = stored[0]


class Remembering:
    """The attention of one layer of SmolLM2 (`weights`) with a `cache` and `attend`, both the learner's.

    Keys are rotated by their positions in the text and stored; each head of keys and values serves three heads of queries,
    and `attend` gets a copy for each, unless `copies` is False.
    """

    def __init__(
        self, weights: Mapping[str, Any], cache: Any, attend: Callable[[Tensor, Tensor, Tensor], Tensor], *, copies: bool = True
    ) -> None:
        self.W, self.cache, self.attend, self.copies = weights, cache, attend, copies

    def __call__(self, x: Float[Tensor, "batch new d_model"]) -> Float[Tensor, "batch new d_model"]:
        """The outputs for new tokens, which follow those before."""
        W, old = self.W, self.cache.length
        pos = torch.arange(old, old + x.shape[1], device=x.device)
        q, k, v = (
            (x @ W[name]).unflatten(-1, (W[heads], -1)).transpose(1, 2)
            for name, heads in (("W_Q", "H"), ("W_K", "G"), ("W_V", "G"))
        )
        K, V = self.cache.append(apply_rope(k, pos, W["base"]), v)
        if self.copies:
            K, V = (y.repeat_interleave(W["H"] // W["G"], dim=1) for y in (K, V))
        o = self.attend(apply_rope(q, pos, W["base"]), K, V)
        y: Tensor = o.transpose(1, 2).flatten(2) @ W["W_O"]
        return y
