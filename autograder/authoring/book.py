"""Build a site of the executed lessons with Sphinx (`attn book`). The site can be built and read offline.

If there are only releases, as in a wheel, the pages show the executed lessons' outputs but no answers. Each lesson's notebook
becomes one page of MyST text. Drawing code, hints and solutions are folded, pictures carry their descriptions, and figures
with a script move without a kernel. Formulas become MathML, which browsers draw without a script, so nothing is fetched when
a page is made or read.
"""

import base64
import html
import importlib.util
import io
import json
import logging
import re
import shutil
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring import excerpts, site_docs
from autograder.authoring.course import CourseError, Lesson, course_root, lesson_at, lessons, settings
from autograder.authoring.reference_source import BEGIN, END, injected
from autograder.authoring.workload import COMPARE
from autograder.diagnosis.panel import hint_name
from autograder.judging.records import AnyRecord
from autograder.notebooks import lesson_names
from autograder.notebooks.roles import INSTALL, NEXT, exercise_of, grade_id, is_answer, is_figure
from autograder.packs import pack_file

NEEDS = {"sphinx": "sphinx", "myst_parser": "myst-parser", "furo": "furo", "sphinx_copybutton": "sphinx-copybutton"}
FENCE = "`" * 8  # longer than any run of backticks in a lesson
_STATIC = Path(__file__).with_name("book_static")
_LESSON = re.compile(r"\]\((?:\.\./)?(\d\d[a-z]?_\w+)/\1\.ipynb(?:#[^)]*)?\)")
_BESIDE = re.compile(r"\]\(\.\./(\w+)\.md")
_COMPARE = re.compile(rf" · \*{re.escape(COMPARE)}\*.*$", re.MULTILINE)  # the model answer is on the page
# `<!-- in the browser: … -->` above a paragraph about JupyterLab: a live page shows this text instead of the paragraph
_FOR_SITE = re.compile(r"<!-- in the browser:((?:[^-]|-(?!->))*)-->\n(?:.+\n)*.+")
_MINUTES = re.compile(r"^\*About (\d+) minutes", re.MULTILINE)  # below a lesson's title
_CORNER = '<th class="head"><p></p></th>'
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_COLUMNS = re.compile(r"\S {2,}\S|^ {2,}\S|\[\[", re.MULTILINE)
_SCROLLED = '<div class="output" tabindex="0" role="group" aria-label="output">'
CARD = "card.png"  # the picture that other sites show beside a link to this one
_SHORT, _DESCRIBED = 60, 200  # characters: shortest paragraph that describes a page, longest description
PAGE_WIDTH = 92  # characters of code on a page of the book
_SHOWN = "shown"  # in a wheel's course: outputs of each lesson's cells, without answers (see hatch_build.py)


def _together(_cell: Any, parts: Sequence[str]) -> str:
    return "\n\n".join(parts)


@dataclass(frozen=True)
class Additions:
    """What another module adds to the pages: a folder of static files, style sheets and module scripts in it, and markup.

    `live` names the lessons whose exercises are answered on their pages. There, `exercise` gets an answer cell, and its task
    and hints as MyST text, and returns the text to put on the page instead. `given` does the same for a given cell, with its
    code and outputs. `intro` returns the text below any lesson's title.
    """

    static: Path = _STATIC
    styles: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    exercise: Callable[[Any, Sequence[str]], str] = _together
    intro: Callable[[Lesson], str] = lambda _lesson: ""
    given: Callable[[Any, Sequence[str]], str] = _together
    live: frozenset[str] = frozenset()


def chapters() -> tuple[Lesson, ...]:
    """Return the lessons that can be read: all of them in a clone, otherwise the released ones."""
    folders = lesson_names.folders(course_root() / "release")
    return lessons() or tuple(lesson_at(folder / f"{folder.name}.ipynb") for folder in folders)


def require(command: str, packages: Mapping[str, str], extra: str = "") -> None:
    """Raise CourseError if one of `packages`, by module, is missing. `extra` is the argument of `pip install` that brings all."""
    if missing := [package for module, package in packages.items() if importlib.util.find_spec(module) is None]:
        raise CourseError(
            f"{command}: expected the packages that make the site, found no {', '.join(missing)}.\n"
            f"Install them: pip install {extra or ' '.join(missing)}"
        )


