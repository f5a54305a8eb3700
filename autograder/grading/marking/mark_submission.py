"""Mark one submission from outside the process in which it runs.

The learner's cells go to the sandbox, which returns their functions' outputs on hidden inputs. These are compared *here*
with expected values that never leave this process, and score and panel become the grade cell's output. The result is a
notebook as nbgrader's autograder would have left it, so nbgrader's formgrader, feedback and exporters keep working.
"""

import contextlib
import copy
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import nbformat

from autograder.diagnosis import panel
from autograder.diagnosis.explain import Report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import next_step, say
from autograder.grading import read_in_child
from autograder.grading.marking import decide_marks, forbidden_names, read_submission
from autograder.grading.marking.credit import credit_for
from autograder.grading.marking.follow_through import calls, carried, failing_below, only_calls, with_references
from autograder.grading.marking.forbidden_names import Bindings
from autograder.grading.marking.misspelt_names import as_meant
from autograder.grading.marking.needed_cells import to_run
from autograder.grading.marking.read_submission import Handed, Imports, text_of, without_absent
from autograder.grading.marking.scheme import MarkScheme
from autograder.judging import fingerprint
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import AnyResult, PredictionResult
from autograder.notebooks.rebuild_submission import rebuild
from autograder.notebooks.roles import exercise_of, grade_id, is_answer
from autograder.sandbox.budget import Budget, Purse
from autograder.sandbox.client import Sandbox
from autograder.sandbox.run_submission import Cell

PAGE_S = 1.0  # processor seconds for reading the texts again for a page if marking used up everything
LOCKED_S = 10.0  # for each locked cell of the lesson, and for each answer
_ENDS = {"timeout": "ran out of time", "crashed": "ended the process"}
CUT_BY_CLASS, CUT_BY_LOAD = "the class", "other work on this machine"
_DRAWS = re.compile(  # calls that draw random numbers
    r"\b(?:torch\.(?:randn?|randint|randperm|normal|bernoulli|multinomial)|random\.\w+|default_rng)\(|\.(?:normal_|uniform_|bernoulli_)\("
)
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w.]*(?:[ \t]*,[ \t]*[A-Za-z_][\w.]*)*)", re.MULTILINE)
MAX_KEPT = 1 << 20  # bytes of an exercise's results that are kept until a submission is marked again
ATTEMPTS = 3  # how often a submission is marked if its sandbox is lost


@dataclass
class Marked:
    """A marked submission: the notebook with panels as outputs, a report for each exercise, and what a person should see."""

    notebook: Any
    reports: dict[str, Report] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # the flags that the student sees too
    broken: list[str] = field(default_factory=list)  # given cells that failed, with the error; see `rehearsal`
    refused: Counter[str] = field(default_factory=Counter)  # system calls that the sandbox refused, by name
    tier: str = ""
    seconds: float = 0.0  # its own seconds and the processor seconds of judging it, without other work on the machine
    page_s: float = PAGE_S  # processor seconds for reading its texts once more
    cut: str = ""  # CUT_BY_CLASS or CUT_BY_LOAD if others cut it short, so that it must be marked again
    fixed: "Fixed | None" = None  # for a submission that was cut short: what stays as it is in the next marking


def mark(
    scheme: MarkScheme,
    sandbox: Sandbox,
    handed: Handed | bytes,
    purse: Purse | None = None,
    fixed: "Fixed | None" = None,
    *,
    final: bool = True,
) -> Marked:
    """Mark a submission; bytes are those of a notebook. `purse` holds the time that its class may still use.

    A submission that is not `final` stops when others cut it short. It is then marked again without a purse, starting from
    what was `fixed`.
    """
    handed = Handed(handed) if isinstance(handed, bytes) else handed
    limit_s = scheme.limits.budget_s
    try:
        with contextlib.nullcontext(Budget(limit_s)) if purse is None else purse.loan(limit_s) as budget:
            return _mark(scheme, sandbox, handed, budget, fixed or Fixed(), final=final)
    finally:
        read_submission.forget()
        fingerprint.forget()


