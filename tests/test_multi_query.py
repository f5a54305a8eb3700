"""Lesson 08: the references against independent oracles, and every number that the lesson's text states."""

import math
import re
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from attention_course import head_sets
from attention_course.head_sets import decode
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from autograder.authoring.course import course_root
from solutions import device
from solutions import multi_query as reference
from solutions.kv_cache import cache_bytes
from solutions.multi_head import mha
from solutions.multi_query import (
    arithmetic_intensity,
    causal_attention,
    critical_batch,
    decode_time_floor,
    longest_context,
    merge_heads,
    mqa,
    mqa_step,
    split_heads,
    tokens_a_second,
)

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
SINGLE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}  # float32: the builtin and ours are each about 1e-6 off

P, L, H, D, ELEMENT = 7_000_000_000, 32, 32, 128, 2  # the lesson's example model
BANDWIDTH, PEAK, CAPACITY = 4.3e12, 790e12, 141e9  # its assumed machine


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def layer(d_model: int, heads: int, d_k: int, d_v: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    shapes = (d_model, heads * d_k), (d_model, d_k), (d_model, d_v), (heads * d_v, d_model)
    return tuple(normal(*shape, seed=i, dtype=dtype) / math.sqrt(shape[0]) for i, shape in enumerate(shapes))


# ---------------------------------------------------------------------------------------------- attention


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, DOUBLE), (torch.float32, SINGLE)])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_multi_query_attention_is_the_builtin_with_one_key_value_head(
    lead: tuple[int, ...], dtype: torch.dtype, tolerance: dict[str, Any]
) -> None:
    wq, wk, wv, wo = layer(5, 4, 3, 2, dtype)
    x = normal(*lead, 7, 5, seed=9, dtype=dtype)
    output, k, v = mqa(x, wq, wk, wv, wo, 4)
    q = split_heads(x @ wq, 4)
    shared = (t.unsqueeze(-3).expand(*lead, 4, -1, -1) for t in (x @ wk, x @ wv))
    assert_close(output, merge_heads(F.scaled_dot_product_attention(q, *shared, is_causal=True)) @ wo, **tolerance)
    assert k.shape == (*lead, 7, 3)
    assert v.shape == (*lead, 7, 2)


def test_multi_query_is_multi_head_attention_with_equal_heads() -> None:
    wq, wk, wv, wo = layer(5, 4, 3, 2)
    x = normal(2, 7, 5, seed=9)
    causal = torch.ones(7, 7, dtype=torch.bool).tril()
    expected, _ = mha(x, wq, wk.repeat(1, 4), wv.repeat(1, 4), wo, 4, causal)
    assert_close(mqa(x, wq, wk, wv, wo, 4)[0], expected, **DOUBLE)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 6), heads=st.integers(1, 4), d_k=st.integers(1, 4), d_v=st.integers(1, 4), seed=st.integers(0, 99))
def test_steps_add_up_to_the_whole(n: int, heads: int, d_k: int, d_v: int, seed: int) -> None:
    weights = layer(5, heads, d_k, d_v)
    x = normal(2, n, 5, seed=seed)
    whole, k, v = mqa(x, *weights, heads)
    past = normal(2, 0, d_k), normal(2, 0, d_v)
    rows = []
    for i in range(n):
        y, *past = mqa_step(x[:, i], *weights, heads, *past)
        rows.append(y)
    assert_close(torch.stack(rows, 1), whole, **DOUBLE)
    assert_close(past[0], k, **DOUBLE)
    assert_close(past[1], v, **DOUBLE)


def test_a_step_leaves_the_cache_it_was_given_alone() -> None:
    k, v = normal(3, 2), normal(3, 4)
    before = k.clone(), v.clone()
    mqa_step(normal(5), *layer(5, 3, 2, 4), 3, k, v)
    assert_close((k, v), before, rtol=0, atol=0)


