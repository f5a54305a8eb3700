"""Student's page, gradebook, formgrader, report and exports say one grade, whatever happened before, in whatever order."""

import csv
import json
import math
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.authoring.make_release import nbgrader_api
from autograder.grading.gradebook import Gradebook
from autograder.grading.ledger import ClassReport, ExerciseRow, StudentRow
from autograder.grading.reports.class_report import gradebook_facts, view
from autograder.grading.reports.class_report_page import render
from autograder.grading.reports.class_table import table
from autograder.grading.reports.feedback import Pages
from autograder.plugins.exporters import CanvasExporter, CsvExporter, GradescopeExporter, MoodleExporter

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")

LESSONS = ("a1", "a2", "a3")
STUDENTS = ("ada", "ben")
CELLS = {"q1": 3.0, "q2": 2.5, "essay": 4.0}  # the essay is marked by hand
START = datetime(2030, 1, 1)
HOUR = 3600.0

lesson = st.sampled_from(LESSONS)
student = st.sampled_from(STUDENTS)
quarter = st.integers(0, 16).map(lambda number: number / 4)
hours = st.sampled_from([0, 0.2, 1, 23, 24, 25, 47, 49, 100, 130, 400])
ACTIONS = st.one_of(
    st.tuples(st.just("hand in"), student, lesson, st.none() | hours, st.integers(0, 3), st.sampled_from([0, 0.5, 2.5])),
    st.tuples(st.just("hand in"), student, lesson, st.none() | hours, st.integers(0, 3), st.sampled_from([0, 0.5, 2.5])),
    st.tuples(st.just("mark by hand"), student, lesson, st.sampled_from(sorted(CELLS)), st.none() | quarter),
    st.tuples(st.just("extra credit"), student, lesson, st.sampled_from(sorted(CELLS)), st.none() | quarter),
    st.tuples(st.just("regrade"), student, lesson),
    st.tuples(st.just("move due date"), lesson, st.none() | hours),
    st.tuples(st.just("extension"), student, lesson, st.sampled_from([0, 0.5, 1, 3])),
    st.tuples(st.just("extension in nbgrader"), student, lesson, st.sampled_from([1, 30])),
    st.tuples(st.just("extra time"), student, st.sampled_from([0, 0.5, 2])),
    st.tuples(st.just("late days"), student, st.integers(0, 4)),
)


@dataclass
class Told:
    """What happened to a submission, in a history."""

    auto: dict[str, float] = field(default_factory=dict)
    hours: float | None = None
    granted: float = 0.0
    hand: dict[str, float | None] = field(default_factory=dict)
    extra: dict[str, float | None] = field(default_factory=dict)


class Oracle:
    """The grades by plain arithmetic: nothing of the grader's own is asked."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], Told] = {}
        self.due: dict[str, float | None] = dict.fromkeys(LESSONS, 24.0)
        self.extension: dict[tuple[str, str], float] = {}
        self.extra_time = dict.fromkeys(STUDENTS, 0.0)
        self.late_days = dict.fromkeys(STUDENTS, 0)

    def late(self, who: str, what: str) -> float:
        """Hours late."""
        told, due = self.told.get((who, what)), self.due[what]
        if told is None or due is None or told.hours is None:
            return 0.0
        return max(0.0, told.hours - due - told.granted - 24 * (self.extension.get((who, what), 0.0) + self.extra_time[who]))

    @staticmethod
    def share(late: float) -> float:
        return 0.0 if late <= 0.25 else min(0.5, math.ceil(late / 24) / 10)

    def total(self, who: str, what: str) -> float | None:
        """What it comes to; None where nothing was handed in."""
        if (who, what) not in self.told:
            return None
        told, marks = self.told[who, what], 0.0
        for name in CELLS:
            mark = told.hand.get(name)
            mark = told.auto.get(name) if mark is None else mark
            marks += 0.0 if mark is None else mark + (told.extra.get(name) or 0.0)
        left, spent = self.late_days[who], 0
        order = sorted((due, each) for each, due in self.due.items() if due is not None and (who, each) in self.told)
        for _, each in order:
            late = self.late(who, each)
            spent = next(n for n in range(left + 1) if self.share(late - 24 * n) == self.share(late - 24 * left))
            left -= spent
            if each == what:
                break
        tenths = round(10 * self.share(self.late(who, what) - 24 * spent))
        taken = math.ceil(Fraction(marks) * tenths * 10 - Fraction(1, 2))  # hundredths; of a half the student has the good
        return round(marks - taken / 100, 2)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course folder whose gradebook knows three assignments."""
    from nbgrader.api import Gradebook as Tables

    root = tmp_path_factory.mktemp("prepared") / "course"
    root.mkdir()
    shutil.copyfile(Path(__file__).parents[2] / "course" / "nbgrader_config.py", root / "nbgrader_config.py")
    with Tables(f"sqlite:///{root / 'gradebook.db'}", "attention") as book:
        for name in LESSONS:
            book.add_assignment(name)
            book.add_notebook(name, name)
            for cell, points in CELLS.items():
                kind = "markdown" if cell == "essay" else "code"
                book.add_grade_cell(f"{cell}_check" if cell != "essay" else cell, name, name, max_score=points, cell_type=kind)
                book.add_solution_cell(cell, name, name)
    return root


