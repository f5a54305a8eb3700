"""No name that is not true: what a name leaves unsaid is said beside it, and where a name could be chance it is a guess."""

import dataclasses
import linecache
import math
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from autograder import After, Before, Call, Case, Draw, Exercise, Misconception, Script
from autograder.authoring.verify import grade
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import Report, make_report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.known_mistakes import match_here_and_there, match_most, named, worth
from autograder.judging.call_answer import observe
from autograder.judging.combined_mistakes import pairs
from autograder.judging.compare import judge
from autograder.judging.exercise import Tolerance
from autograder.judging.records import UNLISTED, Known, NearSlip
from autograder.packs import make_pack
from tests.drawn import Counter, tables

AS_IF = "Your result comes out exactly as if you"

HINTS = ("a", "b", "c")


def told(exercise: Exercise, answer: Callable[..., Any], naming: Any = "pairs") -> Report:
    return make_report(grade(make_pack.make_record("a_lesson", exercise, 0, naming=naming), answer))


def test_complex_numbers_say_nothing_on_the_graders_screen() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert worth(np.array([0.5 + 1j, 0.25])) == worth(np.array([0.5, 0.25]))


# ------------------------------------------------------------------------------------------ beside a name


def scores(Q: Any, K: Any, V: Any) -> Any:
    return Q @ K.mT / math.sqrt(Q.shape[-1])


def _refusing(Q: Any, K: Any, V: Any) -> Any:
    if len(K) != len(V):
        raise ValueError("keys without values")
    return scores(Q, K, V)


def _lost_value(draw: Draw) -> dict[str, Any]:
    found = tables(draw)
    return {**found, "V": found["V"][:-1]}


SCORES = Exercise(
    "scores",
    title="Scores",
    points=1,
    reference=_refusing,
    tensors=True,
    cases=(
        Case("one", tables),
        Case("two", tables),
        Case("double", tables, double=True, edge=0.1),
        Case("a value too few", _lost_value, raises=ValueError, edge=0.1),
    ),
    hints=HINTS,
    misconceptions=(
        Misconception("by_d", "divided by d", "By its root.", After(lambda out, Q, K, V: out / math.sqrt(Q.shape[-1]))),
        Misconception("single", "computed in single precision", "Keep it.", After(lambda out, **_: out.float())),
    ),
)


def test_beside_a_known_mistake_lost_precision_is_said() -> None:
    report = told(SCORES, lambda Q, K, V: (_refusing(Q, K, V) / math.sqrt(Q.shape[-1])).float())
    assert report.headline == f"{AS_IF} divided by d. And you returned a different precision from that of the inputs."
    assert report.recorded == "by_d"


def test_a_known_mistake_that_loses_precision_itself_is_said_once() -> None:
    assert told(SCORES, lambda Q, K, V: _refusing(Q, K, V).float()).headline == f"{AS_IF} computed in single precision."


def test_beside_a_known_mistake_a_changed_input_is_said() -> None:
    def answer(Q: Any, K: Any, V: Any) -> Any:
        found = _refusing(Q, K, V) / math.sqrt(Q.shape[-1])
        Q += 1
        return found

    assert told(SCORES, answer).headline == f"{AS_IF} divided by d. And you changed your input `Q` in place."


def test_beside_a_known_mistake_an_error_that_is_not_raised_is_said() -> None:
    report = told(SCORES, lambda Q, K, V: scores(Q, K, V) / math.sqrt(Q.shape[-1]))
    assert report.headline == f"{AS_IF} divided by d. And you raised nothing where a ValueError is asked for."


def test_beside_a_slip_that_nobody_listed_an_error_that_is_not_raised_is_said() -> None:
    report = told(SCORES, lambda Q, K, V: (scores(Q, K, V)).mT, naming="near")
    assert report.headline.endswith(" And you raised nothing where a ValueError is asked for.")
    assert "transpose" in report.headline


def test_a_part_that_says_so_for_itself_is_said_where_the_rest_has_no_name() -> None:
    record = make_pack.make_record("a_lesson", SCORES, 0)
    report = make_report(check_answer(record, lambda Q, K, V: torch.cos(Q @ K.mT) ** 3))
    assert report.headline == "You raised nothing where a ValueError is asked for. That is not all that is wrong."
    assert report.recorded == "~exact"