def _mark(scheme: MarkScheme, sandbox: Sandbox, handed: Handed, budget: Budget, fixed: "Fixed", *, final: bool) -> Marked:
    scheme = replace(scheme, own=handed.hidden)
    began = time.thread_time()
    sys.path += [folder for folder in scheme.given if folder not in sys.path]  # behaviours are judged here, on a cluster too
    cells, told = handed.cells()  # the learner sees `told` too
    ours = {*(cell.source for cell in scheme.released.cells), *scheme.references.values()}
    files = handed.modules()
    whole_s = budget.left_s
    reading = read_in_child.Seconds(read_in_child.READ_S, budget)
    flags = read_submission.read_ahead(cells, ours, [text_of(data) for data in files.values()], reading)
    drawn: dict[str, tuple[str, ...]] | None = None

    def cut() -> str:
        short = budget.spent and whole_s < scheme.limits.budget_s
        return CUT_BY_LOAD if budget.starved else CUT_BY_CLASS if short else ""

    for attempt in range(ATTEMPTS):  # a worker lost along the way (killed from outside, say) must not cost the learner anything
        lost = sandbox.lost
        rebuilt = rebuild(scheme.released, cells)
        flags += read_submission.read_anew(rebuilt.notebook, reading)
        told += [flag for flag in rebuilt.flags if not (flag.startswith("missing") and not cells)]
        drawn = read_submission.draw(rebuilt.pictures, reading) if drawn is None else drawn
        told += read_submission.show(rebuilt, drawn)
        marked = Marked(rebuilt.notebook, flags=list(flags), notes=list(told), tier=sandbox.label)
        last = attempt == ATTEMPTS - 1

        def again(lost: int = lost, last: bool = last) -> bool:
            """Return whether the last questions must be asked again, here or in another marking."""
            return (sandbox.lost != lost and not last) or (not final and cut() != "")

        _run_and_mark(scheme, sandbox, marked, budget, reading, fixed, files, again)
        if sandbox.lost == lost or (not final and cut()):
            break
    else:
        marked.flags.append("its sandbox ended each time it was marked: the submission may end it, or something on this machine")
    marked.flags += [read_submission.SLOW] if reading.short else []
    marked.page_s = min(reading.left_s, max(PAGE_S, budget.left_s))
    marked.refused.update(fixed.refused)
    marked.cut = cut()
    if marked.cut and not final:
        marked.fixed = fixed.small()
    if marked.cut == CUT_BY_LOAD:
        marked.flags.append(
            "something ran out of time only because other programs had the processors: grade it again when this machine does "
            "less, with `attn grade --again --student`"
        )
    elif marked.cut == CUT_BY_CLASS:
        marked.flags.append(
            f"it had {whole_s:.0f} of the {scheme.limits.budget_s:.0f} s of a submission, because others had used what the class "
            "shares: grade it again with `attn grade --again --student`"
        )
    elif budget.spent:
        marked.notes.append(
            f"it used the {whole_s:.0f} s of its own that a submission has, so what came later was not asked. Other work on the "
            "machine is not counted"
        )
    marked.seconds = whole_s - budget.left_s + time.thread_time() - began
    marked.notes = list(dict.fromkeys(marked.notes))
    marked.flags = list(dict.fromkeys([*marked.notes, *marked.flags]))
    return marked


@dataclass
class Fixed:
    """What is already decided about a submission, however often its sandbox is lost or it is marked again.

    A submission can pass a message from one run to the next (through timing or kernel counters), so no run earns or shows
    anything once an earlier run has seen what it must not know. Three steps are each decided as a whole and never asked
    again: what students will see of their own words, before the first hidden input enters the sandbox; what each answer
    earns by itself, before the first reference enters; and what it earns with a reference in place of an earlier answer, one
    exercise after another.
    """

    shown: dict[str, tuple[list[Any], str]] | None = None  # the outputs of each cell, by id, and how it ended
    visible: Mapping[str, AnyResult] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)  # answers that ask for a missing module
    found: Mapping[str, decide_marks.Verdict] | None = None
    reports: dict[str, Report] = field(default_factory=dict)  # replaces `found` when it is marked again
    flags: list[str] = field(default_factory=list)
    carried: dict[str, Report] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    def report(self, name: str, *, explain: bool = True) -> Report:
        """Return the report on what the answer to `name` earns by itself: see `Verdict.report`."""
        assert self.found is not None
        return self.reports[name] if name in self.reports else self.found[name].report(explain=explain)

    def small(self) -> "Fixed":
        """Return a copy without large arrays, to keep until everybody else is marked."""
        if self.found is None:
            return replace(self, visible={name: _small(result) for name, result in self.visible.items()})
        return replace(self, visible={}, found={}, reports={name: self.report(name) for name in [*self.reports, *self.found]})


def _small(result: AnyResult) -> AnyResult:
    if isinstance(result, PredictionResult):
        return result
    if result.passed:  # then it is not shown
        return replace(result, cases=[])
    if sum(case.observation.nbytes for case in result.cases) <= MAX_KEPT:
        return result
    large = Observation(failure=Failure("raised", "OutputTooLarge"))
    return decide_marks.judged_from(result.exercise, [large] * len(result.cases))


