"""Numbers worked out on paper: tokens a second, a critical batch, a longest context."""

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import multi_query as ref

ESTIMATE = Tolerance(rtol=1e-3, atol=0.0)  # exact counts; the mistakes are off by 10 % and more


def _nothing(draw: Draw):
    return {}


TOKENS_A_SECOND = Exercise(
    "tokens_a_second",
    title="Estimate: how many tokens does the memory allow?",
    kind="estimate",
    points=0.5,
    difficulty=1,
    minutes=3,
    reference=ref.tokens_a_second,
    tolerance=Tolerance(rtol=0.01, atol=0.0),  # the border, 153, is 1.2 % off; 7 billion for 6.74 would be 4 %
    cases=(Case("your estimate", _nothing),),
    hints=(
        "How many bytes must come out of memory before one token is written?",
        "Each of 6.74 billion parameters takes 2 bytes, and is read once for a token. How long does that take?",
        "The time of a token is its bytes divided by the bytes of a second. How many such times fit into one second?",
    ),
    misconceptions=(
        Misconception(
            "bytes_forgotten",
            "counted numbers for bytes, so the tokens came out twice as many",
            "Each parameter takes 2 bytes to read.",
            lambda: 2.039e12 / 6.74e9,
        ),
        Misconception(
            "time_of_arithmetic",
            "counted FLOPs: so many tokens the arithmetic would allow",
            "Here reading is all that takes time: bytes, and bytes per second.",
            lambda: 312e12 / (2 * 6.74e9),
        ),
        Misconception(
            "time_of_half_the_arithmetic",
            "counted FLOPs, and one for each parameter where a multiplication and an addition are two",
            "Here reading is all that takes time: bytes, and bytes per second.",
            lambda: 312e12 / 6.74e9,
        ),
        Misconception(
            "time_of_a_token",
            "returned the time of one token",
            "The number of tokens in a second is asked for: one over the time of one.",
            lambda: 2 * 6.74e9 / 2.039e12,
        ),
        Misconception(
            "milliseconds_of_a_token",
            "returned the time of one token, in milliseconds",
            "The number of tokens in a second is asked for: one over the time of one, in seconds.",
            lambda: 1e3 * 2 * 6.74e9 / 2.039e12,
        ),
        Misconception(
            "the_border",
            "returned the border, FLOPs per byte",
            "The two numbers are near each other by chance. Divide the bytes of a second by the bytes of a token.",
            lambda: 312e12 / 2.039e12,
        ),
        Misconception(
            "bandwidth_reached",
            "took the 1.7 TB/s that these cards reached at best",
            "What the data sheet promises is asked for, 2.039e12 bytes a second. What was reached is compared with it afterwards.",
            lambda: 1.7e12 / (2 * 6.74e9),
        ),
        Misconception(
            "embeddings_left_out",
            "left out the embeddings, 2 % of the parameters",
            "That is nearer the truth, but asked for is an estimate that counts all 6.74 billion as read.",
            lambda: 2.039e12 / (2 * 0.98 * 6.74e9),
        ),
        Misconception(
            "seven_billion",
            "took 7 billion parameters, as the model's name says",
            "The name is rounded: count 6.74 billion.",
            lambda: 2.039e12 / (2 * 7e9),
        ),
        Misconception(
            "four_bytes",
            "counted four bytes for each parameter",
            "Each parameter takes 2 bytes to read.",
            lambda: 2.039e12 / (4 * 6.74e9),
        ),
        Misconception(
            "gibi_by_giga",
            "divided a bandwidth in units of $10^9$ bytes by a model in units of $2^{30}$ bytes",
            "The same unit above and below: bytes a second over bytes.",
            lambda: 2.039e12 / 1e9 / (2 * 6.74e9 / 2**30),
        ),
        Misconception(
            "what_was_measured",
            "returned what was measured",
            "Count what the memory would allow: bytes of a second over bytes of a token. The two will be compared.",
            lambda: 105.0,
        ),
    ),
    variants=(Variant("by_the_time_of_a_token", lambda: 1 / (2 * 6.74e9 / 2.039e12)),),
)


def _critical(*, bandwidth=4.3e12, peak=790e12, element=2, flops=2, read=236, used=21):
    return lambda: peak * element * read / (flops * bandwidth * used)


