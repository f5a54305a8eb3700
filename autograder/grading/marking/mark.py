"""Mark one submission from outside the process in which it runs.

It sends the learner's cells to the sandbox, asks there for the outputs of their functions on hidden inputs, compares them
*here* with expected values that never leave this process, and writes score and panel as the grade cell's output. What comes
out is a notebook such as nbgrader's autograder would have left, so its formgrader, feedback and exporters work on as ever.

This was a preprocessor in nbgrader's `Autograde` at first, in the place of `Execute`. nbgrader converts each notebook twice
and opens the gradebook nine times for it; that was more than half of the time, so `gradebook` writes the same rows.
"""

import copy
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import nbformat

from autograder import sandbox as box
from autograder.diagnosis import panel
from autograder.diagnosis.explain import Report
from autograder.grading.marking import forbidden_names, verdicts
from autograder.grading.marking.follow_through import carried, failing_below, with_references
from autograder.grading.marking.forbidden_names import Bindings
from autograder.grading.marking.handed_in import Handed, Imports, draw, forget, read_ahead, read_anew, show, without_absent
from autograder.grading.marking.needed_cells import to_run
from autograder.grading.marking.scheme import MarkScheme
from autograder.judging.records import Result
from autograder.notebooks.roles import exercise_of, grade_id, is_answer
from autograder.notebooks.submission import rebuild
from autograder.sandbox import untrusted

LOCKED_S = 10.0  # for one of the lesson's own cells that the learner cannot change, and for an answer
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


def mark(scheme: MarkScheme, sandbox: box.Sandbox, handed: Handed | bytes, purse: box.Purse | None = None) -> Marked:
    """Mark what was `handed` in; bytes are those of a notebook. `purse` holds what its class may still take of time."""
    handed = Handed(handed) if isinstance(handed, bytes) else handed
    try:
        return _mark(scheme, sandbox, handed, purse)
    finally:
        forget()


def _mark(scheme: MarkScheme, sandbox: box.Sandbox, handed: Handed, purse: box.Purse | None) -> Marked:
    started = time.perf_counter()
    sys.path += [folder for folder in scheme.given if folder not in sys.path]  # behaviours are judged here, on a cluster too
    cells, told = handed.cells()  # `told` is for the learner too
    ours = {*(cell.source for cell in scheme.released.cells), *scheme.references.values()}
    files = handed.modules()
    flags = read_ahead(cells, ours, [data.decode("utf-8", "replace") for data in files.values()])
    drawn: dict[str, tuple[str, ...]] | None = None
    budget, shown = box.Budget(scheme.limits.budget_s) if purse is None else purse.lend(scheme.limits.budget_s), Shown()
    whole_s = budget.left_s
    for attempt in range(ATTEMPTS):  # a worker lost under way (killed from outside, say) must not cost the learner anything
        lost = sandbox.lost
        rebuilt = rebuild(scheme.released, cells)
        flags += read_anew(rebuilt.notebook)
        told += [flag for flag in rebuilt.flags if not (flag.startswith("missing") and not cells)]
        drawn = draw(rebuilt.pictures) if drawn is None else drawn
        told += show(rebuilt, drawn)
        marked = Marked(rebuilt.notebook, flags=list(flags), notes=list(told), tier=sandbox.label)
        _run_and_mark(scheme, sandbox, marked, budget, shown, files, last=attempt == ATTEMPTS - 1)
        if sandbox.lost == lost:
            break
    else:
        marked.flags.append("its sandbox ended each time it was marked: the submission may end it, or something on this machine")
    if budget.spent:
        marked.notes.append(f"it took the {whole_s:.0f} s that a submission has: what came later was not asked")
        if whole_s < scheme.limits.budget_s:
            marked.flags.append(
                "others had used up the time of the class: `attn grade --again --student` gives it all of its own"
            )
    if purse is not None:
        purse.take_back(budget)
    marked.notes = list(dict.fromkeys(marked.notes))
    marked.flags = list(dict.fromkeys([*marked.notes, *marked.flags]))
    marked.seconds = time.perf_counter() - started
    return marked


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
    scheme: MarkScheme,
    sandbox: box.Sandbox,
    marked: Marked,
    budget: box.Budget,
    shown: Shown,
    files: Mapping[str, bytes],
    *,
    last: bool,
) -> None:
    notebook, lost = marked.notebook, sandbox.lost
    run = to_run(scheme.released, notebook)
    cells, absent = _cells(run, files)
    marked.notes += absent
    checks = {name: cell for cell in notebook.cells if (name := exercise_of(cell)) is not None}
    with sandbox.submission(cells, files, budget=budget) as submission:
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
        marked.notes += shown.flags
        found = verdicts.on_hidden(scheme, submission, shown.visible)
    marked.reports = _follow_through(scheme, sandbox, run, marked, found, budget, files)
    _quote(run, marked)
    for name, cell in checks.items():
        cell.outputs = [_as_output(marked.reports[name])]
    modules = [data.decode("utf-8", "replace") for data in files.values()]
    marked.flags += forbidden_names.flags(scheme.hidden.exercises, notebook, modules)


