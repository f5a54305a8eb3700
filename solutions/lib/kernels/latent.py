"""The kernel of an absorbed MLA decode step: one program for each sequence, tile of heads and part of the rows.

Rows stand on the left of both products, `C Aᵀ` and `Cᵀ W`, heads on the right: so nothing is wasted on 16 heads. A tile has 32
rows: three of them in flight, 32 x 576 numbers each, leave room for a second program on the multiprocessor, so that one computes
while the other waits. With 64 rows only two are there at once, and none is loaded ahead (`tests/solutions/test_kernels.py` looks
at what the compiler makes of it).
"""

import functools
import math
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from solutions.lib.kernels.splits import cut, fitted, merge, slots

ROWS, STAGES = 32, 3


@triton.jit(do_not_specialize=["n", "keys", "parts", "pages"])
@no_type_check
def _part(
    asks, rows, lengths, table, partial, lse, n, keys, parts, pages, a_batch, a_head, r_batch, r_row, scale,
    H: tl.constexpr, DC: tl.constexpr, DR: tl.constexpr, PAGE: tl.constexpr,
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
    if lengths is not None:
        n = tl.load(lengths + batch)  # of this sequence; of a short one, some parts are empty
    r_at = rows + batch * r_batch
    high = tl.full([BLOCK_H], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    out = tl.zeros([BLOCK_C, BLOCK_H], tl.float32)
    stop = tl.minimum((part + 1) * keys, n)
    for start in tl.range(part * keys, stop, BLOCK_N):
        row = start + tl.arange(0, BLOCK_N)
        live = row < stop
        if table is not None:  # a tile never reaches across two pages
            r_at = rows + tl.load(table + batch * pages + start // PAGE).to(tl.int64) * r_batch
            row = row % PAGE
        c = tl.load(r_at + row[:, None] * r_row + dc[None, :], mask=live[:, None] & (dc < DC)[None, :], other=0.0)
        k = tl.load(r_at + DC + row[:, None] * r_row + dr[None, :], mask=live[:, None] & (dr < DR)[None, :], other=0.0)
        scores = tl.dot(c, content, input_precision=PRECISION)
        scores = tl.dot(k, position, scores, input_precision=PRECISION) * scale  # (row, head), in units of log 2
        scores = tl.where(live[:, None], scores, -float("inf"))
        new_high = tl.maximum(high, tl.max(scores, 0))  # finite: no tile that is read is empty
        weights = tl.exp2(scores - new_high[None, :])
        decay = tl.exp2(high - new_high)
        total = total * decay + tl.sum(weights, 0)
        out = tl.dot(tl.trans(c), weights.to(c.dtype), out * decay[None, :], input_precision=PRECISION)
        high = new_high
    at = (batch * H + head) * parts + part
    if lengths is not None:
        total = tl.where(total > 0, total, 1.0)  # of an empty part the log-sum-exp is then -inf, and the average 0
    tl.store(lse + at, high + tl.log2(total), mask=head < H)
    there = (dc < DC)[:, None] & (head < H)[None, :]
    tl.store(partial + at[None, :] * DC + dc[:, None], out / total[None, :], mask=there)


def run(
    asks: Tensor, rows: Tensor, d_c: int, scale: float, lengths: Tensor | None, table: Tensor | None, splits: int | None
) -> Tensor:
    """What `solutions.lib.kernels.latent_decode` promises."""
    B, H, width = asks.shape
    pages, page = (1, 0) if table is None else (table.shape[1], rows.shape[1])
    n = rows.shape[1] * pages
    sizes = sizes_for(H, d_c, width - d_c)
    if page:
        sizes = fitted(sizes, page)
    tiles = triton.cdiv(H, sizes["BLOCK_H"])
    parts, keys = cut(n, B * tiles, slots(asks.device, resident(sizes["BLOCK_H"])), sizes["BLOCK_N"], splits)
    asks = asks.contiguous()
    partial = asks.new_empty(B, H, parts, d_c, dtype=torch.float32)
    lse = asks.new_empty(B, H, parts, dtype=torch.float32)
    strides = (*asks.stride()[:2], *rows.stride()[:2])
    precision = "ieee" if asks.element_size() > 2 else "tf32"  # the latter has no effect on half precision
    grid: Any = (parts * tiles, B)
    with torch.cuda.device_of(asks):
        _part[grid](
            asks, rows, lengths, table, partial, lse, n, keys, parts, pages, *strides, scale * math.log2(math.e),
            H, d_c, width - d_c, page, **sizes, PRECISION=precision,
        )  # fmt: skip
        return merge(partial, lse, asks.new_empty(B, H, d_c))


def resident(block_h: int) -> int:
    """How many programs with so many heads share a multiprocessor: registers hold the sums of 64 heads, or twice of 32."""
    return 1 if block_h > 32 else 2


@functools.cache
def sizes_for(H: int, d_c: int, d_rope: int) -> dict[str, int]:
    """The sizes of the kernel. Its tile of heads, up to 64, decides how many warps hold the (d_c, head) sums in registers."""
    block_h = min(64, max(16, triton.next_power_of_2(H)))
    return {
        "BLOCK_H": block_h,
        "BLOCK_N": ROWS,
        "BLOCK_C": max(16, triton.next_power_of_2(d_c)),
        "BLOCK_R": max(16, triton.next_power_of_2(d_rope)),
        "num_warps": 4 if block_h <= 32 else 8,
        "num_stages": STAGES,
    }
