"""Turn an exercise's listed mistakes into functions, and compose two mistakes into one wrong answer.

In: an `Exercise`. Out: functions. A mistake is listed as a whole wrong answer or as one wrong step: another setting of the
exercise's `recipe` (`Instead`), changed inputs (`Before`) or a changed result (`After`). Two steps can be composed, but two whole
answers usually cannot. For every three learners who make one mistake, about one makes two at once, so it pays to list steps.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from autograder.judging.exercise import After, Before, Exercise, Instead, Made

MOST_PAIRS = 300
Answer = Callable[..., Any]
Named = tuple[str, Any]


def answer_of(exercise: Exercise, answer: Any, to: Answer | None = None) -> Answer:
    """Return the function that makes the mistake `answer` in `exercise`.

    A step is applied to the function `to`, by default the reference; a whole answer or an `Instead` replaces it.
    """
    if isinstance(answer, Instead):
        if exercise.recipe is None:
            raise ValueError(f"exercise {exercise.id!r}: Instead(...) sets the exercise's recipe, and it has none.")
        return with_settings(exercise.recipe, program_of(exercise.recipe), answer)
    if isinstance(answer, Before | After):
        return apply_step(answer, exercise.reference if to is None else to)
    whole: Answer = answer
    return whole


def pairs(exercise: Exercise) -> Iterator[tuple[str, str, Answer]]:
    """Yield each pair of listed mistakes that can be made together: their two ids and a function that makes both."""
    composed = (
        (outer[0], inner[0], function)
        for first, second in itertools.combinations(exercise.misconceptions, 2)
        for left, right in itertools.product(first.answers().items(), second.answers().items())
        for outer, inner in _orders(left, right)
        if (function := _both(exercise, outer[1], inner[1])) is not None
    )
    yield from itertools.islice(composed, MOST_PAIRS)


def _orders(step: Named, other: Named) -> Iterator[tuple[Named, Named]]:
    """Yield the orders in which two steps can be taken: both orders if the steps are both `Before` or both `After`, else one."""
    yield step, other
    if isinstance(step[1], Before | After) and type(step[1]) is type(other[1]):
        yield other, step


def program_of(recipe: Any) -> Any:
    """Return the function that takes the settings of a recipe."""
    return recipe.factory if isinstance(recipe, Made) else recipe


def with_settings(recipe: Any, program: Any, step: Instead) -> Answer:
    """Return the answer that `program`, the function of `recipe` or an edit of it, makes with the settings of `step`."""
    if not isinstance(recipe, Made):
        return lambda **inputs: program(**inputs, **step.of(**inputs))
    if step.depends:
        return lambda **inputs: program(**step.of(**inputs))(**inputs)
    made: Answer = program(**step.settings)
    return made


def apply_step(step: Before | After, to: Answer) -> Answer:
    """Return the function `to` with one more step before or after it."""
    if isinstance(step, Before):
        return lambda **inputs: to(**{**inputs, **step.change(**inputs)})
    return lambda **inputs: step.change(to(**inputs), **inputs)


def _both(exercise: Exercise, outer: Any, inner: Any) -> Answer | None:
    steps = [mistake for mistake in (outer, inner) if isinstance(mistake, Instead | Before | After)]
    whole = [mistake for mistake in (outer, inner) if mistake not in steps]
    if len(whole) == 2:
        return _joined(outer, inner)
    if whole and any(isinstance(step, Instead) for step in steps):
        return None
    if isinstance(outer, Instead) and isinstance(inner, Instead):
        if set(outer.settings) & set(inner.settings):
            return None  # one setting cannot be wrong in two ways
        return answer_of(exercise, Instead(**outer.settings, **inner.settings))
    function: Answer | None = whole[0] if whole else None
    for step in sorted(steps, key=lambda step: (Instead, Before, After).index(type(step))):
        function = answer_of(exercise, step, function)
    return function  # `Before` and `After` wrap functions only, so a class comes back unchanged


def _joined(first: Any, second: Any) -> Answer | None:
    """Make a class with the changes that two classes make to a common base; None unless they change different methods."""
    if not isinstance(first, type) or not isinstance(second, type):
        return None
    base = next(kind for kind in first.__mro__ if issubclass(second, kind))
    if base in (object, first, second):
        return None
    changed = [{name for part in kind.__mro__[: kind.__mro__.index(base)] for name in _own(part)} for kind in (first, second)]
    return type(first.__name__, (first, second), {}) if not changed[0] & changed[1] else None


def _own(part: type) -> set[str]:
    return {name for name in vars(part) if not name.startswith("__") or name in ("__init__", "__call__")}
