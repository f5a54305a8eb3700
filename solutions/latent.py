"""Chapter 10: multi-head latent attention: one small vector per token in the cache, keys and values of its own for every head.

Head $h$'s matrix is entry `h` of a weight with a leading `head` axis. The learner is given `causal_weights`, `per_head` and
`apply_rope`. The module built on this lesson is `solutions.lib.latent.LatentAttention`, whose weights have the same names.
"""

import math

import torch
from attention_course.memory import tells_copies
from attention_course.toy_decoder import apply_rope
from jaxtyping import Float
from torch import Tensor

from solutions.lib.heads import per_head


def causal_weights(S: Float[Tensor, "... query key"]) -> Float[Tensor, "... query key"]:
    """The softmax over the keys under a causal mask (lesson 04): the queries are the **last** of the tokens.

    >>> causal_weights(torch.zeros(2, 3))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """
    n_q, n_k = S.shape[-2:]
    keep = torch.ones(n_q, n_k, dtype=torch.bool, device=S.device).tril(n_k - n_q)
    return torch.softmax(S.masked_fill(~keep, -math.inf), dim=-1)


def mla_naive(
    X: Float[Tensor, "... n d_model"],
    W_Q: Float[Tensor, "head d_model d"],
    W_DKV: Float[Tensor, "d_model d_c"],
    W_UK: Float[Tensor, "head d_c d"],
    W_UV: Float[Tensor, "head d_c d_v"],
    W_O: Float[Tensor, "head d_v d_model"],
) -> tuple[Float[Tensor, "... n d_model"], Float[Tensor, "... n d_c"]]:
    r"""Compute causal latent attention, and return its output with what a cache would
    have to store, $(Y, C)$.

    Each head attends as in multi-head attention, with queries $X W_Q^{(h)}$, but its
    keys and values come from the latents that all heads share. `X` may have any number
    of leading axes.

    >>> X, eye = torch.tensor([[1.0, 3.0]]), torch.eye(2)
    >>> down, up = torch.tensor([[1.0], [1.0]]), torch.ones(1, 1, 2)
    >>> Y, C = mla_naive(X, eye[None], down, up, up, eye[None])
    >>> Y, C
    (tensor([[4., 4.]]), tensor([[4.]]))

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.1.2, equations 9 to 11.
    """
    C = X @ W_DKV
    q = per_head(X.unsqueeze(-3), W_Q)  # (..., H, n, d)
    k, v = (per_head(C.unsqueeze(-3), W) for W in (W_UK, W_UV))
    A = causal_weights(q @ k.mT / math.sqrt(q.shape[-1]))
    return per_head(A @ v, W_O).sum(-3), C


def absorb_query(
    q: Float[Tensor, "... head query d"],
    W_UK: Float[Tensor, "head d_c d"],
) -> Float[Tensor, "... head query d_c"]:
    r"""The queries $\tilde{q}$ that ask the latents directly:
    $\tilde{q} \cdot c = q \cdot k$ for **every** latent $c$.

    There $k = c\, W_{UK}^{(h)}$ is the key that head $h$ would make of $c$ (rows). Not
    scaled.

    >>> W_UK = torch.tensor([[[3.0, 0.0], [0.0, 5.0], [1.0, 1.0]]])
    >>> absorb_query(torch.tensor([[[1.0, 2.0]]]), W_UK)
    tensor([[[ 3., 10.,  3.]]])

    Source: DeepSeek-AI (2024), section 2.1.2, "absorbed".
    """
    return per_head(q, W_UK.mT)


def absorb_output(
    U: Float[Tensor, "... head query d_c"],
    W_UV: Float[Tensor, "head d_c d_v"],
    W_O: Float[Tensor, "head d_v d_model"],
) -> Float[Tensor, "... query d_model"]:
    r"""The output $Y = \sum_h U_h\, W_{UV}^{(h)}\, W_O^{(h)}$, from each head's
    weighted average of **latents** $U_h = A_h C$.

    It is what attention to the values $V_h = C\, W_{UV}^{(h)}$ would have given:
    $A_h V_h = U_h\, W_{UV}^{(h)}$.

    >>> U = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])  # two heads, one query, d_c = 2
    >>> W_O = torch.tensor([[[1.0, 0.0]], [[0.0, 10.0]]])
    >>> absorb_output(U, torch.ones(2, 2, 1), W_O)
    tensor([[ 3., 70.]])

    Source: DeepSeek-AI (2024), section 2.1.2, "absorbed".
    """
    return per_head(per_head(U, W_UV), W_O).sum(-3)


