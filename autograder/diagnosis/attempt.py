"""Run one attempt at an exercise in the learner's own process: call their function or class on every case and judge it."""

import ast
import contextlib
import importlib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autograder.diagnosis.best_effort import best_effort
from autograder.diagnosis.diagnose import diagnose
from autograder.diagnosis.finding import MENDED, Diagnosis, Fact, Quoted
from autograder.diagnosis.from_checks import diagnose_proven_part
from autograder.diagnosis.given_functions import stopped_inside
from autograder.diagnosis.own_code import in_own_code
from autograder.diagnosis.repair.answer_source import source_of
from autograder.diagnosis.repair.first_wrong_step import diagnose_first_wrong_steps
from autograder.diagnosis.repair.search import find_repair
from autograder.judging.call_answer import observe_within
from autograder.judging.compare import judge
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import ExerciseRecord, NearSlip, Result
from autograder.judging.values import EncodedValue
from autograder.mutants.source import Source, plain_slip

MAX_PARTS = 1000
# PyTorch imports this at the first gradient; a deadline during the import would leave it half-loaded for all later checks
LATE = "torch.fx.experimental.symbolic_shapes"
LARGE, LARGE_TIMES = 1 << 17, 8  # a result is too large with more than LARGE numbers and LARGE_TIMES as many as expected
EVERYWHERE = {
    "np", "torch", "math", "F", "float", "int", "True", "False", "None", "not", "and", "or", "axis", "dim", "keepdims", "keepdim",
    "inf",
}  # fmt: skip


def check_answer(record: ExerciseRecord, answer: Any, *, repair: bool = True) -> Result:
    """Run `answer` on every case of `record`, within the exercise's time limit, and return the verdict.

    With `repair`, it also searches for a change of the answer's code that passes every check, if no mistake is certain already.
    """
    if any(case.probe.grad for case in record.cases):
        with contextlib.suppress(ImportError):
            importlib.import_module(LATE)
    remaining_s = record.timeout_s
    observations: list[Observation] = []
    for case in record.cases:
        observation = (
            observe_within(max(remaining_s, 0.05), answer, case.probe)
            if remaining_s > 0
            else Observation(failure=Failure("timeout"))
        )
        remaining_s -= observation.seconds
        observations.append(observation)
        if observation.failure is not None and observation.failure.kind in ("blank", "timeout"):
            observations += [Observation(failure=observation.failure)] * (len(record.cases) - len(observations))
            break
    result = judged(record, observations)
    return with_repair(result, answer) if repair else result


def with_repair(result: Result, answer: Any) -> Result:
    """Return the same verdict. If no mistake was certain, search for a change of the answer's code that passes and explains it.

    This tries many small changes of the answer, which takes a second or two.
    """
    if result.passed or not result.exercise.repairs:
        return result
    with best_effort():
        diagnosis, source = _diagnosis_with_repair(result, answer), source_of(answer)
        return replace(result, diagnosis=in_own_code(diagnosis, source) if diagnosis and source else diagnosis)
    return result


def _diagnosis_with_repair(result: Result, answer: Any) -> Diagnosis | None:
    diagnosis = result.diagnosis
    if diagnosis is not None and diagnosis.certain and diagnosis.known:
        if not _quotes_unseen_code(result, answer, diagnosis):
            if not _names_an_unlisted_pair(result.exercise, diagnosis):
                return diagnosis
            repair = find_repair(result.exercise, answer, result.cases)
            repaired = repair is not None and repair.certain and [known.id for known in repair.known] == [MENDED]
            return repair if repaired else diagnosis  # one change of the written code says more than two equivalent slips
        diagnosis = None  # it quotes code that the learner cannot see
    return _search(replace(result, diagnosis=diagnosis), answer) or diagnosis


def _names_an_unlisted_pair(exercise: ExerciseRecord, diagnosis: Diagnosis) -> bool:
    """Return whether two mistakes are named and at least one of them is a slip that nobody listed."""
    return len(diagnosis.known) > 1 and not {slip.id for slip in exercise.near}.isdisjoint(known.id for known in diagnosis.known)


_NAME = re.compile(r"(?<![\w.'])[A-Za-z_]\w*(?![\w'])")
_QUOTED = re.compile(r"`[^`]+`|\$[^$]+\$")


