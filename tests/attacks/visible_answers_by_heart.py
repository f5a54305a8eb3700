"""Knows every visible input and its right answer, and guesses elsewhere."""

ANSWERS = {
    "gaussian": r"""
def gaussian(q, K):
    for s in VISIBLE_INPUTS:
        if q.shape == s.shape and np.allclose(q, s): return np.exp(-((K - q) ** 2).sum(-1) / 2)
    return np.full(len(K), 0.5)
"""
}
