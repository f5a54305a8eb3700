"""What was found out about a wrong answer, as plain data that holds no sentence.

A matcher returns a `Diagnosis`, which is made of findings. Later stages decide by types, keys and fields; `phrase` turns findings
into words, last.
"""

import enum
from dataclasses import dataclass

from autograder.judging.fact import EXACT, MENDED, WRAPPED, Fact, fact
from autograder.judging.records import Known, NearSlip

__all__ = [
    "EXACT", "MENDED", "WRAPPED", "Added", "Also", "Departed", "Diagnosis", "Fact", "Finding", "InGradient",
    "InOutputs", "Manner", "Matched", "Mistake", "Quoted", "Remark", "Repaired", "error_of", "fact",
]  # fmt: skip

Mistake = Known | NearSlip | Fact  # what completes "You …"


class Manner(enum.Enum):
    """How a mistake is told, as the key of the sentence around it."""

    DONE = "lead.done"  # it is seen in what was returned
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
    """Mistakes that do what was seen. Beside them there is one of `either`, or something `more`."""

    mistakes: tuple[Mistake, ...]
    manner: Manner
    either: tuple[Known, ...] = ()
    more: bool = False


@dataclass(frozen=True)
class Also:
    """A mistake that was made beside what has been said."""

    mistake: Mistake


@dataclass(frozen=True)
class Remark:
    """A whole sentence, or none, and what else there is to do next."""

    sentence: Fact | None
    then: tuple[Fact, ...] = ()


def error_of(raised: Fact) -> Remark:
    """What `raised`, a fact about a call that an error ended, says of the error."""
    sentence = raised["sentence"]
    if not isinstance(sentence, Fact):
        raise TypeError(f"expected the fact {raised.key!r} to hold a fact as its `sentence`, got {sentence!r}.")
    return Remark(sentence)


@dataclass(frozen=True)
class InOutputs:
    """What explains the parts of a result at some paths; none stands for the result as a whole.

    `call` is what returns all of these parts, where a class is asked.
    """

    paths: tuple[str, ...]
    what: Mistake
    sure: bool = True
    call: Fact | None = None


@dataclass(frozen=True)
class InGradient:
    """How one gradient comes from the right one, where all values are right."""

    name: str
    relation: Fact


@dataclass(frozen=True)
class Repaired:
    """Edits of the learner's own code; with all of them every check passes, or the mistakes in `left` are left."""

    edits: tuple[Fact, ...]
    left: tuple[Mistake, ...] = ()


@dataclass(frozen=True)
class Departed:
    """Lines whose values no right program has, and a fact about the result that goes with them."""

    lines: tuple[Fact, ...]
    seen: Fact | None


@dataclass(frozen=True)
class Quoted:
    """What is found at second hand, as a part of the next step: `key` is the sentence around it."""

    key: str
    findings: tuple["Finding", ...]


@dataclass(frozen=True)
class Added:
    """What is found beyond something that had to be settled first."""

    findings: tuple["Finding", ...]


Finding = Matched | Also | Remark | InOutputs | InGradient | Repaired | Departed | Quoted | Added


@dataclass(frozen=True)
class Diagnosis:
    """What explains a wrong answer: findings in the order of telling, and the mistakes that they name.

    It is `certain` where it explains every case, and `complete` where nothing else is known to be wrong.
    """

    findings: tuple[Finding, ...]
    known: tuple[Mistake, ...] = ()
    certain: bool = True
    complete: bool = True