@tells_copies
def mla_absorbed(
    X: Float[Tensor, "... new d_model"],
    C: Float[Tensor, "... key d_c"],
    W_Q: Float[Tensor, "head d_model d"],
    W_UK: Float[Tensor, "head d_c d"],
    W_UV: Float[Tensor, "head d_c d_v"],
    W_O: Float[Tensor, "head d_v d_model"],
) -> tuple[Float[Tensor, "... new d_model"], Float[Tensor, "... head new d_c"]]:
    r"""Decode from latents without making a key or a value. Return the output for the
    newest tokens and each head's average of latents, $(Y, U)$.

    `X` holds the `new` newest tokens and `C` the latents of **all** tokens so far,
    including the new ones, so the causal mask is aligned to the end. $Y$ must be the
    last `new` rows of what `mla_naive` returns, and $U_h = A_h C$ with the same weights
    $A_h$.

    The decorator `tells_copies` adds a third value, which says whether any tensor made
    on the way has more bytes than the largest tensor given or returned. Behind many
    tokens that is `C`. The value should be False, also in a batch.

    >>> shapes = (3, 5, 7), (3, 2, 7), (3, 2, 4), (3, 4, 5)
    >>> C = torch.tensor([[2.0, 0.0], [4.0, 6.0]])
    >>> W = [torch.ones(s) for s in shapes]
    >>> Y, U, copied = mla_absorbed(torch.zeros(1, 5), C, *W)
    >>> U[0], Y.shape, copied
    (tensor([[3., 3.]]), torch.Size([1, 5]), False)

    Source: DeepSeek-AI (2024), section 2.1.2.
    """
    q = per_head(X.unsqueeze(-3), W_Q) / math.sqrt(W_Q.shape[-1])  # (..., H, new, d)
    asks = per_head(q, W_UK.mT)  # (..., H, new, d_c): the absorbed queries
    # all heads ask the same latents, so they are rows of one matrix
    S = (asks.flatten(-3, -2) @ C.mT).unflatten(-2, asks.shape[-3:-1])
    A = causal_weights(S)  # (..., H, new, key)
    U = (A.flatten(-3, -2) @ C).unflatten(-2, asks.shape[-3:-1])
    return per_head(per_head(U, W_UV), W_O).sum(-3), U


