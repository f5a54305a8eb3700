"""Inputs that the tests of diagnosis draw."""

from typing import Any

from autograder import Draw


def tables(draw: Draw) -> dict[str, Any]:
    """Queries, keys and values of four different sizes."""
    n, m, d, v = draw.sizes(4)
    return {"Q": draw.normal(n, d), "K": draw.normal(m, d), "V": draw.normal(m, v)}


class Counter:
    """A class with a state, for an exercise."""

    def __init__(self) -> None:
        self.n = 0

    def add(self, k: int) -> int:
        self.n += k
        return self.n

    def reset(self) -> None:
        self.n = 0
