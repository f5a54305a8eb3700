"""Lesson 08: multi-query attention, and the memory traffic that it is for.

`split_heads`, `merge_heads` and `causal_attention` are in `attention_course.head_sets` too: the learner is given them.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def split_heads(X: Float[Tensor, "... n width"], H: int) -> Float[Tensor, "... head n d"]:
    """The features of each token cut into `H` runs, one for each head (lesson 05)."""
    return X.reshape(*X.shape[:-1], H, X.shape[-1] // H).transpose(-3, -2)


def merge_heads(Y: Float[Tensor, "... head n d"]) -> Float[Tensor, "... n width"]:
    """The heads of each token side by side again (lesson 05)."""
    return Y.transpose(-3, -2).flatten(-2)


def causal_attention(
    Q: Float[Tensor, "... query d_k"], K: Float[Tensor, "... key d_k"], V: Float[Tensor, "... key d_v"]
) -> Float[Tensor, "... query d_v"]:
    """Causal attention (lesson 04); the queries are those of the last tokens. Leading axes broadcast."""
    queries, keys = Q.shape[-2], K.shape[-2]
    keep = torch.ones(queries, keys, dtype=torch.bool, device=Q.device).tril(keys - queries)
    scores = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(~keep, -math.inf)
    return torch.softmax(scores, dim=-1) @ V


def mqa(
    X: Float[Tensor, "... n d_model"],
    Wq: Float[Tensor, "d_model H_d_k"],
    Wk: Float[Tensor, "d_model d_k"],
    Wv: Float[Tensor, "d_model d_v"],
    Wo: Float[Tensor, "H_d_v d_model"],
    H: int,
) -> tuple[
    Float[Tensor, "... n d_model"],
    Float[Tensor, "... n d_k"],
    Float[Tensor, "... n d_v"],
]:
    r"""Output and cache $(Y, K, V)$ of causal multi-query self-attention:
    $Y = [\,O_0 \,|\, \cdots \,|\, O_{H-1}\,]\, W_O$.

    $O_h = \mathrm{causal\_attention}(Q_h, K, V)$: every head has queries of its own,
    $Q_h = X W_Q^{(h)}$ with the $h$-th run of $d_k$ columns of `Wq`. Keys $K = X W_K$
    and values $V = X W_V$ are the **same** for all heads. $K$ and $V$ are returned as a
    cache would hold them: without a head axis. $d_k$ and $d_v$ may differ.

    >>> shapes = (4, 12), (4, 2), (4, 7), (42, 4)
    >>> Y, K, V = mqa(torch.ones(5, 3, 4), *(torch.ones(s) for s in shapes), H=6)
    >>> Y.shape, K.shape, V.shape
    (torch.Size([5, 3, 4]), torch.Size([5, 3, 2]), torch.Size([5, 3, 7]))

    Source: Shazeer (2019), "Fast Transformer Decoding: One Write-Head is All You Need",
    section 3.
    """
    Q = split_heads(X @ Wq, H)  # (..., H, n, d_k)
    K, V = X @ Wk, X @ Wv
    # a head axis of 1 serves all H
    outputs = causal_attention(Q, K.unsqueeze(-3), V.unsqueeze(-3))
    return merge_heads(outputs) @ Wo, K, V


def mqa_step(
    x: Float[Tensor, "... d_model"],
    Wq: Float[Tensor, "d_model H_d_k"],
    Wk: Float[Tensor, "d_model d_k"],
    Wv: Float[Tensor, "d_model d_v"],
    Wo: Float[Tensor, "H_d_v d_model"],
    H: int,
    K: Float[Tensor, "... n d_k"],
    V: Float[Tensor, "... n d_v"],
) -> tuple[
    Float[Tensor, "... d_model"],
    Float[Tensor, "... n+1 d_k"],
    Float[Tensor, "... n+1 d_v"],
]:
    r"""One decode step of multi-query attention: the output for one new token, and the
    cache with that token in it.

    Repaired: the output is right with any number of heads, and the rest as it was.

    `x` is the newest token of each sequence (it has no token axis). `K` and `V` hold
    the `n` tokens before it; `n` may be 0. The returned cache is theirs with the new
    token's key and value **behind** the old ones, and $y$ is what `mqa` would give for
    the last of all $n + 1$ tokens. `K` and `V` themselves stay as they are.

    >>> zero, one = torch.zeros(2, 6), torch.ones(2, 1)
    >>> weights = zero, zero[:, :3], one, torch.ones(2, 2)
    >>> K, V = torch.ones(3, 3), torch.ones(3, 1)
    >>> y, K, V = mqa_step(torch.ones(2), *weights, H=2, K=K, V=V)
    >>> y, K.shape, V.flatten()
    (tensor([2.5000, 2.5000]), torch.Size([4, 3]), tensor([1., 1., 1., 2.]))

    Source: Shazeer (2019), section 3, "MultiquerySelfAttentionIncremental".
    """
    # (..., H, d_k): the heads are the rows of one matrix
    Q = (x @ Wq).reshape(*x.shape[:-1], H, -1)
    K = torch.cat([K, (x @ Wk).unsqueeze(-2)], dim=-2)
    V = torch.cat([V, (x @ Wv).unsqueeze(-2)], dim=-2)
    # no mask: nothing in the cache is later than x
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return (A @ V).flatten(-2) @ Wo, K, V


def arithmetic_intensity(H: int, G: int, n: int, element_bytes: int) -> float:
    r"""FLOPs per byte of the attention in **one decode step** of one layer and one
    sequence, over `n` cached tokens.

    `H` query heads; `G` heads of keys and values ($G = H$: multi-head, $G = 1$:
    multi-query). All heads are $d$ wide; $d$ cancels. Work: the scores and the mixture
    of values of all `H` heads, two FLOPs per multiplication with its addition;
    projections and softmax are left out. Traffic: keys and values of all `n` tokens are
    read once, the `H` queries are read, the `H` outputs are written; each number takes
    `element_bytes` bytes. The new token is among the `n`.

    >>> arithmetic_intensity(H=2, G=2, n=1, element_bytes=1)
    1.0

    Source: Williams, Waterman, Patterson (2009), "Roofline"; the counts follow Shazeer
    (2019), sections 2.4.1 and 3.1.
    """
    return 2 * H * n / (element_bytes * (G * n + H))


def tokens_a_second() -> float:
    r"""How many tokens Llama 2 7B can write in a second, for one user on one A100, if
    reading its parameters is all that takes time.

    It has 6.74e9 parameters of 2 bytes. Count all as read for each token (of the
    embeddings, 2 %, it is in truth one row). The A100's data sheet promises 2.039e12
    bytes per second (and 312e12 FLOPs per second). The text is short, so the cache does
    not count. A number of tokens; it need not be whole.
    """
    parameters, element_bytes, bandwidth = 6.74e9, 2, 2.039e12
    return bandwidth / (parameters * element_bytes)


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
    r"""The least time in seconds in which a machine can do one decode step of a whole
    model: $\max(t_{mem}, t_{flop})$.

    A model of `P` parameters, all of them used in matrix products, decodes one token
    for each of `B` sequences. Every sequence has `n` tokens in the cache of each of `L`
    layers, with `H` query heads and `G` heads of keys and values, all `d` wide.
    $t_{mem}$: all parameters are read **once** for the whole batch, and each sequence's
    cache is read once; `element_bytes` bytes per number, `bandwidth` bytes per second.
    $t_{flop}$: two FLOPs per parameter and sequence, plus the scores and the mixtures
    of all heads (two FLOPs per multiplication with its addition); `peak` FLOPs per
    second. The two overlap perfectly; everything else is free.

    >>> machine = {"element_bytes": 2, "bandwidth": 50.0, "peak": 100.0}
    >>> decode_time_floor(P=100, B=1, n=0, L=1, H=1, G=1, d=1, **machine)
    4.0

    Source: Williams et al. (2009), "Roofline"; Pope et al. (2022), "Efficiently Scaling
    Transformer Inference", section 2.
    """
    elements = P + B * L * 2 * n * G * d
    flops = B * (2 * P + L * 4 * n * H * d)
    return max(elements * element_bytes / bandwidth, flops / peak)


def critical_batch() -> float:
    r"""From which batch on does a decode step of DeepSeek-V2, its caches left out, wait
    for arithmetic and not for memory? A number of sequences; it need not be whole.

    Of 236e9 parameters of 2 bytes, each token uses 21e9, for a multiplication and an
    addition, two FLOPs. The tokens of the batch together use all of them; each is read
    once. The machine moves 4.3e12 bytes per second and does 790e12 FLOPs per second.

    Source: DeepSeek-AI (2024), "DeepSeek-V2", abstract, for the numbers of parameters.
    """
    bandwidth, peak, element_bytes = 4.3e12, 790e12, 2
    return peak * element_bytes * 236 / (2 * bandwidth * 21)


def longest_context() -> int:
    r"""The largest power of two of cached tokens at which a decode step of 64 sequences
    with multi-head attention has a floor below 1.5 times that with multi-query
    attention.

    The lesson's example model and machine: 7e9 parameters, 32 layers, 32 heads of width
    128, 2 bytes a number, 4.3e12 bytes and 790e12 FLOPs per second.
    """

    def floor(n: int, G: int) -> float:
        P, L, H, d = 7_000_000_000, 32, 32, 128
        return decode_time_floor(P, 64, n, L, H, G, d, 2, 4.3e12, 790e12)

    n = 1
    while floor(2 * n, 32) < 1.5 * floor(2 * n, 1):
        n *= 2
    return n