def test_a_part_that_is_all_that_is_wrong_is_not_called_a_part() -> None:
    """What is certain is said by others; here the learner's `raise` alone."""

    def answer(Q: Any, K: Any, V: Any) -> Any:
        _n, d = Q.shape
        return Q @ K.mT / math.sqrt(d)

    report = make_report(check_answer(make_pack.make_record("a_lesson", SCORES, 0), answer))
    assert "not all that is wrong" not in report.headline


def test_an_error_that_the_name_explains_is_not_said_twice() -> None:
    shape = make_pack.make_record("a_lesson", SCORES, 0).cases[0].probe.inputs.arrays[0].shape

    def answer(Q: Any, K: Any, V: Any) -> Any:
        if Q.shape == shape:
            raise IndexError("no square")
        return _refusing(Q, K, V) * len(Q)

    exercise = dataclasses.replace(SCORES, misconceptions=(Misconception("grid", "asked for a square", "Any shape.", answer),))
    report = told(exercise, answer)
    assert report.headline == f"{AS_IF} asked for a square."


def test_an_error_in_some_cases_is_said_beside_the_name_of_the_others() -> None:
    def answer(Q: Any, K: Any, V: Any) -> Any:
        if Q.dtype == torch.float64:
            raise IndexError("no such place")
        return _refusing(Q, K, V) / math.sqrt(Q.shape[-1])

    headline = told(SCORES, answer).headline
    assert headline == f"{AS_IF} divided by d. And on “double” your code stops with an error. An index points past the end."


def test_two_names_for_the_cases_that_are_left_are_none() -> None:
    """Where an error hides the case that tells two mistakes apart, neither is said for certain."""
    twice = Misconception("also_single", "divided by d, and lost precision", "No.", After(_by_d_and_single))
    both = dataclasses.replace(SCORES, misconceptions=(*SCORES.misconceptions, twice))

    def answer(Q: Any, K: Any, V: Any) -> Any:
        if Q.dtype == torch.float64:
            raise IndexError("no such place")
        return _refusing(Q, K, V) / math.sqrt(Q.shape[-1])

    assert told(both, answer).recorded is None


def _by_d_and_single(out: Any, Q: Any, K: Any, V: Any) -> Any:
    return (out / math.sqrt(Q.shape[-1])).float()


def test_an_answer_whose_only_fault_is_a_missing_error_has_one_name() -> None:
    assert told(SCORES, scores).headline == "You raised nothing where a ValueError is asked for."


# ------------------------------------------------------------------------------------------ one number


def _nothing(draw: Draw) -> dict[str, Any]:
    return {}


BYTES = Exercise(
    "bytes",
    title="How many bytes?",
    points=1,
    kind="estimate",
    tolerance=Tolerance(0.02, 0.0),
    reference=lambda: 2.0 * 37 * 511 * 1.7,
    cases=(Case("your estimate", _nothing),),
    hints=HINTS,
    misconceptions=(
        Misconception("keys_only", "counted the keys alone", "Values too.", After(lambda out: out / 2)),
        Misconception("four", "counted 4.4 bytes for 1.7", "Count 1.7.", After(lambda out: out * 4.4 / 1.7)),
    ),
)


def _bytes(factor: float) -> Callable[[], float]:
    return lambda: factor * 2 * 37 * 511 * 1.7


def test_a_number_is_named_where_it_is_met() -> None:
    assert told(BYTES, _bytes(0.5)).recorded == "keys_only"


def test_a_number_that_comes_as_near_as_a_right_one_may_be_off_is_a_guess() -> None:
    report = told(BYTES, _bytes(0.505))
    assert report.recorded is None
    assert report.headline == "This looks as if you counted the keys alone."


@pytest.mark.parametrize("naming", ["pairs", "near"])
def test_one_number_tells_no_two_mistakes_for_certain(naming: str) -> None:
    assert told(BYTES, _bytes(0.5 * 4.4 / 1.7), naming=naming).recorded is None


# ------------------------------------------------------------------------------------------ coincidences