@tells_copies
def mla_decoupled(
    X: Float[Tensor, "... new d_model"],
    cache: tuple[Float[Tensor, "... past d_c"], Float[Tensor, "... past d_rope"]],
    W_DQ: Float[Tensor, "d_model d_cq"],
    W_UQ: Float[Tensor, "head d_cq d"],
    W_QR: Float[Tensor, "head d_cq d_rope"],
    W_DKV: Float[Tensor, "d_model d_c"],
    W_KR: Float[Tensor, "d_model d_rope"],
    W_UK: Float[Tensor, "head d_c d"],
    W_UV: Float[Tensor, "head d_c d_v"],
    W_O: Float[Tensor, "head d_v d_model"],
) -> tuple[
    Float[Tensor, "... new d_model"],
    tuple[Float[Tensor, "... key d_c"], Float[Tensor, "... key d_rope"]],
]:
    r"""Compute the output for the `new` next tokens and the cache with their rows, as
    `(Y, (C, K_R))`.

    This is DeepSeek-V2's attention without its norms and without YaRN, which changes
    the frequencies and multiplies the softmax scale. A score has a part of **content**
    and a part of **position**, which are added before the scale:

    $$S^{(h)}_{ij} = \frac{q^{(h)}_i \cdot c_j W_{UK}^{(h)} + r^{(h)}_i \cdot k^R_j}
    {\sqrt{d + d_{rope}}}, \qquad c^Q_i = x_i W_{DQ}, \quad
    q^{(h)}_i = c^Q_i W_{UQ}^{(h)}, \quad r^{(h)}_i = c^Q_i W_{QR}^{(h)} R_i, \quad
    k^R_j = x_j W_{KR} R_j.$$

    $R_p$ rotates a row as `apply_rope` does with its default base, to the position $p$
    in the whole text, where the first new token is at position `past`. Values are
    $c_j W_{UV}^{(h)}$, the mask is causal, and $Y = \sum_h O_h W_O^{(h)}$. `cache`
    holds the latents $c_j$ and the already rotated $k^R_j$ of the `past` tokens, of
    which there may be none. Both come back as new tensors, with the new rows below.

    The decorator `tells_copies` adds a third result, whether any tensor made on the way
    is larger, in bytes, than the largest of what is given and returned, where a cache
    counts as one. After many tokens that is the new cache, so it should be False, also
    for a batch.

    >>> X, cache = torch.randn(1, 8), (torch.randn(4, 7), torch.randn(4, 2))
    >>> shapes = [(8, 6), (3, 6, 5), (3, 6, 2)]  # of the queries
    >>> shapes += [(8, 7), (8, 2), (3, 7, 5), (3, 7, 6), (3, 6, 8)]
    >>> W = [torch.randn(s) for s in shapes]
    >>> Y, (C, K_R), copied = mla_decoupled(X, cache, *W)
    >>> Y.shape, C.shape, K_R.shape, copied
    (torch.Size([1, 8]), torch.Size([5, 7]), torch.Size([5, 2]), False)

    Source: DeepSeek-AI (2024), section 2.1.3, equations 12 to 19.
    """
    past, new = cache[0].shape[-2], X.shape[-2]
    pos = torch.arange(past, past + new, device=X.device)
    C = torch.cat([cache[0], X @ W_DKV], dim=-2)
    K_R = torch.cat([cache[1], apply_rope(X @ W_KR, pos)], dim=-2)

    c_q = (X @ W_DQ).unsqueeze(-3)  # (..., 1, new, d_cq)
    q = per_head(c_q, W_UQ)  # (..., H, new, d)
    r = apply_rope(per_head(c_q, W_QR), pos)  # (..., H, new, d_rope)
    scale = 1 / math.sqrt(q.shape[-1] + r.shape[-1])
    # heads are rows: each latent is read once for all of them
    content = per_head(q * scale, W_UK.mT).flatten(-3, -2) @ C.mT
    position = (r * scale).flatten(-3, -2) @ K_R.mT
    A = causal_weights((content + position).unflatten(-2, q.shape[-3:-1]))
    U = (A.flatten(-3, -2) @ C).unflatten(-2, q.shape[-3:-1])
    return per_head(per_head(U, W_UV), W_O).sum(-3), (C, K_R)


def decode_cost(
    way: str,
    H: int,
    d: int,
    d_v: int,
    d_c: int,
    d_rope: int,
) -> tuple[int, int]:
    r"""Count what one **cached** token costs one new token in one layer, as
    (FLOPs, bytes read).

    There are three ways. "cached" has the keys and values of all heads in the cache.
    "remade" has latents there and rebuilds keys and values from them in each step,
    without writing them to memory. "absorbed" attends to the latents. `H` heads have
    keys of width `d` and values of width `d_v`. In each way the cache also holds
    **one** rotated key per token for all heads, which adds `d_rope` terms to every
    score. A multiplication and its addition are 2 FLOPs, and a number has 2 bytes.
    Leave out what is done once per step, whatever the length of the context.

    >>> sizes = {"H": 2, "d": 3, "d_v": 3, "d_c": 10, "d_rope": 2}
    >>> [decode_cost(way, **sizes) for way in ("cached", "remade", "absorbed")]
    [(32, 28), (272, 24), (88, 24)]

    Source: the mechanism is that of DeepSeek-AI (2024), section 2.1.
    """
    if way == "cached":
        return 2 * H * (d + d_rope + d_v), 2 * (H * (d + d_v) + d_rope)
    if way == "remade":
        return 2 * H * (d + d_rope + d_v + d_c * (d + d_v)), 2 * (d_c + d_rope)
    return 2 * H * (d_c + d_rope + d_c), 2 * (d_c + d_rope)


