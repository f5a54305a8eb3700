"""What a student gets back: their notebook as one page, with panels, marks and comments. Nothing in it is live.

A renderer of our own, not nbconvert's: student content is escaped here, cell by cell, and the lesson's text, which is the
same for everybody, is made into HTML once for the class.
"""

import functools
import html
from collections.abc import Mapping
from typing import Any

from autograder.grading import bounded
from autograder.notebooks.html_page import POLICY, coloured, document, maths_to_mathml
from autograder.notebooks.roles import exercise_of, grade_id, grader, is_answer, is_grade

MAX_PROSE = 8_000  # characters of a learner's Markdown on a page: a renderer takes cubic time over some, so the rest stays text
Marks = Mapping[str, tuple[float | None, float | None, str]]


class Pages:
    """Feedback pages for one assignment, as `released`."""

    def __init__(self, released: Any):
        self._given = {cell.source for cell in released.cells}
        self._text = functools.cache(markdown)
        self._code = functools.cache(coloured)
        self._title = next(
            (c.source.splitlines()[0].lstrip("# ") for c in released.cells if c.source.startswith("# ")), "Feedback"
        )

    def page(self, student: str, notebook: Any, marks: Marks) -> str:
        """The page for `student`: the marked `notebook` and the `marks` by grade_id, (automatic, by hand, comment)."""
        wanted, prose = [], 0
        for cell in notebook.cells:
            if cell.source not in self._given:
                prose += len(cell.source) if cell.cell_type == "markdown" else 0
                if cell.cell_type == "code" or prose <= MAX_PROSE:
                    wanted.append(bounded.Task("markdown" if cell.cell_type == "markdown" else "coloured", cell.source))
        made = bounded.read(wanted)
        body = [f"<h1>{html.escape(self._title)}</h1><p>{html.escape(student)}</p>", _table(notebook, marks)]
        if len(made) < len(set(wanted)):
            body.append("<p>Some cells stand here as plain text: they took too long to lay out.</p>")
        body += [self._cell(cell, marks, made) for cell in notebook.cells]
        return document(f"{self._title}: {student}", "\n".join(body), policy=POLICY)

    def _cell(self, cell: Any, marks: Marks, made: Mapping[bounded.Task, str]) -> str:
        name = grade_id(cell) or ""
        comment = marks.get(name, (None, None, ""))[2]
        said = f'<p class="comment"><b>Comment:</b> {html.escape(comment)}</p>' if comment and is_answer(cell) else ""
        plain = f"<pre>{html.escape(cell.source)}</pre>"
        if cell.cell_type == "markdown":
            own = cell.source not in self._given
            text = made.get(bounded.Task("markdown", cell.source), plain) if own else self._text(cell.source, True)
            return f'<section id="{html.escape(name)}">{text}{said}</section>' if name else text
        if exercise_of(cell):
            return f'<section id="{html.escape(name)}">{"".join(_panel(output) for output in cell.outputs)}</section>'
        own = cell.source not in self._given
        code = made.get(bounded.Task("coloured", cell.source), plain) if own else self._code(cell.source)
        return code + "".join(map(_output, cell.outputs)) + said


def _table(notebook: Any, marks: Marks) -> str:
    rows, total, of, waits = [], 0.0, 0.0, False
    for cell in notebook.cells:
        if not is_grade(cell):
            continue
        name, points = str(grade_id(cell)), float(grader(cell)["points"])
        automatic, by_hand, _ = marks.get(name, (None, None, ""))
        score = automatic if by_hand is None else by_hand
        waits = waits or score is None
        total, of = total + (score or 0.0), of + points
        shown = "waits for a person" if score is None else f"{score:g}"
        label = html.escape(exercise_of(cell) or name)
        rows.append(f'<tr><td><a href="#{html.escape(name)}">{label}</a></td><td>{shown}</td><td>{points:g}</td></tr>')
    so_far = " so far" if waits else ""
    head = "<tr><th>exercise</th><th>marks</th><th>of</th></tr>"
    return f"<table>{head}{''.join(rows)}<tr><th>Total{so_far}</th><th>{total:g}</th><th>{of:g}</th></tr></table>"


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


def markdown(source: str, trusted: bool) -> str:
    """Markdown as HTML. Of a learner's, tags are text, and links lead nowhere but to pages."""
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    text = maths_to_mathml(source) if trusted else source
    made: str = MarkdownWithMath(renderer=IPythonRenderer(escape=not trusted)).render(text)
    return made
