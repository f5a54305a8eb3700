"""Returns the largest numbers there are, so that sums, differences and the drawing of the panel overflow."""

RAN = dict.fromkeys(("signs", "half", "mixed", "least", "integer"), "ran ndarray")
ANSWERS = {
    "normalize": """
def normalize(s):
    out = np.full(s.shape, 1.7e308)
    out[..., ::2] *= -1
    return attack("signs", lambda: out)
""",
    "gaussian": "def gaussian(q, K): return attack('half', np.full, len(K), 65504, np.float16)",
    "nadaraya_watson": """
def nadaraya_watson(xq, x, y, width):
    return attack("mixed", lambda: np.array([1.7e308, -1.7e308, 5e-324, np.inf] * len(xq))[: len(xq)])
""",
    "attention_pool": "def attention_pool(q, K, V, kernel): return attack('least', np.full, V.shape[1], -1.7e308)",
    "hard_lookup": "def hard_lookup(q, K, V): return attack('integer', np.full, V.shape[1], 2**62)",
}
