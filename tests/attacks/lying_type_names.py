"""Returns objects whose class claims to be an ndarray, a Tensor and a float."""

ANSWERS = {
    "gaussian": r"""
class Lie:
    __class__ = np.ndarray
    dtype = np.dtype(float)
    shape = (3,)
def gaussian(q, K): return Lie()
""",
    "normalize": "class ndarray: __module__ = 'numpy'\nndarray.__qualname__ = 'ndarray'\ndef normalize(s): return ndarray()",
}
