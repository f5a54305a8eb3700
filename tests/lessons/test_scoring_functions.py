"""Lesson 02: the references against independent oracles, and every number that the lesson's text states."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attention_course.designs import finds_its_partner
from attention_course.heads import load_heads
from attention_course.thread import INDEX, TOKENS, VECTORS
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from solutions.scoring_functions import (
    additive_scores,
    choose_m,
    days_by_trying,
    gaussian_scores,
    learn_step,
    pool_in_blocks,
    softmax,
)
from solutions.scoring_functions import bilinear_scores as two_matrix_scores

Array = np.ndarray[Any, np.dtype[Any]]

EXACT = {"rtol": 1e-12, "atol": 1e-12}  # float64 on both sides, a handful of additions apart
SINGLE = {"rtol": 1e-4, "atol": 1e-5}  # float32: 7 digits, less what sums of a few dozen terms lose

numbers = st.floats(-1e4, 1e4, allow_nan=False)
tables = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 7)), elements=numbers)


def random_pair(n: int, m: int, d: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(m, d))


def with_norm(K: Array, norm: float) -> Array:
    rescaled: Array = norm * K / np.linalg.norm(K, axis=1, keepdims=True)
    return rescaled


def all_differences(Q: Array, K: Array) -> Array:
    scores: Array = -((Q[:, None] - K[None]) ** 2).sum(axis=-1) / 2
    return scores


def dot_scores(Q: Array, K: Array) -> Array:
    S: Array = Q @ K.T
    return S


def bilinear_scores(Q: Array, M: Array, K: Array) -> Array:
    S: Array = Q @ M @ K.T
    return S


def small_network(n: int = 3, m: int = 4, d_q: int = 2, d_k: int = 5, h: int = 6) -> dict[str, Array]:
    """The lesson's additive example."""
    rng = np.random.default_rng(0)
    given: dict[str, Array] = {"Q": rng.normal(size=(n, d_q)), "K": rng.normal(size=(m, d_k))}
    return given | {"W_Q": rng.normal(size=(d_q, h)), "W_K": rng.normal(size=(d_k, h)), "wv": rng.normal(size=h)}


# ---------------------------------------------------------------------------------------------------- softmax


@given(tables, st.sampled_from([0, 1, -1, -2]))
def test_softmax_agrees_with_torch_along_every_axis(x: Array, axis: int) -> None:
    assert_allclose(softmax(x, axis), torch.softmax(torch.from_numpy(x), dim=axis), **EXACT)


@given(tables)
def test_weights_are_shares_whatever_the_scores(x: Array) -> None:
    a = softmax(x)
    assert (a >= 0).all()
    assert_allclose(a.sum(axis=-1), np.ones(len(x)), **EXACT)


@given(arrays(np.float64, (3, 5), elements=st.floats(-50, 50)), arrays(np.float64, (3, 1), elements=numbers))
def test_a_constant_per_row_changes_no_weight(x: Array, c: Array) -> None:
    assert_allclose(softmax(x + c), softmax(x), rtol=1e-10, atol=1e-10)  # x + c rounds at 1e4 * 2**-53


@pytest.mark.parametrize("shape", [(7,), (1,), (2, 3), (2, 3, 5), (1, 1)])
def test_softmax_takes_any_number_of_axes(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    for axis in range(-len(shape), len(shape)):
        assert_allclose(softmax(x, axis), torch.softmax(torch.from_numpy(x), dim=axis), **EXACT)


def test_a_score_of_minus_infinity_gets_no_weight() -> None:
    assert_array_equal(softmax(np.array([0.0, -np.inf, 0.0])), [0.5, 0, 0.5])


def test_softmax_keeps_float32_and_takes_strided_inputs() -> None:
    x = np.random.default_rng(0).normal(size=(4, 6))
    assert softmax(x.astype(np.float32)).dtype == np.float32
    assert_allclose(softmax(x.astype(np.float32)), softmax(x), **SINGLE)
    assert_allclose(softmax(x[::-1, ::2]), softmax(x[::-1, ::2].copy()), **EXACT)


def test_one_maximum_for_all_rows_is_not_enough() -> None:
    x = np.array([[0.0, 1.0], [-1000.0, -1001.0]])
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max())
        assert np.isnan((e / e.sum(axis=1, keepdims=True))[1]).all()
    assert_allclose(softmax(x)[1], softmax(x[1]), **EXACT)


