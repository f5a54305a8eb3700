"""A stranger with the wheel and nothing else: a fresh environment, an empty folder, from there to solved lessons."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat
import pytest
from packaging.requirements import Requirement

from autograder.authoring.course import course_root, find_lesson
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import BEGIN, END, injected
from autograder.judging.exercise import Prediction
from autograder.notebooks.roles import exercise_of, grade_id, is_answer
from autograder.packs import pack_file

ROOT = course_root().parent
RIGHT = "def average_pool(V):\n    return V.mean(axis=0)"
MEGABYTES = 10  # what a learner downloads of ours

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stranger's environment is laid out as on POSIX")


def brought_by(extra: str) -> set[str]:
    """The names of all distributions that the course and this extra of it bring on this machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours: dict[str, list[str]] = {"": project["dependencies"], **project["optional-dependencies"]}
    left: list[Requirement] = [Requirement(f"attention-course[{extra}]")]
    seen = set[str]()
    while left:
        need = left.pop()
        if need.name == "attention-course":
            texts = [text for name in ("", *need.extras) for text in ours[name]]
        else:
            texts = metadata.requires(need.name) or []
        if str(need) not in seen:
            seen.add(str(need))
            for found in map(Requirement, texts):
                if found.marker is None or any(found.marker.evaluate({"extra": name}) for name in ("", *need.extras)):
                    found.marker = None
                    left.append(found)
    return {Requirement(text).name for text in seen} - {"attention-course"}


def link_jupyter(source: Path, target: Path) -> None:
    """Link Jupyter's files into `target`, where the wheel adds its own extension without writing into `source`."""
    (target / "labextensions").mkdir(parents=True)
    for path in [*source.iterdir(), *(source / "labextensions").iterdir()]:
        if not (place := target / path.relative_to(source)).exists() and path.name != "attn-exercises":
            place.symlink_to(path)


class Stranger:
    """A virtual environment that has the wheel and what its extra `learn` brings: this environment's packages, linked."""

    def __init__(self, home: Path, wheel: Path):
        self.home, self.wheel, self.venv = home, wheel, home / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True, timeout=120)
        site = next(self.venv.glob("lib/python*/site-packages"))
        for name in brought_by("learn"):
            for file in metadata.files(name) or ():
                if ".." not in file.parts and not (site / file.parts[0]).exists():
                    (site / file.parts[0]).symlink_to(metadata.distribution(name).locate_file(file.parts[0]))
        link_jupyter(Path(sysconfig.get_path("data")) / "share" / "jupyter", self.venv / "share" / "jupyter")
        python = self.venv / "bin" / "python"
        command = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        self.course = site / "attention_course" / "course"
        places = {f"JUPYTER_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
        away = ("PYTHONPATH", "VIRTUAL_ENV", "ATTN_COURSE")
        self.env = {**{name: value for name, value in os.environ.items() if name not in away}, **places}
        self.env |= {"BROWSER": "true", "JUPYTERLAB_SETTINGS_DIR": str(home / "settings")}

    def folder(self, name: str) -> Path:
        """A new empty folder."""
        made = self.home / name
        made.mkdir()
        return made

    def run(self, folder: Path, *command: str, expect: int = 0) -> str:
        """What a command of the environment (`attn`, `python`) says in `folder`."""
        program = [str(self.venv / "bin" / command[0]), *command[1:]]
        done = subprocess.run(program, cwd=folder, env=self.env, capture_output=True, text=True, timeout=280)
        assert done.returncode == expect, f"{command}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout + done.stderr

    @contextmanager
    def lab(self, folder: Path, port: int, *words: str) -> Iterator[str]:
        """`attn lab` in `folder`: the address that it prints."""
        log = self.home / f"lab-{port}.txt"
        command = [str(self.venv / "bin" / "attn"), "lab", *words, "--no-browser", "--port", str(port)]
        with log.open("w") as out:
            server = subprocess.Popen(command, cwd=folder, env=self.env, stdout=out, stderr=out, start_new_session=True)
        try:
            until = time.monotonic() + 120
            while not (found := re.search(r"http://(?:localhost|127\.0\.0\.1):\S+token=\S+", log.read_text(encoding="utf-8"))):
                assert server.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < until, log.read_text(encoding="utf-8")
                time.sleep(0.1)
            yield found[0]
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)


