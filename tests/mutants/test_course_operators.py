"""A course's own operators: found by the name that a pack holds, tried beside the engine's, and said in the course's words."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import Case, Exercise
from autograder.authoring import course
from autograder.authoring.course import CourseError, find_lesson
from autograder.authoring.verify import grade
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.phrase import briefly, say
from autograder.judging.fact import fact
from autograder.judging.records import ExerciseRecord
from autograder.live import packing
from autograder.mutants import course_operators
from autograder.mutants.course_operators import NONE, OperatorsError, installed, load
from autograder.packs import make_pack, pack_file
from autograder.packs.record_json import from_json, to_json
from tests.diagnosis.test_repair import cell

MODULE = "signal_operators"
TEXT = """
import ast

from autograder.judging.exercise import Before
from autograder.judging.fact import fact
from autograder.mutants.course_operators import CallOperator, Operators, StepSlip

def mirrored(node):
    what = fact(f"{__name__}:time", code=ast.unparse(node.args[0]))
    yield 0, lambda n: ast.Call(n.func, [ast.BinOp(ast.Constant(3.7), ast.Sub(), n.args[0])], []), what

def quieter(inputs):
    if "x" in inputs:
        yield StepSlip(Before(lambda **given: {"x": given["x"] / 10}), fact(f"{__name__}:quiet", name="x"), 0)

OPERATORS = Operators(
    calls=(CallOperator(mirrored, ("exp",)),),
    inputs=(quieter,),
    sentences={"time": "ließ `{code}` rückwärts laufen: die Zeit", "time.brief": "ließ `{code}` rückwärts laufen",
               "quiet": "hast `{name}` zehnmal zu leise genommen"},
)
NO_OPERATORS = 3
"""


def tone(x: Any) -> Any:
    return np.cos(x) + x**3


TONE = Exercise(
    "tone",
    title="A tone",
    points=1,
    reference=tone,
    cases=(Case("one", lambda draw: {"x": draw.normal(5)}), Case("two", lambda draw: {"x": draw.normal(3, 4)})),
    hints=("a", "b", "c"),
)


def damped(x: Any) -> Any:
    return x - np.exp(3.7 - x)


DAMPED = replace(TONE, id="damped", reference=damped)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The module of a course about signals, as installed with it."""
    (tmp_path / f"{MODULE}.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield MODULE
    sys.modules.pop(MODULE, None)
    load.cache_clear()


def _record(exercise: Exercise, operators: str) -> ExerciseRecord:
    return make_pack.make_record("a_lesson", exercise, 0, naming="near", operators=operators)


def _without_package(module: str) -> None:
    sys.modules.pop(module, None)
    load.cache_clear()
    importlib.invalidate_caches()


def test_a_slip_that_only_the_course_knows_is_named_in_its_words(module: str) -> None:
    wrong = grade(_record(TONE, module), lambda x: tone(x / 10))
    assert wrong.diagnosis is not None
    assert wrong.diagnosis.certain
    assert "you hast `x` zehnmal zu leise genommen." in make_report(wrong).headline


def test_without_the_courses_operators_a_search_knows_no_such_slip(module: str) -> None:
    keys = {name: {slip.what.key for slip in _record(DAMPED, name).near} for name in ("", module)}
    assert f"{module}:time" in keys[module]
    assert not [key for key in keys[""] if ":" in key]


def test_the_name_of_the_operators_and_their_slips_travel_with_the_pack(module: str) -> None:
    record, arrays = _record(TONE, module), list[Any]()
    again = from_json(to_json(record, arrays), arrays)
    assert again.operators == module
    assert again.near == record.near
    assert "operators" not in to_json(_record(replace(TONE, search=0.0), ""), [])


def test_a_sentence_is_shortened_beside_another_as_the_course_says(module: str) -> None:
    what = fact(f"{module}:time", code="t")
    assert say(what) == "ließ `t` rückwärts laufen: die Zeit"
    assert briefly(what) == "ließ `t` rückwärts laufen"


def test_a_slip_without_words_on_this_machine_is_told_as_one(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = _record(TONE, module)
    wrong = grade(record, lambda x: tone(x / 10))
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not (Path(place) / f"{MODULE}.py").exists()])
    _without_package(module)
    words = "made a slip that this version of the course has no words for"
    assert words in make_report(wrong).headline
    assert say(fact("slip.of_an_older_pack")) == words
    with pytest.raises(KeyError):
        say(fact("relation.that_nobody_wrote"))


def test_a_courses_operator_is_tried_as_a_repair_of_a_learners_code(module: str) -> None:
    text = "def damped(x):\n    late = np.exp(x)\n    return x - late"
    headlines = {}
    for name in ("", module):
        record = replace(_record(replace(DAMPED, search=0.0), ""), operators=name)
        report = make_report(check_answer(record, cell("damped", text)))
        headlines[name] = report.headline
    assert "line 2, in `np.exp(x)`" in headlines[module]
    assert "in `np.exp(x)`" not in headlines[""]


def test_where_a_package_is_missing_repairs_go_on_without_it(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = replace(_record(replace(DAMPED, search=0.0), ""), operators="no_such_package.operators")
    report = make_report(check_answer(record, cell("damped", "def damped(x):\n    return x + np.exp(3.7 - x)")))
    assert "line 2" in report.headline


def test_operators_that_are_not_there_are_said_to_be_missing(module: str) -> None:
    assert load("") is NONE
    with pytest.raises(OperatorsError, match=r"expected OPERATORS in the given module 'no_such_module', but No module"):
        load("no_such_module")
    with pytest.raises(OperatorsError, match=r"expected OPERATORS in the given module 'json', but .* has no attribute"):
        load("json")
    assert installed("json") is NONE


def test_something_else_under_the_name_is_refused(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course_operators, "NAME", "NO_OPERATORS")
    with pytest.raises(OperatorsError, match=r"expected signal_operators.NO_OPERATORS to be an Operators\(...\), got a int"):
        load(module)


def test_a_course_that_names_a_missing_module_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    real = course.settings()
    monkeypatch.setattr(course, "settings", lambda: type(real)(title=real.title, operators="no_such_module", given=real.given))
    with pytest.raises(CourseError, match=r"expected OPERATORS in the given module 'no_such_module'.*`operators` in course.toml"):
        find_lesson("start_here").pack()


def test_a_browser_gets_the_modules_of_the_operators(tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_pack.make("a_lesson", "A lesson", (replace(TONE, search=0.0),), naming="listed", operators=module)
    pack_file.save(made, tmp_path / f"a_lesson{pack_file.SUFFIX}")
    monkeypatch.setattr(packing, "released", lambda lesson: tmp_path)
    monkeypatch.setattr(packing, "code_of", lambda lesson: ["import numpy"])
    assert packing._imports([find_lesson("start_here")]) == ["numpy", module]