@pytest.mark.parametrize(("dtype", "largest"), [(np.float64, 709.8), (np.float32, 88.7), (np.float16, 11.1)])
def test_largest_exponent_of_each_format(dtype: type, largest: float) -> None:
    assert round(np.log(float(np.finfo(dtype).max)), 1) == largest
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(dtype(largest + 0.1)))


def test_exponentials_are_zero_below_minus_745() -> None:
    assert np.exp(-745.2) == 0.0
    assert np.exp(-745.0) > 0


def test_with_1024_entries_every_gaussian_score_is_zero_and_the_softmax_still_works() -> None:
    rng = np.random.default_rng(0)
    q, K = rng.normal(size=1024), rng.normal(size=(7, 1024))
    exponents = -((K - q) ** 2).sum(axis=1) / 2
    assert_array_equal(np.exp(exponents), np.zeros(7))
    assert_array_equal(softmax(exponents).round(3), [0, 1, 0, 0, 0, 0, 0])


# --------------------------------------------------------------------------------------------- pool_in_blocks


@given(arrays(np.float64, st.integers(1, 12), elements=numbers), st.integers(1, 13), st.integers(0, 100))
def test_blocks_of_any_size_give_the_whole_softmax(s: Array, size: int, seed: int) -> None:
    V = np.random.default_rng(seed).normal(size=(len(s), 3))
    expected = torch.softmax(torch.from_numpy(s), dim=0) @ torch.from_numpy(V)
    assert_allclose(pool_in_blocks(s, V, size), expected, **EXACT)


def test_the_shown_draft_is_right_only_while_the_maximum_stays() -> None:
    s, V = np.array([3.0, 1.0, 2.0, 0.5]), np.array([[1.0], [2.0], [3.0], [4.0]])

    def as_shown(s: Array, V: Array, size: int) -> Array:
        top, total, o = -np.inf, 0.0, np.zeros(V.shape[1])
        for start in range(0, len(s), size):
            block, values = s[start : start + size], V[start : start + size]
            top = max(top, block.max())
            e = np.exp(block - top)
            total, o = total + e.sum(), o + e @ values
        pooled: Array = o / total
        return pooled

    for order, right in (([0, 2, 1, 3], True), ([3, 1, 2, 0], False)):
        gap = np.abs(as_shown(s[order], V[order], 2) - softmax(s[order]) @ V[order]).max()
        assert (gap < 1e-12) == right
        assert (gap < 0.1) == right


# -------------------------------------------------------------------------------------------- gaussian_scores


@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (2, 3, 5), (7, 3, 11), (1, 6, 64)])
def test_gaussian_scores_agree_with_cdist(n: int, m: int, d: int) -> None:
    Q, K = random_pair(n, m, d)
    u = torch.cdist(torch.from_numpy(Q), torch.from_numpy(K), compute_mode="donot_use_mm_for_euclid_dist")
    assert_allclose(gaussian_scores(Q, K), -(u**2) / 2, rtol=1e-11, atol=1e-12)


def test_no_array_of_all_differences_is_made() -> None:
    import tracemalloc

    Q, K = random_pair(300, 250, 64)
    for function, low, high in ((gaussian_scores, 1, 4), (all_differences, 60, 200)):
        tracemalloc.start()
        function(Q, K)
        tables = tracemalloc.get_traced_memory()[1] / (300 * 250 * 8)
        tracemalloc.stop()
        assert low <= tables <= high


def test_all_differences_of_4096_vectors_take_gigabytes() -> None:
    assert round(4096 * 4096 * 128 * 4 / 1e9, 2) == 8.59
    assert round(4096 * 4096 * 4 / 1e9, 2) == 0.07


# ------------------------------------------------------------------------- from the Gaussian to the dot product


