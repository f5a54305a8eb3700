"""Lesson 07: the key-value cache: its storage, attention with a past, a model that decodes with it, and what it costs.

The first functions, down to `toy_model`, stand in the lesson's locked cells too: the learner is given them.
"""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def apply_rope(x: Float[Tensor, "... n d"], pos: Int[Tensor, " n"]) -> Float[Tensor, "... n d"]:
    """Rotary positions (lesson 06, interleaved): row i of `x` at position `pos[i]`."""
    # half precision is too coarse for angles
    dtype = torch.promote_types(x.dtype, torch.float32)
    d = x.shape[-1]
    theta = 10_000.0 ** (-torch.arange(0, d, 2, device=x.device, dtype=dtype) / d)
    angle = pos[:, None].to(dtype) * theta  # (n, d/2)
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angle.cos(), angle.sin()
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return turned.flatten(-2).to(x.dtype)


def attention(
    q: Float[Tensor, "... query d_k"],
    k: Float[Tensor, "... key d_k"],
    v: Float[Tensor, "... key d_v"],
    keep: Bool[Tensor, "query key"],
) -> Float[Tensor, "... query d_v"]:
    """Masked attention (lesson 04). Query i sees key j where `keep[i, j]` is True."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores.masked_fill(~keep, -math.inf), dim=-1)
    return weights.masked_fill(~keep, 0.0) @ v  # a query that sees no key gets zeros


def project(x: Float[Tensor, "batch n d_model"], W: Float[Tensor, "d_model head d"]) -> Float[Tensor, "batch head n d"]:
    """One vector per token and head (lesson 05)."""
    return torch.einsum("bne,ehd->bhnd", x, W)


def combine(o: Float[Tensor, "batch head n d"], Wo: Float[Tensor, "head d d_model"]) -> Float[Tensor, "batch n d_model"]:
    """The heads' outputs through the output projection, summed (lesson 05)."""
    return torch.einsum("bhnd,hde->bne", o, Wo)


def forward(
    model: dict[str, Any],
    ids: Int[Tensor, "batch n"],
    start: int | Int[Tensor, " n"] = 0,
    causal: bool = True,
) -> Float[Tensor, "batch n vocab"]:
    """The logits at every token, without a cache. `start` shifts the positions."""
    n = ids.shape[1]
    pos = start + torch.arange(n, device=ids.device)
    keep = torch.ones(n, n, dtype=torch.bool, device=ids.device)
    keep = keep.tril() if causal else keep
    x = model["embed"][ids]  # (batch, n, d_model): each token's row of the table
    for layer in model["layers"]:
        q = apply_rope(project(x, layer["Wq"]), pos)  # (batch, head, n, d)
        k = apply_rope(project(x, layer["Wk"]), pos)
        v = project(x, layer["Wv"])
        # a layer adds to its input
        x = x + combine(attention(q, k, v, keep), layer["Wo"])
    logits: Tensor = x @ model["unembed"]  # (batch, n, vocab)
    return logits


def toy_model(vocab: int = 17, d_model: int = 24, layers: int = 2, heads: int = 3, d: int = 8) -> dict[str, Any]:
    """A small decoder with random weights, in float64."""
    generator = torch.Generator().manual_seed(7)

    def normal(*shape: int, fan_in: int) -> Tensor:
        numbers = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return numbers / math.sqrt(fan_in)

    def layer() -> dict[str, Tensor]:
        q, k, v = (normal(d_model, heads, d, fan_in=d_model) for _ in range(3))
        o = normal(heads, d, d_model, fan_in=heads * d)
        # 1.5: attention far from uniform
        return {"Wq": 1.5 * q, "Wk": 1.5 * k, "Wv": v, "Wo": o}

    embed = normal(vocab, d_model, fan_in=1)
    unembed = normal(d_model, vocab, fan_in=d_model)
    made = [layer() for _ in range(layers)]
    return {"embed": embed, "layers": made, "unembed": unembed}


