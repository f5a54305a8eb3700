"""What a decode step moves and computes: counts, never timings."""

import math

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import multi_query as ref

COUNTED = Tolerance(rtol=1e-6, atol=0.0)  # one division of exact counts


# ---------------------------------------------------------------------------------------------- intensity


def _attention(G_is):
    def make(draw: Draw):
        H, n, G = draw.sizes(3, low=3, high=17)
        return {"H": 3 * H, "G": {"mha": 3 * H, "mqa": 1, "between": 3}[G_is], "n": n * G, "element_bytes": draw.choice((3, 5))}

    return make


def _long_context(draw: Draw):
    return {"H": 32, "G": 4, "n": draw.integer(2000, 9000), "element_bytes": draw.choice((1, 8))}


def _intensity(flops=4.0, keys=2.0, queries=2.0, heads=lambda H, G: G):
    """A ratio of counts per feature, with another coefficient where a mistake counts otherwise."""

    def answer(H, G, n, element_bytes):
        return flops * H * n / (element_bytes * (keys * heads(H, G) * n + queries * H))

    return answer


def _with_a_width(H, G, n, element_bytes):
    d = 64
    scores, mixture = 2 * H * n * d, 2 * H * n * d
    moved = {"q": H * d, "K": G * n * d, "V": G * n * d, "o": H * d}
    return (scores + mixture) / (sum(moved.values()) * element_bytes)


ARITHMETIC_INTENSITY = Exercise(
    "arithmetic_intensity",
    title="FLOPs per byte",
    points=2,
    difficulty=3,
    minutes=8,
    reference=ref.arithmetic_intensity,
    recipe=Made(_intensity),
    tolerance=COUNTED,
    cases=(
        Case("multi-head", _attention("mha")),
        Case("multi-query", _attention("mqa")),
        Case("three key-value heads", _attention("between")),
        Case("a long context", _long_context),
    ),
    hints=(
        "Take a width $d$ and count on paper. How many multiplications do the scores of one head take, and how many numbers are keys?",
        "The scores and the weighted sums each take $H n d$ multiplications and as many additions. There are $G n d$ keys, $G n d$ values, "
        "$H d$ numbers of queries and $H d$ of outputs. Multiply these by the bytes per number and divide. The width $d$ cancels.",
        "Divide both counts by $2 d$. The numerator becomes $2 H n$. The denominator is `element_bytes` times a sum of two terms, one for "
        "the caches of G sets and one for the queries and outputs of H heads.",
    ),
    misconceptions=(
        Misconception(
            "per_head_cache_still_read",
            "let every query head read its own keys and values",
            "There are only $G$ sets of keys and values. Each is read once and serves $H/G$ query heads.",
            Instead(heads=lambda H, G: H),
        ),
        Misconception(
            "half_the_work",
            "counted half of the FLOPs, either one for a multiplication and its addition, or the scores without the weighted sums",
            "Each head takes $2 n d$ FLOPs for its scores and $2 n d$ for its weighted sum.",
            Instead(flops=2.0),
        ),
        Misconception(
            "keys_only",
            "counted the bytes of the keys but not of the values",
            "The weighted sum reads all values, which are as many bytes again.",
            Instead(keys=1.0),
        ),
        Misconception(
            "queries_and_outputs_free",
            "left out the queries that are read and the outputs that are written",
            "They are small beside a long cache, but they count, with $2 H d$ numbers.",
            Instead(queries=0.0),
        ),
        Misconception(
            "query_or_output",
            "counted one vector per query head, its query or its output but not both",
            "Each head's query is read and its output is written, which makes $2 H d$ numbers.",
            Instead(queries=1.0),
        ),
        Misconception(
            "outputs_of_all_tokens",
            "counted a query and an output for each cached token",
            "A decode step has **one** new token, so each head has one query and one output however long the text is.",
            lambda H, G, n, element_bytes: 2 * H * n / (element_bytes * (G * n + H * n)),
        ),
        Misconception(
            "bytes_multiplied",
            "multiplied by the bytes per number instead of dividing",
            "Larger numbers mean more bytes and therefore fewer FLOPs per byte, so `element_bytes` belongs in the denominator.",
            lambda H, G, n, element_bytes: 2 * H * n * element_bytes / (G * n + H),
        ),
        Misconception(
            "elements_for_bytes",
            "divided by numbers instead of bytes",
            "Each number takes `element_bytes` bytes.",
            lambda H, G, n, element_bytes: 2 * H * n / (G * n + H),
        ),
        Misconception(
            "work_per_key_value_head",
            "counted the FLOPs of $G$ heads",
            "Sharing keys saves no score, because all $H$ query heads still meet all $n$ keys.",
            lambda H, G, n, element_bytes: 2 * G * n / (element_bytes * (G * n + H)),
        ),
    ),
    variants=(Variant("with_a_width_that_cancels", _with_a_width),),
)


