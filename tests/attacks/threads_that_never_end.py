"""Starts non-daemon threads and a finaliser that never end, to keep the process from being reaped."""

ANSWERS = {
    "gaussian": r"""
import atexit, threading, time
for _ in range(8): threading.Thread(target=lambda: time.sleep(10_000)).start()
atexit.register(lambda: time.sleep(10_000))
class Stuck:
    def __del__(self): time.sleep(10_000)
stuck = Stuck()
def gaussian(q, K): return 1
"""
}
