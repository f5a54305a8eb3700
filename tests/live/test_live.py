"""What the live book is made of, without a browser: which notebooks run there, what is packed, what is served, what is said."""

import gzip
import json
import subprocess
import sys
import threading
import urllib.request
import zipfile
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.course import CourseError, Lesson, course_root, find_lesson, lessons
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import BEGIN, END, injected
from autograder.live import packing, pyodide, serve
from autograder.live.needed_cells import name_of
from autograder.live.session import check, run
from autograder.notebooks.roles import exercise_of, grade_id, is_answer, is_figure

FIRST = lessons()[0]


@pytest.fixture(autouse=True)
def stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check works in the lesson's folder."""
    monkeypatch.chdir(Path.cwd())


def test_a_notebook_runs_in_a_browser_exactly_if_it_does_not_import_pytorch() -> None:
    for lesson in lessons():
        text = "\n".join(packing.code_of(lesson))
        assert packing.runs_in_browser(lesson) == ("import torch" not in text), lesson.name


def test_the_bundle_has_the_engine_and_no_answers() -> None:
    live = [lesson for lesson in lessons() if packing.runs_in_browser(lesson)]
    names = set(packing.bundle(live))
    assert {"autograder/live/session.py", "attention_course/thread.py", "jaxtyping/__init__.py"} <= names
    assert not [name for name in names if name.startswith(("solutions", "course", "autograder/grading", "autograder/sandbox"))]


def test_what_the_bundle_imports_of_the_engine_is_in_the_bundle(tmp_path: Path) -> None:
    lesson = find_lesson("00")
    files = packing.bundle([lesson])
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    script = f"""
import json, pathlib, sys
sys.path.insert(0, {str(tmp_path)!r})
import autograder.live.session as session
folder = pathlib.Path({str(packing.released(lesson))!r})
cells = json.loads((folder / "{lesson.name}.ipynb").read_text())["cells"]
found = session.check(folder, "average_pool", {{"average_pool": "def average_pool(features):\\n    return features.sum(axis=0)"}})
print(pathlib.Path(session.__file__).resolve().is_relative_to({str(tmp_path.resolve())!r}), found["status"])
"""
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["True", "fail"], run.stderr


def test_the_bundle_has_the_functions_that_judge_designs() -> None:
    designed = [find_lesson("02")]
    assert not any("attention_course.designs" in source for source in packing.code_of(designed[0]))
    assert "attention_course/designs.py" in packing.bundle(designed)


def test_the_wheel_holds_packs_and_says_what_it_requires(tmp_path: Path) -> None:
    path = packing.course_wheel([FIRST], tmp_path)
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (metadata,) = [wheel.read(name).decode() for name in names if name.endswith("METADATA")]
    assert f"{packing.HOME}/course/release/{FIRST.name}/{FIRST.slug}.probes.npz" in names
    assert "Requires-Dist: jaxtyping" in metadata


def test_the_server_names_types_and_packs_what_gets_smaller(tmp_path: Path) -> None:
    (tmp_path / "a.mjs").write_text("export const x = 1;\n" * 100)
    (tmp_path / "b.wasm").write_bytes(b"\0asm")
    with serve.server(tmp_path, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{running.server_address[1]}"
        with urllib.request.urlopen(f"{base}/b.wasm") as answer:
            assert answer.headers["Content-Type"] == "application/wasm"
        asked = urllib.request.Request(f"{base}/a.mjs", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(asked) as answer:
            assert answer.headers["Content-Type"] == "text/javascript"
            assert gzip.decompress(answer.read()) == (tmp_path / "a.mjs").read_bytes()
        running.shutdown()


def test_a_folder_without_pyodide_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match=r"expected a Pyodide, found no pyodide\.mjs"):
        pyodide.find(tmp_path)


def test_an_answer_that_does_not_run_is_told_with_its_line() -> None:
    home = packing.released(FIRST)
    assert (
        "Your code does not run, line 2"
        in check(home, "average_pool", {"average_pool": "def average_pool(V):\n    return ("})["html"]
    )
    said = check(home, "average_pool", {"average_pool": "print('seen')\n1 / 0"})
    assert "ZeroDivisionError" in said["html"]
    assert said["printed"] == "seen\n"


def test_a_letter_without_quotation_marks_is_told_what_it_lacks() -> None:
    said = check(packing.released(FIRST), "predict_shape", {"predict_shape": "predict_shape = a"})["html"]
    assert "A letter needs quotation marks" in said


def test_the_panel_leaves_hints_to_the_page_and_speaks_of_no_cell() -> None:
    home = packing.released(FIRST)
    assert "Hint 1" not in check(home, "average_pool", {"average_pool": "def average_pool(V):\n    return V.sum(axis=0)"})["html"]
    blank = check(home, "average_pool", {})
    assert blank["status"] == "todo"
    assert "cell" not in blank["html"]


def given_cell(home: Path, begin: str) -> str:
    """The name of the given cell whose source begins so."""
    cells = json.loads((home / f"{home.name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return next(name_of(cell) for cell in cells if "".join(cell["source"]).startswith(begin))


TRIAL = "trial = np.array([9.0, -9.0])\nprint(normalize(gaussian(trial, VECTORS)).argmax())"


def test_a_given_cell_runs_with_the_answers_above_it() -> None:
    home = packing.released(find_lesson("01_soft_lookup"))
    trial = given_cell(home, "trial = ")
    answer = "def normalize(s):\n    return s / s.sum(-1, keepdims=True)"
    assert run(home, trial, TRIAL, {"normalize": answer})["printed"].strip().isdecimal()
    said = run(home, trial, TRIAL, {})
    assert "Write <code>normalize</code> first" in said["html"]
    said = run(home, trial, "1 / 0", {})
    assert "Your code does not run, line 1" in said["html"]


def test_a_given_cell_shows_its_last_line_as_a_notebook_does() -> None:
    home = packing.released(FIRST)
    drawn_by = given_cell(home, "yours = ")
    drawn = run(home, drawn_by, 'draw_attention(sentences()[0].words, {"trophy": 9, "because": 1})', {})["html"]
    assert drawn.startswith("<svg")
    assert "0.90" in drawn
    assert "&lt;b&gt;" in run(home, drawn_by, '"<b>"', {})["html"]


@pytest.mark.parametrize("lesson", [each for each in lessons() if packing.runs_in_browser(each)], ids=lambda each: each.name)
def test_every_given_cell_with_a_run_button_runs_with_the_references(lesson: Lesson) -> None:
    cells = read_lesson(lesson).cells
    answers = {
        str(grade_id(cell)): "\n".join(line for line in injected(cell).splitlines() if line.strip() not in (BEGIN, END))
        for cell in cells
        if is_answer(cell) and cell.cell_type == "code"
    }
    shown = nbformat.read(course_root() / "source" / lesson.name / f"{lesson.name}.ipynb", as_version=4).cells
    for cell in shown:
        if cell.cell_type == "code" and cell.outputs and not (is_answer(cell) or exercise_of(cell) or is_figure(cell)):
            said = run(packing.released(lesson), name_of(cell), cell.source, answers)
            assert "does not run" not in said["html"], said["html"]
            assert said["printed"] or said["html"]
