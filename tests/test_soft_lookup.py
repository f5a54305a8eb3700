"""Lesson 01: the references against independent oracles, and every number that the lesson's text states."""

import sqlite3
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from solutions.soft_lookup import (
    attention_pool,
    boxcar,
    epanechnikov,
    gaussian,
    hard_lookup,
    nadaraya_watson,
    normalize,
    triangular,
)
from solutions.start_here import average_pool

Array = np.ndarray[Any, np.dtype[Any]]
Kernel = Callable[[Array, Array], Array]

KERNELS: tuple[Kernel, ...] = (gaussian, boxcar, triangular, epanechnikov)
COMPACT: tuple[Kernel, ...] = (boxcar, triangular, epanechnikov)
HOURS = np.array([[6.0], [9.0], [12.0], [15.0], [18.0]])
WEATHER = np.array([[11.0, 80.0], [15.0, 66.0], [21.0, 48.0], [23.0, 41.0], [19.0, 55.0]])

EXACT = {"rtol": 1e-12, "atol": 1e-12}  # float64 on both sides, a handful of additions apart
SINGLE = {"rtol": 1e-5, "atol": 1e-6}  # float32: 7 digits, less what a sum of a few terms loses

numbers = st.floats(-50, 50, allow_nan=False, width=32)
scores = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 7)), elements=st.floats(0, 1e3, allow_subnormal=False))


def random_table(seed: int = 0, m: int = 7, d: int = 3, d_v: int = 2) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=d), rng.normal(size=(m, d)), rng.normal(size=(m, d_v))