def build(
    lessons: Sequence[Lesson], folder: Path, additions: Additions = Additions(), *, repository: str = "", address: str = ""
) -> list[Path]:
    """Write the site into `folder` and return its pages, the start page last.

    Links to files of the repository lead to the address `repository`. `address` is where the site will be published, so that
    cards on other sites can show its picture. Raises CourseError for a lesson that was never built, or if the packages that
    make the site are missing.
    """
    require("attn book", NEEDS)
    title = settings().title
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        source.mkdir()
        names = [lesson.name for lesson in lessons]
        texts = {lesson.name: _page(lesson, additions) + _workshops(lesson, names) for lesson in lessons}
        linked = {name for text in texts.values() for name in _BESIDE.findall(text)}
        for name in sorted(linked):  # pages of the course that lessons link to, such as an appendix
            text = (course_root() / f"{name}.md").read_text(encoding="utf-8")
            texts[name] = _LESSON.sub(r"](\1.md)", text)
            names.append(name)
        texts = {name: _BESIDE.sub(r"](\1.md", text) for name, text in texts.items()}
        answers = (course_root() / "source").is_dir()
        docs = course_root().parent / "docs"
        about = site_docs.pages(docs, repository)
        for picture in site_docs.pictures(docs):
            shutil.copyfile(picture, source / picture.name)
        entries = {lesson.name: _entry(lesson, additions.live) for lesson in lessons}
        start = _index(names, title, entries, answers=answers, live=bool(additions.live), about=site_docs.in_order(about))
        for name, text in {**texts, **about, "index": start}.items():
            (source / f"{name}.md").write_text(text, encoding="utf-8")
        _sphinx(source, folder, Path(scratch) / "doctrees", title, additions, address)
        names += about
    pages = [folder / f"{name}.html" for name in (*names, "index")]
    for page in pages:  # in a table with row names, the corner cell is not a header
        page.write_text(page.read_text(encoding="utf-8").replace(_CORNER, "<td></td>"), encoding="utf-8")
    return pages


def _sphinx(source: Path, folder: Path, doctrees: Path, title: str, additions: Additions, address: str) -> None:
    """Run Sphinx on MyST text. Raises CourseError for any warning."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    log = io.StringIO()
    configuration = "".join(f"{name} = {value!r}\n" for name, value in _settings(title, additions, address).items())
    (source / "conf.py").write_text(configuration, encoding="utf-8")
    with warnings.catch_warnings(), patch_docutils(str(source)), docutils_namespace():  # leaves nothing behind
        warnings.simplefilter("ignore")  # deprecation warnings from its extensions are not the lesson's fault
        Sphinx(source, source, folder, doctrees, "html", status=None, warning=log, freshenv=True).build()
    logging.getLogger("sphinx").handlers.clear()  # otherwise a second site in this process would write to a closed stream
    wrong = _COLOUR.sub("", log.getvalue()).strip()
    if wrong:
        raise CourseError(f"attn book: expected lessons that make pages without a warning, got:\n{wrong[:2000]}")


def _settings(title: str, added: Additions, address: str) -> dict[str, Any]:
    return {
        "project": title,
        "html_title": title,
        "language": settings().language,
        "html_baseurl": address,
        "extensions": ["myst_parser", "sphinx_copybutton", "autograder.authoring.book"],
        "myst_enable_extensions": ["dollarmath", "amsmath"],
        "myst_heading_anchors": 3,
        "html_math_renderer": "mathml",
        "html_theme": "furo",
        "html_theme_options": {"navigation_with_keys": True},
        "html_static_path": [str(path) for path in dict.fromkeys((_STATIC, added.static))],
        "html_favicon": str(_STATIC / "favicon.svg"),
        "html_css_files": ["katex/katex.min.css", "book.css", *added.styles],
        "html_js_files": ["katex/katex.min.js", "book.js", *((name, {"type": "module"}) for name in added.scripts)],
        "html_copy_source": False,
        "html_show_sourcelink": False,
        "html_show_sphinx": False,
        "html_show_copyright": False,
        "html_use_index": False,
        "html_show_search_summary": False,  # would be fetched, which a page opened as a file may not do: see excerpts
        "pygments_style": "a11y-high-contrast-light",
        "pygments_dark_style": "a11y-high-contrast-dark",
        "copybutton_exclude": ".linenos, .gp, .go",
    }


def setup(app: Any) -> dict[str, Any]:
    """Register this module as a Sphinx extension: formulas become MathML, which KaTeX draws where scripts run."""
    inline, block = (partial(_put_maths, display=kind) for kind in ("inline", "block"))
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("html-page-context", _lead_along_the_core_path)
    app.connect("html-page-context", _describe)
    excerpts.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _lead_along_the_core_path(app: Any, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Link a core notebook's page to the previous and next core notebook, because Sphinx would lead through all workshops."""
    name = lesson_names.parse(page)
    if name is None or name.workshop:
        return
    core = sorted(other for other in app.env.found_docs if lesson_names.parse(other) and not lesson_names.is_workshop(other))
    at = core.index(page)
    for word, place in (("prev", at - 1), ("next", at + 1)):
        if 0 <= place < len(core):
            title = html.escape(app.env.titles[core[place]].astext())
            context[word] = {"link": app.builder.get_relative_uri(page, core[place]), "title": title}


