"""The judge: order of checks, tolerance, diagnosis, partial credit. Small exercises of its own, nothing about attention."""

import linecache
import signal
import sys
import time
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder import Call, Case, Draw, Exercise, Misconception, Property, Read, Script, Tolerance, Variant
from autograder.authoring.verify import blank, grade, verify_exercise
from autograder.diagnosis.explain import effort, make_report
from autograder.diagnosis.finding import Fact, fact
from autograder.diagnosis.panel import to_html, to_text
from autograder.diagnosis.phrase import say
from autograder.judging.call_answer import bare, observe, observe_by_line, observe_within
from autograder.judging.compare import close
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.records import Result
from autograder.judging.thread_seconds import Stopwatch
from autograder.judging.values import MAX_KEY, decode, encode, show
from autograder.packs import make_pack, pack_file

HINTS = ("one", "two", "three")


def _softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _exercise(**changes: Any) -> Exercise:
    settings: dict[str, Any] = {
        "id": "weigh",
        "title": "Weigh",
        "points": 2.0,
        "reference": _softmax,
        "cases": (
            Case("matrix", lambda draw: {"z": draw.normal(3, 5)}),
            Case("large", lambda draw: {"z": 1000 + draw.normal(2, 3)}, edge=0.25),
        ),
        "hints": HINTS,
        "properties": (Property("sums_to_one"), Property("non_negative")),
        "misconceptions": (
            Misconception("columns", "normalised the columns", "use axis=-1", lambda z: _softmax(z.T).T),
            Misconception("unshifted", "let exp overflow", "subtract the maximum", _unshifted),
        ),
        "variants": (Variant("explicit", lambda z: np.stack([_softmax(row) for row in z])),),
    }
    return Exercise(**{**settings, **changes})


