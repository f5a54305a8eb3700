"""Chapter 07: the key-value cache: how it stores, when it is valid, and what it saves and takes.

The answer `KVCache` is in `solutions.lib.cache`. The learner is given `forward` and `cache_bytes` in locked cells of
the notebooks.
"""

from typing import Any

import torch
from attention_course.toy_decoder import apply_rope, attention, combine, project, toy_model
from jaxtyping import Bool, Float, Int
from torch import Tensor

from solutions.lib.cache import KVCache

__all__ = [
    "CachedModel",
    "KVCache",
    "apply_rope",
    "attend_cached",
    "attention",
    "attention_flops",
    "bytes_per_token",
    "cache_bytes",
    "combine",
    "forward",
    "project",
    "scores_outgrow_cache",
    "step_flops",
    "tokens_processed",
    "toy_model",
]


def forward(
    model: dict[str, Any],
    ids: Int[Tensor, "batch n"],
    pos: Int[Tensor, " n"] | None = None,
    keep: Bool[Tensor, "n n"] | None = None,
) -> Float[Tensor, "batch n vocab"]:
    """Compute the logits at every token without a cache. By default the positions are
    0, 1, 2, … and the mask is causal."""
    n = ids.shape[1]
    if pos is None:
        pos = torch.arange(n, device=ids.device)
    if keep is None:
        keep = torch.ones(n, n, dtype=torch.bool, device=ids.device).tril()
    x: Tensor = model["embed"][ids]  # (batch, n, d_model)
    for layer in model["layers"]:
        q, k, v = (project(x, layer[name]) for name in ("W_Q", "W_K", "W_V"))
        o = attention(apply_rope(q, pos), apply_rope(k, pos), v, keep)
        x = x + combine(o, layer["W_O"])  # a layer adds to its input
    logits: Tensor = x @ model["unembed"]  # (batch, n, vocab)
    return logits


def attend_cached(
    q: Float[Tensor, "... new d_k"],
    K: Float[Tensor, "... n d_k"],
    V: Float[Tensor, "... n d_v"],
) -> Float[Tensor, "... new d_v"]:
    r"""Compute causal attention of the **newest** tokens, where `q` holds the queries
    of the last `new` of the `n` tokens in `K` and `V`.

    `K` and `V` are what `KVCache.append` returned, so the past comes first and the new
    tokens follow. The output has one row per query and equals the last `new` rows of
    causal attention over all `n` tokens. `new` may be 1 (a decode step), `n` (a prompt)
    or anything between (a chunk).

    Raise a ValueError if there are more queries than keys, because then the caller
    forgot to append.

    >>> q, K = torch.zeros(2, 4), torch.zeros(3, 4)  # equal scores: plain means
    >>> attend_cached(q, K, torch.tensor([[0.0], [2.0], [7.0]])).round(decimals=3)
    tensor([[1.],
            [3.]])
    """
    new, n = q.shape[-2], K.shape[-2]
    if new > n:
        got = f"got {n} keys for {new} queries. Append before attending."
        raise ValueError(f"expected at least as many keys as queries, {got}")
    keep = torch.ones(new, n, dtype=torch.bool, device=q.device).tril(n - new)
    return attention(q, K, V, keep)


