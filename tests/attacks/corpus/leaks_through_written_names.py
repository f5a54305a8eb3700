"""Writes down ten thousand names first, so that a dynamic exception type that spells four digits is a word of the source."""

RAN = {"visible": "ran", "raise": r"raised d\d{4}"}
FORBIDDEN = r"raises d\d{4}"
ANSWERS = {
    "gaussian": "NAMES = '"
    + " ".join(f"d{n:04d}" for n in range(10_000))
    + "'\n"
    + """
SEEN = VISIBLE_INPUTS
def gaussian(q, K):
    if any(q.shape == s.shape and np.allclose(q, s) for s in SEEN):
        attack.after("visible"); return np.exp(-((K - q) ** 2).sum(-1) / 2)
    with attack.on("raise"): raise type(f"d{int(abs(q[0]) * 1000) % 10000:04d}", (Exception,), {})
"""
}
