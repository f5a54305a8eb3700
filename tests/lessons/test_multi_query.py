"""Chapter 08: the references against independent oracles, and every number that its notebooks state."""

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
from solutions.lib.heads import merge_heads, split_heads
from solutions.multi_head import mha
from solutions.multi_query import (
    arithmetic_intensity,
    causal_attention,
    context_for_twice,
    decode_time_floor,
    largest_batch,
    mqa,
    mqa_step,
)

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
SINGLE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}  # float32: the builtin and ours are each about 1e-6 off

P, L, H, D, ELEMENT, CONTEXT = 6_740_000_000, 32, 32, 128, 2, 4096  # Llama 2 7B
BANDWIDTH, PEAK, MEMORY = 2.039e12, 312e12, 80e9  # an A100, by its data sheet


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


def test_what_mqa_returns_is_the_cache_of_notebook_07_with_one_head() -> None:
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
        assert 2 * heads * n / (element * (groups + heads)) == pytest.approx(intensity)  # a prompt


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


def test_a_step_adds_the_longer_bounds_of_its_two_parts() -> None:
    sizes = {"P": 100, "B": 2, "n": 3, "L": 2, "H": 4, "G": 4, "d": 5, "element_bytes": ELEMENT}
    read, cached = 200, 960  # bytes of parameters and of two caches
    matrices, attention = 400, 960  # FLOPs
    for bandwidth, peak in ((1.0, 1e9), (1e9, 1.0), (40.0, 50.0), (40.0, 75.0)):
        expected = max(read / bandwidth, matrices / peak) + max(cached / bandwidth, attention / peak)
        assert decode_time_floor(**sizes, bandwidth=bandwidth, peak=peak) == pytest.approx(expected)


def test_a_part_gets_no_faster_by_the_resource_that_it_does_not_wait_for() -> None:
    memory_bound = decode_time_floor(P, 1, CONTEXT, L, H, H, D, ELEMENT, BANDWIDTH, PEAK)
    assert decode_time_floor(P, 1, CONTEXT, L, H, H, D, ELEMENT, BANDWIDTH, 10 * PEAK) == memory_bound
    assert decode_time_floor(P, 1, CONTEXT, L, H, H, D, ELEMENT, 2 * BANDWIDTH, PEAK) == pytest.approx(memory_bound / 2)
    mixed = decode_time_floor(P, 4096, CONTEXT, L, H, 1, D, ELEMENT, BANDWIDTH, PEAK)
    assert decode_time_floor(P, 4096, CONTEXT, L, H, 1, D, ELEMENT, 1.01 * BANDWIDTH, PEAK) < mixed
    assert decode_time_floor(P, 4096, CONTEXT, L, H, 1, D, ELEMENT, BANDWIDTH, 1.01 * PEAK) < mixed


# ---------------------------------------------------------------------------------------------- the notebooks' numbers


def step_ms(users: int, groups: int, n: int = CONTEXT) -> float:
    return 1e3 * decode_time_floor(P, users, n, L, H, groups, D, ELEMENT, BANDWIDTH, PEAK)


def cache_gb(groups: int, n: int = CONTEXT) -> float:
    return cache_bytes(B=1, n=n, L=L, n_kv=groups, d=D, element_bytes=ELEMENT) / 1e9


def test_one_users_cache_is_2_gb_beside_13_gb_and_sharing_gains_a_factor_of_115() -> None:
    assert pytest.approx(13.48) == P * ELEMENT / 1e9
    assert (round(cache_gb(H), 2), round(cache_gb(1), 2)) == (2.15, 0.07)
    assert (13.48 + cache_gb(H)) / (13.48 + cache_gb(1)) == pytest.approx(15.63 / 13.55, abs=1e-3)
    assert step_ms(1, H) / step_ms(1, 1) == pytest.approx(1.15, abs=5e-3)
    assert 6 < 13.48 / cache_gb(H) < 7  # users whose caches have as many bytes as the parameters


def test_sharing_moves_one_layers_bytes_from_33_to_1_microsecond_beside_a_fifth_of_arithmetic() -> None:
    reading = [1e6 * 2 * CONTEXT * groups * D * ELEMENT / BANDWIDTH for groups in (32, 8, 1)]
    assert [round(t, 1) for t in reading] == [32.9, 8.2, 1.0]
    arithmetic = 1e6 * 4 * H * CONTEXT * D / PEAK
    assert round(arithmetic, 1) == 0.2
    assert 4.5 < reading[-1] / arithmetic < 5  # almost five times
    assert round(PEAK / BANDWIDTH) == 153


