"""Latent attention as a module: its two modes against each other, the lesson's function and DeepSeek's own code."""

import math
from typing import Any

import jaxtyping
import pytest
import torch
from attention_course.memory import NewMemory
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from solutions import device
from solutions.latent import mla_cache_elements, mla_decoupled
from solutions.lib.cache import LatentCache
from solutions.lib.latent import LatentAttention, Yarn, from_deepseek

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
THEIRS: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}  # transformers has float32 inside (norms, complex64 rotations)
H, D_MODEL, D, D_C, D_V, D_ROPE = 3, 12, 5, 7, 2, 4  # transformers wants a d_model that the heads divide


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def module(seed: int = 0, **options: Any) -> LatentAttention:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = LatentAttention(d_model=D_MODEL, H=H, d=D, d_v=D_V, d_c=D_C, d_rope=D_ROPE, **options).double()
        if options.get("norm"):
            for name, parameter in made.named_parameters():
                if "norm" in name:
                    torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return made.requires_grad_(False)


OPTIONS = [{}, {"d_cq": 6}, {"norm": True}, {"d_cq": 6, "norm": True, "base": 50.0}, {"yarn": Yarn(factor=40.0)}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("pieces", [[13], [1] * 13, [5, 1, 4, 3]])
def test_both_modes_agree_with_and_without_a_cache(options: dict[str, Any], pieces: list[int]) -> None:
    attention, x = module(**options), normal(2, 13, D_MODEL, seed=9)
    expected = attention(x, mode="naive")
    assert_close(attention(x, mode="absorbed"), expected, **DOUBLE)
    for mode in ("naive", "absorbed"):
        cache = attention.new_cache(batch=2, capacity=13)
        got = torch.cat([attention(piece, cache, mode=mode) for piece in x.split(pieces, dim=1)], dim=1)
        assert_close(got, expected, **DOUBLE)
        assert cache.length == 13


def test_the_module_is_the_lessons_function() -> None:
    attention, x = module(d_cq=6).cpu(), normal(2, 8, D_MODEL, seed=9)
    w = {name: getattr(attention, name) for name in ("W_DQ", "W_UQ", "W_QR", "W_DKV", "W_KR", "W_UK", "W_UV", "W_O")}
    expected, cached, _ = mla_decoupled(x, (x.new_empty(2, 0, D_C), x.new_empty(2, 0, D_ROPE)), **w)
    cache = attention.new_cache(batch=2, capacity=9)
    assert_close(attention(x, cache), expected, **DOUBLE)
    more = normal(2, 1, D_MODEL, seed=10)
    assert_close(attention(more, cache), mla_decoupled(more, cached, **w)[0], **DOUBLE)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 5e-2)])
def test_both_modes_agree_in_low_precision_on_the_courses_device(dtype: torch.dtype, tolerance: float) -> None:
    attention, x = module(d_cq=6, norm=True), normal(2, 6, D_MODEL, seed=9)
    expected, there = attention(x), attention.to(device(), dtype)
    for mode in ("naive", "absorbed"):
        got = there(x.to(device(), dtype), there.new_cache(batch=2, capacity=6), mode=mode)
        assert got.dtype == dtype
        assert got.device.type == device().type
        assert_close(got.cpu().double(), expected, rtol=tolerance, atol=tolerance)


def test_both_modes_have_the_same_gradients() -> None:
    x, grads = normal(2, 6, D_MODEL, seed=9), []
    attention = module(d_cq=6, norm=True).requires_grad_()
    for mode in ("naive", "absorbed"):
        loss = attention(x, mode=mode).square().sum()
        grads.append(torch.autograd.grad(loss, list(attention.parameters())))
    assert_close(grads[0], grads[1], **DOUBLE)


