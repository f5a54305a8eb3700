"""What a newcomer typed and the panel did not tell: quoted powers, the first slips in PyTorch, sizes that do not fit, ticks."""

import dataclasses
import html
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autograder import Misconception
from autograder.diagnosis import python_errors
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.known_mistakes import match_most
from autograder.diagnosis.panel import inline, plain
from autograder.diagnosis.phrase import next_step, say
from autograder.judging.observation import Failure
from autograder.judging.records import Result
from course.exercises.scaled_dot_product.scores import SCALED_SCORES
from course.exercises.scoring_functions.stable import SOFTMAX
from tests.diagnosis.test_unlisted_mistakes import ATTEND, judged


@pytest.mark.parametrize("line", ["return (Q**2).sum(1) - (K**2).sum(1)", "a *b* and $x$ and $y$ and <b>", "x ** y ** z"])
def test_a_quoted_line_keeps_its_stars(line: str) -> None:
    said = f"You **have** `{line}` in line 2, *where* `K.T` is right, of \ue000."
    assert inline(said) == (
        f"You <b>have</b> <code>{html.escape(line)}</code> in line 2, <i>where</i> <code>K.T</code> is right, of \ufffd."
    )
    assert plain(said) == f"You have `{line}` in line 2, where `K.T` is right, of \ufffd."


def _typed(tmp_path: Path, line: str, **given: Any) -> Result:
    """Lesson 03's first exercise, answered by one line that stands in a file, as in a cell."""
    source = f"def scaled_scores(Q, K):\n    {line}\n"
    (tmp_path / "typed.py").write_text(source)
    exec(compile(source, str(tmp_path / "typed.py"), "exec"), given)
    return judged(SCALED_SCORES, given["scaled_scores"])


@pytest.mark.parametrize(
    ("line", "headline"),
    [
        ("return (Q * K).sum(-1) / math.sqrt(Q.shape[-1])", "`Q * K` multiplies entries in the same place"),
        ("return Q @ K.T / np.sqrt(Q.shape[-1])", "The name `np` is not defined."),
        ("return Q @ K.mT / torch.sqrt(Q.shape[-1])", "You call `torch.sqrt` with a plain number"),
        ("return Q.dot(K.mT) / math.sqrt(Q.shape[-1])", "`dot` takes two vectors"),
    ],
)
def test_a_line_that_stops_is_told_what_it_did_and_no_other_mistake(line: str, headline: str, tmp_path: Path) -> None:
    report = make_report(_typed(tmp_path, line, math=math, torch=torch))
    assert report.headline.startswith(headline)
    assert "K.T" not in report.headline
    assert report.advice


def test_a_name_that_is_not_there_comes_first_where_another_case_ends_otherwise() -> None:
    def answer(Q: Any, K: Any, V: Any) -> Any:
        asked.append(len(Q))
        if len(asked) == 2:
            return undefined(Q)  # noqa: F821 - the slip itself
        return Q @ K

    asked: list[int] = []
    assert "`undefined`" in make_report(judged(ATTEND, answer)).headline


@pytest.mark.parametrize(
    "line", ["return (Q * K).sum(-1) + K", "return (Q * K).sum(-1) / K.norm(dim=-1)", "return (Q * K @ V).sum(-1)"]
)
def test_what_else_may_not_fit_in_a_line_is_not_put_down_to_the_product(line: str) -> None:
    text = "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"
    slip = python_errors.raised(Failure("raised", "RuntimeError", text, (2, line)))
    assert slip is not None
    assert say(slip.what).startswith("Two tensors have shapes that don't fit together")


def test_sizes_that_do_not_fit_do_not_point_to_a_listed_mistake() -> None:
    """Half of what fails ends in the same exception as a mistake would: so would many another line."""
    unfit = lambda Q, K, V: Q + np.zeros((len(Q) + 1, 1))  # noqa: E731 - beside its twin
    listed = Misconception("added", "added a column too long", "Shorten it.", unfit, raises=True)
    other = lambda Q, K, V: K + np.zeros((len(K) + 1, 1))  # noqa: E731
    exercise = dataclasses.replace(ATTEND, misconceptions=(*ATTEND.misconceptions, listed))
    result = judged(exercise, other)
    assert match_most(result.exercise, list(zip(result.exercise.cases, result.cases, strict=True))) is None


def test_a_matrix_with_an_axis_too_many_is_not_asked_only_which_to_transpose() -> None:
    slip = python_errors.raised(Failure("raised", "ValueError", "matmul: Input operand 1 has a mismatch in its core dimension 0"))
    assert slip is not None
    assert "an axis too many" in next_step(slip.what)


def test_a_tick_says_which_properties_were_looked_at() -> None:
    """A softmax along any axis has no law of sums: over the whole array it is not negative, and at most 1, and wrong."""
    whole = make_report(judged(SOFTMAX, lambda x, axis=-1: np.exp(x - x.max()) / np.exp(x - x.max()).sum()))
    assert dict(whole.checks)["properties (not negative, at most 1)"] == "pass"
    assert "properties" not in dict(whole.checks)
    assert dict(whole.checks)["values"] == "fail"


@pytest.mark.parametrize(
    ("line", "headline"),
    [
        ("return (Q^2) @ K.mT", "`^` doesn't raise to a power in Python."),
        ("return Q @ K.mT / math.sqrt(K)", "A tensor is used where a plain number is needed."),
        ("return Q.shape[-1].float()[0]", "A `int` has no `float`."),
        ("return Q @ K.mT / torch.tensor(3.0)[0]", "You index a plain number as if it were an array."),
    ],
)
def test_slips_of_those_who_come_from_mathematics_have_a_sentence(line: str, headline: str, tmp_path: Path) -> None:
    assert make_report(_typed(tmp_path, line, math=math, torch=torch)).headline == headline


def test_the_error_that_is_told_is_that_of_the_case_that_is_shown(tmp_path: Path) -> None:
    line = "return undefined(Q) if Q.shape[0] > 2 else math.sqrt(Q)"
    report = make_report(_typed(tmp_path, line, math=math, torch=torch))
    assert "NameError" in report.detail
    assert "`undefined`" in report.headline


def test_where_nothing_is_known_of_the_case_that_is_shown_another_case_may_say_it() -> None:
    def answer(x: Any, axis: int = -1) -> Any:
        return x**3 + 1 if calls.append(0) or len(calls) > 1 else None

    calls: list[int] = []
    report = make_report(judged(SOFTMAX, answer))
    assert "returns nothing" in report.headline


def test_an_argument_that_another_function_does_not_take_is_told_of_that_function_and_once(tmp_path: Path) -> None:
    def softmax(x: Any) -> Any:
        return x

    report = make_report(_typed(tmp_path, "return softmax(Q @ K.mT, axis=1)", softmax=softmax))
    assert report.headline == "You call `softmax` with the argument `axis`, which it does not take."
