"""Make the report that a learner reads about hidden probes.

In: the verdict on hidden probes, which contains whatever the learner's code returned. `Findings` stands between verdict and
report and has no field for the learner's text or numbers. It says only which cases failed at which check, and which mistakes
from the exercise's own catalogue explain that. The report is made from the exercise and these findings alone.
"""

import enum
from dataclasses import dataclass, replace

from autograder.diagnosis.explain import Report, effort, name_of_check
from autograder.diagnosis.finding import Diagnosis, Manner, Matched, Remark, fact
from autograder.diagnosis.phrase import advice_of, headline_of, say
from autograder.judging.compare import CHECKS, score_of
from autograder.judging.records import ExerciseRecord, Known, NearSlip, Result


class Stop(enum.Enum):
    """Why a call gave no result."""

    ERROR = "error"
    TIMEOUT = "timeout"
    CRASH = "crash"


@dataclass(frozen=True)
class Findings:
    """Everything that may be said about an answer to hidden probes.

    `passed` has an entry for each case of the exercise. `case` is the index of the failing case on show, and `check` the index in
    `CHECKS` of the check that fails there. `mistakes` are indices into the exercise's `catalogue`.
    """

    passed: tuple[bool, ...]
    case: int = 0
    check: int = 0
    stop: Stop = Stop.ERROR
    mistakes: tuple[int, ...] = ()
    certain: bool = False


def catalogue(exercise: ExerciseRecord) -> tuple[Known | NearSlip, ...]:
    """Return the mistakes that the exercise's author listed, followed by the small slips made from right programs."""
    return (*exercise.known, *exercise.near)


def findings_of(result: Result) -> Findings:
    """Return what may be said about `result`."""
    passed = tuple(case.passed for case in result.cases)
    if result.worst is None:
        return Findings(passed)
    _, worst = result.worst
    places = {known.id: place for place, known in enumerate(catalogue(result.exercise))}
    named = [] if result.diagnosis is None else [places[known.id] for known in result.diagnosis.known if known.id in places]
    failure = worst.observation.failure
    return Findings(
        passed,
        case=next(place for place, case in enumerate(result.cases) if case is worst),
        check=CHECKS.index(worst.mismatch.check) if worst.mismatch is not None else 0,
        stop={"timeout": Stop.TIMEOUT, "crashed": Stop.CRASH}.get(failure.kind if failure else "", Stop.ERROR),
        mistakes=tuple(dict.fromkeys(named)),
        certain=result.diagnosis is not None and result.diagnosis.certain and bool(named),
    )


def with_mistakes_of(findings: Findings, other: Findings) -> Findings:
    """Return `findings` with the mistakes that `other` names; `other` is about the same answer on further hidden probes."""
    return replace(findings, mistakes=other.mistakes, certain=other.certain)


def report(exercise: ExerciseRecord, findings: Findings) -> Report:
    """Make the report on an answer to the hidden probes of `exercise`."""
    cases = tuple((case.name, bool(passed)) for case, passed in zip(exercise.cases, findings.passed, strict=True))
    score = score_of(exercise, findings.passed)
    if all(findings.passed):
        headline, effort_text = say(fact("hidden.pass")), effort(exercise)
        return Report("pass", exercise.title, score, exercise.points, headline, cases=cases, hidden=True, effort=effort_text)
    diagnosis = _diagnosis(exercise, findings)
    stopped = CHECKS[findings.check] == "runs"
    return Report(
        "part" if score > 0 else "fail",
        exercise.title,
        score,
        exercise.points,
        headline_of(diagnosis),
        advice_of(diagnosis),
        _detail(exercise, findings),
        cases=cases,
        hints=exercise.hints,
        hidden=True,
        known=diagnosis.known if diagnosis.certain else (),
        unknown=not diagnosis.known and not stopped,
        hedged=bool(diagnosis.known) and not diagnosis.certain,
        unfinished=stopped and findings.stop is Stop.TIMEOUT,
        effort=effort(exercise),
    )


def _diagnosis(exercise: ExerciseRecord, findings: Findings) -> Diagnosis:
    listed = catalogue(exercise)
    if names := tuple(listed[place] for place in findings.mistakes):
        manner = Manner.HIDDEN if findings.certain else Manner.HEDGED
        return Diagnosis((Matched(names, manner),), names, findings.certain)
    if CHECKS[findings.check] != "runs":
        return Diagnosis((Remark(fact("hidden.wrong")),))
    return Diagnosis((Remark(fact("stopped.timeout" if findings.stop is Stop.TIMEOUT else "stopped.error")),))


def _detail(exercise: ExerciseRecord, findings: Findings) -> str:
    check = CHECKS[findings.check]
    what = fact(f"hidden.stop.{findings.stop.value}") if check == "runs" else fact("hidden.check", check=name_of_check(check))
    return say(fact("hidden.detail", case=exercise.cases[findings.case].name, what=what))
