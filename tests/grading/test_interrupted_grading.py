"""A grader that is stopped, ended or locked out, or that marks a submission twice, costs nobody a mark and shows nothing more."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import course_root, find_lesson
from autograder.grading import grade
from autograder.grading.marking import decide_marks
from autograder.grading.marking import mark_submission as marking
from autograder.grading.marking.scheme import make_mark_scheme
from autograder.grading.trials import demo
from autograder.sandbox.isolation_tiers import available_tiers
from autograder.sandbox.run_submission import Submission
from tests import hostile_class

LESSON = "00_start_here"
TIERS = [tier.name for tier in available_tiers() if tier.available and tier.name != "none"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.skipif(not TIERS, reason="neither bubblewrap nor Landlock isolates on this machine"),
]


@pytest.mark.parametrize("tier", TIERS)
def test_a_submission_that_is_marked_twice_shows_what_it_said_before_the_first_hidden_input(
    tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sandbox is lost after the hidden inputs were asked; what the second run prints, or flags, is nobody's to see."""
    root, lesson = tmp_path / "course", find_lesson(LESSON)
    hostile_class.make(root, [hostile_class.HONEST], lesson=LESSON)
    notebook = demo.perfect(root, lesson)
    told = "import os\nprint('told', os.urandom(16).hex())\nos.urandom(1)[0] % 2 or 1 / 0"
    notebook.cells[1:1] = [nbformat.v4.new_code_cell(told) for _ in range(8)]
    ran: list[list[str]] = []
    asked, run = decide_marks.on_hidden, Submission.run

    def recorded(self: Any) -> None:
        run(self)
        ran.append(re.findall("told [0-9a-f]{32}", str([cell.outputs for cell in self.outputs])))

    with make_mark_scheme(root, LESSON).setup.sandbox(tier) as sandbox:

        def lost_after(*given: Any) -> Any:
            found = asked(*given)
            sandbox.lost += len(ran) == 1
            return found

        monkeypatch.setattr(decide_marks, "on_hidden", lost_after)
        monkeypatch.setattr(Submission, "run", recorded)
        marked = marking.mark(make_mark_scheme(root, LESSON), sandbox, nbformat.writes(notebook).encode())
    assert len(ran) == 2
    assert len(ran[0]) == 8
    shown = re.findall("told [0-9a-f]{32}", nbformat.writes(marked.notebook) + str(marked.flags) + str(marked.notes))
    assert shown == ran[0]
    assert all(report.score == report.points for report in marked.reports.values())


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
def test_a_grader_that_is_stopped_for_a_while_costs_nobody_a_mark(tier: str, tmp_path: Path, sample_course: Path) -> None:
    """Ctrl-Z, three times for eight seconds, while honest submissions are marked."""
    root = tmp_path / "course"
    hostile_class.make(root, [hostile_class.HONEST] * 12)
    script = f"""
import sys
from pathlib import Path
from autograder.grading import grade, workers
workers.choose_tier = lambda **_: {tier!r}
workers.likely_tier = lambda: {tier!r}
def say(row, done, total): print("done", done, flush=True)
report = grade.grade_assignment(Path({str(root)!r}), {hostile_class.LESSON!r}, workers=2, progress=say)
print([row.student for row in report.rows if row.score != row.points or row.flags or row.problem])
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=course_root().parent) as process:
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            last = line.strip()
            if last in ("done 1", "done 4", "done 7"):
                process.send_signal(signal.SIGSTOP)
                time.sleep(8)
                process.send_signal(signal.SIGCONT)
    assert (last, process.returncode) == ("[]", 0)


@pytest.mark.slow
def test_a_grader_that_is_ended_while_the_release_is_written_anew_can_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from nbgrader.apps.api import NbGraderAPI

    root = tmp_path / "course"
    (student,) = hostile_class.make(root, [hostile_class.HONEST], lesson=LESSON)
    (root / "gradebook.db").unlink()  # it must be released again
    released = sorted(path.name for path in (root / "release" / LESSON).iterdir())

    class Killed(BaseException):
        """As by a signal that nothing can catch."""

    def ended(*_: Any, **__: Any) -> None:
        shutil.rmtree(root / "release" / LESSON)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(NbGraderAPI, "generate_assignment", ended)
        with pytest.raises(Killed):
            grade.grade_assignment(root, LESSON)
    assert not (root / "release" / LESSON).exists()
    (row,) = grade.grade_assignment(root, LESSON).rows
    assert (row.student, row.score) == (student, row.points)
    assert set(released) <= {path.name for path in (root / "release" / LESSON).iterdir()}


@pytest.mark.slow
def test_a_grader_without_the_right_to_write_says_so_in_two_lines(tmp_path: Path) -> None:
    """A course folder where this user may write nothing; a limit on files stands for a disk that is full."""
    root = tmp_path / "course"
    hostile_class.make(root, [hostile_class.HONEST], lesson=LESSON)
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    limit += "; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    code = f"{limit}\nfrom autograder.cli import main\nraise SystemExit(main(['grade', {LESSON!r}]))"
    environment = {**os.environ, "ATTN_COURSE": str(root)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert 1 <= len(done.stderr.strip().splitlines()) <= 2, done.stderr
