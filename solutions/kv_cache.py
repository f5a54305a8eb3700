"""Lesson 07: the key-value cache: its storage, attention with a past, a model that decodes with it, and what it costs.

`forward`, `cache_bytes` and `LeakyPages` stand in the lesson's locked cells too: the learner is given them.
"""

from typing import Any

import torch
from attention_course.toy_decoder import apply_rope, attention, combine, project, toy_model
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = [
    "CachedModel",
    "KVCache",
    "LeakyPages",
    "SharedPages",
    "apply_rope",
    "attend_cached",
    "attention",
    "attention_flops",
    "batch_positions",
    "cache_bytes",
    "chats_that_fit",
    "combine",
    "forward",
    "generate",
    "project",
    "step_flops",
    "toy_model",
]


def forward(
    model: dict[str, Any],
    ids: Int[Tensor, "batch n"],
    pos: Int[Tensor, " n"] | None = None,
    keep: Bool[Tensor, "n n"] | None = None,
) -> Float[Tensor, "batch n vocab"]:
    """The logits at every token, without a cache. Unless told otherwise, tokens stand
    at 0, 1, 2, ... and the mask is causal."""
    n = ids.shape[1]
    if pos is None:
        pos = torch.arange(n, device=ids.device)
    if keep is None:
        keep = torch.ones(n, n, dtype=torch.bool, device=ids.device).tril()
    x: Tensor = model["embed"][ids]  # (batch, n, d_model)
    for layer in model["layers"]:
        q, k, v = (project(x, layer[name]) for name in ("Wq", "Wk", "Wv"))
        o = attention(apply_rope(q, pos), apply_rope(k, pos), v, keep)
        x = x + combine(o, layer["Wo"])  # a layer adds to its input
    logits: Tensor = x @ model["unembed"]  # (batch, n, vocab)
    return logits


class KVCache:
    r"""The keys and values of all tokens so far, of one layer, in the order in which
    they came.

    Keys have the shape (batch, head, n, d_k), values (batch, head, n, d_v). The first
    `append`, and again the first after a `reset`, decides about batch, heads, widths,
    dtype and device; later ones differ in the number of tokens alone. For inference:
    nothing needs gradients.

    >>> cache = KVCache(capacity=5)
    >>> prompt = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 6)  # three tokens
    >>> K, V = cache.append(*prompt)
    >>> K, V = cache.append(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 6))  # one more
    >>> K.shape, V.shape, cache.length
    (torch.Size([1, 2, 4, 4]), torch.Size([1, 2, 4, 6]), 4)
    >>> K[0, 0, :, 0]
    tensor([0., 0., 0., 1.])
    >>> cache.rewind(2)
    >>> cache.length
    2
    >>> cache.reset()
    >>> cache.length
    0

    Source: Pope et al. (2022), "Efficiently Scaling Transformer Inference", section 2.
    """

    def __init__(self, capacity: int) -> None:
        """An empty cache with room for `capacity` tokens."""
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
        stored, the new ones included. The result may share memory with the cache.

        Raises ValueError where there would be more than `capacity` tokens, and then
        stays as it was.
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
            kept, came = (f"{y.dtype} on {y.device}" for y in (buffer, x))
            if x.shape != expected or came != kept:
                got = f"{tuple(x.shape)} in {came}"
                problem = f"{name}: expected {expected} in {kept}, got {got}."
                raise ValueError(f"{problem} Another layer's, or another batch's?")
        self._buffers, self._length = room, stop
        for buffer, x in zip(room, (k, v), strict=True):
            buffer[..., start:stop, :] = x
        # views: nothing is copied
        return room[0][..., :stop, :], room[1][..., :stop, :]

    def rewind(self, n: int) -> None:
        """Forget the newest `n` tokens; the older ones stay. `n` may be 0.

        Raises ValueError where the cache holds fewer, and then stays as it was.
        """
        if not 0 <= n <= self._length:
            raise ValueError(f"expected 0 to {self._length} tokens to forget, got {n}.")
        self._length -= n  # what lies beyond is free again, and will be overwritten

    def reset(self) -> None:
        """Forget all tokens, so that another text can begin."""
        self._length = 0


