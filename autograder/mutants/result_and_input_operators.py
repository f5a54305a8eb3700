"""Make the slips that are possible in any exercise: an input changed before a right computation, or the result changed after it.

In: the inputs of a case and the result. Out: `StepSlip`s: a result transposed, negated, summed over an axis or rounded; an input
that is one too large, left out or confused with another. A step that is impossible raises when it is run, and is then dropped.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autograder.judging.exercise import After, Before
from autograder.judging.fact import fact
from autograder.mutants.course_operators import NONE, Operators, StepSlip

ENOUGH_NUMBERS = 12  # only this many of the numbers among the inputs are changed


def slips(inputs: dict[str, Any], result: Any, operators: Operators = NONE) -> Iterator[StepSlip]:
    """Yield the slips that are possible with such inputs and such a result; those of the course's `operators` come last."""
    yield from _with_result(result)
    yield from _with_both(inputs, result)
    yield from _with_inputs(inputs)
    for of_inputs in operators.inputs:
        yield from of_inputs(inputs)


# ------------------------------------------------------------------------------------------ the result


def _is_array(x: Any) -> bool:
    return hasattr(x, "ndim") and x.ndim > 0


def _is_number(x: Any) -> bool:
    return (isinstance(x, int | float | np.number) and not isinstance(x, bool)) or (hasattr(x, "ndim") and x.ndim == 0)


def _kind(x: Any) -> str:
    name = str(getattr(x, "dtype", type(x).__name__))
    return "b" if "bool" in name else "i" if "int" in name else "f"


def _softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum(axis)[(..., None) if axis == -1 else None]


def _cast(x: Any, kind: str) -> Any:
    if hasattr(x, "numpy"):
        return {"i": x.long, "f": x.double, "b": x.bool}[kind]()
    plain: Any = {"i": int, "f": float, "b": bool}[kind]
    return x.astype(plain) if hasattr(x, "astype") else plain(x)


