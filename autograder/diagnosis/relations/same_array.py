"""Decide when two arrays count as the same, and list the sizes after which a factor may be named."""

from dataclasses import dataclass

import numpy as np

from autograder.diagnosis.finding import Fact, fact
from autograder.judging.compare import close
from autograder.judging.exercise import Tolerance
from autograder.judging.script import PARTS
from autograder.judging.values import Array, ArrayNode, EncodedValue


@dataclass(frozen=True)
class Size:
    """A number among the inputs of a case, and what it is."""

    what: Fact
    value: float


def sizes(inputs: EncodedValue) -> tuple[Size, ...]:
    """Return the axis lengths of a case's inputs and the positive numbers among them, with their names, except 1."""
    found: dict[Fact, float] = {}
    for path, leaf in inputs.leaves():
        name = _name(path)
        if isinstance(leaf, ArrayNode):
            shape = leaf.content.shape
            for axis, length in enumerate(shape):
                found.setdefault(fact("size.axis", axis=axis - len(shape), name=name), float(length))
        elif leaf.is_number and 0 < leaf.content < np.inf:
            found.setdefault(fact("size.number", name=name), float(leaf.content))
    return tuple(Size(what, value) for what, value in found.items() if value != 1)


def _name(path: str) -> str:
    words = [part.strip("'\"") for part in path.strip("[]").split("][")]
    named = [word for word in words if not word.isdigit() and word not in PARTS]
    return named[-1] if named else path


def near(a: Array, b: Array, tolerance: Tolerance) -> bool:
    """Return whether all entries agree within ten times the tolerance, because a relation adds an operation or two."""
    wide = Tolerance(tolerance.rtol * 10, tolerance.atol * 10)
    return a.shape == b.shape and bool(close(a, b, wide).all())
