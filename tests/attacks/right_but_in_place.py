"""A right answer that changes its input: the check that inputs stay unchanged costs it the marks."""

ANSWERS = {
    "normalize": "def normalize(w):\n    total = w.sum(-1, keepdims=True)\n    w /= np.where(total > 0, total, 1)\n    return w"
}
