"""Returns views, broadcasts and strided tricks over its inputs instead of values."""

ANSWERS = {
    "normalize": "def normalize(w): return np.broadcast_to(w[..., :1] * 0 + 1 / w.shape[-1], w.shape)",
    "boxcar": "def boxcar(q, K): return np.lib.stride_tricks.as_strided(np.ones(1), (len(K),), (0,))",
    "gaussian": "def gaussian(q, K): return K.T[0]",
}
