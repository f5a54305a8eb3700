"""Split the result of a case into its parts, and compare it with the right result or with that of a mistake."""

import re
from collections.abc import Sequence

import numpy as np

from autograder.judging.compare import close, compare
from autograder.judging.exercise import Tolerance
from autograder.judging.observation import Observation
from autograder.judging.records import CaseRecord, CaseResult, ExerciseRecord

Case = tuple[CaseRecord, CaseResult]


def values(observation: Observation) -> dict[str, object]:
    """Return the parts of the returned value by their paths: arrays (0-d for plain numbers) and other plain values."""
    if observation.value is None:
        return {}
    return {path: np.asarray(leaf.content) if leaf.is_number else leaf.content for path, leaf in observation.value.leaves()}


def same_value(want: object, got: object, tolerance: Tolerance) -> bool:
    """Return whether two parts are the same, within the tolerance."""
    if isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        return want.shape == got.shape and bool(close(want, got, tolerance).all())
    return type(want) is type(got) and want == got


def wrong_at(path: str, case: Case, tolerance: Tolerance) -> bool:
    """Return whether the part at `path` is expected in the case but missing or wrong."""
    want, got = values(case[0].expected), values(case[1].observation)
    return path in want and not (path in got and same_value(want[path], got[path], tolerance))


def right_outputs(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> tuple[list[str], list[str]]:
    """Return the paths of the parts that are right in every case, and the other paths; two empty lists for a single output."""
    right, wrong = set[str](), set[str]()
    for record, result in zip(exercise.cases, results, strict=True):
        want, got = values(record.expected), values(result.observation)
        if set(want) != set(got) or len(want) < 2:
            return [], []
        for path, value in want.items():
            (right if same_value(value, got[path], exercise.tolerance) else wrong).add(path)
    return sorted(right - wrong), sorted(wrong)


def same_in(record: CaseRecord, mistake: Observation, observation: Observation, tolerance: Tolerance) -> bool:
    """Return what `same_outcome` does, except that if an exception is expected, it doesn't matter what was returned instead."""
    if record.expected.failure is not None and mistake.failure is None:
        return observation.failure is None
    return same_outcome(mistake, observation, tolerance)


def same_outcome(mistake: Observation, observation: Observation, tolerance: Tolerance) -> bool:
    """Return whether the mistake does what was observed: the same value and gradients, or an exception with the same reason."""
    if mistake.failure is not None or observation.failure is not None:
        if mistake.failure is None or observation.failure is None:
            return False
        same_kind = (mistake.failure.kind, mistake.failure.type) == (observation.failure.kind, observation.failure.type)
        return same_kind and (
            not mistake.failure.message or reason(mistake.failure.message) == reason(observation.failure.message)
        )
    other_inputs = mistake.mutated and set(mistake.mutated) != set(observation.mutated)
    # if the values agree too, only the changed inputs can tell them apart
    if other_inputs and compare(Observation(mistake.value), Observation(observation.value), tolerance, (), finite=False) is None:
        return False
    if any((grad is None) != (observation.grads.get(name) is None) for name, grad in mistake.grads.items()):
        return False
    same_inputs = Observation(observation.value, observation.grads, mistake.mutated)
    return compare(mistake, same_inputs, tolerance, (), finite=False) is None


def reason(message: str) -> str:
    """Return the first 160 characters of an exception's message, with each number replaced by #."""
    return re.sub(r"\d+(?:\.\d+)?", "#", message)[:160]
