"""Two mistakes at once: an exercise's listed mistakes, and the answers that make two of them together.

In: an `Exercise`. Out: functions. A mistake can be listed as a whole answer, or as one step that is taken otherwise: another
setting of the exercise's `recipe` (`Instead`), other inputs (`Before`), something done to the right result (`After`). Steps
compose, whole answers do not: learners make two slips about as often as three learners make one, so steps are worth the while.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from autograder.judging.exercise import After, Before, Exercise, Instead, Made, Misconception

MOST_PAIRS = 120
Answer = Callable[..., Any]


def answer_of(exercise: Exercise, answer: Any) -> Answer:
    """The function that makes the mistake `answer` of `exercise`."""
    return _applied(exercise, answer, None)


def pairs(exercise: Exercise) -> Iterator[tuple[str, str, Answer]]:
    """Each pair of listed mistakes that can be made together: both ids, and a function that makes both."""
    composed = (
        (one.id, two.id, function)
        for first, second in itertools.combinations(exercise.misconceptions, 2)
        for one, two in _orders(first, second)
        if (function := _both(exercise, one.answer, two.answer)) is not None
    )
    yield from itertools.islice(composed, MOST_PAIRS)


def _orders(one: Misconception, two: Misconception) -> Iterator[tuple[Misconception, Misconception]]:
    """The orders in which two steps can be taken: both, where both come before the right computation, or both after it."""
    yield one, two
    if isinstance(one.answer, Before | After) and type(one.answer) is type(two.answer):
        yield two, one


def _set(exercise: Exercise, step: Instead) -> Answer:
    """The exercise's recipe with the settings of `step`."""
    recipe = exercise.recipe
    if recipe is None:
        raise ValueError(f"exercise {exercise.id!r}: Instead(...) sets the exercise's recipe, and it has none.")
    if not isinstance(recipe, Made):
        return lambda **inputs: recipe(**inputs, **step.of(**inputs))
    if step.depends:
        return lambda **inputs: recipe.factory(**step.of(**inputs))(**inputs)
    made: Answer = recipe.factory(**step.settings)
    return made


def apply_step(step: Before | After, to: Answer) -> Answer:
    """`to` with one step more, before or after it."""
    if isinstance(step, Before):
        return lambda **inputs: to(**{**inputs, **step.change(**inputs)})
    return lambda **inputs: step.change(to(**inputs), **inputs)


def _applied(exercise: Exercise, answer: Any, to: Answer | None) -> Answer:
    """The step `answer` taken in `to` (in the right answer where that is None); a whole answer takes the place of `to`."""
    if isinstance(answer, Instead):
        return _set(exercise, answer)
    to = exercise.reference if to is None else to
    if isinstance(answer, Before | After):
        return apply_step(answer, to)
    whole: Answer = answer
    return whole


def _both(exercise: Exercise, one: Any, two: Any) -> Answer | None:
    steps = [each for each in (one, two) if isinstance(each, Instead | Before | After)]
    whole = [each for each in (one, two) if each not in steps]
    if len(whole) == 2 or (whole and any(isinstance(step, Instead) for step in steps)):
        return None
    if isinstance(one, Instead) and isinstance(two, Instead):
        if set(one.settings) & set(two.settings):
            return None  # one setting cannot be wrong in two ways
        return _set(exercise, Instead(**one.settings, **two.settings))
    function: Answer | None = whole[0] if whole else None
    for step in sorted(steps, key=lambda step: (Instead, Before, After).index(type(step))):
        function = _applied(exercise, step, function)
    return function  # a class is never stepped into: `Before` and `After` are of functions
