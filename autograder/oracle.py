"""The oracle: marks a submission from outside the process in which it runs.

An nbgrader preprocessor that stands in `Autograde.autograde_preprocessors` in the place of `Execute`. It sends the
learner's cells to the sandbox, asks there for the outputs of their functions on hidden inputs, compares them *here*
with expected values that never leave this process, and writes score and panel as the grade cell's output. So
nbgrader's gradebook, formgrader, feedback and exporters work on as ever.
"""

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder import pack, panel
from autograder import sandbox as box
from autograder.checking import judge_missing
from autograder.forbid import uses
from autograder.judge import ExerciseRecord, Result, judge, judge_choice
from autograder.notebook import exercise_of, grade_id, is_figure, is_grade
from autograder.observe import Failure, Observation
from autograder.registry import find_lesson
from autograder.report import Report, make_report
from autograder.sandbox import results
from autograder.submission import Cell, UnreadableError, read, rebuild
from autograder.tree import Tree

SECRET_FILE = ".secret"


def secret(root: Path) -> str:
    """The course's secret, from which hidden probes are drawn; made at first use, readable by the owner alone."""
    path = root / SECRET_FILE
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32) + "\n", encoding="ascii")
    return path.read_text(encoding="ascii").strip()


@dataclass
class Session:
    """What grading one assignment needs, made once: the trusted notebook, both packs, the warm sandbox."""

    assignment: str
    released: Any
    visible: pack.Pack
    hidden: pack.Pack
    sandbox: box.Sandbox
    reports: dict[str, Report] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    cells: list[Cell] | None = None  # as submitted; None before they are read

    def begin(self) -> None:
        """Forget the last student."""
        self.reports, self.flags, self.cells = {}, [], None


def open_session(root: Path, assignment: str, *, unsafe: bool = False) -> Session:
    """A session for `assignment` of the course at `root`. Raises SandboxUnavailable where nothing isolates and not `unsafe`."""
    lesson = find_lesson(assignment)
    tier = box.choose_tier(unsafe=unsafe)
    hidden = pack.make(lesson.slug, lesson.title, lesson.exercises(), seed=pack.seed_from(secret(root), lesson.slug))
    folder = root / "release" / assignment
    released = nbformat.read(folder / f"{assignment}.ipynb", as_version=4)
    visible = pack.load(folder / f"{lesson.slug}{pack.SUFFIX}")
    # what the set-up cells import is imported once, in the warm worker, and not again for each submission
    preload = [name for name in ("numpy", "torch", "matplotlib.pyplot") if any(name in cell.source for cell in released.cells)]
    sandbox = box.Sandbox(tier, preload=preload)
    return Session(assignment, released, visible, hidden, sandbox)


class SafeNotebookExporter(NotebookExporter):
    """Reads a submission through `submission.read` and hands on the rebuilt notebook: nbformat never meets the raw file."""

    session: Session | None = None

    def from_filename(self, filename: str, resources: Any = None, **kw: Any) -> Any:
        session = type(self).session
        assert session is not None
        if session.cells is None:  # nbgrader converts twice: the second time from what it wrote the first time
            try:
                session.cells = read(Path(filename))
            except UnreadableError as problem:
                session.cells = []
                session.flags.append(f"unreadable: {problem}")
        cells = session.cells
        rebuilt = rebuild(session.released, cells)
        session.flags += [flag for flag in rebuilt.flags if not (flag.startswith("missing") and not cells)]
        export: Any = self.from_notebook_node  # untyped in nbconvert
        return export(rebuilt.notebook, resources=resources, **kw)


class Oracle(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """Run the learner's cells in the sandbox, and mark their answers here."""

    session: Session | None = None

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        session = type(self).session
        assert session is not None
        run = [cell for cell in nb.cells if cell.cell_type == "code" and not is_grade(cell) and not is_figure(cell)]
        with session.sandbox.submission([box.Cell(cell.id, cell.source) for cell in run]) as submission:
            for cell, done in zip(run, submission.outputs, strict=True):
                cell.outputs = [nbformat.from_dict(output) for output in done.outputs]
                if done.status in ("timeout", "crashed"):
                    session.flags.append(f"a cell {'ran out of time' if done.status == 'timeout' else 'ended the process'}")
            checks = {name: cell for cell in nb.cells if (name := exercise_of(cell)) is not None}
            # All that may be shown is gathered before the first hidden input enters the sandbox: exercises can reach one another
            # there, through files or shared memory, and one would be shown what another was asked.
            visible = {name: _judged(session.visible.exercises[name], submission) for name in checks}
            for name, cell in checks.items():
                report = session.reports[name] = mark(session, submission, visible[name])
                session.flags += _forbidden(session.hidden.exercises[name], nb)
                cell.outputs = [_as_output(report)]
        session.flags = list(dict.fromkeys(session.flags))
        return nb, resources


def mark(session: Session, submission: box.Submission, visible: Result) -> Report:
    """The report on an exercise: the *hidden* probes give the score; if the visible ones failed too, they are what is shown."""
    ended = visible.failure is not None and visible.failure.kind in ("timeout", "crashed", "missing", "blank")
    if visible.exercise.choices or (ended and visible.score == 0):
        return make_report(visible)  # the hidden ones would only say the same, and may take as long
    hidden = _judged(session.hidden.exercises[visible.exercise.id], submission, reveal=False)
    if hidden.passed or visible.passed:
        return make_report(hidden, reveal=False)
    visible.score = hidden.score
    return make_report(visible)


def _judged(record: ExerciseRecord, submission: box.Submission, *, reveal: bool = True) -> Result:
    if record.choices:
        tree = submission.value(record.id)
        return judge_choice(record, _plain_text(tree))
    observations = submission.observe(record.id, [case.probe for case in record.cases], record.timeout_s)
    if observations and all(seen.failure and seen.failure.kind == "missing" for seen in observations):
        return judge_missing(record)
    observations += [Observation(failure=Failure("crashed"))] * (len(record.cases) - len(observations))
    return judge(record, observations if reveal else [results.clean_hidden(seen) for seen in observations])


def _forbidden(record: ExerciseRecord, nb: Any) -> list[str]:
    """A flag for each forbidden name in the exercise's answer cell, and in the learner's own extra cells."""
    theirs = [c.source for c in nb.cells if c.cell_type == "code" and (c.id.startswith("extra-") or grade_id(c) == record.id)]
    named = {name for source in theirs for name in uses(source, record.forbid)} if record.forbid else set()
    return [f"{record.id} names {name}: see whether it was the exercise" for name in record.forbid if name in named]


def _plain_text(tree: Tree | None) -> str | None:
    value = None if tree is None else tree.spec.get("s")
    return value if isinstance(value, str) else None


def _as_output(report: Report) -> Any:
    data = {"text/plain": repr(float(report.score)), "text/html": panel.to_html(report)}
    return nbformat.v4.new_output("execute_result", data=data, execution_count=1)
