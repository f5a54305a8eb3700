"""Answers as students write them get what a fair person gives, and nobody is accused of what they did not do."""

from typing import Any

import nbformat
import pytest

from autograder.authoring.course import find_lesson
from autograder.grading.marking.mark_submission import Marked, mark
from autograder.grading.marking.scheme import make_mark_scheme
from autograder.grading.trials import course_copy, demo
from autograder.sandbox.isolation_tiers import available_tiers, choose_tier
from tests.fair_answers import ANSWERS, Answer

ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine"),
]
QUARTER = 0.25
LESSONS = sorted({answer.lesson for answer in ANSWERS})


def submission(root: Any, answer: Answer) -> bytes:
    """The notebook that is handed in."""
    notebook = demo.perfect(root, find_lesson(answer.lesson))
    for name, text in answer.texts.items():
        demo.set_answer(notebook, name, text)
    if answer.edit is not None:
        answer.edit(notebook)
    return nbformat.writes(notebook).encode()


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Marked]:
    """Every submission, marked in the sandbox of its lesson."""
    root = tmp_path_factory.mktemp("fair") / "course"
    course_copy.make(root, [find_lesson(lesson) for lesson in LESSONS])
    found: dict[str, Marked] = {}
    for lesson in LESSONS:
        scheme = make_mark_scheme(root, lesson)
        with scheme.setup.sandbox(choose_tier()) as sandbox:
            for answer in ANSWERS:
                if answer.lesson == lesson:
                    found[f"{lesson} {answer.name}"] = mark(scheme, sandbox, submission(root, answer))
    return found


def points(lesson: str) -> dict[str, float]:
    return {exercise.id: exercise.points for exercise in find_lesson(lesson).exercises()}


def test_with_the_shapes_of_lesson_01_there_are_150_submissions() -> None:
    from tests.shapes import SHAPES

    names = [(answer.lesson, answer.name) for answer in ANSWERS]
    assert len(set(names)) == len(names)
    assert len(names) + len(SHAPES) >= 150


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.lesson[:3]}{answer.name}")
def test_every_exercise_gets_what_a_fair_person_gives_within_a_quarter_of_a_point(
    answer: Answer, marked: dict[str, Marked]
) -> None:
    found = marked[f"{answer.lesson} {answer.name}"]
    for name, most in points(answer.lesson).items():
        got, fair = found.reports[name].score, answer.fair.get(name, most)
        assert abs(got - fair) <= QUARTER, f"{name}: got {got:g}, deserves {fair:g}: {found.reports[name].headline} {found.flags}"


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.lesson[:3]}{answer.name}")
def test_only_an_answer_that_uses_a_forbidden_name_is_flagged_for_it(answer: Answer, marked: dict[str, Marked]) -> None:
    flags = [flag for flag in marked[f"{answer.lesson} {answer.name}"].flags if " names " in flag or "may build a name" in flag]
    assert bool(flags) == answer.flag, flags