class KVCache:
    r"""The keys and values of all tokens so far, of one layer, in the order in which
    they came.

    Keys have the shape (batch, head, n, d_k), values (batch, head, n, d_v). The first
    `append` decides about batch, heads, widths, dtype and device; later ones may differ
    in the number of tokens alone. For inference: nothing needs gradients.

    >>> cache = KVCache(capacity=5)
    >>> prompt = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 6)  # three tokens
    >>> K, V = cache.append(*prompt)
    >>> K, V = cache.append(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 6))  # one more
    >>> K.shape, V.shape, cache.length
    (torch.Size([1, 2, 4, 4]), torch.Size([1, 2, 4, 6]), 4)
    >>> K[0, 0, :, 0]
    tensor([0., 0., 0., 1.])
    >>> cache.reset()
    >>> cache.length
    0

    Source: Pope et al. (2022), "Efficiently Scaling Transformer Inference", section 2.
    """

    def __init__(self, capacity: int) -> None:
        """An empty cache with room for `capacity` tokens. (One that grows as it goes
        may ignore `capacity`.)"""
        self.capacity = capacity
        self._length = 0
        self._buffers: list[Tensor] = []  # keys and values, made by the first append

    @property
    def length(self) -> int:
        """How many tokens the cache holds."""
        return self._length

    def append(
        self,
        k: Float[Tensor, "batch head new d_k"],
        v: Float[Tensor, "batch head new d_v"],
    ) -> tuple[Float[Tensor, "batch head n d_k"], Float[Tensor, "batch head n d_v"]]:
        """Store the new tokens behind the old ones; return all keys and all values
        stored, the new ones included.

        `k` and `v` themselves stay as they are. The result may share memory with the
        cache.

        Raises ValueError where the tokens don't fit: other shapes than before, or
        (unless it grows) more than `capacity`.
        """
        start, stop = self._length, self._length + k.shape[-2]
        if stop > self.capacity:
            got = f"got {start} + {stop - start}. Make a larger cache, or reset()."
            raise ValueError(f"expected at most {self.capacity} tokens, {got}")
        room = self._buffers
        if start == 0:
            sizes = [(*x.shape[:-2], self.capacity, x.shape[-1]) for x in (k, v)]
            room = [x.new_empty(size) for x, size in zip((k, v), sizes, strict=True)]
        for name, x, buffer in zip("kv", (k, v), room, strict=True):
            expected = (*buffer.shape[:-2], stop - start, buffer.shape[-1])
            if x.shape != expected or x.dtype != buffer.dtype:
                got = f"{tuple(x.shape)} in {x.dtype}"
                problem = f"{name}: expected {expected} in {buffer.dtype}, got {got}."
                raise ValueError(f"{problem} Another layer's, or another batch's?")
        self._buffers, self._length = room, stop
        for buffer, x in zip(room, (k, v), strict=True):
            buffer[..., start:stop, :] = x
        # views: nothing is copied
        return room[0][..., :stop, :], room[1][..., :stop, :]

    def reset(self) -> None:
        """Forget all tokens, so that another sequence can begin."""
        self._length = 0


