"""Holes through which a wrong answer once slipped, and coincidences that let one pass: each is a test."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from autograder import Call, Case, Draw, Exercise, Misconception, Script
from autograder.authoring.course import lessons
from autograder.authoring.verify import grade, verify_exercise
from autograder.judging import pack
from autograder.judging.records import ExerciseRecord, Result

LESSONS = {lesson.slug: lesson for lesson in lessons()}


def exercise(slug: str, name: str) -> Exercise:
    return next(each for each in LESSONS[slug].exercises() if each.id == name)


def record(slug: str, name: str, seed: int = 0) -> ExerciseRecord:
    return pack.make_record(slug, exercise(slug, name), seed)


def told(slug: str, name: str, answer: Any, seed: int = 0) -> Result:
    return grade(record(slug, name, seed), answer)


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


@pytest.mark.parametrize("seed", range(20))
def test_a_right_jacobian_passes_near_1000(seed: int) -> None:
    def softmax_jacobian(s: Any) -> Any:
        e = torch.exp(s - s.max())
        a = e / e.sum()
        return torch.diag(a) - a[:, None] * a

    assert told("scaled_dot_product", "softmax_jacobian", softmax_jacobian, seed).passed


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

    assert not told("soft_lookup", "hard_lookup", hard_lookup).passed


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
    assert ids(told(slug, name, made)) == both


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

    result = told("soft_lookup", "hard_lookup", hard_lookup)
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
    held = pack.make_record("a_lesson", asked, 0)
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
    calls = (Call("put", {"n": 2}), Call("put", {"n": 9}, raises=ValueError), Call("held", attribute=True))
    asked = Exercise(
        "purse", "Purse", 1, _Purse, (Case("full", lambda draw: Script({"room": 5}, None, calls)),), hints=("a", "b", "c")
    )
    held = pack.make_record("a_lesson", asked, 0)
    assert grade(held, _Purse).passed
    assert not grade(held, _EarlyPurse).passed, "counted before it was refused"
    open_purse = grade(held, _OpenPurse).cases[0].mismatch
    assert open_purse is not None
    assert "'nothing raised'" in open_purse.message
