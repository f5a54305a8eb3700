"""Lesson 11: a decoder of the Llama family around the learner's own attention, how well it predicts, what it caches.

The real weights are those of `language_model`. `rms_norm` and `feed_forward` stand in the lesson's locked cells: the learner
is given them. `apply_rope`, `gqa_grouped` and `KVCache` are those of lessons 06, 09 and 07. Lesson 12 goes on in
`solutions.smaller_caches`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from solutions.grouped_query import gqa_grouped
from solutions.kv_cache import KVCache
from solutions.multi_query import merge_heads, split_heads
from solutions.positions import apply_rope

Layer = Mapping[str, Any]


def rms_norm(x: Float[Tensor, "... d_model"], weight: Float[Tensor, " d_model"], eps: float) -> Float[Tensor, "... d_model"]:
    """Each row of `x` divided by its root mean square, times `weight` (Zhang and Sennrich, 2019).

    >>> rms_norm(torch.tensor([3.0, -3.0]), torch.tensor([1.0, 2.0]), 0.0)
    tensor([ 1., -2.])
    """
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def feed_forward(x: Float[Tensor, "... d_model"], layer: Layer) -> Float[Tensor, "... d_model"]:
    """The gated feed-forward layer, each token by itself (SwiGLU: Shazeer, 2020)."""
    y: Tensor = (F.silu(x @ layer["Wgate"]) * (x @ layer["Wup"])) @ layer["Wdown"]
    return y


class GroupedAttention:
    r"""The attention of one layer of a Llama, with a cache of its own.

    `layer` holds the weights `Wq` (d_model, H d), `Wk` and `Wv` (d_model, G d), `Wo`
    (H d, d_model), the numbers of heads `H` and of groups `G`, and the `base` of the
    rotary positions (interleaved layout). Each call gives the outputs for new tokens,
    which see themselves and all tokens of earlier calls; of those of the same call,
    the ones before. The first token of all stands at position 0. Head $h$ reads group
    $\lfloor h / (H/G) \rfloor$. The cache holds the groups' keys and values. (Ours
    keeps keys rotated; rotated at each call, they give the same outputs, for more
    work.)

    Source: Touvron et al. (2023), "Llama 2", section 2.2; Ainslie et al. (2023),
    section 2.2.
    """

    def __init__(self, layer: Layer, capacity: int) -> None:
        """For a layer that has seen no token yet, with room for `capacity` tokens."""
        self.layer = layer
        self.cache = KVCache(capacity)

    @property
    def length(self) -> int:
        """How many tokens it has seen since the start, or since the last `reset`."""
        return self.cache.length

    def __call__(
        self,
        x: Float[Tensor, "batch new d_model"],
    ) -> Float[Tensor, "batch new d_model"]:
        """The outputs for the tokens of `x`, which follow those seen before."""
        W = self.layer
        pos = torch.arange(self.length, self.length + x.shape[-2], device=x.device)
        Q = apply_rope(split_heads(x @ W["Wq"], W["H"]), pos, W["base"])
        K = apply_rope(split_heads(x @ W["Wk"], W["G"]), pos, W["base"])
        K, V = self.cache.append(K, split_heads(x @ W["Wv"], W["G"]))
        outputs, _ = gqa_grouped(Q, K, V)
        y: Tensor = merge_heads(outputs) @ W["Wo"]
        return y

    def reset(self) -> None:
        """Forget all tokens."""
        self.cache.reset()


class Llama:
    r"""A decoder of the Llama family, with a memory. What attends is a parameter.

    `weights` holds `embed` (vocab, d_model), `norm` (d_model), the number `eps`, and
    `layers`. Tokens begin as their rows of `embed`. Each layer adds to them twice:

    $$X \leftarrow X + \mathrm{attention}(\mathrm{norm}_1(X)), \qquad
    X \leftarrow X + \mathrm{feed\_forward}(\mathrm{norm}_2(X)).$$

    After the last layer comes the norm with `weights["norm"]`. Logits are dot products
    with the rows of `embed` again. $\mathrm{norm}_i$ is `rms_norm` with the layer's
    `norm1` or `norm2`. `attention` makes the attention of each layer: it is called as
    `attention(layer, capacity)`, and what it returns has `__call__(x)`, `length` and
    `reset()`.

    Source: Touvron et al. (2023), "LLaMA", section 2.2.
    """

    def __init__(
        self,
        weights: Mapping[str, Any],
        capacity: int,
        attention: Callable[[Layer, int], Any] = GroupedAttention,
    ) -> None:
        """A decoder that has seen no token yet, with room for `capacity` tokens."""
        self.weights = weights
        self.attention = [attention(layer, capacity) for layer in weights["layers"]]

    @property
    def length(self) -> int:
        """How many tokens it processed since the start, or since the last `prefill`."""
        length: int = self.attention[0].length
        return length

    def extend(
        self,
        ids: Int[Tensor, "batch new"],
    ) -> Float[Tensor, "batch new vocab"]:
        """Process tokens that follow those processed so far; the logits at each."""
        W, eps = self.weights, self.weights["eps"]
        x: Tensor = W["embed"][ids]
        for layer, attend in zip(W["layers"], self.attention, strict=True):
            x = x + attend(rms_norm(x, layer["norm1"], eps))
            x = x + feed_forward(rms_norm(x, layer["norm2"], eps), layer)
        logits: Tensor = rms_norm(x, W["norm"], eps) @ W["embed"].mT
        return logits

    def prefill(
        self,
        ids: Int[Tensor, "batch n"],
        chunk: int,
    ) -> Float[Tensor, "batch vocab"]:
        """Begin anew with a prompt, `chunk` tokens at a time; the logits at its end."""
        for attend in self.attention:
            attend.reset()
        for part in torch.split(ids, chunk, dim=1):
            logits = self.extend(part)
        return logits[:, -1]

    def generate(
        self,
        ids: Int[Tensor, "batch n"],
        n: int,
    ) -> Int[Tensor, "batch new"]:
        """The `n >= 1` tokens that follow a prompt, each the likeliest (greedy).

        It begins anew. No token is processed twice, and the last one not at all.
        """
        chosen = [self.prefill(ids, ids.shape[1]).argmax(-1, keepdim=True)]
        for _ in range(n - 1):
            chosen.append(self.extend(chosen[-1])[:, -1].argmax(-1, keepdim=True))
        return torch.cat(chosen, dim=1)


def perplexity(
    logits: Float[Tensor, "n vocab"],
    ids: Int[Tensor, " n"],
) -> float:
    r"""Among how many tokens the model hesitates on average, as a Python float:

    $$\exp\Big(-\frac{1}{n-1} \sum_{t=0}^{n-2} \log p_t(x_{t+1})\Big).$$

    Row $t$ of `logits` was computed at token $x_t$ = `ids[t]`. Its softmax $p_t$ is the
    model's prediction of the **next** token. So `n` tokens give $n - 1$ predictions
    that can be scored.

    >>> round(perplexity(torch.zeros(3, 7), torch.tensor([0, 1, 2])), 6)  # all alike
    7.0

    Source: Jelinek et al. (1977), "Perplexity: a measure of the difficulty of speech
    recognition tasks".
    """
    return math.exp(F.cross_entropy(logits[:-1], ids[1:]).item())


def from_hugging_face(
    tensors: Mapping[str, Float[Tensor, "out in"]],
    H: int,
    G: int,
) -> dict[str, Tensor]:
    r"""The attention weights of a layer in our form, from Hugging Face's.

    `tensors` holds `q_proj` (H d, d_model), `k_proj` and `v_proj` (G d, d_model) and
    `o_proj` (d_model, H d), as `nn.Linear` stores them: (out, in). There the features
    of each head are arranged for half-split positions: feature $i$ turns together with
    feature $i + d/2$. The result holds `Wq`, `Wk`, `Wv` and `Wo`, which act from the
    right, `X @ W`, and whose queries and keys are arranged for **interleaved**
    positions: feature $2i$ turns together with feature $2i + 1$.

    >>> W = torch.arange(6.0)[:, None]  # one head of 6 features, d_model = 1
    >>> names = "q_proj", "k_proj", "v_proj"
    >>> tensors = {name: W for name in names} | {"o_proj": W.mT}
    >>> from_hugging_face(tensors, 1, 1)["Wq"]
    tensor([[0., 3., 1., 4., 2., 5.]])
    """

    def side_by_side(W: Tensor, heads: int) -> Tensor:
        first, second = W.unflatten(0, (heads, 2, -1)).unbind(1)  # (heads, d/2, in)
        pairs = torch.stack([first, second], dim=2)  # (heads, d/2, 2, in)
        return pairs.flatten(0, 2)

    ours = {"Wv": tensors["v_proj"].mT, "Wo": tensors["o_proj"].mT}
    ours["Wq"] = side_by_side(tensors["q_proj"], H).mT
    ours["Wk"] = side_by_side(tensors["k_proj"], G).mT
    return ours


def first_difference(
    ours: Sequence[Float[Tensor, "..."]],
    theirs: Sequence[Float[Tensor, "..."]],
    close: float,
) -> int:
    r"""The number of the first layer where two models differ; `len(theirs)` if none.

    `ours[i]` and `theirs[i]` have one shape: what layer $i$ of each model gave for the
    same tokens. They differ if a single number does: by more than `close` times the
    largest absolute value in `theirs[i]`, or because it is not a number (NaN).

    >>> theirs = [torch.tensor([[0.01, -2.0]]), torch.tensor([[90.0, 100.0]])]
    >>> ours = [theirs[0] + 0.001, theirs[1] + torch.tensor([[0.0, -1.0]])]
    >>> first_difference(ours, theirs, close=1e-3), first_difference(ours, theirs, 0.1)
    (1, 2)
    """
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not (a - b).abs().max() <= close * b.abs().max():  # false for NaN, too
            return i
    return len(theirs)


def sink_strength(
    A: Float[Tensor, "layer head n n"],
) -> Float[Tensor, "layer head"]:
    r"""How many times its even share the very first token gets, for each head.

    `A[l, h, i, j]` is the weight that token $i$ gives to token $j \le i$ in head $h$
    of layer $l$. What the first token gets is the mean over all tokens **but the
    first** (which has no choice). Its even share is what that mean would be if each
    token gave the same weight to all tokens that it sees.

    >>> even = torch.ones(3, 3).tril() / torch.tensor([[1.0], [2.0], [3.0]])
    >>> lazy = torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [1.0, 0, 0]])
    >>> sink_strength(torch.stack([even, lazy])[None])  # even: (1/2 + 1/3) / 2 = 5/12
    tensor([[1.0000, 2.4000]])

    Source: Xiao et al. (2023), "Attention Sinks", section 3.1.
    """
    n = A.shape[-1]
    even = sum(1 / (i + 1) for i in range(1, n)) / (n - 1)
    return A[..., 1:, 0].mean(-1) / even
