"""Seconds are a submission's own: other work on the machine, and others in the class, take none of them."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from autograder.grading import grade
from autograder.grading.grade import grade_assignment
from autograder.grading.marking import mark_submission
from autograder.grading.marking.read_submission import Handed
from autograder.grading.workers import Workers
from autograder.judging.observation import Probe
from autograder.judging.values import encode
from autograder.sandbox import budget as budgets
from autograder.sandbox import process
from autograder.sandbox.budget import Budget
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import available_tiers
from autograder.sandbox.run_submission import Cell, Question
from autograder.sandbox.submission_limits import Limits
from autograder.sandbox.submission_time import OwnTime
from tests import hostile_class

TIERS = [tier.name for tier in available_tiers() if tier.available and tier.name != "none"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.skipif(not TIERS, reason="neither bubblewrap nor Landlock isolates on this machine"),
]
SWEEP = process.Host.sweep
PROBE = Probe(encode({"x": np.arange(3.0)}))
WORK = "import time\ndef f(x):\n    end = time.process_time() + {}\n    while time.process_time() < end: pass\n    return x"


@pytest.fixture(params=[*TIERS[:1], *(pytest.param(tier, marks=pytest.mark.slow) for tier in TIERS[1:])])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(request.param, Limits(), ("numpy",)) as warm:
        yield warm


@pytest.fixture
def crowded(sandbox: Sandbox) -> Iterator[Sandbox]:
    """The sandbox on one processor, with five endless loops of other sessions beside it."""
    if not process.TELLS:
        pytest.skip("this kernel does not say how long a process waited")
    assert sandbox._host is not None
    assert sandbox._host._process is not None
    worker, cpu = sandbox._host._inner or sandbox._host._process.pid, min(os.sched_getaffinity(0))
    allowed = os.sched_getaffinity(worker)
    spin = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) for _ in range(5)]
    try:
        os.sched_setaffinity(worker, {cpu})
        yield sandbox
    finally:
        os.sched_setaffinity(worker, allowed)
        for other in others:
            other.kill()
            other.wait()


def test_a_budget_counts_the_work_and_not_the_time_in_line(crowded: Sandbox) -> None:
    budget = Budget(30.0)
    began = time.monotonic()
    with crowded.submission([Cell("a", WORK.format(1.5)), Cell("b", "f(0)")], budget=budget) as submission:
        (seen,) = submission.observe("f", [PROBE], 10.0)
    passed = time.monotonic() - began
    assert seen.failure is None
    assert [cell.status for cell in submission.outputs] == ["ok", "ok"]
    spent = 30.0 - budget.left_s
    assert spent > 2.9, "both calls are counted"
    assert spent < 0.6 * passed, "most of the time was spent in line, and is not counted"


def test_a_cell_that_is_ended_with_the_whole_budget_leaves_nothing_of_it(crowded: Sandbox) -> None:
    budget = Budget(2.0)
    with crowded.submission([Cell("a", "while True: pass")], budget=budget) as submission:
        assert submission.outputs[0].status == "timeout"
    assert budget.left_s == 0
    assert budget.spent


def test_sleep_counts_and_so_does_the_work_of_every_process(sandbox: Sandbox) -> None:
    budget = Budget(30.0)
    with sandbox.submission([Cell("a", "import time; time.sleep(1.5)")], budget=budget):
        pass
    assert 30.0 - budget.left_s > 1.4
    crowd = f"import os\npids = []\nfor _ in range(3):\n    pid = os.fork()\n    if pid == 0:\n        {'pass'}\n"
    crowd += "        import time\n        while time.process_time() < 1.0: pass\n        os._exit(0)\n    pids.append(pid)\n"
    crowd += "for pid in pids: os.waitpid(pid, 0)"
    budget = Budget(30.0)
    with sandbox.submission([Cell("a", crowd)], budget=budget) as submission:
        assert submission.outputs[0].status == "ok"
    assert 30.0 - budget.left_s > 2.9, "three processes with a second of work each"


def test_slow_answers_have_their_whole_limit_however_many_there_are(sandbox: Sandbox) -> None:
    source = WORK.format(1.6) + "\ng = h = k = f"
    with sandbox.submission([Cell("a", source)]) as submission:
        found = submission.observe_all([Question(name, [PROBE], 5.0) for name in "fghk"], apart=True)
    assert all(seen.failure is None for (seen,) in found.values())


@pytest.mark.slow
def test_what_only_the_clock_cut_short_is_starved_and_what_used_its_seconds_is_not(crowded: Sandbox) -> None:
    for until_s, starved in ((1.0, True), (600.0, False)):
        budget = Budget(60.0)
        with crowded.submission([Cell("a", WORK.format(99))], budget=budget) as submission:
            budget.until = budgets.clock.now() + until_s
            (seen,) = submission.observe("f", [PROBE], 2.0)
        assert seen.failure is not None
        assert seen.failure.kind == "timeout"
        assert budget.starved is starved


def test_without_a_control_group_processor_time_is_read_from_the_processes() -> None:
    with Sandbox(TIERS[0], Limits(), ("numpy",)) as sandbox:
        assert sandbox._host is not None
        group, sandbox._host._group = sandbox._host._group, None
        try:
            with sandbox.submission([Cell("a", WORK.format(1.2))]) as submission:
                watch = OwnTime(sandbox, 2, {})
                submission.observe("f", [PROBE], 10.0)
                assert watch.worked_s() > 1.1
        finally:
            sandbox._host._group = group


def test_a_worker_that_is_slow_to_tidy_up_is_thrown_away_and_nothing_is_asked_again(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = sandbox._host
    assert host is not None
    with sandbox.submission([Cell("a", "x = 1")]) as submission:
        submission.texts(["x"])
        monkeypatch.setattr(type(host), "sweep", lambda self: False)
    monkeypatch.undo()
    assert sandbox.lost == 0
    assert sandbox._host is None
    with sandbox.submission([Cell("a", "print(2)")]) as submission:
        assert submission.outputs[0].outputs[0]["text"] == "2\n"


def test_the_start_of_a_worker_comes_off_the_seconds_of_whoever_cost_the_last_one(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each second attempt of an answer had a new worker for nothing, where the one before left what takes long to remove."""
    budget, started = Budget(60.0), type(sandbox).open

    def slowly(self: Sandbox) -> Any:
        self.warm_up()
        time.sleep(1.0)
        return started(self)

    monkeypatch.setattr(Sandbox, "open", slowly)
    spent = []
    for tidy in (True, False, True):
        if not tidy:
            monkeypatch.setattr(process.Host, "sweep", lambda self: False)
        before = budget.left_s
        with sandbox.submission([Cell("a", "x = 1")], budget=budget):
            pass
        spent.append(before - budget.left_s)
        monkeypatch.setattr(process.Host, "sweep", SWEEP)
    assert spent[0] < 1.0
    assert spent[1] < 1.0
    assert spent[2] > 1.0, "what the second one left cost a worker"


