"""Hands hidden inputs from one exercise to another through memory shared with a parent, to have them shown as output."""

RAN = {"share": "ran mmap", "write": "ran", "read": "something"}
INNOCENT = dict.fromkeys(("nadaraya_watson", "attention_pool", "hard_lookup"), "they call what stands in the first answer")
ANSWERS = {
    "normalize": r"""
import mmap
SHARED = attack("share", mmap.mmap, -1, 1 << 16)
def shown(n):
    values = np.frombuffer(SHARED[:24])
    attack.after("read", "something" if values.any() else "nothing yet")
    return np.resize(values, n)
def normalize(s):
    with attack.on("write"): SHARED[:s.size * 8] = s.astype(float).tobytes()
    return s * 0 + 1 / s.shape[-1]
""",
    "nadaraya_watson": "def nadaraya_watson(xq, x, y, width): return shown(len(xq))",
    "attention_pool": "def attention_pool(q, K, V, kernel): return shown(V.shape[1])",
    "hard_lookup": "def hard_lookup(q, K, V): return shown(V.shape[1])",
}
