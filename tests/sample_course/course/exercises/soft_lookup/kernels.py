"""The Gaussian kernel: a score that falls with the distance between query and key."""

import math

import numpy as np
from answers import soft_lookup as ref

from autograder import After, Case, Draw, Exercise, Instead, Misconception, Property, Variant

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


CASES = (Case("three keys", _three_keys), Case("more keys, more dimensions", _more_keys))
BOUNDED = (Property("non_negative"), Property("at_most_one"))


def distance(q, K):
    return np.linalg.norm(K - q, axis=-1)


def squared(q, K):
    return ((K - q) ** 2).sum(axis=-1)


def _length(D, axis):
    return np.sqrt((D**2).sum(axis=axis))


def _absolute_sum(D, axis):
    return np.abs(D).sum(axis=axis)


def _entry_by_entry(D, axis):
    return np.abs(D)


def _score(q, K, *, distance=_length, power=2, half=0.5, sign=-1.0, axis=-1):
    return np.exp(sign * distance(K - q, axis) ** power * half)


def _gaussian_loop(q, K):
    return np.array([math.exp(-0.5 * sum((a - b) ** 2 for a, b in zip(q, k, strict=True))) for k in K])


GAUSSIAN = Exercise(
    "gaussian",
    title="The Gaussian kernel",
    points=1,
    difficulty=1,
    minutes=3,
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
            "sum_of_absolute_differences",
            "took the sum of the absolute differences for the distance",
            "The distance $u$ is the root of the sum of the *squares*, so that $u^2$ is that sum itself.",
            Instead(distance=_absolute_sum),
            also=(Instead(distance=_absolute_sum, power=1),),
        ),
        Misconception(
            "added_before_squaring",
            "added the differences up first and squared their sum: a difference of 1 and one of -1 then cancel",
            "Square every entry of `K - q`, then add them up: the square stands inside the sum.",
            lambda q, K: np.exp(-((K - q).sum(axis=-1) ** 2) / 2),
        ),
        Misconception(
            "one_score_per_entry",
            "did not add up the squared differences of a key: you have `d` scores for each key, and not one",
            "The squared distance to a key is a *sum* over its entries. Sum first, then take the exponential.",
            Instead(distance=_entry_by_entry),
        ),
        Misconception(
            "product_for_distance",
            "took the dot product of query and key for their distance",
            "The distance is that of the points: subtract the query from each key, `K - q`, square, and sum over the entries.",
            lambda q, K: np.exp(-((K @ q) ** 2) / 2),
            also=(lambda q, K: np.exp(-(K @ q) / 2),),
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
        Misconception(
            "no_minus",
            "lost the minus sign: your scores grow with the distance",
            "The exponent is $-u^2/2$, which is never positive: the nearest key scores highest.",
            Instead(sign=1.0),
        ),
        Misconception(
            "exponent_only",
            "returned the exponent and did not take the exponential",
            "The score is $e^{-u^2/2}$, between 0 and 1: `np.exp`.",
            After(lambda out, **_: np.log(out)),
        ),
    ),
    variants=(
        Variant("norm", lambda q, K: np.exp(-0.5 * distance(q, K) ** 2)),
        Variant("loop", _gaussian_loop),
        Variant("einsum", lambda q, K: np.exp(-np.einsum("md,md->m", K - q, K - q) / 2)),
        Variant("expanded_square", lambda q, K: np.exp(K @ q - (K**2).sum(1) / 2 - q @ q / 2)),
    ),
)
