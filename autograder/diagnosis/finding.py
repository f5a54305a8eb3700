"""The findings about a wrong answer, as plain data without sentences.

A matcher returns a `Diagnosis`, which is made of findings. Later stages decide by types, keys and fields. `phrase` turns findings
into words at the very end.
"""

import enum
from dataclasses import dataclass

from autograder.judging.fact import MENDED, Fact, fact
from autograder.judging.records import Explanation, Known, Mistake

__all__ = [
    "MENDED", "Added", "Also", "Departed", "Diagnosis", "Fact", "Finding", "InOutputs", "Manner", "Matched",
    "Mistake", "Quoted", "Remark", "Repaired", "error_of", "fact",
]  # fmt: skip


class Manner(enum.Enum):
    """How a mistake is told. Each value is the key of the sentence around it."""

    DONE = "lead.done"  # visible in what was returned
    RESULT = "lead.result"
    HIDDEN = "lead.hidden"
    NUMBER = "lead.number"
    STOPS = "lead.stops"
    HEDGED = "lead.hedged"
    RIGHT_RESULT = "lead.right_result"
    RIGHT_VALUES = "lead.right_values"
    RIGHT_COMPUTATION = "lead.right_computation"


@dataclass(frozen=True)
class Matched:
    """Mistakes that reproduce what was observed, perhaps together with one of `either`, or with something `more`."""

    mistakes: tuple[Mistake, ...]
    manner: Manner
    either: tuple[Known, ...] = ()
    more: bool = False


@dataclass(frozen=True)
class Also:
    """A mistake that was made in addition to those already told."""

    mistake: Mistake


@dataclass(frozen=True)
class Remark:
    """A whole sentence, or None, and further next steps."""

    sentence: Fact | None
    then: tuple[Fact, ...] = ()


def error_of(raised: Fact) -> Remark:
    """Return what `raised`, a fact about a call that ended with an error, says about that error."""
    return Remark(raised["sentence"])  # type: ignore[arg-type]  # a fact


@dataclass(frozen=True)
class InOutputs:
    """A mistake that explains the outputs at `paths`. For a class, `call` is the call that returns all of them."""

    paths: tuple[str, ...]
    mistake: Known
    sure: bool = True
    call: Fact | None = None


@dataclass(frozen=True)
class Repaired:
    """Edits of the learner's own code. After all of them every check passes, or only the `remaining` mistakes are left."""

    edits: tuple[Fact, ...]
    remaining: tuple[Mistake, ...] = ()


@dataclass(frozen=True)
class Departed:
    """Lines whose values no right program computes, and a fact about the result that goes with them."""

    lines: tuple[Fact, ...]
    result_fact: Fact | None


@dataclass(frozen=True)
class Quoted:
    """Findings quoted within the next step. `key` is the key of the sentence around them."""

    key: str
    findings: tuple["Finding", ...]


@dataclass(frozen=True)
class Added:
    """Further findings, told after an error that comes first."""

    findings: tuple["Finding", ...]


Finding = Matched | Also | Remark | InOutputs | Repaired | Departed | Quoted | Added
Diagnosis = Explanation[Finding]
