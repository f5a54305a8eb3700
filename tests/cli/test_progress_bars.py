"""What `attn build`, `attn grade` and `attn feedback` show while they work: a bar on a terminal, nothing elsewhere."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.cli.instructor_output import progress_bar, steps_bar
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
