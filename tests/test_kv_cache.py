"""Lesson 07: the references against independent oracles, and every number that the lesson's text states."""

import ast
import math
import re
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.testing import assert_close

from autograder.authoring.course import course_root
from solutions import device
from solutions import kv_cache as reference
from solutions.kv_cache import (
    CachedModel,
    KVCache,
    apply_rope,
    attend_cached,
    attention,
    attention_flops,
    cache_bytes,
    forward,
    generate,
    toy_model,
)

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
SINGLE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}  # float32: the builtin and ours are each about 1e-6 off

MODEL = toy_model()
GIVEN = ("apply_rope", "attention", "project", "combine", "forward", "toy_model")


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def text(n: int, *, batch: int = 1, seed: int = 0) -> Tensor:
    return torch.randint(0, 17, (batch, n), generator=torch.Generator().manual_seed(seed))


def in_dtype(model: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    layers = [{name: w.to(device(), dtype) for name, w in layer.items()} for layer in model["layers"]]
    return {"embed": model["embed"].to(device(), dtype), "unembed": model["unembed"].to(device(), dtype), "layers": layers}


# ---------------------------------------------------------------------------------------------- the given functions


def test_the_lessons_locked_cells_hold_the_given_functions_of_the_module() -> None:
    lesson = (course_root() / "lessons" / "07_kv_cache.md").read_text(encoding="utf-8")
    cells = "\n".join(re.findall(r"```\{code-cell\}[^\n]*\n:nbgrader: \{[^\n]*locked: true\}\n\n(.*?)\n```", lesson, re.DOTALL))
    module = (course_root().parent / "solutions" / "kv_cache.py").read_text(encoding="utf-8")
    shown, meant = (
        {node.name: ast.dump(node) for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
        for source in (cells, module)
    )
    assert set(shown) == set(GIVEN)
    assert all(shown[name] == meant[name] for name in GIVEN)


def test_rope_is_multiplication_by_a_complex_phase_and_angles_are_never_half_precision() -> None:
    x, pos = normal(2, 5, 8), torch.tensor([0, 3, 1, 1000, 7])
    theta = 10_000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    phase = torch.polar(torch.ones(5, 4, dtype=torch.float64), pos[:, None] * theta)
    turned = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * phase).flatten(-2)
    assert_close(apply_rope(x, pos), turned, **DOUBLE)
    coarse = apply_rope(x.bfloat16(), pos)
    assert coarse.dtype == torch.bfloat16
    assert_close(coarse.double(), turned, rtol=0, atol=0.05)  # two roundings to 8 bits of numbers up to 3


def test_given_attention_is_the_builtin_and_returns_zeros_where_nothing_is_seen() -> None:
    q, k, v = normal(2, 3, 4, seed=1), normal(2, 5, 4, seed=2), normal(2, 5, 6, seed=3)
    keep = torch.rand(3, 5, generator=torch.Generator().manual_seed(4)) < 0.6
    keep[:, 0] = True
    assert_close(attention(q, k, v, keep), F.scaled_dot_product_attention(q, k, v, attn_mask=keep), **DOUBLE)
    keep[1] = False
    assert (attention(q, k, v, keep)[:, 1] == 0).all()


# ---------------------------------------------------------------------------------------------- the cache


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 3), st.integers(1, 3))
def test_a_cache_holds_what_cat_would_however_the_tokens_come(pieces: list[int], batch: int, heads: int) -> None:
    total = sum(pieces)
    k, v = normal(batch, heads, total, 2), normal(batch, heads, total, 3, seed=1)
    cache = KVCache(capacity=max(total, 1))
    done = 0
    for size in pieces:
        keys, values = cache.append(k[:, :, done : done + size], v[:, :, done : done + size])
        done += size
        assert cache.length == done
        assert torch.equal(keys, k[:, :, :done])
        assert torch.equal(values, v[:, :, :done])


def test_the_past_is_never_copied() -> None:
    cache = KVCache(capacity=4)
    first = cache.append(normal(1, 2, 3, 4), normal(1, 2, 3, 5))
    later = cache.append(normal(1, 2, 1, 4), normal(1, 2, 1, 5))
    assert [x.data_ptr() for x in first] == [x.data_ptr() for x in later]
    assert later[0].stride() == (2 * 4 * 4, 4 * 4, 4, 1)  # (batch, head, capacity, width): one head's tokens side by side


def test_the_cache_is_safe_from_later_changes_of_its_inputs() -> None:
    cache, k = KVCache(capacity=2), normal(1, 1, 1, 3)
    expected = k.clone()
    cache.append(k, k)
    k.zero_()
    keys, _ = cache.append(k, k)
    assert torch.equal(keys[:, :, :1], expected)


