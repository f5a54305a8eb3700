"""Feedback goes back through the exchange by the receipt that each submission carries, and only by that."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from autograder.exchange import MAX_BYTES, ReleaseFeedback, read_receipt
from autograder.formgrader import grade

LESSON = "00_start_here"


def _feedback(root: Path, student: str, secret: str | None) -> None:
    """A page of feedback, and what `nbgrader submit` laid beside the notebook."""
    for kind in ("feedback", "submitted"):
        (root / kind / student / LESSON).mkdir(parents=True)
    (root / "feedback" / student / LESSON / f"{LESSON}.html").write_text(f"for {student}")
    if secret is not None:
        (root / "submitted" / student / LESSON / "submission_secret.txt").write_text(secret)
        (root / "submitted" / student / LESSON / "timestamp.txt").write_text("2026-01-02 03:04:05.000006 UTC")


def _release(root: Path) -> list[str]:
    """What `release_feedback` lays into the exchange below `root`."""
    from nbgrader.auth import Authenticator
    from nbgrader.coursedir import CourseDirectory

    (root / "exchange").mkdir()
    folder: Any = CourseDirectory(root=str(root), course_id="attention", assignment_id=LESSON)
    plugin: Any = ReleaseFeedback(coursedir=folder, authenticator=Authenticator())
    plugin.root = str(root / "exchange")
    plugin.start()
    return sorted(page.read_text() for page in (root / "exchange" / "attention" / "feedback").glob("*.html"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nbgrader leaves a file to the collector
def test_feedback_of_a_submission_without_a_receipt_is_kept_back_and_stops_nobody_elses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _feedback(tmp_path, "ada", "a secret")
    _feedback(tmp_path, "by_mail", None)
    assert _release(tmp_path) == ["for ada"]
    assert "by_mail: no feedback released" in caplog.text


def test_a_receipt_is_a_small_file_and_no_link_or_pipe(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a secret")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "large").write_bytes(b"0" * (MAX_BYTES + 1))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    assert read_receipt(tmp_path / "plain") == b"a secret"
    for name in ("link", "large", "pipe", "absent"):
        with pytest.raises(OSError, match=name):
            read_receipt(tmp_path / name)


def test_the_formgraders_button_says_why_it_could_not_grade(scratch_course: Path) -> None:
    for kind in ("lessons", "exercises"):
        (scratch_course / kind).mkdir()
    (scratch_course / "lessons" / f"{LESSON}.md").touch()
    answer = asyncio.run(grade(str(scratch_course), LESSON, "nobody"))
    assert answer["success"] is False
    assert "Collect first" in answer["log"]
    assert json.dumps(answer)
