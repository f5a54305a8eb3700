"""Budget the grader's time for one submission, over all its cells, exercises and attempts. Trusted side.

The seconds in a budget are the submission's own time (`autograder.sandbox.submission_time`), so they don't depend on what else
the machine is doing. The clock only bounds the whole, at `WALL_TIMES` that budget. An endless loop costs its limit once. An
exercise that doesn't answer within a short first round is asked again in a process of its own with the full limit. Once one
second round has used up its limit in vain, the remaining ones share `SHARED_S` seconds. So slow answers, even ten of them,
get the time they need, and a loop in every exercise costs little more than a loop in one.

A class has a `Purse`. Each submission has `OWN_S` seconds to itself, far more than an honest one needs, and borrows the rest
of its limit from the purse. If the loan is too small, the submission is run again with its full limit after everybody else
has been marked. The purse therefore decides only the order, and never how much time a submission gets in the end.
"""

import contextlib
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.sandbox import clock

FIRST_S = 1.0  # the first round; honest answers take milliseconds
LEAST_FIRST_S = 0.25
SHARED_S = 5.0  # shared by all second rounds once one of them was in vain
LEAST_SHARE_S = 0.5
LEAST_CELL_S = 1.0
OWN_S = 6.0  # for each submission, whatever others took
PURSE_S = 240.0  # in the purse of a class, for each of its workers
WALL_TIMES = 10  # the limit by the clock, as a multiple of a submission's own seconds, even if it always waits for a processor
SHARE = 4  # a submission borrows at most 1 / SHARE of what is left; for the first of its class, that covers its whole limit


@dataclass
class Budget:
    """The time left for one submission, in seconds.

    `left_s` covers the whole submission, and `late` counts first rounds that were too short. Second rounds share `shared_s`
    once one of them was `in_vain`. `until` is the clock time at which everything ends, set on first use. `starved` records
    that this clock alone cut something short. `untidy` records that cleaning up after the submission cost a worker, so the
    start of the next worker is charged to it.
    """

    left_s: float
    late: int = 0
    shared_s: float = SHARED_S
    lent_s: float = 0.0  # the part of `left_s` that goes back to the purse
    in_vain: bool = False
    until: float = math.inf
    starved: bool = False
    untidy: bool = False

    def start(self) -> None:
        """Start the clock unless it is already running."""
        if self.until == math.inf:
            self.until = clock.now() + WALL_TIMES * self.left_s

    def spend(self, seconds: float) -> None:
        """Subtract `seconds`."""
        self.left_s = max(0.0, self.left_s - seconds)

    def ran_out(self) -> None:
        """Record that a cell ran out of time. An exercise may run into the same loop, so later rounds get less time."""
        self.late += 2
        self.in_vain = True
        self.shared_s = min(self.shared_s, SHARED_S / 2)

    @property
    def spent(self) -> bool:
        """Return whether too little time is left to ask anything more."""
        return self.left_s < LEAST_FIRST_S or clock.now() > self.until

    def first(self, timeout_s: float) -> float:
        """Return the seconds for the first round of an exercise whose limit is `timeout_s`."""
        return min(timeout_s, max(LEAST_FIRST_S, FIRST_S / float(2**self.late)), self.left_s)

    def second(self, timeout_s: float, waiting: int) -> float:
        """Return the seconds for an exercise that is asked again, alone.

        Once a second round was in vain, the `waiting` exercises share what is left.
        """
        share = max(LEAST_SHARE_S, self.shared_s / max(1, waiting)) if self.in_vain else timeout_s
        return min(timeout_s, share, self.left_s)

    def second_took(self, seconds: float, *, in_vain: bool) -> None:
        """Record how long a second round took, and whether it was in vain."""
        if self.in_vain:
            self.shared_s = max(0.0, self.shared_s - seconds)
        self.in_vain = self.in_vain or in_vain


class Purse:
    """The time that a class may use beyond `OWN_S` per submission. Safe to use from several threads."""

    def __init__(self, seconds: float):
        self._lock, self.left_s = threading.Lock(), seconds

    def lend(self, limit_s: float) -> Budget:
        """Return a budget of at most `limit_s` seconds."""
        own = min(limit_s, OWN_S)
        with self._lock:
            lent = min(limit_s - own, self.left_s / SHARE)
            self.left_s -= lent
        return Budget(own + lent, lent_s=lent)

    @contextlib.contextmanager
    def loan(self, limit_s: float) -> Iterator[Budget]:
        """Lend a budget of at most `limit_s` seconds for the block, and take back what is unused even if the block raises."""
        budget = self.lend(limit_s)
        try:
            yield budget
        finally:
            self.take_back(budget)

    def take_back(self, budget: Budget) -> None:
        """Return the unused part of the loan in `budget`."""
        with self._lock:
            self.left_s += min(budget.left_s, budget.lent_s)


def shorter(cell_s: float) -> float:
    """Return the limit for each further cell after one has run out of time."""
    return min(cell_s, max(LEAST_CELL_S, cell_s / 4))
