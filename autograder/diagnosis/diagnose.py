"""Find the mistake behind the failing cases. The first explanation that covers all of them wins.

In: an exercise with the outputs of its known mistakes, and the judged cases of an answer. Out: a `Diagnosis`, or None.
The order is: a known mistake; a small slip in a right program; two known mistakes that were composed when the pack was made;
two mistakes that each explain some of the cases; a known mistake and a slip, or two slips; a mistake for each output of a
tuple; and last, hedged, a known mistake that explains most of what fails.
"""

from collections.abc import Sequence
from dataclasses import replace

from autograder.diagnosis.by_output import by_output
from autograder.diagnosis.finding import Added, Also, Diagnosis, Finding, error_of
from autograder.diagnosis.from_checks import PartialFinding, diagnose_from_checks, partial_findings, results_without
from autograder.diagnosis.known_mistakes import (
    listed_matches,
    match_composed,
    match_here_and_there,
    match_listed,
    match_most,
    match_unlisted,
)
from autograder.diagnosis.result_structure import diagnose_unwrapped
from autograder.judging.records import CaseResult, ExerciseRecord


def diagnose(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    """Return what explains the failing cases of an answer, or None."""
    diagnosis = _explained(exercise, results)
    parts = list(partial_findings(exercise, results))
    if diagnosis is None or not diagnosis.certain or not diagnosis.known:
        remainder = results_without(exercise, results, parts)
        inner = _explained(*remainder) if parts else None
        if inner is not None and inner.certain and not _has_rivals(*remainder):
            unsaid = [part for part in parts if part.places or not part.implied_by(exercise, results, inner.known)]
            return _with_parts(exercise, results, inner, unsaid)
    else:
        unsaid = [part for part in parts if not part.implied_by(exercise, results, diagnosis.known)]
        diagnosis = _with_parts(exercise, results, diagnosis, unsaid)
    if diagnosis is None or not diagnosis.known or not (diagnosis.certain or _is_a_listed_error(exercise, results, diagnosis)):
        diagnosis = diagnose_from_checks(exercise, results) or diagnose_unwrapped(exercise, results, _explained) or diagnosis
    return diagnosis


def _has_rivals(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> bool:
    """Return whether several listed mistakes do what was observed. With fewer cases, two different mistakes may look the same."""
    return len(list(listed_matches(exercise, list(zip(exercise.cases, results, strict=True))))) > 1


_ERRORS = ("exact.raised", "exact.stopped.known")


def _with_parts(
    exercise: ExerciseRecord, results: Sequence[CaseResult], diagnosis: Diagnosis, parts: Sequence[PartialFinding]
) -> Diagnosis:
    """Return the diagnosis with the proven `parts` that its mistake leaves unsaid.

    An error in the case on show comes first if Python's message explains it.
    """
    proofs = tuple(part.proof for part in parts)
    first = next((part.proof for part in parts if part.proof.key in _ERRORS and part.shown(results)), None)
    findings: tuple[Finding, ...] = (*diagnosis.findings, *(Also(proof) for proof in proofs if proof is not first))
    if first is not None:
        findings = (error_of(first), Added(findings))
    # a failure that occurs only on another device does not name a mistake in the numbers
    named = tuple(part.proof for part in parts if not _is_of_the_device(exercise, part))
    return replace(diagnosis, findings=findings, known=diagnosis.known or named)


def _is_of_the_device(exercise: ExerciseRecord, part: PartialFinding) -> bool:
    return bool(part.places) and all(exercise.cases[place].probe.elsewhere for place in part.places)


def _explained(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    cases = list(zip(exercise.cases, results, strict=True))
    failing = [case for case in cases if not case[1].passed]
    if not failing or any(result.unknown_name for _, result in failing):  # an unknown name is reported before anything else
        return None
    diagnosis = (
        match_listed(exercise, cases)
        or match_unlisted(exercise, cases, single=True)
        or match_composed(exercise, cases)
        or match_here_and_there(exercise, cases)
        or match_unlisted(exercise, cases, single=False)
    )
    if diagnosis is None and all(case[1].observation.failure is None for case in failing):
        diagnosis = by_output(exercise, cases)
    return diagnosis or match_most(exercise, cases)


def _is_a_listed_error(exercise: ExerciseRecord, results: Sequence[CaseResult], diagnosis: Diagnosis) -> bool:
    """Return whether every failing case raises, and one listed mistake explains that: it says more than the exception does."""
    raised = all(result.passed or result.observation.failure is not None for result in results)
    return raised and len(diagnosis.known) == 1 and diagnosis.known[0].id in {known.id for known in exercise.known}
