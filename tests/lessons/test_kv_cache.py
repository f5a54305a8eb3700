"""Chapter 07: the references against independent oracles, and every number that the lesson's text states."""

import ast
import math
import re
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from attention_course.language_model import load_model
from attention_course.language_model.quality import passage
from attention_course.language_model.reference import logits_with, reference_logits
from attention_course.toy_decoder import Remembering, apply_rope
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.testing import assert_close

from autograder.authoring.course import course_root
from course.exercises.kv_cache.costs import PUBLISHED
from solutions import device
from solutions import kv_cache as reference
from solutions.kv_cache import (
    CachedModel,
    attend_cached,
    attention,
    attention_flops,
    bytes_per_token,
    cache_bytes,
    forward,
    scores_outgrow_cache,
    step_flops,
    tokens_processed,
    toy_model,
)
from solutions.lib.cache import KVCache

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
SINGLE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}  # float32: the builtin and ours are each about 1e-6 off

MODEL = toy_model()
GIVEN = ("apply_rope", "attention", "project", "combine", "forward", "toy_model")
WORDS = "she ate the ripe pear because it was sweet"


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def text(n: int, *, batch: int = 1, seed: int = 0) -> Tensor:
    return torch.randint(0, 17, (batch, n), generator=torch.Generator().manual_seed(seed))


def in_dtype(model: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    layers = [{name: w.to(device(), dtype) for name, w in layer.items()} for layer in model["layers"]]
    return {"embed": model["embed"].to(device(), dtype), "unembed": model["unembed"].to(device(), dtype), "layers": layers}


# ---------------------------------------------------------------------------------------------- the given functions


def locked(name: str) -> dict[str, ast.stmt]:
    """The functions and classes of a notebook's locked cells, by name."""
    lesson = (course_root() / "lessons" / f"{name}.md").read_text(encoding="utf-8")
    cells = re.findall(r"```\{code-cell\}[^\n]*\n:nbgrader: \{[^\n]*locked: true\}\n\n(.*?)\n```", lesson, re.DOTALL)
    nodes = (node for cell in cells for node in ast.parse(cell).body)
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize(("name", "given"), [("07b_a_decoder_in_chunks", "forward"), ("07c_what_it_costs", "cache_bytes")])
def test_locked_cells_hold_the_given_functions_of_the_module(name: str, given: str) -> None:
    module = ast.parse((course_root().parent / "solutions" / "kv_cache.py").read_text(encoding="utf-8"))
    meant = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == given)
    assert ast.dump(locked(name)[given]) == ast.dump(meant)


def shown_model() -> type[CachedModel]:
    """The class with two bugs that notebook 07b shows."""
    node = locked("07b_a_decoder_in_chunks")["CachedModelAsShown"]
    names: dict[str, Any] = {**vars(reference), "torch": torch}
    exec(ast.unparse(node), names)
    found: type[CachedModel] = names["CachedModelAsShown"]
    return found


@pytest.mark.parametrize(
    ("pieces", "agrees"), [([12], True), ([1] * 12, True), ([4, 4, 4], True), ([9, 1, 1, 1], False), ([3, 4, 5], False)]
)
def test_calls_of_equal_size_hide_the_bug_of_the_decoder_as_shown(pieces: list[int], agrees: bool) -> None:
    ids, cached = text(12), shown_model()(MODEL, 12)
    logits = torch.cat([cached.extend(part) for part in ids.split(pieces, dim=1)], dim=1)
    assert torch.allclose(logits, forward(MODEL, ids), atol=1e-9) == agrees


def test_the_decoder_as_shown_takes_tokens_back_in_layer_0_alone() -> None:
    cached = shown_model()(MODEL, 12)
    cached.extend(text(6))
    cached.rewind(2)
    assert [cache.length for cache in cached.caches] == [4, 6]


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


def test_tokens_of_another_device_are_refused_not_copied_silently() -> None:
    cache, k = KVCache(capacity=2), normal(1, 1, 1, 3)
    cache.append(k, k)
    with pytest.raises(ValueError, match=r"k: expected .* in torch.float64 on cpu, got .* in torch.float64 on meta"):
        cache.append(k.to("meta"), k.to("meta"))
    assert cache.length == 1


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


