"""What chapter 10 is given: products of heads with matrices of their own, and with rows that all heads share, and tests."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attention_course.toy_decoder import apply_rope


def causal_weights(S: Float[Tensor, "... query key"]) -> Float[Tensor, "... query key"]:
    """The softmax over the keys under a causal mask (lesson 04). The queries belong to the last of the tokens."""
    n_q, n_k = S.shape[-2:]
    keep = torch.ones(n_q, n_k, dtype=torch.bool, device=S.device).tril(n_k - n_q)
    return torch.softmax(S.masked_fill(~keep, -math.inf), dim=-1)


def per_head(x: Float[Tensor, "... #head n d_in"], W: Float[Tensor, "head d_in d_out"]) -> Float[Tensor, "... head n d_out"]:
    """Multiply each head's rows by that head's matrix. It is `x @ W` without a copy of a weight for each sequence.

    Raises ValueError if `x` has no head axis.
    """
    if x.dim() < 3 or x.shape[-3] not in (1, len(W)):
        raise ValueError(f"x {tuple(x.shape)} has no head axis: try x.unsqueeze(-3)")
    rows = x.movedim(-3, 0)  # (head, ..., n, d_in): one product per head
    out: Tensor = (rows.flatten(1, -2) @ W).unflatten(1, rows.shape[1:-1])
    return out.movedim(0, -3)


def multi_head(
    X: Float[Tensor, "... n d_model"],
    W_Q: Float[Tensor, "head d_model d"],
    W_K: Float[Tensor, "#head d_model d"],
    W_V: Float[Tensor, "#head d_model d_v"],
    W_O: Float[Tensor, "head d_v d_model"],
) -> Float[Tensor, "... n d_model"]:
    """Multi-head attention, or multi-query attention if keys and values have a head axis of length 1."""
    tokens = X.unsqueeze(-3)  # (..., 1, n, d_model): the same rows for every head
    q, k, v = (per_head(tokens, W) for W in (W_Q, W_K, W_V))
    A = causal_weights(q @ k.mT / math.sqrt(q.shape[-1]))
    return per_head(A @ v, W_O).sum(-3)  # each head adds its part


def times_shared(x: Float[Tensor, "... head n a"], shared: Float[Tensor, "... a b"]) -> Float[Tensor, "... head n b"]:
    """Multiply the rows of all heads by the one matrix of their sequence, which isn't copied."""
    product: Tensor = (x.flatten(-3, -2) @ shared).unflatten(-2, x.shape[-3:-1])
    return product


def materialised(
    X: Float[Tensor, "... n d_model"],
    W_DQ: Float[Tensor, "d_model d_cq"],
    W_UQ: Float[Tensor, "head d_cq d"],
    W_QR: Float[Tensor, "head d_cq d_rope"],
    W_DKV: Float[Tensor, "d_model d_c"],
    W_KR: Float[Tensor, "d_model d_rope"],
    W_UK: Float[Tensor, "head d_c d"],
    W_UV: Float[Tensor, "head d_c d_v"],
    W_O: Float[Tensor, "head d_v d_model"],
) -> Float[Tensor, "... n d_model"]:
    """Compute decoupled latent attention of a whole text from ready-made keys and values, with PyTorch's builtin."""
    pos, c_q, C = torch.arange(X.shape[-2]), (X @ W_DQ).unsqueeze(-3), (X @ W_DKV).unsqueeze(-3)
    q = torch.cat([per_head(c_q, W_UQ), apply_rope(per_head(c_q, W_QR), pos)], dim=-1)
    k = per_head(C, W_UK)  # content, and beside it the one rotated key of all heads
    k_r = apply_rope(X @ W_KR, pos).unsqueeze(-3).expand(*k.shape[:-1], -1)
    o = F.scaled_dot_product_attention(q, torch.cat([k, k_r], dim=-1), per_head(C, W_UV), is_causal=True)
    return per_head(o, W_O).sum(-3)


def try_latents(attend: Callable[..., Any], H: int = 3, d: int = 8) -> None:
    """Compare latent attention with PyTorch's builtin on ready-made keys and values, and count what it caches."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    X, W_Q, W_O = normal(5, 10), normal(H, 10, d), normal(H, d, 10)
    for d_c in (d // 2, d, 2 * d):
        W_DKV, W_UK, W_UV = normal(10, d_c), normal(H, d_c, d), normal(H, d_c, d)
        Y, stored = attend(X, W_Q, W_DKV, W_UK, W_UV, W_O)
        outputs = F.scaled_dot_product_attention(X @ W_Q, X @ W_DKV @ W_UK, X @ W_DKV @ W_UV, is_causal=True)
        same, numbers = torch.allclose(Y, (outputs @ W_O).sum(0)), stored.numel() // len(X)
        print(f"heads of width {d}, a latent of {d_c:2}: output right: {same!s:5}  numbers cached per token: {numbers}")


def try_step(step: Callable[..., Any]) -> None:
    """Test a decode step, watched by `tells_copies`, on two texts of 60 tokens: at once, in pieces, and for copies."""
    shapes = {"W_DQ": (16, 10), "W_UQ": (4, 10, 8), "W_QR": (4, 10, 6), "W_DKV": (16, 12), "W_KR": (16, 6), "W_UK": (4, 12, 8)}
    shapes |= {"W_UV": (4, 12, 8), "W_O": (4, 8, 16)}
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    W = {name: normal(*shape) / math.sqrt(shape[-2]) for name, shape in shapes.items()}
    X, cache = normal(2, 60, 16), (normal(2, 0, 12), normal(2, 0, 6))
    whole, _, _ = step(X, cache, **W)
    parts, copied = [], False
    for piece in X.split([52, 7, 1], dim=1):
        Y, cache, copied = step(piece, cache, **W)
        parts.append(Y)
    print("a whole text, as with ready-made keys:", torch.allclose(whole, materialised(X, **W)))
    print("in three pieces, as the whole at once:", torch.allclose(torch.cat(parts, dim=1), whole))
    print("the last step, without a copy:", not copied)
