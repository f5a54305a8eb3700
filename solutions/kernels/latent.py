"""The kernel of an absorbed MLA decode step: one program for each sequence, tile of heads and part of the rows.

Rows stand on the left of both products, `C Aᵀ` and `Cᵀ W`, heads on the right. So Hopper's matrix unit, which wants 64 rows on
the left but only 8 columns on the right, reads every operand from shared memory and wastes nothing on 16 heads; queries on the
left would be padded to 64, or be held in registers, all 576 of them by every warp.
"""

import math
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from solutions.kernels.splits import cut, merge, slots

RESIDENT = 1  # a program's two stages of 64 rows x 576 fill most of a multiprocessor's shared memory


@triton.jit(do_not_specialize=["n", "keys", "parts"])
@no_type_check
def _part(
    asks, rows, partial, lse, n, keys, parts, a_batch, a_head, r_batch, r_row, scale,
    H: tl.constexpr, DC: tl.constexpr, DR: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_R: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Partial averages (batch, head, part, d_c) and log-sum-exps, base 2, of a tile of heads over one part of the rows."""
    tiles = tl.cdiv(H, BLOCK_H)
    part, batch = tl.program_id(0) // tiles, tl.program_id(1).to(tl.int64)
    head = tl.program_id(0) % tiles * BLOCK_H + tl.arange(0, BLOCK_H)
    dc, dr = tl.arange(0, BLOCK_C), tl.arange(0, BLOCK_R)
    a_at = asks + batch * a_batch + head[None, :] * a_head
    content = tl.load(a_at + dc[:, None], mask=(dc < DC)[:, None] & (head < H)[None, :], other=0.0)  # (d_c, head)
    position = tl.load(a_at + DC + dr[:, None], mask=(dr < DR)[:, None] & (head < H)[None, :], other=0.0)
    r_at = rows + batch * r_batch
    high = tl.full([BLOCK_H], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    out = tl.zeros([BLOCK_C, BLOCK_H], tl.float32)
    stop = tl.minimum((part + 1) * keys, n)
    for start in tl.range(part * keys, stop, BLOCK_N):
        row = start + tl.arange(0, BLOCK_N)
        live = row < stop
        c = tl.load(r_at + row[:, None] * r_row + dc[None, :], mask=live[:, None] & (dc < DC)[None, :], other=0.0)
        k = tl.load(r_at + DC + row[:, None] * r_row + dr[None, :], mask=live[:, None] & (dr < DR)[None, :], other=0.0)
        scores = tl.dot(c, content, input_precision=PRECISION)
        scores = tl.dot(k, position, scores, input_precision=PRECISION) * scale  # (row, head), in units of log 2
        scores = tl.where(live[:, None], scores, -float("inf"))
        new_high = tl.maximum(high, tl.max(scores, 0))  # finite: no tile of a part is empty
        weights = tl.exp2(scores - new_high[None, :])
        decay = tl.exp2(high - new_high)
        total = total * decay + tl.sum(weights, 0)
        out = tl.dot(tl.trans(c), weights.to(c.dtype), out * decay[None, :], input_precision=PRECISION)
        high = new_high
    at = (batch * H + head) * parts + part
    tl.store(lse + at, high + tl.log2(total), mask=head < H)
    there = (dc < DC)[:, None] & (head < H)[None, :]
    tl.store(partial + at[None, :] * DC + dc[:, None], out / total[None, :], mask=there)


def run(asks: Tensor, rows: Tensor, d_c: int, scale: float, splits: int | None) -> Tensor:
    """What `solutions.kernels.latent_decode` promises."""
    B, H, width = asks.shape
    n = rows.shape[1]
    sizes = sizes_for(H, d_c, width - d_c)
    tiles = triton.cdiv(H, sizes["BLOCK_H"])
    parts, keys = cut(n, B * tiles, slots(asks.device, RESIDENT), sizes["BLOCK_N"], splits)
    asks = asks.contiguous()
    partial = asks.new_empty(B, H, parts, d_c, dtype=torch.float32)
    lse = asks.new_empty(B, H, parts, dtype=torch.float32)
    strides = (*asks.stride()[:2], *rows.stride()[:2])
    precision = "ieee" if asks.element_size() > 2 else "tf32"  # the latter has no effect on half precision
    grid: Any = (parts * tiles, B)
    with torch.cuda.device_of(asks):
        _part[grid](
            asks, rows, partial, lse, n, keys, parts, *strides, scale * math.log2(math.e),
            H, d_c, width - d_c, **sizes, PRECISION=precision,
        )  # fmt: skip
        return merge(partial, lse, asks.new_empty(B, H, d_c))


def sizes_for(H: int, d_c: int, d_rope: int) -> dict[str, int]:
    """The sizes of the kernel. Its tile of heads, up to 64, decides how many warps hold the (d_c, head) sums in registers."""
    block_h = min(64, max(16, triton.next_power_of_2(H)))
    return {
        "BLOCK_H": block_h,
        "BLOCK_N": 64,
        "BLOCK_C": max(16, triton.next_power_of_2(d_c)),
        "BLOCK_R": max(16, triton.next_power_of_2(d_rope)),
        "num_warps": 4 if block_h == 16 else 8,
        "num_stages": 2,
    }
