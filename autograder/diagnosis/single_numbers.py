"""Describe an answer that is a single number: how close it has to be, and in which direction it is off."""

import numpy as np

from autograder.diagnosis.finding import Diagnosis, Fact, Remark, fact
from autograder.judging.exercise import Exercise
from autograder.judging.records import ExerciseRecord
from autograder.judging.values import Array

FEW = 100  # a smaller count can easily come from another one by a factor or by rounding


def precision(exercise: Exercise | ExerciseRecord) -> Fact:
    """Say how close an estimate has to be.

    >>> precision(ExerciseRecord("e", "Estimate", 1, [], (), ())).key
    'precision.exact'
    """
    percent = 100 * exercise.tolerance.rtol
    return fact("precision", percent=percent) if percent >= 0.1 else fact("precision.exact")


def is_few(want: Array) -> bool:
    """Return whether the expected value is a single small count."""
    return want.size == 1 and want.dtype.kind in "iu" and bool(abs(want.flat[0]) < FEW)


def diagnose_number(want: float, got: float, *, coarse: bool, few: bool = False, path: str = "") -> Diagnosis:
    """Return how far off a single number is, and in which direction. This needs no named mistake.

    For an estimate (`coarse`) the distance is rounded, because an exact factor would give the answer away. For a small count
    (`few`) only the direction is given. If there are several numbers, `path` says which one is meant.
    """
    if want * got < 0 and np.isfinite(got):
        return _describe("number.sign", path, got=float(f"{got:.4g}"))
    if want * got <= 0 or not np.isfinite(got):
        key = "number.infinite" if not np.isfinite(got) else "number.not_zero" if want == 0 else "number.zero"
        return _describe(key, path, got=float(f"{got:.4g}"))
    if few:
        return _describe("number.few.large" if got > want else "number.few.small", path)
    factor = max(want / got, got / want)
    side = "small" if abs(got) < abs(want) else "large"
    if coarse and factor < 1.5:
        far = fact("far.half")
    elif coarse or factor >= 1.2:
        far = fact("far.factor", factor=_coarsely(factor) if coarse else float(f"{factor:.3g}"))
    else:
        far = fact("far.share", share=float(f"{abs(got / want - 1):.2g}"))
    # a single factor explains a lot only if it is a whole number
    which = "any" if not coarse and abs(factor - round(factor)) > 1e-6 * factor else "factor"
    return _describe(f"number.{side}.{which}", path, far=far)


def _describe(key: str, path: str, **values: object) -> Diagnosis:
    which = fact("number.one_of", path=path) if path else fact("number.yours")
    return Diagnosis((Remark(fact(key, which=which, units="" if path else fact("number.units"), **values)),))


def _coarsely(factor: float) -> float:
    """Round to the nearest half, or to one digit from 5 on.

    >>> _coarsely(1.67), _coarsely(2.4), _coarsely(171.0)
    (1.5, 2.5, 200.0)
    """
    return round(2 * factor) / 2 if factor < 5 else float(f"{factor:.1g}")
