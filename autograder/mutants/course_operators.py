"""Load the operators that a course adds to the engine's own, for slips that only somebody who knows its subject would think of.

In: the name of the course's module (`operators` in course.toml). The module is in a package that is given to lessons, so a
learner's machine has it too. Out: its `OPERATORS`. A pack stores the module's name, just as it stores the name of a behaviour.

A fact that such an operator yields has the key "package.module:name", and its sentence is `sentences[name]` in the operators of
that module. If the key names no module, the sentence is in the engine's own catalogue.
"""

import ast
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from autograder.judging.exercise import After, Before
from autograder.judging.fact import Fact
from autograder.mutants.source import Slip

NAME = "OPERATORS"  # the variable in a course's module that holds its operators


class OperatorsError(ValueError):
    """A course's operators cannot be loaded: its package is missing, or the name in course.toml is wrong."""


@dataclass(frozen=True)
class CallOperator:
    """Slips in a call: `slips` yields them for a call of one of the functions `names`, or of any function if `names` is empty.

    `omits` says that one of the slips leaves the call out, so the engine's operator for that is skipped. `repairs` says whether
    a learner may have made the opposite slip; only then are the changes also tried as repairs of the learner's code.
    """

    slips: Callable[[ast.Call], Iterator[Slip]]
    names: tuple[str, ...] = ()
    omits: bool = False
    repairs: bool = True

    def applies_to(self, name: str) -> bool:
        """Return whether the operator has slips for calls of the function `name`."""
        return not self.names or name in self.names


@dataclass(frozen=True)
class StepSlip:
    """A step before or after a right computation that does not belong there; `what` completes "You …".

    Two steps with the same non-empty `undone` are never combined, because one may undo the other or repeat it in other words.
    """

    step: After | Before
    what: Fact
    rank: int
    undone: str = ""


InputOperator = Callable[[Mapping[str, Any]], Iterator[StepSlip]]


@dataclass(frozen=True)
class Operators:
    """What a course adds: operators for calls and for inputs, and the sentences of the facts that they yield.

    A sentence completes "You …" and has `{gaps}` for the values of its fact. A sentence whose name ends in `.brief` is used if
    a second slip is reported beside it.
    """

    calls: tuple[CallOperator, ...] = ()
    inputs: tuple[InputOperator, ...] = ()
    sentences: Mapping[str, str] = field(default_factory=dict)

    @property
    def for_repair(self) -> "Operators":
        """Return only the operators whose changes are tried as repairs of a learner's code."""
        return Operators(tuple(operator for operator in self.calls if operator.repairs), (), self.sentences)


NONE = Operators()


@functools.cache
def load(module: str) -> Operators:
    """Return the operators of the course's `module`, or `NONE` for "". Raises OperatorsError if they cannot be loaded."""
    if not module:
        return NONE
    try:
        operators = getattr(importlib.import_module(module), NAME)
    except (ImportError, AttributeError, ValueError) as error:
        raise OperatorsError(
            f"expected {NAME} in the given module {module!r}, but {error}. Install the packages of this course, or correct "
            "`operators` in course.toml."
        ) from None
    if not isinstance(operators, Operators):
        raise OperatorsError(f"expected {module}.{NAME} to be an Operators(...), got a {type(operators).__name__}.")
    return operators


def installed(module: str) -> Operators:
    """Return the operators of `module`, or `NONE` if this machine cannot load them, for example without the course's package."""
    try:
        return load(module)
    except OperatorsError:
        return NONE