def _answers_at(address: str) -> bool:
    """Whether a page comes from `address`, which a server prints a moment before it listens."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(address, timeout=30) as page:
                return bool(page.status == 200)
        except OSError:
            time.sleep(0.2)
    return False


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    home = tmp_path_factory.mktemp("stranger")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(home / "dist"), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    (wheel,) = (home / "dist").glob("*.whl")
    yield Stranger(home, wheel)
    shutil.rmtree(home, ignore_errors=True)


def test_the_wheel_holds_what_a_learner_gets_and_no_answer(stranger: Stranger) -> None:
    assert stranger.wheel.stat().st_size < MEGABYTES << 20
    with zipfile.ZipFile(stranger.wheel) as archive:
        names = archive.namelist()
        held = [name for name in names if name.startswith("attention_course/course/")]
        released = [path for path in (ROOT / "course" / "release").rglob("*") if path.is_file()]
        executed = [path.stem for path in (ROOT / "course" / "source").glob("*/*.ipynb")]
        assert len(held) == len(released) + len(executed) + 2  # what they show; course.toml and appendix.md
        packs = [name for name in names if name.endswith(pack_file.SUFFIX)]
        assert packs == [name for name in held if name.endswith(pack_file.SUFFIX)]  # the visible ones alone
        for name in held:
            assert BEGIN not in archive.read(name).decode("utf-8", "replace")
    foreign = ("solutions", "course/", "tests/", "exercises", "attention_course/course/source", "attention_course/course/lessons")
    assert [name for name in names if name.startswith(foreign) or ".secret" in name] == []


def test_any_jupyterlab_of_the_environment_finds_the_buttons(stranger: Stranger) -> None:
    """As on a hub and in Binder, where `attn lab` does not start it."""
    said = stranger.run(stranger.folder("plain"), "python", "-m", "jupyterlab.labextensions", "list")
    assert re.search(r"attn-exercises v[\d.]+ .*enabled.*OK", said), said


def test_from_an_empty_folder_to_a_green_check(
    stranger: Stranger, new_port: Callable[[], int], set_answer: Callable[[Path, str, str], None]
) -> None:
    folder = stranger.folder("empty")
    where = "import attention_course, autograder; print(attention_course.__file__, autograder.__file__)"
    assert str(ROOT) not in stranger.run(folder, "python", "-c", where).replace(sysconfig.get_path("purelib"), "")
    with stranger.lab(folder, new_port()) as address:
        assert "/lab/tree/index.ipynb" in address
        assert _answers_at(address)
    work = folder / "work"
    assert len(list(work.glob("[0-9][0-9]*_*/*.ipynb"))) == len(list((ROOT / "course" / "release").glob("*/*.ipynb")))
    assert (work / "appendix.md").read_text(encoding="utf-8") == (ROOT / "course" / "appendix.md").read_text(encoding="utf-8")
    path = work / "00_start_here" / "00_start_here.ipynb"
    set_answer(path, "predict_shape", 'predict_shape = "b"')
    set_answer(path, "average_pool", RIGHT)
    assert "2 of 2 checks pass" in stranger.run(folder, "attn", "check")
    assert "✓" in stranger.run(work, "attn", "status")  # progress is kept, and found from inside of the workspace


def test_a_new_wheel_brings_its_lessons_and_keeps_what_was_written(
    stranger: Stranger, set_answer: Callable[[Path, str, str], None]
) -> None:
    folder = stranger.folder("update")
    prepare = "from autograder.workspace import folder; print(folder.prepare(None))"
    assert stranger.run(folder, "python", "-c", prepare).strip() == str(folder / "work")
    assert stranger.run(folder / "work", "python", "-c", prepare).strip() == str(folder / "work")  # not a second one inside
    path = folder / "work" / "00_start_here" / "00_start_here.ipynb"
    set_answer(path, "average_pool", RIGHT)
    installed = stranger.course / "release" / "00_start_here" / "00_start_here.ipynb"
    before, appendix = installed.read_bytes(), (stranger.course / "appendix.md").read_bytes()
    try:
        notebook = nbformat.reads(before.decode(), as_version=4)
        notebook.cells[0].source += "\n\nA newer sentence."
        nbformat.write(notebook, installed)
        (stranger.course / "appendix.md").write_text("# Newer\n", encoding="utf-8")
        stranger.run(folder, "attn", "update")
    finally:
        installed.write_bytes(before)
        (stranger.course / "appendix.md").write_bytes(appendix)
    text = path.read_text(encoding="utf-8")
    assert "A newer sentence." in text
    assert "V.mean(axis=0)" in text
    assert (folder / "work" / "appendix.md").read_text(encoding="utf-8") == "# Newer\n"


ALONE = """
import nbformat, sys
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
for cell in notebook.cells:
    if cell.metadata.get("nbgrader", {}).get("grade_id") == "average_pool":
        cell.source = sys.argv[2]
