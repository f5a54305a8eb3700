"""Returns views, broadcasts and strided tricks over its inputs instead of values."""

RAN = dict.fromkeys(("broadcast", "strides", "view"), "ran ndarray")
ANSWERS = {
    "normalize": "def normalize(s): return attack('broadcast', np.broadcast_to, s[..., :1] * 0 + 1 / s.shape[-1], s.shape)",
    "mix_words": """
def mix_words(X, width): return attack("strides", np.lib.stride_tricks.as_strided, np.ones(1), (len(X),), (0,))
""",
    "gaussian": "def gaussian(q, K): return attack('view', lambda: K.T[0])",
}
