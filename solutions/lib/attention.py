"""Causal attention with any number of key-value heads, as a module that decodes from a cache."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from solutions.lib import kernels
from solutions.lib.decode_choice import choice
from solutions.lib.heads import merge_heads, split_heads

Rope = tuple[Tensor, Tensor] | Callable[[Tensor, Tensor], Tensor]


@runtime_checkable
class Cache(Protocol):
    """What `Attention` asks of a cache, such as `solutions.lib.cache.KVCache`."""

    @property
    def length(self) -> int:
        """How many tokens it holds."""

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values of new tokens, (..., group, new, d); all stored, (..., group, n, d)."""


def grouped_sdpa(
    Q: Float[Tensor, "... head query d_k"], K: Float[Tensor, "... group key d_k"], V: Float[Tensor, "... group key d_v"]
) -> Float[Tensor, "... head query d_v"]:
    """Causal attention of `head` queries to the keys of their groups, as fast as this device can, without a copy of them.

    The queries are those of the last tokens. Head `h` attends to the keys of group `h // (heads // groups)`.
    Prompts go through PyTorch's fused kernel, decode steps (one query) through `decode`.

    >>> Q, K, V = torch.randn(2, 6, 1, 5), torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    >>> expected = scaled_dot_product_attention(Q, K, V, enable_gqa=True)
    >>> torch.allclose(grouped_sdpa(Q, K, V), expected, atol=1e-6)
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

    On CUDA in half precision a split-KV kernel does it (`solutions.lib.kernels`), else what is fastest on this machine
    (`solutions.lib.decode_choice`).

    >>> Q, K, V = torch.zeros(3, 2, 5), torch.ones(3, 4, 5), torch.arange(4.0)[:, None].expand(3, 4, 1)
    >>> decode(Q, K, V)[0]
    tensor([[1.5000],
            [1.5000]])
    """
    if kernels.serve(Q, K, V):
        return kernels.grouped_decode(Q, K, V)
    return choice.compute(Q, K, V)


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

        `rope` rotates queries and keys: a function of (heads, positions), such as `solutions.lib.rope.rotate_half_rope`, or
        the pair `(cos, sin)` for the tokens of `x` alone, (n, head_dim) or (batch, n, head_dim), as Hugging Face's Llama
        passes it. Keys are cached rotated, one for each group.
        """
        past = 0 if cache is None else cache.length
        pos = torch.arange(past, past + x.shape[-2], device=x.device)
        Q = rotate(split_heads(self.q_proj(x), self.num_heads), pos, rope)  # (..., head, n, d)
        K = rotate(split_heads(self.k_proj(x), self.num_kv_heads), pos, rope)
        V = split_heads(self.v_proj(x), self.num_kv_heads)
        if cache is not None:
            K, V = cache.append(K, V)
        Y: Tensor = self.o_proj(merge_heads(grouped_sdpa(Q, K, V)))
        return Y


def from_llama(state: Mapping[str, Tensor], *, num_heads: int, num_kv_heads: int) -> Attention:
    """An `Attention` with the weights of one attention layer of a Llama, by the names of its checkpoints.

    `state` has `q_proj`, `k_proj`, `v_proj` and `o_proj`, each with `.weight` and perhaps `.bias`. Hugging Face's layout:
    rotate with `solutions.lib.rope.rotate_half_rope` (a GGUF file's layout is interleaved: `apply_rope`).

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
