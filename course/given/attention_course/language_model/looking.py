"""What lesson 05 is given to look at all 270 heads: a page of text, read twice by the model with the learner's attention.

    found = read_twice(attend, measure)    # the model runs, some seconds
    found.measured, found.close, found.loss

Where the model is not installed, the numbers are those of `readings.npz`, and a line says so.
`python -m attention_course.language_model.looking` makes that file again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attention_course.language_model.model import INSTALL, LanguageModel, ModelMissingError, load_model
from attention_course.language_model.reference import _turn, logits_with

# Lewis Carroll (1865), "Alice's Adventures in Wonderland", the first three paragraphs; in the public domain
ALICE = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or twice "
    "she had peeped into the book her sister was reading, but it had no pictures or conversations in it, “and what is the "
    "use of a book,” thought Alice “without pictures or conversations?” So she was considering in her own mind (as well as "
    "she could, for the hot day made her feel very sleepy and stupid), whether the pleasure of making a daisy-chain would "
    "be worth the trouble of getting up and picking the daisies, when suddenly a White Rabbit with pink eyes ran close by "
    "her. There was nothing so very remarkable in that; nor did Alice think it so very much out of the way to hear the "
    "Rabbit say to itself, “Oh dear! Oh dear! I shall be late!” (when she thought it over afterwards, it occurred to her "
    "that she ought to have wondered at this, but at the time it all seemed quite natural); but when the Rabbit actually "
    "took a watch out of its waistcoat-pocket, and looked at it, and then hurried on, Alice started to her feet, for it "
    "flashed across her mind that she had never before seen a rabbit with either a waistcoat-pocket, or a watch to take out "
    "of it, and burning with curiosity, she ran across the field after it, and fortunately was just in time to see it pop "
    "down a large rabbit-hole under the hedge."
)
TOKENS = 303  # of one reading
FILE = "readings.npz"
CLOSE_UP = (0, *(i + start for start in (0, TOKENS) for i in range(121, 131)))  # the first token, and ten in both readings

Attend = Callable[[Float[Tensor, "n d_model"], Mapping[str, Any], Callable[[Tensor], Tensor]], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Readings:
    """What was found: `measured`, stacked (layer, ...); `close`, the weights (layer, head, query, key) among the tokens `words`;
    the mean `loss` at a token in the first and in the second reading.
    """

    measured: Tensor
    close: Float[Tensor, "layer head query key"]
    words: list[str]
    loss: tuple[float, float]


def read_twice(attend: Attend, measure: Callable[[Tensor], Tensor]) -> Readings:
    """The page read twice in a row by the model, with `attend` in every layer; `measure(A)` of each layer's weights is kept.

    `attend(x, W, turn)` returns the outputs and weights (Y, A) of one layer: `x` (n, 576) is what comes in, `W` holds the layer's
    matrices `Wq`, `Wk`, `Wv`, `Wo`, and `turn` gives queries or keys (heads, n, 64) their positions.
    """
    try:
        model = load_model("cpu")
    except ModelMissingError:
        print(f"The model is not installed ({INSTALL}). These numbers were recorded with the course's functions.")
        kept = recorded()
        whole, *_ = kept["losses"].tolist()
        close = torch.tensor(kept["close"]).float() / 255
        return Readings(torch.tensor(kept["shares"]).float(), close, kept["words"].tolist(), tuple(whole))
    ids = model.ids(f"{ALICE} {ALICE}")
    place = torch.tensor(CLOSE_UP)
    logits, measured, close = run(model, ids, attend, measure, lambda A: A[:, place[:, None], place])
    return Readings(measured, close, [model.tokenizer.decode([i]) for i in ids[0, place].tolist()], _losses(logits, ids))


def losses_without(attend: Attend, heads: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """The losses of both readings where each of `heads`, (layer, head), writes nothing: its rows of W_O are 0."""
    try:
        model = load_model("cpu")
    except ModelMissingError:
        kept = recorded()
        taken = [sorted(map(tuple, group)) for group in kept["taken"].tolist()]
        if sorted(heads) not in taken:
            raise
        first, second = kept["losses"][1 + taken.index(sorted(heads))].tolist()
        return first, second

    def lamed(x: Tensor, W: Mapping[str, Any], turn: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        Wo = W["Wo"].unflatten(0, (W["H"], -1)).clone()
        Wo[[head for layer, head in heads if layer == W["layer"]]] = 0.0
        return attend(x, {**W, "Wo": Wo.flatten(0, 1)}, turn)

    ids = model.ids(f"{ALICE} {ALICE}")
    logits, *_ = run(model, ids, lamed)
    return _losses(logits, ids)


def run(model: LanguageModel, ids: Tensor, attend: Attend, *measures: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    """The logits (n, vocab) of a text, and each of `measures(A)` of all layers, stacked. The weights themselves are not kept."""
    pos, found = torch.arange(ids.shape[1]), list[list[Tensor]]()

    def layer(W: Mapping[str, Any], x: Float[Tensor, "one n d_model"]) -> Float[Tensor, "one n d_model"]:
        Y, A = attend(x[0], W, lambda X: _turn(X[None], pos, W["base"], "")[0])
        found.append([measure(A) for measure in measures])
        return Y[None]

    layers = [{**W, "layer": i} for i, W in enumerate(model.weights["layers"])]
    with torch.no_grad():
        logits = logits_with(model.weights, ids, [partial(layer, W) for W in layers])[0]
    return logits, *(torch.stack(column) for column in zip(*found, strict=True))


def _losses(logits: Tensor, ids: Tensor) -> tuple[float, float]:
    surprise = -logits[:-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]  # at tokens 1, 2, ...
    return float(surprise[: TOKENS - 1].mean()), float(surprise[TOKENS:].mean())  # the first word of a reading has no cue


def in_heads(x: Tensor, W: Mapping[str, Any], turn: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of the tokens `x` (n, d_model) in all heads of a layer, (head, n, d) each.

    Queries and keys are turned; those of a group are there once for each of its heads.
    """
    q, k, v = (
        (x @ W[name]).unflatten(-1, (heads, -1)).transpose(0, 1)
        for name, heads in (("Wq", W["H"]), ("Wk", W["G"]), ("Wv", W["G"]))
    )
    k, v = (y.repeat_interleave(W["H"] // W["G"], dim=0) for y in (turn(k), v))
    return turn(q), k, v


def recorded() -> dict[str, Any]:
    """What `readings.npz` holds: shares (layer, place, head), close (in 255ths), words, taken, losses."""
    with resources.files(__package__).joinpath(FILE).open("rb") as file, np.load(file, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


# ---------------------------------------------------------------------------------------------- recording

INDUCTION = ((17, 3), (18, 6), (18, 7), (20, 6))  # the heads with more than half of their weight on what followed last time
PREVIOUS = ((1, 2), (2, 1), (11, 1), (16, 0))  # ... on the token before
OTHERS = ((17, 1), (18, 1), (18, 4), (20, 1))  # of the same layers as the first four


def _attend(x: Tensor, W: Mapping[str, Any], turn: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """As the lesson has it, in other words."""
    q, k, v = in_heads(x, W, turn)
    A = (q @ k.mT / q.shape[-1] ** 0.5 + torch.full((len(x), len(x)), -torch.inf).triu(1)).softmax(-1)
    return (A @ v).transpose(0, 1).flatten(1) @ W["Wo"], A


def _shares(A: Tensor) -> Tensor:
    before = A.diagonal(-1, 1, 2)[:, : TOKENS - 1].mean(-1)
    first = A[:, 1:TOKENS, 0].mean(-1)
    after = A.diagonal(1 - TOKENS, 1, 2)[:, 1:].mean(-1)  # queries TOKENS, TOKENS + 1, ...: keys 1, 2, ...
    return torch.stack([before, first, after])


def main() -> None:
    """Write the file."""
    found = read_twice(_attend, _shares)
    taken = INDUCTION, PREVIOUS, OTHERS
    path = Path(__file__).with_name(FILE)
    np.savez_compressed(
        path,
        shares=found.measured.numpy().astype(np.float16),
        close=(255 * found.close).round().byte().numpy(),
        words=np.array(found.words),
        taken=np.array(taken),
        losses=np.array([found.loss, *(losses_without(_attend, heads) for heads in taken)]),
    )
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
