"""Costs: arithmetic and bytes of the ways to decode, a whole prompt, and the cache on each of several GPUs."""

from autograder import Before, Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import latent as ref

WAYS = ("cached", "remade", "absorbed")


# none is a size of the draw, the double of one, or a sum, difference or product of two
_ROTATED = (34, 42, 54, 56)


def _way(way: str):
    def make(draw: Draw):
        H, d, d_v, d_c = draw.sizes(4, low=3)
        return {"way": way, "H": H, "d": d, "d_v": d_v, "d_c": 5 * d_c, "d_rope": draw.choice(_ROTATED)}

    return make


def _cost(
    *, ops=2, size=2, score=lambda d, d_rope: d + d_rope, scored=lambda way: True, rope_heads=lambda H: 1, pair=1, mixed=lambda d_c, d_v, d_rope: d_c,
    remade=lambda H, d, d_v, d_c: H * d_c * (d + d_v), rope=1, rope_of_latents=1, per_step=lambda H, d, d_v, d_c: 0, attended=1,
    also_read=lambda way, H, d, d_v, d_c: 0,
):  # fmt: skip
    """An answer with one count replaced."""

    def answer(way, H, d, d_v, d_c, d_rope):
        ready = ops * H * (score(d, d_rope * scored(way)) + d_v)
        latents = size * (pair * d_c + rope * rope_of_latents * d_rope + also_read(way, H, d, d_v, d_c))
        if way == "cached":
            return ready, size * (H * (d + d_v) + rope * rope_heads(H) * d_rope)
        if way == "remade":
            return attended * ready + ops * remade(H, d, d_v, d_c), latents
        asked = score(d_c, d_rope * scored(way))
        return ops * H * (asked + mixed(d_c, d_v, d_rope)) + ops * per_step(H, d, d_v, d_c), latents

    return answer


