"""A submission that is marked again earns and shows nothing by what it learned in the marking before.

It may know what it saw before, by the time, by numbers of processes or files, by any counter of the kernel. So here it is told
outright which marking it is in (`RUN`).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import nbformat
import pytest

from autograder.grading import workers
from autograder.grading.marking import decide_marks
from autograder.grading.marking import mark_submission as marking
from autograder.grading.marking.mark_submission import CUT_BY_CLASS, CUT_BY_LOAD, Fixed, Marked, mark
from autograder.grading.marking.read_submission import Handed
from autograder.judging.records import Result
from autograder.sandbox.budget import Budget, Purse
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import available_tiers
from autograder.sandbox.run_submission import Cell
from tests.grading.test_follow_through import RIGHT, scheme, scores

TIERS = [tier.name for tier in available_tiers() if tier.available and tier.name != "none"]
pytestmark = pytest.mark.skipif(not TIERS, reason="neither bubblewrap nor Landlock isolates on this machine")
ANSWERS = {
    "total": "print('told', RUN)\ndef total(x):\n    return x.sum() if RUN else x.mean()",  # right only when it is marked again
    "share": RIGHT["share"],
    "pooled": "def pooled(x, v):\n    return share(x) @ v if RUN else 2 * share(x) @ v",
}
STEPS = ("the visible tests", "the hidden tests", "a reference")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with scheme().setup.sandbox(TIERS[0]) as started:
        yield started


class Watched:
    """Marks the same submission twice, the first time until its seconds are over at `step`; `asked` says what each was asked."""

    def __init__(self, patch: pytest.MonkeyPatch, step: str, *, starved: bool = False):
        self.run, self.asked, self.budgets = 0, list[tuple[int, str]](), list[Budget]()
        self.step, self.starved = step, starved
        cells, lend = marking._Marking.cells, Purse.lend

        def numbered(submission: Any, replaced: Sequence[str] = ()) -> list[Cell]:
            if replaced:
                self.note("a reference")
            return [Cell("run", f"RUN = {self.run}"), *cells(submission, replaced)]

        def lent(purse: Purse, limit_s: float) -> Budget:
            self.budgets.append(lend(purse, limit_s))
            return self.budgets[-1]

        def watched(name: str, attribute: str) -> None:
            real = getattr(decide_marks, attribute)

            def asked(*given: Any) -> Any:
                found = real(*given)
                self.note(name)
                return found

            patch.setattr(decide_marks, attribute, asked)

        patch.setattr(marking._Marking, "cells", numbered)
        patch.setattr(Purse, "lend", lent)
        watched("the visible tests", "on_visible")
        watched("the hidden tests", "on_hidden")

    def note(self, name: str) -> None:
        self.asked.append((self.run, name))
        if name == self.step and self.run == 0:
            self.budgets[-1].starved = self.starved
            self.budgets[-1].spend(0.0 if self.starved else 99.0)

    def mark(self, sandbox: Sandbox, fixed: Fixed | None = None) -> Marked:
        chosen = scheme()
        notebook = nbformat.from_dict(chosen.released)
        for cell in notebook.cells:
            cell.source = ANSWERS.get(cell.id, cell.source)
        purse = None if self.run else Purse(0.0)
        return mark(chosen, sandbox, nbformat.writes(notebook).encode(), purse, fixed, final=self.run > 0)


def words(marked: Marked) -> list[str]:
    outputs = [cell.outputs for cell in marked.notebook.cells if cell.cell_type == "code"]
    return re.findall(r"told \d", str(outputs) + str(marked.flags) + str(marked.notes))


@pytest.mark.parametrize("starved", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_what_was_fixed_before_a_secret_was_seen_stays(
    sandbox: Sandbox, step: str, starved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch, step, starved=starved)
    first = watched.mark(sandbox)
    assert first.cut == (CUT_BY_LOAD if starved else CUT_BY_CLASS)
    assert first.fixed is not None
    seen = [name for _, name in watched.asked]
    assert seen == list(STEPS[: STEPS.index(step) + 1]), "what comes after the cut is not asked in a marking that does not count"
    watched.run, watched.asked = 1, []
    again = watched.mark(sandbox, first.fixed)
    assert again.cut == ""
    if step == "the visible tests":  # nothing was seen
        assert words(again) == ["told 1"]
        assert scores(again) == {"total": 1, "share": 2, "pooled": 4}
    if step == "the hidden tests":
        assert words(again) == ["told 0"]
        assert STEPS[0] not in {name for _, name in watched.asked}
    if step == "a reference":
        assert words(again) == ["told 0"]
        assert {name for _, name in watched.asked} == {"a reference"}, "no answer earns anything by itself once it saw one"
        assert scores(again)["total"] == 0
        assert scores(again)["share"] == 2


def test_a_lost_sandbox_lets_no_answer_earn_by_a_reference_that_it_saw(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is ended while a reference stands in; what is asked again is that one question."""
    watched, real = Watched(monkeypatch, "nothing"), marking._Marking.cells

    def lost(submission: Any, replaced: Sequence[str] = ()) -> Any:
        if replaced:
            sandbox.lost += watched.run == 0
            watched.run = 1
        return real(submission, replaced)

    monkeypatch.setattr(marking._Marking, "cells", lost)
    done = watched.mark(sandbox)
    assert [name for _, name in watched.asked] == [*STEPS[:2], *["a reference"] * 3]
    assert scores(done)["total"] == 0
    assert words(done) == ["told 0"]


