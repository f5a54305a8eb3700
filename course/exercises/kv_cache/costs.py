"""What a cache costs in bytes, and what it saves in floating point operations."""

import math

from autograder import Case, Draw, Exercise, Misconception, Variant
from solutions import kv_cache as ref


def _few(cached):
    def make(draw: Draw):
        return {"n": draw.integer(3, 12), "d_model": draw.integer(13, 99), "cached": cached}

    return make


def _larger(cached):
    def make(draw: Draw):
        return {"n": draw.integer(200, 900), "d_model": 64 * draw.integer(2, 9), "cached": cached}

    return make


def _flops(projections=8, pairs=4, all_pairs=lambda new, n: new * n):
    def answer(n, d_model, cached):
        new = 1 if cached else n
        return projections * new * d_model**2 + pairs * all_pairs(new, n) * d_model

    return answer


def _reprojects(n, d_model, cached):
    new = 1 if cached else n
    return 4 * new * d_model**2 + 4 * n * d_model**2 + 4 * new * n * d_model


def _product_by_product(n, d_model, cached):
    rows = 1 if cached else n
    flops = 0
    for a, b, c in [(rows, d_model, d_model)] * 4 + [(rows, d_model, n), (rows, n, d_model)]:
        flops += 2 * a * b * c
    return flops


ATTENTION_FLOPS = Exercise(
    "attention_flops",
    title="Operations of one step",
    points=1.5,
    reference=ref.attention_flops,
    cases=(
        Case("few tokens, with the cache", _few(True)),
        Case("few tokens, without", _few(False)),
        Case("more tokens, with the cache", _larger(True)),
        Case("more tokens, without", _larger(False)),
    ),
    hints=(
        "Write down the shapes of the six products first. In how many of them is the past involved?",
        "With `r` rows processed (1 or n): four projections of (r, d) by (d, d), the scores (r, d) by (d, n), the mixture (r, n) by "
        "(n, d). Each product of (a, b) by (b, c) costs 2abc.",
        "$8 r d^2 + 4 r n d$, where r is 1 with the cache and n without.",
    ),
    misconceptions=(
        Misconception(
            "no_projections",
            "counted scores and mixture only",
            "The four projections cost $2 d^2$ each for every token processed. At short contexts they are most of the work.",
            _flops(projections=0),
        ),
        Misconception(
            "mixture_forgotten",
            "counted the scores, but not the mixture of the values",
            "$A V$ is a product of (r, n) by (n, d): as expensive as the scores.",
            _flops(pairs=2),
        ),
        Misconception(
            "multiply_add_as_one",
            "counted a multiplication with its addition as one operation",
            "Here a product of (a, b) by (b, c) costs 2abc: two operations for each term.",
            _flops(projections=4, pairs=2),
        ),
        Misconception(
            "cached_reprojects_the_past",
            "projected all n tokens to keys and values again, although the cache holds them",
            "With the cache, W_K and W_V see the new token only. That is what is cached.",
            _reprojects,
        ),
        Misconception(
            "square_scores_with_cache",
            "counted n × n scores with the cache as well",
            "One query, n keys: the scores are one row.",
            lambda n, d_model, cached: 8 * (1 if cached else n) * d_model**2 + 4 * n * n * d_model,
        ),
        Misconception(
            "triangle_only",
            "counted only the scores that the mask keeps",
            "Without the cache, count the full (n, n) products, as a plain implementation computes them: it masks afterwards.",
            _flops(all_pairs=lambda new, n: n if new == 1 else n * (n + 1) // 2),
        ),
    ),
    variants=(
        Variant("product_by_product", _product_by_product),
        Variant("n_times_the_cached_step", lambda n, d_model, cached: (1 if cached else n) * (8 * d_model**2 + 4 * n * d_model)),
    ),
)


def _small(draw: Draw):
    B, L, n_kv, d = draw.sizes(4, low=3, high=13)
    return {"B": B, "n": draw.integer(20, 90), "L": L, "n_kv": n_kv, "d": d, "element_bytes": 4}


def _model_like(draw: Draw):
    B, L, n_kv = draw.sizes(3, low=3, high=17)
    return {"B": B, "n": draw.integer(1000, 9000), "L": L, "n_kv": n_kv, "d": 64, "element_bytes": 2}


def _without(*names):
    def answer(**sizes):
        return 2 * math.prod(size for name, size in sizes.items() if name not in names)

    return answer


CACHE_BYTES = Exercise(
    "cache_bytes",
    title="Bytes of the cache",
    points=1,
    reference=ref.cache_bytes,
    cases=(Case("small numbers", _small), Case("sizes of a real model", _model_like)),
    hints=(
        "Start from one number in the cache, and ask how often each axis repeats it.",
        "One token has, in each layer and for each head, a key of d numbers **and** a value of d numbers.",
        "Two times the product of all six arguments.",
    ),
    misconceptions=(
        Misconception(
            "factor_2_missing",
            "counted keys or values, not both",
            "Each head stores a key **and** a value: a factor 2.",
            lambda **sizes: math.prod(sizes.values()),
        ),
        Misconception(
            "elements_not_bytes",
            "counted numbers, not bytes",
            "Multiply by `element_bytes`.",
            _without("element_bytes"),
        ),
        Misconception(
            "layers_missing",
            "counted a single layer",
            "Every layer has keys and values of its own: multiply by `L`.",
            _without("L"),
        ),
        Misconception(
            "batch_missing",
            "counted a single sequence",
            "Sequences share weights, never a cache: multiply by `B`.",
            _without("B"),
        ),
        Misconception(
            "heads_missing",
            "counted a single head",
            "Each of the `n_kv` heads has keys and values of width `d`: multiply by `n_kv`.",
            _without("n_kv"),
        ),
    ),
    variants=(
        Variant("product_of_all", lambda **sizes: 2 * math.prod(sizes.values())),
        Variant(
            "sum_over_layers", lambda B, n, L, n_kv, d, element_bytes: sum(2 * B * n * n_kv * d * element_bytes for _ in range(L))
        ),
    ),
)