DECODE_COST = Exercise(
    "decode_cost",
    title="Arithmetic and bytes of a decode step",
    points=2,
    reference=ref.decode_cost,
    recipe=Made(_cost),
    difficulty=3,
    minutes=14,
    cases=tuple(
        Case(name, _way(way)) for name, way in zip(("keys and values cached", "made again", "absorbed"), WAYS, strict=True)
    ),
    hints=(
        "One cached token, one new token. For each head: how long is the dot product of the score, and how wide is the row that the "
        "weight is multiplied with? Then: how many numbers of this cached token are read?",
        "Each multiplication with its addition counts as 2 FLOP, each number read as 2 bytes. Making again has all the arithmetic of "
        "ready keys and values, and the making besides. Of the six counts only one pair is equal: making again and absorbing read the "
        "same bytes.",
        "For each head, ready keys and values: a score over $d + d_{rope}$, a mixture of width $d_v$. Absorbed: both run over the latent, "
        "the score over $d_{rope}$ more. Made again: as ready, and each of the $d + d_v$ numbers that are made takes $d_c$ products. "
        "Latent and rotated key are read **once** for all heads.",
    ),
    misconceptions=(
        Misconception(
            "one_operation_each",
            "counted a multiplication with its addition as one operation",
            "A dot product of width $w$ takes $w$ products and $w$ sums: $2w$ FLOP.",
            Instead(ops=1),
        ),
        Misconception(
            "elements_for_bytes",
            "counted numbers read, not bytes",
            "A number in bfloat16 takes 2 bytes.",
            Instead(size=1),
        ),
        Misconception(
            "rotated_key_per_head",
            "had a rotated key read for every head",
            "One rotated key serves all heads: it is in memory once.",
            Instead(rope_heads=lambda H: H),
        ),
        Misconception(
            "positions_not_scored",
            "left the rotated part out of the scores",
            "A score has $d_{rope}$ terms more, in each of the three ways.",
            Instead(score=lambda d, d_rope: d),
            also=(Instead(scored=lambda way: way != "cached"), Instead(scored=lambda way: way != "absorbed")),
        ),
        Misconception(
            "positions_not_scored_when_made_again",
            "left the rotated part out of the scores where keys and values are made again",
            "Keys that are made again meet the query as ready ones do, and the rotated key comes beside them.",
            Instead(scored=lambda way: way != "remade"),
        ),
        Misconception(
            "rotated_key_not_read",
            "left the rotated key out of the bytes",
            "It is cached next to the latent (or the keys), and read with them.",
            Instead(rope=0),
            also=(Instead(rope_heads=lambda H: 0), Instead(rope_of_latents=0)),
        ),
        Misconception(
            "values_mixed_when_absorbed",
            "let the absorbed form mix values of width $d_v$",
            "It has no values: it averages **latents**, so the mixture is $d_c$ wide. $W_{UV}$ comes once per query, after it.",
            Instead(mixed=lambda d_c, d_v, d_rope: d_v),
        ),
        Misconception(
            "rotated_key_mixed",
            "let the absorbed form average the rotated key as well",
            "A weight is multiplied with the latent alone, $d_c$ numbers. The rotated key has a part in the score only.",
            Instead(mixed=lambda d_c, d_v, d_rope: d_c + d_rope),
        ),
        Misconception(
            "latent_read_twice",
            "had the latent read twice, as key and as value",
            "It is one row: a kernel reads it once and uses it for both.",
            Instead(pair=2),
        ),
        Misconception(
            "made_keys_read",
            "had the keys and values that are made again read from memory as well",
            "They are made of the latents on the chip, used at once, and never leave it: read are the latent and the rotated key.",
            Instead(also_read=lambda way, H, d, d_v, d_c: (way == "remade") * H * (d + d_v)),
        ),
        Misconception(
            "matrices_read",
            "had the matrices $W_{UK}$ and $W_{UV}$ read for each cached token",
            "They are read once per step, whatever the context: work of a step is not counted here.",
            Instead(also_read=lambda way, H, d, d_v, d_c: (way == "remade") * H * d_c * (d + d_v)),
            also=(Instead(also_read=lambda way, H, d, d_v, d_c: H * d_c * (d + d_v)),),
        ),
        Misconception(
            "made_for_one_head",
            "made keys and values of one head only",
            "Every head has its own: $H$ times.",
            Instead(remade=lambda H, d, d_v, d_c: d_c * (d + d_v)),
        ),
        Misconception(
            "values_as_wide_as_keys",
            "took the values to be as wide as the keys: $d$ where $d_v$ belongs",
            "Scores and $W_{UK}$ have the width $d$, mixtures and $W_{UV}$ have $d_v$.",
            Before(lambda d, **_: {"d_v": d}),
        ),
        Misconception(
            "made_and_not_attended",
            "counted the making of keys and values, and left out the attention to them",
            "What is made is then used: score and mixture come on top, as with ready keys and values.",
            Instead(attended=0),
        ),
        Misconception(
            "absorbing_paid_for_each_cached_token",
            "charged the two products of the absorbed form, with $W_{UK}$ and with $W_{UV}$, to every cached token",
            "$q W_{UK}^\\top$ is made once per query and step, and so is the average times $W_{UV}$, not once per cached token: that is the "
            "point of it.",
            Instead(per_step=lambda H, d, d_v, d_c: H * d_c * (d + d_v)),
        ),
    ),
    variants=(
        Variant(
            "as_a_table",
            lambda way, H, d, d_v, d_c, d_rope: {
                "cached": (2 * H * (d + d_rope + d_v), 2 * H * (d + d_v) + 2 * d_rope),
                "remade": (2 * H * (d + d_rope + d_v + d_c * d + d_c * d_v), 2 * d_c + 2 * d_rope),
                "absorbed": (4 * H * d_c + 2 * H * d_rope, 2 * d_c + 2 * d_rope),
            }[way],
        ),
    ),
)


# ---------------------------------------------------------------------------------------------- a prompt


def _ratio(*, n=2000, pairs=None, made=262_144, absorbed=262_144, ready=640, asked=2176):
    met = n * (n + 1) / 2 if pairs is None else pairs
    return lambda: (n * absorbed + met * asked) / (n * made + met * ready)


