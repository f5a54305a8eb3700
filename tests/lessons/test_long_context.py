"""Workshop 06d: the references against transformers and other oracles, the reader of long texts, and what was recorded."""

import math
from typing import Any

import pytest
import torch
from attention_course.language_model import ModelMissingError, load_model, long_context
from attention_course.language_model.long_context import DIGITS, RUN, TOKENS, Reader, frequencies, haystack
from attention_course.language_model.reference import reference_logits
from torch.testing import assert_close

from solutions.long_context import by_parts, factor_needed, stretched_base, unfinished_pairs, yarn_scale
from tools.record_long_context import PARTIAL, WAYS

HEADS = {"SmolLM2": (64, 1e5, 8192), "Llama 2": (128, 1e4, 4096), "Llama 3": (128, 5e5, 8192)}


def shipped(kind: str, d: int, base: float, trained: int, **settings: float) -> tuple[torch.Tensor, float]:
    """Frequencies and factor of cosines and sines as transformers computes them."""
    transformers = pytest.importorskip("transformers")
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    parameters = {"rope_type": kind, "rope_theta": base, **settings}
    config = transformers.LlamaConfig(
        hidden_size=2 * d, num_attention_heads=2, head_dim=d, max_position_embeddings=trained, rope_parameters=parameters
    )
    theta, factor = rope.ROPE_INIT_FUNCTIONS[kind](config, "cpu", int(trained * settings["factor"]))
    return theta.double(), factor


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("factor", [2.0, 8.0])
def test_frequencies_are_those_of_transformers(head: tuple[int, float, int], factor: float) -> None:
    d, base, trained = head
    theta = frequencies(base, d)
    close: dict[str, Any] = {"rtol": 1e-4, "atol": 0.0}  # theirs are float32, and powers of them
    linear, _ = shipped("linear", d, base, trained, factor=factor)
    assert_close(theta / factor, linear, **close)
    borders = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": trained}
    llama, _ = shipped("llama3", d, base, trained, factor=factor, **borders)
    assert_close(by_parts(theta, factor, trained, slow=1, fast=4), llama, **close)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("times", [2, 8])