def _run_and_mark(
    scheme: MarkScheme,
    sandbox: Sandbox,
    marked: Marked,
    budget: Budget,
    reading: read_in_child.Seconds,
    fixed: Fixed,
    files: Mapping[str, bytes],
    again: Callable[[], bool],
) -> None:
    """Continue from what is `fixed`, step by step, until something has to be asked `again`."""
    notebook = marked.notebook
    run = to_run(scheme.released, notebook)
    answers = {str(grade_id(cell)): cell.source for cell in run if is_answer(cell)}
    others = [cell.source for cell in run if not is_answer(cell)]
    texts, spelt = as_meant(answers, scheme.hidden.exercises, others, reading)
    marked.notes += spelt
    cells, absent = _cells(run, files, texts)
    marked.notes += absent
    checks = {name: cell for cell in notebook.cells if (name := exercise_of(cell)) is not None}
    if fixed.found is None:
        with sandbox.submission(cells, files, budget=budget) as submission:
            if fixed.shown is None:
                shown = {
                    done.id: ([nbformat.from_dict(output) for output in done.outputs], done.status) for done in submission.outputs
                }
                # exercises can communicate in the sandbox through files or shared memory, so one could show what another was
                # asked
                visible = decide_marks.on_visible(scheme, submission, list(checks))
                if again():
                    return
                fixed.shown, fixed.visible = shown, visible
                fixed.notes = [f"a cell {_ENDS[status]}" for _, status in shown.values() if status in _ENDS]
            found = decide_marks.on_hidden(scheme, submission, fixed.visible)
        fixed.refused.update(submission.refused)
        if again():
            return
        odd = "{} is wrong only on inputs that were drawn for this student: see how it gets its results"
        fixed.flags = [odd.format(name) for name, verdict in found.items() if verdict.own_alone]
        fixed.lacking = [name for name, result in fixed.visible.items() if decide_marks.lacks_module(result)]
        fixed.found = found
    for cell in run:
        outputs, end = (fixed.shown or {}).get(cell.id, ([], "not run"))
        cell.outputs = copy.deepcopy(outputs)
        if end == "error" and grade_id(cell) and not is_answer(cell):
            marked.broken.append(f"{grade_id(cell)!r} fails: {_error(cell)}")
    marked.notes += fixed.notes
    marked.flags += fixed.flags
    _follow_through(scheme, sandbox, run, fixed, budget, reading, files, texts, again)
    if again():
        return
    for name, report in fixed.carried.items():
        if report.carried:
            marked.flags.append(f"{name}: {report.score:g} points with the reference's {', '.join(report.carried)}")
    marked.reports = {
        name: fixed.carried[name] if name in fixed.carried and fixed.carried[name].carried else fixed.report(name)
        for name in [*fixed.reports, *fixed.found]
    }
    _quote(run, marked)
    _name_draws(run, marked)
    for name, cell in checks.items():
        cell.outputs = [_as_output(marked.reports[name])]
    in_code = scheme.hidden.in_code
    passed = [name for name, report in marked.reports.items() if report.score > 0 and name in answers and name in in_code]
    marked.notes += [said for name in passed if (said := decide_marks.renamed(in_code[name], answers[name]))]
    stopped = {str(grade_id(cell)) for cell in run if is_answer(cell) and _error(cell).startswith("ModuleNotFoundError")}
    lacking = [name for name in marked.reports if name in stopped or name in fixed.lacking]
    short = [name for name in lacking if marked.reports[name].score < marked.reports[name].points]
    marked.notes += [_lacks(name, answers.get(name, ""), files) for name in short]
    modules = [text_of(data) for data in files.values()]
    lesson = {cell.source for cell in scheme.released.cells if grade_id(cell) is None}
    marked.flags += forbidden_names.flags(in_code, notebook, modules, lesson)


def _error(cell: Any) -> str:
    said = next((f"{output.ename}: {output.evalue}" for output in cell.outputs if output.output_type == "error"), "")
    return re.sub(r"\s+", " ", said)  # on one line, wherever it is shown


def _lacks(name: str, source: str, files: Mapping[str, bytes]) -> str:
    """Return the note for an answer that fails to import a module: it may be right where the module is installed."""
    imports = Imports(files)
    asked = [module for found in _IMPORT.finditer(source) for module in map(str.strip, found[1].split(","))]
    module = next((repr(each) for each in asked if not imports.has(each)), "a module")
    return f"{name!r} imports {module}, which the grader doesn't have: the answer may be right, so a person should look at it"


