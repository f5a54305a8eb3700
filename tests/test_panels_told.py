"""What panels say where a learner found one untrue, unclear or useless: each mechanism on a small exercise."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autograder import Case, Exercise
from autograder.diagnosis import slips
from autograder.diagnosis.attempt import _unseen, check_answer, mended
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.mending import in_words
from autograder.diagnosis.mistakes import composed, named
from autograder.diagnosis.numbers import off
from autograder.diagnosis.panel import _without_change, to_html, to_text
from autograder.diagnosis.related.relations import relations
from autograder.judging import pack
from autograder.judging.exercise import Tolerance
from autograder.judging.near.source import Source
from autograder.judging.observation import Failure
from autograder.judging.records import Diagnosis, Known
from tests.test_mending import ATTEND, OWN_WAY, cell, said
from tests.test_named_truly import BYTES, _bytes, told


def rows(draw: Any) -> dict[str, Any]:
    return {"x": draw.normal(3, 4)}


def bell(x: Any) -> Any:
    return np.exp(-(x**2).sum(axis=-1) / 2)


BELL = Exercise("bell", "Bell", 1, reference=bell, cases=(Case("one", rows), Case("two", rows)), hints=("a", "b", "c"))
TWO = Exercise(
    "two", "Two", 1, reference=lambda x: (x + 1, x[0]), cases=(Case("one", rows), Case("two", rows)), hints=("a", "b", "c")
)

AS_IF = "Your result comes out exactly as if you"


def test_a_list_of_results_is_a_list_and_not_its_first_entry() -> None:
    report = said(BELL, "def bell(x):\n    return [np.exp(-np.sum(row**2) / 2) for row in x]")
    assert report.headline == "What you compute is right, but you returned a Python list where an array is asked for."
    assert "np.stack" in report.advice


def test_results_in_another_order_are_called_so() -> None:
    report = said(TWO, "def two(x):\n    return x[0], x + 1")
    assert "order" in report.headline
    assert "shape" not in report.headline


def test_a_bracket_closed_too_early_is_moved_whole() -> None:
    report = said(BELL, "def bell(x):\n    u = (x**2).sum(axis=1)\n    return np.exp(-u) / 2")
    assert report.headline == "You have `np.exp(-u) / 2` in line 3, where `np.exp(-u / 2)` passes the checks."


def test_a_return_indented_too_far_is_named() -> None:
    report = said(BELL, """
        def bell(x):
            out = np.zeros(len(x))
            for i in range(len(x)):
                out[i] = np.exp(-(x[i] ** 2).sum() / 2)
                return out
    """)  # fmt: skip
    assert "`return out` inside the loop that begins in line 3" in report.headline
    assert report.recorded == "~mended"


@pytest.mark.parametrize(("got", "says"), [(np.zeros(()), "is a single number"), (np.zeros(4), "has the wrong shape")])
def test_of_zeros_nothing_is_said_about_sums_or_parts(got: Any, says: str) -> None:
    found = [relation.says for relation in relations(got, np.zeros(3), (), Tolerance())]
    assert any(says in text for text in found), found
    assert not any("sum of" in text or "entries along" in text for text in found), found


def test_the_transpose_is_no_missing_axis() -> None:
    def told(shapes: str) -> str:
        slip = slips.raised(Failure("raised", "ValueError", f"operands could not be broadcast together with shapes {shapes} "))
        assert slip is not None
        return slip.advice

    assert "transpose" in told("(3,5) (5,3)")
    assert "axis of length 1 missing" in told("(3,5) (3,)")


def test_an_index_past_the_end_is_told_with_its_number_and_no_loop_is_taken_for_granted() -> None:
    slip = slips.raised(Failure("raised", "IndexError", "index 5 is out of bounds for axis 0 with size 3"))
    assert slip is not None
    assert slip.headline == "The index 5 points past the end of an axis of length 3."


def test_an_error_that_nobody_knows_is_told_with_its_line() -> None:
    report = said(BELL, "def bell(x):\n    return x + int('a')")
    assert "stops with an error in line 2" in report.headline
    assert "ValueError" in to_text(report)


def test_what_is_named_stands_in_the_learners_code_or_in_the_exercise() -> None:
    record = pack.make_record("a_lesson", BELL, 0, naming="listed")
    answer = cell("bell", "def bell(x):\n    u = x.sum(axis=1)\n    return u")
    result = check_answer(record, answer, mending=False)

    result.exercise = replace(record, near=(Known("~slip", "", ""),), hints=("Divide by $t_j$.", "b", "c"))

    def unseen(says: str, by: str = "~slip") -> bool:
        return _unseen(result, answer, Diagnosis("", "", (Known(by, says, ""),)))

    assert unseen("left out the summand `i`")
    assert unseen("added `b` instead of subtracting it")
    assert not unseen("left out the factor `u`")
    assert not unseen("took `sum` over axis 0, of `x.T`")
    assert not unseen("did not divide by `t`")  # a hint speaks of it
    assert not unseen("left out the summand `i`", by="listed")  # a listed mistake's words are the exercise's own


def test_what_may_be_beside_is_said_without_what_comes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [Known(name, says, "") for name, says in (("a", "did a"), ("b", "did b. Where, nothing is left"), ("c", "did c"))]
    record = pack.make_record("a_lesson", BELL, 0, naming="listed")
    result = check_answer(record, cell("bell", "def bell(x):\n    return x.sum(axis=1)"), mending=False)
    monkeypatch.setattr("autograder.diagnosis.mistakes._pair_explains", lambda *_: True)
    for case in record.cases:
        case.pairs.update({f"a{pack.PAIR}b": np.zeros(1), f"a{pack.PAIR}c": np.zeros(1)})
    found = composed(replace(record, known=tuple(known)), list(zip(record.cases, result.cases, strict=True)))
    assert found is not None
    assert found.headline.endswith("and beside that you either did b, or did c.")


def test_a_factor_is_no_clue_where_it_is_no_whole_number_of_times() -> None:
    assert "factor, or which part" not in off(2.718, 1.0, coarse=False).advice
    assert "factor, or which part" in off(6.0, 3.0, coarse=False).advice


def test_the_change_is_folded_in_the_panel_and_told_in_plain_text() -> None:
    report = said(ATTEND, OWN_WAY.format(axis=0, width="K.shape[1]"))
    shown, folded = to_html(report).split("<summary", 1)
    assert "axis=0" in shown
    assert "line 3" in shown
    assert "axis=-1" not in shown
    assert "Show the change" in folded
    assert "axis=-1" in folded
    assert "axis=-1" in to_text(report)


def test_a_hint_in_plain_text_stands_beside_no_named_mistake_and_before_no_first_try() -> None:
    exercise = replace(BELL, hints=("Which axis is summed over?", "b", "c"))
    tried = said(exercise, "def bell(x):\n    return x[..., 0] ** 3 - 7")
    assert not tried.known
    assert "hint: Which axis" in to_text(tried)
    named_surely = replace(tried, known=(Known("halved", "halved it", ""),))
    assert "hint: " not in to_text(named_surely)
    assert "Which axis" in to_html(named_surely)  # folded, there for who asks
    assert "hint: " not in to_text(said(exercise, "def bell(x):\n    raise NotImplementedError"))


def test_a_difference_is_shown_where_an_entry_is_wrong() -> None:
    record = pack.make_record("a_lesson", BELL, 0)
    shown = make_report(check_answer(record, lambda x: bell(x) * (1 + 1e-9) + (np.arange(len(x)) == 1)))
    assert shown.grids[-1].title == "yours − expected"
    assert (shown.grids[-1].cells != 0).sum() == 1


def test_a_change_in_several_places_is_said_to_be_one() -> None:
    known = Known("~mended", "", "")
    headline = "You have `a(0)` in line 3, where `a(1)` passes the checks (and the like in 1 more place)."
    shown, folded = _without_change(SimpleNamespace(known=(known,), headline=headline))
    assert shown == "You have `a(0)` in line 3, where something else passes the checks (and the like in 1 more place)."
    assert folded == "What passes there: `a(1)` (and the like in 1 more place)."


def test_beside_another_change_too_it_is_said_in_how_many_places(monkeypatch: pytest.MonkeyPatch) -> None:
    says = iter(
        [
            "have `a(0)` in line 3, where `a(1)` passes the checks (and the like in 1 more place)",
            "have `b` in line 5, where `c` passes the checks",
        ]
    )
    monkeypatch.setattr(in_words, "_says", lambda *_: next(says))
    monkeypatch.setattr(in_words, "_place", lambda *_: object())
    headline = in_words.told(Source("f", {}, {}, {}), [(), ()]).headline
    places = "`a(1)` for `a(0)` in line 3 (and the like in 1 more place); and `c` for `b` in line 5"
    assert headline == f"Every check passes with two changes: {places}."


@pytest.mark.parametrize("naming", ["pairs", "near"])
def test_no_story_of_two_mistakes_is_told_of_one_number(naming: str) -> None:
    report = told(BYTES, _bytes(0.5 * 4.4 / 1.7), naming=naming)
    assert report.recorded is None
    assert ", and you " not in report.headline


def test_one_change_of_what_is_written_is_told_before_two_slips_that_amount_to_it() -> None:
    def turns(x: Any) -> Any:
        return x[:, :1] * np.arange(0, 8, 2) / 8

    record = pack.make_record(
        "a_lesson",
        Exercise("turns", "T", 1, reference=turns, cases=(Case("one", rows),), hints=("a", "b", "c")),
        0,
        naming="listed",
    )
    answer = cell("turns", "def turns(x):\n    return x[:, :1] * np.arange(0, 8, 2) * 8")
    result = check_answer(record, answer, mending=False)
    result.exercise = replace(record, near=(Known("~one", "did this", ""), Known("~two", "did that", "")))
    result.diagnosis = Diagnosis("You did this, and you did that.", "", result.exercise.near)
    mended(result, answer)
    assert result.diagnosis.known[0].id == "~mended"
    assert " in line 2, where " in result.diagnosis.headline


def test_of_two_mistakes_it_is_said_what_was_done_and_not_what_comes_of_each_alone() -> None:
    one = Known("a", "left the mask out: right for a step, wrong for a chunk (`keep: None`)", "")
    two = Known("b", "divided by $d: k$, so that the weights are too even", "")
    case = pack.make_record("a_lesson", BELL, 0, naming="listed").cases[0]
    result = check_answer(
        pack.make_record("a_lesson", BELL, 0, naming="listed"), cell("bell", "def bell(x):\n    return x"), mending=False
    )
    told = named([(case, result.cases[0])], one, two)
    assert told.headline == f"{AS_IF} left the mask out, and you divided by $d: k$."
    assert named([(case, result.cases[0])], one).headline == f"{AS_IF} {one.says}."


RIGHT = "E = np.exp({Q} @ {K}.T / np.sqrt({Q}.shape[-1]))\n    return E / E.sum(axis=-1, keepdims=True) @ {V}"


@pytest.mark.parametrize(
    ("takes", "body", "headline", "advice"),
    [
        ("query, key, value", RIGHT.format(Q="query", K="key", V="value"), "", "Nothing else is wrong."),
        (
            "q, k, v",
            RIGHT.format(Q="q", K="k", V="v").replace("np.sqrt", ""),
            " And beside that, your result comes out exactly as if you divided by d",
            "Divide by its root.",
        ),
        ("V, K, value", RIGHT.format(Q="value", K="K", V="V"), "", "the check calls them by name."),
    ],
)
def test_of_parameters_with_other_names_it_is_said_whether_the_rest_is_right(
    takes: str, body: str, headline: str, advice: str
) -> None:
    report = said(ATTEND, f"def attend({takes}):\n    {body}")
    assert report.headline.startswith("Your function does not take the argument `Q`.")
    assert headline in report.headline
    assert advice in report.advice