def test_the_stretched_base_is_the_one_of_dynamic_scaling_in_transformers(head: tuple[int, float, int], times: int) -> None:
    d, base, trained = head
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    transformers = pytest.importorskip("transformers")
    parameters = {"rope_type": "dynamic", "rope_theta": base, "factor": 1.0}  # with factor 1 it stretches by length / trained
    config = transformers.LlamaConfig(head_dim=d, max_position_embeddings=trained, rope_parameters=parameters)
    theirs, _ = rope.ROPE_INIT_FUNCTIONS["dynamic"](config, "cpu", trained * times)
    assert_close(frequencies(stretched_base(d, base, times), d), theirs.double(), rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("factor", [2.0, 16.0])
def test_yarn_differs_from_transformers_only_between_the_borders(head: tuple[int, float, int], factor: float) -> None:
    d, base, trained = head
    theta = frequencies(base, d)
    ours = by_parts(theta, factor, trained, slow=1, fast=32)
    theirs, stretched = shipped("yarn", d, base, trained, factor=factor, original_max_position_embeddings=trained, truncate=False)
    turns = trained * theta / (2 * math.pi)
    outside = (turns <= 1) | (turns >= 32)
    assert outside.any()
    assert not outside.all()
    assert_close(ours[outside], theirs[outside], rtol=1e-4, atol=0.0)
    inside = ~outside
    assert (ours[inside] <= theirs[inside] * 1.0001).all()  # straight in t lies below straight in log t
    assert (ours[inside] >= theta[inside] / factor).all()
    assert_close(yarn_scale(d, factor) * math.sqrt(d), stretched**2)  # cosines and sines carry it, of queries and of keys


def test_pairs_that_complete_a_turn_are_those_whose_wavelength_fits() -> None:
    for d, base, trained in HEADS.values():
        wavelengths = 2 * math.pi / frequencies(base, d)
        assert unfinished_pairs(d, base, trained) == int((wavelengths > trained).sum())
    assert [unfinished_pairs(*head) for head in HEADS.values()] == [12, 18, 29]


def test_with_the_factor_needed_one_pair_ends_where_it_did_in_training_and_with_less_it_goes_further() -> None:
    for d, base, trained in HEADS.values():
        old = frequencies(base, d)
        slow = trained * old < 2 * math.pi
        factor = factor_needed(d, base, trained, 3 * trained)
        ratio = 3 * frequencies(stretched_base(d, base, factor), d) / old
        assert ratio[slow].max() == pytest.approx(1, rel=1e-9)
        assert 3 * (frequencies(stretched_base(d, base, 0.99 * factor), d) / old)[slow].max() > 1
    assert factor_needed(64, 1e5, 8192, 16_384) == pytest.approx(2.93, abs=0.005)


def test_the_stretched_base_slows_the_first_pair_by_nothing_and_the_last_by_the_factor() -> None:
    for d in (4, 64, 128):
        ratio = frequencies(1e4, d) / frequencies(stretched_base(d, 1e4, 3.0), d)
        assert_close(ratio[[0, -1]], torch.tensor([1.0, 3.0], dtype=torch.float64))
        assert (ratio.diff() > 0).all()


def test_parts_keep_the_fast_pairs_and_never_reverse_the_order_of_speeds() -> None:
    theta = frequencies()
    for fast in (4, 32):
        new = by_parts(theta, 2.0, 8192, slow=1, fast=fast)
        assert (new.diff() < 0).all()
        turns = 8192 * theta / (2 * math.pi)
        assert_close(new[turns >= fast], theta[turns >= fast])
        assert_close(new[turns <= 1], theta[turns <= 1] / 2)


def test_only_these_ways_reach_new_angles_at_twice_the_length() -> None:
    """What the moving figure counts, for the text that stands under it."""
    seen = 8192 * frequencies() / (2 * math.pi)
    counted = {}
    for way, (theta, _) in WAYS.items():
        turns = 2 * 8192 * theta / (2 * math.pi)
        counted[way] = int(((seen < 1) & (turns > seen * (1 + 1e-6))).sum())
    assert counted.pop("as trained") == 12
    assert counted.pop("NTK-aware") == 11
    assert counted["NTK-aware, larger"] == 0
    assert set(counted.values()) == {0}


# ---------------------------------------------------------------------------------------------- the reader


def test_the_reader_in_two_parts_is_the_model_and_a_question_leaves_no_trace() -> None:
    try:
        model = load_model("cpu")
    except ModelMissingError:
        pytest.skip("the model is not installed")
    ids, of_book, needles = haystack(model)
    assert len(ids) == len(of_book) == TOKENS + 1
    assert [place // RUN for place, _ in needles] == list(range(16))
    part = ids[500:560]
    reader = Reader(model, frequencies(), 1 / 8, capacity=128)
    first = reader.extend(part[:20])
    reader.answer(needles[0][1])
    both = torch.cat([first, reader.extend(part[20:])])
    assert_close(both @ model.weights["embed"].mT, reference_logits(model.weights, part[None])[0], rtol=1e-3, atol=1e-3)


def test_needles_stand_where_the_books_tokens_are_left_out() -> None:
    try:
        model = load_model("cpu")
    except ModelMissingError:
        pytest.skip("the model is not installed")
    ids, of_book, needles = haystack(model)
    for place, needle in needles:
        stop = place + len(needle.statement)
        assert ids[place:stop].tolist() == needle.statement
        assert not of_book[place:stop].any()
        asked = len(needle.question)
        assert needle.statement[:asked] == needle.question
        assert needle.statement[asked : asked + DIGITS] == needle.answer
    assert int(of_book.sum()) == TOKENS + 1 - sum(len(needle.statement) for _, needle in needles)


# ---------------------------------------------------------------------------------------------- what the text states


def test_what_the_text_says_of_sixteen_runs_and_their_needles_is_what_was_recorded() -> None:
    found = long_context.recorded()
    plain, yarn, ntk = (torch.tensor(found[way].losses) for way in ("as trained", "YaRN", "NTK-aware"))
    assert len(plain) * RUN == TOKENS == 16_384
    assert set(found) <= set(WAYS)
    assert plain[:12].max() < 3.2  # 4,000 tokens beyond the context without trouble
    assert plain[-1] == pytest.approx(6.36, abs=0.01)
    assert yarn[-1] == pytest.approx(2.73, abs=0.01)
    assert 0 < (yarn - plain)[:8].max() < 0.045  # the trained frequencies are best within 8,192 tokens
    assert ((yarn - plain)[:10] > 0).all()  # nothing to gain up to 10,240
    assert ((yarn - plain)[10:] < 0).all()
    assert 0 < (ntk - plain)[:8].max() < 0.05
    assert ((ntk - plain)[10:] < 0).all()
    assert [round(float((way - plain)[-1]), 1) for way in (yarn, ntk)] == [-3.6, -3.6]
    assert (ntk - yarn).abs().max() < 0.05  # "nearly the same loss"

    def share(way: str, end: int) -> float:
        asked = found[way].asked[end]
        return sum(right for right, _ in asked) / len(asked) / DIGITS

    assert [share("as trained", end) for end in (4096, 8192)] == pytest.approx([5 / 6, 5 / 6], abs=0.03)
    assert share("as trained", 16_384) < 0.02
    linear = torch.tensor(found["interpolation"].losses)
    assert ((linear - yarn) > 0.4).all()
    assert max(share("interpolation", end) for end in long_context.ENDS) < 0.15
    assert share("YaRN", 16_384) == pytest.approx(0.76, abs=0.01)
    assert share("NTK-aware", 16_384) == pytest.approx(0.49, abs=0.01)


def test_without_the_model_short_losses_are_the_recorded_ones(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def missing(device: str) -> None:
        raise ModelMissingError("gone")

    monkeypatch.setattr(long_context, "load_model", missing)
    found = long_context.short_losses(WAYS | PARTIAL)
    assert list(found) == [*WAYS, *PARTIAL]
    assert "not installed" in capsys.readouterr().out
    more = {way: loss - found["as trained"] for way, loss in found.items()}
    assert more.pop("interpolation") == pytest.approx(0.68, abs=0.01)
    assert more.pop("a quarter rotated") == pytest.approx(1.20, abs=0.01)
    assert more.pop("none rotated") == pytest.approx(2.29, abs=0.01)
    assert all(cost < 0.045 for cost in more.values())


@pytest.mark.slow
def test_only_interpolation_costs_a_short_text_much() -> None:
    try:
        load_model("cpu")
    except ModelMissingError:
        pytest.skip("the model is not installed")
    found = long_context.short_losses(WAYS | PARTIAL)
    more = {way: loss - found["as trained"] for way, loss in found.items()}
    assert more.pop("interpolation") == pytest.approx(0.68, abs=0.02)
    assert more.pop("a quarter rotated") > 1
    assert more.pop("none rotated") > 2
    assert all(cost < 0.045 for cost in more.values())
