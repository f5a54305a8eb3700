"""What chapters 08 and 09 are given: heads split and merged (notebook 05), causal attention (notebook 04),
one decode step by PyTorch's own kernel, a stopwatch, and a test of grouped-query attention.
"""

import math
import time
from collections.abc import Callable, Hashable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def split_heads(X: Float[Tensor, "... n width"], H: int) -> Float[Tensor, "... head n d"]:
    """(..., n, H d) -> (..., H, n, d): each token's features, cut into H runs."""
    return X.reshape(*X.shape[:-1], H, X.shape[-1] // H).transpose(-3, -2)


def merge_heads(Y: Float[Tensor, "... head n d"]) -> Float[Tensor, "... n width"]:
    """(..., H, n, d) -> (..., n, H d): the heads of each token side by side again."""
    return Y.transpose(-3, -2).flatten(-2)


def causal_attention(
    Q: Float[Tensor, "... query d_k"], K: Float[Tensor, "... key d_k"], V: Float[Tensor, "... key d_v"]
) -> Float[Tensor, "... query d_v"]:
    """Causal attention (lesson 04): the queries are those of the last tokens. Leading axes broadcast."""
    queries, keys = Q.shape[-2], K.shape[-2]
    keep = torch.ones(queries, keys, dtype=torch.bool, device=Q.device).tril(keys - queries)
    scores = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(~keep, -math.inf)
    return torch.softmax(scores, dim=-1) @ V


def decode(q: Float[Tensor, "H d"], K: Float[Tensor, "G n d"], V: Float[Tensor, "G n d"]) -> Float[Tensor, "H d"]:
    """Attention of one new token: H queries over G heads of keys and values, H/G queries to each."""
    Q = q.view(1, K.shape[0], -1, q.shape[-1])  # (1, G, H/G, d)
    return F.scaled_dot_product_attention(Q, K[None], V[None]).view_as(q)


def fastest(runs: dict[Any, Callable[[], object]], rounds: int = 10) -> dict[Hashable, float]:
    """The least time in seconds of each of `runs`, in rounds, on one thread."""
    threads, best = torch.get_num_threads(), dict.fromkeys(runs, math.inf)
    torch.set_num_threads(1)
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    torch.set_num_threads(threads)
    return best


def random(*shape: int, seed: int) -> Tensor:
    """Normal numbers that are the same each time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def try_groups(attend: Callable[..., tuple[Tensor, Tensor, Tensor]], H: int = 6, d: int = 4) -> None:
    """Compare grouped-query attention with PyTorch's own for three numbers of groups, and count the heads of keys it caches."""
    X, W_Q, W_O = random(5, 10, seed=0), random(10, H * d, seed=1), random(H * d, 10, seed=2)
    for G in (H, H // 3, 1):
        W_K, W_V = random(2, 10, G * d, seed=3)
        Y, K, _ = attend(X, W_Q, W_K, W_V, W_O, H, G)
        q, k, v = (split_heads(X @ W, n)[None] for W, n in ((W_Q, H), (W_K, G), (W_V, G)))
        outputs = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        same = torch.allclose(Y, merge_heads(outputs[0]) @ W_O, atol=1e-4)
        print(f"G = {G}: output right: {same!s:5}  heads of keys cached: {len(K)}")
