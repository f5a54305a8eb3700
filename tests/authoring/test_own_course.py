"""The engine on a course that has nothing to do with attention: made, built, learnt and graded, from the wheel."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.course import CourseError, course_root
from autograder.authoring.settings import example, read
from autograder.notebooks.roles import grade_id
from autograder.sandbox.isolation_tiers import available_tiers
from tests.authoring import own_course as texts

ISOLATED = any(tier.available for tier in available_tiers() if tier.name != "none")
needs_sandbox = pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine")
LESSON = "02_spektrum"
pytestmark = pytest.mark.slow


class Course:
    """A course folder, and `attn` of the wheel in it."""

    def __init__(self, folder: Path, site: Path):
        self.folder, self.root = folder, folder / "course"
        self.env = {name: value for name, value in os.environ.items() if name not in ("ATTN_COURSE", "PYTHONPATH")}
        self.env |= {"PYTHONPATH": str(site), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def attn(self, *words: str, expect: int = 0) -> str:
        command = [sys.executable, "-P", "-m", "autograder.cli", *words]
        done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=280)
        assert done.returncode == expect, f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout + done.stderr

    def submit(self, student: str, **answers: str) -> None:
        notebook = nbformat.read(self.root / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)
        for cell in notebook.cells:
            if grade_id(cell) in answers:
                cell.source = answers[str(grade_id(cell))]
        path = self.root / "submitted" / student / LESSON / f"{LESSON}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    place = tmp_path_factory.mktemp("own")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(course_root().parent)]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "site")
    (place / "empty").mkdir()
    made = Course(place / "empty", place / "site")
    made.attn("init", "signale", "--title", texts.TITLE)
    made.folder /= "signale"
    made.root = made.folder / "course"
    yield made
    shutil.rmtree(place, ignore_errors=True)


def _write(course: Course) -> None:
    shutil.rmtree(course.folder / "solutions")
    files = {
        course.root / "course.toml": texts.SETTINGS,
        course.root / "given" / "signal_tools.py": texts.GIVEN,
        course.root / "lessons" / f"{LESSON}.md": texts.LESSON,
        course.root / "exercises" / "spektrum.py": texts.EXERCISES,
        course.folder / "antworten" / "spektrum.py": texts.ANSWERS,
    }
    for path in (course.root / "lessons" / "01_first.md", course.root / "exercises" / "first.py"):
        path.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_what_init_makes_builds_and_verifies_as_it_is(course: Course) -> None:
    assert "01_first: wrote packs.json" in course.attn("build")
    assert "100.0%" in course.attn("verify")
    course.attn("build", "--check")
    course.attn("new-lesson", "03_more")
    assert "from solutions.more import double" in (course.root / "lessons" / "03_more.md").read_text()
    assert "it is there" in course.attn("init", ".", expect=2)
    for path in [*course.root.glob("*/*more*"), *course.folder.glob("*/*more*")]:
        path.unlink()


def test_another_course_is_built_and_verified(course: Course) -> None:
    _write(course)
    course.attn("build")
    course.attn("build", "--check")
    verdict = json.loads(course.attn("verify", "--json"))
    assert (verdict["misconceptions"], verdict["caught"], verdict["blank_zero"]) == (3, 3, True)
    release = (course.root / "release" / LESSON / f"{LESSON}.ipynb").read_text(encoding="utf-8")
    assert "2 points · difficulty ●●●○○ · about 10 minutes · design" in release
    assert "antworten" not in release
    course.attn("book")
    assert f"<title>{texts.TITLE}</title>" in (course.root / "book" / "index.html").read_text(encoding="utf-8")
    assert 'lang="de"' in (course.root / "book" / f"{LESSON}.html").read_text(encoding="utf-8")


def test_it_is_opened_and_checked_by_a_learner(course: Course, new_port: Callable[[], int]) -> None:
    port = new_port()
    command = [sys.executable, "-P", "-m", "autograder.cli", "lab", "--no-browser", "--port", str(port)]
    with subprocess.Popen(
        command, cwd=course.folder, env=course.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as lab:
        try:
            assert _answers(f"http://localhost:{port}/login")
        finally:
            os.killpg(lab.pid, signal.SIGTERM)
    path = course.folder / "work" / LESSON / f"{LESSON}.ipynb"
    blank = path.read_text(encoding="utf-8")
    for answer, code, says in ((texts.WRONG, 1, "turned the wrong way round"), (texts.RIGHT, 0, "Correct")):
        notebook = nbformat.reads(blank, as_version=4)
        for cell in notebook.cells:
            cell.source = {"spektrum": answer, "entwurf": texts.FILTER}.get(str(grade_id(cell)), cell.source)
        nbformat.write(notebook, path)
        assert says in course.attn("check", "2", expect=code)


def _answers(address: str) -> bool:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(address, timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            time.sleep(0.3)
    return False


@needs_sandbox
def test_nobody_is_graded_where_the_sandbox_lacks_what_the_lesson_needs(course: Course) -> None:
    course.submit("ann", spektrum=texts.RIGHT, entwurf=texts.FILTER)
    settings = course.root / "course.toml"
    settings.write_text(texts.SETTINGS.replace('given = ["given"]', "given = []"))
    said = course.attn("grade", "2", expect=2)
    assert "signal_tools" in said
    settings.write_text(texts.SETTINGS.replace('requires = ["numpy"]', 'requires = ["numpy", "no_such_package"]'))
    said = course.attn("grade", "2", expect=2)
    assert "no package 'no_such_package'" in said
    assert "Nobody was graded" in said
    assert not (course.root / "autograded").exists()
    release = course.root / "release" / LESSON / f"{LESSON}.ipynb"
    right = release.read_text(encoding="utf-8")
    settings.write_text(texts.SETTINGS)
    release.write_text(right.replace("import numpy as np\\n", "import numpy as np\\nimport no_such_module\\n"), encoding="utf-8")
    said = course.attn("grade", "2", expect=2)
    assert "given cell 'setup' fails: ModuleNotFoundError" in said
    release.write_text(right, encoding="utf-8")


@needs_sandbox
def test_a_class_is_graded_and_told(course: Course) -> None:
    course.submit("bob", spektrum=texts.WRONG, entwurf="def entwurf(length):\n    return [1]")
    course.submit("cy")
    graded = json.loads(course.attn("grade", "2", "--feedback", "--json"))
    assert {row["student"]: row["score"] for row in graded["rows"]} == {"ann": 5.0, "bob": 0.0, "cy": 0.0}
    page = (course.root / "feedback" / "bob" / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
    assert "turned the wrong way round" in page
    assert "wrote 3 pages" in course.attn("feedback", "2")
    assert "3 submissions" in course.attn("report", "2")
    assert "8 of 8 submissions graded" in course.attn("demo")


def test_outside_of_a_course_the_command_says_what_is_missing(course: Course, tmp_path: Path) -> None:
    elsewhere = Course(tmp_path, Path(course.env["PYTHONPATH"]))
    assert "expected a course folder, with a course.toml" in elsewhere.attn("build", expect=2)
    assert "expected a course folder" in elsewhere.attn("new-lesson", "01_x", expect=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('titel = "x"', "Did you mean 'title'"),
        ("", "title: Expected a value, got none"),
        ('title = "x"\nfollow_through = "some"', "follow_through: Invalid enum value 'some'. full, half or none"),
        ('title = "x"\nlanguage = "Deutsch!"', "language: Expected `str` matching"),
        ('title = "x"\n[style]\nenforce = true', "Did you mean 'style.enforced'"),
        ('title = "x"\noperators = "my operators"', "operators: Expected `str` matching"),
        ('title = "x', "expected settings in TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "course.toml").write_text(text)
    with pytest.raises(CourseError) as caught:
        read(tmp_path / "course.toml")
    assert says in str(caught.value)


def test_the_settings_that_init_writes_are_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "course.toml").write_text(example("A title"))
    assert read(tmp_path / "course.toml").title == "A title"
