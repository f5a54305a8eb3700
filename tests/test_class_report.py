"""The class report: who needs a person, what was misunderstood and by whom, readable by a tired instructor, safe to open."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.course import CourseError, find_lesson
from autograder.cli import main
from autograder.grading import ledger
from autograder.grading.ledger import ClassReport, ExerciseRow, StudentRow
from autograder.grading.reports import class_report_page
from autograder.grading.reports.class_report import Facts, gradebook_facts, to_json, view
from autograder.grading.trials import twin
from autograder.judging.exercise import Exercise

LESSON = find_lesson("01_soft_lookup")
EVIL = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"


def asked() -> list[Exercise]:
    """The lesson's exercises that have misconceptions."""
    return [exercise for exercise in LESSON.exercises() if exercise.misconceptions]


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
    rows[8].flags.append("sdpa names softmax: see whether it was the exercise")
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
    assert "without a start" in shown.needy[2].reasons[0]
    assert f"{len(asked()) - 1} wrong, 0 not started" in shown.needy[3].reasons[0]


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
    [("bubblewrap", False), ("landlock, bubblewrap", True), ("none", True), ("bubblewrap, none", True), ("", True)],
)
def test_grading_without_isolation_is_said_loudly(tier: str, loud: bool) -> None:
    page = class_report_page.render(view(a_class(row("a"), tier=tier), "T", asked()))
    assert ('role="alert"' in page) == loud


def test_links_lead_to_formgrader_and_only_to_an_address_of_the_web() -> None:
    facts = {"a/b ?": Facts(waiting=("essay",), submission="f00")}
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
    assert gradebook_facts(url, "a1") == {}
    with Gradebook(url) as book:
        book.add_assignment("a1", duedate="2026-01-02 10:00 UTC")
        book.add_notebook("p", "a1")
        book.add_grade_cell("essay", "p", "a1", max_score=2, cell_type="markdown")
        book.add_student("ann", first_name="Ann", last_name="Lee")
        book.add_submission("a1", "ann", timestamp="2026-01-02 11:00 UTC")
        found = book.find_submission_notebook("p", "a1", "ann")
        found.late_submission_penalty = 1.5
        found.grades[0].needs_manual_grade = True
        book.db.commit()
        identity = found.id
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # reading it warns nobody
        assert gradebook_facts(url, "a1") == {"ann": Facts("Ann Lee", 3600.0, 1.5, ("essay",), identity)}
    assert gradebook_facts(url, "nothing") == {}
    page = class_report_page.render(view(a_class(row("ann")), "T", asked(), gradebook_facts(url, "a1")))
    assert "1.0 hours" in page
    assert "essay" in page


def test_the_command_writes_a_page_or_json_from_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path /= "course"
    twin.make(tmp_path, [])
    monkeypatch.setattr("autograder.authoring.course.find_lesson", lambda word: LESSON)
    monkeypatch.setattr("autograder.authoring.course.course_root", lambda: tmp_path)
    assert main(["report", "01"]) == 2
    assert "attn grade" in capsys.readouterr().err
    ledger.write(tmp_path, LESSON.name, "key", row("ann", {asked()[0].id: asked()[0].misconceptions[0].id}))
    assert main(["report", "01"]) == 0
    assert "1 students, 0 need you, 1 misconceptions" in capsys.readouterr().out
    page = (tmp_path / "reports" / f"{LESSON.name}.html").read_text(encoding="utf-8")
    assert class_report_page.html.escape(class_report_page.POLICY) in page
    assert main(["report", "01", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["held"][0]["students"] == ["ann"]
    assert told == json.loads(json.dumps(to_json(view(ledger.load(tmp_path, LESSON.name), LESSON.title, LESSON.exercises()))))


@pytest.mark.browser
def test_the_first_screen_answers_who_and_what_and_nothing_on_the_page_runs_or_loads(browser: Any, tmp_path: Path) -> None:
    graded = forty()
    graded.rows.append(row(EVIL, {asked()[0].id: EVIL}, flags=[EVIL], problem=EVIL))
    graded.versions[EVIL] = EVIL
    path = tmp_path / "report.html"
    facts = {EVIL: Facts(EVIL, 4000, 1, (EVIL,), EVIL)}
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
