"""What is stored, what is moved and what is computed: counts, never timings."""

from autograder import Case, Draw, Exercise, Misconception, Tolerance, Variant
from solutions import multi_query as ref

COUNTED = Tolerance(rtol=1e-6, atol=0.0)  # one division of exact counts


def _stored(kind):
    def make(draw: Draw):
        H, d_k, d_v, L = draw.sizes(4, high=13)
        return {"kind": kind, "H": H, "d_k": d_k, "d_v": d_v, "L": L}

    return make


def _elements(*, heads=None, width=lambda H, d_k, d_v: d_k + d_v, layers=True):
    def answer(kind, H, d_k, d_v, L):
        count = (H if kind == "mha" else 1) if heads is None else heads(kind, H)
        return count * width(H, d_k, d_v) * (L if layers else 1)

    return answer


def _values_per_head(kind, H, d_k, d_v, L):
    return L * (H * (d_k + d_v) if kind == "mha" else d_k + H * d_v)


def _by_parts(kind, H, d_k, d_v, L):
    heads = range(H) if kind == "mha" else [0]
    return sum(d_k for _ in heads) * L + sum(d_v for _ in heads) * L


KV_ELEMENTS = Exercise(
    "kv_elements",
    title="What a cache keeps of one token",
    points=1,
    reference=ref.kv_elements,
    cases=(
        Case("multi-head", _stored("mha")),
        Case("multi-query", _stored("mqa")),
        Case("multi-query again", _stored("mqa")),
    ),
    hints=(
        "Which of q, k, v are kept, and how many of each does a layer have?",
        "A token leaves one key and one value per head **that has its own**: H of them for multi-head, one for multi-query. "
        "Then every layer has its cache.",
        "$L \\cdot H (d_k + d_v)$ for multi-head, $L (d_k + d_v)$ for multi-query.",
    ),
    misconceptions=(
        Misconception(
            "per_head_still_counted",
            "counted one key and one value per head for multi-query too",
            "In multi-query attention a layer keeps **one** key and one value for each token, whatever $H$ is.",
            _elements(heads=lambda kind, H: H),
        ),
        Misconception(
            "values_still_per_head",
            "shared the keys and kept the values per head",
            "Keys *and* values are shared: $d_k + d_v$ numbers for a token and a layer.",
            _values_per_head,
        ),
        Misconception(
            "keys_only",
            "counted the keys alone",
            "Values are cached too: each token leaves $d_k + d_v$ numbers.",
            _elements(width=lambda H, d_k, d_v: d_k),
        ),
        Misconception(
            "twice_the_keys",
            "took $2 d_k$, as if keys and values were equally wide",
            "Usually they are, and then $2 d_k$ is right. In general it is $d_k + d_v$.",
            _elements(width=lambda H, d_k, d_v: 2 * d_k),
        ),
        Misconception(
            "queries_cached",
            "stored the queries as well",
            "An old query is never asked again: a new token needs only old keys and values (lesson 07).",
            lambda kind, H, d_k, d_v, L: L * ((H if kind == "mha" else 1) * (d_k + d_v) + H * d_k),
        ),
        Misconception(
            "layers_forgotten",
            "counted one layer",
            "Every layer projects its own keys and values, and caches them: times $L$.",
            _elements(layers=False),
        ),
    ),
    variants=(Variant("part_by_part", _by_parts),),
)


# ---------------------------------------------------------------------------------------------- intensity


def _attention(G_is):
    def make(draw: Draw):
        H, n, G = draw.sizes(3, low=3, high=17)
        return {"H": 3 * H, "G": {"mha": 3 * H, "mqa": 1, "between": 3}[G_is], "n": n * G, "element_bytes": draw.choice((2, 4))}

    return make