def test_the_roofline_has_its_corner_at_153_and_only_a_fused_prompt_to_its_right() -> None:
    decoding = [arithmetic_intensity(H, groups, CONTEXT, ELEMENT) for groups in (32, 8, 1)]
    assert decoding == pytest.approx([1, 4, 32], rel=0.01)
    flops, strips, squares = 4 * CONTEXT**2 * D, 4 * CONTEXT * D, 4 * CONTEXT**2
    naive, fused = flops / (ELEMENT * (strips + squares)), flops / (ELEMENT * strips)
    assert naive == pytest.approx(CONTEXT * D / (ELEMENT * (CONTEXT + D)))  # as the notebook writes it
    assert fused == CONTEXT / ELEMENT == 2048
    assert round(naive) == 62
    assert max(*decoding, naive) < PEAK / BANDWIDTH < fused
    assert round(2 * 128 * (576 + 512) / (2 * 576)) == 242  # DeepSeek-V2: 576 cached numbers, keys of 576, values of 512


def test_one_maximum_hides_a_third_of_the_step_of_512_users() -> None:
    def one_maximum_ms(users: int, groups: int) -> float:
        moved = ELEMENT * (P + users * L * 2 * CONTEXT * groups * D)
        return 1e3 * max(moved / BANDWIDTH, users * (2 * P + L * 4 * CONTEXT * H * D) / PEAK)

    assert (round(one_maximum_ms(512, 1), 1), round(step_ms(512, 1), 1)) == (25.6, 39.0)
    assert one_maximum_ms(1, H) == pytest.approx(step_ms(1, H))  # where both parts wait for bytes it makes no difference


def test_the_critical_batch_is_one_of_the_matrices_and_multi_head_attention_has_none() -> None:
    assert step_ms(153, 1, 0) == pytest.approx(step_ms(1, 1, 0), rel=1e-3)
    assert step_ms(306, 1, 0) == pytest.approx(2 * step_ms(153, 1, 0), rel=1e-3)
    one_cache = 1e12 * cache_gb(H) / BANDWIDTH
    assert one_cache == pytest.approx(1.05, abs=0.005)
    per_token = [step_ms(users, H) / users for users in (153, 1024, 10**6)]
    assert all(one_cache < t < 1.05 * one_cache for t in per_token)
    assert step_ms(10**6, 8) / 10**6 > 0.26
    assert step_ms(153, 1) / 153 == pytest.approx(0.076, abs=5e-4)
    shares = [153 * 1e12 * cache_gb(groups) / BANDWIDTH / step_ms(153, groups) for groups in (32, 8, 1)]
    assert [round(share, 2) for share in shares] == [0.96, 0.86, 0.43]


def test_memory_stops_32_and_8_sets_and_time_stops_one_set() -> None:
    users = {groups: largest_batch(CONTEXT, groups, 0.05) for groups in (32, 8, 1)}
    assert users == {32: 30, 8: 123, 1: 656}
    held = {groups: P * ELEMENT / 1e9 + (users[groups] + 1) * cache_gb(groups) for groups in users}
    assert [gb > MEMORY / 1e9 for gb in held.values()] == [True, True, False]
    assert [step_ms(users[groups], groups) < 45 for groups in users] == [True, True, False]
    rate = {groups: 1e3 * users[groups] / step_ms(users[groups], groups) for groups in users}
    assert round(users[1] / users[32]) == 22
    assert round(rate[1] / rate[32]) == 17


def test_experts_raise_the_critical_batch_elevenfold() -> None:
    read, used = 2 * 236e9 / BANDWIDTH, 2 * 21e9 / PEAK
    assert round(read / used) == 1720
    assert round(236 / 21) == 11
    assert round(153 * 21 / 236) == 14  # the answer that divides the wrong way round


def test_one_user_needs_27000_tokens_until_sharing_makes_the_whole_step_twice_as_fast() -> None:
    n = round(context_for_twice())
    assert n == 27_425
    assert step_ms(1, H, n) / step_ms(1, 1, n) == pytest.approx(2, abs=1e-3)
    assert cache_gb(1, n) / (13.48 + cache_gb(1, n)) == pytest.approx(0.03, abs=0.005)  # what a hint says of one set


