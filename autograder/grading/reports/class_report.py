"""Compile the instructor's report on a graded class, as plain data for `attn report`. `class_report_page` renders it.

The report covers who handed in nothing, who needs attention and why, which misconceptions the class holds and who holds them
(here and in earlier lessons), how each exercise and section went, who was late, and what waits for a manual mark. Diagnoses
come from the ledger, and scores from `grades`, so they match the students' pages. If an earlier answer causes a failure, the
mistake is counted only for the earlier answer.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.authoring.course import Lesson
from autograder.authoring.make_release import nbgrader_api
from autograder.grading import ledger
from autograder.grading.gradebook import has_gradebook, tables_unwarned
from autograder.grading.grades import Grade, Grades, late_rule
from autograder.grading.ledger import ClassReport, StudentRow
from autograder.grading.reports.recurring_mistakes import Across, across
from autograder.grading.roster import Roster, read
from autograder.judging.exercise import AnyExercise, Exercise

FEW = 0.5  # a student below this fraction of the points needs a person's attention
SLOWEST = 5
_DONE = ("pass", "part", "fail", "todo")


@dataclass(frozen=True)
class Facts:
    """What gradebook and class list know about a student. `grade` is None for a student who handed in nothing."""

    name: str = ""
    section: str = ""
    marker: str = ""
    grade: Grade | None = None


@dataclass(frozen=True)
class Held:
    """A misconception that students hold. `id` is None for wrong answers that no known mistake explains."""

    exercise: str
    title: str
    id: str | None
    says: str
    fix: str
    students: list[str]


@dataclass(frozen=True)
class Section:
    """A section of the class: its markers, how many handed in, their median, and how many answers wait for a mark."""

    name: str
    markers: list[str]
    students: int
    handed_in: int
    median: float
    waiting: int


@dataclass(frozen=True)
class Passed:
    """How an exercise went: students by status."""

    exercise: str
    title: str
    points: float
    counts: dict[str, int]


@dataclass(frozen=True)
class Needy:
    """A student who needs a person's attention, with the `reasons`, most serious first."""

    student: str
    reasons: list[str]
    rank: int


@dataclass
class View:
    """Everything that the page shows."""

    assignment: str
    title: str
    tier: str
    versions: dict[str, str]
    scores: list[float]
    points: float
    median: float
    silent: list[str]
    held: list[Held]
    unexplained: list[Held]
    carried: list[Held]  # answers that fail because of an earlier answer, so not counted as mistakes
    sections: list[Section]
    across: list[Across]
    needy: list[Needy]
    passed: list[Passed]
    waiting: dict[str, list[str]]
    late: dict[str, Facts]
    marked_late: list[str]  # marked late by the platform although no time of submission says so
    untimed: int  # submissions with an unknown time, which may or may not be late
    slowest: list[tuple[str, float]]
    refused: dict[str, list[str]]  # system calls that the sandbox refused, with the students who made them
    rows: list[StudentRow]
    facts: dict[str, Facts] = field(default_factory=dict)


def view(
    graded: ClassReport,
    title: str = "",
    exercises: Sequence[AnyExercise] = (),
    facts: Mapping[str, Facts] | None = None,
    comes_back: Sequence[Across] = (),
) -> View:
    """Return the report on the class. `exercises` describe the mistakes; `facts` are by student."""
    facts = dict(facts or {})
    rows = sorted(graded.rows, key=lambda row: row.student)
    scores = [score(row, facts) for row in rows]
    by_id = {exercise.id: exercise for exercise in exercises}
    held, unexplained, carried = _held(rows, by_id)
    grades = {name: known.grade for name, known in sorted(facts.items()) if known.grade is not None}
    present = {row.student for row in rows} | set(grades)
    return View(
        assignment=graded.assignment,
        title=title or graded.assignment,
        tier=graded.tier,
        versions=dict(graded.versions),
        scores=scores,
        points=max([*(row.points for row in rows), *(grade.points for grade in grades.values())], default=0.0),
        median=statistics.median(scores) if scores else 0.0,
        silent=sorted(name for name in facts if name not in present),
        held=held,
        unexplained=unexplained,
        carried=carried,
        sections=_sections(rows, facts, present),
        across=list(comes_back),
        needy=_needy(rows),
        passed=_passed(graded.exercises, rows, by_id),
        waiting={name: list(grade.waiting) for name, grade in grades.items() if grade.waiting},
        late={name: facts[name] for name, grade in grades.items() if grade.late_s > 0},
        marked_late=[
            row.student for row in rows if row.marked_late and not ((known := grades.get(row.student)) and known.late_s > 0)
        ],
        untimed=sum(not grade.timed for grade in grades.values()),
        slowest=[(row.student, row.seconds) for row in sorted(rows, key=lambda row: -row.seconds)[:SLOWEST]],
        refused=_refused(rows),
        rows=rows,
        facts=facts,
    )


def score(row: StudentRow, facts: Mapping[str, Facts]) -> float:
    """Return the total on the student's page, or the grader's score if the gradebook doesn't know the student yet."""
    known = facts.get(row.student)
    return known.grade.total if known and known.grade else row.score


