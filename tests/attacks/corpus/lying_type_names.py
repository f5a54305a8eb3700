"""Returns objects whose class claims to be an ndarray, a Tensor and a float."""

RAN = {"class": "ran Lie", "name": "ran ndarray"}
ANSWERS = {
    "gaussian": r"""
class Lie:
    __class__ = np.ndarray
    dtype = np.dtype(float)
    shape = (3,)
def gaussian(q, K): return attack("class", Lie)
""",
    "normalize": """
class ndarray: __module__ = "numpy"
ndarray.__qualname__ = "ndarray"
def normalize(s): return attack("name", ndarray)
""",
}
