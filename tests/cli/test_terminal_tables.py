"""What an instructor sees on a terminal."""

import time
from concurrent.futures import Future

import nbformat
import pytest

from autograder.cli import instructor_output
from autograder.grading.ledger import ClassReport, ExerciseRow, StudentRow
from autograder.grading.marking.mark_submission import Marked
from autograder.grading.marking.read_submission import Handed
from autograder.grading.submitted_folders import Job
from autograder.grading.write_results import row_of

ADA = StudentRow("ada", 1.0, 2.0, {"pool": ExerciseRow(1.0, 2.0, "part", "half", None)}, tier="bubblewrap")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What rich takes for a terminal of 120 columns."""
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("terminal")
def test_the_progress_bar_counts_and_gives_a_rate_on_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with instructor_output.progress_bar("grading") as move:
        time.sleep(0.01)  # else the clock may not have moved
        move(ADA, 3, 8)
        time.sleep(0.3)  # the bar is redrawn ten times a second
    out, err = capfd.readouterr()
    assert "3/8" in err
    assert "a minute" in err
    assert not out


def test_off_a_terminal_there_is_no_bar(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with instructor_output.progress_bar("grading") as move:
        move(ADA, 3, 8)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("tier", "warned"), [("bubblewrap", False), ("none", True), ("bubblewrap, none", True)])
def test_a_class_of_which_any_was_graded_without_isolation_is_said_to_be(
    tier: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    instructor_output.print_class(ClassReport("00_start_here", tier, ["pool"], [ADA]))
    assert ("WITHOUT isolation" in capsys.readouterr().out) is warned


def test_a_mistake_that_the_engine_described_itself_has_no_made_up_name(capsys: pytest.CaptureFixture[str]) -> None:
    states = {
        "gaussian": ExerciseRow(0.0, 1.0, "fail", "2 of 5 checks pass", "~0+scaled_by_d"),
        "pool": ExerciseRow(0.0, 1.0, "fail", "The result is off by 2", "~11"),
    }
    instructor_output.print_class(ClassReport("lesson", "bubblewrap", [], [StudentRow("eve", 0.0, 2.0, states)]))
    said = capsys.readouterr().out
    assert "~" not in said
    assert "scaled_by_d" in said
    assert "The result is off by 2" in said


@pytest.mark.parametrize(("written", "command"), [(True, "attn mark 03"), (False, "attn report 03")])
def test_the_next_step_is_to_grade_by_hand_only_where_there_are_written_answers(
    written: bool, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    instructor_output.print_class(ClassReport("03", "bubblewrap", ["pool"], [ADA], written=written))
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "Next" in line]
    assert said.endswith(command)


@pytest.mark.parametrize("named_rightly", [False, True])
def test_why_a_submission_cannot_be_read_is_said_once(named_rightly: bool) -> None:
    why = "expected 01.ipynb, found 01.pdf: it is a PDF, which holds no code to run"
    marked: Future[Marked] = Future()
    marked.set_result(Marked(nbformat.v4.new_notebook(), flags=["a note", "marked late"], notes=["a note"], unreadable=why))
    row, _ = row_of(Job("eve", Handed(None, why), None if named_rightly else why, None, "", "key"), marked, 2.0)
    assert row.remarks == [f"unreadable: {why}" if named_rightly else why, "a note", "marked late"]
    assert row.notes == [f"unreadable: {why}", "a note"]
