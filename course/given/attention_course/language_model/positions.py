"""What lesson 06 is given to try the learner's rotation in all layers of the trained model, on words and on a page.

    next_word(apply_rope, "The dog bites the man, the dog bites the man, the")  # (" dog", 0.5775)
    page_loss(apply_rope, moved=1000)                                           # 3.63

Each token p stands at `stretch * p + moved`. Where the model is not installed, the numbers are those of `positions.json`, and a
line says so. `python -m attention_course.language_model.positions` makes that file again.
"""

import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attention_course.language_model.looking import ALICE
from attention_course.language_model.model import INSTALL, LanguageModel, ModelMissingError, load_model
from attention_course.language_model.reference import PlainAttention, _turn, logits_with

Rope = Callable[[Tensor, Tensor, float], Tensor]

FILE = "positions.json"
PAGE = ALICE[: ALICE.index(" There was nothing so very")]  # the first two paragraphs: 132 tokens
WORDS = tuple(f"The {a} bites the {b}, the {a} bites the {b}, the" for a, b in (("dog", "man"), ("man", "dog")))
MOVED = (0, 1000, 8000)
STRETCHED = (-1, 0, 0.5, 0.75, 1, 1.25, 1.5, 2)


class Turned(PlainAttention):
    """The model's attention with a rotation that is handed in: `rope(x, pos, base)`."""

    def __init__(self, layer: Any, capacity: int, *, rope: Rope, pos: Tensor) -> None:
        super().__init__(layer, capacity)
        self.rope, self.pos = rope, pos

    def turned(self, x: Tensor, pos: Tensor) -> Tensor:
        """Queries or keys, turned as asked."""
        return self.rope(x, self.pos, self.layer["base"])


def next_word(rope: Rope, text: str, *, stretch: float = 1, moved: float = 0) -> tuple[str, float]:
    """The likeliest next token after `text`, and its probability."""
    model = _model()
    if model is None:
        word, chance = _recorded()["words"][_key(stretch, moved)][text]
        return word, chance
    chances = _logits(model, rope, model.ids(text), stretch, moved)[-1].softmax(-1)
    best = int(chances.argmax())
    return model.tokenizer.decode([best]), round(float(chances[best]), 4)


def page_loss(rope: Rope, *, stretch: float = 1, moved: float = 0) -> float:
    """The mean loss at a token of the page, all but the first."""
    model = _model()
    if model is None:
        return float(_recorded()["page"][_key(stretch, moved)])
    ids = model.ids(PAGE)
    guesses = _logits(model, rope, ids, stretch, moved)[:-1].log_softmax(-1)
    return -float(guesses.gather(-1, ids[0, 1:, None]).mean())


def _logits(model: LanguageModel, rope: Rope, ids: Tensor, stretch: float, moved: float) -> Tensor:
    pos = stretch * torch.arange(ids.shape[1]) + moved
    with torch.no_grad():
        layers = [Turned(W, ids.shape[1], rope=rope, pos=pos) for W in model.weights["layers"]]
        return logits_with(model.weights, ids, layers)[0]


@cache  # asked once, so that the line is printed once
def _model() -> LanguageModel | None:
    try:
        return load_model("cpu")
    except ModelMissingError:
        print(f"The model is not installed ({INSTALL}). These numbers were recorded with the course's function.")
        return None


def _key(stretch: float, moved: float) -> str:
    return f"{stretch:g} p + {moved:g}"


@cache
def _recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Write the file."""
    ways = [{"moved": m} for m in MOVED] + [{"stretch": s} for s in STRETCHED]
    name = {i: _key(way.get("stretch", 1), way.get("moved", 0)) for i, way in enumerate(ways)}
    kept = {
        "page": {name[i]: round(page_loss(_turned_by_reference, **way), 4) for i, way in enumerate(ways)},
        "words": {_key(s, 0): {text: next_word(_turned_by_reference, text, stretch=s) for text in WORDS} for s in (1, 0)},
    }
    Path(__file__).with_name(FILE).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _turned_by_reference(x: Tensor, pos: Tensor, base: float) -> Tensor:
    return _turn(x, pos, base, "")


if __name__ == "__main__":
    main()
