"""`check("name")`: the instant check of a notebook. Returns a `Score`, which nbgrader reads as a number and people as a panel."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from autograder.authoring.course import CourseError, course_root, did_you_mean
from autograder.diagnosis import panel
from autograder.diagnosis.attempt import check_answer, judge_missing
from autograder.diagnosis.explain import Report, make_report
from autograder.judging import pack
from autograder.judging.records import ExerciseRecord, Result

if TYPE_CHECKING:
    from autograder.workspace.overview import Overview


class Score(float):
    """The points of one check. `repr` is the bare number (nbgrader parses it), `str` the text panel, HTML the rich one.

    A repr of anything but a number, or an HTML-only result, would make nbgrader award *full* marks.
    """

    report: Report

    def __new__(cls, report: Report) -> "Score":
        score = super().__new__(cls, report.score)
        score.report = report
        return score

    def __repr__(self) -> str:
        return float.__repr__(self)

    def __str__(self) -> str:
        return panel.to_text(self.report)

    def _repr_html_(self) -> str:
        return panel.to_html(self.report)


@overload
def check(exercise: str, answer: Any = None) -> Score: ...
@overload
def check() -> "Overview": ...
def check(exercise: str | None = None, answer: Any = None) -> "Score | Overview":
    """Check your answer to `exercise` (the name you defined) and show what is right, or which mistake it makes.

    Without `answer`, the name is looked up where `check` is called. Without a name, it shows your progress in the lesson.
    Nothing leaves this machine.

    Raises CourseError where no probe pack is beside the notebook or the name is not one of its exercises.
    """
    if exercise is None:
        from autograder.workspace.overview import overview  # sqlite is not needed before

        return overview(Path.cwd())
    return check_in(sys._getframe(1).f_globals, exercise, answer)


def check_in(namespace: Mapping[str, Any], exercise: str, answer: Any = None) -> Score:
    """`check`, with the names that the learner's notebook defines."""
    record = find_record(exercise)
    if answer is None:
        if exercise not in namespace:
            return _done(judge_missing(record))
        answer = namespace[exercise]
    return _done(check_answer(record, answer))


def find_record(exercise: str) -> ExerciseRecord:
    """The exercise's record from the pack beside the notebook (else from the course's own releases)."""
    packs = [pack.load(path) for path in find_packs()]
    for found in packs:
        if exercise in found.exercises:
            return found.exercises[exercise]
    if not packs:
        raise CourseError(
            f"check({exercise!r}): expected a file *{pack.SUFFIX} beside the notebook ({Path.cwd()}), found none. "
            "Open the notebook from its lesson's folder, or copy the folder again."
        )
    names = [name for found in packs for name in found.exercises]
    raise CourseError(f"check({exercise!r}): expected an exercise of this lesson.{did_you_mean(exercise, names)}")


def find_packs() -> list[Path]:
    """Packs in the working folder; in a clone, where there are none, those of the releases."""
    here = sorted(Path.cwd().glob(f"*{pack.SUFFIX}"))
    if here:
        return here
    try:
        return sorted((course_root() / "release").glob(f"*/*{pack.SUFFIX}"))
    except CourseError:
        return []


def _done(result: Result) -> Score:
    report = make_report(result)
    from autograder.workspace.progress import record  # sqlite is not needed before the first check

    record(Path.cwd(), result.exercise.id, report)
    return Score(report)
