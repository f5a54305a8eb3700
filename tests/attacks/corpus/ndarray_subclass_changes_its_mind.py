"""An ndarray subclass that shows one shape and content when encoded and others when compared."""

RAN = {"array": "ran Fickle", "shapes": "ran"}
ANSWERS = {
    "normalize": """
class Fickle(np.ndarray):
    calls = 0
    def __array_finalize__(self, other): pass
    def __array_function__(self, function, types, args, kwargs): return True
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs): return np.ones(self.shape, bool)
    @property
    def shape(self):
        Fickle.calls += 1
        if Fickle.calls == 2: attack.after("shapes")
        return (3,) if Fickle.calls % 2 else (1,)
def normalize(s): return attack("array", lambda: np.zeros(s.shape).view(Fickle))
"""
}
