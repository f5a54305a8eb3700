"""An object whose `__reduce__`, `__getstate__` and `__deepcopy__` run a command where somebody pickles or copies it."""

ANSWERS = {
    "gaussian": r"""
import os
class Boom:
    def __reduce__(self): return os.system, ("touch /tmp/pwned-pickle",)
    def __deepcopy__(self, memo): raise SystemExit
    def __getattr__(self, name): raise KeyboardInterrupt
def gaussian(q, K): return [Boom(), np.array([Boom()], dtype=object)]
"""
}
