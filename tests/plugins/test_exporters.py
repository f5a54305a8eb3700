"""Grades as learning platforms read them, and what lateness costs."""

import csv
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from nbgrader.api import Gradebook
from traitlets import TraitError
from traitlets.config import Config

from autograder.authoring.course import CourseError, find_lesson
from autograder.grading.grade import grade_assignment
from autograder.grading.grades import Grade
from autograder.grading.ledger import ExerciseRow
from autograder.grading.reports.class_table import cell
from autograder.grading.roster import Listed, Roster
from autograder.plugins import exporters
from autograder.plugins.exporters import CanvasExporter, GradescopeExporter, MoodleExporter
from autograder.plugins.late_penalty import LatePenalty
from autograder.sandbox.isolation_tiers import available_tiers

ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())
LESSON = "00_start_here"
RULE = Config({"AssignLatePenalties": {"plugin_class": "autograder.plugins.late_penalty.LatePenalty"}})
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@pytest.fixture(scope="module")
def gradebook() -> Any:
    """Three students, one with a hostile name and two days late, one who never submitted; two assignments."""
    with Gradebook("sqlite:///:memory:") as book:
        for name in ("a1", "b2"):
            book.add_assignment(name, duedate="2026-01-01 10:00 UTC")
            book.add_notebook("p", name)
            book.add_grade_cell("q", "p", name, max_score=4, cell_type="code")
            book.add_grade_cell("essay", "p", name, max_score=2, cell_type="markdown")
        book.add_student("ann", first_name='Ann "A"', last_name="O'Neil, Jr", email="ann@x.org", lms_user_id="4711")
        book.add_student("=cmd|' /C calc'!A0", first_name="+1", last_name="@SUM(A1)", email="\t=1")
        book.add_student("zoë", first_name="Zoë", last_name="Ångström")
        for student, score, day in (("ann", 3.5, 1), ("=cmd|' /C calc'!A0", 4.0, 3)):
            book.add_submission("a1", student, timestamp=f"2026-01-0{day} 09:00 UTC")
            found = book.find_submission_notebook("p", "a1", student)
            found.late_submission_penalty = 3.0  # of the day of grading, and stale: nobody reads it
            for grade in found.grades:
                grade.auto_score, grade.needs_manual_grade = (score, False) if grade.name == "q" else (None, True)
        book.db.commit()
        yield book


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_canvas_gets_points_possible_first_and_an_empty_cell_for_who_did_not_submit(gradebook: Any, tmp_path: Path) -> None:
    CanvasExporter(config=RULE, to=str(tmp_path / "c.csv")).export(gradebook)
    points, hostile, ann, zoe = _rows(tmp_path / "c.csv")
    assert list(points) == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "a1", "b2"]
    assert (points["Student"].strip(), points["a1"], points["b2"]) == ("Points Possible", "6", "6")
    assert (ann["Student"], ann["ID"], ann["SIS Login ID"], ann["a1"], ann["b2"]) == (
        'O\'Neil, Jr, Ann "A"',
        "4711",
        "ann",
        "3.5",
        "",
    )
    assert (zoe["Student"], zoe["a1"]) == ("Ångström, Zoë", "")
    assert hostile["a1"] == "3.2"


def test_moodle_gets_a_row_for_each_user(gradebook: Any, tmp_path: Path) -> None:
    MoodleExporter(config=RULE, to=str(tmp_path / "m.csv"), assignment=["a1"], student=["ann"]).export(gradebook)
    assert _rows(tmp_path / "m.csv") == [
        {"username": "ann", "firstname": 'Ann "A"', "lastname": "O'Neil, Jr", "email": "ann@x.org", "a1": "3.5"}
    ]


@pytest.mark.parametrize("exporter", [CanvasExporter, MoodleExporter])
def test_no_cell_is_a_formula(exporter: Any, gradebook: Any, tmp_path: Path) -> None:
    exporter(config=RULE, to=str(tmp_path / "x.csv")).export(gradebook)
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        cells = [text for row in csv.reader(file) for text in row]
    assert not [text for text in cells if text.lstrip().startswith(("=", "+", "-", "@"))]
    assert any(text.startswith("'=cmd") for text in cells)


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "\n@x"])
def test_every_beginning_of_a_formula_is_defused(text: str) -> None:
    assert cell(text) == f"'{text}"


