"""Five sentences with the word *it*, and where one head of a trained model attends when it reads that word.

The head is head 8 of layer 13 of SmolLM2-135M-Instruct (see `attention_course.heads`). The model is causal, so its weights at
*it* are the same whatever follows. `python -m attention_course.make_heads` makes the file again.

>>> first = sentences()[0]
>>> first.words[:3], first.weights.shape
(('The', 'trophy', 'did'), (10,))
>>> first.words[int(first.weights.argmax())]
'trophy'
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from attention_course.drawing import Drawing

FILE = "pronouns.json"
LAYER, HEAD = 13, 8
TEXTS = (  # what the model reads, up to *it*, and two ways in which the sentence may go on
    ("The trophy did not fit into the suitcase because it", ("was too large", "was too small")),
    ("The boat hit the rock because it", ("was steered badly", "lay under water")),
    ("He dropped the glass and it", ("broke", "made a noise")),
    ("The river flooded the village because it", ("had rained for days", "lay so low")),
    ("The book lay beside the lamp until it", ("was read", "fell over")),
)


@dataclass(frozen=True)
class Sentence:
    """The `words` up to *it*, the weight of each of them when *it* asks (shape (words,), sum 1), and two ways to go `on`."""

    words: tuple[str, ...]
    weights: np.ndarray[Any, np.dtype[np.float64]]
    on: tuple[str, str]


@functools.cache
def sentences() -> tuple[Sentence, ...]:
    """The five sentences, with the recorded weights."""
    rows = json.loads(resources.files("attention_course").joinpath(FILE).read_text(encoding="utf-8"))
    return tuple(Sentence(tuple(row["words"]), np.array(row["weights"]), on) for row, (_, on) in zip(rows, TEXTS, strict=True))


def draw_attention(words: Sequence[str], weights: Mapping[str, float] | Sequence[float] | np.ndarray[Any, Any]) -> Drawing:
    """Draw what the last of `words` attends to: a curve to each word, as wide as its weight, and the weight below the word.

    `weights` are numbers for all words, or for some of them by name, where the others get 0. They are divided by their sum.
    Raises ValueError for a word that is not in the sentence, a negative number, or numbers of which none is above 0.

    >>> draw_attention(["The", "glass", "and", "it"], {"glass": 3, "it": 1}).alt
    'it attends to glass 0.75, it 0.25'
    """
    if isinstance(weights, Mapping):
        if unknown := [word for word in weights if word not in words]:
            raise ValueError(f"expected words of the sentence, got {unknown[0]!r}. The words are {', '.join(words)}.")
        weights = [weights.get(word, 0) for word in words]
    given = np.array(weights, dtype=float)
    if given.shape != (len(words),) or not (given >= 0).all() or not 0 < given.sum() < np.inf:
        raise ValueError(f"expected {len(words)} numbers from 0 up, at least one of them above 0, got {weights}.")
    shares = given / given.sum()
    said = ", ".join(f"{word} {share:.2f}" for word, share in zip(words, shares, strict=True) if share >= 0.005)
    d = Drawing(alt=f"{words[-1]} attends to {said}")
    boxes = d.tokens(words, role="input", strong=[-1])
    d.looks(boxes, len(boxes) - 1, boxes, shares.tolist())
    for box, share in zip(boxes, shares, strict=True):
        d.text(f"{share:.2f}", size=13, muted=share < 0.05, bold=share == shares.max(), below=box, gap=6)
    return d