# ---------------------------------------------------------------------------------------------- the time of a whole step


def _parts(matrices: str, attention: str):
    """A case in which each part waits for what is named.

    With 7 bytes per number the matrices do 2B/7 FLOPs per byte, and attention 2H/7G. The chip can do more than a part that waits for
    bytes, and fewer than a part that waits for arithmetic. Where both parts wait for the same, the other bound
    is so short that a mistaken count of one user, layer or set still decides.
    """

    def make(draw: Draw):
        L, d, G = draw.sizes(3, low=3, high=11)
        B = draw.integer(41, 60) if (matrices, attention) == ("arithmetic", "bytes") else draw.integer(4, 6)
        shared_by = draw.integer(2, 3) if attention == "bytes" else draw.integer(9, 12)
        n, bandwidth = draw.integer(40, 90), 10.0 * draw.integer(3, 90)
        low, high = sorted((2 * B / 7, 2 * shared_by / 7))
        both = {"bytes": 300 * high, "arithmetic": low / 300}
        balance = both[matrices] if matrices == attention else math.sqrt(low * high)
        sizes = {"P": draw.integer(900, 2000) * n * G, "B": B, "n": n, "L": L, "H": shared_by * G, "G": G, "d": d}
        return sizes | {"element_bytes": 7, "bandwidth": bandwidth, "peak": round(balance * bandwidth, 3)}

    return make


def _by_hand(draw: Draw):
    sizes = {"P": 100, "B": 2, "n": 3, "L": 2, "H": 4, "G": 4, "d": 5}
    return sizes | {"element_bytes": 3, "bandwidth": 40.0, "peak": 50.0}


def _floor(
    *, weights=lambda P, B: P, users=lambda B: B, caches=lambda B: B, sides=2, heads=lambda H, G: G, work=lambda H, G: H,
    longer=max, join=lambda matrices, attention: matrices + attention, computes=lambda B: B, layers=lambda L: L, per_product=2,
    cache_bytes=lambda element_bytes: element_bytes,
):  # fmt: skip
    def answer(P, B, n, L, H, G, d, element_bytes, bandwidth, peak):
        read = weights(P, B) * element_bytes / bandwidth
        cached = caches(B) * L * sides * n * heads(H, G) * d * cache_bytes(element_bytes) / bandwidth
        work_of_matrices = per_product * users(B) * P / peak
        work_of_attention = per_product * computes(B) * layers(L) * 2 * n * work(H, G) * d / peak
        return join(longer(read, work_of_matrices), longer(cached, work_of_attention))

    return answer


def _one_maximum(P, B, n, L, H, G, d, element_bytes, bandwidth, peak):
    moved = element_bytes * (P + 2 * B * L * G * n * d)
    return max(moved / bandwidth, (2 * B * P + 4 * B * L * H * n * d) / peak)


def _as_shown(P, B, n, L, H, G, d, element_bytes, bandwidth, peak):
    moved = element_bytes * (P + 2 * B * L * G * n * d)
    return max(moved / bandwidth, (2 * B * P + 4 * B * L * G * n * d) / peak)


def _add(a, b):
    return a + b


def _by_rooflines(P, B, n, L, H, G, d, element_bytes, bandwidth, peak):
    """Each part at the rate that its own FLOPs per byte allow."""

    def part(flops, moved):
        return flops / min(peak, bandwidth * flops / moved)

    cache = element_bytes * 2 * B * L * G * n * d
    return part(2 * B * P, element_bytes * P) + part(4 * B * L * H * n * d, cache)


