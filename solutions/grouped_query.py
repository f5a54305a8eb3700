"""Lesson 09: grouped-query attention, which has multi-head and multi-query attention as its ends.

The learner is given `split_heads`, `merge_heads` and `causal_attention`.
`Attention`, at the end, is the module to build models with.
"""

import math
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from attention_course import one_card
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from solutions import kernels
from solutions.multi_query import causal_attention, merge_heads, split_heads


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
    Wq: Float[Tensor, "d_model H_d_k"],
    Wk: Float[Tensor, "d_model G_d_k"],
    Wv: Float[Tensor, "d_model G_d_v"],
    Wo: Float[Tensor, "H_d_v d_model"],
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
    $h$-th run of $d_k$ columns of `Wq`, the keys of group $g$ from the $g$-th run of
    $d_k$ columns of `Wk`, and values likewise. $K$ and $V$ are what a cache stores.

    >>> shapes = (4, 12), (4, 4), (4, 10), (30, 4)
    >>> Y, K, V = gqa(torch.ones(3, 4), *(torch.ones(s) for s in shapes), H=6, G=2)
    >>> Y.shape, K.shape, V.shape
    (torch.Size([3, 4]), torch.Size([2, 3, 2]), torch.Size([2, 3, 5]))

    Source: Ainslie et al. (2023), section 2.2.
    """
    Q, K, V = split_heads(X @ Wq, H), split_heads(X @ Wk, G), split_heads(X @ Wv, G)
    # 0, 0, ..., 1, 1, ...: a copy of its group for each head
    copies = (x.repeat_interleave(H // G, dim=-3) for x in (K, V))
    return merge_heads(causal_attention(Q, *copies)) @ Wo, K, V


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


# ---------------------------------------------------------------------------------------------- a module

Rope = tuple[Tensor, Tensor] | Callable[[Tensor, Tensor], Tensor]


@runtime_checkable
class Cache(Protocol):
    """What `Attention` asks of a cache, such as `solutions.kv_cache.KVCache`."""

    @property
    def length(self) -> int:
        """How many tokens it holds."""

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values of new tokens, (..., group, new, d); all stored, (..., group, n, d)."""


