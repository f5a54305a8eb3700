"""An answer that is right but for a name, a quotation mark or an unfinished line is run as it is meant, and a note says so."""

import nbformat
import pytest

from autograder.diagnosis.explain import Report
from autograder.grading.marking import misspelt_names
from autograder.grading.marking.misspelt_names import as_meant
from autograder.grading.marking.remarks import explained
from autograder.judging.exercise import Prediction
from autograder.judging.records import ExerciseRecord

CHOICES = {"a": "more", "b": "less"}
EXERCISES = {
    "softmax_jacobian": ExerciseRecord("softmax_jacobian", "J", 2.0, [], (), ()),
    "scaled_scores": ExerciseRecord("scaled_scores", "S", 1.0, [], (), ()),
    "predict": Prediction("predict", "P", 0.5, CHOICES),
}
WHOLE = "def scaled_scores(Q, K):\n    return Q @ K.mT"


def meant(name: str, source: str, *others: str) -> str | None:
    """The text that runs in place of the answer, or None."""
    texts, notes = as_meant({name: source}, EXERCISES, others)
    assert len(notes) == len(texts)
    return texts.get(name)


@pytest.mark.parametrize("name", ["softmax_jac", "softmaxjacobian", "softmax_jacobain", "soft_max_jacobian"])
def test_a_name_that_is_nearly_right_is_set_beside_the_right_one(name: str) -> None:
    source = f"def {name}(s):\n    return s"
    assert meant("softmax_jacobian", source) == f"{source}\n\n\nsoftmax_jacobian = {name}\n"


@pytest.mark.parametrize(
    ("source", "others"),
    [
        ("def softmax_jacobian(s):\n    return s", ()),
        ("def helper(s):\n    return s", ()),
        ("def scaled_scores(s):\n    return s", ()),
        ("    def softmax_jac(s):\n        return s", ()),
        ("def softmax_jac(s):\n    return s", ("def softmax_jacobian(s): return 2 * s",)),
    ],
)
def test_a_name_is_left_alone_where_the_right_one_is_there_or_none_is_near(source: str, others: tuple[str, ...]) -> None:
    assert meant("softmax_jacobian", source, *others) is None


@pytest.mark.parametrize("written", ["b", "B", "b  # I think", "b)", "b."])
def test_a_letter_without_quotation_marks_gets_them(written: str) -> None:
    letter = written[0]
    assert meant("predict", f"predict = {written}") == f'predict = "{letter}"'


@pytest.mark.parametrize("written", ['"b"', "None", "c", "b + a", "maybe", "b\npredict = a"])
def test_a_prediction_that_is_quoted_or_no_choice_is_left_alone(written: str) -> None:
    assert meant("predict", f"predict = {written}") is None


@pytest.mark.parametrize("end", ["print(scaled_scores(", "for", "x = = 2", "if True:\n", "scaled_scores(torch.ones(2, 3),"])
def test_an_unfinished_line_below_a_whole_function_is_left_out(end: str) -> None:
    assert meant("scaled_scores", f"import torch\n\n\n{WHOLE}\n\n{end}") == f"import torch\n\n\n{WHOLE}"


@pytest.mark.parametrize(
    "source",
    [
        WHOLE,
        f"{WHOLE}\n    return (((",
        "def scaled_scores(Q, K:\n    return Q",
        f"{WHOLE}\n\ndef scaled_scores(Q, K:\n    return",
        f"<<<<<<< mine\n{WHOLE}\n=======\n",
        f"x = (\n{WHOLE}",
    ],
)
def test_a_function_that_is_unfinished_itself_or_there_twice_is_left_alone(source: str) -> None:
    assert meant("scaled_scores", source) is None


def test_of_thousands_of_names_a_few_hundred_are_set_beside_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(misspelt_names, "get_close_matches", lambda name, others, **_: asked.append(len(others)) or [])
    meant("softmax_jacobian", "".join(f"softmax_jac{number} = 1\n" for number in range(20_000)))
    assert asked == [misspelt_names.MAX_NAMES]


def test_unfinished_answers_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading may take its seconds in vain."""
    asked: list[int] = []
    monkeypatch.setattr(misspelt_names.read_in_child, "read", lambda tasks, _: asked.append(len(tasks)) or {})
    as_meant({name: f"def {name}(x):\n    return x\nx = (" for name in EXERCISES}, EXERCISES, [])
    assert len(EXERCISES) > 1
    assert len(asked) == 1


@pytest.mark.parametrize("text", ["a: more", "(b) less", "B, I think", "a) more, surely"])
def test_a_predictions_letter_is_read_without_the_text_that_follows_it(text: str) -> None:
    letter = next(each for each in text if each.isalpha())
    assert meant("predict", f'predict = "{text}"  # "a" or "b"') == f'predict = "{letter}"'


@pytest.mark.parametrize("text", ["a", "c: neither", "a lot more", "more", "b: less' + 'x"])
def test_a_prediction_that_says_no_letter_for_certain_stays_as_it_is(text: str) -> None:
    assert meant("predict", f'predict = "{text}"') is None


@pytest.mark.parametrize(("line", "said"), [("f = torch.randn(9, d_k).std()", True), ("f = d_k**-0.5", False)])
def test_an_answer_that_draws_random_numbers_is_told_that_and_no_factor(line: str, said: bool) -> None:
    grader = {"grade": False, "solution": True, "grade_id": "scaled_scores"}
    answer = nbformat.v4.new_code_cell(f"def scaled_scores(d_k):\n    {line}\n    return f", metadata={"nbgrader": grader})
    report = Report("fail", "S", 0.0, 1.0, "Too small by a third.", checks=(("values", "fail"),))
    assert ("draws random numbers" in explained(report, answer).headline) is said