def _unshifted(z: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        e = np.exp(z)
        return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _grade(answer: Any, exercise: Exercise | None = None) -> Result:
    return grade(make_pack.make_record("lesson", exercise or _exercise(), 0), answer)


def _failing(answer: Any, exercise: Exercise | None = None) -> str:
    shown = _grade(answer, exercise).worst
    assert shown is not None
    assert shown[1].mismatch is not None
    return shown[1].mismatch.check


def test_the_reference_gets_full_marks_and_the_blank_none() -> None:
    assert _grade(_softmax).score == 2
    assert _grade(blank).score == 0


def test_each_misconception_is_caught_under_its_own_name() -> None:
    for mistake in _exercise().misconceptions:
        found = _grade(mistake.answer).diagnosis
        assert found is not None
        assert [known.id for known in found.known] == [mistake.id]


def test_an_edge_case_costs_its_share_and_no_more() -> None:
    assert _grade(_unshifted).score == 1.5


def test_a_wrong_core_scores_zero_whatever_the_edges_do() -> None:
    assert _grade(lambda z: _softmax(z) if z.max() > 100 else 2 * _softmax(z)).score == 0


def test_wrong_in_no_known_way_is_said_honestly() -> None:
    result = _grade(lambda z: _softmax(z) ** 2 / (_softmax(z) ** 2).sum(axis=-1, keepdims=True))
    assert result.diagnosis is None
    assert result.worst is not None


@pytest.mark.parametrize(
    ("answer", "check"),
    [
        (lambda z: [1, 2], "kind"),
        (lambda z: None, "kind"),
        (lambda z: _softmax(z).T, "shape"),
        (lambda z: _softmax(z) > 0.5, "dtype"),
        (lambda z: np.full_like(z, np.nan), "finite"),
        (lambda z: 2 * _softmax(z), "properties"),
        (lambda z: _softmax(2 * z), "values"),
        (lambda z: np.broadcast_to(np.float64(0.2), (5,)), "shape"),
        (lambda z: 1 / 0, "runs"),
        (lambda y: y, "properties"),  # called by position: a parameter's name is no mistake
    ],
)
def test_the_first_failing_check_decides(answer: Any, check: str) -> None:
    assert _failing(answer, _exercise(misconceptions=())) == check


def test_an_input_changed_in_place_is_noticed() -> None:
    def greedy(z: np.ndarray) -> np.ndarray:
        z -= z.max(axis=-1, keepdims=True)
        return _softmax(z)

    assert _failing(greedy) == "inputs unchanged"


def test_right_answers_pass_in_other_precisions_layouts_and_algorithms() -> None:
    assert _grade(lambda z: _softmax(z).astype(np.float32)).passed
    assert _grade(lambda z: np.asfortranarray(_softmax(z))).passed
    assert _grade(lambda z: np.exp(z - np.logaddexp.reduce(z, axis=-1)[:, None])).passed


@pytest.mark.parametrize("within", [observe_within, observe_by_line])
def test_a_hang_becomes_an_observation(within: Callable[..., Observation]) -> None:
    probe = Probe(encode({"z": np.ones(2)}))

    def forever(z: np.ndarray) -> np.ndarray:
        while True:
            pass

    seen = within(0.2, forever, probe)
    assert seen.failure is not None
    assert seen.failure.kind == "timeout"
    before = sys.gettrace()
    assert within(60, _softmax, probe).failure is None
    assert sys.gettrace() is before


def test_a_call_that_stands_in_line_for_a_processor_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(z: np.ndarray) -> np.ndarray:
        time.sleep(1.5)
        return _softmax(z)

    probe = Probe(encode({"z": np.ones(2)}))
    by_the_clock = observe_within(1.0, late, probe)
    assert by_the_clock.failure is not None
    assert by_the_clock.failure.kind == "timeout"
    monkeypatch.setattr(Stopwatch, "_waited_s", lambda self: time.perf_counter())  # all that passes is waiting
    seen = observe_within(1.0, late, probe)
    assert seen.failure is None
    assert seen.seconds < 1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux says how long a thread stood in line")
def test_the_kernels_word_on_a_thread_is_read() -> None:
    assert Stopwatch()._kept_by.read_text(encoding="ascii").split()[1].isdecimal()


def test_a_signature_that_cannot_be_read_is_a_failure_like_any_other() -> None:
    class Odd:
        @property
        def __signature__(self) -> None:
            raise RuntimeError("odd")

        def __call__(self, z: np.ndarray) -> np.ndarray:
            return _softmax(z)

    seen = observe(Odd(), Probe(encode({"z": np.ones(2)})))
    assert seen.failure is not None
    assert seen.failure.type == "RuntimeError"


@pytest.mark.parametrize("error", [SystemExit(0), RecursionError("deep"), ValueError("x" * 10_000)])
def test_whatever_an_answer_raises_is_only_a_failure(error: BaseException) -> None:
    def answer(z: np.ndarray) -> np.ndarray:
        raise error

    seen = observe(answer, Probe(encode({"z": np.ones(2)})))
    assert seen.failure is not None
    assert seen.failure.type == type(error).__name__
    assert len(seen.failure.message) <= 600


@pytest.mark.parametrize("how", [observe, bare])
def test_ctrl_c_stops_the_work_instead_of_failing_the_answer(how: Any) -> None:
    def answer(z: np.ndarray) -> np.ndarray:
        signal.raise_signal(signal.SIGINT)
        return z

    def careless(z: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    probe = Probe(encode({"z": np.ones(2)}))
    with pytest.raises(KeyboardInterrupt):
        how(answer, probe)
    seen = observe_within(60, careless, probe, how=how)
    assert seen.failure is not None
    assert seen.failure.type == "KeyboardInterrupt"


@pytest.mark.parametrize("how", [observe, bare])
@pytest.mark.parametrize("within", [observe_within, observe_by_line])
def test_a_deadline_is_a_timeout_and_not_an_interrupt(within: Any, how: Any) -> None:
    def forever(z: np.ndarray) -> np.ndarray:
        while True:
            try:
                z = z + 1
            except Exception:
                return z

    seen = within(0.2, forever, Probe(encode({"z": np.ones(2)})), how=how)
    assert seen.failure is not None
    assert (seen.failure.kind, seen.failure.type) == ("timeout", "")


def test_warnings_and_stderr_become_notes(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    def answer(z: np.ndarray) -> np.ndarray:
        print("careless", file=sys.stderr)
        return np.log(z - 1)

    seen = observe(answer, Probe(encode({"z": np.ones(2)})))
    assert any("divide by zero" in note for note in seen.notes)
    assert "careless" in seen.notes
    assert capsys.readouterr().err == ""


def test_gradients_are_compared_where_a_case_asks() -> None:
    import torch

    def detached(x: torch.Tensor) -> torch.Tensor:
        return (x * x.detach()).clone()

    exercise = _exercise(
        reference=lambda x: x * x,
        properties=(),
        tensors=True,
        cases=(Case("square", lambda draw: {"x": draw.normal(3)}, grad=("x",)),),
        misconceptions=(Misconception("detached", "cut the graph", "do not detach", detached),),
        variants=(Variant("power", lambda x: x**2),),
    )
    assert verify_exercise("lesson", exercise).problems == []
    assert _failing(lambda x: (x * x).detach(), exercise) == "gradients"


class Counter:
    """A stateful object, as a cache will be."""

    def __init__(self, start: int) -> None:
        self.total = np.full(2, float(start))

    def add(self, x: np.ndarray) -> np.ndarray:
        self.total = self.total + x
        return self.total

    @property
    def length(self) -> float:
        return float(self.total.sum())


class Stale(Counter):
    """Forgets to keep what it added."""

    def add(self, x: np.ndarray) -> np.ndarray:
        return self.total + x


def test_stateful_objects_are_driven_by_a_script_of_calls() -> None:
    def script(draw: Draw) -> Script:
        calls = tuple(Call("add", {"x": draw.normal(2)}) for _ in range(3))
        return Script({"start": 1}, None, (*calls, Read("length")))

    exercise = _exercise(
        id="Counter",
        reference=Counter,
        properties=(),
        cases=(Case("three steps", script),),
        misconceptions=(Misconception("stale", "did not keep the sum", "assign it", Stale),),
        variants=(),
    )
    assert verify_exercise("lesson", exercise).problems == []


def test_modules_are_given_their_weights() -> None:
    import torch

    class Linear(torch.nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.w = torch.nn.Linear(d, d, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.w(x.to(self.w.weight.dtype))
            return y

    class Renamed(torch.nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.v = torch.nn.Linear(d, d, bias=False)

    exercise = _exercise(
        id="Linear",
        reference=Linear,
        tensors=True,
        properties=(),
        cases=(
            Case(
                "one", lambda draw: Script({"d": 3}, {"w.weight": draw.normal(3, 3)}, (Call(arguments={"x": draw.normal(2, 3)}),))
            ),
        ),
        misconceptions=(),
        variants=(),
    )
    assert _grade(Linear, exercise).passed
    result = _grade(Renamed, exercise)
    assert result.failure is not None
    assert result.failure.kind == "weights"


def test_verify_reports_a_misconception_that_passes_or_goes_under_another_name() -> None:
    same = (
        Misconception("harmless", "did nothing wrong", "-", _softmax),
        Misconception("columns", "normalised the columns", "-", lambda z: _softmax(z.T).T),
        Misconception("columns_too", "normalised the columns again", "-", lambda z: _softmax(z.T).T),
    )
    verdict = verify_exercise("lesson", _exercise(misconceptions=same))
    assert verdict.caught == 1
    assert len(verdict.problems) == 2 * 3


def test_verify_reports_a_variant_that_fails_and_a_margin_that_is_thin() -> None:
    verdict = verify_exercise("lesson", _exercise(variants=(Variant("wrong", lambda z: 2 * _softmax(z)),)))
    assert verdict.variants_full == 0
    near = Misconception("near", "rounded", "-", lambda z: _softmax(z) + 2e-5 * np.array([1, -1] + [0] * (z.shape[1] - 2)))
    verdict = verify_exercise("lesson", _exercise(misconceptions=(near,)))
    assert any("times the tolerance" in problem or "x the tolerance" in problem for problem in verdict.problems)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(),
        lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(max_size=MAX_KEY), s, max_size=3),
    )
)
def test_trees_round_trip_plain_values(value: Any) -> None:
    assert repr(decode(encode(value))) == repr(value)


def test_trees_round_trip_arrays_and_show_them_as_source() -> None:
    value = {"x": np.arange(6.0).reshape(2, 3), "n": (1, None)}
    again = decode(encode(value))
    np.testing.assert_array_equal(again["x"], value["x"])
    assert again["n"] == (1, None)
    np.testing.assert_array_equal(eval(show(encode(value["x"])), {"np": np}), value["x"])
    assert np.isnan(eval(show(encode(np.array([np.nan]))), {"np": np}))[0]


def test_infinities_of_one_sign_agree_and_nan_only_with_nan() -> None:
    a = np.array([np.inf, -np.inf, np.nan, 1.0])
    assert close(a, a, Tolerance()).all()
    assert not close(a, np.array([-np.inf, np.inf, 1.0, np.nan]), Tolerance()).any()


def test_a_crashed_probe_is_a_failure_not_a_pass() -> None:
    record = make_pack.make_record("lesson", _exercise(), 0)
    from autograder.judging.compare import judge

    assert judge(record, [Observation(failure=Failure("crashed"))] * 2).score == 0
    with pytest.raises(ValueError, match="expected 2 observations, got 1"):
        judge(record, [Observation()])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "not a name"}, "expected an identifier"),
        ({"points": 0}, "expected points > 0"),
        ({"hints": ("only one",)}, "three non-empty hints"),
        ({"cases": (Case("edge", lambda d: {}, edge=0.5),)}, "at least one core case"),
        ({"variants": (Variant("v", None), Variant("v", None))}, "declared twice"),
    ],
)
def test_a_bad_declaration_says_what_was_expected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _exercise(**changes)