def _softmax(s: Any) -> Any:
    e = np.exp(s - s.max())
    return e / e.sum()


def _jacobian(s: Any) -> Any:
    a = _softmax(s)
    return np.diag(a) - np.outer(a, a)


JACOBIAN = Exercise(
    "jacobian",
    title="Jacobian",
    points=1,
    reference=_jacobian,
    cases=tuple(Case(name, lambda draw: {"s": draw.normal(draw.integer(3, 7))}) for name in ("one", "two")),
    hints=HINTS,
    misconceptions=(
        Misconception("diagonal", "kept the diagonal matrix alone", "Subtract.", lambda s: np.diag(_softmax(s))),
        Misconception("sigmoid", "used the rule of a sigmoid", "Subtract.", lambda s: np.diag(_softmax(s) * (1 - _softmax(s)))),
    ),
)


def test_nobody_takes_the_same_summand_away_twice() -> None:
    """The sum of both changes is what is seen, and yet neither was made: off the diagonal each takes all away."""

    def answer(s: Any) -> Any:
        a = _softmax(s)
        return np.where(np.eye(len(s), dtype=bool), a, np.outer(a, a))

    wrong = lambda s: np.diag(_softmax(s)) + np.diag(_softmax(s) * (1 - _softmax(s))) - _jacobian(s)  # noqa: E731
    drawn = np.arange(4.0)
    assert np.allclose(answer(drawn), wrong(drawn))
    assert told(JACOBIAN, answer).recorded is None


