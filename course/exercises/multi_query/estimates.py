"""Numbers worked out on paper: the context from which on sharing pays, and how many users a card serves."""

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import multi_query as ref


def _nothing(draw: Draw):
    return {}


def _twice(*, parameters=6.74e9, element=2, pair=2, layers=32, before=32, after=1, times=2):
    """The context at which a step with `before` sets reads `times` what one with `after` sets reads, one part replaced by a mistake."""
    return lambda: (times - 1) * element * parameters / ((before - times * after) * 2 * pair * layers * 128)


CONTEXT_FOR_TWICE = Exercise(
    "context_for_twice",
    title="Estimate: twice as fast",
    kind="estimate",
    points=1,
    difficulty=2,
    minutes=5,
    reference=ref.context_for_twice,
    recipe=Made(_twice),
    tolerance=Tolerance(rtol=0.01, atol=0.0),  # a cache of one set that is left out is 6 % off
    cases=(Case("your estimate", _nothing),),
    hints=(
        "Write the bytes of a step with 32 sets as one number plus another number times n. What changes with one set?",
        "In both cases the step reads the parameters. How many bytes does one token leave in the cache with 32 sets, and how many with one?",
        "Twice as fast means that the step with 32 sets reads twice as many bytes as the step with one set, parameters included. Solve "
        "this equation for n.",
    ),
    misconceptions=(
        Misconception(
            "one_set_read_for_nothing",
            "left out the cache of multi-query attention, which also grows with the context",
            "One set is small, but it is read as well, and at this length it is 3 % of the step.",
            Instead(after=0),
        ),
        Misconception(
            "saved_as_much_as_the_parameters",
            "looked for the context at which the saved bytes are as many as the parameters",
            "Twice as fast compares the two whole steps. What does the step with one set still read besides the parameters?",
            lambda: 6.74e9 / (31 * 32 * 2 * 128),
        ),
        Misconception(
            "keys_only",
            "counted the keys but not the values",
            "The cache holds a key and a value for each token and set.",
            Instead(pair=1),
        ),
        Misconception(
            "bytes_of_one_side",
            "counted half as many bytes per number for the parameters as for the cache",
            "Parameters and cache have 2 bytes per number.",
            Instead(element=1),
        ),
        Misconception(
            "one_layer",
            "counted the cache of one layer",
            "The parameters are those of the whole model, so count the caches of all 32 layers.",
            Instead(layers=1),
        ),
        Misconception(
            "seven_billion",
            "used 7 billion parameters, as in the name of the model",
            "The name is rounded. Use 6.74 billion.",
            Instead(parameters=7e9),
        ),
        Misconception(
            "half_as_much_faster",
            "looked for a step that is one and a half times as fast",
            "Twice as fast means half of the time.",
            Instead(times=1.5),
        ),
    ),
    variants=(Variant("half_of_the_step_saved", lambda: 13.48e9 / (524_288 - 2 * 16_384)),),
)


# ---------------------------------------------------------------------------------------------- how many users


def _context(n: int, G: int, limit: float):
    return lambda draw: {"n": n, "G": G, "limit": limit}


def _full_memory(draw: Draw):
    """At 8 sets a cache takes less than 0.52 GB, which is what 7 billion parameters take more than 6.74 billion."""
    return {"n": draw.integer(1500, 3800), "G": 8, "limit": 0.001 * draw.integer(60, 90)}


def _no_hurry(draw: Draw):
    return {"n": draw.integer(3000, 6000), "G": 32, "limit": 5.0}


def _short_of_time(draw: Draw):
    return {"n": draw.integer(500, 3000), "G": draw.choice((1, 2)), "limit": 0.001 * draw.integer(21, 34)}


def _largest(
    *, size=2, parameters=6.74e9, memory=80e9, sides=2, layers=32, sets=lambda G: G, first_beyond=0, in_memory=True, in_time=True,
    time=lambda step, B: step,
):  # fmt: skip
    """The largest batch with one part of the count replaced by a mistake."""

    def answer(n, G, limit):
        G_stored = sets(G)

        def fits(B):
            held = size * (parameters + B * layers * sides * n * G_stored * 128)
            step = ref.decode_time_floor(6_740_000_000, B, n, 32, 32, G, 128, 2, 2.039e12, 312e12)
            return (held <= memory or not in_memory) and (time(step, B) <= limit or not in_time)

        B = 0
        while B < 20_000 and fits(B + 1):
            B += 1
        return B + first_beyond

    return answer


