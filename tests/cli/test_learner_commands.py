"""The learner's commands: check, hint, status, and how they look."""

import itertools
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring import book
from autograder.authoring.course import CourseError, course_root, lessons
from autograder.cli import learner_output, main
from autograder.diagnosis.explain import Report
from autograder.diagnosis.panel import overview_html, overview_text
from autograder.notebooks.roles import exercise_of, is_answer
from autograder.workspace import doctor, lab, learner_status, progress, rerun, submit, watch
from autograder.workspace import folder as workspace
from autograder.workspace.in_cells.overview import contents, next_step
from tests.learner import LESSON, RIGHT, SetAnswer, attn, cell_of, edit

# ---------------------------------------------------------------- names


def test_an_exercise_may_be_named_alone_where_one_lesson_has_it(work: Path) -> None:
    assert workspace.resolve(work, "average_pool") == (LESSON, "average_pool")
    assert workspace.resolve(work, "0.average_pool") == (LESSON, "average_pool")
    assert workspace.resolve(work, "start_here") == (LESSON, None)
    assert workspace.resolve(work, "written_average", written=True) == (LESSON, "written_average")
    with pytest.raises(CourseError, match="Did you mean 'average_pool'"):
        workspace.resolve(work, "averge_pool")
    with pytest.raises(CourseError, match="status --all"):
        workspace.resolve(work, "zzzzzz")
    for word in ("written_average", "00.written_average"):  # `attn check` and `attn hint` of a question in words
        with pytest.raises(CourseError, match="`written_average` is answered in words: it has no check and no hints"):
            workspace.resolve(work, word)


def test_from_another_folder_the_way_is_to_the_workspace_before_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["status"]) == 2
    said = capsys.readouterr().err
    assert said.index("Go to the course's folder first (the one with `work` in it)") < said.index("`attn lab`")


def test_an_exercise_that_two_lessons_have_must_be_said_with_its_lesson(work: Path) -> None:
    shutil.copytree(work / LESSON, work / "99_start_here")
    (work / "99_start_here" / f"{LESSON}.ipynb").rename(work / "99_start_here" / "99_start_here.ipynb")
    with pytest.raises(CourseError, match=r"00\.average_pool, 99\.average_pool"):
        workspace.resolve(work, "average_pool")


# ---------------------------------------------------------------- check


