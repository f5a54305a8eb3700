"""A learner's progress: several writers, a crash, damage; and the panel that shows it."""

import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from autograder import check
from autograder.authoring.course import CourseError
from autograder.cli import main
from autograder.diagnosis.explain import ExerciseRow, LessonRow
from autograder.diagnosis.panel import overview_html
from autograder.workspace import folder as workspace
from autograder.workspace import progress
from autograder.workspace.in_cells.overview import overview

WRITER = """
import sys
from pathlib import Path
from autograder.workspace import progress
from autograder.diagnosis.explain import Report
folder, name, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for step in range(times):
    progress.record(folder, name, Report("pass", "t", 1.0, 1.0, "Correct."))
    progress.record(folder, "both", Report("fail", "t", 0.0, 1.0, "Wrong."))
    print(step, flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lesson's folder in an otherwise empty workspace."""
    (tmp_path / progress.MARKER).mkdir()
    lesson = tmp_path / "00_start_here"
    lesson.mkdir()
    return lesson


def _writer(folder: Path, name: str, times: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(folder), name, str(times)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_two_notebooks_that_write_at_once_lose_nothing(folder: Path) -> None:
    """Neither has made the file yet: the race for that is part of the rule."""
    writers = [_writer(folder, name, 40) for name in ("one", "two")]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    seen = progress.read(folder.parent)
    assert {name: entry.attempts for (_, name), entry in seen.items()} == {"one": 40, "two": 40, "both": 80}


def test_a_writer_that_is_killed_leaves_every_finished_write_and_a_sound_file(folder: Path) -> None:
    writer = _writer(folder, "one", 100_000)
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()
    while writer.stdout.readline() != "20\n":
        pass
    writer.send_signal(signal.SIGKILL)
    said = [int(line) for line in writer.communicate()[0].split()]
    done = max([20, *said]) + 1  # what it could still say before it was killed
    seen = progress.read(folder.parent)
    assert seen[folder.name, "one"].attempts in (done, done + 1)
    with sqlite3.connect(progress.database(folder.parent)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    db.close()
    progress.forget(folder.parent, folder.name, ["one"])
    assert (folder.name, "one") not in progress.read(folder.parent)


def test_a_damaged_file_costs_no_check_and_is_named_by_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = workspace.prepare(tmp_path / "work")
    progress.database(work).write_bytes(b"not a database at all" * 100)
    monkeypatch.chdir(work / "00_start_here")
    assert check("average_pool", lambda V: V.mean(axis=0)) == 1
    assert main(["status", "--workspace", str(work)]) == 2
    said = capsys.readouterr().err
    assert "progress.sqlite3" in said
    assert "move it away" in said


def test_check_without_a_name_shows_the_lessons_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = workspace.prepare(tmp_path / "work")
    monkeypatch.chdir(work / "00_start_here")
    check("average_pool", lambda V: V.sum(axis=0))
    shown = check()
    assert "✗ average_pool · you added the rows but did not divide" in repr(shown)
    assert "· predict_shape" in repr(shown)
    check("average_pool", lambda V: V.mean(axis=0))
    assert re.search(r"passed</span></div><div[^>]*><code>average_pool</code> </div><div[^>]*>1 / 1<", check()._repr_html_())


def test_a_title_or_a_mistake_cannot_bring_markup_into_the_overview() -> None:
    exercise = ExerciseRow("<b>", "", 0.0, 1.0, "fail", 1, "wrote <script>")
    page = overview_html(LessonRow("00_start", "<img>", False, (), "", None, 0.0, 0.0, False, (exercise,), ()))
    assert "&lt;img&gt;" in page
    assert "<code>&lt;b&gt;</code>" in page
    assert "wrote &lt;script&gt;" in page


def test_progress_of_a_lesson_outside_a_workspace_says_where_it_is_kept(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="attn lab"):
        overview(tmp_path)


def test_a_check_in_a_new_kernel_keeps_what_passed_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    fresh: dict[str, object] = {"check": check}
    exec("score = check('average_pool')", fresh)
    assert "not defined yet" in str(fresh["score"])
    exec("average_pool = lambda V: V.mean(axis=0)\nscore = check('average_pool')", fresh)
    assert fresh["score"] == 1
    again: dict[str, object] = {"check": check}
    exec("score = check('average_pool')", again)
    assert "Your progress keeps the pass." in str(again["score"])
    assert progress.read(folder.parent)[folder.name, "average_pool"].status == "pass"
    exec("average_pool = lambda V: V.sum(axis=0)\nscore = check('average_pool')", again)
    assert progress.read(folder.parent)[folder.name, "average_pool"].status != "pass", "what ran and fails is no pass"
