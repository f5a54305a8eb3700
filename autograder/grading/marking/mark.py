"""Mark one submission from outside the process in which it runs.

It sends the learner's cells to the sandbox, asks there for the outputs of their functions on hidden inputs, compares them
*here* with expected values that never leave this process, and writes score and panel as the grade cell's output. What comes
out is a notebook such as nbgrader's autograder would have left, so its formgrader, feedback and exporters work on as ever.

This was a preprocessor in nbgrader's `Autograde` at first, in the place of `Execute`. nbgrader converts each notebook twice
and opens the gradebook nine times for it; that was more than half of the time, so `gradebook` writes the same rows.
"""

import copy
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import nbformat

from autograder import sandbox as box
from autograder.diagnosis import panel
from autograder.diagnosis.explain import Report
from autograder.grading import bounded
from autograder.grading.marking import forbidden_names, verdicts
from autograder.grading.marking.follow_through import carried, failing_below, with_references
from autograder.grading.marking.needed_cells import to_run
from autograder.grading.marking.scheme import MarkScheme
from autograder.judging.records import Result
from autograder.notebooks import scopes
from autograder.notebooks.roles import exercise_of, grade_id, is_answer
from autograder.notebooks.submission import Cell, UnreadableError, parse, rebuild
from autograder.sandbox import untrusted

LOCKED_S = 10.0  # for one of the lesson's own cells that the learner cannot change
_ENDS = {"timeout": "ran out of time", "crashed": "ended the process"}
ATTEMPTS = 3  # a submission whose sandbox was lost under way is marked this often


@dataclass
class Marked:
    """A marked submission: the notebook with panels as outputs, a report for each exercise, and what a person should see."""

    notebook: Any
    reports: dict[str, Report] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # those of the flags that the student is told
    broken: list[str] = field(default_factory=list)  # given cells that failed, with the error; see `rehearsal`
    tier: str = ""
    seconds: float = 0.0


def mark(scheme: MarkScheme, sandbox: box.Sandbox, data: bytes | None, unreadable: str = "") -> Marked:
    """Mark a submission given as the bytes of its file; None where it could not be read, and `unreadable` says why."""
    started = time.perf_counter()
    sys.path += [folder for folder in scheme.given if folder not in sys.path]  # behaviours are judged here, on a cluster too
    cells: list[Cell] = []
    if data is not None:
        try:
            cells = parse(data)
        except UnreadableError as error:
            unreadable = str(error)
    flags = [f"unreadable: {unreadable}"] if unreadable else []
    flags += _read_ahead(scheme, cells)
    budget, shown = box.Budget(scheme.limits.budget_s), Shown()
    for attempt in range(ATTEMPTS):  # a worker lost under way (killed from outside, say) must not cost the learner anything
        lost = sandbox.lost
        rebuilt = rebuild(scheme.released, cells)
        flags += [flag for flag in rebuilt.flags if not (flag.startswith("missing") and not cells)]
        marked = Marked(rebuilt.notebook, flags=list(flags), tier=sandbox.tier)
        _run_and_mark(scheme, sandbox, marked, budget, shown, last=attempt == ATTEMPTS - 1)
        if sandbox.lost == lost:
            break
    else:
        marked.flags.append("its sandbox ended each time it was marked: the submission may end it, or something on this machine")
    if budget.spent:
        marked.flags.append(f"it took the {scheme.limits.budget_s:g} s that a submission has: what came later was not asked")
    marked.flags = list(dict.fromkeys(marked.flags))
    marked.seconds = time.perf_counter() - started
    return marked


def _read_ahead(scheme: MarkScheme, cells: Sequence[Cell]) -> list[str]:
    """Have the code cells parsed, by a child that may take its time in vain; what could not be is flagged."""
    given = {cell.source for cell in scheme.released.cells}
    sources = [cell.source for cell in cells if cell.kind == "code" and cell.source not in given]
    kinds = ["scopes", *(["names"] if any(record.forbid for record in scheme.hidden.exercises.values()) else [])]
    found = bounded.read([bounded.Task(kind, source) for kind in kinds for source in sources])
    parsed = {source: found.get(bounded.Task("scopes", source)) for source in sources}
    scopes.tell({source: None if pair is None else (set(pair[0]), set(pair[1])) for source, pair in parsed.items()})
    named = {source: found.get(bounded.Task("names", source)) for source in sources}
    forbidden_names.tell({source: None if words is None else set(words) for source, words in named.items()})
    slow = any(bounded.Task(kind, source) not in found for kind in kinds for source in sources)
    return ["a cell takes too long to parse: see whether it means to"] if slow else []


