"""What a leak scores, and random masks for the other exercises."""

import math

from autograder import Case, Draw, Exercise, Misconception, Tolerance, Variant
from solutions import masking as ref

INFINITY = float("inf")


def draw_keep(draw: Draw, *shape: int):
    """A random mask in which every row forbids at least one key and keeps at least two (of two keys: one), so that scores matter."""
    keep = draw.rng.random(shape) < 0.5
    for row in keep.reshape(-1, shape[-1]):
        no, *yes = draw.rng.permutation(shape[-1])[:3]
        row[no], row[yes] = False, True
    return keep


CHEATING_LOSS = Exercise(
    "cheating_loss",
    title="What does a perfect cheat score?",
    points=1,
    kind="estimate",
    difficulty=2,
    minutes=4,
    reference=ref.cheating_loss,
    tolerance=Tolerance(rtol=0.02, atol=0.0),  # a number worked out on paper; the nearest mistake is 3 % off
    cases=(Case("the number", lambda draw: {}),),
    hints=(
        "In the drawing of the shifted text there are four positions. At how many of them does the leak show the model its own target?",
        "Position $i$ sees rows up to $i + 1$. The row $i + 1$ is the answer. Which position has no row $i + 1$ in its input?",
        "31 positions cost nothing. One position guesses evenly among 17 tokens, which costs $-\\ln(1/17)$. The loss is the mean.",
    ),
    misconceptions=(
        Misconception(
            "nothing",
            "took the loss to be 0",
            "One position has nothing to copy: the last. The token after it is in no row of the input.",
            lambda: 0.0,
        ),
        Misconception(
            "no_leak",
            "gave the loss of a model that guesses everywhere",
            "Where the answer can be copied, the loss is 0. Where can it not?",
            lambda: math.log(17),
        ),
        Misconception(
            "share_of_the_positions",
            "took the share of the positions that guess as the loss",
            "The share is 1/32. Multiply it by what one even guess among 17 costs.",
            lambda: 1 / 32,
        ),
        Misconception(
            "the_other_way_round",
            "let the model copy at one position and guess at the other 31",
            "It copies wherever the next token stands in the input: at 31 of the 32 positions.",
            lambda: math.log(17) * 31 / 32,
        ),
        Misconception(
            "logarithm_forgotten",
            "took 17 for what an even guess among 17 tokens costs",
            "It gives the right token the probability 1/17, and the loss is $-\\ln(1/17)$.",
            lambda: 17 / 32,
        ),
        Misconception(
            "what_the_model_printed",
            "took what the second model printed: it also guesses a little worse than it could",
            "Work out the **perfect** cheat on paper: 31 positions cost nothing, one costs an even guess. Then compare.",
            lambda: 0.097,
        ),
        Misconception(
            "logarithm_of_the_mean",
            "averaged the probabilities of the right tokens, and took the logarithm of their mean",
            "The loss is a mean of logarithms: $-\\ln p$ of each position first, then the mean.",
            lambda: -math.log((31 + 1 / 17) / 32),
        ),
        Misconception(
            "bits",
            "measured in bits",
            "In nats: the natural logarithm, as `F.cross_entropy` does.",
            lambda: math.log2(17) / 32,
        ),
        Misconception(
            "divided_by_31",
            "divided by the 31 positions that can copy",
            "The loss is the mean over all 32 positions.",
            lambda: math.log(17) / 31,
        ),
        Misconception(
            "divided_by_33",
            "divided by 33",
            "A text of 33 tokens has 32 positions at which something is predicted.",
            lambda: math.log(17) / 33,
        ),
        Misconception(
            "bits_and_divided_by_33",
            "measured in bits, and divided by 33",
            "In nats: the natural logarithm, as `F.cross_entropy` does. A text of 33 tokens has 32 positions at which something is predicted.",
            lambda: math.log2(17) / 33,
        ),
        Misconception(
            "of_the_32",
            "took the logarithm of the number of positions",
            "An even guess among **17** tokens costs $\\ln 17$.",
            lambda: math.log(32) / 32,
        ),
    ),
    variants=(Variant("as_a_mean", lambda: sum([0.0] * 31 + [-math.log(1 / 17)]) / 32),),
)
