"""Stops and turns back every clock of its process, so that a time limit taken there would never pass."""

RAN = {"patch": "ran", "stopped": "ran str"}
NO_OUTCOME = {"loop": "it is killed where its seconds are over"}
ANSWERS = {
    "gaussian": r"""
import time, signal, threading
with attack.on("patch"):
    for name in ("time", "monotonic", "perf_counter", "process_time"): setattr(time, name, lambda: 0.0)
    signal.setitimer = signal.alarm = lambda *a: (0.0, 0.0)
    threading.Thread.join = lambda *a, **k: None
def gaussian(q, K):
    attack("stopped", lambda: str(time.time() - time.time()))
    with attack.on("loop"):
        while True: time.time()
"""
}
