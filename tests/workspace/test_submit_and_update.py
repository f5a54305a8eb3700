"""`attn submit`, `attn reset` and `attn update`: what a learner wrote is never lost, and arrives."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import CourseError, lessons
from autograder.diagnosis.explain import Report
from autograder.notebooks.roles import grade_id
from autograder.workspace import folder as workspace
from autograder.workspace import lab, progress, submit, update
from tests.learner import LESSON, RIGHT, SetAnswer, attn, cell_of, edit

# ---------------------------------------------------------------- reset


def test_reset_gives_an_answer_back_and_keeps_a_backup(work: Path, path: Path, set_answer: SetAnswer) -> None:
    set_answer(path, "average_pool", RIGHT)
    set_answer(path, "written_average", "mine")
    assert attn(work, "reset", "average_pool", "--yes") == 0
    assert workspace.answered(work, LESSON) == {"written_average"}
    assert attn(work, "reset", "written_average", "--yes") == 0
    assert workspace.answered(work, LESSON) == set()
    backups = sorted((work / progress.MARKER / "backups").iterdir())
    assert len(backups) == 2  # made within a second, and neither overwrote the other
    assert all("mine" in backup.read_text(encoding="utf-8") for backup in backups)


def test_reset_of_a_lesson_starts_its_progress_anew_and_leaves_the_others(work: Path, path: Path) -> None:
    for lesson in (LESSON, "01_soft_lookup"):
        progress.record(work / lesson, "average_pool", Report("pass", "t", 1, 1, "Correct."))
    path.write_text("torn", encoding="utf-8")
    assert attn(work, "reset", "0", "--yes") == 0
    assert path.read_bytes() == workspace.release(work, LESSON).read_bytes()
    assert progress.read(work).keys() == {("01_soft_lookup", "average_pool")}


def test_reset_brings_a_deleted_answer_cell_back_to_its_place(work: Path, path: Path) -> None:
    before = [cell.id for cell in workspace.load(path).cells]
    edit(path, lambda notebook: notebook.cells.remove(cell_of(notebook, "average_pool")))
    update.reset(work, LESSON, "average_pool")
    assert [cell.id for cell in workspace.load(path).cells] == before


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("", 1), ("no", 1)])
def test_reset_asks_and_no_means_no(
    work: Path, path: Path, set_answer: SetAnswer, monkeypatch: pytest.MonkeyPatch, answer: str, status: int
) -> None:
    set_answer(path, "average_pool", RIGHT)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    assert attn(work, "reset", "average_pool") == status
    assert workspace.answered(work, LESSON) == (set() if status == 0 else {"average_pool"})


def test_reset_without_a_terminal_wants_yes_said(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attn(work, "reset", "average_pool") == 2
    assert "--yes" in capsys.readouterr().err


# ---------------------------------------------------------------- submit


def test_submit_packs_what_the_courses_folders_and_zip_collect_expect(
    work: Path, path: Path, set_answer: SetAnswer, scratch_course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_answer(path, "average_pool", RIGHT)
    archive_folder = scratch_course / "downloaded" / LESSON / "archive"
    for student in ("ada", "b.bee@example.org"):
        assert attn(work, "submit", "0", "--as", student, "--to", str(archive_folder), "--json") == 0
        packed = json.loads(capsys.readouterr().out)
        assert zipfile.ZipFile(packed["archive"]).namelist() == [f"{student}/{LESSON}/{LESSON}.ipynb"]
    command = [sys.executable, "-m", "nbgrader", "zip_collect", LESSON]
    done = subprocess.run(command, cwd=scratch_course, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for student in ("ada", "b.bee@example.org"):
        collected = scratch_course / "submitted" / student / LESSON / f"{LESSON}.ipynb"
        assert collected.read_bytes() == path.read_bytes()


def test_submit_says_what_the_grader_will_find(work: Path, path: Path, set_answer: SetAnswer) -> None:
    def change(notebook: Any) -> None:
        cell_of(notebook, "setup").source += "\nmore = 1"
        notebook.cells.remove(cell_of(notebook, "predict_shape"))
        notebook.cells.remove(cell_of(notebook, "predict_shape_check"))
        again = nbformat.from_dict(dict(cell_of(notebook, "average_pool")))
        notebook.cells.append(nbformat.from_dict({**again, "id": "again"}))

    set_answer(path, "average_pool", RIGHT)
    edit(path, change)
    progress.record(work / LESSON, "average_pool", Report("fail", "t", 0, 1, "Wrong."))
    said = "\n".join(submit.submit(work, LESSON, student="ada").remarks)
    for rule in (
        "'average_pool' occurs more than once. The first one is graded",
        "missing answer cells: predict_shape. They count as not answered",
        "'predict_shape_check' is missing. The grader puts it back",
        "'setup' was edited. The grader runs the original",
        "1 question in words is open: Exercise 00.2: In words (written_average)",
        "not right at their last check: average_pool",
    ):
        assert rule in said


def test_submit_of_finished_work_has_nothing_to_say(
    work: Path, path: Path, set_answer: SetAnswer, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, source in {"average_pool": RIGHT, "predict_shape": 'predict_shape = "b"', "written_average": "Words."}.items():
        set_answer(path, name, source)
    assert attn(work, "submit", "start_here", "--as", "ada") == 0
    shown = capsys.readouterr().out
    assert "✓ Every answer is in its place" in shown
    assert str(work / f"{LESSON}-ada.zip") in shown


@pytest.mark.parametrize("written", ['predict_shape = "d"', "predict_shape = 2", "predict_shape = b'b'", "predict_shape = ("])
def test_submit_counts_a_prediction_that_is_no_choice_as_not_answered(
    written: str, work: Path, path: Path, set_answer: SetAnswer
) -> None:
    set_answer(path, "average_pool", RIGHT)
    set_answer(path, "predict_shape", written)
    assert "not answered yet: predict_shape." in submit.examine(work, LESSON)
    set_answer(path, "predict_shape", "predict_shape = ' B'")
    assert not any("predict_shape" in remark for remark in submit.examine(work, LESSON))


def test_submit_names_an_answer_that_its_last_check_took_for_none(work: Path, path: Path, set_answer: SetAnswer) -> None:
    set_answer(path, "predict_shape", "predict_shape = choice")  # what it comes to, only a kernel knows
    progress.record(work / LESSON, "predict_shape", Report("todo", "t", 0, 0.5, "No prediction yet."))
    progress.record(work / LESSON, "average_pool", Report("todo", "t", 0, 1, "Not started yet."))
    said = submit.examine(work, LESSON)
    assert "not right at their last check: predict_shape. `attn check 00` checks again." in said
    assert "not answered yet: average_pool." in said


def test_submit_without_a_login_asks_for_a_name(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setattr(submit.getpass, "getuser", nobody)
    with pytest.raises(CourseError, match="--as NAME"):
        submit.submit(work, LESSON)


def test_submit_refuses_only_what_cannot_be_read(work: Path, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attn(work, "submit", "0", "--as", "../ada") == 2
    assert "--as NAME" in capsys.readouterr().err
    path.write_text("not a notebook", encoding="utf-8")
    assert attn(work, "submit", "0", "--as", "ada") == 1
    assert "the file is not a notebook" in capsys.readouterr().err
    assert not list(work.glob("*.zip"))


# ---------------------------------------------------------------- update


@pytest.fixture
def next_version(work: Path, scratch_course: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A newer release of the first lesson: other words, a new cell, a moved exercise, a renamed and a reworded one."""
    (scratch_course / "lessons").mkdir(exist_ok=True)
    (scratch_course / "exercises").mkdir(exist_ok=True)
    path = scratch_course / "release" / LESSON / f"{LESSON}.ipynb"

    def change(notebook: Any) -> None:
        notebook.metadata["attn"] = {"built_from": "a newer text"}
        notebook.cells[0].source = "# Start here, again"
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell("A new paragraph."))
        answer, check = (cell_of(notebook, name) for name in ("average_pool", "average_pool_check"))
        answer.source = answer.source.replace("raise NotImplementedError", "# now for ragged rows\n    raise NotImplementedError")
        for cell in (answer, check):
            notebook.cells.remove(cell)
            notebook.cells.append(cell)
        cell_of(notebook, "predict_shape").metadata["nbgrader"]["grade_id"] = "predict_form"
        cell_of(notebook, "setup").source += "\nimport math"
        for number, cell in enumerate(notebook.cells):
            if grade_id(cell) is None:
                cell.id = f"start_here-{number:02d}"  # as the build numbers them: shifted by the new cell

    edit(path, change)
    monkeypatch.setattr(workspace, "learners_course", lambda: scratch_course)
    monkeypatch.setattr(workspace, "course_root", lambda: scratch_course)
    return path


