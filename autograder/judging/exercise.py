"""The dataclasses with which `course/exercises/slug.py` declares its exercises.

Nothing here knows about attention. An `Exercise` names the reference that answers it, draws its inputs, and lists the
mistakes to recognise and the right answers that must pass. A `Prediction` lists choices.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from autograder.judging.script import Script
from autograder.judging.values import Array
from autograder.judging.values import Code as Code  # authors import it from here

Kind = Literal["write", "bug", "design", "estimate", "use"]
PropertyKind = Literal["sums_to_one", "non_negative", "at_most_one"]
PRIMES = (2, 3, 5, 7, 11, 13, 17)


class Draw:
    """Draw seeded random inputs for one case. The visible and the hidden pack use different seeds.

    >>> draw = Draw(0)
    >>> draw.sizes(2, low=3) == Draw(0).sizes(2, low=3)
    True
    """

    def __init__(self, seed: int | Sequence[int]):
        self.rng = np.random.default_rng(seed)

    def sizes(self, count: int, *, low: int = 2, high: int = 11) -> tuple[int, ...]:
        """Return `count` distinct primes in [low, high]. Distinct sizes reveal a confused axis."""
        pool = [p for p in PRIMES if low <= p <= high]
        if len(pool) < count:
            raise ValueError(f"expected at most {len(pool)} sizes in [{low}, {high}], got {count}. Widen the range.")
        return tuple(int(p) for p in self.rng.permutation(pool)[:count])

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        """Return an array of standard normal entries times `scale`."""
        return self.rng.standard_normal(shape) * scale

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Array:
        """Return an array of entries uniform in [low, high)."""
        return self.rng.uniform(low, high, shape)

    def integer(self, low: int, high: int) -> int:
        """Return one integer in [low, high], both ends included."""
        return int(self.rng.integers(low, high + 1))

    def choice(self, options: Sequence[Any]) -> Any:
        """Return one of `options`."""
        return options[int(self.rng.integers(len(options)))]


@dataclass(frozen=True)
class Case:
    """One input on which the answer is checked.

    `grad`: The inputs whose gradients are compared too (under a fixed random cotangent).
    `edge`: The share of the points that this case alone decides, which makes it an edge case. Cases with `edge=0` are the core.
    A wrong core scores zero whatever the edge cases do, so a constant or a stub cannot collect marks on them.
    `raises`: The built-in exception, or a base of it, that a right answer must raise.
    `double`: Passes tensors in double precision and expects results in it, which exposes tensors created without `dtype=`.
    `room`: The answer may allocate at most this many times the bytes of its inputs (0: no limit).
    `by_hand`: Switches automatic differentiation off.
    `elsewhere`: Passes tensors on a simulated second device, which exposes tensors created without `device=`.
    """

    name: str
    make: Callable[[Draw], dict[str, Any] | Script]
    grad: tuple[str, ...] = ()
    edge: float = 0.0
    raises: type[Exception] | None = None
    double: bool = False
    room: float = 0.0
    by_hand: bool = False
    elsewhere: bool = False


@dataclass(frozen=True)
class Tolerance:
    """How close a result must be: `|got - expected| <= atol + rtol * |expected|`.

    The defaults leave room for float32 and for algorithms that round differently.
    """

    rtol: float = 1e-5
    atol: float = 1e-6


@dataclass(frozen=True)
class Property:
    """A law that the output must obey, checked before its values: for example, each row of attention weights sums to 1.

    `axis` is the axis of the sum. If the answer returns a tuple, `output` is the index of the item to check.
    """

    kind: PropertyKind
    axis: int = -1
    output: int | None = None


@dataclass(frozen=True)
class Of:
    """A setting computed from the inputs, for use inside `Instead`: `Instead(scale=Of(lambda Q, K, V: 1 / Q.shape[-1]))`."""

    compute: Callable[..., Any]


class Instead:
    """A mistake that changes settings of the exercise's `recipe`: `Instead(axis=-2)` calls the recipe with `axis=-2`."""

    def __init__(self, **settings: Any):
        self.settings = settings

    @property
    def depends(self) -> bool:
        """Return whether any setting is an `Of`, computed from the inputs."""
        return any(isinstance(value, Of) for value in self.settings.values())

    def of(self, **inputs: Any) -> dict[str, Any]:
        """Return the settings for these inputs."""
        return {name: value.compute(**inputs) if isinstance(value, Of) else value for name, value in self.settings.items()}


