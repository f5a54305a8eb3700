"""The class report: who needs a person, what was misunderstood and by whom, readable by a tired instructor, safe to open."""

import csv
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from autograder.authoring.course import CourseError
from autograder.cli import main
from autograder.grading import ledger
from autograder.grading.grades import Grade, Grades
from autograder.grading.ledger import ClassReport, ExerciseRow, StudentRow
from autograder.grading.reports import class_report_page, class_table
from autograder.grading.reports.class_report import Facts, gradebook_facts, view
from autograder.grading.reports.recurring_mistakes import across
from autograder.grading.roster import Listed, Roster
from autograder.grading.trials import course_copy
from autograder.judging.exercise import Exercise
from autograder.notebooks.html_page import POLICY
from tests import sample

LESSON = sample.lesson()
pytestmark = pytest.mark.usefixtures("sample_course")
EVIL = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"


def asked() -> list[Exercise]:
    """The lesson's exercises that have misconceptions."""
    return [exercise for exercise in LESSON.in_code() if exercise.misconceptions]


def row(student: str, wrong: dict[str, str | None] | None = None, **named: Any) -> StudentRow:
    """A student who solved all but `wrong`: {exercise: misconception, or None for no known one}."""
    states = {}
    for exercise in asked():
        bad = exercise.id in (wrong or {})
        known = (wrong or {}).get(exercise.id)
        states[exercise.id] = ExerciseRow(0.0 if bad else exercise.points, exercise.points, "fail" if bad else "pass", "", known)
    made = StudentRow(student, sum(s.score for s in states.values()), sum(s.points for s in states.values()), states)
    return replace(made, tier="bubblewrap", seconds=0.3, **named)


def a_class(*rows: StudentRow, tier: str = "bubblewrap") -> ClassReport:
    """Those students as a graded class."""
    return ClassReport(LESSON.name, tier, [e.id for e in asked()], list(rows), 1.0, len(rows), {"python": "3.11"})


def forty() -> ClassReport:
    """Forty students; every third holds the first mistake of the first exercise, every fifth that of the second."""
    first, second, third = asked()[:3]
    rows = []
    for i in range(40):
        wrong: dict[str, str | None] = {first.id: first.misconceptions[0].id} if i % 3 == 0 else {}
        wrong |= {second.id: second.misconceptions[0].id} if i % 5 == 0 else {}
        wrong |= {third.id: None} if i % 13 == 0 else {}
        rows.append(row(f"student{i:02d}", wrong))
    rows[7] = replace(rows[7], score=0.0, exercises={}, problem="the file is not a notebook")
    rows[8].flags.append("sdpa names softmax: check whether the exercise was to write it")
    return a_class(*rows)


def test_misconceptions_come_by_how_many_hold_them_with_who_and_in_the_panels_words() -> None:
    first, second = asked()[:2]
    shown = view(forty(), "T", asked())
    assert [(each.exercise, len(each.students)) for each in shown.held] == [(first.id, 14), (second.id, 8)]
    assert (shown.held[0].says, shown.held[0].fix) == (first.misconceptions[0].says, first.misconceptions[0].fix)
    assert shown.held[0].students[:2] == ["student00", "student03"]
    assert [(each.exercise, len(each.students)) for each in shown.unexplained] == [(asked()[2].id, 4)]


def test_who_needs_a_person_comes_gravest_first_and_says_why() -> None:
    blank = row("blank")
    blank.exercises = {name: replace(state, status="todo", score=0.0) for name, state in blank.exercises.items()}
    few = row("few", {e.id: None for e in asked()[:-1]})
    rows = [
        row("fine"),
        replace(few),
        replace(blank, score=0.0),
        row("flagged", flags=["unknown grade_id"]),
        row("lost", problem="no notebook"),
    ]
    shown = view(a_class(*rows), "T", asked())
    assert [each.student for each in shown.needy] == ["lost", "flagged", "blank", "few"]
    assert shown.needy[2].reasons[0] == "no exercise was started"
    assert f"{len(asked()) - 1} wrong, 0 not started" in shown.needy[3].reasons[0]


def test_what_an_earlier_answer_spoiled_is_counted_apart_and_no_misconception() -> None:
    first, second = asked()[:2]
    spoiled = row("ann", {first.id: first.misconceptions[0].id, second.id: None})
    state = replace(spoiled.exercises[second.id], status="part", carried=(first.id,))
    shown = view(a_class(replace(spoiled, exercises={**spoiled.exercises, second.id: state})), "T", asked())
    assert [each.exercise for each in shown.held] == [first.id]
    assert shown.unexplained == []
    assert [(each.exercise, each.students) for each in shown.carried] == [(second.id, ["ann"])]
    assert "Wrong only because of an earlier answer: 1 exercise," in class_report_page.render(shown)


