"""A text that is made to be slow costs its author alone: honest students graded beside it have their marks, and in time."""

import ast
import functools
import os
import shutil
import signal
import subprocess
import symtable
import sys
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import course_root, find_lesson
from autograder.grading import read_in_child
from autograder.grading.grade import grade_assignment
from autograder.grading.marking import forbidden_names, read_submission
from autograder.grading.read_in_child import Task
from autograder.grading.trials import demo
from autograder.notebooks import scopes
from autograder.notebooks.html_page import prose
from autograder.notebooks.rebuild_submission import MAX_PROSE, Cell, UnreadableError, parse_script, rebuild
from autograder.notebooks.roles import grade_id, is_answer
from autograder.plugins.sanitise import PageExporter
from autograder.sandbox.budget import Budget
from autograder.sandbox.inside.confine import MIN_LANDLOCK, landlock_abi
from autograder.sandbox.isolation_tiers import available_tiers
from tests import sample

LESSON = sample.LESSON
ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())
pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.usefixtures("sample_course"),
]


def nested(depth: int) -> str:
    text = "x"
    for number in range(depth):
        quote = ('"""', "'''", '"', "'")[number % 4] if number < 4 else '"'
        text = f"f{quote}{{{text}}}{quote}" if number < 4 else f"({{({text}): 1}})"
    return text


MARKDOWN = {
    "ticks": "`" * 40 + " " * 19_000 + "x",
    "links": "[" * 9_000,
    "emphasis": "*a_" * 6_000,
    "fence": ("```" + " " * 99) * 190,
}
CODE = {
    "case": "case" + " " * 198_000 + "x",
    "f_strings": "\n".join(f"y{n} = {nested(60)}" for n in range(400)),
    "brackets": "(" * 90_000,
    "sums": "z = " + "-" * 90_000 + "1",
}


@functools.cache
def _unit() -> float:
    """The processor seconds in which Python parses a cell of 15,000 lines: limits in these are the same on any machine."""
    source, seconds = "\n".join(f"q{number} = 1" for number in range(15_000)), []
    for _ in range(3):
        began = time.process_time()
        ast.parse(source)
        seconds.append(time.process_time() - began)
    return min(seconds)


@pytest.mark.parametrize("name", MARKDOWN)
def test_what_is_kept_of_a_text_is_found_in_linear_time(name: str) -> None:
    began = time.process_time()
    prose(MARKDOWN[name])
    assert time.process_time() - began < 5 * _unit()


@pytest.mark.parametrize("name", [*MARKDOWN, *CODE])
def test_the_page_of_a_hostile_text_in_the_formgrader_takes_its_time_from_nobody(name: str) -> None:
    cell = nbformat.v4.new_markdown_cell(MARKDOWN[name]) if name in MARKDOWN else nbformat.v4.new_code_cell(CODE[name])
    PageExporter().from_notebook_node(nbformat.v4.new_notebook())  # its libraries
    began = time.process_time()
    html, _ = PageExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    assert time.process_time() - began < 100 * _unit()
    assert len(html) > 1000


@pytest.mark.skipif(sys.platform == "win32", reason="grading needs fork")
def test_the_reader_answers_what_it_can_and_stops_nobody() -> None:
    honest = [Task("scopes", "a = b"), Task("coloured", "x = 1"), Task("markdown", "*hi*"), Task("names", "F.softmax")]
    assert len(read_in_child.read(honest)) == 4
    found = read_in_child.read([*honest, Task("coloured", CODE["case"]), Task("scopes", "late = 1")])
    assert {task for task in found if task in honest} == set(honest)
    assert Task("coloured", CODE["case"]) not in found
    assert read_in_child.read([Task("scopes", "a = b")]) == {Task("scopes", "a = b"): [["a"], ["b"]]}


@pytest.mark.skipif(sys.platform == "win32", reason="grading needs fork")
def test_all_readings_of_a_submission_share_their_seconds() -> None:
    """Each had two of its own, so that long texts which do no work took many more than a submission has."""
    budget = Budget(60.0)
    seconds = read_in_child.Seconds(read_in_child.READ_S, budget)
    late = [Task("coloured", "x = 1"), Task("coloured", CODE["case"])]
    found = [read_in_child.read(late, seconds) for _ in range(4)]
    assert [len(each) for each in found] == [1, 1, 0, 0]
    assert seconds.short
    assert seconds.left_s < 0.1
    assert 60.0 - read_in_child.READ_S <= budget.left_s < 60.1 - read_in_child.READ_S


