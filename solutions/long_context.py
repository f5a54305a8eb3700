"""Workshop 06d: frequencies of rotary positions for texts longer than those of training."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def unfinished_pairs(d: int, base: float, trained: int) -> int:
    r"""How many pairs of a head make less than one full turn in `trained` tokens.

    The head has width `d`. Pair $i$ turns by $b^{-2i/d}$ radians per token, where $b$
    is the `base` and $i = 0, \dots, d/2 - 1$.

    >>> unfinished_pairs(4, 10_000.0, 100)
    1
    """
    return sum(trained * base ** (-2 * i / d) < 2 * math.pi for i in range(d // 2))


def stretched_base(d: int, base: float, factor: float | int) -> float:
    r"""The base that slows the slowest pair of a head down by exactly `factor`.

    The head has width `d`, at least 4. Its fastest pair keeps its frequency of 1 radian
    per token.

    >>> stretched_base(4, 10_000.0, 3.0)
    90000.0

    Source: bloc97 (2023), "NTK-aware scaled RoPE"; Peng et al. (2023), "YaRN",
    section 3.1.
    """
    return base * math.pow(factor, d / (d - 2))


def factor_needed(d: int, base: float, trained: int, text: int) -> float:
    r"""The smallest factor for `stretched_base` with which no pair reaches a new angle.

    The head has width `d`, and the text is `text` tokens long. An angle is new for a
    pair that made less than one full turn in the `trained` tokens, if it is larger than
    every angle that this pair reached there. A factor below 1 is never needed, and pair
    0 has made a full turn.

    >>> round(factor_needed(8, 10_000.0, 100, 200), 3)
    2.828

    Source: bloc97 (2023), "NTK-aware scaled RoPE", for the base that is stretched.
    """
    first = d // 2 - unfinished_pairs(d, base, trained)  # the fastest unfinished pair
    if first == d // 2 or text <= trained:
        return 1.0
    return float((text / trained) ** ((d - 2) / (2 * first)))


def by_parts(
    theta: Float[Tensor, " pairs"],
    factor: float | int,
    trained: int,
    slow: float | int,
    fast: float | int,
) -> Float[Tensor, " pairs"]:
    r"""Frequencies `theta`, in radians per token, stretched by parts.

    Let $t$ be the number of full turns that a pair makes in `trained` tokens. A pair
    with $t \le$ `slow` has its frequency divided by `factor`, and a pair with
    $t \ge$ `fast` keeps its frequency. In between, the new
    frequency is a mixture of these two, in which the weight of the old frequency rises
    linearly with $t$ from 0 to 1.

    >>> theta = 2 * math.pi * torch.tensor([1.0, 0.03, 0.01])  # 100, 3 and 1 turns
    >>> by_parts(theta, 2.0, 100, slow=1, fast=5) / theta
    tensor([1.0000, 0.7500, 0.5000])

    Source: Peng et al. (2023), "YaRN", section 3.2; with `slow` 1 and `fast` 4,
    Llama 3.1.
    """
    turns = trained * theta / (2 * math.pi)
    kept = torch.clamp((turns - slow) / (fast - slow), 0, 1)
    return kept * theta + (1 - kept) * theta / factor


def yarn_scale(d: int, factor: float | int) -> float:
    r"""The number by which YaRN multiplies the dot product of a query and a key.

    YaRN multiplies each rotated query **and** each rotated key by $0.1 \ln s + 1$, with
    the `factor` $s \ge 1$. Attention then divides by $\sqrt{d}$ as always.

    >>> yarn_scale(64, 1.0)
    0.125

    Source: Peng et al. (2023), "YaRN", section 3.4.
    """
    return (0.1 * math.log(factor) + 1) ** 2 / math.sqrt(d)
