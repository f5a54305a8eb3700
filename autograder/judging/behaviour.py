"""What an answer does, where the answer itself may be anything: outputs mapped by a given function before they are compared.

An exercise may say `behaviour="package.module:function"`. The function comes from a package that lessons are given, takes
what was returned and the inputs, and gives the arrays to compare. It is the course's own code and runs where the judging
happens, on data that the learner chose: it should look at shapes first, and say what is wrong with a ValueError.
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

UNFIT = "unfit"  # the kind of failure of an output that has no behaviour: see `records.Mismatch`
MAX_ENTRIES = 1_000_000


class BehaviourError(ValueError):
    """The function is not to be had: a package is missing, or the name is wrong. Whoever runs the course has to mend it."""


@functools.cache
def find(name: str) -> Callable[..., Any]:
    """The function that `name` ("package.module:function") stands for. Raises BehaviourError where there is none."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BehaviourError(f"expected the given function {name!r}, but {error}. Install the packages of this course.") from None
    if not callable(found):
        raise BehaviourError(f"expected {name!r} to be a function, got a {type(found).__name__}.")
    return found  # type: ignore[no-any-return]  # a module's attribute


def shown(name: str, seen: Observation, probe: Probe) -> Observation:
    """`seen` with the behaviour of its value in the value's place; a failure of kind "unfit" where it has none. Never raises."""
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
    except Exception as error:  # learners return what they like, and no function is ready for all of it
        kind = type(error).__name__
        return _unfit(seen, Failure(UNFIT, kind, what=fact("unfit.stopped", type=kind, message=str(error)[:200])))
    return replace(seen, value=value)


def _unfit(seen: Observation, failure: Failure) -> Observation:
    return replace(seen, value=None, grads={}, failure=failure)


def _plain(value: EncodedValue) -> Any:
    """The value with NumPy arrays for tensors, so that judging needs no torch; copies, which may be written into."""
    return decode(value.of_kind("array"))
