"""Four kernels: scores that fall with the distance between query and key."""

import math

import numpy as np

from autograder import Case, Draw, Exercise, Misconception, Property, Variant
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


def _gaussian_loop(q, K):
    return np.array([math.exp(-0.5 * sum((a - b) ** 2 for a, b in zip(q, k, strict=True))) for k in K])


GAUSSIAN = Exercise(
    "gaussian",
    title="Gaussian kernel",
    points=1,
    reference=ref.gaussian,
    cases=CASES,
    properties=BOUNDED,
    hints=(
        "One score for each key. Which axis of `K - q` runs over the entries of one key, and which over the keys?",
        "The squared distance is the sum of squared differences over the last axis. Halve it, negate it, take the exponential.",
        "`np.exp(-((K - q) ** 2).sum(axis=-1) / 2)`.",
    ),
    misconceptions=(
        Misconception(
            "no_half",
            "left out the factor 1/2: your scores are the squares of the right ones",
            "The exponent is $-u^2/2$: divide by 2.",
            lambda q, K: np.exp(-squared(q, K)),
        ),
        Misconception(
            "distance_not_squared",
            "used the distance $u$ where its square belongs",
            "`np.linalg.norm` takes a square root at the end: square its result, or sum the squares yourself.",
            lambda q, K: np.exp(-distance(q, K) / 2),
        ),
        Misconception(
            "density_factor",
            "divided by $\\sqrt{2\\pi}$, as for the normal *density*",
            "A kernel score need not integrate to 1 (the factor cancels when you normalise). Here a key at distance 0 scores 1.",
            lambda q, K: np.exp(-squared(q, K) / 2) / np.sqrt(2 * np.pi),
        ),
        Misconception(
            "summed_over_keys",
            "summed over the keys, so you have one number per dimension and not one per key",
            "`K - q` has shape `(m, d)`. Sum over the last axis, so that `m` scores remain.",
            lambda q, K: np.exp(-((K - q) ** 2).sum(axis=0) / 2),
        ),
        Misconception(
            "one_distance_for_all",
            "computed one single distance for the whole array, and so one score",
            "Without an `axis`, `np.linalg.norm` (like `sum`) takes in every entry of `K - q`. Say `axis=-1`.",
            lambda q, K: np.exp(-(np.linalg.norm(K - q) ** 2) / 2),
        ),
        Misconception(
            "already_normalised",
            "normalised the scores already",
            "Return the scores themselves: `attention_pool` normalises them later, whatever the kernel is.",
            lambda q, K: ref.normalize(ref.gaussian(q, K)),
        ),
    ),
    variants=(
        Variant("norm", lambda q, K: np.exp(-0.5 * distance(q, K) ** 2)),
        Variant("loop", _gaussian_loop),
        Variant("einsum", lambda q, K: np.exp(-np.einsum("md,md->m", K - q, K - q) / 2)),
        Variant("expanded_square", lambda q, K: np.exp(K @ q - (K**2).sum(1) / 2 - q @ q / 2)),
    ),
)

BOXCAR = Exercise(
    "boxcar",
    title="Boxcar kernel",
    points=1,
    reference=ref.boxcar,
    cases=(*CASES, Case("exactly at distance 1", _on_the_border, edge=0.25)),
    properties=BOUNDED,
    hints=(
        "Draw the set of keys that score 1. In two dimensions, is it a disc or a square?",
        "Compute the `m` distances, compare each with 1, and turn truth values into numbers. A key *at* distance 1 is inside.",
        "`np.where(np.linalg.norm(K - q, axis=-1) <= 1, 1.0, 0.0)`.",
    ),
    misconceptions=(
        Misconception(
            "border_left_out",
            "left out the keys at distance exactly 1",
            "The rule is $u \\le 1$: use `<=`. (Books print both; what matters is to know which one you implement.)",
            lambda q, K: (distance(q, K) < 1) * 1.0,
        ),
        Misconception(
            "box_not_ball",
            "compared *each coordinate* with 1 by itself: that is a square (cube) around the query and not a ball",
            "Compare the Euclidean distance with 1: one number per key, from all its coordinates together.",
            lambda q, K: (np.abs(K - q) <= 1).all(axis=-1) * 1.0,
        ),
        Misconception(
            "half_the_width",
            "cut at distance 1/2, so that the box is 1 wide in all",
            "Here 1 is the reach to *either* side: keys up to distance 1 count.",
            lambda q, K: (distance(q, K) <= 0.5) * 1.0,
        ),
        Misconception(
            "city_block",
            "added up the absolute differences: that is the city-block distance, not the Euclidean one",
            "Square the differences, sum over the last axis, and compare that (or its square root) with 1.",
            lambda q, K: (np.abs(K - q).sum(axis=-1) <= 1) * 1.0,
        ),
        Misconception(
            "truth_values",
            "returned truth values (`True`, `False`), not numbers",
            "Scores are floating-point numbers: `.astype(float)`, or `np.where(…, 1.0, 0.0)`.",
            lambda q, K: distance(q, K) <= 1,
        ),
        Misconception(
            "integers",
            "have the right zeros and ones, but as integers",
            "Scores are floating-point numbers, as from the other kernels: `np.where(…, 1.0, 0.0)`, or `.astype(float)`.",
            lambda q, K: (distance(q, K) <= 1).astype(int),
        ),
    ),
    variants=(
        Variant("squared_distance", lambda q, K: (squared(q, K) <= 1).astype(float)),
        Variant("loop", lambda q, K: np.array([1.0 if np.linalg.norm(q - k) <= 1 else 0.0 for k in K])),
    ),
)