def _long_context(draw: Draw):
    return {"H": 32, "G": 4, "n": draw.integer(2000, 9000), "element_bytes": draw.choice((2, 4))}


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
    reference=ref.arithmetic_intensity,
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
        "$\\frac{4 H n}{b (2 G n + 2 H)}$ with b for `element_bytes`.",
    ),
    misconceptions=(
        Misconception(
            "per_head_cache_still_read",
            "let every query head read keys and values of its own",
            "Only $G$ heads of keys and values exist; each is read once and serves $H/G$ query heads.",
            _intensity(heads=lambda H, G: H),
        ),
        Misconception(
            "half_the_work",
            "counted half of the work: a multiplication with its addition as one FLOP, or the scores without the mixture",
            "Each head takes $2 n d$ FLOPs for its scores and $2 n d$ for its mixture: a multiplication and an addition are two.",
            _intensity(flops=2.0),
        ),
        Misconception(
            "keys_only",
            "counted the bytes of the keys and not of the values",
            "The mixture reads all values: as many bytes again.",
            _intensity(keys=1.0),
        ),
        Misconception(
            "queries_and_outputs_free",
            "left out the queries that are read and the outputs that are written",
            "They are small beside a long cache, but here they count: $2 H d$ numbers.",
            _intensity(queries=0.0),
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
        B, L, d, G = draw.sizes(4, low=2, high=11)
        n = draw.integer(40, 90) if long else 3
        sizes = {
            "P": draw.integer(900, 2000),
            "B": B,
            "n": n,
            "L": L,
            "H": 4 * G,
            "G": G,
            "d": d,
            "element_bytes": 4 if long else 1,
        }
        return _machine(draw, sizes, ratio)

    return make


def _floor(*, weights=lambda P, B: P, caches=lambda B: B, sides=2, heads=lambda H, G: G, work=lambda H, G: H, join=max):
    def answer(P, B, n, L, H, G, d, element_bytes, bandwidth, peak):
        elements = weights(P, B) + caches(B) * L * sides * n * heads(H, G) * d
        flops = B * (2 * P + L * 4 * n * work(H, G) * d)
        return join((elements * element_bytes / bandwidth, flops / peak))

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
    reference=ref.decode_time_floor,
    tolerance=COUNTED,
    cases=(
        Case("a long context on a fast processor", _bound(0.2, True)),
        Case("a short context on a slow processor", _bound(4.0, False)),
        Case("a short context on a fast processor", _bound(0.3, False)),
        Case("a long context on a slow processor", _bound(3.0, True)),
    ),
    hints=(
        "Two times, each with its own resource. If both happen at once, which of them decides?",
        "Numbers read: `P`, once, and for each of `B` sequences the cache of L layers: keys and values, `n` tokens, `G` heads, `d` "
        "wide. FLOPs, for each sequence: 2 per parameter, and $4 n H d$ per layer. Then divide each by its rate.",
        "`max(element_bytes * (P + B * 2 * n * L * G * d) / bandwidth, B * (2 * P + 4 * n * L * H * d) / peak)`",
    ),
    misconceptions=(
        Misconception(
            "summed",
            "added the two times",
            "A machine can move and compute at once, so the floor is the longer of the two.",
            _floor(join=sum),
        ),
        Misconception(
            "weights_per_sequence",
            "read the parameters once per sequence",
            "A batch shares the parameters: they are read once for all `B` sequences. That is what a batch is good for.",
            _floor(weights=lambda P, B: P * B),
        ),
        Misconception(
            "cache_once_per_batch",
            "read one cache for the whole batch",
            "Every sequence has a cache of its own. A batch shares parameters, not caches.",
            _floor(caches=lambda B: 1),
        ),
        Misconception(
            "keys_only",
            "read the keys and not the values",
            "Both are read in every step: a factor of 2.",
            _floor(sides=1),
        ),
        Misconception(
            "per_head_cache_still_counted",
            "counted a cache for each of the $H$ query heads",
            "Only $G$ heads of keys and values are stored and read.",
            _floor(heads=lambda H, G: H),
        ),
        Misconception(
            "work_per_key_value_head",
            "counted the scores and mixtures of $G$ heads",
            "Sharing saves bytes, not work: all $H$ query heads compute over all $n$ tokens.",
            _floor(work=lambda H, G: G),
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
