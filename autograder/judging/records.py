"""The data that judging takes and returns: an exercise with its expected outputs, and the verdict on an answer."""

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from autograder.judging.exercise import Kind, Prediction, Property, Tolerance
from autograder.judging.fact import Fact
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.values import Array

Check = Literal["runs", "kind", "shape", "dtype", "finite", "properties", "values", "gradients", "inputs unchanged"]
FindingT = TypeVar("FindingT")
UNLISTED = "~"  # begins the id of a mistake that no author listed
PAIR = "+"  # joins the ids of two mistakes that are made at once


@dataclass(frozen=True)
class Known:
    """A named mistake in the words of the exercise's author: `says` completes "You …", and `fix` is the next step."""

    id: str
    says: str
    fix: str


@dataclass(frozen=True)
class NearSlip:
    """A small mistake that nobody listed. `id` is unique within one pack, and `what` is the fact that completes "You …"."""

    id: str
    what: Fact


Mistake = Known | NearSlip | Fact  # each completes "You …"


@dataclass
class CaseRecord:
    """One probe with its expected observation and what each known mistake does on it, by the names of `Misconception.answers`."""

    name: str
    probe: Probe
    edge: float
    expected: Observation
    mistakes: dict[str, Observation] = field(default_factory=dict)
    pairs: dict[str, Array] = field(default_factory=dict)  # fingerprints of two mistakes made at once
    near: dict[str, Array] = field(default_factory=dict)  # fingerprints of right programs with one or two small changes
    trail: Array = field(default_factory=lambda: np.zeros((0, 4), np.float32))  # intermediate values of right programs


@dataclass
class ExerciseRecord:
    """An exercise as data: all that `check` and the grader need, without the code of references, misconceptions and variants.

    A `Prediction` is plain data already and needs no record.
    """

    id: str
    title: str
    points: float
    cases: list[CaseRecord]
    known: tuple[Known, ...]
    hints: tuple[str, ...]
    properties: tuple[Property, ...] = ()
    tolerance: Tolerance = field(default_factory=Tolerance)
    forbid: tuple[str, ...] = ()
    timeout_s: float = 5.0
    kind: Kind = "write"
    difficulty: int = 2
    minutes: float = 7.0
    behaviour: str = ""
    near: tuple[NearSlip, ...] = ()  # the small slips that `CaseRecord.near` is made of
    repairs: bool = True  # whether `check` may look into a learner's code for what is wrong
    operators: str = ""  # the module with the course's own slips, which may occur in `near`: see `mutants.course_operators`


AnyRecord = ExerciseRecord | Prediction


@dataclass(frozen=True)
class Mismatch:
    """The first check that failed, and a fact that says how.

    `path` leads to the wrong part of the result and `at` is the first wrong index in it. The arrays are set only if they could be
    compared.
    """

    check: Check
    what: Fact
    path: str = ""
    at: tuple[int, ...] | None = None
    expected: Array | None = None
    got: Array | None = None
    wrong: Array | None = None  # boolean mask over `expected`


@dataclass
class CaseResult:
    """The verdict on one case."""

    name: str
    edge: float
    mismatch: Mismatch | None
    observation: Observation
    size: int

    @property
    def passed(self) -> bool:
        return self.mismatch is None

    @property
    def unknown_name(self) -> bool:
        """Return whether the call ended with a NameError."""
        return self.observation.failure is not None and self.observation.failure.type == "NameError"


@dataclass(frozen=True)
class Explanation(Generic[FindingT]):
    """What explains a wrong answer: the findings in the order in which they are told, and the mistakes that they name.

    It is `certain` if it explains every case, and `complete` if nothing else is known to be wrong. `diagnosis` makes explanations
    and decides what a finding is.
    """

    findings: tuple[FindingT, ...]
    known: tuple[Mistake, ...] = ()
    certain: bool = True
    complete: bool = True


@dataclass
class Result:
    """The verdict on an answer in code: the points, the cases, and the diagnosis if something explains the failing cases."""

    exercise: ExerciseRecord
    score: float
    cases: list[CaseResult]
    diagnosis: Explanation[Any] | None = None
    below: str | None = None  # another exercise, which this answer calls and which fails its own check

    @property
    def passed(self) -> bool:
        return self.score >= self.exercise.points

    @property
    def failure(self) -> Failure | None:
        """Return why the first failing case without a value has none; None for a right answer."""
        failures = (case.observation.failure for case in self.cases if not case.passed and not self.passed)
        return next(filter(None, failures), None)

    @property
    def worst(self) -> tuple[CaseRecord, CaseResult] | None:
        """Return the failing case to show: unknown names come first, then core cases, then the smallest input."""
        failing = [(not c.unknown_name, c.edge > 0, c.size, i) for i, c in enumerate(self.cases) if not c.passed]
        if not failing:
            return None
        index = min(failing)[-1]
        return self.exercise.cases[index], self.cases[index]


@dataclass(frozen=True)
class PredictionResult:
    """The verdict on a prediction: the choice that was made, or why none could be read."""

    exercise: Prediction
    chosen: str | None = None
    failure: Failure | None = None

    @property
    def passed(self) -> bool:
        return self.chosen is not None

    @property
    def score(self) -> float:
        """Return all points for any choice, and none without one."""
        return self.exercise.points if self.passed else 0.0


AnyResult = Result | PredictionResult
