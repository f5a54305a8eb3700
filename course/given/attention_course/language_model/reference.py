"""Attention layers to compare with: the right one, the classic mistakes, and caches that keep less.

Written with PyTorch's own attention and in other words than the course's answers, so that agreement means something.
All have the interface that a decoder asks for: made by `(layer, capacity)`, they have `__call__(x)`, `length` and `reset()`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

Layer = Mapping[str, Any]

FLAWS = {  # a short name, and the rest of a sentence that begins "Your attention …"
    "no_rope": "uses no positions: neither queries nor keys are rotated",
    "half_split": "rotates in the half-split layout, and the weights are for the interleaved one",
    "no_scale": "does not divide the scores by the root of d",
    "scaled_by_d": "divides the scores by d, not by its root",
    "modulo": "gives head h the group h mod G, not h // (H / G)",
}


def _turn(x: Tensor, pos: Tensor, base: float, flaw: str) -> Tensor:
    """Rotary positions by complex numbers; `flaw` leaves them out or pairs the features wrongly."""
    if flaw == "no_rope":
        return x
    half = x.shape[-1] // 2
    angle = pos[:, None].double() * base ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
    if flaw == "half_split":
        y = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * turn
        return torch.cat([y.real, y.imag], dim=-1)
    pairs = torch.view_as_complex(x.unflatten(-1, (half, 2)).contiguous())
    return torch.view_as_real(pairs * turn).flatten(-2)


class PlainAttention:
    """Grouped-query attention with rotary positions, right unless `flaw` is one of `FLAWS`."""

    def __init__(self, layer: Layer, capacity: int, *, flaw: str = "") -> None:
        if flaw and flaw not in FLAWS:
            raise ValueError(f"flaw: expected one of {', '.join(FLAWS)}, got {flaw!r}.")
        self.layer, self.flaw = layer, flaw
        self.past: tuple[Tensor, Tensor] | None = None

    @property
    def length(self) -> int:
        """How many tokens it remembers."""
        return 0 if self.past is None else self.past[0].shape[-2]

    def reset(self) -> None:
        """Forget all tokens."""
        self.past = None

    def stored(self, x: Float[Tensor, "batch group new d"]) -> Float[Tensor, "batch group new d"]:
        """Keys or values as the cache gives them back: here as they are."""
        return x

    def visible(self, new: int, total: int) -> Tensor:
        """Which of all tokens each new one sees, (new, total)."""
        return torch.ones(new, total, dtype=torch.bool).tril(total - new)

    def __call__(self, x: Float[Tensor, "batch new d_model"]) -> Float[Tensor, "batch new d_model"]:
        """The outputs for new tokens, which follow those before."""
        W, pos = self.layer, torch.arange(self.length, self.length + x.shape[1], device=x.device)
        q, k, v = (
            (x @ W[name]).unflatten(-1, (heads, -1)).transpose(1, 2)
            for name, heads in (("Wq", W["H"]), ("Wk", W["G"]), ("Wv", W["G"]))
        )
        q, k = (_turn(y, pos, W["base"], self.flaw) for y in (q, k))
        new = self.stored(k), self.stored(v)
        old = () if self.past is None else (self.past,)
        self.past = torch.cat([*(p[0] for p in old), new[0]], 2), torch.cat([*(p[1] for p in old), new[1]], 2)
        k, v = (self._for_all_heads(y) for y in self.past)
        d = q.shape[-1]
        scale = {"no_scale": 1.0, "scaled_by_d": 1 / d}.get(self.flaw, d**-0.5)
        keep = self.visible(x.shape[1], self.length).to(x.device)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, scale=scale)
        y: Tensor = o.transpose(1, 2).flatten(2) @ W["Wo"]
        return y

    def _for_all_heads(self, x: Tensor) -> Tensor:
        r = self.layer["H"] // self.layer["G"]
        return torch.cat([x] * r, 1) if self.flaw == "modulo" else x.repeat_interleave(r, dim=1)


def flawed(flaw: str) -> Callable[[Layer, int], PlainAttention]:
    """Attention with one of `FLAWS`, to hand to a decoder."""
    return lambda layer, capacity: PlainAttention(layer, capacity, flaw=flaw)


class HalfAttention(PlainAttention):
    """Keys and values rounded to bfloat16: two bytes a number."""

    def stored(self, x: Tensor) -> Tensor:
        return x.bfloat16().to(x.dtype)


class RoundedAttention(PlainAttention):
    """Keys and values rounded to `bits` bits each, with a step and a least value per token and head, in float16 both."""

    bits = 8

    def stored(self, x: Tensor) -> Tensor:
        low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
        most = 2**self.bits - 1
        low, step = (part.half().to(x.dtype) for part in (low, (high - low).clamp(min=1e-3) / most))
        y: Tensor = ((x - low) / step).round().clamp(0, most) * step + low
        return y


class Rounded4Attention(RoundedAttention):
    """The same with 4 bits."""

    bits = 4


class WindowAttention(PlainAttention):
    """Each token sees the last `window` tokens, itself included, and the first `sinks` of all."""

    window, sinks = 128, 0

    def visible(self, new: int, total: int) -> Tensor:
        queries, keys = torch.arange(total - new, total)[:, None], torch.arange(total)
        return (keys <= queries) & ((keys > queries - self.window) | (keys < self.sinks))


class SinkAttention(WindowAttention):
    """The same number of tokens, the first four of the text always among them (Xiao et al., 2023)."""

    window, sinks = 124, 4


def logits_with(
    weights: Mapping[str, Any],
    ids: Int[Tensor, "batch new"],
    attentions: Sequence[Callable[[Float[Tensor, "batch new d_model"]], Float[Tensor, "batch new d_model"]]],
) -> Float[Tensor, "batch new vocab"]:
    """The logits at the tokens `ids`, each layer's attention being the one in `attentions`, which may remember earlier tokens.

    All of the model but its attention: norms, feed-forward parts, sums, and the table of tokens at both ends.
    """

    def norm(x: Tensor, scale: Tensor) -> Tensor:
        return F.rms_norm(x, scale.shape, scale, weights["eps"])

    x: Tensor = weights["embed"][ids]
    for layer, attend in zip(weights["layers"], attentions, strict=True):
        x = x + attend(norm(x, layer["norm1"]))
        h = norm(x, layer["norm2"])
        x = x + (F.silu(h @ layer["Wgate"]) * (h @ layer["Wup"])) @ layer["Wdown"]
    logits: Tensor = norm(x, weights["norm"]) @ weights["embed"].mT
    return logits


def reference_logits(weights: Mapping[str, Any], ids: Int[Tensor, "batch n"], flaw: str = "") -> Float[Tensor, "batch n vocab"]:
    """The logits of a text, by PyTorch's own attention, with one of `FLAWS` if asked. For comparison: it has no memory."""
    return logits_with(weights, ids, [PlainAttention(layer, ids.shape[1], flaw=flaw) for layer in weights["layers"]])