def weight_gap(Q: Array, K: Array) -> float:
    """The largest change of a weight when the Gaussian gives way to the dot product."""
    root = np.sqrt(Q.shape[-1])
    return float(np.abs(softmax(gaussian_scores(Q, K) / root) - softmax(Q @ K.T / root)).max())


def test_dot_scores_are_pairwise_dot_products() -> None:
    Q, K = random_pair(3, 5, 7)
    assert_allclose(dot_scores(Q, K), [[sum(q * k) for k in K] for q in Q], **EXACT)


def test_query_norms_may_always_go() -> None:
    Q, K = random_pair(5, 7, 8)
    without = gaussian_scores(Q, K) + (Q**2).sum(axis=1, keepdims=True) / 2
    assert np.abs(softmax(gaussian_scores(Q, K)) - softmax(without)).max() < 1e-15


@pytest.mark.parametrize(("d", "median", "largest"), [(8, 0.24, 0.78), (64, 0.24, 0.56), (512, 0.25, 0.58)])
def test_key_norms_move_about_a_quarter_of_a_weight_at_every_length(d: int, median: float, largest: float) -> None:
    rng = np.random.default_rng(1)
    draws = [rng.normal(size=(12, d)) for _ in range(300)]
    gaps = [weight_gap(rows[:5], rows[5:]) for rows in draws]
    assert round(float(np.median(gaps)), 2) == median
    assert round(max(gaps), 2) == largest
    assert max(weight_gap(rows[:5], with_norm(rows[5:], np.sqrt(d))) for rows in draws) < 1e-12


def test_in_four_of_six_trained_heads_the_key_norms_move_more_than_half_of_a_weight() -> None:
    heads = load_heads("paragraph")
    past, moved, lengths = np.tri(len(heads.tokens), dtype=bool), [], []
    for name in heads.names:
        Q, K = (x.astype(float) for x in (heads.head(name).q, heads.head(name).k))
        kept, dropped = (softmax(np.where(past, S / 8, -1e9)) for S in (gaussian_scores(Q, K), Q @ K.T))
        moved.append(float(np.median(np.abs(kept - dropped).max(axis=1)[8:])))
        lengths += list(np.linalg.norm(K, axis=1))
    assert sum(change > 0.5 for change in moved) == 4
    assert min(lengths) < 4 < 30 < max(lengths)


@pytest.mark.parametrize(("d", "median"), [(8, 0.60), (64, 0.93), (512, 1.00)])
def test_without_the_scale_the_gap_measures_saturation(d: int, median: float) -> None:
    rng = np.random.default_rng(1)
    draws = [rng.normal(size=(12, d)) for _ in range(300)]
    gaps = [np.abs(softmax(gaussian_scores(r[:5], r[5:])) - softmax(dot_scores(r[:5], r[5:]))).max() for r in draws]
    assert round(float(np.median(gaps)), 2) == median


def test_a_long_key_is_loved_by_some_queries_and_shunned_by_others() -> None:
    rng = np.random.default_rng(0)
    first, hardly = [], []
    for _ in range(40):
        Q, K = rng.normal(size=(2000, 64)), rng.normal(size=(32, 64))
        K[0] *= 8
        A = softmax(dot_scores(Q, K) / 8)
        first.append((A.argmax(axis=1) == 0).mean())
        hardly.append((A[:, 0] < 0.01).mean())
    assert abs(np.mean(first) - 0.40) < 0.01
    assert abs(np.mean(hardly) - 0.46) < 0.01


@given(st.integers(0, 10_000), st.integers(2, 9), st.floats(0.1, 4))
@settings(max_examples=60)
def test_equal_norms_make_the_gap_vanish(seed: int, d: int, norm: float) -> None:
    Q, K = random_pair(3, 5, d, seed)
    assert weight_gap(Q, with_norm(K, norm)) < 1e-14


@given(st.integers(0, 10_000), st.floats(1.05, 3))
@settings(max_examples=60)
def test_one_query_is_enough_to_see_unequal_norms(seed: int, factor: float) -> None:
    Q, K = random_pair(1, 4, 3, seed)
    Q, K = with_norm(Q, 1.0), with_norm(K, 1.0)  # scores stay small, so no weight is close to 0 or 1
    K[0] *= factor
    assert weight_gap(Q, K) > 1e-4


