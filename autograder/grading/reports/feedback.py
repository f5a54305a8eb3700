"""What a student gets back: their notebook as one page, with panels, marks and comments. Nothing in it is live.

Pages of our own, not nbconvert's: student content is escaped here, cell by cell, and the lesson's text, which is the
same for everybody, is made into HTML once for the class.
"""

import functools
import html
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from autograder.grading import bounded
from autograder.grading.gradebook import Mark
from autograder.grading.grades import Grade
from autograder.notebooks import pictures
from autograder.notebooks.html_page import POLICY, coloured, document, markdown
from autograder.notebooks.roles import exercise_of, grade_id, grader, is_answer, is_grade

MAX_PROSE = 8_000  # characters of a learner's Markdown on a page: a renderer takes cubic time over some, so the rest stays text
MAX_LETTER = 1500  # characters: some mail programs cut a longer one
Marks = Mapping[str, Mark]


class Pages:
    """Feedback pages for one assignment, as `released`."""

    def __init__(self, released: Any, contact: str = ""):
        """`contact` is the address for requests to look at a mark again."""
        self._contact = contact
        self._given = {cell.source for cell in released.cells}
        self._text = functools.cache(functools.partial(markdown, trusted=True))
        self._code = functools.cache(coloured)
        self._title = next(
            (c.source.splitlines()[0].lstrip("# ") for c in released.cells if c.source.startswith("# ")), "Feedback"
        )

    def page(self, student: str, notebook: Any, marks: Marks, grade: Grade, notes: Sequence[str] = ()) -> str:
        """The page for `student`: the marked `notebook`, `marks` by grade_id, the `grade` they come to, `notes` on reading."""
        wanted, prose = [], 0
        for cell in notebook.cells:
            if cell.source not in self._given:
                prose += len(cell.source) if cell.cell_type == "markdown" else 0
                if cell.cell_type == "code" or prose <= MAX_PROSE:
                    kind = "markdown" if cell.cell_type == "markdown" else "coloured"
                    wanted.append(bounded.Task(kind, _words(cell)))
        made = bounded.read(wanted)
        body = [
            f"<h1>{html.escape(self._title)}</h1><p>{html.escape(student)}</p>",
            _table(notebook, marks, grade),
            _request(self._contact, self._title, student, notebook, marks),
            _notes(notes),
        ]
        if len(made) < len(set(wanted)):
            body.append("<p>Some cells stand here as plain text: they took too long to lay out.</p>")
        body += [self._cell(cell, marks, made) for cell in notebook.cells]
        return document(f"{self._title}: {student}", "\n".join(body), policy=POLICY)

    def _cell(self, cell: Any, marks: Marks, made: Mapping[bounded.Task, str]) -> str:
        name, images = grade_id(cell) or "", _images(cell)
        comment = marks.get(name, Mark()).comment
        said = f'<p class="comment"><b>Comment:</b> {html.escape(comment)}</p>' if comment and is_answer(cell) else ""
        plain = f"<pre>{html.escape(cell.source)}</pre>"
        if cell.cell_type == "markdown":
            own = cell.source not in self._given
            text = made.get(bounded.Task("markdown", _words(cell)), plain) if own else self._text(cell.source)
            text += images
            return f'<section id="{html.escape(name)}">{text}{said}</section>' if name else text
        if exercise_of(cell):
            return f'<section id="{html.escape(name)}">{"".join(_panel(output) for output in cell.outputs)}</section>'
        own = cell.source not in self._given
        code = made.get(bounded.Task("coloured", cell.source), plain) if own else self._code(cell.source)
        return code + "".join(map(_output, cell.outputs)) + said


