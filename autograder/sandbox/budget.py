"""What one submission may still take of the grader's time, over all its cells, exercises and attempts. Trusted side.

Seconds are the submission's own (`autograder.sandbox.own_time`), whatever else the machine does; the clock only bounds the whole,
at `WALL_TIMES` as much. An endless loop costs its limit once. Who comes too late in a first short round is asked again alone,
with the whole limit, until one has used up its limit in vain: from then on those that are left share some seconds. So one slow
answer, or ten, get what they need, and a loop in every exercise costs little more than a loop in one.

A class has a `Purse`: each submission has `OWN_S` of its own, which honest ones do not come near, and the rest of its limit from
what the class has left. Where that is not enough, the submission is asked again when everybody else is marked, with its whole
limit: the purse decides who comes first, and never what somebody gets.
"""

import math
import threading
from dataclasses import dataclass

from autograder.sandbox import clock

FIRST_S = 1.0  # the first round; honest answers take milliseconds
LEAST_FIRST_S = 0.25
SHARED_S = 5.0  # what second rounds have together once one was in vain
LEAST_SHARE_S = 0.5
LEAST_CELL_S = 1.0
OWN_S = 6.0  # for each submission, whatever others took
PURSE_S = 240.0  # for a class, and each of its workers
WALL_TIMES = 10  # times its own seconds: as long as a submission may take that stands in line all the time
SHARE = 4  # a submission is lent at most this part of what is left: all its seconds, if it is the first of its class


@dataclass
class Budget:
    """`left_s` seconds for a whole submission; `late` counts first rounds that were too short.

    `shared_s` is what second rounds have together once one was `in_vain`. `until` is when the whole ends by the clock, from the
    first use on; `starved` says that something was cut short by that clock alone. `untidy` says that what it left cost a worker,
    so that the start of the next comes off its own seconds.
    """

    left_s: float
    late: int = 0
    shared_s: float = SHARED_S
    lent_s: float = 0.0  # of `left_s`: goes back to the purse
    in_vain: bool = False
    until: float = math.inf
    starved: bool = False
    untidy: bool = False

    def start(self) -> None:
        """Let the clock run, unless it does already."""
        if self.until == math.inf:
            self.until = clock.now() + WALL_TIMES * self.left_s

    def spend(self, seconds: float) -> None:
        """Take `seconds` off."""
        self.left_s = max(0.0, self.left_s - seconds)

    def ran_out(self) -> None:
        """A cell ran out of time: its loop will most likely be asked about again, and that is paid for already."""
        self.late += 2
        self.in_vain = True
        self.shared_s = min(self.shared_s, SHARED_S / 2)

    @property
    def spent(self) -> bool:
        """Whether nothing is left to speak of."""
        return self.left_s < LEAST_FIRST_S or clock.now() > self.until

    def first(self, timeout_s: float) -> float:
        """The seconds for an exercise that would have `timeout_s`, in its first round."""
        return min(timeout_s, max(LEAST_FIRST_S, FIRST_S / float(2**self.late)), self.left_s)

    def second(self, timeout_s: float, waiting: int) -> float:
        """The seconds for it when it is asked again, alone; `waiting` exercises share what there is once one was in vain."""
        share = max(LEAST_SHARE_S, self.shared_s / max(1, waiting)) if self.in_vain else timeout_s
        return min(timeout_s, share, self.left_s)

    def second_took(self, seconds: float, *, in_vain: bool) -> None:
        """Remember what a second round took."""
        if self.in_vain:
            self.shared_s = max(0.0, self.shared_s - seconds)
        self.in_vain = self.in_vain or in_vain


class Purse:
    """What a class may take beyond `OWN_S` for each; used by several threads."""

    def __init__(self, seconds: float):
        self._lock, self.left_s = threading.Lock(), seconds

    def lend(self, limit_s: float) -> Budget:
        """A budget of up to `limit_s`."""
        own = min(limit_s, OWN_S)
        with self._lock:
            lent = min(limit_s - own, self.left_s / SHARE)
            self.left_s -= lent
        return Budget(own + lent, lent_s=lent)

    def take_back(self, budget: Budget) -> None:
        """Put back what was not used of `budget`."""
        with self._lock:
            self.left_s += min(budget.left_s, budget.lent_s)


def shorter(cell_s: float) -> float:
    """The seconds for each further cell once one ran out of time."""
    return min(cell_s, max(LEAST_CELL_S, cell_s / 4))
