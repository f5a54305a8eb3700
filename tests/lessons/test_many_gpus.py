"""Workshop 10d: latents on several GPUs and in a sparse prompt, and every number that its text states."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring import course
from solutions.latent import cache_per_gpu, mla_cache_elements
from solutions.many_gpus import sent_per_step, sparse_gain, tokens_gained

PEAK, BANDWIDTH = 790e12, 4.3e12


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_on_eight_gpus_groups_and_latents_change_places() -> None:
    sizes = {"H": 128, "G": 8, "d": 128, "d_c": 512, "d_rope": 64}
    each = {kind: [cache_per_gpu(kind, tp, **sizes) for tp in (1, 2, 4, 8, 16)] for kind in ("mha", "gqa", "mqa", "mla")}
    assert each["mha"] == [32_768, 16_384, 8_192, 4_096, 2_048]
    assert each["gqa"] == [2_048, 1_024, 512, 256, 256]  # more GPUs than groups: copies
    assert each["mqa"] == [256] * 5
    assert each["mla"] == [576] * 5
    assert each["mla"][3] > 2 * each["gqa"][3]
    assert 576 / 8 == 72


def test_averages_of_some_of_the_tokens_merge_exactly_and_softmaxes_of_some_of_the_features_do_not() -> None:
    q, c = normal(4, 16), normal(100, 16, seed=1)
    exact = torch.softmax(q @ c.T / 4, -1) @ c
    parts = [(torch.softmax(q @ part.T / 4, -1) @ part, torch.logsumexp(q @ part.T / 4, -1)) for part in c.split(13)]
    weights = torch.softmax(torch.stack([lse for _, lse in parts]), dim=0)  # one number per head and GPU is enough
    assert_close((weights[..., None] * torch.stack([average for average, _ in parts])).sum(0), exact)
    halves = list(zip(q.chunk(2, 1), c.chunk(2, 1), strict=True))
    added = torch.stack([x @ y.T for x, y in halves]).sum(0)
    assert_close(torch.softmax(added / 4, -1) @ c, exact)
    alone = torch.cat([torch.softmax(x @ y.T / 4, -1) @ y for x, y in halves], -1)
    assert (alone - exact).norm() / exact.norm() > 0.2


def test_a_cut_by_features_sends_more_than_it_reads_and_a_cut_by_tokens_the_same_for_every_length() -> None:
    n = 32_768
    assert sent_per_step("features", 128, n, 512) == 4_194_304
    assert sent_per_step("features", 128, n, 512) > n * 576 / 8  # what the GPU reads
    assert sent_per_step("tokens", 128, n, 512) == sent_per_step("tokens", 128, 2 * n, 512) == 128 * 512 + 128
    assert sent_per_step("conversations", 128, n, 512) == 0


def test_whole_conversations_leave_room_for_6_6_times_as_many_tokens() -> None:
    a_layer = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    assert a_layer * 61 / 1e9 == pytest.approx(11.4, abs=0.05)
    split, whole = 141 - 671 / 8, 141 - (671 - 11.4) / 8 - 11.4
    assert (split, whole) == pytest.approx((57.125, 47.15))
    assert tokens_gained() == pytest.approx(8 * whole / split) == pytest.approx(6.6, abs=0.01)


def test_gathering_the_keys_and_values_of_a_query_takes_168_mb_and_its_latents_2_4() -> None:
    read = {"made": 2 * 2048 * 128 * (192 + 128), "absorbed": 2 * 2048 * 576}
    flop = {"made": 2 * 2048 * 128 * (192 + 128), "absorbed": 2 * 2048 * 128 * (576 + 512)}
    assert [read[form] / 1e6 for form in read] == pytest.approx([168, 2.4], rel=0.02)
    assert read["made"] / BANDWIDTH > flop["made"] / PEAK  # waits for bytes
    assert read["absorbed"] / BANDWIDTH < flop["absorbed"] / PEAK  # waits for arithmetic
    bounds = {form: max(read[form] / BANDWIDTH, flop[form] / PEAK) for form in read}
    assert sparse_gain() == pytest.approx(bounds["made"] / bounds["absorbed"]) == pytest.approx(54, abs=0.1)
    assert flop["absorbed"] / flop["made"] == 3.4


def test_93_3_percent_is_82_2_at_equal_precision() -> None:
    older, ours = 2 * 8 * 128 * 95, mla_cache_elements(512, 64, 60)
    assert (older, ours) == (194_560, 34_560)
    assert 1 - ours / older == pytest.approx(0.822, abs=5e-4)
    assert (older * 2, ours * 6 / 8) == (389_120, 25_920)
    assert 1 - (ours * 6 / 8) / (older * 2) == pytest.approx(0.933, abs=5e-4)
    assert 1 - ours / (2 * 128 * 128 * 60) == pytest.approx(0.982, abs=5e-4)
    assert pytest.approx(0.960, abs=5e-4) == 1 - ours / 860_200
    assert math.isclose(2 * 56 * 128 * 60, 860_200, rel_tol=1e-3)


def test_the_misconceptions_that_the_syllabus_names_are_known() -> None:
    known = {(e.id, m.id) for e in course.find_lesson("10d").in_code() for m in e.misconceptions}
    named = {
        ("cache_per_gpu", "group_cut_in_pieces"),
        ("cache_per_gpu", "latent_split"),
        ("cache_per_gpu", "latent_doubled"),
        ("cache_per_gpu", "rotated_key_forgotten"),
        ("sent_per_step", "softmax_before_the_sum"),
        ("tokens_gained", "attention_still_split"),
        ("sparse_gain", "bytes_alone"),
    }
    assert named <= known
