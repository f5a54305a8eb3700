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
Rounding = Callable[[Tensor, int, int], Tensor]  # of numbers, to so many bits, along an axis

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
    angle = pos.cpu()[:, None].double() * base ** (-torch.arange(half, dtype=torch.float64) / half)  # some GPUs have no float64
    turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex64).to(x.device)
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

    def turned(self, x: Float[Tensor, "batch head new d"], pos: Int[Tensor, " new"]) -> Float[Tensor, "batch head new d"]:
        """Queries or keys with their positions."""
        return _turn(x, pos, self.layer["base"], self.flaw)

    def stored(self, x: Float[Tensor, "batch group new d"]) -> Float[Tensor, "batch group new d"]:
        """Values, and keys where nothing else is said, as the cache gives them back: here as they are."""
        return x

    def stored_keys(self, k: Float[Tensor, "batch group new d"]) -> Float[Tensor, "batch group new d"]:
        """Keys as the cache gives them back."""
        return self.stored(k)

    def visible(self, new: int, total: int) -> Tensor:
        """Which of all tokens each new one sees, (new, total)."""
        return torch.ones(new, total, dtype=torch.bool).tril(total - new)

    def __call__(self, x: Float[Tensor, "batch new d_model"]) -> Float[Tensor, "batch new d_model"]:
        """The outputs for new tokens, which follow those before."""
        W, pos = self.layer, torch.arange(self.length, self.length + x.shape[1], device=x.device)
        q, k, v = (
            (x @ W[name]).unflatten(-1, (heads, -1)).transpose(1, 2)
            for name, heads in (("W_Q", W["H"]), ("W_K", W["G"]), ("W_V", W["G"]))
        )
        q, k = self.turned(q, pos), self.turned(k, pos)
        new = self.stored_keys(k), self.stored(v)
        old = () if self.past is None else (self.past,)
        self.past = torch.cat([*(p[0] for p in old), new[0]], 2), torch.cat([*(p[1] for p in old), new[1]], 2)
        k, v = (self._for_all_heads(y) for y in self.past)
        d = q.shape[-1]
        scale = {"no_scale": 1.0, "scaled_by_d": 1 / d}.get(self.flaw, d**-0.5)
        keep = self.visible(x.shape[1], self.length).to(x.device)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, scale=scale)
        y: Tensor = o.transpose(1, 2).flatten(2) @ W["W_O"]
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
    """Keys and values rounded by `rounding(x, bits, dim)`: values for each token, keys for each token or each channel.

    Per channel, 64 tokens make a block that shares a least and a largest number for each feature of the keys (KIVI: Liu et al.,
    2024). All tokens of a call are rounded at once, in whole blocks and what is left.
    """

    block = 64

    def __init__(self, layer: Layer, capacity: int, *, rounding: Rounding, bits: int, per_channel: bool = False) -> None:
        super().__init__(layer, capacity)
        self.rounding, self.bits, self.per_channel = rounding, bits, per_channel

    def stored_keys(self, k: Tensor) -> Tensor:
        if not self.per_channel:
            return self.stored(k)
        return torch.cat([self.rounding(part, self.bits, -2) for part in k.split(self.block, dim=-2)], dim=-2)

    def stored(self, x: Tensor) -> Tensor:
        return self.rounding(x, self.bits, -1)


def rounded(rounding: Rounding, bits: int, *, per_channel: bool = False) -> Callable[[Layer, int], RoundedAttention]:
    """Attention whose cache is rounded by a function of yours, to hand to a decoder."""
    return lambda layer, capacity: RoundedAttention(layer, capacity, rounding=rounding, bits=bits, per_channel=per_channel)


class StoredLatents(PlainAttention):
    """Keys and values out of latents, (batch, new, r), that a cache gives back as `stored(latents)`.

    The layer has `W_DKV`, `W_UK` and `W_UV`. All tokens of a call are stored at once.
    """

    def __init__(self, layer: Layer, capacity: int, *, stored: Callable[[Tensor], Tensor]) -> None:
        wide = {  # queries read the first columns of [x | latents], keys and values the others
            "W_Q": torch.cat([layer["W_Q"], layer["W_Q"].new_zeros(layer["W_UK"].shape[0], layer["W_Q"].shape[1])]),
            "W_K": torch.cat([torch.zeros_like(layer["W_K"]), layer["W_UK"]]),
            "W_V": torch.cat([torch.zeros_like(layer["W_V"]), layer["W_UV"]]),
        }
        super().__init__({**layer, **wide}, capacity)
        self.stored_latents = stored

    def __call__(self, x: Float[Tensor, "batch new d_model"]) -> Float[Tensor, "batch new d_model"]:
        """The outputs for new tokens, which follow those before."""
        return super().__call__(torch.cat([x, self.stored_latents(x @ self.layer["W_DKV"])], dim=-1))


def rounded_latents(rounding: Rounding, bits: int, block: int = 64) -> Callable[[Layer, int], StoredLatents]:
    """Attention whose cache holds latents rounded by a function of yours, `rounding(latents, bits, block)`."""
    return lambda layer, capacity: StoredLatents(layer, capacity, stored=lambda c: rounding(c, bits, block))


class TurnedAttention(PlainAttention):
    """Queries and keys turned by `turn(x, pos, base)` instead of by rotary positions on all pairs of features."""

    def __init__(self, layer: Layer, capacity: int, *, turn: Callable[[Tensor, Tensor, float], Tensor]) -> None:
        super().__init__(layer, capacity)
        self.turn = turn

    def turned(self, x: Tensor, pos: Tensor) -> Tensor:
        return self.turn(x, pos, self.layer["base"])


