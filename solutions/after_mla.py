"""Lesson 13: the loss of an index over a cache, and rows that are keys and values at once."""

import math

import torch
from attention_course.language_model.sparse import rotate
from jaxtyping import Float, Int
from torch import Tensor


def index_loss(
    scores: Float[Tensor, "query key"],
    A: Float[Tensor, "head query key"],
) -> Float[Tensor, " query"]:
    r"""How far the softmax of an index is from the attention weights of the heads.

    The target is the mean of the weights `A` over the heads. Returned is, for each
    query, the Kullback-Leibler divergence of the target from the softmax of `scores`,
    that is $\sum_j p_j \ln (p_j / \hat p_j)$. A hidden key has the score minus infinity
    and the weight zero. It adds nothing to the divergence or to its gradients. If a
    score is NaN, the divergence of its query is NaN.

    >>> scores = torch.tensor([[0.0, -math.inf]])
    >>> index_loss(scores, torch.tensor([[[1.0, 0.0]]]))
    tensor([0.])
    """
    p = A.mean(0)
    log_q = scores.log_softmax(-1).masked_fill(scores == -math.inf, 0.0)
    apart: Tensor = torch.special.xlogy(p, p) - p * log_q
    return apart.sum(-1)


def tied_attention(
    Q: Float[Tensor, "head query d"],
    C: Float[Tensor, "key d"],
    pos: Int[Tensor, " query"],
    at: Int[Tensor, " key"],
) -> Float[Tensor, "head query d"]:
    r"""Attend to rows that are keys and values at once.

    The rows `C` come out of the cache already rotated to the positions `at` of their
    tokens. The queries are not rotated yet, and their positions are `pos`. A query
    attends to the rows up to its own position, with scores divided by $\sqrt d$. For
    the query at position $i$, the value of the token at position $j$ is its row rotated
    to $j - i$. If all tokens moved by the same distance, the output would not change.

    Source: DeepSeek-AI (2026), "DeepSeek-V4".
    """
    S = rotate(Q, pos) @ C.mT / math.sqrt(Q.shape[-1])
    later = at > pos[:, None]
    A = torch.softmax(S.masked_fill(later, -math.inf), dim=-1)
    return rotate(A @ C, -pos)