def notebook(marks: dict[str, float]) -> Any:
    """A marked notebook with these marks; one with an essay if there is a mark for it, else with a question left blank."""
    cells = [nbformat.v4.new_markdown_cell("# A lesson")]
    for name, points in CELLS.items():
        about = {"grade_id": name, "solution": True, "grade": name == "essay", "locked": False, "schema_version": 3}
        if name == "essay":
            cells.append(nbformat.v4.new_markdown_cell("my words", metadata={"nbgrader": {**about, "points": points}}))
            continue
        cells.append(nbformat.v4.new_code_cell(f"def {name}(): ...", metadata={"nbgrader": about}))
        about = {"grade_id": f"{name}_check", "solution": False, "grade": True, "locked": True, "points": points}
        check = nbformat.v4.new_code_cell(f'check("{name}")', metadata={"nbgrader": {**about, "schema_version": 3}})
        data = {"text/plain": repr(float(marks[name])), "text/html": "<p>a panel</p>"}
        check.outputs = [nbformat.v4.new_output("execute_result", data=data, execution_count=1)]
        cells.append(check)
    return nbformat.v4.new_notebook(cells=cells)


class Course:
    """A scratch course in which a history happens."""

    def __init__(self, root: Path):
        self.root, self.oracle = root, Oracle()
        self.api = nbgrader_api(root)
        self.pages = Pages(notebook({"q1": 0, "q2": 0}))
        self.move(dict.fromkeys(LESSONS, 24.0))

    def open(self, name: str) -> Gradebook:
        return Gradebook(self.api, name)

    def move(self, due: dict[str, float | None]) -> None:
        from nbgrader.api import Gradebook as Tables

        with Tables(self.api.coursedir.db_url, "attention") as book:
            for name, after in due.items():
                book.find_assignment(name).duedate = None if after is None else START + timedelta(hours=after)
                self.oracle.due[name] = after
            book.db.commit()

    def roster(self) -> None:
        rows = ["id,section,extensions,extra_time,late_days"]
        for who in STUDENTS:
            more = " ".join(f"{what}={days:g}" for (one, what), days in self.oracle.extension.items() if one == who)
            rows.append(f"{who},A,{more},{self.oracle.extra_time[who]:g},{self.oracle.late_days[who]}")
        (self.root / "students.csv").write_text("\n".join(rows) + "\n")

    def act(self, action: tuple[Any, ...]) -> None:
        """Have it happen, here and in the oracle."""
        kind, *more = action
        if kind == "hand in":
            who, what, when, first, second = more
            told = self.oracle.told.setdefault((who, what), Told())
            told.auto, told.hours = {"q1": float(first), "q2": float(second)}, when
            self.put(who, what)
        elif kind == "regrade":
            if tuple(more) in self.oracle.told:
                self.put(*more)
        elif kind in ("mark by hand", "extra credit"):
            who, what, cell, value = more
            if (who, what) in self.oracle.told:
                self.by_hand(who, what, cell, value, extra=kind == "extra credit")
        elif kind == "move due date":
            self.move({more[0]: more[1]})
        elif kind == "extension in nbgrader":
            who, what, longer = more
            if (who, what) in self.oracle.told:
                with self.open(what) as book:
                    book._book.grant_extension(what, who, hours=longer)
                self.oracle.told[who, what].granted = longer
        else:
            into = {"extension": self.oracle.extension, "extra time": self.oracle.extra_time, "late days": self.oracle.late_days}
            key = tuple(more[:2]) if kind == "extension" else more[0]
            into[kind][key] = more[-1]  # type: ignore[index]
            self.roster()

    def put(self, who: str, what: str) -> None:
        told = self.oracle.told[who, what]
        with self.open(what) as book:
            when = None if told.hours is None else START + timedelta(hours=told.hours)
            book.put(who, notebook(told.auto), when)
            book.commit()

    def by_hand(self, who: str, what: str, cell: str, value: float | None, *, extra: bool) -> None:
        """As formgrader writes it."""
        with self.open(what) as book:
            name = cell if cell == "essay" else f"{cell}_check"
            row = book._book.find_grade(name, what, what, who)
            if extra:
                row.extra_credit = value
            else:
                row.manual_score = value
                row.needs_manual_grade = value is None and row.auto_score is None
            book._book.db.commit()
        told = self.oracle.told[who, what]
        (told.extra if extra else told.hand)[cell] = value

    def said(self) -> dict[str, dict[tuple[str, str], float | None]]:
        """What each place says of each submission; pages first, so that they have nothing from what comes later."""
        from nbgrader.api import Gradebook as Tables

        found: dict[str, dict[tuple[str, str], float | None]] = {}
        for what in LESSONS:
            with self.open(what) as book:
                handed_in = sorted(book.students())
                for who in handed_in:
                    page = self.pages.page(who, notebook(self.oracle.told[who, what].auto), book.marks(who), book.grade(who))
                    found.setdefault("page", {})[who, what] = float(re.findall(r"<th>Total[^<]*</th><th>(.*?)</th>", page)[0])
                facts = gradebook_facts(book._book, book.grades, what)
            rows = [StudentRow(who, 0.0, 9.5, {"q1": ExerciseRow(0, 3, "pass", "", None)}) for who in handed_in]
            shown = view(ClassReport(what, "bubblewrap", ["q1"], rows), facts=facts)
            for row, score in zip(shown.rows, shown.scores, strict=True):
                found.setdefault("report", {})[row.student, what] = score
                assert f"<td>{score:g}</td>" in render(shown)
            for line in csv.DictReader(table(shown).splitlines()):
                found.setdefault("table", {})[line["student"], what] = float(line["total"]) if line["total"] else None
            assert shown.silent == [who for who in STUDENTS if who in facts and who not in handed_in]
        with Tables(self.api.coursedir.db_url, "attention") as book, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, make in (("canvas", CanvasExporter), ("moodle", MoodleExporter), ("grades", CsvExporter)):
                make(parent=self.api, to=str(self.root / f"{name}.csv")).export(book)
            GradescopeExporter(parent=self.api, to=str(self.root / "scope")).export(book)
            for what in LESSONS:  # formgrader reads these rows, nbgrader's own commands the copy of the penalty
                for one in book.assignment_submissions(what):
                    copied = max(0.0, one.score - one.late_submission_penalty)
                    found.setdefault("gradebook", {})[one.student_id, what] = round(copied, 2)
        for name, key in (("canvas", "SIS Login ID"), ("moodle", "username")):
            for line in csv.DictReader((self.root / f"{name}.csv").read_text().splitlines()):
                for what in LESSONS if line[key] else ():  # Canvas's second line holds the points possible
                    found.setdefault(name, {})[line[key], what] = float(line[what]) if line[what] else None
        for line in csv.DictReader((self.root / "grades.csv").read_text().splitlines()):
            place = line["student_id"], line["assignment"]
            found.setdefault("grades", {})[place] = float(line["score"]) if line["score"] else None
        for path in (self.root / "scope").glob("*/*/results.json"):
            found.setdefault("gradescope", {})[path.parts[-2], path.parts[-3]] = json.loads(path.read_text())["score"]
        return found


