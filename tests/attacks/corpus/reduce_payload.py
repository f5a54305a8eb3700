"""An object whose `__reduce__`, `__getstate__` and `__deepcopy__` run a command where somebody pickles or copies it."""

RAN = {"objects": "ran list"}
ANSWERS = {
    "gaussian": r"""
import os
class Boom:
    def __reduce__(self): return os.system, ("touch /tmp/pwned-pickle",)
    def __deepcopy__(self, memo): raise SystemExit
    def __getattr__(self, name): raise KeyboardInterrupt
def gaussian(q, K):
    held = np.empty(1, object)
    held[0] = Boom()
    return attack("objects", lambda: [Boom(), held])
"""
}
