"""What is said of an answer that is a single number: how near it has to be, and to which side it is off."""

import numpy as np

from autograder.diagnosis.finding import Diagnosis, Fact, Remark, fact
from autograder.judging.exercise import Exercise
from autograder.judging.records import ExerciseRecord


def precision(exercise: Exercise | ExerciseRecord) -> Fact:
    """How near an estimate has to come.

    >>> precision(ExerciseRecord("e", "Estimate", 1, [], (), ())).key
    'precision.exact'
    """
    percent = 100 * exercise.tolerance.rtol
    return fact("precision", percent=percent) if percent >= 0.1 else fact("precision.exact")


def off(want: float, got: float, *, coarse: bool, few: bool = False, path: str = "") -> Diagnosis:
    """How far off a single number is, and to which side: that much can be said without a name.

    Of an estimate it is said coarsely, or the next try would be a multiplication; of a `few` things counted not at all.
    `path` says which number it is, where there are several.
    """
    if want * got < 0 and np.isfinite(got):
        return _said("number.sign", path, got=float(f"{got:.4g}"))
    if want * got <= 0 or not np.isfinite(got):
        key = "number.infinite" if not np.isfinite(got) else "number.not_zero" if want == 0 else "number.zero"
        return _said(key, path, got=float(f"{got:.4g}"))
    if few:
        return _said("number.few.large" if got > want else "number.few.small", path)
    factor = max(want / got, got / want)
    side = "small" if abs(got) < abs(want) else "large"
    if coarse and factor < 1.5:
        far = fact("far.half")
    elif coarse or factor >= 1.2:
        far = fact("far.factor", factor=_coarsely(factor) if coarse else float(f"{factor:.3g}"))
    else:
        far = fact("far.share", share=float(f"{abs(got / want - 1):.2g}"))
    # no whole number of times: one factor explains little
    which = "any" if not coarse and abs(factor - round(factor)) > 1e-6 * factor else "factor"
    return _said(f"number.{side}.{which}", path, far=far)


def _said(key: str, path: str, **values: object) -> Diagnosis:
    which = fact("number.one_of", path=path) if path else fact("number.yours")
    return Diagnosis((Remark(fact(key, which=which, units="" if path else fact("number.units"), **values)),))


def _coarsely(factor: float) -> float:
    """To the next half, or one digit.

    >>> _coarsely(1.67), _coarsely(2.4), _coarsely(171.0)
    (1.5, 2.5, 200.0)
    """
    return round(2 * factor) / 2 if factor < 5 else float(f"{factor:.1g}")
