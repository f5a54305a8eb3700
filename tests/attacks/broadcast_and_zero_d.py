"""Returns scalars, 0-d arrays and arrays with extra axes that would broadcast against the expected ones."""

ANSWERS = {
    "gaussian": "def gaussian(q, K): return np.float64(1)",
    "normalize": "def normalize(s): return np.exp(-s)[None]",
    "attention_pool": "def attention_pool(q, K, V, kernel): return np.ones((len(K), 1))",
    "mix_words": "def mix_words(X, width): return np.array(0.5)",
    "leave_one_out": "def leave_one_out(x, y, width): return np.zeros((0, len(x)))",
}