def test_check_without_a_target_checks_the_lessons_that_were_begun(
    work: Path, path: Path, set_answer: SetAnswer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attn(work, "check") == 2
    assert "attn lab" in capsys.readouterr().err
    set_answer(path, "average_pool", RIGHT)
    assert rerun.started(work) == ([LESSON], [])
    assert attn(work, "check", "--json") == 1
    shown = capsys.readouterr()
    verdicts = {one["exercise"]: one["status"] for one in json.loads(shown.out)}
    assert verdicts == {"predict_shape": "todo", "average_pool": "pass"}
    assert shown.err == ""


def test_a_check_survives_cells_that_fail_end_the_kernel_or_were_deleted(
    work: Path, path: Path, set_answer: SetAnswer, capfd: pytest.CaptureFixture[str]
) -> None:
    """The check cell of `average_pool` is gone, and a cell of the learner's own ends the kernel after the first check."""

    def change(notebook: Any) -> None:
        notebook.cells = [cell for cell in notebook.cells if exercise_of(cell) != "average_pool"]
        place = notebook.cells.index(cell_of(notebook, "average_pool"))
        notebook.cells.insert(place, nbformat.v4.new_code_cell("import os; os._exit(3)"))

    set_answer(path, "average_pool", RIGHT)
    set_answer(path, "predict_shape", 'predict_shape = "b"')
    edit(path, change)
    first, second = rerun.run(work, LESSON)
    assert first.status == "pass"
    assert "`import os; os._exit(3) …` ended the kernel" in second.headline
    assert capfd.readouterr().err == ""  # the kernel's own last words are not for learners
    assert progress.read(work).keys() == {(LESSON, "predict_shape")}


def test_figures_of_the_lesson_are_not_drawn_but_a_learners_edit_of_one_runs(
    work: Path, path: Path, set_answer: SetAnswer
) -> None:
    def change(notebook: Any) -> None:
        figure = next(cell for cell in notebook.cells if "figure" in cell.metadata.get("tags", []))
        figure.source = "answer = 'b'"
        notebook.cells.remove(figure)
        notebook.cells.insert(1, figure)  # above the prediction that it gives away

    set_answer(path, "predict_shape", "predict_shape = answer")
    edit(path, change)
    assert rerun.run(work, LESSON, ["predict_shape"])[0].status == "pass"


# ---------------------------------------------------------------- hints


def test_hints_come_one_at_a_time_and_are_remembered(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hints = workspace.load_pack(work, LESSON).exercises["average_pool"].hints
    seen = []
    for _ in range(len(hints) + 1):
        assert attn(work, "hint", "average_pool", "--json") == 0
        seen.append(json.loads(capsys.readouterr().out))
    assert [one["text"] for one in seen] == [*hints, hints[-1]]
    assert [one["fresh"] for one in seen] == [True] * len(hints) + [False]
    assert attn(work, "hint", "average_pool") == 0
    assert "There are no more hints." in capsys.readouterr().out


def test_again_repeats_a_hint_and_does_not_go_on(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--again"], ["--again"]):
        assert attn(work, "hint", "0.average_pool", *words) == 0
        assert "hint 1 of 3 · A nudge" in capsys.readouterr().out
    assert attn(work, "hint", "0.average_pool") == 0
    assert "hint 2 of 3 · The method" in capsys.readouterr().out


def test_a_hint_for_a_lesson_or_a_prediction_says_what_to_do_instead(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attn(work, "hint", "0") == 2
    assert "attn hint 00.average_pool" in capsys.readouterr().err
    assert attn(work, "hint", "predict_shape") == 0
    assert "no hints" in capsys.readouterr().out


# ---------------------------------------------------------------- looks


def test_colour_is_for_terminals_and_no_color_is_heeded(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = {}
    for name, console in {"terminal": {"force_terminal": True, "color_system": "standard"}, "plain": {}}.items():
        monkeypatch.setattr(learner_output, "Console", lambda _given=console, **more: _rich(**{**more, **_given}))
        attn(work, "status")
        shown[name] = capsys.readouterr().out
    assert "\x1b[" in shown["terminal"]
    assert "\x1b" not in shown["plain"]
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(
        learner_output, "Console", lambda **more: _rich(**{**more, "force_terminal": True, "color_system": "standard"})
    )
    attn(work, "status")
    assert not re.search(r"\x1b\[[0-9;]*(3|9)[0-7]", capsys.readouterr().out)


def _rich(**options: Any) -> Any:
    from rich.console import Console

    return Console(**options)


def test_status_says_what_is_next_and_names_every_exercise_on_demand(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attn(work, "status") == 0
    assert "Next: predict_shape in lesson 00" in capsys.readouterr().out
    assert attn(work, "status", "--all") == 0
    shown = capsys.readouterr().out
    for lesson in workspace.names(work):
        for name in workspace.answer_ids(work, lesson, written=False):
            assert f"· {name}" in shown
            progress.record(work / lesson, name, Report("pass", "t", 1, 1, "Correct."))
    assert attn(work, "status") == 0
    assert "Next: the question in words written_average in lesson 00" in capsys.readouterr().out
    answer_in_words(work)
    assert attn(work, "status") == 0
    assert "All done." in capsys.readouterr().out


# ---------------------------------------------------------------- questions in words


def answer_in_words(work: Path) -> None:
    """Write something into every question in words of every lesson."""

    def change(notebook: Any) -> None:
        for cell in notebook.cells:
            if is_answer(cell) and cell.cell_type == "markdown":
                cell.source = "Words of my own."

    for lesson in workspace.names(work):
        edit(workspace.notebook(work, lesson), change)


@pytest.mark.parametrize(
    "words",
    [
        "",
        " \n",
        "✎ *Your answer: click this cell, press Enter, write in place of this line, then press Shift+Enter.*",
        "✎ *Your answer: double-click here, and write in place of this line.*",
        "YOUR ANSWER HERE",
    ],
)
def test_a_question_in_words_is_open_while_nothing_of_ones_own_is_written(
    words: str, work: Path, path: Path, set_answer: SetAnswer
) -> None:
    set_answer(path, "written_average", words)
    (question,) = learner_status.questions(work, LESSON)
    assert (question.id, question.title, question.answered) == ("written_average", "Exercise 00.2: In words", False)
    set_answer(path, "written_average", "Noise averages out.")
    assert learner_status.questions(work, LESSON)[0].answered


def test_a_lesson_is_not_done_while_a_question_in_words_is_open_and_every_place_says_so(
    work: Path, path: Path, set_answer: SetAnswer, capsys: pytest.CaptureFixture[str]
) -> None:
    lesson = "01_soft_lookup"
    for name in workspace.answer_ids(work, lesson, written=False):
        progress.record(work / lesson, name, Report("pass", "t", 1, 1, "Correct."))
    (row,) = learner_status.status(work, only=(lesson,))
    assert not row.done
    said = "1 question in words is open"
    assert said in overview_text(row)
    assert said in overview_html(row)
    assert f'href="{row.questions[0].link}"' in overview_html(row)
    steps = next_step(work / lesson, row.exercises[0].id)
    assert (f"{said} (once answered, save: Ctrl+S)", "") in steps
    assert (row.questions[0].title, row.questions[0].link) in steps
    assert "| 0 of 1 |" in contents(work)._repr_markdown_()
    assert f"exercises (needs 00) ◐ begun; {said}" in repr(contents(work))
    assert attn(work, "status") == 0
    assert said in capsys.readouterr().out
    assert f"{said}: Exercise 01.4" in "\n".join(submit.examine(work, lesson))
    answer_in_words(work)
    (row,) = learner_status.status(work, only=(lesson,))
    assert row.done
    assert "open" not in overview_text(row) + overview_html(row)
    assert "| ✓ done | 5 of 5 | 1 of 1 |" in contents(work)._repr_markdown_()


def test_the_next_exercise_is_reached_at_its_heading_and_not_below_it(work: Path, path: Path) -> None:
    for lesson in workspace.names(work):
        cells = workspace.load(workspace.notebook(work, lesson)).cells
        places = [cell.id for cell in cells]
        for name in workspace.answer_ids(work, lesson, written=False):
            page, to = learner_status.link(work, lesson, name).split("#cell-id=")
            assert page == f"{lesson}.ipynb"
            between = cells[places.index(to) : places.index(name)]
            if not between:  # an exercise that goes on from the check above it
                assert cells[places.index(name) - 1].cell_type == "code", f"{lesson}: {name} is reached past its text"
                continue
            assert between[0].cell_type == "markdown"
            assert not any(is_answer(cell) for cell in between), f"{lesson}: the link to {name} leads to the exercise before"
            below = "".join(cell.source for cell in between[1:])
            assert "### Exercise" in between[0].source or "### Exercise" not in below
    path.write_text("{", encoding="utf-8")
    assert learner_status.link(work, LESSON, "average_pool") == f"{LESSON}.ipynb#cell-id=average_pool"


def test_a_notebook_that_cannot_be_read_answers_no_question(work: Path, path: Path) -> None:
    answer_in_words(work)
    path.write_text("{", encoding="utf-8")
    assert [one.answered for one in learner_status.questions(work, LESSON)] == [False]


def test_check_of_a_lesson_counts_its_questions_in_words(
    work: Path, path: Path, set_answer: SetAnswer, capsys: pytest.CaptureFixture[str]
) -> None:
    set_answer(path, "average_pool", RIGHT)
    set_answer(path, "predict_shape", 'predict_shape = "b"')
    assert attn(work, "check", "00") == 0
    shown = capsys.readouterr().out
    assert "1 question in words is open: 00.written_average" in shown
    assert shown.count("2 of 2 exercises of this lesson done · next lesson: 01 ") == 1
    assert "all lessons" not in shown  # no link here
    set_answer(path, "predict_shape", "predict_shape = 2")
    assert attn(work, "check", "00") == 1
    shown = capsys.readouterr().out
    assert "\n  No prediction yet (got a value of type int, no letter in quotation marks).\n\n" in shown
    assert "next: `predict_shape`" in shown


def test_status_of_one_lesson_shows_each_of_its_exercises_and_no_other(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress.record(work / LESSON, "average_pool", Report("fail", "t", 0, 1, "Wrong."))
    assert attn(work, "status", "0") == 0
    out = capsys.readouterr().out
    assert "Average the values: 0 / 1, checked 1 time" in out
    assert "written_average · in words, open · Exercise 00.2: In words" in out
    assert "1 question in words is open." in out
    assert "01 " not in out
    for name in workspace.answer_ids(work, LESSON, written=False):
        progress.record(work / LESSON, name, Report("pass", "t", 1, 1, "Correct."))
    answer_in_words(work)
    assert attn(work, "status", "0") == 0
    out = capsys.readouterr().out
    assert "This lesson is done. Next: lesson 01 (`attn lab 01`)." in out
    assert "All done" not in out
    assert attn(work, "status", "start_her") == 2
    assert "Did you mean '00_start_here'" in capsys.readouterr().err


# ---------------------------------------------------------------- our answers


def test_the_terminal_shows_our_answer_under_the_rules_of_the_notebook(
    work: Path, path: Path, set_answer: SetAnswer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attn(work, "solution", "average_pool", "--sure") == 2
    assert "`attn hint 00.average_pool` has 3 more for you" in capsys.readouterr().err
    for _ in range(3):
        assert attn(work, "hint", "average_pool") == 0
    assert "`attn solution 00.average_pool --sure` shows our answer" in capsys.readouterr().out
    assert attn(work, "solution", "average_pool") == 2
    assert attn(work, "solution", "average_pool", "--sure") == 0
    assert "def average_pool" in capsys.readouterr().out
    assert progress.were_looked_up(work) == {(LESSON, "average_pool")}
    assert attn(work, "solution", "predict_shape", "--sure") == 2
    assert "your own prediction comes first" in capsys.readouterr().err
    assert attn(work, "solution", "written_average") == 2
    assert "Write it in its cell" in capsys.readouterr().err
    set_answer(path, "written_average", "Noise.")
    assert attn(work, "solution", "written_average") == 0
    assert "Model answer" in capsys.readouterr().out
    assert attn(work, "solution", "0") == 2
    assert "attn solution 00.average_pool" in capsys.readouterr().err


def test_the_outline_of_every_lesson_is_shallow() -> None:
    """One title; sections and subsections below it, none skipped: JupyterLab's table of contents stays readable."""
    for lesson in lessons():
        released = workspace.load(course_root() / "release" / lesson.name / f"{lesson.name}.ipynb")
        text = "\n".join(re.sub(r"```.*?```", "", c.source, flags=re.DOTALL) for c in released.cells if c.cell_type == "markdown")
        levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
        assert levels.count(1) == 1, lesson.name
        assert levels[0] == 1, lesson.name
        assert max(levels) <= 3, lesson.name
        assert all(deeper - level <= 1 for level, deeper in itertools.pairwise(levels)), lesson.name


@pytest.mark.parametrize("name", ["doctor", "lab", "status", "check", "watch", "hint", "solution", "reset", "submit", "update"])
def test_every_command_for_learners_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert "--workspace" in capsys.readouterr().out


def test_every_command_of_the_table_for_learners_runs(
    work: Path, scratch_course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As written there, beside `./work`; what would open JupyterLab, wait for a save or fill the clone is stood in for, and
    so is the doctor's examination, which `test_doctor` makes."""
    section = (course_root().parent / "docs" / "learning.md").read_text(encoding="utf-8")
    commands = [shlex.split(words) for words in re.findall(r"^\| `attn ([^`]+)` \|", section, re.MULTILINE)]
    assert {words[0] for words in commands} >= {"lab", "status", "check", "watch", "hint", "reset", "submit", "update", "doctor"}
    monkeypatch.chdir(work.parent)
    monkeypatch.setattr(workspace, "course_root", lambda: scratch_course)
    monkeypatch.setattr(lab, "open_lab", lambda *words, **options: 0)
    monkeypatch.setattr(watch, "saves", lambda *words: iter(()))
    monkeypatch.setattr(book, "build", lambda *words, **options: [Path("index.html")])
    monkeypatch.setattr(doctor, "examine", lambda folder: iter(()))
    monkeypatch.setattr(learner_output, "ask", lambda question: True)
    for words in commands:
        if words[0] == "solution":  # ours comes after the learner's own
            progress.record(work / "03_scaled_dot_product", words[1], Report("pass", "t", 1, 1, "Correct."))
        assert main(words) == (1 if words[0] == "check" else 0), words  # nothing is answered yet
    assert capsys.readouterr().err == ""


def test_what_a_cell_ended_with_is_told_in_one_line_of_bounded_length() -> None:
    from nbformat.v4 import new_code_cell, new_output

    from autograder.workspace import rerun

    quoted = "\n".join(f"row {i}: [0.1, 0.2, 0.3, 0.4, 0.5]" for i in range(100))
    cell = new_code_cell("assert False", outputs=[new_output("error", ename="AssertionError", evalue=quoted, traceback=[])])
    said = rerun._error(cell)
    assert said.startswith("AssertionError: row 0: ")
    assert "\n" not in said
    assert len(said) <= rerun.MOST_SAID + 2
