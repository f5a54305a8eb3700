"""Slips that can be made in any exercise: something done to the result, or to an input, before or after all that is right.

In: the inputs of a case and the result. Out: `Slip`s: a result transposed, negated, summed over an axis, rounded; an input
that counts one too many, that is left out, that is taken for another. What is not possible raises, and is then no slip.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder.judging.exercise import After, Before

ENOUGH_NUMBERS = 12  # an exercise with more numbers among its inputs is not asked about each


@dataclass(frozen=True)
class Slip:
    """One step more than a right answer takes; `says` completes "You …".

    Of two with one `undone` one may undo the other, or say the same in another way: they are no two slips.
    """

    step: After | Before
    says: str
    rank: int
    undone: str = ""


def slips(inputs: dict[str, Any], result: Any) -> Iterator[Slip]:
    """The slips that these inputs, and a result like this, allow."""
    yield from _with_result(result)
    yield from _with_both(inputs, result)
    yield from _with_inputs(inputs)


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
    if hasattr(x, "astype"):
        return x.astype({"i": int, "f": float, "b": bool}[kind])
    return {"i": int, "f": float, "b": bool}[kind](x)


_DONE: tuple[tuple[str, str, Callable[[Any], Any], int], ...] = (
    # for which results, what is said, what is done, how rare
    ("ab", "returned truth values turned round: True where False belongs", lambda x: ~x, 0),
    ("a2", "returned the transpose: the last two axes have changed places", lambda x: x.swapaxes(-1, -2), 0),
    ("a2", "returned the result with its first two axes exchanged", lambda x: x.swapaxes(0, 1), 2),
    ("f", "returned the result with the opposite sign", lambda x: -x, 0),
    ("f", "returned 1 minus the result: the share of what should be left out", lambda x: 1 - x, 1),
    ("f", "have the fraction upside down: one over the result", lambda x: 1 / x, 1),
    ("af", "summed the result over its last axis, which should stay", lambda x: x.sum(-1), 1),
    ("af2", "summed the result over its last axis but one, which should stay", lambda x: x.sum(-2), 1),
    ("af2", "summed the result over everything", lambda x: x.sum(), 1),
    ("af", "averaged the result over its last axis, which should stay", lambda x: x.sum(-1) / x.shape[-1], 1),
    ("af2", "averaged the result over its last axis but one, which should stay", lambda x: x.sum(-2) / x.shape[-2], 1),
    ("af2", "averaged the result over everything", lambda x: x.sum() / np.prod(x.shape), 2),
    ("af3", "averaged the result over its third axis from the end, which should stay", lambda x: x.sum(-3) / x.shape[-3], 2),
    ("af", "divided the result by the length of its last axis", lambda x: x / x.shape[-1], 2),
    ("af", "divided the result by the length of its first axis", lambda x: x / x.shape[0], 2),
    ("af", "multiplied the result by the length of its last axis", lambda x: x * x.shape[-1], 3),
    ("af", "multiplied the result by the length of its first axis", lambda x: x * x.shape[0], 3),
    ("af", "took one softmax too many: of the result, over its last axis", lambda x: _softmax(x, -1), 2),
    ("f", "took the logarithm of the result", lambda x: np.log(x), 2),
    ("f", "took the logarithm of the result, to base 2", lambda x: np.log2(x), 3),
    ("f", "took the exponential of the result", lambda x: np.exp(x), 2),
    ("f", "took the square of the result", lambda x: x**2, 2),
    ("f", "took the square root of the result", lambda x: x**0.5, 2),
    ("f", "lost the signs: every entry is positive", abs, 1),
    ("f", "cut what is negative off the result", lambda x: x.clip(min=0), 3),
    ("af", "normalised the result, so that it sums to 1 over its last axis", lambda x: x / x.sum(-1)[..., None], 2),
    ("nf", "rounded the result down", lambda x: float(np.floor(x)), 1),
    ("nf", "rounded the result up", lambda x: float(np.ceil(x)), 1),
    ("nf", "rounded the result to the nearest whole number", lambda x: float(np.round(x)), 1),
    ("a", "returned whole numbers", lambda x: _cast(x, "i"), 2),
    ("ai", "returned floating-point numbers where whole ones are asked for", lambda x: _cast(x, "f"), 1),
    ("ab", "returned numbers where truth values are asked for", lambda x: _cast(x, "f"), 1),
    ("ab", "returned whole numbers where truth values are asked for", lambda x: _cast(x, "i"), 1),
    ("a", "returned truth values where numbers are asked for", lambda x: _cast(x, "b"), 2),
    ("a", "returned the first entry only along the first axis", lambda x: x[0], 2),
    ("a", "returned the last entry only along the first axis", lambda x: x[-1], 2),
    ("a2", "returned the last entry only along the last axis but one", lambda x: x[..., -1, :], 2),
    ("a", "returned the result with one axis too many, of length 1, at the front", lambda x: x[None], 2),
    ("a", "returned the result with one axis too many, of length 1, at the end", lambda x: x[..., None], 2),
    ("a2", "returned the result with one axis too many, of length 1, before the last two", lambda x: x[..., None, :, :], 2),
    ("a", "returned the result with one axis too many, of length 1, before the last", lambda x: x[..., None, :], 2),
    ("a2", "lost an axis of length 1 of the result", lambda x: x.squeeze(), 2),
    ("a2", "flattened the result", lambda x: x.reshape(-1), 3),
    ("a2", "flattened the last two axes of the result into one", lambda x: x.reshape(*x.shape[:-2], -1), 3),
    ("n", "counted twice as much", lambda x: 2 * x, 1),
    ("n", "counted half of it", lambda x: x / 2, 1),
    ("n", "counted four times as much", lambda x: 4 * x, 2),
    ("n", "counted a quarter of it", lambda x: x / 4, 2),
    ("n", "counted bits where bytes are asked for: eight times as much", lambda x: 8 * x, 3),
    ("n", "divided by eight too often, as if bits were bytes", lambda x: x / 8, 3),
    ("n", "added one too many", lambda x: x + 1, 1),
    ("n", "have one too few", lambda x: x - 1, 1),
    ("n", "have thousands where units are asked for: divided by 1000 too often", lambda x: x / 1e3, 3),
    ("n", "have units where thousands are asked for: a factor 1000 too many", lambda x: x * 1e3, 3),
    ("n", "divided by 1024 too often", lambda x: x / 1024, 3),
    ("n", "have a factor 1024 too many", lambda x: x * 1024, 3),
    ("n", "have a factor 2^30 / 10^9 too many: GiB and GB are not the same", lambda x: x * (2**30 / 1e9), 3),
    ("n", "have lost a factor 2^30 / 10^9: GiB and GB are not the same", lambda x: x * (1e9 / 2**30), 3),
    ("n", "returned percent where a share is asked for", lambda x: 100 * x, 3),
)  # fmt: skip
_EACH = ("f", "n")  # what is done to each entry


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


def _with_result(result: Any) -> Iterator[Slip]:
    if isinstance(result, tuple) and 1 < len(result) <= 4:
        for place, part in enumerate(result):
            for letters, says, change, rank in _DONE:
                if _applies(letters, part):
                    name = f"output `[{place}]`"
                    said = says.replace("the result", name) if "the result" in says else f"{says}, in {name}"
                    yield Slip(After(_at(place, change)), said, rank + 1, name if letters in _EACH else "")
        for letters, says, change, rank in _DONE:
            if letters.startswith("a") and "the result" in says and all(_applies(letters, part) for part in result):
                said = says.replace("the result", "each output")
                yield Slip(After(lambda out, change=change, **_: tuple(change(part) for part in out)), said, rank + 1)
        yield Slip(After(lambda out, **_: tuple(reversed(out))), "returned the results in the opposite order", 0)
        for place in range(len(result)):
            yield Slip(After(lambda out, place=place, **_: out[place]), f"returned result number {place + 1} alone", 1)
        return
    for letters, says, change, rank in _DONE:
        if _applies(letters, result):
            yield Slip(After(lambda out, change=change, **_: change(out)), says, rank, "result" if letters in _EACH else "")


def _with_both(inputs: dict[str, Any], result: Any) -> Iterator[Slip]:
    """The result with an input as a factor, or as a summand, that does not belong there."""
    if not _is_array(result) and not _is_number(result):
        return
    for name, value in inputs.items():
        if _is_number(value) and not isinstance(value, bool):
            yield Slip(After(lambda out, name=name, **given: out / given[name]), f"divided the result by `{name}`", 2)
            yield Slip(After(lambda out, name=name, **given: out * given[name]), f"multiplied the result by `{name}`", 2)
        elif _is_array(value) and _is_array(result) and _kind(value) == "f" and value.shape == result.shape:
            yield Slip(After(lambda out, name=name, **given: out + given[name]), f"added `{name}` to the result", 2)


def _at(place: int, change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda out, **_: tuple(change(part) if number == place else part for number, part in enumerate(out))


# ------------------------------------------------------------------------------------------ the inputs


def _with_inputs(inputs: dict[str, Any]) -> Iterator[Slip]:
    numbers = [name for name, value in inputs.items() if _is_number(value) and not hasattr(value, "ndim")]
    for name in numbers[:ENOUGH_NUMBERS]:
        yield from _with_number(name, inputs[name])
    names = list(inputs)
    for number, one in enumerate(names):
        for two in names[number + 1 :]:
            if type(inputs[one]) is type(inputs[two]) and getattr(inputs[one], "ndim", 0) == getattr(inputs[two], "ndim", 0):
                yield Slip(Before(_swap(one, two)), f"took `{one}` for `{two}` and `{two}` for `{one}`", 3)
    for name, value in inputs.items():
        if isinstance(value, bool):
            yield Slip(_changed(name, lambda x: not x), f"did the opposite of what `{name}` says", 1)
        elif _is_array(value) and _kind(value) == "b":
            yield Slip(_changed(name, lambda x: ~x), f"took `{name}` the wrong way round: True where False belongs", 0)
            yield Slip(_changed(name, lambda x: x | True), f"did not look at `{name}`: as if it were True everywhere", 1)
        elif _is_array(value) and _kind(value) == "f" and value.ndim >= 2:
            yield Slip(_changed(name, lambda x: x.swapaxes(-1, -2)), f"used `{name}` transposed", 2)
    for count in ("H", "G"):
        wide = [name for name, value in inputs.items() if _is_cut_in(value, inputs.get(count), name)]
        for some in dict.fromkeys([tuple(wide), *((name,) for name in wide), tuple(wide[1:])]):
            if some:
                which = " and ".join(f"`{name}`" for name in some)
                says = f"dealt the columns of {which} out like cards, every `{count}`-th to one head, and not in runs"
                yield Slip(Before(lambda some=some, count=count, **given: _dealt(some, given[count], given)), says, 1)


def _changed(name: str, change: Callable[[Any], Any]) -> Before:
    """`change` of the input `name`, in the cases that have it."""
    return Before(lambda **given: {name: change(given[name])} if given.get(name) is not None else {})


def _is_cut_in(value: Any, count: Any, name: str) -> bool:
    """Whether an input is a matrix whose columns are cut into `count` runs, for the heads."""
    if not isinstance(count, int) or count < 2 or name[:1] != "W" or name[-1] in "oO":
        return False
    return _is_array(value) and value.ndim == 2 and value.shape[-1] % count == 0


def _dealt(names: tuple[str, ...], count: int, given: dict[str, Any]) -> dict[str, Any]:
    """The matrices with the columns that `count` heads get when every head takes each `count`-th."""
    return {
        name: given[name].reshape(given[name].shape[0], -1, count).swapaxes(-1, -2).reshape(given[name].shape) for name in names
    }


def _swap(one: str, two: str) -> Callable[..., dict[str, Any]]:
    return lambda **given: {one: given[two], two: given[one]}


def _with_number(name: str, value: Any) -> Iterator[Slip]:
    def change(function: Callable[[Any], Any]) -> Before:
        return _changed(name, function)

    if isinstance(value, int):
        yield Slip(change(lambda x: x + 1), f"counted one too many of `{name}`", 1)
        yield Slip(change(lambda x: x - 1), f"counted one too few of `{name}`", 1)
    yield Slip(change(lambda x: type(x)(1)), f"left out `{name}`", 0)
    yield Slip(change(lambda x: 2 * x), f"took twice `{name}`", 2)
    yield Slip(change(lambda x: x / 2), f"took half of `{name}`", 2)
    yield Slip(change(lambda x: x * x), f"have `{name}` once too often: as its square", 2)
    yield Slip(change(lambda x: x**0.5), f"took the square root of `{name}`", 2)
    yield Slip(change(lambda x: 1 / x), f"divided by `{name}` where it is a factor, or the other way round", 2)
    yield Slip(change(lambda x: x * 8), f"took eight times `{name}`, as if it were counted in bits", 3)
