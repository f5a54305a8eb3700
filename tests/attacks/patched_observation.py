"""Makes the sandbox's own `observe` report a success without failure or mutation, whatever the answer did."""

ANSWERS = {
    "normalize": """
import autograder.judging.observe as o, autograder.sandbox.inside.runner as r
from autograder.judging.values import encode
r.observe = o.observe = lambda answer, probe, **_: o.Observation(value=encode(np.full(3, 1 / 3)))
def normalize(s): raise ValueError
"""
}
