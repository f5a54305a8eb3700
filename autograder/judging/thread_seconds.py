"""Measure a thread's own seconds: elapsed time minus the time in which the thread waited for a processor.

A limit in these seconds means the same on a busy machine as on an idle one. Linux reports how long a thread has waited. Other
platforms (macOS, Windows, browsers) don't, so there the stopwatch counts elapsed time.
"""

import threading
import time
from pathlib import Path


class Stopwatch:
    """Counts the own seconds of the thread `native_id` (by default the calling thread) from now on."""

    def __init__(self, native_id: int | None = None):
        own = getattr(threading, "get_native_id", int)  # Python in a browser, which has no threads, lacks it
        self._kept_by = Path(f"/proc/self/task/{native_id or own()}/schedstat")
        self._waited, self._began = self._waited_s(), time.perf_counter()

    def seconds(self) -> float:
        """Return the own seconds so far. Once the thread has ended, its waiting time is unknown and elapsed time is returned."""
        return max(0.0, time.perf_counter() - self._began - max(0.0, self._waited_s() - self._waited))

    def _waited_s(self) -> float:
        try:
            return int(self._kept_by.read_text(encoding="ascii").split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0
