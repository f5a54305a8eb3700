"""What a cache saves in floating point operations, and what it costs in bytes."""

import math

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import kv_cache as ref

WHOLE = Tolerance(rtol=1e-4, atol=0.0)  # 62.03 is no whole number of conversations


def _few(cached):
    def make(draw: Draw):
        return {"n": draw.integer(3, 12), "d_model": draw.integer(13, 99), "ffn": draw.choice((2, 3, 5)), "cached": cached}

    return make


def _larger(cached):
    def make(draw: Draw):
        return {"n": draw.integer(200, 900), "d_model": 64 * draw.integer(2, 9), "ffn": 4, "cached": cached}

    return make


def _flops(projections=4, ffn_matrices=2, products=2, each=2, all_pairs=lambda rows, n: rows * n):
    def answer(n, d_model, ffn, cached):
        rows = 1 if cached else n
        matrices = (projections + ffn_matrices * ffn) * rows * d_model**2
        return each * (matrices + products * all_pairs(rows, n) * d_model)

    return answer


def _reprojects(n, d_model, ffn, cached):
    rows = 1 if cached else n
    return ref.step_flops(n, d_model, ffn, cached) + 2 * 2 * (n - rows) * d_model**2


def _ffn_of_the_past(n, d_model, ffn, cached):
    rows = 1 if cached else n
    return ref.step_flops(n, d_model, ffn, cached) + 2 * 2 * (n - rows) * ffn * d_model**2


def _keys_and_values_alone(n, d_model, ffn, cached):
    rows = 1 if cached else n
    return 2 * ((2 * rows + 2 + 2 * ffn) * d_model**2 + 2 * n * d_model)


def _product_by_product(n, d_model, ffn, cached):
    rows, wide = 1 if cached else n, ffn * d_model
    shapes = [(rows, d_model, d_model)] * 4 + [(rows, d_model, n), (rows, n, d_model)]
    flops = 0
    for a, b, c in [*shapes, (rows, d_model, wide), (rows, wide, d_model)]:
        flops += 2 * a * b * c
    return flops


def _n_cached_steps(n, d_model, ffn, cached):
    return (1 if cached else n) * (8 * d_model**2 + 4 * ffn * d_model**2 + 4 * n * d_model)


