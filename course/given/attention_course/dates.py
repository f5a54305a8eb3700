"""Dates written in four ways, for notebook 04d: a source such as "9 may 1998" and its target "1998-05-09".

Every tenth day is held out, so that a model can be tested on days that it has never seen. Characters become numbers, and 0 is
the blank that fills up the shorter texts of a batch.
"""

import datetime
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

CHARACTERS = "_> abcdefghijklmnopqrstuvwxyz0123456789/-,"  # "_" is the blank, ">" starts every target
START = CHARACTERS.index(">")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FIRST_HALF = ("january", "february", "march", "april", "may", "june")
SECOND_HALF = ("july", "august", "september", "october", "november", "december")
FIRST, LAST = datetime.date(1000, 1, 1).toordinal(), datetime.date(9999, 12, 31).toordinal()


def draw_dates(count: int, rng: random.Random, *, held_out: bool = False) -> list[tuple[str, str]]:
    """Draw `count` pairs of a date as somebody might write it and the same date in ISO form.

    Days whose number is a multiple of ten appear with `held_out` alone.

    >>> draw_dates(1, random.Random(1))
    [('thursday 27 december 2542', '2542-12-27')]
    """
    pairs: list[tuple[str, str]] = []
    while len(pairs) < count:
        number = rng.randint(FIRST, LAST)
        if (number % 10 == 0) == held_out:
            d = datetime.date.fromordinal(number)
            month = (*FIRST_HALF, *SECOND_HALF)[d.month - 1]
            sources = (
                f"{DAYS[d.weekday()]} {d.day} {month} {d.year}",
                f"{d.day}/{d.month}/{d.year}",
                f"{month} {d.day}, {d.year}",
                f"{d.day} {month[:3]} {d.year}",
            )
            pairs.append((rng.choice(sources), d.isoformat()))
    return pairs


def to_numbers(texts: Sequence[str], length: int = 0) -> Tensor:
    """Number the characters of `texts`, filled up with blanks on the right to the longest text or to `length`.

    >>> to_numbers(["may", "9"]).tolist()
    [[15, 3, 27], [38, 0, 0]]
    """
    longest = max(length, *map(len, texts))
    return torch.tensor([[CHARACTERS.index(c) for c in text.ljust(longest, "_")] for text in texts])


def to_text(numbers: Tensor) -> str:
    """The characters of one row of numbers, without its blanks.

    >>> to_text(torch.tensor([15, 3, 27, 0]))
    'may'
    """
    return "".join(CHARACTERS[i] for i in numbers.tolist()).rstrip("_")


def who_sees_what(output: object, source: Any, n: int) -> dict[str, Any]:
    """The three masks at full size, for source characters and written characters that exist: rows ask, columns answer.

    What a blank of the source may see in the encoder does not matter, so its rows are left out.
    """
    if not isinstance(output, Sequence) or len(output) != 3:
        raise ValueError("expected three masks, (encoder, decoder, cross).")
    source = torch.as_tensor(source)
    batch, m = source.shape
    sizes = {"encoder": (batch, m, m), "decoder": (batch, n, n), "cross": (batch, n, m)}
    found = {}
    for (name, size), mask in zip(sizes.items(), output, strict=True):
        mask = torch.as_tensor(mask)
        if mask.dtype != torch.bool:
            raise ValueError(f"{name}: expected a mask of bool, got {mask.dtype}.")
        if mask.dim() > 3 or any(a not in (1, b) for a, b in zip(mask.shape[::-1], size[::-1], strict=False)):
            raise ValueError(f"{name}: expected a shape that broadcasts to {size}, got {tuple(mask.shape)}.")
        found[name] = mask.expand(size).double().numpy()
    found["encoder"] = found["encoder"] * (source != 0).numpy()[:, :, None]
    return found
