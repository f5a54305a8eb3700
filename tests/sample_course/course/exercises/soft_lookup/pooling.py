"""Pooling by any kernel, kernel regression (many queries at once), and the choice of its width."""

import numpy as np
from answers import soft_lookup as ref

from autograder import Before, Case, Code, Draw, Exercise, Instead, Misconception, Prediction, Variant

# Kernels of our own for the probes: none of them is an exercise of the lesson.
RATIONAL = Code("lambda q, K: 1 / (1 + np.abs(K - q).sum(axis=-1))")
# q and K don't commute, and where they lie counts beside their difference
HALVING = Code("lambda q, K: (1 + (K > q).mean(axis=1) + np.square(K).sum(axis=-1)) * 2.0 ** -np.abs(K - q).sum(axis=1)")
FAINT = Code("lambda q, K: 1e-30 / (1 + np.abs(K - q).sum(axis=-1))")
RANK = Code("lambda q, K: np.sqrt((np.abs(K - q).sum(axis=1)[:, None] <= np.abs(K - q).sum(axis=1)).sum(axis=1))")  # keys as near
SAME_CELL = Code("lambda q, K: (np.floor(K) == np.floor(q)).mean(axis=1)")


# ------------------------------------------------------------------------------------------- attention_pool


def _by_hand(draw: Draw) -> dict[str, object]:
    """Distances 0, 1 and 3 in one dimension: the scores are 1, 1/2 and 1/4."""
    q = draw.rng.integers(-3, 4, 1).astype(float)
    K = q + np.array([[0.0], [1.0], [-3.0]])[draw.rng.permutation(3)]
    return {"q": q, "K": K, "V": draw.rng.permutation(np.arange(-3, 6))[:6].reshape(3, 2).astype(float), "kernel": RATIONAL}


def _more_keys(draw: Draw) -> dict[str, object]:
    m, d, d_v = draw.sizes(3, low=3)
    scale = 1.5 / d  # keeps the scores within a factor of about ten of each other
    q, K = draw.normal(d, scale=scale), draw.normal(m, d, scale=scale)
    K[0], K[1] = q + np.abs(K[0]), q - np.abs(K[1])  # so that the kernel tells kernel(q, K) from kernel(K, q)
    return {"q": q, "K": K, "V": draw.normal(m, d_v), "kernel": HALVING}


def _nothing_near(draw: Draw) -> dict[str, object]:
    q = draw.uniform(2, low=0.1, high=0.9)
    return {"q": q, "K": q + draw.rng.integers(2, 6, (5, 2)), "V": draw.normal(5, 3) + 1, "kernel": SAME_CELL}


def _tiny_scores(draw: Draw) -> dict[str, object]:
    return _by_hand(draw) | {"kernel": FAINT}


def _ranked(draw: Draw) -> dict[str, object]:
    """The score of a key depends on the other keys: on how many of them lie at least as far away."""
    return _by_hand(draw) | {"kernel": RANK}


def _one_key_at_a_time(q, K, V, kernel):
    scores = [float(kernel(q, K[j : j + 1])[0]) for j in range(len(K))]
    total = sum(scores) or 1.0
    return sum(w / total * v for w, v in zip(scores, V, strict=True))


def _plain(q, K, V, kernel):
    w = kernel(q, K)
    return w @ V / w.sum()


def _pooled(q, K, V, kernel, *, swapped=False, differences=False, one_by_one=False, share=ref.normalize, keys=False):
    asked = (np.zeros_like(q), K - q) if differences else (q, K)

    def scores(q, K):
        return kernel(K, q) if swapped else kernel(q, K)

    w = np.concatenate([scores(asked[0], key[None]) for key in asked[1]]) if one_by_one else scores(*asked)
    return share(w) @ (asked[1] if keys else V)


