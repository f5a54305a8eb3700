"""Makes the sandbox's own `observe` report a success without failure or mutation, whatever the answer did."""

RAN = {"patch": "ran", "asked": "ran"}
SEEN = {"normalize": "value"}
ANSWERS = {
    "normalize": """
import autograder.judging.call_answer as o, autograder.sandbox.inside.runner as r
from autograder.judging.values import encode
def forged(answer, probe, **_):
    attack.after("asked")
    return o.Observation(value=encode(np.full(3, 1 / 3)))
with attack.on("patch"): r.observe = o.observe = forged
def normalize(s): raise ValueError
"""
}
