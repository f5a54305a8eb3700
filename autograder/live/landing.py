"""Write the live book's landing page: a promise, a figure that moves, one exercise that runs in the page, and the chapters.

The words, the figure and the exercise come from the course (`front_door.py` in its folder). The book's list of lessons,
which Sphinx calls `index.html`, moves to `contents.html`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring import book, excerpts
from autograder.authoring.course import Lesson, by_chapter, settings
from autograder.authoring.front_door import MODULE, FrontDoor
from autograder.authoring.readme_tables import hours, objectives
from autograder.authoring.workload import minutes
from autograder.grading.reports.templates import template
from autograder.live import packing
from autograder.notebooks.roles import is_answer
from autograder.packs import pack_file

CONTENTS = "contents.html"
_BRAND = re.compile(r'(<a class="sidebar-brand[^>]*href=")#(")')
_HOME = re.compile(r'(<div class="header-center">\s*<a href=")#(")')


def write(door: FrontDoor, lessons: Sequence[Lesson], live: Collection[str], folder: Path, **about: Any) -> list[Path]:
    """Write the landing page as the start page of the book in `folder`. Returns the renamed contents page and the new page.

    See `render` for the other arguments.
    """
    door.write_lesson(folder / about["files"] / "lessons" / MODULE)
    first = (folder / "index.html").read_text(encoding="utf-8")
    for pattern in (_BRAND, _HOME):
        first = pattern.sub(r"\1index.html\2", first)
    (folder / CONTENTS).write_text(first, encoding="utf-8")
    _rename_in_search(folder)
    (folder / book.CARD).write_bytes(door.card())
    (folder / "index.html").write_text(render(door, lessons, live, **about), encoding="utf-8")
    return [folder / CONTENTS, folder / "index.html"]


def render(
    door: FrontDoor,
    lessons: Sequence[Lesson],
    live: Collection[str],
    *,
    files: str,
    pyodide: str,
    repository: str,
    address: str,
    pages: Mapping[str, str],
) -> str:
    """Return the landing page.

    `live` names the lessons that run in the page; `files` and `pyodide` are addresses relative to the page. `repository` is
    the address of the course's repository, and `address` the one at which the site will be published. `pages` maps names of
    other pages (`teaching`, `learning`, `lite`) to addresses.
    """
    title, first = settings().title, next((lesson for lesson in lessons if lesson.name in live), lessons[0])
    data = page_data(MODULE, f"{MODULE}{pack_file.SUFFIX}", pyodide, files)
    data |= {"data-next": f"{first.name}.html", "data-title": f"{first.label} {first.title}"}
    data |= {"data-alone": ""}  # an exercise without a lesson: nothing to take home
    return template("landing.html", Path(__file__).parent).render(
        door=door,
        lessons=lessons,
        live=live,
        files=files,
        repository=repository,
        pages=pages,
        contents=CONTENTS,
        title=title,
        first=first.name,
        data=data,
        language=settings().language,
        description=book.card_tags(title, book.shortened(f"{door.promise} {door.lead}"), "index", address),
        chapters=by_chapter(lessons),
        hours=hours(lessons),
        minutes=minutes,
        objectives=objectives,
        checks=_checks,
    )


def page_data(lesson: str, pack: str, pyodide: str, files: str) -> dict[str, str]:
    """Return what a page tells its script, as attributes of an element: its lesson, and the addresses of the files to load."""
    data = {"lesson": lesson, "course": settings().title, "pack": pack, "pyodide": pyodide, "files": files}
    return {f"data-{name}": value for name, value in data.items()}


def _rename_in_search(folder: Path) -> None:
    """Make search results for the list of lessons lead to its new address."""
    name = Path(CONTENTS).stem
    for path, before in ((folder / "searchindex.js", r'"docnames":\[[^\]]*'), (folder / "_static" / excerpts.DATA, r"[{,]")):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf'({before})"index"', rf'\1"{name}"', text, count=1), encoding="utf-8")


def _checks(lesson: Lesson) -> int:
    """Return the number of the lesson's answers in code, which its page checks."""
    cells = nbformat.read(packing.released(lesson) / f"{lesson.name}.ipynb", as_version=4).cells
    return sum(is_answer(cell) and cell.cell_type == "code" for cell in cells)