DECODE_TIME_FLOOR = Exercise(
    "decode_time_floor",
    title="Find two bugs: the time of a whole step",
    kind="bug",
    points=2,
    difficulty=3,
    minutes=8,
    reference=ref.decode_time_floor,
    recipe=Made(_floor),
    tolerance=COUNTED,
    cases=(
        Case("two users, three tokens", _by_hand),
        Case("both parts wait for bytes", _parts("bytes", "bytes")),
        Case("both parts wait for arithmetic", _parts("arithmetic", "arithmetic")),
        Case("matrices wait for arithmetic, attention for bytes", _parts("arithmetic", "bytes")),
        Case("matrices wait for bytes, attention for arithmetic", _parts("bytes", "arithmetic")),
    ),
    hints=(
        "Attention of a layer needs the queries that the matrices have just computed, and the next matrices need the output of attention. "
        "While the card multiplies matrices, can it read the caches? And what does each of the `H` heads compute?",
        "Divide the step into two parts, the matrices and attention, each with its bytes and its FLOPs. Which operation joins the two bounds "
        "of one part, and which operation joins the two parts?",
        "Each part takes the longer of its own two bounds. The parts run in turn. For the second bug, count the scores of one token: how many "
        "queries meet how many keys if 32 heads share one set?",
    ),
    misconceptions=(
        Misconception(
            "one_maximum",
            "took a single maximum over the whole step, as if attention could read its caches while the matrices compute",
            "The two parts run one after the other. Take the longer bound of each part, and add the parts.",
            _one_maximum,
        ),
        Misconception(
            "as_shown",
            "kept both bugs, a single maximum over the whole step and FLOPs of only $G$ heads",
            "The two parts of a step run one after the other, and all $H$ query heads compute scores.",
            _as_shown,
        ),
        Misconception(
            "everything_added",
            "added the two bounds of each part",
            "Within a part, moving and computing happen at the same time, so a part takes the longer of its two bounds.",
            Instead(longer=_add),
        ),
        Misconception(
            "the_longer_part",
            "took the longer of the two parts instead of their sum",
            "The parts run one after the other, so their times add up.",
            Instead(join=max),
        ),
        Misconception(
            "the_shorter_bound",
            "took the shorter of the two bounds of each part",
            "Both have to be done before the part is over, so the longer bound counts.",
            Instead(longer=min),
        ),
        Misconception(
            "weights_per_sequence",
            "read the parameters once per user",
            "A batch shares the parameters. They are read once for all `B` users, which is what a batch is good for.",
            Instead(weights=lambda P, B: P * B),
        ),
        Misconception(
            "cache_once_per_batch",
            "read one cache for the whole batch",
            "Every user has a cache of its own. A batch shares parameters, not caches.",
            Instead(caches=lambda B: 1),
        ),
        Misconception(
            "keys_only",
            "read the keys but not the values",
            "Both are read in every step, which gives a factor of 2.",
            Instead(sides=1),
        ),
        Misconception(
            "per_head_cache_still_counted",
            "counted a cache for each of the $H$ query heads",
            "Only $G$ sets of keys and values are stored and read.",
            Instead(heads=lambda H, G: H),
        ),
        Misconception(
            "work_per_key_value_head",
            "counted the FLOPs of $G$ heads",
            "Sharing saves bytes, not FLOPs. All $H$ query heads meet all $n$ tokens.",
            Instead(work=lambda H, G: G),
        ),
        Misconception(
            "arithmetic_of_parameters_alone",
            "left out the FLOPs of attention",
            "Each of the $H$ heads computes scores and a weighted sum, with $4 n d$ FLOPs per layer and user.",
            Instead(work=lambda H, G: 0),
        ),
        Misconception(
            "matrices_of_one_user",
            "counted the FLOPs of the matrices for one user",
            "Each of the `B` users has a token of its own, which meets every parameter.",
            Instead(users=lambda B: 1),
        ),
        Misconception(
            "attention_of_one_sequence",
            "counted the FLOPs of attention for one user",
            "Each of the `B` users attends to its own cache, so these FLOPs are multiplied by `B`.",
            Instead(computes=lambda B: 1),
        ),
        Misconception(
            "attention_of_one_layer",
            "counted the FLOPs of attention in one layer",
            "Attention is computed in each of `L` layers. Only `P` already contains all of them.",
            Instead(layers=lambda L: 1),
        ),
        Misconception(
            "multiply_add_as_one",
            "counted a multiplication and its addition as one FLOP",
            "Each parameter and each cached number takes part in a multiplication **and** an addition, which are two FLOPs.",
            Instead(per_product=1),
        ),
        Misconception(
            "cache_in_numbers",
            "multiplied the parameters by the bytes per number, but not the caches",
            "The numbers of the caches take `element_bytes` bytes as well.",
            Instead(cache_bytes=lambda element_bytes: 1),
        ),
        Misconception(
            "time_per_token",
            "divided by the batch, which gives the time per token",
            "A step writes $B$ tokens. Return the time of the whole step.",
            lambda **sizes: ref.decode_time_floor(**sizes) / sizes["B"],
        ),
    ),
    variants=(Variant("by_two_rooflines", _by_rooflines),),
)