class Store:
    """Holds numbers, at most three."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.held: list[float] = []

    def put(self, x: float) -> int:
        self.held = [*self.held, x]
        return len(self.held)

    def total(self) -> float:
        return sum(self.held)


class _KeepsOld(Store):
    def reset(self) -> None:
        self.held = getattr(self, "held", [])


class _CountsOneLess(Store):
    def put(self, x: float) -> int:
        return super().put(x) - 1


class _CountsTwice(Store):
    def put(self, x: float) -> int:
        return 2 * super().put(x)


def _calls(draw: Draw) -> Script:
    put = [Call("put", {"x": float(draw.normal())}) for _ in range(3)]
    return Script({}, None, (put[0], put[1], Call("total"), Call("reset"), put[2], Call("total")))


STORE = Exercise(
    "Store",
    title="Store",
    points=1,
    reference=Store,
    cases=(Case("one", _calls), Case("two", _calls)),
    hints=HINTS,
    misconceptions=(
        Misconception("keeps_old", "kept what was there before", "Forget it.", _KeepsOld),
        Misconception("one_less", "counted one too few", "Count all.", _CountsOneLess),
        Misconception("twice", "counted twice", "Once.", _CountsTwice),
    ),
)


def test_two_classes_that_change_different_things_are_made_one() -> None:
    made = {(one, two) for one, two, _ in pairs(STORE)}
    assert made == {("keeps_old", "one_less"), ("keeps_old", "twice")}, "one method cannot be wrong in two ways"

    class Answer:
        def __init__(self) -> None:
            self.numbers: list[float] = []

        def put(self, x: float) -> int:
            self.numbers.append(x)
            return len(self.numbers) - 1

        def total(self) -> float:
            return sum(self.numbers)

        def reset(self) -> None:
            pass

    assert told(STORE, Answer).recorded == "keeps_old+one_less"


# ------------------------------------------------------------------------------------------ slips anywhere


def _heads(X: Any, W_Q: Any, W_K: Any, H: int, keep: Any = None) -> Any:
    q, k = (np.moveaxis((X @ W).reshape(len(X), H, -1), 1, 0) for W in (W_Q, W_K))
    S = q @ k.swapaxes(-1, -2)
    return S if keep is None else np.where(keep, S, -1e3)


def _sentence(masked: bool) -> Callable[[Draw], dict[str, Any]]:
    def make(draw: Draw) -> dict[str, Any]:
        found = {"X": draw.normal(5, 4), "W_Q": draw.normal(4, 6), "W_K": draw.normal(4, 6), "H": 2}
        return {**found, "keep": np.tri(5, dtype=bool)} if masked else found

    return make


HEADS = Exercise(
    "heads",
    title="Heads",
    points=1,
    reference=_heads,
    cases=(Case("all", _sentence(False)), Case("masked", _sentence(True))),
    hints=HINTS,
)


def test_columns_dealt_like_cards_are_known_in_every_exercise_with_heads() -> None:
    def answer(X: Any, W_Q: Any, W_K: Any, H: int, keep: Any = None) -> Any:
        S = np.stack([(X @ W_Q)[:, h::H] @ (X @ W_K)[:, h::H].T for h in range(H)])
        return S if keep is None else np.where(keep, S, -1e3)

    record = make_pack.make_record("a_lesson", HEADS, 0, naming="near", operators="attention_course.operators")
    report = make_report(grade(record, answer))
    assert "dealt the columns of `W_Q` and `W_K` out like cards, every `H`-th to one part" in report.headline
    assert report.known


def test_a_slip_is_made_with_inputs_that_only_later_cases_have() -> None:
    report = told(HEADS, lambda keep=None, **given: _heads(**given, keep=None if keep is None else ~keep), naming="near")
    assert "`keep` the wrong way round" in report.headline


def test_a_step_that_a_case_does_not_have_is_not_taken_in_it() -> None:
    report = told(HEADS, lambda keep=None, **given: _heads(**given), naming="near")
    assert "`keep`" in report.headline


# ------------------------------------------------------------------------------------------ the learner's own code


class Pair:
    def __init__(self) -> None:
        self.counters = [Counter(), Counter()]

    def add(self, k: int) -> int:
        return self.counters[0].add(k) * self.counters[1].add(2 * k)

    def reset(self) -> None:
        for counter in self.counters:
            counter.reset()


PAIR = Exercise(
    "Pair",
    title="Pair",
    points=1,
    reference=Pair,
    cases=(
        Case("once", lambda draw: Script({}, None, (Call("add", {"k": draw.integer(300, 900)}),))),
        Case("again", lambda draw: Script({}, None, (Call("add", {"k": 3}), Call("reset"), Call("add", {"k": 557})))),
    ),
    hints=HINTS,
)


@pytest.mark.parametrize(
    ("made", "added", "line"),
    [
        ("self.inner = Given()", "self.inner.add(k)", "self.inner.reset()"),
        ("self.both = [Counter() for _ in range(2)]", "self.both[0].add(k) * self.both[1].add(2 * k)", "for each in self.both:"),
    ],
)
def test_a_reset_that_leaves_the_parts_as_they_are_is_found(made: str, added: str, line: str) -> None:
    text = textwrap.dedent(f"""
        class Pair:
            def __init__(self):
                {made}
                self.steps = 0

            def add(self, k):
                self.steps += 1
                return {added}

            def reset(self):
                self.steps = 0
        """).lstrip()
    place = f"<cell {hash(text)}>"
    linecache.cache[place] = (len(text), None, text.splitlines(True), place)
    home: dict[str, Any] = {"Counter": Counter, "Given": Pair, "__name__": "__main__"}
    exec(compile(text, place, "exec"), home)
    report = make_report(check_answer(make_pack.make_record("a_lesson", PAIR, 0), home["Pair"]))
    assert report.recorded == "~mended"
    assert "A step is missing at the beginning of the function in line" in report.headline
    assert line in report.change


def test_a_factor_that_comes_in_every_round_is_not_one_factor() -> None:
    """A running mean that is halved is no sum that was not divided, though that is left when the half is taken away."""
    mean = Exercise(
        "mean",
        title="Mean",
        points=1,
        reference=lambda V: V.sum(0) / len(V),
        cases=tuple(Case(name, lambda draw: {"V": draw.normal(*draw.sizes(2, low=3))}) for name in ("one", "two")),
        hints=HINTS,
        misconceptions=(Misconception("sum", "did not divide", "Divide.", lambda V: V.sum(0)),),
    )
    text = "def mean(V):\n    o = V[0]\n    for v in V[1:]:\n        o = (o + v) / 2\n    return o\n"
    linecache.cache["<a running mean>"] = (len(text), None, text.splitlines(True), "<a running mean>")
    home: dict[str, Any] = {"np": np, "torch": torch, "__name__": "__main__"}
    exec(compile(text, "<a running mean>", "exec"), home)
    assert make_report(check_answer(make_pack.make_record("a_lesson", mean, 0), home["mean"])).recorded is None


def test_a_known_step_before_the_computation_is_no_part_of_the_test() -> None:
    """`Before` and `After` compose as they did."""
    doubled = Exercise(
        "doubled",
        title="Doubled",
        points=1,
        reference=lambda x: 2 * x,
        cases=(Case("one", lambda draw: {"x": draw.normal(5)}),),
        hints=HINTS,
        misconceptions=(
            Misconception("squared", "squared first", "Do not.", Before(lambda x: {"x": x**2})),
            Misconception("negative", "lost the sign", "Keep it.", After(lambda out, x: -out)),
        ),
    )
    assert told(doubled, lambda x: -2 * x**2).recorded == "squared+negative"


def test_a_number_wrong_beside_a_second_mistake_is_a_guess() -> None:
    case = next(iter(make_pack.make_record("a_lesson", SCORES, 0).cases))
    seen = observe(lambda Q, K, V: Q @ K.mT + 1, case.probe)
    result = judge(make_pack.make_record("a_lesson", SCORES, 0), [seen] * len(SCORES.cases)).cases[0]
    listed, number = (
        Known("by_d", "divided by d", "By its root."),
        NearSlip(f"{UNLISTED}1", fact("slip.place", what=fact("slip.number", got="1", want="0"), code="x")),
    )
    assert named([(case, result)], listed).certain
    assert not named([(case, result)], listed, number).certain


# ------------------------------------------------------------------------------------------ other programs of a mistake


def _leaky(x: Any, up: float = 1.0, down: float = 0.1) -> Any:
    return np.where(x > 0, up * x, down * x)


LEAKY = Exercise(
    "leaky",
    title="Leaky",
    points=1,
    reference=lambda x: _leaky(x),
    cases=(
        Case("positive", lambda draw: {"x": draw.uniform(7, low=0.5, high=2.0)}),
        Case("more positive", lambda draw: {"x": draw.uniform(11, low=0.5, high=2.0)}),
        Case("negative", lambda draw: {"x": draw.uniform(5, low=-2.0, high=-0.5)}),
    ),
    hints=HINTS,
    misconceptions=(
        Misconception(
            "up", "scaled the positive part", "Keep it.", lambda x: _leaky(x, up=2.0), also=(lambda x: _leaky(x, up=3.0),)
        ),
        Misconception(
            "down", "leaked too much", "A tenth.", lambda x: _leaky(x, down=0.2), also=(lambda x: _leaky(x, down=0.3),)
        ),
    ),
)


def _leaky_cases(answer: Callable[..., Any]) -> tuple[Any, Any]:
    record = make_pack.make_record("a_lesson", LEAKY, 0)
    return record, list(zip(record.cases, grade(record, answer).cases, strict=True))


@pytest.mark.parametrize(("up", "down"), [(2.0, 0.2), (3.0, 0.2), (2.0, 0.3), (3.0, 0.3)])
def test_any_two_programs_of_two_mistakes_are_found_in_their_own_cases(up: float, down: float) -> None:
    diagnosis = match_here_and_there(*_leaky_cases(lambda x: _leaky(x, up=up, down=down)))
    assert diagnosis is not None
    assert ([known.id for known in diagnosis.known], diagnosis.certain) == (["up", "down"], True)


@pytest.mark.parametrize("up", [2.0, 3.0])
def test_any_program_of_a_mistake_can_explain_most_of_what_fails(up: float) -> None:
    diagnosis = match_most(*_leaky_cases(lambda x: _leaky(x, up=up, down=0.7)))
    assert diagnosis is not None
    assert ([known.id for known in diagnosis.known], diagnosis.certain) == (["up"], False)


def test_two_programs_of_one_mistake_in_different_cases_are_not_two_mistakes() -> None:
    record, cases = _leaky_cases(lambda x: _leaky(x, up=2.0 if len(x) == 7 else 3.0))
    assert match_here_and_there(record, cases) is None