STEP_FLOPS = Exercise(
    "step_flops",
    title="Operations of one step",
    points=1.5,
    difficulty=2,
    minutes=10,
    reference=ref.step_flops,
    recipe=Made(_flops),
    cases=(
        Case("few tokens, with the cache", _few(True)),
        Case("few tokens, without", _few(False)),
        Case("more tokens, with the cache", _larger(True)),
        Case("more tokens, without", _larger(False)),
    ),
    hints=(
        "Write down the shapes of the eight products first. In how many of them is the past involved?",
        "With r rows processed (1 or n): four projections of (r, d) by (d, d), the scores (r, d) by (d, n), the mixture (r, n) by "
        "(n, d), and the feed-forward part (r, d) by (d, f d) and back. Each product of (a, b) by (b, c) costs 2abc.",
        "Collect the terms with $r d^2$ and the terms with $r n d$. The first have the factor 2 times (4 + 2f) matrices; how many "
        "products make the second? Last, r is 1 with the cache and n without.",
    ),
    misconceptions=(
        Misconception(
            "no_projections",
            "left out the four projections",
            "The four projections cost $2 d^2$ each for every token processed. At short contexts they are a third of the work.",
            Instead(projections=0),
        ),
        Misconception(
            "three_projections",
            "counted three of the four projections",
            "Queries, keys and values are projected, and the merged heads once more, by $W_O$.",
            Instead(projections=3),
        ),
        Misconception(
            "ffn_matrix_counted_once",
            "counted one matrix of the feed-forward part; it has two",
            "To `ffn * d_model` features, and back.",
            Instead(ffn_matrices=1),
        ),
        Misconception(
            "ffn_left_out",
            "left out the feed-forward part: a cache saves its work on old tokens as well",
            "Its two matrices cost $2 \\cdot f d^2$ each for every token that is processed.",
            Instead(ffn_matrices=0),
        ),
        Misconception(
            "mixture_forgotten",
            "counted the scores, but not the mixture of the values",
            "$A V$ is a product of (r, n) by (n, d): as expensive as the scores.",
            Instead(products=1),
        ),
        Misconception(
            "multiply_add_as_one",
            "counted a multiplication with its addition as one operation",
            "Here a product of (a, b) by (b, c) costs 2abc: two operations for each term.",
            Instead(each=1),
        ),
        Misconception(
            "cached_reprojects_the_past",
            "projected all n tokens to keys and values again, although the cache holds them",
            "With the cache, W_K and W_V see the new token only. That is what is cached.",
            _reprojects,
        ),
        Misconception(
            "cached_ffn_of_the_past",
            "put all n tokens through the feed-forward part, although only the new one is processed",
            "The feed-forward part works on each token by itself, and nobody asks for the old ones' results: one row.",
            _ffn_of_the_past,
        ),
        Misconception(
            "without_cache_one_row",
            "put all n tokens through $W_K$ and $W_V$ alone where there is no cache, and only the new one through all the rest",
            "Without a cache the whole text goes through everything: the keys of the next layer are made of what this one returns for "
            "**every** token. So $r = n$ in all eight products.",
            _keys_and_values_alone,
        ),
        Misconception(
            "one_query_without_cache",
            "counted the scores and the mixture of one query without the cache too",
            "Without the cache all `n` queries meet `n` keys: the scores are (n, n).",
            Instead(all_pairs=lambda rows, n: n),
        ),
        Misconception(
            "square_scores_with_cache",
            "counted n × n scores with the cache as well",
            "One query, n keys: the scores are one row.",
            Instead(all_pairs=lambda rows, n: n * n),
        ),
        Misconception(
            "own_key_forgotten",
            "counted n − 1 keys with the cache: the token also looks at itself",
            "The new key is put into the cache first: the one query meets all n keys.",
            Instead(all_pairs=lambda rows, n: n - 1 if rows == 1 else n * n),
        ),
        Misconception(
            "triangle_only",
            "counted only the scores that the mask keeps",
            "Without the cache, count the full (n, n) products, as a plain implementation computes them: it masks afterwards.",
            Instead(all_pairs=lambda rows, n: n if rows == 1 else n * (n + 1) // 2),
        ),
    ),
    variants=(Variant("product_by_product", _product_by_product), Variant("n_times_the_cached_step", _n_cached_steps)),
)


def _chats(
    *, memory=80e9, parameters=6.7e9, weight=2, pair=2, element=2, layers=32, heads=32, tokens=2048, whole=math.floor
):  # fmt: skip
    def answer():
        return whole((memory - weight * parameters) / (pair * element * layers * heads * 128 * tokens))

    return answer


def _nothing(draw: Draw):
    return {}


CHATS_THAT_FIT = Exercise(
    "chats_that_fit",
    title="Estimate: how many conversations fit?",
    kind="estimate",
    points=1,
    difficulty=2,
    minutes=7,
    reference=ref.chats_that_fit,
    recipe=Made(_chats),
    tolerance=WHOLE,
    cases=(Case("your estimate", _nothing),),
    hints=(
        "First the bytes of one token's entries. Start from one number in the cache, and ask how often each axis repeats it.",
        "One token leaves, in each layer and for each head, a key of 128 numbers **and** a value of 128 numbers, 2 bytes each. A "
        "conversation has 2,048 such tokens. What is left of the 80 GB beside the weights?",
        "One token: a key and a value, so 2 · 128 numbers of 2 bytes, in each of 32 heads and 32 layers. Times 2,048 that is a conversation. "
        "Take the weights from the 80 GB first, at 2 bytes each as well. A conversation fits or it does not.",
    ),
    misconceptions=(
        Misconception(
            "factor_2_missing",
            "missed a factor 2 in the cache, keys **and** values or two bytes a number: so twice as many seem to fit",
            "Each head stores a key and a value, and every number takes 2 bytes.",
            Instead(pair=1),
        ),
        Misconception(
            "factor_2_missing_and_not_rounded_down",
            "did not round down, and missed a factor 2 in the cache, keys **and** values or two bytes a number: you counted half as "
            "many bytes a conversation, so twice as many seem to fit",
            "Each head stores a key and a value, and every number takes 2 bytes. A whole number is asked for.",
            Instead(pair=1, whole=float),
        ),
        Misconception(
            "weights_forgotten",
            "gave the whole 80 GB to the caches",
            "The weights are there too: 6.7e9 numbers of 2 bytes.",
            Instead(parameters=0.0),
        ),
        Misconception(
            "weights_of_one_byte",
            "counted one byte for each of the weights",
            "In bfloat16 a number takes 2 bytes, a weight too.",
            Instead(weight=1),
        ),
        Misconception(
            "weights_of_four_bytes",
            "took four bytes for each of the weights",
            "In bfloat16 a number takes 2 bytes, a weight too.",
            Instead(weight=4),
        ),
        Misconception(
            "weights_of_four_bytes_and_factor_2_missing",
            "took four bytes for each of the weights, and missed a factor 2 in the cache, keys **and** values or two bytes a number",
            "In bfloat16 every number takes 2 bytes, a weight too. Each head stores a key and a value.",
            Instead(weight=4, pair=1),
        ),
        Misconception(
            "weights_of_one_byte_and_rounded_up",
            "counted one byte for each of the weights, and rounded up",
            "In bfloat16 a number takes 2 bytes, a weight too. Round down, however near the next whole number is.",
            Instead(weight=1, whole=math.ceil),
        ),
        Misconception(
            "four_bytes_in_the_cache",
            "took four bytes a number for the cache",
            "In bfloat16 a number takes 2 bytes.",
            Instead(element=4),
        ),
        Misconception(
            "one_layer_or_one_head",
            "counted one layer, or one head",
            "Each of the 32 layers has a cache, and in it each of the 32 heads has its keys and values.",
            Instead(layers=1),
        ),
        Misconception(
            "one_token",
            "counted one token a conversation",
            "A conversation has 2,048 tokens, and each leaves its entries.",
            Instead(tokens=1),
        ),
        Misconception(
            "not_rounded_down",
            "did not round down",
            "A conversation fits or it does not: a whole number is asked for.",
            Instead(whole=float),
        ),
        Misconception(
            "rounded_up",
            "rounded up: the last of these conversations does not fit any more",
            "Round down, however near the next whole number is.",
            Instead(whole=math.ceil),
        ),
        Misconception(
            "gibibytes",
            "took 80 GB for 80 GiB",
            "Here a gigabyte is 1e9 bytes.",
            Instead(memory=80 * 2**30),
        ),
    ),
    variants=(Variant("a_float", lambda: 62.0),),
)