def test_absorbed_decoding_makes_no_keys_no_values_and_no_copy_of_the_cache() -> None:
    attention, n = module(), 500
    cache = attention.new_cache(batch=1, capacity=n + 1)
    attention(normal(1, n, D_MODEL, seed=9), cache)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, Tensor) and out.untyped_storage().data_ptr() != cache._buffer.untyped_storage().data_ptr():
                largest = max(largest, out.numel())
            return out

    with Watch():
        attention(normal(1, 1, D_MODEL, seed=10), cache)
    assert largest == H * (n + 1)  # the scores; the latents alone would be D_C * (n + 1)


@pytest.mark.parametrize("mode", ["naive", "absorbed"])
def test_no_weight_is_copied_for_each_sequence_of_a_batch(mode: Any) -> None:
    made = {}
    for batch in (1, 8):
        attention = LatentAttention(d_model=64, H=8, d=16, d_v=16, d_c=32, d_rope=8, d_cq=48).requires_grad_(False)
        x, cache = torch.randn(batch, 1, 64), attention.new_cache(batch, 2)
        with NewMemory() as new:
            attention(x, cache, mode=mode)
        made[batch] = new.bytes
    assert made[8] <= 8.5 * made[1]
    assert made[8] < 8 * attention.W_UK.nbytes


def test_absorbed_decoding_of_eight_sequences_makes_less_than_one_weight() -> None:
    attention = LatentAttention(d_model=32, H=16, d=128, d_v=128, d_c=512, d_rope=64).requires_grad_(False)
    q, r, rows = torch.randn(8, 16, 1, 128), torch.randn(8, 16, 1, 64), torch.randn(8, 20, 576)
    with NewMemory() as new:
        attention.absorbed(q, r, rows)
    assert new.bytes < attention.W_UK.nbytes  # 4 MiB; a copy of it for each sequence would be eight times that
    with NewMemory() as copied:
        q @ attention.W_UK.mT
    assert copied.bytes > 8 * attention.W_UK.nbytes  # what `@` does


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # the norm's own, under autocast
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("mode", ["naive", "absorbed"])
def test_decoding_under_autocast_caches_its_dtype_and_stays_near(mode: Any, norm: bool) -> None:
    attention, x = module(d_cq=6, norm=norm).float(), normal(2, 5, D_MODEL, seed=9).float()
    expected = attention(x)
    full = attention.new_cache(batch=2, capacity=5)  # made before, in float32: filled in its own dtype
    with torch.autocast("cpu", torch.bfloat16):
        half = attention.new_cache(batch=2, capacity=5)
        assert (half.dtype, full.dtype) == (torch.bfloat16, torch.float32)
        for cache in (half, full):
            got = torch.cat([attention(piece, cache, mode=mode) for piece in x.split([3, 1, 1], dim=1)], dim=1)
            assert_close(got.float(), expected, rtol=5e-2, atol=5e-2)


def test_a_cache_elsewhere_than_its_tokens_is_refused() -> None:
    cache = LatentCache(batch=1, capacity=4, d_c=D_C, d_rope=D_ROPE, device="meta")
    with pytest.raises(ValueError, match=r"c: expected \(1, 2, 7\) in torch.float32 on meta, got .* on cpu"):
        cache.append(torch.ones(1, 2, D_C), torch.zeros(1, 2, D_ROPE))
    assert cache.length == 0