@dataclass
class Shown:
    """All that a student will see of their submission's own words, fixed before the first hidden input enters the sandbox.

    Where the sandbox was lost after that, the submission runs again, and could print what it was asked; the first run's stays.
    """

    outputs: list[Any] | None = None
    visible: Mapping[str, Result] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)  # how each cell ended


def _run_and_mark(
    scheme: MarkScheme, sandbox: box.Sandbox, marked: Marked, budget: box.Budget, shown: Shown, *, last: bool
) -> None:
    notebook, lost = marked.notebook, sandbox.lost
    run = to_run(scheme.released, notebook)
    checks = {name: cell for cell in notebook.cells if (name := exercise_of(cell)) is not None}
    with sandbox.submission(_cells(run), budget=budget) as submission:
        if shown.outputs is None:
            outputs = [[nbformat.from_dict(output) for output in done.outputs] for done in submission.outputs]
            ends = [done.status for done in submission.outputs]
            flags = [f"a cell {_ENDS[status]}" for status in ends if status in _ENDS]
            # All that may be shown is gathered before the first hidden input enters the sandbox: exercises can reach one
            # another there, through files or shared memory, and one would be shown what another was asked.
            visible = verdicts.on_visible(scheme, submission, list(checks))
            if sandbox.lost != lost and not last:
                return  # no hidden input was asked yet: all of it is done again
            shown.outputs, shown.visible, shown.flags, shown.ends = outputs, visible, flags, ends
        for cell, outputs, end in zip(run, shown.outputs, shown.ends, strict=True):
            cell.outputs = copy.deepcopy(outputs)
            if end == "error" and grade_id(cell) and not is_answer(cell):
                marked.broken.append(f"{grade_id(cell)!r} fails: {_error(cell)}")
        marked.flags += shown.flags
        marked.reports = verdicts.reports(scheme, submission, copy.deepcopy(dict(shown.visible)))
    _follow_through(scheme, sandbox, run, marked, budget)
    for name, cell in checks.items():
        cell.outputs = [_as_output(marked.reports[name])]
    marked.flags += forbidden_names.flags(scheme.hidden.exercises, notebook)


def _error(cell: Any) -> str:
    return next((f"{output.ename}: {output.evalue}" for output in cell.outputs if output.output_type == "error"), "")


def _follow_through(scheme: MarkScheme, sandbox: box.Sandbox, run: Sequence[Any], marked: Marked, budget: box.Budget) -> None:
    """Ask again what fails only because an earlier answer does, with the reference in that one's place."""
    records = scheme.hidden.exercises
    if scheme.follow_through == "none":
        return
    failing = [name for name, report in marked.reports.items() if report.score < report.points and not records[name].choices]
    for name in failing:
        report = marked.reports[name]
        below = failing_below(name, run, failing, list(records), scheme.references)
        if not below or budget.spent:
            continue
        with sandbox.submission(with_references(run, below, scheme.references), budget=budget) as submission:
            record = records[name]
            seen = submission.observe_all([verdicts.question(record)], apart=True)[name]
        result = verdicts.judged_from(record, [untrusted.clean_hidden(one) for one in seen])
        marked.reports[name] = carried(report, record, result.score, below, scheme.follow_through)
        if marked.reports[name].carried:
            marked.flags.append(f"{name}: {marked.reports[name].score:g} points with the reference's {', '.join(below)}")


def _cells(run: Sequence[Any]) -> list[box.Cell]:
    """As the sandbox takes them; a locked cell is short work, unless it calls an answer that loops."""
    locked = [bool(grade_id(cell)) and not is_answer(cell) for cell in run]
    return [box.Cell(cell.id, cell.source, LOCKED_S if own else math.inf) for cell, own in zip(run, locked, strict=True)]


def _as_output(report: Report) -> Any:
    data = {"text/plain": repr(float(report.score)), "text/html": panel.to_html(report)}
    return nbformat.v4.new_output("execute_result", data=data, execution_count=1)
