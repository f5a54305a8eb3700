"""Explain an exception inside a function that the exercise passes to the answer. The learner sees only the call.

In: an exercise, the learner's function and the judged cases. Out: a `Diagnosis`, or None. The first case that stops is run again
while the given functions are watched.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograder.diagnosis.finding import Diagnosis, Fact, Remark, fact
from autograder.diagnosis.thresholds import WATCHED
from autograder.judging.call_answer import observe_within
from autograder.judging.records import CaseResult, ExerciseRecord
from autograder.judging.values import Code

_CALLED_WRONGLY = re.compile(r"argument|is not callable")  # the call is rejected before anything inside the function runs


def stopped_inside(exercise: ExerciseRecord, answer: Any, results: Sequence[CaseResult]) -> Diagnosis | None:
    """Return which given function failed, on which line it was called, and the shapes of its arguments; None if none did."""
    stopped = [(record, result) for record, result in zip(exercise.cases, results, strict=True) if result.observation.failure]
    if not stopped or not callable(answer) or isinstance(answer, type):
        return None
    record, result = min(stopped, key=lambda pair: (pair[1].edge > 0, pair[1].size))
    failure = result.observation.failure
    given = {name for name, value in record.probe.inputs.items().items() if isinstance(value, Code)}
    if failure is None or failure.kind != "raised" or failure.line is None or not given:
        return None
    stops: list[tuple[str, type[Exception], str, tuple[Fact, ...]]] = []

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            shapes = tuple(map(_kind, [*args, *kwargs.values()]))
            try:
                return function(*args, **kwargs)
            except Exception as error:
                stops.append((name, type(error), str(error)[:600], shapes))
                raise

        return call

    def again(**inputs: Any) -> Any:
        return answer(**{name: watched(name, value) if name in given else value for name, value in inputs.items()})

    failure_again = observe_within(WATCHED, again, record.probe).failure
    if failure_again is None or not stops or (failure_again.type, failure_again.message) != (failure.type, failure.message):
        return None
    name, kind, message, shapes = stops[-1]
    if (kind.__name__, message) != (failure.type, failure.message):
        return None  # the learner's code caught that one, and another exception ended the call
    if issubclass(kind, TypeError) and _CALLED_WRONGLY.search(failure.message):
        return None
    line, code = failure.line
    return Diagnosis((Remark(fact("raised.in_given", name=name, line=line, code=code, arguments=shapes)),))


def _kind(value: Any) -> Fact:
    shape = getattr(value, "shape", None)
    if shape is None:
        return fact("given.other", type=type(value).__name__)
    return fact("given.array" if isinstance(value, np.ndarray | np.generic) else "given.tensor", shape=str(tuple(shape)))
