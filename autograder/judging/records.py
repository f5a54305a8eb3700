"""What is judged and what comes out, as plain data: an exercise with its expected outputs, and the verdict on an answer."""

import re
from dataclasses import dataclass, field

import numpy as np

from autograder.judging.exercise import Kind, Property, Tolerance
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.values import Array

_QUOTED = re.compile(r"`[^`]*`|\$[^$]*\$|\([^()]*\)|[“\"][^”\"]*[”\"]")  # in these, signs end nothing
_ELSE_RIGHT = re.compile(r"(?:computed|got|have) [^,]*\bright\b[^,]*, (?:but|and) ")
_CONSEQUENCE = re.compile(r": |; |, so (?:that )?|\. ")


@dataclass(frozen=True)
class Known:
    """A named mistake as the learner may read it."""

    id: str
    says: str
    fix: str

    @property
    def briefly(self) -> str:
        """What was done, without what comes of it and what is right: beside a second mistake that may be something else.

        >>> Known("x", "left out the factor 1/2: your scores are the squares of the right ones", "").briefly
        'left out the factor 1/2'
        >>> Known("x", "got the values right, and returned the weights with one head axis", "").briefly
        'returned the weights with one head axis'
        """
        shown = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), self.says)
        begin, end = _ELSE_RIGHT.match(shown), _CONSEQUENCE.search(shown)
        return self.says[begin.end() if begin else 0 : end.start() if end else None]


@dataclass(frozen=True)
class Diagnosis:
    """What explains a wrong answer: how it is said, the known mistakes it rests on, and whether it explains every case."""

    headline: str
    advice: str
    known: tuple[Known, ...] = ()
    certain: bool = True


@dataclass
class CaseRecord:
    """One probe with its expected observation and, by name (`Misconception.answers`), what each known mistake does on it."""

    name: str
    probe: Probe
    edge: float
    expected: Observation
    mistakes: dict[str, Observation] = field(default_factory=dict)
    pairs: dict[str, Array] = field(default_factory=dict)  # fingerprints of two mistakes made at once
    near: dict[str, Array] = field(default_factory=dict)  # and of programs that are one or two small slips from a right one
    trail: Array = field(default_factory=lambda: np.zeros((0, 4), np.float32))  # what right programs compute on the way


@dataclass
class ExerciseRecord:
    """An exercise as data: all that `check` and the grader need, without references, misconceptions' code or variants."""

    id: str
    title: str
    points: float
    cases: list[CaseRecord]
    known: tuple[Known, ...]
    hints: tuple[str, ...]
    properties: tuple[Property, ...] = ()
    tolerance: Tolerance = field(default_factory=Tolerance)
    choices: dict[str, str] = field(default_factory=dict)
    holds: str = ""
    reveal: str = ""
    forbid: tuple[str, ...] = ()
    timeout_s: float = 5.0
    kind: Kind = "write"
    difficulty: int = 2
    minutes: float = 7.0
    behaviour: str = ""
    near: tuple[Known, ...] = ()  # the small slips that `CaseRecord.near` is made of
    mends: bool = True  # whether `check` may look into a learner's code for what is wrong


@dataclass(frozen=True)
class Mismatch:
    """The first check that failed. `at` is the first wrong index of the leaf at `path`; arrays only where they compare."""

    check: str
    message: str
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
        """Whether it ended at a name that is not there."""
        return self.observation.failure is not None and self.observation.failure.type == "NameError"


@dataclass
class Result:
    """The verdict on an exercise: points, the named misconception if the outputs match one, the cases."""

    exercise: ExerciseRecord
    score: float
    cases: list[CaseResult]
    diagnosis: Diagnosis | None = None
    failure: Failure | None = None
    chosen: str | None = None
    below: str | None = None  # another exercise that the answer calls and that fails its own check

    @property
    def passed(self) -> bool:
        return self.score >= self.exercise.points

    @property
    def worst(self) -> tuple[CaseRecord, CaseResult] | None:
        """The failing case to show: an unknown name first, a core case before an edge case, the smallest input first."""
        failing = [(not c.unknown_name, c.edge > 0, c.size, i) for i, c in enumerate(self.cases) if not c.passed]
        if not failing:
            return None
        index = min(failing)[-1]
        return self.exercise.cases[index], self.cases[index]
