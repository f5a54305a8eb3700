"""`attn book`: the executed lessons as a site to read, built offline and readable offline.

Plain nbconvert gives each notebook's body; formulas become MathML here (browsers draw it without a script or a network);
solutions are folded. One page for each lesson, an index, no other file.
"""

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from autograder.nbgrader_plugins import solution_source
from autograder.notebook import grade_id, is_answer
from autograder.registry import CourseError, Lesson, course_root

_IMPORT = re.compile(r"^from solutions\.(\w+) import (\w+)$")
_MATHS = re.compile(r"(```.*?```|`[^`\n]*`)|\$\$(.+?)\$\$|(?<![\\$])\$((?:[^$\n]|\n(?!\n))+?)\$(?!\d)", re.DOTALL)
_CSS = """
:root { color-scheme: light dark; --ink: #1f1f1f; --faint: #5f6368; --paper: #fff; --line: #d8d8d8; --code: #f5f5f5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --faint: #a8a8a8; --paper: #161616; --line: #444; --code: #222; } }
* { --jp-ui-font-color1: var(--ink); --jp-ui-font-color2: var(--faint); --jp-layout-color1: var(--paper);
  --jp-border-color2: var(--line); }
body { margin: 0 auto; max-width: 50rem; padding: 1rem 1.25rem 6rem; font: 1rem/1.6 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
nav { font-size: .9rem; margin: .5rem 0 2rem; } nav a { margin-right: 1rem; }
a { color: #2a7ab9; } a.anchor-link { display: none; }
pre, code { font: .875em/1.5 ui-monospace, monospace; background: var(--code); border-radius: 3px; } code { padding: .1em .25em; }
pre { padding: .7rem .9rem; overflow-x: auto; } pre code { padding: 0; } img { max-width: 100%;
  background: #fff; border-radius: 3px; }
table { border-collapse: collapse; } th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
math[display=block] { margin: 1rem 0; overflow-x: auto; } .prompt, .jp-InputPrompt, .jp-OutputPrompt { display: none; }
details.solution { border: 1px solid var(--line); border-radius: 4px; padding: .4rem .6rem; margin: .6rem 0; }
summary { cursor: pointer; } h1, h2, h3 { line-height: 1.25; margin-top: 2.2rem; }
"""


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
    index = f"<h1>Attention, graded</h1><ol start='{first}'>{items}</ol>"
    return [*written, _write(folder / "index.html", "Attention, graded", index)]


def maths_to_mathml(text: str) -> str:
    r"""Markdown `text` with `$…$` and `$$…$$` as MathML; code spans and fences are left alone.

    >>> maths_to_mathml("`$x$` is code, $x$ is maths")[:46]
    '`$x$` is code, <math xmlns="http://www.w3.org/'
    """
    from latex2mathml.converter import convert

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        made: str = convert(match[2] or match[3], display="block" if match[2] else "inline")
        return re.sub(r"([*_])", lambda m: f"&#{ord(m[1])};", made)  # or markdown would read emphasis into it

    return _MATHS.sub(one, text)


def _body(notebook: Any) -> str:
    from nbconvert import HTMLExporter

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = maths_to_mathml(cell.source)
        elif cell.cell_type == "code" and any("interactive(" in o.get("data", {}).get("text/plain", "") for o in cell.outputs):
            cell.outputs = []  # a slider needs a running notebook; its first frame stands in the cell before
        elif is_answer(cell) and (match := _IMPORT.match(cell.source.strip())):
            _fold(cell, _coloured(solution_source(match[1], match[2])))
        elif is_answer(cell):
            _fold(cell, _coloured(cell.source))
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


def _coloured(source: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    plain = "\n".join(line for line in source.splitlines() if "### BEGIN SOLUTION" not in line and "### END SOLUTION" not in line)
    made: str = highlight(plain, PythonLexer(), HtmlFormatter(cssclass="highlight"))
    return made.replace("\n\n", "\n&#10;")  # an empty line would end the HTML block for markdown


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
    from pygments.formatters import HtmlFormatter

    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = f"@media (prefers-color-scheme: dark) {{ {HtmlFormatter(style='monokai').get_style_defs('.highlight')} }}"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    path.write_text(
        f'<!doctype html><html lang="en"><head>{head}<style>{colours}{dark}{_CSS}</style></head><body>{body}</body></html>'
    )
    return path
