"""Holes through which a wrong answer once slipped, and coincidences that let one pass: each is a test."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from autograder import Call, Case, Draw, Exercise, Misconception, Read, Script
from autograder.authoring.course import lessons
from autograder.authoring.verify import grade, verify_exercise
from autograder.judging.call_answer import NOTHING_RAISED
from autograder.judging.records import ExerciseRecord, Result
from autograder.packs import make_pack
from solutions import smaller_caches
from solutions.lib.rope import apply_rope
from tests import sample

LESSONS = {lesson.slug: lesson for lesson in lessons()}


def exercise(slug: str, name: str) -> Exercise:
    return next(each for each in LESSONS[slug].declared_exercises() if each.id == name)


def record(slug: str, name: str, seed: int = 0, naming: make_pack.Naming = "listed") -> ExerciseRecord:
    return make_pack.make_record(slug, exercise(slug, name), seed, naming=naming)


def sample_exercise(name: str) -> Exercise:
    return next(each for each in sample.lesson().exercises() if each.id == name)


def told_in_the_sample_course(name: str, answer: Any) -> Result:
    with sample.in_use():
        made = make_pack.make_record(sample.lesson().slug, sample_exercise(name), 0, naming="listed")
        return grade(made, answer)


def told(slug: str, name: str, answer: Any, seed: int = 0, naming: make_pack.Naming = "listed") -> Result:
    return grade(record(slug, name, seed, naming), answer)


def ids(result: Result) -> set[str]:
    return {known.id for known in result.diagnosis.known} if result.diagnosis else set()


def test_a_mistake_that_raises_by_accident_is_refused() -> None:
    asked = exercise("start_here", "average_pool")
    slip = Misconception("slip", "slipped", "Do not.", lambda V: V.no_such_method())
    for mistake, refused in ((slip, True), (dataclasses.replace(slip, raises=True), False)):
        verdict = verify_exercise("start_here", dataclasses.replace(asked, misconceptions=(mistake,)), seeds=(0,))
        assert any("only ever raises" in problem for problem in verdict.problems) == refused


@pytest.mark.parametrize("fill", [-1e4, -1e5, -1e9, -1e20, torch.finfo(torch.float32).min])
def test_any_large_finite_fill_is_named(fill: float) -> None:
    def masked_sdpa(Q: Any, K: Any, V: Any, keep: Any) -> Any:
        A = torch.softmax((Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(~keep, fill), dim=-1)
        return A @ V, A

    low_enough = fill < -1e10  # for the case whose kept scores are about -4e9
    assert ids(told("masking", "masked_sdpa", masked_sdpa)) == {"smallest_number" if low_enough else "minus_1e9"}


def _without_the_maximum(s: Any) -> Any:
    e = torch.exp(s - s.max())
    return e / e.sum()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("weights", [_without_the_maximum, lambda s: torch.exp(s - torch.logsumexp(s, 0))])
def test_a_right_jacobian_passes_near_1000(weights: Any, seed: int) -> None:
    def softmax_jacobian(s: Any) -> Any:
        a = weights(s)
        return torch.diag(a) - a[:, None] * a

    assert told("scaled_dot_product", "softmax_jacobian", softmax_jacobian, seed).passed


def test_differences_are_no_jacobian_near_1000() -> None:
    def softmax_jacobian(s: Any) -> Any:
        step = 1e-2 * torch.eye(len(s))
        return ((torch.softmax(s + step, -1) - torch.softmax(s - step, -1)) / 2e-2).mT

    assert not told("scaled_dot_product", "softmax_jacobian", softmax_jacobian).passed


@pytest.mark.parametrize("seed", range(20))
def test_the_wrong_argument_order_of_a_kernel_never_passes(seed: int) -> None:
    def attention_pool(q: Any, K: Any, V: Any, kernel: Any) -> Any:
        w = kernel(K, q)
        return w @ V / w.sum() if w.sum() > 0 else np.zeros(V.shape[1])

    assert not told("soft_lookup", "attention_pool", attention_pool, seed).passed


def test_a_key_found_by_in_is_not_a_match() -> None:
    """`k in K` of NumPy asks whether any entry agrees."""

    def hard_lookup(q: Any, K: Any, V: Any) -> Any:
        found = np.array([q in k[None] for k in K], dtype=float)
        return found @ V / max(found.sum(), 1)

    assert not told_in_the_sample_course("hard_lookup", hard_lookup).passed


@pytest.mark.parametrize(
    ("slug", "name", "answer", "both"),
    [
        ("scaled_dot_product", "sdpa", lambda Q, K, V: torch.softmax(Q @ K.mT, -2), {"unscaled", "softmax_over_queries"}),
        ("masking", "masked_sdpa", None, {"unscaled", "minus_infinity_only"}),
        ("masking", "causal_mask", lambda n_q, n_k: torch.ones(n_q, n_k).tril(-1).bool(), {"top_left", "cannot_see_itself"}),
    ],
)
def test_two_slips_of_a_lesson_are_both_named(slug: str, name: str, answer: Any, both: set[str]) -> None:
    def with_outputs(Q: Any, K: Any, V: Any) -> Any:
        A = answer(Q, K, V)
        return A @ V, A

    def masked(Q: Any, K: Any, V: Any, keep: Any) -> Any:
        A = torch.softmax((Q @ K.mT).masked_fill(~keep, -torch.inf), dim=-1)
        return A @ V, A

    made = masked if answer is None else with_outputs if name == "sdpa" else answer
    assert ids(told(slug, name, made, naming="pairs")) == both


def test_where_two_pairs_do_the_same_only_what_they_share_is_said() -> None:
    def masked_sdpa(Q: Any, K: Any, V: Any, keep: Any) -> Any:
        A = torch.softmax((Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(keep, -torch.inf), dim=-1)
        return A @ V, A

    found = told("masking", "masked_sdpa", masked_sdpa).diagnosis
    assert found is not None
    assert "polarity_flipped" in {known.id for known in found.known}
    assert len(found.known) == 1 or found.certain


# What wrong answers once got full marks for: each is a case now.


def test_an_exact_lookup_forgives_no_thousandth() -> None:
    def hard_lookup(q: Any, K: Any, V: Any) -> Any:
        match = np.isclose(K, q, atol=1e-3).all(axis=1)
        return V[match].mean(axis=0) if match.any() else np.zeros(V.shape[1])

    result = told_in_the_sample_course("hard_lookup", hard_lookup)
    assert not result.passed
    assert ids(result) == {"nearly_equal"}


@pytest.mark.parametrize("fill", [-100.0, -500.0, -1000.0])
def test_a_fill_that_allowed_scores_can_lie_below_is_seen(fill: float) -> None:
    def masked_sdpa(Q: Any, K: Any, V: Any, keep: Any) -> Any:
        A = torch.softmax((Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(~keep, fill), dim=-1) * keep
        return A @ V, A

    result = told("masking", "masked_sdpa", masked_sdpa)
    assert not result.passed


def test_a_running_maximum_that_forgets_is_seen() -> None:
    def pool_in_blocks(s: Any, V: Any, size: int) -> Any:
        top, total, o = -np.inf, 0.0, np.zeros(V.shape[1])
        for start in range(0, len(s), size):
            block, values = s[start : start + size], V[start : start + size]
            new = block.max()
            e, shrink = np.exp(block - new), np.exp(top - new)
            total, o, top = total * shrink + e.sum(), o * shrink + e @ values, new
        return o / total

    assert ids(told("scoring_functions", "pool_in_blocks", pool_in_blocks)) == {"maximum_of_the_block_alone"}


def test_an_epsilon_outside_the_root_is_seen_in_small_tokens() -> None:
    def causal_layer(X: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
        Z = (X - X.mean(-1, keepdim=True)) / (X.std(-1, keepdim=True, correction=0) + 1e-5)
        n = X.shape[-2]
        S = (Z @ W_Q) @ (Z @ W_K).mT / W_Q.shape[-1] ** 0.5
        A = torch.softmax(S.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf), -1)
        return X + A @ (Z @ W_V)

    assert ids(told("masking", "causal_layer", causal_layer)) == {"added_to_the_deviation"}


def test_lost_precision_is_seen_where_tensors_are_double() -> None:
    asked = Exercise(
        "doubled",
        "Doubled",
        1,
        lambda x: 2 * x,
        (Case("single", _x, edge=0), Case("double", _x, double=True)),
        hints=("a", "b", "c"),
        tensors=True,
    )
    held = make_pack.make_record("a_lesson", asked, 0)
    assert grade(held, lambda x: x + x).passed
    lost = grade(held, lambda x: (x + x).float())
    assert [case.passed for case in lost.cases] == [True, False]
    mismatch = lost.cases[1].mismatch
    assert mismatch is not None
    assert mismatch.check == "dtype"


def _x(draw: Draw) -> dict[str, Any]:
    return {"x": draw.normal(3)}


class _Purse:
    """Refuses what is too much; `early` counts it first."""

    early = False

    def __init__(self, room: int):
        self.room, self.held = room, 0

    def put(self, n: int) -> int:
        self.held += n if self.early else 0
        if self.held + (0 if self.early else n) > self.room:
            raise ValueError("too much")
        self.held += 0 if self.early else n
        return self.held


class _EarlyPurse(_Purse):
    early = True


class _OpenPurse(_Purse):
    def put(self, n: int) -> int:
        self.held += n
        return self.held


def test_what_is_left_behind_an_error_is_seen() -> None:
    calls = (Call("put", {"n": 2}), Call("put", {"n": 9}, raises=ValueError), Read("held"))
    asked = Exercise(
        "purse", "Purse", 1, _Purse, (Case("full", lambda draw: Script({"room": 5}, None, calls)),), hints=("a", "b", "c")
    )
    held = make_pack.make_record("a_lesson", asked, 0)
    assert grade(held, _Purse).passed
    assert not grade(held, _EarlyPurse).passed, "counted before it was refused"
    open_purse = grade(held, _OpenPurse).cases[0].mismatch
    assert open_purse is not None
    assert open_purse.what["got"] == NOTHING_RAISED


def test_a_kernel_is_called_with_all_keys_or_with_a_table_of_one() -> None:
    def one_row_at_a_time(q: Any, K: Any, V: Any, kernel: Any) -> Any:
        scores = np.array([kernel(q, k) for k in K])
        return scores / max(scores.sum(), 1e-300) @ V

    assert not told("soft_lookup", "attention_pool", one_row_at_a_time).passed


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_few_zeros_and_ones_name_no_slip_for_certain(value: float) -> None:
    """Among hundreds of programs some return nothing but 0, or 1: that is a coincidence."""
    with sample.in_use():
        asked = sample_exercise("hard_lookup")
        asked = dataclasses.replace(asked, cases=asked.cases[:1], misconceptions=())
        made = make_pack.make_record("soft_lookup", asked, 0, naming="near")
        said = grade(made, lambda q, K, V: np.full(V.shape[1], value)).diagnosis
    assert said is None or not said.certain or not said.known


@pytest.mark.parametrize("seed", range(10))
def test_the_bytes_of_a_number_are_no_factor_that_is_there_anyway(seed: int) -> None:
    """Of 2 or 4 bytes nobody could tell a forgotten width from a multiplication that counts once, or keys without values."""
    for name in ("arithmetic_intensity", "decode_time_floor"):
        cases = record("multi_query", name, seed).cases
        given = [leaf.content for case in cases for path, leaf in case.probe.inputs.leaves() if "element_bytes" in path]
        assert given
        assert any(number not in (1, 2, 4, 8) for number in given), (name, given)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-8, 1e-3])
def test_another_epsilon_in_the_variance_is_seen(eps: float) -> None:
    from attention_course import thread  # noqa: F401  # the course's own, as the exercise's module needs it

    reference = exercise("masking", "causal_layer").reference

    def other(X: torch.Tensor, **more: Any) -> Any:
        return reference(
            X * ((X.var(-1, keepdim=True, correction=0) + 1e-5) / (X.var(-1, keepdim=True, correction=0) + eps)).sqrt(), **more
        )

    assert not told("masking", "causal_layer", other).passed


def test_a_second_call_begins_anew() -> None:
    """An answer that keeps its count from one call to the next is wrong from the second case on."""
    reference, kept = exercise("kv_cache", "tokens_processed").reference, list[int]()

    def remembers(**inputs: Any) -> Any:
        kept.append(reference(**inputs))
        return sum(kept)

    assert not told("kv_cache", "tokens_processed", remembers).passed


def test_single_precision_made_on_the_way_is_seen_in_a_design() -> None:
    reference = exercise("latent", "gqa_as_mla").reference

    def single(W_K: torch.Tensor, W_V: torch.Tensor, H: int) -> Any:
        down, key, value = reference(W_K, W_V, H)
        return down, key.float(), value.float()

    assert not told("latent", "gqa_as_mla", single).passed


def test_a_number_is_no_tensor_without_axes() -> None:
    reference = exercise("real_model", "softmax_scale").reference
    assert not told("real_model", "softmax_scale", lambda **given: torch.tensor(reference(**given))).passed


def test_what_is_forbidden_to_copy_and_to_differentiate_is_seen() -> None:
    def with_copies(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> Any:
        r = Q.shape[-3] // K.shape[-3]
        out, A = exercise("grouped_query", "gqa_grouped").reference(Q, K.repeat_interleave(r, -3), V.repeat_interleave(r, -3))
        return out, A.reshape(*A.shape[:-4], K.shape[-3], r, *A.shape[-2:])

    def by_autograd(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, dO: torch.Tensor) -> Any:
        given = [X.clone().requires_grad_() for X in (Q, K, V)]
        out = torch.nn.functional.scaled_dot_product_attention(*given)
        return torch.autograd.grad(out, given, dO)

    def table(Q: Any, K: Any) -> Any:
        return -((Q[:, None] - K[None]) ** 2).sum(-1) / 2

    for slug, name, answer in (
        ("grouped_query", "gqa_grouped", with_copies),
        ("scaled_dot_product", "sdpa_backward", by_autograd),
        ("scoring_functions", "gaussian_scores", table),
    ):
        assert not told(slug, name, answer).passed, name


@pytest.mark.slow
@pytest.mark.parametrize("slug", ["soft_lookup", "a_river", "scoring_functions", "masking"])
def test_no_name_changes_with_the_seed(slug: str) -> None:
    for asked in LESSONS[slug].exercises():
        assert verify_exercise(slug, asked, seeds=range(100, 112)).problems == [], asked.id


def test_numbers_in_the_ten_thousands_are_not_equal_for_being_near() -> None:
    def hard_lookup(q: Any, K: Any, V: Any) -> Any:
        match = np.isclose(K, q).all(axis=-1)
        return match @ V / max(match.sum(), 1)

    assert ids(told_in_the_sample_course("hard_lookup", hard_lookup)) == {"nearly_equal"}


def test_a_stable_softmax_gives_the_nearest_value_where_0_is_asked() -> None:
    def nadaraya_watson(xq: Any, x: Any, y: Any, width: Any) -> Any:
        s = -0.5 * ((xq[:, None] - x) / width) ** 2
        w = np.exp(s - s.max(axis=1, keepdims=True))
        return w / w.sum(axis=1, keepdims=True) @ y

    assert ids(told("a_river", "nadaraya_watson", nadaraya_watson)) == {"stable_softmax"}


def test_a_point_is_left_out_and_not_its_place_and_no_shortcut_divides_0_by_0() -> None:
    def same_place(x: Any, y: Any, width: Any) -> Any:
        from solutions.soft_lookup import nadaraya_watson

        fits = [nadaraya_watson(x[j : j + 1], x[x != x[j]], y[x != x[j]], width)[0] for j in range(len(x))]
        return float(np.mean((y - fits) ** 2))

    def shortcut(x: Any, y: Any, width: Any) -> Any:
        s = np.exp(-0.5 * ((x[:, None] - x) / width) ** 2)
        h = s / s.sum(axis=1, keepdims=True)
        return float(np.mean(((y - h @ y) / (1 - np.diag(h))) ** 2))

    assert ids(told("a_river", "leave_one_out", same_place)) == {"same_place_left_out"}
    assert ids(told("a_river", "leave_one_out", shortcut)) == {"shortcut_of_nothing"}


def test_a_softmax_of_everything_is_no_pool_in_blocks() -> None:
    def pool_in_blocks(s: Any, V: Any, size: int) -> Any:
        e = np.exp(s - s.max())
        return e / e.sum() @ V

    result = told("scoring_functions", "pool_in_blocks", pool_in_blocks)
    assert [case.name for case in result.cases if not case.passed] == ["thousands of keys, and room for a block"]


def test_the_maximum_of_the_first_block_is_not_enough() -> None:
    def pool_in_blocks(s: Any, V: Any, size: int) -> Any:
        top, total, o = s[:size].max(), 0.0, np.zeros(V.shape[1])
        for start in range(0, len(s), size):
            e = np.exp(s[start : start + size] - top)
            total, o = total + e.sum(), o + e @ V[start : start + size]
        return o / total

    assert ids(told("scoring_functions", "pool_in_blocks", pool_in_blocks)) == {"first_maximum_kept"}


@pytest.mark.parametrize(
    ("slug", "name", "mistake"),
    [
        ("scaled_dot_product", "scaled_scores", "single_precision"),
        ("positions", "rope_angles", "angles_always_in_float32"),
        ("positions", "apply_rope", "result_not_in_the_dtype_of_x"),
    ],
)
def test_a_result_in_another_precision_than_its_docstring_says_is_named(slug: str, name: str, mistake: str) -> None:
    reference = exercise(slug, name).reference

    def answer(**inputs: Any) -> Any:
        return reference(**inputs).float()

    assert ids(told(slug, name, answer)) == {mistake}


@pytest.mark.parametrize("above_zero", [lambda step: step.clamp(min=1e-8), lambda step: step + 1e-8, lambda step: step + 1e-6])
def test_a_step_kept_above_more_than_the_smallest_number_loses_small_steps(above_zero: Any) -> None:
    def round_to_bits(x: Any, bits: int, dim: int) -> Any:
        least, largest = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
        step = above_zero((largest - least) / (2**bits - 1))
        return ((x - least) / step).round() * step + least

    result = told("smaller_caches", "round_to_bits", round_to_bits)
    assert "groups of nearly equal numbers" in [case.name for case in result.cases if not case.passed]
    assert ids(result) == {"small_steps_lost"}


def test_rows_look_at_rows_and_not_at_positions() -> None:

    def rotary_mha(X: Any, W_Q: Any, W_K: Any, W_V: Any, W_O: Any, H: int, pos: Any) -> Any:
        Q, K, V = ((X @ W).unflatten(-1, (H, -1)).transpose(-3, -2) for W in (W_Q, W_K, W_V))
        S = apply_rope(Q, pos) @ apply_rope(K, pos).mT / Q.shape[-1] ** 0.5
        A = S.masked_fill(pos[:, None] < pos, -torch.inf).softmax(-1)
        return (A @ V).transpose(-3, -2).flatten(-2) @ W_O, A

    assert ids(told("positions", "rotary_mha", rotary_mha)) == {"mask_of_positions"}


@pytest.mark.parametrize("border", [lambda W_K, r: len(W_K) // 2, lambda W_K, r: r])
def test_keys_and_values_split_elsewhere_than_behind_the_keys_are_named(border: Any) -> None:
    def latent_weights(W_K: Any, W_V: Any, moment: Any, r: int) -> Any:
        kappa, nu = ((W * (moment @ W)).sum().sqrt() for W in (W_K, W_V))
        down, up = smaller_caches.output_factors(torch.cat([W_K / kappa, W_V / nu], dim=-1), moment)
        k = border(W_K, r)
        return down[:, :r], up[:r, :k] * kappa, up[:r, k:] * nu

    result = told("smaller_caches", "latent_weights", latent_weights)
    assert (result.score, ids(result)) == (0, {"cut_elsewhere"})