def test_gradescope_gets_a_result_for_each_submission_with_the_penalty_in_its_score(gradebook: Any, tmp_path: Path) -> None:
    GradescopeExporter(config=RULE, to=str(tmp_path / "g"), student=["ann"]).export(gradebook)
    (path,) = tmp_path.glob("g/**/results.json")
    assert path.relative_to(tmp_path).parts == ("g", "a1", "ann", "results.json")
    made = json.loads(path.read_text())
    assert (made["score"], made["output"]) == (3.5, "Not final: 1 written answers are not graded yet.")
    assert [(test["name"], test["score"], test["max_score"], test["output"]) for test in made["tests"]] == [
        ("essay", 0.0, 2.0, "Not graded yet: a person reads this answer."),
        ("q", 3.5, 4.0, ""),
    ]


def test_gradescope_gets_titles_in_the_lessons_order_and_what_went_wrong(gradebook: Any, tmp_path: Path) -> None:
    names = {"q": exporters._Test("01.2: Weights", "weights"), "essay": exporters._Test("01.3: In words", "")}
    states = {"weights": ExerciseRow(3.5, 4.0, "part", "Partly right, given `scores`: 3.5 of 4 points.", None, ("scores",))}
    grade = Grade("ann", "a1", 3.5, points=6.0, cells={"essay": 0.0, "q": 3.5}, waiting=("essay",))
    made = exporters._results(grade, {"q": 4.0, "essay": 2.0}, names, states)
    assert [(test["name"], test["output"]) for test in made["tests"]] == [
        ("01.2: Weights", "Partly right, given `scores`: 3.5 of 4 points."),
        ("01.3: In words", "Not graded yet: a person reads this answer."),
    ]
    right = exporters._results(grade, {"q": 4.0, "essay": 2.0}, names, {"weights": ExerciseRow(4.0, 4.0, "pass", "Right.", None)})
    assert right["tests"][0]["output"] == ""


def test_canvas_finds_the_column_by_its_own_id(gradebook: Any, tmp_path: Path) -> None:
    CanvasExporter(config=RULE, to=str(tmp_path / "c.csv"), canvas_ids={"a1": 4711}).export(gradebook)
    assert list(_rows(tmp_path / "c.csv")[0])[-2:] == ["a1 (4711)", "b2"]


