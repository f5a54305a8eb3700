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
from autograder.submission import UnreadableError, read, rebuild
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

    def begin(self) -> None:
        """Forget the last student."""
        self.reports, self.flags = {}, []


def open_session(root: Path, assignment: str, *, unsafe: bool = False) -> Session:
    """A session for `assignment` of the course at `root`. Raises SandboxUnavailable where nothing isolates and not `unsafe`."""
    lesson = find_lesson(assignment)
    tier = box.choose_tier(unsafe=unsafe)
    hidden = pack.make(lesson.slug, lesson.title, lesson.exercises(), seed=pack.seed_from(secret(root), lesson.slug))
    folder = root / "release" / assignment
    released = nbformat.read(folder / f"{assignment}.ipynb", as_version=4)
    visible = pack.load(folder / f"{lesson.slug}{pack.SUFFIX}")
    uses_torch = any("import torch" in cell.source for cell in released.cells)
    sandbox = box.Sandbox(tier, preload=("numpy", "torch") if uses_torch else ("numpy",))
    return Session(assignment, released, visible, hidden, sandbox)


class SafeNotebookExporter(NotebookExporter):
    """Reads a submission through `submission.read` and hands on the rebuilt notebook: nbformat never meets the raw file."""

    session: Session | None = None

    def from_filename(self, filename: str, resources: Any = None, **kw: Any) -> Any:
        session = type(self).session
        assert session is not None
        submitted = Path(filename)
        try:
            cells = read(submitted)
        except UnreadableError as problem:
            cells = []
            session.flags.append(f"unreadable: {problem}")
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
            for cell in nb.cells:
                if (name := exercise_of(cell)) is not None:
                    report = mark(session, submission, name)
                    session.reports[name] = report
                    session.flags += _forbidden(session.hidden.exercises[name], nb)
                    cell.outputs = [_as_output(report)]
        session.flags = list(dict.fromkeys(session.flags))
        return nb, resources


def mark(session: Session, submission: box.Submission, name: str) -> Report:
    """The report on exercise `name`: the *hidden* probes give the score; if the visible ones fail too, they are what is shown."""
    hidden = _judged(session.hidden.exercises[name], submission)
    ended = hidden.failure is not None and hidden.failure.kind in ("timeout", "crashed", "missing", "blank")
    settled = (
        hidden.passed or ended or bool(hidden.exercise.choices)
    )  # a second run would only say the same, and may take as long
    visible = hidden if settled else _judged(session.visible.exercises[name], submission)
    if visible is hidden or visible.passed:
        return make_report(hidden, reveal=bool(hidden.exercise.choices))
    visible.score = hidden.score
    return make_report(visible)


def _judged(record: ExerciseRecord, submission: box.Submission) -> Result:
    if record.choices:
        tree = submission.value(record.id)
        return judge_choice(record, _plain_text(tree))
    observations = submission.observe(record.id, [case.probe for case in record.cases], record.timeout_s)
    if observations and all(seen.failure and seen.failure.kind == "missing" for seen in observations):
        return judge_missing(record)
    observations += [Observation(failure=Failure("crashed"))] * (len(record.cases) - len(observations))
    return judge(record, observations)


def _forbidden(record: ExerciseRecord, nb: Any) -> list[str]:
    """A flag for each forbidden name in the exercise's answer cell, and in the learner's own extra cells."""
    theirs = [c.source for c in nb.cells if c.cell_type == "code" and (c.id.startswith("extra-") or grade_id(c) == record.id)]
    return [f"{record.id} names {name}: see whether it was the exercise" for name in uses("\n".join(theirs), record.forbid)]


def _plain_text(tree: Tree | None) -> str | None:
    value = None if tree is None else tree.spec.get("s")
    return value if isinstance(value, str) else None


def _as_output(report: Report) -> Any:
    data = {"text/plain": repr(float(report.score)), "text/html": panel.to_html(report)}
    return nbformat.v4.new_output("execute_result", data=data, execution_count=1)
