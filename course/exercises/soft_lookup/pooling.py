"""Attention pooling by any kernel."""

import numpy as np

from autograder import Before, Case, Code, Draw, Exercise, Instead, Misconception, Variant
from solutions import soft_lookup as ref

# Kernels for the probes, none of which the notebook shows.
RATIONAL = Code("lambda q, K: 1 / (1 + np.abs(K - q).sum(axis=-1))")
# q and K don't commute, and where they lie counts beside their difference
HALVING = Code("lambda q, K: (1 + (K > q).mean(axis=1) + np.square(K).sum(axis=-1)) * 2.0 ** -np.abs(K - q).sum(axis=1)")
FAINT = Code("lambda q, K: 1e-30 / (1 + np.abs(K - q).sum(axis=-1))")
RANK = Code("lambda q, K: np.sqrt((np.abs(K - q).sum(axis=1)[:, None] <= np.abs(K - q).sum(axis=1)).sum(axis=1))")  # keys as near
SAME_CELL = Code("lambda q, K: (np.floor(K) == np.floor(q)).mean(axis=1)")


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
    title="Attention from the drawing",
    points=2,
    difficulty=1,
    minutes=4,
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
        "Follow the drawing from left to right. Which function makes the scores, and which one of yours turns scores into weights?",
        "`kernel(q, K)` gives `m` scores, and `normalize` makes them weights. The output adds up the rows of `V`, each times its "
        "weight. How do you write such a sum as one product?",
        "A vector of shape `(m,)` times a matrix of shape `(m, d_v)` adds the weighted rows up, and the operator is `@`.",
    ),
    misconceptions=(
        Misconception(
            "not_normalised",
            "used the raw scores as weights, so the size of the output depends on how many keys are near",
            "Turn the scores into shares with `normalize` first.",
            Instead(share=lambda s: s),
        ),
        Misconception(
            "divided_by_m",
            "divided by the number of keys instead of the sum of the scores",
            "For weights that sum to 1, divide by the sum of the *scores*.",
            Instead(share=lambda s: s / len(s)),
        ),
        Misconception(
            "took_the_best",
            "returned only the value of the key with the highest score, which is a hard lookup",
            "In a soft lookup every value counts, in proportion to its score.",
            Instead(share=lambda s: np.eye(len(s))[np.argmax(s)]),
            also=(Instead(share=lambda s: np.eye(len(s))[np.argmax(s)] * s.any()),),
        ),
        Misconception(
            "softmax_of_scores",
            "applied a softmax to the scores",
            "These scores are not negative, so you can divide them by their sum. A softmax would give weight even to a key with the score 0.",
            Instead(share=lambda s: np.exp(s) / np.exp(s).sum()),
        ),
        Misconception(
            "not_summed",
            "multiplied each value by its weight but did not add them up",
            "Sum over the keys, which are axis 0, or write the whole step as `weights @ V`.",
            lambda q, K, V, kernel: ref.normalize(kernel(q, K))[:, None] * V,
        ),
        Misconception(
            "pooled_the_keys",
            "averaged the rows of `K` instead of the rows of `V`",
            "Keys only decide the weights. The output is made of values and has the shape `(d_v,)`.",
            Instead(keys=True),
        ),
        Misconception(
            "nothing_gives_nan",
            "divided by a sum of zero where no key is near, which gives NaN",
            "Your `normalize` leaves zeros as they are, so use it here.",
            Instead(share=lambda s: s / s.sum()),
        ),
        Misconception(
            "nothing_gives_the_mean",
            "returned the mean of all values where every score is zero",
            "A query that finds nothing keeps weights of 0, so that nothing is added to its word.",
            _plain_or(lambda q, V: V.mean(axis=0)),
        ),
        Misconception(
            "nothing_gives_d_zeros",
            "returned zeros of the query's length where every score is zero",
            "The output is made of values, so it has `d_v` zeros and not `d`.",
            _plain_or(lambda q, V: np.zeros_like(q)),
        ),
        Misconception(
            "own_kernel",
            "scored the keys with the Gaussian and didn't use `kernel`",
            "The argument `kernel` is a function, and `kernel(q, K)` returns the scores.",
            Before(lambda **_: {"kernel": ref.gaussian}),
        ),
        Misconception(
            "swapped_the_arguments",
            "called `kernel(K, q)`",
            "The query comes first, as in `kernel(q, K)`. A kernel of the distance gives the same either way, but others do not.",
            Instead(swapped=True),
        ),
        Misconception(
            "differences_for_keys",
            "passed the differences `K - q` to the kernel, with zeros as the query, but a kernel may depend on more than differences",
            "Pass `q` and `K` to the kernel unchanged.",
            Instead(differences=True),
        ),
        Misconception(
            "one_key_at_a_time",
            "called the kernel with one key at a time, so a kernel that compares keys with one another gives other scores",
            "Call it once with all keys, and `kernel(q, K)` returns `m` scores.",
            Instead(one_by_one=True),
            also=(_one_key_at_a_time,),
        ),
        Misconception(
            "added_an_epsilon",
            "treated tiny scores as zero, by adding a constant to their sum or by a lower limit for it",
            "Divide by the true sum, as your `normalize` does.",
            Instead(share=lambda s: s / (s.sum() + 1e-12)),
        ),
    ),
    variants=(
        Variant("matmul", lambda q, K, V, kernel: V.T @ ref.normalize(kernel(q, K))),
        Variant("weighted_sum", lambda q, K, V, kernel: (ref.normalize(kernel(q, K))[:, None] * V).sum(axis=0)),
    ),
)