def _plain_or(empty):
    """The plain formula, with a policy of one's own for scores that are all zero."""
    return lambda q, K, V, kernel: _plain(q, K, V, kernel) if kernel(q, K).any() else empty(q, V)


ATTENTION_POOL = Exercise(
    "attention_pool",
    title="Pool the values",
    points=2,
    difficulty=1,
    minutes=3,
    reference=ref.attention_pool,
    recipe=_pooled,
    cases=(
        Case("three keys on a line", _by_hand),
        Case("more keys, more dimensions", _more_keys),
        Case("no key is near", _nothing_near, edge=0.25),
        Case("tiny scores", _tiny_scores, edge=0.15),
        Case("a kernel that ranks the keys", _ranked, edge=0.1),
    ),
    hints=(
        "You have every piece: a function that scores the keys, and one that makes scores weights. What is left to do with `V`?",
        "Three steps: `kernel(q, K)` gives `m` scores; `normalize` makes them weights; the output is the sum of the rows of `V`, "
        "each times its weight. A vector `(m,)` times a matrix `(m, d_v)` is exactly that sum.",
        "The two functions one inside the other give `m` weights; the operator `@` between them and `V` adds the weighted rows up.",
    ),
    misconceptions=(
        Misconception(
            "not_normalised",
            "pooled with the raw scores: they do not sum to 1, so the output's size depends on how many keys are near",
            "Pass the scores through `normalize` first.",
            Instead(share=lambda s: s),
        ),
        Misconception(
            "divided_by_m",
            "divided by the number of keys and not by the sum of the scores",
            "That averages the scaled rows. Weights that sum to 1 need the sum of the *scores* below the line.",
            Instead(share=lambda s: s / len(s)),
        ),
        Misconception(
            "took_the_best",
            "returned the value of the best-scoring key alone: a hard lookup of the nearest",
            "A soft lookup mixes: every value row counts, in proportion to its score.",
            Instead(share=lambda s: np.eye(len(s))[np.argmax(s)]),
            also=(Instead(share=lambda s: np.eye(len(s))[np.argmax(s)] * s.any()),),
        ),
        Misconception(
            "softmax_of_scores",
            "put the scores through a softmax",
            "These scores are non-negative already: divide them by their sum. (With $e^{w}$, a key that scores 0 still counts.)",
            Instead(share=lambda s: np.exp(s) / np.exp(s).sum()),
        ),
        Misconception(
            "not_summed",
            "weighted each value row but did not add the rows up",
            "Collapse the keys: sum over axis 0, or write the whole step as `weights @ V`.",
            lambda q, K, V, kernel: ref.normalize(kernel(q, K))[:, None] * V,
        ),
        Misconception(
            "pooled_the_keys",
            "mixed the rows of `K` and not those of `V`",
            "Keys only decide the weights. What comes out is made of values: shape `(d_v,)`.",
            Instead(keys=True),
        ),
        Misconception(
            "nothing_gives_nan",
            "divided by a sum of zero where no key is near: the result is NaN",
            "Use your `normalize`, which leaves a row of zeros as it is.",
            Instead(share=lambda s: s / s.sum()),
        ),
        Misconception(
            "nothing_gives_the_mean",
            "returned the mean of all values where every score is zero",
            "That is an average nobody asked for. The rule here: nothing found, all weights stay 0.",
            _plain_or(lambda q, V: V.mean(axis=0)),
        ),
        Misconception(
            "nothing_gives_d_zeros",
            "returned zeros of the query's length where every score is zero",
            "What comes out is made of values: there are `d_v` zeros, not `d`.",
            _plain_or(lambda q, V: np.zeros_like(q)),
        ),
        Misconception(
            "own_kernel",
            "scored the keys with the Gaussian and left `kernel` unused",
            "`kernel` is a function that you are given: `kernel(q, K)` returns the scores, whatever it is.",
            Before(lambda **_: {"kernel": ref.gaussian}),
        ),
        Misconception(
            "swapped_the_arguments",
            "called `kernel(K, q)`",
            "The query comes first: `kernel(q, K)`. A kernel of the distance forgives you; not every kernel is one.",
            Instead(swapped=True),
        ),
        Misconception(
            "differences_for_keys",
            "handed the kernel the differences `K - q`, with zeros for the query: not every kernel looks at differences alone",
            "Query and keys go to the kernel as they came: `kernel(q, K)`.",
            Instead(differences=True),
        ),
        Misconception(
            "one_key_at_a_time",
            "asked the kernel about one key at a time: a kernel that compares the keys with one another then gives other scores",
            "One call, with all keys: `kernel(q, K)` returns the `m` scores.",
            Instead(one_by_one=True),
            also=(_one_key_at_a_time,),
        ),
        Misconception(
            "added_an_epsilon",
            "took tiny scores for none, by a constant added to their sum or a floor under it",
            "Divide by the true sum; your `normalize` does.",
            Instead(share=lambda s: s / (s.sum() + 1e-12)),
        ),
    ),
    variants=(
        Variant("matmul", lambda q, K, V, kernel: V.T @ ref.normalize(kernel(q, K))),
        Variant("weighted_sum", lambda q, K, V, kernel: (ref.normalize(kernel(q, K))[:, None] * V).sum(axis=0)),
    ),
)


