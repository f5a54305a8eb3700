"""Lesson 09: grouped-query attention, which has multi-head and multi-query attention as its ends.

The learner is given `split_heads`, `merge_heads` and `causal_attention`.
`Attention`, the module to build models with, is in `solutions.lib.attention`.
"""

import math

import torch
import torch.nn.functional as F
from attention_course import one_card
from jaxtyping import Float
from torch import Tensor

from solutions.lib.heads import merge_heads, split_heads
from solutions.multi_query import causal_attention


def cards_needed(G: int, texts: int, n: int, limit: float) -> int:
    """Return the smallest number of cards that can serve all `texts` texts, or 0 if no
    number of cards can.

    Every card holds the whole model, with `G` groups, and serves some of the texts on
    its own. Each text has `n` tokens. On every card, parameters and caches have to fit
    into `one_card.MEMORY`, and a decode step may take at most `limit` seconds.

    >>> cards_needed(4, texts=64, n=8192, limit=0.015)
    1
    """

    def fits(B: int) -> bool:
        held, took = one_card.bytes_held(B, n, G), one_card.step_seconds(B, n, G)
        return held <= one_card.MEMORY and took <= limit

    for cards in range(1, texts + 1):
        if fits(math.ceil(texts / cards)):  # the texts on the fullest card
            return cards
    return 0


def share_kept(score: float, multi_head: float, choices: int) -> float:
    """Return the share of a multi-head model's knowledge that another version keeps.

    Both scores are percentages of right answers in a test with `choices` possible
    answers to each question, one of them right. A version that only guesses keeps
    nothing, and a version that scores as high as the multi-head model keeps 1.0.

    >>> share_kept(45.0, multi_head=45.0, choices=4)
    1.0
    """
    guessing = 100 / choices
    return (score - guessing) / (multi_head - guessing)


def repeat_kv(
    x: Float[Tensor, "... group n d"],
    r: int,
) -> Float[Tensor, "... head n d"]:
    r"""One copy of its group for each query head: $Y_h = x_{\lfloor h / r \rfloor}$ for
    the heads $h = 0, \dots, G r - 1$.

    The head axis is the third from the end, whatever stands before it. `r` $= H / G$ is
    the **group size**: how many query heads share one head of keys (or values). So
    group 0 serves the first `r` heads, group 1 the next `r`.

    >>> repeat_kv(torch.tensor([[[1.0]], [[2.0]]]), 3).flatten()
    tensor([1., 1., 1., 2., 2., 2.])

    Source: Ainslie et al. (2023), "GQA", section 2.2; the order of heads is that of
    Llama 2 and its descendants.
    """
    return x.repeat_interleave(r, dim=-3)


