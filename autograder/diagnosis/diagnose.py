"""Which mistake was it? From the stored outputs alone, the first explanation that explains every failing case wins.

In: an exercise with the outputs of its known mistakes, and the judged cases of an answer. Out: a `Diagnosis`, or None.
In this order: a known mistake; a small slip in a right program; two known mistakes that were composed when the pack was made;
one mistake here and another there; a known mistake and a slip, or two slips; two factors or summands at once; a mistake for
each output of a tuple; a simple relation to the right result, or to a known mistake's; last, hedged, a known mistake that
explains most of what fails.
"""

from collections.abc import Sequence
from dataclasses import replace

from autograder.diagnosis.exact import exact
from autograder.diagnosis.mistakes import composed, here_and_there, most, near, one
from autograder.diagnosis.parts import by_output, mistake_and_relation, two_terms
from autograder.diagnosis.wrapping import unwrapped
from autograder.judging.records import CaseResult, Diagnosis, ExerciseRecord


def diagnose(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    """What explains the failing cases of an answer, or None."""
    changed = sorted({name for result in results for name in result.observation.mutated})
    found = _explained(exercise, results)
    if changed and (found is None or not found.certain):
        kept = [replace(result, observation=replace(result.observation, mutated=())) for result in results]
        inner = _explained(exercise, kept)
        if inner is not None and inner.certain and inner.known:
            names = " and ".join(f"`{name}`" for name in changed)
            return replace(
                inner,
                headline=f"{inner.headline} And you changed your input {names} in place.",
                advice=f"{inner.advice} Work on a copy of what you change.",
            )
    if found is None or not found.known or not (found.certain or _is_a_listed_error(exercise, results, found)):
        found = exact(exercise, results) or unwrapped(exercise, results, _explained) or found
    return found


def _explained(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    cases = list(zip(exercise.cases, results, strict=True))
    failing = [case for case in cases if not case[1].passed]
    if not failing or any(result.unknown_name for _, result in failing):  # a name that is not there comes before all else
        return None
    tolerance = exercise.tolerance
    found = (
        one(exercise, cases)
        or near(exercise, cases, alone=True)
        or composed(exercise, cases)
        or here_and_there(exercise, cases)
        or near(exercise, cases, alone=False)
    )
    if found is None and all(case[1].observation.failure is None for case in failing):
        found = two_terms(exercise, failing) or by_output(exercise, cases) or mistake_and_relation(exercise, failing, tolerance)
    return found or most(exercise, cases)


def _is_a_listed_error(exercise: ExerciseRecord, results: Sequence[CaseResult], found: Diagnosis) -> bool:
    """Whether what fails are exceptions that a listed mistake raises: its name says more than the exception itself does."""
    raised = all(result.passed or result.observation.failure is not None for result in results)
    return raised and len(found.known) == 1 and found.known[0].id in {known.id for known in exercise.known}
