"""Allocates more than it may, in a cell and in an answer."""

ANSWERS = {
    "gaussian": "try: np.ones(2**40)\nexcept MemoryError: print('refused')\ndef gaussian(q, K): return np.ones(2**36)",
    "mix_words": "def mix_words(X, width): return np.ones((1 << 27,), np.int8)",
}
