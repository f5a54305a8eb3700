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
    title="Estimate: the loss of a perfect copier",
    points=1,
    kind="estimate",
    difficulty=2,
    minutes=5,
    reference=ref.cheating_loss,
    tolerance=Tolerance(rtol=0.02, atol=0.0),  # a number worked out on paper; the nearest mistake is 3 % off
    cases=(Case("the number", lambda draw: {}),),
    hints=(
        "The drawing of the shifted text has four positions. At how many of them is the target also an input that the model can copy?",
        "The answer at position $i$ is the input of position $i + 1$. Which position has no next position in the input?",
        "At 31 positions the loss is 0. At one position the model guesses evenly among 17 tokens, where the loss is $-\\ln(1/17)$. Take the mean.",
    ),
    misconceptions=(
        Misconception(
            "nothing",
            "took the loss to be 0",
            "The last position has nothing to copy, because the token after it is not among the inputs.",
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
            "took the share of the positions where the model guesses as the loss",
            "The model guesses at 1/32 of the positions. Multiply that by the loss of an even guess among 17.",
            lambda: 1 / 32,
        ),
        Misconception(
            "the_other_way_round",
            "let the model copy at one position and guess at the other 31",
            "It copies wherever the next token is in the input, which is at 31 of the 32 positions.",
            lambda: math.log(17) * 31 / 32,
        ),
        Misconception(
            "logarithm_forgotten",
            "took 17 as the loss of an even guess among 17 tokens",
            "It gives the right token the probability 1/17, and the loss is $-\\ln(1/17)$.",
            lambda: 17 / 32,
        ),
        Misconception(
            "what_the_model_printed",
            "took the loss that your model printed, which is a little worse than that of a perfect copier",
            "Work out the loss of a **perfect** copier on paper. Its loss is 0 at 31 positions, and it guesses evenly at one.",
            lambda: 0.098,
        ),
        Misconception(
            "logarithm_of_the_mean",
            "averaged the probabilities of the right tokens and took the logarithm of their mean",
            "The loss is a mean of logarithms. Take $-\\ln p$ at each position first, then the mean.",
            lambda: -math.log((31 + 1 / 17) / 32),
        ),
        Misconception(
            "bits",
            "measured in bits",
            "The loss is in nats, which means the natural logarithm, as in `F.cross_entropy`.",
            lambda: math.log2(17) / 32,
        ),
        Misconception(
            "divided_by_31",
            "divided by the 31 positions where the model can copy",
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
            "The loss is in nats, which means the natural logarithm, as in `F.cross_entropy`. A text of 33 tokens has 32 positions at which something is predicted.",
            lambda: math.log2(17) / 33,
        ),
        Misconception(
            "of_the_32",
            "took the logarithm of the number of positions",
            "An even guess among **17** tokens has the loss $\\ln 17$.",
            lambda: math.log(32) / 32,
        ),
    ),
    variants=(Variant("as_a_mean", lambda: sum([0.0] * 31 + [-math.log(1 / 17)]) / 32),),
)
