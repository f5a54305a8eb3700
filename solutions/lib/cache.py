"""Preallocated caches of one layer for decoding: keys and values of every head, or latents and rotated keys.

`KVCache` is also the answer of chapter 07.
"""

import torch
from jaxtyping import Float
from torch import Tensor


class KVCache:
    r"""Store the keys and values of one layer's tokens, in the order of the text.

    Keys have the shape (batch, head, n, d_k) and values (batch, head, n, d_v). The
    first `append`, and also the first one after a `reset`, decides about batch, heads,
    widths, dtype and device, so later calls differ only in the number of tokens. The
    cache is for inference and needs no gradients.

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
        """Make an empty cache with room for `capacity` tokens."""
        self.capacity = capacity
        self._length = 0
        self._buffers: list[Tensor] = []  # keys and values, made by the first append

    @property
    def length(self) -> int:
        """The number of tokens that the cache holds."""
        return self._length

    def append(
        self,
        k: Float[Tensor, "batch head new d_k"],
        v: Float[Tensor, "batch head new d_v"],
    ) -> tuple[Float[Tensor, "batch head n d_k"], Float[Tensor, "batch head n d_v"]]:
        """Store the new tokens after the old ones, and return all stored keys and all
        stored values, including the new ones. The result may share memory with the
        cache.

        Raise a ValueError if there would be more than `capacity` tokens. The cache then
        stays unchanged.
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
        """Forget the newest `n` tokens and keep the older ones. `n` may be 0.

        Raise a ValueError if the cache holds fewer than `n` tokens. The cache then
        stays unchanged.
        """
        if not 0 <= n <= self._length:
            raise ValueError(f"expected 0 to {self._length} tokens to forget, got {n}.")
        self._length -= n  # the rows after that are free again

    def reset(self) -> None:
        """Forget all tokens, so that another text can begin."""
        self._length = 0


class LatentCache:
    """Latents and rotated keys of all tokens so far, of one layer, side by side in one preallocated buffer.

    One row per token, `d_c + d_rope` wide: the layout in which absorbed attention reads both by a single matrix product.
    For inference: no gradient passes through a cache.

    >>> cache = LatentCache(batch=2, capacity=8, d_c=4, d_rope=2)
    >>> cache.append(torch.zeros(2, 3, 4), torch.zeros(2, 3, 2)).shape, cache.length
    (torch.Size([2, 3, 6]), 3)
    >>> cache.bytes_per_token
    24
    >>> cache.reset()
    >>> cache.length
    0
    """

    def __init__(
        self,
        batch: int,
        capacity: int,
        d_c: int,
        d_rope: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """An empty cache with room for `capacity` tokens in each of `batch` sequences."""
        self.d_c, self.d_rope = d_c, d_rope
        self._buffer = torch.empty(batch, capacity, d_c + d_rope, dtype=dtype, device=device)
        self._length = 0

    @property
    def length(self) -> int:
        """How many tokens the cache holds."""
        return self._length

    @property
    def capacity(self) -> int:
        """How many tokens it has room for."""
        return self._buffer.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the stored rows."""
        return self._buffer.dtype

    @property
    def bytes_per_token(self) -> int:
        """The bytes of one token of one sequence."""
        return self._buffer.shape[-1] * self._buffer.element_size()

    def append(
        self, c: Float[Tensor, "batch new d_c"], k_rope: Float[Tensor, "batch new d_rope"]
    ) -> Float[Tensor, "batch n d_c+d_rope"]:
        """Store the new tokens behind the old ones; a view of all rows stored, the new ones included.

        Raises ValueError where they do not fit: more than `capacity`, or another shape, dtype or device.
        """
        start, stop = self._length, self._length + c.shape[1]
        if stop > self.capacity:
            raise ValueError(
                f"expected at most {self.capacity} tokens, got {start} + {stop - start}. Make a larger cache, or reset()."
            )
        for name, x, width in (("c", c, self.d_c), ("k_rope", k_rope, self.d_rope)):
            expected = (self._buffer.shape[0], stop - start, width)
            if x.shape != expected or (x.dtype, x.device) != (self._buffer.dtype, self._buffer.device):
                kept, got = (f"{y.dtype} on {y.device}" for y in (self._buffer, x))
                raise ValueError(f"{name}: expected {expected} in {kept}, got {tuple(x.shape)} in {got}. Another batch's?")
        self._buffer[:, start:stop, : self.d_c] = c.detach()
        self._buffer[:, start:stop, self.d_c :] = k_rope.detach()
        self._length = stop
        return self._buffer[:, :stop]

    def reset(self) -> None:
        """Forget all tokens, so that another sequence can begin."""
        self._length = 0
