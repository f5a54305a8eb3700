"""Write a student's feedback: their notebook as one page, with panels, marks and comments. Nothing on it is live.

The page begins with five lines (marks, what went wrong, what was carried forward, what to look at next, how to ask),
followed by the table of marks and the student's own cells with their panels. The lesson's own text is folded. If no answer
was found at all, notes on reading the submission take the place of what went wrong. The pages don't use nbconvert: student
content is escaped here, cell by cell, and the lesson's text, which is the same for everybody, is converted to HTML once per
class.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from autograder.grading import read_in_child
from autograder.grading.gradebook import Mark
from autograder.grading.grades import Grade
from autograder.grading.ledger import ExerciseRow
from autograder.grading.reports.templates import template
from autograder.notebooks import pictures
from autograder.notebooks.html_page import POLICY, coloured, document, markdown
from autograder.notebooks.roles import exercise_of, grade_id, grader, is_answer, is_grade

MAX_PROSE = 8_000  # characters of a learner's Markdown per page; some texts take cubic time to render, so the rest stays plain
MAX_LETTER = 1500  # characters, because some mail programs cut longer letters
MOST_WRONG = 3  # answers named in the summary; the table names all
MOST_SAID = 2  # notes on reading in the summary if no answer was found; the rest follow the table
Marks = Mapping[str, Mark]
States = Mapping[str, ExerciseRow]


@dataclass(frozen=True)
class _Row:
    """A row in the table of marks: the cell's `id`, title (`label`) and mark (`shown`), and what the grader knows about it."""

    id: str
    label: str
    shown: str
    points: float
    lost: bool
    waits: bool
    exercise: str = ""
    state: ExerciseRow | None = None
    comment: str = ""
    blank: bool = False  # nothing was written, and no person was asked

    @property
    def idle(self) -> bool:
        """Whether there is no answer."""
        return self.blank or (self.lost and self.state is not None and self.state.status == "todo")

    @property
    def says(self) -> str:
        """What went wrong, in the panel's words; empty for a right answer."""
        return self.state.headline if self.state and self.lost else ""


@dataclass(frozen=True)
class _Summary:
    """The first lines of the page: `wrong` and `more` answers below their points, `carried` ones, and where to begin."""

    wrong: Sequence[_Row]
    more: int
    idle: int
    carried: Sequence[tuple[_Row, str]]  # with the titles of the earlier answers that were replaced
    begin: _Row | None
    because: str
    waiting: int
    nothing: bool = False  # whether no exercise was started


@dataclass(frozen=True)
class _Part:
    """A cell on the page: its `text` as HTML, base64 `pictures` below, its `outputs`, a `comment` by hand."""

    id: str
    text: str
    pictures: Sequence[str] = ()
    outputs: Sequence[Any] = ()
    comment: str | None = ""
    folded: bool = False
    heading: str = ""


class Pages:
    """Writes the feedback pages for one assignment, as `released`."""

    def __init__(self, released: Any, contact: str = ""):
        """Prepare the pages. Requests to look at a mark again go to the address `contact`."""
        self._contact = contact
        self._given = {cell.source for cell in released.cells}
        self._titles = titles(released)
        self._text = functools.cache(functools.partial(markdown, trusted=True))
        self._code = functools.cache(coloured)
        self._title = next(
            (c.source.splitlines()[0].lstrip("# ") for c in released.cells if c.source.startswith("# ")), "Feedback"
        )

    def page(
        self,
        student: str,
        notebook: Any,
        marks: Marks,
        grade: Grade,
        notes: Sequence[str] = (),
        states: States | None = None,
        *,
        called: str = "",
        marked_late: bool = False,
        seconds: float = read_in_child.READ_S,
    ) -> str:
        """Return the page for `student`: the marked `notebook`, `marks` by grade_id, the resulting `grade`, `notes` on reading.

        `states` say how each exercise went; without them the summary names no mistake. `called` is the student's name, and
        `marked_late` is the learning platform's verdict on the time. Reading the student's texts takes at most `seconds` of
        processor time.
        """
        wanted, prose = [], 0
        for cell in notebook.cells:
            if cell.source not in self._given:
                prose += len(cell.source) if cell.cell_type == "markdown" else 0
                if cell.cell_type == "code" or prose <= MAX_PROSE:
                    wanted.append(_task(cell))
        texts = read_in_child.read(wanted, read_in_child.Seconds(seconds))
        rows = [_row(cell, marks, grade, self._titles, states or {}) for cell in notebook.cells if is_grade(cell)]
        parts = [self._part(cell, marks, texts) for cell in notebook.cells]
        body = template("feedback.html").render(
            title=self._title,
            student=f"{called} ({student})" if called and called != student else student,
            rows=rows,
            brief=_summary(rows),
            grade=grade,
            late=lateness(grade),
            platform_late=marked_late and grade.late_s <= 0,
            letter=_letter(self._contact, self._title, student, [row for row in rows if row.lost]),
            notes=notes,
            most_said=MOST_SAID,
            crowded=len(texts) < len(set(wanted)),
            groups=[(folded, list(members)) for folded, members in groupby(parts, key=lambda part: part.folded)],
        )
        return document(f"{self._title}: {student}", body, policy=POLICY)

    def _part(self, cell: Any, marks: Marks, texts: Mapping[read_in_child.Task, str]) -> _Part:
        name = grade_id(cell) or ""
        text, comment = self._made(cell, texts), marks.get(name, Mark()).comment if is_answer(cell) else ""
        if cell.cell_type == "markdown":
            drawn = [kinds["image/png"] for kinds in cell.get("attachments", {}).values() if "image/png" in kinds]
            ours = cell.source in self._given and not is_answer(cell)
            return _Part(name, text, drawn, comment=comment, folded=ours, heading=_heading(cell.source) if ours else "")
        if exercise_of(cell):  # the grader's own output of a grade cell, the only HTML that is shown as HTML
            panels = (str(output.get("data", {}).get("text/html", "")) for output in cell.outputs)
            return _Part(name, Markup("").join(map(Markup, panels)))
        return _Part("", text, outputs=cell.outputs, comment=comment, folded=cell.source in self._given and not is_answer(cell))

    def _made(self, cell: Any, texts: Mapping[read_in_child.Task, str]) -> Markup:
        """Return the cell's source as HTML; a learner's text stays plain if the reader of texts didn't finish it in time."""
        if cell.source not in self._given:
            text = texts.get(_task(cell))
            return Markup("<pre>{}</pre>").format(cell.source) if text is None else Markup(text)
        return Markup((self._text if cell.cell_type == "markdown" else self._code)(cell.source))


