"""A right answer that changes its input: the check that inputs stay unchanged costs it half of the marks."""

RAN = {"change": "ran"}
DESERVED = {"normalize": 1.0}
ANSWERS = {
    "normalize": """
def normalize(s):
    total = s.sum(-1, keepdims=True)
    with attack.on("change"): s /= np.where(total > 0, total, 1)
    return s
"""
}
