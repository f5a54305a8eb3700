"""One submission takes nothing of another's: processes, disk, marks on files. In each tier that isolates, honest ones beside."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autograder.cli.instructor_output import print_class
from autograder.grading.grade import grade_assignment
from autograder.grading.ledger import ClassReport, StudentRow
from autograder.grading.marking import mark_submission
from autograder.judging.observation import Probe
from autograder.judging.values import encode
from autograder.sandbox import launch
from autograder.sandbox.budget import OWN_S, PURSE_S, Budget, Purse
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import available_tiers
from autograder.sandbox.run_submission import Cell
from autograder.sandbox.submission_limits import Limits
from autograder.workspace import doctor
from tests import armed, hostile_class

TIERS = [tier.name for tier in available_tiers() if tier.available and tier.name != "none"]
pytestmark = [
    pytest.mark.usefixtures("sample_course"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.skipif(not TIERS, reason="neither bubblewrap nor Landlock isolates on this machine"),
]
WORKS = "import subprocess, sys, threading\nt = threading.Thread(target=print); t.start(); t.join()\nprint('worked')"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the markers of the payloads in `pair` are (`tests.armed`)."""
    return tmp_path / "markers"


@pytest.fixture(params=TIERS)
def pair(request: pytest.FixtureRequest, log: Path) -> Iterator[tuple[Sandbox, Sandbox]]:
    """Two warm sandboxes of one tier, as two workers have them."""
    limits = Limits(cell_s=4.0, wall_s=10.0)
    with (
        armed.listening(log),
        Sandbox(request.param, limits, ("numpy",)) as one,
        Sandbox(request.param, limits, ("numpy",)) as other,
    ):
        yield one, other


def said(sandbox: Sandbox, source: str) -> str:
    with sandbox.submission([Cell("a", source)]) as submission:
        return "".join(output.get("text", output.get("evalue", "")) for output in submission.outputs[0].outputs)


def beside(pair: tuple[Sandbox, Sandbox], hostile: str, honest: str, times: int = 5) -> list[str]:
    """What `honest` says in one sandbox, again and again, while `hostile` runs in the other, armed."""
    attacker, sandbox = pair
    thread = threading.Thread(target=said, args=(attacker, armed.armed("beside", hostile)))
    thread.start()
    try:
        return [said(sandbox, honest) for _ in range(times)]
    finally:
        thread.join()


def own(sandbox: Sandbox, what: str) -> bool:
    """Whether this worker has `what` for itself; a test of it says where it has not, as SECURITY does."""
    return sandbox._host is not None and what not in sandbox._host.shared


@pytest.mark.parametrize(("pulse", "point"), [(hostile_class.FORKS, "processes"), (hostile_class.THREADS, "threads")])
def test_one_that_starts_processes_without_end_leaves_the_others_theirs(
    pair: tuple[Sandbox, Sandbox], pulse: str, point: str, log: Path
) -> None:
    if not own(pair[1], "processes"):
        pytest.skip("submissions share a user here: the report's first line says so")
    found = beside(pair, pulse.format(seconds=3), WORKS)
    assert all(text.endswith("worked\n") for text in found), found
    assert armed.inert(armed.markers(log)["beside"], {point: r"[1-9]\d\d+"}) == []


def test_one_that_fills_its_disk_leaves_the_others_theirs(pair: tuple[Sandbox, Sandbox], log: Path) -> None:
    if not own(pair[1], "disk"):
        pytest.skip("submissions share a disk here: the report's first line says so")
    attacker, sandbox = pair
    filled = "free = lambda: __import__('os').statvfs('.').f_bavail\n" + hostile_class.DISK.format() + "\nprint(free())"
    room = "import os\nfor n in range(20): open(f'x{n}', 'wb').write(bytes(4 << 20))\nprint(len(os.listdir('.')))"
    before = free_bytes()
    assert beside((attacker, sandbox), filled, room) == ["20\n"] * 5
    assert said(attacker, room) == "20\n", "the next submission has the whole disk again"
    assert before - free_bytes() < 1 << 30
    assert armed.inert(armed.markers(log)["beside"], {"disk": "full"}) == []


