"""What the cases of this lesson draw: positions that are unequal, offset and gappy, and orders that are no mere swaps."""

import numpy as np

from autograder import Draw

BASES = (50, 80, 120, 200)  # small ones: with few pairs, a base of 10000 would leave the slow pairs standing still


def positions(draw: Draw, n: int, *, first: int = 2, last: int = 9, gap: int = 3) -> np.ndarray:
    """`n` rising integers: the first in [first, last], each next one 1 to `gap` further on."""
    steps = draw.rng.integers(1, gap + 1, n)
    steps[0] = draw.integer(first, last)
    return np.cumsum(steps)


def order(draw: Draw, n: int) -> np.ndarray:
    """A permutation of 0 … n-1 that is not its own inverse, so that the two can be told apart."""
    while True:
        found = draw.rng.permutation(n)
        if not np.array_equal(found[found], np.arange(n)):
            return found


def base(draw: Draw) -> float:
    """A base unlike the default, with something added so that no two packs agree."""
    return float(draw.choice(BASES) + draw.integer(0, 19))
