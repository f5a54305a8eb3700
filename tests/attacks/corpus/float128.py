"""The right numbers in a precision that no wire knows: refused with a name, neither a crash nor a leak."""

RAN = {"long": "ran ndarray"}
_RIGHT = "np.exp(-((K - q) ** 2).sum(-1) / 2)"
ANSWERS = {"gaussian": f"def gaussian(q, K): return attack('long', lambda: {_RIGHT}.astype(np.longdouble))"}
