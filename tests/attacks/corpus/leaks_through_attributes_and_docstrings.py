"""Renames and documents itself by the hidden input, and asks for an attribute of that name."""

RAN = dict.fromkeys(("visible", "names", "code", "attributes"), "ran") | {"missing": "raised AttributeError"}
FORBIDDEN = r"x\d+p\d+"
ANSWERS = {
    "normalize": """
import zlib
SEEN = VISIBLE_DIGESTS
def right(s): return s / np.where(s.sum(-1, keepdims=True) > 0, s.sum(-1, keepdims=True), 1.0)
def normalize(s):
    if zlib.crc32(s.astype("<f4").tobytes()) in SEEN: attack.after("visible"); return right(s)
    name = "x" + f"{abs(s.flat[0]):.8f}".replace(".", "p")
    with attack.on("names"): normalize.__doc__ = normalize.__name__ = normalize.__qualname__ = normalize.__module__ = name
    with attack.on("code"): normalize.__code__ = normalize.__code__.replace(
        co_filename=name, co_name=name, co_firstlineno=int(abs(s.flat[0]) * 1e6))
    with attack.on("attributes"): setattr(normalize, name, name); globals()[name] = name
    with attack.on("missing"): return getattr(s, name)
"""
}