SLOW_VALUE = """
import time
class Slow(type):
    __name__ = property(lambda self: time.sleep(0.7) or 'x')
class P(metaclass=Slow): pass
a = b = P()
"""


def test_a_prediction_that_takes_its_time_takes_it_off_the_seconds(sandbox: Sandbox) -> None:
    budget = Budget(30.0)
    with sandbox.submission([Cell("a", SLOW_VALUE)], budget=budget) as submission:
        before = budget.left_s
        assert submission.texts(["a", "b"]) == {"a": None, "b": None}
        assert before - budget.left_s > 1.3


SLOW_REAP = """
import time
from autograder.sandbox.inside import runner
end = runner._kill_children
runner._kill_children = lambda *given: (time.sleep(0.5), end(*given))
def f(x): return x
"""


def test_once_the_seconds_are_over_nothing_more_is_asked(sandbox: Sandbox) -> None:
    """Each further answer had the two seconds in which its process is ended."""
    budget = Budget(2.0)
    with sandbox.submission([Cell("a", SLOW_REAP)], budget=budget) as submission:
        asked = [Question(f"f{number}", [PROBE], 5.0) for number in range(20)]
        began = time.monotonic()
        found = submission.observe_all([Question("f", [PROBE], 5.0), *asked], apart=True)
    assert time.monotonic() - began < 8.0, "ten seconds, were each of them ended in half a second"
    assert found["f"][0].failure is None
    (last,) = found["f19"]
    assert last.failure is not None
    assert (last.failure.kind, last.failure.message) == ("timeout", ""), "it had no seconds left, and did not use up its own"
    assert not budget.starved


def test_what_a_reply_takes_to_read_is_the_submissions() -> None:
    class Idle:
        def cpu_s(self) -> float:
            return 0.0

        def delays(self, first: int) -> dict[int, float]:
            return {}

    watch, began = OwnTime(Idle(), 2, {}), time.thread_time()
    while time.thread_time() - began < 0.3:
        pass
    assert watch.spent_s() > 0.2  # the clock goes in small steps