def test_update_carries_every_answer_and_every_own_cell_and_keeps_the_old_notebook(
    work: Path, path: Path, next_version: Path, set_answer: SetAnswer
) -> None:
    picture = {"shot.png": {"image/png": "iVBORw0KGgo="}}

    def change(notebook: Any) -> None:
        place = notebook.cells.index(cell_of(notebook, "average_pool"))
        said = [nbformat.v4.new_output("stream", text="hi")]
        notebook.cells.insert(place, nbformat.v4.new_code_cell("helper = 1", outputs=said))
        notebook.cells.append(nbformat.v4.new_markdown_cell("My note with <b>markup</b>", attachments=picture))
        figure = next(cell for cell in notebook.cells if "figure" in cell.metadata.get("tags", []))
        figure.source = "my_figure = 1"
        cell_of(notebook, "setup").source += "\nmine = 1"
        doubled = dict(cell_of(notebook, "average_pool"))
        notebook.cells.append(nbformat.from_dict({**doubled, "id": "doubled", "source": "second = 2"}))

    set_answer(path, "average_pool", RIGHT)
    set_answer(path, "predict_shape", 'predict_shape = "a"')
    set_answer(path, "written_average", "My <i>words</i>, in $x^2$.")
    edit(path, change)
    before = path.read_bytes()
    (done,) = update.update(work)
    made = workspace.load(path)
    nbformat.validate(made)
    sources = [cell.source for cell in made.cells]
    assert cell_of(made, "average_pool").source == RIGHT
    assert cell_of(made, "written_average").source == "My <i>words</i>, in $x^2$."  # as written: nothing is defused here
    assert made.cells[0].source == "# Start here, again"
    for mine in ("helper = 1", "My note with <b>markup</b>", "my_figure = 1", 'predict_shape = "a"', "second = 2"):
        assert sources.count(mine) == 1
    assert next(c for c in made.cells if c.source == "helper = 1").outputs[0].text == "hi"
    assert next(c for c in made.cells if c.source.startswith("My note")).attachments == picture
    assert not any("nbgrader" in c.metadata for c in made.cells if c.source in ("second = 2", 'predict_shape = "a"'))
    assert sources.index("helper = 1") < sources.index(RIGHT)
    assert cell_of(made, "setup").source.endswith("import math")
    said = "\n".join(done.notes)
    for rule in ("locked cell `setup`", "`predict_shape` is asked no more", "`average_pool` is asked in other words"):
        assert rule in said
    assert set(done.kept) == {"average_pool", "written_average"}
    assert done.backup is not None
    assert done.backup.read_bytes() == before


