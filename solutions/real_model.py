"""Chapter 11: the attention of a layer in SmolLM2, tests of a port, and what to measure when a port is wrong.

The real weights and the decoder around the attention come from `attention_course.language_model`. `apply_rope`, `KVCache` and
`gqa_grouped` are the answers of chapters 06, 07 and 09.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from solutions.grouped_query import gqa_grouped
from solutions.lib.cache import KVCache
from solutions.lib.heads import merge_heads, split_heads
from solutions.lib.rope import apply_rope

Layer = Mapping[str, Any]


class GroupedAttention:
    r"""Compute the attention of one layer of a Llama, with a cache of its own.

    `layer` holds the weights `W_Q` (d_model, H d), `W_K` and `W_V` (d_model, G d) and
    `W_O` (H d, d_model), the numbers `H` of query heads and `G` of key-value heads, and
    the `base` of the rotary positions, which are interleaved. Each call returns the
    outputs for new tokens. A token attends to itself, to earlier tokens of this call
    and to all tokens of earlier calls. The first token of all is at position 0. Query
    head $h$ reads key-value head $\lfloor h / (H/G) \rfloor$.

    Source: Touvron et al. (2023), "Llama 2", section 2.2; Ainslie et al. (2023),
    section 2.2.
    """

    def __init__(self, layer: Layer, capacity: int) -> None:
        """Start with no tokens and room for `capacity` of them."""
        self.layer = layer
        self.cache = KVCache(capacity)

    @property
    def length(self) -> int:
        """The number of tokens seen since the start or the last `reset`."""
        return self.cache.length

    def __call__(
        self,
        x: Float[Tensor, "batch new d_model"],
    ) -> Float[Tensor, "batch new d_model"]:
        """Return the outputs for the tokens of `x`, which follow those seen before."""
        W = self.layer
        pos = torch.arange(self.length, self.length + x.shape[-2], device=x.device)
        Q = apply_rope(split_heads(x @ W["W_Q"], W["H"]), pos, W["base"])
        K = apply_rope(split_heads(x @ W["W_K"], W["G"]), pos, W["base"])
        K, V = self.cache.append(K, split_heads(x @ W["W_V"], W["G"]))
        outputs, _ = gqa_grouped(Q, K, V)
        y: Tensor = merge_heads(outputs) @ W["W_O"]
        return y

    def reset(self) -> None:
        """Forget all tokens."""
        self.cache.reset()


def accepts(
    port: Any,
    ids: Int[Tensor, "batch n"],
    right: Float[Tensor, "batch n vocab"],
) -> bool:
    """Decide whether a port computes the right logits, however a text is cut.

    `port.extend(part)` processes tokens (batch, new) that follow the earlier ones and
    returns their logits (batch, new, vocab). `port.reset()` makes it forget all tokens.
    `right` are the logits of the text `ids` from an independent implementation. A right
    port gives these logits in whatever parts the text arrives, one text after another.
    It may round differently, by up to 1e-4 times the largest absolute value in `right`.
    When you get the port, it has processed no tokens. The text has at least 6 tokens.
    """
    n = ids.shape[1]
    limit = 1e-4 * right.abs().max()
    for sizes in ([n], [1] * n, [2, 3, 1, *[n - 6] * (n > 6)]):
        port.reset()
        logits = torch.cat([port.extend(x) for x in ids.split(sizes, dim=1)], dim=1)
        if not (logits - right).abs().max() <= limit:  # also false for NaN
            return False
    return True


def from_hugging_face(
    tensors: Mapping[str, Float[Tensor, "out in"]],
    H: int,
    G: int,
) -> dict[str, Tensor]:
    r"""Convert the attention weights of a layer from Hugging Face's layout to ours.

    `tensors` holds `q_proj` (H d, d_model), `k_proj` and `v_proj` (G d, d_model) and
    `o_proj` (d_model, H d), each stored as `nn.Linear` does, (out, in). In that layout
    feature $i$ of a query or key rotates together with feature $i + d/2$. The result
    holds `W_Q`, `W_K`, `W_V` and `W_O` for `X @ W`, and in its queries and keys feature
    $2i$ rotates together with feature $2i + 1$.

    >>> W = torch.arange(6.0)[:, None]  # one head of 6 features, d_model = 1
    >>> names = "q_proj", "k_proj", "v_proj"
    >>> tensors = {name: W for name in names} | {"o_proj": W.mT}
    >>> from_hugging_face(tensors, 1, 1)["W_Q"]
    tensor([[0., 3., 1., 4., 2., 5.]])
    """

    def side_by_side(W: Tensor, heads: int) -> Tensor:
        first, second = W.unflatten(0, (heads, 2, -1)).unbind(1)  # (heads, d/2, in)
        pairs = torch.stack([first, second], dim=2)  # (heads, d/2, 2, in)
        return pairs.flatten(0, 2)

    ours = {"W_V": tensors["v_proj"].mT, "W_O": tensors["o_proj"].mT}
    ours["W_Q"] = side_by_side(tensors["q_proj"], H).mT
    ours["W_K"] = side_by_side(tensors["k_proj"], G).mT
    return ours


def wrong_in_port_c() -> tuple[int, str, str]:
    """Return the first wrong layer of port C, its wrong matrix, and what was done.

    The matrix is "W_Q", "W_K", "W_V" or "W_O". What was done is one of these:

    - "transposed": the matrix has its rows and columns exchanged.
    - "not reordered": its features have Hugging Face's order.
    - "reordered twice": the function that reorders features was applied twice.
    - "heads exchanged": its heads come in another order.
    """
    return 25, "W_K", "not reordered"


def sink_strength(
    A: Float[Tensor, "layer head n n"],
) -> Float[Tensor, "layer head"]:
    r"""Divide the weight on the first token by its even share, for each head.

    `A[l, h, i, j]` is the weight with which token $i$ attends to token $j \le i$ in
    head $h$ of layer $l$. The weight on the first token is its mean over all tokens
    that have a choice. The even share is what this mean would be if every token
    attended equally to all tokens that it may attend to.

    >>> even = torch.ones(3, 3).tril() / torch.tensor([[1.0], [2.0], [3.0]])
    >>> lazy = torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [1.0, 0, 0]])
    >>> sink_strength(torch.stack([even, lazy])[None])
    tensor([[1.0000, 2.4000]])

    Source: Xiao et al. (2023), "Attention Sinks", section 3.1.
    """
    n = A.shape[-1]
    even = math.fsum(1 / (i + 1) for i in range(1, n)) / (n - 1)
    return A[..., 1:, 0].mean(-1) / even


def softmax_scale(config: Mapping[str, Any]) -> float:
    r"""Return the number by which a DeepSeek layer multiplies its dot products.

    `config` has entries of a checkpoint's `config.json`. A query consists of
    `qk_nope_head_dim` features without rotation and `qk_rope_head_dim` rotated ones.
    `rope_scaling` is None, or a dictionary with YaRN's settings. YaRN's factor is
    $m = 0.1\, s \ln(\text{factor}) + 1$, where $s$ is `mscale_all_dim`, and $m = 1$
    where the setting `factor` is at most 1. The notebook's table shows how $m$ enters.

    >>> config = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    >>> round(softmax_scale(config | {"rope_scaling": None}), 4)
    0.0722

    Source: Peng et al. (2023), "YaRN", section 3.4; DeepSeek-V3's `inference/model.py`.
    """
    scale = (config["qk_nope_head_dim"] + config["qk_rope_head_dim"]) ** -0.5
    yarn = config["rope_scaling"]
    if yarn and yarn["factor"] > 1:
        m = 0.1 * yarn["mscale_all_dim"] * math.log(yarn["factor"]) + 1
        scale *= m * m
    return float(scale)
