"""Find a single factor or summand that relates all entries of two arrays, and name it."""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from autograder.diagnosis.finding import Fact, fact
from autograder.diagnosis.relations.same_array import Size, near
from autograder.judging.exercise import Tolerance
from autograder.judging.values import Array

CONSTANTS = (2.0, 4.0, 8.0, 3.0, 10.0, 16.0, 1000.0, 1024.0, 2.0**20, 1e6, 1e9, 2.0**30, math.pi, math.log(2), math.sqrt(2))


def factors(got: Array, want: Array, known: tuple[Size, ...], tolerance: Tolerance) -> Iterator[Fact]:
    """Yield facts about a single factor, or a single summand, for all entries."""
    little = max(1e-9, 1e3 * tolerance.atol)
    far = np.abs(want) > little
    vanishing = np.abs(got[far]).max(initial=0.0) <= little  # a result this small is close to any small multiple
    if far.any() and not vanishing and near(got[~far], want[~far], Tolerance(tolerance.rtol, max(tolerance.atol, 1e-6))):
        ratio = float(np.median((got / np.where(far, want, 1.0))[far]))
        if math.isfinite(ratio) and ratio not in (0.0, 1.0) and near(got, ratio * want, tolerance):
            yield from _factor(ratio, known, tolerance, want.size > 1)
    gap = float(np.median(got - want))
    if math.isfinite(gap) and gap != 0 and near(got, want + gap, tolerance):
        yield from _summand(gap, known, want.size > 1)


def _factor(ratio: float, known: tuple[Size, ...], tolerance: Tolerance, many: bool) -> Iterator[Fact]:
    """Name the ratio. Any two single numbers have some ratio, so for a single number only an exact match counts."""
    slack = 1e-4 + 20 * min(tolerance.rtol, 1e-5) if many else 1e-9
    if abs(ratio + 1) < slack:
        yield fact("relation.sign")
        return
    negative, ratio = ratio < 0, abs(ratio)

    def called(key: str, **parts: object) -> Fact:
        amount = fact(key, **parts)
        return fact("amount.minus", of=amount) if negative else amount

    def alike(value: float) -> bool:
        return value > 0 and abs(ratio / value - 1) < slack

    def times_or_over(ratio_of: float, key: str, **parts: object) -> Iterator[Fact]:
        if alike(ratio_of):
            yield _scaled("times", called(key, **parts), many)
        if alike(1 / ratio_of):
            yield _scaled("over", called(key, **parts), many)

    for constant in CONSTANTS:
        yield from times_or_over(constant, "amount.constant", value=constant)
    for size in known:
        for power, key in ((1.0, "amount.size"), (0.5, "amount.root"), (2.0, "amount.square")):
            yield from times_or_over(size.value**power, key, of=size.what)
    for size, constant in itertools.product(known, (2.0, 4.0, 0.5, 0.25)):
        yield from times_or_over(size.value * constant, "amount.multiple", constant=constant, of=size.what)
    for first, second in itertools.combinations(known, 2):
        yield from times_or_over(first.value * second.value, "amount.product", one=first.what, two=second.what)
        for above, below in ((first, second), (second, first)):
            if alike(above.value / below.value):
                yield _scaled("times", called("amount.ratio", one=above.what, two=below.what), many)
    if many:
        yield fact("relation.one_factor")


def _scaled(how: str, amount: Fact, many: bool) -> Fact:
    return fact(f"relation.{how}.every" if many else f"relation.{how}", amount=amount)


def _summand(gap: float, known: tuple[Size, ...], many: bool) -> Iterator[Fact]:
    numbers = [(value, fact("amount.constant", value=value)) for value in (1.0, 2.0)]
    for value, amount in [*((size.value, size.what) for size in known), *numbers]:
        if abs(abs(gap) - value) < 1e-6 * value:
            yield fact(f"relation.{'more' if gap > 0 else 'less'}{'.every' if many else ''}", amount=amount)
    if many:
        yield fact("relation.one_summand")
