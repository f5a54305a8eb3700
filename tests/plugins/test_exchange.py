"""What goes through the exchange: students' regular files one way, feedback by their receipts the other."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from autograder.plugins.exchange import MAX_BYTES, Collect, ReleaseFeedback, read_folder, read_regular
from autograder.plugins.formgrader import grade

LESSON = "00_start_here"


def _feedback(root: Path, student: str, secret: str | None) -> None:
    """A page of feedback, and what `nbgrader submit` laid beside the notebook."""
    for kind in ("feedback", "submitted"):
        (root / kind / student / LESSON).mkdir(parents=True)
    (root / "feedback" / student / LESSON / f"{LESSON}.html").write_text(f"for {student}")
    if secret is not None:
        (root / "submitted" / student / LESSON / "submission_secret.txt").write_text(secret)
        (root / "submitted" / student / LESSON / "timestamp.txt").write_text("2026-01-02 03:04:05.000006 UTC")


def _exchange(kind: Any, root: Path) -> Any:
    """A plugin of nbgrader's exchange, at work between the course `root` and `root/exchange`."""
    from nbgrader.auth import Authenticator
    from nbgrader.coursedir import CourseDirectory

    (root / "exchange").mkdir(exist_ok=True)
    folder: Any = CourseDirectory(root=str(root), course_id="attention", assignment_id=LESSON)
    plugin = kind(coursedir=folder, authenticator=Authenticator())
    plugin.root = str(root / "exchange")
    return plugin


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nbgrader leaves a file to the collector
def test_feedback_of_a_submission_without_a_receipt_is_kept_back_and_stops_nobody_elses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _feedback(tmp_path, "ada", "a secret")
    _feedback(tmp_path, "by_mail", None)
    _exchange(ReleaseFeedback, tmp_path).start()
    pages = (tmp_path / "exchange" / "attention" / "feedback").glob("*.html")
    assert [page.read_text() for page in pages] == ["for ada"]
    assert "by_mail: no feedback released" in caplog.text


def test_a_receipt_is_a_small_file_and_no_link_or_pipe(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a secret")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "large").write_bytes(b"0" * (MAX_BYTES + 1))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    assert read_regular(tmp_path / "plain", MAX_BYTES) == b"a secret"
    for name in ("link", "large", "pipe", "absent"):
        with pytest.raises(OSError, match=name):
            read_regular(tmp_path / name, MAX_BYTES)


def test_collecting_follows_no_link_and_waits_for_no_pipe(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    private = tmp_path / "instructor" / f"{LESSON}.ipynb"
    private.parent.mkdir()
    private.write_text("somebody else's work")
    inbound = tmp_path / "exchange" / "attention" / "inbound"
    stamp = "2026-01-02 03:04:05.000006 UTC"
    for student in ("ada", "eve"):
        (inbound / f"{student}+{LESSON}+{stamp}+0").mkdir(parents=True)
        (inbound / f"{student}+{LESSON}+{stamp}+0" / "timestamp.txt").write_text(stamp)
    (inbound / f"ada+{LESSON}+{stamp}+0" / f"{LESSON}.ipynb").write_text("her own work")
    (inbound / f"eve+{LESSON}+{stamp}+0" / f"{LESSON}.ipynb").symlink_to(private)
    os.mkfifo(inbound / f"eve+{LESSON}+{stamp}+0" / "pipe")
    (inbound / f"mallory+{LESSON}+{stamp}+0").symlink_to(private.parent)
    _exchange(Collect, tmp_path).start()
    collected = {str(path.relative_to(tmp_path / "submitted")): path for path in (tmp_path / "submitted").rglob("*.*")}
    assert set(collected) == {f"ada/{LESSON}/{LESSON}.ipynb", f"ada/{LESSON}/timestamp.txt", f"eve/{LESSON}/timestamp.txt"}
    assert collected[f"ada/{LESSON}/{LESSON}.ipynb"].read_text() == "her own work"
    assert f"{LESSON}.ipynb, pipe" in caplog.text


def test_a_folder_too_large_is_collected_as_far_as_it_fits(tmp_path: Path) -> None:
    for name, size in {"a": 10, "b": 1000, "c": 20}.items():
        (tmp_path / name).write_bytes(b"0" * size)
    files, left_out = read_folder(tmp_path, 100)
    assert {name: len(data) for name, data in files.items()} == {"a": 10, "c": 20}
    assert left_out == ["b"]


def test_the_formgraders_button_says_why_it_could_not_grade(scratch_course: Path) -> None:
    answer = asyncio.run(grade(str(scratch_course), LESSON, "nobody"))
    assert answer["success"] is False
    assert "Collect first" in answer["log"]
    assert json.dumps(answer)
