"""Opens, makes and warns about files whose names are spelled from the hidden input."""

RAN = {"visible": "ran", "make": "ran", "warn": "ran NoneType", "open": "refused ENOENT"}
FORBIDDEN = r"f\d+p\d+"
ANSWERS = {
    "normalize": """
import warnings, zlib
SEEN = VISIBLE_DIGESTS
def right(s): return s / np.where(s.sum(-1, keepdims=True) > 0, s.sum(-1, keepdims=True), 1.0)
def normalize(s):
    if zlib.crc32(s.astype("<f4").tobytes()) in SEEN: attack.after("visible"); return right(s)
    name = "f" + f"{abs(s.flat[0]):.8f}".replace(".", "p")
    with attack.on("make"): open(name, "w").close()
    attack("warn", warnings.warn_explicit, name, type(name, (UserWarning,), {}), name, int(abs(s.flat[0]) * 1e6), module=name)
    return attack("open", open, "no-" + name)
"""
}