# ------------------------------------------------------------------------- behaviour, exceptions, several programs


def sorted_pair(output: Any, limit: float) -> Any:
    """A behaviour for the tests below: which of two numbers is the larger, and whether both stay within the limit."""
    found = np.asarray(output, dtype=float)
    if found.shape != (2,):
        raise ValueError(f"expected two numbers, got shape {found.shape}")
    return {"order": bool(found[0] < found[1]), "within": np.abs(found) <= limit}


def _design(**changes: Any) -> Exercise:
    return _exercise(
        reference=lambda limit: np.array([0.0, limit]),
        cases=(Case("limit", lambda draw: {"limit": 1 + draw.integer(1, 5)}),),
        behaviour="given_for_tests:sorted_pair",
        properties=(),
        misconceptions=(
            Misconception("beyond", "went beyond the limit", "stay within", lambda limit: np.array([0.0, 2 * limit])),
            Misconception("three", "returned three numbers", "return two", lambda limit: np.zeros(3), raises=True),
        ),
        variants=(Variant("another", lambda limit: [-1, 0.5]),),
        **changes,
    )


@pytest.mark.parametrize(("got", "right"), [(960, True), (960.0, True), (np.float64(960), True), (960.5, False), (True, False)])
def test_a_float_that_equals_the_integer_asked_for_is_right(got: Any, right: bool) -> None:
    bill = Exercise(
        "bill",
        title="Bill",
        points=1,
        reference=lambda n: 60 * n,
        cases=(Case("sixteen", lambda draw: {"n": 16}),),
        hints=("a", "b", "c"),
    )
    assert _grade(lambda n: got, bill).passed == right


