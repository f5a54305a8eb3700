"""Grouped-query attention turned into latent attention: a part of each key rotates, the rest comes from a latent.

layers = convert(weights, moments, pairs=16, r=192)
logits = decode(layers, step, ids)   # token by token, with a decode step of yours
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.language_model.reference import Layer, Llama, PlainAttention

Step = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Any]


def joint_factors(W_K: Tensor, W_V: Tensor, moment: Tensor, r: int) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the weights (W_DKV, W_UK, W_UV) of one latent, `r` wide, for keys and values alike (workshop 12b)."""
    kappa, nu = ((W * (moment @ W)).sum().sqrt() for W in (W_K, W_V))
    W = torch.cat([W_K / kappa, W_V / nu], dim=-1)
    U = torch.linalg.eigh(W.mT @ moment @ W)[1].flip(-1)[:, :r]
    keys = W_K.shape[-1]
    return W @ U, U.mT[:, :keys] * kappa, U.mT[:, keys:] * nu


def convert(weights: Mapping[str, Any], moments: Sequence[Tensor], pairs: int, r: int) -> dict[str, Any]:
    """Return weights whose keys rotate in their `pairs` fastest pairs only; the rest and the values come from latents, `r` wide.

    Each layer gets `W_DKV` (d_model, r), `W_UK` (group, r, d - 2 pairs), `W_UV` (group, r, d) and `pairs`. The products
    replace its `W_K` and `W_V`, so that grouped-query attention with those rotations computes the same.
    """
    layers = []
    for layer, moment in zip(weights["layers"], moments, strict=True):
        G = layer["G"]
        fast, rest = layer["W_K"].unflatten(-1, (G, -1)).tensor_split([2 * pairs], dim=-1)
        down, up_k, up_v = joint_factors(rest.flatten(1), layer["W_V"], moment, r)
        keys = torch.cat([fast, (down @ up_k).unflatten(-1, (G, -1))], dim=-1).flatten(1)
        ups = {name: up.unflatten(-1, (G, -1)).transpose(0, 1) for name, up in (("W_UK", up_k), ("W_UV", up_v))}
        layers.append({**layer, "W_K": keys, "W_V": down @ up_v, "W_DKV": down, **ups, "pairs": pairs})
    return {**weights, "layers": layers}


class LatentAttention(PlainAttention):
    """Attention of a converted layer for one token at a time, by `step(Q, C, K_fast, W_UK, W_UV)`."""

    def __init__(self, layer: Layer, capacity: int, *, step: Step) -> None:
        super().__init__(layer, capacity)
        self.step = step

    def __call__(self, x: Float[Tensor, "1 1 d_model"]) -> Float[Tensor, "1 1 d_model"]:
        """The output for the next token."""
        W, fast, pos = self.layer, 2 * self.layer["pairs"], torch.tensor([self.length], device=x.device)

        def partly(y: Tensor) -> Tensor:
            return torch.cat([self.turned(y, pos)[..., :fast], y[..., fast:]], dim=-1)

        Q, K = ((x @ W[name]).unflatten(-1, (W[heads], -1)).transpose(1, 2) for name, heads in (("W_Q", "H"), ("W_K", "G")))
        new = partly(K)[0, :, :, :fast], x[0] @ W["W_DKV"]
        self.past = new if self.past is None else (torch.cat([self.past[0], new[0]], 1), torch.cat([self.past[1], new[1]], 0))
        found = self.step(partly(Q)[0, :, 0], self.past[1], self.past[0], W["W_UK"], W["W_UV"])
        outputs: Tensor = found[0] if isinstance(found, tuple) else found
        y: Tensor = outputs.flatten()[None, None] @ W["W_O"]
        return y


def decode(weights: Mapping[str, Any], step: Step, ids: Int[Tensor, "1 n"]) -> Float[Tensor, "1 n vocab"]:
    """The logits of a text that converted weights read token by token."""
    model = Llama(weights, ids.shape[1], lambda layer, capacity: LatentAttention(layer, capacity, step=step))
    with torch.inference_mode():
        return torch.cat([model.extend(token) for token in ids.split(1, dim=1)], dim=1)