PROMPT_RATIO = Exercise(
    "prompt_ratio",
    title="Estimate: absorbing in a prompt",
    points=1,
    reference=ref.prompt_ratio,
    recipe=Made(_ratio),
    kind="estimate",
    difficulty=2,
    minutes=7,
    tolerance=Tolerance(rtol=0.02, atol=0.0),
    cases=(Case("2,000 tokens", lambda draw: {}),),
    hints=(
        "Per head there are two kinds of work: what is done once per token, and what is done once per pair of a query and a key that it "
        "sees. How many such pairs are there among 2,000 tokens under a causal mask?",
        "Once per token: keys and values are made, $2 d_c (d + d_v)$ FLOP; or a query is absorbed and its average brought back, which is "
        "the same number. Once per pair: $2 (d + d_{rope} + d_v)$, or $2 (2 d_c + d_{rope})$.",
        "$n = 2000$ tokens and $n (n + 1) / 2$ pairs. Add the two kinds of work for each form, and divide absorbed by made. The answer is "
        "a number between 2 and 3.4.",
    ),
    misconceptions=(
        Misconception(
            "pairs_alone",
            "compared the work of pairs with pairs: what is done once per token is missing, or lost beside it",
            "Both forms also work once per token, in each head: 262,144 FLOP, which is as much as 410 ready-made pairs.",
            Instead(made=0, absorbed=0),
        ),
        Misconception(
            "absorbing_is_free",
            "let the absorbed form off the two products that absorb a query and bring its average back",
            "$q W_{UK}^\\top$ and $U W_{UV}$ take $2 d_c (d + d_v)$ per query. In a prompt there are as many queries as keys.",
            Instead(absorbed=0),
        ),
        Misconception(
            "rotated_key_mixed",
            "let the absorbed mixture run over the rotated key as well, 576 numbers",
            "A weight is multiplied with the latent alone, 512 numbers. The rotated key has a part in the score only.",
            Instead(asked=2304),
        ),
        Misconception(
            "pairs_alone_and_rotated_key_mixed",
            "let the absorbed mixture run over the rotated key as well, 576 numbers, and compared pairs with pairs: what is done once per "
            "token is missing, or lost beside it",
            "A weight is multiplied with the latent alone, 512 numbers. And both forms also work once per token: 262,144 FLOP in each head.",
            Instead(made=0, absorbed=0, asked=2304),
        ),
        Misconception(
            "pairs_alone_and_no_rotated_part",
            "compared pairs with pairs, and without the rotated part: $2 d_c / (d + d_v)$, which is $d_c / d$",
            "A score has 64 terms more, for the positions. And both forms also work once per token: 262,144 FLOP in each head.",
            Instead(made=0, absorbed=0, ready=512, asked=2048),
        ),
        Misconception(
            "not_causal",
            "let every query meet all 2,000 keys",
            "Query $i$ meets $i + 1$ keys: $n (n + 1) / 2$ pairs.",
            Instead(pairs=2000**2),
        ),
        Misconception(
            "upside_down",
            "divided the other way round: made by absorbed",
            "The question is how many times the arithmetic **absorbing** takes.",
            lambda: 1 / _ratio()(),
        ),
    ),
    variants=(Variant("a_number_with_one_decimal", lambda: 2.7),),
)


# ---------------------------------------------------------------------------------------------- several GPUs


def _gpus(kind: str, H: int, G: int, tp: int):
    def make(draw: Draw):
        return {"kind": kind, "tp": tp, "H": H, "G": G, "d": 2 * draw.integer(4, 9), "d_c": 8 * draw.integer(7, 11), "d_rope": 6}

    return make


