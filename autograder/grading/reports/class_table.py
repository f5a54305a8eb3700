"""Write the class as a table for a spreadsheet (`attn report --csv`): one row per student, missing students first."""

import csv
import io
import re
from collections.abc import Iterable

from autograder.grading.grades import Grade
from autograder.grading.reports.class_report import Facts, View

HEAD = ("student", "name", "section", "marker", "handed_in", "total", "points", "marks", "extra_credit", "late_hours", "penalty")
# some spreadsheets treat full-width and small signs alike, and separate cells at a semicolon where decimals use a comma
_SIGNS = r"\s*[=+\-@\t\r\n＝＋－＠﹦﹢﹣﹫]"
_FORMULA, _BEHIND = re.compile(_SIGNS), re.compile(rf"(?<=[;\t])(?={_SIGNS})")


def cell(text: str | float | None) -> str:
    """Return the content of a spreadsheet cell: numbers as they are, and text that cannot become a formula.

    >>> [cell(x) for x in ("Ann", "=1+1", "＝1+1", "-x", "a; =1+1", 3.50, -1.0, None)]
    ['Ann', "'=1+1", "'＝1+1", "'-x", "a;' =1+1", '3.5', '-1', '']
    """
    if text is None:
        return ""
    if isinstance(text, str):
        rest = text.lstrip()
        inside = text.removesuffix(rest) + _BEHIND.sub("'", rest)
        return f"'{inside}" if _FORMULA.match(text) else inside
    return f"{round(text, 4):g}"


def as_csv(rows: Iterable[Iterable[str | float | None]]) -> str:
    """Return `rows` as CSV, each cell as `cell` writes it."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(map(cell, row) for row in rows)
    return text.getvalue()


def table(shown: View) -> str:
    """Return the table as CSV: what the student's page says, what waits, remarks, and each exercise's marks and mistake."""
    exercises = [passed.exercise for passed in shown.passed]
    head = [*HEAD, "waiting", "remarks", *(word for name in exercises for word in (name, f"{name}: mistake"))]
    rows: list[list[str | float | None]] = []
    for student in shown.silent:
        facts = shown.facts[student]
        rows.append([student, facts.name, facts.section, facts.marker, "no", None, shown.points])
    for row in shown.rows:
        facts = shown.facts.get(row.student, Facts())
        grade = facts.grade or Grade(row.student, shown.assignment, row.score, points=row.points)
        line: list[str | float | None] = [row.student, facts.name, facts.section, facts.marker, "yes"]
        line += [grade.total, grade.points, grade.marks, grade.extra, grade.late_s / 3600, grade.penalty]
        line += [" ".join(grade.waiting), "; ".join(row.remarks)]
        for name in exercises:
            state = row.exercises.get(name)
            mistake = f"given {', '.join(state.carried)}" if state and state.carried else state and " + ".join(state.named())
            line += [state.score if state else None, mistake or (state.status if state and state.status != "pass" else "")]
        rows.append(line)
    return as_csv([head, *([*row, *[None] * (len(head) - len(row))] for row in rows)])
