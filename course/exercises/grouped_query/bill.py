"""The memory bill: what a published configuration caches, and how many conversations fit."""

import math

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import grouped_query as ref


def _config(*, groups: bool = True, width: bool = True):
    """A configuration like those that models are published with; some leave out the groups or the width of a head."""

    def make(draw: Draw):
        L, r, G = draw.sizes(3, low=2, high=13)
        H, d = G * r, 8 * draw.integer(3, 9)
        config = {"num_hidden_layers": L, "num_attention_heads": H, "hidden_size": H * d if not width else H * (d + 16)}
        config |= {"num_key_value_heads": G} if groups else {}
        config |= {"head_dim": d} if width else {}
        return {"config": config, "tokens": draw.integer(100, 200), "sequences": draw.integer(2, 9)}

    return make


def _bill(*, size=2, pair=2, heads=None, width=None, layers=True, batch=True):
    def answer(config, tokens, sequences):
        H = config["num_attention_heads"]
        G = config.get("num_key_value_heads", H) if heads is None else heads(config)
        d = config.get("head_dim", config["hidden_size"] // H) if width is None else width(config)
        counted = (config["num_hidden_layers"] if layers else 1) * (sequences if batch else 1)
        return size * pair * G * d * counted * tokens

    return answer


CACHE_BILL = Exercise(
    "cache_bill",
    title="The memory bill of a configuration",
    points=2,
    reference=ref.cache_bill,
    recipe=Made(_bill),
    kind="use",
    difficulty=2,
    minutes=8,
    cases=(
        Case("everything is stated", _config()),
        Case("no width of a head", _config(width=False)),
        Case("no groups", _config(groups=False)),
        Case("neither", _config(groups=False, width=False)),
    ),
    hints=(
        "Of one token, one layer keeps a key and a value for each head of keys and values. Which entries of the configuration do you need, "
        "and which of them may be missing?",
        "Six factors: 2 for key and value, 2 bytes, heads of keys and values, the width of a head, layers, tokens of all sequences. "
        "`config.get(name, otherwise)` gives what to take where an entry is missing.",
        "Without `num_key_value_heads` the model is multi-head: every query head has its own. Without `head_dim` a head is "
        "`hidden_size // num_attention_heads` wide; where it is stated, it need not be that.",
    ),
    misconceptions=(
        Misconception(
            "query_heads_counted",
            "counted the query heads",
            "Queries are not cached. Count `num_key_value_heads`.",
            Instead(heads=lambda config: config["num_attention_heads"]),
        ),
        Misconception(
            "width_from_the_model",
            "computed the width of a head although it is stated",
            "`head_dim` wins where it is there: many models have heads that do not add up to `hidden_size`.",
            Instead(width=lambda config: config["hidden_size"] // config["num_attention_heads"]),
        ),
        Misconception(
            "width_by_groups",
            "divided `hidden_size` by the number of groups for the width of a head",
            "A head of keys is as wide as one of queries: `hidden_size` is shared out among the query heads.",
            Instead(
                width=lambda c: c.get("head_dim", c["hidden_size"] // c.get("num_key_value_heads", c["num_attention_heads"]))
            ),
        ),
        Misconception(
            "as_wide_as_the_model",
            "took `hidden_size` for the width of a head where none is stated",
            "`hidden_size` is the width of a token. Its heads share it out among themselves.",
            Instead(width=lambda c: c.get("head_dim", c["hidden_size"])),
        ),
        Misconception(
            "one_group_by_default",
            "took a missing `num_key_value_heads` for one",
            "It is missing in older models, which are multi-head: as many as query heads.",
            Instead(heads=lambda config: config.get("num_key_value_heads", 1)),
        ),
        Misconception(
            "keys_alone",
            "counted keys without values (or one byte per number)",
            "Each head keeps a key **and** a value, of 2 bytes a number.",
            Instead(pair=1),
        ),
        Misconception(
            "four_bytes",
            "counted 4 bytes for each number",
            "bfloat16 takes 2.",
            Instead(size=4),
        ),
        Misconception(
            "one_layer",
            "counted one layer",
            "Each layer has keys and values of its own.",
            Instead(layers=False),
        ),
        Misconception(
            "one_sequence",
            "counted one sequence",
            "Every conversation has a cache of its own.",
            Instead(batch=False),
        ),
    ),
    variants=(Variant("factors_in_another_order", lambda config, tokens, sequences: tokens * _bill()(config, 1, 1) * sequences),),
)


def _conversations(*, groups=8, weights=406e9, pair=2, layers=126, memory=640e9, rounded=int):
    def answer():
        return rounded((memory - weights) / (131_072 * layers * groups * 128 * pair * 2))

    return answer


CONVERSATIONS = Exercise(
    "conversations",
    title="How many long conversations?",
    points=1,
    reference=ref.conversations,
    recipe=Made(_conversations),
    kind="estimate",
    difficulty=2,
    minutes=5,
    tolerance=Tolerance(rtol=1e-6, atol=0.0),  # a whole number
    cases=(Case("a machine with eight GPUs", lambda draw: {}),),
    hints=(
        "What is in the memory before the first conversation begins?",
        "Eight times 80 GB, less one byte for each of 406 billion parameters. Each token takes, in every layer and group, a key and a value of "
        "128 numbers, of two bytes each.",
        "Divide what is left by the bill of one conversation; a conversation fits or it does not.",
    ),
    misconceptions=(
        Misconception(
            "weights_forgotten",
            "gave all of the memory to the caches",
            "The weights are there too: 406 billion parameters of one byte.",
            Instead(weights=0.0),
        ),
        Misconception(
            "query_heads",
            "found room for none. That is what comes out with keys and values for 128 heads, and also if each GPU had to hold whole "
            "conversations alone",
            "The model has 128 heads of queries and 8 of keys and values, and weights and caches are spread over all eight GPUs. "
            "(Where none fit, another slip would not show: look at the weights' bytes as well.)",
            Instead(groups=128),
        ),
        Misconception(
            "weights_of_two_bytes",
            "let the weights take two bytes each: more than the machine has",
            "So that they fit, they take one byte each here. Only the caches stay in bfloat16.",
            Instead(weights=812e9),
            also=(lambda: -3, lambda: (640e9 - 812e9) / (131_072 * 126 * 8 * 128 * 4)),
        ),
        Misconception(
            "half_the_bytes",
            "counted keys without values, or one byte for each number of the cache",
            "A token keeps a key and a value in each group and layer, of two bytes a number; only the weights take one.",
            Instead(pair=1),
        ),
        Misconception(
            "layers_of_the_small_model",
            "took the 80 layers of the 70B model",
            "Llama 3.1 405B has 126 layers.",
            Instead(layers=80),
        ),
        Misconception(
            "twice_the_bytes",
            "found room for a single one, as where each token takes twice its bytes: with 16 groups, or 4 bytes for a number",
            "A token keeps a key and a value in each of the 8 groups of a layer, of two bytes a number.",
            Instead(groups=16),
        ),
        Misconception(
            "more_than_fit",
            "found room for more than fit, as where a quotient is rounded up, or where a GB counts as $2^{30}$ bytes",
            "A GB is $10^9$ bytes here, and a conversation whose cache fits in part does not count.",
            Instead(rounded=math.ceil),
            also=(Instead(memory=8 * 80 * 2**30),),
        ),
        Misconception(
            "half_the_bytes_rounded_up",
            "counted keys without values, or one byte for each number of the cache, and rounded the quotient up",
            "A token keeps a key and a value in each group and layer, of two bytes a number, and a conversation whose cache fits in "
            "part does not count: round down.",
            Instead(pair=1, rounded=math.ceil),
        ),
        Misconception(
            "twice_as_many_and_more",
            "found room for eight, as with half the bytes for each token and a GB of $2^{30}$ bytes, or with the weights of a smaller model",
            "A token keeps a key and a value in each group and layer, of two bytes a number; a GB is $10^9$ bytes here, and the model has "
            "406 billion parameters.",
            Instead(pair=1, memory=8 * 80 * 2**30),
            also=(Instead(weights=70e9),),
        ),
        Misconception(
            "not_whole",
            "returned a fraction of a conversation",
            "A conversation whose cache fits in part cannot be held: round down.",
            Instead(rounded=float),
        ),
    ),
    variants=(Variant("from_the_configuration", lambda: (640 - 406) * 10**9 // (4 * 8 * 128 * 126 * 131_072)),),
)
