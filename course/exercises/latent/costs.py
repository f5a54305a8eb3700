"""Costs: arithmetic and bytes of the ways to decode, a whole prompt, and the cache on each of several GPUs."""

import math

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
    minutes=9,
    cases=tuple(Case(name, _way(way)) for name, way in zip(("keys and values cached", "rebuilt", "absorbed"), WAYS, strict=True)),
    hints=(
        "Take one cached token, one new token and one head. How long is the dot product of the score, and how wide is the row that the "
        "weight multiplies? Then ask how many numbers of this cached token are read.",
        "Rebuilding has all the arithmetic of cached keys and values, and in addition the products that rebuild them. Of the six counts only "
        "two are equal, because rebuilding and absorbing read the same bytes.",
        "With cached keys and values a head takes a score over $d + d_{rope}$ features and a sum of width $d_v$. Absorbed, both run over the "
        "latent. To rebuild one number takes $d_c$ products, and a head needs $d + d_v$ of them. Latent and rotated key are read **once** for all heads.",
    ),
    misconceptions=(
        Misconception(
            "one_operation_each",
            "counted a multiplication with its addition as one operation",
            "A dot product of width $w$ takes $w$ multiplications and $w$ additions, which are $2w$ FLOPs.",
            Instead(ops=1),
        ),
        Misconception(
            "elements_for_bytes",
            "counted numbers instead of bytes",
            "A number in bfloat16 takes 2 bytes.",
            Instead(size=1),
        ),
        Misconception(
            "rotated_key_per_head",
            "had a rotated key read for every head",
            "One rotated key serves all heads, so it is read once.",
            Instead(rope_heads=lambda H: H),
        ),
        Misconception(
            "positions_not_scored",
            "left the rotated part out of the scores",
            "A score has $d_{rope}$ additional terms in each of the three ways.",
            Instead(score=lambda d, d_rope: d),
            also=(Instead(scored=lambda way: way != "cached"), Instead(scored=lambda way: way != "absorbed")),
        ),
        Misconception(
            "positions_not_scored_when_made_again",
            "left the rotated part out of the scores where keys and values are rebuilt",
            "Rebuilt keys meet the query as cached ones do, with the rotated key beside them.",
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
            "let the absorbed form average values of width $d_v$",
            "It has no values. It averages **latents** of width $d_c$, and $W_{UV}$ comes afterwards, once per query.",
            Instead(mixed=lambda d_c, d_v, d_rope: d_v),
        ),
        Misconception(
            "rotated_key_mixed",
            "let the absorbed form average the rotated key as well",
            "A weight multiplies the latent alone, which has $d_c$ numbers. The rotated key takes part in the score only.",
            Instead(mixed=lambda d_c, d_v, d_rope: d_c + d_rope),
        ),
        Misconception(
            "latent_read_twice",
            "had the latent read twice, as key and as value",
            "It is one row, and a kernel reads it once and uses it for both.",
            Instead(pair=2),
        ),
        Misconception(
            "made_keys_read",
            "had rebuilt keys and values read from memory as well",
            "They are rebuilt on the chip and used at once, so only the latent and the rotated key are read.",
            Instead(also_read=lambda way, H, d, d_v, d_c: (way == "remade") * H * (d + d_v)),
        ),
        Misconception(
            "matrices_read",
            "had the matrices $W_{UK}$ and $W_{UV}$ read for each cached token",
            "They are read once per step, whatever the length of the context, and that is not counted here.",
            Instead(also_read=lambda way, H, d, d_v, d_c: (way == "remade") * H * d_c * (d + d_v)),
            also=(Instead(also_read=lambda way, H, d, d_v, d_c: H * d_c * (d + d_v)),),
        ),
        Misconception(
            "made_for_one_head",
            "rebuilt keys and values of one head only",
            "Each of the $H$ heads has its own.",
            Instead(remade=lambda H, d, d_v, d_c: d_c * (d + d_v)),
        ),
        Misconception(
            "values_as_wide_as_keys",
            "used the width of keys, $d$, for values, which have $d_v$",
            "Scores and $W_{UK}$ have the width $d$, while sums of values and $W_{UV}$ have $d_v$.",
            Before(lambda d, **_: {"d_v": d}),
        ),
        Misconception(
            "made_and_not_attended",
            "counted how keys and values are rebuilt, and left out the attention to them",
            "Rebuilt keys and values are then used. Score and sum come on top, as with cached ones.",
            Instead(attended=0),
        ),
        Misconception(
            "absorbing_paid_for_each_cached_token",
            "charged the two products of the absorbed form, with $W_{UK}$ and with $W_{UV}$, to every cached token",
            "$q W_{UK}^\\top$ is computed once per query, and so is the average times $W_{UV}$. Neither depends on the number of cached tokens.",
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


def _behind(*past: int):
    return lambda draw: {"m": draw.choice(past)}


def _most(*, pairs=lambda n, m: n * m + n * (n + 1) / 2, rebuilt=lambda n, m: m + n, absorbed=lambda n: n, asked=2176, beyond=0):
    """The largest number of new tokens, with one part of the count replaced by a mistake."""

    def answer(m):
        def cheaper(n):
            return absorbed(n) * 262_144 + pairs(n, m) * asked < rebuilt(n, m) * 262_144 + pairs(n, m) * 640

        return max((n for n in range(1, 1000) if cheaper(n)), default=0) + beyond

    return answer


def _by_the_root(m):
    """The positive root of n m + n (n + 1) / 2 = 512/3 m."""
    return math.ceil((math.sqrt((2 * m + 1) ** 2 + 8 * m * 512 / 3) - (2 * m + 1)) / 2) - 1 if m else 0


ABSORB_UP_TO = Exercise(
    "absorb_up_to",
    title="Design: absorb or rebuild?",
    points=1.5,
    reference=ref.absorb_up_to,
    recipe=Made(_most),
    kind="design",
    difficulty=2,
    minutes=8,
    tolerance=Tolerance(rtol=0.0, atol=0.0),  # whole numbers
    cases=(
        Case("a single cached token", _behind(1)),
        Case("behind 1,000 tokens", _behind(1000)),
        Case("behind a short past", _behind(40, 70, 110, 160)),
        Case("behind a long past", _behind(30_000, 50_000, 100_000)),
        Case("a fresh prompt", _behind(0), edge=0.2),
    ),
    hints=(
        "How many keys and values does rebuilding make, and how many queries does absorbing treat? How many pairs of a query and a key are there "
        "in both forms?",
        "Rebuilding takes `m + n` times the work per token, absorbing only `n` times. Each of the `n` new tokens sees the `m` cached ones, and "
        "among themselves they make `n * (n + 1) / 2` pairs.",
        "What absorbing saves, 262,144 FLOPs for each **cached** token, must be more than what it adds, 2,176 − 640 for each pair. Try n = 1, "
        "2, 3, … until it isn't.",
    ),
    misconceptions=(
        Misconception(
            "past_not_rebuilt",
            "rebuilt keys and values of the new tokens only, or compared the pairs alone, so absorbing never pays",
            "The cache holds latents, so the `m` cached tokens need their keys and values as well.",
            Instead(rebuilt=lambda n, m: n),
            also=(Instead(rebuilt=lambda n, m: 0, absorbed=lambda n: 0),),
        ),
        Misconception(
            "absorbing_is_free",
            "left out the two products that absorb a query and bring its average back",
            "$q W_{UK}^\\top$ and $U W_{UV}$ take as many FLOPs for each new token as a key and a value.",
            Instead(absorbed=lambda n: 0),
        ),
        Misconception(
            "new_tokens_apart",
            "left out the pairs that the new tokens make among themselves",
            "A new token attends to the new ones before it as well, and to itself.",
            Instead(pairs=lambda n, m: n * m),
        ),
        Misconception(
            "not_causal",
            "let every new token attend to all new ones",
            "New token $i$ sees $i$ of the new ones, so these make $n (n + 1) / 2$ pairs.",
            Instead(pairs=lambda n, m: n * (m + n)),
        ),
        Misconception(
            "rotated_key_averaged",
            "let the absorbed average run over the rotated key as well, 576 numbers",
            "A weight multiplies the latent alone, 512 numbers. The rotated key takes part in the score only.",
            Instead(asked=2304),
        ),
        Misconception(
            "one_too_many",
            "returned the first number of new tokens for which absorbing no longer takes less",
            "Return the last number for which it does, and 0 if there is none.",
            Instead(beyond=1),
        ),
    ),
    variants=(Variant("by_the_root", _by_the_root),),
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
    minutes=6,
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
        "A GPU has some of the heads, and it must have all the keys and values that these heads need. What does a single head of latent "
        "attention need?",
        "A group can't be cut, so `G` groups are shared out whole among `tp` GPUs, and a GPU has at least one. A latent serves **all** heads, "
        "so every GPU needs all of it.",
        "Multi-head, grouped and multi-query attention have `H`, `G` and 1 groups, and each group takes $2d$ numbers. Round the number of "
        "groups per GPU up. The fourth kind does not depend on `tp`.",
    ),
    misconceptions=(
        Misconception(
            "latent_split",
            "split the latent over the GPUs",
            "Every head makes its keys and values from the **whole** latent. Each GPU has some of the heads, so each of them needs all of it.",
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
            "A GPU that has one head of a group needs the whole keys and values of the group, so it never caches less than $2d$.",
            Instead(share=lambda n, tp: n / tp),
            also=(Instead(share=lambda n, tp: n // tp), Instead(grouped=lambda G, width, tp, H: G // tp * width)),
        ),
        Misconception(
            "group_cut_in_pieces",
            "split the numbers of all groups evenly, which cuts a group in pieces where there are more GPUs than groups",
            "A head needs the keys of its group whole, so `2 * G * d // tp` can be too little. A GPU has `G / tp` groups, or **one** where that is less.",
            Instead(grouped=lambda G, width, tp, H: G * width // tp),
        ),
        Misconception(
            "nothing_split",
            "gave every GPU the whole cache",
            "Key and value heads are shared out together with the query heads that use them.",
            Instead(share=lambda n, tp: n),
        ),
        Misconception(
            "keys_alone",
            "counted keys without values",
            "A group caches a key **and** a value per token, $2d$ numbers.",
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
            "`G` is the number of **groups**, so a GPU has $G/tp$ of them, and one where that is less.",
            Instead(grouped=lambda G, width, tp, H: _whole_groups(H // tp, G) * width),
        ),
        Misconception(
            "a_group_for_each_head",
            "gave each GPU a group for every query head that it has (at most all `G`)",
            "Neighbouring heads share a group, so `H/tp` heads need `G/tp` groups, and one where that is less.",
            Instead(grouped=lambda G, width, tp, H: min(G, H // tp) * width),
        ),
        Misconception(
            "latent_doubled",
            "doubled the latent, once for keys and once for values",
            "Keys and values come from the **same** latent, which is stored once.",
            Instead(latent=lambda d_c, d_rope, tp: 2 * d_c + d_rope),
        ),
        Misconception(
            "rotated_key_forgotten",
            "left out the rotated key",
            "Without it the cache would hold no positions. Add $d_{rope}$.",
            Instead(latent=lambda d_c, d_rope, tp: d_c),
        ),
        Misconception(
            "query_heads_for_groups",
            "counted query heads where keys and values are stored by group",
            "Grouped-query attention caches `G` key and value heads, and multi-query attention caches one.",
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
