"""What the checks themselves say for certain: a wrong wrapping, an input changed in place, another exception than asked for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from autograder import Call, Case, Draw, Exercise, Misconception, Read, Script
from autograder.authoring.verify import grade
from autograder.diagnosis import python_errors
from autograder.diagnosis.explain import UNKNOWN, Report, make_report
from autograder.diagnosis.phrase import say
from autograder.judging.observation import Failure
from autograder.packs import make_pack

AS_IF = "Your result comes out exactly as if you"


def rows(draw: Draw) -> dict[str, Any]:
    return {"x": draw.normal(*draw.sizes(2))}


def shares(x: Any) -> Any:
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


SHARES = Exercise(
    "shares",
    title="Shares",
    points=1,
    reference=shares,
    cases=(Case("one", rows, grad=("x",)), Case("two", rows), Case("double", rows, double=True)),
    hints=("a", "b", "c"),
    tensors=True,
    misconceptions=(Misconception("columns", "shared among the rows", "Last axis.", lambda x: shares(x.mT).mT),),
)
ABOVE = Exercise(
    "above", "Above", 1, reference=lambda x: x > 0, cases=(Case("one", rows), Case("two", rows)), hints=("a", "b", "c")
)


def said(exercise: Exercise, answer: Callable[..., Any]) -> Report:
    return make_report(grade(make_pack.make_record("a_lesson", exercise, 0), answer))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: (shares(x), x), "returned 2 results where one is asked for"),
        (lambda x: shares(x)[None], "returned an axis of length 1 too many"),
        (lambda x: shares(x.float()), "returned single precision where double is asked for"),
    ],
)
def test_a_right_result_in_a_wrong_wrapping(answer: Callable[..., Any], words: str) -> None:
    report = said(SHARES, answer)
    assert report.headline == f"What you compute is right, but you {words}."
    assert report.recorded == "~wrapped"


def test_a_known_mistake_in_a_wrong_wrapping_is_both() -> None:
    report = said(SHARES, lambda x: (shares(x.mT).mT, x))
    assert report.headline == f"{AS_IF} shared among the rows. And you returned 2 results where one is asked for."
    assert report.recorded == "columns+~wrapped"


def test_an_unknown_mistake_in_a_wrong_wrapping_has_no_name() -> None:
    assert said(SHARES, lambda x: (torch.sin(x) ** 3, x)).recorded is None


def test_numbers_for_truth_values() -> None:
    assert "numbers where truth values are asked for" in said(ABOVE, lambda x: (x > 0) * 1.0).headline
    assert "0 and very low numbers" in said(ABOVE, lambda x: np.where(x > 0, 0.0, -np.inf)).headline


def test_an_input_changed_in_place_is_said_also_where_pytorch_notices_it_first() -> None:
    def answer(x: Any) -> Any:
        x -= 1.0
        return shares(x)

    report = said(SHARES, answer)
    assert report.headline == "The result is right, but you changed your input `x` in place."
    assert report.recorded == "~exact"


def test_a_way_back_that_is_cut_is_said() -> None:
    report = said(SHARES, lambda x: shares(x.detach()))
    assert report.headline == "The values are right, but you cut the gradient off: none reaches `x`."


class Store:
    def __init__(self, size: int) -> None:
        self.size, self.held = size, 0

    @property
    def length(self) -> int:
        return self.held

    def add(self, n: int) -> int:
        if self.held + n > self.size:
            raise ValueError("full")
        self.held += n
        return self.held


STORE = Exercise(
    "Store",
    title="Store",
    points=1,
    reference=Store,
    cases=(
        Case("two", lambda draw: Script({"size": 5}, None, (Call("add", {"n": 2}), Read("length")))),
        Case("full", lambda draw: Script({"size": 5}, None, (Call("add", {"n": 2}), Call("add", {"n": 4}, raises=ValueError)))),
    ),
    hints=("a", "b", "c"),
)


class Silent(Store):
    def add(self, n: int) -> int:
        self.held = min(self.size, self.held + n)
        return self.held


class Asserts(Store):
    def add(self, n: int) -> int:
        assert self.held + n <= self.size
        return super().add(n)


class Method(Store):
    def length(self) -> int:  # type: ignore[override]
        return self.held


@pytest.mark.parametrize(
    ("answer", "headline"),
    [
        (Silent, "You raised nothing where a ValueError is asked for."),
        (Asserts, "You ended with AssertionError where a ValueError is asked for."),
        (Method, "You made `length` a method, which has to be called, where it is read without brackets."),
    ],
)
def test_what_a_class_does_instead(answer: Any, headline: str) -> None:
    report = said(STORE, answer)
    assert report.headline == headline
    assert report.recorded == "~exact"


class Layer(torch.nn.Module):
    def __init__(self, name: str = "W") -> None:
        super().__init__()
        setattr(self, name, torch.nn.Parameter(torch.zeros(2)))
        self.name = name

    def forward(self, x: Any) -> Any:
        return x * getattr(self, self.name)


LAYER = Exercise(
    "Layer",
    title="Layer",
    points=1,
    reference=Layer,
    cases=(Case("one", lambda draw: Script({}, {"W": draw.normal(2)}, (Call(arguments={"x": draw.normal(3, 2)}),))),),
    hints=("a", "b", "c"),
    tensors=True,
)


def test_parameters_of_another_name_are_named() -> None:
    report = said(LAYER, lambda: Layer("weight"))
    assert report.headline == "You called your parameters `weight`, where the given weights are called `W`."


def test_a_shape_that_is_unpacked_into_too_many_names() -> None:
    failure = Failure("raised", "ValueError", "not enough values to unpack (expected 3, got 2)", (7, "b, n, d = x.shape"))
    from autograder.diagnosis.from_checks import _unpacked_shape

    found = _unpacked_shape(failure)
    assert found is not None
    assert say(found) == "counted on exactly 3 axes in your line 7, `b, n, d = x.shape`; here there are 2"
    assert _unpacked_shape(Failure("raised", "ValueError", failure.message, (7, "b, n, d = parts(x)"))) is None


def test_a_call_that_lacks_an_argument_is_not_the_learners_function() -> None:
    message = "kernel() missing 1 required positional argument: 'K'"
    inside = python_errors.raised(Failure("raised", "TypeError", message, (3, "s = kernel(u)")))
    outside = python_errors.raised(Failure("raised", "TypeError", message))
    assert inside is not None
    assert say(inside.what).startswith("A function is called without all of its arguments")
    assert outside is not None
    assert say(outside.what).startswith("Your function has more parameters than the check passes to it")


def test_a_tensor_that_went_through_numpy_is_named_where_the_sandbox_leaves_no_message() -> None:
    line = (4, "S = scores(Q, K).numpy()")
    slip = python_errors.raised(Failure("raised", "RuntimeError", "", line))
    assert slip is not None
    assert (slip.what.key, slip.plain) == ("raised.numpy_grad", True)
    assert python_errors.raised(Failure("raised", "RuntimeError", "", (4, "S = scores(Q, K)"))) is None


def test_beside_a_failing_function_below_nothing_is_said_that_says_nothing() -> None:
    result = grade(make_pack.make_record("a_lesson", SHARES, 0), lambda x: torch.sin(x).cumsum(-1) ** 3)
    result.below = "normalize"
    report = make_report(result)
    assert "Fix `normalize` first" in report.advice
    assert say(UNKNOWN) not in report.advice


class Sum:
    """The sum of what it is made from, and of what is added."""

    def __init__(self, start: Any) -> None:
        self.total = start.sum()

    def add(self, x: Any) -> Any:
        self.total = self.total + x.sum()
        return self.total


def test_what_a_class_is_made_from_is_no_input_by_a_name() -> None:
    def script(draw: Draw) -> Script:
        return Script({"start": draw.normal(3)}, None, (Call("add", {"x": draw.normal(2)}), Call("add", {"x": draw.normal(2)})))

    class Clearing(Sum):
        def __init__(self, start: Any) -> None:
            super().__init__(start)
            start[:] = 0

    exercise = Exercise("Sum", title="Sum", points=1, reference=Sum, cases=(Case("two", script),), hints=("a", "b", "c"))
    assert said(exercise, Clearing).headline == "The result is right, but you changed what the object is made from in place."