CRITICAL_BATCH = Exercise(
    "critical_batch",
    title="Estimate: a critical batch with experts",
    kind="estimate",
    points=1,
    difficulty=2,
    minutes=5,
    reference=ref.critical_batch,
    recipe=Made(_critical),
    tolerance=Tolerance(rtol=0.01, atol=0.0),  # whoever takes 184 for the border is right
    cases=(Case("your estimate", _nothing),),
    hints=(
        "Two times, one for the bytes of the parameters and one for their FLOPs. Which parameters are in the first, and which in the second?",
        "All 236 billion are read, once for the batch. Each of B sequences computes with 21 billion. At which B do both take equally long?",
        "Write 2 · 236e9 / bandwidth = 2 · 21e9 · B / peak, and solve for B. The ratio of the machine's two rates is one factor of it.",
    ),
    misconceptions=(
        Misconception(
            "all_used",
            "took the same parameters for reading and for computing, as in a model without experts",
            "The batch reads all 236 billion; a token computes with 21 billion.",
            Instead(used=236),
        ),
        Misconception(
            "experts_upside_down",
            "divided the numbers of parameters the wrong way round: less arithmetic, and yet sooner at its limit",
            "The less is computed with what was read, the more sequences it takes to keep the arithmetic busy.",
            Instead(read=21, used=236),
        ),
        Misconception(
            "bytes_forgotten",
            "counted numbers for bytes, so the batch came out at half",
            "Each parameter takes 2 bytes to read.",
            Instead(element=1),
        ),
        Misconception(
            "multiply_add_as_one",
            "counted a multiplication with its addition as one FLOP, so the batch came out twice as large",
            "Each parameter costs each sequence **two** FLOPs.",
            Instead(flops=1),
        ),
        Misconception(
            "ratio_of_the_parameters",
            "returned how many times the experts raise the critical batch, and not the batch",
            "Without experts it is the border, peak over bandwidth at 2 bytes a parameter. The experts multiply it by this ratio.",
            lambda: 236 / 21,
        ),
        Misconception(
            "rates_of_the_data_sheet",
            "took the rates of the data sheet, 989 TFLOP/s and 4.8 TB/s",
            "This lesson assumes rates a little below them: 790e12 and 4.3e12.",
            Instead(peak=989e12, bandwidth=4.8e12),
        ),
        Misconception(
            "the_a100",
            "took the rates of the A100, 312 TFLOP/s and 2.04 TB/s",
            "This machine moves 4.3e12 bytes per second and does 790e12 FLOPs per second.",
            Instead(peak=312e12, bandwidth=2.039e12),
            also=(Instead(peak=312e12, bandwidth=2.04e12),),
        ),
    ),
    variants=(Variant("the_border_times_the_ratio", lambda: 790e12 / 4.3e12 * 236 / 21),),
)


def _longest(*, batch=64, layers=32, element=2, keys=1.0, first_beyond=False):
    def floor(n, G):
        return element * (7_000_000_000 * 2 / element + batch * layers * 2 * keys * n * G * 128)

    def answer():
        n = 1
        while floor(2 * n, 32) < 1.5 * floor(2 * n, 1):
            n *= 2
        return 2 * n if first_beyond else n

    return answer


LONGEST_CONTEXT = Exercise(
    "longest_context",
    title="Use it: how short must the context be?",
    kind="use",
    points=1,
    difficulty=2,
    minutes=6,
    reference=ref.longest_context,
    recipe=Made(_longest),
    tolerance=ESTIMATE,
    cases=(Case("your answer", _nothing),),
    hints=(
        "You have the function that tells. For which arguments must it be called?",
        "Call `decode_time_floor` with B = 64 and G = 32, and with G = 1, for n = 1, 2, 4, …, and compare.",
        "Start at n = 1. As long as the floor at 2n with G = 32 is below 1.5 times that with G = 1, double n. Return the last n for which it "
        "held.",
    ),
    misconceptions=(
        Misconception(
            "one_too_far",
            "returned the first context at which it does not hold any more (or counted with other factors: keys without values, G = 8, twice for one and a half)",
            "The largest n for which the step is still **below** 1.5 times as long.",
            Instead(first_beyond=True),
        ),
        Misconception(
            "one_sequence",
            "took one sequence for the batch of 64",
            "Every sequence brings a cache of its own: B = 64.",
            Instead(batch=1),
        ),
        Misconception(
            "one_sequence_and_one_too_far",
            "took one sequence for the batch of 64, and went one power of two too far as well",
            "Every sequence brings a cache of its own: B = 64. And the largest n for which the step is still **below** 1.5 times as long.",
            Instead(batch=1, first_beyond=True),
        ),
        Misconception(
            "one_layer",
            "counted the cache of one layer",
            "There are 32 layers, each with its cache.",
            Instead(layers=1),
        ),
        Misconception(
            "four_bytes_in_the_cache",
            "stopped one power of two early, or took four bytes a number for the cache",
            "Everything is in 2 bytes a number. Does it hold at twice your answer as well?",
            Instead(element=4),
        ),
        Misconception(
            "the_exponent",
            "gave the exponent, and not the power of two",
            "A number of tokens is asked for: $2^k$, not $k$.",
            lambda: 7,
        ),
        Misconception(
            "not_a_power_of_two",
            "gave the exact border, which is no power of two",
            "The largest power of two below it is asked for.",
            lambda: 218,
        ),
    ),
    variants=(Variant("as_a_float", lambda: 128.0),),
)
