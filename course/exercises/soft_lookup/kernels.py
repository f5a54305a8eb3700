"""Kernels: scores that fall with the distance between query and key."""

import math

import numpy as np

from autograder import After, Case, Draw, Exercise, Instead, Made, Misconception, Property, Variant
from solutions import soft_lookup as ref

Inputs = dict[str, np.ndarray]


def _three_keys(draw: Draw) -> Inputs:
    """Distances 0.25, 0.8 and 1.27, all easy by hand (3-4-5 triangles); the last key is within 1 in *each* coordinate."""
    q = draw.rng.integers(-3, 4, 2).astype(float)
    offsets = np.array([[0.15, 0.2], [0.48, -0.64], [-0.9, 0.9]])
    return {"q": q, "K": q + draw.choice([-1, 1]) * offsets[draw.rng.permutation(3)]}


def _more_keys(draw: Draw) -> Inputs:
    """Distances well inside 1/2, between 1/2 and 1, and beyond 1, none of them near a border.

    Row 2 lies beyond 1 along one axis, below the query: no test of single coordinates or of signed sums gets it right.
    """
    m, d = draw.sizes(2, low=3)
    bands = [(0.15, 0.4), (0.6, 0.9), (1.2, 1.9)]
    u = np.array([draw.rng.uniform(*bands[j % 3]) for j in range(m)])
    directions = draw.normal(m, d)
    directions[2] = -np.eye(d)[0]
    q = draw.normal(d)
    return {"q": q, "K": q + u[:, None] * directions / np.linalg.norm(directions, axis=1, keepdims=True)}


def _on_the_border(draw: Draw) -> Inputs:
    """Quarters are exact in binary, so two of the distances are exactly 1 however they are computed."""
    q = draw.rng.integers(-8, 9, 3) / 4
    steps = np.array([[1.0, 0, 0], [0, -1.0, 0], [0, 0, 1.25], [0, 0.5, 0]])
    return {"q": q, "K": q + steps[draw.rng.permutation(4)]}


CASES = (Case("three keys", _three_keys), Case("more keys, more dimensions", _more_keys))
BOUNDED = (Property("non_negative"), Property("at_most_one"))


def distance(q, K):
    return np.linalg.norm(K - q, axis=-1)


def squared(q, K):
    return ((K - q) ** 2).sum(axis=-1)


def _score(q, K, *, half=0.5, power=2, axis=-1):
    return np.exp(-(np.sqrt(((K - q) ** 2).sum(axis=axis)) ** power) * half)


def _gaussian_loop(q, K):
    return np.array([math.exp(-0.5 * sum((a - b) ** 2 for a, b in zip(q, k, strict=True))) for k in K])


GAUSSIAN = Exercise(
    "gaussian",
    title="The Gaussian kernel",
    points=1,
    difficulty=1,
    minutes=5,
    reference=ref.gaussian,
    recipe=_score,
    cases=CASES,
    properties=BOUNDED,
    hints=(
        "One score for each key. Which axis of `K - q` runs over the entries of one key, and which over the keys?",
        "The squared distance is the sum of squared differences over the last axis. Halve it, negate it, take the exponential.",
        "`((K - q) ** 2).sum(axis=-1)` holds the `m` values of $u^2$. What the formula does with each of them, NumPy's `exp` "
        "does with all at once.",
    ),
    misconceptions=(
        Misconception(
            "no_half",
            "left out the factor 1/2: your scores are the squares of the right ones",
            "The exponent is $-u^2/2$: divide by 2.",
            Instead(half=1.0),
        ),
        Misconception(
            "distance_not_squared",
            "used the distance $u$ where its square belongs",
            "`np.linalg.norm` takes a square root at the end: square its result, or sum the squares yourself.",
            Instead(power=1),
        ),
        Misconception(
            "density_factor",
            "divided by $\\sqrt{2\\pi}$, as for the normal *density*",
            "A kernel score need not integrate to 1 (the factor cancels when you normalise). Here a key at distance 0 scores 1.",
            After(lambda out, **_: out / np.sqrt(2 * np.pi)),
        ),
        Misconception(
            "summed_over_keys",
            "summed over the keys, so you have one number per dimension and not one per key",
            "`K - q` has shape `(m, d)`. Sum over the last axis, so that `m` scores remain.",
            Instead(axis=0),
        ),
        Misconception(
            "one_distance_for_all",
            "computed one single distance for the whole array, and so one score",
            "Without an `axis`, `np.linalg.norm` (like `sum`) takes in every entry of `K - q`. Say `axis=-1`.",
            Instead(axis=None),
        ),
        Misconception(
            "already_normalised",
            "normalised the scores already",
            "Return the scores themselves: `attention_pool` normalises them later, whatever the kernel is.",
            After(lambda out, **_: ref.normalize(out)),
        ),
    ),
    variants=(
        Variant("norm", lambda q, K: np.exp(-0.5 * distance(q, K) ** 2)),
        Variant("loop", _gaussian_loop),
        Variant("einsum", lambda q, K: np.exp(-np.einsum("md,md->m", K - q, K - q) / 2)),
        Variant("expanded_square", lambda q, K: np.exp(K @ q - (K**2).sum(1) / 2 - q @ q / 2)),
    ),
)


