"""What else a user would pick, what ours was before, and the references in float64 that all are checked against."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from solutions import Attention, LatentAttention
from solutions.grouped_query import repeat_kv
from solutions.lib.decode_choice import Way
from solutions.lib.heads import per_head


def _keep(q: Tensor, k: Tensor) -> Tensor:
    return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril(k.shape[-2] - q.shape[-2])


def naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention by its definition: keys and values copied for each head, all scores at once."""
    k, v = (repeat_kv(x, q.shape[1] // x.shape[1]) for x in (k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if q.shape[-2] > 1:
        scores = scores.masked_fill(~_keep(q, k), -math.inf)
    return torch.softmax(scores, dim=-1) @ v


def folded(way: Way) -> Way:
    """A decode step by one of the ways that `Attention` chooses from, a group's heads as queries."""

    def compute(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return way(q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1]), k, v).reshape(*q.shape[:-1], v.shape[-1])

    return compute


def wide(x: Tensor) -> Tensor:
    """`x` in float64, on the CPU where its device has none (Apple's)."""
    there: Tensor = (x.cpu() if x.device.type == "mps" else x).double()
    return there


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """`naive` in float64, one head of one sequence at a time: on long inputs all of them would not fit."""
    r = q.shape[1] // k.shape[1]
    heads = [
        naive(*(wide(x)[None, None] for x in (q[b, h], k[b, h // r], v[b, h // r])))[0, 0]
        for b in range(q.shape[0])
        for h in range(q.shape[1])
    ]
    out: Tensor = torch.stack(heads).unflatten(0, q.shape[:2])
    return out


def online_softmax(q: Tensor, k: Tensor, v: Tensor, block: int = 256) -> Tensor:
    """Causal attention in blocks of keys alone: every block is scored for all queries, and masked where it lies ahead."""
    high = q.new_full((*q.shape[:-1], 1), -math.inf)
    total, out, keep = torch.zeros_like(high), torch.zeros_like(q), _keep(q, k)
    for start in range(0, k.shape[-2], block):
        part = slice(start, start + block)
        scores = (q @ k[..., part, :].mT / math.sqrt(q.shape[-1])).masked_fill(~keep[:, part], -math.inf)
        new_high = torch.maximum(high, scores.amax(-1, keepdim=True))
        weights, decay = (scores - new_high).exp(), (high - new_high).exp()
        total, out, high = total * decay + weights.sum(-1, keepdim=True), out * decay + weights @ v[..., part, :], new_high
    return out / total


def flex(*, causal: int | None = None) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A compiled flex_attention for grouped queries; `causal` with as many queries and keys."""
    compiled: Any = None
    mask: Any = None

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        nonlocal compiled, mask
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        if compiled is None:
            torch.compiler.reset()  # compiled for one shape at a time: after eight it would silently run uncompiled
            compiled = torch.compile(flex_attention, dynamic=False)
            if causal is not None:
                mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, causal, causal, device=str(q.device))
        out: Tensor = compiled(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])
        return out

    return call


def _asks(module: LatentAttention, q: Tensor, r: Tensor) -> Tensor:
    return torch.cat([per_head(q, module.W_UK.mT), r], dim=-1)  # (batch, head, 1, row)


def latent_rows_left(module: LatentAttention, q: Tensor, r: Tensor, rows: Tensor) -> Tensor:
    """The absorbed step by two matrix products, the many rows on the left of the first."""
    S = (rows @ (_asks(module, q, r).flatten(1, 2) * module.scale).mT).mT
    U = torch.softmax(S, dim=-1) @ rows[..., : module.d_c]
    out: Tensor = per_head(U.unflatten(1, (q.shape[1], 1)), module.W_UV)
    return out


def latent_sdpa(module: LatentAttention, q: Tensor, r: Tensor, rows: Tensor, *, enable_gqa: bool) -> Tensor:
    """The absorbed step by the fused kernel: the heads as queries of one head, or as heads of one group."""
    asks, keys = _asks(module, q, r), rows[:, None]
    asks = asks if enable_gqa else asks.transpose(1, 2)
    U = sdpa(asks, keys, keys[..., : module.d_c], scale=module.scale, enable_gqa=enable_gqa)
    out: Tensor = per_head(U if enable_gqa else U.transpose(1, 2), module.W_UV)
    return out


def latent_naive(module: LatentAttention, q: Tensor, r: Tensor, rows: Tensor) -> Tensor:
    """Keys and values made, and the future hidden by a mask that the fused kernel has to read."""
    C, k_rope = rows[:, None, :, : module.d_c], rows[:, None, :, module.d_c :]
    keys = torch.cat([C @ module.W_UK, k_rope.expand(-1, q.shape[1], -1, -1)], dim=-1)
    return sdpa(torch.cat([q, r], dim=-1), keys, C @ module.W_UV, attn_mask=_keep(q, keys), scale=module.scale)


def latent_exact(module: LatentAttention, q: Tensor, r: Tensor, rows: Tensor) -> Tensor:
    """Naive latent attention in float64, one head of one sequence at a time."""
    heads = []
    for one_q, one_r, one_rows in zip(q, r, wide(rows), strict=True):
        C, k_rope = one_rows[:, : module.d_c], one_rows[:, module.d_c :]
        for h in range(q.shape[1]):
            keys, values = C @ wide(module.W_UK[h]), C @ wide(module.W_UV[h])
            scores = (wide(one_q[h]) @ keys.mT + wide(one_r[h]) @ k_rope.mT) * module.scale
            heads.append(torch.softmax(scores.masked_fill(~_keep(scores, keys), -math.inf), dim=-1) @ values)
    out: Tensor = torch.stack(heads).unflatten(0, q.shape[:2])
    return out


def stack_exact(stack: Sequence[Attention], x: Tensor) -> Tensor:
    """The last hidden state of a stack of attention layers with residuals, in float64."""
    from copy import deepcopy

    x = wide(x)
    for layer in stack:
        own = deepcopy(layer).to(x)
        q, k, v = (
            p(x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for p, heads in ((own.q_proj, own.num_heads), (own.k_proj, own.num_kv_heads), (own.v_proj, own.num_kv_heads))
        )
        x = x + own.o_proj(exact(q, k, v).transpose(1, 2).flatten(-2))
    return x[:, -1]