def attend_cached(
    q: Float[Tensor, "... new d_k"],
    K: Float[Tensor, "... n d_k"],
    V: Float[Tensor, "... n d_v"],
) -> Float[Tensor, "... new d_v"]:
    r"""Causal attention of the **newest** tokens: `q` holds the queries of the last
    `new` of the `n` tokens in `K` and `V`.

    `K` and `V` are what `KVCache.append` returned: the past first, then the new tokens
    themselves. The output has one row per query, the last `new` rows of causal
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
    """The decoder `forward(model, …)` with a memory: it is fed new tokens only.

    Whatever the split into calls, the logits are those of
    `forward(model, all tokens so far)` at the new tokens, as long as the weights stay.
    `model` is never changed. `caches` is a list of one `KVCache` per layer.

    >>> model, ids = toy_model(), torch.tensor([[3, 1, 4, 1, 5]])
    >>> cached = CachedModel(model, capacity=8)
    >>> logits = cached.extend(ids[:, :3])
    >>> logits = cached.decode_step(ids[:, 3])
    >>> logits = cached.decode_step(ids[:, 4])
    >>> torch.allclose(logits, forward(model, ids)[:, -1])
    True
    """

    def __init__(self, model: dict[str, Any], capacity: int) -> None:
        """A decoder that has seen no token yet, with room for `capacity` tokens."""
        self.model = model
        self.caches = [KVCache(capacity) for _ in model["layers"]]

    @property
    def length(self) -> int:
        """How many tokens it holds: all since the start, or since the last `prefill`,
        but for those taken back."""
        return self.caches[0].length

    def extend(self, ids: Int[Tensor, "batch new"]) -> Float[Tensor, "batch new vocab"]:
        """Process tokens that follow those processed so far; the logits at each of the
        new ones.

        The first token of all stands at position 0. A stored key is rotated already:
        never rotate it again.
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

        Nothing of an earlier sequence is left. The last chunk may be shorter.
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
        """Process the tokens to come with other weights. What has been stored stays."""
        self.model = model


def generate(
    model: dict[str, Any], ids: Int[Tensor, "batch n0"], n: int, use_cache: bool
) -> tuple[Int[Tensor, "batch total"], int]:
    """The prompt `ids` with `n >= 1` more tokens, each the most likely one (greedy),
    and the work that it took.

    The **work** is the number of positions put through the model in each sequence: a
    prompt of five tokens counts five, a decode step one. With `use_cache`, no position
    is processed twice; without, each new token costs a whole `forward` of all tokens so
    far. Neither processes the last new token.

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


def step_flops(n: int, d_model: int, ffn: int, cached: bool) -> int:
    r"""The floating point operations of one layer of a decoder in the step that
    processes the token number `n` (from 1).

    Counted are the matrix products alone: the four projections $W_Q, W_K, W_V, W_O$,
    each $d_{model} \times d_{model}$; all heads' scores and mixtures, the heads
    together being `d_model` wide; and the two matrices of the feed-forward part, to
    `ffn * d_model` features and back. A product of an (a, b) by a (b, c) matrix costs
    $2abc$.

    With the cache, the step processes the one new token. Without it, the step processes
    all `n` tokens again, and computes the full (n, n) scores, masked ones included.

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
    """`step_flops` of the attention alone, without a feed-forward part.

    >>> attention_flops(1, 10, cached=True)
    840
    """
    return step_flops(n, d_model, 0, cached)


