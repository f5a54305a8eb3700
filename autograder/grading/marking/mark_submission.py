"""Mark one submission from outside the process in which it runs.

The learner's cells go to the sandbox, which returns their functions' outputs on hidden inputs. The outputs are compared *here*
with expected values that never leave this process, and the score and the panel become the grade cell's output. The result
is a notebook as nbgrader's autograder would have left it, so nbgrader's formgrader, feedback and exporters keep working.
"""

import contextlib
import copy
import math
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import nbformat

from autograder.diagnosis import panel
from autograder.diagnosis.explain import Report
from autograder.grading import read_in_child
from autograder.grading.marking import decide_marks, forbidden_names, read_submission, remarks
from autograder.grading.marking.credit import credit_for
from autograder.grading.marking.follow_through import calls, carried, failing_below, only_calls
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
LOCKED_S = 10.0  # for each answer and locked cell; a locked cell is quick unless it calls an answer that loops
_ENDS = {"timeout": "ran out of time", "crashed": "ended the process"}
CUT_BY_CLASS, CUT_BY_LOAD = "the class", "other work on this machine"
MAX_KEPT = 1 << 20  # bytes of an exercise's results that are kept until a submission is marked again
ATTEMPTS = 3  # how often a submission is marked if its sandbox is lost


@dataclass
class Marked:
    """A marked submission: the notebook with panels as outputs, a report for each exercise, and remarks for a person."""

    notebook: Any
    reports: dict[str, Report] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # the flags that the student sees too
    unreadable: str = ""  # why no cell could be read, which is in neither list
    broken: list[str] = field(default_factory=list)  # given cells that failed, with the error; see `rehearsal`
    refused: Counter[str] = field(default_factory=Counter)  # system calls that the sandbox refused, by name
    tier: str = ""
    seconds: float = 0.0  # the submission's own and the processor seconds of judging it, without other work on the machine
    page_s: float = PAGE_S  # processor seconds for reading its texts again for the page
    cut: str = ""  # CUT_BY_CLASS or CUT_BY_LOAD if others cut it short, so that it must be marked again
    fixed: "Fixed | None" = None  # for a submission that was cut short: what the next marking must not decide again


@dataclass
class Fixed:
    """What is already decided about a submission, however often its sandbox is lost or it is marked again.

    A submission can pass a message from one run to the next (through timing or kernel counters). So once a run has seen
    something secret, no later run may decide anything that the secret could improve. Three steps are therefore each decided
    as a whole and never repeated. What students will see of their own outputs is decided before the first hidden input
    enters the sandbox, and what each answer earns by itself before the first reference enters. What an answer earns with a
    reference in place of an earlier answer comes last, one exercise after another.
    """

    shown: dict[str, tuple[list[Any], str]] | None = None  # the outputs of each cell, by id, and how it ended
    visible: Mapping[str, AnyResult] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)  # answers that import a missing module
    verdicts: Mapping[str, decide_marks.Verdict] | None = None
    reports: dict[str, Report] = field(default_factory=dict)  # replace `verdicts` when the submission is marked again
    flags: list[str] = field(default_factory=list)
    carried: dict[str, Report] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def names(self) -> list[str]:
        """The exercises whose answers have a verdict."""
        return [*self.reports, *(self.verdicts or {})]

    def report(self, name: str, *, explain: bool = True) -> Report:
        """Return the report on what the answer to `name` earns by itself: see `Verdict.report`."""
        assert self.verdicts is not None
        return self.reports[name] if name in self.reports else self.verdicts[name].report(explain=explain)

    def small(self) -> "Fixed":
        """Return a copy without large arrays, to keep until everybody else is marked."""
        if self.verdicts is None:
            return replace(self, visible={name: _small(result) for name, result in self.visible.items()})
        return replace(self, visible={}, verdicts={}, reports={name: self.report(name) for name in self.names})


def _small(result: AnyResult) -> AnyResult:
    if isinstance(result, PredictionResult):
        return result
    if result.passed:  # its cases are not shown
        return replace(result, cases=[])
    if sum(case.observation.nbytes for case in result.cases) <= MAX_KEPT:
        return result
    large = Observation(failure=Failure("raised", "OutputTooLarge"))
    return decide_marks.judged_from(result.exercise, [large] * len(result.cases))