def _describe(app: Any, page: str, _template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give the page a description and a card, for search engines and shared links."""
    from docutils import nodes

    paragraphs = [node.astext() for node in doctree.findall(nodes.paragraph)] if doctree is not None else []
    text: str = " ".join(next((text for text in paragraphs if len(text) > _SHORT), settings().title).split())
    title = re.sub(r"<[^>]+>", "", context.get("title", "")) or settings().title
    context["metatags"] = context.get("metatags", "") + card_tags(title, shortened(text), page, app.config.html_baseurl)


def shortened(text: str) -> str:
    """Return the beginning of `text`, at most as long as search engines show."""
    return text if len(text) <= _DESCRIBED else text[:_DESCRIBED].rsplit(" ", 1)[0] + "…"


def card_tags(title: str, text: str, page: str, address: str) -> str:
    """Return the `meta` elements that describe a page. Without `address`, where the site is published, there is no picture."""
    where = address.rstrip("/")
    properties = {"og:type": "website", "og:title": title, "og:description": text, "og:site_name": settings().title}
    if where:
        properties |= {"og:url": f"{where}/{page}.html", "og:image": f"{where}/{CARD}", "twitter:card": "summary_large_image"}
    tags = [f'<meta name="description" content="{html.escape(text)}">']
    tags += [f'<meta property="{name}" content="{html.escape(html.unescape(value))}">' for name, value in properties.items()]
    return "".join(tags)


def _put_maths(writer: Any, node: Any, *, display: str) -> None:
    from docutils.nodes import SkipNode
    from latex2mathml.converter import convert

    mathml, tex = convert(node.astext(), display=display), html.escape(node.astext(), quote=True)
    # focusable, so a keyboard can scroll a formula that is wider than the page
    writer.body.append(
        f'<div class="formula" tabindex="0" role="group" aria-label="formula" data-tex="{tex}">{mathml}</div>'
        if display == "block"
        else f'<span class="tex" data-tex="{tex}">{mathml}</span>'
    )
    raise SkipNode


def _entry(lesson: Lesson, live: Collection[str] = ()) -> str:
    """Return the start page's entry for a lesson: a link, its minutes, whether it is in `live`, and its question."""
    path = lesson.notebook_in(course_root() / "release")
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cells": [], "metadata": {}}
    stated = (_MINUTES.search("".join(cell["source"])) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    minutes = next((f" · {match[1]} min" for match in stated if match), "")
    question = notebook["metadata"].get("attn", {}).get("question", "")
    here = " · runs in the browser" if lesson.name in live else ""
    return f"**[]({lesson.name}.md)**{minutes}{here}" + (f"\\\n  {question}" if question else "")


def _index(
    names: Sequence[str], title: str, entries: Mapping[str, str], *, answers: bool, live: bool, about: Sequence[str]
) -> str:
    """Return the start page with the table of contents: the core path, with workshops indented below each core notebook.

    `entries` maps lesson names to their entries. `live` says that exercises which need only NumPy run on their pages.
    """
    numbered = [name for name in names if lesson_names.parse(name)]
    with_core = {lesson_names.chapter_of(name) for name in numbered if not lesson_names.is_workshop(name)}
    below = {name for name in numbered if lesson_names.is_workshop(name) and lesson_names.chapter_of(name) in with_core}
    contents, listed = "\n".join(name for name in names if name not in below), "\n".join(about)
    items = [textwrap.indent(f"- {entries.get(name, f'[]({name}.md)')}", "  " if name in below else "") for name in names]
    shown = "\n".join(items)
    folded = "code, hints and solutions are folded: try an exercise first" if answers else "code and hints are folded"
    return (
        f"# {title}\n\nYou can read every lesson here with its results. Drawing {folded}. "
        + ("Where a lesson runs in the browser, you can answer its exercises on its page. " if live else "")
        + f"To work in {'the others' if live else 'the lessons'} on your own machine, open them with `attn lab`."
        + (" The core path is a complete course; the indented pages are workshops to choose from." if below else "")
        + f"\n\n```{{toctree}}\n:hidden:\n:titlesonly:\n\n{contents}\n```\n\n{shown}\n"
        + (f"\n```{{toctree}}\n:caption: About the course\n:titlesonly:\n\n{listed}\n```\n" if about else "")
    )


def _workshops(lesson: Lesson, names: Sequence[str]) -> str:
    """Return the end of a core notebook's page: links to its chapter's workshops."""
    beside = [] if lesson.workshop else lesson_names.workshops_beside(names, lesson.name)
    listed = "\n".join(beside)
    return f"\n**Workshops of this chapter**\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n" if beside else ""


def _page(lesson: Lesson, additions: Additions) -> str:
    """Return the lesson as MyST text. Raises CourseError if it was never built."""
    folder, shown = course_root() / "source", course_root() / _SHOWN / f"{lesson.name}.json"
    if not lesson.notebook_in(folder).exists() and shown.exists():
        folder = course_root() / "release"
    source, probes = lesson.notebook_in(folder), lesson.pack_in(folder)
    if not source.exists():
        raise CourseError(f"expected {source}, found none. Run `attn build {lesson.name}`.")
    records = pack_file.load(probes).exercises if probes.exists() else {}
    text = source.read_text(encoding="utf-8")
    if shown.exists():
        text = _filled(text, json.loads(shown.read_text(encoding="utf-8")))
    cells = nbformat.reads(text, as_version=4).cells
    live = lesson.name in additions.live
    around, beside = (additions.exercise, additions.given) if live else (_together, _together)
    parts = [_cell(cell, records, around, beside, solved=not shown.exists()) for cell in cells]
    text = "\n\n".join(part for part in parts if part)
    if live:
        text = _FOR_SITE.sub(lambda match: match[1].strip(), text)
    if intro := additions.intro(lesson):
        text = re.sub(r"^# .+$", lambda title: f"{title[0]}\n\n{intro}", text, count=1, flags=re.MULTILINE)
    return re.sub(r"^# +", f"# {lesson.label} ", text, count=1, flags=re.MULTILINE) + "\n"


def _filled(released: str, shown: dict[str, list[Any]]) -> str:
    """Return a released notebook with the executed lesson's outputs.

    The cells that install packages or lead to the next lesson are left out, because the site doesn't need them.
    """
    notebook = json.loads(released)
    notebook["cells"] = [cell for cell in notebook["cells"] if not {INSTALL, NEXT} & {*cell["metadata"].get("tags", ())}]
    for cell in notebook["cells"]:
        if cell["id"] in shown:
            cell["outputs"] = shown[cell["id"]]
    return json.dumps(notebook)


def _cell(
    cell: Any,
    records: dict[str, AnyRecord],
    around: Callable[[Any, Sequence[str]], str],
    beside: Callable[[Any, Sequence[str]], str],
    *,
    solved: bool,
) -> str:
    """Return a cell as MyST text.

    `around` combines an exercise's task and hints, `beside` a given cell's code and outputs. `solved` means that the cells
    hold the reference's answers.
    """
    if cell.cell_type == "markdown":
        text = _COMPARE.sub("", _LESSON.sub(r"](\1.md)", cell.source))
        if not is_answer(cell):
            return text
        return "\n\n".join(filter(None, [around(cell, []), _folded("Model answer", text, "solution") if solved else ""]))
    if cell.cell_type != "code":
        return ""
    name = grade_id(cell)
    if is_answer(cell):
        record = records.get(str(name))
        given = enumerate(record.hints if record else (), start=1)
        hints = [_folded(f"Hint {level}: {hint_name(level).lower()}", hint, "hint") for level, hint in given]
        if not solved:
            return around(cell, [_code(cell.source), *hints])
        lines = [line for line in injected(cell).splitlines() if line.strip() not in (BEGIN, END)]
        solution = _folded("Solution", _code("\n".join(lines)), "solution")
        return "\n\n".join([around(cell, [*_task(injected(cell)), *hints]), solution, *_outputs(cell)])
    if exercise_of(cell):
        panel = "\n\n".join([_code(cell.source), *_outputs(cell)])
        return _folded("What the check says about this solution", panel, "check") if solved else ""
    code = _code(cell.source)
    if is_figure(cell):
        drawn = any(kind != "text/plain" for output in cell.get("outputs", []) for kind in output.get("data", {}))
        return "\n\n".join([_folded("Code of the figure" if drawn else "Code", code, "figure"), *_outputs(cell)])
    return beside(cell, [code, *_outputs(cell)])


def _task(source: str) -> list[str]:
    """Return what a learner finds in the answer cell of a function or class, its signature and docstring, as MyST text."""
    if not re.search(r"^(?:def|class) ", source, re.MULTILINE):
        return []
    return [_code(re.sub(rf"^( *){BEGIN}\n.*?{END}$", r"\1...", source, flags=re.MULTILINE | re.DOTALL))]


def _folded(summary: str, text: str, kind: str) -> str:
    return f'<details class="{kind}"><summary>{html.escape(summary)}</summary>\n\n{text}\n\n</details>'


def _code(source: str) -> str:
    return f"{FENCE}python\n{source}\n{FENCE}"


def _outputs(cell: Any) -> list[str]:
    """Return what the cell printed and showed, as HTML to insert unchanged."""
    out: list[str] = []
    for kind, outputs in groupby(cell.get("outputs", []), key=lambda output: output.output_type):
        if kind == "stream":
            printed = "".join(output.text for output in outputs)
            out += [_text(printed)] if printed else []
        elif kind == "error":
            out += [_text(f"{output.ename}: {output.evalue}") for output in outputs]
        else:
            out += [f"{FENCE}{{raw}} html\n{markup}\n{FENCE}" for output in outputs if (markup := _shown(output.data))]
    return out


def _shown(data: Any) -> str:
    text = "".join(data.get("text/plain", ""))
    if "interactive(" in text or "Box(children=" in text:
        return ""  # a panel that needs a kernel; the cell before it shows a slider's first frame
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            # the output may be wider than a phone, so it scrolls and is focusable
            return f"{_SCROLLED}{data[kind]}</div>"
    if "image/png" in data:
        known = "" if text.startswith("<") else text  # "<Figure size 640x480 with 1 Axes>" describes nothing
        picture = base64.b64encode(base64.b64decode(data["image/png"])).decode()
        return f'{_SCROLLED}<img alt="{html.escape(known)}" src="data:image/png;base64,{picture}"></div>'
    return f'<div class="{_printed(text)}"><pre>{html.escape(text)}</pre></div>' if text else ""


def _text(printed: str) -> str:
    text = _COLOUR.sub("", printed).rstrip()
    return f"{FENCE}{{code-block}} none\n:class: {_printed(text)}\n\n{text}\n{FENCE}"


def _printed(text: str) -> str:
    """Return the CSS classes for printed text.

    Columns must not wrap on a narrow page. Sentences may, and so may lines that are too long even for a desktop page.
    """
    columns = _COLUMNS.search(text) and max(map(len, text.splitlines())) <= PAGE_WIDTH
    return "printed aligned" if columns else "printed"
