"""Every perplexity that lesson 11 states, measured again: `python -m solutions.real_model_table`.

Prints one line for each cache variant: bytes per token in bfloat16 (or as rounded), perplexity, the band within which the
lesson calls it reproduced, and whether it is. Exit status 1 where one is not. About two minutes on two cores; what has been
measured for the same code and weights is taken from the disk (`ATTN_CACHE`).
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from attention_course.language_model import LanguageModel, load_model
from attention_course.language_model.quality import CALIBRATION, MEASURED, Variant, code_passage, measure, passage
from attention_course.language_model.reference import (
    FLAWS,
    HalfAttention,
    Rounded4Attention,
    RoundedAttention,
    SinkAttention,
    WindowAttention,
    flawed,
)
from jaxtyping import Float
from torch import Tensor

from solutions.grouped_query import mha_to_gqa
from solutions.real_model import GroupedAttention, Layer, Llama, perplexity
from solutions.smaller_caches import latent_weights, layers_to_pool

TOKENS, SHORT, CALIBRATED = 512, 128, 1024
RANKS = (384, 256, 192, 128, 64)
OTHERS = {
    "bfloat16": HalfAttention,
    "8 bits": RoundedAttention,
    "4 bits": Rounded4Attention,
    "window of 128": WindowAttention,
    "4 first + 124 last": SinkAttention,
}
NARROW, WIDE = 0.03, 0.2  # half of a band, as a share: where the model still works, and where it does not
MEANT = {  # the perplexities that the lesson's text speaks of
    "as it should be": 14.22,
    "no_rope": 289,
    "half_split": 312,
    "no_scale": 1719,
    "scaled_by_d": 2714,
    "modulo": 487_000,
    "all layers, mean": 13_800,
    "all layers, first group": 1_630_000,
    "layers 0 to 9, mean": 4740,
    "layers 10 to 19, mean": 78.9,
    "layers 20 to 29, mean": 194,
    "the ten least harmful": 31,
    "plain, r = 384": 14.22,
    "plain, r = 256": 31.5,
    "plain, r = 192": 101,
    "plain, r = 128": 602,
    "plain, r = 64": 4750,
    "knows the inputs, r = 384": 14.22,
    "knows the inputs, r = 256": 14.77,
    "knows the inputs, r = 192": 18.3,
    "knows the inputs, r = 128": 25.0,
    "knows the inputs, r = 64": 66,
    "bfloat16": 14.22,
    "8 bits": 14.26,
    "4 bits": 15.94,
    "window of 128": 113,
    "4 first + 124 last": 15.25,
    "program": 11.97,
    "program, r = 256": 12.7,
    "program, r = 192": 15.8,
    "program, r = 128": 27.5,
}


@dataclass(frozen=True)
class Row:
    """A variant's bytes per token, its perplexity, and the one that the lesson's text speaks of."""

    name: str
    bytes: int
    perplexity: float
    meant: float

    @property
    def band(self) -> tuple[float, float]:
        """Within which it counts as reproduced: another processor adds in another order, and 30 layers make more of it."""
        share = NARROW if self.meant < 120 else WIDE
        return self.meant * (1 - share), self.meant * (1 + share)

    @property
    def reproduced(self) -> bool:
        """Whether it lies in its band."""
        return self.band[0] <= self.perplexity <= self.band[1]


class Listening(GroupedAttention):
    """Attention that notes the second moment of its inputs, in `moments`."""

    moments: list[Tensor]

    def __call__(self, x: Float[Tensor, "batch new d_model"]) -> Float[Tensor, "batch new d_model"]:
        rows = x.flatten(0, 1)
        self.moments.append(rows.mT @ rows / len(rows))
        return super().__call__(x)


class Measurements:
    """The lesson's measurements, made with the course's own answers. Each is a dictionary of perplexities by name."""

    def __init__(self, model: LanguageModel) -> None:
        self.model, self.weights = model, model.weights
        self.reading = passage(model, MEASURED, TOKENS)

    def of(self, variants: Mapping[str, Variant], ids: Tensor | None = None) -> dict[str, float]:
        """The perplexity of each variant on `ids`, by default the lesson's text."""
        return measure(variants, Llama, perplexity, self.reading if ids is None else ids)

    def changed(self, which: Sequence[int], change: Any) -> Variant:
        """The model with `change` applied to the layers in `which`."""
        layers = [change(layer) if i in which else layer for i, layer in enumerate(self.weights["layers"])]
        return GroupedAttention, {**self.weights, "layers": layers}

    def mistakes(self) -> dict[str, float]:
        """The model as it is, and with each known mistake."""
        right: dict[str, Variant] = {"as it should be": (GroupedAttention, self.weights)}
        return self.of(right | {name: (flawed(name), self.weights) for name in FLAWS})

    def harm(self) -> list[float]:
        """The rise of the logarithm of perplexity, on a shorter text, if one layer is pooled."""
        short = self.reading[:, :SHORT]
        unharmed = self.of({"": (GroupedAttention, self.weights)}, short)[""]
        layers = range(self.model.sizes["L"])
        single = self.of({str(i): self.changed([i], pooled) for i in layers}, short)
        return [math.log(value / unharmed) for value in single.values()]

    def pooling(self, harm: Sequence[float]) -> dict[str, float]:
        """Layers with one group: all of them, ten in a row, the ten least harmful."""
        every = range(self.model.sizes["L"])
        variants = {"all layers, mean": self.changed(every, pooled), "all layers, first group": self.changed(every, first_only)}
        variants |= {f"layers {a} to {a + 9}, mean": self.changed(range(a, a + 10), pooled) for a in (0, 10, 20)}
        variants["the ten least harmful"] = self.changed(layers_to_pool(harm, 512, 10 * 512), pooled)
        return self.of(variants)

    def factors(self) -> dict[str, list[tuple[Tensor, Tensor, Tensor]]]:
        """Of each layer the latent's weights at full rank: by the weights alone, and by the inputs."""
        Listening.moments = []
        with torch.inference_mode():
            Llama(self.weights, CALIBRATED, Listening).extend(passage(self.model, CALIBRATION, CALIBRATED))
        identity = torch.eye(self.model.sizes["d_model"])
        layers, moments = self.weights["layers"], Listening.moments
        full = layers[0]["Wk"].shape[1] + layers[0]["Wv"].shape[1]
        return {
            "plain": [latent_weights(layer["Wk"], layer["Wv"], identity, full) for layer in layers],
            "knows the inputs": [latent_weights(W["Wk"], W["Wv"], C, full) for W, C in zip(layers, moments, strict=True)],
        }

    def of_rank(self, factors: Sequence[tuple[Tensor, Tensor, Tensor]], r: int) -> Variant:
        """The model with keys and values of rank `r`."""
        layers = [
            {**layer, "Wk": down[:, :r] @ up_k[:r], "Wv": down[:, :r] @ up_v[:r]}
            for layer, (down, up_k, up_v) in zip(self.weights["layers"], factors, strict=True)
        ]
        return GroupedAttention, {**self.weights, "layers": layers}

    def latents(self, factors: Mapping[str, Sequence[tuple[Tensor, Tensor, Tensor]]]) -> dict[str, float]:
        """Both kinds of factors, at all ranks."""
        return self.of({f"{kind}, r = {r}": self.of_rank(made, r) for kind, made in factors.items() for r in RANKS})

    def elsewhere(self, factors: Mapping[str, Sequence[tuple[Tensor, Tensor, Tensor]]]) -> dict[str, float]:
        """The better factors on a text of another kind."""
        variants: dict[str, Variant] = {"program": (GroupedAttention, self.weights)}
        variants |= {f"program, r = {r}": self.of_rank(factors["knows the inputs"], r) for r in (256, 192, 128)}
        return self.of(variants, code_passage(self.model, TOKENS))

    def others(self) -> dict[str, float]:
        """Fewer bits, and fewer tokens."""
        return self.of({name: (kind, self.weights) for name, kind in OTHERS.items()})


