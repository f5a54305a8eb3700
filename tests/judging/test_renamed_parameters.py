"""A right answer whose parameters have names of the learner's own is called by position, in a check and in a grade alike."""

from collections.abc import Iterator

import numpy as np
import pytest

from autograder import Prediction
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import make_report
from autograder.grading.marking import decide_marks, remarks
from autograder.judging.compare import judge_choice
from autograder.judging.exercise import Case, Exercise
from autograder.judging.records import ExerciseRecord
from autograder.judging.script import Call, Script
from autograder.packs import make_pack
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import available_tiers
from autograder.sandbox.run_submission import Cell


@pytest.fixture(scope="module")
def record() -> ExerciseRecord:
    """An exercise of two inputs."""

    def less(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x - y

    case = Case("two rows", lambda draw: {"x": draw.normal(2, 3), "y": draw.normal(2, 3)})
    return make_pack.make_record("lesson", Exercise("less", "Take away", 2.0, less, (case,), ("a", "b", "c")), 1)


def test_other_names_in_the_same_number_are_called_by_position_with_a_remark(record: ExerciseRecord) -> None:
    report = make_report(check_answer(record, lambda a, b: a - b))
    assert report.status == "pass"
    assert report.notes == ("Called by position, because your parameters have other names: a, b for x, y",)
    assert make_report(check_answer(record, lambda x, b: x - b)).status == "pass"
    assert make_report(check_answer(record, lambda x, y: x - y)).notes == ()


def test_a_class_whose_constructor_takes_three_arguments_is_not_said_to_be_called_by_position() -> None:
    class Store:
        def __init__(self, pages: int, size: int, d: int) -> None:
            self.sizes = [pages, size, d]

        def all(self) -> np.ndarray:
            return np.array(self.sizes)

    case = Case("three sizes", lambda draw: Script({"pages": 3, "size": 2, "d": 4}, None, (Call("all"),)))
    made = make_pack.make_record("lesson", Exercise("Store", "Keep", 2.0, Store, (case,), ("a", "b", "c")), 1)
    report = make_report(check_answer(made, Store))
    assert (report.status, report.notes) == ("pass", ())


def test_a_wrong_answer_under_other_names_stays_wrong_and_an_unclear_order_is_not_guessed(record: ExerciseRecord) -> None:
    assert check_answer(record, lambda a, b: a + b).score == 0
    for unclear in (
        lambda y, x: x - y,
        lambda b, x: b - x,
        lambda a: a,
        lambda a, b, c: a - b,
        lambda *given: given[0] - given[1],
    ):
        assert check_answer(record, unclear).score == (2 if unclear.__code__.co_varnames[:2] == ("y", "x") else 0)


def test_an_error_in_the_answer_itself_is_not_called_again(record: ExerciseRecord) -> None:
    calls = []

    def less(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        calls.append(1)
        raise TypeError("unexpected keyword argument")

    assert check_answer(record, less).score == 0
    assert len(calls) == len(record.cases)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox of the best tier here."""
    tier = next((tier for tier in available_tiers() if tier.available and tier.name != "none"), None)
    if tier is None:
        pytest.skip("neither bubblewrap nor Landlock isolates on this machine")
    with Sandbox(tier.name) as made:
        yield made


def test_the_grade_agrees_and_says_so(record: ExerciseRecord, sandbox: Sandbox) -> None:
    with sandbox.submission([Cell("a", "def less(a, b):\n    return a - b")]) as submission:
        seen = submission.observe_all([decide_marks.question(record)])["less"]
    assert decide_marks.judged_hidden(record, seen).score == 2.0
    said = remarks.renamed(record, "def less(a: float, b) -> float:\n    return a - b")
    assert said == "less was called by position, since its parameters are a, b where the lesson has x, y"
    assert remarks.renamed(record, "def less(x, y):\n    return x - y") is None
    annotated = 'def less(x: Float[Tensor, "n d"], y: dict[str, "int, or so"]) -> float:\n    return x - y'
    assert remarks.renamed(record, annotated) is None, "commas in annotations separate no parameters"
    said = remarks.renamed(record, annotated.replace("(x:", "(a:"))
    assert said == "less was called by position, since its parameters are a, y where the lesson has x, y"
    assert remarks.renamed(record, "def less(*given):\n    return 1") is None


@pytest.mark.parametrize("written", ["b", " b)", "(b)", "b.", '"b"', ["b"], ("b",), {"b"}])
def test_a_prediction_is_read_however_its_letter_is_wrapped(written: object) -> None:
    guess = Prediction("guess", "Guess", 0.5, choices={"a": "one", "b": "two"})
    assert judge_choice(guess, written).chosen == "b"
    for unclear in ("ab", "", ["a", "b"], None, "c"):
        assert judge_choice(guess, unclear).chosen is None
