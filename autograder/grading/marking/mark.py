"""Mark one submission from outside the process in which it runs.

It sends the learner's cells to the sandbox, asks there for the outputs of their functions on hidden inputs, compares them
*here* with expected values that never leave this process, and writes score and panel as the grade cell's output. What comes
out is a notebook such as nbgrader's autograder would have left, so its formgrader, feedback and exporters work on as ever.

This was a preprocessor in nbgrader's `Autograde` at first, in the place of `Execute`. nbgrader converts each notebook twice
and opens the gradebook nine times for it; that was more than half of the time, so `gradebook` writes the same rows.
"""

import ast
import contextlib
import copy
import hashlib
import json
import math
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat

from autograder import __version__
from autograder import sandbox as box
from autograder.authoring.course import CourseError, find_lesson, given_folders, settings
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import injected
from autograder.diagnosis import panel
from autograder.diagnosis.attempt import judge_missing, judged
from autograder.diagnosis.explain import Report, make_report
from autograder.grading import bounded
from autograder.grading.marking import forbidden_names
from autograder.grading.marking.follow_through import Policy, carried, failing_below, with_references
from autograder.grading.marking.forbidden_names import bindings, builds_names, disguises, leaned_on, uses
from autograder.grading.marking.needed_cells import needed, supporting
from autograder.judging import pack
from autograder.judging.judge import judge_choice
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import ExerciseRecord, Result
from autograder.judging.values import EncodedValue
from autograder.notebooks import scopes
from autograder.notebooks.roles import exercise_of, grade_id, is_answer, is_grade
from autograder.notebooks.submission import Cell, UnreadableError, parse, rebuild
from autograder.sandbox import untrusted

SECRET_FILE = ".secret"
MIN_SECRET = 32
LOCKED_S = 10.0  # for one of the lesson's own cells that the learner cannot change
_ENDS = {"timeout": "ran out of time", "crashed": "ended the process"}
ATTEMPTS = 3  # a submission whose sandbox was lost under way is marked this often


def secret(root: Path) -> str:
    """The course's secret, from which hidden probes are drawn; made at first use, readable by the owner alone."""
    path = root / SECRET_FILE
    if not path.exists():
        aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):  # another grader was first: its secret is everybody's
                os.link(aside, path)  # whole or not at all
        finally:
            aside.unlink(missing_ok=True)
    found = path.read_text(encoding="ascii").strip()
    if len(found) < MIN_SECRET:
        raise CourseError(
            f"{path}: expected a secret of at least {MIN_SECRET} characters, got {len(found)}: whoever guesses it can compute "
            "the hidden inputs. Restore it from a backup, or remove the file: the next run makes a new one, and marks may change."
        )
    return found


@dataclass(frozen=True)
class Setup:
    """What a sandbox must have ready before the first submission: modules, limits, folders of given packages."""

    preload: tuple[str, ...]
    limits: box.Limits
    given: tuple[str, ...] = ()

    def sandbox(self, tier: str) -> box.Sandbox:
        """A sandbox in `tier`, not started yet."""
        return box.Sandbox(tier, self.limits, self.preload, self.given)


@dataclass(frozen=True)
class MarkScheme:
    """What grading one assignment needs, as plain data that another machine can be sent: trusted notebook, packs, limits."""

    assignment: str
    released: Any
    visible: pack.Pack
    hidden: pack.Pack
    limits: box.Limits
    given: tuple[str, ...] = ()
    references: Mapping[str, str] = field(default_factory=dict)  # the source of each exercise's reference
    follow_through: Policy = "full"

    @cached_property
    def digest(self) -> str:
        """A hash of all that marks depend on, the grader's version included: equal schemes give equal marks."""
        parts = [__version__, json.dumps(self.released, sort_keys=True), json.dumps(asdict(self.limits), sort_keys=True)]
        parts += [json.dumps(dict(self.references), sort_keys=True), self.follow_through]
        return hashlib.sha256("\0".join([*parts, self.visible.digest, self.hidden.digest]).encode()).hexdigest()

    @cached_property
    def setup(self) -> "Setup":
        """What its sandboxes must have ready."""
        return setup_for(self.released, self.limits, self.given)