def absorb_up_to(m: int) -> int:
    r"""Return the largest number $n$ of new tokens for which absorbing takes less
    arithmetic than rebuilding after `m` cached tokens, or 0 if it never does.

    Take one layer with DeepSeek-V2's sizes, d = d_v = 128, d_c = 512 and d_rope = 64,
    under a causal mask, where each new token attends to all cached tokens, to the new
    ones before it and to itself.

    >>> absorb_up_to(1_000_000)
    170

    Source: vLLM's documentation of `mla_attention` describes the choice.
    """
    once = 2 * 512 * (128 + 128)
    ready, asked = 2 * (128 + 64 + 128), 2 * (512 + 64 + 512)

    def saved(n: int) -> float:
        """FLOPs of a head."""
        pairs = n * m + n * (n + 1) / 2
        return (m + n) * once + pairs * ready - n * once - pairs * asked

    n = 0
    while saved(n + 1) > 0:
        n += 1
    return n


def cache_per_gpu(
    kind: str,
    tp: int,
    H: int,
    G: int,
    d: int,
    d_c: int,
    d_rope: int,
) -> int:
    r"""How many numbers **each** of `tp` GPUs caches, per token and layer, when the
    heads are shared out among them (tensor parallelism).

    `kind` is "mha", "gqa" (`G` groups), "mqa" or "mla" (`d_c`, `d_rope`). There are `H`
    query heads of width `d`, a multiple of `tp`. Neighbouring heads go to one GPU, and
    each GPU keeps whatever its heads attend to. `tp` divides `G`, or `G` divides `tp`.

    >>> sizes = {"H": 8, "G": 2, "d": 10, "d_c": 40, "d_rope": 6}
    >>> [cache_per_gpu(kind, 4, **sizes) for kind in ("mha", "gqa", "mqa", "mla")]
    [40, 20, 20, 46]

    Source: the elements on one GPU are those of DeepSeek-AI (2024), table 1.
    """
    if kind == "mla":
        return d_c + d_rope  # every head reads all of the latent
    groups = {"mha": H, "gqa": G, "mqa": 1}[kind]
    return 2 * d * math.ceil(groups / tp)


def mla_cache_elements(d_c: int, d_rope: int, L: int) -> int:
    """The number of elements (not bytes) that decoupled latent attention caches for one
    token in all `L` layers.

    `d_c` is the width of the latent, `d_rope` that of the rotated key.

    >>> mla_cache_elements(d_c=4, d_rope=1, L=10)
    50

    Source: DeepSeek-AI (2024), table 1.
    """
    return (d_c + d_rope) * L


def gqa_as_mla(
    W_K: Float[Tensor, "group d_model d"],
    W_V: Float[Tensor, "group d_model d_v"],
    H: int,
) -> tuple[
    Float[Tensor, "d_model d_c"],
    Float[Tensor, "head d_c d"],
    Float[Tensor, "head d_c d_v"],
]:
    r"""Write grouped-query attention as latent attention. Return three matrices,
    $(W_{DKV}, W_{UK}, W_{UV})$, that give the same keys and values.

    Neighbouring heads share a group, so head $h$ of `H` belongs to group
    $g = \lfloor h / (H/G) \rfloor$. For every head and every input, the latents must
    give the key $x W_K^{(g)}$ and the value $x W_V^{(g)}$. The latent may be no wider
    than what GQA caches, $d_c = G (d + d_v)$, but its layout is up to you. All three
    matrices have the dtype of `W_K`, which `W_K.new_zeros(...)` takes over.

    >>> W_K, W_V = torch.full((1, 2, 1), 3.0), torch.full((1, 2, 1), 7.0)
    >>> W_DKV, W_UK, W_UV = gqa_as_mla(W_K, W_V, H=2)
    >>> W_DKV.shape, W_DKV @ W_UV[1]
    (torch.Size([2, 2]), tensor([[7.],
            [7.]]))

    Source: Meng et al. (2025), "TransMLA", which shows that any GQA is an MLA with the
    same cache.
    """
    G, d, d_v = W_K.shape[0], W_K.shape[-1], W_V.shape[-1]
    W_DKV = torch.cat([*W_K, *W_V], dim=-1)  # (d_model, G d + G d_v)
    picks = torch.eye(G * (d + d_v), dtype=W_K.dtype, device=W_K.device)
    pick_k = picks[:, : G * d].reshape(-1, G, d).transpose(0, 1)  # (G, d_c, d)
    pick_v = picks[:, G * d :].reshape(-1, G, d_v).transpose(0, 1)
    W_UK, W_UV = (pick.repeat_interleave(H // G, dim=0) for pick in (pick_k, pick_v))
    return W_DKV, W_UK, W_UV