@pytest.mark.skipif(sys.platform == "win32", reason="grading needs fork")
def test_a_reading_ends_with_the_seconds_that_are_left_and_takes_none_that_it_did_not_use() -> None:
    seconds = read_in_child.Seconds(0.5)
    assert read_in_child.read([Task("coloured", CODE["case"])], seconds) == {}
    assert seconds.left_s == 0
    seconds = read_in_child.Seconds(read_in_child.READ_S, Budget(0.5))
    assert read_in_child.read([Task("coloured", CODE["case"])], seconds) == {}
    assert seconds.left_s == pytest.approx(read_in_child.READ_S - 0.5)


@pytest.mark.skipif(sys.platform == "win32", reason="grading needs fork")
def test_an_honest_notebook_of_sixty_cells_is_read_in_a_part_of_its_seconds() -> None:
    files = [path.read_text(encoding="utf-8") for path in sorted(Path(read_in_child.__file__).parent.rglob("*.py"))]
    whole = [(text, node) for text in files for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    answers = [str(ast.get_source_segment(text, node)) for text, node in whole][:60]
    assert len(set(answers)) == 60
    seconds = read_in_child.Seconds(read_in_child.READ_S)
    for kinds in (("scopes", "statements", "names"), ("calls",), ("coloured",)):
        tasks = [Task(kind, source) for kind in kinds for source in answers]
        assert len(read_in_child.read(tasks, seconds)) == len(set(tasks))
    assert not seconds.short
    assert seconds.left_s > read_in_child.READ_S / 2


@pytest.mark.skipif(sys.platform == "win32", reason="grading needs fork")
def test_a_long_request_waits_for_a_reader_that_is_not_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook larger than a socket's buffer was lost where the reader took half a second to start, and all marks with it."""
    server = read_in_child._Server()
    monkeypatch.setattr(read_in_child, "_server", server)
    server.start()
    assert server._process is not None
    os.kill(server._process.pid, signal.SIGSTOP)
    again = threading.Timer(1.5, os.kill, (server._process.pid, signal.SIGCONT))
    again.start()
    try:
        long = Task("scopes", "a = 1\n" + "# a comment\n" * 100_000)
        assert read_in_child.read([long]) == {long: [["a"], []]}
    finally:
        again.join()
        server.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="grading needs fork")
def test_what_a_killed_reader_did_not_answer_is_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    server = read_in_child._Server()
    monkeypatch.setattr(read_in_child, "_server", server)
    server.start()
    assert server._process is not None
    first = server._process.pid
    killed = threading.Timer(0.1, os.kill, (first, signal.SIGKILL))
    killed.start()
    try:
        assert read_in_child.read([Task("scopes", "a = b")]) == {Task("scopes", "a = b"): [["a"], ["b"]]}
        assert server._process.pid != first
    finally:
        killed.join()
        server.stop()


def slow_symbols(number: int) -> str:
    """Quick to parse; the compiler's tables of symbols take their time."""
    return "def f():\n " + "=".join(f"a{each}" for each in range(number)) + "=1\n [" + "lambda:0," * number + "]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="grading needs fork")
