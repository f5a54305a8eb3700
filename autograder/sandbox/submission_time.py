"""Measure the seconds that a submission itself spends, on a machine that others use too. Trusted side.

A submission's own time is the processor time of all its processes or, if that is longer, the elapsed time minus the time it
spent waiting for a processor or for the grader. So sleeping counts, and other programs on the machine don't. Processor time
comes from the control group, or from /proc if there is none. The kernel reports how long a process waited for a processor in
/proc/PID/schedstat.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from autograder.sandbox import clock

LOOK_S = 0.5  # shortest interval between two queries to the kernel
QUICK_S = 0.05  # shorter times are charged as they are, because a query takes some milliseconds


class Watched(Protocol):
    """A runner of submissions that can report what the kernel measures about them."""

    def cpu_s(self) -> float: ...

    def delays(self, first: int) -> dict[int, float]: ...


class OwnTime:
    """A stopwatch for a submission's own seconds. It starts at once.

    `first=2` measures the processes of the exercises, `first=1` also the one that runs the cells. `before` says how long
    each process had waited for a processor at the start; without it, the first reading counts as the start.
    """

    def __init__(self, watched: Watched, first: int, before: Mapping[int, float] | None = None):
        self._watched, self._first = watched, first
        self.delays: Mapping[int, float] | None = before
        self._before = before
        self._began, self._cpu, self._here = clock.now(), watched.cpu_s(), _here_s()

    def spent_s(self) -> float:
        """Return the submission's own seconds so far."""
        passed = clock.now() - self._began
        if passed < QUICK_S:
            return passed
        self.delays = self._watched.delays(self._first)
        if self._before is None:
            self._before = self.delays
        waited = max((delay - self._before.get(pid, 0.0) for pid, delay in self.delays.items()), default=0.0)
        return max(self.worked_s(), passed - waited - (_here_s() - self._here), 0.0)

    def worked_s(self) -> float:
        """Return the processor seconds so far."""
        return max(0.0, self._watched.cpu_s() - self._cpu)

    def deadline(self, limit_s: float, most: float) -> Callable[[], float]:
        """Return a function that says when `limit_s` own seconds will have passed at the earliest, and never later than `most`.

        The answer moves, so call it again and again.
        """
        looked, end = self._began, self._began + limit_s

        def until() -> float:
            nonlocal looked, end
            now = clock.now()
            if now >= min(end, looked + LOOK_S):
                looked, end = now, now + limit_s - self.spent_s()
            return min(end, most)

        return until


def _here_s() -> float:
    """Return how long this grader thread has itself waited for a processor, because the submission waits meanwhile.

    The thread's processor time counts as the submission's: it goes into reading replies, which a submission can make slow.
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
