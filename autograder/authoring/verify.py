"""Examine the grader: it must pass right answers, catch wrong ones, and call each mistake by its name.

For every exercise, the reference gets full marks, the blank gets zero, every misconception is caught **under its own name**,
and every accepted variant gets full marks. The mutation score is the share of misconceptions caught this way.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autograder.authoring.course import Lesson
from autograder.diagnosis.attempt import judged
from autograder.diagnosis.finding import Diagnosis
from autograder.diagnosis.phrase import say
from autograder.judging.call_answer import observe
from autograder.judging.combined_mistakes import answer_of
from autograder.judging.compare import judge_choice
from autograder.judging.exercise import AnyExercise, Instead, Misconception, Prediction
from autograder.judging.records import CaseRecord, ExerciseRecord, Result
from autograder.judging.values import EncodedValue
from autograder.packs import make_pack

HIDDEN_LIKE_SEEDS = (make_pack.VISIBLE_SEED, 20_240_229, 7)
MARGIN = 100.0
LIGHT, MANY, FEWER = 1.0, 100, 30  # a lesson whose pack takes less than LIGHT seconds gets MANY seeds, others get FEWER


@dataclass
class Verdict:
    """The result of `attn verify` for one exercise. `problems` is empty if all is well."""

    lesson: str
    exercise: str
    misconceptions: int
    caught: int
    variants: int
    variants_full: int
    blank_zero: bool
    problems: list[str] = field(default_factory=list)


def blank(*_: Any, **__: Any) -> Any:
    """Raise NotImplementedError as a released stub does, so that `verify` can check that a blank answer gets no points."""
    raise NotImplementedError  # on purpose: this is the blank answer


def seeds_of(lesson: Lesson) -> tuple[int, ...]:
    """Return the seeds for a thorough examination of the lesson: many for a light lesson, fewer for a heavy one."""
    begun = time.perf_counter()
    lesson.pack(seed=HIDDEN_LIKE_SEEDS[-1], naming="listed")
    count = MANY if time.perf_counter() - begun < LIGHT else FEWER
    return (*HIDDEN_LIKE_SEEDS, *range(100, 100 + count - len(HIDDEN_LIKE_SEEDS)))


def verify_lesson(lesson: Lesson, *, seeds: Sequence[int] = HIDDEN_LIKE_SEEDS) -> list[Verdict]:
    """Return a verdict on each exercise of the lesson, based on the visible pack and on packs like the hidden one."""
    return [verify_exercise(lesson.slug, exercise, seeds=seeds) for exercise in lesson.exercises()]


def verify_exercise(lesson: str, exercise: AnyExercise, *, seeds: Sequence[int] = HIDDEN_LIKE_SEEDS) -> Verdict:
    """Return a verdict on `exercise`: grade reference, blank, misconceptions and variants on the packs of all `seeds`."""
    if isinstance(exercise, Prediction):
        return _verify_prediction(lesson, exercise)
    verdict = Verdict(lesson, exercise.id, len(exercise.misconceptions), 0, len(exercise.variants), 0, True)
    programs = [(mistake, name, answer) for mistake in exercise.misconceptions for name, answer in mistake.answers().items()]
    caught = {m.id: True for m in exercise.misconceptions}
    full = {v.id: True for v in exercise.variants}
    for seed in seeds:
        where = f"seed {seed}"
        try:
            record = make_pack.make_record(lesson, exercise, seed, naming="listed")
        except ValueError as error:
            verdict.problems.append(f"{where}: {error}")
            caught, full = dict.fromkeys(caught, False), dict.fromkeys(full, False)
            continue
        reference = grade(record, exercise.reference)
        if not reference.passed:
            verdict.problems.append(f"{where}: the reference gets {reference.score:g}/{exercise.points:g}: {_why(reference)}")
        if exercise.recipe is not None and not grade(record, answer_of(exercise, Instead())).passed:
            verdict.problems.append(f"{where}: the recipe without settings is not right")
        if grade(record, blank).score != 0:
            verdict.blank_zero = False
            verdict.problems.append(f"{where}: a blank answer gets marks")
        for mistake, program, answer in programs:
            result = grade(record, answer_of(exercise, answer))
            diagnosis = result.diagnosis
            named = diagnosis is not None and [known.id for known in diagnosis.known] == [mistake.id] and _sure(record, diagnosis)
            if result.passed or not named:
                caught[mistake.id] = False
                name = "+".join(known.id for known in diagnosis.known) if diagnosis and diagnosis.known else "nothing"
                verdict.problems.append(f"{where}: {program!r} gets {result.score:g}/{exercise.points:g} under the name {name!r}")
            elif (margin := max(_margin(record, case, program) for case in record.cases)) < MARGIN:
                verdict.problems.append(f"{where}: {program!r} differs by only {margin:.0f}x the tolerance (want {MARGIN:.0f}x)")
        for mistake in exercise.misconceptions:
            if not mistake.raises and (raised := _always_raised(record, mistake)) is not None:
                verdict.problems.append(f"{where}: {mistake.id!r} only ever raises ({raised}): mend it, or declare raises=True")
        for variant in exercise.variants:
            result = grade(record, variant.answer)
            if not result.passed:
                full[variant.id] = False
                verdict.problems.append(
                    f"{where}: variant {variant.id!r} gets {result.score:g}/{exercise.points:g}: {_why(result)}"
                )
    verdict.caught, verdict.variants_full = sum(caught.values()), sum(full.values())
    return verdict


def grade(record: ExerciseRecord, answer: Any) -> Result:
    """Judge `answer` on every case of `record`, in this process."""
    return judged(record, [observe(answer, case.probe) for case in record.cases])


def _always_raised(record: ExerciseRecord, mistake: Misconception) -> str | None:
    """Return the exception that a mistake raises in every case in which it shows, or None."""
    observed = [case.mistakes[name] for case in record.cases for name in mistake.answers() if name in case.mistakes]
    failures = [observation.failure for observation in observed if observation.failure is not None]
    return f"{failures[0].type}: {failures[0].message}" if failures and len(failures) == len(observed) else None


def _sure(record: ExerciseRecord, diagnosis: Diagnosis) -> bool:
    """Return whether a name is as certain as it can be. A mistake that only exceptions show is never certain."""
    name = diagnosis.known[0].id
    stored = [case.mistakes[name] for case in record.cases if name in case.mistakes]
    return diagnosis.certain or all(observation.failure is not None for observation in stored)


def _verify_prediction(lesson: str, prediction: Prediction) -> Verdict:
    verdict = Verdict(lesson, prediction.id, 0, 0, 0, 0, blank_zero=judge_choice(prediction, None).score == 0)
    if not all(judge_choice(prediction, choice).passed for choice in prediction.choices):
        verdict.problems.append("a valid choice does not get full marks")
    return verdict


def _margin(record: ExerciseRecord, case: CaseRecord, mistake: str) -> float:
    """Return by how many times the tolerance the mistake's arrays differ from the expected ones on this case."""
    observed = case.mistakes.get(mistake)
    if observed is None:
        return 0.0
    want_value, want_grads = case.expected.value, {n: g for n, g in case.expected.grads.items() if g is not None}
    if observed.failure is not None or observed.value is None or want_value is None or observed.mutated:
        return float("inf")
    if _exact(want_value) != _exact(observed.value):
        return float("inf")  # a count, flag or word beside the arrays differs
    grads = [(want, got) for name, want in want_grads.items() if (got := observed.grads.get(name)) is not None]
    if len(grads) < len(want_grads) or len(want_value.arrays) != len(observed.value.arrays):
        return float("inf")
    pairs = [*zip(want_value.arrays, observed.value.arrays, strict=True), *grads]
    if not pairs:
        return float("inf")  # plain scalars: no arrays to measure
    worst = 0.0
    for want, got in pairs:
        if (
            want.shape != got.shape
            or want.dtype.kind != got.dtype.kind
            or want.dtype.itemsize > got.dtype.itemsize
            or (want.dtype == np.float16 and got.dtype != np.float16)  # 16 bits are required
            or want.dtype.kind not in "fc"
        ):
            return float("inf")
        with np.errstate(invalid="ignore", over="ignore"):
            ratio = np.abs(got - want) / (record.tolerance.atol + record.tolerance.rtol * np.abs(want))
        worst = max(worst, float(np.nan_to_num(ratio, nan=np.inf).max(initial=0.0)))
    return worst


def _exact(value: EncodedValue) -> list[tuple[str, Any]]:
    """Return the leaves that are either right or wrong, with nothing in between: integers, booleans, text, None."""
    return [(path, leaf.content) for path, leaf in value.leaves() if not isinstance(leaf.content, float | np.ndarray)]


def _why(result: Result) -> str:
    shown = result.worst
    if shown is None or shown[1].mismatch is None:
        return "no failing case"
    return f"case {shown[1].name!r}: {say(shown[1].mismatch.what)}"
