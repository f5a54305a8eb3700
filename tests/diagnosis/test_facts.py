"""What is said of every wrong answer that nothing explains: facts about what was returned, and on which inputs it is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autograder import Call, Case, Draw, Exercise, Script
from autograder.authoring.verify import grade
from autograder.diagnosis.contrast import contrast
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.facts import compare_arrays, diagnose_from_facts, facts, first_call, meaning
from autograder.diagnosis.phrase import next_step, say
from autograder.judging.exercise import Tolerance
from autograder.judging.records import ExerciseRecord, Result
from autograder.packs import make_pack
from tests.drawn import Counter

EXACT = Tolerance()
WANT = np.array([[0.5, 1.5, -2.0], [0.25, 3.0, -0.75]])


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (-2 * WANT**2 * np.sign(WANT), "has the other sign in every entry"),
        (np.sqrt(np.abs(WANT)) * 3, "to the power 0.5, times 3"),
        (np.exp(WANT) + WANT, "has its entries in the right order"),
        (-np.exp(WANT), "has its entries in the opposite order"),
        (np.full((2, 3), 7.0), "is 7 in every entry"),
        (WANT + 3, "is too large by 3 in every entry"),
        (WANT * 0.5, "is in size 0.5 times the right one in every entry"),
        (WANT[:, ::-1] + 0.01, "is [[-1.99,  1.51,  0.51], [-0.74,  3.01,  0.26]], where"),
        (WANT * [[1, 1, 9]], "is right in columns 0, 1, and wrong in column 2"),
        (WANT * [[1.5, 2, 4], [3, 2.5, 1.2]], "is too large in size in every entry, by factors from 1.2 to 4"),
    ],
)
def test_how_the_numbers_lie_beside_the_right_ones(got: Any, said: str) -> None:
    clauses = [say(clause) for clause in compare_arrays(np.asarray(got), WANT, EXACT)]
    assert any(said in clause for clause in clauses), clauses


def test_truth_values_are_counted() -> None:
    (said,) = compare_arrays(np.array([True, True, False]), np.array([False, True, True]), EXACT)
    assert say(said) == "is True in 1 place where it should be False, and False in 1 where it should be True"


def test_shares_that_sum_up_are_said_to() -> None:
    want, got = np.array([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]]), np.array([[0.3, 0.3, 0.4], [0.6, 0.1, 0.3]])
    assert any("has the right sums along the last axis (1)" in say(clause) for clause in compare_arrays(got, want, EXACT))


def means(x: Any, keep: Any = None) -> Any:
    return x.mean(axis=-1) if keep is None else (x * keep).sum(axis=-1) / keep.sum(axis=-1)


def one(draw: Draw) -> dict[str, Any]:
    return {"x": draw.normal(3, 4), "keep": None}


def hidden(draw: Draw) -> dict[str, Any]:
    return {"x": draw.normal(3, 4), "keep": np.array([[True, False, True, True]] * 3)}


def batch(draw: Draw) -> dict[str, Any]:
    return {"x": draw.normal(2, 3, 4), "keep": None}


MEANS = Exercise(
    "means", title="Means", points=1, reference=means, hints=("a", "b", "c"),
    cases=(Case("plain", one), Case("hidden", hidden), Case("a batch", batch)),
)  # fmt: skip


def graded(exercise: Exercise, answer: Callable[..., Any]) -> tuple[ExerciseRecord, Result]:
    record = make_pack.make_record("a_lesson", exercise, 0, naming="listed")
    return record, grade(record, answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x, keep: means(x) + (0 if keep is None else x[..., 0] ** 2), "on all in which `keep` is given"),
        (lambda x, keep: means(x, keep) + (x.ndim > 2) * np.exp(x[..., 0]), "on all in which `x` has 3 axes"),
    ],
)
def test_what_the_wrong_cases_have_in_common_is_said(answer: Callable[..., Any], said: str) -> None:
    record, result = graded(MEANS, answer)
    common = contrast(record.cases, result.cases)
    assert common is not None
    assert said in say(common)


def test_cases_without_a_common_ground_are_named() -> None:
    record, result = graded(MEANS, lambda x, keep: means(x, keep) + (0 if keep is None and x.ndim == 2 else x[..., 0] ** 2))
    named = contrast(record.cases, result.cases)
    assert named is not None
    assert say(named) == "Of 3 inputs it is right only on “plain”."


COUNTER = Exercise(
    "Counter", title="Count", points=1, reference=Counter, hints=("a", "b", "c"),
    cases=(Case("twice", lambda draw: Script({}, None, (Call("add", {"k": 3}), Call("add", {"k": draw.integer(4, 9)})))),),
)  # fmt: skip


def test_the_first_call_that_goes_wrong_is_said() -> None:
    class Keeps(Counter):
        def add(self, k: int) -> int:
            self.n, before = 7 * k, self.n
            return before + k if before == 0 else before

    record, result = graded(COUNTER, Keeps)
    said = first_call(record.cases[0], result.cases[0], EXACT)
    assert said is not None
    assert say(said).startswith("On “twice” the calls before are right (`add(k)`). The first wrong result is number 2")


def test_a_wrong_answer_that_nothing_explains_is_told_facts() -> None:
    record, result = graded(MEANS, lambda x, keep: np.sin(9 * means(x, keep)) if x.ndim == 2 else means(x, keep))
    report = make_report(result)
    assert report.headline.startswith("Not yet right")
    assert say(facts(record, result.cases)[0]) in f"{report.headline} {report.advice}"
    assert report.known == ()
    assert diagnose_from_facts(record, result.cases) is not None


def test_what_a_design_is_judged_by_is_said_in_the_words_of_its_judge() -> None:
    record, _ = graded(MEANS, means)
    assert meaning(record) is None
    record.behaviour = "attention_course.designs:looks_in_a_ring"
    meant = meaning(record)
    assert meant is not None
    assert "-2 the one before it in the ring" in next_step(meant)
    assert ">>>" not in next_step(meant)
