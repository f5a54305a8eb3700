"""An answer spoils the process that it shares with later ones on visible inputs: NumPy, names, the grader's modules."""

RAN = dict.fromkeys(("names", "engine", "NumPy"), "ran")
INNOCENT = {"gaussian": "a wrong answer, to be marked as such", "nadaraya_watson": "a right answer, to be marked in full"}
DESERVED = {"nadaraya_watson": 3.0}
ANSWERS = {
    "hard_lookup": r"""
def hard_lookup(q, K, V):
    import sys
    from autograder.judging import call_answer, values
    global gaussian, normalize
    runner = sys.modules["autograder.sandbox.inside.runner"]
    right = call_answer.Observation(values.encode(np.ones(len(K))))
    with attack.on("names"): gaussian = normalize = lambda *a: right
    with attack.on("engine"): runner.observe = lambda answer, probe: right
    with attack.on("NumPy"): np.exp = np.where = lambda *a: 1 / 0
    return V[0]
""",
    "gaussian": "def gaussian(q, K): return np.ones(len(K))",
    "nadaraya_watson": r"""
def nadaraya_watson(xq, x, y, width):
    w = np.exp(-(((xq[:, None] - x[None]) / width) ** 2) / 2)
    s = w.sum(-1, keepdims=True)
    return (w / np.where(s > 0, s, 1)) @ y
""",
}
