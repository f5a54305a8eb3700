"""The operators that a course adds to the engine's: slips that only somebody who knows its subject would think of.

In: the name of the course's module (`operators` in course.toml), which lies in a package that lessons are given, so that a
learner's machine has it too. Out: its `OPERATORS`. A pack holds the name, as it holds the name of a behaviour.

A fact that such an operator yields has the key "package.module:name", and its sentence is `sentences[name]` of that module. A
key without a module has its sentence in the engine's own catalogue.
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

NAME = "OPERATORS"  # of a course's module, what holds them


class OperatorsError(ValueError):
    """A course's operators are not to be had: its package is missing, or the name in course.toml is wrong."""


@dataclass(frozen=True)
class CallOperator:
    """Slips in a call: `slips` yields them for a call of one of the functions `names`, or of any function if there are none.

    `omits` says that one of the slips leaves the call out, so that no other operator has to. `repairs` says whether a learner
    may have done the opposite: only then is a change tried as a repair of their code.
    """

    slips: Callable[[ast.Call], Iterator[Slip]]
    names: tuple[str, ...] = ()
    omits: bool = False
    repairs: bool = True

    def applies_to(self, name: str) -> bool:
        """Return whether it has slips for calls of the function `name`."""
        return not self.names or name in self.names


@dataclass(frozen=True)
class StepSlip:
    """One step more than a right answer takes; `what` completes "You …".

    Of two with one `undone` one may undo the other, or say the same in another way: they are no two slips.
    """

    step: After | Before
    what: Fact
    rank: int
    undone: str = ""


InputOperator = Callable[[Mapping[str, Any]], Iterator[StepSlip]]


@dataclass(frozen=True)
class Operators:
    """What a course adds: operators for calls and for inputs, and the sentences of the facts that they yield.

    A sentence completes "You …" and has `{gaps}` for the values of its fact. One under a name with `.brief` behind it is said
    where a second slip is told beside it.
    """

    calls: tuple[CallOperator, ...] = ()
    inputs: tuple[InputOperator, ...] = ()
    sentences: Mapping[str, str] = field(default_factory=dict)

    @property
    def for_repair(self) -> "Operators":
        """Return those that are tried as repairs of a learner's code."""
        return Operators(tuple(operator for operator in self.calls if operator.repairs), (), self.sentences)


NONE = Operators()


@functools.cache
def load(module: str) -> Operators:
    """Return the operators of the course's `module`; none for "". Raises OperatorsError where there are none."""
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
    """Return the operators of `module` as far as this machine has them: none where the package is missing."""
    try:
        return load(module)
    except OperatorsError:
        return NONE
