"""An object that is no array but offers `__array__`, `__array_interface__` and `__float__`, each with other numbers."""

RAN = {"object": "ran Lazy"}
ANSWERS = {
    "mix_words": """
class Lazy:
    def __array__(self, *a, **k): return np.ones(3)
    __array_interface__ = {"shape": (3,), "typestr": "<f8", "data": (0, True), "version": 3}
    __float__ = __index__ = lambda self: 1
def mix_words(X, width): return attack("object", Lazy)
"""
}
