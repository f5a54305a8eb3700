"""The kernel of a grouped-query decode step: one program for each sequence, group, tile of heads and part of the keys."""

import functools
import math
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from solutions.lib.kernels.splits import cut, fitted, merge, slots

TILE = 16_384  # bytes of keys in a tile, and of values. Three of each in flight leave room for two programs on a multiprocessor
RESIDENT, WARPS = 2, 4


@triton.jit(do_not_specialize=["n", "keys", "parts", "pages"])
@no_type_check
def _part(
    Q, K, V, lengths, table, partial, lse, n, keys, parts, pages,
    q_batch, q_group, q_head, k_batch, k_group, k_row, v_batch, v_group, v_row, scale,
    R: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, PAGE: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_DK: tl.constexpr, BLOCK_DV: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Partial outputs (batch, group, head, part, d_v) and log-sum-exps, base 2, of a tile of heads over one part of the keys."""
    tiles = tl.cdiv(R, BLOCK_R)  # tiles of heads of one group are neighbours, so that they find each other's keys in the L2
    part, group, batch = tl.program_id(0) // tiles, tl.program_id(1), tl.program_id(2).to(tl.int64)
    head = tl.program_id(0) % tiles * BLOCK_R + tl.arange(0, BLOCK_R)
    dk, dv = tl.arange(0, BLOCK_DK), tl.arange(0, BLOCK_DV)
    q_at = Q + batch * q_batch + group * q_group + head[:, None] * q_head + dk[None, :]
    q = tl.load(q_at, mask=(head < R)[:, None] & (dk < DK)[None, :], other=0.0)
    if lengths is not None:
        n = tl.load(lengths + batch)  # of this sequence; of a short one, some parts are empty
    k_at = K + batch * k_batch + group.to(tl.int64) * k_group + dk[None, :]
    v_at = V + batch * v_batch + group.to(tl.int64) * v_group + dv[None, :]
    high = tl.full([BLOCK_R], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_R], tl.float32)
    out = tl.zeros([BLOCK_R, BLOCK_DV], tl.float32)
    stop = tl.minimum((part + 1) * keys, n)
    for start in tl.range(part * keys, stop, BLOCK_N):
        row = start + tl.arange(0, BLOCK_N)
        live = row < stop
        if table is not None:  # a tile never reaches across two pages
            page = tl.load(table + batch * pages + start // PAGE).to(tl.int64)
            k_at = K + page * k_batch + group.to(tl.int64) * k_group + dk[None, :]
            v_at = V + page * v_batch + group.to(tl.int64) * v_group + dv[None, :]
            row = row % PAGE
        k = tl.load(k_at + row[:, None] * k_row, mask=live[:, None] & (dk < DK)[None, :], other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale  # in units of log 2
        scores = tl.where(live[None, :], scores, -float("inf"))
        new_high = tl.maximum(high, tl.max(scores, 1))  # finite: no tile that is read is empty
        weights = tl.exp2(scores - new_high[:, None])
        decay = tl.exp2(high - new_high)
        total = total * decay + tl.sum(weights, 1)
        v = tl.load(v_at + row[:, None] * v_row, mask=live[:, None] & (dv < DV)[None, :], other=0.0)
        out = tl.dot(weights.to(v.dtype), v, out * decay[:, None], input_precision=PRECISION)
        high = new_high
    at = ((batch * tl.num_programs(1) + group) * R + head) * parts + part
    if lengths is not None:
        total = tl.where(total > 0, total, 1.0)  # of an empty part the log-sum-exp is then -inf, and the output 0
    tl.store(lse + at, high + tl.log2(total), mask=head < R)
    tl.store(partial + at[:, None] * DV + dv[None, :], out / total[:, None], mask=(head < R)[:, None] & (dv < DV)[None, :])


def run(Q: Tensor, K: Tensor, V: Tensor, lengths: Tensor | None, table: Tensor | None, splits: int | None) -> Tensor:
    """What `solutions.lib.kernels.grouped_decode` promises."""
    B, G, R, d_k = Q.shape
    d_v = V.shape[-1]
    pages, page = (1, 0) if table is None else (table.shape[1], V.shape[-2])
    n = V.shape[-2] * pages
    block_r, sizes = sizes_for(R, d_k, d_v, Q.element_size())
    if page:
        sizes = fitted(sizes, page)
    tiles = triton.cdiv(R, block_r)
    parts, keys = cut(n, B * G * tiles, slots(Q.device, RESIDENT), sizes["BLOCK_N"], splits)
    partial = Q.new_empty(B, G, R, parts, d_v, dtype=torch.float32)
    lse = Q.new_empty(B, G, R, parts, dtype=torch.float32)
    strides = (*Q.stride()[:3], *K.stride()[:3], *V.stride()[:3])
    grid: Any = (parts * tiles, G, B)
    with torch.cuda.device_of(Q):
        _part[grid](
            Q, K, V, lengths, table, partial, lse, n, keys, parts, pages, *strides, math.log2(math.e) / math.sqrt(d_k),
            R, d_k, d_v, page, block_r, **sizes,
        )  # fmt: skip
        return merge(partial, lse, Q.new_empty(B, G, R, d_v))


@functools.cache
def sizes_for(R: int, d_k: int, d_v: int, element_bytes: int) -> tuple[int, dict[str, Any]]:
    """Heads to a tile, and the other sizes of the kernel. Tensor cores take no fewer than 16 heads: the rest is padding."""
    block_k, block_v = (max(16, triton.next_power_of_2(d)) for d in (d_k, d_v))
    block_r = min(64, max(16, triton.next_power_of_2(R)))
    return block_r, {
        "BLOCK_N": min(128, max(16, TILE // (element_bytes * max(block_k, block_v)))),
        "BLOCK_DK": block_k,
        "BLOCK_DV": block_v,
        "PRECISION": "ieee" if element_bytes > 2 else "tf32",  # the latter has no effect on half precision
        "num_warps": WARPS,
        # From 64 rows on Hopper's asynchronous matrix unit is used, which keeps one tile more in shared memory.
        "num_stages": 3 if block_r == 64 else 4,
    }