@dataclass(frozen=True)
class Made:
    """A recipe that is a factory.

    `factory(**settings)` returns a function of the inputs or a class; `factory()` returns a right answer.
    """

    factory: Callable[..., Any]


@dataclass(frozen=True)
class Before:
    """A mistake made before the right computation: `change(**inputs)` returns the inputs to replace, by name."""

    change: Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class After:
    """A mistake made after the right computation: `change(result, **inputs)` returns the wrong result."""

    change: Callable[..., Any]


@dataclass(frozen=True)
class Misconception:
    """A mistake that learners make. `says` completes "You …", and `fix` tells the learner what to do next.

    - `answer`: a whole wrong answer, or one wrong step (`Instead`, `Before` or `After`). Steps are also combined in pairs.
    - `also`: other programs with the same mistake. Each is recognised and reported under the same id.
    - `raises`: whether an exception is the only sign of this mistake. `attn verify` rejects a mistake that always raises
      unless this is set.
    - `keeps`: the share of the points that a graded answer keeps if this mistake alone explains it. None changes nothing.
    """

    id: str
    says: str
    fix: str
    answer: Any
    also: tuple[Any, ...] = ()
    raises: bool = False
    keeps: float | None = None

    def __post_init__(self) -> None:
        if self.keeps is not None and not 0 <= self.keeps <= 1:
            raise ValueError(f"misconception {self.id!r}: expected keeps between 0 and 1, got {self.keeps}.")

    def answers(self) -> dict[str, Any]:
        """Return its programs by the names under which a pack stores their outputs: the id, then `id#1`, `id#2`, …"""
        return {self.id: self.answer, **{f"{self.id}#{number}": answer for number, answer in enumerate(self.also, 1)}}


@dataclass(frozen=True)
class Variant:
    """Another right answer, which must get full marks."""

    id: str
    answer: Any


@dataclass(frozen=True)
class Prediction:
    """A question with `choices` that is asked before the answer is shown. The learner assigns a choice to the name `id`.

    Any choice earns full marks, because a prediction is graded for being made and not for being right. `holds` is the true
    choice; leave it out if no choice is the right one. `reveal` is the text that the panel shows once the prediction is made.

    >>> Prediction("predict_sum", "Even or odd?", 0.5, {"a": "even", "b": "odd"}, holds="a", reveal="Two odd numbers.").holds
    'a'
    """

    id: str
    title: str
    points: float
    choices: dict[str, str]
    holds: str = ""
    reveal: str = ""
    difficulty: int = 2
    minutes: float = 1.0
    hints: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        where = f"prediction {self.id!r}"
        _check_common(where, self)
        if not self.choices:
            raise ValueError(f"{where}: expected choices, got none.")
        if self.holds and self.holds not in self.choices:
            raise ValueError(f"{where}: expected `holds` to be one of {', '.join(self.choices)}, got {self.holds!r}.")


