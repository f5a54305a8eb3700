"""What `attn build`, `attn grade` and `attn feedback` show while they work: a bar on a terminal, nothing elsewhere."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from autograder.authoring.make_release import BuildStep
from autograder.cli.instructor_output import STEPS, print_step, progress_bar, steps_bar
from autograder.grading.ledger import StudentRow

CODE = """
from autograder.cli.instructor_output import progress_bar
from autograder.grading.ledger import StudentRow
with progress_bar("grading 01") as move:
    move(StudentRow("ann", 3.0, 4.0, flags=["a [red] remark"]), 1, 2)
    move(StudentRow("ben", 0.0, 4.0, problem="no notebook"), 2, 2)
"""


def test_off_a_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("grading 01") as move:
        move(StudentRow("ann", 3.0, 4.0), 1, 2)
    with steps_bar("writing", 3) as steps:
        steps.done("ann", 1, 3)
        steps.count(2, 3)
    assert capsys.readouterr() == ("", "")


def test_each_step_of_a_build_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = get_args(get_type_hints(BuildStep)["kind"])
    assert set(kinds) == set(STEPS)
    for kind in kinds:
        print_step(BuildStep("01_a", kind, "b" if "{detail}" in STEPS[kind] else ""))
    assert capsys.readouterr().out.splitlines() == [
        "01_a: making its pack", "01_a: b", "01_a: executing its cells", "01_a: renewing its text", "01_a: releasing it",
        "01_a: wrote b", "01_a: nothing has changed",
    ]  # fmt: skip
    assert [kind for kind in kinds if BuildStep("01_a", kind).finished] == ["written", "unchanged"]


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_on_a_terminal_the_bar_comes_first_and_then_a_line_for_each_student(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", CODE], stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    ) as run:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # its end is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    text = shown.decode()
    assert run.returncode == 0
    assert text.index("grading 01") < text.index("ann: 3 of 4, 1 remark") < text.index("ben: no notebook")
