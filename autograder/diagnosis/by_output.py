"""Name a mistake for each wrong output of an answer that returns several outputs.

In: an exercise and the judged cases, none of which raised. Out: a `Diagnosis`, or None.
"""

from collections.abc import Sequence

from autograder.diagnosis.calls import call_at
from autograder.diagnosis.finding import Diagnosis, Fact, Finding, InOutputs, Matched
from autograder.diagnosis.known_mistakes import manner_of, worth
from autograder.diagnosis.outcome import Case, same_value, values, wrong_at
from autograder.diagnosis.thresholds import SURE
from autograder.judging.exercise import Tolerance
from autograder.judging.records import ExerciseRecord, Known


def by_output(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    """Return a known mistake for each wrong output. None if no mistake explains one of them, or if there is only one output."""
    paths = dict.fromkeys(path for record, _ in cases for path in values(record.expected))
    wrong = [path for path in paths if any(wrong_at(path, case, exercise.tolerance) for case in cases)]
    if len(paths) < 2 or not wrong:
        return None
    places: dict[Known, list[str]] = {}
    for path in wrong:
        mistake = next((known for known in exercise.known if _explains(known.id, path, cases, exercise.tolerance)), None)
        if mistake is None:
            return None
        places.setdefault(mistake, []).append(path)
    sure = len(places) < 2 or all(_worth(cases, at) >= SURE for at in places.values())
    findings: list[Finding] = []
    for mistake, at in places.items():
        if len(at) == len(paths):
            findings.append(Matched((mistake,), manner_of(cases)))
        else:
            findings.append(InOutputs(tuple(at), mistake, sure, _one_call(cases, at, exercise.tolerance)))
    return Diagnosis(tuple(findings), tuple(places), certain=sure)


def _explains(name: str, path: str, cases: Sequence[Case], tolerance: Tolerance) -> bool:
    """Return whether the mistake gives what was observed at `path` in every case, whether that is right or wrong."""
    for record, result in cases:
        would, got = values(record.mistakes.get(name, record.expected)), values(result.observation)
        if (path in got) != (path in would) or (path in got and not same_value(would[path], got[path], tolerance)):
            return False
    return True


def _one_call(cases: Sequence[Case], paths: Sequence[str], tolerance: Tolerance) -> Fact | None:
    """Return the call of a class, as it is written, that returns all wrong parts at `paths`; None if different calls do."""
    wrong = [(record, path) for path in paths for record, result in cases if wrong_at(path, (record, result), tolerance)]
    calls = {called[1] if (called := call_at(record.probe.inputs, path)) is not None else None for record, path in wrong}
    return calls.pop() if len(calls) == 1 else None


def _worth(cases: Sequence[Case], paths: Sequence[str]) -> float:
    """Return how many bits the parts of the result at `paths` are worth. One or two small counts may match by chance."""
    returned = [values(result.observation) for _, result in cases if not result.passed]
    return sum(worth(parts.get(path)) for parts in returned for path in paths)
