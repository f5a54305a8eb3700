"""Record the stages of a DeepSeek-V3 attention layer from `transformers`: `python -m tools.record_mla_port`.

Writes `mla_port.npz` beside `attention_course.mla_port`, which describes it. Needs `transformers`.
"""

from importlib import resources
from pathlib import Path

import numpy as np
import torch
from attention_course.mla_port import CONFIG, D_C, D_MODEL, H
from torch import Tensor

TOKENS, SEED = 16, 11
NAMES = ("q_a_proj", "q_a_layernorm", "q_b_proj", "kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj")


def record() -> dict[str, Tensor]:
    """Run the published layer with random weights on random tokens, and return weights, tokens and stages."""
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as theirs
    from transformers.models.deepseek_v3.configuration_deepseek_v3 import DeepseekV3Config

    sizes = {name: size for name, size in CONFIG.items() if name.endswith("_dim")}
    settings = {name: value for name, value in CONFIG["rope_scaling"].items() if name != "type"}
    config = DeepseekV3Config(
        hidden_size=D_MODEL,
        num_attention_heads=H,
        num_key_value_heads=H,
        q_lora_rank=D_C,
        kv_lora_rank=D_C,
        max_position_embeddings=163_840,
        rope_parameters={"rope_type": "yarn", "rope_theta": CONFIG["rope_theta"], **settings},
        **sizes,
    )
    config._attn_implementation = "eager"
    layer = theirs.DeepseekV3Attention(config, layer_idx=0).eval().requires_grad_(False)
    g = torch.Generator().manual_seed(SEED)
    for name in NAMES:
        weight = getattr(layer, name).weight
        size = 1.0 if weight.ndim == 1 else weight.shape[1] ** -0.5
        weight.copy_(size * torch.randn(weight.shape, generator=g) if weight.ndim > 1 else torch.ones_like(weight))
    x = torch.randn(1, TOKENS, D_MODEL, generator=g)
    pos = torch.arange(TOKENS)[None]
    mask = torch.full((TOKENS, TOKENS), -torch.inf).triu(1)[None, None]
    heard: dict[str, Tensor] = {}
    attend = theirs.eager_attention_forward

    def listening(module, query, key, value, attention_mask, scaling, **more):  # type: ignore[no-untyped-def]
        heard.update(queries=query[0], keys=key[0], scores=(query @ key.mT * scaling)[0])
        return attend(module, query, key, value, attention_mask, scaling, **more)

    theirs.eager_attention_forward = listening  # type: ignore[assignment]
    try:
        output, weights = layer(x, theirs.DeepseekV3RotaryEmbedding(config)(x, pos), mask)
    finally:
        theirs.eager_attention_forward = attend
    parameters = {name: getattr(layer, name).weight for name in NAMES}
    return parameters | {"x": x[0]} | heard | {"weights": weights[0], "output": output[0]}


def main() -> None:
    """Write the record."""
    path = Path(str(resources.files("attention_course"))) / "mla_port.npz"
    np.savez_compressed(path, **{name: x.numpy() for name, x in record().items()})  # type: ignore[arg-type]  # numpy's own stub
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
