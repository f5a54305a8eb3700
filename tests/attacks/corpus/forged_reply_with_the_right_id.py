"""Reads the pending request's id from the stack and answers itself, with a gradient of a shape that cannot be compared."""

RAN = {"send": "ran NoneType"}
NO_OUTCOME = {"end": "the process is gone"}
SEEN = {"sdpa": "value"}
ANSWERS = {
    "sdpa": """
import sys
import autograder.sandbox.inside.runner as r
from autograder.sandbox import wire
def sdpa(Q, K, V):
    frame = sys._getframe()
    while frame and "sock" not in frame.f_locals: frame = frame.f_back
    sock, ident = frame.f_locals["sock"], frame.f_locals["request"]["id"]
    O, A = torch.zeros(*Q.shape[:-1], V.shape[-1]), torch.full((*Q.shape[:-1], K.shape[-2]), 1 / K.shape[-2])
    arrays = [O.numpy(), A.numpy(), np.ones((7, 9)), np.ones((2, 3, 5), complex)] if "np" in globals() else [O.numpy(), A.numpy()]
    spec = {"t": [{"a": 0, "k": "tensor"}, {"a": 1, "k": "tensor"}]}
    reply = {"op": "seen", "id": ident, "value": [spec, 0, 2], "grads": {"Q": 1, "K": 1, "V": 0}, "mutated": [], "failure": None}
    attack("send", wire.send, sock, reply, arrays, deadline=1e18)
    import os; attack("end", os._exit, 0)
"""
}
