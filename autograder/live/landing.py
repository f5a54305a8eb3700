"""Write the live book's landing page: a promise, a figure that moves, one exercise that runs in the page, and the chapters.

The words, the figure and the exercise come from the course (`front_door.py` in its folder). The book's list of lessons,
which Sphinx calls `index.html`, moves to `contents.html`.
"""

import html
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from string import Template

import nbformat

from autograder.authoring import book, excerpts
from autograder.authoring.course import Lesson, by_chapter, settings
from autograder.authoring.front_door import MODULE, FrontDoor
from autograder.authoring.readme_tables import hours, objectives
from autograder.authoring.workload import minutes
from autograder.diagnosis import panel
from autograder.live import packing
from autograder.notebooks.roles import is_answer
from autograder.packs import pack_file

CONTENTS = "contents.html"
_PAGE = Path(__file__).with_name("landing.html")
_BRAND = re.compile(r'(<a class="sidebar-brand[^>]*href=")#(")')
_HOME = re.compile(r'(<div class="header-center">\s*<a href=")#(")')


def write(
    door: FrontDoor,
    lessons: Sequence[Lesson],
    live: Collection[str],
    folder: Path,
    *,
    files: str,
    pyodide: str,
    repository: str,
    address: str,
    pages: Mapping[str, str],
) -> list[Path]:
    """Write the landing page into the book in `folder`, and return the page of contents, whose place it takes, and itself.

    `live` names the lessons that run in the page; `files` and `pyodide` are addresses relative to the page. `repository` is
    the address of the course's repository, and `address` the one at which the site will be published. `pages` maps names of
    other pages (`teaching`, `learning`, `lite`) to addresses.
    """
    door.write_lesson(folder / files / "lessons" / MODULE)
    first = (folder / "index.html").read_text(encoding="utf-8")
    for pattern in (_BRAND, _HOME):
        first = pattern.sub(r"\1index.html\2", first)
    (folder / CONTENTS).write_text(first, encoding="utf-8")
    _rename_in_search(folder)
    (folder / book.CARD).write_bytes(door.card())
    title, begin = settings().title, _first(lessons, live)
    data = {
        "next": f"{begin.name}.html",
        "title": f"{begin.label} {begin.title}",
        "lesson": MODULE,
        "course": title,
        "pack": f"{MODULE}{pack_file.SUFFIX}",
        "pyodide": pyodide,
        "files": files,
        "alone": "",  # an exercise without a lesson: nothing to take home
    }
    links = [(CONTENTS, "Lessons"), *((pages[name], name.capitalize()) for name in ("learning", "teaching") if name in pages)]
    links += [(repository, "Source")] if repository else []
    hints = "".join(
        f'<details class="hint"><summary>Hint {i}</summary><p>{panel.inline(hint)}</p></details>'
        for i, hint in enumerate(door.exercise.hints, 1)
    )
    page = Template(_PAGE.read_text(encoding="utf-8")).substitute(
        language=settings().language,
        title=html.escape(title),
        description=book.card_tags(title, book.shortened(f"{door.promise} {door.lead}"), "index", address),
        links="".join(f'<a href="{html.escape(to, quote=True)}">{word}</a>' for to, word in links),
        promise=html.escape(door.promise),
        lead=html.escape(door.lead),
        figure=door.figure_html(),
        caption=html.escape(door.caption),
        marks=" ".join(f'data-{name}="{html.escape(value, quote=True)}"' for name, value in data.items()),
        exercise=html.escape(door.exercise.id, quote=True),
        task=html.escape(door.task),
        setup=html.escape(door.setup),
        start=html.escape(door.start),
        hints=hints,
        doors=_doors(lessons, live, repository, pages),
        chapters=_chapters(lessons, live),
        hours=_hours(lessons),
        files=files,
    )
    (folder / "index.html").write_text(page, encoding="utf-8")
    return [folder / CONTENTS, folder / "index.html"]


