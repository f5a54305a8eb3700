"""Explanations of answers that nobody listed: two slips at once, slips of Python."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import After, Before, Call, Case, Draw, Exercise, Instead, Made, Misconception, Of, Script
from autograder.authoring.verify import grade, verify_exercise
from autograder.diagnosis import hidden, python_errors
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import next_step, say
from autograder.judging.combined_mistakes import answer_of
from autograder.judging.exercise import Tolerance
from autograder.judging.fingerprint import alike, fingerprint
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import Result
from autograder.judging.values import encode
from autograder.packs import make_pack, pack_file
from autograder.workspace.in_cells import check
from autograder.workspace.in_cells.earlier_calls import leans_on
from tests.drawn import tables


def softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def attend(Q: Any, K: Any, V: Any, power: float = 0.5, axis: int = -1) -> Any:
    A = softmax(Q @ K.T / Q.shape[-1] ** power, axis)
    return A @ V, A


ATTEND = Exercise(
    "attend",
    title="Attend",
    points=1,
    reference=attend,
    cases=(Case("one", tables), Case("two", tables)),
    hints=("a", "b", "c"),
    misconceptions=(
        Misconception("by_d", "divided by d", "Divide by its root.", lambda Q, K, V: attend(Q, K, V, power=1.0)),
        Misconception("queries", "normalised over the queries", "Use the last axis.", lambda Q, K, V: attend(Q, K, V, axis=0)),
    ),
)


def cost(n: int, d: int, layers: int) -> int:
    return 2 * n * d * layers


def sizes(draw: Draw) -> dict[str, Any]:
    n, d, layers = draw.sizes(3, low=3)
    return {"n": n, "d": d, "layers": layers}


COST = Exercise(
    "cost",
    title="Cost",
    points=1,
    reference=cost,
    cases=(Case("one", sizes), Case("two", sizes)),
    hints=("a", "b", "c"),
    misconceptions=(
        Misconception("one_table", "counted keys and forgot the values", "Twice.", lambda n, d, layers: n * d * layers),
        Misconception("one_layer", "counted one layer", "All layers.", lambda n, d, layers: 2 * n * d),
    ),
)


def judged(exercise: Exercise, answer: Callable[..., Any]) -> Result:
    return grade(make_pack.make_record("a_lesson", exercise, 0), answer)


def test_one_mistake_in_one_output_and_one_in_the_other_are_both_named() -> None:
    result = judged(ATTEND, lambda Q, K, V: (attend(Q, K, V, power=1.0)[0], attend(Q, K, V, axis=0)[1]))
    assert result.diagnosis is not None
    assert {known.id for known in result.diagnosis.known} == {"by_d", "queries"}
    assert result.diagnosis.certain


def test_which_outputs_are_right_is_said() -> None:
    report = make_report(judged(ATTEND, lambda Q, K, V: (attend(Q, K, V)[0] * 2, attend(Q, K, V)[1])))
    assert "output `[0]`" in report.detail
    assert "Right in every case: output `[1]`." in report.detail


def test_a_mistake_in_one_case_and_another_in_the_next_are_both_named() -> None:
    first = sizes(Draw([0, 0, *b"cost"]))

    def answer(n: int, d: int, layers: int) -> int:
        return n * d * layers if {"n": n, "d": d, "layers": layers} == first else 2 * n * d

    found = judged(COST, answer).diagnosis
    assert found is None or not found.certain, "both mistakes show in every case: neither may be said for certain"


def test_a_name_that_is_not_there_is_said_before_any_mistake() -> None:
    report = make_report(judged(ATTEND, lambda Q, K, V: attend(Q, K, V)[0] * unheard_of))  # type: ignore[name-defined]  # noqa: F821
    assert report.headline == "The name `unheard_of` is not defined."


def test_the_panel_of_an_estimate_does_not_give_the_number_away() -> None:
    estimate = Exercise(
        "length",
        title="Length",
        points=1,
        kind="estimate",
        reference=lambda: 1024.0,
        cases=(Case("the estimate", lambda draw: {}),),
        tolerance=Tolerance(rtol=0.03, atol=0.0),
        hints=("a", "b", "c"),
        misconceptions=(Misconception("twice", "counted twice", "Once.", lambda: 2048.0),),
    )
    said = make_report(judged(estimate, lambda: 1100.0))
    text = " ".join((said.headline, said.advice, said.detail, said.snippet, *said.notes))
    assert "1024" not in text
    assert "too large" in said.headline
    assert "3 %" in said.detail


@pytest.mark.parametrize(
    ("answer", "headline"),
    [
        (lambda Q, K, V: None, "Your function returns nothing."),
        (lambda Q, K, V: attend(Q, K, V)[0], "You return one result, but a tuple of 2 is expected."),
        (lambda Q, K, V: (list(attend(Q, K, V)[0]), attend(Q, K, V)[1]), "You return a list in output `[0]`"),
        (lambda Q, V: Q, "Your function does not take the argument `K`."),
        (lambda Q, K, V: Q @ K, "The shapes of the two sides of `@` don't match."),
        (lambda Q, K, V: Q if Q > 0 else K, "An array is used where Python needs a single True or False."),
        (lambda Q, K, V: undefined(Q), "The name `undefined` is not defined."),  # noqa: F821 - the slip itself
        (lambda Q, K, V: np.softmax(Q), "`numpy` has no function `softmax`."),
        (lambda Q, K, V: Q.reshape(-1, 1000), "numbers don't fill the shape"),
        (lambda Q, K, V: Q + K[:, :2], "Two arrays have shapes that don't fit together"),
    ],
)  # fmt: skip
def test_a_slip_of_python_is_said_in_a_sentence(answer: Callable[..., Any], headline: str) -> None:
    report = make_report(judged(ATTEND, answer))
    assert headline in report.headline
    assert report.advice


def test_every_pattern_of_an_exception_fills_its_sentence() -> None:
    unknown = python_errors.raised(Failure("raised", "CustomError", "something"))
    assert unknown is None
    for kind, pattern, key, _ in python_errors._RAISED:
        groups = re.compile(pattern).groups
        said = fact(key, **dict.fromkeys("abc"[:groups], "x"))
        assert say(said), (kind, pattern)
        assert next_step(said).endswith((".", "?")), (kind, pattern)


def test_the_line_named_is_in_the_learners_own_cell() -> None:
    given: dict[str, Any] = {}
    exec(compile("def helper(x):\n    return x.nothing\n", "<cell 1>", "exec"), given)
    exec(compile("\n\ndef attend(Q, K, V):\n    return helper(Q)\n", "<cell 2>", "exec"), given)
    failure = judged(ATTEND, given["attend"]).failure
    assert failure is not None
    assert failure.line is not None
    assert failure.line[0] == 4, "line 2 is the given cell's"


def test_nothing_of_the_inputs_is_said_of_hidden_probes() -> None:
    result = judged(COST, lambda n, d, layers: 2 * n * d * d * layers)
    assert hidden.report(result.exercise, hidden.findings_of(result)).headline == "Wrong on a hidden test."


def test_an_answer_that_leans_on_a_failing_one_is_told_so_first(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Exercise(
        "inner", title="Inner", points=1, reference=lambda n, d, layers: n * d, cases=COST.cases, hints=("a", "b", "c")
    )
    held = make_pack.make("a_lesson", "A lesson", (inner, COST))
    monkeypatch.setattr(check, "_packs", lambda: [held])
    cells: dict[str, Any] = {}
    exec(compile("def inner(n, d, layers):\n    raise NotImplementedError()\n", "<cell 1>", "exec"), cells)
    exec(compile("def cost(n, d, layers):\n    return 2 * inner(n, d, layers) * layers\n", "<cell 2>", "exec"), cells)
    report = check.check_in(cells, "cost").report
    assert report.status == "fail", "it is written, so it is not `not started`"
    assert report.headline == "`cost` calls your `inner`, which does not pass its own check yet."
    exec(compile("def inner(n, d, layers):\n    return n * d\n", "<cell 1>", "exec"), cells)
    assert check.check_in(cells, "cost") == 1


def test_an_answer_with_a_mistake_of_its_own_is_not_blamed_on_one_that_fails_at_its_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = Case("many layers", lambda draw: {"n": 3, "d": 5, "layers": 400}, edge=0.2)
    inner = Exercise(
        "inner", title="Inner", points=1, reference=lambda n, d, layers: n * d, cases=(*COST.cases, edge), hints=("a", "b", "c")
    )
    held = make_pack.make("a_lesson", "A lesson", (inner, COST))
    monkeypatch.setattr(check, "_packs", lambda: [held])
    cells: dict[str, Any] = {}
    text = "def inner(n, d, layers):\n    return n * d if layers < 300 else 0\n"
    exec(compile(text, "<cell 1>", "exec"), cells)
    exec(compile("def cost(n, d, layers):\n    return 7 + inner(n, d, layers)\n", "<cell 2>", "exec"), cells)
    assert "inner" not in check.check_in(cells, "cost").report.headline


def test_leaning_is_found_through_helpers_and_methods() -> None:
    cells: dict[str, Any] = {}
    source = ("def a(): pass", "def b(): return helper()", "def helper(): return [a() for _ in range(2)]")
    exec("\n".join(source) + "\nclass C:\n    def m(self): return b()\n", cells)
    assert leans_on(cells["b"], cells, {"a", "b", "C"}, own="b") == ["a"]
    assert leans_on(cells["C"], cells, {"a", "b", "C"}, own="C") == ["b", "a"]
    assert leans_on(cells["a"], cells, {"a", "b"}, own="a") == []


STEPS = Exercise(
    "attend",
    title="Attend",
    points=1,
    reference=attend,
    recipe=attend,
    cases=(Case("one", tables), Case("two", tables)),
    hints=("a", "b", "c"),
    misconceptions=(
        Misconception("by_d", "divided by d", "Divide by its root.", Instead(power=1.0)),
        Misconception("queries", "normalised over the queries", "Last axis.", Instead(axis=Of(lambda Q, K, V: 0 * len(Q)))),
        Misconception("doubled", "doubled the queries", "Once.", Before(lambda Q, K, V: {"Q": 2 * Q})),
        Misconception("turned", "returned the weights first", "Outputs first.", After(lambda out, Q, K, V: (out[1], out[0]))),
        Misconception("whole", "took the mean", "Weigh.", lambda Q, K, V: (np.tile(V.mean(0), (len(Q), 1)), Q @ K.T)),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("both", "answer"),
    [
        ({"by_d", "queries"}, lambda Q, K, V: attend(Q, K, V, power=1.0, axis=0)),
        ({"doubled", "queries"}, lambda Q, K, V: attend(2 * Q, K, V, axis=0)),
        ({"by_d", "turned"}, lambda Q, K, V: attend(Q, K, V, power=1.0)[::-1]),
        ({"doubled", "by_d"}, lambda Q, K, V: attend(2 * Q, K, V, power=1.0)),
    ],
)
def test_two_steps_taken_otherwise_are_both_named(both: set[str], answer: Callable[..., Any]) -> None:
    found = judged(STEPS, answer).diagnosis
    assert found is not None
    assert {known.id for known in found.known} == both
    assert found.certain


def test_each_step_alone_keeps_its_own_name() -> None:
    for mistake in STEPS.misconceptions:
        found = judged(STEPS, answer_of(STEPS, mistake.answer)).diagnosis
        assert found is not None
        assert [known.id for known in found.known] == [mistake.id]


def test_a_pair_survives_the_file(tmp_path: Path) -> None:
    made = make_pack.make("a_lesson", "A lesson", (STEPS,))
    pack_file.save(made, tmp_path / "x.probes.npz")
    read = pack_file.load(tmp_path / "x.probes.npz").exercises["attend"]
    found = grade(read, lambda Q, K, V: attend(Q, K, V, power=1.0, axis=0)).diagnosis
    assert found is not None
    assert len(found.known) == 2


def counter(*, start: int = 0, step: int = 1, back: bool = False) -> type:
    """A class with three settings, each of which can be wrong."""

    class Counter:
        def __init__(self) -> None:
            self.count = start

        def add(self, numbers: np.ndarray) -> np.ndarray:
            self.count += step
            return (numbers[::-1] if back else numbers) + self.count

    return Counter


COUNTER = Exercise(
    "Counter",
    title="Count",
    points=1,
    reference=counter(),
    recipe=Made(counter),
    cases=(
        Case(
            "two calls",
            lambda draw: Script(calls=(Call("add", {"numbers": draw.normal(5)}), Call("add", {"numbers": draw.normal(3)}))),
        ),
    ),
    hints=("a", "b", "c"),
    misconceptions=(
        Misconception("late", "started at 1", "Start at 0.", Instead(start=1)),
        Misconception("twos", "counted in twos", "Count in ones.", Instead(step=2)),
        Misconception("turned", "turned the numbers round", "Leave them.", Instead(back=True)),
    ),
)


def test_two_slips_in_a_class_are_both_named() -> None:
    record = make_pack.make_record("a_lesson", COUNTER, 0)
    assert set(record.cases[0].pairs) == {"late+twos", "late+turned", "twos+turned"}
    found = grade(record, counter(step=2, back=True)).diagnosis
    assert found is not None
    assert {known.id for known in found.known} == {"twos", "turned"}
    assert found.certain
    for mistake in COUNTER.misconceptions:
        alone = grade(record, answer_of(COUNTER, mistake.answer)).diagnosis
        assert alone is not None
        assert [known.id for known in alone.known] == [mistake.id]


def test_a_fingerprint_tells_results_apart_and_forgives_rounding() -> None:
    rng = np.random.default_rng(3)
    value = rng.standard_normal((20, 30))
    stands_for = _numbers(value)
    assert alike(stands_for, _numbers(value * (1 + 1e-6 * rng.standard_normal(value.shape))), Tolerance())
    other = value.copy()
    other[7, 11] += 0.1
    for wrong in (other, value.T, value.reshape(30, 20), value[::-1], np.where(value > 2, np.nan, value), value + 1e-3):
        assert not alike(stands_for, _numbers(wrong), Tolerance())


def test_a_fingerprint_tells_where_a_number_is_not_finite() -> None:
    lower, upper = np.tril(np.ones((4, 4))), np.triu(np.ones((4, 4)))
    for lost in (np.nan, np.inf, -np.inf):
        assert not alike(_numbers(np.where(lower == 0, lost, 0)), _numbers(np.where(upper == 0, lost, 0)), Tolerance())
    assert not alike(_numbers(np.array([np.inf, 0])), _numbers(np.array([-np.inf, 0])), Tolerance())


def _numbers(value: np.ndarray) -> np.ndarray:
    found = fingerprint(Observation(encode(value)))
    assert found is not None
    return found


def test_a_recipe_whose_defaults_are_wrong_is_refused() -> None:
    broken = dataclasses.replace(COUNTER, recipe=Made(lambda **settings: counter(**{"start": 5} | settings)))
    assert any("recipe without settings" in problem for problem in verify_exercise("a_lesson", broken, seeds=(0,)).problems)