def free_bytes() -> int:
    found = os.statvfs(tempfile.gettempdir())
    return found.f_bavail * found.f_frsize


def test_no_mark_on_a_folder_passes_from_one_submission_to_the_next(pair: tuple[Sandbox, Sandbox], log: Path) -> None:
    mark = """
import array, fcntl, os
for number in (0x40086602, 0x40046602, 0x401C5820):
    for path in (".", "..", os.environ["TMPDIR"]):
        given = os.open(path, os.O_RDONLY), number, array.array("L", [0x40] * 8)
        try: attack(f"mark {number:x}", fcntl.ioctl, *given); print("marked", path)
        except PermissionError: pass
with attack.on("names"):
    for n in range(3000): open(f"../{n:0200d}", "w").close()
print("done")
"""
    look = "import os\nprint(os.stat('..').st_size, os.stat('..').st_mode, os.listdir('..'))"
    sandbox = pair[0]
    before = said(sandbox, look)
    assert said(sandbox, armed.armed("marks", mark)) == "done\n"
    marks = dict.fromkeys(("mark 40086602", "mark 40046602", "mark 401c5820"), "refused EPERM")
    assert armed.inert(armed.markers(log)["marks"], marks | {"names": "ran"}) == []
    if own(sandbox, "disk"):
        assert said(sandbox, look) == before


def test_an_answer_that_waits_for_a_processor_has_the_seconds_of_one_that_does_not(pair: tuple[Sandbox, Sandbox]) -> None:
    """Less than half a second of work and a limit of a second, with five others in line for the only processor."""
    sandbox = pair[0]
    if sandbox._host is None or not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel does not say how long a process waited")
    worker, cpu = sandbox._host._inner or sandbox._host._process.pid, min(os.sched_getaffinity(0))  # type: ignore[union-attr]  # it runs
    allowed = os.sched_getaffinity(worker)
    spin = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    work = "import time\ndef f(x):\n    while time.process_time() < {}: pass\n    return x"
    others = [subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) for _ in range(5)]
    try:
        os.sched_setaffinity(worker, {cpu})
        for seconds, ends in ((0.4, "value"), (99, "timeout")):
            with sandbox.submission([Cell("a", work.format(seconds))]) as submission:
                began = time.monotonic()
                (seen,) = submission.observe("f", [Probe(encode({"x": np.arange(3.0)}))], 1.0)
            assert (seen.failure.kind if seen.failure else "value") == ends
            assert time.monotonic() - began < 30
    finally:
        os.sched_setaffinity(worker, allowed)
        for other in others:
            other.kill()
            other.wait()


def test_a_class_that_takes_all_it_can_get_comes_after_those_that_need_little() -> None:
    purse, total = Purse(480.0), 0.0
    for _ in range(300):
        budget = purse.lend(60.0)
        assert OWN_S <= budget.left_s <= 60.0
        total += budget.left_s
        budget.spend(60.0)
        purse.take_back(budget)
    assert total <= 300 * OWN_S + 480
    purse, first = Purse(480.0), 0.0
    for number in range(300):  # honest ones give back what they do not need
        budget = purse.lend(60.0)
        first = first or budget.left_s
        assert budget.left_s == first, number
        budget.spend(1.0)
        purse.take_back(budget)
    assert first == 60.0


def test_the_first_submission_of_a_class_has_all_its_seconds_at_once() -> None:
    """So that even with one worker it is marked once, and not again when everybody else is."""
    assert Purse(PURSE_S).lend(60.0).left_s == 60.0


