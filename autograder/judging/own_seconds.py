"""Seconds of a thread's own: the time that passes, less the time for which the thread stood in line for a processor.

A limit in these seconds means the same on a busy machine as on an idle one. Linux says how long a thread stood in line;
where nothing says so (macOS, Windows, a browser), these are seconds by the clock.
"""

import threading
import time
from pathlib import Path


class Stopwatch:
    """Counts the own seconds of the thread `native_id` (of the calling thread if None) from now on."""

    def __init__(self, native_id: int | None = None):
        self._kept_by = Path(f"/proc/self/task/{native_id or threading.get_native_id()}/schedstat")
        self._waited, self._began = self._waited_s(), time.perf_counter()

    def seconds(self) -> float:
        """Own seconds so far; by the clock once the thread has ended."""
        return max(0.0, time.perf_counter() - self._began - max(0.0, self._waited_s() - self._waited))

    def _waited_s(self) -> float:
        try:
            return int(self._kept_by.read_text(encoding="ascii").split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0
