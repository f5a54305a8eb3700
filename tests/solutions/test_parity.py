"""The library classes against implementations that share no code with them: SDPA, flex_attention, transformers.

Tolerances: 1e-10 in float64 against torch's own kernels (same order of sums, so rounding alone); 1e-6 against transformers,
which takes its softmax and its RoPE tables in float32; 2e-5 in float32. On a GPU the same tests run there, and bfloat16
beside them.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions import Attention, KVCache, LatentAttention, attention_tiled, device, from_deepseek, from_llama, from_torch_mha
from solutions.lib.attention import decode, grouped_sdpa
from solutions.lib.latent import attend_latents
from solutions.lib.rope import rotate_half_rope

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here"))]
PRECISIONS = [pytest.param(torch.float64, 1e-10, id="float64"), pytest.param(torch.float32, 2e-5, id="float32")]


def _normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64, where: str = "cpu") -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).to(where)


def _randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give a module reproducible weights of a size that keeps scores neither flat nor saturated."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * parameter.shape[-1] ** -0.5
            parameter.copy_(noise + (1.0 if parameter.dim() == 1 else 0.0))
    return module


def _step_by_step(module: Callable[..., Tensor], x: Tensor, cache: Any, chunks: tuple[int, ...]) -> Tensor:
    parts, start = [], 0
    for size in chunks:
        parts.append(module(x[:, start : start + size], cache=cache))
        start += size
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize(("dtype", "atol"), PRECISIONS)
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@pytest.mark.parametrize(("n_q", "n_k"), [(7, 7), (1, 7), (3, 7)])
def test_grouped_attention_equals_sdpa_with_enable_gqa(
    n_q: int, n_k: int, groups: int, dtype: torch.dtype, atol: float, where: str
) -> None:
    q = _normal(2, 6, n_q, 8, seed=1, dtype=dtype, where=where)
    k, v = (_normal(2, groups, n_k, 8, seed=seed, dtype=dtype, where=where) for seed in (2, 3))
    keep = torch.ones(n_q, n_k, dtype=torch.bool, device=where).tril(n_k - n_q)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
    torch.testing.assert_close(grouped_sdpa(q, k, v), expected, rtol=0, atol=atol)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("causal", [False, True])
def test_tiled_attention_equals_eager_flex_attention(causal: bool) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = (_normal(2, 3, 16, 8, seed=seed) for seed in (1, 2, 3))

    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.where(i >= j, s, -torch.inf) if causal else s

    expected = flex_attention(q, k, v, score_mod=score)
    torch.testing.assert_close(attention_tiled(q, k, v, causal=causal, block=5)[0], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("bias", [True, False])
def test_an_adapted_multihead_attention_equals_torchs(bias: bool) -> None:
    theirs = _randomise(nn.MultiheadAttention(12, 3, bias=bias, batch_first=True).double())
    x = _normal(2, 7, 12, seed=4)
    blocked = torch.ones(7, 7, dtype=torch.bool).triu(1)  # theirs: True = blocked; ours: True = keep
    expected, _ = theirs(x, x, x, attn_mask=blocked)
    ours = from_torch_mha(theirs)
    torch.testing.assert_close(ours(x, x, keep=~blocked), expected, rtol=0, atol=1e-10)


def _llama(groups: int) -> tuple[Any, Any]:
    modeling = pytest.importorskip("transformers.models.llama.modeling_llama")
    configuration = pytest.importorskip("transformers.models.llama.configuration_llama")
    config = configuration.LlamaConfig(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=groups, head_dim=4, attn_implementation="eager"
    )
    return modeling, config


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_an_adapted_llama_attention_equals_transformers_at_once_and_cached(groups: int) -> None:
    modeling, config = _llama(groups)
    theirs = _randomise(modeling.LlamaAttention(config, layer_idx=0).double()).eval()
    x = _normal(2, 9, 24, seed=5)
    pos = torch.arange(9)[None]
    cos, sin = (table.double() for table in modeling.LlamaRotaryEmbedding(config)(x, pos))
    mask = torch.full((9, 9), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    expected = theirs(x, position_embeddings=(cos, sin), attention_mask=mask)[0]
    ours = from_llama(theirs.state_dict(), num_heads=6, num_kv_heads=groups)
    torch.testing.assert_close(ours(x, rope=(cos, sin)), expected, rtol=0, atol=1e-6)
    with torch.no_grad():
        cached = _step_by_step(
            lambda part, cache: ours(part, cache=cache, rope=rotate_half_rope), x, KVCache(capacity=9), (4, 3, 1, 1)
        )
    torch.testing.assert_close(cached, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("version", ["v2", "v3"])
def test_an_adapted_deepseek_attention_equals_transformers_at_once_and_cached(version: str, compressed: bool) -> None:
    name = f"deepseek_{version}"
    modeling = pytest.importorskip(f"transformers.models.{name}.modeling_{name}")
    configuration = pytest.importorskip(f"transformers.models.{name}.configuration_{name}")
    title = f"Deepseek{version.upper()}"
    settings: dict[str, Any] = {"rope_interleave": True} if version == "v3" else {}
    config = getattr(configuration, f"{title}Config")(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=10 if compressed else None, kv_lora_rank=12,
        qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=5, attention_bias=False, attn_implementation="eager", **settings,
    )  # fmt: skip
    theirs = _randomise(getattr(modeling, f"{title}Attention")(config, layer_idx=0).double()).eval()
    x = _normal(2, 7, 24, seed=6)
    tables = getattr(modeling, f"{title}RotaryEmbedding")(config)(x, torch.arange(7)[None])
    mask = torch.full((7, 7), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    expected = theirs(x, position_embeddings=tables, attention_mask=mask)[0]
    ours = from_deepseek(theirs.state_dict(), H=3, d=8, d_rope=4, eps=config.rms_norm_eps)
    for mode in ("naive", "absorbed"):
        torch.testing.assert_close(ours(x, mode=mode), expected, rtol=0, atol=1e-6)
    with torch.no_grad():
        cached = _step_by_step(lambda part, cache: ours(part, cache), x, ours.new_cache(2, 7), (3, 2, 1, 1))
    torch.testing.assert_close(cached, expected, rtol=0, atol=1e-6)


YARN = {"factor": 40.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 4096}
SCALINGS = {
    ("v2", 1.5896): YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},  # DeepSeek-V2, V2-Lite
    ("v3", 1.8739): YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},  # DeepSeek-V3, R1
    ("v3", 1.0): YARN | {"original_max_position_embeddings": 64, "factor": 4.0},  # neither mscale: rotated parts grow instead
    ("v2", 1.2965): YARN | {"factor": 4.0, "mscale": 0.5, "mscale_all_dim": 1.0},  # they differ
}


@pytest.mark.parametrize(("version", "factor"), SCALINGS)
def test_an_adapted_deepseek_attention_with_yarn_equals_transformers(version: str, factor: float) -> None:
    name, title = f"deepseek_{version}", f"Deepseek{version.upper()}"
    modeling = pytest.importorskip(f"transformers.models.{name}.modeling_{name}")
    configuration = pytest.importorskip(f"transformers.models.{name}.configuration_{name}")
    settings: dict[str, Any] = {"rope_interleave": True} if version == "v3" else {}
    scaling = SCALINGS[version, factor]
    config = getattr(configuration, f"{title}Config")(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=8,
        qk_rope_head_dim=16, v_head_dim=5, attention_bias=False, attn_implementation="eager",
        max_position_embeddings=int(scaling["factor"] * scaling["original_max_position_embeddings"]),
        rope_parameters=scaling | {"rope_type": "yarn", "rope_theta": 10_000.0}, **settings,
    )  # fmt: skip
    theirs = _randomise(getattr(modeling, f"{title}Attention")(config, layer_idx=0).double()).eval()
    x = _normal(2, 12, 24, seed=6)
    tables = getattr(modeling, f"{title}RotaryEmbedding")(config)(x, torch.arange(12)[None])
    mask = torch.full((12, 12), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    expected = theirs(x, position_embeddings=tables, attention_mask=mask)[0]
    sizes: dict[str, Any] = {"H": 3, "d": 8, "d_rope": 16, "eps": config.rms_norm_eps}
    ours = from_deepseek(theirs.state_dict(), rope_scaling=scaling | {"type": "yarn"}, **sizes)
    assert ours.scale * math.sqrt(8 + 16) == pytest.approx(factor, abs=1e-4)
    for mode in ("naive", "absorbed"):
        torch.testing.assert_close(ours(x, mode=mode), expected, rtol=0, atol=1e-6)
    with torch.no_grad():
        cached = _step_by_step(lambda part, cache: ours(part, cache), x, ours.new_cache(2, 12), (8, 2, 1, 1))
    torch.testing.assert_close(cached, expected, rtol=0, atol=1e-6)
    also = from_deepseek(theirs.state_dict(), rope_scaling=config.rope_parameters, **sizes)
    torch.testing.assert_close(also(x), expected, rtol=0, atol=1e-6)
    unscaled = from_deepseek(theirs.state_dict(), **sizes)(x)
    assert (unscaled - expected).detach().abs().max() > 0.01 * expected.detach().abs().max()  # so the test sees what YaRN changes


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize(("dtype", "atol"), PRECISIONS)
def test_absorbed_latent_attention_equals_naive(dtype: torch.dtype, atol: float, where: str) -> None:
    module = _randomise(LatentAttention(d_model=24, H=3, d=8, d_v=5, d_c=12, d_rope=4)).to(dtype).to(where)
    x = _normal(2, 7, 24, seed=7, dtype=dtype, where=where)
    torch.testing.assert_close(module(x, mode="absorbed"), module(x, mode="naive"), rtol=0, atol=atol)


def _cosine_difference(got: Tensor, expected: Tensor) -> float:
    """As FlashMLA's tests have it: 1 minus twice the inner product over the sum of both squares."""
    got, expected = got.double(), expected.double()
    return float((1 - 2 * (expected * got).sum() / (expected**2 + got**2).sum()).detach())