def chats_that_fit() -> int:
    """How many conversations of 2,048 tokens each fit on an accelerator beside the
    weights of LLaMA-7B? A whole number.

    The accelerator has 80 GB (80e9 bytes). The model has 6.7e9 parameters, 32 layers,
    and 32 heads of width 128 with keys and values of their own. Parameters and cache
    are in bfloat16, 2 bytes a number. Nothing else takes memory.
    """
    conversation = 2 * 2048 * 32 * 32 * 128 * 2  # bytes: keys and values
    return int((80e9 - 2 * 6.7e9) // conversation)


def cache_bytes(B: int, n: int, L: int, n_kv: int, d: int, element_bytes: int) -> int:
    """The bytes of `B` caches of `n` tokens: keys and values of `n_kv` heads of width
    `d` in each of `L` layers, `element_bytes` bytes a number.

    Source: Pope et al. (2022), section 2.

    >>> cache_bytes(1, 1, 1, 1, 64, 2)
    256
    """
    return 2 * B * n * L * n_kv * d * element_bytes


def batch_positions(
    lengths: Int[Tensor, " batch"], new: int, capacity: int
) -> tuple[Int[Tensor, "batch new"], Bool[Tensor, "batch new capacity"]]:
    """Where the next `new` tokens of each text stand, and which slots they may see, in
    a batch of texts of unequal lengths.

    The token at position p of a text lies in slot p of its row. Row b holds
    `lengths[b]` tokens so far, and the new ones have just been written behind them.
    What lies in later slots is no token of that text.
    `pos[b, i]` is the position of the i-th new token of text b. `keep[b, i, j]` is True
    where that token may look into slot j: the causal rule, row by row.

    >>> pos, keep = batch_positions(torch.tensor([3, 1]), new=1, capacity=5)
    >>> pos.tolist()
    [[3], [1]]
    >>> keep.int().tolist()
    [[[1, 1, 1, 1, 0]], [[1, 1, 0, 0, 0]]]
    """
    pos = lengths[:, None] + torch.arange(new, device=lengths.device)
    slots = torch.arange(capacity, device=lengths.device)
    return pos, slots <= pos[..., None]


class LeakyPages:
    """The keys of several texts in one pool of pages."""

    def __init__(self, pages: int, size: int, d: int) -> None:
        self.pool = torch.zeros(pages, size, d)
        self.free = list(range(pages))
        self.table: dict[str, list[int]] = {}  # each text's pages, in order
        self.length: dict[str, int] = {}

    def start(self, text: str) -> None:
        self.table[text], self.length[text] = [], 0

    def fork(self, text: str, new: str) -> None:
        self.table[new] = list(self.table[text])
        self.length[new] = self.length[text]

    def append(self, text: str, k: Float[Tensor, "new d"]) -> None:
        for row in k:
            slot = self.length[text] % self.pool.shape[1]
            if slot == 0:
                self.table[text].append(self.free.pop(0))
            self.pool[self.table[text][-1], slot] = row
            self.length[text] += 1

    def read(self, text: str) -> Float[Tensor, "n d"]:
        return self.pool[self.table[text]].flatten(0, 1)[: self.length[text]]

    def used(self) -> int:
        return len(self.pool) - len(self.free)


class SharedPages(LeakyPages):
    """`LeakyPages`, repaired. A text that begins like another one shares its pages.

    A text reads its parent's tokens from before the fork and its own after it, whatever
    others write. A full page is never copied; one that is not full may be copied at
    `fork`, or later when somebody writes.
    """

    def fork(self, text: str, new: str) -> None:
        """A text `new` that begins with all tokens of `text`."""
        super().fork(text, new)
        if self.length[text] % self.pool.shape[1]:
            # the last page has free slots: both would write into them
            mine = self.free.pop(0)
            self.pool[mine] = self.pool[self.table[text][-1]]
            self.table[new][-1] = mine

    def append(self, text: str, k: Float[Tensor, "new d"]) -> None:
        """Store the keys of new tokens behind those of `text`."""
        super().append(text, k)
