"""Chapter 08: what a decode step waits for, multi-query attention, and the time of a whole step.

The learner is given `split_heads`, `merge_heads` and `causal_attention` in `attention_course.head_sets`.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from solutions.lib.heads import merge_heads, split_heads


def causal_attention(
    Q: Float[Tensor, "... query d_k"], K: Float[Tensor, "... key d_k"], V: Float[Tensor, "... key d_v"]
) -> Float[Tensor, "... query d_v"]:
    """Causal attention (notebook 04). The queries belong to the last tokens, and leading axes broadcast."""
    queries, keys = Q.shape[-2], K.shape[-2]
    keep = torch.ones(queries, keys, dtype=torch.bool, device=Q.device).tril(keys - queries)
    scores = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(~keep, -math.inf)
    return torch.softmax(scores, dim=-1) @ V


def mqa(
    X: Float[Tensor, "... n d_model"],
    W_Q: Float[Tensor, "d_model H_d_k"],
    W_K: Float[Tensor, "d_model d_k"],
    W_V: Float[Tensor, "d_model d_v"],
    W_O: Float[Tensor, "H_d_v d_model"],
    H: int,
) -> tuple[
    Float[Tensor, "... n d_model"],
    Float[Tensor, "... n d_k"],
    Float[Tensor, "... n d_v"],
]:
    r"""Output and cache $(Y, K, V)$ of causal multi-query self-attention:
    $Y = [\,O_0 \,|\, \cdots \,|\, O_{H-1}\,]\, W_O$.

    $O_h = \mathrm{causal\_attention}(Q_h, K, V)$. Each head has its own queries
    $Q_h = X W_Q^{(h)}$, made by the $h$-th block of $d_k$ columns of `W_Q`. The keys
    $K = X W_K$ and the values $V = X W_V$ are the **same** for all heads. Return $K$
    and $V$ as a cache would store them, without a head axis. $d_k$ and $d_v$ may
    differ.

    >>> shapes = (4, 12), (4, 2), (4, 7), (42, 4)
    >>> Y, K, V = mqa(torch.ones(5, 3, 4), *(torch.ones(s) for s in shapes), H=6)
    >>> Y.shape, K.shape, V.shape
    (torch.Size([5, 3, 4]), torch.Size([5, 3, 2]), torch.Size([5, 3, 7]))

    Source: Shazeer (2019), "Fast Transformer Decoding: One Write-Head is All You Need",
    section 3.
    """
    Q = split_heads(X @ W_Q, H)  # (..., H, n, d_k)
    K, V = X @ W_K, X @ W_V
    # a head axis of size 1 broadcasts to all H heads
    outputs = causal_attention(Q, K.unsqueeze(-3), V.unsqueeze(-3))
    return merge_heads(outputs) @ W_O, K, V


def mqa_step(
    x: Float[Tensor, "... d_model"],
    W_Q: Float[Tensor, "d_model H_d_k"],
    W_K: Float[Tensor, "d_model d_k"],
    W_V: Float[Tensor, "d_model d_v"],
    W_O: Float[Tensor, "H_d_v d_model"],
    H: int,
    K: Float[Tensor, "... n d_k"],
    V: Float[Tensor, "... n d_v"],
) -> tuple[
    Float[Tensor, "... d_model"],
    Float[Tensor, "... n+1 d_k"],
    Float[Tensor, "... n+1 d_v"],
]:
    r"""Output $y$ of one decode step of multi-query attention, and the cache with the
    new token in it.

    `x` is the newest token of each sequence, without a token axis. `K` and `V` hold the
    `n` tokens before it, and `n` may be 0. The returned cache has the new token's key
    and value **behind** the old ones, and $y$ is what `mqa` would give for the last of
    all $n + 1$ tokens. `K` and `V` themselves stay unchanged.

    >>> zero, one = torch.zeros(2, 6), torch.ones(2, 1)
    >>> weights = zero, zero[:, :3], one, torch.ones(2, 2)
    >>> K, V = torch.ones(3, 3), torch.ones(3, 1)
    >>> y, K, V = mqa_step(torch.ones(2), *weights, H=2, K=K, V=V)
    >>> y, K.shape, V.flatten()
    (tensor([2.5000, 2.5000]), torch.Size([4, 3]), tensor([1., 1., 1., 2.]))

    Source: Shazeer (2019), section 3, "MultiquerySelfAttentionIncremental".
    """
    # (..., H, d_k): the heads are the rows of one matrix
    Q = (x @ W_Q).reshape(*x.shape[:-1], H, -1)
    K = torch.cat([K, (x @ W_K).unsqueeze(-2)], dim=-2)
    V = torch.cat([V, (x @ W_V).unsqueeze(-2)], dim=-2)
    # no mask, because nothing in the cache is later than x
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return (A @ V).flatten(-2) @ W_O, K, V


def context_for_twice() -> float:
    r"""Return the tokens of context at which multi-query attention makes one user's
    whole decode step of Llama 2 7B twice as fast.

    Suppose that a step takes as long as its bytes, and that the model has 6.74e9
    parameters with one set of keys and values as with 32. It has 32 layers and 32 query
    heads of width 128, and 2 bytes per number. The result need not be a whole number.
    """
    parameters, per_set = 2 * 6.74e9, 2 * 32 * 2 * 128  # bytes; of one set for a token
    # parameters + 32 sets = 2 (parameters + 1 set), for n tokens
    return parameters / ((32 - 2) * per_set)


def arithmetic_intensity(H: int, G: int, n: int, element_bytes: int) -> float:
    r"""FLOPs per byte of attention in **one decode step** of one layer and one user.

    `H` query heads meet `n` cached tokens in `G` sets of keys and values, where $G = H$
    is multi-head and $G = 1$ multi-query attention. All heads have the same width $d$,
    which cancels. Count the scores and the weighted sums of values of all `H` heads,
    with two FLOPs for a multiplication and its addition, and leave out projections and
    softmax. The keys and values of all `n` tokens are read once, the `H` queries are
    read and the `H` outputs are written, with `element_bytes` bytes per number. The new
    token is one of the `n`.

    >>> arithmetic_intensity(H=2, G=2, n=1, element_bytes=1)
    1.0

    Source: Williams, Waterman, Patterson (2009), "Roofline". The counts follow Shazeer
    (2019), sections 2.4.1 and 3.1.
    """
    return 2 * H * n / (element_bytes * (G * n + H))


def decode_time_floor(
    P: int,
    B: int,
    n: int,
    L: int,
    H: int,
    G: int,
    d: int,
    element_bytes: int,
    bandwidth: float,
    peak: float,
) -> float:
    r"""Return the least time in seconds of one decode step of a whole model.

    The step writes one token for each of `B` users. The matrices of the model have `P`
    parameters, which are read **once** for the whole batch. Each user has a cache of
    `n` tokens in each of `L` layers, with `G` sets of keys and values, to which `H`
    query heads of width `d` attend. Numbers take `element_bytes` bytes. The card reads
    at most `bandwidth` bytes and does at most `peak` FLOPs per second, and everything
    else is free.

    >>> machine = {"element_bytes": 2, "bandwidth": 40.0, "peak": 50.0}
    >>> decode_time_floor(P=100, B=2, n=3, L=2, H=4, G=4, d=5, **machine)
    32.0

    Source: Pope et al. (2022), "Efficiently Scaling Transformer Inference", section 2,
    for the bounds.
    """
    numbers = B * L * 2 * n * G * d
    flops = B * L * 4 * n * H * d
    matrices = max(P * element_bytes / bandwidth, 2 * P * B / peak)
    return matrices + max(numbers * element_bytes / bandwidth, flops / peak)


def largest_batch(n: int, G: int, limit: float) -> int:
    r"""The largest number of users that one A100 can serve with Llama 2 7B, or 0.

    Each user has a context of `n` tokens in `G` sets of keys and values. Parameters and
    caches have to fit into the card's 80e9 bytes, and a step may take at most `limit`
    seconds by `decode_time_floor`. The model has 6.74e9 parameters for any `G`, 32
    layers and 32 query heads of width 128, all in 2 bytes per number. The card moves
    2.039e12 bytes and does 312e12 FLOPs per second.
    """
    P, L, H, d, size = 6_740_000_000, 32, 32, 128, 2

    def fits(B: int) -> bool:
        memory = size * (P + B * L * 2 * n * G * d)
        time = decode_time_floor(P, B, n, L, H, G, d, size, 2.039e12, 312e12)
        return memory <= 80e9 and time <= limit

    B = 0
    while fits(B + 1):
        B += 1
    return B