@pytest.mark.parametrize("where", DEVICES)
def test_decode_steps_on_bfloat16_inputs_are_within_flashmlas_published_tolerance(where: str) -> None:
    """The same bfloat16 inputs to both: what is judged is the step's own arithmetic, on a GPU the kernels'.

    A whole module in bfloat16 is no such test: rounding its weights and activations alone gives 8e-5.
    """
    asks, rows = (_normal(2, *shape, seed=8, where=where, dtype=torch.bfloat16) for shape in ((16, 192), (500, 192)))
    scores = asks.double() @ rows.double().mT / math.sqrt(192)
    got = attend_latents(asks, rows, 128, scale=1 / math.sqrt(192))
    assert got.dtype == torch.bfloat16
    assert _cosine_difference(got, torch.softmax(scores, dim=-1) @ rows.double()[..., :128]) < 1e-5
    q, k, v = (_normal(2, 4, n, 64, seed=n, where=where, dtype=torch.bfloat16) for n in (4, 500, 501))
    v = v[:, :, :500]
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert _cosine_difference(decode(q, k, v), expected) < 1e-5


def test_a_module_in_bfloat16_is_as_near_as_its_roundings_allow() -> None:
    module = _randomise(LatentAttention(d_model=64, H=4, d=16, d_v=16, d_c=32, d_rope=8)).double()
    x = _normal(2, 12, 64, seed=8)
    expected = module(x, mode="naive")
    got = module.to(torch.bfloat16)(x.to(torch.bfloat16), mode="absorbed")
    assert _cosine_difference(got, expected) < 5e-4


def test_the_device_is_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTN_DEVICE", "meta")
    device.cache_clear()
    try:
        assert device() == torch.device("meta")
    finally:
        device.cache_clear()


def test_causal_attention_module_never_looks_ahead() -> None:
    module = _randomise(Attention(d_model=24, num_heads=6, num_kv_heads=2)).double()
    x = _normal(1, 6, 24, seed=9)
    changed = x.clone()
    changed[:, 4:] += 1
    torch.testing.assert_close(module(x)[:, :4], module(changed)[:, :4], rtol=0, atol=0)