def test_other_strides_are_taken_in() -> None:
    k = normal(2, 5, 3, 4).transpose(1, 2)  # as a projection leaves it: (batch, n, head, d) seen as (batch, head, n, d)
    assert not k.is_contiguous()
    assert torch.equal(KVCache(5).append(k, k)[0], k)


def test_after_reset_another_shape_may_come() -> None:
    cache = KVCache(capacity=3)
    cache.append(normal(1, 2, 3, 4), normal(1, 2, 3, 4))
    cache.reset()
    assert cache.length == 0
    assert cache.append(normal(5, 1, 1, 2), normal(5, 1, 1, 2))[0].shape == (5, 1, 1, 2)


def test_an_overfull_cache_says_so_and_stays_as_it_was() -> None:
    cache = KVCache(capacity=3)
    cache.append(normal(1, 1, 2, 4), normal(1, 1, 2, 4))
    with pytest.raises(ValueError, match=r"at most 3 tokens, got 2 \+ 2\. Make a larger cache"):
        cache.append(normal(1, 1, 2, 4), normal(1, 1, 2, 4))
    assert cache.length == 2


@pytest.mark.parametrize(
    ("k", "v", "message"),
    [
        ((2, 1, 1, 4), (2, 1, 1, 4), r"k: expected \(1, 1, 1, 4\) in torch.float64, got \(2, 1, 1, 4\)"),
        ((1, 1, 1, 4), (1, 1, 1, 5), r"v: expected \(1, 1, 1, 4\)"),
        ((1, 3, 1, 4), (1, 3, 1, 4), r"k: expected \(1, 1, 1, 4\)"),
    ],
)
def test_misfits_are_refused(k: tuple[int, ...], v: tuple[int, ...], message: str) -> None:
    cache = KVCache(capacity=3)
    cache.append(normal(1, 1, 1, 4), normal(1, 1, 1, 4))
    with pytest.raises(ValueError, match=message):
        cache.append(normal(*k), normal(*v))
    with pytest.raises(ValueError, match=r"in torch.float64, got .* in torch.float32"):
        cache.append(normal(1, 1, 1, 4, dtype=torch.float32), normal(1, 1, 1, 4))
    assert cache.length == 1


# ---------------------------------------------------------------------------------------------- attention with a past


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, DOUBLE), (torch.float32, SINGLE)])
@pytest.mark.parametrize(("new", "n"), [(1, 1), (1, 7), (2, 3), (5, 5), (3, 7)])
def test_attention_of_the_newest_is_that_of_the_builtin_aligned_lower_right(
    new: int, n: int, dtype: torch.dtype, tolerance: dict[str, Any]
) -> None:
    q, k, v = (normal(2, 3, m, 4, seed=i, dtype=dtype) for i, m in enumerate((new, n, n)))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(new, n))
    assert_close(attend_cached(q, k, v), expected, **tolerance)


def test_chunks_are_slices_of_the_whole_and_need_no_scores_of_all_pairs() -> None:
    q, k, v = (normal(6, 4, seed=i) for i in range(3))
    whole = attend_cached(q, k, v)
    for size in range(1, 7):
        parts = [attend_cached(q[a : a + size], k[: a + size], v[: a + size]) for a in range(0, 6, size)]
        assert_close(torch.cat(parts), whole, **DOUBLE)


def test_more_queries_than_keys_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got 2 keys for 3 queries\. Append before attending"):
        attend_cached(normal(3, 4), normal(2, 4), normal(2, 4))


def test_is_causal_is_aligned_upper_left_so_a_decode_step_sees_key_zero_alone() -> None:
    q, k, v = (normal(6, 4, seed=i) for i in range(3))
    assert_close(F.scaled_dot_product_attention(q[-1:], k, v, is_causal=True), v[:1], **DOUBLE)
    assert_close(F.scaled_dot_product_attention(q[-1:], k, v), attend_cached(q[-1:], k, v), **DOUBLE)
    whole, unmasked = attend_cached(q, k, v), F.scaled_dot_product_attention(q, k, v)
    assert_close(whole[-1], unmasked[-1], **DOUBLE)
    assert (whole[0] - unmasked[0]).abs().max() > 0.1


# ---------------------------------------------------------------------------------------------- the model


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 3), st.integers(0, 99))
def test_logits_are_those_of_a_full_pass_however_the_text_is_split(pieces: list[int], batch: int, seed: int) -> None:
    ids = text(sum(pieces), batch=batch, seed=seed)
    cached = CachedModel(MODEL, capacity=sum(pieces))
    logits = torch.cat([cached.extend(part) for part in torch.split(ids, pieces, dim=1)], dim=1)
    assert_close(logits, forward(MODEL, ids), **DOUBLE)
    assert cached.length == sum(pieces) == cached.caches[-1].length


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 20])
def test_prefill_forgets_the_last_text_and_may_come_in_chunks(chunk: int) -> None:
    cached = CachedModel(MODEL, capacity=12)
    cached.prefill(text(9, seed=1), chunk=4)
    cached.decode_step(text(1, seed=2)[:, 0])
    ids = text(8, seed=3)
    assert_close(cached.prefill(ids[:, :7], chunk), forward(MODEL, ids[:, :7])[:, -1], **DOUBLE)
    assert_close(cached.decode_step(ids[:, 7]), forward(MODEL, ids)[:, -1], **DOUBLE)
    assert cached.length == 8