@pytest.fixture(autouse=True)
def _given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The behaviour in a package that can be imported, as a course's given ones can."""
    package = types.ModuleType("given_for_tests")
    vars(package)["sorted_pair"] = sorted_pair
    monkeypatch.setitem(sys.modules, package.__name__, package)


def test_a_behaviour_is_compared_and_not_what_was_returned() -> None:
    verdict = verify_exercise("lesson", _design())
    assert not verdict.problems
    assert verdict.caught == 2
    assert _grade(lambda limit: (0.1, 0.2), _design()).passed


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda limit: np.zeros((2, 2)), "expected two numbers, got shape (2, 2)"),
        (lambda limit: "abc", "could not convert"),
        (lambda limit: {"a": 1}, "what was returned cannot be used (TypeError"),
        (lambda limit: object(), "expected numbers or arrays, got an object"),
        (lambda limit: np.zeros(2_000_000), "expected at most 1000000 numbers"),
        (lambda limit: None, "expected two numbers, got shape ()"),
    ],
)
def test_what_has_no_behaviour_is_wrong_with_the_reason_and_never_an_error_of_the_judge(answer: Any, says: str) -> None:
    result = _grade(answer, _design())
    assert result.score == 0
    assert result.worst is not None
    mismatch = result.worst[1].mismatch
    assert mismatch is not None
    assert mismatch.check == "shape"
    assert say(mismatch.what).startswith(says)


def test_a_behaviour_that_is_not_to_be_had_is_said_where_the_pack_is_made() -> None:
    with pytest.raises(ValueError, match="Install the packages of this course"):
        make_pack.make_record("lesson", replace(_design(), behaviour="no_such_package:f"), 0)