notebook.cells.append(nbformat.v4.new_code_cell('from autograder import hint; hint("average_pool")'))
notebook.cells.append(nbformat.v4.new_code_cell('hint("average_pool")'))
NotebookClient(notebook, timeout=60, resources={"metadata": {"path": "."}}, allow_errors=True).execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("ename", ""), output.get("data", {}).get("text/plain", ""), output.get("data", {}).get("text/html", ""))
"""


def test_a_notebook_that_stands_alone_finds_its_pack_and_its_hints_in_the_wheel(stranger: Stranger) -> None:
    folder = stranger.folder("download")
    name = "00_start_here.ipynb"
    shutil.copyfile(ROOT / "course" / "release" / "00_start_here" / name, folder / name)
    said = stranger.run(folder, "python", "-c", ALONE, name, RIGHT)
    assert "Correct" in said
    assert "Hint 1 of 3" in said
    assert "Hint 2 of 3" in said
    assert "Error" not in said
    assert [path.name for path in folder.iterdir() if path.name != ".ipynb_checkpoints"] == [name]  # nothing was left there


@pytest.mark.slow
def test_a_learner_makes_the_book_with_every_figure_and_no_answer(stranger: Stranger) -> None:
    folder = stranger.folder("reader")
    stranger.run(folder, "python", "-c", "import nbgrader", expect=1)  # what `learn` does not bring is not there
    assert f"open {folder / 'book' / 'index.html'}" in stranger.run(folder, "attn", "book")
    assert [path.name for path in folder.iterdir()] == ["book"]
    for executed in (ROOT / "course" / "source").glob("*/*.ipynb"):
        text = (folder / "book" / f"{executed.stem}.html").read_text(encoding="utf-8")
        cells = nbformat.read(executed, as_version=4).cells
        own = [cell for cell in cells if cell.cell_type == "code" and not is_answer(cell) and not exercise_of(cell)]
        kinds = [kind for cell in own for output in cell.outputs for kind in output.get("data", {})]
        assert text.count('<div class="output"') >= kinds.count("image/png") + kinds.count("image/svg+xml")
        assert text.count('<details class="hint">') > 0
        assert 'class="solution"' not in text
        assert "BEGIN SOLUTION" not in text


def test_without_a_workspace_each_command_says_so_in_two_lines(stranger: Stranger) -> None:
    folder = stranger.folder("nothing")
    for command in ("status", "check", "update", "export-answers", "build"):
        said = stranger.run(folder, "attn", command, expect=2)
        assert said.startswith("attn: expected "), said
        assert said.count("\n") <= 2, said
    said = stranger.run(folder, "python", "-c", "from autograder import check; check('no_such_name')", expect=1)
    assert "expected an exercise" in said.splitlines()[-1]
    assert len(said.splitlines()[-1]) < 400


IN_CELLS = """
import nbformat, sys
from nbclient import NotebookClient
cells = [nbformat.v4.new_code_cell(source) for source in sys.argv[1:]]
notebook = nbformat.v4.new_notebook(cells=cells)
NotebookClient(notebook, timeout=60, resources={"metadata": {"path": "."}}, allow_errors=True).execute()
for cell in cells:
    for output in cell.outputs:
        print("\\n".join(output.get("traceback", [output.get("data", {}).get("text/plain", "")])))
    print("\\n-----")