# ------------------------------------------------------------------------------------------ nadaraya_watson


def _three_points(draw: Draw) -> dict[str, object]:
    x = np.array([0.0, 1.0, 2.0]) + draw.integer(-2, 2)
    return {
        "xq": x[:2] + np.array([0.3, 0.8]),
        "x": x,
        "y": draw.rng.permutation(np.arange(-4, 5))[:3].astype(float),
        "width": 0.6,
    }


def _more_points(draw: Draw) -> dict[str, object]:
    n, m = draw.sizes(2, low=5, high=13)
    width = round(float(draw.rng.uniform(1.4, 1.7)), 2)
    x = np.sort(draw.uniform(m, low=0.0, high=8.0))
    return {"xq": draw.uniform(n, low=0.0, high=8.0), "x": x, "y": draw.normal(m) * 2 + 1, "width": width}


def _far_outside(draw: Draw) -> dict[str, object]:
    """12 to 14 widths beyond the data: scores of about 1e-32 to 1e-43, far from underflow in float64."""
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    xq = np.array([-1.0, 5.0, 5.2]) + np.array([-1, 1, 1]) * draw.uniform(3, low=5.0, high=5.4)
    return {"xq": xq, "x": x, "y": draw.normal(5) * 2 + 1, "width": 0.5}


def _beyond_reach(draw: Draw) -> dict[str, object]:
    """Two of three queries are so far away that every score is rounded to 0: there the fit is 0, and a quotient of zeros is none."""
    x, shift = np.array([0.0, 1.0, 2.0, 3.0]), draw.integer(0, 5)
    return {"xq": np.array([-100.0, 1.4, 1.0]) - shift, "x": x - shift, "y": draw.normal(4) + 2, "width": 0.01}


def _beyond_reach_of_a_wide_kernel(draw: Draw) -> dict[str, object]:
    """The same with a width above 1: who multiplies by the width is out of reach, too."""
    x, shift = np.array([0.0, 1.0, 2.0, 3.0]), draw.integer(0, 5)
    return {"xq": np.array([1.4, 200.0, -150.0]) - shift, "x": x - shift, "y": draw.normal(4) + 2, "width": 1.5}


def _over_queries_unguarded(xq, x, y, width):
    s = _scores(xq, x, width)
    return s / s.sum(axis=0) @ y


