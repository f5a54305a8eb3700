"""Patches torch's comparisons, `Tensor.__eq__`, `numpy()` and autograd in the process that runs the answer."""

ANSWERS = {
    "sdpa": """
import torch.testing
torch.allclose = torch.equal = torch.isclose = torch.testing.assert_close = lambda *a, **k: True
torch.Tensor.__eq__ = lambda *_: True
torch.autograd.grad = lambda out, inputs, *a, **k: tuple(i.detach() for i in inputs)
def sdpa(Q, K, V): return Q.detach(), K.detach()
"""
}