def _quote(run: Sequence[Any], marked: Marked) -> None:
    """Explain a missing answer whose cell stopped, with the cell's error."""
    for cell in run:
        report = marked.reports.get(name := str(grade_id(cell))) if is_answer(cell) else None
        if report is None or report.status != "todo" or not (error := _error(cell)) or error.startswith("NotImplementedError"):
            continue
        kind, _, message = error.partition(": ")
        said = fact("report.cell_stopped", name=name, type=kind, message=message[:200] or kind)
        marked.reports[name] = replace(report, status="fail", headline=say(said), advice=next_step(said), hints=())


def _name_draws(run: Sequence[Any], marked: Marked) -> None:
    """Explain an answer that draws random numbers and comes only close to what is asked: no factor is wrong."""
    for cell in run:
        report = marked.reports.get(name := str(grade_id(cell))) if is_answer(cell) else None
        if report is None or report.status not in ("fail", "part") or report.known or ("values", "fail") not in report.checks:
            continue
        if _DRAWS.search(cell.source):
            said = fact("report.draws")
            marked.reports[name] = replace(report, headline=say(said), advice=next_step(said))


def _follow_through(
    scheme: MarkScheme,
    sandbox: Sandbox,
    run: Sequence[Any],
    fixed: Fixed,
    budget: Budget,
    reading: read_in_child.Seconds,
    files: Mapping[str, bytes],
    texts: Mapping[str, str],
    again: Callable[[], bool],
) -> None:
    """Ask again the answers that fail only because of an earlier one, in the lesson's order, with the reference in its place.

    No reference enters the sandbox before the answer that it replaces has everything it may get: an answer is asked only
    with references of earlier ones, and what is fixed is never asked again.
    """
    assert fixed.found is not None
    records = scheme.hidden.in_code
    reports = {name: fixed.report(name, explain=False) for name in [*fixed.reports, *fixed.found]}
    leaning, imports = Bindings(cell.source for cell in run), Imports(files)
    answers = {str(grade_id(cell)): cell.source for cell in run if is_answer(cell)}
    failing = [name for name in records if name in reports and reports[name].score < reports[name].points]
    order = list(scheme.hidden.exercises)
    asked = {
        name: below
        for name in failing
        if scheme.follow_through != "none" and name not in fixed.carried
        if (below := failing_below(name, answers, leaning, failing, order, scheme.references))
    }
    called = calls([answers[name] for name in asked], reading)
    for name, below in asked.items():
        if budget.spent or only_calls(called[answers[name]], below):
            continue
        cells = with_references(run, below, scheme.references)
        meant = {cell.id: texts.get(str(grade_id(cell))) for cell in run if is_answer(cell) and grade_id(cell) not in below}
        cells = [Cell(cell.id, without_absent(meant.get(cell.id) or cell.source, imports)[0]) for cell in cells]
        with sandbox.submission(cells, files, budget=budget) as submission:
            record = scheme.own.get(name, records[name])
            seen = submission.observe_all([decide_marks.question(record)], apart=True)[name]
        fixed.refused.update(submission.refused)
        if again():
            return
        result = decide_marks.judged_hidden(record, seen)
        credit = credit_for(result, scheme.shares.get(name, {}))
        score = max(result.score, credit.points if credit is not None else 0.0)
        fixed.carried[name] = carried(reports[name], record, score, below, scheme.follow_through)


def _cells(run: Sequence[Any], files: Mapping[str, bytes], texts: Mapping[str, str]) -> tuple[list[Cell], list[str]]:
    """Return the cells for the sandbox and notes on missing imports. `texts` replace answers.

    Locked cells get a short limit because they are quick unless they call an answer that loops; so do answers, which only
    define.
    """
    cells, told, imports = [], [], Imports(files)
    for cell in run:
        own = bool(grade_id(cell)) and not is_answer(cell)
        text = texts.get(str(grade_id(cell)), cell.source) if is_answer(cell) else cell.source
        source, absent = (text, []) if own else without_absent(text, imports)
        name = repr(grade_id(cell)) if is_answer(cell) else "a cell"
        told += [f"{name} imports {module}, which is not installed here: that line was left out" for module in absent]
        cells.append(Cell(cell.id, source, LOCKED_S if own or is_answer(cell) else math.inf))
    return cells, told


def _as_output(report: Report) -> Any:
    data = {"text/plain": repr(float(report.score)), "text/html": panel.to_html(report)}
    return nbformat.from_dict({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1})