def _largest_at_once(n, G, limit):
    """Both limits solved for B, part by part."""
    cache, parameters = 2 * 32 * 2 * n * G * 128, 2 * 6.74e9
    by_memory = (80e9 - parameters) // cache
    attention = max(cache / 2.039e12, 32 * 4 * n * 32 * 128 / 312e12)
    read, computed = parameters / 2.039e12, parameters / 312e12
    by_time = min((limit - read) // attention, limit // (computed + attention))
    return max(0, int(min(by_memory, by_time)))


LARGEST_BATCH = Exercise(
    "largest_batch",
    title="Design: how many users?",
    kind="design",
    points=2,
    difficulty=3,
    minutes=9,
    reference=ref.largest_batch,
    recipe=Made(_largest),
    search=0.1,  # each program counts up to thousands of users
    tolerance=Tolerance(rtol=0.0, atol=0.0),  # whole numbers
    cases=(
        Case("4,096 tokens, multi-head, 50 ms", _context(4096, 32, 0.05)),
        Case("4,096 tokens, multi-query, 50 ms", _context(4096, 1, 0.05)),
        Case("memory decides", _full_memory),
        Case("time decides", _short_of_time),
        Case("a step may take 5 seconds", _no_hurry),
        Case("no user is fast enough", _context(4096, 1, 0.006), edge=0.15),
        Case("one cache is too large", _context(150_000, 32, 0.9), edge=0.15),
    ),
    hints=(
        "Two conditions limit the batch. How many bytes do the parameters and `B` caches take, and how long does a step with `B` users last?",
        "Write a function that says whether `B` users fit, by memory **and** by time. Both conditions get harder as `B` grows, so you can "
        "count upwards from 1 until it says no.",
        "The memory is `2 * (P + B * 32 * 2 * n * G * 128)` bytes. The time is `decode_time_floor` with this `B`. Return the last `B` for "
        "which the memory is at most 80e9 and the time at most `limit`, starting from 0.",
    ),
    misconceptions=(
        Misconception(
            "memory_alone",
            "used the memory alone, so a step may take longer than the limit",
            "Check the time of a step as well.",
            Instead(in_time=False),
        ),
        Misconception(
            "time_alone",
            "used the time alone, so the caches may not fit on the card",
            "Parameters and caches have to fit into 80e9 bytes as well.",
            Instead(in_memory=False),
        ),
        Misconception(
            "parameters_not_stored",
            "gave all of the memory to the caches",
            "The parameters take 13.48e9 of the 80e9 bytes.",
            Instead(parameters=0),
        ),
        Misconception(
            "time_per_token",
            "compared the limit with the time per token of the whole batch",
            "Each user waits for a whole step, so compare the limit with the time of the step.",
            Instead(time=lambda step, B: step / B),
        ),
        Misconception(
            "first_that_fails",
            "returned the first number of users that doesn't fit",
            "Return the last number that still fits, which is one less.",
            Instead(first_beyond=1),
        ),
        Misconception(
            "keys_only",
            "counted the memory of the keys but not of the values",
            "A cache holds keys and values, which gives a factor of 2.",
            Instead(sides=1),
        ),
        Misconception(
            "one_layer",
            "counted the memory of one layer's cache",
            "Each of the 32 layers has a cache.",
            Instead(layers=1),
        ),
        Misconception(
            "heads_for_sets",
            "counted a cache for each of the 32 query heads",
            "Only `G` sets of keys and values are stored.",
            Instead(sets=lambda G: 32),
        ),
        Misconception(
            "gibibytes",
            "took 80 times $2^{30}$ bytes for the memory",
            "The docstring states 80e9 bytes.",
            Instead(memory=80 * 2**30),
        ),
        Misconception(
            "seven_billion",
            "counted 7 billion parameters in memory",
            "The name is rounded. The model has 6.74e9 parameters.",
            Instead(parameters=7e9),
        ),
    ),
    variants=(Variant("both_limits_solved", _largest_at_once),),
)