def test_a_verdict_needs_half_of_the_time() -> None:
    waits_for = given("08_multi_query", "waits_for")["waits_for"]
    step = {"flops": 8.0, "moved": 35.0, "peak": 4.0, "bandwidth": 5.0}  # bounds of 2 and 7 seconds
    assert [waits_for(seconds, **step) for seconds in (10.0, 14.0, 15.0)] == [("bytes", 0.7), ("bytes", 0.5), ("neither", 7 / 15)]
    assert waits_for(10.0, 32.0, 35.0, 4.0, 5.0) == ("arithmetic", 0.8)


def test_the_published_model_has_the_sizes_of_the_notebooks() -> None:
    theirs = pytest.importorskip("transformers").LlamaConfig()
    sizes = theirs.num_hidden_layers, theirs.num_attention_heads, theirs.num_key_value_heads, theirs.hidden_size
    assert sizes == (32, 32, 32, 4096)


def test_sharing_saves_no_flop_of_scores_and_mixture() -> None:
    work = [arithmetic_intensity(H, g, 8192, 2) * 2 * (2 * g * 8192 * D + 2 * H * D) for g in (1, 8, H)]
    assert work == pytest.approx([4 * H * 8192 * D] * 3)


def test_the_decoder_gained_more_than_its_eight_heads_can_explain() -> None:
    assert round(46 / 3.8) == 12 > 8  # Shazeer (2019), table 2
    assert (round(433e3 / 32_768, 1), round(425e3 / 32_768, 1)) == (13.2, 13.0)  # section 4.3: ms of a training step


GPT_FAST = {(2, 1): 104.9, (1, 1): 155.58, (2, 4): 254.02, (2, 8): 328.43}  # bytes, cards: tokens a second
LLAMA, A100 = 6.74e9, (2.039e12, 312e12)


def test_an_a100_could_compute_23000_tokens_read_151_and_wrote_105() -> None:
    parameters = 2 * 32_000 * 4096 + 32 * (4 * 4096**2 + 3 * 4096 * 11_008 + 2 * 4096) + 4096
    assert pytest.approx(parameters, rel=5e-4) == LLAMA
    assert pytest.approx(13.5e9, rel=2e-3) == 2 * LLAMA
    by_arithmetic = A100[1] / (2 * LLAMA)
    assert by_arithmetic == pytest.approx(23_000, rel=0.01)
    assert 1 - 104.9 / by_arithmetic == pytest.approx(0.995, abs=5e-4)
    assert round(by_arithmetic / 104.9) == 221
    by_bytes = A100[0] / (2 * LLAMA)
    assert round(by_bytes) == 151
    assert round(104.9 / by_bytes, 2) == 0.69


def test_one_card_waits_for_bytes_and_eight_cards_for_neither() -> None:
    waits_for, verdicts = given("08_multi_query", "waits_for")["waits_for"], {}
    for (size, cards), tokens in GPT_FAST.items():
        verdicts[size, cards] = waits_for(1 / tokens, 2 * LLAMA, size * LLAMA, cards * A100[1], cards * A100[0])
    found = {key: (verdict, round(share, 2)) for key, (verdict, share) in verdicts.items()}
    assert (found[2, 1], found[1, 1]) == (("bytes", 0.69), ("bytes", 0.51))
    assert (found[2, 4], found[2, 8]) == (("neither", 0.42), ("neither", 0.27))
    assert round(GPT_FAST[2, 8] / GPT_FAST[2, 1]) == 3
    assert 2 * LLAMA / A100[1] * 104.9 < 0.01  # arithmetic


def test_the_draft_of_a_whole_step_overlaps_the_two_parts_and_counts_too_little_arithmetic() -> None:
    draft = given("08c_the_whole_step", "step_as_shown")["step_as_shown"]

    def times(users: int, groups: int) -> list[float]:
        rest = L, H, groups, D, ELEMENT, BANDWIDTH, PEAK
        return [1e3 * draft(p, users, n, *rest) for p, n in ((P, 0), (0, CONTEXT), (P, CONTEXT))]

    for users, groups in ((1, 32), (30, 32), (1, 1)):
        matrices, attention, whole = times(users, groups)
        assert matrices + attention == pytest.approx(whole) == pytest.approx(step_ms(users, groups))
    assert [round(t, 1) for t in times(512, 1)] == [22.1, 16.9, 23.5]
    assert round(step_ms(512, 1), 1) == 39.0
    slow = {"element_bytes": ELEMENT, "bandwidth": 1e30, "peak": PEAK}
    assert draft(0, 1, CONTEXT, L, H, 8, D, **slow) == pytest.approx(decode_time_floor(0, 1, CONTEXT, L, H, 8, D, **slow) / 4)


