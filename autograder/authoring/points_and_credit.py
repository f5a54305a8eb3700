"""Combine a course's settings for marks: the points of exercises, and the share of them that a wrong answer keeps.

Authors state both beside the exercise (`points`, `outputs`, `keeps` of a misconception). A teacher overrides them in
course.toml, in the tables `[points]` and `[keeps]`, under these names:

==============================  ==============================================================================
``"03.sdpa"``                   in `[points]`, the points of exercise `sdpa` of lesson 03
``"03.sdpa.unscaled"``          in `[keeps]`, the share that an answer with this named mistake keeps
``"03.sdpa[1]"``                the share for the second output, if it is right in every case
``"03.sdpa.no_gradients"``      the share for one of the slips below, in this exercise
``"no_gradients"``              the same for every exercise of the course
``"named_mistake"``             the share, in every exercise, for a named mistake that has no share of its own
==============================  ==============================================================================
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from autograder.judging.exercise import AnyExercise, Exercise
from autograder.notebooks.lesson_names import LessonName

AS_LIST = "as_list"  # the right numbers in a list instead of an array
EXTRA_AXES = "extra_axes"  # the right numbers with extra axes of length 1
NO_GRADIENTS = "no_gradients"  # the right values, but gradients are missing or wrong
CHANGED_INPUTS = "changed_inputs"  # the right result, but an input was changed in place
AS_ARRAY = "as_array"  # the right number in an array or a tensor instead of a plain number
OTHER_ORDER = "other_order"  # the right outputs in another order
NAMED_MISTAKE = "named_mistake"  # exactly one named mistake, for which the authors set no share
SLIPS: dict[str, float] = {
    AS_LIST: 0.75,
    AS_ARRAY: 0.75,
    EXTRA_AXES: 0.6,
    NO_GRADIENTS: 0.5,
    CHANGED_INPUTS: 0.5,
    OTHER_ORDER: 0.5,
    NAMED_MISTAKE: 0.0,
}

_KEY = re.compile(r"(?P<lesson>\w+)\.(?P<exercise>[A-Za-z_]\w*)(?:\.(?P<name>\w+)|(?P<output>\[\d+\]))?")


def with_points(lesson: LessonName, exercises: Sequence[AnyExercise], points: Mapping[str, float]) -> tuple[AnyExercise, ...]:
    """Return `exercises` of `lesson` with the points that the course sets for them."""
    own = {match["exercise"]: value for match, value in _of(lesson, points)}
    return tuple(replace(exercise, points=own[exercise.id]) if exercise.id in own else exercise for exercise in exercises)


def shares_of(lesson: LessonName, exercises: Sequence[AnyExercise], keeps: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return each exercise's shares by mistake, slip or output. The course's shares override the authors'."""
    everywhere = SLIPS | {name: share for name, share in keeps.items() if name in SLIPS}
    every = {}
    for exercise in exercises:
        shares = dict(everywhere)
        if isinstance(exercise, Exercise):
            shares |= {mistake.id: mistake.keeps for mistake in exercise.misconceptions if mistake.keeps is not None}
            shares |= {f"[{place}]": share for place, share in enumerate(exercise.outputs)}
        every[exercise.id] = shares
    for match, share in _of(lesson, keeps):
        if match["exercise"] in every and (name := match["name"] or match["output"]):
            every[match["exercise"]][name] = share
    return every


def _of(lesson: LessonName, table: Mapping[str, float]) -> list[tuple[re.Match[str], float]]:
    """Return the entries of `table` that belong to `lesson`."""
    pairs = [(_KEY.fullmatch(key), value) for key, value in table.items()]
    return [(match, value) for match, value in pairs if match is not None and lesson.is_called(match["lesson"])]


def check_names(
    lesson: LessonName, exercises: Sequence[AnyExercise], points: Mapping[str, float], keeps: Mapping[str, float]
) -> None:
    """Raise ValueError if a table names something that `lesson` doesn't have, or has a key of an unknown form."""
    known = {exercise.id: exercise for exercise in exercises}
    for table, entries in (("points", points), ("keeps", keeps)):
        for key in entries:
            if _KEY.fullmatch(key) is None and not (table == "keeps" and key in SLIPS):
                form = '"03.exercise"' if table == "points" else '"03.exercise.mistake", "03.exercise[0]" or a slip'
                raise ValueError(f"[{table}]: expected a name like {form}, got {key!r}.{_near(key, SLIPS)}")
        for match, _ in _of(lesson, entries):
            if match["exercise"] not in known:
                raise ValueError(
                    f"[{table}]: expected an exercise of lesson {lesson.label}, got {match['exercise']!r}."
                    f"{_near(match['exercise'], known)}"
                )
            if table == "points" and (match["name"] or match["output"]):
                raise ValueError(f'[points]: expected a name like "{lesson.label}.{match["exercise"]}", got {match[0]!r}.')
            exercise = known[match["exercise"]]
            names = [mistake.id for mistake in exercise.misconceptions] if isinstance(exercise, Exercise) else []
            names += SLIPS
            if table == "keeps" and match["output"] is None and match["name"] not in names:
                raise ValueError(
                    f"[keeps]: expected a mistake, a slip or an output of {match['exercise']}, got {match['name']!r}."
                    f"{_near(match['name'] or '', names)}"
                )


def _near(word: str, options: Mapping[str, object] | Sequence[str]) -> str:
    near = get_close_matches(word, list(options), n=1)
    return f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(options)}."