def _with(shape: str, make):
    return lambda draw: make(draw) | {"shape": shape}


def _boxcar(u):
    return (u <= 1) * 1.0


def _triangular(u):
    return np.maximum(0.0, 1 - u)


def _epanechnikov(u):
    return 0.75 * np.maximum(0.0, 1 - u**2)


def _but(**changed):
    """The right answer, with one curve (or the distance) replaced by a wrong one."""

    def answer(q, K, shape):
        u = changed.get("distance", distance)(q, K)
        curves = {"boxcar": _boxcar, "triangular": _triangular, "epanechnikov": _epanechnikov} | changed
        return curves[shape](u)

    return answer


def _loop(q, K, shape):
    scores = []
    for k in K:
        squares = sum((a - b) ** 2 for a, b in zip(q, k, strict=True))
        if squares > 1:
            scores.append(0.0)
        elif shape == "boxcar":
            scores.append(1.0)
        else:
            scores.append(1 - math.sqrt(squares) if shape == "triangular" else 0.75 * (1 - squares))
    return np.array(scores)


def _where(q, K, shape):
    u = distance(q, K)
    inside = {"boxcar": np.ones_like(u), "triangular": 1 - u, "epanechnikov": 3 * (1 - u) * (1 + u) / 4}[shape]
    return np.where(u <= 1, inside, 0.0)


def _polynomial(q, K, shape):
    u = np.minimum(np.sqrt(squared(q, K)), 1)
    if shape == "boxcar":
        return (squared(q, K) <= 1).astype(float)
    return 1 - u if shape == "triangular" else 0.75 - 0.75 * u**2