@dataclass
class Marked:
    """A marked submission: the notebook with panels as outputs, a report for each exercise, and what a person should see."""

    notebook: Any
    reports: dict[str, Report] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # given cells that failed, with the error; see `rehearsal`
    tier: str = ""
    seconds: float = 0.0


def read_release(root: Path, assignment: str) -> Any:
    """The released notebook of `assignment` in the course at `root`."""
    return nbformat.read(root / "release" / assignment / f"{assignment}.ipynb", as_version=4)


def setup_for(released: Any, limits: box.Limits, given: Sequence[str]) -> Setup:
    """The modules that the locked cells of a release import are imported once, and not again for each submission."""
    locked = [c.source for c in released.cells if c.cell_type == "code" and grade_id(c) and not is_answer(c)]
    found: dict[str, None] = {}
    for node in (node for source in locked for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            found |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found[node.module] = None
    return Setup(tuple(found), limits, tuple(given))


def make_mark_scheme(root: Path, assignment: str, limits: box.Limits | None = None) -> MarkScheme:
    """The scheme for `assignment` of the course at `root`."""
    lesson = find_lesson(assignment)
    hidden = lesson.pack(seed=pack.seed_from(secret(root), lesson.slug))
    visible = pack.load(root / "release" / assignment / f"{lesson.slug}{pack.SUFFIX}")
    references = {str(grade_id(cell)): injected(cell) for cell in read_lesson(lesson).cells if is_answer(cell)}
    found = read_release(root, assignment), visible, hidden, limits or box.Limits(), given_paths(), references
    return MarkScheme(assignment, *found, settings().follow_through)


def given_paths() -> tuple[str, ...]:
    """The folders of the packages that this course gives its lessons."""
    return tuple(map(str, given_folders()))


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
    run = _to_run(scheme, notebook)
    checks = {name: cell for cell in notebook.cells if (name := exercise_of(cell)) is not None}
    with sandbox.submission(_cells(run), budget=budget) as submission:
        if shown.outputs is None:
            outputs = [[nbformat.from_dict(output) for output in done.outputs] for done in submission.outputs]
            ends = [done.status for done in submission.outputs]
            flags = [f"a cell {_ENDS[status]}" for status in ends if status in _ENDS]
            # All that may be shown is gathered before the first hidden input enters the sandbox: exercises can reach one
            # another there, through files or shared memory, and one would be shown what another was asked.
            visible = _visible(scheme, submission, list(checks))
            if sandbox.lost != lost and not last:
                return  # no hidden input was asked yet: all of it is done again
            shown.outputs, shown.visible, shown.flags, shown.ends = outputs, visible, flags, ends
        for cell, outputs, end in zip(run, shown.outputs, shown.ends, strict=True):
            cell.outputs = copy.deepcopy(outputs)
            if end == "error" and grade_id(cell) and not is_answer(cell):
                marked.broken.append(f"{grade_id(cell)!r} fails: {_error(cell)}")
        marked.flags += shown.flags
        marked.reports = _reports(scheme, submission, copy.deepcopy(dict(shown.visible)))
    _follow_through(scheme, sandbox, run, marked, budget)
    for name, cell in checks.items():
        cell.outputs = [_as_output(marked.reports[name])]
    marked.flags += _forbidden(scheme, notebook)


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
            seen = submission.observe_all([_question(record)], apart=True)[name]
        result = _judged(record, [untrusted.clean_hidden(one) for one in seen])
        marked.reports[name] = carried(report, record, result.score, below, scheme.follow_through)
        if marked.reports[name].carried:
            marked.flags.append(f"{name}: {marked.reports[name].score:g} points with the reference's {', '.join(below)}")


def _to_run(scheme: MarkScheme, notebook: Any) -> list[Any]:
    """The cells to run: what the lesson gives and what the learner wrote, and its demonstrations where these lean on them."""
    original = {cell.id: cell.source for cell in scheme.released.cells if cell.cell_type == "code" and grade_id(cell) is None}
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and not is_grade(cell)]
    shown, given, theirs = set(), [], []
    for cell in code:
        if original.get(cell.id) == cell.source:
            shown.add(cell.id)
        elif grade_id(cell) and not is_answer(cell):
            given.append(cell.source)
        else:
            theirs.append(cell.source)
    kept = supporting(given, {name: original[name] for name in shown})
    shown -= kept
    if needed([*given, *(original[name] for name in kept)], theirs, [original[name] for name in shown]):
        return code
    return [cell for cell in code if cell.id not in shown]


