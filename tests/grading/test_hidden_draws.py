"""Each student is asked hidden inputs of their own, and is asked the same when graded again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.authoring.course import Lesson, find_lesson, lessons
from autograder.authoring.make_release import nbgrader_api
from autograder.grading.grade import grade_assignment
from autograder.grading.marking import hidden_draws
from autograder.grading.marking.decide_marks import Verdict
from autograder.grading.marking.hidden_draws import HiddenDraws
from autograder.grading.marking.scheme import make_hidden_draws, make_mark_scheme
from autograder.grading.trials import course_copy, demo
from autograder.judging.call_answer import observe
from autograder.judging.combined_mistakes import answer_of
from autograder.judging.compare import judge
from autograder.judging.observation import Observation
from autograder.judging.records import CaseRecord, ExerciseRecord
from autograder.judging.values import encode
from autograder.packs import make_pack
from autograder.sandbox.isolation_tiers import available_tiers

SECRET = "s" * 64
LESSON = "01_soft_lookup"


def drawer(lesson: Lesson, secret: str = SECRET) -> HiddenDraws:
    exercises = [replace(exercise, misconceptions=()) for exercise in lesson.in_code()]
    common = make_pack.make(lesson.slug, lesson.title, exercises, seed=make_pack.seed_from(secret, lesson.slug), naming="listed")
    return HiddenDraws(lesson.slug, exercises, secret, common)


def inputs(case: CaseRecord) -> list[bytes]:
    return [np.asarray(leaf.content).tobytes() for _, leaf in case.probe.inputs.leaves()]


def by_case(records: dict[str, ExerciseRecord]) -> dict[tuple[str, str], list[bytes]]:
    return {(name, case.name): inputs(case) for name, record in records.items() for case in record.cases}


@pytest.mark.usefixtures("sample_course")
def test_students_are_asked_different_inputs_and_one_student_the_same_again() -> None:
    lesson = find_lesson(LESSON)
    draws = drawer(lesson)
    ada, bob = by_case(draws.of("ada")), by_case(draws.of("bob"))
    assert by_case(drawer(lesson).of("ada")) == ada
    assert by_case(drawer(lesson, "t" * 64).of("ada")) != ada
    common = by_case(draws._common.in_code)
    drawn = [key for key in ada if ada[key] != common[key]]  # some cases are fixed numbers by their author's will
    assert len(drawn) > len(ada) / 2
    assert not [key for key in drawn if ada[key] == bob[key]]


@pytest.mark.usefixtures("sample_course")
def test_inputs_of_a_slow_reference_come_from_a_pool_and_are_mixed_anew_for_each_student(monkeypatch: pytest.MonkeyPatch) -> None:
    lesson = find_lesson(LESSON)
    draws = drawer(lesson)
    draws._exercises = [replace(exercise, search=hidden_draws.SLOW / 2) for exercise in draws._exercises]
    made = []
    plain = make_pack.make_record
    monkeypatch.setattr(make_pack, "make_record", lambda *given, **named: made.append(given[1].id) or plain(*given, **named))
    students = [by_case(draws.of(f"student {number}")) for number in range(40)]
    assert len(made) <= hidden_draws.POOL * len(draws._exercises), "the cost does not grow with the class"
    name = max(draws._exercises, key=lambda each: len(each.cases)).id
    mixes = {str([value for key, value in one.items() if key[0] == name]) for one in students}
    assert len(mixes) > 30


@pytest.mark.parametrize("lesson", [pytest.param(each, id=each.slug) for each in lessons()])
def test_right_answers_are_right_on_the_inputs_of_any_student(lesson: Lesson, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_draws, "POOL", 2)
    draws = drawer(lesson)
    declared = {exercise.id: exercise for exercise in lesson.in_code()}
    for student in ("ada", "a student with a long name"):
        for name, record in draws.of(student).items():
            programs = [
                declared[name].reference,
                *(answer_of(declared[name], variant.answer) for variant in declared[name].variants),
            ]
            for program in programs if declared[name].search >= hidden_draws.SLOW else programs[:1]:
                seen = [observe(program, case.probe) for case in record.cases]
                result = judge(record, seen)
                if result.failure is not None and result.failure.type == "TypeCheckError":
                    continue  # the tests check the references' annotations, which a variant may call otherwise
                assert result.passed, (student, name, program, result.failure)


@pytest.mark.usefixtures("sample_course")
@pytest.mark.parametrize("alone", [True, False])
def test_an_answer_that_is_wrong_on_its_own_inputs_only_is_noticed(alone: bool) -> None:
    record = drawer(find_lesson(LESSON)).of("ada")["gaussian"]
    right = judge(record, [case.expected for case in record.cases])
    wrong = judge(record, [Observation(value=encode(np.zeros(1))) for case in record.cases])
    assert right.passed
    assert not wrong.passed
    verdict = Verdict(wrong, hidden=True, common=right if alone else wrong)
    assert verdict.own_alone is alone
    assert verdict.report().score == 0
    assert verdict.report().known == ()


@pytest.mark.slow
@pytest.mark.skipif(
    not any(tier.available for tier in available_tiers() if tier.name != "none"), reason="no sandbox on this machine"
)
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@pytest.mark.usefixtures("sample_course")
def test_a_table_of_one_students_hidden_results_earns_another_nothing(tmp_path: Path) -> None:
    lesson, root = find_lesson(LESSON), tmp_path / "course"
    course_copy.make(root, [lesson])
    assert nbgrader_api(root).generate_assignment(lesson.name, force=True, create=True)["success"]
    draws = make_hidden_draws(root, make_mark_scheme(root, lesson.name))
    record = draws.of("ada")["gaussian"]
    names = list(record.cases[0].probe.inputs.items())
    table = [[[plain(case.probe.inputs.items()[name]) for name in names], plain(case.expected.value)] for case in record.cases]
    answer = (
        f"import numpy as np\nTABLE = {table!r}\ndef gaussian({', '.join(names)}):\n"
        f"    for inputs, result in TABLE:\n"
        f"        if all(np.array_equal(np.asarray(one), np.asarray(two)) for one, two in zip(inputs, [{', '.join(names)}])):\n"
        f"            return np.array(result)\n    return np.zeros(1)"
    )
    for student in ("ada", "bob"):
        notebook = demo.perfect(root, lesson)
        demo.set_answer(notebook, "gaussian", answer)
        demo.submit(root, lesson, student, notebook)
    report = grade_assignment(root, lesson.name, workers=1)
    scores = {row.student: row.exercises["gaussian"].score for row in report.rows}
    assert scores["ada"] == record.points, "the table is right for whom it was drawn"
    assert scores["bob"] == 0
    again = grade_assignment(root, lesson.name, workers=1, again=True)
    assert {row.student: row.score for row in again.rows} == {row.student: row.score for row in report.rows}


def plain(value: Any) -> Any:
    ((_, leaf),) = list(value.leaves())
    return np.asarray(leaf.content).tolist()