def test_mistakes_that_come_back_are_found_over_lessons_and_terms(tmp_path: Path) -> None:
    first = asked()[0]
    for term, lesson, student, mistake in (
        ("now", "01_a", "ann", "unscaled"),
        ("now", "02_b", "ann", "unscaled+summed"),
        ("now", "02_b", "ben", "unscaled"),
        ("then", "02_b", "zoe", "unscaled"),
        ("now", "01_a", "ben", "once"),
    ):
        ledger.write(tmp_path / term, lesson, "key", row(student, {first.id: mistake}))
    (found,) = across(tmp_path / "now", [tmp_path / "then"])
    assert (found.id, found.places, found.again) == ("unscaled", {"01_a": 1, "02_b": 2, "then/02_b": 1}, ["ann"])
    page = class_report_page.render(view(a_class(row("ann")), "T", asked(), None, [found]))
    assert "then/02_b: 1" in page


def test_a_table_for_a_spreadsheet_has_the_silent_first_and_no_formula() -> None:
    first = asked()[0]
    facts = {"ann": Facts("=Ann", "A", "grace", Grade("ann", LESSON.name, 9.0, 1.0, 12.0, 7200.0, 1, 0.5)), "bob": Facts("Bob")}
    graded = a_class(row("ann", {first.id: first.misconceptions[0].id}, flags=["missing answer cells: x"]))
    bob, ann = csv.DictReader(class_table.table(view(graded, "T", asked(), facts)).splitlines())
    assert (bob["student"], bob["handed_in"], bob["total"]) == ("bob", "no", "")
    assert [ann[key] for key in class_table.HEAD] == ["ann", "'=Ann", "A", "grace", "yes", "8.5", "12", "9", "1", "2", "0.5"]
    assert ann[f"{first.id}: mistake"] == first.misconceptions[0].id
    assert ann["remarks"] == "missing answer cells: x"


def test_a_mistake_that_the_engine_described_itself_is_no_named_one_and_a_reason_is_given_once() -> None:
    first = asked()[0]
    flags = ["one cell is missing"]
    shown = view(a_class(row("ann", {first.id: "~11"}), row("ben", problem="no notebook", flags=flags)), "T", asked())
    assert shown.held == []
    assert [each.students for each in shown.unexplained] == [["ann"]]
    assert shown.needy[0].reasons == ["no notebook", "one cell is missing"]


def test_pass_rates_count_every_status() -> None:
    shown = view(forty(), "T", asked())
    assert shown.passed[0].counts == {"pass": 25, "part": 0, "fail": 14, "todo": 0}  # one could not be graded
    assert shown.median == sum(sorted(shown.scores)[19:21]) / 2


def test_an_empty_class_and_an_unknown_mistake_make_a_page_too() -> None:
    assert "Nobody" in class_report_page.render(view(a_class()))
    shown = view(a_class(row("a", {asked()[0].id: "not_in_the_course_any_more"})), "T", asked())
    assert "not in the course any more" in class_report_page.render(shown)


@pytest.mark.parametrize(
    ("tier", "loud"),
    [
        ("bubblewrap", False),
        ("landlock, bubblewrap", True),
        ("landlock (shared)", True),
        ("none", True),
        ("bubblewrap, none", True),
        ("", True),
    ],
)
def test_grading_without_isolation_is_said_loudly(tier: str, loud: bool) -> None:
    page = class_report_page.render(view(a_class(row("a"), tier=tier), "T", asked()))
    assert ('role="alert"' in page) == loud


