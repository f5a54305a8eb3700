"""Draw each student's hidden inputs from the course's secret, the lesson and the student's name.

In: a lesson's exercises and its hidden pack, which the class shares. Out: the same records with the student's own cases.
Knowing one student's inputs doesn't help another, and a student who is graded again gets the same inputs. The reference
computes the expected outputs here, in the trusted process. Mistakes are looked up in the class's pack, because running every
listed mistake for every student would take longer than grading.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autograder.judging.exercise import AnyExercise, Exercise
from autograder.judging.records import CaseRecord, ExerciseRecord
from autograder.packs import make_pack, pack_file

SLOW = 0.25  # if an exercise's `search` (the share of programs that the build tries) is smaller, its reference is slow
POOL = 8  # for a slow exercise, a class shares this many draws, and each case of a student comes from one of them
Shares = Mapping[str, Mapping[str, float]]
TRIES = 3  # seeds to try if the reference cannot answer what was drawn


class HiddenDraws:
    """Draws each student's hidden cases for the `exercises` of `lesson`. `common` is the pack that all students share.

    `shares` says for which mistakes an answer keeps points (`credit`). Only these are looked for on the student's own inputs.
    """

    def __init__(
        self, lesson: str, exercises: Sequence[AnyExercise], secret: str, common: pack_file.Pack, shares: Shares | None = None
    ):
        self._lesson, self._secret, self._common = lesson, secret, common
        self._exercises = []
        for exercise in exercises:
            if isinstance(exercise, Exercise):  # a draw leaves out the other mistakes, because they take most of the time
                kept = (shares or {}).get(exercise.id, {})
                mistakes = tuple(mistake for mistake in exercise.misconceptions if mistake.id in kept)
                self._exercises.append(replace(exercise, misconceptions=mistakes))
        self._pool: dict[tuple[str, int], list[CaseRecord]] = {}

    def of(self, student: str) -> dict[str, ExerciseRecord]:
        """Return the records by which `student` is marked."""
        common = self._common.in_code
        return {each.id: replace(common[each.id], cases=self._cases(each, student)) for each in self._exercises}

    def _cases(self, exercise: Exercise, student: str) -> list[CaseRecord]:
        if exercise.search >= SLOW:
            return self._drawn(exercise, f"student\0{student}")
        picks = hashlib.sha256(f"{self._secret}\0{self._lesson}\0{exercise.id}\0{student}".encode()).digest()
        return [self._pooled(exercise, picks[place % len(picks)] % POOL)[place] for place, _ in enumerate(exercise.cases)]

    def _pooled(self, exercise: Exercise, number: int) -> list[CaseRecord]:
        key = (exercise.id, number)
        if key not in self._pool:
            self._pool[key] = self._drawn(exercise, f"pool\0{number}")
        return self._pool[key]

    def _drawn(self, exercise: Exercise, whose: str) -> list[CaseRecord]:
        for attempt in range(TRIES):
            seed = make_pack.seed_from(self._secret, f"{self._lesson}\0{whose}\0{attempt}")
            try:
                return make_pack.make_record(self._lesson, exercise, seed, naming="listed").cases
            except ValueError:  # the reference cannot answer this draw; `attn build` would have refused the seed
                continue
        return self._common.in_code[exercise.id].cases
