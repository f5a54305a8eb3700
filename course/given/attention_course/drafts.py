"""What workshop 07e needs to test a sampler: two small models of texts, and Pearson's chi-squared.

large, small = markov_models()
large[2, 3]    # the probabilities of the next of `WORDS` behind words 2 and 3
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

WORDS = ("she", "ate", "the", "ripe", "pear")
_FEWEST = 5  # expected texts in a cell: with fewer, the statistic is not distributed as the theory says


def markov_models() -> tuple[Float[Tensor, "5 5 5"], Float[Tensor, "5 5"]]:
    """Probabilities of the next word, by a large model that knows the last two words and a small one that knows the last.

    They are random and alike, as those of a model and its draft model are. In float64.
    """
    g = torch.Generator().manual_seed(2)
    scores = torch.randn(5, 5, generator=g, dtype=torch.float64)
    large = scores + 0.8 * torch.randn(5, 5, 5, generator=g, dtype=torch.float64)
    return large.softmax(-1), scores.softmax(-1)


def tokens_per_step(a: float, lengths: Sequence[int]) -> Float[np.ndarray, " lengths"]:
    """The tokens that a step yields on average, by the length of its draft, if each token of a draft is right with chance `a`."""
    return np.array([sum(a**i for i in range(k + 1)) for k in lengths])


def probabilities_of_texts(
    model: Float[Tensor, "5 5 5"], words: int, start: tuple[int, int] = (0, 1)
) -> dict[tuple[int, ...], float]:
    """The probability of each text of so many words behind `start`, by a model that knows the last two words."""
    found = {}
    for text in product(range(5), repeat=words):
        told, chance = [*start, *text], 1.0
        for at in range(words):
            chance *= float(model[told[at], told[at + 1], told[at + 2]])
        found[text] = chance
    return found


def chi_squared(texts: Sequence[tuple[int, ...]], probabilities: Mapping[tuple[int, ...], float]) -> tuple[float, int]:
    """Pearson's chi-squared of drawn texts against the probabilities that they should have, and its degrees of freedom.

    Texts that are expected fewer than five times are counted together.

    >>> chi_squared([(0,)] * 60 + [(1,)] * 40, {(0,): 0.5, (1,): 0.5})
    (4.0, 1)
    """
    expected = {text: chance * len(texts) for text, chance in probabilities.items()}
    counts = dict.fromkeys(expected, 0)
    for text in texts:
        counts[text] += 1
    rare = [text for text in expected if expected[text] < _FEWEST]
    cells = [(counts[text], expected[text]) for text in expected if text not in rare]
    if rare:
        cells.append((sum(counts[text] for text in rare), sum(expected[text] for text in rare)))
    return sum((seen - due) ** 2 / due for seen, due in cells), len(cells) - 1


def chance_of(statistic: float, degrees: int) -> float:
    """The chance of so large a chi-squared, or a larger one, if the probabilities hold (Wilson and Hilferty's approximation).

    >>> round(chance_of(106.4, 86), 2)  # tables say 0.07
    0.07
    """
    spread = 2 / (9 * degrees)
    z = ((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return math.erfc(z / math.sqrt(2)) / 2


def report(texts: Sequence[tuple[int, ...]]) -> None:
    """Print how often each word came first behind "she ate", beside its probabilities, and what chi-squared says of the texts."""
    large, small = markov_models()
    for i, word in enumerate(WORDS):
        share = sum(text[0] == i for text in texts) / len(texts)
        print(f"{word:5} small model {small[1, i]:.3f}   large model {large[0, 1, i]:.3f}   drawn {share:.3f}")
    statistic, degrees = chi_squared(texts, probabilities_of_texts(large, len(texts[0])))
    print(f"chi-squared {statistic:,.0f} on {degrees} degrees of freedom, p-value {chance_of(statistic, degrees):.2g}")
