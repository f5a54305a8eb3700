"""What workshop 09c is given: the bytes and the time of a model with 7 billion parameters on one H200.

The model has 32 layers and 32 query heads of width 128, and each number takes two bytes.
"""

PARAMETERS, LAYERS, HEADS, WIDTH = 7e9, 32, 32, 128
BANDWIDTH, PEAK, MEMORY = 4.8e12, 989e12, 141e9  # bytes per second, FLOPs per second, bytes


def cache_bytes(B: int, n: int, G: int) -> int:
    """The bytes of the caches of `B` texts of `n` tokens, with `G` groups.

    >>> cache_bytes(1, 1, 8)
    131072
    """
    return B * n * LAYERS * 2 * G * WIDTH * 2


def bytes_held(B: int, n: int, G: int) -> float:
    """The bytes of the parameters and of all caches."""
    return 2 * PARAMETERS + cache_bytes(B, n, G)


def step_seconds(B: int, n: int, G: int) -> float:
    """A bound of a decode step for `B` texts: the matrices and then attention, each by the longer of its two bounds.

    >>> round(1e3 * step_seconds(64, 8192, 4), 1)
    10.1
    """
    matrices = max(2 * PARAMETERS / BANDWIDTH, 2 * PARAMETERS * B / PEAK)
    flops = B * LAYERS * 4 * n * HEADS * WIDTH
    return matrices + max(cache_bytes(B, n, G) / BANDWIDTH, flops / PEAK)