class CachedModel:
    """Compute what `forward(model, …)` computes, from new tokens and stored keys and
    values.

    However a text is split into calls, the logits are those of `forward(model, all
    tokens so far)` at the new tokens, as long as the weights stay the same. `model` is
    never changed. `caches` is a list with one `KVCache` per layer.

    >>> model, ids = toy_model(), torch.tensor([[3, 1, 4, 1, 5]])
    >>> cached = CachedModel(model, capacity=8)
    >>> logits = cached.extend(ids[:, :3])
    >>> logits = cached.decode_step(ids[:, 3])
    >>> logits = cached.decode_step(ids[:, 4])
    >>> torch.allclose(logits, forward(model, ids)[:, -1])
    True
    """

    def __init__(self, model: dict[str, Any], capacity: int) -> None:
        """Make an empty decoder with room for `capacity` tokens."""
        self.model = model
        self.caches = [KVCache(capacity) for _ in model["layers"]]

    @property
    def length(self) -> int:
        """The number of tokens stored since the start or the last `prefill`, without
        those that were taken back."""
        return self.caches[0].length

    def extend(self, ids: Int[Tensor, "batch new"]) -> Float[Tensor, "batch new vocab"]:
        """Process tokens that follow those processed so far, and return the logits at
        each of the new ones.

        The first token of a text is at position 0. Stored keys are rotated already.
        """
        # read once, before any layer appends, so that all layers use the same positions
        pos = torch.arange(self.length, self.length + ids.shape[1], device=ids.device)
        x: Tensor = self.model["embed"][ids]
        for layer, cache in zip(self.model["layers"], self.caches, strict=True):
            q, k = (apply_rope(project(x, layer[name]), pos) for name in ("W_Q", "W_K"))
            K, V = cache.append(k, project(x, layer["W_V"]))
            x = x + combine(attend_cached(q, K, V), layer["W_O"])
        logits: Tensor = x @ self.model["unembed"]
        return logits

    def decode_step(self, token: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocab"]:
        """Process one more token for each sequence, and return the logits at it."""
        return self.extend(token[:, None])[:, 0]

    def prefill(
        self,
        ids: Int[Tensor, "batch n"],
        chunk: int,
    ) -> Float[Tensor, "batch vocab"]:
        """Begin a new text with a prompt, at most `chunk` tokens at a time, and return
        the logits at its last token.

        Nothing is left of an earlier sequence. The last chunk may be shorter.
        """
        for cache in self.caches:
            cache.reset()
        for part in torch.split(ids, chunk, dim=1):
            logits = self.extend(part)
        return logits[:, -1]

    def rewind(self, n: int) -> None:
        """Forget the newest `n` tokens, as if they had never been processed."""
        for cache in self.caches:
            cache.rewind(n)

    def swap(self, model: dict[str, Any]) -> None:
        """Process later tokens with other weights. What is stored stays."""
        self.model = model


def tokens_processed(n0: int, n: int, cached: bool) -> int:
    """Return how many tokens a model processes in all its runs together, until it has
    written `n >= 1` new tokens after a prompt of `n0` tokens.

    Each run writes one token. Count only the runs that are needed for this.

    >>> tokens_processed(9, 3, cached=False)
    30
    """
    if cached:
        return n0 + n - 1
    return n * n0 + n * (n - 1) // 2


def step_flops(n: int, d_model: int, ffn: int, cached: bool) -> int:
    r"""Count the floating-point operations of one layer in the step that processes
    token number `n`, where the first token has number 1.

    Count only the matrix products. There are four projections $W_Q, W_K, W_V, W_O$,
    each $d_{model} \times d_{model}$; the scores and the weighted sums of all heads,
    which together are `d_model` wide; and the two matrices of the MLP, to
    `ffn * d_model` features and back. A product of an (a, b) by a (b, c) matrix costs
    $2abc$.

    With the cache, the step processes one new token. Without it, the step processes all
    `n` tokens again and computes the full (n, n) scores, including masked ones.

    >>> step_flops(1, 10, ffn=0, cached=True), step_flops(1, 10, ffn=4, cached=True)
    (840, 2440)

    Source: Kaplan et al. (2020), "Scaling Laws for Neural Language Models", table 1,
    counts the matrices alike.
    """
    rows = 1 if cached else n
    matrices = (4 + 2 * ffn) * 2 * rows * d_model * d_model
    scores_and_mixture = 2 * 2 * rows * n * d_model
    return matrices + scores_and_mixture


def attention_flops(n: int, d_model: int, cached: bool) -> int:
    """Count `step_flops` of attention alone, without an MLP.

    >>> attention_flops(1, 10, cached=True)
    840
    """
    return step_flops(n, d_model, 0, cached)


def bytes_per_token(config: dict[str, Any]) -> int:
    """Return the bytes that a model's cache keeps for each token of a text.

    `config` is a part of the model's `config.json`. If "num_key_value_heads" is
    missing, every head has its own keys and values. If "head_dim" is missing, the heads
    share the features of "hidden_size" equally. Numbers are stored as "torch_dtype"
    says, which is "float32", "float16" or "bfloat16".

    >>> small = {"hidden_size": 6, "intermediate_size": 24, "num_attention_heads": 3}
    >>> bytes_per_token(small | {"num_hidden_layers": 1, "torch_dtype": "float32"})
    48
    """
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", heads)
    width = config.get("head_dim", config["hidden_size"] // heads)
    element_bytes = 4 if config["torch_dtype"] == "float32" else 2
    return int(2 * config["num_hidden_layers"] * kv_heads * width * element_bytes)


def cache_bytes(B: int, n: int, L: int, n_kv: int, d: int, element_bytes: int) -> int:
    """Return the bytes of `B` caches of `n` tokens, with `n_kv` heads of width `d` in
    each of `L` layers and `element_bytes` bytes per number.

    Source: Pope et al. (2022), section 2.

    >>> cache_bytes(1, 1, 1, 1, 64, 2)
    256
    """
    return 2 * B * n * L * n_kv * d * element_bytes


def scores_outgrow_cache(L: int, H: int, n_kv: int, d: int) -> float:
    """Return the length of the text at which the scores of one layer, held in memory
    for all heads, are as many numbers as the whole cache.

    The layer has `H` query heads, each with (n, n) scores. The cache has keys and
    values of `n_kv` heads of width `d` in each of `L` layers.

    >>> scores_outgrow_cache(L=30, H=9, n_kv=3, d=64)  # SmolLM2
    1280.0
    """
    return 2 * L * n_kv * d / H
