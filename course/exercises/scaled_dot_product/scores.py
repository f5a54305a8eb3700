"""The scores and their variance."""

import math

import torch

from autograder import Case, Draw, Exercise, Misconception, Variant
from solutions import scaled_dot_product as ref


def _tiny(draw: Draw):
    return {"Q": draw.normal(2, 5), "K": draw.normal(3, 5)}


def _batch(draw: Draw):
    b, n, m, d = draw.sizes(4, high=7)
    return {"Q": draw.normal(b, n, d), "K": draw.normal(b, m, d)}


def _batch_and_heads(draw: Draw):
    n, m, d = draw.sizes(3, low=3, high=7)
    return {"Q": draw.normal(2, 1, n, d), "K": draw.normal(2, 1, m, d)}


def _dots(Q, K):
    return Q @ K.transpose(-2, -1)


def _loop(Q, K):
    S = torch.empty(*Q.shape[:-1], K.shape[-2], dtype=Q.dtype)
    for i in range(Q.shape[-2]):
        for j in range(K.shape[-2]):
            S[..., i, j] = (Q[..., i, :] * K[..., j, :]).sum(-1) / Q.shape[-1] ** 0.5
    return S


# sqrt(d_model) for sqrt(d_k) is a mistake of lessons 04 and 05: no function of this lesson has d_model among its inputs.
SCALED_SCORES = Exercise(
    "scaled_scores",
    title="Scaled scores of every query with every key",
    points=1,
    reference=ref.scaled_scores,
    tensors=True,
    cases=(
        Case("two queries, three keys", _tiny),
        Case("a batch", _batch, grad=("Q", "K")),
        Case("a batch of heads", _batch_and_heads),
    ),
    hints=(
        "Which two axes of `K` have to trade places so that a matrix product gives one number per (query, key) pair? Count them "
        "from the end: a batch may stand in front.",
        "Swap the last two axes of `K`, multiply `Q` by the result with `@`, then divide by $\\sqrt{d_k}$. "
        "Read $d_k$ off the last axis.",
        "`Q @ K.transpose(-2, -1)`, divided by `math.sqrt(Q.shape[-1])`.",
    ),
    misconceptions=(
        Misconception(
            "unscaled",
            "computed the dot products but did not scale them",
            "Divide by $\\sqrt{d_k}$, so that the scores' spread does not grow with the dimension.",
            _dots,
        ),
        Misconception(
            "scaled_by_d",
            "divided by $d_k$ instead of $\\sqrt{d_k}$",
            "The variance of the dot product is $d_k$. Divide by its standard deviation, the square root of that.",
            lambda Q, K: _dots(Q, K) / Q.shape[-1],
        ),
        Misconception(
            "multiplied_by_sqrt_d",
            "multiplied by $\\sqrt{d_k}$ where you should divide",
            "The dot products are already too large for a large $d_k$: divide by $\\sqrt{d_k}$.",
            lambda Q, K: _dots(Q, K) * math.sqrt(Q.shape[-1]),
        ),
        Misconception(
            "dimension_from_axis_1",
            "read $d_k$ off axis 1, which is the feature axis only while there is no batch",
            "With a batch in front, axis 1 counts queries. `Q.shape[-1]` is the feature axis for any number of leading axes.",
            lambda Q, K: _dots(Q, K) / math.sqrt(Q.shape[1]),
        ),
        Misconception(
            "cosine",
            "divided by the norms of the vectors: these are cosines, which do lie in [-1, 1]",
            "Scaled scores keep the norms of queries and keys. Divide by $\\sqrt{d_k}$ and by nothing else.",
            lambda Q, K: _dots(Q / Q.norm(dim=-1, keepdim=True), K / K.norm(dim=-1, keepdim=True)),
        ),
        Misconception(
            "keys_by_queries",
            "put the keys on the rows: your result is (key, query)",
            "One row per **query**: `Q` stands on the left of the product, and `K` is the one to transpose.",
            lambda Q, K: K @ Q.transpose(-2, -1) / math.sqrt(Q.shape[-1]),
        ),
        Misconception(
            "two_axes_only",
            "wrote something that works for plain matrices only (`.t()`, say), so a batch raises an error",
            "Name the axes from the end: `K.transpose(-2, -1)` or `K.mT`. In an einsum, begin each term with `...`.",
            lambda Q, K: Q @ K.t() / math.sqrt(Q.shape[-1]),
        ),
    ),
    variants=(
        Variant("einsum", lambda Q, K: torch.einsum("...nk,...mk->...nm", Q, K) / Q.shape[-1] ** 0.5),
        Variant("scale_the_queries_first", lambda Q, K: (Q / math.sqrt(Q.shape[-1])) @ K.mT),
        Variant("loops", _loop),
        Variant("broadcast", lambda Q, K: (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1) * Q.shape[-1] ** -0.5),
    ),
)


# ---------------------------------------------------------------------------------------------- variance


def _experiment(trials_from: int):
    def make(draw: Draw):
        return {"d": draw.sizes(1, low=3, high=7)[0], "trials": trials_from + draw.integer(0, 4), "seed": draw.integer(1, 10**6)}

    return make


def _generator(seed):
    return torch.Generator().manual_seed(seed)