def test_a_behaviour_travels_in_the_pack(tmp_path: Path) -> None:
    made = make_pack.make("lesson", "Lesson", [_design(kind="design", difficulty=4, minutes=12)])
    pack_file.save(made, tmp_path / "a.probes.npz")
    found = pack_file.load(tmp_path / "a.probes.npz").exercises["weigh"]
    assert (found.behaviour, found.kind, found.difficulty, found.minutes) == ("given_for_tests:sorted_pair", "design", 4, 12)
    assert effort(found) == "difficulty ●●●●○ · about 12 minutes · design"
    assert grade(found, lambda limit: [0, 1]).passed


def _root(x: np.ndarray) -> np.ndarray:
    if (x < 0).any():
        raise ValueError("expected no negative entry")
    return np.sqrt(x)


def _raising() -> Exercise:
    return _exercise(
        reference=_root,
        cases=(
            Case("positive", lambda draw: {"x": draw.uniform(3)}),
            Case("negative", lambda draw: {"x": -1 - draw.uniform(2)}, raises=ValueError),
        ),
        properties=(),
        misconceptions=(
            Misconception("silent", "returned NaN for a negative number", "raise", lambda x: np.sqrt(np.abs(x)) + 0 * x),
            Misconception("other error", "raised a TypeError", "raise ValueError", _type_error, raises=True),
        ),
        variants=(Variant("a kind of it", _unicode_error),),
    )


def _type_error(x: np.ndarray) -> np.ndarray:
    if (x < 0).any():
        raise TypeError("no")
    return np.sqrt(x)


def _unicode_error(x: np.ndarray) -> np.ndarray:
    if (x < 0).any():
        raise UnicodeError("a kind of ValueError")
    return np.sqrt(x)


def test_a_case_may_expect_an_exception() -> None:
    assert not verify_exercise("lesson", _raising()).problems
    result = _grade(lambda x: np.sqrt(np.maximum(x, 0)), _raising())
    assert result.diagnosis is not None
    assert result.diagnosis.known[0].id == "silent"  # it does not raise, whatever it returns instead
    assert _grade(blank, _raising()).score == 0


def test_who_always_raises_gets_nothing() -> None:
    def always(x: Any) -> Any:
        raise ValueError("expected something else")

    assert _grade(always, _raising()).score == 0
    with pytest.raises(ValueError, match="a value"):
        replace(_raising(), cases=_raising().cases[1:])


def test_the_reference_must_raise_what_its_case_says() -> None:
    wrong = replace(_raising(), reference=lambda x: np.abs(x), misconceptions=(), variants=())
    with pytest.raises(ValueError, match="expected the reference to raise ValueError, but it returned a value"):
        make_pack.make_record("lesson", wrong, 0)


def test_several_programs_with_one_mistake_are_caught_under_its_one_name() -> None:
    twice = Misconception("columns", "normalised the columns", "axis=-1", lambda z: _softmax(z.T).T, also=(lambda z: 2 * z,))
    exercise = _exercise(misconceptions=(twice,))
    verdict = verify_exercise("lesson", exercise)
    assert (verdict.misconceptions, verdict.caught, verdict.problems) == (1, 1, [])
    for answer in twice.answers().values():
        found = _grade(answer, exercise).diagnosis
        assert found is not None
        assert found.known[0].id == "columns"


# ------------------------------------------------------------------------------------------ what can be compared


def _spectrum(x: np.ndarray, sign: int = -1) -> np.ndarray:
    n = len(x)
    return np.asarray(np.exp(sign * 2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) @ x)


def test_a_transform_with_the_wrong_sign_is_wrong() -> None:
    """Compared as real numbers it would be right: the real parts agree."""
    exercise = _exercise(
        reference=_spectrum,
        cases=(Case("signal", lambda draw: {"x": draw.normal(5)}),),
        properties=(),
        misconceptions=(Misconception("sign", "turned the wrong way", "exp(-i…)", lambda x: _spectrum(x, 1)),),
        variants=(Variant("fft", np.fft.fft),),
    )
    verdict = verify_exercise("lesson", replace(exercise, variants=(Variant("fft", lambda x: np.fft.fft(x)),)))
    assert (verdict.problems, verdict.caught) == ([], 1)
    shown = make_report(_grade(lambda x: _spectrum(x) + 1j, exercise))
    assert shown.status == "fail"
    assert "expected" in to_text(shown)
    assert to_html(shown)
    assert close(np.array([1 + 1j]), np.array([1 + 1j + 1e-9]), Tolerance()).all()
    assert not close(np.array([1.0]), np.array([1 + 1j]), Tolerance()).any()


