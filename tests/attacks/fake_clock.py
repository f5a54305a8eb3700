"""Stops and turns back every clock of its process, so that a time limit taken there would never pass."""

ANSWERS = {
    "gaussian": r"""
import time, signal, threading
for name in ("time", "monotonic", "perf_counter", "process_time"): setattr(time, name, lambda: 0.0)
signal.setitimer = signal.alarm = lambda *a: (0.0, 0.0)
threading.Thread.join = lambda *a, **k: None
def gaussian(q, K):
    while True: time.time()
"""
}
