"""The loss of the trained model on a page, with the learner's rotation in all of its layers.

    page_loss(apply_rope, moved=1000)  # 3.63

Token p stands at position `stretch * p + moved`. Where the model is not installed, the numbers are those of `positions.json`,
and a line says so. `python -m attention_course.language_model.positions` makes that file again.
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
MOVED = (8000,)
STRETCHED = (1, 2, 0.5, -1, 0)
HALVES = tuple((which, drop) for which in ("fast", "slow") for drop in (0, 1))


class Turned(PlainAttention):
    """The model's attention with a given rotation, `rope(x, pos, base)`."""

    def __init__(self, layer: Any, capacity: int, *, rope: Rope, pos: Tensor) -> None:
        super().__init__(layer, capacity)
        self.rope, self.pos = rope, pos

    def turned(self, x: Tensor, pos: Tensor) -> Tensor:
        """Rotate queries or keys."""
        return self.rope(x, self.pos, self.layer["base"])


def page_loss(rope: Rope, *, stretch: float = 1, moved: float = 0, record: str = "") -> float:
    """Return the mean loss at a token of the page, all but the first.

    `record` names the recorded loss of a rotation that is not `apply_rope`.
    """
    model = _model()
    if model is None:
        return float(_recorded()[record or _key(stretch, moved)])
    ids = model.ids(PAGE)
    guesses = _logits(model, rope, ids, stretch, moved)[:-1].log_softmax(-1)
    return -float(guesses.gather(-1, ids[0, 1:, None]).mean())


def _logits(model: LanguageModel, rope: Rope, ids: Tensor, stretch: float, moved: float) -> Tensor:
    pos = stretch * torch.arange(ids.shape[1]) + moved
    with torch.no_grad():
        layers = [Turned(W, ids.shape[1], rope=rope, pos=pos) for W in model.weights["layers"]]
        return logits_with(model.weights, ids, layers)[0]


@cache  # so that the line is printed once
def _model() -> LanguageModel | None:
    try:
        return load_model("cpu")
    except ModelMissingError:
        print(f"The model is not installed ({INSTALL}). These numbers were recorded with our function.")
        return None


def _key(stretch: float, moved: float) -> str:
    return f"{stretch:g} p + {moved:g}"


@cache
def _recorded() -> dict[str, float]:
    found: dict[str, float] = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Write the file."""
    ways = [{"moved": m} for m in MOVED] + [{"stretch": s} for s in STRETCHED]
    kept = {_key(way.get("stretch", 1), way.get("moved", 0)): page_loss(_rotated_by_reference, **way) for way in ways}
    kept |= {f"{which} {drop}": page_loss(_rotated_half(which, drop)) for which, drop in HALVES}
    rounded = {name: round(loss, 4) for name, loss in kept.items()}
    Path(__file__).with_name(FILE).write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


def _rotated_by_reference(x: Tensor, pos: Tensor, base: float) -> Tensor:
    return _turn(x, pos, base, "")


def _rotated_half(which: str, drop: int) -> Rope:
    """Rotate one half of the pairs; leave the other as it is, or write zeros there."""

    def rope(x: Tensor, pos: Tensor, base: float) -> Tensor:
        half = x.shape[-1] // 2
        rotated = _turn(x, pos, base, "").split(half, -1)
        rest = [torch.zeros_like(part) if drop else part for part in x.split(half, -1)]
        return torch.cat([rotated[0], rest[1]] if which == "fast" else [rest[0], rotated[1]], dim=-1)

    return rope


if __name__ == "__main__":
    main()
