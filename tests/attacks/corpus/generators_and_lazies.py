"""Returns generators, iterators, functions and classes instead of values."""

RAN = {"generator": "ran generator", "iterator": "ran list_iterator", "function": "ran function", "class": "ran"}
RAN |= {"expression": "ran generator"}
ANSWERS = {
    "gaussian": """
def lazily(K): yield from np.ones(len(K))
def gaussian(q, K): return attack("generator", lazily, K)
""",
    "normalize": "def normalize(s): return attack('iterator', lambda: iter([1.0]))",
    "nadaraya_watson": "def nadaraya_watson(xq, x, y, width): return attack('function', lambda: nadaraya_watson)",
    "mix_words": "class mix_words:\n    def __init__(self, X, width): attack.after('class')",
    "leave_one_out": """
def leave_one_out(x, y, width): return attack("expression", lambda: (x for x in map(float, range(len(x)))))
""",
}
