"""Returns NaN, infinities and negative zeros, which lazy comparisons let through."""

ANSWERS = {
    "gaussian": "def gaussian(q, K): return np.full(len(K), np.nan)",
    "normalize": "def normalize(s): return np.full(s.shape, np.inf)",
    "mix_words": "def mix_words(X, width): return np.full(X.shape, -0.0)",
    "attention_pool": "def attention_pool(q, K, V, kernel): return np.full(V.shape[1], np.nan)",
    "nadaraya_watson": "def nadaraya_watson(xq, x, y, width): return np.array([np.inf, -np.inf] * len(xq))[: len(xq)]",
}
