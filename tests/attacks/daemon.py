"""Leaves a double-forked daemon with a name of its own behind, holding every descriptor."""

ANSWERS = {
    "gaussian": r"""
import ctypes, os, time
def leave():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b"pwned", 0, 0, 0)
            while True: time.sleep(1)
        os._exit(0)
leave()
def gaussian(q, K): leave(); return 0
"""
}