def gqa(
    X: Float[Tensor, "... n d_model"],
    W_Q: Float[Tensor, "d_model H_d_k"],
    W_K: Float[Tensor, "d_model G_d_k"],
    W_V: Float[Tensor, "d_model G_d_v"],
    W_O: Float[Tensor, "H_d_v d_model"],
    H: int,
    G: int,
) -> tuple[
    Float[Tensor, "... n d_model"],
    Float[Tensor, "... group n d_k"],
    Float[Tensor, "... group n d_v"],
]:
    r"""Return the output and the cache $(Y, K, V)$ of causal grouped-query attention.

    There are `H` query heads and `G` **groups**, and `G` divides `H`. Head $h$ attends
    to the keys and values of group $g = \lfloor h / (H/G) \rfloor$, and
    $Y = [\,O_0 \,|\, \cdots \,|\, O_{H-1}\,]\, W_O$. Query head $h$ comes from the
    $h$-th run of $d_k$ columns of `W_Q`, the keys of group $g$ from the $g$-th run of
    $d_k$ columns of `W_K`, and values likewise. $K$ and $V$ are what a cache stores.

    >>> shapes = (4, 12), (4, 4), (4, 10), (30, 4)
    >>> Y, K, V = gqa(torch.ones(3, 4), *(torch.ones(s) for s in shapes), H=6, G=2)
    >>> Y.shape, K.shape, V.shape
    (torch.Size([3, 4]), torch.Size([2, 3, 2]), torch.Size([2, 3, 5]))

    Source: Ainslie et al. (2023), section 2.2.
    """
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    # 0, 0, ..., 1, 1, ...: a copy of its group for each head
    copies = (x.repeat_interleave(H // G, dim=-3) for x in (K, V))
    return merge_heads(causal_attention(Q, *copies)) @ W_O, K, V


def with_more_groups(
    W: Float[Tensor, "d_model G_d"],
    G: int,
    more: int,
) -> Float[Tensor, "d_model more_d"]:
    r"""Write a key or value projection of `G` groups as one of `more` groups.

    `G` divides `more`. A layer with the new projections has the same query heads and
    computes exactly the same output, whatever its number of heads $H$ is, as long as
    `more` divides $H$. Group $g$ owns the $g$-th run of $d$ columns.

    >>> with_more_groups(torch.ones(5, 6), G=2, more=4).shape
    torch.Size([5, 12])

    Source: Ainslie et al. (2023), section 2.2, for the two ends of the range.
    """
    groups = W.reshape(-1, G, W.shape[1] // G)
    return groups.repeat_interleave(more // G, dim=1).flatten(1)


def most_on_a_chip(H: int, G: int, chips: int) -> int:
    """Return how many heads of keys the chip with the most of them must store.

    `H` query heads in `G` groups are spread over `chips` chips, and each chip computes
    `H / chips` neighbouring heads. A chip stores every group that one of its heads
    attends to. `G` and `chips` both divide `H`.

    >>> most_on_a_chip(H=6, G=6, chips=2)
    3

    Source: Ainslie et al. (2023), section 2.2, for groups that are spread over chips.
    """
    share, size = H // chips, H // G  # heads on a chip, heads in a group
    firsts = range(0, H, share)
    return max((h + share - 1) // size - h // size + 1 for h in firsts)


def gqa_grouped(
    Q: Float[Tensor, "... head query d_k"],
    K: Float[Tensor, "... group key d_k"],
    V: Float[Tensor, "... group key d_v"],
) -> tuple[
    Float[Tensor, "... head query d_v"],
    Float[Tensor, "... group size query key"],
]:
    r"""Output and weights $(O, A)$ of causal grouped-query attention, **without** a
    copy of keys or values.

    The same output as causal attention in which each head has a copy of its group's
    keys and values. The weights keep the group structure: `A[..., g, s, i, j]` is what
    query $i$ of head $h = g\,r + s$ gives to key $j$, with $r = H/G$. There may be more
    keys than queries: the queries are those of the **last** tokens, so query $i$ sees
    the keys $j \le i + (m - n)$, for $n$ queries and $m$ keys.

    >>> Q, K, V = torch.zeros(6, 2, 5), torch.zeros(3, 4, 5), torch.ones(3, 4, 7)
    >>> O, A = gqa_grouped(Q, K, V)
    >>> O.shape, A.shape
    (torch.Size([6, 2, 7]), torch.Size([3, 2, 2, 4]))
    >>> A[0, 0]
    tensor([[0.3333, 0.3333, 0.3333, 0.0000],
            [0.2500, 0.2500, 0.2500, 0.2500]])

    Source: the function computed is Ainslie et al. (2023), section 2.2.
    """
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    # the queries of a group's heads below each other
    folded = Q.reshape(*lead, G, H // G * n, d)
    S = (folded @ K.mT).reshape(*lead, G, H // G, n, m) / math.sqrt(d)
    keep = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(m - n)
    A = torch.softmax(S.masked_fill(~keep, -math.inf), dim=-1)
    outputs = A.flatten(-3, -2) @ V  # (..., G, r n, d_v)
    return outputs.reshape(*lead, H, n, -1), A


def grouped_chunk(
    Q: Float[Tensor, "... head query d_k"],
    K: Float[Tensor, "... group key d_k"],
    V: Float[Tensor, "... group key d_v"],
) -> Float[Tensor, "... head query d_v"]:
    r"""The output of `gqa_grouped`, by PyTorch's fused kernel: its heads are the
    groups, its queries the folded rows. The scores are not materialised.

    The queries are those of the **last** tokens: query $i$ of every head sees the keys
    $j \le i + (m - n)$.

    >>> Q, K = torch.zeros(4, 1, 2), torch.zeros(2, 3, 2)
    >>> V = torch.tensor([[[3.0], [6.0], [9.0]], [[0.0], [0.0], [1.5]]])
    >>> grouped_chunk(Q, K, V).flatten()
    tensor([6.0000, 6.0000, 0.5000, 0.5000])

    Source: PyTorch's documentation of `F.scaled_dot_product_attention`, for what
    `is_causal` means where there are more keys than queries.
    """
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    folded = Q.reshape(*lead, G, H // G * n, d)
    keep = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(m - n)
    keep = keep.repeat(H // G, 1)  # the same for each head of a group
    outputs = F.scaled_dot_product_attention(folded, K, V, attn_mask=keep)
    return outputs.reshape(*lead, H, n, -1)


def mha_to_gqa(
    W: Float[Tensor, "d_model H_d"],
    H: int,
    G: int,
) -> Float[Tensor, "d_model G_d"]:
    r"""Return the projection of `G` groups that is nearest to one of `H` heads.

    `W` is a key or value projection, and head $h$ owns its $h$-th run of $d$ columns.
    In the result, group $g$ owns the $g$-th run of $d$ columns, and its matrix replaces
    those of its $r = H/G$ neighbouring heads. Choose it such that the sum of the
    squared differences to these $r$ matrices is as small as possible. Keep the dtype.

    >>> W = torch.tensor([[1.0, 2.0, 3.0, 4.0, 50.0, 60.0, 70.0, 80.0]])
    >>> mha_to_gqa(W, H=4, G=2).shape
    torch.Size([1, 4])

    Source: Ainslie et al. (2023), section 2.1 and figure 1.
    """
    return W.reshape(-1, G, H // G, W.shape[-1] // H).mean(-2).flatten(-2)
