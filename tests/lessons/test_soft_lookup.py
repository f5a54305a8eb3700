"""Chapter 01: the references against independent oracles, and every number that its notebooks state."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from attention_course.designs import finds_the_thing
from attention_course.heads import load_heads
from attention_course.nile import NILE, YEARS
from attention_course.thread import INDEX, THING, THREE_SENTENCES, TOKENS, VECTORS
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from solutions.soft_lookup import (
    ask_for_a_thing,
    attention_pool,
    gaussian,
    leave_one_out,
    mix_words,
    nadaraya_watson,
    normalize,
)
from solutions.start_here import average_pool

Array = np.ndarray[Any, np.dtype[Any]]
Kernel = Callable[[Array, Array], Array]


def triangular(q: Array, K: Array) -> Array:
    """A kernel that finds nothing beyond distance 1."""
    found: Array = np.maximum(0.0, 1 - np.linalg.norm(K - q, axis=-1))
    return found


def exact(q: Array, K: Array) -> Array:
    """The notebook's kernel that makes attention a database."""
    found: Array = (q == K).all(axis=-1).astype(float)
    return found


KERNELS: tuple[Kernel, ...] = (gaussian, triangular)
ASKED = np.array([1.8, -0.8])  # what *it* asks for

EXACT = {"rtol": 1e-12, "atol": 1e-12}  # float64 on both sides, a handful of additions apart
SINGLE = {"rtol": 1e-5, "atol": 1e-6}  # float32: 7 digits, less what a sum of a few terms loses

numbers = st.floats(-50, 50, allow_nan=False, width=32)
scores = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 7)), elements=st.floats(0, 1e3, allow_subnormal=False))


def random_table(seed: int = 0, m: int = 7, d: int = 3, d_v: int = 2) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=d), rng.normal(size=(m, d)), rng.normal(size=(m, d_v))


