"""`attn watch`: what a save concerns, and how watching and checking end."""

import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path

import nbformat
import pytest

from autograder.workspace import folder as workspace
from autograder.workspace import watch
from tests.learner import LESSON, RIGHT, SetAnswer
from tests.waiting import WAIT_S, wait_until

# Start a program as a script does in the background: with Ctrl-C ignored.
DEAF = [
    sys.executable, "-c",
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
]  # fmt: skip


def _notebook(*sources: str) -> list[watch.Cell]:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for cell in cells:
        if cell.source.startswith("check("):
            cell.metadata["nbgrader"] = {"grade": True}
    return watch.cells(nbformat.v4.new_notebook(cells=cells))


BEFORE = (
    "import numpy as np",
    "scale = 2",
    "def f(x):\n    y = x\n    return y",
    'check("f")',
    "def g(y):\n    return f(y) * scale",
    'check("g")',
    "def h(y):\n    return y",
    'check("h")',
)


@pytest.mark.parametrize(
    ("change", "concerned"),
    [
        ({}, set()),
        ({2: "def f(x):\n    y = 1\n    return y"}, {"f", "g"}),
        ({4: "def g(y):\n    return 0"}, {"g"}),
        ({1: "scale = 3"}, {"g"}),
        ({1: "scale = 2\nscale.real"}, {"g"}),
        ({1: ""}, {"g"}),
        ({0: "from numpy import *"}, {"f", "g", "h"}),
        ({6: "def h(y) return"}, {"h"}),
        ({6: "%matplotlib inline\ndef h(y):\n    return 1"}, {"h"}),
    ],
)
def test_a_save_concerns_what_changed_and_what_uses_it_and_nothing_else(change: dict[int, str], concerned: set[str]) -> None:
    after = [change.get(index, source) for index, source in enumerate(BEFORE)]
    assert watch.affected(_notebook(*BEFORE), _notebook(*after)) == concerned


def test_a_save_that_only_moves_cells_concerns_everything() -> None:
    assert watch.affected(_notebook(*BEFORE), _notebook(*BEFORE[4:], *BEFORE[:4])) == {"f", "g", "h"}


@pytest.mark.parametrize(
    "line", ["table[0] = 1", "table.append(1)", "table.x = 1", "def set():\n    global table\n    table = 1"]
)
def test_a_cell_that_changes_a_value_concerns_those_who_read_it(line: str) -> None:
    before = ("table = []", "def f(x):\n    return table", 'check("f")', "def g(x):\n    return x", 'check("g")')
    assert watch.affected(_notebook(*before), _notebook(before[0], line, *before[1:])) == {"f"}


def test_watching_sleeps_between_looks_and_reads_a_notebook_only_when_it_was_saved(
    work: Path, path: Path, set_answer: SetAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps, reads = [], []
    load = workspace.load

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 5:
            path.write_text('{"cells": [', encoding="utf-8")  # half written
        if len(naps) == 10:
            shutil.copyfile(workspace.release(work, LESSON), path)
            set_answer(path, "average_pool", RIGHT)

    monkeypatch.setattr(watch, "time", types.SimpleNamespace(sleep=sleep))  # its own only: a clock of the grader sleeps as well
    monkeypatch.setattr(workspace, "load", lambda path: reads.append(path) or load(path))
    assert next(watch.saves(work, [LESSON])) == (LESSON, {"average_pool"})
    assert naps == [watch.POLL_S] * 10
    assert len(reads) == 1 + 5 + 1


def test_a_save_counts_from_the_moment_that_watching_begins(work: Path, path: Path, set_answer: SetAnswer) -> None:
    saves = watch.saves(work, [LESSON])
    set_answer(path, "average_pool", RIGHT)
    assert next(saves) == (LESSON, {"average_pool"})


def test_watch_checks_what_was_saved_and_ends_cleanly(work: Path, path: Path, set_answer: SetAnswer, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with log.open("w") as out:
        command = [*DEAF, sys.executable, "-m", "autograder.cli", "watch", "0", "--workspace", str(work)]
        watcher = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_until(lambda: "Watching 1" in log.read_text(encoding="utf-8"))
        set_answer(path, "average_pool", RIGHT)
        wait_until(lambda: "✓ Average the values" in log.read_text(encoding="utf-8"))
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(WAIT_S) == 0
    finally:
        watcher.kill()
        watcher.wait()
    said = log.read_text(encoding="utf-8")
    assert said.endswith("Stopped watching.\n")
    assert "Traceback" not in said
    assert "Predict" not in said


def test_ctrl_c_during_a_check_ends_its_kernel_and_says_so(work: Path, path: Path, set_answer: SetAnswer, tmp_path: Path) -> None:
    mark = tmp_path / "kernel"
    source = f"import os, pathlib, time; pathlib.Path({str(mark)!r}).write_text(str(os.getpid())); time.sleep(600)"
    set_answer(path, "average_pool", source)
    command = [*DEAF, sys.executable, "-m", "autograder.cli", "check", "0", "--workspace", str(work)]
    checker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: mark.exists() and mark.read_text() != "")
    checker.send_signal(signal.SIGINT)
    _, said = checker.communicate(timeout=WAIT_S)
    assert checker.returncode == 130
    assert said.strip() == "attn: stopped"
    wait_until(lambda: not Path(f"/proc/{mark.read_text()}").exists())