@pytest.mark.parametrize("exporter", [exporters.CsvExporter, CanvasExporter, MoodleExporter, GradescopeExporter])
def test_an_export_says_which_marks_are_missing(
    exporter: Any, gradebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    made = exporter(config=RULE, to=str(tmp_path / "x"), student=["ann"])
    monkeypatch.setattr(made.log, "warning", lambda text, *given: said.append(text % given))
    made.export(gradebook)
    assert said == ["a1: 2 written answers of 2 students are not graded yet, so these totals are not final. Run `attn mark a1`."]


def test_an_export_names_the_students_whom_the_platform_will_not_find(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Gradebook("sqlite:///:memory:") as book:
        book.add_student("ann-smith-51007", first_name="Ann", last_name="Smith")
        book.add_student("smithann-880103", lms_user_id="880103")
        book.add_student("ben-ma-51196", email="ben@x.org")
        book.add_student("cy")  # an id that somebody chose, so it may be the login
        said = []
        for exporter in (CanvasExporter, MoodleExporter):
            caplog.clear()
            exporter(to=str(tmp_path / "x.csv")).export(book)
            (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
            said.append(line.partition(".")[0])
    assert said == [
        "Canvas will not find 2 of these students: ann-smith-51007, ben-ma-51196",
        "Moodle will not find 2 of these students: ann-smith-51007, smithann-880103",
    ]


def test_an_export_names_whoever_is_not_on_the_class_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    people = [SimpleNamespace(id=name, email="") for name in ("ann", "ben")]
    MoodleExporter(to=str(tmp_path / "x.csv")).warn_of_strangers("Moodle", people, "email", Roster({"ann": Listed("ann")}))
    assert [record.getMessage().partition(".")[0] for record in caplog.records] == [
        "Moodle will not find 1 of these students: ben"
    ]


def test_gradescope_refuses_a_student_id_that_is_no_folder_name_and_writes_the_others(gradebook: Any, tmp_path: Path) -> None:
    with pytest.raises(CourseError, match=r"expected names that can be a folder's, got .=cmd.*left out"):
        GradescopeExporter(config=RULE, to=str(tmp_path / "g")).export(gradebook)
    assert [path.parts[-3:] for path in tmp_path.glob("g/**/results.json")] == [("a1", "ann", "results.json")]


@pytest.mark.parametrize(("name", "stands"), [("a" * 128, True), ("a" * 129, False), ("漢" * 67, False), ("..", False)])
def test_gradescope_takes_every_length_of_a_name_that_the_gradebook_does(name: str, stands: bool) -> None:
    assert exporters._is_folder(name) is stands


def test_an_unknown_assignment_or_student_suggests_the_nearest(gradebook: Any, tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="Did you mean 'ann'"):
        CanvasExporter(config=RULE, to=str(tmp_path / "c.csv"), student=["anne"]).export(gradebook)
    with pytest.raises(CourseError, match="expected assignment 'a3'"):
        CanvasExporter(config=RULE, to=str(tmp_path / "c.csv"), assignment=["a3"]).export(gradebook)


HOUR = 3600


@pytest.mark.parametrize(("who", "seconds", "taken"), [
    ("ann", 60, None), ("ann", HOUR, 1.0), ("ann", 25 * HOUR, 2.0), ("ann", 400 * HOUR, 5.0),
    ("ill", 47 * HOUR, None), ("ill", 49 * HOUR, 1.0),
])  # fmt: skip
def test_lateness_costs_a_share_for_each_day_begun_after_grace_and_extensions(
    who: str, seconds: float, taken: float | None
) -> None:
    assert LatePenalty(extensions={"ill": 2.0}).late_submission_penalty(who, 10.0, seconds) == taken


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(TraitError, match="per_day"):
        LatePenalty(config=Config({"LatePenalty": {"per_day": 2.0}}))


@pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine")
def test_a_late_class_is_graded_penalised_and_exported_by_the_command(scratch_course: Path) -> None:
    for student, stamp in (
        ("early", "2026-01-01 10:00 UTC"),
        ("late", "2026-01-03 12:00 UTC"),
        ("extended", "2026-01-03 12:00 UTC"),
    ):
        folder = scratch_course / "submitted" / student / LESSON
        folder.mkdir(parents=True)
        released = (scratch_course / "release" / LESSON / f"{LESSON}.ipynb").read_text(encoding="utf-8")
        (folder / f"{LESSON}.ipynb").write_text(released.replace("predict_shape = None", "predict_shape = 'b'"), encoding="utf-8")
        (folder / "timestamp.txt").write_text(stamp)
    with (scratch_course / "nbgrader_config.py").open("a") as file:
        file.write('c.LatePenalty.extensions = {"extended": 5.0}\n')
    database = f"sqlite:///{scratch_course / 'gradebook.db'}"
    with Gradebook(database) as gradebook:
        gradebook.add_assignment(LESSON, duedate="2026-01-02 12:00 UTC")
    graded = {row.student: row.score for row in grade_assignment(scratch_course, LESSON).rows}
    command = [sys.executable, "-m", "nbgrader", "export", "--exporter=autograder.plugins.exporters.CanvasExporter"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(command, cwd=scratch_course, env=environment, check=True, capture_output=True, timeout=120)
    scores = {row["SIS Login ID"]: row[LESSON] for row in _rows(scratch_course / "canvas.csv")[1:]}
    assert graded["late"] > 0
    assert scores == {"early": cell(graded["late"]), "extended": cell(graded["late"]), "late": cell(graded["late"] * 0.9)}


@pytest.mark.slow
def test_the_classroom_workflow_checks_a_folder_such_as_students_accept(tmp_path: Path) -> None:
    course = Path(__file__).parents[2] / "course"
    workflow = yaml.safe_load((course / "github_classroom.yml").read_text(encoding="utf-8"))
    (grader,) = [step["with"] for step in workflow["jobs"]["check"]["steps"] if step.get("id") == "lesson"]
    lesson = find_lesson("03")
    shutil.copytree(course / "release" / lesson.name, tmp_path / lesson.name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "attn").write_text(f'#!/bin/sh\nexec {sys.executable} -m autograder.cli "$@"\n')
    (tmp_path / "bin" / "attn").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(course.parent)}
    command = ["sh", "-c", grader["command"]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    checks = len(lesson.exercises())
    assert (done.returncode, f"0 of {checks} checks pass" in done.stdout) == (1, True), done.stderr
    assert grader["max-score"] == sum(exercise.points for exercise in lesson.exercises())
