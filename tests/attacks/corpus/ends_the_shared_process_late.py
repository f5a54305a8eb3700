"""The first answer leaves a thread that ends the shared process while a later, right one is tried on visible inputs."""

NO_OUTCOME = {"end": "the process is gone"}
INNOCENT = {"nadaraya_watson": "a right answer, in whose time the process ends"}
DESERVED = {"nadaraya_watson": 3.0}
ANSWERS = {
    "hard_lookup": r"""
def hard_lookup(q, K, V):
    import os, threading, time
    end = lambda: (time.sleep(0.02), attack("end", os._exit, 0))
    threading.Thread(target=end, daemon=True).start()
    return V[0]
""",
    "nadaraya_watson": r"""
import time
def nadaraya_watson(xq, x, y, width):
    time.sleep(0.03)
    w = np.exp(-(((xq[:, None] - x[None]) / width) ** 2) / 2)
    s = w.sum(-1, keepdims=True)
    return (w / np.where(s > 0, s, 1)) @ y
""",
}
