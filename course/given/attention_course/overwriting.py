"""Texts of workshop 13b: each key is written twice, and the last value is asked for."""

import torch
from torch import Tensor

WORDS = 64  # keys to choose from, and as many values


def texts(batch: int, pairs: int, generator: torch.Generator, times: int = 2) -> tuple[Tensor, int]:
    """`batch` texts k v k v ... in which each of `pairs` keys is written `times` times, mixed, with a value of its own each time.

    Then each key comes once more, in another order, with the value that was written last. Returned are the tokens and the
    place at which these questions begin: keys at even distances from it, answers at odd ones.

    >>> ids, asked = texts(1, 3, torch.Generator().manual_seed(0))
    >>> ids.shape, asked
    (torch.Size([1, 18]), 12)
    """
    keys = torch.rand(batch, WORDS, generator=generator).argsort(-1)[:, :pairs]
    slots = torch.rand(batch, times * pairs, generator=generator).argsort(-1) % pairs
    values = WORDS + torch.randint(WORDS, slots.shape, generator=generator)
    last = torch.zeros_like(keys)
    for i in range(times * pairs):
        last.scatter_(1, slots[:, i : i + 1], values[:, i : i + 1])
    order = torch.rand(batch, pairs, generator=generator).argsort(-1)
    written = torch.stack([keys.gather(1, slots), values], dim=-1).flatten(1)
    asked = torch.stack([keys.gather(1, order), last.gather(1, order)], dim=-1).flatten(1)
    return torch.cat([written, asked], dim=1), 2 * times * pairs
