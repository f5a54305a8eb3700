"""A clock for deadlines that rests while the grader itself does not get to run.

Wall clock charges a student for what another did: for seconds in which this process parsed somebody's hostile text (one long
regular expression holds every thread), was stopped (Ctrl-Z), or starved on a busy machine. This clock is wound by a thread
of its own, in small steps; where that thread does not run, time stands still, and so do all deadlines.
"""

import threading
import time

STEP_S = 0.05
MOST_S = 0.25  # what one step may add: more has passed only where the thread did not get to run


class _Clock:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = False
        self._now = self._seen = 0.0

    def start(self) -> None:
        with self._lock:
            if not self._started:
                self._started, self._seen = True, time.monotonic()
                threading.Thread(target=self._wind, name="resting clock", daemon=True).start()

    def _wind(self) -> None:
        while True:
            time.sleep(STEP_S)
            self.step()

    def step(self) -> None:
        with self._lock:
            real = time.monotonic()
            self._now += min(max(0.0, real - self._seen), MOST_S)
            self._seen = real

    def now(self) -> float:
        return self._now if self._started else time.monotonic()


_clock = _Clock()


def start() -> None:
    """Wind the clock in this process from now on; before that, and in the sandbox, `now` is `time.monotonic`."""
    _clock.start()


def now() -> float:
    """Seconds, for deadlines only."""
    return _clock.now()