def pooled(layer: Layer) -> Layer:
    """The layer with one group of keys and values, the mean of its groups."""
    return {**layer, **{name: mha_to_gqa(layer[name], layer["G"], 1) for name in ("Wk", "Wv")}, "G": 1}


def first_only(layer: Layer) -> Layer:
    """The layer with its first group alone."""
    return {**layer, **{name: layer[name].chunk(layer["G"], dim=1)[0] for name in ("Wk", "Wv")}, "G": 1}


def table(model: LanguageModel) -> list[Row]:
    """All rows, measured now or found on the disk."""
    made = Measurements(model)
    factors = made.factors()
    found = made.mistakes() | made.pooling(made.harm()) | made.latents(factors) | made.others() | made.elsewhere(factors)
    return [Row(name, bytes_of(name, model.sizes), value, MEANT[name]) for name, value in found.items()]


def bytes_of(name: str, sizes: Mapping[str, Any]) -> int:
    """The bytes of cache per token of a variant, two bytes a number where nothing else is said."""
    layers, groups, d = (int(sizes[name]) for name in ("L", "G", "d"))
    pair = 2 * d * 2  # a key and a value of one group
    whole = layers * groups * pair
    scales = layers * groups * 2 * 4  # a scale and a minimum in two bytes each, for keys and for values
    if "r = " in name:
        return 2 * layers * int(name.rpartition(" ")[2])
    if name.startswith("all layers"):
        return layers * pair
    if "mean" in name or "harmful" in name:
        return whole - 10 * (groups - 1) * pair
    return {"8 bits": whole // 2 + scales, "4 bits": whole // 4 + scales}.get(name, whole)


def main() -> int:
    """Print the table; returns 1 where a row is not reproduced."""
    model = load_model()
    print(f"{model.name} ({model.license}), {TOKENS} tokens\n")
    print(f"{'variant':28s} {'bytes':>7s} {'perplexity':>14s}  {'band':>24s}")
    rows = table(model)
    for row in rows:
        low, high = row.band
        mark = "" if row.reproduced else "  NOT REPRODUCED"
        print(f"{row.name:28s} {row.bytes:7,} {row.perplexity:14,.2f}  {low:11,.1f} .. {high:9,.1f}{mark}")
    return 0 if all(row.reproduced for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