@pytest.mark.parametrize("n", [0, 1, 3, 5])
def test_rewinding_is_as_if_the_newest_had_never_come(n: int) -> None:
    k, v, other = normal(1, 2, 5, 4), normal(1, 2, 5, 3, seed=1), normal(1, 2, 2, 4, seed=2)
    cache = KVCache(capacity=7)
    cache.append(k, v)
    cache.rewind(n)
    assert cache.length == 5 - n
    keys, _ = cache.append(other, other[..., :3])
    assert torch.equal(keys, torch.cat([k[:, :, : 5 - n], other], dim=2))


@pytest.mark.parametrize("n", [-1, 4])
def test_rewinding_further_than_the_beginning_is_refused(n: int) -> None:
    cache = KVCache(capacity=3)
    cache.append(normal(1, 1, 3, 4), normal(1, 1, 3, 4))
    with pytest.raises(ValueError, match=f"expected 0 to 3 tokens to forget, got {n}"):
        cache.rewind(n)
    assert cache.length == 3


@pytest.mark.parametrize(
    ("k", "v", "message"),
    [
        ((2, 1, 1, 4), (2, 1, 1, 4), r"k: expected \(1, 1, 1, 4\) in torch.float64 on cpu, got \(2, 1, 1, 4\)"),
        ((1, 1, 1, 4), (1, 1, 1, 5), r"v: expected \(1, 1, 1, 4\)"),
        ((1, 3, 1, 4), (1, 3, 1, 4), r"k: expected \(1, 1, 1, 4\)"),
    ],
)
def test_misfits_are_refused(k: tuple[int, ...], v: tuple[int, ...], message: str) -> None:
    cache = KVCache(capacity=3)
    cache.append(normal(1, 1, 1, 4), normal(1, 1, 1, 4))
    with pytest.raises(ValueError, match=message):
        cache.append(normal(*k), normal(*v))
    with pytest.raises(ValueError, match=r"in torch.float64 on cpu, got .* in torch.float32"):
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


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_rewound_model_goes_on_as_if_the_draft_had_never_been(n: int) -> None:
    ids = text(9, batch=2)
    cached = CachedModel(MODEL, capacity=16)
    cached.extend(ids[:, :6])
    cached.extend(text(n, batch=2, seed=5))
    cached.rewind(n)
    assert cached.length == 6
    assert_close(cached.extend(ids[:, 6:]), forward(MODEL, ids)[:, 6:], **DOUBLE)


def test_after_a_swap_the_past_stays_as_the_old_weights_made_it() -> None:
    ids, other = text(9), toy_model(d_model=24)
    other["embed"] = MODEL["embed"].flip(0)
    cached = CachedModel(MODEL, capacity=9)
    cached.extend(ids[:, :8])
    kept = [buffer.clone() for cache in cached.caches for buffer in cache._buffers]
    cached.swap(other)
    logits = cached.decode_step(ids[:, 8])
    assert all(
        torch.equal(a[:, :, :8], b[:, :, :8]) for a, b in zip(kept, (b for c in cached.caches for b in c._buffers), strict=True)
    )
    assert (logits - forward(other, ids)[:, -1]).abs().max() > 0.1


def test_results_follow_the_device_and_dtype_of_the_model() -> None:
    model, ids = in_dtype(MODEL, torch.float32), text(6).to(device())
    logits = CachedModel(model, 6).prefill(ids, chunk=4)
    assert logits.dtype == torch.float32
    assert logits.device.type == device().type
    assert_close(logits.cpu(), forward(MODEL, text(6))[:, -1].float(), rtol=1e-3, atol=1e-3)  # float32 against float64


def written(n0: int, n: int, *, cached: bool) -> tuple[Tensor, int]:
    """Write `n` tokens greedily after a prompt of `n0`, and count the tokens that the model processes."""
    ids, model, processed = text(n0, batch=2), CachedModel(MODEL, capacity=n0 + n), 0
    for _ in range(n):
        new = ids[:, model.length :] if cached else ids
        logits = model.extend(new) if cached else forward(MODEL, new)
        processed += new.shape[1]
        ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return ids, processed


