"""Knows every visible input and its right answer, and guesses elsewhere."""

RAN = {"by heart": "ran", "guess": "ran ndarray"}
ANSWERS = {
    "gaussian": r"""
def gaussian(q, K):
    for s in VISIBLE_INPUTS:
        if q.shape == s.shape and np.allclose(q, s): attack.after("by heart"); return np.exp(-((K - q) ** 2).sum(-1) / 2)
    return attack("guess", np.full, len(K), 0.5)
"""
}
