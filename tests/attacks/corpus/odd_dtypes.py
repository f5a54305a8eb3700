"""The right numbers as complex, object, text and boolean arrays: not the floating array that is asked for."""

RAN = dict.fromkeys(("complex", "object", "text", "record", "bool"), "ran ndarray")
_W = "s / np.where(s.sum(-1, keepdims=True) > 0, s.sum(-1, keepdims=True), 1)"
_U = "np.exp(-((K - q) ** 2).sum(-1) / 2)"
ANSWERS = {
    "normalize": f"def normalize(s): return attack('complex', lambda: ({_W}).astype(complex))",
    "gaussian": f"def gaussian(q, K): return attack('object', lambda: {_U}.astype(object))",
    "mix_words": "def mix_words(X, width): return attack('text', X.astype, str)",
    "leave_one_out": "def leave_one_out(x, y, width): return attack('record', np.zeros, len(x), [('x', float)])",
    "nadaraya_watson": "def nadaraya_watson(xq, x, y, width): return attack('bool', lambda: np.abs(xq) <= 1)",
}