@pytest.mark.parametrize(("n0", "n"), [(4, 12), (5, 6), (1, 1), (3, 2), (9, 8)])
def test_both_ways_write_the_same_and_process_as_many_tokens_as_counted(n0: int, n: int) -> None:
    (slow, slow_work), (fast, fast_work) = (written(n0, n, cached=cached) for cached in (False, True))
    assert torch.equal(slow, fast)
    assert slow_work == tokens_processed(n0, n, cached=False) == n * n0 + n * (n - 1) // 2
    assert fast_work == tokens_processed(n0, n, cached=True) == n0 + n - 1


def test_annotated_shapes_hold_at_run_time() -> None:
    checked = {
        name: jaxtyping.jaxtyped(typechecker=beartype)(getattr(reference, name))
        for name in (
            *GIVEN,
            "attend_cached",
            "tokens_processed",
            "attention_flops",
            "step_flops",
            "cache_bytes",
        )
    }
    model, ids = checked["toy_model"](), text(5, batch=2)
    checked["forward"](model, ids, pos=torch.zeros(5, dtype=torch.int64), keep=torch.ones(5, 5, dtype=torch.bool))
    checked["tokens_processed"](3, 4, True)
    x = checked["project"](normal(2, 5, 24), model["layers"][0]["W_Q"])
    o = checked["attend_cached"](checked["apply_rope"](x, torch.arange(5))[:, :, 2:], x, x)
    checked["combine"](o, model["layers"][0]["W_O"])
    checked["attention_flops"](3, 4, True)
    checked["step_flops"](3, 4, 4, True)
    checked["cache_bytes"](1, 2, 3, 4, 5, 2)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked["attend_cached"](x, x[:, :, :3], x)


# ---------------------------------------------------------------------------------------------- numbers in the text


def real_words() -> tuple[dict[str, Any], Tensor]:
    """A toy model with SmolLM2's vocabulary, and a text: nine words, and the three that SmolLM2 writes after them."""
    smol = load_model()
    ids = torch.tensor([smol.tokenizer.encode(WORDS).ids])
    for _ in range(3):
        ids = torch.cat([ids, reference_logits(smol.weights, ids)[:, -1].argmax(-1, keepdim=True)], dim=1)
    return toy_model(vocab=49_152), ids


def test_smollm2_writes_on_as_the_lesson_says() -> None:
    smol, (_, ids) = load_model(), real_words()
    assert smol.tokenizer.encode(WORDS).tokens == ["she", *(f"\u0120{word}" for word in WORDS.split()[1:])]  # a word, a token
    assert smol.tokenizer.decode(ids[0].tolist()) == f"{WORDS} and delicious."
    held = [p for layer in smol.weights["layers"] for p in layer.values() if torch.is_tensor(p)]
    assert round((sum(p.nbytes for p in held) + smol.weights["embed"].nbytes) / 1e6) == 538
    assert (len(smol.weights["layers"]), smol.weights["layers"][0]["H"], smol.weights["layers"][0]["G"]) == (30, 9, 3)


@pytest.mark.slow
def test_logits_with_attention_that_remembers_are_those_of_a_full_pass() -> None:
    from attention_course.language_model.reference import PlainAttention

    smol, (_, ids) = load_model(), real_words()
    layers = [PlainAttention(layer, 12) for layer in smol.weights["layers"]]
    remembering = [Remembering(layer, KVCache(12), attend_cached) for layer in smol.weights["layers"]]
    for kind in (layers, remembering):
        pieces = [logits_with(smol.weights, part, kind) for part in ids.split([9, 1, 2], dim=1)]
        assert_close(torch.cat(pieces, dim=1), reference_logits(smol.weights, ids), rtol=1e-4, atol=2e-4)  # float32, 30 layers