def test_the_grader_itself_parses_no_text_of_a_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what was handed in, nor what is put together anew of it: additions to a locked cell, answers from one cell."""
    lesson = find_lesson(LESSON)
    release = nbformat.read(course_root() / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)
    ours = {cell.source for cell in release.cells}
    locked = next(cell for cell in release.cells if cell.cell_type == "code" and grade_id(cell) and not is_answer(cell))
    first, second = [one.id for one in lesson.in_code()][:2]
    cells = [
        Cell("code", "%foo\n" + slow_symbols(300) + "\nextra = 1", grade_id(locked), None),
        Cell("code", f"draft = 1\ndef {first}(x):\n    return x", None, None),
        Cell(
            "code", f"import os\nhelper = 2\ndef {first}(x):\n    return x\n\n\ndef {second}(x):\n    return helper", None, None
        ),
    ]
    parsed: list[str] = []
    for module, name in ((symtable, "symtable"), (ast, "parse")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda text, *more, real=real: (parsed.append(text), real(text, *more))[1])
    try:
        assert read_submission.read_ahead(cells, ours) == []
        rebuilt = rebuild(release, cells)
        assert read_submission.read_anew(rebuilt.notebook) == []
        code = [cell.source for cell in rebuilt.notebook.cells if cell.cell_type == "code" and cell.source not in ours]
        assert any("extra = 1" in text and text not in [cell.source for cell in cells] for text in code)
        assert {"draft = 1", "import os\nhelper = 2"} <= set(code)
        for text in code:
            assert forbidden_names.bindings(text)[0] <= forbidden_names.names(text) | {first, second, "f", "x"}
            read_submission.without_absent(text, read_submission.Imports())
        assert set(parsed) <= {*ours, *(scopes._MAGIC.sub("pass", text) for text in ours)}
    finally:
        read_submission.forget()
    assert scopes.scopes("a = b") == ({"a"}, {"b"}), "afterwards it parses again"


def test_what_is_put_together_has_the_statements_that_a_parser_finds() -> None:
    source = "# why\nimport os\na = 1; b = 2\n\n@dec\ndef f(x):\n    '''two\n    lines'''\n    return x\n\n# end\n"
    every = scopes.statements(source)
    for chosen in (every, every[1:], every[::2], every[:1]):
        scopes.only(())
        try:
            text = scopes.put_together(source, chosen)
            told = scopes.statements(text)
        finally:
            scopes.only(None)
        assert told == scopes.statements(text)


def test_many_statements_cells_and_imports_are_read_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.process_time()
    source = "\n".join(f"q{number} = 1" for number in range(15_000))
    found = scopes.statements(source)
    assert len(found) == scopes.MAX_STATEMENTS
    assert found[-1].last == 15_000
    assert "q14999" in found[-1].names
    assert scopes.put_together(source, found) == source
    chain = [f"g{number} = lambda: g{number - 1}" for number in range(1, 2000)]
    assert len(forbidden_names.Bindings(chain).leaned_on("g1999")) == 1999
    asked: list[str] = []
    monkeypatch.setattr(read_submission, "installed", lambda top: bool(asked.append(top)))
    imports = read_submission.Imports()
    absent = [read_submission.without_absent(f"import a{number}, a{number}.b", imports)[1] for number in range(5000)]
    assert len(asked) == read_submission.MAX_IMPORTS
    assert sum(map(bool, absent)) == read_submission.MAX_IMPORTS
    for script in (b"# %%\na\n" * 500_000, b"# %%\n" * 500_000):
        with pytest.raises(UnreadableError, match="text in its cells"):
            parse_script(script)
    assert len(parse_script(b"# %% [md]\n" + b"# a\n" * 1_000_000)[0].source) <= MAX_PROSE
    assert time.process_time() - began < 250 * _unit()


@pytest.mark.skipif(landlock_abi() < MIN_LANDLOCK, reason="this kernel has no Landlock that is new enough")
def test_who_reads_a_text_can_open_no_file_of_the_course_and_no_socket() -> None:
    """A parser or highlighter that a text takes over finds neither secrets nor a way out."""
    script = f"""
import os, socket
from autograder.grading import read_in_child
from autograder.sandbox import launch
inside = [{str(course_root() / "course.toml")!r}, "/etc/passwd"]
assert all(os.access(path, os.R_OK) for path in inside)
read_in_child._confine(launch.readable_paths())
def works(action):
    try:
        action()
    except OSError:
        return False
    return True
print([works(lambda path=path: open(path).close()) for path in inside],
      works(lambda: open(os.devnull + "x", "w")), works(lambda: open("/tmp/attn-x", "w")), works(lambda: socket.socket()))
import json.tool
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[False, False] False False False\n"


@pytest.mark.skipif(not ISOLATED, reason="nothing isolates on this machine")
def test_hostile_texts_cost_their_authors_alone(tmp_path: Path) -> None:
    lesson, root = find_lesson(LESSON), tmp_path / "course"
    for kind in ("source", "release"):
        shutil.copytree(course_root() / kind / LESSON, root / kind / LESSON)
    shutil.copyfile(course_root() / "nbgrader_config.py", root / "nbgrader_config.py")

    def hostile(cells: list[Any]) -> Any:
        notebook = demo.perfect(root, lesson)
        notebook.cells += cells
        return notebook

    for number in range(3):
        demo.submit(root, lesson, f"honest{number}", demo.perfect(root, lesson))
    demo.submit(root, lesson, "honest0_markdown", hostile([nbformat.v4.new_markdown_cell(text) for text in MARKDOWN.values()]))
    demo.submit(root, lesson, "honest1_code", hostile([nbformat.v4.new_code_cell(text) for text in CODE.values()]))
    report = grade_assignment(root, LESSON, workers=2, feedback=True)
    rows = {row.student: row for row in report.rows}
    for number in range(3):
        row = rows[f"honest{number}"]
        assert (row.score, row.flags, row.problem) == (row.points, [], None)
        assert "plain text because they took too long" not in _page(root, row.student)
    for name in ("honest0_markdown", "honest1_code"):
        assert rows[name].score == rows[name].points, "right answers stay right"
        assert rows[name].problem is None
        assert len(_page(root, name)) > 1000
    assert "plain text because they took too long" in _page(root, "honest1_code")


def _page(root: Path, student: str) -> str:
    return (root / "feedback" / student / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
