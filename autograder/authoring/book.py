"""`attn book`: the executed lessons as a site to read, built offline and readable offline.

Plain nbconvert gives each notebook's body; formulas become MathML here (browsers draw it without a script or a network);
solutions are folded. One page for each lesson, an index, no other file.
"""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring.course import CourseError, Lesson, course_root, settings
from autograder.authoring.reference_source import injected
from autograder.notebooks.html_page import coloured, document, maths_to_mathml
from autograder.notebooks.roles import grade_id, is_answer


def build(lessons: Sequence[Lesson], folder: Path) -> list[Path]:
    """Write the site into `folder`; the files written. Raises CourseError for a lesson that was never built."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {lesson: f"{lesson.name}.html" for lesson in lessons}
    written = []
    for lesson, name in pages.items():
        source = course_root() / "source" / lesson.name / f"{lesson.name}.ipynb"
        if not source.exists():
            raise CourseError(f"expected {source}, found none. Run `attn build {lesson.name}`.")
        body = _body(nbformat.read(source, as_version=4))
        written.append(_write(folder / name, lesson.title, _nav(pages, lesson) + body + _nav(pages, lesson)))
    items = "".join(f'<li><a href="{name}">{html.escape(lesson.title)}</a></li>' for lesson, name in pages.items())
    first = min((lesson.number for lesson in lessons), default=0)
    title = html.escape(settings().title)
    index = f"<h1>{title}</h1><ol start='{first}'>{items}</ol>"
    return [*written, _write(folder / "index.html", settings().title, index)]


def _body(notebook: Any) -> str:
    from nbconvert import HTMLExporter

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = maths_to_mathml(cell.source)
        elif cell.cell_type == "code" and any("interactive(" in o.get("data", {}).get("text/plain", "") for o in cell.outputs):
            cell.outputs = []  # a slider needs a running notebook; its first frame stands in the cell before
        elif is_answer(cell):
            _fold(cell, coloured(injected(cell)))
        if is_answer(cell) and cell.cell_type == "markdown" and grade_id(cell):
            cell.source = f'<details class="solution"><summary>Model answer</summary>\n\n{cell.source}\n\n</details>'
    body: str = HTMLExporter(template_name="basic").from_notebook_node(notebook)[0]
    return body


def _fold(cell: Any, inner: str) -> None:
    """Turn an answer cell into folded text, in place."""
    cell.cell_type = "markdown"
    cell.source = f'<details class="solution"><summary>Solution</summary>{inner}</details>'
    for key in ("outputs", "execution_count"):
        cell.pop(key, None)
    cell.metadata.pop("nbgrader", None)


def _nav(pages: dict[Lesson, str], here: Lesson) -> str:
    order = list(pages)
    at = order.index(here)
    links = ['<a href="index.html">Contents</a>']
    if at > 0:
        links.append(f'<a href="{pages[order[at - 1]]}" rel="prev">← {html.escape(order[at - 1].title)}</a>')
    if at + 1 < len(order):
        links.append(f'<a href="{pages[order[at + 1]]}" rel="next">{html.escape(order[at + 1].title)} →</a>')
    return f"<nav>{''.join(links)}</nav>"


def _write(path: Path, title: str, body: str) -> Path:
    path.write_text(document(title, body, language=settings().language), encoding="utf-8")
    return path
