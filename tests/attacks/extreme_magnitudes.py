"""Returns the largest numbers there are, so that sums, differences and the drawing of the panel overflow."""

ANSWERS = {
    "normalize": "def normalize(s):\n    out = np.full(s.shape, 1.7e308)\n    out[..., ::2] *= -1\n    return out",
    "gaussian": "def gaussian(q, K): return np.full(len(K), 65504, np.float16)",
    "nadaraya_watson": """
def nadaraya_watson(xq, x, y, width): return np.array([1.7e308, -1.7e308, 5e-324, np.inf] * len(xq))[: len(xq)]
""",
    "attention_pool": "def attention_pool(q, K, V, kernel): return np.full(V.shape[1], -1.7e308)",
    "hard_lookup": "def hard_lookup(q, K, V): return np.full(V.shape[1], 2**62)",
}
