"""Give partial credit: the share of an exercise's points that a wrong answer keeps.

In: the verdict on hidden probes, and the shares that the course sets for the exercise (`authoring.points_and_credit`). Out: the
share and its reason, or None. An answer keeps a share for a named mistake that explains every case, for outputs that are right in
every case, and for a slip in the form of a right answer.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

import numpy as np

from autograder.authoring.points_and_credit import (
    AS_ARRAY,
    AS_LIST,
    CHANGED_INPUTS,
    EXTRA_AXES,
    NAMED_MISTAKE,
    NO_GRADIENTS,
    OTHER_ORDER,
)
from autograder.diagnosis.finding import Fact, fact
from autograder.diagnosis.known_mistakes import listed_matches, named
from autograder.diagnosis.outcome import Case, same_value, values
from autograder.diagnosis.phrase import say
from autograder.judging.compare import judge
from autograder.judging.exercise import Tolerance
from autograder.judging.observation import Observation
from autograder.judging.records import CaseRecord, ExerciseRecord, Result
from autograder.judging.values import ArrayNode, Container, EncodedValue, PlainNode

Shares = Mapping[str, float]
MOST_OUTPUTS = 4  # with more outputs than this, not all orders are tried


@dataclass(frozen=True)
class Credit:
    """The points that a wrong answer keeps, and the reason."""

    points: float
    reason: Fact


def credit_for(result: Result, shares: Shares) -> Credit | None:
    """Return the credit for the answer judged in `result`, or None if it gets no more than the cases already give.

    A share that is set for the named mistake decides alone, so a teacher can also set it to 0.
    """
    if result.passed or not shares or not result.cases:
        return None
    named = _named_share(result, shares)
    share, reason = named or max(_slip_share(result, shares), _outputs_share(result, shares), key=itemgetter(0))
    points = round(share * result.exercise.points, 2)
    return Credit(points, reason) if points > result.score else None


def _named_share(result: Result, shares: Shares) -> tuple[float, Fact] | None:
    """Return the share of a known mistake that explains every case: its own share, or a nonzero share for any named mistake."""
    cases: list[Case] = [(_speechless(record), case) for record, case in zip(result.exercise.cases, result.cases, strict=True)]
    anyone = shares.get(NAMED_MISTAKE, 0.0)
    matches = [
        known
        for known in listed_matches(result.exercise, cases)
        if known.id in shares or (anyone and known in result.exercise.known)
    ]
    # if only exceptions support a name, another case must show that the answer otherwise works
    works = any(case.passed and record.edge == 0 for record, case in cases)
    matches = [known for known in matches if works or named(cases, known).certain]
    if not matches:
        return None
    return max(shares.get(known.id, anyone) for known in matches), fact("credit.named")  # if two fit, take the kinder one


def _speechless(record: CaseRecord) -> CaseRecord:
    """Return the case without its mistakes' exception messages, because results of hidden probes have none either."""
    failed = {name: observation.failure for name, observation in record.mistakes.items() if observation.failure is not None}
    silent = {name: replace(record.mistakes[name], failure=replace(failure, message="")) for name, failure in failed.items()}
    return replace(record, mistakes={**record.mistakes, **silent})


def _outputs_share(result: Result, shares: Shares) -> tuple[float, Fact]:
    """Return the sum of the shares of all outputs that are right, reduced by the edge cases in which an output is wrong."""
    kept = {path: share * _right_part(path, result) for path, share in shares.items() if path.startswith("[")}
    right = [path for path, share in kept.items() if share > 0]
    return sum(kept.values()), fact("credit.outputs", count=len(right), paths=tuple(right))


def _right_part(path: str, result: Result) -> float:
    """Return how much of the output at `path` is right: 0 if it is wrong or missing in a core case."""
    shown, lost = False, 0.0
    for record, outcome in zip(result.exercise.cases, result.cases, strict=True):
        want = {name: value for name, value in values(record.expected).items() if name.startswith(path)}
        got, tolerance = values(outcome.observation), result.exercise.tolerance
        right = all(name in got and same_value(value, got[name], tolerance) for name, value in want.items())
        if record.edge == 0 and (not right or not (want or outcome.passed)):
            return 0.0
        lost += 0.0 if right else record.edge
        shown = shown or bool(want)
    return max(0.0, 1.0 - lost) if shown else 0.0


def _slip_share(result: Result, shares: Shares) -> tuple[float, Fact]:
    """Return the largest share for a slip without which the answer would be right, less what failing edge cases cost."""
    kept = [(shares[slip] * _part_without(undo, result), reason) for slip, (undo, reason) in _SLIPS.items() if shares.get(slip)]
    return max(kept, default=(0.0, fact("credit.named")), key=itemgetter(0))


Change = Callable[[ArrayNode | PlainNode, EncodedValue], EncodedValue]
Undo = Callable[[CaseRecord, Observation], tuple[CaseRecord, Observation]]


