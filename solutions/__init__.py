"""The reference package: every exercise of the course, answered once, one module per lesson, named by its slug.

Beside the taught functions it offers what one would want to import: `Attention` (multi-head, grouped-query and multi-query
by `num_kv_heads`), `LatentAttention` (MLA with decoupled RoPE), their preallocated caches, exact attention in tiles, and
adapters that load PyTorch's, Llama's and DeepSeek's weights. Everything is imported on first use.

>>> import numpy as np
>>> from solutions.start_here import average_pool
>>> average_pool(np.array([[0.0, 2.0], [4.0, 6.0]]))
array([2., 4.])
"""

import importlib
from typing import TYPE_CHECKING, Any

from solutions._device import device

if TYPE_CHECKING:
    from solutions.kv_cache import cache_bytes
    from solutions.lib.attention import Attention, from_llama
    from solutions.lib.cache import KVCache, LatentCache
    from solutions.lib.latent import LatentAttention, from_deepseek
    from solutions.lib.rope import apply_rope, rotate_half_rope
    from solutions.lib.tiled import attention_tiled, merge_tiles
    from solutions.multi_head import from_torch_mha

_HOME = {
    "Attention": "lib.attention",
    "KVCache": "lib.cache",
    "LatentAttention": "lib.latent",
    "LatentCache": "lib.cache",
    "apply_rope": "lib.rope",
    "attention_tiled": "lib.tiled",
    "cache_bytes": "kv_cache",
    "from_deepseek": "lib.latent",
    "from_llama": "lib.attention",
    "from_torch_mha": "multi_head",
    "merge_tiles": "lib.tiled",
    "rotate_half_rope": "lib.rope",
}

__all__ = [
    "Attention",
    "KVCache",
    "LatentAttention",
    "LatentCache",
    "apply_rope",
    "attention_tiled",
    "cache_bytes",
    "device",
    "from_deepseek",
    "from_llama",
    "from_torch_mha",
    "merge_tiles",
    "rotate_half_rope",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'solutions' has no attribute {name!r}")
    return getattr(importlib.import_module(f"solutions.{_HOME[name]}"), name)