def test_a_python_complex_number_is_compared_too() -> None:
    exercise = _exercise(
        reference=lambda x: complex(x, 1),
        cases=(Case("one", lambda draw: {"x": 2.0}),),
        properties=(),
        misconceptions=(),
        variants=(),
    )
    assert _grade(lambda x: np.complex128(x + 1j), exercise).passed
    assert not _grade(lambda x: x, exercise).passed


@pytest.mark.parametrize("value", [{1, 2}, 2**63, {1: 1.0, "1": 2.0}, [1.0, {2}], b"bytes", range(3)])
def test_a_reference_whose_result_cannot_be_compared_is_refused_where_the_pack_is_made(value: Any) -> None:
    exercise = _exercise(reference=lambda x: value, cases=(Case("one", lambda draw: {"x": 1.0}),), properties=())
    with pytest.raises(ValueError, match="which cannot be compared"):
        make_pack.make_record("lesson", replace(exercise, misconceptions=(), variants=()), 0)


@pytest.mark.parametrize(
    ("axis", "shape", "said"),
    [
        (-1, (3, 5), "each row should sum to 1, but one of yours sums to 2"),
        (-1, (5,), "the entries should sum to 1, but yours sum to 2"),
        (0, (3, 5), "each sum along axis 0 should be 1, but one of yours is 2"),
    ],
)
def test_a_broken_law_is_said_with_what_the_sum_is(axis: int, shape: tuple[int, ...], said: str) -> None:
    def shares(z: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(z) / np.exp(z).sum(axis=axis, keepdims=True))

    exercise = Exercise(
        "shares", title="Shares", points=1, reference=shares, cases=(Case("one", lambda draw: {"z": draw.normal(*shape)}),),
        hints=HINTS, properties=(Property("sums_to_one", axis=axis),),
    )  # fmt: skip
    seen = grade(make_pack.make_record("a_lesson", exercise, 0, naming="listed"), lambda z: 2 * shares(z)).cases[0].mismatch
    assert seen is not None
    assert say(seen.what) == said


def test_of_a_decorated_answer_the_line_that_fails_is_the_learners_and_not_the_decorators() -> None:
    text = "def answer(x):\n    y = x + 1\n    return y[7, 0]\n"
    decorator = "from functools import wraps\ndef watched(f):\n    @wraps(f)\n    def run(*args, **named):\n"
    decorator += "        return f(*args, **named)\n    return run\n"
    names: dict[str, Any] = {}
    for name, source in (("<given>", decorator), ("<cell>", text)):
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        exec(compile(source, name, "exec"), names)
    failure = observe(names["watched"](names["answer"]), Probe(encode({"x": np.ones((2, 2))}))).failure
    assert failure is not None
    assert failure.line == (3, "return y[7, 0]")


@pytest.mark.parametrize(
    ("answer", "what", "headline"),
    [
        (
            lambda x: (2 * x).T,
            fact("mismatch.shape.turned", want=(2, 3), got=(3, 2)),
            "The shape is wrong: expected shape (2, 3), got (3, 2). Is it transposed?",
        ),
        (
            lambda x: x.astype(int),
            fact("mismatch.dtype", want=fact("entries.floating"), got=fact("entries.integer")),
            "The type of the entries is wrong: expected floating-point entries, got integer.",
        ),
        (
            lambda x: np.where(np.arange(3) == 1, np.nan, 2 * x)[:, :],
            fact("mismatch.nan", count=2, of=6),
            "There are NaN: 2 of 6 entries are NaN.",
        ),
        (
            lambda x: [2.0],
            fact("mismatch.kind", want=fact("kind.array"), got=fact("kind.sequence", kind="list", length=1)),
            "You return a list",
        ),
    ],
)
def test_a_failed_check_is_a_fact_with_its_values(answer: Any, what: Fact, headline: str) -> None:
    exercise = Exercise(
        "twice", "Twice", 1, lambda x: 2 * x, (Case("one", lambda draw: {"x": draw.normal(2, 3)}),), hints=HINTS
    )  # fmt: skip
    result = grade(make_pack.make_record("a_lesson", exercise, 0, naming="listed"), answer)
    mismatch = result.cases[0].mismatch
    assert mismatch is not None
    assert mismatch.what == what
    assert make_report(replace(result, diagnosis=None)).headline.startswith(headline)