def noisy_curve() -> tuple[Array, Array]:
    """Forty noisy measurements of a curve."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 40))
    return x, 2 * np.sin(x) + 0.4 * x + 0.8 * rng.normal(size=40)


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
        assert np.isnan(np.zeros(9) / np.zeros(9).sum()).all()
    assert_array_equal(normalize(np.zeros(9)), np.zeros(9))


# -------------------------------------------------------------------------------------------------- kernels


def test_the_kernel_matches_torchs_distances() -> None:
    q, K, _ = random_table()
    u = torch.cdist(torch.from_numpy(q)[None], torch.from_numpy(K))[0]
    assert_allclose(gaussian(q, K), torch.exp(-0.5 * u.square()), rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_see_only_the_distance(kernel: Kernel) -> None:
    q, K, _ = random_table()
    turn, shift = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0], np.array([3.0, -1.0, 2.0])
    assert_allclose(kernel(q @ turn + shift, K @ turn + shift), kernel(q, K), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_fall_with_distance(kernel: Kernel) -> None:
    w = kernel(np.zeros(1), np.linspace(0, 3, 301)[:, None])
    assert (np.diff(w) <= 0).all()
    assert w[0] == 1.0


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
    o = attention_pool(np.array([9.0, 9.0]), VECTORS, np.full((9, 2), -1.0), triangular)
    assert_array_equal(o, [0, 0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_pool_knows_no_order(kernel: Kernel) -> None:
    q, K, V = random_table()
    order = np.random.default_rng(1).permutation(len(K))
    assert_allclose(attention_pool(q, K[order], V[order], kernel), attention_pool(q, K, V, kernel), **EXACT)


def test_a_constant_kernel_is_average_pooling() -> None:
    q, K, V = random_table()
    assert_allclose(attention_pool(q, K, V, lambda q, K: np.ones(len(K))), average_pool(V), **EXACT)


def test_the_exact_kernel_returns_the_mean_of_the_rows_whose_key_is_the_query() -> None:
    rng = np.random.default_rng(0)
    K, V = rng.integers(0, 2, (9, 2)).astype(float), rng.normal(size=(9, 2))
    for q in ([0.0, 1.0], [1.0, 1.0], [0.5, 1.0]):
        rows = [v for k, v in zip(K.tolist(), V, strict=True) if k == q]
        expected = np.mean(rows, axis=0) if rows else np.zeros(2)
        assert_allclose(attention_pool(np.array(q), K, V, exact), expected, **EXACT)


def test_the_exact_lookup_is_constant_where_nothing_matches_and_the_gaussian_is_not() -> None:
    def outputs(kernel: Kernel) -> list[list[float]]:
        return [attention_pool(ASKED + e, VECTORS, VECTORS, kernel).round(3).tolist() for e in (0, 0.01, 0.02)]

    assert outputs(exact) == [[0.0, 0.0]] * 3
    first, second, third = outputs(gaussian)
    assert first != second != third


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


def test_the_example_by_hand() -> None:
    three = VECTORS[[INDEX[word] for word in ("she", "pear", "sweet")]]
    assert_allclose(ASKED - three, [[3.8, -1.8], [-0.2, 0.2], [0.8, 1.2]])
    assert_allclose(((ASKED - three) ** 2).sum(axis=1), [17.68, 0.08, 2.08])
    s = gaussian(ASKED, three)
    assert_allclose(s.round(3), [0, 0.961, 0.353])
    assert round(s.sum(), 3) == 1.314
    assert_allclose(normalize(s).round(3), [0, 0.731, 0.269])
    moved = normalize(gaussian(np.array([1.0, -1.0]), three))
    assert_allclose(moved[1:], [0.5, 0.5], atol=0.001)
    assert_allclose(attention_pool(ASKED, three, three, gaussian).round(2), [1.73, -1.27])


def weights_of_it(width: float) -> dict[str, float]:
    return dict(zip(TOKENS, normalize(gaussian(ASKED / width, VECTORS / width)).tolist(), strict=True))


def test_the_width_leads_from_the_pear_to_the_mean_of_all_words() -> None:
    assert round(weights_of_it(0.25)["pear"], 2) == 0.99
    half = weights_of_it(0.5)
    assert (round(half["pear"], 2), round(half["ripe"], 2)) == (0.70, 0.21)
    assert max(weights_of_it(10.0).values()) < 0.12
    middle = weights_of_it(1.0)
    assert sorted(middle, key=lambda word: -middle[word])[:2] == ["pear", "ripe"]
    assert middle["she"] < 0.001


def test_the_polygon_of_four_words_is_the_hull_of_all_nine() -> None:
    corners = VECTORS[[INDEX[word] for word in ("she", "ate", "pear", "sweet")]]
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    inside = [((VECTORS - a) @ turn @ (b - a)) >= -1e-12 for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)]
    outside = [((VECTORS - a) @ turn @ (b - a)) <= 1e-12 for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)]
    assert np.all(inside) or np.all(outside)


def test_a_query_far_away_finds_nothing_under_a_compact_kernel() -> None:
    assert_array_equal(triangular(np.array([-2.0, -2.0]), VECTORS), np.zeros(9))


# ------------------------------------------------------------------------------------------- ask_for_a_thing


def shares_of_the_things(query: Array) -> list[float]:
    return [float(normalize(gaussian(query, X))[THING]) for _, X in THREE_SENTENCES]


def test_one_query_finds_the_thing_of_each_sentence() -> None:
    assert [words[THING] for words, _ in THREE_SENTENCES] == ["pear", "knife", "letter"]
    assert all(len(words) == len(X) == 9 and words[6] == "it" for words, X in THREE_SENTENCES)
    assert min(shares_of_the_things(ask_for_a_thing())) >= 0.9
    assert max(shares_of_the_things(np.array([2.0, -1.0]))) < 0.4  # among the things themselves


@pytest.mark.parametrize(
    ("query", "found"),
    [((7, -2), [2, 2, 2]), ((5, -1), [2, 2, 1]), ((1, -2), [-2, -2, -2]), ((-5, 2), [-3, -3, -3]), ((1, 0), [0, 0, 0])],
)
def test_a_query_is_judged_by_what_it_finds(query: tuple[float, float], found: list[float]) -> None:
    assert finds_the_thing(np.array(query)).tolist() == found


def test_a_query_from_very_far_away_finds_nothing() -> None:
    assert finds_the_thing(np.array([100.0, -30.0])).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("query", [np.zeros(3), np.zeros((1, 2)), np.array([np.nan, 0.0])])
def test_what_is_no_query_is_refused_with_a_sentence(query: Array) -> None:
    with pytest.raises(ValueError, match="expected"):
        finds_the_thing(query)


# ------------------------------------------------------------------------------------------------ mix_words


def as_shown(X: Array, width: float) -> Array:
    new = X
    for i in range(len(new)):
        new[i] = normalize(gaussian(new[i] / width, X / width)) @ X
    return new


@pytest.mark.parametrize("width", [0.5, 1.0, 3.0])
def test_mixed_words_are_torch_attention_with_distances_as_bias(width: float) -> None:
    X = torch.from_numpy(VECTORS.copy())
    bias = -0.5 * torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist").square() / width**2
    none = torch.zeros(9, 1, dtype=torch.float64)
    assert_allclose(
        mix_words(VECTORS, width), torch.nn.functional.scaled_dot_product_attention(none, none, X, attn_mask=bias), rtol=1e-10
    )


def test_mixing_knows_no_order_and_the_shown_code_does() -> None:
    order = np.random.default_rng(0).permutation(9)
    assert_allclose(mix_words(VECTORS[order], 1.0), mix_words(VECTORS, 1.0)[order], **EXACT)
    there, back = as_shown(VECTORS.copy(), 1.0), as_shown(VECTORS[::-1].copy(), 1.0)[::-1]
    assert_allclose(there[INDEX["it"]].round(2), [0.70, -0.05])
    assert_allclose(back[INDEX["it"]].round(2), [0.75, -0.16])
    assert_allclose(there[0], mix_words(VECTORS, 1.0)[0])  # the first word alone comes out right


def test_a_repeated_word_gets_the_same_new_vector_twice() -> None:
    X = np.random.default_rng(0).normal(size=(5, 2))  # the man walked the dog
    X[3] = X[0]
    mixed = mix_words(X, 1.0)
    assert_array_equal(mixed[3], mixed[0])


def test_it_asks_with_its_own_vector_and_finds_itself_and_the() -> None:
    weights = normalize(gaussian(VECTORS[INDEX["it"]], VECTORS))
    assert [TOKENS[j] for j in np.argsort(-weights)[:2]] == ["it", "the"]
    assert [round(float(weights[INDEX[word]]), 2) for word in ("it", "the", "pear")] == [0.25, 0.22, 0.09]


def test_a_trained_head_looks_from_it_at_the_pear() -> None:
    head = load_heads("thread").head("coreference")
    assert (head.layer, head.head, 30 * 9) == (13, 8, 270)
    A = head.weights()
    assert A.shape == (9, 9)
    looks = [("it", "pear"), ("it", "she"), ("was", "pear"), ("sweet", "pear")]
    assert [round(float(A[INDEX[a], INDEX[b]]), 2) for a, b in looks] == [0.55, 0.30, 0.84, 0.44]
    assert_array_equal(A.argmax(axis=1)[:3], [0, 0, 0])  # she, ate and the look at the first word


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


def weights_of(year: float, width: float) -> Array:
    return np.array([nadaraya_watson(np.array([float(year)]), YEARS, e, width)[0] for e in np.eye(100)])


def test_a_narrow_kernel_is_a_staircase_and_a_very_narrow_one_rounds_to_nothing() -> None:
    ask = np.array([1919.55, 1919.95, 1920.3, 1920.45, 1920.55])
    assert_allclose(nadaraya_watson(ask, YEARS, NILE, 0.1), NILE[[49, 49, 49, 49, 50]], rtol=0.02)
    assert_array_equal(nadaraya_watson(np.array([1919.5]), YEARS, NILE, 0.01), [0.0])


def test_the_weights_of_1920_go_from_one_hot_to_nearly_uniform() -> None:
    assert YEARS[weights_of(1920, 0.1).argmax()] == 1920
    assert weights_of(1920, 0.1).max() > 0.999
    hill = weights_of(1920, 4.0)
    assert 15 < (hill > 0.05 * hill.max()).sum() < 25
    wide = weights_of(1920, 30.0)
    assert wide.max() < 5 * wide.min()
    for weights in (hill, wide):
        assert_allclose(weights.sum(), 1, **EXACT)


def test_the_nile_fell_around_1899() -> None:
    assert len(NILE) == len(YEARS) == 100
    assert (YEARS[0], YEARS[-1]) == (1871, 1970)
    assert (round(NILE[YEARS < 1899].mean()), round(NILE[YEARS >= 1899].mean())) == (1098, 850)
    fit = nadaraya_watson(YEARS, YEARS, NILE, 4.0)
    assert abs(YEARS[np.diff(fit).argmin()] - 1899) <= 2


def test_leave_one_out_is_the_mean_of_a_hundred_fits() -> None:
    scores = torch.from_numpy(-(np.subtract.outer(YEARS, YEARS) ** 2) / (2 * 4.0**2))
    scores.fill_diagonal_(-torch.inf)
    fit = torch.softmax(scores, dim=1) @ torch.from_numpy(NILE)
    assert_allclose(leave_one_out(YEARS, NILE, 4.0), ((torch.from_numpy(NILE) - fit) ** 2).mean(), rtol=1e-10)


def test_the_best_width_of_the_nile_and_the_trap() -> None:
    grid = np.geomspace(0.3, 60, 60)
    unseen = [np.sqrt(leave_one_out(YEARS, NILE, h)) for h in grid]
    best = int(np.argmin(unseen))
    assert round(grid[best], 1) == 1.7
    assert round(unseen[best]) == 131
    assert round(unseen[-1]) == 163
    assert round(np.sqrt(leave_one_out(YEARS, NILE, 1e9))) == 170  # the plain mean of the other years
    seen = [np.sqrt(np.mean((NILE - nadaraya_watson(YEARS, YEARS, NILE, h)) ** 2)) for h in grid]
    assert seen[0] < 2
    assert all(a <= b for a, b in pairwise(seen))


@pytest.mark.parametrize("d", [1, 4, 16, 64])
def test_squared_distances_of_random_vectors_average_2d(d: int) -> None:
    rng = np.random.default_rng(0)
    u2 = ((rng.normal(size=(20_000, d)) - rng.normal(size=(20_000, d))) ** 2).sum(axis=1)
    assert_allclose(u2.mean(), 2 * d, rtol=0.05)  # standard error of the mean: sqrt(8 d / 20000), at most 1% of 2d


# ------------------------------------------------------------------------------------------ all of them


def test_no_function_changes_its_inputs() -> None:
    q, K, V = random_table()
    before = q.copy(), K.copy(), V.copy()
    normalize(K)
    for kernel in KERNELS:
        attention_pool(q, K, V, kernel)
    nadaraya_watson(q, K[:, 0], V[:, 0], 0.5)
    mix_words(K, 0.5)
    leave_one_out(K[:, 0], V[:, 0], 0.5)
    for now, then in zip((q, K, V), before, strict=True):
        assert_array_equal(now, then)


# -------------------------------------------------------------------------------------------- four kernels


def test_four_kernels_at_their_own_best_width_err_alike() -> None:
    kernels: dict[str, Callable[[Array], Array]] = {
        "boxcar": lambda u: (u <= 1).astype(float),
        "triangular": lambda u: np.maximum(0, 1 - u),
        "Epanechnikov": lambda u: np.maximum(0, 1 - u**2),
        "Gaussian": lambda u: np.exp(-(u**2) / 2),
    }
    widths, distances = np.geomspace(0.5, 60, 120), np.abs(YEARS[:, None] - YEARS)
    best = {}
    for name, kernel in kernels.items():
        errors = []
        for width in widths:
            s = kernel(distances / width)
            np.fill_diagonal(s, 0)
            errors.append(np.sqrt(np.mean((NILE - normalize(s) @ NILE) ** 2)))
        best[name] = (round(float(widths[np.argmin(errors)]), 1), round(float(min(errors))))
        assert name == "Gaussian" or errors[0] > 900  # no other year is within half a year
    assert best == {"boxcar": (3.1, 133), "triangular": (3.9, 131), "Epanechnikov": (3.6, 131), "Gaussian": (1.7, 131)}


def test_the_fit_of_the_future_goes_to_the_last_year() -> None:
    assert nadaraya_watson(np.array([1970.0, 1980.0, 2000.0]), YEARS, NILE, 4.0).round().tolist() == [813, 745, 737]
    assert NILE[-1] == 740
    assert_allclose(nadaraya_watson(np.array([2100.0]), YEARS, NILE, 4.0), 740, atol=0.1)
