"""What one submission may still take of the grader's time, over all its cells, exercises and attempts. Trusted side.

An endless loop costs its limit once. Who comes too late in a first short round is asked again alone, and all that need this share
some seconds: one slow answer gets its whole limit, ten endless ones a tenth each. What took its time in vain makes the next
first rounds shorter. So a loop in every exercise costs little more than a loop in one.

A class has a `Purse`: each submission has `OWN_S` of its own, which honest ones do not come near, and the rest of its limit from
what the class has left. So three hundred that all take what they can get keep the grader for half an hour, not for five.
"""

import threading
from dataclasses import dataclass

FIRST_S = 1.0  # the first round; honest answers take milliseconds
LEAST_FIRST_S = 0.25
SHARED_S = 5.0  # what the second rounds of all slow exercises have together
LEAST_SHARE_S = 0.5
LEAST_CELL_S = 1.0
OWN_S = 6.0  # for each submission, whatever others took
PURSE_S = 240.0  # for a class, and each of its workers
SHARE = 8  # a submission is lent at most this part of what is left


@dataclass
class Budget:
    """`left_s` seconds for a whole submission; `late` counts first rounds that were too short, `shared_s` is for the second."""

    left_s: float
    late: int = 0
    shared_s: float = SHARED_S
    lent_s: float = 0.0  # of `left_s`: goes back to the purse

    def spend(self, seconds: float) -> None:
        """Take `seconds` off."""
        self.left_s = max(0.0, self.left_s - seconds)

    def ran_out(self) -> None:
        """A cell ran out of time: its loop will most likely be asked about again, and that is paid for already."""
        self.late += 2
        self.shared_s = min(self.shared_s, SHARED_S / 2)

    @property
    def spent(self) -> bool:
        """Whether nothing is left to speak of."""
        return self.left_s < LEAST_FIRST_S

    def first(self, timeout_s: float) -> float:
        """The seconds for an exercise that would have `timeout_s`, in its first round."""
        return min(timeout_s, max(LEAST_FIRST_S, FIRST_S / float(2**self.late)), self.left_s)

    def second(self, timeout_s: float, waiting: int) -> float:
        """The seconds for it when it is asked again, alone; `waiting` exercises share what there is."""
        share = max(self.shared_s, timeout_s if self.shared_s == SHARED_S else 0.0) / max(1, waiting)
        return min(timeout_s, max(LEAST_SHARE_S, share), self.left_s)


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
