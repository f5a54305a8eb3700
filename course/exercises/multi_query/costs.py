"""What is stored, what is moved and what is computed: counts, never timings."""

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
        "Take a width $d$ and count on paper: how many multiplications do the scores of one head take? How many numbers are keys?",
        "Work: scores and mixture each take $H n d$ multiplications with as many additions. Traffic: $G n d$ keys, $G n d$ values, "
        "$H d$ queries, $H d$ outputs, times the bytes per number. Divide; $d$ cancels.",
        "Work over traffic, both divided by $2 d$: the numerator is $2 H n$. The denominator is `element_bytes` times two terms: one for "
        "the caches of G heads, one for the queries and outputs of H heads.",
    ),
    misconceptions=(
        Misconception(
            "per_head_cache_still_read",
            "let every query head read keys and values of its own",
            "Only $G$ heads of keys and values exist; each is read once and serves $H/G$ query heads.",
            Instead(heads=lambda H, G: H),
        ),
        Misconception(
            "half_the_work",
            "counted half of the work: a multiplication with its addition as one FLOP, or the scores without the mixture",
            "Each head takes $2 n d$ FLOPs for its scores and $2 n d$ for its mixture: a multiplication and an addition are two.",
            Instead(flops=2.0),
        ),
        Misconception(
            "keys_only",
            "counted the bytes of the keys and not of the values",
            "The mixture reads all values: as many bytes again.",
            Instead(keys=1.0),
        ),
        Misconception(
            "queries_and_outputs_free",
            "left out the queries that are read and the outputs that are written",
            "They are small beside a long cache, but here they count: $2 H d$ numbers.",
            Instead(queries=0.0),
        ),
        Misconception(
            "query_or_output",
            "moved one vector for each query head: its query or its output, and not both",
            "Each head's query is read and its output is written: two vectors, $2 H d$ numbers.",
            Instead(queries=1.0),
        ),
        Misconception(
            "outputs_of_all_tokens",
            "moved a query and an output for each cached token",
            "One step has **one** new token: each head has one query and one output, however long the text.",
            lambda H, G, n, element_bytes: 2 * H * n / (element_bytes * (G * n + H * n)),
        ),
        Misconception(
            "bytes_multiplied",
            "multiplied the quotient by the bytes per number",
            "More bytes per number are more traffic, so fewer FLOPs for each: `element_bytes` belongs below the line.",
            lambda H, G, n, element_bytes: 2 * H * n * element_bytes / (G * n + H),
        ),
        Misconception(
            "elements_for_bytes",
            "divided by numbers moved, not by bytes",
            "Each number takes `element_bytes` bytes.",
            lambda H, G, n, element_bytes: 2 * H * n / (G * n + H),
        ),
        Misconception(
            "work_per_key_value_head",
            "counted the work of $G$ heads",
            "Sharing keys saves no score: all $H$ query heads still meet all $n$ keys.",
            lambda H, G, n, element_bytes: 2 * G * n / (element_bytes * (G * n + H)),
        ),
    ),
    variants=(Variant("with_a_width_that_cancels", _with_a_width),),
)


# ---------------------------------------------------------------------------------------------- a floor for the time


def _machine(draw: Draw, sizes, ratio):
    """A machine on which t_flop is `ratio` times t_mem."""
    moved = sizes["element_bytes"] * (sizes["P"] + 2 * sizes["B"] * sizes["n"] * sizes["L"] * sizes["G"] * sizes["d"])
    flops = sizes["B"] * (2 * sizes["P"] + 4 * sizes["n"] * sizes["L"] * sizes["H"] * sizes["d"])
    bandwidth = 10.0 * draw.integer(3, 90)
    return sizes | {"bandwidth": bandwidth, "peak": round(flops * bandwidth / (ratio * moved), 3)}


def _bound(ratio, long):
    def make(draw: Draw):
        # none is a factor of the formula's own, 2; `ratio` is no whole number, or it could be B
        B, L, d, G = draw.sizes(4, low=3, high=11)
        n = draw.integer(40, 90) if long else 3
        sizes = {
            "P": draw.integer(900, 2000),
            "B": B,
            "n": n,
            "L": L,
            "H": 4 * G,
            "G": G,
            "d": d,
            "element_bytes": 5 if long else 1,
        }
        return _machine(draw, sizes, ratio)

    return make


def _mixed(draw: Draw):
    """The parameters wait for arithmetic, for the batch is large; the caches wait for memory."""
    L, d, G = draw.sizes(3, low=3, high=9)
    B, n = draw.integer(14, 20), draw.integer(40, 90)
    sizes = {"P": 2 * B * n * L * G * d, "B": B, "n": n, "L": L, "H": 4 * G, "G": G, "d": d, "element_bytes": 3}
    return _machine(draw, sizes, 0.9)


def _part_by_part(P, B, n, L, H, G, d, element_bytes, bandwidth, peak):
    cache = 2 * B * n * L * G * d
    parameters = max(P * element_bytes / bandwidth, 2 * B * P / peak)
    return parameters + max(cache * element_bytes / bandwidth, 4 * B * L * n * H * d / peak)


