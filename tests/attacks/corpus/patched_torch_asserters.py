"""Patches torch's comparisons, `Tensor.__eq__`, `numpy()` and autograd in the process that runs the answer."""

RAN = dict.fromkeys(("comparisons", "method", "autograd", "gradients"), "ran") | {"answer": "ran tuple"}
ANSWERS = {
    "sdpa": """
import torch.testing
with attack.on("comparisons"): torch.allclose = torch.equal = torch.isclose = torch.testing.assert_close = lambda *a, **k: True
with attack.on("method"): torch.Tensor.__eq__ = lambda *_: True
def grad(out, inputs, *a, **k):
    attack.after("gradients")
    return tuple(i.detach() for i in inputs)
with attack.on("autograd"): torch.autograd.grad = grad
def sdpa(Q, K, V): return attack("answer", lambda: (Q.sum() + torch.zeros(*Q.shape[:-1], V.shape[-1]), K.clone()))
"""
}
