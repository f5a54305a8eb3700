"""SmolLM2 with frequencies of your own: the loss of a short text, and what was recorded of a long one.

    short_losses({"as trained": (frequencies(), 1 / 8)})   # the loss of 512 tokens of the book, by way, some seconds each
    recorded()["YaRN"].losses                              # in each run of 1,024 tokens, of 16,384
    recorded()["YaRN"].asked[16_384]                       # the digits right (of 6) and their mean loss, for each needle

A way is the 32 frequencies, in radians per token, and the number that multiplies dot products of queries and keys.
The long text is the beginning of "Alice's Adventures in Wonderland" (Carroll, 1865) with 16 needles, one in the middle of each
run: "The secret number of Paris is 885440." Their tokens are left out of the losses. At four places the model is asked for every
number that it has read. `python -m tools.record_long_context` makes `long_context.json` again.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.language_model.model import INSTALL, LanguageModel, ModelMissingError, load_model
from attention_course.language_model.reference import hidden_with

FILE = "long_context.json"
TOKENS, RUN = 16_384, 1024
ENDS = (4096, 8192, 12_288, 16_384)  # where the questions are asked
DIGITS, SHORT = 6, 512
PLACES = ["Paris", "London", "Rome", "Madrid", "Vienna", "Berlin", "Lisbon", "Athens"]
PLACES += ["Oslo", "Dublin", "Prague", "Warsaw", "Cairo", "Tokyo", "Sydney", "Boston"]


@dataclass(frozen=True)
class Needle:
    """A sentence hidden in the text: the tokens of its statement, of the question about it and of the answer."""

    statement: list[int]
    question: list[int]
    answer: list[int]


class Reader:
    """The model with frequencies `theta`: it reads chunk after chunk and keeps rotated keys, and values."""

    def __init__(self, model: LanguageModel, theta: Float[Tensor, " pairs"], scale: float, capacity: int) -> None:
        self.model, self.theta, self.scale, self.length = model, theta.double(), scale, 0
        layers = model.weights["layers"]
        width = 2 * len(theta)
        self.keys, self.values = (torch.zeros(len(layers), layers[0]["G"], capacity, width) for _ in range(2))

    def extend(self, ids: Int[Tensor, " new"]) -> Float[Tensor, "new d_model"]:
        """Read the tokens that follow those before."""
        weights, start = self.model.weights, self.length
        stop = start + len(ids)
        angle = torch.arange(start, stop, dtype=torch.float64)[:, None] * self.theta
        turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
        keep = torch.ones(len(ids), stop, dtype=torch.bool).tril(start)

        def rotated(x: Tensor) -> Tensor:
            pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
            return torch.view_as_real(pairs * turn).flatten(-2)

        def attention(layer: int, W: Mapping[str, Any]) -> Any:
            def attend(x: Tensor) -> Tensor:
                q, k, v = (
                    (x[0] @ W[name]).unflatten(-1, (heads, -1)).transpose(0, 1)
                    for name, heads in (("W_Q", W["H"]), ("W_K", W["G"]), ("W_V", W["G"]))
                )
                self.keys[layer, :, start:stop], self.values[layer, :, start:stop] = rotated(k), v
                k, v = (y[layer, :, :stop].repeat_interleave(W["H"] // W["G"], dim=0) for y in (self.keys, self.values))
                o = F.scaled_dot_product_attention(rotated(q)[None], k[None], v[None], attn_mask=keep, scale=self.scale)
                y: Tensor = o.transpose(1, 2).flatten(2) @ W["W_O"]
                return y

            return attend

        with torch.no_grad():
            attentions = [attention(i, W) for i, W in enumerate(weights["layers"])]
            x = hidden_with(weights, ids[None], attentions)[0]
        self.length = stop
        return x

    def losses(self, x: Float[Tensor, "n d_model"], after: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The loss at each of the tokens `after` that follow hidden vectors."""
        with torch.no_grad():
            return F.cross_entropy(x @ self.model.weights["embed"].mT, after, reduction="none")

    def answer(self, needle: Needle) -> tuple[int, float]:
        """How many tokens of the answer are the likeliest ones, and the mean loss at them. What was read stays as it was."""
        read, asked = self.length, len(needle.question)
        x = self.extend(torch.tensor(needle.question + needle.answer))
        self.length = read
        x, after = x[asked - 1 : -1], torch.tensor(needle.answer)
        with torch.no_grad():
            right = ((x @ self.model.weights["embed"].mT).argmax(-1) == after).sum()
        return int(right), float(self.losses(x, after).mean())


def frequencies(base: float = 1e5, d: int = 64) -> Float[Tensor, " pairs"]:
    """The frequencies of rotary positions, in radians per token, as the model has them unless told otherwise."""
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def haystack(model: LanguageModel) -> tuple[Int[Tensor, " n"], Tensor, list[tuple[int, Needle]]]:
    """The tokens of the book with a needle in each run, which of them are the book's, and the needles with their places.

    The questions are asked after the text, and each needle's number has six random digits.
    """

    def tokens(text: str) -> list[int]:
        found: list[int] = model.tokenizer.encode(text).ids
        return found

    book = tokens(resources.files("attention_course").joinpath("alice.txt").read_text(encoding="utf-8"))
    draw, ids, of_book = random.Random(0), list[int](), list[bool]()
    needles: list[tuple[int, Needle]] = []
    for run, place in enumerate(PLACES):
        until = run * RUN + RUN // 2 - len(ids)
        ids, book = ids + book[:until], book[until:]
        of_book += [True] * until
        number = f"{draw.randrange(10**DIGITS):0{DIGITS}d}"
        asked = f"\nThe secret number of {place} is "
        question, answer = tokens(asked), tokens(number)
        needle = Needle(tokens(f"{asked}{number}.\n"), question, answer)
        needles.append((len(ids), needle))
        ids += needle.statement
        of_book += [False] * len(needle.statement)
    rest = TOKENS + 1 - len(ids)
    return torch.tensor(ids + book[:rest]), torch.tensor(of_book + [True] * rest), needles


@dataclass(frozen=True)
class Recorded:
    """What one way gave: the mean loss in each run, and by the tokens read, for each needle, digits right and mean loss."""

    losses: list[float]
    asked: dict[int, list[tuple[int, float]]]


@cache
def recorded() -> dict[str, Recorded]:
    """What `long_context.json` holds, by way."""
    found = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return {
        way: Recorded(kept["losses"], {int(end): [(right, loss) for right, loss in each] for end, each in kept["asked"].items()})
        for way, kept in found["long"].items()
    }


def short_losses(ways: Mapping[str, tuple[Float[Tensor, " pairs"], float]]) -> dict[str, float]:
    """The mean loss of the first 512 tokens of the book, by way. Without the model, that of the recorded ways."""
    try:
        model = load_model("cpu")
    except ModelMissingError:
        print(f"The model is not installed ({INSTALL}). These numbers were recorded with the course's functions.")
        kept = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))["short"]
        return {way: kept[way] for way in ways if way in kept}
    book = resources.files("attention_course").joinpath("alice.txt").read_text(encoding="utf-8")
    ids = model.ids(book[: 10 * SHORT])[0, : SHORT + 1]
    found = {}
    for way, (theta, scale) in ways.items():
        reader = Reader(model, theta, scale, SHORT)
        found[way] = float(reader.losses(reader.extend(ids[:-1]), ids[1:]).mean())
    return found
