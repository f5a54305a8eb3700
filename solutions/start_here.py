"""Lesson 00: how checks work, on the simplest pooling there is."""

import numpy as np
from jaxtyping import Float


def average_pool(V: Float[np.ndarray, "m d_v"]) -> Float[np.ndarray, "d_v"]:
    r"""Return the mean of the value rows, $o = \frac{1}{m} \sum_j v_j$, which is
    attention whose weights are all $1/m$.

    >>> average_pool(np.array([[0.0, 2.0], [4.0, 6.0]]))
    array([2., 4.])
    """
    total: np.ndarray = np.asarray(V).sum(axis=0)
    return total / len(V)