_DONE: tuple[tuple[str, str, bool, Callable[[Any], Any], int], ...] = (
    # the results that it applies to (see `_applies`), the fact's key, whether the fact names the result, the change, its rank
    ("ab", "slip.returned.inverted", False, lambda x: ~x, 0),
    ("a2", "slip.returned.transpose", False, lambda x: x.swapaxes(-1, -2), 0),
    ("a2", "slip.returned.first_axes", True, lambda x: x.swapaxes(0, 1), 2),
    ("f", "slip.returned.sign", True, lambda x: -x, 0),
    ("f", "slip.returned.complement", True, lambda x: 1 - x, 1),
    ("f", "slip.result.reciprocal", True, lambda x: 1 / x, 1),
    ("af", "slip.result.summed.last", True, lambda x: x.sum(-1), 1),
    ("af2", "slip.result.summed.second_last", True, lambda x: x.sum(-2), 1),
    ("af2", "slip.result.summed.all", True, lambda x: x.sum(), 1),
    ("af", "slip.result.averaged.last", True, lambda x: x.sum(-1) / x.shape[-1], 1),
    ("af2", "slip.result.averaged.second_last", True, lambda x: x.sum(-2) / x.shape[-2], 1),
    ("af2", "slip.result.averaged.all", True, lambda x: x.sum() / np.prod(x.shape), 2),
    ("af3", "slip.result.averaged.third_last", True, lambda x: x.sum(-3) / x.shape[-3], 2),
    ("af", "slip.result.divided.last", True, lambda x: x / x.shape[-1], 2),
    ("af", "slip.result.divided.first", True, lambda x: x / x.shape[0], 2),
    ("af", "slip.result.multiplied.last", True, lambda x: x * x.shape[-1], 3),
    ("af", "slip.result.multiplied.first", True, lambda x: x * x.shape[0], 3),
    ("af", "slip.result.softmax", True, lambda x: _softmax(x, -1), 2),
    ("f", "slip.result.log", True, lambda x: np.log(x), 2),
    ("f", "slip.result.log2", True, lambda x: np.log2(x), 3),
    ("f", "slip.result.exp", True, lambda x: np.exp(x), 2),
    ("f", "slip.result.square", True, lambda x: x**2, 2),
    ("f", "slip.result.root", True, lambda x: x**0.5, 2),
    ("f", "slip.no_signs", False, abs, 1),
    ("f", "slip.result.clipped", True, lambda x: x.clip(min=0), 3),
    ("af", "slip.result.normalised", True, lambda x: x / x.sum(-1)[..., None], 2),
    ("nf", "slip.result.floor", True, lambda x: float(np.floor(x)), 1),
    ("nf", "slip.result.ceil", True, lambda x: float(np.ceil(x)), 1),
    ("nf", "slip.result.round", True, lambda x: float(np.round(x)), 1),
    ("a", "slip.returned.whole", False, lambda x: _cast(x, "i"), 2),
    ("ai", "slip.returned.floating", False, lambda x: _cast(x, "f"), 1),
    ("ab", "slip.returned.numbers_for_truth", False, lambda x: _cast(x, "f"), 1),
    ("ab", "slip.returned.whole_for_truth", False, lambda x: _cast(x, "i"), 1),
    ("a", "slip.returned.truth", False, lambda x: _cast(x, "b"), 2),
    ("a", "slip.returned.first_entry", False, lambda x: x[0], 2),
    ("a", "slip.returned.last_entry", False, lambda x: x[-1], 2),
    ("a2", "slip.returned.last_row", False, lambda x: x[..., -1, :], 2),
    ("a", "slip.returned.axis.front", True, lambda x: x[None], 2),
    ("a", "slip.returned.axis.end", True, lambda x: x[..., None], 2),
    ("a2", "slip.returned.axis.third", True, lambda x: x[..., None, :, :], 2),
    ("a", "slip.returned.axis.second", True, lambda x: x[..., None, :], 2),
    ("a2", "slip.result.squeezed", True, lambda x: x.squeeze(), 2),
    ("a2", "slip.result.flattened", True, lambda x: x.reshape(-1), 3),
    ("a2", "slip.result.flattened.two", True, lambda x: x.reshape(*x.shape[:-2], -1), 3),
    ("n", "slip.count.double", False, lambda x: 2 * x, 1),
    ("n", "slip.count.half", False, lambda x: x / 2, 1),
    ("n", "slip.count.four", False, lambda x: 4 * x, 2),
    ("n", "slip.count.quarter", False, lambda x: x / 4, 2),
    ("n", "slip.count.bits", False, lambda x: 8 * x, 3),
    ("n", "slip.count.eighth", False, lambda x: x / 8, 3),
    ("n", "slip.count.more", False, lambda x: x + 1, 1),
    ("n", "slip.count.less", False, lambda x: x - 1, 1),
    ("n", "slip.count.thousands", False, lambda x: x / 1e3, 3),
    ("n", "slip.count.units", False, lambda x: x * 1e3, 3),
    ("n", "slip.count.over_1024", False, lambda x: x / 1024, 3),
    ("n", "slip.count.times_1024", False, lambda x: x * 1024, 3),
    ("n", "slip.count.gib", False, lambda x: x * (2**30 / 1e9), 3),
    ("n", "slip.count.gb", False, lambda x: x * (1e9 / 2**30), 3),
    ("n", "slip.returned.percent", False, lambda x: 100 * x, 3),
)  # fmt: skip
_EACH = ("f", "n")  # changes for these results act on each entry, so one of them may undo another


def _applies(letters: str, x: Any) -> bool:
    if "n" in letters:
        return _is_number(x) and ("f" not in letters or _kind(x) == "f")
    if "a" in letters and not _is_array(x):
        return False
    if ("2" in letters and x.ndim < 2) or ("3" in letters and x.ndim < 3):
        return False
    if not _is_array(x) and not _is_number(x):
        return False
    kind = _kind(x)
    return not any(letter in letters for letter in "bif") or kind in letters


def _with_result(result: Any) -> Iterator[StepSlip]:
    if isinstance(result, tuple) and 1 < len(result) <= 4:
        for place, part in enumerate(result):
            for letters, key, named, change, rank in _DONE:
                if _applies(letters, part):
                    it = fact("slip.output", place=place)
                    what = fact(key, it=it) if named else fact("slip.place.output", what=fact(key), it=it)
                    yield StepSlip(After(_at(place, change)), what, rank + 1, f"output {place}" if letters in _EACH else "")
        for letters, key, named, change, rank in _DONE:
            if letters.startswith("a") and named and all(_applies(letters, part) for part in result):
                each = fact(key, it=fact("slip.each_output"))
                yield StepSlip(After(lambda out, change=change, **_: tuple(change(part) for part in out)), each, rank + 1)
        yield StepSlip(After(lambda out, **_: tuple(reversed(out))), fact("slip.returned.reversed"), 0)
        for place in range(len(result)):
            yield StepSlip(After(lambda out, place=place, **_: out[place]), fact("slip.returned.number", number=place + 1), 1)
        return
    for letters, key, named, change, rank in _DONE:
        if _applies(letters, result):
            what = fact(key, it=_RESULT) if named else fact(key)
            yield StepSlip(After(lambda out, change=change, **_: change(out)), what, rank, "result" if letters in _EACH else "")


