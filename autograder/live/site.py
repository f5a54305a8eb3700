"""Build the live book: an editor, *Check*, *Hint* and *Reset* at each exercise that a browser can run (`attn book --live`)."""

import html
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.authoring import book, front_door, site_docs
from autograder.authoring.course import Lesson, course_root
from autograder.grading.reports.templates import template
from autograder.live import landing, packing, pyodide
from autograder.live.needed_cells import name_of
from autograder.notebooks.roles import grade_id

STATIC = Path(__file__).with_name("static")
FILES = "live"  # the site's folder with Python, the engine and the notebooks
BUNDLE = "engine.zip"
DATA = "data.zip"  # only given cells need it, so it is fetched when a reader runs one


def build(
    lessons: Sequence[Lesson],
    folder: Path,
    *,
    pyodide_folder: Path | None = None,
    repository: str = "",
    address: str = "",
    lite: str = "",
) -> list[Path]:
    """Write the live book into `folder` and return its pages, the start page last.

    `repository` is the GitHub address (https://github.com/OWNER/NAME) with which pages of PyTorch notebooks link to Colab
    and Binder, `address` the one where the site will be published, and `lite` the folder of its JupyterLite version.
    """
    live = [lesson for lesson in lessons if packing.runs_in_browser(lesson)]
    runtime_folder = pyodide.find(pyodide_folder)
    runtime = f"{FILES}/pyodide/" if runtime_folder else pyodide.CDN
    names = frozenset(lesson.name for lesson in live)
    about = {
        "repository": repository.removeprefix("https://github.com/").strip("/"),
        "guide": "learning" in site_docs.pages(course_root().parent / "docs"),
    }

    def note(lesson: Lesson) -> str:
        """Return the note below a title: how to answer here or, if a browser can't run the notebook, where to work on it."""
        data = landing.page_data(lesson.name, lesson.pack_in(folder).name, runtime, f"{FILES}/")
        page = template("note.html", Path(__file__).parent)
        text = page.render(lesson=lesson, data=data if lesson.name in names else None, **about)
        return f"{book.FENCE}{{raw}} html\n{text}\n{book.FENCE}"

    with tempfile.TemporaryDirectory() as scratch:
        static = Path(scratch)
        shutil.copytree(STATIC, static / FILES)
        additions = book.Additions(
            static=static,
            styles=(f"{FILES}/live.css",),
            scripts=(f"{FILES}/page.js",),
            exercise=_exercise,
            intro=note,
            given=_given,
            live=names,
        )
        written = book.build(lessons, folder, additions, repository=repository, address=address)
    files = folder / FILES
    shutil.rmtree(files, ignore_errors=True)
    engine = packing.bundle(live)
    packing.write_zip(engine, files / BUNDLE)
    everything = packing.bundle(live, data=True)
    packing.write_zip({path: everything[path] for path in everything.keys() - engine.keys()}, files / DATA)
    for lesson in live:
        shutil.copytree(packing.released(lesson), files / "lessons" / lesson.name)
    if runtime_folder:
        pyodide.copy(runtime_folder, files / "pyodide", packing.IN_PYODIDE)
    door = front_door.find()
    if door is None:
        return written
    pages = {name: f"{name}.html" for name in ("learning", "teaching") if (folder / f"{name}.html").exists()}
    pages |= {"lite": f"{lite}/"} if lite else {}
    first = landing.write(
        door, lessons, names, folder, files=f"{FILES}/", pyodide=runtime, repository=repository, address=address, pages=pages
    )
    return [*written[:-1], *first]


def _exercise(cell: Any, task: Sequence[str]) -> str:
    """Return task and hints in the element that the page's script makes an exercise. They are readable without the script."""
    name, kind = html.escape(str(grade_id(cell)), quote=True), "code" if cell.cell_type == "code" else "words"
    text = "\n\n".join(task)
    return f'<div class="live-exercise" data-exercise="{name}" data-kind="{kind}">\n\n{text}\n\n</div>'


def _given(cell: Any, parts: Sequence[str]) -> str:
    """Return a given cell and its outputs. If these are text or drawings, the page's script lets a reader edit and run it."""
    text = "\n\n".join(parts)
    kinds = {kind for output in cell.get("outputs", []) for kind in output.get("data", {"text": ""})}
    if len(parts) == 1 or not kinds <= {"text", "text/plain", "image/svg+xml"}:
        return text
    return f'<div class="live-cell" data-cell="{html.escape(name_of(cell), quote=True)}">\n\n{text}\n\n</div>'
