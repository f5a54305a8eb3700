"""Returns scalars, 0-d arrays and arrays with extra axes that would broadcast against the expected ones."""

ANSWERS = {
    "gaussian": "def gaussian(q, K): return np.float64(1)",
    "normalize": "def normalize(w): return np.exp(-w)[None]",
    "boxcar": "def boxcar(q, K): return np.ones((len(K), 1))",
    "triangular": "def triangular(q, K): return np.array(0.5)",
    "epanechnikov": "def epanechnikov(q, K): return np.zeros((0, len(K)))",
}