def _fit(xq, x, y, width, *, half=0.5, power=2, times=False, axis=1, epsilon=0.0, share=True, guarded=True, shifted=False):
    u = np.abs(xq[:, None] - x[None, :])
    exponent = -((u * width if times else u / width) ** power) * half
    w = np.exp(exponent - exponent.max(axis=1, keepdims=True) if shifted else exponent)
    total = w.sum(axis=axis, keepdims=True) + epsilon
    return w / ((np.where(total == 0, 1.0, total) if guarded else total) if share else 1.0) @ y


def _scores(xq, x, width):
    return np.exp(-(((xq[:, None] - x[None, :]) / width) ** 2) / 2)


def _keys_down_the_rows(xq, x, y, width):
    w = _scores(x, xq, width)  # (m, n)
    total = w.sum(axis=0)
    return y @ (w / np.where(total == 0, 1.0, total))


def _one_query_at_a_time(xq, x, y, width):
    return np.array([ref.attention_pool(a[None] / width, x[:, None] / width, y[:, None], ref.gaussian)[0] for a in xq])


def _python_loops(xq, x, y, width):
    fit = []
    for a in xq:
        scores = [np.exp(-0.5 * ((a - b) / width) ** 2) for b in x]
        fit.append(sum(w * t for w, t in zip(scores, y, strict=True)) / (sum(scores) or 1.0))
    return np.array(fit)


NADARAYA_WATSON = Exercise(
    "nadaraya_watson",
    title="Many queries at once",
    points=3,
    difficulty=3,
    minutes=9,
    reference=ref.nadaraya_watson,
    recipe=_fit,
    cases=(
        Case("two queries, three points", _three_points),
        Case("more points, a width above 1", _more_points),
        Case("far outside the data", _far_outside, edge=0.2),
        Case("a narrow kernel between the points", _beyond_reach, edge=0.1),
        Case("far beyond the reach of a wide kernel", _beyond_reach_of_a_wide_kernel, edge=0.1),
    ),
    hints=(
        "This is attention pooling with keys `x`, values `y` and `n` queries at once. What shape do the weights have?",
        "Make the table of differences with broadcasting: `xq[:, None] - x[None, :]` has shape `(n, m)`. Divide by `width` "
        "*before* squaring, apply the Gaussian, normalise each row, and multiply by `y`.",
        "With `u` the `(n, m)` table of differences in widths, the scores are the Gaussian of each entry. Your `normalize` works along "
        "the last axis, which is the axis of the data points; a table `(n, m)` times `y` gives `n` numbers.",
    ),
    misconceptions=(
        Misconception(
            "multiplied_by_width",
            "multiplied the differences by the width: a larger width now makes a *narrower* kernel",
            "Distances are measured in widths: divide by `width`.",
            Instead(times=True),
        ),
        Misconception(
            "width_not_squared",
            "divided the squared difference by `width`, not by its square",
            "The exponent is $-u^2/2$ with $u = (x^q - x)/\\sigma$: divide first, square second.",
            Before(lambda width, **_: {"width": np.sqrt(width)}),
        ),
        Misconception(
            "width_ignored",
            "used width 1 whatever `width` says",
            "Divide the differences by `width` before you apply the kernel.",
            Before(lambda **_: {"width": 1.0}),
        ),
        Misconception(
            "no_half",
            "left out the factor 1/2 in the exponent, which makes the kernel narrower by $\\sqrt{2}$",
            "The exponent is $-u^2/2$ with $u = (x^q - x)/\\sigma$.",
            Instead(half=1.0),
        ),
        Misconception(
            "difference_not_squared",
            "used $|u|$ in the exponent where its square belongs",
            "The Gaussian falls with the *square* of the distance: $\\exp(-u^2/2)$.",
            Instead(power=1),
        ),
        Misconception(
            "normalised_over_queries",
            "normalised over the queries: asking about one more place would then change the fit at all others",
            "Each query's weights over the data must sum to 1: with weights of shape `(n, m)`, sum over the last axis.",
            Instead(axis=0),
            also=(_over_queries_unguarded,),
        ),
        Misconception(
            "lost_the_axis",
            "divided the `(n, m)` scores by `n` sums of shape `(n,)`, which NumPy lines up with the *last* axis",
            "Keep the summed axis, so that the sums have shape `(n, 1)`; or let your `normalize` do it.",
            lambda xq, x, y, width: _scores(xq, x, width) / _scores(xq, x, width).sum(axis=1) @ y,
            raises=True,
        ),
        Misconception(
            "not_normalised",
            "added up scores times `y` without dividing by the sum of the scores",
            "Normalise each row of the `(n, m)` scores before you multiply by `y`.",
            Instead(share=False),
        ),
        Misconception(
            "zero_over_zero",
            "divided by a sum that is 0 where every score is rounded to 0: the fit there is NaN",
            "Your `normalize` leaves such a row at 0.",
            Instead(guarded=False),
        ),
        Misconception(
            "stable_softmax",
            "subtracted each row's largest exponent before the exponential: a query beyond the reach of all points then gets the "
            "nearest value, where the fit is to be 0",
            "Here a row of scores that are all rounded to 0 stays 0: take the exponentials as they are, and `normalize` the rows.",
            Instead(shifted=True),
        ),
        Misconception(
            "added_an_epsilon",
            "added a small constant to the denominator: far from the data, where all scores are tiny, the fit falls to 0",
            "Divide by the true sum; your `normalize` does.",
            Instead(epsilon=1e-12),
        ),
    ),
    variants=(
        Variant("attention_pool_per_query", _one_query_at_a_time),
        Variant("python_loops", _python_loops),
        Variant("keys_down_the_rows", _keys_down_the_rows),
    ),
)

