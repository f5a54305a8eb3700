"""What lessons 08 and 09 are given: heads split and merged (lesson 05), causal attention (lesson 04),
one decode step by the builtin, and a stopwatch.

`python -m attention_course.head_sets` times lesson 05's heads: one after another, and all at once.
"""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
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


def step_and_rates(
    q: Float[Tensor, "H d"], K: Float[Tensor, "G n d"], V: Float[Tensor, "G n d"], rounds: int = 10
) -> tuple[float, float, float]:
    """A decode step's seconds; the FLOP/s of a large product of matrices; the most bytes/s at which keys and values were read."""
    left, right = torch.randn(2, 1024, 1024)
    runs = {"step": lambda: decode(q, K, V), "product": lambda: left @ right, "reading": lambda: (K.sum(), V.sum())}
    took = fastest(runs, rounds)
    return took["step"], 2 * 1024**3 / took["product"], (K.nbytes + V.nbytes) / min(took["step"], took["reading"])


def one_by_one(X: Float[Tensor, "n d_model"], weights: Sequence[Tensor], H: int) -> Float[Tensor, "n d_out"]:
    """Self-attention of H heads, as the formula says it: a loop over the heads. `weights`: Wq, Wk, Wv, Wo."""
    *projections, Wo = weights
    parts = zip(*(W.chunk(H, dim=1) for W in projections), strict=True)
    return torch.cat([_attend(*(X @ w for w in part)) for part in parts], dim=-1) @ Wo


def all_at_once(X: Float[Tensor, "n d_model"], weights: Sequence[Tensor], H: int) -> Float[Tensor, "n d_out"]:
    """The same with the heads as one more batch axis."""
    *projections, Wo = weights
    return merge_heads(_attend(*(split_heads(X @ W, H) for W in projections))) @ Wo


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def slower(n: int, *, H: int = 16, d: int = 16, rounds: int = 50) -> float:
    """How many times as long a loop over the heads takes as all of them at once: n tokens, H heads of width d."""
    X, *weights = (torch.randn(rows, H * d) / math.sqrt(H * d) for rows in (n, *[H * d] * 4))
    ways = (one_by_one, all_at_once)
    loop, batch = fastest({way: partial(way, X, weights, H) for way in ways}, rounds).values()
    return loop / batch


if __name__ == "__main__":
    for n in (8, 128, 1024):
        print(f"{n:4d} tokens, 16 heads: one after another takes {slower(n):.1f} times as long as all at once")