@pytest.mark.parametrize("d", [4, 64, 512])
def test_the_dropped_term_varies_seven_tenths_as_much_as_the_kept_one(d: int) -> None:
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 20_000, d))
    kept, dropped = (q * k).sum(axis=1).std(), (k**2).sum(axis=1).std() / 2
    assert_allclose(kept, np.sqrt(d), rtol=0.03)  # 20,000 draws: half a per cent of standard error, more with heavy tails
    assert_allclose(dropped, np.sqrt(d / 2), rtol=0.03)
    assert abs(dropped / kept - 0.71) < 0.02


FIVE_KEYS = np.array([[2.2, 0.3], [-0.4, 1.8], [-1.8, -0.9], [0.6, -1.5], [0.5, 0.4]])


def plane() -> Array:
    grid = np.linspace(-3, 3, 241)
    return np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)


def test_a_key_inside_the_polygon_of_the_others_never_wins_a_dot_product() -> None:
    assert 4 not in dot_scores(plane(), FIVE_KEYS).argmax(axis=1)
    assert dot_scores(FIVE_KEYS[4:], FIVE_KEYS).argmax() != 4
    assert 4 in gaussian_scores(plane(), FIVE_KEYS).argmax(axis=1)
    shares, *_ = np.linalg.lstsq(np.vstack([FIVE_KEYS[:4].T, np.ones(4)]), np.append(FIVE_KEYS[4], 1), rcond=None)
    assert (shares > 0).all()  # key 5 is a convex combination of the other four


def test_layer_normalisation_fixes_the_tokens_norms_and_not_the_keys() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 512)) * rng.uniform(0.5, 2, size=(1000, 1))
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    keys = X @ rng.normal(size=(512, 64)) / np.sqrt(512)
    assert_allclose(np.linalg.norm(X, axis=1), np.full(1000, np.sqrt(512)), **EXACT)
    norms = np.linalg.norm(keys, axis=1)
    assert round(norms.std() / norms.mean(), 3) == 0.085
    assert 0.1 < weight_gap(rng.normal(size=(5, 64)), keys[:7]) < 0.4


def test_by_distance_each_word_finds_itself_with_the_weights_of_the_opening() -> None:
    A = softmax(gaussian_scores(VECTORS, VECTORS))
    assert_array_equal(A.argmax(axis=1), np.arange(9))
    weights = [round(float(A[INDEX[word], INDEX[word]]), 2) for word in ("it", "sweet", "ripe", "ate")]
    assert weights == [0.25, 0.44, 0.27, 0.45]


def test_by_dot_products_it_finds_the_pear_and_others_find_themselves() -> None:
    S = VECTORS @ VECTORS.T
    found = {word: TOKENS[S[INDEX[word]].argmax()] for word in ("it", "sweet", "ate")}
    assert found == {"it": "pear", "sweet": "sweet", "ate": "ate"}
    assert S[INDEX["ripe"], INDEX["pear"]] == S[INDEX["ripe"], INDEX["sweet"]] == S[INDEX["ripe"]].max()


# -------------------------------------------------------------------------------------------------- learn_step

QUESTIONS = {"it": "pear", "sweet": "pear", "ripe": "pear", "ate": "she"}
ASKING, ANSWERS = np.array([INDEX[w] for w in QUESTIONS]), np.array([INDEX[w] for w in QUESTIONS.values()])


def test_turned_by_30_degrees_all_four_find_their_word_and_by_20_or_40_they_do_not() -> None:
    right = []
    for angle in range(-90, 91, 10):
        c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        asked = VECTORS[ASKING] @ np.array([[c, s], [-s, c]])
        if ((asked @ VECTORS.T).argmax(axis=1) == ANSWERS).all():
            right.append(angle)
    assert right == [30]