TRIANGULAR = Exercise(
    "triangular",
    title="Triangular kernel",
    points=1,
    reference=ref.triangular,
    cases=CASES,
    properties=BOUNDED,
    hints=(
        "Along one dimension the curve is a tent: 1 at distance 0, straight down to 0 at distance 1. And beyond?",
        "Compute $1 - u$ for each key, then replace what is below zero by zero. Python's `max` cannot do that entry by entry; "
        "which NumPy function can?",
        "`np.maximum(0.0, 1 - np.linalg.norm(K - q, axis=-1))`.",
    ),
    misconceptions=(
        Misconception(
            "not_clipped",
            "let the scores go below zero for keys farther than 1",
            "Clip at zero: `np.maximum(0.0, …)`. A negative score would *subtract* a value from the pool.",
            lambda q, K: 1 - distance(q, K),
        ),
        Misconception(
            "distance_squared",
            "used the squared distance: the tent's straight sides have become a parabola",
            "$1 - u$, not $1 - u^2$: take the square root of the sum of squares.",
            lambda q, K: np.maximum(0.0, 1 - squared(q, K)),
        ),
        Misconception(
            "city_block",
            "added up the absolute differences: that is the city-block distance, not the Euclidean one",
            "Square the differences, sum over the last axis, take the square root: `np.linalg.norm(K - q, axis=-1)`.",
            lambda q, K: np.maximum(0.0, 1 - np.abs(K - q).sum(axis=-1)),
        ),
        Misconception(
            "folded_back",
            "took the absolute value: keys beyond distance 1 gain score again as they get farther away",
            "Replace what is below zero by zero (`np.maximum`); don't mirror it (`np.abs`).",
            lambda q, K: np.abs(1 - distance(q, K)),
        ),
    ),
    variants=(
        Variant("where", lambda q, K: np.where(distance(q, K) < 1, 1 - distance(q, K), 0.0)),
        Variant("clip_distance", lambda q, K: 1 - np.minimum(np.sqrt(squared(q, K)), 1)),
    ),
)

EPANECHNIKOV = Exercise(
    "epanechnikov",
    title="Epanechnikov kernel",
    points=1,
    reference=ref.epanechnikov,
    cases=CASES,
    properties=BOUNDED,
    hints=(
        "A parabola this time. How high is its top, and where does it meet zero?",
        "$1 - u^2$ needs no square root at all: the sum of squares over the last axis is $u^2$. Clip at zero, then scale.",
        "`0.75 * np.maximum(0.0, 1 - ((K - q) ** 2).sum(axis=-1))`.",
    ),
    misconceptions=(
        Misconception(
            "triangular_instead",
            "wrote the triangular kernel $\\max(0, 1 - u)$, which some texts print under Epanechnikov's name",
            "Epanechnikov's kernel is a parabola: $\\frac{3}{4}\\max(0, 1 - u^2)$.",
            ref.triangular,
        ),
        Misconception(
            "no_three_quarters",
            "left out the factor 3/4",
            "The score at distance 0 is 3/4. (Normalising cancels the factor; the kernel itself has it.)",
            lambda q, K: np.maximum(0.0, 1 - squared(q, K)),
        ),
        Misconception(
            "not_clipped",
            "let the parabola go on below zero for keys farther than 1",
            "Clip at zero with `np.maximum(0.0, …)` before you scale.",
            lambda q, K: 0.75 * (1 - squared(q, K)),
        ),
        Misconception(
            "distance_not_squared",
            "scaled a tent by 3/4: the distance is not squared",
            "It is $1 - u^2$. `np.linalg.norm` gives $u$: square it.",
            lambda q, K: 0.75 * np.maximum(0.0, 1 - distance(q, K)),
        ),
        Misconception(
            "squared_the_bracket",
            "squared the bracket, $(1 - u)^2$, and not the distance, $1 - u^2$",
            "Square first, subtract second. The curve is then flat at the top; yours has a spike.",
            lambda q, K: 0.75 * np.maximum(0.0, 1 - distance(q, K)) ** 2,
        ),
    ),
    variants=(
        Variant("where", lambda q, K: np.where(squared(q, K) < 1, 3 * (1 - squared(q, K)) / 4, 0.0)),
        Variant("clip", lambda q, K: 0.75 * np.clip(1 - distance(q, K) ** 2, 0, None)),
        Variant("factored", lambda q, K: 0.75 * ref.triangular(q, K) * (1 + distance(q, K))),
    ),
)
