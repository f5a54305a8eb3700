"""Workshop 12c: partial rotation, joint latents and the absorbed step, against independent oracles, and the numbers it states."""

import math
import re
from typing import Any

import pytest
import torch
from attention_course.language_model.converted import LatentAttention, convert, decode
from attention_course.language_model.reference import Llama, turned
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring.course import course_root
from solutions.lib.rope import apply_rope
from solutions.smaller_caches import absorbed_step, latent_weights, partial_rope, remade_ratio
from tests.lesson_run import Run, run_offline
from tests.small_llama import D_MODEL, DOUBLE, SINGLE, D, G, H, ids, normal, weights

TEXT = (course_root() / "lessons" / "12c_from_gqa_to_mla.md").read_text(encoding="utf-8")


def code_of(name: str) -> Any:
    """The function `name` as the notebook shows it."""
    (cell,) = re.findall(rf"(def {name}\(.*?)\n(?:```|\n\n)", TEXT, re.DOTALL)
    names: dict[str, Any] = {"torch": torch, "math": math, "apply_rope": apply_rope}
    exec(cell, names)
    return names[name]


def moments() -> list[Tensor]:
    """A second moment for each layer of the small model."""
    roots = [normal(D_MODEL, D_MODEL, seed=seed) for seed in (60, 61)]
    return [root.mT @ root for root in roots]


def rotating(pairs: int) -> Any:
    return turned(lambda x, pos, base: partial_rope(x, pos, pairs, base))


@pytest.mark.parametrize(("n", "fast", "rest", "r"), [(1, 2, 2, 3), (40, 2, 6, 8), (50, 4, 2, 5)])
def test_the_absorbed_step_gives_what_the_naive_step_gives_and_makes_nothing_large(n: int, fast: int, rest: int, r: int) -> None:
    shapes = ((6, fast + rest), (n, r), (3, n, fast), (3, r, rest), (3, r, fast + rest))
    inputs = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    found, large = absorbed_step(*inputs)
    assert_close(found, code_of("naive_step")(*inputs), **DOUBLE)
    assert not large or n == 1


@pytest.mark.parametrize("r", [3, 8, G * (2 * D - 2)])
def test_a_converted_model_gives_token_by_token_what_its_products_give_at_once(r: int) -> None:
    converted, text = convert(weights(), moments(), 1, r), ids(9)
    expected = Llama(converted, 9, rotating(1)).extend(text)
    for step in (absorbed_step, code_of("naive_step")):
        assert_close(decode(converted, step, text), expected, **SINGLE)


def test_at_full_width_a_conversion_only_stops_the_slow_pairs() -> None:
    full, text = convert(weights(), moments(), 1, G * (2 * D - 2)), ids(9)
    assert_close(Llama(full, 9, rotating(1)).extend(text), Llama(weights(), 9, rotating(1)).extend(text), **SINGLE)


def test_the_given_factors_are_those_of_workshop_12b() -> None:
    layer, moment = weights()["layers"][0], moments()[0]
    made = convert(weights(), moments(), 1, 5)["layers"][0]
    rest = layer["W_K"].unflatten(-1, (G, D))[..., 2:].flatten(1)
    down, up_k, up_v = latent_weights(rest, layer["W_V"], moment, 5)
    assert_close(made["W_DKV"].abs(), down.abs(), **DOUBLE)  # signs of eigenvectors are free
    assert_close(made["W_V"], down @ up_v, **DOUBLE)
    assert_close(made["W_K"].unflatten(-1, (G, D))[..., 2:].flatten(1), down @ up_k, **DOUBLE)


def test_a_converted_layer_keeps_rotated_features_and_latents_alone() -> None:
    layer = convert(weights(), moments(), 1, 5)["layers"][0]
    attention = LatentAttention(layer, 9, step=absorbed_step)
    for seed in range(4):
        attention(normal(1, 1, D_MODEL, seed=seed))
    assert attention.past is not None
    assert [tuple(part.shape) for part in attention.past] == [(G, 4, 2), (4, 5)]
    assert attention.length == 4
    assert len(layer["W_Q"].T) == H * D


def test_the_draft_is_right_with_all_pairs_and_wrong_with_fewer() -> None:
    draft, x, pos = code_of("partial_rope_as_shown"), normal(5, 8), torch.arange(5)
    assert_close(draft(x, pos, 4, 30.0), partial_rope(x, pos, 4, 30.0), **SINGLE)
    assert float((draft(x, pos, 2, 30.0) - partial_rope(x, pos, 2, 30.0)).abs().max()) > 0.1


def test_costs_that_the_text_states() -> None:
    heads, groups, d, fast, r = 9, 3, 64, 32, 192
    plain = 4 * heads * d
    naive = 2 * r * groups * (2 * d - fast) + plain
    absorbed = 2 * heads * (fast + 2 * r)
    numbers = groups * fast + r
    assert (numbers, groups * fast, groups * (d - fast), numbers / (2 * groups * d)) == (288, 96, 96, 0.75)
    assert round(naive / absorbed) == 15
    assert 3 < absorbed / plain < 3.5
    assert (round(absorbed / (2 * numbers)), round(naive / (2 * numbers)), fast + r) == (13, 196, 224)
    assert round(989e12 / 3.35e12) == 295 > naive / (2 * numbers)
    assert 2 * 2 * (2 * groups * d) == 1536  # keys and values of a token, written and read in two bytes each
    assert (round(remade_ratio()), 2 * groups * d == 128 * 3) == (23, True)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_offline("12c_from_gqa_to_mla", tmp_path_factory.mktemp("workshop"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_workshop_runs_offline_and_prints_what_its_text_says(executed: Run) -> None:
    executed.every_check_passes()
    printed = executed.printed
    found = re.findall(r"^(\S.*?)  *(\d+\.\d+) \[\S+, \S+\](?:  *(\d+\.\d+) \[)?", printed, re.M)
    ratios = {name: (float(one), float(two or 0)) for name, one, two in found if two}
    (longer,) = [float(one) for _, one, two in found if not two]
    assert max(ratios["draft, 32 pairs"]) < 1.001
    assert min(ratios["draft, 16 pairs"]) > 5
    assert [round(100 * (ratio - 1)) for ratio in ratios["16 pairs"]] == [7, 4]  # 4 to 7 per cent
    assert 1.8 < longer < 2.3  # roughly doubles
    assert all(1.25 < ratio < 1.36 for ratio in ratios["16 pairs, r = 192: 288"])  # about 30 per cent
    best = sum(ratios["16 pairs, r = 192: 288"])
    assert best < min(sum(ratios[name]) for name in ("20 pairs, r = 168: 288", "12 pairs, r = 216: 288"))
    assert printed.count("equal to those of the naive step: True") == 2
    assert "23 times the arithmetic for a third of the bytes" in printed