def test_results_follow_the_device_and_dtype_of_the_model() -> None:
    model, ids = in_dtype(MODEL, torch.float32), text(6).to(device())
    logits = CachedModel(model, 6).prefill(ids, chunk=4)
    assert logits.dtype == torch.float32
    assert logits.device.type == device().type
    assert_close(logits.cpu(), forward(MODEL, text(6))[:, -1].float(), rtol=1e-3, atol=1e-3)  # float32 against float64


@pytest.mark.parametrize(("n0", "n"), [(4, 12), (5, 6), (1, 1), (3, 2)])
def test_both_ways_to_generate_agree_and_their_work_follows_the_formulas(n0: int, n: int) -> None:
    slow, slow_work = generate(MODEL, text(n0, batch=2), n, use_cache=False)
    fast, fast_work = generate(MODEL, text(n0, batch=2), n, use_cache=True)
    assert torch.equal(slow, fast)
    assert slow.shape == (2, n0 + n)
    assert fast_work == n0 + n - 1
    assert slow_work == n * n0 + n * (n - 1) // 2
    assert torch.equal(fast[:, n0:], forward(MODEL, fast)[:, n0 - 1 : -1].argmax(-1))


def test_annotated_shapes_hold_at_run_time() -> None:
    checked = {
        name: jaxtyping.jaxtyped(typechecker=beartype)(getattr(reference, name))
        for name in (*GIVEN, "attend_cached", "generate", "attention_flops", "cache_bytes")
    }
    model, ids = checked["toy_model"](), text(5, batch=2)
    checked["forward"](model, ids, start=torch.zeros(5, dtype=torch.int64))
    checked["generate"](model, ids, 3, True)
    x = checked["project"](normal(2, 5, 24), model["layers"][0]["Wq"])
    o = checked["attend_cached"](checked["apply_rope"](x, torch.arange(5))[:, :, 2:], x, x)
    checked["combine"](o, model["layers"][0]["Wo"])
    checked["attention_flops"](3, 4, True)
    checked["cache_bytes"](1, 2, 3, 4, 5, 2)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked["attend_cached"](x, x[:, :, :3], x)


# ---------------------------------------------------------------------------------------------- numbers in the text


def test_added_tokens_leave_the_past_alone_only_under_a_causal_mask() -> None:
    ids = text(12)
    assert (forward(MODEL, ids)[:, :8] - forward(MODEL, ids[:, :8])).abs().max() < 1e-12
    change = (forward(MODEL, ids, causal=False)[:, :8] - forward(MODEL, ids[:, :8], causal=False)).abs().max()
    assert change.item() == pytest.approx(2.7, abs=0.05)
    single = in_dtype(MODEL, torch.float32)
    ids = ids.to(device())
    assert (forward(single, ids)[:, :8] - forward(single, ids[:, :8])).abs().max() < 1e-5


def test_a_common_shift_of_positions_is_invisible_and_one_of_a_single_token_is_not() -> None:
    right = forward(MODEL, text(12))
    assert (forward(MODEL, text(12), start=100) - right).abs().max() < 1e-12
    for shift, change in ((1, 1.0), (-11, 1.1)):
        offsets = torch.zeros(12, dtype=torch.int64)
        offsets[-1] = shift
        found = forward(MODEL, text(12), start=offsets) - right
        assert (found[:, :-1]).abs().max() < 1e-12
        assert found[:, -1].abs().max().item() == pytest.approx(change, abs=0.05)


def test_the_picture_of_runs_counts_45_and_10_positions() -> None:
    assert generate(MODEL, text(5), 6, use_cache=False)[1] == 45
    assert generate(MODEL, text(5), 6, use_cache=True)[1] == 10
    assert generate(MODEL, text(4), 12, use_cache=False)[1] == 114
    assert generate(MODEL, text(4), 12, use_cache=True)[1] == 15


def test_the_last_new_token_is_never_processed() -> None:
    cached = CachedModel(MODEL, capacity=16)
    token = cached.prefill(text(4), chunk=4).argmax(-1)
    for _ in range(11):
        token = cached.decode_step(token).argmax(-1)
    assert cached.length == 4 + 12 - 1


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_step_costs_n_times_as_many_operations_without_the_cache(n: int, d_model: int) -> None:
    assert attention_flops(n, d_model, cached=False) == n * attention_flops(n, d_model, cached=True)