def _rename_in_search(folder: Path) -> None:
    """Redirect search results on the list of lessons to its new place."""
    name = Path(CONTENTS).stem
    for path, before in ((folder / "searchindex.js", r'"docnames":\[[^\]]*'), (folder / "_static" / excerpts.DATA, r"[{,]")):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf'({before})"index"', rf'\1"{name}"', text, count=1), encoding="utf-8")


def _first(lessons: Sequence[Lesson], live: Collection[str]) -> Lesson:
    return next((lesson for lesson in lessons if lesson.name in live), lessons[0])


def _doors(lessons: Sequence[Lesson], live: Collection[str], repository: str, pages: Mapping[str, str]) -> str:
    """Return the three ways to start, as HTML."""
    first = _first(lessons, live).name
    opened = f"lab/index.html?path={first}/{first}.ipynb"  # JupyterLab's own start page says nothing about the course
    lite = f' or in <a href="{pages["lite"]}{opened}">JupyterLab in a tab</a>' if "lite" in pages else ""
    clone = f"git clone {repository or 'ADDRESS-OF-THE-REPOSITORY'} course\ncd course\nmake lab"
    return "".join(
        (
            '<section class="door"><h2>Try it in the browser</h2>'
            f"<p>{len(live)} of {len(lessons)} notebooks run right here{lite}. There is nothing to install, and nothing that you "
            "write leaves your machine.</p>"
            f'<p><a class="door-go" href="{first}.html">Start with the first lesson</a></p></section>',
            '<section class="door"><h2>Install it</h2><p>All notebooks, on your own machine. You need Python 3.11 or newer, git '
            f'and make.</p><pre tabindex="0"><code>{html.escape(clone)}</code></pre>'
            + (f'<p><a href="{pages["learning"]}">Other ways to install</a></p>' if "learning" in pages else "")
            + "</section>",
            '<section class="door"><h2>Teach with it</h2><p>A course for nbgrader, with a grader that runs students’ code in a '
            "sandbox and reports who misunderstood what.</p>"
            + (f'<p><a href="{pages["teaching"]}">How a class is graded</a></p>' if "teaching" in pages else "")
            + "</section>",
        )
    )


def _chapters(lessons: Sequence[Lesson], live: Collection[str]) -> str:
    """Return the map as HTML: a row for each chapter, with its core notebook and then its workshops."""
    rows = []
    for number, notebooks in by_chapter(lessons).items():
        core = "".join(_core(lesson, live) for lesson in notebooks if not lesson.workshop)
        workshops = "".join(f"<li>{_link(lesson, live)}</li>" for lesson in notebooks if lesson.workshop)
        below = f'<ul class="workshops">{workshops}</ul>' if workshops else ""
        rows.append(f'<li><span class="number" aria-hidden="true">{number:02d}</span><div>{core}{below}</div></li>')
    return "".join(rows)


def _core(lesson: Lesson, live: Collection[str]) -> str:
    about = panel.inline(objectives(lesson)[0])
    return f'<p class="core">{_link(lesson, live)}</p><p class="about">{about[:1].upper()}{about[1:]}</p>'


def _link(lesson: Lesson, live: Collection[str]) -> str:
    """Return the lesson's title as a link, with its minutes and whether it runs in a browser."""
    here = " · runs in the browser" if lesson.name in live else ""
    title = html.escape(lesson.title)
    # the page's script adds how many checks a returning reader has passed
    progress = f' data-lesson="{lesson.name}" data-checks="{_checks(lesson)}"' if lesson.name in live else ""
    return f'<a href="{lesson.name}.html">{title}</a> <span class="minutes"{progress}>{minutes(lesson)}&nbsp;min{here}</span>'


def _checks(lesson: Lesson) -> int:
    """Return the number of answers in code, which the lesson's page checks."""
    cells = nbformat.read(packing.released(lesson) / f"{lesson.name}.ipynb", as_version=4).cells
    return sum(is_answer(cell) and cell.cell_type == "code" for cell in cells)


def _hours(lessons: Sequence[Lesson]) -> str:
    core, workshops = hours(lessons)
    text = f"The core path is a complete course of {core} hours."
    if any(lesson.workshop for lesson in lessons):
        text += f" Workshops go deeper into a chapter, and you can skip any of their {workshops} hours."
    return text