def grouped_sdpa(
    Q: Float[Tensor, "... head query d_k"], K: Float[Tensor, "... group key d_k"], V: Float[Tensor, "... group key d_v"]
) -> Float[Tensor, "... head query d_v"]:
    """The output of `gqa_grouped`, as fast as this device can. The queries are those of the last tokens.

    Prompts go through PyTorch's fused kernel, decode steps (one query) through `decode`.

    >>> Q, K, V = torch.randn(2, 6, 1, 5), torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    >>> torch.allclose(grouped_sdpa(Q, K, V), gqa_grouped(Q, K, V)[0], atol=1e-6)
    True
    """
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    if n == 1:  # a group's heads become its queries: one pass over the keys, and nothing to mask
        return decode(Q.reshape(*lead, G, H // G, d), K, V).flatten(-3, -2).unsqueeze(-2)
    if n == m:
        return scaled_dot_product_attention(Q, K, V, is_causal=True, enable_gqa=H != G)
    keep = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(m - n)  # is_causal would align at the upper left
    return scaled_dot_product_attention(Q, K, V, attn_mask=keep, enable_gqa=H != G)


def decode(
    Q: Float[Tensor, "... group size d_k"], K: Float[Tensor, "... group n d_k"], V: Float[Tensor, "... group n d_v"]
) -> Float[Tensor, "... group size d_v"]:
    """Every query over all keys of its group, unmasked: a decode step, whose work is to read keys and values once.

    On CUDA a split-KV kernel does it (`solutions.kernels`), else PyTorch's fused one: on a CPU, with keys that come from memory,
    it takes 0.6 to 1.0 of the time of two matrix products (`python -m solutions.bench`).

    >>> Q, K, V = torch.zeros(3, 2, 5), torch.ones(3, 4, 5), torch.arange(4.0)[:, None].expand(3, 4, 1)
    >>> decode(Q, K, V)[0]
    tensor([[1.5000],
            [1.5000]])
    """
    if kernels.serve(Q, K, V):
        return kernels.grouped_decode(Q, K, V)
    return scaled_dot_product_attention(Q, K, V)


def rotate(x: Float[Tensor, "... head n d"], pos: Int[Tensor, " n"], rope: Rope | None) -> Float[Tensor, "... head n d"]:
    """`x` with rotary positions: by `rope(x, pos)`, or by `(cos, sin)` of its tokens in the half-split layout; None: as it is."""
    if rope is None:
        return x
    if callable(rope):
        return rope(x, pos)
    cos, sin = (table.unsqueeze(-3).to(x.dtype) for table in rope)  # the same for all heads
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    r"""Causal self-attention with `num_heads` heads of queries and `num_kv_heads` heads of keys and values.

    `num_kv_heads = num_heads` (the default) is multi-head, 1 multi-query, anything between grouped-query attention. The four
    projections have the names and shapes of Hugging Face's Llama: `q_proj`, `k_proj`, `v_proj`, `o_proj`.

    >>> attention = Attention(d_model=24, num_heads=6, num_kv_heads=2)
    >>> attention(torch.randn(5, 7, 24)).shape, tuple(attention.k_proj.weight.shape)
    (torch.Size([5, 7, 24]), (8, 24))

    Raises ValueError where `num_kv_heads` does not divide `num_heads`, or no `head_dim` is given and `num_heads` does not
    divide `d_model`.

    Source: Ainslie et al. (2023), section 2.2.
    """

    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int | None = None, *, head_dim: int | None = None, bias: bool = False
    ) -> None:
        """Make the four layers, with PyTorch's own initial weights. `head_dim` is `d_model / num_heads` unless given."""
        super().__init__()
        groups = num_heads if num_kv_heads is None else num_kv_heads
        if groups < 1 or num_heads % groups:
            raise ValueError(f"num_kv_heads: expected a divisor of num_heads = {num_heads}, got {groups}.")
        if head_dim is None and d_model % num_heads:
            raise ValueError(f"d_model: expected a multiple of num_heads = {num_heads}, got {d_model}. Or give head_dim.")
        d = d_model // num_heads if head_dim is None else head_dim
        self.num_heads, self.num_kv_heads = num_heads, groups
        self.q_proj = nn.Linear(d_model, num_heads * d, bias=bias)
        self.k_proj = nn.Linear(d_model, groups * d, bias=bias)
        self.v_proj = nn.Linear(d_model, groups * d, bias=bias)
        self.o_proj = nn.Linear(num_heads * d, d_model, bias=bias)

    def forward(
        self, x: Float[Tensor, "... n d_model"], *, cache: Cache | None = None, rope: Rope | None = None
    ) -> Float[Tensor, "... n d_model"]:
        """The output for the tokens of `x`, which follow those in `cache`; the cache then holds them too.

        `rope` rotates queries and keys: a function of (heads, positions), such as `solutions.positions.rotate_half_rope`, or
        the pair `(cos, sin)` for the tokens of `x` alone, (n, head_dim) or (batch, n, head_dim), as Hugging Face's Llama
        passes it. Keys are cached rotated, one for each group.
        """
        past = 0 if cache is None else cache.length
        pos = torch.arange(past, past + x.shape[-2], device=x.device)
        Q = rotate(split_heads(self.q_proj(x), self.num_heads), pos, rope)
        K = rotate(split_heads(self.k_proj(x), self.num_kv_heads), pos, rope)
        V = split_heads(self.v_proj(x), self.num_kv_heads)
        if cache is not None:
            K, V = cache.append(K, V)
        Y: Tensor = self.o_proj(merge_heads(grouped_sdpa(Q, K, V)))
        return Y


def from_llama(state: Mapping[str, Tensor], *, num_heads: int, num_kv_heads: int) -> Attention:
    """An `Attention` with the weights of one attention layer of a Llama, by the names of its checkpoints.

    `state` has `q_proj`, `k_proj`, `v_proj` and `o_proj`, each with `.weight` and perhaps `.bias`. Hugging Face's layout:
    rotate with `solutions.positions.rotate_half_rope` (a GGUF file's layout is interleaved: `apply_rope`).

    >>> sizes = {"q_proj": (24, 24), "k_proj": (8, 24), "v_proj": (8, 24), "o_proj": (24, 24)}
    >>> state = {f"{name}.weight": torch.randn(shape) for name, shape in sizes.items()}
    >>> from_llama(state, num_heads=6, num_kv_heads=2)(torch.randn(1, 3, 24)).shape
    torch.Size([1, 3, 24])

    Source: the layout of Hugging Face's `LlamaAttention`.
    """
    width, d_model = state["q_proj.weight"].shape
    bias = "q_proj.bias" in state
    module = Attention(d_model, num_heads, num_kv_heads, head_dim=width // num_heads, bias=bias).to(state["q_proj.weight"])
    module.load_state_dict(state)
    return module
