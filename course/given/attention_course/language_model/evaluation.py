"""What a change of the cache costs: the loss at every token of three texts, and numbers that must be found again.

    model = load_model()
    ids = three_texts(model)                            # (3, 513): two chapters of Python's reference, a program
    losses = token_losses(model, PlainAttention, ids)   # (3, 512), measured once for the same content
    recalled(model, PlainAttention)                     # how many of 48 digits the model repeats

A cache is the class or function that makes a layer's attention, as for `language_model.quality.measure`.
"""

import math
import random
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.language_model import cache
from attention_course.language_model.model import LanguageModel
from attention_course.language_model.quality import CALIBRATION, MEASURED, Variant, code_passage, fingerprint, passage
from attention_course.language_model.reference import Layer, Llama, PlainAttention

TEXTS = ("comparisons", "imports", "a program")  # two topics of Python's language reference, and textwrap.py
TOKENS = 513  # so 512 of them are predicted
PLACES = ("Paris", "London", "Rome", "Madrid", "Vienna", "Berlin", "Lisbon", "Athens")
DIGITS, BETWEEN = 6, 56  # of each hidden number, and tokens of the story before each

Stored = Callable[[Tensor], Tensor]


class StoringAttention(PlainAttention):
    """Attention whose cache gives rotated keys and values back as `keys` and `values` return them."""

    def __init__(self, layer: Layer, capacity: int, *, keys: Stored, values: Stored) -> None:
        super().__init__(layer, capacity)
        self.keys, self.values = keys, values

    def stored_keys(self, k: Tensor) -> Tensor:
        return self.keys(k)

    def stored(self, x: Tensor) -> Tensor:
        return self.values(x)


def storing(keys: Stored, values: Stored | None = None) -> Callable[[Layer, int], StoringAttention]:
    """Attention that stores keys, (batch, group, token, feature), as `keys(k)` and values as `values(v)`, by default alike."""
    both = keys if values is None else values
    return lambda layer, capacity: StoringAttention(layer, capacity, keys=keys, values=both)


def hadamard(size: int) -> Float[Tensor, "size size"]:
    """The symmetric orthogonal matrix of Hadamard whose entries have one absolute value; `size` is a power of two.

    >>> hadamard(4)[1]
    tensor([ 0.5000, -0.5000,  0.5000, -0.5000])
    """
    if size < 1 or size & (size - 1):
        raise ValueError(f"size: expected a power of two, got {size}.")
    R: Tensor = torch.ones(1, 1)
    while len(R) < size:  # twice the size, and the sign of one quarter changed
        R = torch.cat([torch.cat([R, R], 1), torch.cat([R, -R], 1)])
    return R / math.sqrt(size)


def three_texts(model: LanguageModel) -> Int[Tensor, "text token"]:
    """The first 513 tokens of each of `TEXTS`."""
    topics = [passage(model, topic, TOKENS) for topic in (MEASURED, CALIBRATION)]
    return torch.cat([*topics, code_passage(model, TOKENS)])


def token_losses(
    model: LanguageModel, attention: Any, ids: Int[Tensor, "text token"], weights: Mapping[str, Any] | None = None
) -> Float[Tensor, "text predicted"]:
    """The loss at each token but the first, in single precision on the processor. Measured once for the same content."""
    weights = model.weights if weights is None else weights

    def measured() -> list[list[float]]:
        with torch.inference_mode():
            found = []
            for text in ids.to(weights["embed"].device):
                logits = Llama(weights, len(text), attention).extend(text[None])[0, :-1]
                found.append(F.cross_entropy(logits, text[1:], reduction="none").tolist())
        return found

    name = cache.key("token_losses", weights["embed"].device.type, *map(fingerprint, (attention, weights, ids)))
    return torch.tensor(
        cache.remembered(name, measured), dtype=torch.float32
    )  # as `torch.tensor([0.025, 0.975])`, for `quantile`


def round_to_bits(x: Tensor, bits: int, dim: int) -> Tensor:
    """Round each number to the nearest of 2**bits levels of its group, the numbers along `dim` (notebook 12)."""
    least, largest = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    step = ((largest - least) / (2**bits - 1)).clamp(min=torch.finfo(x.dtype).tiny)
    y: Tensor = torch.round((x - least) / step) * step + least
    return y


def paired_interval(new: Tensor, old: Tensor, size: int = 16, resamples: int = 2000) -> tuple[float, float, float]:
    """The ratio of two perplexities and its 95 % interval by a block bootstrap of the paired losses (notebook 12)."""
    means = (new - old).reshape(-1, size).mean(1)
    picks = torch.randint(len(means), (resamples, len(means)), generator=torch.Generator().manual_seed(0))
    ends = torch.quantile(means[picks].mean(1), means.new_tensor([0.025, 0.975])).exp()
    return float(means.mean().exp()), float(ends[0]), float(ends[1])


def compare(model: LanguageModel, variants: Mapping[str, Variant], ids: Int[Tensor, "text token"]) -> None:
    """Print the ratio of each variant's perplexity to the model's own on each text, with its interval."""
    full = token_losses(model, PlainAttention, ids)
    width = max(map(len, variants))
    for name, (attention, weights) in variants.items():
        found = zip(token_losses(model, attention, ids, weights), full, strict=True)
        each = [paired_interval(*pair) for pair in found]
        print(f"{name:{width}}", *(f" {ratio:.3f} [{low:.3f}, {high:.3f}]" for ratio, low, high in each))


def needles(model: LanguageModel) -> tuple[Int[Tensor, "1 n"], Int[Tensor, "place asked"]]:
    """A story of 688 tokens in which eight places have secret numbers, and a question with its answer for each place."""
    draw = random.Random(0)

    def tokens(text: str) -> list[int]:
        found: list[int] = model.tokenizer.encode(text).ids
        return found

    book = tokens(resources.files("attention_course").joinpath("alice.txt").read_text(encoding="utf-8"))
    story, asked = list[int](), list[list[int]]()
    for i, place in enumerate(PLACES):
        question = f"\nThe secret number of {place} is "
        number = f"{draw.randrange(10**DIGITS):0{DIGITS}d}"
        story += book[i * BETWEEN : (i + 1) * BETWEEN] + tokens(f"{question}{number}.\n")
        asked.append(tokens(question) + tokens(number))
    told = len(PLACES) * BETWEEN
    story += book[told : told + 2 * BETWEEN]
    return torch.tensor([story]), torch.tensor(asked)


def recalled(model: LanguageModel, attention: Any) -> int:
    """How many of the 48 digits are the likeliest next token when the model is asked for each number behind the story."""
    story, asked = needles(model)

    def measured() -> int:
        device = model.weights["embed"].device
        with torch.inference_mode():
            decoder = Llama(model.weights, story.shape[1] + asked.shape[1], attention)
            decoder.extend(story.to(device))
            for layer in decoder.attention:  # the same past for all questions
                layer.past = tuple(x.expand(len(asked), -1, -1, -1) for x in layer.past)
            best = decoder.extend(asked.to(device))[:, -DIGITS - 1 : -1].argmax(-1).cpu()
        return int((best == asked[:, -DIGITS:]).sum())

    parts = (attention, model.weights, story, asked)
    return int(cache.remembered(cache.key("recalled", model.device.type, *map(fingerprint, parts)), measured))
