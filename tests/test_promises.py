"""What SECURITY promises, class by class: the cause is tested, not one attack."""

import re
import socket
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.course import CourseError
from autograder.grading import collect, grade, mark
from autograder.notebooks.submission import prose
from autograder.plugins.sanitise import PageExporter
from autograder.sandbox import clock, wire

LINKS = (
    "[figure](javascript:alert(1))",
    "[figure](&#106;avascript:alert(1))",
    "[figure](&#x6A;avascript:alert(1))",
    "[figure](java\\script:alert(1))",
    "[figure](javascript\\:alert(1))",
    "[figure](<javascript:alert(1)>)",
    "[figure](\tjavascript:alert(1))",
    "[figure](JaVaScRiPt&colon;alert(1))",
    "[figure][1]\n\n[1]: javascript:alert(1)",
    "[figure][1]\n\n[1]:\n javascript:alert(1)",
    "[figure][1]\n\n[1]: &#106;avascript:alert(1)",
    "[figure](data:text/html;base64,PHNjcmlwdD4=)",
    "[figure](vbscript:x)",
    "![figure](javascript:alert(1))",
    "<a href='javascript:alert(1)'>figure</a>",
    "<javascript:alert(1)>",
)


def page(source: str) -> str:
    cell = nbformat.v4.new_markdown_cell(source)
    html, _ = PageExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    return str(html[html.index("<body") :])


@pytest.mark.parametrize("source", LINKS)
def test_no_link_of_a_student_runs_a_script_in_the_formgrader(source: str) -> None:
    for text in (source, prose(source)):  # the page alone, and the text alone, are each enough
        hrefs = [part.partition('"')[0] for part in page(text).split('href="')[1:]]
        assert all(href.startswith(("#", "http://", "https://", "mailto:")) for href in hrefs), hrefs


@pytest.mark.parametrize("source", LINKS)
def test_what_is_kept_of_a_students_text_links_nothing_even_in_plain_nbgrader(source: str) -> None:
    from nbconvert.filters import markdown2html

    hrefs = re.findall(r'<a [^>]*href="([^"]*)"', markdown2html(prose(source)))
    assert all(href.startswith(("#", "http://", "https://", "mailto:")) for href in hrefs), hrefs


def test_a_plain_web_address_stays_a_link() -> None:
    assert prose("see [the paper](https://arxiv.org/abs/1706.03762)") == "see [the paper](https://arxiv.org/abs/1706.03762)"


@pytest.mark.parametrize("text", ["9" * 99 + "h", "1e9999", "", "0000-00-00", "9999999999-01-01", "12:61", "\x00", "nan"])
def test_a_timestamp_of_any_kind_stops_nobody(text: str, tmp_path: Path) -> None:
    (tmp_path / "timestamp.txt").write_text(text)
    when, note = grade._handed_in(tmp_path / "timestamp.txt")
    assert when is None or isinstance(when, datetime)
    assert when is not None or note


def test_the_secret_is_made_whole_and_a_short_one_is_refused(tmp_path: Path) -> None:
    made = mark.secret(tmp_path)
    assert len(made) == 64
    assert mark.secret(tmp_path) == made
    assert [path.name for path in tmp_path.iterdir()] == [mark.SECRET_FILE]
    assert (tmp_path / mark.SECRET_FILE).stat().st_mode & 0o077 == 0
    (tmp_path / mark.SECRET_FILE).write_text("")
    with pytest.raises(CourseError, match="expected a secret of at least"):
        mark.secret(tmp_path)


def test_two_students_whose_names_fold_together_are_refused_with_both_names(tmp_path: Path) -> None:
    notebook = nbformat.writes(nbformat.v4.new_notebook()).encode()
    for name in ("Zoe", "Zoë", "王-a", "李-a", "Ada"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00_start_here.ipynb").write_bytes(notebook)
    intake = collect.survey(tmp_path, "00_start_here", {})
    assert sorted(intake.taken) == ["Ada"]
    reasons = " ".join(refused.reason for refused in intake.refused)
    for name in ("Zoe", "Zoë", "王-a", "李-a"):
        assert repr(name) in reasons


def test_deadlines_rest_while_the_grader_is_busy_with_another_students_text() -> None:
    """Eight seconds in which no thread of the grader runs take none of an honest student's two seconds."""
    ours, theirs = socket.socketpair()
    clock.start()
    started = clock.now()
    real = time.monotonic()
    with ours, theirs:
        threading.Timer(0.4, lambda: wire.send(theirs, {"op": "hello"}, deadline=clock.now() + 5)).start()
        before = sys.getswitchinterval()
        sys.setswitchinterval(30)  # as in one long regular expression: this thread keeps the interpreter
        try:
            while time.monotonic() - real < 3:
                pass
        finally:
            sys.setswitchinterval(before)
        assert clock.now() - started < 1
        assert wire.receive(ours, deadline=started + 2)[0] == {"op": "hello"}


def test_a_deadline_that_passes_is_still_a_timeout() -> None:
    ours, theirs = socket.socketpair()
    clock.start()
    with ours, theirs, pytest.raises(wire.WireTimeoutError):
        wire.receive(ours, deadline=clock.now() + 0.3)