# -------------------------------------------------------------------------------------------- leave_one_out


def _four_points(draw: Draw) -> dict[str, object]:
    x = np.array([0.0, 1.0, 2.0, 3.0]) + draw.integer(-2, 2)
    return {"x": x, "y": draw.rng.permutation(np.arange(-4, 5))[:4].astype(float), "width": 0.8}


def _years(draw: Draw) -> dict[str, object]:
    m = int(draw.sizes(1, low=11, high=17)[0])
    return {"x": 1900.0 + np.arange(m), "y": 900 + 100 * draw.normal(m), "width": round(float(draw.rng.uniform(1.6, 2.4)), 2)}


def _unsorted_points(draw: Draw) -> dict[str, object]:
    m = int(draw.sizes(1, low=7, high=11)[0])
    return {"x": draw.uniform(m, low=0.0, high=8.0), "y": draw.normal(m) + 1, "width": 1.5}


def _twice_the_same_place(draw: Draw) -> dict[str, object]:
    """Two points at one place: when one is left out, the other is still shown."""
    x = np.array([0.0, 1.0, 1.0, 2.5, 4.0]) + draw.integer(-2, 2)
    return {"x": x, "y": draw.rng.permutation(np.arange(-4, 5))[:5].astype(float), "width": 0.7}


def _too_narrow(draw: Draw) -> dict[str, object]:
    """Every score of another point is rounded to 0, so every fit is 0."""
    m = int(draw.sizes(1, low=3, high=5)[0])
    return {"x": 2.0 * np.arange(m) + draw.integer(-2, 2), "y": draw.normal(m) * 2 + 1, "width": 0.01}


def _residuals(x, y, width):
    s = _scores(x, x, width)
    np.fill_diagonal(s, 0.0)
    return y - ref.normalize(s) @ y


def _error(x, y, width, *, itself=False, residuals=_residuals, of=np.square, join=np.mean, end=float):
    errors = y - ref.nadaraya_watson(x, x, y, width) if itself else residuals(x, y, width)
    return float(end(join(of(errors))))


def _split_in_half(x, y, width):
    fit = ref.nadaraya_watson(x[1::2], x[::2], y[::2], width)
    return float(np.mean((y[1::2] - fit) ** 2))


