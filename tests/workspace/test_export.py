"""Answers out of the notebooks: exported as data, complete with what they need, and brought into a later lesson if they pass."""

import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
import torch

from autograder.authoring.course import CourseError, find_lesson, lessons
from autograder.authoring.reference_source import solution_source
from autograder.cli import main
from autograder.notebooks.rebuild_submission import Cell
from autograder.notebooks.roles import grade_id
from autograder.workspace import export
from autograder.workspace import folder as workspace

LESSONS = ("00_start_here", "06_positions", "07_kv_cache", "09_grouped_query", "09b_without_copies", "09c_choosing_groups")
Set = Callable[[Path, str, str], None]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with some of the notebooks, nothing written."""
    folder = workspace.prepare(tmp_path / "work")
    for name in workspace.names(folder):
        if name not in LESSONS:
            shutil.rmtree(folder / name)
    return folder


def write_all(work: Path, lesson: str, set_answer: Set, **other: str) -> Path:
    """The reference's answers in the learner's notebook, but for those in `other`."""
    path = work / lesson / f"{lesson}.ipynb"
    for exercise in find_lesson(lesson).in_code():
        module = exercise.reference.__module__.removeprefix("solutions.")
        set_answer(path, exercise.id, other.get(exercise.id) or solution_source(module, exercise.id))
    return path


def notebook_of(exercise: str) -> str:
    """The notebook of chapter 09 that asks `exercise`."""
    return next(lesson.name for lesson in lessons() if lesson.chapter == 9 and exercise in lesson.checked)


def imported(work: Path, slug: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"exported_{slug}", work / "answers" / f"{slug}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def problems(work: Path) -> dict[str, str]:
    return {f"{a.lesson[3:]}.{a.exercise}": a.problem for a in export.export(work) if a.problem != export.UNWRITTEN}


def test_a_blank_workspace_exports_nothing_and_calls_nothing_broken(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export-answers", "--workspace", str(work)]) == 0
    assert "0 answers of 0 lessons" in capsys.readouterr().out
    assert [path.name for path in (work / "answers").iterdir()] == ["__init__.py"]


@pytest.mark.parametrize("lesson", ["06_positions", "07_kv_cache", "09_grouped_query"])
def test_an_exported_module_can_be_imported_alone_and_has_every_answer(work: Path, set_answer: Set, lesson: str) -> None:
    write_all(work, lesson, set_answer)
    slug = lesson.partition("_")[2]
    assert {name for name, problem in problems(work).items() if problem} == set()
    module = imported(work, slug)
    asked = [exercise.id for exercise in find_lesson(lesson).in_code()]
    assert all(callable(getattr(module, name)) for name in asked)
    source = (work / "answers" / f"{slug}.py").read_text()
    assert "matplotlib" not in source  # what no answer needs stays behind
    assert "check(" not in source


def test_given_functions_and_constants_come_along_and_demonstrations_do_not(work: Path, set_answer: Set) -> None:
    helper = "from math import tau\n\nROUND = tau / tau\n\ndef helped(V):\n    return V.mean(axis=0) * ROUND"
    path = write_all(work, "00_start_here", set_answer, average_pool="def average_pool(V):\n    return helped(V)")
    notebook = nbformat.read(path, as_version=4)
    demo = nbformat.v4.new_code_cell("print('run!')\n1 / 0\nV = [1]\nunused = 3")
    notebook.cells[2:2] = [nbformat.v4.new_code_cell(helper), demo, nbformat.v4.new_code_cell("%time x = 1")]
    nbformat.write(notebook, path)
    assert not any(problems(work).values())
    assert imported(work, "start_here").average_pool(torch.tensor([[1.0], [3.0]]).numpy()) == 2
    source = (work / "answers" / "start_here.py").read_text()
    assert all(word not in source for word in ("run!", "1 / 0", "unused", "V = [1]"))


def test_an_answer_wins_over_a_cell_below_that_redefines_it() -> None:
    cells = [
        Cell("code", "def f(x):\n    return g(x)", "f", "f"),
        Cell("code", "def g(x):\n    return 1", None, "a"),
        Cell("code", "def f(x):\n    return 2", None, "b"),
        Cell("code", "def g(x):\n    return 3", None, "c"),
    ]
    source, found = export.module_source(cells, ["f"])
    assert found == {}
    assert source.split() == ["def", "f(x):", "return", "g(x)", "def", "g(x):", "return", "3"]


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("def average_pool(V:\n    pass", "not valid Python"),
        ("def average_pol(V):\n    return V", "does not define average_pool"),
        ("x = '\0'", "not valid Python"),
    ],
)
def test_an_answer_that_cannot_be_read_is_explained(
    work: Path, set_answer: Set, capsys: pytest.CaptureFixture[str], cell: str, problem: str
) -> None:
    write_all(work, "00_start_here", set_answer, average_pool=cell)
    assert main(["export-answers", "--workspace", str(work)]) == 1
    assert f"00_start_here.average_pool: its cell {problem if 'does' in problem else 'is ' + problem}" in capsys.readouterr().out


def test_a_missing_cell_and_a_broken_notebook_are_explained(work: Path) -> None:
    path = work / "00_start_here" / "00_start_here.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if grade_id(cell) != "average_pool"]
    nbformat.write(notebook, path)
    (work / "06_positions" / "06_positions.ipynb").write_text("no notebook")
    found = problems(work)
    assert "is missing" in found["start_here.average_pool"]
    assert "cannot be read" in found["positions.apply_rope"]


def test_exporting_again_drops_what_is_gone(work: Path, set_answer: Set) -> None:
    write_all(work, "00_start_here", set_answer)
    export.export(work)
    assert (work / "answers" / "start_here.py").exists()
    write_all(work, "00_start_here", set_answer, average_pool="def average_pool(V):\n    raise NotImplementedError()")
    export.export(work)
    assert not (work / "answers" / "start_here.py").exists()


def test_bring_takes_what_passes_and_names_the_mistake_of_what_does_not(
    work: Path, set_answer: Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(work, "06_positions", set_answer)
    wrong = solution_source("grouped_query", "gqa_grouped").replace("math.sqrt(d)", "1").replace("tril(m - n)", "tril()")
    blank = "def mha_to_gqa(W, H, G):\n    raise NotImplementedError"
    for name in {notebook_of("gqa_grouped"), notebook_of("mha_to_gqa")}:
        write_all(work, name, set_answer, gqa_grouped=wrong, mha_to_gqa=blank)
    export.export(work)
    monkeypatch.chdir(work / "06_positions")
    wanted = "positions.apply_rope", "kv_cache.KVCache", "grouped_query.gqa_grouped", "grouped_query.mha_to_gqa"
    found = export.bring(*wanted)
    assert set(found) == {"apply_rope"}
    lines = repr(found).splitlines()
    assert "yours, and it passes" in lines[0]
    assert "not written yet" in lines[1]
    assert "fails its check" in lines[2]
    assert "not written yet" in lines[3]
    assert set(export.bring(*wanted, even_wrong=True)) == {"apply_rope", "gqa_grouped"}
    summed = "def mha_to_gqa(W, H, G):\n    return W.reshape(-1, G, H // G, W.shape[-1] // H).sum(-2).flatten(-2)"
    write_all(work, notebook_of("mha_to_gqa"), set_answer, mha_to_gqa=summed)
    export.export(work)
    assert "you added the heads of a group" in repr(export.bring("grouped_query.mha_to_gqa"))


def test_the_core_of_a_chapter_names_the_exercises_of_its_workshops_and_a_workshop_only_its_own(
    work: Path, set_answer: Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = notebook_of("mha_to_gqa")
    write_all(work, workshop, set_answer)
    monkeypatch.chdir(work)
    slug = workshop.partition("_")[2]
    assert set(export.bring("grouped_query.mha_to_gqa")) == set(export.bring(f"{slug}.mha_to_gqa")) == {"mha_to_gqa"}
    with pytest.raises(CourseError, match=f"expected an exercise of {workshop}, got 'gqa'"):
        export.bring(f"{slug}.gqa")


def test_bring_takes_answers_out_of_the_notebooks_as_last_saved_with_no_command_before(
    work: Path, set_answer: Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work)
    wanted = "positions.apply_rope"
    assert not export.bring(wanted)
    path = write_all(work, "06_positions", set_answer)
    assert set(export.bring(wanted)) == {"apply_rope"}
    module = work / "answers" / "positions.py"
    written = module.stat().st_mtime_ns
    assert set(export.bring(wanted)) == {"apply_rope"}
    assert module.stat().st_mtime_ns == written  # nothing was saved since: nothing is written
    write_all(work, "06_positions", set_answer, apply_rope="def apply_rope(x, pos, base=10_000.0):\n    return x")
    later = time.time_ns() + 10**9
    os.utime(path, ns=(later, later))
    assert "fails its check" in repr(export.bring(wanted))


def test_bring_explains_a_module_that_fails_an_unknown_name_and_a_missing_workspace(
    work: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    export.export(work)
    (work / "answers" / "positions.py").write_text("import nothing_of_this_name")
    monkeypatch.chdir(work)
    assert "cannot be imported (ModuleNotFoundError" in repr(export.bring("positions.apply_rope"))
    with pytest.raises(CourseError, match="Did you mean 'apply_rope'"):
        export.bring("positions.aply_rope")
    monkeypatch.setattr(workspace, "DEFAULT", Path("nowhere"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "No workspace here" in repr(export.bring("positions.apply_rope"))
