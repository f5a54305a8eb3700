"""Render the class report as one HTML page without scripts or network, in light and dark, fit for print.

The template is `class_report.html`.
"""

from collections import Counter
from urllib.parse import quote, urlsplit

from autograder.authoring.course import CourseError
from autograder.diagnosis.panel import SYMBOL, status_word
from autograder.grading.reports.class_report import Facts, View, score
from autograder.grading.reports.templates import template
from autograder.notebooks.html_page import POLICY

FORMGRADER = "http://localhost:8888/formgrader"
MANY = 8  # misconceptions, students and names shown before the fold
BINS = 10


def render(shown: View, formgrader: str = FORMGRADER) -> str:
    """Return the page. Links lead to `formgrader`. Raises CourseError if that is not a web address."""
    if urlsplit(formgrader).scheme not in ("http", "https"):
        raise CourseError(f"expected formgrader's address, such as {FORMGRADER}, got {formgrader!r}.")
    base, assignment = formgrader.rstrip("/"), quote(shown.assignment, safe="")

    def link(student: str) -> str:
        grade = shown.facts.get(student, Facts()).grade
        if grade and grade.submission:
            return f"{base}/submissions/{quote(grade.submission, safe='')}/"
        return f"{base}/manage_students/{quote(student, safe='')}/{assignment}"

    def full_name(student: str) -> str:
        name = shown.facts.get(student, Facts()).name
        return f"{name} {student}" if name else student

    names = Counter(facts.name for facts in shown.facts.values())

    def called(student: str) -> str:
        """Return the student's name if nobody else has it, otherwise name and id."""
        name = shown.facts.get(student, Facts()).name
        return name if name and names[name] == 1 else full_name(student)

    return template("class_report.html").render(
        shown=shown,
        policy=POLICY,
        many=MANY,
        tiers=[part.strip() for part in shown.tier.split(",") if part.strip()],
        students=len({*shown.facts, *(row.student for row in shown.rows)}),
        questions=dict(Counter(name for names in shown.waiting.values() for name in names)),
        late={name: facts.grade for name, facts in shown.late.items() if facts.grade},
        bins=_bins(shown),
        by_hand=f"{base}/gradebook/{assignment}/{assignment}",
        link=link,
        full_name=full_name,
        called=called,
        score=score,
        duration=_duration,
        symbol=SYMBOL,
        word={status: status_word(status) for status in SYMBOL},
        statuses=("pass", "part", "fail", "todo"),
    )


def _bins(shown: View) -> list[int]:
    """Return how many students fall into each tenth of the points."""
    counted = Counter(min(BINS - 1, int(BINS * total / shown.points)) if shown.points else 0 for total in shown.scores)
    return [counted[i] for i in range(BINS)]


def _duration(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours" if hours >= 1 else f"{seconds / 60:.0f} minutes"
