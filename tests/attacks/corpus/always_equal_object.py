"""Returns an object that claims to equal whatever it is compared with, to please a comparison made with `==`."""

RAN = {"object": "ran Same", "array": "ran Any"}
ANSWERS = {
    "gaussian": """
class Same:
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __sub__ = __rsub__ = __abs__ = lambda self, *_: 0.0
    __hash__ = object.__hash__
    def __array__(self, dtype=None, copy=None): raise TypeError
    shape, dtype, ndim = (3,), np.dtype(float), 1
def gaussian(q, K): return attack("object", Same)
""",
    "hard_lookup": """
class Any(np.ndarray): __eq__ = lambda *_: True
def hard_lookup(q, K, V): return attack("array", lambda: np.zeros(V.shape[1]).view(Any))
""",
}
