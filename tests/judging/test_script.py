"""The calls of a script: what each asks of an object, how a pack holds it, and how it is told and shown."""

from typing import Any, ClassVar

import numpy as np
import pytest

from autograder import Call, Case, Construct, Exercise, Keeps, Read, Script
from autograder.authoring.verify import grade
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.facts import first_call
from autograder.diagnosis.failing_input import snippet
from autograder.judging.call_answer import observe
from autograder.judging.fact import fact
from autograder.judging.observation import Probe
from autograder.judging.script import AnyCall, encoded_script, script_from_data, script_to_data
from autograder.judging.values import ArrayNode, decode, encode
from autograder.packs import make_pack

CALLS = (
    (Call("add", {"n": 2}), ["add", {"n": 2}, False, None]),
    (Call(arguments={"n": 2}), ["__call__", {"n": 2}, False, None]),
    (Call("add", {"n": -1}, raises=ValueError), ["add", {"n": -1}, False, "ValueError"]),
    (Read("total"), ["total", {}, True, None]),
    (Construct({"room": 8}), ["__class__", {"room": 8}, False, None]),
    (Keeps(100), ["__kept__", {"numbers": 100}, False, None]),
)


class Purse:
    """Counts what is added; `shared` says whether all purses do so together."""

    counts: ClassVar[list[int]] = []
    shared = False

    def __init__(self, room: int = 9):
        if self.shared:
            self.counts.clear()
        else:
            self.counts = []
        self.table = np.zeros(room)

    def add(self, n: int) -> int:
        if n < 0:
            raise ValueError("expected n >= 0.")
        self.counts.append(n)
        return self.total

    @property
    def total(self) -> int:
        return sum(self.counts)


class Shared(Purse):
    shared = True


def _seen(answer: Any, *calls: AnyCall) -> Any:
    value = observe(answer, Probe(encode(script_to_data(Script({"room": 5}, None, calls))))).value
    assert value is not None
    return decode(value)


@pytest.mark.parametrize(("call", "stored"), CALLS)
def test_a_pack_holds_every_call_as_a_list_of_four(call: AnyCall, stored: list[Any]) -> None:
    data = script_to_data(Script({"room": 5}, None, (call,)))
    assert data == {"init": {"room": 5}, "weights": None, "calls": [stored]}
    assert script_from_data(data) == Script({"room": 5}, None, (call,))


def test_a_pack_of_format_2_says_no_exception() -> None:
    assert script_from_data({"init": {}, "weights": None, "calls": [["add", {}, False]]}) == Script(calls=(Call("add"),))


def test_each_call_has_its_result() -> None:
    calls = (Call("add", {"n": 2}), Call("add", {"n": -1}, raises=ValueError), Construct(), Read("total"), Keeps(5), Keeps(4))
    assert _seen(Purse, *calls) == (2, "ValueError", None, 2, True, False)


def test_another_object_shows_what_the_class_shares() -> None:
    calls = (Call("add", {"n": 2}), Construct(), Read("total"))
    assert _seen(Purse, *calls) == (2, None, 2)
    assert _seen(Shared, *calls) == (2, None, 0)


def test_arguments_stay_encoded_for_a_diagnosis() -> None:
    given = Script({"room": 5}, {"w": np.ones(2)}, (Call("add", {"x": np.ones(3)}), Keeps(7)))
    found = encoded_script(encode(script_to_data(given)))
    assert found is not None
    (call, keeps) = found.calls
    assert isinstance(call, Call)
    assert isinstance(call.arguments["x"], ArrayNode)
    assert keeps == Keeps(7)
    assert found.weights is not None
    assert isinstance(found.weights["w"], ArrayNode)
    assert encoded_script(encode({"x": np.ones(3)})) is None


@pytest.mark.parametrize(("name", "instead"), [("__class__", r"Construct\("), ("__kept__", r"Keeps\(")])
def test_a_name_that_stood_for_another_kind_of_call_is_refused_and_told_what_to_write(name: str, instead: str) -> None:
    with pytest.raises(ValueError, match=rf"expected a method, got Call\('{name}'\)\. Write {instead}"):
        Call(name, {})


def test_a_wrong_answer_is_told_the_first_wrong_call_and_shown_all_of_them() -> None:
    calls = (Call("add", {"n": 2}), Construct({"room": 8}), Read("total"), Keeps(5))
    case = Case("two", lambda draw: Script({"room": 5}, None, calls))
    exercise = Exercise("Purse", "Purse", 1, Purse, (case,), hints=("a", "b", "c"))
    record = make_pack.make_record("a_lesson", exercise, 0, naming="listed")
    result = grade(record, Shared)
    said = first_call(record.cases[0], result.cases[0], record.tolerance)
    assert said is not None
    assert said["before"] == (
        fact("call.method", name="add", arguments="n"),
        fact("call.method", name="__class__", arguments="room"),
    )
    assert (said["number"], said["call"]) == (3, fact("call.attribute", name="total"))
    report = make_report(result)
    assert report.snippet.splitlines() == [
        "obj = Purse(**{'room': 5})",
        "obj.add(n=2)",
        "obj.__class__(room=8)",
        "obj.total",
        "# may now keep 5 numbers, beside what it was made from",
    ]


def test_a_long_script_is_described_by_its_calls() -> None:
    data = script_to_data(
        Script({}, None, (Call("add", {"x": np.zeros((99, 99))}), Read("total"), Construct({"n": 1}), Keeps(5)))
    )
    assert snippet("Purse", "long", encode(data)).splitlines()[1:5] == [
        "#   add(x: float64 (99, 99))",
        "#   total",
        "#   __class__(n: 1)",
        "#   how many numbers are kept",
    ]