def _whole_groups(n, tp):
    return -(-n // tp)


def _per_gpu(
    *, heads=lambda kind, H, G: {"mha": H, "gqa": G, "mqa": 1}[kind], pair=lambda kind: 2, share=_whole_groups, grouped=None,
    latent=None,
):  # fmt: skip
    def answer(kind, tp, H, G, d, d_c, d_rope):
        if kind == "mla":
            return d_c + d_rope if latent is None else latent(d_c, d_rope, tp)
        if kind == "gqa" and grouped is not None:
            return grouped(G, pair(kind) * d, tp, H)
        return pair(kind) * d * share(heads(kind, H, G), tp)

    return answer


CACHE_PER_GPU = Exercise(
    "cache_per_gpu",
    title="The cache on each of several GPUs",
    points=2,
    reference=ref.cache_per_gpu,
    recipe=Made(_per_gpu),
    difficulty=2,
    minutes=7,
    cases=(
        Case("multi-head on four", _gpus("mha", 12, 4, 4)),
        Case("as many groups as GPUs", _gpus("gqa", 12, 4, 4)),
        Case("fewer groups than GPUs", _gpus("gqa", 24, 2, 8)),
        Case("two groups each", _gpus("gqa", 24, 6, 3)),
        Case("multi-query", _gpus("mqa", 12, 3, 4)),
        Case("latent", _gpus("mla", 12, 3, 4)),
        Case("latent on one GPU", _gpus("mla", 12, 3, 1)),
    ),
    hints=(
        "A GPU has some of the heads, and must have all the keys and values that these need. What do the heads of latent attention need?",
        "Groups are dealt out whole: `G` of them to `tp` GPUs, and a GPU never has less than one. A latent serves **all** heads, so "
        "every GPU needs all of it.",
        "Ceiling division, `-(-G // tp)`, gives the groups of a GPU in all three kinds with groups, for `H`, `G` or 1 of them; each takes "
        "$2d$ numbers. The fourth kind does not depend on `tp`.",
    ),
    misconceptions=(
        Misconception(
            "latent_split",
            "split the latent over the GPUs",
            "Every head makes its keys and values from the **whole** latent. Each GPU has some of the heads, so each needs all of it.",
            Instead(latent=lambda d_c, d_rope, tp: -(-(d_c + d_rope) // tp)),
            also=(
                Instead(latent=lambda d_c, d_rope, tp: (d_c + d_rope) // tp),
                Instead(latent=lambda d_c, d_rope, tp: (d_c + d_rope) / tp),
                Instead(latent=lambda d_c, d_rope, tp: d_c // tp + d_rope),
            ),
        ),
        Misconception(
            "less_than_a_group",
            "gave a GPU less than one group where there are more GPUs than groups",
            "A group's keys are needed whole by each GPU that has one of its heads: never less than $2d$.",
            Instead(share=lambda n, tp: n / tp),
            also=(Instead(share=lambda n, tp: n // tp), Instead(grouped=lambda G, width, tp, H: G // tp * width)),
        ),
        Misconception(
            "group_cut_in_pieces",
            "split the numbers of all groups evenly, so that a group is cut in pieces where there are more GPUs than groups",
            "Not `2 * G * d // tp`: a head needs its group's keys whole. A GPU has `G / tp` groups, or **one** where that is less.",
            Instead(grouped=lambda G, width, tp, H: G * width // tp),
        ),
        Misconception(
            "nothing_split",
            "gave every GPU the whole cache",
            "Heads of keys and values are dealt out, with the query heads that use them.",
            Instead(share=lambda n, tp: n),
        ),
        Misconception(
            "keys_alone",
            "counted keys without values",
            "A group keeps a key **and** a value per token: $2d$.",
            Instead(pair=lambda kind: 1),
            also=(Instead(pair=lambda kind: 2 - (kind == "mqa")),),
        ),
        Misconception(
            "one_group_only",
            "counted one group on a GPU that keeps two",
            "A group is $H/G$ heads, so the $H/tp$ heads of a GPU have $G/tp$ groups, and **one** where that is less.",
            Instead(grouped=lambda G, width, tp, H: width),
        ),
        Misconception(
            "groups_for_group_size",
            "took `G` for the number of heads in a group",
            "`G` is the number of **groups**: a GPU has $G/tp$ of them, and one where that is less.",
            Instead(grouped=lambda G, width, tp, H: _whole_groups(H // tp, G) * width),
        ),
        Misconception(
            "a_group_for_each_head",
            "gave each GPU a group for every query head that it has (at most all `G`)",
            "Neighbouring heads share a group: `H/tp` heads need `G/tp` groups, and one where that is less.",
            Instead(grouped=lambda G, width, tp, H: min(G, H // tp) * width),
        ),
        Misconception(
            "latent_doubled",
            "doubled the latent, once for keys and once for values",
            "Keys and values come from the **same** latent: that is the joint compression. It is stored once.",
            Instead(latent=lambda d_c, d_rope, tp: 2 * d_c + d_rope),
        ),
        Misconception(
            "rotated_key_forgotten",
            "left out the rotated key",
            "Without it no position would survive in the cache: add $d_{rope}$.",
            Instead(latent=lambda d_c, d_rope, tp: d_c),
        ),
        Misconception(
            "query_heads_for_groups",
            "counted query heads where keys and values are stored by group",
            "Grouped-query attention caches `G` heads, multi-query one.",
            Instead(heads=lambda kind, H, G: H),
        ),
    ),
    variants=(
        Variant(
            "by_max",
            lambda kind, tp, H, G, d, d_c, d_rope: (
                d_c + d_rope if kind == "mla" else 2 * d * max(1, {"mha": H, "gqa": G, "mqa": 1}[kind] // tp)
            ),
        ),
    ),
)