def noisy_curve() -> tuple[Array, Array]:
    """The data of the lesson's kernel regression."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 40))
    return x, 2 * np.sin(x) + 0.4 * x + 0.8 * rng.normal(size=40)


# ---------------------------------------------------------------------------------------------- hard_lookup


@pytest.mark.parametrize("seed", range(20))
def test_hard_lookup_is_sql_average_where_key_equals_query(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys, values = rng.integers(0, 3, (9, 2)).astype(float), rng.normal(size=(9, 2))
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE D (k1 REAL, k2 REAL, v1 REAL, v2 REAL)")
    db.executemany("INSERT INTO D VALUES (?, ?, ?, ?)", np.column_stack([keys, values]).tolist())
    for q in ([0.0, 1.0], [2.0, 2.0], [1.0, 0.5]):
        found = db.execute("SELECT AVG(v1), AVG(v2) FROM D WHERE k1 = ? AND k2 = ?", q).fetchone()
        expected = [0.0, 0.0] if found[0] is None else found
        assert_allclose(hard_lookup(np.array(q), keys, values), expected, **EXACT)
    db.close()


def test_hard_lookup_finds_nine_and_not_ten() -> None:
    assert_array_equal(hard_lookup(np.array([9.0]), HOURS, WEATHER), [15, 66])
    assert_array_equal(hard_lookup(np.array([10.0]), HOURS, WEATHER), [0, 0])


def test_hard_lookup_is_constant_around_a_query_that_matches_nothing() -> None:
    for step in (-1e-6, 0.0, 1e-6):
        assert_array_equal(hard_lookup(np.array([10.0 + step]), HOURS, WEATHER), [0, 0])


# ------------------------------------------------------------------------------------------------ normalize


@given(scores)
def test_every_row_sums_to_one_or_is_all_zero(w: Array) -> None:
    alpha = normalize(w)
    assert (alpha >= 0).all()
    found = w.sum(axis=-1) > 0
    assert_allclose(alpha.sum(axis=-1), found.astype(float), **EXACT)


@given(scores)
def test_dividing_by_the_sum_twice_does_no_harm(w: Array) -> None:
    assert_allclose(normalize(normalize(w)), normalize(w), **EXACT)


@given(scores, st.floats(1e-3, 1e3))
def test_a_common_factor_cancels(w: Array, factor: float) -> None:
    assert_allclose(normalize(w * factor), normalize(w), rtol=1e-9)


def test_tiny_scores_are_divided_by_their_true_sum() -> None:
    assert_allclose(normalize(np.array([1e-300, 3e-300])), [0.25, 0.75], **EXACT)


def test_one_query_and_many_agree() -> None:
    w = np.random.default_rng(0).uniform(size=(4, 6))
    assert_allclose(normalize(w), [normalize(row) for row in w], **EXACT)


def test_the_plain_formula_gives_nan_for_an_empty_answer() -> None:
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.zeros(5) / np.zeros(5).sum()).all()
    assert_array_equal(normalize(np.zeros(5)), np.zeros(5))


# -------------------------------------------------------------------------------------------------- kernels


def test_kernels_match_torch_distances() -> None:
    q, K, _ = random_table()
    u = torch.cdist(torch.from_numpy(q)[None], torch.from_numpy(K))[0]
    assert_allclose(gaussian(q, K), torch.exp(-0.5 * u.square()), rtol=1e-10)
    assert_allclose(boxcar(q, K), (u <= 1).double())
    assert_allclose(triangular(q, K), (1 - u).clamp(min=0), atol=1e-10)
    assert_allclose(epanechnikov(q, K), 0.75 * (1 - u.square()).clamp(min=0), atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_see_only_the_distance(kernel: Kernel) -> None:
    q, K, _ = random_table()
    turn, shift = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0], np.array([3.0, -1.0, 2.0])
    assert_allclose(kernel(q @ turn + shift, K @ turn + shift), kernel(q, K), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_fall_with_distance(kernel: Kernel) -> None:
    w = kernel(np.zeros(1), np.linspace(0, 3, 301)[:, None])
    assert (np.diff(w) <= 0).all()
    assert w[0] == (0.75 if kernel is epanechnikov else 1.0)


@pytest.mark.parametrize("kernel", COMPACT)
def test_only_the_gaussian_reaches_beyond_distance_one(kernel: Kernel) -> None:
    beyond = np.array([[1.0001], [2.0], [30.0]])
    assert_array_equal(kernel(np.zeros(1), beyond), np.zeros(3))
    assert (gaussian(np.zeros(1), beyond) > 0).all()


def test_boxcar_includes_its_border() -> None:
    assert_array_equal(boxcar(np.array([0.5, 2.0]), np.array([[1.5, 2.0], [0.5, 1.0], [1.5, 2.25]])), [1, 1, 0])


@given(arrays(np.float64, (4, 3), elements=st.integers(-3, 3).map(lambda i: i / 2)))
def test_boxcar_may_compare_the_squared_distance(K: Array) -> None:
    assert_array_equal(boxcar(np.zeros(3), K), ((K**2).sum(axis=1) <= 1).astype(float))


def test_the_area_under_epanechnikov_is_one_in_one_dimension() -> None:
    t = np.linspace(-1, 1, 20_001)
    area = np.trapezoid(epanechnikov(np.zeros(1), t[:, None]), t)
    assert_allclose(area, 1, rtol=1e-8)  # the trapezium rule's error is h^2 / 6 times the slope's change, about 2e-9


def test_triangular_is_not_epanechnikov_even_after_normalising() -> None:
    keys, zero = np.array([[0.25], [0.75]]), np.zeros(1)
    assert_allclose(normalize(triangular(zero, keys)), [0.75, 0.25], **EXACT)
    assert_allclose(normalize(epanechnikov(zero, keys)), [0.682, 0.318], atol=5e-4)
    assert_allclose(normalize(epanechnikov(zero, keys) * 4 / 3), normalize(epanechnikov(zero, keys)), **EXACT)


def test_gaussian_scores_underflow_from_a_distance_of_about_38_6() -> None:
    w = gaussian(np.zeros(1), np.array([[38.5], [38.7]]))
    assert w[0] > 0
    assert w[1] == 0


# ------------------------------------------------------------------------------------------- attention_pool


def test_gaussian_pool_is_torch_attention_with_distances_as_bias() -> None:
    q, K, V = random_table()
    bias = -0.5 * torch.from_numpy(((q - K) ** 2).sum(axis=1))[None]
    zeros = torch.zeros(1, 1, dtype=torch.float64)
    expected = torch.nn.functional.scaled_dot_product_attention(
        zeros, torch.zeros(len(K), 1, dtype=torch.float64), torch.from_numpy(V), attn_mask=bias
    )
    assert_allclose(attention_pool(q, K, V, gaussian), expected[0], rtol=1e-10)


@given(arrays(np.float64, (6, 2), elements=numbers), arrays(np.float64, (6, 3), elements=numbers), st.sampled_from(KERNELS))
@settings(max_examples=200)
def test_output_stays_within_the_values(K: Array, V: Array, kernel: Kernel) -> None:
    q = np.zeros(2)
    assume(kernel(q, K).sum() > 0)
    o = attention_pool(q, K, V, kernel)
    room = 1e-12 * np.abs(V).max()  # rounding of six products and sums
    assert (o <= V.max(axis=0) + room).all()
    assert (o >= V.min(axis=0) - room).all()
    assert np.linalg.norm(o) <= np.linalg.norm(V, axis=1).max() + 2 * room


def test_a_negative_weight_or_another_sum_breaks_the_bound() -> None:
    assert np.array([2.0, -1.0]) @ np.array([1.0, 0.0]) == 2.0
    assert np.array([1.0, 1.0]) @ np.array([1.0, 1.0]) == 2.0


def test_an_empty_answer_can_lie_outside_the_values() -> None:
    o = attention_pool(np.array([10.5]), HOURS, -WEATHER, boxcar)
    assert (o > (-WEATHER).max(axis=0)).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_pool_knows_no_order(kernel: Kernel) -> None:
    q, K, V = random_table()
    order = np.random.default_rng(1).permutation(len(K))
    assert_allclose(attention_pool(q, K[order], V[order], kernel), attention_pool(q, K, V, kernel), **EXACT)


def test_a_constant_kernel_is_average_pooling_and_equality_is_hard_lookup() -> None:
    q, K, V = random_table()
    assert_allclose(attention_pool(q, K, V, lambda q, K: np.ones(len(K))), average_pool(V), **EXACT)
    equal: Kernel = lambda q, K: np.equal(K, q).all(axis=1).astype(float)  # noqa: E731 - a kernel, as learners write it
    for query in (q, K[3]):
        assert_allclose(attention_pool(query, K, V, equal), hard_lookup(query, K, V), **EXACT)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_single_key_in_reach_gives_its_value(kernel: Kernel) -> None:
    assert_allclose(attention_pool(np.array([0.3]), np.array([[0.0]]), np.array([[5.0, -2.0]]), kernel), [5, -2], **EXACT)


@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_and_strided_inputs_serve_as_well(kernel: Kernel) -> None:
    q, K, V = random_table()
    expected = attention_pool(q, K, V, kernel)
    assert_allclose(attention_pool(q, np.asfortranarray(K), V[::-1][::-1], kernel), expected, **EXACT)
    single = attention_pool(q.astype(np.float32), K.astype(np.float32), V.astype(np.float32), kernel)
    assert_allclose(single, expected, **SINGLE)


@pytest.mark.parametrize(("hour", "celsius", "humidity"), [(9.0, 15.02, 65.96), (10.0, 16.09, 62.72), (10.5, 18.00, 57.00)])
def test_weather_between_the_readings(hour: float, celsius: float, humidity: float) -> None:
    assert_allclose(attention_pool(np.array([hour]), HOURS, WEATHER, gaussian), [celsius, humidity], atol=5e-3)


def test_at_ten_the_two_neighbours_share_the_weight() -> None:
    weights = normalize(gaussian(np.array([10.0]), HOURS))
    assert_allclose(weights.round(2), [0, 0.82, 0.18, 0, 0])
    assert (weights > 0).all()


def test_compact_kernels_have_holes_at_width_one_and_none_at_width_two() -> None:
    for kernel in COMPACT:
        assert_array_equal(attention_pool(np.array([10.5]), HOURS, WEATHER, kernel), [0, 0])
        for hour in np.linspace(6, 18, 241):
            assert kernel(np.array([hour / 2]), HOURS / 2).sum() > 0


def test_boxcar_and_epanechnikov_coincide_where_one_key_is_in_reach() -> None:
    for hour in (8.5, 12.2, 14.9):
        one, two = (attention_pool(np.array([hour]), HOURS, WEATHER, kernel) for kernel in (boxcar, epanechnikov))
        assert_allclose(one, two, **EXACT)


def test_printed_denominator_gives_uniform_weights() -> None:
    w = gaussian(np.array([10.0]), HOURS)
    assert_allclose([w_i / sum(w_i for _ in w) for w_i in w], np.full(5, 0.2), **EXACT)


def test_an_exponential_tells_scores_from_weights() -> None:
    w = gaussian(np.array([10.0]), HOURS)
    assert_allclose(normalize(np.exp(w)).round(3), [0.167, 0.307, 0.191, 0.167, 0.167])
    assert_allclose(normalize(np.exp(normalize(w))).round(3), [0.155, 0.350, 0.186, 0.155, 0.155])


def test_one_weight_per_value_row_and_one_output_per_query() -> None:
    queries = np.array([[8.0], [10.0], [13.0]])
    weights = normalize(np.stack([gaussian(q, HOURS) for q in queries]))
    outputs = np.stack([attention_pool(q, HOURS, WEATHER, gaussian) for q in queries])
    assert weights.shape == (3, 5)
    assert outputs.shape == (3, 2)
    assert_allclose(outputs, weights @ WEATHER, **EXACT)


# ------------------------------------------------------------------------------------------ nadaraya_watson


@pytest.mark.parametrize("width", [0.3, 1.0, 4.0])
def test_kernel_regression_is_a_softmax_of_minus_half_squared_distances(width: float) -> None:
    x, y = noisy_curve()
    xq = np.linspace(-1, 11, 13)
    logits = -torch.from_numpy(np.subtract.outer(xq, x) ** 2) / (2 * width**2)
    assert_allclose(nadaraya_watson(xq, x, y, width), torch.softmax(logits, dim=1) @ torch.from_numpy(y), rtol=1e-10, atol=1e-12)


def test_kernel_regression_is_attention_pooling_query_by_query() -> None:
    x, y = noisy_curve()
    xq = np.array([0.5, 3.3, 9.9])
    pooled = [attention_pool(a[None] / 0.7, x[:, None] / 0.7, y[:, None], gaussian)[0] for a in xq]
    assert_allclose(nadaraya_watson(xq, x, y, 0.7), pooled, **EXACT)


def test_shift_and_unit_of_x_do_not_matter() -> None:
    x, y = noisy_curve()
    xq = np.array([0.5, 3.3, 9.9])
    assert_allclose(nadaraya_watson(60 * xq + 7, 60 * x + 7, y, 60 * 0.7), nadaraya_watson(xq, x, y, 0.7), rtol=1e-9)


def test_a_narrow_kernel_gives_the_nearest_value_and_a_wide_one_the_mean() -> None:
    x, y = np.array([0.0, 1.0, 3.0, 4.5]), np.array([2.0, -1.0, 0.5, 4.0])
    xq = np.array([0.2, 0.8, 1.7, 2.3, 4.0])
    assert_allclose(nadaraya_watson(xq, x, y, 0.05), [2, -1, -1, 0.5, 4], atol=1e-9)
    assert_allclose(nadaraya_watson(xq, x, y, 1e5), np.full(5, y.mean()), rtol=1e-8)


def test_the_lessons_weights_go_from_one_hot_to_uniform() -> None:
    x, _ = noisy_curve()
    xq = np.linspace(0, 10, 41)
    tables = {h: np.stack([nadaraya_watson(xq, x, e, h) for e in np.eye(40)], axis=1) for h in (0.03, 0.5, 20.0)}
    for table in tables.values():
        assert_allclose(table.sum(axis=1), np.ones(41), **EXACT)
    assert np.median(tables[0.03].max(axis=1)) > 0.9
    assert_allclose(tables[20.0], np.full((41, 40), 1 / 40), rtol=0.2)


def test_the_best_width_is_about_one_half_and_both_ends_are_worse() -> None:
    x, y = noisy_curve()

    def leave_one_out(h: float) -> float:
        fits = [nadaraya_watson(x[j : j + 1], np.delete(x, j), np.delete(y, j), h)[0] for j in range(40)]
        return float(np.mean((y - fits) ** 2))

    grid = np.geomspace(0.1, 20, 60)
    errors = [leave_one_out(h) for h in grid]
    best = int(np.argmin(errors))
    assert 0.4 < grid[best] < 0.6
    assert errors[0] > 1.2 * errors[best]
    assert errors[-1] > 3 * errors[best]
    assert all(a < b for a, b in pairwise(errors[best:]))


def test_a_far_too_narrow_kernel_runs_out_of_numbers() -> None:
    x, y = noisy_curve()
    between = np.array([(x[0] + x[1]) / 2 + 0.01])
    assert_allclose(nadaraya_watson(between, x, y, 0.005), y[1:2], atol=5e-5)
    assert_array_equal(nadaraya_watson(between, x, y, 0.0005), [0.0])


@pytest.mark.parametrize("d", [1, 4, 16, 64])
def test_squared_distances_of_random_vectors_average_2d(d: int) -> None:
    rng = np.random.default_rng(0)
    u2 = ((rng.normal(size=(20_000, d)) - rng.normal(size=(20_000, d))) ** 2).sum(axis=1)
    assert_allclose(u2.mean(), 2 * d, rtol=0.05)  # standard error of the mean: sqrt(8 d / 20000), at most 1% of 2d


# ------------------------------------------------------------------------------------------ all of them


def test_no_function_changes_its_inputs() -> None:
    q, K, V = random_table()
    before = q.copy(), K.copy(), V.copy()
    hard_lookup(q, K, V)
    normalize(K)
    for kernel in KERNELS:
        attention_pool(q, K, V, kernel)
    nadaraya_watson(q, K[:, 0], V[:, 0], 0.5)
    for now, then in zip((q, K, V), before, strict=True):
        assert_array_equal(now, then)