COMPACT_KERNEL = Exercise(
    "compact_kernel",
    title="Three kernels read off a picture",
    points=3,
    difficulty=2,
    minutes=14,
    reference=ref.compact_kernel,
    recipe=Made(_but),
    cases=(
        Case("boxcar, three keys", _with("boxcar", _three_keys)),
        Case("boxcar, more keys", _with("boxcar", _more_keys)),
        Case("triangular, three keys", _with("triangular", _three_keys), edge=0.15),
        Case("triangular, more keys", _with("triangular", _more_keys), edge=0.15),
        Case("Epanechnikov, three keys", _with("epanechnikov", _three_keys), edge=0.15),
        Case("Epanechnikov, more keys", _with("epanechnikov", _more_keys), edge=0.2),
        Case("boxcar, exactly at distance 1", _with("boxcar", _on_the_border), edge=0.15),
    ),
    properties=BOUNDED,
    hints=(
        "All three begin with the same `m` distances. Then read three points off each curve: at $u = 0$, at $u = 1/2$, at $u = 1$. "
        "One curve is constant, one is a straight line, one is a parabola.",
        "The line through (0, 1) and (1, 0) is $1 - u$. The parabola is $c\\,(1 - u^2)$; which $c$ gives its height at $u = 0$? "
        "Beyond 1 all three are 0: what is negative there must become 0.",
        "Make all three arrays of scores first, by `np.where` for the boxcar and by `np.maximum(0.0, …)` for the other two, and let "
        "`shape` choose among them (a dictionary, or `if`).",
    ),
    misconceptions=(
        Misconception(
            "border_left_out",
            "left out the keys at distance exactly 1 in the boxcar",
            "The rule is $u \\le 1$: use `<=`. (Books print both; what matters is to know which one you implement.)",
            Instead(boxcar=lambda u: (u < 1) * 1.0),
        ),
        Misconception(
            "box_not_ball",
            "compared *each coordinate* with 1 by itself: that is a square (cube) around the query and not a ball",
            "Compare the Euclidean distance with 1: one number per key, from all its coordinates together.",
            Instead(distance=lambda q, K: np.abs(K - q).max(axis=-1)),
        ),
        Misconception(
            "half_the_width",
            "cut the boxcar at distance 1/2, so that the box is 1 wide in all",
            "Here 1 is the reach to *either* side: keys up to distance 1 count.",
            Instead(boxcar=lambda u: (u <= 0.5) * 1.0),
        ),
        Misconception(
            "city_block",
            "added up the absolute differences: that is the city-block distance, not the Euclidean one",
            "Square the differences, sum over the last axis, take the square root: `np.linalg.norm(K - q, axis=-1)`.",
            Instead(distance=lambda q, K: np.abs(K - q).sum(axis=-1)),
        ),
        Misconception(
            "squared_distance",
            "used the squared distance for the distance: the tent's straight sides have become a parabola",
            "`((K - q) ** 2).sum(axis=-1)` is $u^2$. Take its square root first.",
            Instead(distance=squared),
        ),
        Misconception(
            "not_clipped",
            "let the scores go below zero for keys farther than 1",
            "Clip at zero: `np.maximum(0.0, …)`. A negative score would *subtract* a value from the pool.",
            Instead(triangular=lambda u: 1 - u, epanechnikov=lambda u: 0.75 * (1 - u**2)),
        ),
        Misconception(
            "parabola_not_clipped",
            "clipped the triangular kernel, but let the parabola go on below zero",
            "Beyond distance 1 all three kernels are 0: `np.maximum(0.0, …)` for this one, too.",
            Instead(epanechnikov=lambda u: 0.75 * (1 - u**2)),
        ),
        Misconception(
            "folded_back",
            "took the absolute value: keys beyond distance 1 gain score again as they get farther away",
            "Replace what is below zero by zero (`np.maximum`); don't mirror it (`np.abs`).",
            Instead(triangular=lambda u: np.abs(1 - u), epanechnikov=lambda u: 0.75 * np.abs(1 - u**2)),
        ),
        Misconception(
            "triangular_instead",
            "used the triangular kernel $\\max(0, 1 - u)$ under Epanechnikov's name, as some texts print it",
            "Epanechnikov's kernel is the curve without a spike: $\\frac{3}{4}\\max(0, 1 - u^2)$.",
            Instead(epanechnikov=_triangular),
        ),
        Misconception(
            "no_three_quarters",
            "drew Epanechnikov's parabola from height 1",
            "In the figure its top is at 3/4. (Normalising cancels the factor; the kernel itself has it.)",
            Instead(epanechnikov=lambda u: np.maximum(0.0, 1 - u**2)),
        ),
        Misconception(
            "tent_of_three_quarters",
            "scaled a tent by 3/4 for Epanechnikov: the distance is not squared",
            "The curve is flat at its top: it is $1 - u^2$ that is scaled.",
            Instead(epanechnikov=lambda u: 0.75 * np.maximum(0.0, 1 - u)),
        ),
        Misconception(
            "squared_the_bracket",
            "squared the bracket, $(1 - u)^2$, and not the distance, $1 - u^2$",
            "Square first, subtract second. The curve is then flat at the top; yours has a spike.",
            Instead(epanechnikov=lambda u: 0.75 * np.maximum(0.0, 1 - u) ** 2),
        ),
        Misconception(
            "truth_values",
            "returned truth values (`True`, `False`) for the boxcar, not numbers",
            "Scores are floating-point numbers: `.astype(float)`, or `np.where(…, 1.0, 0.0)`.",
            Instead(boxcar=lambda u: u <= 1),
        ),
        Misconception(
            "integers",
            "have the boxcar's zeros and ones right, but as integers",
            "Scores are floating-point numbers, as from the other kernels: `np.where(…, 1.0, 0.0)`, or `.astype(float)`.",
            Instead(boxcar=lambda u: (u <= 1).astype(int)),
        ),
        Misconception(
            "already_normalised",
            "normalised the scores already",
            "Return the scores themselves: `attention_pool` normalises them later, whatever the kernel is.",
            After(lambda out, **_: ref.normalize(out)),
        ),
    ),
    variants=(
        Variant("loop", _loop),
        Variant("where", _where),
        Variant("clipped_distance", _polynomial),
    ),
)
