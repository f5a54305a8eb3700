"""Map an answer's output to its behaviour before it is compared, for exercises with many right answers.

An exercise may set `behaviour="package.module:function"`. The function belongs to a package that the course gives to its lessons.
It takes the returned value and the inputs, and returns the arrays to compare. It runs in the process that judges, on data that
the learner chose, so it should check shapes first and report a bad value with a ValueError.
"""

import functools
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from autograder.judging.fact import fact
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.values import EncodedValue, decode, encode

UNFIT = "unfit"  # the kind of `Failure` for an output that has no behaviour
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


def shown(name: str, seen: Observation, probe: Probe) -> Observation:
    """Replace the value in `seen` by its behaviour; if it has none, return a failure of kind "unfit". Never raises."""
    if not name or seen.failure is not None or seen.value is None:
        return seen
    if sum(array.size for array in seen.value.arrays) > MAX_ENTRIES:
        return _unfit(seen, Failure(UNFIT, "ValueError", what=fact("unfit.many", most=MAX_ENTRIES)))
    if (strange := seen.value.strange) is not None:
        return _unfit(seen, Failure(UNFIT, "TypeError", what=fact("unfit.strange", got=strange)))
    try:
        with np.errstate(all="ignore"):
            value = encode(find(name)(_plain(seen.value), **_plain(probe.inputs)))
    except ValueError as error:
        return _unfit(seen, Failure(UNFIT, "ValueError", str(error)[:600]))
    except Exception as error:  # learners return anything, and no function is prepared for all of it
        kind = type(error).__name__
        return _unfit(seen, Failure(UNFIT, kind, what=fact("unfit.stopped", type=kind, message=str(error)[:200])))
    return replace(seen, value=value)


def _unfit(seen: Observation, failure: Failure) -> Observation:
    return replace(seen, value=None, grads={}, failure=failure)


def _plain(value: EncodedValue) -> Any:
    """Return the value with NumPy arrays for tensors, so that judging needs no torch.

    Arrays are copied, so they may be overwritten.
    """
    return decode(value.of_kind("array"))
