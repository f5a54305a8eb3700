"""A page of text, and runs of the language model with any attention in its layers: `run`, and `in_heads` to write one with."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attention_course.language_model.model import LanguageModel
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

Attend = Callable[[Float[Tensor, "n d_model"], Mapping[str, Any], Callable[[Tensor], Tensor]], tuple[Tensor, Tensor]]


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


def in_heads(x: Tensor, W: Mapping[str, Any], turn: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of the tokens `x` (n, d_model) in all heads of a layer, (head, n, d) each.

    Queries and keys are turned; those of a group are there once for each of its heads.
    """
    q, k, v = (
        (x @ W[name]).unflatten(-1, (heads, -1)).transpose(0, 1)
        for name, heads in (("W_Q", W["H"]), ("W_K", W["G"]), ("W_V", W["G"]))
    )
    k, v = (y.repeat_interleave(W["H"] // W["G"], dim=0) for y in (turn(k), v))
    return turn(q), k, v
