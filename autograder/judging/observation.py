"""The input of one case and what was observed of an answer to it: plain data, and all that `observe` passes to `judge`."""

from dataclasses import dataclass, field
from typing import Literal

from autograder.judging.fact import Fact
from autograder.judging.values import Array, EncodedValue

FailureKind = Literal["raised", "timeout", "blank", "missing", "weights", "crashed", "unfit"]
RUNNING = "running"  # the `type` of a "timeout" failure whose call could not be stopped


@dataclass(frozen=True)
class Failure:
    """Why there is no value. `line` is the learner's own line as `(number, text)`, if there is one.

    `message` is text from outside: from Python, a library or an exercise. `what` is a fact that the engine itself established.
    """

    kind: FailureKind
    type: str = ""
    message: str = ""
    line: tuple[int, str] | None = None
    what: Fact | None = None


@dataclass
class Observation:
    """What a call did: its `value`, the requested gradients, the inputs it changed, or the `failure`."""

    value: EncodedValue | None = None
    grads: dict[str, Array | None] = field(default_factory=dict)
    mutated: tuple[str, ...] = ()
    failure: Failure | None = None
    notes: tuple[str | Fact, ...] = ()
    seconds: float = 0.0

    @property
    def nbytes(self) -> int:
        """Return how many bytes the arrays have together."""
        arrays = [*(self.value.arrays if self.value else ()), *self.grads.values()]
        return sum(array.nbytes for array in arrays if array is not None)


@dataclass(frozen=True, eq=False)
class Probe:
    """The input of one case as data: everything that `observe` needs, and nothing about the expected result."""

    inputs: EncodedValue
    grad: tuple[str, ...] = ()
    cotangent: EncodedValue | None = None
    room: float = 0.0  # the answer may allocate at most this many times the bytes of its inputs; 0: no limit
    by_hand: bool = False  # no automatic differentiation
    elsewhere: bool = False  # the tensors are on a simulated second device
