"""What lessons 05 to 09 ask for. Lessons 11 and 12 begin with these, and put a learner's own in their place."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def split_heads(X: Float[Tensor, "... n Hd"], H: int) -> Float[Tensor, "... H n d"]:
    """Each token's features cut into H runs, one for each head."""
    return X.reshape(*X.shape[:-1], H, X.shape[-1] // H).transpose(-3, -2)


def merge_heads(Y: Float[Tensor, "... H n d"]) -> Float[Tensor, "... n Hd"]:
    """The heads of each token side by side again."""
    return Y.transpose(-3, -2).flatten(-2)


def apply_rope(x: Float[Tensor, "... n d"], pos: Int[Tensor, "... n"], base: float = 10_000.0) -> Float[Tensor, "... n d"]:
    """Rotary positions, interleaved (lesson 06): rows of `x` rotated to `pos`."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    d = x.shape[-1]
    theta = base ** (-torch.arange(0, d, 2, dtype=dtype, device=x.device) / d)
    angle = pos[..., None].to(dtype) * theta  # (..., n, d/2)
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angle.cos(), angle.sin()
    pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return pairs.flatten(-2).to(x.dtype)


class KVCache:
    """Keys and values of a layer (lesson 07); the first `append` makes the buffers."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self.buffers: list[Tensor] = []

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store new tokens behind the old; all keys and all values, as views."""
        start, stop = self.length, self.length + k.shape[-2]
        if stop > self.capacity:
            raise ValueError(f"expected at most {self.capacity} tokens, got {stop}.")
        if start == 0:
            self.buffers = [x.new_empty(*x.shape[:-2], self.capacity, x.shape[-1]) for x in (k, v)]
        for buffer, x in zip(self.buffers, (k, v), strict=True):
            buffer[..., start:stop, :] = x
        self.length = stop
        keys, values = (buffer[..., :stop, :] for buffer in self.buffers)
        return keys, values

    def rewind(self, n: int) -> None:
        """Forget the newest `n` tokens."""
        if not 0 <= n <= self.length:
            raise ValueError(f"expected 0 to {self.length} tokens to forget, got {n}.")
        self.length -= n

    def reset(self) -> None:
        """Forget all tokens."""
        self.length = 0


def gqa_grouped(Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
    """Causal grouped-query attention (lesson 09), no copies: outputs and weights."""
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    folded = Q.reshape(*lead, G, H // G * n, d)
    S = (folded @ K.mT).reshape(*lead, G, H // G, n, m) / math.sqrt(d)
    keep: Bool[Tensor, "n m"] = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(m - n)
    A = torch.softmax(S.masked_fill(~keep, -math.inf), dim=-1)
    return (A.flatten(-3, -2) @ V).reshape(*lead, H, n, -1), A


def mha_to_gqa(W: Tensor, H: int, G: int) -> Tensor:
    """A projection of H heads mean-pooled to G groups (lesson 09)."""
    return W.reshape(-1, G, H // G, W.shape[-1] // H).mean(-2).flatten(-2)