def test_a_causal_mask_over_heads_would_hide_the_newest_tokens_from_all_but_the_last_head() -> None:
    q, k, v = normal(3, 2), normal(5, 2, seed=1), torch.eye(5, dtype=torch.float64)
    wrong = causal_attention(q, k, v)  # three heads of one token, taken for three tokens
    assert (wrong == 0).sum(-1).tolist() == [2, 1, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_follow_the_device_and_dtype_of_the_inputs(dtype: torch.dtype) -> None:
    weights = [w.to(device(), dtype) for w in layer(5, 3, 2, 4)]
    x = normal(4, 5, seed=9).to(device(), dtype)
    results = [*mqa(x, *weights, 3), *mqa_step(x[0], *weights, 3, (x @ weights[1]), (x @ weights[2]))]
    assert all(y.dtype == dtype and y.device.type == device().type for y in results)


def test_annotated_shapes_hold_at_run_time() -> None:
    checked = {name: jaxtyping.jaxtyped(typechecker=beartype)(getattr(reference, name)) for name in ("mqa", "mqa_step")}
    weights = layer(5, 3, 2, 4)
    checked["mqa"](normal(2, 7, 5), *weights, 3)
    checked["mqa_step"](normal(2, 5), *weights, 3, normal(2, 7, 2), normal(2, 7, 4))
    with pytest.raises(jaxtyping.TypeCheckError):
        checked["mqa"](normal(2, 7, 5), weights[0].T, *weights[1:], 3)


# ---------------------------------------------------------------------------------------------- counts


def test_what_mqa_returns_is_the_cache_of_lesson_07_with_one_head() -> None:
    _, k, v = mqa(normal(7, 5), *layer(5, 3, 4, 4), 3)
    assert k.nbytes + v.nbytes == cache_bytes(B=1, n=7, L=1, n_kv=1, d=4, element_bytes=8)


def test_intensity_by_hand_is_three_quarters_and_with_a_second_head_one_and_a_fifth() -> None:
    assert arithmetic_intensity(H=1, G=1, n=3, element_bytes=2) == (12 + 12) / (8 * 2 * 2) == 0.75
    assert arithmetic_intensity(H=2, G=1, n=3, element_bytes=2) == 48 / 40 == 1.2


@settings(max_examples=50, deadline=None)
@given(heads=st.integers(1, 64), n=st.integers(1, 10_000), element=st.sampled_from([1, 2, 4]))
def test_intensity_lies_below_two_flops_per_element_and_sharing_head(heads: int, n: int, element: int) -> None:
    assert arithmetic_intensity(heads, heads, n, element) < 2 / element
    assert arithmetic_intensity(heads, 1, n, element) < 2 * heads / element
    assert arithmetic_intensity(heads, 1, n, element) >= arithmetic_intensity(heads, heads, n, element)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("queries", [1, 7])  # a decode step; a prompt, whose scores are counted in full
def test_intensity_is_the_flops_that_torch_counts_over_the_bytes_of_the_arrays(groups: int, queries: int) -> None:
    heads, n, d, element = 6, 7, 5, 2
    q = normal(groups, heads // groups * queries, d)
    k, v = normal(2, groups, n, d, seed=1)
    with FlopCounterMode(display=False) as counter:
        output = (q @ k.mT) @ v
    intensity = counter.get_total_flops() / (element * sum(x.numel() for x in (q, k, v, output)))
    if queries == 1:
        assert arithmetic_intensity(heads, groups, n, element) == pytest.approx(intensity)
    else:
        assert 2 * heads * n / (element * (groups + heads)) == pytest.approx(intensity)  # the lesson's prefill


def test_the_flops_of_the_floor_are_those_that_torch_counts() -> None:
    batch, n, layers, heads, groups, d = 3, 7, 2, 6, 2, 5
    matrices = [torch.empty(s, device="meta") for s in ((11, 13), (13, 17))]  # stand for all parameters
    q, k = (torch.empty(batch, groups, rows, d, device="meta") for rows in (heads // groups, n))
    with FlopCounterMode(display=False) as counter:
        torch.empty(batch, 11, device="meta") @ matrices[0] @ matrices[1]
        for _ in range(layers):
            (q @ k.mT) @ k
    parameters = sum(m.numel() for m in matrices)
    floor = decode_time_floor(parameters, batch, n, layers, heads, groups, d, ELEMENT, bandwidth=1e30, peak=1.0)
    assert floor == counter.get_total_flops()


def test_the_floor_counted_by_hand_in_the_lesson_reads_440_bytes_and_takes_1360_flops() -> None:
    sizes = {"P": 100, "B": 2, "n": 3, "L": 2, "H": 4, "G": 1, "d": 5, "element_bytes": ELEMENT}
    assert decode_time_floor(**sizes, bandwidth=1.0, peak=1e9) == 440
    assert decode_time_floor(**sizes, bandwidth=1e9, peak=1.0) == 1360


def test_the_floor_is_the_longer_of_two_times_and_falls_with_neither_resource_alone() -> None:
    memory_bound = decode_time_floor(P, 1, 8192, L, H, H, D, ELEMENT, BANDWIDTH, PEAK)
    assert decode_time_floor(P, 1, 8192, L, H, H, D, ELEMENT, BANDWIDTH, 10 * PEAK) == memory_bound
    assert decode_time_floor(P, 1, 8192, L, H, H, D, ELEMENT, 2 * BANDWIDTH, PEAK) == pytest.approx(memory_bound / 2)
    compute_bound = decode_time_floor(P, 4096, 16, L, H, 1, D, ELEMENT, BANDWIDTH, PEAK)
    assert decode_time_floor(P, 4096, 16, L, H, 1, D, ELEMENT, 10 * BANDWIDTH, PEAK) == compute_bound
    assert compute_bound == pytest.approx(4096 * (2 * P + 4 * 16 * L * H * D) / PEAK)


# ---------------------------------------------------------------------------------------------- the lesson's numbers


def per_token_ms(batch: int, n: int, groups: int) -> float:
    return 1e3 * decode_time_floor(P, batch, n, L, H, groups, D, ELEMENT, BANDWIDTH, PEAK) / batch


def cache_gb(kind: str, n: int = 8192) -> float:
    return cache_bytes(B=1, n=n, L=L, n_kv={"mha": H, "mqa": 1}[kind], d=D, element_bytes=ELEMENT) / 1e9


def test_four_multi_head_sequences_or_more_than_a_hundred_multi_query_ones_outweigh_the_model() -> None:
    parameters = P * ELEMENT / 1e9
    assert parameters == 14
    assert cache_gb("mha") == pytest.approx(4.295, abs=5e-4)
    assert cache_gb("mqa") == pytest.approx(0.134, abs=5e-4)
    assert 3 * cache_gb("mha") < parameters < 4 * cache_gb("mha")
    assert 100 < parameters / cache_gb("mqa") < 110


def test_the_roofline_has_its_border_at_184_and_decoding_far_to_its_left() -> None:
    assert round(PEAK / BANDWIDTH) == 184
    multi_head, multi_query = (arithmetic_intensity(H, groups, 8192, ELEMENT) for groups in (H, 1))
    assert multi_head == pytest.approx(1, abs=1e-3)
    assert multi_query == pytest.approx(31.88, abs=5e-3)
    assert multi_head * BANDWIDTH / PEAK < 0.01  # more than 99 % of the step is waiting
    assert multi_query * BANDWIDTH / PEAK == pytest.approx(0.173, abs=1e-3)
    assert multi_query / multi_head == pytest.approx(32, rel=5e-3)
    assert [round(arithmetic_intensity(heads, 1, 8192, ELEMENT)) for heads in (32, 128, 256)] == [32, 126, 248]  # erratum 08.1
    assert arithmetic_intensity(185, 1, 10**6, ELEMENT) > PEAK / BANDWIDTH > arithmetic_intensity(183, 1, 10**6, ELEMENT)
    assert round(2 * 128 * (576 + 512) / (2 * 576)) == 242  # DeepSeek-V2: 576 cached numbers, keys of 576, values of 512
    prefill = [2 * H * 8192 / (ELEMENT * (groups + H)) for groups in (H, 1)]
    assert min(prefill) > PEAK / BANDWIDTH


def test_a_batch_shares_the_parameters_and_not_the_caches() -> None:
    ratios = {batch: per_token_ms(batch, 8192, H) / per_token_ms(batch, 8192, 1) for batch in (1, 16, 256)}
    assert ratios[1] == pytest.approx(1.29, abs=0.01)
    assert ratios[1] == pytest.approx((14 + cache_gb("mha")) / (14 + cache_gb("mqa")))  # 18.3 / 14.1
    assert ratios[16] == pytest.approx(5.1, abs=0.05)
    assert ratios[256] == pytest.approx(23.0, abs=0.05)
    assert 250 < 256 * per_token_ms(256, 8192, H) < 265  # a quarter of a second for the step
    one_cache = 1e9 * cache_gb("mha") / BANDWIDTH * 1e3
    assert one_cache == pytest.approx(1.0, abs=0.005)
    assert per_token_ms(2**20, 8192, H) == pytest.approx(one_cache, rel=1e-3)
    assert 14 / cache_gb("mha") == pytest.approx(3.26, abs=0.01)  # where the curve bends
    shares = [batch * cache_gb("mha") / (14 + batch * cache_gb("mha")) for batch in (1, 16, 256)]
    assert [round(share, 2) for share in shares] == [0.23, 0.83, 0.99]


def test_sixteen_multi_head_and_512_multi_query_sequences_fit() -> None:
    fits = {kind: (CAPACITY / 1e9 - 14) / cache_gb(kind) for kind in ("mha", "mqa")}
    assert 16 <= fits["mha"] < 32
    assert 512 <= fits["mqa"] < 1024


def test_parameters_alone_wait_for_arithmetic_from_the_critical_batch_on() -> None:
    assert pytest.approx(183.7, abs=0.05) == PEAK / BANDWIDTH
    read, used = 2 * 236e9 / BANDWIDTH, 2 * 21e9 / PEAK  # DeepSeek-V2: all are read, each token computes with some
    assert critical_batch() == pytest.approx(read / used)
    assert 11 < critical_batch() / (PEAK / BANDWIDTH) < 11.5
    assert per_token_ms(512, 0, 1) == pytest.approx(0.0177, abs=5e-5)
    bytes_alone = 1e3 * P * ELEMENT / BANDWIDTH / 512
    assert bytes_alone == pytest.approx(0.0064, abs=5e-5)
    assert per_token_ms(183, 0, 1) * 183 == pytest.approx(per_token_ms(1, 0, 1))
    assert per_token_ms(185, 0, 1) == pytest.approx(per_token_ms(1024, 0, 1))


def test_at_batch_64_contexts_up_to_128_tokens_cost_less_than_half_more() -> None:
    assert longest_context() == 128
    assert per_token_ms(64, 2**7, H) < 1.5 * per_token_ms(64, 2**7, 1)
    assert per_token_ms(64, 2**8, H) > 1.5 * per_token_ms(64, 2**8, 1)
    assert per_token_ms(64, 218, H) < 1.5 * per_token_ms(64, 218, 1)
    assert per_token_ms(64, 219, H) > 1.5 * per_token_ms(64, 219, 1)


def test_at_a_batch_of_256_the_caches_outgrow_the_machine() -> None:
    assert 256 * cache_gb("mha") == pytest.approx(1100, abs=1)  # 1.1 TB


def test_the_published_model_has_the_sizes_that_the_lesson_gives() -> None:
    theirs = pytest.importorskip("transformers").LlamaConfig()
    sizes = theirs.num_hidden_layers, theirs.num_attention_heads, theirs.num_key_value_heads, theirs.hidden_size
    assert sizes == (32, 32, 32, 4096)


def test_sharing_saves_no_flop_of_scores_and_mixture() -> None:
    work = [arithmetic_intensity(H, g, 8192, 2) * 2 * (2 * g * 8192 * D + 2 * H * D) for g in (1, 8, H)]
    assert work == pytest.approx([4 * H * 8192 * D] * 3)


def test_the_decoder_gained_more_than_the_number_of_heads() -> None:
    assert round(46 / 3.8) == 12 > 8  # Shazeer (2019), table 2; H = 8
    assert round(203 / 32) == 6  # with a beam of four
    assert 13.2 / 13.0 < 1.02


GPT_FAST = {(2, 1): 104.9, (1, 1): 155.58, (2, 2): 168.84, (2, 4): 254.02, (2, 8): 328.43}  # bytes, cards: tokens a second
LLAMA, A100 = 6.74e9, (2.039e12, 312e12)


def test_an_a100_could_compute_23000_tokens_read_151_and_wrote_105() -> None:
    parameters = 2 * 32_000 * 4096 + 32 * (4 * 4096**2 + 3 * 4096 * 11_008 + 2 * 4096) + 4096
    assert pytest.approx(parameters, rel=5e-4) == LLAMA
    assert pytest.approx(13.5e9, rel=2e-3) == 2 * LLAMA
    by_arithmetic = A100[1] / (2 * LLAMA)
    assert by_arithmetic == pytest.approx(23_000, rel=0.01)
    assert 1 - 104.9 / by_arithmetic == pytest.approx(0.995, abs=5e-4)
    assert round(by_arithmetic / 104.9) == 221
    assert round(tokens_a_second()) == 151
    assert A100[1] / A100[0] > 1.01 * tokens_a_second()  # the border, 153, is not taken for an answer
    assert round(tokens_a_second() / 104.9, 2) == 1.44
    assert [round(1e3 / rate, 1) for rate in (104.9, tokens_a_second())] == [9.5, 6.6]


def test_on_a100s_between_2_2_and_3_1_ms_a_token_are_not_reading() -> None:
    counted = {key: 1e3 * LLAMA * key[0] / key[1] / A100[0] for key in GPT_FAST}
    left = [1e3 / rate - counted[key] for key, rate in GPT_FAST.items()]
    assert (round(min(left), 1), round(max(left), 1)) == (2.2, 3.1)
    reached = [1e3 / rate - 1e3 * LLAMA * key[0] / key[1] / 1.7e12 for key, rate in GPT_FAST.items()]  # "about 1700 GB/s"
    assert (round(min(reached), 1), round(max(reached), 1)) == (1.6, 2.5)
    assert round(1e3 * 2 * LLAMA / 1.7e12, 1) == 7.9
    factors = [1e3 / rate / counted[key] for key, rate in GPT_FAST.items()]
    assert (round(min(factors), 1), round(max(factors), 1)) == (1.4, 3.7)  # 2 to 4 times where fewer bytes are read
    assert sorted(factors)[1] > 1.75


def test_the_borders_of_real_chips_lie_between_153_and_295() -> None:
    sheets = {"A100": (312, 2.04), "H100": (989, 3.35), "H200": (989, 4.8), "v4": (275, 1.2), "v5e": (197, 0.82)}
    assert [round(peak / bandwidth) for peak, bandwidth in sheets.values()] == [153, 295, 206, 229, 240]


def test_palm_on_64_chips_takes_22_ms_more_than_its_floor_and_its_caches_fit_as_published() -> None:
    machine = {"bandwidth": 64 * 1.2e12, "peak": 64 * 275e12}
    floors = [1e3 * decode_time_floor(558 * 10**9, 64, 2048, 118, 64, 2 // size, 256, size, **machine) for size in (2, 1)]
    published = [36.9, 28.5]  # Pope et al. (2022), section 4.4; heads padded from 48 to 64, the cache in 16 bits
    assert [round(p / f, 1) for p, f in zip(published, floors, strict=True)] == [2.5, 3.8]
    assert [round(p - f) for p, f in zip(published, floors, strict=True)] == [22, 21]
    room = 0.3 * 64 * 32 * 2**30 / 128  # bytes for each of 128 sequences
    assert round(room / cache_bytes(B=1, n=1, L=118, n_kv=1, d=256, element_bytes=2)) == 42_654
    assert round(room / cache_bytes(B=1, n=1, L=118, n_kv=64, d=128, element_bytes=2)) == 1333  # 48 heads, padded
    assert round(room / 64 / cache_bytes(B=1, n=1, L=118, n_kv=1, d=256, element_bytes=2)) == 666  # the table: 660


def test_caches_of_real_models_are_those_of_their_configurations() -> None:
    transformers = pytest.importorskip("transformers")
    falcon = transformers.FalconConfig()
    assert (falcon.num_hidden_layers, falcon.hidden_size // falcon.num_attention_heads, falcon.multi_query) == (32, 64, True)
    sizes = {
        "llama": (32, 32, 128),
        "shared": (32, 1, 128),
        "llama 3": (32, 8, 128),
        "falcon": (32, 1, 64),
        "palm": (118, 1, 256),
    }
    found = [cache_bytes(B=1, n=8192, L=layers, n_kv=g, d=d, element_bytes=2) / 1e9 for layers, g, d in sizes.values()]
    assert found == pytest.approx([4.295, 0.134, 1.074, 0.067, 0.990], abs=5e-4)


def test_the_hasty_step_of_the_lesson_is_right_with_one_head_and_wrong_with_four() -> None:
    lesson = (course_root() / "lessons" / "08_multi_query.md").read_text(encoding="utf-8")
    cell = next(c for c in re.findall(r"locked: true\}\n\n(.*?)\n```", lesson, re.DOTALL) if "def hasty_step" in c)
    names: dict[str, Any] = {"torch": torch, "causal_attention": causal_attention}
    exec(cell.split("\n\n\n")[0], names)
    for heads in (1, 4):
        weights, x = layer(5, heads, 3, 2), normal(6, 5, seed=9)
        past = normal(0, 3), normal(0, 2)
        rows = []
        for token in x:
            y, *past = names["hasty_step"](token, *weights, heads, *past)
            rows.append(y)
        assert torch.allclose(torch.stack(rows), mqa(x, *weights, heads)[0]) == (heads == 1)


def test_what_the_lesson_is_given_are_the_functions_of_the_module() -> None:
    q, k, v = normal(2, 3, 4), normal(2, 5, 4, seed=1), normal(2, 5, 6, seed=2)
    assert_close(head_sets.causal_attention(q, k, v), causal_attention(q, k, v), **DOUBLE)
    assert_close(head_sets.causal_attention(q[:, None], k[:, None], v[:, None]), causal_attention(q, k, v)[:, None], **DOUBLE)
    assert_close(head_sets.split_heads(v, 3), split_heads(v, 3), **DOUBLE)
    assert_close(head_sets.merge_heads(v), merge_heads(v), **DOUBLE)


def test_at_one_cache_size_sharing_keeps_many_patterns_of_full_rank() -> None:
    found = {}
    for heads, width, groups in ((8, 32, 8), (8, 32, 1), (1, 32, 1), (8, 4, 8)):
        m = normal(heads, 512, width) @ normal(groups, 512, width, seed=1).mT
        found[heads, width, groups] = [torch.linalg.matrix_rank(x).item() for x in (m[0], m.flatten(0, 1))]
    assert found == {(8, 32, 8): [32, 256], (8, 32, 1): [32, 32], (1, 32, 1): [32, 32], (8, 4, 8): [4, 32]}
    assert [2 * g * w for _, w, g in found] == [512, 64, 64, 64]


def test_shazeers_controls_lose_0056_to_0094_where_sharing_loses_0015() -> None:
    lost = [log - 1.424 for log in (1.439, 1.518, 1.480, 1.488, 1.513)]  # table 1, development set
    assert round(lost[0], 3) == 0.015
    assert (round(min(lost[1:]), 3), round(max(lost[1:]), 3)) == (0.056, 0.094)


def test_what_is_timed_at_the_opening_is_positive_and_no_rate_of_reading_is_below_the_steps() -> None:
    q, k, v = normal(4, 8), *normal(2, 4, 16, 8, seed=1)
    seconds, peak, bandwidth = head_sets.step_and_rates(q, k, v, rounds=2)
    assert seconds > 0 < peak
    assert bandwidth >= 0.999 * (k.nbytes + v.nbytes) / seconds


def test_the_step_that_is_timed_is_multi_query_attention_and_its_grouped_and_multi_head_kin() -> None:
    q = normal(32, 16)
    for groups in (32, 8, 1):
        k, v = normal(2, groups, 9, 16, seed=1)
        heads = [(q[h], k[h * groups // 32], v[h * groups // 32]) for h in range(32)]
        expected = torch.stack([torch.softmax(K @ query / 4, dim=-1) @ V for query, K, V in heads])
        assert_close(decode(q, k, v), expected, **DOUBLE)
    caches, scores = 2 * 32 * 8192 * 128 * 4, 32 * 8192  # in float32
    assert (round(caches / 1e6), scores) == (268, 262_144)
