"""Lesson 04: masks for padding and for the future, attention that obeys them, and cross-attention."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from solutions.scaled_dot_product import scaled_scores


def padding_mask(lengths: Int[Tensor, " batch"], m: int) -> Bool[Tensor, "batch 1 key"]:
    r"""The mask $M_{b1j}$ = "position $j$ of sequence $b$ holds a real token": True =
    keep.

    Each of the `batch` sequences is padded **on the right** to `m` positions;
    `lengths[b]` (0 to `m`) counts its real tokens. The query axis has size 1, so that
    the mask broadcasts over all queries. It has the device of `lengths`.

    >>> padding_mask(torch.tensor([1, 3]), 3)
    tensor([[[ True, False, False]],
    <BLANKLINE>
            [[ True,  True,  True]]])

    Source: Zhang et al., "Dive into Deep Learning", section 11.3.2 (masked softmax
    operation).
    """
    return torch.arange(m, device=lengths.device) < lengths[:, None, None]


def causal_mask(n_q: int, n_k: int) -> Bool[Tensor, "query key"]:
    r"""The mask "key $j$ is not in the future of query $i$": True = keep.

    The queries are the **last** `n_q` of `n_k` positions: the last query stands at the
    last key's position. Each query sees its own position and all earlier ones. Where
    there are more queries than keys, the first queries stand before the first key and
    see none. Indices start at 0.

    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])

    Source: Vaswani et al. (2017), "Attention Is All You Need", section 3.2.3; for fewer
    queries than keys, `torch.nn.attention.bias.causal_lower_right`.
    """
    return torch.arange(n_k) <= torch.arange(n_q)[:, None] + (n_k - n_q)


def combine_masks(masks: Sequence[Bool[Tensor, "..."]]) -> Bool[Tensor, "..."]:
    r"""The mask that keeps exactly the pairs that **every** one of `masks` keeps:
    $M_{ij} = \bigwedge_r M^{(r)}_{ij}$.

    There is at least one mask. Shapes may differ and are broadcast against each other.
    No input is changed.

    >>> real = torch.tensor([True, True, False])
    >>> combine_masks([real, torch.tensor([[True, False, True], [True, True, True]])])
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    keep = masks[0]
    for mask in masks[1:]:
        keep = keep & mask
    return keep


def apply_mask(
    S: Float[Tensor, "... query key"],
    keep: Bool[Tensor, "..."],
) -> Float[Tensor, "... query key"]:
    r"""The scores with $-\infty$ where `keep` is False: $S_{ij}$ where `keep`, else
    $-\infty$.

    `keep` broadcasts to the shape of `S`. A new tensor: `S` itself is not changed.

    >>> apply_mask(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([True, False, True]))
    tensor([[1., -inf, 3.]])

    Source: Vaswani et al. (2017), section 3.2.3.
    """
    return S.masked_fill(~keep, float("-inf"))


def additive_mask(
    keep: Bool[Tensor, "..."],
    dtype: torch.dtype,
) -> Float[Tensor, "..."]:
    r"""The tensor $B$ for which "scores plus $B$" is "scores, masked by `keep`": 0
    where kept, $-\infty$ elsewhere.

    It has the shape and the device of `keep` and the given floating `dtype`, of which
    float16 is one (largest number 65504).

    >>> additive_mask(torch.tensor([[True, False]]), torch.float16)
    tensor([[0., -inf]], dtype=torch.float16)

    Source: `attn_mask` of `torch.nn.functional.scaled_dot_product_attention`, where it
    is a float mask.
    """
    zeros = torch.zeros(keep.shape, dtype=dtype, device=keep.device)
    return zeros.masked_fill(~keep, float("-inf"))


def masked_sdpa(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
    V: Float[Tensor, "... key d_v"],
    keep: Bool[Tensor, "..."],
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query key"]]:
    r"""Output and weights $(O, A)$ of scaled dot-product attention in which query $i$
    sees key $j$ only where `keep` is True.

    `keep` broadcasts to the scores' shape. A row of $A$ is the softmax over the kept
    keys and exactly 0 elsewhere. A query that may look at **no** key gets zeros, in $A$
    and in $O$; and the gradients of all inputs stay finite, also then.

    >>> keep = torch.tensor([[True, True, False], [False, False, False]])
    >>> V = torch.tensor([[2.0], [6.0], [9.0]])
    >>> O, A = masked_sdpa(torch.zeros(2, 5), torch.zeros(3, 5), V, keep)
    >>> O
    tensor([[4.],
            [0.]])
    >>> A
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])

    Source: Vaswani et al. (2017), equation 1 and section 3.2.3; fully masked rows as
    `torch.nn.functional.scaled_dot_product_attention`.
    """
    # a row that may see nothing sees everything, so that no NaN arises; then its
    # weights are set to zero
    dead = ~keep.any(-1, keepdim=True)
    S = apply_mask(scaled_scores(Q, K), keep | dead)
    A = torch.softmax(S, dim=-1).masked_fill(dead, 0.0)
    return A @ V, A


def cross_attention(
    Xq: Float[Tensor, "... query d_q"],
    Xkv: Float[Tensor, "... key d_kv"],
    Wq: Float[Tensor, "d_q d_k"],
    Wk: Float[Tensor, "d_kv d_k"],
    Wv: Float[Tensor, "d_kv d_v"],
    keep: Bool[Tensor, "..."],
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query key"]]:
    r"""Output and weights $(O, A)$ of one sequence, `Xq`, that attends to another,
    `Xkv`.

    The asking sequence provides the queries; the other provides everything that is
    looked up. Rows are tokens and matrices act from the right: a projection of $X$ is
    $X W$. `keep` and fully masked rows are as in `masked_sdpa`.

    >>> source = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> eye, keep = torch.eye(2), torch.tensor([[False, True]])
    >>> Xq, Wq = torch.ones(1, 1), torch.ones(1, 2)
    >>> O, A = cross_attention(Xq, source, Wq, eye, eye, keep)
    >>> O, A
    (tensor([[0., 1.]]), tensor([[0., 1.]]))

    Source: Vaswani et al. (2017), section 3.2.3 (encoder-decoder attention).
    """
    return masked_sdpa(Xq @ Wq, Xkv @ Wk, Xkv @ Wv, keep)