def _floor(
    *, weights=lambda P, B: P, caches=lambda B: B, sides=2, heads=lambda H, G: G, work=lambda H, G: H, join=max,
    computes=lambda B: B, layers=lambda L: L, per_product=2, cache_bytes=lambda element_bytes: element_bytes,
):  # fmt: skip
    def answer(P, B, n, L, H, G, d, element_bytes, bandwidth, peak):
        cached = caches(B) * L * sides * n * heads(H, G) * d
        moved = weights(P, B) * element_bytes + cached * cache_bytes(element_bytes)
        flops = per_product * (B * P + computes(B) * layers(L) * 2 * n * work(H, G) * d)
        return join((moved / bandwidth, flops / peak))

    return answer


def _by_intensity(P, B, n, L, H, G, d, element_bytes, bandwidth, peak):
    """As the roofline says it: the time at the attainable rate."""
    flops = 2 * B * P + 4 * B * L * H * n * d
    moved = element_bytes * P + element_bytes * 2 * B * L * G * n * d
    return flops / min(peak, bandwidth * flops / moved)


DECODE_TIME_FLOOR = Exercise(
    "decode_time_floor",
    title="The least time of a decode step",
    points=2,
    difficulty=3,
    minutes=8,
    reference=ref.decode_time_floor,
    recipe=Made(_floor),
    tolerance=COUNTED,
    cases=(
        Case("a long context on a fast processor", _bound(0.2, True)),
        Case("a short context on a slow processor", _bound(4.3, False)),
        Case("a short context on a fast processor", _bound(0.3, False)),
        Case("a long context on a slow processor", _bound(3.4, True)),
        Case("parameters that wait for arithmetic, caches that wait for memory", _mixed),
    ),
    hints=(
        "Two times, each with its own resource. If both happen at once, which of them decides?",
        "Numbers read: `P`, once, and for each of `B` sequences the cache of L layers: keys and values, `n` tokens, `G` heads, `d` "
        "wide. FLOPs, for each sequence: 2 per parameter, and $4 n H d$ per layer. Then divide each by its rate.",
        "Two lines and a `max`. In the bytes, `P` stands outside of what is multiplied by `B`; in the FLOPs, everything is multiplied by "
        "`B`. In the bytes the heads are `G`, in the FLOPs `H`.",
    ),
    misconceptions=(
        Misconception(
            "summed",
            "added the two times",
            "A machine can move and compute at once, so the floor is the longer of the two.",
            Instead(join=sum),
        ),
        Misconception(
            "part_by_part",
            "took the longer of two times for the parameters and again for the caches, and added these",
            "While the parameters are computed with, the caches can be read: everything that moves is one time, everything that is computed is the other.",
            _part_by_part,
        ),
        Misconception(
            "the_shorter_time",
            "took the shorter of the two times",
            "Both must be over before the step is: the floor is the longer one.",
            Instead(join=min),
        ),
        Misconception(
            "weights_per_sequence",
            "read the parameters once per sequence",
            "A batch shares the parameters: they are read once for all `B` sequences. That is what a batch is good for.",
            Instead(weights=lambda P, B: P * B),
        ),
        Misconception(
            "cache_once_per_batch",
            "read one cache for the whole batch",
            "Every sequence has a cache of its own. A batch shares parameters, not caches.",
            Instead(caches=lambda B: 1),
        ),
        Misconception(
            "keys_only",
            "read the keys and not the values",
            "Both are read in every step: a factor of 2.",
            Instead(sides=1),
        ),
        Misconception(
            "per_head_cache_still_counted",
            "counted a cache for each of the $H$ query heads",
            "Only $G$ heads of keys and values are stored and read.",
            Instead(heads=lambda H, G: H),
        ),
        Misconception(
            "work_per_key_value_head",
            "counted the scores and mixtures of $G$ heads",
            "Sharing saves bytes, not work: all $H$ query heads compute over all $n$ tokens.",
            Instead(work=lambda H, G: G),
        ),
        Misconception(
            "arithmetic_of_parameters_alone",
            "counted the FLOPs of the parameters alone: the scores and the mixtures of all heads are missing",
            "Each of the $H$ heads does two products with the cache: $4 n d$ FLOPs in each layer, for each sequence.",
            Instead(work=lambda H, G: 0),
        ),
        Misconception(
            "attention_of_one_sequence",
            "counted the scores and mixtures of one sequence",
            "Each of the `B` sequences attends to its own cache: everything in the FLOPs is multiplied by `B`.",
            Instead(computes=lambda B: 1),
        ),
        Misconception(
            "attention_of_one_layer",
            "counted the scores and mixtures of one layer, or of a fixed number of layers",
            "Attention is computed in each of `L` layers. (`P` are the parameters of all of them already.)",
            Instead(layers=lambda L: 1),
            also=(Instead(layers=lambda L: 2),),
        ),
        Misconception(
            "multiply_add_as_one",
            "counted a multiplication with its addition as one FLOP",
            "Each parameter and each number of the cache takes part in a multiplication **and** an addition: two FLOPs.",
            Instead(per_product=1),
        ),
        Misconception(
            "cache_in_numbers",
            "multiplied the parameters by the bytes per number, and not the caches",
            "Both are numbers of `element_bytes` bytes: add them up first, in brackets.",
            Instead(cache_bytes=lambda element_bytes: 1),
        ),
        Misconception(
            "time_per_token",
            "divided the step by the batch, and so returned the time per token",
            "A step produces $B$ tokens. Return the time of the whole step.",
            lambda **sizes: ref.decode_time_floor(**sizes) / sizes["B"],
        ),
    ),
    variants=(Variant("by_the_roofline", _by_intensity),),
)
