"""The right numbers as complex, object, text and masked arrays: not the floating array that is asked for."""

_W = "s / np.where(s.sum(-1, keepdims=True) > 0, s.sum(-1, keepdims=True), 1)"
_U = "np.exp(-((K - q) ** 2).sum(-1) / 2)"
ANSWERS = {
    "normalize": f"def normalize(s): return ({_W}).astype(complex)",
    "gaussian": f"def gaussian(q, K): return {_U}.astype(object)",
    "mix_words": "def mix_words(X, width): return X.astype(str)",
    "leave_one_out": "def leave_one_out(x, y, width): return np.zeros(len(x), [('x', float)])",
    "nadaraya_watson": "def nadaraya_watson(xq, x, y, width): return np.abs(xq) <= 1",
}