def attend_cached(
    q: Float[Tensor, "... new d_k"],
    K: Float[Tensor, "... n d_k"],
    V: Float[Tensor, "... n d_v"],
) -> Float[Tensor, "... new d_v"]:
    r"""Causal attention of the **newest** tokens: `q` holds the queries of the last
    `new` of the `n` tokens in `K` and `V`.

    `K` and `V` are what `KVCache.append` returned: the past first, then the new tokens
    themselves. Each new token sees the whole past, the new tokens before it, and
    itself. The output has one row per query, that is the last `new` rows of causal
    attention over all `n` tokens. `new` may be 1 (a decode step), `n` (a prompt) or
    anything between (a chunk).

    Raises ValueError where there are more queries than keys.

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
    """The decoder `forward(model, …)` with a memory: it is fed new tokens only, and
    remembers keys and values of the old.

    Whatever the split into calls, the logits are those of
    `forward(model, all tokens so far)` at the new tokens. `model` is only read, never
    changed.

    >>> model, ids = toy_model(), torch.tensor([[3, 1, 4, 1, 5]])
    >>> cached = CachedModel(model, capacity=8)
    >>> logits = cached.extend(ids[:, :3])
    >>> logits = cached.decode_step(ids[:, 3])
    >>> logits = cached.decode_step(ids[:, 4])
    >>> torch.allclose(logits, forward(model, ids)[:, -1])
    True
    """

    def __init__(self, model: dict[str, Any], capacity: int) -> None:
        """A decoder that has seen no token yet, with room for `capacity` tokens in each
        layer."""
        self.model = model
        self.caches = [KVCache(capacity) for _ in model["layers"]]

    @property
    def length(self) -> int:
        """How many tokens have been processed since the start, or since the last
        `prefill`."""
        return self.caches[0].length

    def extend(self, ids: Int[Tensor, "batch new"]) -> Float[Tensor, "batch new vocab"]:
        """Process tokens that follow those processed so far; the logits at each of the
        new ones.

        The first token of all stands at position 0. Keys are stored rotated.
        """
        # Once, before any layer appends: each layer must rotate by the same positions.
        pos = torch.arange(self.length, self.length + ids.shape[1], device=ids.device)
        x: Tensor = self.model["embed"][ids]
        for layer, cache in zip(self.model["layers"], self.caches, strict=True):
            q, k = (apply_rope(project(x, layer[name]), pos) for name in ("Wq", "Wk"))
            K, V = cache.append(k, project(x, layer["Wv"]))
            x = x + combine(attend_cached(q, K, V), layer["Wo"])
        logits: Tensor = x @ self.model["unembed"]
        return logits

    def decode_step(self, token: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocab"]:
        """Process one token more for each sequence of the batch; the logits at it."""
        return self.extend(token[:, None])[:, 0]

    def prefill(
        self,
        ids: Int[Tensor, "batch n"],
        chunk: int,
    ) -> Float[Tensor, "batch vocab"]:
        """Begin **anew** with a prompt, at most `chunk` tokens at a time; the logits at
        its last token.

        Nothing of an earlier sequence is left. The last chunk may be shorter than the
        others.
        """
        for cache in self.caches:
            cache.reset()
        for part in torch.split(ids, chunk, dim=1):
            logits = self.extend(part)
        return logits[:, -1]


def generate(
    model: dict[str, Any], ids: Int[Tensor, "batch n0"], n: int, use_cache: bool
) -> tuple[Int[Tensor, "batch total"], int]:
    """The prompt `ids` with `n >= 1` more tokens, each the most likely one (greedy),
    and the work that it took.

    The **work** is the number of positions put through the model in each sequence: a
    prompt of five tokens counts five, a decode step one. With `use_cache`, no position
    is processed twice; without, each new token costs a whole `forward` of all tokens so
    far. Neither processes the last new token: nobody asks what follows it. The tokens
    are the same both ways.

    >>> prompt = torch.tensor([[3, 1, 4]])
    >>> tokens, work = generate(toy_model(), prompt, 4, use_cache=True)
    >>> tokens.shape, work
    (torch.Size([1, 7]), 6)
    """
    work = 0
    cached = CachedModel(model, capacity=ids.shape[1] + n)
    for step in range(n):
        if not use_cache:
            logits, processed = forward(model, ids)[:, -1], ids.shape[1]
        elif step == 0:
            logits, processed = cached.prefill(ids, chunk=ids.shape[1]), ids.shape[1]
        else:
            logits, processed = cached.decode_step(ids[:, -1]), 1
        work += processed
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)
    return ids, work


def cache_bytes(B: int, n: int, L: int, n_kv: int, d: int, element_bytes: int) -> int:
    """The bytes that the keys and values of all tokens take, in all layers.

    `B` sequences of `n` tokens, `L` layers, `n_kv` heads that have keys and values of
    their own, keys and values `d` wide, `element_bytes` bytes per number (2 in float16
    and bfloat16, 4 in float32).

    >>> cache_bytes(1, 1, 1, 1, 64, 2)
    256

    Source: Pope et al. (2022), section 2.
    """
    return 2 * B * n * L * n_kv * d * element_bytes


def attention_flops(n: int, d_model: int, cached: bool) -> int:
    r"""The floating point operations of one attention layer in the step that processes
    the token number `n` (from 1).

    Counted are six matrix products: the four projections, $W_Q, W_K, W_V, W_O$, each
    $d_{model} \times d_{model}$, and all heads' scores $QK^\top$ and mixtures $AV$. The
    heads together are `d_model` wide. A product of an (a, b) by a (b, c) matrix costs
    $2abc$. Softmax, mask and rotation are left out, as small.

    With the cache, the step processes the one new token. Without it, the step processes
    all `n` tokens again, and computes the full (n, n) scores, masked ones included.

    >>> attention_flops(1, 10, cached=True)
    840

    Source: Kaplan et al. (2020), "Scaling Laws for Neural Language Models", table 1,
    counts the projections alike.
    """
    new = 1 if cached else n
    projections = 4 * 2 * new * d_model * d_model
    scores_and_mixture = 2 * 2 * new * n * d_model
    return projections + scores_and_mixture
