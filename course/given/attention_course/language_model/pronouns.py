"""Sentences with a pronoun and two nouns, and what all 270 heads of the language model do with them.

    DECIDED, HELD_OUT    # twenty sentences each: number or gender of the pronoun decides, and the text ends with the pronoun
    PAIRS                # ten pairs after Winograd: only the last word, which comes after *it*, decides
    readings = read_heads(DECIDED)   # the model runs, a few seconds
    readings[0].words, readings[0].pronoun, readings[0].nouns, readings[0].head(13, 8)

If the model is not installed, the rows of the pronoun and of the last word are those of `pronouns.npz`, and a line says so.
`python -m attention_course.language_model.pronouns` makes that file again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attention_course.language_model.looking import in_heads
from attention_course.language_model.model import INSTALL, LanguageModel, ModelMissingError, load_model
from attention_course.language_model.reference import _turn, hidden_with

FILE = "pronouns.npz"
PRONOUNS = ("he", "she", "it", "they")


@dataclass(frozen=True)
class Sentence:
    """A text, its two nouns in order, and which of them the pronoun stands for, 0 or 1."""

    text: str
    nouns: tuple[str, str]
    answer: int


@dataclass(frozen=True)
class Reading:
    """The tokens `words`, the position of the `pronoun`, those of each noun, the `answer`, and the weights of all heads."""

    words: tuple[str, ...]
    pronoun: int
    nouns: tuple[tuple[int, ...], ...]
    answer: int
    weights: Float[Tensor, "layer head query key"]

    def head(self, layer: int, head: int) -> Float[Tensor, "query key"]:
        """The attention map of one head."""
        return self.weights[layer, head]


def _both(text: str, nouns: tuple[str, str], ends: tuple[str, str]) -> tuple[Sentence, Sentence]:
    """The text with an ending that makes the first noun the answer, and with one that makes it the second."""
    first, second = (Sentence(f"{text} {end}", nouns, answer) for answer, end in enumerate(ends))
    return first, second


def _all(*rows: tuple[str, tuple[str, str], tuple[str, str]]) -> tuple[Sentence, ...]:
    return tuple(sentence for row in rows for sentence in _both(*row))


DECIDED = _all(
    ("The boy called the girls because", ("boy", "girls"), ("he", "they")),
    ("The woman phoned the man because", ("woman", "man"), ("she", "he")),
    ("The king thanked the queen because", ("king", "queen"), ("he", "she")),
    ("The dog chased the girls because", ("dog", "girls"), ("it", "they")),
    ("The teachers praised the boy because", ("teachers", "boy"), ("they", "he")),
    ("The queen wrote to the soldiers because", ("queen", "soldiers"), ("she", "they")),
    ("The man lost the keys because", ("man", "keys"), ("he", "they")),
    ("The book was under the cups because", ("book", "cups"), ("it", "they")),
    ("The mother kissed the boy because", ("mother", "boy"), ("she", "he")),
    ("The horses followed the farmer because", ("horses", "farmer"), ("they", "he")),
)
HELD_OUT = _all(
    ("The girl met the boys when", ("girl", "boys"), ("she", "they")),
    ("The father helped the woman before", ("father", "woman"), ("he", "she")),
    ("The cats watched the bird until", ("cats", "bird"), ("they", "it")),
    ("The actress thanked the king after", ("actress", "king"), ("she", "he")),
    ("The box was behind the chairs until", ("box", "chairs"), ("it", "they")),
    ("The doctors visited the girl when", ("doctors", "girl"), ("they", "she")),
    ("The boy ate the apples because", ("boy", "apples"), ("he", "they")),
    ("The uncle wrote to the nurses while", ("uncle", "nurses"), ("he", "they")),
    ("The stones hit the window when", ("stones", "window"), ("they", "it")),
    ("The princess followed the man until", ("princess", "man"), ("she", "he")),
)
PAIRS = _all(
    ("The animal did not cross the street because it was too", ("animal", "street"), ("tired", "wide")),
    ("The trophy did not fit into the suitcase because it was too", ("trophy", "suitcase"), ("big", "small")),
    ("The ball broke the table because it was made of", ("ball", "table"), ("steel", "foam")),
    ("The fish ate the worm because it was", ("fish", "worm"), ("hungry", "tasty")),
    ("The dog chased the rabbit until it got", ("dog", "rabbit"), ("bored", "caught")),
    ("The truck overtook the bus because it was going so", ("truck", "bus"), ("fast", "slowly")),
    ("The knife cut the bread because it was", ("knife", "bread"), ("sharp", "soft")),
    ("The cup slid off the tray because it was", ("cup", "tray"), ("round", "tilted")),
    ("The rain filled the bucket until it", ("rain", "bucket"), ("stopped", "overflowed")),
    ("The cat climbed the tree because it was", ("cat", "tree"), ("scared", "tall")),
)


def read_heads(sentences: Sequence[Sentence | str]) -> list[Reading]:
    """Let the model read all sentences at once, and return the weights of all heads for each.

    A plain string is a text of the learner's own: its pronoun is the first of he, she, it, they (or the last word), and it has
    no nouns and no answer (-1). Raises ModelMissingError for a text that was not recorded, if the model is not installed.
    """
    whole = [sentence if isinstance(sentence, Sentence) else Sentence(sentence, ("", ""), -1) for sentence in sentences]
    try:
        model = load_model("cpu")
    except ModelMissingError:
        kept = _recorded()
        if any(sentence.text not in kept for sentence in whole):
            raise
        print(f"The model is not installed ({INSTALL}). These weights were recorded.")
        return [_reading(sentence, *kept[sentence.text]) for sentence in whole]
    return [_reading(sentence, words, A) for sentence, (words, A) in zip(whole, _run(model, whole), strict=True)]


def _run(model: LanguageModel, sentences: Sequence[Sentence]) -> list[tuple[list[str], Tensor]]:
    """The tokens of each sentence and the weights (layer, head, query, key) on them, from one run padded on the right.

    What is to the right of a token has no influence on it, so the padding changes nothing.
    """
    ids = [model.ids(sentence.text)[0] for sentence in sentences]
    longest = max(len(row) for row in ids)
    positions, seen = torch.arange(longest), list[Tensor]()
    hidden = torch.full((longest, longest), -torch.inf).triu(1)

    def layer(W: Any, x: Float[Tensor, "batch n d_model"]) -> Float[Tensor, "batch n d_model"]:
        outputs, weights = [], []
        for row in x:
            q, k, v = in_heads(row, W, lambda X: _turn(X[None], positions, W["base"], "")[0])
            A = (q @ k.mT / q.shape[-1] ** 0.5 + hidden).softmax(-1)
            weights.append(A)
            outputs.append((A @ v).transpose(0, 1).flatten(1) @ W["W_O"])
        seen.append(torch.stack(weights))
        return torch.stack(outputs)

    batch = torch.stack([F.pad(row, (0, longest - len(row))) for row in ids])
    with torch.no_grad():
        hidden_with(model.weights, batch, [partial(layer, W) for W in model.weights["layers"]])
    maps = torch.stack(seen, dim=1)
    return [
        ([model.tokenizer.decode([i]) for i in row.tolist()], A[:, :, : len(row), : len(row)])
        for row, A in zip(ids, maps, strict=True)
    ]


def _reading(sentence: Sentence, words: Sequence[str], A: Tensor) -> Reading:
    plain = [word.strip().lower() for word in words]
    pronoun = next((i for i, word in enumerate(plain) if word in PRONOUNS), len(words) - 1)
    nouns = tuple(_positions(noun, words) for noun in sentence.nouns if noun)
    return Reading(tuple(words), pronoun, nouns, sentence.answer, A)


def _positions(noun: str, words: Sequence[str]) -> tuple[int, ...]:
    """Where the tokens of a noun are: those that overlap with its first occurrence after a space.

    >>> _positions("suitcase", ["The", " suit", "case", " is"])
    (1, 2)
    """
    start = "".join(words).index(f" {noun}") + 1
    found, end = [], 0
    for i, word in enumerate(words):
        begin, end = end + len(word) - len(word.lstrip()), end + len(word)
        if begin < start + len(noun) and end > start:
            found.append(i)
    return tuple(found)


def _recorded() -> dict[str, tuple[list[str], Tensor]]:
    with resources.files("attention_course.language_model").joinpath(FILE).open("rb") as file, np.load(file) as found:
        kept = {}
        for i, sentence in enumerate((*DECIDED, *HELD_OUT, *PAIRS)):
            words = [str(word) for word in found[f"{i}/words"]]
            A = torch.zeros(30, 9, len(words), len(words))
            A[:, :, found[f"{i}/rows"]] = torch.tensor(found[f"{i}/weights"].astype(np.float32)) / 10_000
            kept[sentence.text] = words, A
    return kept


def main() -> None:
    """Record the rows of the pronoun and of the last word, in 10,000 steps."""
    arrays: dict[str, Any] = {}
    for i, reading in enumerate(read_heads((*DECIDED, *HELD_OUT, *PAIRS))):
        rows = sorted({reading.pronoun, len(reading.words) - 1})
        arrays[f"{i}/words"] = np.array(reading.words)
        arrays[f"{i}/rows"] = np.array(rows)
        arrays[f"{i}/weights"] = (reading.weights[:, :, rows] * 10_000).round().numpy().astype(np.uint16)
    np.savez_compressed(Path(__file__).with_name(FILE), **arrays)


if __name__ == "__main__":
    main()
