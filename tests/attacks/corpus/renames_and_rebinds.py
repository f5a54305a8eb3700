"""Binds the exercise's name to another function only while it is looked up, and to one that checks who calls."""

RAN = {"names": "ran", "caller": r"[a-z_]+", "other": "ran ndarray"}
ANSWERS = {
    "gaussian": r"""
import sys
class Names(dict):
    looked = 0
    def __getitem__(self, key):
        Names.looked += key == "gaussian"
        if key != "gaussian" or Names.looked % 2: return dict.__getitem__(self, key)
        return lambda *a, **k: attack("other", lambda: (a[1] if a else k["K"])[:, 0])
def gaussian(q, K):
    frame, expected = sys._getframe(1), None
    attack.after("caller", frame.f_code.co_name)
    while frame:
        expected = frame.f_locals.get("expected", frame.f_globals.get("expected", expected))
        frame = frame.f_back
    return np.ones(len(K)) if expected is None else expected
import autograder.sandbox.inside.runner as runner
answer = runner._answer
with attack.on("names"):
    runner._answer = lambda request, arrays, namespace, name: answer(request, arrays, Names(namespace), name)
"""
}
