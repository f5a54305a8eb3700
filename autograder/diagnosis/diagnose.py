"""Find the mistake behind the failing cases. The first explanation that covers all of them wins.

In: an exercise with the outputs of its known mistakes, and the judged cases of an answer. Out: a `Diagnosis`, or None.
In this order: a known mistake; a small slip in a right program; two known mistakes that were composed when the pack was made;
one mistake here and another there; a known mistake and a slip, or two slips; a mistake for each output of a tuple; last,
hedged, a known mistake that explains most of what fails.
"""

from collections.abc import Sequence
from dataclasses import replace

from autograder.diagnosis.by_output import by_output
from autograder.diagnosis.finding import Added, Also, Diagnosis, Finding, error_of
from autograder.diagnosis.from_checks import PartialFinding, diagnose_from_checks, partial_findings, results_without
from autograder.diagnosis.known_mistakes import composed, here_and_there, listed_matches, match_listed, match_most, match_unlisted
from autograder.diagnosis.result_structure import unwrapped
from autograder.judging.records import CaseResult, ExerciseRecord


def diagnose(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    """Return what explains the failing cases of an answer, or None."""
    found = _explained(exercise, results)
    parts = list(partial_findings(exercise, results))
    if found is None or not found.certain or not found.known:
        kept = results_without(exercise, results, parts)
        inner = _explained(*kept) if parts else None
        if inner is not None and inner.certain and not _has_rivals(*kept):
            seen = [part for part in parts if part.places or not part.told_by(exercise, results, inner.known)]
            return _beside(exercise, results, inner, seen)
    else:
        found = _beside(exercise, results, found, [part for part in parts if not part.told_by(exercise, results, found.known)])
    if found is None or not found.known or not (found.certain or _is_a_listed_error(exercise, results, found)):
        found = diagnose_from_checks(exercise, results) or unwrapped(exercise, results, _explained) or found
    return found


def _has_rivals(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> bool:
    """Return whether several listed mistakes do what was observed. With fewer cases, two different mistakes may look the same."""
    return len(list(listed_matches(exercise, list(zip(exercise.cases, results, strict=True))))) > 1


_ERRORS = ("exact.raised", "exact.stopped.known")


def _beside(
    exercise: ExerciseRecord, results: Sequence[CaseResult], found: Diagnosis, parts: Sequence[PartialFinding]
) -> Diagnosis:
    """Add what the named mistake leaves unsaid. An error in the case on show comes first if Python says what it is."""
    beside = tuple(part.said for part in parts)
    first = next((part.said for part in parts if part.said.key in _ERRORS and part.shown(results)), None)
    findings: tuple[Finding, ...] = (*found.findings, *(Also(said) for said in beside if said is not first))
    if first is not None:
        findings = (error_of(first), Added(findings))
    # what goes wrong only on another device names no mistake in the numbers
    named = tuple(part.said for part in parts if not _is_of_the_device(exercise, part))
    return replace(found, findings=findings, known=found.known or named)


def _is_of_the_device(exercise: ExerciseRecord, part: PartialFinding) -> bool:
    return bool(part.places) and all(exercise.cases[place].probe.elsewhere for place in part.places)


def _explained(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    cases = list(zip(exercise.cases, results, strict=True))
    failing = [case for case in cases if not case[1].passed]
    if not failing or any(result.unknown_name for _, result in failing):  # an unknown name is reported before anything else
        return None
    found = (
        match_listed(exercise, cases)
        or match_unlisted(exercise, cases, single=True)
        or composed(exercise, cases)
        or here_and_there(exercise, cases)
        or match_unlisted(exercise, cases, single=False)
    )
    if found is None and all(case[1].observation.failure is None for case in failing):
        found = by_output(exercise, cases)
    return found or match_most(exercise, cases)


def _is_a_listed_error(exercise: ExerciseRecord, results: Sequence[CaseResult], found: Diagnosis) -> bool:
    """Return whether a listed mistake raises the exceptions that fail, because its name says more than the exception does."""
    raised = all(result.passed or result.observation.failure is not None for result in results)
    return raised and len(found.known) == 1 and found.known[0].id in {known.id for known in exercise.known}