def test_links_lead_to_formgrader_and_only_to_an_address_of_the_web() -> None:
    facts = {"a/b ?": Facts(grade=Grade("a/b ?", LESSON.name, waiting=("essay",), submission="f00"))}
    shown = view(a_class(row("a/b ?"), row("c#d")), "T", asked(), facts)
    page = class_report_page.render(shown, "https://hub.example.org/services/formgrader/")
    assert 'href="https://hub.example.org/services/formgrader/submissions/f00/"' in page
    assert f'href="https://hub.example.org/services/formgrader/manage_students/c%23d/{LESSON.name}"' in page
    assert f'/gradebook/{LESSON.name}/{LESSON.name}"' in page
    with pytest.raises(CourseError, match="expected formgrader's address"):
        class_report_page.render(shown, "javascript:alert(1)")


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_the_gradebook_tells_lateness_penalties_and_what_waits_for_a_mark(tmp_path: Path) -> None:
    from nbgrader.api import Gradebook

    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    with Gradebook(url) as book:
        book.add_assignment("a1", duedate="2026-01-02 10:00 UTC")
        book.add_notebook("p", "a1")
        book.add_grade_cell("essay", "p", "a1", max_score=2, cell_type="markdown")
        book.add_student("ann", first_name="Ann", last_name="Lee")
        book.add_submission("a1", "ann", timestamp="2026-01-02 11:00 UTC")
        found = book.find_submission_notebook("p", "a1", "ann")
        found.grades[0].needs_manual_grade = True
        book.db.commit()
        identity = found.id
        book.add_student("bob")
        book.db.commit()
        roster = Roster({"ann": Listed("ann", section="A", marker="grace"), "cy": Listed("cy", "Cy Young", "B")})
        facts = gradebook_facts(book, Grades(book, lambda student, score, seconds: seconds / 7200, roster), "a1")
    grade = Grade("ann", "a1", 0.0, 0.0, 2.0, 3600.0, 0, 0.0, ("essay",), (), {"essay": 0.0}, identity)
    assert facts == {"ann": Facts("Ann Lee", "A", "grace", grade), "bob": Facts(), "cy": Facts("Cy Young", "B")}
    shown = view(a_class(row("ann")), "T", asked(), facts)
    assert shown.silent == ["bob", "cy"]
    assert [(each.name, each.markers, each.students, each.handed_in, each.waiting) for each in shown.sections] == [
        ("", [], 1, 0, 0),
        ("A", ["grace"], 1, 1, 1),
        ("B", [], 1, 0, 0),
    ]
    page = class_report_page.render(shown)
    assert page.index("No submission: 2 of 3") < page.index("to look at")
    assert "1.0 hours" in page
    assert [f">{called}</a>" in page for called in ("Ann Lee", "bob", "Cy Young", "ann")] == [True, True, True, False]
    assert "essay" in page


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_what_the_platform_marked_late_is_late_and_without_times_nobody_is_said_to_be_in_time(tmp_path: Path) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        book.add_assignment("a1", duedate="2026-01-02 10:00 UTC")
        book.add_notebook("p", "a1")
        for name in ("ann", "ben"):
            book.add_student(name)
            book.add_submission("a1", name)
        facts = gradebook_facts(book, Grades(book, lambda *_: None), "a1")
    shown = view(a_class(row("ann", marked_late=True), row("ben")), "T", asked(), facts)
    assert (shown.marked_late, shown.untimed, shown.late) == (["ann"], 2, {})
    page = class_report_page.render(shown)
    assert "marked late by the platform" in page
    assert "Nobody was late" not in page
    assert "nobody knows when 2 of the submissions came in" in page
    page = class_report_page.render(view(a_class(row("ben")), "T", asked(), facts))
    assert "Nobody was late" not in page
    timed = {name: replace(each, grade=replace(each.grade, timed=True)) for name, each in facts.items() if each.grade}
    assert "Nobody was late" in class_report_page.render(view(a_class(row("ben")), "T", asked(), timed))
    late = {"ann": Facts(grade=Grade("ann", "a1", late_s=60.0))}
    assert view(a_class(row("ann", marked_late=True)), "T", asked(), late).marked_late == [], "its time says it already"


def test_the_command_writes_a_page_or_json_from_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path /= "course"
    course_copy.make(tmp_path, [])
    monkeypatch.setattr("autograder.authoring.course.find_lesson", lambda word: LESSON)
    monkeypatch.setattr("autograder.authoring.course.course_root", lambda: tmp_path)
    assert main(["report", "01"]) == 2
    assert "attn grade" in capsys.readouterr().err
    ledger.write(tmp_path, LESSON.name, "key", row("ann", {asked()[0].id: asked()[0].misconceptions[0].id}))
    assert main(["report", "01"]) == 0
    assert "1 submission, 0 to look at, 1 known mistake" in capsys.readouterr().out
    page = (tmp_path / "reports" / f"{LESSON.name}.html").read_text(encoding="utf-8")
    assert str(escape(POLICY)) in page
    assert main(["report", "01", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["held"][0]["students"] == ["ann"]
    assert told == json.loads(json.dumps(asdict(view(ledger.load(tmp_path, LESSON.name), LESSON.title, LESSON.exercises()))))


@pytest.mark.browser
def test_the_first_screen_answers_who_and_what_and_nothing_on_the_page_runs_or_loads(browser: Any, tmp_path: Path) -> None:
    graded = forty()
    graded.rows.append(row(EVIL, {asked()[0].id: EVIL}, flags=[EVIL], problem=EVIL))
    graded.versions[EVIL] = EVIL
    path = tmp_path / "report.html"
    late = Grade(EVIL, LESSON.name, late_s=4000, penalty=1, waiting=(EVIL,), submission=EVIL)
    facts = {EVIL: Facts(EVIL, EVIL, EVIL, late), f"silent{EVIL}": Facts(EVIL, EVIL)}
    path.write_text(class_report_page.render(view(graded, f"Soft lookup {EVIL}", asked(), facts)), encoding="utf-8")
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 1024, "height": 768}, color_scheme=scheme)
        seen: list[str] = []
        page.on("request", lambda request, seen=seen: seen.append(request.url))
        page.on("console", lambda message, seen=seen: seen.append(message.text))
        page.goto(path.as_uri())
        assert seen == [path.as_uri()]
        assert page.title().startswith("Soft lookup <img")
        for selector in ("#misconceptions .held:first-child .who", "#needy li:first-child"):
            box = page.locator(selector).first.bounding_box()
            assert box["y"] + box["height"] < 768, selector
        assert page.evaluate("document.documentElement.scrollWidth") <= 1024
        page.screenshot(path=str(tmp_path / f"{scheme}.png"))
        page.close()