_RESULT = fact("slip.result")


def _with_both(inputs: dict[str, Any], result: Any) -> Iterator[StepSlip]:
    """Yield the slips that divide or multiply the result by an input, or add an input to it."""
    if not _is_array(result) and not _is_number(result):
        return
    for name, value in inputs.items():
        if _is_number(value) and not isinstance(value, bool):
            yield StepSlip(After(lambda out, name=name, **given: out / given[name]), fact("slip.result.divided", name=name), 2)
            yield StepSlip(After(lambda out, name=name, **given: out * given[name]), fact("slip.result.multiplied", name=name), 2)
        elif _is_array(value) and _is_array(result) and _kind(value) == "f" and value.shape == result.shape:
            yield StepSlip(After(lambda out, name=name, **given: out + given[name]), fact("slip.result.added", name=name), 2)


def _at(place: int, change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda out, **_: tuple(change(part) if number == place else part for number, part in enumerate(out))


# ------------------------------------------------------------------------------------------ the inputs


def _with_inputs(inputs: dict[str, Any]) -> Iterator[StepSlip]:
    numbers = [name for name, value in inputs.items() if _is_number(value) and not hasattr(value, "ndim")]
    for name in numbers[:ENOUGH_NUMBERS]:
        for key, gap, change, rank in _DONE_TO_NUMBERS[0 if isinstance(inputs[name], int) else 2 :]:
            yield StepSlip(_changed(name, change), fact(key, **{gap: name}), rank)
    for one, other in itertools.combinations(inputs, 2):
        if type(inputs[one]) is type(inputs[other]) and getattr(inputs[one], "ndim", 0) == getattr(inputs[other], "ndim", 0):
            yield StepSlip(Before(_swap(one, other)), fact("slip.input.swapped", one=one, two=other), 3)
    for name, value in inputs.items():
        if isinstance(value, bool):
            yield StepSlip(_changed(name, lambda x: not x), fact("slip.input.opposite", name=name), 1)
        elif _is_array(value) and _kind(value) == "b":
            yield StepSlip(_changed(name, lambda x: ~x), fact("slip.input.inverted", name=name), 0)
            yield StepSlip(_changed(name, lambda x: x | True), fact("slip.input.all_true", name=name), 1)
        elif _is_array(value) and _kind(value) == "f" and value.ndim >= 2:
            yield StepSlip(_changed(name, lambda x: x.swapaxes(-1, -2)), fact("slip.input.transposed", name=name), 2)


def _changed(name: str, change: Callable[[Any], Any]) -> Before:
    """Return the step that makes `change` to the input `name`, in the cases that have this input."""
    return Before(lambda **given: {name: change(given[name])} if given.get(name) is not None else {})


def _swap(name: str, other: str) -> Callable[..., dict[str, Any]]:
    return lambda **given: {name: given[other], other: given[name]}


_DONE_TO_NUMBERS: tuple[tuple[str, str, Callable[[Any], Any], int], ...] = (  # the fact's key and gap for the name, change, rank
    ("slip.input.more", "name", lambda x: x + 1, 1),
    ("slip.input.less", "name", lambda x: x - 1, 1),
    ("slip.left_out", "code", lambda x: type(x)(1), 0),
    ("slip.input.double", "name", lambda x: 2 * x, 2),
    ("slip.input.half", "name", lambda x: x / 2, 2),
    ("slip.input.square", "name", lambda x: x * x, 2),
    ("slip.root", "code", lambda x: x**0.5, 2),
    ("slip.input.reciprocal", "name", lambda x: 1 / x, 2),
    ("slip.input.bits", "name", lambda x: x * 8, 3),
)
