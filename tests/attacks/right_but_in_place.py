"""A right answer that changes its input: the check that inputs stay unchanged costs it the marks."""

ANSWERS = {
    "normalize": "def normalize(s):\n    total = s.sum(-1, keepdims=True)\n    s /= np.where(total > 0, total, 1)\n    return s"
}
