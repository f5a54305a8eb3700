"""Lesson 00 start_here: every number in its text, and its reference against an independent oracle."""

import numpy as np

from solutions import start_here as ref


def test_the_average_is_the_matrix_product_with_equal_weights() -> None:
    V = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])  # the lesson's figure
    np.testing.assert_allclose(ref.average_pool(V), np.full(3, 1 / 3) @ V, rtol=1e-15)
    assert ref.average_pool(V).shape == (2,)


def test_the_average_ignores_the_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    V = rng.normal(size=(7, 3))
    np.testing.assert_allclose(ref.average_pool(V[rng.permutation(7)]), ref.average_pool(V), rtol=1e-12)


def test_one_row_is_its_own_average() -> None:
    V = np.arange(4.0)[None]
    np.testing.assert_array_equal(ref.average_pool(V), V[0])
