"""What SECURITY promises, class by class: the cause is tested, not one attack."""

import contextlib
import io
import os
import re
import socket
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import nbformat
import pytest

from autograder import cli
from autograder.authoring.course import CourseError
from autograder.cli.instructor_output import print_class
from autograder.grading import collect, ledger, submitted_folders
from autograder.grading.marking import forbidden_names, scheme
from autograder.notebooks.html_page import prose
from autograder.plugins.sanitise import PageExporter
from autograder.sandbox import clock, wire
from autograder.sandbox.budget import Budget
from autograder.sandbox.inside import confine, wipe

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
    when, note = submitted_folders.handed_in(tmp_path / "timestamp.txt")
    assert when is None or isinstance(when, datetime)
    assert when is not None or note


def test_the_secret_is_made_whole_and_a_short_one_is_refused(tmp_path: Path) -> None:
    made = scheme.secret(tmp_path)
    assert len(made) == 64
    assert scheme.secret(tmp_path) == made
    assert [path.name for path in tmp_path.iterdir()] == [scheme.SECRET_FILE]
    assert (tmp_path / scheme.SECRET_FILE).stat().st_mode & 0o077 == 0
    (tmp_path / scheme.SECRET_FILE).write_text("")
    with pytest.raises(CourseError, match="expected a secret of at least"):
        scheme.secret(tmp_path)


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


def test_a_clean_up_that_no_tree_breaks(tmp_path: Path) -> None:
    """Deeper than Python's stack and than any path may be long; shut folders, links out of it, names that are no text."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "stays").write_text("x")
    folder = tmp_path / "scratch"
    (folder / "kept").mkdir(parents=True)
    top = os.open(folder, os.O_RDONLY)
    here = top
    for _ in range(3000):
        os.mkdir("d" * 200, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        if here != top:
            os.close(here)
        here = deeper
    os.close(here)
    os.close(top)
    (folder / "shut" / "in").mkdir(parents=True)
    (folder / "shut").chmod(0)
    (folder / "link").symlink_to(outside)
    os.mkdir(os.fsencode(folder) + b"/\xff\xfe")
    os.mkfifo(folder / "pipe")
    assert wipe.empty(str(folder), ["kept"]) == []
    assert os.listdir(folder) == ["kept"]
    assert (outside / "stays").read_text() == "x"


def test_seconds_are_shared_by_the_exercises_that_need_them() -> None:
    budget = Budget(60.0)
    for waiting in range(5, 0, -1):  # slow answers that end have their whole limit, however many there are
        assert budget.second(10.0, waiting) == 10.0
        budget.second_took(8.0, in_vain=False)
    total = 0.0
    for _ in range(9):
        total += budget.first(5.0)
        budget.late += 1
    for waiting in range(9, 0, -1):
        seconds = budget.second(5.0, waiting)
        budget.second_took(seconds, in_vain=True)
        total += seconds
    assert total < 5 + 12
    budget.spend(59.9)
    assert budget.spent
    assert budget.first(5.0) < 0.2


def test_a_second_grader_is_told_who_is_at_work(tmp_path: Path) -> None:
    with ledger.alone(tmp_path, "lesson"):
        with ledger.alone(tmp_path, "another lesson"):
            pass
        with pytest.raises(CourseError, match=f"process {os.getpid()} on"), ledger.alone(tmp_path, "lesson"):
            pass
    with ledger.alone(tmp_path, "lesson"):  # it is over when the first ends
        pass


@pytest.mark.parametrize("text", ["database or disk is full", "attempt to write a readonly database", "database is locked"])
def test_a_gradebook_that_cannot_be_written_ends_in_two_lines(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sqlalchemy.exc import OperationalError

    def fail(_: object) -> int:
        raise OperationalError("INSERT ...", {}, Exception(text))

    monkeypatch.setattr("autograder.cli.instructor._grade", fail)
    assert cli.main(["grade", "nothing"]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 2
    assert text in said[0]


def test_thousands_of_odd_cells_say_twenty_lines() -> None:
    flags = [f"unknown grade_id 'x{number}'" for number in range(1900)]
    assert len(ledger.bounded(flags)) == 20
    row = ledger.StudentRow("eve", 0.0, 14.0, flags=flags)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_class(ledger.ClassReport("lesson", "bubblewrap", [], [row, ledger.StudentRow("ada", 14.0, 14.0)]))
    assert len(text.getvalue().splitlines()) < 40


def test_what_a_person_would_read_otherwise_than_python_is_flagged() -> None:
    for text in ("x = 1 # \u202e1 = y", "a\u200bb = 1", "s\u043eftmax = 1", "s\u03bfftmax = 1", "\uff45val = 1"):
        assert forbidden_names.disguises(text), ascii(text)
    for text in (
        "α = 1",
        "x_σ = 2  # für λ",
        "# привет\nx = 1",
        "# 你好",
        "naïve = 1",
        "# d² and x₁",
        "dα = Δx",
        "_" * 200_000 + "é",
    ):
        assert forbidden_names.disguises(text) is None, text


def test_a_written_answer_that_a_person_would_read_otherwise_is_flagged() -> None:
    def flags(text: str) -> list[str]:
        cell = nbformat.v4.new_markdown_cell(text, metadata={"nbgrader": {"grade_id": "q", "solution": True, "grade": True}})
        return forbidden_names.flags({}, nbformat.v4.new_notebook(cells=[cell]))

    for text in ("It is \u202eorez\u202c.", "not\u200b one", "the s\u03bfftmax"):
        assert flags(text) == [f"a written answer holds {forbidden_names.disguises(text)}: read it with care"], ascii(text)
    for text in ("Wir wählen dα in ℝ², ﬁne 👩\u200d💻", "$x_σ$ für λ"):
        assert flags(text) == [], text


@pytest.mark.parametrize(
    "cell",
    [
        "import sys\nsys.modules['autograder.judging.call_answer']._changed = lambda *a: ()",
        "from autograder.judging import call_limits\ncall_limits.within = None",
        "import inspect\ninspect.currentframe().f_back",
        "import gc\ngc.get_objects()",
    ],
)
def test_a_cell_that_reaches_into_what_runs_it_is_flagged(cell: str) -> None:
    def said(source: str) -> list[str]:
        cells = [nbformat.v4.new_code_cell(source, id="extra-1")]
        return forbidden_names.flags({}, nbformat.v4.new_notebook(cells=cells))

    assert "reaches into what runs it" in " ".join(said(cell))
    assert said("import sys\nfrom autograder import check\nprint(sys.version, list(model.parameters()))") == []


def test_what_does_a_forbidden_ones_work_is_named_and_what_may_is_flagged() -> None:
    assert forbidden_names.names_it("torch.autograd", forbidden_names.names("from torch.func import vjp\ny = vjp(f, x)"))
    assert forbidden_names.builds_names("y = getattr(F, 'scaled_dot' + '_product_attention')(q, k, v)")
    assert not forbidden_names.builds_names("y = np.exp(x) / np.exp(x).sum()")


def test_a_process_that_cannot_start_at_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([BlockingIOError(), BlockingIOError(), 7])

    def fork() -> int:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(os, "fork", fork)
    assert confine.fork() == 7
