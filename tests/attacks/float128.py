"""The right numbers in a precision that no wire knows: refused with a name, neither a crash nor a leak."""

ANSWERS = {"gaussian": "def gaussian(q, K): return np.exp(-((K - q) ** 2).sum(-1) / 2).astype(np.longdouble)"}