@pytest.mark.parametrize(("n", "m", "d", "p"), [(1, 2, 1, 1), (3, 7, 5, 2), (4, 4, 4, 4)])
def test_a_step_follows_autograd(n: int, m: int, d: int, p: int) -> None:
    rng = np.random.default_rng(0)
    X, W_Q, W_K = rng.normal(size=(m, d)), rng.normal(size=(d, p)), rng.normal(size=(d, p))
    asking, answers = rng.integers(0, m, n), rng.integers(0, m, n)
    x, w_q, w_k = torch.tensor(X), torch.tensor(W_Q, requires_grad=True), torch.tensor(W_K, requires_grad=True)
    scores = x[torch.tensor(asking)] @ w_q @ (x @ w_k).T / p**0.5
    torch.nn.functional.cross_entropy(scores, torch.tensor(answers)).backward()
    new_Q, new_K = learn_step(X, asking, answers, W_Q, W_K, 0.7)
    assert w_q.grad is not None
    assert w_k.grad is not None
    assert_allclose(new_Q, W_Q - 0.7 * w_q.grad.numpy(), **EXACT)
    assert_allclose(new_K, W_K - 0.7 * w_k.grad.numpy(), **EXACT)


def weights_of(X: Array, W_Q: Array, W_K: Array) -> Array:
    return softmax((X[ASKING] @ W_Q) @ (X @ W_K).T / np.sqrt(W_Q.shape[1]))


def step_by_trying(X: Array, W: Array, rate: float) -> Array:
    """As in the lesson's first sitting."""

    def loss(W: Array) -> float:
        return float(-np.log(weights_of(X, *W)[range(4), ANSWERS]).mean())

    slopes, here = np.zeros_like(W), loss(W)
    for place in np.ndindex(W.shape):
        changed = W.copy()
        changed[place] += 0.001
        slopes[place] = (loss(changed) - here) / 0.001
    moved: Array = W - rate * slopes
    return moved


@functools.cache
def learned(step: Callable[[Array, Array, float], Array] = step_by_trying) -> list[tuple[Array, Array, Array]]:
    """The lesson's run."""
    rng = np.random.default_rng(0)
    W = 0.3 * rng.normal(size=(2, 2, 2))
    history = [(*W, weights_of(VECTORS, *W))]
    for _ in range(100):
        X = VECTORS + 0.3 * rng.normal(size=VECTORS.shape)
        W = step(X, W, 0.2)
        history.append((*W, weights_of(VECTORS, *W)))
    return history


def test_gradients_learn_what_trying_learned() -> None:
    derived = learned(lambda X, W, rate: np.stack(learn_step(X, ASKING, ANSWERS, *W, rate)))
    gap = max(np.abs(a - b).max() for one, two in zip(learned(), derived, strict=True) for a, b in zip(one, two, strict=True))
    assert 1e-5 < gap < 0.002
    assert 2 * 64 * 16 == 2048
    assert 2 * 512 * 64 + 1 == 65_537


def test_in_a_hundred_steps_every_word_learns_where_to_look() -> None:
    history = learned()
    right = np.array([A[np.arange(4), ANSWERS] for _, _, A in history])
    assert abs(right[0].mean() - 0.12) < 0.005
    assert right[20].min() > 0.5  # each finds its word
    assert right[20].mean() > 0.8
    assert right[100].min() > 0.9
    assert right[50].mean() > 0.95
    half = (right > 0.5).argmax(axis=0)
    assert list(QUESTIONS)[half.argmin()] == "ate"  # the row that is learned first
    assert list(QUESTIONS)[half.argmax()] == "it"  # and the one that is learned last


def test_the_maps_work_on_texts_that_they_were_not_shown() -> None:
    W_Q, W_K, _ = learned()[-1]
    rng = np.random.default_rng(1)
    unseen = [VECTORS + 0.3 * rng.normal(size=VECTORS.shape) for _ in range(1000)]
    found = np.mean([weights_of(X, W_Q, W_K).argmax(axis=1) == ANSWERS for X in unseen], axis=0)
    assert found.min() > 0.95
    M = W_Q @ W_K.T
    assert M[0, 0] > 3  # a thing asks for things
    assert M[1, 0] < -3  # who acts asks for persons, who describes for things
    sizes = np.linalg.svd(M, compute_uv=False)
    assert sizes[1] < 0.1 * sizes[0]  # its rows are nearly multiples of each other
    question = VECTORS[INDEX["it"]] @ M
    assert TOKENS[(VECTORS @ question).argmax()] == "pear"  # which lies farthest that way
    assert question[0] / np.linalg.norm(question) > 0.95  # the axis from person to thing
    q, k_pear, k_she = VECTORS[INDEX["it"]] @ W_Q, VECTORS[INDEX["pear"]] @ W_K, VECTORS[INDEX["she"]] @ W_K
    assert q @ k_pear / np.linalg.norm(q) / np.linalg.norm(k_pear) > 0.99
    assert q @ k_she / np.linalg.norm(q) / np.linalg.norm(k_she) < -0.9
    assert max(np.abs(x @ W).max() for x in VECTORS[[INDEX[w] for w in ("she", "pear", "sweet", "it")]] for W in (W_Q, W_K)) < 7


