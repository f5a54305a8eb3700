"""A right answer loses no marks because an earlier one is wrong: it is asked again, with the reference in that one's place."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import nbformat
import pytest

from autograder import Case, Draw, Exercise
from autograder.authoring.course import lessons
from autograder.authoring.reference_source import solution_source
from autograder.grading import read_in_child
from autograder.grading.marking.follow_through import calls as calls_of
from autograder.grading.marking.follow_through import only_calls
from autograder.grading.marking.forbidden_names import bindings
from autograder.grading.marking.mark_submission import Marked, mark
from autograder.grading.marking.read_submission import SLOW
from autograder.grading.marking.scheme import MarkScheme
from autograder.notebooks.scopes import calls
from autograder.packs import make_pack
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import choose_tier
from autograder.sandbox.submission_limits import Limits


def total(x: Any) -> Any:
    return x.sum()


def share(x: Any) -> Any:
    return x / x.sum()


def pooled(x: Any, v: Any) -> Any:
    return share(x) @ v


def numbers(draw: Draw) -> dict[str, Any]:
    return {"x": draw.uniform(5, low=1, high=2)}


def table(draw: Draw) -> dict[str, Any]:
    return {"x": draw.uniform(5, low=1, high=2), "v": draw.normal(5, 3)}


def exercise(reference: Any, make: Any, points: float) -> Exercise:
    name = reference.__name__
    return Exercise(name, title=name, points=points, reference=reference, cases=(Case("one", make),), hints=("a", "b", "c"))


EXERCISES = (exercise(total, numbers, 1), exercise(share, numbers, 2), exercise(pooled, table, 4))
RIGHT = {
    "total": "def total(x):\n    return x.sum()",
    "share": "def share(x):\n    return x / total(x)",
    "pooled": "def pooled(x, v):\n    return share(x) @ v",
}
STUB = "raise NotImplementedError()"


def scheme(policy: Any = "full") -> MarkScheme:
    cells = [_cell("setup", "import numpy as np", locked=True)]
    for name in RIGHT:
        cells.append(_cell(name, STUB, solution=True))
        cells.append(_cell(f"{name}_check", f'check("{name}")', grade=True))
    made = nbformat.v4.new_notebook(cells=cells)
    packs = [make_pack.make("sums", "Sums", EXERCISES, seed=seed) for seed in (0, 1)]
    return MarkScheme("01_sums", made, *packs, Limits(), references=RIGHT, follow_through=policy)


def _cell(name: str, source: str, **more: bool) -> Any:
    marks = {"grade_id": name, "locked": False, "solution": False, "grade": False, "task": False, "schema_version": 3, **more}
    if marks["grade"]:
        marks["points"] = 1.0
    return nbformat.v4.new_code_cell(source, id=name, metadata={"nbgrader": marks})


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with scheme().setup.sandbox(choose_tier()) as started:
        yield started


def marked(sandbox: Sandbox, policy: Any = "full", **answers: str) -> Marked:
    chosen = scheme(policy)
    notebook = nbformat.from_dict(chosen.released)
    for cell in notebook.cells:
        if cell.id in RIGHT:
            cell.source = {**RIGHT, **answers}[cell.id]
    return mark(chosen, sandbox, nbformat.writes(notebook).encode())


def scores(done: Marked) -> dict[str, float]:
    return {name: report.score for name, report in done.reports.items()}


def test_everything_right_is_asked_once_and_nothing_is_said(sandbox: Sandbox) -> None:
    done = marked(sandbox)
    assert scores(done) == {"total": 1, "share": 2, "pooled": 4}
    assert done.flags == []


@pytest.mark.parametrize("wrong", [STUB, "def total(x):\n    raise NotImplementedError()", "def total(x):\n    return x.mean()"])
def test_one_wrong_answer_costs_its_own_points_alone(sandbox: Sandbox, wrong: str) -> None:
    done = marked(sandbox, total=wrong)
    assert scores(done) == {"total": 0, "share": 2, "pooled": 4}
    assert "given `total`" in done.reports["share"].headline
    assert done.reports["pooled"].carried == ("total", "share")
    assert any(flag.startswith("pooled: 4 points with the reference's total, share") for flag in done.flags)


@pytest.mark.parametrize(("policy", "points"), [("full", 2), ("half", 1), ("none", 0)])
def test_the_course_says_how_much_is_carried(sandbox: Sandbox, policy: str, points: float) -> None:
    assert scores(marked(sandbox, policy, total=STUB))["share"] == points


def test_a_blank_answer_gets_nothing_from_the_reference(sandbox: Sandbox) -> None:
    done = marked(sandbox, total=STUB, share=STUB, pooled="def pooled(x, v):\n    raise NotImplementedError()")
    assert scores(done) == {"total": 0, "share": 0, "pooled": 0}


def test_an_answer_with_a_mistake_of_its_own_stays_wrong(sandbox: Sandbox) -> None:
    done = marked(sandbox, total=STUB, pooled="def pooled(x, v):\n    return share(x) @ v * 2")
    assert scores(done) == {"total": 0, "share": 2, "pooled": 0}


def test_a_later_answer_never_stands_in_for_an_earlier_one(sandbox: Sandbox) -> None:
    done = marked(sandbox, total="def total(x):\n    return (x / share(x))[0]", share="def share(x):\n    return x * 0")
    assert scores(done)["total"] == 0


CALLS = ["return total(x)", "y = total(x)\n    return y + 0", "out = (total(x), x)\n    return out[-2]", "return total(x=x) * 1"]


@pytest.mark.parametrize("body", CALLS)
def test_an_answer_that_only_calls_an_earlier_one_earns_nothing_by_the_reference(sandbox: Sandbox, body: str) -> None:
    same = exercise(total, numbers, 2)
    packs = [
        make_pack.make("sums", "Sums", (EXERCISES[0], replace(same, id="share"), EXERCISES[2]), seed=seed) for seed in (0, 1)
    ]
    chosen = replace(scheme(), visible=packs[0], hidden=packs[1])
    notebook = nbformat.from_dict(chosen.released)
    for cell in notebook.cells:
        if cell.id in RIGHT:
            cell.source = {"total": STUB, "share": f"def share(x):\n    {body}"}.get(cell.id, STUB)
    done = mark(chosen, sandbox, nbformat.writes(notebook).encode())
    assert scores(done)["share"] == 0
    assert not done.reports["share"].carried


def test_an_answer_is_parsed_by_a_child_alone(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser takes seconds over some texts, and holds every thread of the grader meanwhile."""
    parsed: list[str] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda text, *more, **named: parsed.append(str(text)) or parse(text, *more, **named))
    done = marked(sandbox, total=STUB, share="def share(x):\n    return x / total(x)  # mine")
    assert done.reports["share"].carried
    assert not any("mine" in text for text in parsed)


