"""Recognise a result in a wrong structure, such as a list instead of an array, an extra axis, or several results instead of one.

In: an exercise and the judged cases. Out: a `Diagnosis`, or None. It names the structure alone if the content is right, or the
structure and a mistake if that mistake explains the rest.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograder.diagnosis.finding import Also, Diagnosis, Fact, Manner, Matched, fact
from autograder.judging.compare import in_double, judge
from autograder.judging.observation import Observation
from autograder.judging.records import CaseRecord, CaseResult, ExerciseRecord
from autograder.judging.values import Array, ArrayNode, Container, EncodedValue, PlainNode

Entries = tuple[EncodedValue, ...]
Unwrap = Callable[[EncodedValue, EncodedValue], EncodedValue | None]
Explain = Callable[[ExerciseRecord, Sequence[CaseResult]], Diagnosis | None]


@dataclass(frozen=True)
class Wrapping:
    """A wrong structure. `unwrap(got, want)` returns `got` without it, or None if `got` does not have it."""

    what: Fact
    unwrap: Unwrap
    doubles: bool = False  # applies only to cases in double precision
    alone: bool = False  # applies only if nothing else is wrong
    everywhere: bool = False  # has to occur in all failing cases, because an axis may have length 1 by chance


def diagnose_unwrapped(exercise: ExerciseRecord, results: Sequence[CaseResult], explain: Explain) -> Diagnosis | None:
    """Remove a wrong structure and return what then explains the failing cases. `explain` diagnoses the unwrapped results."""
    for wrapping in _wrappings(exercise.cases, results):
        observations = [
            _without_wrapping(wrapping, record, result.observation)
            for record, result in zip(exercise.cases, results, strict=True)
        ]
        without = [result for observation, result in zip(observations, results, strict=True) if observation is result.observation]
        if len(without) == len(observations) or (wrapping.everywhere and not all(result.passed for result in without)):
            continue
        inner = judge(exercise, observations).cases
        if all(case.passed for case in inner):
            return Diagnosis((Matched((wrapping.what,), Manner.RIGHT_COMPUTATION),), (wrapping.what,))
        if wrapping.alone or sum(case.passed for case in inner) < sum(case.passed for case in results):
            continue
        diagnosis = explain(exercise, inner)
        if diagnosis is not None and diagnosis.certain and diagnosis.known:
            findings = (*diagnosis.findings, Also(wrapping.what))
            return replace(diagnosis, findings=findings, known=(*diagnosis.known, wrapping.what))
    return None


def _without_wrapping(wrapping: Wrapping, record: CaseRecord, observation: Observation) -> Observation:
    if observation.value is None or record.expected.value is None or (wrapping.doubles and not in_double(record)):
        return observation
    value = wrapping.unwrap(observation.value, record.expected.value)
    # a result of the wrong shape has no gradients, so they count as right
    return observation if value is None else replace(observation, value=value, grads=observation.grads or record.expected.grads)


def _wrappings(cases: Sequence[CaseRecord], results: Sequence[CaseResult]) -> Iterator[Wrapping]:
    """Yield the wrong structures that the value in the first failing case may have."""
    for record, result in zip(cases, results, strict=True):
        want, got = record.expected.value, result.observation.value
        if not result.passed and want is not None and got is not None:
            yield from _of_sequence(want, got)
            yield from _ALWAYS
            return


# ------------------------------------------------------------------------------------------ tuples


def _of_sequence(want: EncodedValue, got: EncodedValue) -> Iterator[Wrapping]:
    inside, asked = got.entries, want.entries
    if inside is None:
        return
    if asked is None and _joined(got, want) is not None:
        yield Wrapping(fact("wrapped.list_for_array" if _holds(want, "array") else "wrapped.list_for_tensor"), _joined)
        return
    if asked is None and len(inside) <= 6:
        for place in range(len(inside)):
            yield Wrapping(fact("wrapped.several", count=len(inside)), _item(place))
    if asked is not None and 2 <= len(inside) == len(asked) <= 4:
        for order in itertools.islice(itertools.permutations(range(len(inside))), 1, None):  # the first is the order as it is
            yield Wrapping(fact("wrapped.order"), _ordered(order), alone=True)
    if asked is not None and len(inside) == len(asked) + 1:
        for place in reversed(range(len(inside))):
            surplus = fact("wrapped.surplus", got=len(inside), want=len(asked), place=place + 1)
            yield Wrapping(surplus, _without(place))


def _holds(value: EncodedValue, kind: str) -> bool:
    return any(leaf.kind == kind for leaf in value.flat() if isinstance(leaf, ArrayNode))


def _joined(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
    """Stack the parts of a list into an array, if their number and shape match the rows of the right one."""
    inside = got.entries
    if not inside or not isinstance(got, Container) or got.kind != "list" or not isinstance(want, ArrayNode):
        return None
    right = want.content
    if right.ndim == 0 or len(inside) != right.shape[0] or not all(isinstance(part, ArrayNode | PlainNode) for part in inside):
        return None
    parts = [np.asarray(part.content) for part in inside]
    if any(part.shape != right.shape[1:] or part.dtype.kind not in "biufc" for part in parts):
        return None
    stacked = np.stack(parts)
    return ArrayNode(stacked.astype(right.dtype) if stacked.dtype.kind == right.dtype.kind else stacked, want.kind)


def _item(place: int) -> Unwrap:
    def unwrap(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
        inside = got.entries
        return inside[place] if inside and place < len(inside) and want.entries is None else None

    return unwrap


def _entries(choose: Callable[[Entries, int], Entries | None]) -> Unwrap:
    """Return an `unwrap` that replaces the entries of a tuple by those that `choose` returns, given how many are asked for."""

    def unwrap(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
        if got.entries is None or want.entries is None:
            return None
        chosen = choose(got.entries, len(want.entries))
        return Container(chosen, "tuple") if chosen is not None else None

    return unwrap


def _ordered(order: Sequence[int]) -> Unwrap:
    return _entries(lambda inside, asked: tuple(inside[at] for at in order) if len(inside) == asked == len(order) else None)


def _without(place: int) -> Unwrap:
    return _entries(lambda inside, asked: (*inside[:place], *inside[place + 1 :]) if len(inside) == asked + 1 else None)


# ------------------------------------------------------------------------------------------ leaves


def _on_each_array(change: Callable[[Array, Any], Array | None]) -> Unwrap:
    """Return an `unwrap` that replaces each array for which `change` returns another.

    It returns None if `change` replaces none, or if the structures differ.
    """

    def unwrap(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
        theirs, right = list(got.leaves()), dict(want.leaves())
        if [path for path, _ in theirs] != list(right):
            return None
        replacements: dict[EncodedValue, EncodedValue] = {
            leaf: ArrayNode(array, leaf.kind)
            for path, leaf in theirs
            if isinstance(leaf, ArrayNode) and (array := change(leaf.content, right[path].content)) is not None
        }
        return got.map(lambda leaf: replacements.get(leaf, leaf)) if replacements else None

    return unwrap


def _is(right: Any, kinds: str) -> bool:
    return isinstance(right, np.ndarray) and right.dtype.kind in kinds


def _truth_of(got: Array, right: Any) -> Array | None:
    return np.asarray(got != 0) if _is(right, "b") and got.dtype.kind != "b" and np.isin(got, (0, 1)).all() else None


def _additive_of(got: Array, right: Any) -> Array | None:
    fits = _is(right, "b") and got.dtype.kind == "f" and ((got == 0) | (got < -1e3)).all()
    return np.asarray(got == 0) if fits else None


def _cast(kind: str) -> Unwrap:
    def change(got: Array, right: Any) -> Array | None:
        if not _is(right, "iu" if kind == "i" else kind) or got.dtype.kind in (kind, "c"):
            return None
        if kind == "i" and not (np.isfinite(got) & (got == np.round(got))).all():
            return None
        return got.astype(right.dtype)

    return _on_each_array(change)


def _double_of(got: Array, right: Any) -> Array | None:
    return got.astype(np.float64) if got.dtype.kind == "f" and got.dtype.itemsize < 8 else None


def _axes(more: bool) -> Unwrap:
    """Return an `unwrap` that removes surplus axes of length 1 (`more`), or else one that inserts missing ones."""

    def change(got: Array, right: Any) -> Array | None:
        if not isinstance(right, np.ndarray) or got.ndim == right.ndim or (got.ndim > right.ndim) != more:
            return None
        return got.reshape(right.shape) if [n for n in got.shape if n != 1] == [n for n in right.shape if n != 1] else None

    return _on_each_array(change)


def _as_kind(kind: str) -> Unwrap:
    def unwrap(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
        other = "array" if kind == "tensor" else "tensor"
        kinds = {leaf.kind for leaf in want.flat() if isinstance(leaf, ArrayNode)}
        return got.of_kind(kind) if kinds == {kind} and any(leaf.kind == other for leaf in got.flat()) else None

    return unwrap


def _plain(got: EncodedValue, want: EncodedValue) -> EncodedValue | None:
    """Turn 0-d arrays into numbers if numbers are asked for."""
    numbers = got.map(_number)
    return None if want.arrays or numbers == got else numbers


def _number(leaf: EncodedValue) -> EncodedValue:
    single = isinstance(leaf, ArrayNode) and leaf.content.size == 1 and leaf.content.dtype.kind in "iuf"
    return PlainNode(leaf.content.item()) if single else leaf


_ALWAYS = (
    Wrapping(fact("wrapped.number"), _plain),
    Wrapping(fact("wrapped.array_for_tensor"), _as_kind("tensor")),
    Wrapping(fact("wrapped.tensor_for_array"), _as_kind("array")),
    Wrapping(fact("wrapped.numbers_for_truth"), _on_each_array(_truth_of)),
    Wrapping(fact("wrapped.additive_for_truth"), _on_each_array(_additive_of)),
    Wrapping(fact("wrapped.whole_for_floating"), _cast("f")),
    Wrapping(fact("wrapped.floating_for_whole"), _cast("i")),
    Wrapping(fact("wrapped.single_for_double"), _on_each_array(_double_of), doubles=True),
    Wrapping(fact("wrapped.axis_more"), _axes(more=True), everywhere=True),
    Wrapping(fact("wrapped.axis_less"), _axes(more=False), everywhere=True),
)
