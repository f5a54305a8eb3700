"""One factor, or one summand, for all entries; and what it is called."""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from autograder.diagnosis.related.relation import Relation, Size, near
from autograder.judging.exercise import Tolerance
from autograder.judging.values import Array

CONSTANTS = (2.0, 4.0, 8.0, 3.0, 10.0, 16.0, 1000.0, 1024.0, 2.0**20, 1e6, 1e9, 2.0**30, math.pi, math.log(2), math.sqrt(2))
EVERY = ("", ", in every entry")


def factors(got: Array, want: Array, known: tuple[Size, ...], tolerance: Tolerance) -> Iterator[Relation]:
    """One factor, or one summand, for all entries."""
    little = max(1e-9, 1e3 * tolerance.atol)
    far = np.abs(want) > little
    vanishing = np.abs(got[far]).max(initial=0.0) <= little  # near any small multiple
    if (
        far.any()
        and not vanishing
        and near(got[~far], want[~far], Tolerance(tolerance.rtol, max(tolerance.atol, 1e-6))) | (~far).all()
    ):
        ratio = float(np.median((got / np.where(far, want, 1.0))[far]))
        if math.isfinite(ratio) and ratio not in (0.0, 1.0) and near(got, ratio * want, tolerance):
            yield from _factor(ratio, known, tolerance, want.size > 1)
    gap = float(np.median(got - want))
    if math.isfinite(gap) and gap != 0 and near(got, want + gap, tolerance):
        yield from _summand(gap, known, want.size > 1)


def _factor(ratio: float, known: tuple[Size, ...], tolerance: Tolerance, many: bool) -> Iterator[Relation]:
    """What the ratio is called. A single number is any other one times something: only an exact ratio is one."""
    slack = 1e-4 + 20 * min(tolerance.rtol, 1e-5) if many else 1e-9
    if abs(ratio + 1) < slack:
        yield Relation("has the wrong sign", "Look for a minus too many, or a difference taken the other way round.")
        return
    sign = "minus " if ratio < 0 else ""
    ratio = abs(ratio)

    def alike(value: float) -> bool:
        return value > 0 and abs(ratio / value - 1) < slack

    for constant in CONSTANTS:
        shown = {math.pi: "π", math.log(2): "ln 2", math.sqrt(2): "√2", 2.0**20: "2^20", 2.0**30: "2^30"}.get(
            constant, f"{constant:g}"
        )
        if alike(constant):
            yield _times(many, sign + shown)
        if alike(1 / constant):
            yield _over(many, sign + shown)
    for size in known:
        for power, words in (
            (1.0, size.symbol),
            (0.5, f"the square root of {size.symbol}"),
            (2.0, f"the square of {size.symbol}"),
        ):
            if alike(size.value**power):
                yield _times(many, sign + words)
            if alike(size.value**-power):
                yield _over(many, sign + words)
    for size, constant in itertools.product(known, (2.0, 4.0, 0.5, 0.25)):
        if alike(size.value * constant):
            yield _times(many, f"{sign}{constant:g} times {size.symbol}")
        if alike(1 / (size.value * constant)):
            yield _over(many, f"{sign}{constant:g} times {size.symbol}")
    for one, two in itertools.combinations(known, 2):
        if alike(one.value * two.value):
            yield _times(many, f"{sign}{one.symbol} times {two.symbol}")
        if alike(1 / (one.value * two.value)):
            yield _over(many, f"{sign}{one.symbol} times {two.symbol}")
        if alike(one.value / two.value):
            yield _times(many, f"{sign}{one.symbol} over {two.symbol}")
        if alike(two.value / one.value):
            yield _times(many, f"{sign}{two.symbol} over {one.symbol}")
    if many:
        yield Relation(
            "is the right one times a number that is the same for all entries",
            "One factor is wrong, missing or there twice. Compare any one entry with your formula.",
        )


def _times(many: bool, what: str) -> Relation:
    return Relation(
        f"is {what} times the right one{EVERY[many]}",
        f"Is there a factor {what} that is not divided out, or that is there twice?",
    )


def _over(many: bool, what: str) -> Relation:
    return Relation(
        f"is the right one divided by {what}{EVERY[many]}",
        f"Is there a factor {what} missing, or do you divide by it once too often?",
    )


def _summand(gap: float, known: tuple[Size, ...], many: bool) -> Iterator[Relation]:
    for value, words in [*((size.value, size.symbol) for size in known), (1.0, "1"), (2.0, "2")]:
        if abs(abs(gap) - value) < 1e-6 * value:
            more = "more" if gap > 0 else "less"
            yield Relation(
                f"is {words} {more} than the right one{EVERY[many]}",
                "Off by a constant: what is counted once too often, or not at all?",
            )
    if many:
        yield Relation("differs from the right one by the same number in every entry", "A constant is added or left out.")