def _cells(run: Sequence[Any]) -> list[box.Cell]:
    """As the sandbox takes them; a locked cell is short work, unless it calls an answer that loops."""
    locked = [bool(grade_id(cell)) and not is_answer(cell) for cell in run]
    return [box.Cell(cell.id, cell.source, LOCKED_S if own else math.inf) for cell, own in zip(run, locked, strict=True)]


def _visible(scheme: MarkScheme, submission: box.Submission, names: Sequence[str]) -> Mapping[str, Result]:
    """The result of each exercise on its visible probes. They decide no mark but of what never ran, so they share a process."""
    records = {name: scheme.visible.exercises[name] for name in names}
    asked = [name for name, record in records.items() if not record.choices]
    chosen = submission.values([name for name in names if name not in asked])
    seen = submission.observe_all([_question(records[name]) for name in asked])
    return {
        name: judge_choice(record, _plain_text(chosen[name])) if record.choices else _judged(record, seen[name])
        for name, record in records.items()
    }


def _reports(scheme: MarkScheme, submission: box.Submission, visible: Mapping[str, Result]) -> dict[str, Report]:
    """The report on each exercise: *hidden* probes give the score; if the visible ones failed too, they are what is shown."""
    asked = {name: scheme.hidden.exercises[name] for name, result in visible.items() if not _settled(result)}
    seen = submission.observe_all([_question(record) for record in asked.values()], apart=True)
    reports = {}
    for name, result in visible.items():
        if name not in asked:
            reports[name] = make_report(result)
            continue
        hidden = _judged(asked[name], [untrusted.clean_hidden(one) for one in seen[name]])
        if hidden.passed or result.passed:
            reports[name] = make_report(hidden, reveal=False)
        else:
            result.score = hidden.score
            reports[name] = make_report(result)
    return reports


def _settled(visible: Result) -> bool:
    """Whether the hidden probes would only say the same as the visible ones, and take as long."""
    ended = visible.failure is not None and visible.failure.kind in ("timeout", "crashed", "missing", "blank")
    return bool(visible.exercise.choices) or (ended and visible.score == 0)


def _question(record: ExerciseRecord) -> box.Question:
    return box.Question(record.id, [case.probe for case in record.cases], record.timeout_s)


def _judged(record: ExerciseRecord, seen: Sequence[Observation]) -> Result:
    observations = list(seen)
    if observations and all(one.failure and one.failure.kind == "missing" for one in observations):
        return judge_missing(record)
    observations += [Observation(failure=Failure("crashed"))] * (len(record.cases) - len(observations))
    return judged(record, observations)


def _forbidden(scheme: MarkScheme, nb: Any) -> list[str]:
    """A flag for each name that an exercise forbids: in its answer, the learner's own cells, and what the answer leans on."""
    records = [record for record in scheme.hidden.exercises.values() if record.forbid]
    code = [cell for cell in nb.cells if cell.cell_type == "code" and (grade_id(cell) is None or is_answer(cell))]
    own = [cell.source for cell in code if cell.id.startswith("extra-")]
    others = {cell.source: bindings(cell.source) for cell in code if records}
    flags = []
    for record in records:
        answers = [cell.source for cell in code if grade_id(cell) == record.id]
        helpers = [source for answer in answers for source in leaned_on(answer, others, list(scheme.hidden.exercises))]
        named = {name for source in [*own, *answers, *helpers] for name in uses(source, record.forbid)}
        flags += [f"{record.id} names {name}: see whether it was the exercise" for name in record.forbid if name in named]
        if not named and any(builds_names(source) for source in [*own, *answers, *helpers]):
            flags.append(f"{record.id} may build a name at run time: see whether it is one that the exercise forbids")
    flags += [f"a cell holds {what}: read it with care" for cell in code if (what := disguises(cell.source))]
    return flags


def _plain_text(tree: EncodedValue | None) -> str | None:
    value = None if tree is None else tree.spec.get("s")
    return value if isinstance(value, str) else None


def _as_output(report: Report) -> Any:
    data = {"text/plain": repr(float(report.score)), "text/html": panel.to_html(report)}
    return nbformat.v4.new_output("execute_result", data=data, execution_count=1)