def mark(
    scheme: MarkScheme,
    sandbox: Sandbox,
    handed: Handed | bytes,
    purse: Purse | None = None,
    fixed: Fixed | None = None,
    *,
    final: bool = True,
) -> Marked:
    """Mark a submission, or the notebook with these bytes. `purse` holds the time that its class may still use.

    A submission that is not `final` stops when others cut it short. It is then marked again without a purse, starting from
    what was `fixed`.
    """
    handed = Handed(handed) if isinstance(handed, bytes) else handed
    limit_s = scheme.limits.budget_s
    try:
        with contextlib.nullcontext(Budget(limit_s)) if purse is None else purse.loan(limit_s) as budget:
            return _Marking(scheme, sandbox, handed, budget, fixed or Fixed(), final).mark()
    finally:
        read_submission.forget()
        fingerprint.forget()


class _Marking:
    """The marking of one submission, which is read once and then run until everything about it is `fixed`."""

    def __init__(self, scheme: MarkScheme, sandbox: Sandbox, handed: Handed, budget: Budget, fixed: Fixed, final: bool):
        self.scheme, self.sandbox, self.budget = replace(scheme, own=handed.hidden), sandbox, budget
        self.fixed, self.final = fixed, final
        self.began, self.whole_s = time.thread_time(), budget.left_s
        self.reading = read_in_child.Seconds(read_in_child.READ_S, budget)
        sys.path += [folder for folder in scheme.given if folder not in sys.path]  # behaviours are judged here, on a cluster too
        self.files = handed.modules()
        self.modules, self.imports = [text_of(data) for data in self.files.values()], Imports(self.files)
        self.notebook, self.unreadable, self.notes, self.flags = self.rebuild(handed)
        self.checks = {name: cell for cell in self.notebook.cells if (name := exercise_of(cell)) is not None}
        self.run = to_run(scheme.released, self.notebook)
        self.answers = {str(grade_id(cell)): cell for cell in self.run if is_answer(cell)}
        self.sources = {name: str(cell.source) for name, cell in self.answers.items()}
        self.texts = self.texts_to_run()

    def mark(self) -> Marked:
        """Return the marked submission. If it was cut short and this marking is not `final`, only its `fixed` part counts."""
        # a worker lost along the way (killed from outside, say) must not cost the learner anything
        for attempt in range(ATTEMPTS):
            tier = self.sandbox.label  # starts a worker where none is left, before the learner's time runs
            self.lost, self.is_last = self.sandbox.lost, attempt == ATTEMPTS - 1
            self.ask()
            if self.sandbox.lost == self.lost or self.is_postponed:
                break
        else:
            self.flags.append(
                "its sandbox ended each time it was marked: the submission may end it, or something on this machine"
            )
        if self.is_postponed:
            return Marked(self.notebook, tier=tier, cut=self.cut, fixed=self.fixed.small())
        broken, reports = self.show_outputs(), self.explain()
        self.remark(reports)
        self.remark_on_time()
        notes = list(dict.fromkeys(self.notes))
        return Marked(
            self.notebook,
            reports,
            flags=list(dict.fromkeys([*notes, *self.flags])),
            notes=notes,
            unreadable=self.unreadable,
            broken=broken,
            refused=Counter(self.fixed.refused),
            tier=tier,
            seconds=self.whole_s - self.budget.left_s + time.thread_time() - self.began,
            page_s=min(self.reading.left_s, max(PAGE_S, self.budget.left_s)),
            cut=self.cut,
        )

    def rebuild(self, handed: Handed) -> tuple[Any, str, list[str], list[str]]:
        """Return the notebook to grade, why nothing could be read, notes for the student, and flags for a person."""
        cells, unreadable, notes = handed.cells()
        ours = {*(cell.source for cell in self.scheme.released.cells), *self.scheme.references.values()}
        flags = read_submission.read_ahead(cells, ours, self.modules, self.reading)
        rebuilt = rebuild(self.scheme.released, cells)
        flags += read_submission.read_anew(rebuilt.notebook, self.reading)
        notes += [str(flag) for flag in rebuilt.flags if cells or flag.kind != "missing"]
        notes += read_submission.show(rebuilt, read_submission.draw(rebuilt.pictures, self.reading))
        return rebuilt.notebook, unreadable, notes, flags

    def texts_to_run(self) -> dict[str, str]:
        """Return the text to run for each cell, by its id, with slips in answers corrected and missing modules not imported."""
        others = [cell.source for cell in self.run if not is_answer(cell)]
        meant, notes = as_meant(self.sources, self.scheme.hidden.exercises, others, self.reading)
        self.notes += notes
        texts = {cell.id: cell.source for cell in self.run}
        texts |= {self.answers[name].id: text for name, text in meant.items()}
        for cell in self.run:
            if is_answer(cell) or not grade_id(cell):  # the lesson's locked cells stay as they are
                texts[cell.id], absent = without_absent(texts[cell.id], self.imports)
                name = repr(grade_id(cell)) if is_answer(cell) else "a cell"
                self.notes += [
                    f"{name} imports {module}, which is not installed here: that line was left out" for module in absent
                ]
        return texts

    def cells(self, replaced: Collection[str] = ()) -> list[Cell]:
        """Return the cells for the sandbox, with the reference in place of each answer in `replaced`."""
        texts = dict(self.texts)
        for name in replaced:
            texts[self.answers[name].id], _ = without_absent(self.scheme.references[name], self.imports)
        return [Cell(cell.id, texts[cell.id], LOCKED_S if grade_id(cell) else math.inf) for cell in self.run]

    @property
    def cut(self) -> str:
        """`CUT_BY_CLASS` or `CUT_BY_LOAD` if that cut the submission short, otherwise empty."""
        short = self.budget.spent and self.whole_s < self.scheme.limits.budget_s
        return CUT_BY_LOAD if self.budget.starved else CUT_BY_CLASS if short else ""

    @property
    def is_postponed(self) -> bool:
        """Whether the submission must be marked again after everybody else, because others cut it short."""
        return not self.final and self.cut != ""

    @property
    def must_ask_again(self) -> bool:
        """Whether the last questions must be asked again, in the next attempt or in another marking."""
        return (self.sandbox.lost != self.lost and not self.is_last) or self.is_postponed

    def ask(self) -> None:
        """Do the steps that are not yet `fixed`, until one has to be repeated."""
        if self.fixed.verdicts is None:
            self.ask_by_itself()
        if self.fixed.verdicts is not None:
            self.ask_with_references()

    def ask_by_itself(self) -> None:
        """Fix what the student will see of the answers, and then what each answer earns by itself."""
        with self.sandbox.submission(self.cells(), self.files, budget=self.budget) as submission:
            if self.fixed.shown is None:
                shown = {
                    done.id: ([nbformat.from_dict(output) for output in done.outputs], done.status) for done in submission.outputs
                }
                # exercises can communicate in the sandbox through files or shared memory, so one could show what another
                # was asked: the hidden questions come later
                visible = decide_marks.on_visible(self.scheme, submission, list(self.checks))
                if self.must_ask_again:
                    return
                self.fixed.shown, self.fixed.visible = shown, visible
            verdicts = decide_marks.on_hidden(self.scheme, submission, self.fixed.visible)
        self.fixed.refused.update(submission.refused)
        if self.must_ask_again:
            return
        odd = "{} is wrong only on inputs that were drawn for this student: see how it gets its results"
        self.fixed.flags = [odd.format(name) for name, verdict in verdicts.items() if verdict.own_alone]
        self.fixed.lacking = [name for name, result in self.fixed.visible.items() if remarks.lacks_module(result)]
        self.fixed.verdicts = verdicts

    def ask_with_references(self) -> None:
        """Ask failing answers that depend on an earlier failing one again, in the lesson's order, with the earlier reference.

        No reference enters the sandbox before the answer that it replaces has earned all it can: an answer is asked only with
        the references of earlier exercises, and what is fixed is never asked again.
        """
        scheme, reports = self.scheme, {name: self.fixed.report(name, explain=False) for name in self.fixed.names}
        leaning = Bindings(cell.source for cell in self.run)
        failing = [name for name in scheme.hidden.in_code if name in reports and reports[name].score < reports[name].points]
        order = list(scheme.hidden.exercises)
        asked = {
            name: below
            for name in failing
            if scheme.follow_through != "none" and name not in self.fixed.carried
            if (below := failing_below(name, self.sources, leaning, failing, order, scheme.references))
        }
        called = calls([self.sources[name] for name in asked], self.reading)
        for name, below in asked.items():
            if self.budget.spent or only_calls(called[self.sources[name]], below):
                continue
            record = scheme.record_of(name)
            with self.sandbox.submission(self.cells(below), self.files, budget=self.budget) as submission:
                observations = submission.observe_all([decide_marks.question(record)], apart=True)[name]
            self.fixed.refused.update(submission.refused)
            if self.must_ask_again:
                return
            result = decide_marks.judged_hidden(record, observations)
            credit = credit_for(result, scheme.shares.get(name, {}))
            score = max(result.score, credit.points if credit is not None else 0.0)
            self.fixed.carried[name] = carried(reports[name], record, score, below, scheme.follow_through)

    def show_outputs(self) -> list[str]:
        """Put the cells' outputs into the notebook. Returns the given cells that failed, with the error."""
        shown, broken = self.fixed.shown or {}, []
        for cell in self.run:
            outputs, end = shown.get(cell.id, ([], "not run"))
            cell.outputs = copy.deepcopy(outputs)
            if end == "error" and grade_id(cell) and not is_answer(cell):
                broken.append(f"{grade_id(cell)!r} fails: {remarks.error_of(cell) or ''}")
        return broken

    def explain(self) -> dict[str, Report]:
        """Return the report on each exercise, and write it into the output of the exercise's check."""
        reports = {name: report for name, report in self.fixed.carried.items() if report.carried}
        for name in self.fixed.names:
            report = reports[name] if name in reports else self.fixed.report(name)
            reports[name] = remarks.explained(report, self.answers[name]) if name in self.answers else report
            self.checks[name].outputs = [_as_output(reports[name])]
        return {name: reports[name] for name in self.fixed.names}

    def remark(self, reports: Mapping[str, Report]) -> None:
        """Add flags for a person, and notes that the student sees too, about what the marks don't show."""
        in_code, fixed = self.scheme.hidden.in_code, self.fixed
        self.notes += [f"a cell {_ENDS[status]}" for _, status in (fixed.shown or {}).values() if status in _ENDS]
        self.flags += fixed.flags
        self.flags += [
            f"{name}: {report.score:g} points with the reference's {', '.join(report.carried)}"
            for name, report in reports.items()
            if report.carried
        ]
        for name, cell in self.answers.items():
            answered = name in reports and name in in_code and reports[name].score > 0
            if answered and (note := remarks.renamed(in_code[name], cell.source)):
                self.notes.append(note)
        for name, report in reports.items():
            error = remarks.error_of(self.answers[name]) if name in self.answers else None
            lacking = error is not None and error.type == "ModuleNotFoundError"
            if (lacking or name in fixed.lacking) and report.score < report.points:
                self.notes.append(remarks.missing_module(name, self.sources.get(name, ""), Imports(self.files)))
        lesson = {cell.source for cell in self.scheme.released.cells if grade_id(cell) is None}
        self.flags += forbidden_names.flags(in_code, self.notebook, self.modules, lesson)

    def remark_on_time(self) -> None:
        """Add a flag or a note if reading or running the submission ran out of time."""
        self.flags += [read_submission.SLOW] if self.reading.short else []
        if self.cut == CUT_BY_LOAD:
            self.flags.append(
                "something ran out of time only because other programs had the processors: grade it again when this machine does "
                "less, with `attn grade --again --student`"
            )
        elif self.cut == CUT_BY_CLASS:
            self.flags.append(
                f"it had {self.whole_s:.0f} of the {self.scheme.limits.budget_s:.0f} s of a submission, because others had used "
                "what the class shares: grade it again with `attn grade --again --student`"
            )
        elif self.budget.spent:
            self.notes.append(
                f"it used the {self.whole_s:.0f} s of its own that a submission has, so what came later was not asked. Other "
                "work on the machine is not counted"
            )


def _as_output(report: Report) -> Any:
    data = {"text/plain": repr(float(report.score)), "text/html": panel.to_html(report)}
    return nbformat.from_dict({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1})