def _error(cell: Any) -> str:
    said = next((f"{output.ename}: {output.evalue}" for output in cell.outputs if output.output_type == "error"), "")
    return re.sub(r"\s+", " ", said)  # in one line, wherever it is said


def _quote(run: Sequence[Any], marked: Marked) -> None:
    """Say of an answer that is not there why: its cell stopped, with what the cell said."""
    for cell in run:
        name = str(grade_id(cell))
        report = marked.reports.get(name) if is_answer(cell) else None
        if report is None or report.status != "todo" or not (error := _error(cell)) or error.startswith("NotImplementedError"):
            continue
        kind, _, message = error.partition(": ")
        headline = f"`{name}` is not there, because its cell stopped: {message[:200] or kind}"
        advice = f"The cell ended with {kind}, so nothing that it defines further down is there. Mend that first."
        marked.reports[name] = replace(report, status="fail", headline=headline, advice=advice, hints=())


def _follow_through(
    scheme: MarkScheme,
    sandbox: box.Sandbox,
    run: Sequence[Any],
    marked: Marked,
    found: Mapping[str, verdicts.Verdict],
    budget: box.Budget,
    files: Mapping[str, bytes],
) -> dict[str, Report]:
    """The reports; what fails only because an earlier answer does is asked again, with the reference in that one's place."""
    records, reports = scheme.hidden.exercises, {name: verdict.report(explain=False) for name, verdict in found.items()}
    leaning, imports = Bindings(cell.source for cell in run), Imports(files)
    answers = {str(grade_id(cell)): cell.source for cell in run if is_answer(cell)}
    failing = [name for name, report in reports.items() if report.score < report.points and not records[name].choices]
    if scheme.follow_through == "none":
        failing = []
    for name in failing:
        below = failing_below(name, answers, leaning, failing, list(records), scheme.references)
        if not below or budget.spent:
            continue
        cells = with_references(run, below, scheme.references)
        cells = [box.Cell(cell.id, without_absent(cell.source, imports)[0]) for cell in cells]
        with sandbox.submission(cells, files, budget=budget) as submission:
            record = records[name]
            seen = submission.observe_all([verdicts.question(record)], apart=True)[name]
        result = verdicts.judged_from(record, [untrusted.clean_hidden(one) for one in seen])
        reports[name] = carried(reports[name], record, result.score, below, scheme.follow_through)
        if reports[name].carried:
            marked.flags.append(f"{name}: {reports[name].score:g} points with the reference's {', '.join(below)}")
    return {name: report if report.carried else found[name].report() for name, report in reports.items()}


def _cells(run: Sequence[Any], files: Mapping[str, bytes]) -> tuple[list[box.Cell], list[str]]:
    """As the sandbox takes them, and what is to be said of imports that are not there.

    A locked cell is short work, unless it calls an answer that loops; so is an answer, which only defines.
    """
    cells, told, imports = [], [], Imports(files)
    for cell in run:
        own = bool(grade_id(cell)) and not is_answer(cell)
        source, absent = (cell.source, []) if own else without_absent(cell.source, imports)
        name = repr(grade_id(cell)) if is_answer(cell) else "a cell"
        told += [f"{name} imports {module}, which is not installed here: that line was left out" for module in absent]
        cells.append(box.Cell(cell.id, source, LOCKED_S if own or is_answer(cell) else math.inf))
    return cells, told


def _as_output(report: Report) -> Any:
    data = {"text/plain": repr(float(report.score)), "text/html": panel.to_html(report)}
    return nbformat.from_dict({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1})
