"""Chapter 04: masks for the future, padding and packed texts, attention that obeys them, leaks, and cross-attention.

The answer `masked_sdpa` is in `solutions.lib.sdpa`.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from solutions.lib.sdpa import masked_sdpa, scaled_scores


def cheating_loss() -> float:
    r"""Return the mean loss, in nats, of a model that copies wherever it can and
    guesses evenly elsewhere.

    The texts have 33 tokens from a language of 17, and the model predicts the last 32.

    >>> 0 <= cheating_loss() <= math.log(17)
    True
    """
    return math.log(17) / 32


def padding_mask(lengths: Int[Tensor, " batch"], m: int) -> Bool[Tensor, "batch 1 key"]:
    r"""Return the mask that is True where position $j$ of sequence $b$ holds a real
    token.

    Each of the `batch` sequences is padded **on the right** to `m` positions, and
    `lengths[b]`, from 0 to `m`, counts its real tokens. The query axis has size 1, so
    that the mask broadcasts over all queries. The mask has the device of `lengths`.

    >>> padding_mask(torch.tensor([1, 3]), 3)
    tensor([[[ True, False, False]],
    <BLANKLINE>
            [[ True,  True,  True]]])

    Source: Zhang et al., "Dive into Deep Learning", section 11.3.2 (masked softmax
    operation).
    """
    return torch.arange(m, device=lengths.device) < lengths[:, None, None]


def causal_mask(n_q: int, n_k: int) -> Bool[Tensor, "query key"]:
    r"""Return the mask that is True where key $j$ is not in the future of query $i$.

    The queries are the **last** `n_q` of `n_k` positions, so the last query is at the
    position of the last key. Each query sees its own position and all earlier ones. If
    there are more queries than keys, the first queries come before the first key and
    see none. Indices start at 0.

    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])

    Source: Vaswani et al. (2017), "Attention Is All You Need", section 3.2.3; for fewer
    queries than keys, `torch.nn.attention.bias.causal_lower_right`.
    """
    return torch.arange(n_k) <= torch.arange(n_q)[:, None] + (n_k - n_q)


def masked_attention(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
    V: Float[Tensor, "... key d_v"],
    keep: Bool[Tensor, "..."],
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query key"]]:
    r"""Return output and weights $(O, A)$ of scaled dot-product attention in which
    query $i$ attends to key $j$ only where `keep` is True.

    `keep` broadcasts to the shape of the scores and keeps at least one key of each
    query. A row of $A$ is the softmax over the kept keys, and exactly 0 elsewhere.

    >>> keep = torch.tensor([[True, False], [True, True]])
    >>> V = torch.tensor([[2.0], [6.0]])
    >>> O, A = masked_attention(torch.zeros(2, 5), torch.zeros(2, 5), V, keep)
    >>> O
    tensor([[2.],
            [4.]])
    >>> A
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])

    Source: Vaswani et al. (2017), equation 1 and section 3.2.3.
    """
    S = scaled_scores(Q, K).masked_fill(~keep, -math.inf)
    A = torch.softmax(S, dim=-1)
    return A @ V, A


def causal_layer(
    X: Float[Tensor, "... query d_model"],
    W_Q: Float[Tensor, "d_model d_k"],
    W_K: Float[Tensor, "d_model d_k"],
    W_V: Float[Tensor, "d_model d_model"],
) -> Float[Tensor, "... query d_model"]:
    r"""Return $X$ plus causal self-attention of the normalised tokens.

    Each token is normalised to mean 0 and variance 1 by **its own** features, with the
    divisor $d_{model}$ and 1e-5 added to the variance. Queries, keys and values come
    from the normalised tokens, and $X$ itself is added unchanged. No output depends on
    a later token.

    >>> X = torch.tensor([[1.0, -1.0], [3.0, -3.0]])
    >>> zero, eye = torch.zeros(2, 1), torch.eye(2)
    >>> causal_layer(X, zero, zero, eye)
    tensor([[ 2.0000, -2.0000],
            [ 4.0000, -4.0000]])

    Source: Ba et al. (2016), "Layer Normalization", for the normalisation.
    """
    n = X.shape[-2]
    mean = X.mean(dim=-1, keepdim=True)
    variance = X.var(dim=-1, keepdim=True, correction=0)
    Z = (X - mean) / (variance + 1e-5).sqrt()
    S = scaled_scores(Z @ W_Q, Z @ W_K)
    S = S.masked_fill(~causal_mask(n, n).to(X.device), -math.inf)
    A = torch.softmax(S, dim=-1)
    return X + A @ (Z @ W_V)


def revealing_change(X: Float[Tensor, "position d"]) -> Float[Tensor, "position d"]:
    r"""Return a copy of `X` that differs in its last token only, and for which
    `double_two` gives another output to at least one earlier token.

    `double_two` doubles the two tokens that have the largest first feature. `X` has at
    least three tokens, none of them is zero, and no two share their first feature.

    >>> X = torch.tensor([[3.0], [2.0], [1.0]])
    >>> changed = revealing_change(X)
    >>> changed[:2].equal(X[:2]), changed[2].equal(X[2])
    (True, False)
    """
    first, changed = X[:, 0], X.clone()
    last_is_chosen = len(X) - 1 in first.topk(2).indices
    changed[-1, 0] = first.min() - 1 if last_is_chosen else first.max() + 1
    return changed


def packed_mask(documents: Int[Tensor, " position"]) -> Bool[Tensor, "query key"]:
    r"""Return a mask, with True for keep, under which each document of a packed row is
    processed causally and as if it were alone.

    `documents[i]` is the number of the document that position $i$ belongs to, or -1 for
    a blank. What a blank sees does not matter. The mask has the device of `documents`.

    >>> packed_mask(torch.tensor([0, 0, 1]))
    tensor([[ True, False, False],
            [ True,  True, False],
            [False, False,  True]])
    """
    n = len(documents)
    same = documents[:, None] == documents
    return same & causal_mask(n, n).to(documents.device)


def cross_attention(
    Xq: Float[Tensor, "... query d_q"],
    Xkv: Float[Tensor, "... key d_kv"],
    W_Q: Float[Tensor, "d_q d_k"],
    W_K: Float[Tensor, "d_kv d_k"],
    W_V: Float[Tensor, "d_kv d_v"],
    keep: Bool[Tensor, "..."],
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query key"]]:
    r"""Return output and weights $(O, A)$ of one sequence, `Xq`, that attends to
    another, `Xkv`.

    The queries come from `Xq`, and everything that is looked up comes from `Xkv`. Rows
    are tokens, so a projection of $X$ is $X W$. The mask `keep` and rows without any
    key work as in `masked_sdpa`.

    >>> source = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> eye, keep = torch.eye(2), torch.tensor([[False, True]])
    >>> Xq, W_Q = torch.ones(1, 1), torch.ones(1, 2)
    >>> O, A = cross_attention(Xq, source, W_Q, eye, eye, keep)
    >>> O, A
    (tensor([[0., 1.]]), tensor([[0., 1.]]))

    Source: Vaswani et al. (2017), section 3.2.3 (encoder-decoder attention).
    """
    return masked_sdpa(Xq @ W_Q, Xkv @ W_K, Xkv @ W_V, keep)
