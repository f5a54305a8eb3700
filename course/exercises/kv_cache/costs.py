"""What a cache saves in floating-point operations, and what it takes in bytes."""

from typing import Any

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import kv_cache as ref


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
    title="Estimate: operations of one step",
    kind="estimate",
    points=1.5,
    difficulty=2,
    minutes=9,
    reference=ref.step_flops,
    recipe=Made(_flops),
    cases=(
        Case("few tokens, with the cache", _few(True)),
        Case("few tokens, without", _few(False)),
        Case("more tokens, with the cache", _larger(True)),
        Case("more tokens, without", _larger(False)),
    ),
    hints=(
        "First write down the shapes of the eight products. In how many of them does the past take part?",
        "With r rows processed, there are four projections of (r, d) by (d, d), the scores (r, d) by (d, n), the weighted sum (r, n) by "
        "(n, d), and the MLP with (r, d) by (d, f d) and back. Each product of (a, b) by (b, c) costs 2abc.",
        "Collect the terms with $r d^2$ and those with $r n d$. The first come from 4 + 2f matrices, each with a factor of 2. How many "
        "products give the second? At the end, set r to 1 with the cache and to n without.",
    ),
    misconceptions=(
        Misconception(
            "no_projections",
            "left out the four projections",
            "The four projections cost $2 d^2$ each for every token that is processed. On short texts they are a third of "
            "the work.",
            Instead(projections=0),
        ),
        Misconception(
            "three_projections",
            "counted three of the four projections",
            "Queries, keys and values are projected, and the merged heads once more by $W_O$.",
            Instead(projections=3),
        ),
        Misconception(
            "ffn_matrix_counted_once",
            "counted one matrix of the MLP, which has two",
            "One matrix leads to `ffn * d_model` features and the other one back.",
            Instead(ffn_matrices=1),
        ),
        Misconception(
            "ffn_left_out",
            "left out the MLP, whose work on old tokens a cache saves as well",
            "The two matrices of the MLP cost $2 f d^2$ each for every token that is processed.",
            Instead(ffn_matrices=0),
        ),
        Misconception(
            "mixture_forgotten",
            "counted the scores but not the weighted sum of the values",
            "$A V$ is a product of (r, n) by (n, d), which costs as much as the scores.",
            Instead(products=1),
        ),
        Misconception(
            "multiply_add_as_one",
            "counted a multiplication and its addition as one operation",
            "A product of (a, b) by (b, c) costs 2abc here, which is two operations per term.",
            Instead(each=1),
        ),
        Misconception(
            "cached_reprojects_the_past",
            "projected all n tokens to keys and values again, although the cache holds them",
            "With the cache, $W_K$ and $W_V$ see only the new token, because the other keys and values are stored.",
            _reprojects,
        ),
        Misconception(
            "cached_ffn_of_the_past",
            "put all n tokens through the MLP, although only the new one is processed",
            "The MLP works on each token by itself, and nobody asks for the old results, so it has one row.",
            _ffn_of_the_past,
        ),
        Misconception(
            "without_cache_one_row",
            "put all n tokens through $W_K$ and $W_V$ only when there is no cache, and the rest of the layer with the new "
            "token alone",
            "Without a cache the whole text goes through everything, because the next layer makes its keys from this "
            "layer's output for **every** token. So $r = n$ in all eight products.",
            _keys_and_values_alone,
        ),
        Misconception(
            "one_query_without_cache",
            "counted the scores and the weighted sum of one query, even without the cache",
            "Without the cache all `n` queries meet all `n` keys, so the scores are (n, n).",
            Instead(all_pairs=lambda rows, n: n),
        ),
        Misconception(
            "square_scores_with_cache",
            "counted n × n scores, even with the cache",
            "With the cache one query meets n keys, so the scores are one row.",
            Instead(all_pairs=lambda rows, n: n * n),
        ),
        Misconception(
            "own_key_forgotten",
            "counted n − 1 keys with the cache, although the token also attends to itself",
            "The new key is stored first, so the one query meets all n keys.",
            Instead(all_pairs=lambda rows, n: n - 1 if rows == 1 else n * n),
        ),
        Misconception(
            "triangle_only",
            "counted only the scores that the mask keeps",
            "Count the full (n, n) products, because a plain implementation computes all scores and masks them afterwards.",
            Instead(all_pairs=lambda rows, n: n if rows == 1 else n * (n + 1) // 2),
        ),
    ),
    variants=(Variant("product_by_product", _product_by_product), Variant("n_times_the_cached_step", _n_cached_steps)),
)