def _same_place_left_out(x, y, width):
    return y - [ref.nadaraya_watson(x[j : j + 1], x[x != x[j]], y[x != x[j]], width)[0] for j in range(len(x))]


def _kept_in_y(x, y, width):
    return y - [ref.nadaraya_watson(x[j : j + 1], np.delete(x, j), y, width)[0] for j in range(len(x))]


def _kept_in_x(x, y, width):
    return y - [ref.nadaraya_watson(x[j : j + 1], x, np.delete(y, j), width)[0] for j in range(len(x))]


def _past_only(x, y, width):
    return y[1:] - [ref.nadaraya_watson(x[j : j + 1], x[:j], y[:j], width)[0] for j in range(1, len(x))]


def _past_only_or_nothing(x, y, width):
    return np.append(y[0], _past_only(x, y, width))


def _value_hidden(x, y, width):
    """The point stays in the table, with 0 for its value."""
    return np.array(
        [y[j] - ref.nadaraya_watson(x[j : j + 1], x, np.where(np.arange(len(x)) == j, 0.0, y), width)[0] for j in range(len(x))]
    )


def _asked_at_every_place(x, y, width):
    others = [np.arange(len(x)) != j for j in range(len(x))]
    return np.array([y - ref.nadaraya_watson(x, x[o], y[o], width) for o in others])


def _asked_where_shown(x, y, width):
    others = [np.arange(len(x)) != j for j in range(len(x))]
    return np.array([y[o] - ref.nadaraya_watson(x[o], x[o], y[o], width) for o in others])


def _by_deletion(x, y, width):
    total = 0.0
    for j in range(len(x)):
        total += (y[j] - ref.nadaraya_watson(x[j : j + 1], np.delete(x, j), np.delete(y, j), width)[0]) ** 2
    return total / len(x)


def _from_the_full_fit(x, y, width):
    """The known shortcut: the residual of the full fit, divided by one minus the point's own weight."""
    weights = ref.normalize(_scores(x, x, width))
    return float(np.mean(((y - weights @ y) / (1 - np.diag(weights))) ** 2))


def _from_the_mean_own_weight(x, y, width):
    """The shortcut with one own weight for all points, their mean."""
    weights = ref.normalize(_scores(x, x, width))
    return float(np.mean(((y - weights @ y) / (1 - np.diag(weights).mean())) ** 2))


