"""How many parts the keys are cut into, and how the parts' results are merged."""

import math
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST = 128  # parts that `merge` can take: it holds one tile of (parts, 64) numbers in registers
EVEN = 0.95  # of the best fill of the multiprocessors; more parts than that asks for only cost more merging


def cut(n: int, programs: int, slots: int, block: int, wanted: int | None = None) -> tuple[int, int]:
    """Into how many parts to cut `n` keys, and how many keys a part has: a multiple of `block`; the last part may have fewer.

    `programs` is the number of programs that one part gives, `slots` how many run at once. The fewest parts are taken that
    fill all the slots of all rounds nearly as well as can be. No part is empty.

    >>> cut(32_768, programs=8, slots=264, block=64)
    (32, 1024)
    >>> cut(32_768, programs=1024, slots=264, block=64)
    (1, 32768)
    >>> cut(100, programs=1, slots=264, block=64)
    (2, 64)

    Raises ValueError where `wanted`, the number of parts asked for, is not from 1 to 128.
    """
    most = min(math.ceil(n / block), MOST)
    if wanted is None:
        fill = [programs * s / (math.ceil(programs * s / slots) * slots) for s in range(1, most + 1)]
        wanted = next(s for s, share in enumerate(fill, start=1) if share >= EVEN * max(fill))
    if not 1 <= wanted <= MOST:
        raise ValueError(f"splits: expected 1 to {MOST}, got {wanted}.")
    keys = math.ceil(math.ceil(n / min(wanted, most)) / block) * block
    return math.ceil(n / keys), keys


def slots(where: torch.device, per_multiprocessor: int) -> int:
    """How many programs run at once on this device."""
    if where.type != "cuda":
        return 4 * per_multiprocessor  # Triton's interpreter: any number is right
    return int(torch.cuda.get_device_properties(where).multi_processor_count) * per_multiprocessor


@triton.jit
@no_type_check  # Triton compiles the source as it stands: no tool may wrap it
def _merge(partial, lse, out, parts, D: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part, d = tl.arange(0, BLOCK_S), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    weight = tl.load(lse + row * parts + part, mask=part < parts, other=-float("inf"))
    weight = tl.exp2(weight - tl.max(weight, 0))
    weight = weight / tl.sum(weight, 0)
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
