"""SmolLM2 with attention that reads a part of its cache: inputs of a layer, masks, and what was recorded for all layers.

x = inputs(model, ids, layers=[5])[5]          # what the attention of layer 5 is given, (n, d_model)
A = weights(model, 5, x)                        # the weights of its nine heads, (head, n, n)
perplexity(model, ids, keeps)                   # each layer attends to the keys that keeps(layer, x) allows
recorded()                                      # after_mla.json: `python -m tools.record_after_mla` makes it again
"""

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attention_course.language_model.model import LanguageModel
from attention_course.language_model.parts import apply_rope
from attention_course.language_model.reference import hidden_with

FILE = "after_mla.json"
PASSAGE, TEST = 1024, 20_480  # tokens of a passage; where the passage begins that no index is trained on
FIRST_TEST = 512  # queries from here on are measured: they have at least so many keys to choose from
Keeps = Callable[[int, Tensor], Tensor]


class _EnoughError(Exception):
    """All layers that were asked for have been seen."""


def passage(model: LanguageModel, start: int) -> Int[Tensor, " n"]:
    """A passage of the book "Alice's Adventures in Wonderland", from token `start` on, and one token more."""
    text = resources.files("attention_course").joinpath("alice.txt").read_text(encoding="utf-8")
    ids: Tensor = model.ids(text)[0, start : start + PASSAGE + 1]
    return ids


def rotate(x: Float[Tensor, "... n d"], pos: Int[Tensor, " n"], base: float = 10_000.0) -> Float[Tensor, "... n d"]:
    """Rows of `x` rotated to their positions, or back where these are negative; in double precision where `x` is."""
    pairs = torch.arange(0, x.shape[-1], 2, dtype=x.dtype, device=x.device)
    angle = pos[:, None] * base ** (-pairs / x.shape[-1])
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angle.cos(), angle.sin()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def _heads(model: LanguageModel, layer: int, x: Float[Tensor, "n d_model"]) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries and keys, and values, for all heads."""
    W, pos = model.weights["layers"][layer], torch.arange(len(x))
    q, k, v = (
        (x @ W[name]).unflatten(-1, (heads, -1)).transpose(0, 1)
        for name, heads in (("W_Q", W["H"]), ("W_K", W["G"]), ("W_V", W["G"]))
    )
    q, k = apply_rope(q, pos, W["base"]), apply_rope(k, pos, W["base"])
    k, v = (y.repeat_interleave(W["H"] // W["G"], dim=0) for y in (k, v))
    return q, k, v


def weights(model: LanguageModel, layer: int, x: Float[Tensor, "n d_model"]) -> Float[Tensor, "head n n"]:
    """The causal attention weights of a layer's heads for the inputs `x`."""
    q, k, _ = _heads(model, layer, x)
    S = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~causal(len(x)), -math.inf)
    return torch.softmax(S, dim=-1)


def causal(n: int) -> Bool[Tensor, "n n"]:
    """Which keys each query may see."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def window(n: int, k: int, sinks: int = 4) -> Bool[Tensor, "n n"]:
    """The first `sinks` tokens and the newest ones, `k` in all."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return causal(n) & ((j < sinks) | (j > i - (k - sinks)))


def best(scores: Float[Tensor, "n n"], k: int) -> Bool[Tensor, "n n"]:
    """The `k` keys with the highest scores among those that each query may see."""
    scores = scores.masked_fill(~causal(len(scores)), -math.inf)
    at = scores.topk(min(k, scores.shape[-1]), dim=-1).indices
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, at, True) & causal(len(scores))


def kept(A: Float[Tensor, "head n n"], keep: Bool[Tensor, "n n"]) -> float:
    """The share of attention weight on the keys that are kept, as a mean over heads and the later queries."""
    share = torch.where(keep, A.mean(0), 0.0).sum(-1)
    return float(share[FIRST_TEST:].mean())


def hidden(
    model: LanguageModel,
    ids: Int[Tensor, " n"],
    keeps: Keeps | None = None,
    see: Callable[[int, Tensor], None] | None = None,
) -> Float[Tensor, "n d_model"]:
    """The last hidden vectors of a text; `see(layer, x)` is shown the inputs of each attention.

    Each layer attends to the keys that `keeps(layer, x)` allows, of the same inputs.
    """

    def attention(layer: int, W: Any) -> Any:
        def attend(x: Tensor) -> Tensor:
            if see:
                see(layer, x[0])
            mask = keeps(layer, x[0]) if keeps else causal(x.shape[1])
            q, k, v = _heads(model, layer, x[0])
            o = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)
            y: Tensor = o.transpose(1, 2).flatten(2) @ W["W_O"]
            return y

        return attend

    with torch.no_grad():
        attentions = [attention(i, W) for i, W in enumerate(model.weights["layers"])]
        return hidden_with(model.weights, ids[None], attentions)[0]


def inputs(model: LanguageModel, ids: Int[Tensor, " n"], layers: Sequence[int]) -> dict[int, Float[Tensor, "n d_model"]]:
    """What the attention of each of `layers` is given; the layers above the last of them are left out."""
    found: dict[int, Tensor] = {}

    def see(layer: int, x: Tensor) -> None:
        if layer in layers:
            found[layer] = x.clone()
        if layer == max(layers):
            raise _EnoughError

    with contextlib.suppress(_EnoughError):
        hidden(model, ids, see=see)
    return found


def perplexity(model: LanguageModel, ids: Int[Tensor, " n"], keeps: Keeps | None = None) -> float:
    """The perplexity of the later tokens of a passage, where each layer attends to the keys that `keeps` allows."""
    x = hidden(model, ids[:-1], keeps)[FIRST_TEST:]
    with torch.no_grad():
        loss = F.cross_entropy(x @ model.weights["embed"].mT, ids[FIRST_TEST + 1 :])
    return math.exp(float(loss))


def layer_data(model: LanguageModel, layer: int, start: int) -> tuple[Float[Tensor, "n d_model"], Float[Tensor, "head n n"]]:
    """The inputs of a layer for the passage that begins at token `start`, and the attention weights of its heads."""
    x = inputs(model, passage(model, start)[:-1], [layer])[layer]
    return x, weights(model, layer, x)


@cache
def recorded() -> dict[str, Any]:
    """What `after_mla.json` holds: by way and number of keys, the share of weight kept by each layer, and the perplexity."""
    found: dict[str, Any] = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return found
