"""A Tensor subclass whose `__torch_function__` makes every comparison and conversion succeed."""

RAN = {"tensor": "ran Yes", "asked": "ran"}
ANSWERS = {
    "scaled_scores": """
class Yes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ("allclose", "equal", "isclose", "__eq__"): return True
        return super().__torch_function__(function, types, args, kwargs or {})
    def numpy(self, **_): raise SystemExit
    def detach(self): attack.after("asked"); return self
    def cpu(self): return self
def scaled_scores(Q, K): return attack("tensor", torch.zeros(*Q.shape[:-1], K.shape[-2]).as_subclass, Yes)
"""
}
