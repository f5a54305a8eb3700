"""A clock for deadlines that stops while the grader itself is not running.

The wall clock would charge a student for other people's time: for the seconds in which this process parsed another
submission's hostile text (one long regular expression holds every thread), was stopped (Ctrl-Z), or starved on a busy
machine. A thread advances this clock in small steps. Whenever that thread doesn't run, the clock stands still, and so do all
deadlines.
"""

import threading
import time

STEP_S = 0.05
MOST_S = 0.25  # the most that one step may add; a longer gap means that the thread did not get to run


class _Clock:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = False
        self._now = self._seen = 0.0

    def start(self) -> None:
        """Start the clock in this process. Until then, and in the sandbox, `now` is `time.monotonic`."""
        with self._lock:
            if not self._started:
                self._started, self._seen = True, time.monotonic()
                threading.Thread(target=self._wind, name="resting clock", daemon=True).start()

    def _wind(self) -> None:
        while True:
            time.sleep(STEP_S)
            with self._lock:
                real = time.monotonic()
                self._now += min(max(0.0, real - self._seen), MOST_S)
                self._seen = real

    def now(self) -> float:
        """Return the time in seconds, for deadlines only."""
        return self._now if self._started else time.monotonic()


_clock = _Clock()
start, now = _clock.start, _clock.now
