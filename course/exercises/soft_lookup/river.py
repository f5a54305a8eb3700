"""Kernel regression with many queries at once, the choice of its width, and of its kernel."""

import numpy as np

from autograder import Before, Case, Draw, Exercise, Instead, Misconception, Prediction, Variant
from solutions import soft_lookup as ref


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
    """Two of three queries are so far away that every score is rounded to 0, so the fit there is 0."""
    x, shift = np.array([0.0, 1.0, 2.0, 3.0]), draw.integer(0, 5)
    return {"xq": np.array([-100.0, 1.4, 1.0]) - shift, "x": x - shift, "y": draw.normal(4) + 2, "width": 0.01}


def _beyond_reach_of_a_wide_kernel(draw: Draw) -> dict[str, object]:
    """The same with a width above 1, where multiplying by the width is out of reach as well."""
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
        "The weights $a_{ij}$ have two indices. Which axis of your array is $i$, which one is $j$, and along which one do they sum to 1?",
        "`xq[:, None] - x[None, :]` is the `(n, m)` table of all differences. Divide it by `width` *before* squaring, and apply the "
        "Gaussian to each entry.",
        "`normalize` works along the last axis, which is $j$. The sum over $j$ of weights times `y` is the product of an `(n, m)` "
        "table with a vector of `m` numbers.",
    ),
    misconceptions=(
        Misconception(
            "multiplied_by_width",
            "multiplied the differences by the width, so a larger width makes a *narrower* kernel",
            "Distances are measured in widths, so divide by `width`.",
            Instead(times=True),
        ),
        Misconception(
            "width_not_squared",
            "divided the squared difference by `width` instead of its square",
            "The exponent is $-u^2/2$ with $u = (x^q - x)/\\sigma$. Divide first and square second.",
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
            "used $|u|$ in the exponent instead of its square",
            "The Gaussian falls with the *square* of the distance, $\\exp(-u^2/2)$.",
            Instead(power=1),
        ),
        Misconception(
            "normalised_over_queries",
            "normalised over the queries, so one more query would change the fit at all others",
            "The weights of each query must sum to 1. In the formula the sum below runs over $l$, the axis of the data.",
            Instead(axis=0),
            also=(_over_queries_unguarded,),
        ),
        Misconception(
            "lost_the_axis",
            "divided the `(n, m)` scores by `n` sums of shape `(n,)`, which NumPy lines up with the *last* axis",
            "Keep the summed axis, so that the sums have shape `(n, 1)`, or let `normalize` do it.",
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
            "divided by a sum of 0 where every score is rounded to 0, which gives NaN",
            "`normalize` leaves such a row at 0.",
            Instead(guarded=False),
        ),
        Misconception(
            "stable_softmax",
            "subtracted each row's largest exponent first, so a query out of reach of all points gets the nearest value instead of 0",
            "Here a row of scores that are all rounded to 0 stays 0. Take the exponentials as they are and `normalize` the rows.",
            Instead(shifted=True),
        ),
        Misconception(
            "added_an_epsilon",
            "added a small constant to the denominator, so the fit falls to 0 far from the data, where all scores are tiny",
            "Divide by the true sum, as `normalize` does.",
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
    title="Leave one out",
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
        "Each point takes its turn as the query, and the others are keys and values. How many fits do you need in all?",
        "For point `j`, call `nadaraya_watson` with the query `x[j : j + 1]`, and with `x` and `y` without their entry `j`. You can use "
        "`np.delete`, or a boolean array that is False at `j`. Collect the errors `y[j] - fit[0]`.",
        "After the loop there are `m` errors. Square each of them and return the mean of the squares.",
    ),
    misconceptions=(
        Misconception(
            "shown_to_itself",
            "left nothing out, so each point contributes to its own fit and the narrowest kernel looks perfect",
            "Fit point `j` from the *other* points only, and take it out of both `x` and `y`.",
            Instead(itself=True),
        ),
        Misconception(
            "not_squared",
            "averaged the errors with their signs, so errors above and below cancel",
            "Square each error before you average.",
            Instead(of=lambda e: e),
        ),
        Misconception(
            "absolute_errors",
            "averaged absolute errors",
            "Average the *squared* errors.",
            Instead(of=np.abs),
        ),
        Misconception(
            "root_taken",
            "took the square root at the end",
            "Return the mean squared error itself, in the units of $y^2$.",
            Instead(end=np.sqrt),
        ),
        Misconception(
            "summed",
            "added up the squared errors and did not divide by their number",
            "Take the mean over the `m` points.",
            Instead(join=np.sum),
        ),
        Misconception(
            "half_left_out",
            "left every second point out at once",
            "Leave out one point at a time. That makes `m` fits from `m - 1` points each.",
            _split_in_half,
        ),
        Misconception(
            "same_place_left_out",
            "left out every point at the same place instead of only point `j`",
            "Compare the *numbers* of the points, `np.arange(len(x)) != j`, and not their places.",
            Instead(residuals=_same_place_left_out),
        ),
        Misconception(
            "shortcut_of_nothing",
            "divided the residual of the full fit by one minus the point's own weight, which is 0 / 0 where that weight is 1",
            "A point out of reach of all others has the fit 0. Call `nadaraya_watson` with the other points only.",
            _from_the_full_fit,
        ),
        Misconception(
            "mean_own_weight",
            "divided the residuals of the full fit by one minus the *mean* of all own weights, which is generalised cross-validation",
            "Each point has its own weight in its fit, so use that one, or leave the points out one by one.",
            _from_the_mean_own_weight,
        ),
        Misconception(
            "past_only",
            "fitted each point only from the points before it",
            "Use all *other* points, including the later ones.",
            Instead(residuals=_past_only),
            also=(Instead(residuals=_past_only_or_nothing),),
        ),
        Misconception(
            "asked_at_every_place",
            "left each point out in turn, but averaged the errors at *all* points, most of which the fit had seen",
            "From each fit take only the error at point `j`, the one that was left out. That makes `m` errors in all.",
            Instead(residuals=_asked_at_every_place),
        ),
        Misconception(
            "asked_where_shown",
            "left each point out in turn, but averaged the errors at the points that the fit *had* seen",
            "Ask each fit at the point that was left out, `x[j : j + 1]`, and compare with `y[j]`.",
            Instead(residuals=_asked_where_shown),
        ),
        Misconception(
            "out_of_one_only",
            "took point `j` out of only one of `x` and `y`, so their lengths differ",
            "Key and value belong together, so take entry `j` out of both `x` and `y`.",
            Instead(residuals=_kept_in_y),
            also=(Instead(residuals=_kept_in_x),),
            raises=True,
        ),
        Misconception(
            "value_hidden",
            "set the value of the point to 0 instead of taking it out, so it pulls the fit at its own place towards 0",
            "Take out key and value, so that only the others share the weight.",
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
        "b": "a staircase with the value of the nearest point and jumps half-way between points",
        "c": "zero everywhere except at the points themselves",
        "d": "a flat line at the mean of all points",
    },
    holds="b",
    reveal="As the width shrinks, the nearest point outweighs all others by any factor, so its weight tends to 1. At a large width all "
    "weights tend to 1/m, which is (d). A *computer* returns (c) once every score is rounded to 0, and lesson 02 repairs that.",
)

PREDICT_KERNEL = Prediction(
    "predict_kernel",
    title="Predict: four kernels, each at its best width",
    points=0.5,
    choices={
        "a": "less than 5 %",
        "b": "between 5 and 20 %",
        "c": "more than 20 %",
    },
    holds="a",
    reveal="The best errors of the four kernels lie within 2 % of each other. All of them give near years most of the weight, and at its "
    "best width each averages over about five or six years.",
)