def test_a_cache_refuses_what_does_not_fit_and_forgets_on_reset() -> None:
    cache = LatentCache(batch=2, capacity=4, d_c=D_C, d_rope=D_ROPE)
    rows = cache.append(torch.ones(2, 3, D_C), torch.zeros(2, 3, D_ROPE))
    assert rows.shape == (2, 3, D_C + D_ROPE)
    assert cache.bytes_per_token == 4 * mla_cache_elements(D_C, D_ROPE, 1)
    with pytest.raises(ValueError, match=r"at most 4 tokens, got 3 \+ 2"):
        cache.append(torch.ones(2, 2, D_C), torch.zeros(2, 2, D_ROPE))
    with pytest.raises(ValueError, match="k_rope: expected"):
        cache.append(torch.ones(2, 1, D_C), torch.zeros(2, 1, D_C))
    with pytest.raises(ValueError, match="Another batch"):
        cache.append(torch.ones(3, 1, D_C), torch.zeros(3, 1, D_ROPE))
    assert cache.length == 3
    cache.reset()
    assert cache.append(torch.ones(2, 4, D_C), torch.zeros(2, 4, D_ROPE)).shape[1] == cache.capacity == 4


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ValueError, match="even d_rope"):
        LatentAttention(D_MODEL, H, D, D_V, D_C, d_rope=3)
    with pytest.raises((ValueError, jaxtyping.TypeCheckError), match="naive"):  # the latter where annotations are checked
        module()(normal(1, 2, D_MODEL), mode="fast")
    with pytest.raises(ValueError, match="no biases"):
        from_deepseek({"o_proj.bias": torch.zeros(1)}, H=1, d=1, d_rope=2)


def test_yarn_changes_only_the_slow_pairs_and_leaves_the_fast_ones() -> None:
    yarn = Yarn(factor=40.0)  # DeepSeek-V3's: d_rope 64, base 10,000, 4,096 tokens
    ratio = yarn.frequencies(64, 10_000.0, normal(1)) / 10_000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    assert_close(ratio[:11], torch.ones(11, dtype=torch.float64))  # pair 10 turns 36 times in 4,096 tokens, pair 11 27 times
    assert_close(ratio[23:], torch.full((9,), 1 / 40, dtype=torch.float64))  # pair 23 turns less than once
    assert (ratio.diff()[10:23] < 0).all()


def test_settings_that_are_not_yarns_are_refused() -> None:
    released = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0}
    assert Yarn.from_config(released) == Yarn(factor=40.0)
    assert Yarn.from_config({"rope_type": "default", "rope_theta": 10_000.0}) is None
    with pytest.raises(ValueError, match="got 'linear'"):
        Yarn.from_config({"type": "linear", "factor": 4.0})
    with pytest.raises(ValueError, match="got also attention_factor"):
        Yarn.from_config(released | {"attention_factor": 1.0})
    with pytest.raises(ValueError, match="expected original_max_position_embeddings in rope_scaling, got factor"):
        Yarn.from_config({"type": "yarn", "factor": 40})


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("q_lora_rank", [None, 6])
def test_deepseeks_own_weights_give_deepseeks_own_outputs(version: int, q_lora_rank: int | None) -> None:
    pytest.importorskip("transformers")
    name = f"deepseek_v{version}"
    models = pytest.importorskip(f"transformers.models.{name}.modeling_{name}")
    settings_of = pytest.importorskip(f"transformers.models.{name}.configuration_{name}")
    config = getattr(settings_of, f"DeepseekV{version}Config")(
        hidden_size=D_MODEL, num_attention_heads=H, num_key_value_heads=H, q_lora_rank=q_lora_rank, kv_lora_rank=D_C,
        qk_nope_head_dim=D, qk_rope_head_dim=D_ROPE, v_head_dim=D_V, attn_implementation="eager",
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = getattr(models, f"DeepseekV{version}Attention")(config, layer_idx=0).double().eval().requires_grad_(False)
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    ours = from_deepseek(theirs.state_dict(), H=H, d=D, d_rope=D_ROPE)
    n = 9
    x, hidden = normal(2, n, D_MODEL, seed=9), torch.ones(n, n, dtype=torch.bool).triu(1)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * 10_000.0 ** (-torch.arange(0, D_ROPE, 2) / D_ROPE)
    twice = torch.cat([angles, angles], dim=-1)[None]
    positions = torch.polar(torch.ones_like(angles), angles)[None] if version == 2 else (twice.cos(), twice.sin())
    mask = torch.zeros(1, 1, n, n, dtype=torch.float64).masked_fill(hidden, -math.inf)
    expected = theirs(x, attention_mask=mask, position_embeddings=positions)[0]
    for mode in ("naive", "absorbed"):
        assert_close(ours(x, mode=mode), expected, **THEIRS)
