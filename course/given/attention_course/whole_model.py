"""The whole language model in one picture, with recorded numbers: SmolLM2 reads a sentence up to *it* and predicts the next word.

The sentence and the weights are the first of `attention_course.pronouns`. The vectors and the predictions are in
`whole_model.json`, which `python -m attention_course.make_heads` makes again.

>>> recorded = load_recording()
>>> len(recorded.vectors), recorded.next_words[0]
(10, ('was', 0.529))
"""

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from attention_course.drawing import Drawing
from attention_course.drawing.lettering import width
from attention_course.pronouns import sentences

FILE = "whole_model.json"
SHOWN = 8  # of the 576 numbers of a vector
NEXT = 3  # of the likeliest next words
_STRIP: dict[str, Any] = {"role": "input", "vmax": 12, "entries": False, "grid": True}


@dataclass(frozen=True)
class Recording:
    """Numbers of one layer, the first `SHOWN` of each vector, and the likeliest next words with their probabilities.

    `vectors` has a row for each word as it enters the layer. `attended` and `processed` are the vector of the last word after
    the attention and after the MLP of this layer.
    """

    vectors: tuple[tuple[float, ...], ...]
    attended: tuple[float, ...]
    processed: tuple[float, ...]
    next_words: tuple[tuple[str, float], ...]


@functools.cache
def load_recording() -> Recording:
    """The recorded numbers."""
    kept = json.loads(resources.files("attention_course").joinpath(FILE).read_text(encoding="utf-8"))
    vectors = tuple(tuple(row) for row in kept["vectors"])
    next_words = tuple((str(word), float(chance)) for word, chance in kept["next_words"])
    return Recording(vectors, tuple(kept["attended"]), tuple(kept["processed"]), next_words)


def draw_whole_model() -> Drawing:
    """Draw how the model gets from the words of a sentence to the next word, from top to bottom, in a phone's width."""
    kept, first = load_recording(), sentences()[0]
    likeliest = ", ".join(f"{word} {chance:.2f}" for word, chance in kept.next_words)
    asks = first.words[-1]
    heaviest = first.words[int(first.weights.argmax())]
    d = Drawing(
        alt=f"The whole language model, from top to bottom. Each word of {' '.join(first.words)} has a vector. Attention gives "
        f"every word a weight, {first.weights.max():.2f} for {heaviest}. The weighted average is added to the vector of "
        f"{asks}, and so is what the MLP makes of that vector. After 30 such layers the vector gives the next word: "
        f"{likeliest}."
    )
    vectors = d.matrix(np.array(kept.vectors), rows=first.words, cell=(11, 23), **_STRIP)
    weights = d.matrix(first.weights[:, None], role="weight", vmax=1, entries="{:.2f}", cell=(46, 23), right_of=vectors, gap=36)
    d.arrow(vectors, weights, role="weight")
    it = vectors.row(-1)
    d.frame(it, role="query", pad=3)
    _say(d, "1  words", right=vectors.x - 10, bottom=vectors.y - 12)
    _say(d, "2  a vector\nfor each", left=vectors.x, bottom=vectors.y - 12)
    _say(d, f"3  attention: how\nmuch “{asks}” attends\nto each word", left=weights.x, bottom=weights.y - 12, role="weight")
    stream, side, below = it.centre[0], weights.centre[0], it.y + it.h
    averaged = d.node("+", role="output", at=(stream, below + 66))
    d.arrow((stream, below + 3), averaged.top)
    d.arrow(weights.bottom, averaged.right, elbow="v", role="output")
    _say(d, f"4  their weighted\naverage is added\nto “{asks}”", left=side + 10, top=below + 16, role="output")
    attended = d.vector(kept.attended, cell=(11, 20), at=(stream, below + 124), **_STRIP)
    d.arrow(averaged.bottom, attended.top)
    mlp = d.box("MLP", role="position", at=(side, attended.centre[1]))
    d.arrow(attended.right, mlp.left, role="position")
    processed_by = d.node("+", role="position", at=(stream, below + 184))
    d.arrow(attended.bottom, processed_by.top)
    d.arrow(mlp.bottom, processed_by.right, elbow="v", role="position")
    _say(d, "5  an MLP\nreworks it\nalone", left=mlp.x + mlp.w + 9, top=mlp.y - 10, role="position")
    processed = d.vector(kept.processed, cell=(11, 20), at=(stream, below + 242), **_STRIP)
    d.arrow(processed_by.bottom, processed.top)
    chances = np.array([[chance] for _, chance in kept.next_words])
    words = [word for word, _ in kept.next_words]
    guess = d.matrix(
        chances, rows=words, role="score", vmax=1, entries="{:.2f}", cell=(46, 23), at=(stream, processed.y + processed.h + 82)
    )
    d.arrow(processed.bottom, guess.top)
    _say(d, "after 30 such layers", left=stream + 12, top=processed.y + processed.h + 12)
    _say(d, "6  how likely each\nnext word is", left=guess.x + guess.w + 14, top=guess.y + 16, role="score")
    return d


def _say(
    d: Drawing,
    words: str,
    *,
    left: float | None = None,
    right: float = 0.0,
    top: float | None = None,
    bottom: float = 0.0,
    role: str = "plain",
) -> None:
    """Write a step's label by its left or right edge, and its upper or lower one."""
    lines, wide = words.count("\n") + 1, width(words, 14)
    x = left if left is not None else right - wide
    y = top if top is not None else bottom - lines * 17.5
    d.text(words, size=14, role=role, align="start", at=(x + wide / 2, y + lines * 17.5 / 2))