def test_update_of_an_untouched_notebook_is_the_new_release(work: Path, path: Path, next_version: Path) -> None:
    assert [(one.kept, one.own, one.notes) for one in update.update(work)] == [([], 0, [])]
    assert [(c.id, c.source) for c in workspace.load(path).cells] == [
        (c.id, c.source) for c in workspace.load(next_version).cells
    ]
    assert update.update(work) == []


def test_an_update_that_was_cut_short_is_finished_by_the_next(
    work: Path, path: Path, next_version: Path, set_answer: SetAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_answer(path, "average_pool", RIGHT)

    def change(notebook: Any) -> None:
        notebook.cells.append(nbformat.v4.new_code_cell("own = 1"))
        next(cell for cell in notebook.cells if "figure" in cell.metadata.get("tags", [])).source = "my_figure = 1"

    edit(path, change)
    with monkeypatch.context() as crash:
        crash.setattr(update, "write_whole", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            update.update(work)
    once = [(cell.id, cell.source) for cell in workspace.load(path).cells]
    assert {RIGHT, "own = 1", "my_figure = 1"} <= {source for _, source in once}
    assert len(update.update(work)) == 1
    assert [(cell.id, cell.source) for cell in workspace.load(path).cells] == once
    assert update.update(work) == []


def test_update_keeps_progress_and_hints_and_adds_new_lessons(
    work: Path, next_version: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.record(work / LESSON, "average_pool", Report("pass", "t", 1, 1, "Correct."))
    progress.next_hint(work, LESSON, "average_pool")
    shutil.rmtree(work / "10_latent")
    shutil.rmtree(work / progress.MARKER / "release" / "10_latent")
    assert attn(work, "update") == 0
    assert f"{LESSON}: 0 answers and 0 cells" in capsys.readouterr().out
    assert progress.read(work)[LESSON, "average_pool"].status == "pass"
    assert progress.last_hint(work, LESSON, "average_pool") == 1
    assert workspace.names(work) == [lesson.name for lesson in lessons()]
    assert attn(work, "update", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert attn(work, "update") == 0
    assert "Nothing to update" in capsys.readouterr().out


def test_update_leaves_a_notebook_that_it_cannot_read_alone(
    work: Path, path: Path, next_version: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text('{"cells": [', encoding="utf-8")
    assert attn(work, "update") == 1
    assert "left as it is" in " ".join(capsys.readouterr().out.split())
    assert path.read_text(encoding="utf-8") == '{"cells": ['


def test_lab_says_that_an_update_waits(
    work: Path, next_version: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "open_lab", lambda *words, **options: 0)
    assert attn(work, "lab") == 0
    assert f"new version of: {LESSON}. `attn update`" in capsys.readouterr().out