def _pair(d, trials, seed, dtype=torch.float64):
    g = _generator(seed)
    q = torch.randn(trials, d, generator=g, dtype=dtype)
    return q, torch.randn(trials, d, generator=g, dtype=dtype)


def _products(d, trials, seed):
    q, k = _pair(d, trials, seed)
    return (q * k).sum(-1)


def _same_vectors(d, trials, seed):
    q = torch.randn(trials, d, generator=_generator(seed), dtype=torch.float64)
    return (q * q).sum(-1).var(correction=0)


def _entries(d, trials, seed):
    q, k = _pair(d, trials, seed)
    return (q * k).var(correction=0)


def _float32(d, trials, seed):
    q, k = _pair(d, trials, seed, dtype=torch.float32)
    return (q * k).sum(-1).var(correction=0)


def _one_call(d, trials, seed):
    q, k = torch.randn(2, trials, d, generator=_generator(seed), dtype=torch.float64)
    return (q * k).sum(-1).var(correction=0)


def _pair_by_pair(d, trials, seed):
    g = _generator(seed)
    s = [
        torch.randn(d, generator=g, dtype=torch.float64) @ torch.randn(d, generator=g, dtype=torch.float64) for _ in range(trials)
    ]
    return torch.stack(s).var(correction=0)


def _two_moments(d, trials, seed):
    s = _products(d, trials, seed)
    return ((s**2).mean() - s.mean() ** 2).item()


def _plain_python(d, trials, seed):
    q, k = _pair(d, trials, seed)
    s = [sum(float(a) * float(b) for a, b in zip(x, y, strict=True)) for x, y in zip(q, k, strict=True)]
    mean = sum(s) / trials
    return sum((x - mean) ** 2 for x in s) / trials


SCORE_VARIANCE = Exercise(
    "score_variance",
    title="Measure the variance of a dot product",
    points=1,
    reference=ref.score_variance,
    cases=(Case("a few trials", _experiment(5)), Case("more trials", _experiment(40))),
    hints=(
        "One trial is one pair $(q_t, k_t)$ and gives one number $s_t$. How many numbers do you average over in the end?",
        "Make the generator, draw all queries, then all keys with the same generator. Multiply entry by entry, sum over the "
        "features, and take the mean squared distance of those `trials` numbers from their mean.",
        "`g = torch.Generator().manual_seed(seed)`; `q = torch.randn(trials, d, generator=g, dtype=torch.float64)`, `k` "
        "likewise; `s = (q * k).sum(-1)`; then `s.var(correction=0)` as a float.",
    ),
    misconceptions=(
        Misconception(
            "variance_of_entries",
            "took the variance of the products $q_a k_a$ of single entries, before summing them",
            "A score is the **sum** of `d` such products. Sum over the features first, then take the variance over the trials.",
            _entries,
        ),
        Misconception(
            "scaled",
            "divided the dot products by $\\sqrt{d}$ before measuring them",
            "Measure the **unscaled** dot products: the question is how their variance depends on `d`.",
            lambda d, trials, seed: float(_products(d, trials, seed).var(correction=0) / d),
        ),
        Misconception(
            "about_zero",
            "averaged $s_t^2$: that measures the spread about 0 and not about the mean of the drawn scores",
            "Subtract the mean of the `trials` scores before squaring. (The true mean is 0, the drawn one only nearly.)",
            lambda d, trials, seed: float(_products(d, trials, seed).square().mean()),
        ),
        Misconception(
            "divided_by_trials_minus_one",
            "divided by `trials - 1`, the default of `torch.var`",
            "The exercise asks for the divisor `trials`: `s.var(correction=0)`, or the mean of the squared deviations.",
            lambda d, trials, seed: float(_products(d, trials, seed).var()),
        ),
        Misconception(
            "standard_deviation",
            "returned the standard deviation",
            "The variance is its square. (It is the standard deviation that the scores will be divided by.)",
            lambda d, trials, seed: float(_products(d, trials, seed).std(correction=0)),
        ),
        Misconception(
            "query_is_key",
            "used the same numbers for queries and keys, so each score is a squared norm",
            "Seed **one** generator and draw twice from it. Seeding again repeats the same numbers.",
            lambda d, trials, seed: float(_same_vectors(d, trials, seed)),
        ),
        Misconception(
            "drawn_pair_by_pair",
            "drew query, key, query, key, … in turn, which pairs up other numbers",
            "Draw all queries in one `torch.randn` of shape (trials, d), then all keys in a second one.",
            lambda d, trials, seed: float(_pair_by_pair(d, trials, seed)),
        ),
        Misconception(
            "one_draw_for_both",
            "drew queries and keys in a single `torch.randn`, which yields other numbers than two calls do",
            "Call `torch.randn` twice with the same generator, each time with the shape (trials, d).",
            lambda d, trials, seed: float(_one_call(d, trials, seed)),
        ),
        Misconception(
            "float32_draw",
            "drew in float32, which yields other numbers from the same seed",
            "Pass `dtype=torch.float64` to `torch.randn`: the draw is fixed so that results can be compared.",
            lambda d, trials, seed: float(_float32(d, trials, seed)),
        ),
    ),
    variants=(
        Variant("torch_var", lambda d, trials, seed: _products(d, trials, seed).var(correction=0)),
        Variant("two_moments", _two_moments),
        Variant("plain_python", _plain_python),
    ),
)