def test_in_a_trained_head_it_asks_and_finds_the_pear() -> None:
    head, i = load_heads("thread").head("coreference"), INDEX["it"]
    a = softmax(head.q[i] @ head.k[: i + 1].T / np.sqrt(64))
    assert TOKENS[a.argmax()] == "pear"
    assert round(float(a.max()), 2) == 0.55
    assert len(load_heads("thread").names) == 6


# -------------------------------------------------------------------------------------------- unequal lengths


def test_bilinear_scores_agree_with_torch_bilinear() -> None:
    (Q, _), (_, K) = random_pair(3, 1, 4), random_pair(1, 5, 7)
    M = np.random.default_rng(1).normal(size=(4, 7))
    q, k = (torch.from_numpy(np.repeat(Q, 5, axis=0)), torch.from_numpy(np.tile(K, (3, 1))))
    expected = torch.nn.functional.bilinear(q, k, torch.from_numpy(M)[None]).reshape(3, 5)
    assert_allclose(bilinear_scores(Q, M, K), expected, **EXACT)


def test_what_the_lessons_cell_prints_of_the_gap() -> None:
    rng = np.random.default_rng(1)
    gaps = [weight_gap(rng.normal(size=(5, 64)), rng.normal(size=(7, 64))) for _ in range(300)]
    assert 0.2 < np.median(gaps) < 0.3
    assert 0.45 < max(gaps) < 0.75


def test_two_projections_are_one_bilinear_form_of_low_rank() -> None:
    rng = np.random.default_rng(0)
    Q, K, W_Q, W_K = (rng.normal(size=shape) for shape in ((5, 96), (7, 128), (96, 16), (128, 16)))
    assert_allclose(dot_scores(Q @ W_Q, K @ W_K), bilinear_scores(Q, W_Q @ W_K.T, K), rtol=1e-9, atol=1e-9)
    assert np.linalg.matrix_rank(W_Q @ W_K.T) == 16
    assert W_Q.size + W_K.size == 3584
    assert 96 * 128 == 12288
    assert (2 * 512 * 64, 512**2) == (65_536, 262_144)


def test_dot_products_are_symmetric_and_bilinear_scores_need_not_be() -> None:
    X = np.eye(2)
    assert_array_equal(dot_scores(X, X), dot_scores(X, X).T)
    assert_array_equal(bilinear_scores(X, np.array([[0.0, 1.0], [0.0, 0.0]]), X), [[0, 1], [0, 0]])


def test_additive_scores_agree_with_torch_linear_layers() -> None:
    given = small_network()
    Q, K, W_Q, W_K, wv = (torch.from_numpy(given[name]) for name in ("Q", "K", "W_Q", "W_K", "wv"))
    linear = torch.nn.functional.linear
    expected = linear(torch.tanh(linear(Q, W_Q.T)[:, None] + linear(K, W_K.T)), wv[None])[..., 0]
    assert_allclose(additive_scores(**given), expected, **EXACT)


def test_without_the_tanh_every_query_gets_the_same_weights() -> None:
    given = small_network()
    without = (given["Q"] @ given["W_Q"] @ given["wv"])[:, None] + given["K"] @ given["W_K"] @ given["wv"]
    weights = softmax(without)
    assert_allclose(weights, np.tile(weights[0], (3, 1)), **EXACT)
    assert weights[0].max() > 0.9  # and they are not uniform
    with_tanh = softmax(additive_scores(**given))
    assert np.abs(with_tanh[0] - with_tanh[2]).max() > 0.3


