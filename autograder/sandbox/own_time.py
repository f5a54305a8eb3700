"""The seconds that a submission spends of its own, on a machine that others use too. Trusted side.

A submission's own time is the processor time of all its processes, or, where that is longer, the time that passed less the
time for which it stood in line: for a processor, or for the grader. So sleeping counts, and what other programs do on the
machine doesn't. The control group says how much processor time was used, and /proc where there is none; how long a process
stood in line the kernel says in /proc/PID/schedstat.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from autograder.sandbox import clock

LOOK_S = 0.5  # how often the kernel is asked, at most
QUICK_S = 0.05  # what took no longer is charged as it is: to ask takes some milliseconds


class Watched(Protocol):
    """What runs a submission, and knows what the kernel says of it."""

    def cpu_s(self) -> float: ...

    def delays(self, first: int) -> dict[int, float]: ...


class OwnTime:
    """A stopwatch for a submission's own seconds, which starts at once.

    `first` 2 looks at the processes of the exercises, `first` 1 at the one that runs the cells too. `before` says how long each
    process had stood in line when it started; without it, that is asked at the first look.
    """

    def __init__(self, watched: Watched, first: int, before: Mapping[int, float] | None = None):
        self._watched, self._first = watched, first
        self.delays: Mapping[int, float] | None = before
        self._before = before
        self._began, self._cpu, self._here = clock.now(), watched.cpu_s(), _here_s()

    def spent_s(self) -> float:
        """The seconds up to now."""
        passed = clock.now() - self._began
        if passed < QUICK_S:
            return passed
        self.delays = self._watched.delays(self._first)
        if self._before is None:
            self._before = self.delays
        waited = max((delay - self._before.get(pid, 0.0) for pid, delay in self.delays.items()), default=0.0)
        return max(self.worked_s(), passed - waited - (_here_s() - self._here), 0.0)

    def worked_s(self) -> float:
        """The processor seconds among them."""
        return max(0.0, self._watched.cpu_s() - self._cpu)

    def deadline(self, limit_s: float, most: float) -> Callable[[], float]:
        """When `limit_s` will have passed, at the earliest, and never after `most`: to be asked again and again."""
        looked, end = self._began, self._began + limit_s

        def until() -> float:
            nonlocal looked, end
            now = clock.now()
            if now >= min(end, looked + LOOK_S):
                looked, end = now, now + limit_s - self.spent_s()
            return min(end, most)

        return until


def _here_s() -> float:
    """How long this thread of the grader has stood in line itself: the submission waits meanwhile.

    What the thread works is the submission's: it reads the replies, which may be made to take long.
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
