"""One attempt at an exercise, in the learner's own process: their object on every case, and the verdict."""

import ast
import contextlib
import inspect
import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autograder.diagnosis.diagnose import diagnose
from autograder.diagnosis.exact import NOT_ALL, partly, refused
from autograder.diagnosis.mending.departure import departure
from autograder.diagnosis.mending.in_words import MENDED
from autograder.diagnosis.mending.search import mend
from autograder.diagnosis.mending.written import written
from autograder.judging.judge import judge, judge_choice
from autograder.judging.observation import Failure, Observation
from autograder.judging.observe import observe_within
from autograder.judging.records import Diagnosis, ExerciseRecord, Result

MAX_PARTS = 1000
EVERYWHERE = {
    "np",
    "torch",
    "math",
    "F",
    "float",
    "int",
    "True",
    "False",
    "None",
    "not",
    "and",
    "or",
    "axis",
    "dim",
    "keepdims",
    "keepdim",
    "inf",
}


def check_answer(record: ExerciseRecord, answer: Any, *, mending: bool = True) -> Result:
    """`answer` on every case of `record`, within the exercise's time limit; `mending` says whether to search for a name."""
    if record.choices:
        return judge_choice(record, answer)
    left = record.timeout_s
    observations: list[Observation] = []
    for case in record.cases:
        seen = (
            observe_within(max(left, 0.05), answer, case.probe)
            if left > 0
            else Observation(failure=Failure("timeout", message="the time left"))
        )
        left -= seen.seconds
        observations.append(seen)
        if seen.failure is not None and seen.failure.kind in ("blank", "timeout"):
            observations += [Observation(failure=seen.failure)] * (len(record.cases) - len(observations))
            break
    result = judged(record, observations)
    if mending:
        mended(result, answer)
    return result


def mended(result: Result, answer: Any) -> None:
    """Where no name is certain yet: looks for what would make the answer right. Runs small changes of it, for a second or two."""
    found = result.diagnosis
    if result.passed or not result.exercise.mends or result.exercise.choices:
        return
    if found is not None and found.certain and found.known:
        if (beside := _beside_the_names(result, found, answer)) is not None:
            result.diagnosis = beside
            return
        if _unseen(result, answer, found):
            found = result.diagnosis = None  # what it quotes stands in no code that the learner can see
        elif not _is_a_story(result.exercise, found):
            return
        else:
            with contextlib.suppress(Exception):
                said = mend(result.exercise, answer, result.cases)
                if said is not None and said.certain and [known.id for known in said.known] == [MENDED]:
                    result.diagnosis = said  # one change of what is written says more than two slips that amount to it
            return
    with contextlib.suppress(Exception):  # an explanation is a courtesy: it may cost no mark
        result.diagnosis = _sought(result, answer) or found


def _beside_the_names(result: Result, found: Diagnosis, answer: Any) -> Diagnosis | None:
    """Where the parameters have other names than those that are asked for: what is to be said of the rest."""
    failures = [case.observation.failure for case in result.cases if not case.passed]
    if any(failure is None or "unexpected keyword argument" not in failure.message for failure in failures):
        return None
    asked = list(dict.fromkeys(name for case in result.exercise.cases for name in case.probe.inputs.items()))
    with contextlib.suppress(TypeError, ValueError):
        theirs = [name for name, own in inspect.signature(answer).parameters.items() if own.kind is own.POSITIONAL_OR_KEYWORD]
        renamed = dict(zip(asked, theirs, strict=False))
        if len(theirs) < len(asked) or any(name in asked and renamed.get(name) != name for name in theirs):
            return None  # which is which is not certain

        def by_place(**given: Any) -> Any:
            return answer(**{renamed[name]: value for name, value in given.items()})

        rest = check_answer(result.exercise, by_place, mending=False)
        if rest.passed:
            return replace(found, advice=f"{found.advice} Nothing else is wrong.")
        if rest.diagnosis is not None and rest.diagnosis.certain and rest.diagnosis.known:
            said, advice = (
                f"{found.headline} And beside that, {rest.diagnosis.headline[0].lower()}{rest.diagnosis.headline[1:]}",
                f"{found.advice} {rest.diagnosis.advice}",
            )
            return Diagnosis(said, advice, (*found.known, *rest.diagnosis.known))
    return None


def _is_a_story(exercise: ExerciseRecord, found: Diagnosis) -> bool:
    """Whether two mistakes are named, and one of them is a slip that nobody listed."""
    return len(found.known) > 1 and any(known.id in {slip.id for slip in exercise.near} for known in found.known)


_NAME = re.compile(r"(?<![\w.'])[A-Za-z_]\w*(?![\w'])")
_QUOTED = re.compile(r"`[^`]+`|\$[^$]+\$")


def _unseen(result: Result, answer: Any, found: Diagnosis) -> bool:
    """Whether a slip is told by a name that is neither the answer's nor the exercise's: one of another right program."""
    slips = {known.id for known in result.exercise.near}
    told = " ".join(known.says for known in found.known if known.id in slips)
    quoted = {name for code in _QUOTED.findall(told) for name in _NAME.findall(code)}
    source = written(answer) if quoted else None
    if source is None:
        return False
    theirs = " ".join([*map(ast.unparse, source.trees.values()), getattr(answer, "__doc__", None) or ""])
    shown = " ".join(_QUOTED.findall(" ".join(result.exercise.hints)))
    seen = {*re.findall(r"\w+", theirs), *re.findall(r"[A-Za-z]\w*?(?=_|\b)|\w+", shown), *EVERYWHERE}
    return not quoted <= seen | {name for case in result.exercise.cases for name in case.probe.inputs.items()}


def _sought(result: Result, answer: Any) -> Diagnosis | None:
    exercise, cases = result.exercise, result.cases
    said = mend(exercise, answer, cases) or refused(cases) or partly(exercise, cases)
    if said is not None and said.certain and not said.headline.endswith(NOT_ALL):
        return said
    found = said or result.diagnosis
    where = departure(exercise, answer, cases)
    if found is None or where is None:
        return said or where
    return replace(found, advice=f"{found.advice} {where.headline}")


def judge_missing(record: ExerciseRecord) -> Result:
    """The verdict where the name was never defined."""
    if record.choices:
        return judge_choice(record, None)
    return judged(record, [Observation(failure=Failure("missing"))] * len(record.cases))


def judged(record: ExerciseRecord, observations: Sequence[Observation]) -> Result:
    """The verdict on what was seen of an answer, with what explains it where it is wrong."""
    return explained(judge(record, observations))


def explained(result: Result) -> Result:
    """The same verdict, with what explains it where the answer is wrong; that takes much longer than the verdict."""
    idle = result.failure is not None and result.failure.kind in ("blank", "missing")
    if not result.passed and not idle and not any(_is_vast(case.observation) for case in result.cases):
        with contextlib.suppress(Exception), np.errstate(all="ignore"):  # an explanation is a courtesy: it may cost no mark
            result.diagnosis = diagnose(result.exercise, result.cases)
    return result


def _is_vast(seen: Observation) -> bool:
    """Whether a result has so many parts that to compare it with each known mistake would take seconds: no array has many."""
    return seen.value is not None and next(itertools.islice(seen.value.leaves(), MAX_PARTS, None), None) is not None
