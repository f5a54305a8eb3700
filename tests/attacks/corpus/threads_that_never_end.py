"""Starts non-daemon threads and a finaliser that never end, to keep the process from being reaped."""

RAN = {"register": "ran function"}
NO_OUTCOME = {"thread": "it sleeps until it is killed", "finaliser": "it sleeps until it is killed"}
ANSWERS = {
    "gaussian": r"""
import atexit, threading, time
for _ in range(8): threading.Thread(target=lambda: attack("thread", time.sleep, 10_000)).start()
attack("register", atexit.register, lambda: time.sleep(10_000))
class Stuck:
    def __del__(self): attack("finaliser", time.sleep, 10_000)
stuck = Stuck()
def gaussian(q, K):
    global stuck
    stuck = None
    return 1
"""
}