def test_workers_of_a_root_grader_have_users_of_their_own() -> None:
    users = [launch.User() for _ in range(3)]
    try:
        uids = [user.uid for user in users]
        assert uids == [None] * 3 or len(set(uids)) == 3
    finally:
        for user in users:
            user.release()


def test_every_kind_of_hostility_says_what_must_come_to_pass() -> None:
    assert hostile_class.RAN.keys() == hostile_class.kinds().keys()


@pytest.mark.slow
@pytest.mark.parametrize("tier", [*TIERS[:1], *(pytest.param(tier, marks=pytest.mark.slowest) for tier in TIERS[1:])])
def test_a_class_of_every_kind_of_hostility_costs_honest_students_nothing(
    tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.grading.workers.choose_tier", lambda **_: tier)
    monkeypatch.setattr("autograder.grading.workers.likely_tier", lambda: tier)
    names = []
    for kind in hostile_class.kinds():
        names += [kind, hostile_class.HONEST]
    students = hostile_class.make(tmp_path / "course", names, seconds=1.0)
    limits = Limits(cell_s=1.5, wall_s=6.0, budget_s=12.0)
    with armed.listening(tmp_path / "markers"):
        report = grade_assignment(tmp_path / "course", hostile_class.LESSON, workers=2, feedback=True, limits=limits)
    assert hostile_class.inert(tmp_path / "markers") == []
    assert report.tier in (tier, f"{tier} (shared)")
    assert [row.student for row in report.rows] == students
    assert hostile_class.unharmed(report) == []


# ---------------------------------------------------------------------------------------------- said


@pytest.mark.parametrize("tier", ["landlock", "landlock (shared)", "none"])
def test_the_first_line_of_a_report_says_what_is_missing(tier: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = StudentRow("ada", 1.0, 1.0, tier=tier)
    print_class(ClassReport("lesson", tier, [], [row]))
    first = capsys.readouterr().out.splitlines()[0]
    assert "WITHOUT isolation" in first if tier == "none" else "without bubblewrap" in first
    print_class(ClassReport("lesson", "bubblewrap", [], [row]))
    assert "without" not in capsys.readouterr().out.lower()


@pytest.mark.parametrize(("shared", "lost"), [((), "namespace"), (("processes", "disk"), "disk and processes")])
def test_the_doctor_says_what_it_costs_that_bubblewrap_is_missing(
    shared: tuple[str, ...], lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autograder.sandbox import isolation_tiers

    found = {"landlock": isolation_tiers.Tier("landlock", True, shared=shared)}
    monkeypatch.setattr(
        isolation_tiers, "try_tier", lambda name: found.get(name, isolation_tiers.Tier(name, False, "not installed"))
    )
    finding = doctor.sandbox()
    assert finding.status == "part"
    assert "bubblewrap is missing" in finding.said
    assert lost in finding.said


@pytest.mark.parametrize(("shared", "status"), [((), "pass"), (("files",), "part")])
def test_the_doctor_says_where_bubblewrap_cannot_count_files(
    shared: tuple[str, ...], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autograder.sandbox import isolation_tiers

    monkeypatch.setattr(isolation_tiers, "try_tier", lambda name: isolation_tiers.Tier(name, True, shared=shared))
    finding = doctor.sandbox()
    assert finding.status == status
    assert ("number of files" in finding.said) == bool(shared)


def test_a_loan_goes_back_if_marking_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    purse = Purse(PURSE_S)

    def clash(scheme: Any, sandbox: Any, handed: Any, budget: Budget, *_: Any, **__: Any) -> None:
        assert purse.left_s < PURSE_S
        budget.spend(OWN_S + 1.0)
        raise SystemError

    monkeypatch.setattr(mark_submission, "_Marking", clash)
    scheme: Any = SimpleNamespace(limits=Limits())
    with pytest.raises(SystemError):
        mark_submission.mark(scheme, None, b"", purse)  # type: ignore[arg-type]  # nothing runs
    assert purse.left_s == PURSE_S - 1.0
