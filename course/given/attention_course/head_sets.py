"""What lesson 08 is given: heads split and merged (lesson 05), one decode step by the builtin, and a stopwatch."""

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
