"""Returns generators, iterators, functions and classes instead of values."""

ANSWERS = {
    "gaussian": "def gaussian(q, K): yield from np.ones(len(K))",
    "normalize": "def normalize(w): return iter([1.0])",
    "boxcar": "def boxcar(q, K): return boxcar",
    "triangular": "class triangular:\n    def __init__(self, q, K): pass",
    "epanechnikov": "def epanechnikov(q, K): return (x for x in map(float, range(len(K))))",
}