PUBLISHED: dict[str, dict[str, Any]] = {
    "LLaMA-7B": {"hidden_size": 4096, "intermediate_size": 11_008, "torch_dtype": "float16", "num_hidden_layers": 32,
                 "num_attention_heads": 32},
    "SmolLM2-135M": {"hidden_size": 576, "intermediate_size": 1536, "torch_dtype": "bfloat16", "num_hidden_layers": 30,
                     "num_attention_heads": 9, "num_key_value_heads": 3},
    "Llama 3.1 8B": {"hidden_size": 4096, "intermediate_size": 14_336, "torch_dtype": "bfloat16", "num_hidden_layers": 32,
                     "num_attention_heads": 32, "num_key_value_heads": 8},
    "Qwen3-0.6B": {"hidden_size": 1024, "intermediate_size": 3072, "torch_dtype": "bfloat16", "num_hidden_layers": 28,
                   "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128},
}  # fmt: skip


def _published(name: str):
    return lambda draw: {"config": dict(PUBLISHED[name])}


def _drawn_config(draw: Draw):
    """All fields, with heads that together are wider than the model, and four bytes per number."""
    layers, kv_heads, d, wide = draw.sizes(4, low=3, high=19)
    heads = kv_heads * draw.choice((2, 3, 4))
    config = {"hidden_size": heads * wide, "intermediate_size": 4 * heads * wide, "torch_dtype": "float32"}
    config |= {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": d}
    return {"config": config}


def _kept(
    *,
    pair=2,
    layers=lambda c: c["num_hidden_layers"],
    heads=lambda c: c.get("num_key_value_heads", c["num_attention_heads"]),
    width=lambda c: c.get("head_dim", c["hidden_size"] // c["num_attention_heads"]),
    element=lambda c: 4 if c["torch_dtype"] == "float32" else 2,
):
    """The bytes of one token, with one factor replaced by a mistake."""

    def answer(config):
        return pair * layers(config) * heads(config) * width(config) * element(config)

    return answer


def _field_by_field(config):
    whole = {
        "num_key_value_heads": config["num_attention_heads"],
        "head_dim": config["hidden_size"] / config["num_attention_heads"],
    }
    whole.update(config)
    size = {"float32": 4, "float16": 2, "bfloat16": 2}[whole["torch_dtype"]]
    return whole["num_hidden_layers"] * whole["num_key_value_heads"] * 2 * whole["head_dim"] * size


BYTES_PER_TOKEN = Exercise(
    "bytes_per_token",
    title="Use on real models: bytes per token",
    kind="use",
    points=1,
    difficulty=2,
    minutes=7,
    reference=ref.bytes_per_token,
    recipe=Made(_kept),
    tolerance=Tolerance(rtol=1e-9, atol=0.0),  # a count, which may come as a float
    cases=(
        Case("LLaMA-7B", _published("LLaMA-7B")),
        Case("SmolLM2-135M", _published("SmolLM2-135M")),
        Case("Llama 3.1 8B", _published("Llama 3.1 8B")),
        Case("Qwen3-0.6B", _published("Qwen3-0.6B")),
        Case("a model in float32", _drawn_config),
    ),
    hints=(
        "Which of these fields would change what one token leaves in the cache, if you changed only this field?",
        "The MLP has no cache, and queries are not stored. How many vectors does one token leave in one layer, and how wide is each of them?",
        "Take a key and a value for each KV head in each layer. If one of the two fields is missing, `config.get(field, otherwise)` returns "
        "what follows from the others.",
    ),
    misconceptions=(
        Misconception(
            "query_heads_stored",
            "counted the query heads, although several of them may share one KV head",
            "The cache holds keys and values. How many heads of those does the config name?",
            Instead(heads=lambda c: c["num_attention_heads"]),
        ),
        Misconception(
            "width_from_the_model",
            "divided the model's width by its heads, even where the config gives the width of a head",
            "Heads need not be as wide as `hidden_size` divided by their number. Which field says how wide they are?",
            Instead(width=lambda c: c["hidden_size"] // c["num_attention_heads"]),
        ),
        Misconception(
            "width_shared_by_kv_heads",
            "divided the model's width by the number of KV heads",
            "The width of a head follows from the query heads, and a key is as wide as the query that it meets.",
            Instead(
                width=lambda c: c.get("head_dim", c["hidden_size"] // c.get("num_key_value_heads", c["num_attention_heads"]))
            ),
        ),
        Misconception(
            "factor_2_missing",
            "missed a factor of 2",
            "A token leaves a key **and** a value.",
            Instead(pair=1),
        ),
        Misconception(
            "numbers_for_bytes",
            "counted numbers instead of bytes",
            "Which field says how many bytes a number takes?",
            Instead(element=lambda c: 1),
        ),
        Misconception(
            "always_two_bytes",
            "counted two bytes per number, whatever the config says",
            "A number takes 4 bytes in float32.",
            Instead(element=lambda c: 2),
        ),
        Misconception(
            "always_four_bytes",
            "counted four bytes per number, whatever the config says",
            "A number takes 2 bytes in float16 and in bfloat16.",
            Instead(element=lambda c: 4),
        ),
        Misconception(
            "one_layer",
            "counted one layer",
            "Each layer has a cache of its own.",
            Instead(layers=lambda c: 1),
        ),
        Misconception(
            "one_head",
            "counted one head",
            "Each KV head has its own key and value.",
            Instead(heads=lambda c: 1),
        ),
        Misconception(
            "width_of_the_model_per_head",
            "gave every head the width of the whole model",
            "The heads share the model's features.",
            Instead(width=lambda c: c["hidden_size"]),
        ),
        Misconception(
            "mlp_stored",
            "stored the features of the MLP",
            "The MLP works on each token by itself, so nothing of it is needed later.",
            Instead(width=lambda c: c["intermediate_size"] // c["num_attention_heads"]),
        ),
    ),
    variants=(Variant("field_by_field", _field_by_field),),
)


def _model(L: int, H: int, n_kv: int, d: int):
    return lambda draw: {"L": L, "H": H, "n_kv": n_kv, "d": d}


def _drawn_model(draw: Draw):
    L, n_kv, d = draw.sizes(3, low=3, high=17)
    return {"L": L, "H": n_kv * draw.choice((2, 3, 4)), "n_kv": n_kv, "d": d}


def _equal(*, pair=2, layers=lambda L: L, heads=lambda H: H, stored=lambda H, n_kv: n_kv, square=1.0):
    """The length at which both are equal, with one part of the count replaced by a mistake."""

    def answer(L, H, n_kv, d):
        return pair * layers(L) * stored(H, n_kv) * d / (square * heads(H))

    return answer


def _by_search(L, H, n_kv, d):
    n = 1
    while H * n * n < 2 * n * L * n_kv * d:
        n += 1
    return n if H * n == 2 * L * n_kv * d else 2 * L * n_kv * d / H


SCORES_OUTGROW_CACHE = Exercise(
    "scores_outgrow_cache",
    title="Estimate: when do scores outgrow the cache?",
    kind="estimate",
    points=1,
    difficulty=2,
    minutes=6,
    reference=ref.scores_outgrow_cache,
    recipe=Made(_equal),
    cases=(
        Case("one layer with one head", _model(1, 1, 1, 3)),
        Case("SmolLM2", _model(30, 9, 3, 64)),
        Case("LLaMA-7B", _model(32, 32, 32, 128)),
        Case("another model", _drawn_model),
    ),
    hints=(
        "Count numbers, not bytes, since both sides have equally large numbers. What does each head of one layer make, and what does the cache keep?",
        "The scores of one layer are H squares of n by n. The cache keeps a key and a value of d numbers per token, for each of n_kv heads "
        "and L layers.",
        "Set H · n² equal to 2 · n · L · n_kv · d and solve for n.",
    ),
    misconceptions=(
        Misconception(
            "factor_2_missing",
            "got half of the length, as if the cache kept keys alone or the weights counted beside the scores",
            "The cache keeps a key **and** a value for each token, layer and KV head, and only the scores are asked for on the other side.",
            Instead(pair=1),
        ),
        Misconception(
            "one_layer_of_the_cache",
            "compared one layer with one layer, or all layers with all layers",
            "The scores of a layer live only while it runs, so count them once. The caches of all layers stay, so count all L of them.",
            Instead(layers=lambda L: 1),
        ),
        Misconception(
            "one_head_of_scores",
            "counted the scores of one head only",
            "All H heads of a layer run together, and each has n² scores.",
            Instead(heads=lambda H: 1),
        ),
        Misconception(
            "query_heads_in_the_cache",
            "used the same number of heads for the scores and for the cache",
            "Every one of the H query heads has its own scores, while the cache has only n_kv heads.",
            Instead(stored=lambda H, n_kv: H),
        ),
        Misconception(
            "masked_scores_left_out",
            "counted only the scores that the causal mask keeps",
            "Attention as in notebook 04 makes all n² scores and masks half of them afterwards.",
            Instead(square=0.5),
        ),
        Misconception(
            "square_root",
            "took a square root, as if the cache did not grow with the text",
            "Both sides grow with n, so one n cancels and no root is left.",
            lambda L, H, n_kv, d: (2 * L * n_kv * d / H) ** 0.5,
        ),
    ),
    variants=(Variant("by_search", _by_search),),
)
