"""How well the trained model reads a text half as long again as it was made for: what lesson 06 shows of it.

    found = long_losses()    # the loss in each run of 1,024 tokens, by way

The text is the beginning of "Alice's Adventures in Wonderland" (Carroll, 1865), 12,288 tokens; the file of the model says that it
was made for 8,192. `python -m attention_course.language_model.long_texts` makes `long_texts.json` again, in some minutes.
"""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_course.language_model.looking import in_heads
from attention_course.language_model.model import load_model
from attention_course.language_model.reference import _turn, hidden_with

FILE = "long_texts.json"
TOKENS, RUN = 12_288, 1024
WAYS = {  # what each position is multiplied by, and the base
    "as trained": (1.0, 1e5),
    "positions halved": (0.5, 1e5),
    "base doubled": (1.0, 2e5),
}


def long_losses() -> dict[str, list[float]]:
    """The mean loss in each run of 1,024 tokens, for each of `WAYS`."""
    found: dict[str, list[float]] = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return found


class _Attention:
    """The model's, with positions in a way of their own; it never holds a table of 12,288 by 12,288 numbers."""

    def __init__(self, layer: Any, pos: Tensor, base: float) -> None:
        self.layer, self.pos, self.base = layer, pos, base

    def __call__(self, x: Tensor) -> Tensor:
        W = self.layer
        q, k, v = in_heads(x[0], W, lambda y: _turn(y, self.pos, self.base, ""))
        o = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)
        y: Tensor = o.transpose(1, 2).flatten(2) @ W["Wo"]
        return y


def measured(ids: Tensor, scale: float, base: float) -> list[float]:
    """The losses of one way: in run r, of the tokens r * 1024 + 1 and on."""
    model = load_model("cpu")
    pos = scale * torch.arange(ids.shape[1])
    with torch.no_grad():
        x = hidden_with(model.weights, ids, [_Attention(W, pos, base) for W in model.weights["layers"]])[0]
        runs = zip(x[:-1].split(RUN), ids[0, 1:].split(RUN), strict=True)
        return [round(float(F.cross_entropy(part @ model.weights["embed"].mT, after)), 4) for part, after in runs]


def main() -> None:
    """Write the file."""
    text = resources.files("attention_course").joinpath("alice.txt").read_text(encoding="utf-8")
    ids = load_model("cpu").ids(text)[:, :TOKENS]
    kept = {}
    for name, way in WAYS.items():
        kept[name] = measured(ids, *way)
        print(name, kept[name], flush=True)
    Path(__file__).with_name(FILE).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