def play(prepared: Path, root: Path, history: list[tuple[Any, ...]]) -> None:
    """Have `history` happen in a fresh course; every place must say what plain arithmetic says."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(prepared, root)
    course = Course(root)
    for action in history:
        course.act(action)
    said = course.said()
    if course.oracle.told:
        assert set(said) >= {"page", "gradebook", "report", "table", "canvas", "moodle", "grades", "gradescope"}
    for place, grades in said.items():
        for (who, what), score in grades.items():
            if (who, what) in course.oracle.told or score is not None:
                assert score == course.oracle.total(who, what), f"{place} of {who}, {what}"
    for pair in course.oracle.told:
        assert all(pair in grades for grades in said.values())


Play = Callable[[list[tuple[Any, ...]]], None]


@pytest.fixture(scope="module")
def history(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Play:
    root = tmp_path_factory.mktemp("history") / "course"
    return lambda actions: play(prepared, root, actions)


def test_penalties_follow_a_moved_due_date_a_mark_by_hand_and_late_days(history: Play) -> None:
    late = ("hand in", "ada", "a1", 100, 3, 2.5)
    history([late])
    history([late, ("move due date", "a1", 400)])
    history([late, ("mark by hand", "ada", "a1", "essay", 4.0), ("extra credit", "ada", "a1", "q1", 1.0)])
    history([late, ("hand in", "ada", "a2", 49, 3, 2.5), ("late days", "ada", 4), ("move due date", "a2", 23)])
    history([late, ("extension", "ada", "a1", 1), ("extra time", "ada", 0.5), ("regrade", "ada", "a1")])
    history([late, ("extension in nbgrader", "ada", "a1", 30), ("hand in", "ada", "a1", None, 1, 0)])
    history([late, ("extension in nbgrader", "ada", "a1", 30), ("move due date", "a1", None)])
    history([("hand in", "ben", "a3", 72, 0, 0.5), ("extra credit", "ben", "a3", "q1", 2.75), ("extra time", "ben", 0)])
    history([("hand in", "ben", "a3", 90, 0, 0.5), ("extra credit", "ben", "a3", "q1", 2.75)])  # 3.25 less three tenths


HISTORIES = st.lists(ACTIONS, min_size=1, max_size=12)
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}


@settings(max_examples=25, **QUIET)
@given(actions=HISTORIES)
def test_every_place_says_the_same_grade_in_a_few_histories(history: Play, actions: list[tuple[Any, ...]]) -> None:
    history(actions)


@pytest.mark.slowest
@pytest.mark.timeout(3000)
@settings(max_examples=1000, **{**QUIET, "derandomize": False})
@given(actions=st.lists(ACTIONS, min_size=4, max_size=30))
def test_every_place_says_the_same_grade_in_a_thousand_histories(history: Play, actions: list[tuple[Any, ...]]) -> None:
    history(actions)