def _held(rows: Sequence[StudentRow], exercises: Mapping[str, AnyExercise]) -> tuple[list[Held], list[Held], list[Held]]:
    """Return misconceptions, unexplained wrong answers, and answers spoiled by an earlier one, each most frequent first."""
    who: dict[tuple[str, str | None], list[str]] = {}
    spoiled: dict[str, list[str]] = {}
    for row in rows:
        for name, state in row.exercises.items():
            if state.carried:
                spoiled.setdefault(name, []).append(row.student)
            elif state.status in ("fail", "part"):
                names: list[str | None] = [*state.named()] or [None]  # two mistakes at once count as both
                for held in names:
                    who.setdefault((name, held), []).append(row.student)
    mistakes = []
    for (name, known), students in who.items():
        exercise = exercises.get(name)
        listed = exercise.misconceptions if isinstance(exercise, Exercise) else ()
        mistake = next((mistake for mistake in listed if mistake.id == known), None)
        says = mistake.says if mistake else (known or "").replace("_", " ")
        mistakes.append(Held(name, exercise.title if exercise else name, known, says, mistake.fix if mistake else "", students))
    titles = {name: exercises[name].title if name in exercises else name for name in spoiled}
    carried = [Held(name, titles[name], None, "", "", students) for name, students in spoiled.items()]
    for group in (mistakes, carried):
        group.sort(key=lambda held: (-len(held.students), held.exercise, held.id or ""))
    return [held for held in mistakes if held.id], [held for held in mistakes if not held.id], carried


def _refused(rows: Sequence[StudentRow]) -> dict[str, list[str]]:
    """Return the students behind each system call that the sandbox refused, the most widespread calls first."""
    who: dict[str, list[str]] = {}
    for row in rows:
        for name in row.refused:
            who.setdefault(name, []).append(row.student)
    return dict(sorted(who.items(), key=lambda pair: (-len(pair[1]), pair[0])))


def _sections(rows: Sequence[StudentRow], facts: Mapping[str, Facts], present: set[str]) -> list[Section]:
    """Return the sections of the class list, by name; empty if it names none."""
    by_name: dict[str, list[str]] = {}
    for student, known in facts.items():
        by_name.setdefault(known.section, []).append(student)
    if not any(by_name):
        return []
    scores = {row.student: score(row, facts) for row in rows}
    sections = []
    for name, students in sorted(by_name.items()):
        theirs = [scores[student] for student in students if student in scores]
        markers = sorted({facts[student].marker for student in students if facts[student].marker})
        waiting = sum(len(grade.waiting) for student in students if (grade := facts[student].grade))
        median = statistics.median(theirs) if theirs else 0.0
        sections.append(Section(name, markers, len(students), len(present.intersection(students)), median, waiting))
    return sections


def _needy(rows: Sequence[StudentRow]) -> list[Needy]:
    needy = []
    for row in rows:
        states = [state.status for state in row.exercises.values()]
        reasons = [] if row.problem is None else [(0, row.problem)]
        reasons += [(1, flag) for flag in row.flags]
        if states and all(status == "todo" for status in states):
            reasons.append((2, "no exercise was started"))
        elif row.points and row.score < FEW * row.points and not row.problem:
            wrong = sum(status in ("fail", "part") for status in states)
            idle = sum(status == "todo" for status in states)
            reasons.append((3, f"{row.score:g} of {row.points:g} points by the checks: {wrong} wrong, {idle} not started"))
        if reasons:
            needy.append(Needy(row.student, [text for _, text in reasons], min(rank for rank, _ in reasons)))
    score = {row.student: row.score for row in rows}
    return sorted(needy, key=lambda student: (student.rank, score[student.student], student.student))


def _passed(names: Sequence[str], rows: Sequence[StudentRow], exercises: Mapping[str, AnyExercise]) -> list[Passed]:
    passed = []
    for name in names:
        states = [row.exercises[name] for row in rows if name in row.exercises]
        counts = {status: sum(state.status == status for state in states) for status in _DONE}
        title = exercises[name].title if name in exercises else name
        passed.append(Passed(name, title, max((state.points for state in states), default=0.0), counts))
    return passed


def gradebook_facts(book: Any, grades: Grades, assignment: str) -> dict[str, Facts]:
    """Return what nbgrader's gradebook, open as `book`, and the class list in `grades` know about each student."""
    by_student = grades.of(assignment)
    facts = _listed(grades.roster)
    for student in book.students:
        listed = grades.roster.of(student.id)
        name = " ".join(part for part in (student.first_name, student.last_name) if part) or listed.name
        facts[student.id] = Facts(name, listed.section, listed.marker, by_student.get(student.id))
    return facts


def _listed(roster: Roster) -> dict[str, Facts]:
    return {listed.id: Facts(listed.name, listed.section, listed.marker) for listed in roster.students.values()}


def class_view(root: Path, lesson: Lesson, earlier: Sequence[Path] = ()) -> View:
    """Return the class of `lesson` as graded so far, with today's marks. Raises CourseError if nobody is graded."""
    from nbgrader.api import Gradebook as Tables

    graded = ledger.load(root, lesson.name)
    api = nbgrader_api(root)
    roster = read(root)
    facts = _listed(roster)
    if has_gradebook(api.coursedir.db_url):
        with tables_unwarned(), Tables(api.coursedir.db_url, api.course_id) as book:
            facts = gradebook_facts(book, Grades(book, late_rule(api), roster), lesson.name)
    return view(graded, lesson.title, lesson.exercises(), facts, across(root, earlier))