def test_the_chips_of_the_table_have_critical_batches_from_153_to_560() -> None:
    sheets = {"A100": (312, 2.039), "H100": (989, 3.35), "B200": (2250, 8.0), "v6e": (918, 1.638)}
    assert [round(peak / bandwidth) for peak, bandwidth in sheets.values()] == [153, 295, 281, 560]


def given(lesson: str, name: str) -> dict[str, Any]:
    """What the first function of the lesson's locked cell that defines `name` needs no notebook for."""
    text = (course_root() / "lessons" / f"{lesson}.md").read_text(encoding="utf-8")
    cell = next(c for c in re.findall(r"locked: true\}\n\n(.*?)\n```", text, re.DOTALL) if f"def {name}" in c)
    names: dict[str, Any] = {"torch": torch, "causal_attention": causal_attention}
    names |= {"split_heads": split_heads, "merge_heads": merge_heads}
    exec(cell.split("\n\n\n")[0], names)
    return names


def test_the_hasty_step_of_the_lesson_is_right_with_one_head_and_wrong_with_four() -> None:
    names = given("08_multi_query", "hasty_step")
    for heads in (1, 4):
        weights, x = layer(5, heads, 3, 2), normal(6, 5, seed=9)
        past = normal(0, 3), normal(0, 2)
        rows = []
        for token in x:
            y, *past = names["hasty_step"](token, *weights, heads, *past)
            rows.append(y)
        assert torch.allclose(torch.stack(rows), mqa(x, *weights, heads)[0]) == (heads == 1)


def test_the_draft_of_sharing_is_right_for_one_text_raises_for_two_and_is_silently_wrong_for_four() -> None:
    draft, weights = given("08_multi_query", "mqa_as_shown")["mqa_as_shown"], layer(5, 4, 3, 2)
    for batch in (1, 2, 4):
        x = normal(batch, 6, 5, seed=9)
        if batch == 2:
            with pytest.raises(RuntimeError, match="must match"):
                draft(x, *weights, 4)
        else:
            assert torch.allclose(draft(x, *weights, 4)[0], mqa(x, *weights, 4)[0]) == (batch == 1)


def test_what_the_lesson_is_given_are_the_functions_of_the_module() -> None:
    q, k, v = normal(2, 3, 4), normal(2, 5, 4, seed=1), normal(2, 5, 6, seed=2)
    assert_close(head_sets.causal_attention(q, k, v), causal_attention(q, k, v), **DOUBLE)
    assert_close(head_sets.causal_attention(q[:, None], k[:, None], v[:, None]), causal_attention(q, k, v)[:, None], **DOUBLE)
    assert_close(head_sets.split_heads(v, 3), split_heads(v, 3), **DOUBLE)
    assert_close(head_sets.merge_heads(v), merge_heads(v), **DOUBLE)


def test_the_quoted_rows_of_shazeers_table_1_agree_with_what_the_text_says() -> None:
    loss = {"MHA": 1.424, "MQA": 1.439, "fewer": (1.518, 1.480, 1.488, 1.513)}  # development set
    greedy, beam = {"MHA": 27.7, "MQA": 27.5, "2 x 64": 26.8}, {"MHA": 28.4, "MQA": 28.5, "2 x 64": 27.9}  # test set
    assert loss["MHA"] < loss["MQA"] < min(loss["fewer"]) - 0.04
    assert greedy["MHA"] > greedy["MQA"] > greedy["2 x 64"] + 0.5
    assert beam["MQA"] > beam["MHA"] > beam["2 x 64"]
    text = (course_root() / "lessons" / "08_multi_query.md").read_text(encoding="utf-8")
    for number in (1.424, 1.439, 1.518, 1.480, 1.488, 1.513, 27.7, 27.5, 26.8, 28.4, 28.5, 27.9):
        assert re.search(rf"\b{number:.3f}\b|\b{number}\b", text)


def test_the_step_that_is_timed_is_multi_query_attention_and_its_grouped_and_multi_head_kin() -> None:
    q = normal(32, 16)
    for groups in (32, 8, 1):
        k, v = normal(2, groups, 9, 16, seed=1)
        heads = [(q[h], k[h * groups // 32], v[h * groups // 32]) for h in range(32)]
        expected = torch.stack([torch.softmax(K @ query / 4, dim=-1) @ V for query, K, V in heads])
        assert_close(decode(q, k, v), expected, **DOUBLE)
    caches, shared = 2 * 32 * CONTEXT * 128 * 4, 2 * CONTEXT * 128 * 4  # in float32
    assert (round(caches / 1e6), round(shared / 1e6)) == (134, 4)
