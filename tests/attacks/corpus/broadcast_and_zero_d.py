"""Returns scalars, 0-d arrays and arrays with extra axes that would broadcast against the expected ones."""

RAN = {"scalar": "ran float64"} | dict.fromkeys(("axis", "column", "zero-d", "empty"), "ran ndarray")
ANSWERS = {
    "gaussian": "def gaussian(q, K): return attack('scalar', np.float64, 1)",
    "normalize": "def normalize(s): return attack('axis', lambda: np.exp(-s)[None])",
    "attention_pool": "def attention_pool(q, K, V, kernel): return attack('column', np.ones, (len(K), 1))",
    "mix_words": "def mix_words(X, width): return attack('zero-d', np.array, 0.5)",
    "leave_one_out": "def leave_one_out(x, y, width): return attack('empty', np.zeros, (0, len(x)))",
}