@given(st.integers(0, 10_000), st.floats(0.1, 100))
@settings(max_examples=50)
def test_additive_scores_are_bounded_by_the_sum_of_absolute_weights(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    given = {
        name: size * rng.normal(size=shape) for name, shape in (("Q", (3, 2)), ("K", (4, 5)), ("W_Q", (2, 6)), ("W_K", (5, 6)))
    }
    wv = rng.normal(size=6)
    assert np.abs(additive_scores(**given, wv=wv)).max() <= np.abs(wv).sum() * (1 + 1e-12)


# ----------------------------------------------------------------------------------------------------- errata


def test_leaving_the_exponential_out_turns_the_weights_upside_down() -> None:
    s = gaussian_scores(np.zeros((1, 1)), np.array([[1.0], [2.0], [3.0]]))
    assert_allclose(np.exp(s) / np.exp(s).sum(), softmax(s), **EXACT)
    assert_array_equal(softmax(s).round(3), [[0.806, 0.180, 0.015]])
    assert_array_equal((s / s.sum()).round(3), [[0.071, 0.286, 0.643]])


def test_two_columns_have_no_product_without_a_transpose() -> None:
    column = np.ones((4, 1))
    with pytest.raises(ValueError, match="mismatch"):
        column @ column
    assert (column.T @ column).shape == (1, 1)


@pytest.mark.parametrize(("d", "additive_top", "dot_top"), [(4, 0.07, 0.38), (64, 0.08, 0.80), (1024, 0.08, 0.96)])
def test_additive_scores_keep_their_size_while_dot_products_grow(d: int, additive_top: float, dot_top: float) -> None:
    rng = np.random.default_rng(0)
    Q, K, wv = rng.normal(size=(100, d)), rng.normal(size=(32, d)), rng.normal(size=32) / np.sqrt(32)
    W_Q, W_K = rng.normal(size=(2, d, 32)) / np.sqrt(d)
    additive, dot = additive_scores(Q, K, W_Q, W_K, wv), dot_scores(Q, K)
    assert 0.5 < additive.std() < 1
    assert_allclose(dot.std(), np.sqrt(d), rtol=0.1)
    assert round(softmax(additive).max(axis=1).mean(), 2) == additive_top
    assert round(softmax(dot).max(axis=1).mean(), 2) == dot_top


def test_without_a_scale_one_key_gets_nearly_all_the_weight_of_a_random_query() -> None:
    Q, K = random_pair(100, 32, 512)
    assert softmax(dot_scores(Q, K)).max(axis=1).mean() > 0.9


def test_attention_with_its_projections_does_more_work_than_an_rnn_at_every_length() -> None:
    for n, rnn, attention in ((128, 67, 151), (512, 268, 805), (2048, 1074, 6442)):
        projections, table = 4 * n * 512**2, 2 * n**2 * 512
        assert (round(2 * n * 512**2 / 1e6), round((projections + table) / 1e6)) == (rnn, attention)
    assert 4 * 1024 * 512**2 == 2 * 1024**2 * 512
    assert 4 * 1024 * 512**2 + 2 * 1024**2 * 512 == 8 * 1024 * 512**2  # an LSTM's four gates: as much at n = 2 d


# ------------------------------------------------------------------------------------------------ all of them

PAIRWISE: tuple[Callable[[Array, Array], Array], ...] = (
    gaussian_scores,
    dot_scores,
    lambda Q, K: bilinear_scores(Q, np.random.default_rng(1).normal(size=(4, 4)).astype(Q.dtype), K),
    lambda Q, K: additive_scores(Q, K, *np.random.default_rng(1).normal(size=(3, 4, 4)).astype(Q.dtype)[:2], np.ones(4, Q.dtype)),
)


@pytest.mark.parametrize("score", PAIRWISE)
def test_permuting_keys_permutes_columns_and_queries_rows(score: Callable[[Array, Array], Array]) -> None:
    Q, K = random_pair(3, 5, 4)
    rows, columns = [2, 0, 1], [4, 2, 0, 1, 3]
    assert_allclose(score(Q[rows], K[columns]), score(Q, K)[np.ix_(rows, columns)], **EXACT)


@pytest.mark.parametrize("score", PAIRWISE)
def test_float32_strided_and_single_inputs_serve_as_well(score: Callable[[Array, Array], Array]) -> None:
    Q, K = random_pair(3, 5, 4)
    assert_allclose(score(np.asfortranarray(Q), K[::-1][::-1]), score(Q, K), **EXACT)
    assert_allclose(score(Q.astype(np.float32), K.astype(np.float32)), score(Q, K), **SINGLE)
    assert_allclose(score(Q[:1], K[:1]), score(Q, K)[:1, :1], **EXACT)


def test_no_function_changes_its_inputs() -> None:
    given = small_network(d_q=5)
    before = {name: value.copy() for name, value in given.items()}
    Q, K = given["Q"], given["K"]
    softmax(Q)
    gaussian_scores(Q, K)
    pool_in_blocks(Q[0], K[[0, 1, 2, 3, 0]], 2)
    learn_step(K, np.array([0]), np.array([1]), given["W_K"], given["W_K"], 0.5)
    additive_scores(**given)
    for name, value in given.items():
        assert_array_equal(value, before[name])


# --------------------------------------------------------------------------------- numbers of notebooks 02 and 02b


def test_no_question_finds_it_by_dot_product() -> None:
    turns = np.linspace(0, 2 * np.pi, 3600)
    winners = (np.stack([np.cos(turns), np.sin(turns)], axis=1) @ VECTORS.T).argmax(axis=1)
    assert {TOKENS[j] for j in winners} == {"she", "ate", "pear", "sweet"}


def test_no_rotation_leads_two_nouns_and_two_adjectives_to_their_partners() -> None:
    assert_array_equal(finds_its_partner(choose_m()), [2, 2, 2, 2])
    for angle in np.radians(range(0, 360, 5)):
        c, s = np.cos(angle), np.sin(angle)
        assert (finds_its_partner(9 * np.array([[c, s], [-s, c]])) != 2).any()


def draw_text(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """A text of notebook 02b: two adjectives, their nouns and two fillers, in any order."""
    kinds = np.array([[-1.0, 1], [1, 1], [-1, -1], [1, -1], [0, 0], [0, 0]])
    order = rng.permutation(6)
    X = (kinds + 0.3 * rng.normal(size=(6, 2)))[order]
    place = np.argsort(order)
    return X, place[[0, 2]], place[[1, 3]]


def right_answers(choose: Callable[[Array, Array], Any]) -> float:
    rng = np.random.default_rng(99)
    texts = [draw_text(rng) for _ in range(1000)]
    return float(np.mean([choose(X, asking) == answers for X, asking, answers in texts]))


@pytest.mark.parametrize(("p", "low", "high"), [(1, 0.45, 0.55), (2, 0.96, 1.0)])
def test_one_number_a_query_learns_no_more_than_the_rule_that_ignores_the_question(p: int, low: float, high: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        W_Q, W_K = 0.3 * rng.normal(size=(2, 2, p))
        for _ in range(200):
            W_Q, W_K = learn_step(*draw_text(rng), W_Q, W_K, 0.1)
        share = right_answers(lambda X, asking, W=(W_Q, W_K): (X[asking] @ W[0] @ W[1].T @ X.T).argmax(1))  # type: ignore[misc]
        assert low <= share <= high
    assert abs(right_answers(lambda X, asking: X[:, 0].argmax()) - 0.498) < 1e-9


def test_a_step_by_trying_would_take_two_weeks() -> None:
    assert 14 < days_by_trying() < 16


def test_scores_of_two_thin_matrices_are_those_of_their_product() -> None:
    rng = np.random.default_rng(0)
    X_q, X_k, W_Q, W_K = (rng.normal(size=shape) for shape in ((3, 5), (4, 6), (5, 2), (6, 2)))
    assert_allclose(two_matrix_scores(X_q, X_k, W_Q, W_K), X_q @ (W_Q @ W_K.T) @ X_k.T / np.sqrt(2), **EXACT)
