"""Map an answer's output to its behaviour before it is compared, for exercises with many right answers.

An exercise may set `behaviour="package.module:function"`. The function belongs to a package that the course gives to its lessons.
It takes the returned value and the inputs, and returns the arrays to compare. It runs in the process that judges, on data that
the learner chose, so it should check shapes first and report a bad value with a ValueError.
"""

import functools
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from autograder.judging.fact import fact
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.values import EncodedValue, decode, encode

UNFIT: Final = "unfit"  # the kind of `Failure` for an output that has no behaviour
MAX_ENTRIES = 1_000_000


class BehaviourError(ValueError):
    """The behaviour function cannot be loaded: its package is missing or its name is wrong. Whoever runs the course fixes it."""


@functools.cache
def find(name: str) -> Callable[..., Any]:
    """Return the function that `name` ("package.module:function") refers to. Raises BehaviourError if it cannot be imported."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BehaviourError(f"expected the given function {name!r}, but {error}. Install the packages of this course.") from None
    if not callable(found):
        raise BehaviourError(f"expected {name!r} to be a function, got a {type(found).__name__}.")
    return found  # type: ignore[no-any-return]  # a module's attribute


def shown(name: str, observation: Observation, probe: Probe) -> Observation:
    """Replace the value in `observation` by its behaviour; if it has none, return a failure of kind "unfit". Never raises."""
    if not name or observation.failure is not None or observation.value is None:
        return observation
    result = _behaviour_of(name, observation.value, probe)
    if isinstance(result, Failure):
        return replace(observation, value=None, grads={}, failure=result)
    return replace(observation, value=result)


def _behaviour_of(name: str, value: EncodedValue, probe: Probe) -> EncodedValue | Failure:
    if sum(array.size for array in value.arrays) > MAX_ENTRIES:
        return Failure(UNFIT, "ValueError", what=fact("unfit.many", most=MAX_ENTRIES))
    if (strange := value.strange) is not None:
        return Failure(UNFIT, "TypeError", what=fact("unfit.strange", got=strange))
    # With NumPy arrays for tensors, judging needs no torch. They are copies, so they may be overwritten.
    try:
        with np.errstate(all="ignore"):
            output, inputs = (decode(each.of_kind("array")) for each in (value, probe.inputs))
            return encode(find(name)(output, **inputs))
    except ValueError as error:
        return Failure(UNFIT, "ValueError", str(error)[:600])
    except Exception as error:  # learners return anything, and no function is prepared for all of it
        kind = type(error).__name__
        return Failure(UNFIT, kind, what=fact("unfit.stopped", type=kind, message=str(error)[:200]))
