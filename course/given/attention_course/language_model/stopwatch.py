"""The clock of lessons 11 and 12: a step of decoding, with the cache and without, and behind a long text."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

ROUNDS = 3


def fastest(times: int, step: Callable[..., Tensor], *given: Any) -> float:
    """The seconds of the shortest of some runs: other work on the machine only adds."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        step(*given)[0, ..., 0].cpu()  # waits for a GPU
        took.append(time.perf_counter() - began)
    return min(took)


def with_and_without(decoder: Any, lengths: Sequence[int], device: Any) -> dict[str, list[float]]:
    """The seconds of one more token behind texts of some lengths, by a decoder with its cache, and anew."""
    filler = torch.arange(max(lengths), device=device)[None] % 1000 + 100
    seconds = {name: [float("inf")] * len(lengths) for name in ("with the cache", "without")}
    for _ in range(ROUNDS):  # over all lengths: other work on the machine comes and goes
        for place, n in enumerate(lengths):
            for name, took in (
                ("without", fastest(1, decoder.prefill, filler[:, :n], n)),
                ("with the cache", fastest(3, decoder.extend, filler[:, :1])),
            ):
                seconds[name][place] = min(seconds[name][place], took)
    return seconds


def step_ms(attention: Any, d_model: int, device: Any, n: int = 4000) -> float:
    """Milliseconds of one step of a layer's attention behind `n` tokens."""
    x = torch.randn(1, n, d_model, device=device)
    for part in x.split(500, dim=1):
        attention(part)
    return 1e3 * fastest(20, attention, x[:, :1])