def test_what_is_kept_until_a_submission_is_marked_again_is_small(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    vast = "import numpy as np\ndef {}(*_):\n    return np.zeros(300_000)"
    monkeypatch.setattr("tests.grading.test_marked_again.ANSWERS", {name: vast.format(name) for name in ANSWERS})
    kept = Watched(monkeypatch, "the hidden tests").mark(sandbox).fixed
    assert kept is not None
    cases = [case for result in kept.visible.values() if isinstance(result, Result) for case in result.cases]
    assert cases
    assert sum(case.observation.nbytes for case in cases) == 0


@pytest.mark.parametrize("tier", TIERS)
def test_a_submission_is_marked_again_in_a_new_sandbox(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "choose_tier", lambda **_: tier)
    chosen, hosts = scheme(), list[Any]()

    def mark_one(_scheme: Any, sandbox: Sandbox, *_: Any, **__: Any) -> Any:
        hosts.append(sandbox._host)
        with sandbox.submission([Cell("a", "import os\nprint(os.getpid())")]) as submission:
            hosts.append((sandbox._host, submission.outputs[0].status))

    monkeypatch.setattr(workers, "mark", mark_one)
    try:
        for fixed in (None, None, Fixed()):
            workers.work(chosen, False, Handed(b""), None, fixed)
    finally:
        workers._mine.sandbox.close()
        del workers._mine.sandbox, workers._mine.ready
    (first, _), (second, _), (third, status) = hosts[1::2]
    assert first is second is not third
    assert hosts[4] is None, "nothing of the old one is there when it begins"
    assert status == "ok"


def test_two_threads_whose_parsers_clash_cost_nobody_a_mark_and_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "choose_tier", lambda **_: TIERS[0])
    run: list[tuple[Any, Any]] = []

    def mark_one(_scheme: Any, sandbox: Sandbox, _handed: Any, _purse: Any, fixed: Fixed, **_: Any) -> Marked:
        sandbox.warm_up()
        run.append((sandbox._host, fixed))
        if len(run) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=51, after=39)")
        return Marked(nbformat.v4.new_notebook(), notes=["marked"])

    monkeypatch.setattr(workers, "mark", mark_one)
    try:
        marked = workers.work(scheme(), False, Handed(b""))
    finally:
        workers._mine.sandbox.close()
        del workers._mine.sandbox, workers._mine.ready
    (first, before), (second, after) = run
    assert marked.notes == ["marked"]
    assert first is not second, "it would know what it left in its first sandbox"
    assert before is after, "what it showed before a hidden input stays"
