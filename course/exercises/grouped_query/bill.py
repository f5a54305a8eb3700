"""The memory bill: what a published configuration caches, and how many conversations fit."""

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
    title="The memory bill of a model card",
    points=2,
    reference=ref.cache_bill,
    recipe=Made(_bill),
    kind="use",
    difficulty=2,
    minutes=12,
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


def _conversations(*, groups=8, weights=141.2e9, pair=2, size=2, memory=640e9, whole=True):
    def answer():
        fit = (memory - weights) / (131_072 * 80 * groups * 128 * pair * size)
        return int(fit) if whole else fit

    return answer


CONVERSATIONS = Exercise(
    "conversations",
    title="How many long conversations?",
    points=1,
    reference=ref.conversations,
    recipe=Made(_conversations),
    kind="estimate",
    difficulty=2,
    minutes=8,
    tolerance=Tolerance(rtol=0.001, atol=0.0),
    cases=(Case("a machine with eight GPUs", lambda draw: {}),),
    hints=(
        "What is in the memory before the first conversation begins?",
        "Eight times 80 GB, less 2 bytes for each of 70.6 billion parameters. Your `cache_bill` says what one conversation of 131,072 tokens takes.",
        "Divide what is left by the bill of one conversation; a conversation fits or it does not.",
    ),
    misconceptions=(
        Misconception(
            "weights_forgotten",
            "gave all of the memory to the caches",
            "The weights are there too: 70.6 billion parameters of 2 bytes.",
            Instead(weights=0.0),
        ),
        Misconception(
            "weights_of_one_byte",
            "counted the parameters as bytes",
            "A bfloat16 number takes 2 bytes: 141.2 GB.",
            Instead(weights=70.6e9),
        ),
        Misconception(
            "query_heads",
            "counted keys and values for 64 heads",
            "The model has 64 heads of queries and 8 of keys and values.",
            Instead(groups=64),
        ),
        Misconception(
            "keys_alone",
            "counted keys without values",
            "A token keeps a key and a value in each group and layer.",
            Instead(pair=1),
        ),
        Misconception(
            "not_whole",
            "returned a fraction of a conversation",
            "Eleven fit; six tenths of a conversation do not help anybody. Round down.",
            Instead(whole=False),
        ),
    ),
    variants=(Variant("from_the_configuration", lambda: (640 - 141) * 10**9 // (4 * 8 * 128 * 80 * 131_072)),),
)
