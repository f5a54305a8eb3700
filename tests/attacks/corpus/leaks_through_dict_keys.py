"""Returns dicts whose keys, and objects whose attributes and types, are spelled from the hidden input."""

RAN = {"visible": "ran", "visible too": "ran", "key": "ran dict", "object": r"ran x\d+p\d+"}
FORBIDDEN = r"[dx]\d+p\d+"
ANSWERS = {
    "gaussian": """
SEEN = VISIBLE_INPUTS
def gaussian(q, K):
    if any(q.shape == s.shape and np.allclose(q, s) for s in SEEN):
        attack.after("visible"); return np.exp(-((K - q) ** 2).sum(-1) / 2)
    return attack("key", lambda: {"d" + f"{abs(q[0]):.8f}".replace(".", "p"): K})
""",
    "normalize": """
import zlib
HELD = VISIBLE_DIGESTS
def right(s): return s / np.where(s.sum(-1, keepdims=True) > 0, s.sum(-1, keepdims=True), 1.0)
def normalize(s):
    if zlib.crc32(s.astype("<f4").tobytes()) in HELD: attack.after("visible too"); return right(s)
    name = "x" + f"{abs(s.flat[0]):.8f}".replace(".", "p")
    return attack("object", type(name, (), {name: s, "__doc__": name, "__qualname__": name, "__module__": name}))
""",
}
