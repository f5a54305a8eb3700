"""How far a head with ALiBi attends."""

import math

from autograder import Case, Draw, Exercise, Instead, Misconception, Variant
from solutions import positions as ref


def _of_a_head(slope: float, share: float):
    return lambda draw: {"slope": slope, "share": share}


def _drawn(draw: Draw):
    return {"slope": 1 / draw.integer(5, 60), "share": draw.choice((0.35, 0.55, 0.65, 0.85))}


def _reach(slope, share, *, left=lambda share: 1 - share, log=math.log, rounds=math.ceil, by=lambda m: m, more=0):
    """The reach with one part replaced by a mistake."""
    return rounds(-log(left(share)) / by(slope)) + more


def _summed(slope, share):
    total, n, full = 0.0, 0, 1 / (1 - math.exp(-slope))
    while total < share * full:
        total += math.exp(-slope * n)
        n += 1
    return n


ALIBI_REACH = Exercise(
    "alibi_reach",
    title="Estimate the reach of a head",
    points=1,
    reference=ref.alibi_reach,
    recipe=_reach,
    tensors=True,
    kind="estimate",
    difficulty=3,
    minutes=9,
    cases=(
        Case("80 percent of the weight, slope 1/4", _of_a_head(1 / 4, 0.8)),
        Case("60 percent, slope 1/20", _of_a_head(1 / 20, 0.6)),
        Case("another head", _drawn),
    ),
    hints=(
        "All scores are equal before ALiBi. What is the weight of the token $j$ back, compared with the weight of the current token?",
        "The weights are proportional to $1, e^{-m}, e^{-2m}, \\dots$, which is a geometric series. Which share of the whole sum is left "
        "*beyond* the first $n$ terms?",
        "The terms from $n$ on are the whole series times $e^{-mn}$, so the nearest $n$ tokens hold $1 - e^{-mn}$. Solve "
        "$1 - e^{-mn} \\ge$ `share` for $n$ and round up.",
    ),
    misconceptions=(
        Misconception(
            "share_left_over",
            "solved $e^{-mn} =$ `share`, which is the share *beyond* the nearest $n$ tokens",
            "The nearest $n$ tokens hold $1 - e^{-mn}$ of the weight.",
            Instead(left=lambda share: share),
        ),
        Misconception(
            "one_over_the_slope",
            "took the weight to fall in proportion to the distance",
            "ALiBi subtracts from the *score*. The softmax turns a score that falls linearly into weights that fall exponentially.",
            lambda slope, share: math.ceil(share / slope),
            also=(lambda slope, share: math.ceil(1 / slope),),
        ),
        Misconception(
            "another_logarithm",
            "used a logarithm to the base 2 or 10",
            "The softmax uses powers of $e$, so you need the natural logarithm.",
            Instead(log=math.log2),
            also=(Instead(log=math.log10),),
        ),
        Misconception(
            "rounded_down",
            "rounded down or to the nearest integer, so the share is not quite reached",
            "Return the smallest number of tokens that holds *at least* the share.",
            Instead(rounds=math.floor),
            also=(Instead(rounds=round),),
        ),
        Misconception(
            "one_too_many",
            "counted one token too many",
            "The current token is one of the $n$. The formula $1 - e^{-mn}$ already includes it.",
            Instead(more=1),
        ),
        Misconception(
            "slope_turned_over",
            "multiplied by the slope instead of dividing by it",
            "A head with a smaller slope attends to more tokens.",
            Instead(by=lambda m: 1 / m),
        ),
    ),
    variants=(
        Variant("summed_term_by_term", _summed),
        Variant("with_log1p", lambda slope, share: math.ceil(-math.log1p(-share) / slope)),
    ),
)
