"""How many parts the keys are cut into, and how the parts' results are merged."""

import functools
import math
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST = 128  # parts that `merge` can take: it holds one tile of (parts, 64) numbers in registers
EVEN = 0.95  # of the best use of the multiprocessors; more parts than that asks for only cost more merging


def cut(n: int, programs: int, slots: int, block: int, wanted: int | None = None) -> tuple[int, int]:
    """Into how many parts to cut `n` keys, and how many keys a part has: a multiple of `block`; the last part may have fewer.

    `programs` is the number of programs that one part gives, `slots` how many run at once. The fewest parts are taken that
    keep all the slots at work nearly as well as can be. No part is empty.

    >>> cut(32_768, programs=8, slots=264, block=64)
    (32, 1024)
    >>> cut(32_768, programs=1024, slots=264, block=64)
    (1, 32768)
    >>> cut(100, programs=1, slots=264, block=64)
    (2, 64)

    Raises ValueError where `wanted`, the number of parts asked for, is not from 1 to 128.
    """
    if wanted is not None and not 1 <= wanted <= MOST:
        raise ValueError(f"splits: expected 1 to {MOST}, got {wanted}.")
    tiles = -(-n // block)
    each = best_tiles(tiles, programs, slots) if wanted is None else -(-tiles // min(wanted, tiles))
    return -(-tiles // each), each * block


@functools.lru_cache(4096)
def best_tiles(tiles: int, programs: int, slots: int) -> int:
    """How many of `tiles` tiles of keys a part gets. Remembered: a cache grows by a tile only once in many steps.

    A choice is judged as it will run, after rounding: in so many rounds of all slots, each as long as a whole part.
    """
    choices = sorted({-(-tiles // parts) for parts in range(1, min(tiles, MOST) + 1)}, reverse=True)
    rounds = [math.ceil(programs * math.ceil(tiles / each) / slots) * each for each in choices]  # in times of one tile
    return next(each for each, time in zip(choices, rounds, strict=True) if EVEN * time <= min(rounds))


@functools.cache
def slots(where: torch.device, per_multiprocessor: int) -> int:
    """How many programs run at once on this device."""
    if where.type != "cuda":
        return 4 * per_multiprocessor  # Triton's interpreter: any number is right
    return int(torch.cuda.get_device_properties(where).multi_processor_count) * per_multiprocessor


def fitted(sizes: dict[str, Any], page: int) -> dict[str, Any]:
    """The same sizes for a cache in pages: tiles of keys so small that they divide a page, and more stages.

    Where a page lies is loaded before its rows are. Of a chain of two loads the compiler puts half of the stages between them,
    so it takes twice as many to have as many tiles on their way.

    >>> fitted({"BLOCK_N": 64, "num_stages": 3}, 96)
    {'BLOCK_N': 32, 'num_stages': 5}

    Raises ValueError where pages are no multiple of 16 rows, the least that tensor cores take.
    """
    if page < 16 or page % 16:
        raise ValueError(f"pages: expected a multiple of 16 rows in each, got {page}.")
    return sizes | {"BLOCK_N": math.gcd(sizes["BLOCK_N"], page), "num_stages": 2 * sizes["num_stages"] - 1}


@triton.jit
@no_type_check  # Triton compiles the source as it stands: no tool may wrap it
def _merge(partial, lse, out, parts, D: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part, d = tl.arange(0, BLOCK_S), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    weight = tl.load(lse + row * parts + part, mask=part < parts, other=-float("inf"))
    high = tl.max(weight, 0)
    weight = tl.exp2(weight - tl.where(high == -float("inf"), 0.0, high))  # a sequence without keys has no finite one
    weight = weight / tl.maximum(tl.sum(weight, 0), 1e-30)  # the sum is at least 1, or 0 and the output with it
    there = (part < parts)[:, None] & (d < D)[None, :]
    outs = tl.load(partial + (row * parts + part[:, None]) * D + d[None, :], mask=there, other=0.0)
    tl.store(out + row * D + d, tl.sum(outs * weight[:, None], 0).to(out.dtype.element_ty), mask=d < D)


def merge(partial: Tensor, lse: Tensor, out: Tensor) -> Tensor:
    """`out` (..., d), filled from the outputs of the parts, (..., part, d), and their base-2 log-sum-exps (..., part)."""
    *_, parts, d = partial.shape
    block_s = triton.next_power_of_2(parts)
    block_d = min(triton.next_power_of_2(d), 64)
    grid: Any = (lse.numel() // parts, triton.cdiv(d, block_d))
    _merge[grid](partial, lse, out, parts, d, block_s, block_d, num_warps=4)
    return out
