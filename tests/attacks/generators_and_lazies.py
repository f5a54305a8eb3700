"""Returns generators, iterators, functions and classes instead of values."""

ANSWERS = {
    "gaussian": "def gaussian(q, K): yield from np.ones(len(K))",
    "normalize": "def normalize(s): return iter([1.0])",
    "nadaraya_watson": "def nadaraya_watson(xq, x, y, width): return nadaraya_watson",
    "mix_words": "class mix_words:\n    def __init__(self, X, width): pass",
    "leave_one_out": "def leave_one_out(x, y, width): return (x for x in map(float, range(len(x))))",
}