LEAVE_ONE_OUT = Exercise(
    "leave_one_out",
    title="Which width?",
    points=2,
    kind="use",
    difficulty=3,
    minutes=9,
    reference=ref.leave_one_out,
    recipe=_error,
    cases=(
        Case("four points", _four_points),
        Case("a row of years", _years),
        Case("points in any order", _unsorted_points, edge=0.2),
        Case("two points at one place", _twice_the_same_place, edge=0.1),
        Case("a kernel too narrow to reach another point", _too_narrow, edge=0.1),
    ),
    hints=(
        "Each point takes its turn as the question, and the others are the table. How many fits do you need in all?",
        "For point `j`, call `nadaraya_watson` with one query, `x[j : j + 1]`, and with `x` and `y` without their entry `j` "
        "(`np.delete`, or a boolean array that is False at `j`). Collect the errors `y[j] - fit[0]`.",
        "After the loop there are `m` errors. Square each, then average: NumPy's `mean` of the squares, as one number.",
    ),
    misconceptions=(
        Misconception(
            "shown_to_itself",
            "left nothing out: each point votes for itself, and the narrowest kernel looks perfect",
            "Fit point `j` from the *other* points only: take it out of `x` and out of `y`.",
            Instead(itself=True),
        ),
        Misconception(
            "not_squared",
            "averaged the errors with their signs: misses above and below cancel",
            "Square each error before you average.",
            Instead(of=lambda e: e),
        ),
        Misconception(
            "absolute_errors",
            "averaged absolute errors",
            "The *squared* errors are wanted.",
            Instead(of=np.abs),
        ),
        Misconception(
            "root_taken",
            "took the square root at the end",
            "The mean squared error itself is wanted, in the units of $y^2$.",
            Instead(end=np.sqrt),
        ),
        Misconception(
            "summed",
            "added the squared errors up and did not divide by their number",
            "Take the mean over the `m` points.",
            Instead(join=np.sum),
        ),
        Misconception(
            "half_left_out",
            "left every second point out at once",
            "One at a time: `m` fits from `m - 1` points each.",
            _split_in_half,
        ),
        Misconception(
            "same_place_left_out",
            "left out every point that stands at the same place, and not only point `j`",
            "Compare the *numbers* of the points, `np.arange(len(x)) != j`, not their places.",
            Instead(residuals=_same_place_left_out),
        ),
        Misconception(
            "shortcut_of_nothing",
            "took the residual of the full fit over one minus the point's own weight: where that weight is 1, this is 0 over 0",
            "A point that no other one reaches has the fit 0, as `nadaraya_watson` says: ask it with the other points only.",
            _from_the_full_fit,
        ),
        Misconception(
            "mean_own_weight",
            "divided the residuals of the full fit by one minus the *mean* of all own weights: that is another measure, generalised "
            "cross-validation",
            "Each point has an own weight of its own. Or take the points out one by one, and ask the others.",
            _from_the_mean_own_weight,
        ),
        Misconception(
            "past_only",
            "fitted each point from those before it only",
            "All *other* points belong to the table, the later ones as well.",
            Instead(residuals=_past_only),
            also=(Instead(residuals=_past_only_or_nothing),),
        ),
        Misconception(
            "asked_at_every_place",
            "left each point out in turn, but then averaged the errors at *all* points, most of which the fit was shown",
            "Of each fit only the error at point `j` counts, the one that was left out: `m` errors in all.",
            Instead(residuals=_asked_at_every_place),
        ),
        Misconception(
            "asked_where_shown",
            "left each point out in turn, but then averaged the errors at the points that the fit *was* shown",
            "Ask each fit at the point that was left out, `x[j:j+1]`, and compare with `y[j]`.",
            Instead(residuals=_asked_where_shown),
        ),
        Misconception(
            "out_of_one_only",
            "took point `j` out of `x` or out of `y`, and not out of both: one has an entry more than the other",
            "Key and value belong together: take entry `j` out of `x` *and* out of `y`.",
            Instead(residuals=_kept_in_y),
            also=(Instead(residuals=_kept_in_x),),
            raises=True,
        ),
        Misconception(
            "value_hidden",
            "left the point in the table with its value set to 0: it still pulls the fit at its own place towards 0",
            "Take the point out, key and value: then the others alone share the weight.",
            Instead(residuals=_value_hidden),
        ),
        Misconception(
            "width_ignored",
            "used width 1 whatever `width` says",
            "Pass `width` on to `nadaraya_watson`.",
            Before(lambda **_: {"width": 1.0}),
        ),
    ),
    variants=(
        Variant("by_deletion", _by_deletion),
        Variant("zero_on_the_diagonal", lambda x, y, width: np.mean(_residuals(x, y, width) ** 2)),
    ),
)

PREDICT_WIDTH = Prediction(
    "predict_width",
    title="Predict: the narrowest fit",
    points=0.5,
    choices={
        "a": "straight lines from each point to the next",
        "b": "a staircase: the value of the nearest point, with jumps half-way between points",
        "c": "zero everywhere except at the points themselves",
        "d": "a flat line at the mean of all points",
    },
    holds="b",
    reveal="(b). As the width shrinks, the nearest point outweighs all others by any factor you like, so its weight tends to "
    "1: a hard lookup of the *nearest* key. (d) is the other end: at a large width all weights tend to 1/m. (c) is what the "
    "*computer* returns once every score underflows to 0; lesson 02 repairs that.",
)