HIDDEN_WORK = """
import os, threading, time
def deeper(depth):
    if depth and os.fork() == 0:
        deeper(depth - 1)
        time.sleep(20); os._exit(0)
def f(x):
    threading.Thread(target=deeper, args=(8,)).start()
    time.sleep(1.0)
    return x
"""


def test_processes_are_seen_however_deep_they_are_and_whichever_thread_starts_them(sandbox: Sandbox) -> None:
    """What was below four others, or started by a second thread, worked for nothing where there is no control group."""
    with sandbox.submission([Cell("a", HIDDEN_WORK)]) as submission, submission._call(10.0) as channel:
        submission._observe(channel, Question("f", [PROBE], 10.0))
        assert sandbox._host is not None
        assert max(depth for depth, _ in sandbox._host._tree()) >= 10


# ---------------------------------------------------------------------------------------------- a class


@pytest.mark.slow
@pytest.mark.usefixtures("sample_course")
def test_an_empty_purse_delays_right_work_and_takes_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right answers below a cell that needs more than everybody's own seconds, when the class has used up what it shares."""
    work = f"import time\nend = time.process_time() + {budgets.OWN_S + 1}\nwhile time.process_time() < end: pass"
    slow = hostile_class.in_cells(work)
    monkeypatch.setattr("tests.hostile_class.kinds", lambda *_: {"slow": slow})
    monkeypatch.setattr("autograder.grading.workers.PURSE_S", 0.0)
    students = hostile_class.make(tmp_path / "course", ["slow", hostile_class.HONEST, hostile_class.HONEST])
    asked, mark_one = [], Workers.mark

    def mark(pool: Workers, scheme: Any, handed: Handed, again: Any = None, *, final: bool = False) -> Any:
        asked.append((handed.data, again is not None))
        return mark_one(pool, scheme, handed, again, final=final)

    monkeypatch.setattr(Workers, "mark", mark)
    report = grade_assignment(tmp_path / "course", hostile_class.LESSON, workers=1)
    assert {row.student: row.score for row in report.rows} == dict.fromkeys(students, report.rows[0].points)
    slow_one, _ = asked[0]
    assert [whole for data, whole in asked if data == slow_one] == [False, True], "it is marked again, with all of its seconds"
    assert [data for data, _ in asked].index(slow_one, 1) >= len(students), "once everybody else had a turn"
    assert not any("class" in flag or "ran out" in flag for flag in report.rows[0].flags), report.rows[0].flags


def test_what_a_busy_machine_cut_short_is_marked_again_alone_before_it_is_final() -> None:
    class Job:
        def __init__(self, student: str) -> None:
            self.student, self.handed = student, Handed(None, student)

    class Pool:
        ahead = 4

        def __init__(self) -> None:
            self.asked: list[tuple[str, bool, int]] = []
            self.open: list[Any] = []

        def mark(self, _scheme: Any, handed: Any, again: Any = None, *, final: bool = False) -> Any:
            future: Any = grade.Future()
            self.open = [one for one in self.open if not one.done()]
            self.asked.append((handed.unreadable, again is not None, len(self.open)))
            assert final == (handed.unreadable == "busy" and again is not None)
            cut = {"busy": mark_submission.CUT_BY_LOAD, "cut": "" if again else mark_submission.CUT_BY_CLASS}.get(
                handed.unreadable, ""
            )
            future.set_result(mark_submission.Marked(nbformat.v4.new_notebook(), cut=cut, fixed=mark_submission.Fixed()))
            return future

        def rehearse(self, *_: Any) -> Any:
            future: Any = grade.Future()
            future.set_result([])
            return future

    class Writer:
        root, waiting, done = Path(), (), ()

        def write(self, job: Job, future: Any) -> str:
            return f"{job.student} {future.result().cut}".strip()

        def flush(self) -> None:
            pass

    pool: Any = Pool()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grade.rehearsal, "is_known", lambda *_: True)
        patch.setattr(grade.rehearsal, "refuse", lambda *_: None)
        patch.setattr(grade.read_in_child, "start", lambda: None)
        jobs: Any = iter([Job("busy"), Job("cut"), Job("a"), Job("b")])
        writer: Any = Writer()
        draws: Any = None
        rows = [row for _, row in grade._marked(pool, pool, jobs, writer, draws)]
    assert sorted(rows[:2]) == ["a", "b"]
    assert rows[2:] == ["cut", f"busy {mark_submission.CUT_BY_LOAD}"]
    assert list(itertools.islice(((name, whole) for name, whole, _ in pool.asked), 4, None)) == [("cut", True), ("busy", True)]
    assert pool.asked[-1][2] == 0, "nothing else is marked at that time"