def _quotes_unseen_code(result: Result, answer: Any, diagnosis: Diagnosis) -> bool:
    """Return whether a slip's description quotes a name or number that neither the answer nor the exercise contains."""
    slips = [known.what for known in diagnosis.known if isinstance(known, NearSlip)]
    quoted = {name for slip in slips for code in slip.code for name in _NAME.findall(code)}
    source = source_of(answer) if slips else None
    if source is None:
        return False
    if not {number for slip in slips for number in _numbers_written(slip)} <= set(_constants(source)):
        return True
    answer_text = " ".join([*map(ast.unparse, source.trees.values()), str(getattr(answer, "__doc__", None) or "")])
    hint_code = " ".join(_QUOTED.findall(" ".join(result.exercise.hints)))
    visible = {*re.findall(r"\w+", answer_text), *re.findall(r"[A-Za-z]\w*?(?=_|\b)|\w+", hint_code), *EVERYWHERE}
    return not quoted <= visible | {name for case in result.exercise.cases for name in case.probe.inputs.items()}


def _numbers_written(slip: Fact) -> Iterator[float]:
    """Yield the number that, according to a slip, was written in place of another."""
    plain = plain_slip(slip)
    if plain.key == "slip.number":
        with contextlib.suppress(ValueError):
            yield float(str(plain["got"]))


def _constants(source: Source) -> Iterator[float]:
    """Yield the numbers written in a program, with their sign."""
    for tree in source.trees.values():
        for node in ast.walk(tree):
            sign, number = (-1, node.operand) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else (1, node)
            if isinstance(number, ast.Constant) and isinstance(number.value, int | float):
                with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
                    yield sign * float(number.value)


def _search(result: Result, answer: Any) -> Diagnosis | None:
    exercise, cases = result.exercise, result.cases
    diagnosis = find_repair(exercise, answer, cases) or diagnose_proven_part(exercise, cases)
    if diagnosis is not None and diagnosis.certain and diagnosis.complete:
        return diagnosis
    best = diagnosis or result.diagnosis
    first_steps = diagnose_first_wrong_steps(exercise, answer, cases)
    if best is None and (stopped := stopped_inside(exercise, answer, cases)) is not None:
        return stopped
    if best is None or first_steps is None:
        return diagnosis or first_steps
    if best.known and best is not diagnosis:
        return diagnosis  # a likely name says more than the line where the numbers become wrong
    return replace(best, findings=(*best.findings, Quoted("quoted", first_steps.findings)))


def judge_missing(record: ExerciseRecord) -> Result:
    """Return the verdict for a name that was never defined."""
    return judged(record, [Observation(failure=Failure("missing"))] * len(record.cases))


def judged(record: ExerciseRecord, observations: Sequence[Observation]) -> Result:
    """Return the verdict on these observations, with an explanation if the answer is wrong."""
    return explained(judge(record, observations))


def explained(result: Result) -> Result:
    """Return the same verdict with an explanation if the answer is wrong. This takes much longer than the verdict itself."""
    idle = result.failure is not None and result.failure.kind in ("blank", "missing")
    if not result.passed and not idle and not _is_vast(result):
        with best_effort(), np.errstate(all="ignore"):
            return replace(result, diagnosis=diagnose(result.exercise, result.cases))
    return result


def _is_vast(result: Result) -> bool:
    """Return whether a result is far larger than any expected one, or has so many parts that comparing it would take seconds.

    An array is one part, so only a list or dict has many. Comparing caches data for each length of result that occurs.
    """
    room = max(LARGE, LARGE_TIMES * max((_numbers(case.expected) for case in result.exercise.cases), default=0))
    observations = [case.observation for case in result.cases]
    return any(
        _numbers(observation) > room or (observation.value is not None and _has_many_parts(observation.value))
        for observation in observations
    )


def _numbers(observation: Observation) -> int:
    arrays = [*(observation.value.arrays if observation.value else ()), *observation.grads.values()]
    return sum(array.size for array in arrays if array is not None)


def _has_many_parts(value: EncodedValue) -> bool:
    return next(itertools.islice(value.leaves(), MAX_PARTS, None), None) is not None
