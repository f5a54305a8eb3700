"""What is said of an answer that is a single number: how near it has to be, and to which side it is off."""

import numpy as np

from autograder.judging.exercise import Exercise
from autograder.judging.records import Diagnosis, ExerciseRecord


def precision(exercise: Exercise | ExerciseRecord) -> str:
    """How near an estimate has to come.

    >>> precision(Exercise("e", "Estimate", 1, choices={"a": "so"}))
    'exactly'
    """
    percent = 100 * exercise.tolerance.rtol
    return f"to within {percent:g} %" if percent >= 0.1 else "exactly"


def off(want: float, got: float, *, coarse: bool, few: bool = False) -> Diagnosis:
    """How far off a single number is, and to which side: that much can be said without a name.

    Of an estimate it is said coarsely, or the next try would be a multiplication; of a `few` things counted not at all.
    """
    if want * got < 0 and np.isfinite(got):
        return Diagnosis(
            f"Your number, {got:.4g}, has the other sign than the right one.", "Where does a sign first turn that should not?"
        )
    if want * got <= 0 or not np.isfinite(got):
        return Diagnosis(
            f"Your number, {got:.4g}, cannot be: {_why(want, got)}.", "Which step of yours first goes out of bounds?"
        )
    factor = max(want / got, got / want)
    if coarse:
        far = "but by less than a half" if factor < 1.5 else f"by a factor of about {_coarsely(factor):g}"
    else:
        far = f"by a factor of about {factor:.3g}" if factor >= 1.2 else f"by about {abs(got / want - 1):.2g} of the right one"
    if few:
        side = "large" if got > want else "small"
        return Diagnosis(
            f"Your number is too {side}.", "Which step is the first that is not what you expect? Take each with its unit."
        )
    side = "small" if abs(got) < abs(want) else "large"
    missing = (
        "Which factor, or which part, is missing? (Or is it the part that you divide by that is too large?)"
        if side == "small"
        else "What is counted too often, or should not be counted? (Or is it the part that you divide by that is too small?)"
    )
    if not coarse and abs(factor - round(factor)) > 1e-6 * factor:  # no whole number of times: one factor explains little
        missing = "Which step is the first that is not what you expect?"
    return Diagnosis(f"Your number is too {side}, {far}.", f"{missing} Take each step with its unit.")


def _coarsely(factor: float) -> float:
    """To the next half, or one digit.

    >>> _coarsely(1.67), _coarsely(2.4), _coarsely(171.0)
    (1.5, 2.5, 200.0)
    """
    return round(2 * factor) / 2 if factor < 5 else float(f"{factor:.1g}")


def _why(want: float, got: float) -> str:
    if not np.isfinite(got):
        return "it is not finite"
    return "the right one is 0" if want == 0 else "it is 0"
