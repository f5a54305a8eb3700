"""The right numbers as complex, object, text and masked arrays: not the floating array that is asked for."""

_W = "w / np.where(w.sum(-1, keepdims=True) > 0, w.sum(-1, keepdims=True), 1)"
_U = "np.exp(-((K - q) ** 2).sum(-1) / 2)"
ANSWERS = {
    "normalize": f"def normalize(w): return ({_W}).astype(complex)",
    "gaussian": f"def gaussian(q, K): return {_U}.astype(object)",
    "triangular": "def triangular(q, K): return np.maximum(0, 1 - np.linalg.norm(K - q, axis=-1)).astype(str)",
    "epanechnikov": "def epanechnikov(q, K): return np.zeros(len(K), [('x', float)])",
    "boxcar": "def boxcar(q, K): return np.linalg.norm(K - q, axis=-1) <= 1",
}
