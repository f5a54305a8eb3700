"""Returns NaN, infinities and negative zeros, which lazy comparisons let through."""

RAN = dict.fromkeys(("nan", "infinity", "zero", "more nan", "signs"), "ran ndarray")
ANSWERS = {
    "gaussian": "def gaussian(q, K): return attack('nan', np.full, len(K), np.nan)",
    "normalize": "def normalize(s): return attack('infinity', np.full, s.shape, np.inf)",
    "mix_words": "def mix_words(X, width): return attack('zero', np.full, X.shape, -0.0)",
    "attention_pool": "def attention_pool(q, K, V, kernel): return attack('more nan', np.full, V.shape[1], np.nan)",
    "nadaraya_watson": """
def nadaraya_watson(xq, x, y, width): return attack("signs", lambda: np.array([np.inf, -np.inf] * len(xq))[: len(xq)])
""",
}