def test_long_answers_that_do_nothing_are_read_in_the_seconds_of_one_submission(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read ahead, what is unfinished and what an answer calls: each had processor time of its own, outside the budget."""
    taken: list[tuple[float, bool]] = []
    spend = read_in_child.Seconds.spend

    def counted(seconds: read_in_child.Seconds, used: float) -> None:
        taken.append((used, seconds.budget is not None))
        spend(seconds, used)

    monkeypatch.setattr(read_in_child.Seconds, "spend", counted)
    long = "if 0:\n" + "  a\n" * 45_000 + "a b\n" * 5
    done = marked(sandbox, **{name: f"def {name}(*given):\n    return 0\n{long}" for name in RIGHT})
    used_s = sum(used for used, _ in taken)
    assert 0.5 < used_s < read_in_child.READ_S + 0.1
    assert all(paid for _, paid in taken)
    assert done.page_s <= max(0, read_in_child.READ_S - used_s)
    assert SLOW in done.flags


def test_what_is_not_read_costs_no_marks(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_in_child, "READ_S", 0.0)
    done = marked(sandbox, **{name: f"{answer}  # mine" for name, answer in RIGHT.items()})
    assert scores(done) == {"total": 1, "share": 2, "pooled": 4}
    assert done.flags == [SLOW]


def test_an_answer_that_takes_too_long_to_read_earns_nothing_by_the_reference() -> None:
    slow = "def share(x):\n    return x / total(x)\nif 0:\n" + "  " + "[a]," * 2_000_000
    assert only_calls(calls_of([slow])[slow], ["total"])


def test_every_reference_is_more_than_a_call() -> None:
    """So a right answer to any exercise of the course, written as the reference is, is followed through."""
    for lesson in lessons():
        asked = lesson.in_code()
        answers = [each.id for each in asked]
        for place, (name, each) in enumerate(zip(answers, asked, strict=True)):
            package, _, module = each.reference.__module__.rpartition(".")
            source = solution_source(module if package == "solutions" else lesson.exercises_slug, name)
            below = [other for other in answers[:place] if other in bindings(source)[1]]
            assert not below or not only_calls(calls(source), below), (lesson.name, name)


def test_nothing_of_the_reference_can_be_shown(sandbox: Sandbox) -> None:
    spy = (
        "import inspect\ndef share(x):\n    try:\n        print(inspect.getsource(total))\n"
        "    except Exception:\n        pass\n    return x / total(x)"
    )
    done = marked(sandbox, total=STUB, share=spy)
    assert scores(done)["share"] == 2
    assert "x.sum()" not in nbformat.writes(done.notebook)


def test_what_the_reference_calls_itself_is_replaced_too(sandbox: Sandbox) -> None:
    done = marked(sandbox, total=STUB, share=STUB)
    assert scores(done) == {"total": 0, "share": 0, "pooled": 4}
    assert done.reports["pooled"].carried == ("total", "share")


def test_helpers_of_their_own_are_looked_through(sandbox: Sandbox) -> None:
    chosen = scheme()
    notebook = nbformat.from_dict(chosen.released)
    for cell in notebook.cells:
        if cell.id in RIGHT:
            cell.source = RIGHT[cell.id]
    notebook.cells.insert(2, nbformat.v4.new_code_cell("def helper(x):\n    return total(x)"))
    next(cell for cell in notebook.cells if cell.id == "total").source = STUB
    next(cell for cell in notebook.cells if cell.id == "share").source = "def share(x):\n    return x / helper(x)"
    assert scores(mark(chosen, sandbox, nbformat.writes(notebook).encode()))["share"] == 2