def _table(notebook: Any, marks: Marks, grade: Grade) -> str:
    """Marks by cell, then what is added and taken: the last line is the grade that gradebook and exports hold."""
    rows, waits = [], False
    for cell in notebook.cells:
        if not is_grade(cell):
            continue
        name, points = str(grade_id(cell)), float(grader(cell)["points"])
        found = marks.get(name, Mark())
        score = found.automatic if found.by_hand is None else found.by_hand
        waits = waits or score is None
        shown = "waits for a person" if score is None else f"{score:g}"
        shown += " (a second look is due)" if score is not None and name in grade.waiting else ""
        label = html.escape(exercise_of(cell) or name)
        rows.append(f'<tr><td><a href="#{html.escape(name)}">{label}</a></td><td>{shown}</td><td>{points:g}</td></tr>')
    if grade.extra:
        rows.append(f"<tr><td>extra credit</td><td>{grade.extra:+g}</td><td></td></tr>")
    if grade.late_s > 0:
        rows.append(f"<tr><td>{html.escape(lateness(grade))}</td><td>{-grade.penalty or 0:g}</td><td></td></tr>")
    so_far = " so far" if waits else ""
    head = "<tr><th>exercise</th><th>marks</th><th>of</th></tr>"
    total = f"<tr><th>Total{so_far}</th><th>{grade.total:g}</th><th>{grade.points:g}</th></tr>"
    return f"<table>{head}{''.join(rows)}{total}</table>"


def _request(contact: str, title: str, student: str, notebook: Any, marks: Marks) -> str:
    """A letter begun, for who thinks that a mark is wrong: which marks are below their points, and room to say why."""
    if not contact:
        return ""
    asked = []
    for cell in notebook.cells:
        found = marks.get(str(grade_id(cell)), Mark()) if is_grade(cell) else Mark()
        score = found.automatic if found.by_hand is None else found.by_hand
        if is_grade(cell) and score is not None and score < float(grader(cell)["points"]):
            asked.append(f"{exercise_of(cell) or grade_id(cell)} ({score:g} of {float(grader(cell)['points']):g}): ")
    if not asked:
        return ""
    body = "\r\n".join([f"Student: {student}", "Please look again at (delete what is right, say why at what is left):", *asked])
    fields = urlencode({"subject": f"Regrade: {title}", "body": body[:MAX_LETTER]}, quote_via=quote)
    link = html.escape(f"mailto:{quote(contact, safe='@')}?{fields}")
    return f'<p>Does a mark look wrong? <a href="{link}">Ask for a second look</a>, and say why.</p>'


def lateness(grade: Grade) -> str:
    """How late, and what the student's late days cover.

    >>> lateness(Grade("ada", "01", late_s=90_000.0, late_days=1))
    'handed in 25 hours late, 1 late day used'
    """
    hours = grade.late_s / 3600
    shown = f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.1f} days"
    shown = f"{grade.late_s / 60:.0f} minutes" if hours < 2 else shown
    used = f", {grade.late_days} late day{'s' if grade.late_days > 1 else ''} used" if grade.late_days else ""
    return f"handed in {shown} late{used}"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f'<section class="notes"><p><b>How your submission was read</b></p><ul>{items}</ul></section>'


def _words(cell: Any) -> str:
    """A cell's text without its pictures, which follow it."""
    return pictures.without(cell.source) if "attachments" in cell else str(cell.source)


def _images(cell: Any) -> str:
    """The pictures that a learner pasted, as marking drew them again."""
    drawn = [kinds["image/png"] for kinds in cell.get("attachments", {}).values() if "image/png" in kinds]
    return "".join(
        f'<p><img alt="pasted picture {number}" src="data:image/png;base64,{html.escape(data)}"></p>'
        for number, data in enumerate(drawn, 1)
    )


def _panel(output: Any) -> str:
    """The grader's own output of a grade cell; the only HTML that is shown as such."""
    return str(output.get("data", {}).get("text/html", ""))


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return f"<pre>{html.escape(output.text)}</pre>"
    if output.output_type == "error":
        return f"<pre>{html.escape(chr(10).join(output.traceback) or f'{output.ename}: {output.evalue}')}</pre>"
    picture = output.get("data", {}).get("image/png")
    if picture:
        return f'<img alt="a figure drawn by this cell" src="data:image/png;base64,{html.escape(picture)}">'
    return f"<pre>{html.escape(output.get('data', {}).get('text/plain', ''))}</pre>"
