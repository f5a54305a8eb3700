"""`attn report`: what a graded class tells its instructor, as plain data; `class_page` draws it.

Who needs a person and why, which misconceptions the class holds and who holds them, how each exercise went, who was late,
what waits for a mark by hand. Scores and diagnoses come from the ledger, lateness and marks by hand from nbgrader's gradebook.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autograder.grading.ledger import ClassReport, StudentRow
from autograder.judging.exercise import Exercise

FEW = 0.5  # below this share of the points a student needs a person
SLOWEST = 5
_DONE = ("pass", "part", "fail", "todo")


@dataclass(frozen=True)
class Facts:
    """What the gradebook knows of a submission."""

    name: str = ""
    late_seconds: float = 0.0
    penalty: float = 0.0
    waiting: tuple[str, ...] = ()  # cells that a person has to mark
    submission: str = ""  # formgrader's id


@dataclass(frozen=True)
class Held:
    """A misconception that students hold; `id` is None for wrong answers that no known mistake explains."""

    exercise: str
    title: str
    id: str | None
    says: str
    fix: str
    students: list[str]


@dataclass(frozen=True)
class Passed:
    """How an exercise went: students by status."""

    exercise: str
    title: str
    points: float
    counts: dict[str, int]


@dataclass(frozen=True)
class Needy:
    """A student who needs a person, for `reasons`; the first is the gravest."""

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
    held: list[Held]
    unexplained: list[Held]
    needy: list[Needy]
    passed: list[Passed]
    waiting: dict[str, list[str]]
    late: dict[str, Facts]
    slowest: list[tuple[str, float]]
    rows: list[StudentRow]
    facts: dict[str, Facts] = field(default_factory=dict)


def view(
    graded: ClassReport, title: str = "", exercises: Sequence[Exercise] = (), facts: Mapping[str, Facts] | None = None
) -> View:
    """The class as an instructor wants to see it. `exercises` give mistakes their words; `facts` are by student."""
    facts = dict(facts or {})
    rows = sorted(graded.rows, key=lambda row: row.student)
    scores = [row.score for row in rows]
    held, unexplained = _held(rows, {each.id: each for each in exercises})
    slowest = sorted(((row.student, row.seconds) for row in rows), key=lambda pair: -pair[1])[:SLOWEST]
    return View(
        assignment=graded.assignment,
        title=title or graded.assignment,
        tier=graded.tier,
        versions=dict(graded.versions),
        scores=scores,
        points=max((row.points for row in rows), default=0.0),
        median=statistics.median(scores) if scores else 0.0,
        held=held,
        unexplained=unexplained,
        needy=_needy(rows),
        passed=_passed(graded.exercises, rows, {each.id: each for each in exercises}),
        waiting={name: list(each.waiting) for name, each in sorted(facts.items()) if each.waiting},
        late={name: each for name, each in sorted(facts.items()) if each.late_seconds > 0},
        slowest=slowest,
        rows=rows,
        facts=facts,
    )


def to_json(shown: View) -> dict[str, Any]:
    """The view as JSON-able data."""
    return asdict(shown)


def _held(rows: Sequence[StudentRow], exercises: Mapping[str, Exercise]) -> tuple[list[Held], list[Held]]:
    """Misconceptions, and wrong answers that none explains; each the most frequent first."""
    who: dict[tuple[str, str | None], list[str]] = {}
    for row in rows:
        for name, state in row.exercises.items():
            if state.status in ("fail", "part"):
                for held in (state.misconception or "").split("+"):  # two at once count as each
                    who.setdefault((name, held or None), []).append(row.student)
    found = []
    for (name, known), students in who.items():
        exercise = exercises.get(name)
        mistake = next((m for m in exercise.misconceptions if m.id == known), None) if exercise else None
        says = mistake.says if mistake else (known or "").replace("_", " ")
        found.append(Held(name, exercise.title if exercise else name, known, says, mistake.fix if mistake else "", students))
    found.sort(key=lambda each: (-len(each.students), each.exercise, each.id or ""))
    return [each for each in found if each.id], [each for each in found if not each.id]


def _needy(rows: Sequence[StudentRow]) -> list[Needy]:
    found = []
    for row in rows:
        states = [state.status for state in row.exercises.values()]
        reasons: list[tuple[int, str]] = [(0, row.problem)] if row.problem else []
        reasons += [(1, flag) for flag in row.flags]
        if states and all(status == "todo" for status in states):
            reasons.append((2, "handed in without a start on any exercise"))
        elif row.points and row.score < FEW * row.points and not row.problem:
            wrong = sum(status in ("fail", "part") for status in states)
            idle = sum(status == "todo" for status in states)
            reasons.append((3, f"{row.score:g} of {row.points:g} points: {wrong} wrong, {idle} not started"))
        if reasons:
            found.append(Needy(row.student, [text for _, text in reasons], min(rank for rank, _ in reasons)))
    score = {row.student: row.score for row in rows}
    return sorted(found, key=lambda each: (each.rank, score[each.student], each.student))


def _passed(names: Sequence[str], rows: Sequence[StudentRow], exercises: Mapping[str, Exercise]) -> list[Passed]:
    found = []
    for name in names:
        states = [row.exercises[name] for row in rows if name in row.exercises]
        counts = {status: sum(state.status == status for state in states) for status in _DONE}
        title = exercises[name].title if name in exercises else name
        found.append(Passed(name, title, max((state.points for state in states), default=0.0), counts))
    return found


def gradebook_facts(db_url: str, assignment: str) -> dict[str, Facts]:
    """What the gradebook at `db_url` knows of each submission of `assignment`; empty where it knows none."""
    from nbgrader.api import Gradebook, MissingEntry

    if db_url.startswith("sqlite:///") and not Path(db_url.removeprefix("sqlite:///")).exists():
        return {}
    found = {}
    with Gradebook(db_url) as gradebook:
        try:
            submissions = gradebook.assignment_submissions(assignment)
        except MissingEntry:
            return {}
        for one in submissions:
            notebooks = list(one.notebooks)
            waiting = tuple(sorted(grade.name for each in notebooks for grade in each.grades if grade.needs_manual_grade))
            name = " ".join(part for part in (one.student.first_name, one.student.last_name) if part)
            penalty = float(one.late_submission_penalty or 0.0)
            first = notebooks[0].id if notebooks else ""
            found[one.student.id] = Facts(name, float(one.total_seconds_late), penalty, waiting, first)
    return found