def _task(cell: Any) -> read_in_child.Task:
    """Return the task for the reader of texts: a cell's text without its pictures, which follow it."""
    kind = "markdown" if cell.cell_type == "markdown" else "coloured"
    return read_in_child.Task(kind, pictures.without(cell.source) if "attachments" in cell else str(cell.source))


def titles(released: Any) -> dict[str, str]:
    """Return the title of each graded cell in the `released` notebook, by grade_id: the heading above it."""
    by_cell, heading = {}, ""
    for cell in released.cells:
        if cell.cell_type == "markdown":
            heading = _heading(cell.source) or heading
        if is_grade(cell):
            name = str(grade_id(cell))
            plain = heading.removeprefix("Exercise ")
            foretold = heading == plain and (exercise_of(cell) or "").startswith("predict")
            by_cell[name] = f"Prediction: {plain}" if foretold else plain or exercise_of(cell) or name
    return by_cell


def _heading(source: str) -> str:
    """Return the last heading in a Markdown cell, without code marks, or "" if there is none."""
    headings = re.findall(r"^#{1,6} +(.+)$", source, re.MULTILINE)
    return headings[-1].replace("`", "").strip() if headings else ""


def _summary(rows: Sequence[_Row]) -> _Summary:
    """Return the summary of `rows` for the top of the page."""
    by_name = {row.exercise: row for row in rows if row.exercise}
    carried = [
        (row, " and ".join(by_name[name].label if name in by_name else name for name in row.state.carried))
        for row in rows
        if row.state and row.state.carried
    ]
    lost = [row for row in rows if row.lost]
    started = [row for row in lost if not row.idle]
    wrong = [row for row in started if not (row.state and row.state.carried)]
    spoilt = {name for row, _ in carried if row.state for name in row.state.carried}
    begin = next((row for row in wrong if row.exercise in spoilt), next(iter([*wrong, *lost]), None))
    users = [row.label for row, _ in carried if begin and row.state and begin.exercise in row.state.carried]
    waiting = sum(row.waits for row in rows)
    asked = [row for row in rows if row.state is not None]
    return _Summary(
        wrong[:MOST_WRONG],
        len(wrong[MOST_WRONG:]),
        len(lost) - len(started),
        carried,
        begin,
        " and ".join(users),
        waiting,
        bool(asked) and all(row.idle for row in asked) and not started,
    )


def _row(cell: Any, marks: Marks, grade: Grade, names: Mapping[str, str], states: States) -> _Row:
    name, points = str(grade_id(cell)), float(grader(cell)["points"])
    exercise = exercise_of(cell) or ""
    mark = marks.get(name, Mark())
    score = mark.automatic if mark.by_hand is None else mark.by_hand
    shown = "not graded yet" if score is None else f"{score:g}"
    shown += " (will be looked at again)" if score is not None and name in grade.waiting else ""
    lost = score is not None and score < points
    label, state = names.get(name) or exercise or name, states.get(exercise)
    blank = is_answer(cell) and mark.by_hand is None and score == 0
    comment = mark.comment if is_answer(cell) else ""
    return _Row(name, label, shown, points, lost, score is None, exercise, state, comment, blank)


def _letter(contact: str, title: str, student: str, lost: Sequence[_Row]) -> str:
    """Return a mailto link that asks for another look: it lists the marks below their points, with room to say why."""
    if not contact or not lost:
        return ""
    asked = (f"{row.label} ({row.shown.split()[0]} of {row.points:g}): " for row in lost)
    body = "\r\n".join([f"Student: {student}", "Please look again at (delete what is right, say why at what is left):", *asked])
    fields = urlencode({"subject": f"Regrade: {title}", "body": body[:MAX_LETTER]}, quote_via=quote)
    return f"mailto:{quote(contact, safe='@')}?{fields}"


def lateness(grade: Grade) -> str:
    """Return how late the submission is, and what the student's late days cover.

    >>> lateness(Grade("ada", "01", late_s=90_000.0, late_days=1))
    'handed in 25 hours late, 1 late day used'
    """
    hours = grade.late_s / 3600
    shown = f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.1f} days"
    shown = f"{grade.late_s / 60:.0f} minutes" if hours < 2 else shown
    used = f", {grade.late_days} late day{'s' if grade.late_days > 1 else ''} used" if grade.late_days else ""
    return f"handed in {shown} late{used}"