def _part_without(undo: Undo, result: Result) -> float:
    """Return the fraction of the points that the cases give once `undo` removes the slip from the failing ones."""
    exercise = result.exercise
    if exercise.behaviour:
        return 0.0
    pairs = [
        (record, case.observation) if case.passed or case.observation.failure is not None else undo(record, case.observation)
        for record, case in zip(exercise.cases, result.cases, strict=True)
    ]
    again: ExerciseRecord = replace(exercise, cases=[record for record, _ in pairs])
    return judge(again, [observation for _, observation in pairs]).score / exercise.points


def _without_gradients(record: CaseRecord, observation: Observation) -> tuple[CaseRecord, Observation]:
    expected = replace(record.expected, grads={})
    return replace(record, expected=expected), replace(observation, grads={})


def _inputs_restored(record: CaseRecord, observation: Observation) -> tuple[CaseRecord, Observation]:
    return record, replace(observation, mutated=())


def _reshaped(record: CaseRecord, observation: Observation, change: Change) -> tuple[CaseRecord, Observation]:
    """Apply `change` to the returned value. If that changes the value, its gradients are not compared."""
    changed = _matched(record.expected.value, observation.value, change)
    if changed is None or observation.value is None or [*map(id, changed.flat())] == [*map(id, observation.value.flat())]:
        return record, observation
    record, observation = _without_gradients(record, observation)
    return record, replace(observation, value=changed)


def _reordered(record: CaseRecord, observation: Observation) -> tuple[CaseRecord, Observation]:
    """Put the outputs in the order in which they are right. Gradients of reordered outputs are not compared."""
    value = observation.value
    if value is None or value.entries is None or not 2 <= len(value.entries) <= MOST_OUTPUTS:
        return record, observation
    want = values(record.expected)
    for entries in itertools.permutations(value.entries):
        moved = replace(observation, value=Container(entries, value.kind or "tuple"))
        got = values(moved)
        if got.keys() == want.keys() and all(same_value(part, got[path], Tolerance()) for path, part in want.items()):
            return _without_gradients(record, moved)
    return record, observation


def _matched(want: EncodedValue | None, got: EncodedValue | None, change: Change) -> EncodedValue | None:
    """Return `got` with `change` applied wherever an array or a number is wanted."""
    if want is None or got is None:
        return got
    if isinstance(want, ArrayNode | PlainNode):
        return change(want, got)
    if want.entries is not None and got.entries is not None and len(want.entries) == len(got.entries):
        parts = [_matched(want_part, got_part, change) for want_part, got_part in zip(want.entries, got.entries, strict=True)]
        return Container(tuple(part for part in parts if part is not None), got.kind or "tuple")
    return got


def _listed(want: ArrayNode | PlainNode, got: EncodedValue) -> EncodedValue:
    """Return the numbers in a list as an array, if an array is wanted."""
    if (
        isinstance(want, PlainNode)
        or got.entries is None
        or not all(isinstance(leaf, PlainNode | ArrayNode) for leaf in got.flat())
    ):
        return got
    try:
        array = np.asarray(_nested(got), dtype=want.content.dtype)
    except (TypeError, ValueError, OverflowError):
        return got  # ragged rows, or not numbers
    return ArrayNode(array, want.kind)


def _nested(value: EncodedValue) -> object:
    return [_nested(entry) for entry in value.entries] if value.entries is not None else value.content


def _plain(want: ArrayNode | PlainNode, got: EncodedValue) -> EncodedValue:
    """Return the number in a one-element array, if a plain number is wanted."""
    if not isinstance(want, PlainNode) or not isinstance(got, ArrayNode) or got.content.size != 1:
        return got
    if type(want.content) not in (int, float) or got.content.dtype.kind not in "iuf":
        return got
    number = got.content.item()
    whole = isinstance(want.content, int) and float(number).is_integer()
    return PlainNode(int(number) if whole else number)


def _without_axes(want: ArrayNode | PlainNode, got: EncodedValue) -> EncodedValue:
    """Return an array without its extra axes of length 1."""
    if isinstance(want, PlainNode) or not isinstance(got, ArrayNode) or got.content.ndim <= want.content.ndim:
        return got
    trimmed, wanted = ([length for length in node.content.shape if length != 1] for node in (got, want))
    return ArrayNode(got.content.reshape(want.content.shape), got.kind) if trimmed == wanted else got


# how each slip is removed from a case, and the reason to give
_SLIPS: dict[str, tuple[Undo, Fact]] = {
    AS_LIST: (partial(_reshaped, change=_listed), fact("credit.as_list")),
    AS_ARRAY: (partial(_reshaped, change=_plain), fact("credit.as_array")),
    EXTRA_AXES: (partial(_reshaped, change=_without_axes), fact("credit.extra_axes")),
    NO_GRADIENTS: (_without_gradients, fact("credit.no_gradients")),
    CHANGED_INPUTS: (_inputs_restored, fact("credit.changed_inputs")),
    OTHER_ORDER: (_reordered, fact("credit.other_order")),
}


def said(credit: Credit, points: float) -> str:
    """Return the sentence for the student's page.

    >>> said(Credit(1, fact("credit.outputs", count=1, paths=("[0]",))), 2)
    'You get 1 of 2 points, because output `[0]` is right.'
    """
    return say(fact("credit", points=credit.points, of=points, reason=credit.reason))