"""


@pytest.mark.slow
def test_wrong_roads_end_in_two_lines(stranger: Stranger) -> None:
    folder = stranger.folder("wrong")
    stranger.run(folder, "attn", "lab", "--prepare")
    lesson = folder / "work" / "00_start_here"
    sources = ["from autograder import check, hint, solution", RIGHT, "def average_pool(V):\n    return V.mean(axis=0"]
    wrong = {
        'check("average_pool")': "does not compile",
        'check("average_pol")': "Did you mean 'average_pool'",
        "check(7)": "expected the name of an exercise",
        'hint("averge_pool")': "Did you mean 'average_pool'",
        'solution("average_pool")': "your own answer comes first",
    }
    said = stranger.run(lesson, "python", "-c", IN_CELLS, *sources, *wrong).split("\n-----\n")[len(sources) :]
    for text, (source, meant) in zip(said, wrong.items(), strict=False):
        assert meant in text, (source, text)
        assert len(text.strip().splitlines()) <= 2, text
    for command, meant in {
        ("chek",): "Did you mean `attn check`?",
        ("check", "averge_pool"): "Did you mean",
        ("lab", "soft"): "",
    }.items():
        text = stranger.run(folder, "attn", *command, expect=2)
        assert meant in text
        assert len(text.splitlines()) <= 2, text


# ------------------------------------------------------------------------------------------------ through the browser


OPEN = ".jp-NotebookPanel:not(.lm-mod-hidden)"  # of several tabs the one that is seen


class Page:
    """A lesson's notebook in JupyterLab; every cell is drawn, so each is found by its place in the release."""

    def __init__(self, page: Any, address: str, released: Any):
        self.page, self.released = page, released
        page.goto(address)
        page.locator(f"{OPEN} .jp-CodeCell").first.wait_for(timeout=60_000)
        page.locator("#jp-main-statusbar", has_text="| Idle").wait_for(timeout=60_000)

    def cell(self, index: int) -> Any:
        found = self.page.locator(f"{OPEN} .jp-Cell").nth(index)
        found.scroll_into_view_if_needed()
        return found

    def click(self, index: int, where: str) -> None:
        """Make a cell the active one: outputs above it still grow, and then a click may land in another cell."""
        from playwright.sync_api import TimeoutError as Late

        active = self.cell(index).and_(self.page.locator(".jp-mod-active"))
        for _ in range(5):
            self.cell(index).locator(where).click()
            with contextlib.suppress(Late):
                return active.wait_for(timeout=5_000)
        raise AssertionError(f"cell {index} does not become the active one")

    def write(self, index: int, source: str) -> None:
        self.click(index, ".cm-content")
        self.page.wait_for_selector(".jp-Cell.jp-mod-active .cm-content:focus")
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def run(self, index: int) -> None:
        hidden = self.released.cells[index].metadata.get("jupyter", {}).get("source_hidden")
        self.click(index, ".jp-InputPrompt" if hidden else ".cm-content")
        self.page.keyboard.press("Control+Enter")

    def verdict(self, index: int, *words: str) -> str:
        """The panel below a check, once it says one of `words`."""
        from playwright.sync_api import TimeoutError as Late

        panel = self.cell(index).locator(".attn-panel", has_text=re.compile("|".join(words)))
        try:
            panel.wait_for(timeout=120_000)
        except Late:
            cells = [self.cell(place).inner_text() for place in range(max(0, index - 2), index + 1)]
            raise AssertionError(f"expected a panel with {words} below cell {index}, got:\n" + "\n---\n".join(cells)) from None
        return str(panel.inner_text())


def _answers(lesson: str) -> dict[str, str]:
    """What the reference answers, by exercise: the source without its marks, the right letter of a prediction."""
    found = find_lesson(lesson)
    cells = {str(grade_id(cell)): cell for cell in read_lesson(found).cells if cell.cell_type == "code" and is_answer(cell)}
    answers = {}
    for name, cell in cells.items():
        lines = [line for line in injected(cell).splitlines() if line.strip() not in (BEGIN, END)]
        answers[name] = "\n".join(lines)
    return answers


def _solve(page: Page, lesson: str, *, blank_first: bool) -> list[str]:
    """Go through the notebook from top to bottom as a learner does; the panels of its checks."""
    answers, panels, pending = _answers(lesson), [], ""
    for index, cell in enumerate(page.released.cells):
        if cell.cell_type != "code":
            continue
        name = grade_id(cell)
        if is_answer(cell):
            pending = str(name)
            page.run(index)  # as released
            if not blank_first:
                page.write(index, answers[pending])
                page.run(index)
            at = index
        elif exercise := exercise_of(cell):
            page.run(index)
            if blank_first:
                assert exercise == pending
                page.verdict(index, "not started", "not yet")
                page.write(at, answers[exercise])
                page.run(at)
                page.run(index)
            panels.append(page.verdict(index, "passed"))
        else:
            page.run(index)
    return panels


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(900)
def test_lessons_are_solved_in_a_browser_and_each_panel_is_read(
    stranger: Stranger, new_port: Callable[[], int], browser: Any
) -> None:
    folder = stranger.folder("browser")
    settings = stranger.home / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"windowingMode": "none"}')  # every cell is in the page, also those far below
    with stranger.lab(folder, new_port()) as address:
        for lesson in ("00_start_here", "01_soft_lookup", "05_multi_head"):
            there = re.sub(r"tree/.*\?", f"tree/{lesson}/{lesson}.ipynb?", address)
            released = nbformat.read(ROOT / "course" / "release" / lesson / f"{lesson}.ipynb", as_version=4)
            records = pack_file.load(next((ROOT / "course" / "release" / lesson).glob(f"*{pack_file.SUFFIX}"))).exercises
            view = browser.new_page(viewport={"width": 1400, "height": 1000})
            panels = _solve(Page(view, there, released), lesson, blank_first=lesson < "05")
            assert len(panels) == len(records)
            for record in records.values():
                (panel,) = [text for text in panels if f"passed \N{NO-BREAK SPACE}{record.title}\n" in text]
                assert "Correct" in panel or isinstance(record, Prediction)
                assert "Traceback" not in panel
            assert f"{len(records)} of {len(records)} exercises of this lesson done" in panels[-1]
            view.keyboard.press("Control+s")
            view.wait_for_timeout(500)
            view.close()
    said = stranger.run(folder, "attn", "status")
    assert "05" in said