@dataclass(frozen=True)
class Exercise:
    """An autograded exercise that is answered by code. The learner defines a function or a class with the name `id`.

    Draw floating inputs with NumPy; with `tensors=True` the learner receives them as float32 torch tensors. The reference
    and the misconceptions always run in float64.

    - `recipe`: the reference with extra keyword arguments whose defaults are right, so that `Instead(...)` can set them wrong.
      It is called with the inputs and the settings together. For a class, pass a factory, as in `Made(factory)`.
    - `kind`: what the learner does. They *write* a mechanism, find the *bug* in code that runs, *design* inputs so that
      something happens, *estimate* a number, or *use* their own code on real data.
    - `difficulty`: from 1 (one line) to 5 (an evening).
    - `minutes`: how long the exercise takes someone who has read the text before it. The default is 7.
    - `forbid`: names that the answer is not meant to use. When grading, an answer that uses one is flagged for a person to read.
    - `timeout_s`: the time limit for all cases together, in seconds.
    - `behaviour`: the name of a function, "package.module:function", for an exercise with many right answers. The engine
      compares what the function returns for `(output, **inputs)` instead of the output. See `autograder.judging.behaviour`.
    - `search`: the share of the programs near the reference that `attn build` tries, to name mistakes that nobody listed. With
      1 it tries all of them (about 2,500), with 0 none. Lower it if the reference takes more than about 10 ms or the build
      takes minutes.
    - `outputs`: one share of the points for each output of a tuple. A graded answer keeps the shares of the outputs that are
      right in every case. For example, `(0.5, 0.5)` gives half of the points for either of two outputs.
    """

    id: str
    title: str
    points: float
    reference: Any = None
    cases: tuple[Case, ...] = ()
    hints: tuple[str, ...] = ()
    misconceptions: tuple[Misconception, ...] = ()
    variants: tuple[Variant, ...] = ()
    properties: tuple[Property, ...] = ()
    tolerance: Tolerance = field(default_factory=Tolerance)
    tensors: bool = False
    forbid: tuple[str, ...] = ()
    timeout_s: float = 5.0
    recipe: Any = None
    kind: Kind = "write"
    difficulty: int = 2
    minutes: float = 0.0
    behaviour: str = ""
    search: float = 1.0
    outputs: tuple[float, ...] = ()
    stated: bool = field(init=False, default=True)  # whether the author set `minutes`

    def __post_init__(self) -> None:
        where = f"exercise {self.id!r}"
        object.__setattr__(self, "stated", self.minutes > 0)
        object.__setattr__(self, "minutes", self.minutes or 7.0)
        _check_common(where, self)
        if not 0 <= self.search <= 1:
            raise ValueError(f"{where}: expected search between 0 and 1, got {self.search}.")
        if any(share < 0 for share in self.outputs) or sum(self.outputs) > 1:
            raise ValueError(f"{where}: expected shares of outputs from 0 that sum to at most 1, got {self.outputs}.")
        if self.behaviour:
            self._check_behaviour(where)
        if self.reference is None or not self.cases:
            raise ValueError(f"{where}: expected a reference and at least one case.")
        if not any(case.edge == 0 and case.raises is None for case in self.cases):
            raise ValueError(
                f"{where}: expected at least one core case (edge=0) with a value; every case is an edge case or raises."
            )
        if any(case.raises is NotImplementedError for case in self.cases):
            raise ValueError(f"{where}: expected no NotImplementedError: it is what an unwritten answer raises.")
        if any(case.elsewhere and (case.grad or case.room or not self.tensors) for case in self.cases):
            raise ValueError(f"{where}: expected tensors, and no `grad` and no `room`, for a case that is `elsewhere`.")
        if sum(case.edge for case in self.cases) > 1:
            raise ValueError(f"{where}: expected edge shares that sum to at most 1.")
        if len(self.hints) != 3 or not all(hint.strip() for hint in self.hints):
            raise ValueError(f"{where}: expected three non-empty hints (nudge, method, nearly the answer).")
        for kind, ids in (
            ("case", [case.name for case in self.cases]),
            ("misconception", [name for m in self.misconceptions for name in m.answers()]),
            ("variant", [v.id for v in self.variants]),
        ):
            for name in ids:
                if ids.count(name) > 1:
                    raise ValueError(f"{where}: {kind} {name!r} is declared twice.")

    def _check_behaviour(self, where: str) -> None:
        if not re.fullmatch(r"[a-zA-Z_][\w.]*:[a-zA-Z_]\w*", self.behaviour):
            raise ValueError(f"{where}: expected behaviour='package.module:function', got {self.behaviour!r}.")
        if any(case.grad for case in self.cases):
            raise ValueError(f"{where}: expected no `grad` beside `behaviour`: the gradients are of what was returned.")


AnyExercise = Exercise | Prediction


def _check_common(where: str, exercise: AnyExercise) -> None:
    if not exercise.id.isidentifier():
        raise ValueError(f"{where}: expected an identifier (it is the name the learner defines), got {exercise.id!r}.")
    if not 1 <= exercise.difficulty <= 5 or exercise.minutes <= 0:
        raise ValueError(f"{where}: expected difficulty 1 to 5 and minutes > 0, got {exercise.difficulty}, {exercise.minutes}.")
    if exercise.points <= 0:
        raise ValueError(f"{where}: expected points > 0, got {exercise.points}.")
