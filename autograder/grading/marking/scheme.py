"""Collect what marking one assignment needs: the trusted notebook, both packs, limits, and the secret behind the hidden pack."""

import ast
import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat

from autograder import __version__
from autograder.authoring.course import CourseError, find_lesson, given_folders, settings
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import injected
from autograder.grading.marking.follow_through import Policy
from autograder.grading.marking.hidden_draws import HiddenDraws
from autograder.judging.records import ExerciseRecord
from autograder.notebooks.roles import exercise_of, grade_id, is_answer
from autograder.packs import make_pack, pack_file
from autograder.sandbox.client import Sandbox
from autograder.sandbox.submission_limits import Limits

SECRET_FILE = ".secret"
MIN_SECRET = 32


def secret(root: Path) -> str:
    """Return the course's secret, from which hidden probes are drawn.

    It is created at first use, readable by its owner only. Raises CourseError if it is too short.
    """
    path = root / SECRET_FILE
    if not path.exists():
        aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):  # another grader was first, and its secret counts
                os.link(aside, path)  # atomic
        finally:
            aside.unlink(missing_ok=True)
    text = path.read_text(encoding="ascii").strip()
    if len(text) < MIN_SECRET:
        raise CourseError(
            f"{path}: expected a secret of at least {MIN_SECRET} characters, got {len(text)}: whoever guesses it can compute "
            "the hidden inputs. Restore it from a backup, or remove the file: the next run makes a new one, and marks may change."
        )
    return text


@dataclass(frozen=True)
class Setup:
    """What a sandbox must have ready before the first submission: modules, limits, folders of given packages."""

    preload: tuple[str, ...]
    limits: Limits
    given: tuple[str, ...] = ()

    def sandbox(self, tier: str) -> Sandbox:
        """Return a sandbox in `tier`, not started yet."""
        return Sandbox(tier, self.limits, self.preload, self.given)


@dataclass(frozen=True)
class MarkScheme:
    """What grading one assignment needs, as plain data that can be sent to another machine: trusted notebook, packs, limits."""

    assignment: str
    released: Any
    visible: pack_file.Pack
    hidden: pack_file.Pack
    limits: Limits
    given: tuple[str, ...] = ()
    references: Mapping[str, str] = field(default_factory=dict)  # source of each exercise's reference
    follow_through: Policy = "full"
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # see `credit`
    own: Mapping[str, ExerciseRecord] = field(default_factory=dict)  # the hidden tests of the student being marked

    @cached_property
    def digest(self) -> str:
        """A hash of everything that marks depend on, including the grader's version, so equal hashes mean equal marks."""
        shares = {name: dict(each) for name, each in self.shares.items()}
        data = [json.dumps(each, sort_keys=True) for each in (self.released, asdict(self.limits), dict(self.references), shares)]
        parts = [__version__, "hidden inputs for each student", *data[:3], self.follow_through, data[3]]
        return hashlib.sha256("\0".join([*parts, self.visible.digest, self.hidden.digest]).encode()).hexdigest()

    @cached_property
    def setup(self) -> Setup:
        """What a sandbox for this assignment must have ready."""
        return setup_for(self.released, self.limits, self.given)

    def record_of(self, name: str) -> ExerciseRecord:
        """Return the record by which the answer to `name` is marked: the student's own, or the class's."""
        return self.own[name] if name in self.own else self.hidden.in_code[name]


def points_of_cells(scheme: MarkScheme) -> dict[str, float]:
    """Return the points of each graded cell of an exercise, by grade_id."""
    exercises = scheme.hidden.exercises
    return {str(grade_id(cell)): exercises[name].points for cell in scheme.released.cells if (name := exercise_of(cell))}


def read_release(root: Path, assignment: str) -> Any:
    """Return the released notebook of `assignment` in the course at `root`. Raises CourseError if there is none."""
    try:
        return nbformat.read(root / "release" / assignment / f"{assignment}.ipynb", as_version=4)
    except FileNotFoundError:
        raise CourseError(f"expected a release of {assignment} in {root}/release, found none. Run `attn build`.") from None


def setup_for(released: Any, limits: Limits, given: Sequence[str]) -> Setup:
    """Return the setup that imports the modules of the release's locked cells once, instead of for each submission."""
    locked = [c.source for c in released.cells if c.cell_type == "code" and grade_id(c) and not is_answer(c)]
    modules: dict[str, None] = {}
    for node in (node for source in locked for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            modules |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules[node.module] = None
    return Setup(tuple(modules), limits, tuple(given))


def make_mark_scheme(root: Path, assignment: str, limits: Limits | None = None) -> MarkScheme:
    """Return the scheme for `assignment` of the course at `root`. Raises CourseError if the release doesn't match the course."""
    lesson = find_lesson(assignment)
    hidden = lesson.pack(seed=make_pack.seed_from(secret(root), lesson.slug))
    visible = pack_file.load(root / "release" / assignment / f"{lesson.slug}{pack_file.SUFFIX}")
    references = {str(grade_id(cell)): injected(cell) for cell in read_lesson(lesson).cells if is_answer(cell)}
    released = read_release(root, assignment)
    if gone := [name for cell in released.cells if (name := exercise_of(cell)) and name not in hidden.exercises]:
        raise CourseError(
            f"expected a release of {assignment} as the course declares it, found a check of {gone[0]!r}, which it does not. "
            f"Run `attn build {assignment}`, or go back to the version that was released."
        )
    points = {name: record.points for name, record in hidden.exercises.items()}
    for cell in released.cells:  # a course may change its points after the notebook was released
        if (name := exercise_of(cell)) and grade_id(cell):
            cell.metadata["nbgrader"]["points"] = points[name]
    visible = replace(
        visible,
        exercises={name: replace(shown, points=points.get(name, shown.points)) for name, shown in visible.exercises.items()},
    )
    limits, given = limits or Limits(), given_paths()
    return MarkScheme(
        assignment, released, visible, hidden, limits, given, references, settings().follow_through, lesson.shares()
    )


def make_hidden_draws(root: Path, scheme: MarkScheme) -> HiddenDraws:
    """Return the draws of hidden inputs for the students who are marked by `scheme` in the course at `root`."""
    lesson = find_lesson(scheme.assignment)
    return HiddenDraws(lesson.slug, lesson.exercises(), secret(root), scheme.hidden, scheme.shares)


def given_paths() -> tuple[str, ...]:
    """Return the folders of the packages that this course gives its lessons."""
    return tuple(map(str, given_folders()))
