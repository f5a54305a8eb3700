"""A port of DeepSeek-V3's attention to check against the published layer, for notebook 11b.

The layer is small and its weights are random, but its settings have the form of a released config.json, YaRN included.
`published()` was recorded from the layer in Hugging Face's `transformers` by `tools.record_mla_port`.
"""

import math
from importlib import resources
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

H, D_MODEL, D_C = 4, 32, 24
CONFIG: dict[str, Any] = {  # the last entry is that of DeepSeek-V3
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "rope_theta": 10_000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    },
}
STAGES = ("queries", "keys", "scores", "weights", "output")


def _recorded() -> dict[str, Tensor]:
    with (resources.files("attention_course") / "mla_port.npz").open("rb") as file, np.load(file) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays}


def published() -> dict[str, Tensor]:
    """Return what the published layer computes for one text of 16 tokens, by the names in `STAGES`."""
    return {name: x for name, x in _recorded().items() if name in STAGES}


def ported(scale: float) -> dict[str, Tensor]:
    """Compute the same stages with a port that divides nothing by itself: `scale` multiplies its scores."""
    W = _recorded()
    x, d, d_rope = W["x"], CONFIG["qk_nope_head_dim"], CONFIG["qk_rope_head_dim"]
    q = F.rms_norm(x @ W["q_a_proj"].mT, (D_C,), W["q_a_layernorm"], 1e-6) @ W["q_b_proj"].mT
    q = q.unflatten(-1, (H, -1)).transpose(0, 1)  # (head, n, d + d_rope)
    latent, k_rope = (x @ W["kv_a_proj_with_mqa"].mT).split([D_C, d_rope], dim=-1)
    pairs = F.rms_norm(latent, (D_C,), W["kv_a_layernorm"], 1e-6) @ W["kv_b_proj"].mT
    k, v = pairs.unflatten(-1, (H, -1)).transpose(0, 1).split([d, CONFIG["v_head_dim"]], dim=-1)
    queries = torch.cat([q[..., :d], _rotated(q[..., d:])], dim=-1)
    keys = torch.cat([k, _rotated(k_rope).expand(H, -1, -1)], dim=-1)
    scores = queries @ keys.mT * scale
    past = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    weights = scores.masked_fill(~past, -math.inf).softmax(-1)
    output = (weights @ v).transpose(0, 1).flatten(1) @ W["o_proj"].mT
    return dict(zip(STAGES, (queries, keys, scores, weights, output), strict=True))


def _rotated(x: Float[Tensor, "*heads n d_rope"]) -> Float[Tensor, "*heads n d_rope"]:
    """Rotate interleaved pairs with YaRN's frequencies; the result has all first members, then all second ones."""
    pairs = x.unflatten(-1, (-1, 2))
    angle = torch.arange(x.shape[-2])[:, None] * _frequencies(x.shape[-1])
    cos, sin = angle.cos(), angle.sin()
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def _frequencies(d_rope: int) -> Float[Tensor, " pairs"]:
    """Compute the frequency of each pair, slowed by YaRN where it turns rarely within the original context."""
    base, yarn = CONFIG["rope_theta"], CONFIG["rope_scaling"]

    def pair(turns: float) -> float:
        return d_rope * math.log(yarn["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair(yarn["beta_fast"])), 0), min(math.ceil(pair(yarn["beta_slow"])), d_rope - 1)
    theta: Tensor = base ** (-torch.arange(0, d_rope, 2) / d_rope)
    slowed = ((torch.arange(d_rope // 2) - low) / max(high - low, 0.001)).clamp(0, 1)
    scaled: Tensor = theta * (1 - slowed + slowed / yarn["factor"])
    return scaled