@pytest.mark.parametrize("cached", [True, False])
def test_operations_are_those_that_torch_counts(cached: bool) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    n, d_model, rows = 6, 12, 1 if cached else 6
    x, w = normal(n, d_model), normal(d_model, d_model, seed=1)
    with FlopCounterMode(display=False) as counter:
        new = x[n - rows :]
        q, _, _ = (new @ w for _ in range(3))
        scores = torch.einsum("qhd,khd->hqk", q.unflatten(-1, (3, 4)), x.unflatten(-1, (3, 4)))
        mixed = torch.einsum("hqk,khd->qhd", scores, x.unflatten(-1, (3, 4)))
        mixed.flatten(1) @ w
    assert counter.get_total_flops() == attention_flops(n, d_model, cached)


def test_scores_catch_up_with_projections_at_twice_the_width() -> None:
    d = 4096
    assert attention_flops(2 * d, d, cached=True) == 2 * 8 * d**2


@pytest.mark.parametrize(("length", "times"), [(64, 32.5), (256, 129.2), (1024, 522.5), (2048, 1062.4)])
def test_a_whole_text_costs_a_little_over_half_its_length_times_as_much(length: int, times: float) -> None:
    without, cached = (sum(attention_flops(i, 4096, c) for i in range(1, length + 1)) for c in (False, True))
    assert without / cached == pytest.approx(times, abs=0.05)


def test_all_cached_steps_together_are_quadratic_and_uncached_ones_cubic() -> None:
    def growth(d_model: int, cached: bool, n: int) -> float:
        short, long = (sum(attention_flops(i, d_model, cached) for i in range(1, m + 1)) for m in (n, 2 * n))
        return long / short

    assert growth(1, True, 2000) == pytest.approx(4, abs=0.01)
    assert growth(1, False, 2000) == pytest.approx(8, abs=0.02)
    assert 3.6 < growth(4096, True, 100_000) < 4


def test_llama_7b_in_numbers() -> None:
    weights, per_token = 2 * 6.7e9, cache_bytes(1, 1, 32, 32, 128, 2)
    assert per_token == 524_288 == 2**19
    assert 2048 * per_token / 1e9 == pytest.approx(1.07, abs=0.005)
    assert round(weights / per_token) == 25_558
    assert weights / per_token / 2048 == pytest.approx(12.5, abs=0.05)
    assert (80e9 - weights) // (2048 * per_token) == 62
    assert 3_100 < weights / (8 * per_token) < 3_200
    assert 390 < weights / (64 * per_token) < 400
    assert cache_bytes(8, 2048, 32, 32, 128, 2) == 16 * (2 * 2048 * 32 * 32 * 128)
    assert cache_bytes(8, 2048, 32, 32, 128, 2) == 32 * cache_bytes(8, 2048, 32, 1, 128, 2)  # lesson 08's promise
    assert sum(n * per_token for n in range(1, 2049)) / 1e9 == pytest.approx(1100, abs=0.5)


def test_cache_bytes_are_what_the_tensors_take() -> None:
    model, ids = in_dtype(MODEL, torch.float32), text(6, batch=2).to(device())
    cached = CachedModel(model, capacity=6)
    cached.prefill(ids, chunk=6)
    held = sum(buffer.nbytes for cache in cached.caches for buffer in cache._buffers)
    assert held == cache_bytes(B=2, n=6, L=2, n_kv=3, d=8, element_bytes=4)


def test_after_an_edit_layer_0_alone_keeps_later_entries() -> None:
    ids, edited = text(12), text(12).clone()
    edited[0, 4] = (ids[0, 4] + 1) % 17
    before, after = CachedModel(MODEL, 12), CachedModel(MODEL, 12)
    before.prefill(ids, chunk=12)
    after.prefill(edited, chunk=12)
    for layer, (one, two) in enumerate(zip(before.caches, after.caches, strict=True)):
        change = (one._buffers[0] - two._buffers[0]).abs().amax(dim=(0, 1, 3))
        assert change[:4].max() < 1e-12
        assert change[4] > 0.1
        assert (change[5:].max() < 1e-12) == (layer == 0)


def test_entries_behind_deleted_tokens_are_those_of_a_fresh_run_in_layer_0_alone() -> None:
    whole, rest = CachedModel(MODEL, 12), CachedModel(MODEL, 12)
    whole.prefill(text(12), chunk=12)
    rest.prefill(text(12)[:, 3:], chunk=12)
    for layer in (0, 1):
        change = (whole.caches[layer]._buffers[1][:, :, 3:12] - rest.caches[layer]._buffers[1][:, :, :9]).abs().max()
        assert (change < 1e-12) == (layer == 0)
    assert math.isfinite(change)