def turned(turn: Callable[[Tensor, Tensor, float], Tensor]) -> Callable[[Layer, int], TurnedAttention]:
    """Attention with positions of yours, to hand to a decoder."""
    return lambda layer, capacity: TurnedAttention(layer, capacity, turn=turn)


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
    logits: Tensor = hidden_with(weights, ids, attentions) @ weights["embed"].mT
    return logits


def hidden_with(
    weights: Mapping[str, Any],
    ids: Int[Tensor, "batch new"],
    attentions: Sequence[Callable[[Float[Tensor, "batch new d_model"]], Float[Tensor, "batch new d_model"]]],
) -> Float[Tensor, "batch new d_model"]:
    """What `logits_with` multiplies by the table of tokens in its last step."""

    def norm(x: Tensor, scale: Tensor) -> Tensor:
        return F.rms_norm(x, scale.shape, scale, weights["eps"])

    x: Tensor = weights["embed"][ids]
    for layer, attend in zip(weights["layers"], attentions, strict=True):
        x = x + attend(norm(x, layer["norm1"]))
        h = norm(x, layer["norm2"])
        x = x + (F.silu(h @ layer["Wgate"]) * (h @ layer["Wup"])) @ layer["Wdown"]
    return norm(x, weights["norm"])


def reference_logits(weights: Mapping[str, Any], ids: Int[Tensor, "batch n"], flaw: str = "") -> Float[Tensor, "batch n vocab"]:
    """The logits of a text, by PyTorch's own attention, with one of `FLAWS` if asked. For comparison: it has no memory."""
    return logits_with(weights, ids, [PlainAttention(layer, ids.shape[1], flaw=flaw) for layer in weights["layers"]])


class GroupedAttention(PlainAttention):
    """The right attention, under the name that lesson 11 asks the learner to write."""


class Llama:
    """A decoder of the Llama family, with a memory, around `attention(layer, capacity)`."""

    def __init__(
        self, weights: Mapping[str, Any], capacity: int, attention: Callable[[Layer, int], Any] = GroupedAttention
    ) -> None:
        self.weights = weights
        self.attention = [attention(layer, capacity) for layer in weights["layers"]]

    @property
    def length(self) -> int:
        """How many tokens it has processed."""
        return int(self.attention[-1].length)

    def extend(self, ids: Int[Tensor, "batch new"]) -> Float[Tensor, "batch new vocab"]:
        """The logits of tokens that follow those processed so far."""
        return logits_with(self.weights, ids, self.attention)

    def reset(self) -> None:
        """Forget all tokens."""
        for attend in self.attention:
            attend.reset()

    def prefill(self, ids: Int[Tensor, "batch n"], chunk: int) -> Float[Tensor, "batch vocab"]:
        """The logits at the end of a prompt, read in chunks from the beginning."""
        self.reset()
        return [self.extend(part) for part in ids.split(chunk, dim=1)][-1][:, -1]

    def generate(self, ids: Int[Tensor, "batch n"], n: int) -> Int[Tensor, "batch new"]:
        """The `n` likeliest tokens after a prompt, one after another."""
        logits, chosen = self.prefill(ids, ids.shape[1]), list[Tensor]()
        while len(chosen) < n:
            chosen.append(logits.argmax(-1, keepdim=True))
            logits = self.extend(chosen[-1])[:, -1] if len(chosen) < n else logits
        return torch.cat(chosen, dim=1)


def perplexity(logits: Float[Tensor, "n vocab"], ids: Int[Tensor, " n"]) -> float:
    """The exponential of the mean surprise at the next token; row `t` of `logits` predicts `ids[t + 1]`."""
    surprise = -logits[:-1].log_softmax(-1).gather(-1, ids[1:, None])
    return float(surprise.mean().exp())


def kv_bytes_per_token(groups: Sequence[int], d: int, element_bytes: int) -> int:
    """The bytes of cache for one token, where layer `i` has `groups[i]` heads of keys and of values, each `d` wide."""
    return sum(2 * count * d * element_bytes for count in groups)


def to_hugging_face(layer: Layer) -> dict[str, Tensor]:
    """A layer's attention as Hugging Face keeps it: (out, in), the features of a head in half-split order."""

    def halves(W: Tensor, heads: int) -> Tensor:
        out: Tensor = W.mT.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
        return out

    turned = {"q_proj": halves(layer["W_Q"], layer["H"]), "k_proj": halves(layer["W_K"], layer["G"])}
    return turned | {"v_proj": layer["W_V"].mT, "o_proj": layer["W_O"].mT}


def _port_b(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Taken to half-split order twice instead of there and back: silently wrong wherever a head has more than four features."""

    def again(layer: Layer) -> dict[str, Any]:
        once = to_hugging_face(layer)
        twice = to_hugging_face({**layer, "W_Q": once["q_proj"].mT, "W_K": once["k_proj"].mT})
        return {**layer, "W_Q": twice["q_proj"].mT, "W_K": twice["k_proj"].mT}

    return {**weights, "layers": [again(layer) for layer in weights["layers"]]}


LEFT_BEHIND = 25  # the layer that port C forgets


def _port_c(weights: Mapping[str, Any]) -> dict[str, Any]:
    """All layers right but one, of which the keys were left in half-split order."""
    layers = list(weights["layers"])
    layers[LEFT_BEHIND] = {**layers[LEFT_BEHIND], "W_K": to_hugging_face(layers[LEFT_BEHIND])["k_proj"].mT}
    return {**weights, "layers": layers}


PORTS: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "port A": lambda weights: weights,
    "port B": _port_b,
    "port C": _port_c,
}