def test_the_lessons_attend_is_right_for_a_prompt_and_for_one_token_and_wrong_for_chunks_of_three() -> None:
    lesson = (course_root() / "lessons" / "07_kv_cache.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"F": F}
    exec(lesson[lesson.index("def attend(") :].split("\n```")[0], names)
    smol, (_, ids) = load_model(), real_words()
    whole = reference_logits(smol.weights, ids[:, :9])
    assert_close(reference_logits(smol.weights, ids)[:, :9], whole, rtol=0, atol=1e-3)  # three more tokens change nothing
    for chunk, right in ((1, True), (3, False), (9, True)):
        for attend, agrees in ((names["attend"], right), (attend_cached, True)):
            layers = [Remembering(layer, KVCache(9), attend) for layer in smol.weights["layers"]]
            pieces = [logits_with(smol.weights, part, layers) for part in ids[:, :9].split(chunk, dim=1)]
            assert torch.allclose(torch.cat(pieces, dim=1), whole, atol=1e-3) == agrees


@pytest.mark.slow
def test_on_a_page_of_real_text_the_mask_of_the_wrong_corner_costs_nearly_everything() -> None:
    smol = load_model("cpu")
    ids = passage(smol, "comparisons", 512)

    def upper_left(q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, K, V, is_causal=True)

    def perplexity(attend: Any, chunk: int) -> float:
        layers = [Remembering(layer, KVCache(512), attend) for layer in smol.weights["layers"]]
        logits = torch.cat([logits_with(smol.weights, part, layers) for part in ids.split(chunk, dim=1)], dim=1)
        return F.cross_entropy(logits[0, :-1], ids[0, 1:]).exp().item()

    assert perplexity(upper_left, 64) == pytest.approx(957, abs=20)
    for chunk in (64, 512):
        assert perplexity(attend_cached, chunk) == pytest.approx(14.2, abs=0.05)


def test_added_tokens_leave_the_past_alone_only_under_a_causal_mask() -> None:
    model, ids = real_words()
    everyone = torch.ones(12, 12, dtype=torch.bool)
    assert (forward(model, ids)[:, :9] - forward(model, ids[:, :9])).abs().max() < 1e-12
    change = forward(model, ids, keep=everyone)[:, :9] - forward(model, ids[:, :9], keep=everyone[:9, :9])
    assert change.abs().max() > 1
    single = in_dtype(model, torch.float32)
    ids = ids.to(device())
    assert (forward(single, ids)[:, :9] - forward(single, ids[:, :9])).abs().max() < 2e-5  # up to rounding


def test_a_common_shift_of_positions_is_invisible_and_one_of_a_single_token_is_not() -> None:
    model, ids = toy_model(vocab=17), torch.arange(12)[None]  # those of notebook 07b
    right, places = forward(model, ids), torch.arange(12)
    assert (forward(model, ids, pos=places + 100) - right).abs().max() < 1e-9
    for place in (12, 0):
        found = forward(model, ids, pos=torch.cat([places[:11], torch.tensor([place])])) - right
        assert found[:, :-1].abs().max() < 1e-12
        assert found[:, -1].abs().max() > 0.5


def test_the_picture_of_runs_counts_30_and_11_tokens_and_at_last_100_and_16() -> None:
    assert tokens_processed(9, 3, cached=False) == 9 + 10 + 11 == 30
    assert tokens_processed(9, 3, cached=True) == 11 == 30 - 19
    assert [tokens_processed(9, 8, cached) for cached in (False, True)] == [100, 16]


def test_the_last_new_token_is_never_processed() -> None:  # A.53 in the appendix
    cached = CachedModel(MODEL, capacity=21)
    token = cached.prefill(text(9), chunk=4).argmax(-1)
    for _ in range(11):
        token = cached.decode_step(token).argmax(-1)
    assert cached.length == 9 + 12 - 1


def test_two_new_tokens_by_hand() -> None:
    values = torch.tensor([[0.0], [2.0], [7.0]])
    assert_close(attend_cached(torch.zeros(2, 4), torch.zeros(3, 4), values), torch.tensor([[1.0], [3.0]]))


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_step_costs_n_times_as_many_operations_without_the_cache(n: int, d_model: int) -> None:
    assert step_flops(n, d_model, 4, cached=False) == n * step_flops(n, d_model, 4, cached=True)
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
    with counter:
        new @ normal(d_model, 4 * d_model) @ normal(4 * d_model, d_model)
    assert counter.get_total_flops() == step_flops(n, d_model, 4, cached) - attention_flops(n, d_model, cached)


def test_scores_catch_up_with_the_matrices_at_six_times_the_width_and_in_attention_alone_at_twice() -> None:
    d = 4096
    assert 6 * d == 24_576
    assert step_flops(6 * d, d, 4, cached=True) == 2 * 24 * d**2
    assert attention_flops(2 * d, d, cached=True) == 2 * 8 * d**2


def test_most_of_what_a_cache_spares_is_the_feed_forward_part() -> None:
    n, d = 2048, 4096
    spared, saved = (n - 1) * 2 * d**2, step_flops(n, d, 4, cached=False) - step_flops(n, d, 4, cached=True)
    shares = [2 * spared / saved, 2 * spared / saved, 8 * spared / saved, 4 * (n - 1) * n * d / saved]
    assert sum(shares) == 1
    assert [round(share, 2) for share in shares] == [0.15, 0.15, 0.62, 0.08]


def test_all_cached_steps_together_are_quadratic_and_uncached_ones_cubic() -> None:
    def growth(d_model: int, cached: bool, n: int) -> float:
        short, long = (sum(attention_flops(i, d_model, cached) for i in range(1, m + 1)) for m in (n, 2 * n))
        return long / short

    assert growth(1, True, 2000) == pytest.approx(4, abs=0.01)
    assert growth(1, False, 2000) == pytest.approx(8, abs=0.02)
    assert 3.6 < growth(4096, True, 100_000) < 4


def test_scores_add_up_to_a_quadratic_sum_with_the_cache_and_a_cubic_one_without() -> None:  # erratum 07.1
    def growth(power: int) -> float:
        short, long = (sum(t**power for t in range(n + 1)) for n in (2000, 4000))
        return long / short

    assert growth(1) == pytest.approx(4, abs=0.005)
    assert growth(2) == pytest.approx(8, abs=0.01)


@pytest.mark.parametrize(("sizes", "n"), [((30, 9, 3, 64), 1280), ((32, 32, 32, 128), 8192)])
def test_the_scores_of_a_layer_outgrow_the_whole_cache(sizes: tuple[int, int, int, int], n: int) -> None:
    L, H, n_kv, d = sizes
    assert scores_outgrow_cache(L, H, n_kv, d) == n
    assert H * n * n * 4 == cache_bytes(1, n, L, n_kv, d, 4)


def test_growing_by_cat_moves_three_times_the_bytes_of_a_buffer() -> None:
    steps = range(1, 2049)
    read = sum(steps)  # attention, in tokens' entries
    assert (read + sum(n - 1 + n for n in steps)) / (read + len(steps)) == pytest.approx(3, abs=0.01)


def test_the_configs_of_07c_are_those_of_the_exercise_and_give_the_bytes_that_its_text_compares() -> None:
    text = (course_root() / "lessons" / "07c_what_it_costs.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(text[text.index("CONFIGS = {") : text.index("```", text.index("CONFIGS = {"))], names)
    assert names["CONFIGS"] == PUBLISHED
    kept = {name: bytes_per_token(config) for name, config in PUBLISHED.items()}
    assert kept == {"LLaMA-7B": 524_288, "SmolLM2-135M": 23_040, "Llama 3.1 8B": 131_072, "Qwen3-0.6B": 114_688}
    for name, (layers, kv_heads, d) in {
        "SmolLM2-135M": (30, 3, 64),
        "Llama 3.1 8B": (32, 8, 128),
        "Qwen3-0.6B": (28, 8, 128),
    }.items():
        assert kept[name] == cache_bytes(1, 1, layers, kv_heads, d, 2)
    assert 0.85 < kept["Qwen3-0.6B"] / kept["Llama 3.1 8B"] < 0.9
    assert round(8.0 / 0.6) == 13


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
