"""Two numbers on paper: a score after two turns, and the slowest clock."""

import math

from autograder import Case, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import positions as ref

PAPER = Tolerance(rtol=0.02, atol=0.0)


def _nothing(draw: object) -> dict[str, object]:
    return {}


def _score(*, query=150.0, key=75.0, lengths=8**0.5, radians=math.radians):
    """The product of two vectors at these angles, in degrees, whose lengths, 2 and √2, multiply to `lengths`."""
    return lambda: lengths * math.cos(radians(query - key))


TURNED_SCORE = Exercise(
    "turned_score",
    title="A score after two turns, on paper",
    points=1,
    reference=ref.turned_score,
    recipe=Made(_score),
    tensors=True,
    tolerance=PAPER,
    kind="estimate",
    difficulty=2,
    minutes=8,
    cases=(Case("the number", _nothing),),
    hints=(
        "Draw both arrows where they lie *after* their turns. What does a dot product depend on, besides two lengths?",
        "Turning both back by the key's turn changes nothing. Then the key lies where it was, at 45°, and the query is turned by "
        "the difference of the positions alone: how many degrees is that?",
        "The lengths are 2 and √2. Seen from the key's turn the query ends at 4 · 30°, the key at 45°. A dot product is the product of the "
        "lengths and the cosine of the angle between; `math.cos` wants radians.",
    ),
    misconceptions=(
        Misconception(
            "not_turned",
            "gave the score of the vectors as they lie, before any turn",
            "Query and key stand four tokens apart: their angle changes by four turns.",
            Instead(query=0.0, key=45.0),
        ),
        Misconception(
            "turned_backwards",
            "turned clockwise, or took the offset, or the angle from $k$ to $q$, with the wrong sign",
            "Counter-clockwise the query goes from 0° to 150°, the key from 45° to 75°.",
            Instead(query=-150.0, key=15.0),
        ),
        Misconception(
            "key_turned_the_other_way",
            "turned the key against the query, so the score depends on the **sum** of the positions",
            "Both turn the same way: the query to 150°, the key to 75°.",
            Instead(key=15.0),
        ),
        Misconception(
            "query_only",
            "turned the query only",
            "The key stands at position 1: it turns too, by 30°.",
            Instead(key=45.0),
        ),
        Misconception(
            "key_along_the_axis",
            "took the offset alone for the angle between the two: the key itself lies at 45° before any turn",
            "The turns alone put 120° between the two. But the key did not start on the axis where the query started.",
            Instead(query=120.0, key=0.0),
        ),
        Misconception(
            "degrees_as_radians",
            "handed degrees to a cosine that wants radians",
            "`math.radians(75)`, or multiply by $\\pi / 180$.",
            Instead(radians=float),
        ),
        Misconception(
            "degrees_and_turned_backwards",
            "handed degrees to a cosine that wants radians, and turned clockwise, or took an angle with the wrong sign",
            "Counter-clockwise the query goes from 0° to 150°, the key from 45° to 75°. Convert what lies between to radians.",
            Instead(query=-150.0, key=15.0, radians=float),
        ),
        Misconception(
            "divided_by_sqrt_d",
            "left out the length of $k$, or divided by the root of the width: both are √2",
            "The raw score is the product of **both** lengths and a cosine; $k = (1, 1)$ is longer than 1, and nothing is divided.",
            Instead(lengths=2.0),
        ),
        Misconception(
            "query_only_and_divided_by_sqrt_d",
            "turned the query only, and left out the length of $k$, or divided by the root of the width: both are √2",
            "The key turns too, by 30°: between the two are 75°. The raw score is the product of **both** lengths and a cosine.",
            Instead(key=45.0, lengths=2.0),
        ),
        Misconception(
            "lengths_forgotten",
            "gave the cosine alone",
            "Multiply by the two lengths, 2 and √2.",
            Instead(lengths=1.0),
        ),
    ),
    variants=(Variant("in_closed_form", lambda: math.sqrt(3) - 1), Variant("rounded", lambda: 0.73)),
)

FULL_TURN = Exercise(
    "full_turn",
    title="The slowest clock",
    points=1,
    reference=ref.full_turn,
    tensors=True,
    tolerance=PAPER,
    kind="estimate",
    difficulty=2,
    minutes=4,
    cases=(Case("the number of tokens", _nothing),),
    hints=(
        "How many pairs has a head of width 128, and what is the number $i$ of the last one?",
        "The last pair is $i = 63$. It turns by $\\theta_{63}$ radians with every token. How many radians is a full turn?",
        "A full turn is $2\\pi$ radians; the pair makes $10000^{-126/128}$ of them per token. Divide.",
    ),
    misconceptions=(
        Misconception(
            "two_pi_times_the_base",
            "gave $10000 \\cdot 2\\pi$: that is what the paper of 2017 prints, and no pair of a head of width 128 is so slow",
            "Pairs are counted $0, \\dots, d/2 - 1$, so the last exponent is $126/128$ and not 1.",
            lambda: 2 * math.pi * 10_000,
        ),
        Misconception(
            "radians_taken_for_turns",
            "left out $2\\pi$: that is the number of tokens for **one radian**",
            "A full turn has $2\\pi$ radians.",
            lambda: 10_000 ** (126 / 128),
        ),
        Misconception(
            "exponent_turned",
            "gave the exponent a minus, and so a turn that is done after a fraction of one token",
            "$\\theta$ is *radians per token*, and small for a slow pair. Does a small $\\theta$ make a turn shorter or longer?",
            lambda: 2 * math.pi * 10_000 ** (-126 / 128),
            also=(lambda: 360 * 10_000 ** (-126 / 128),),
        ),
        Misconception(
            "degrees_for_radians",
            "took a full turn for 360: $\\theta$ counts in radians",
            "A full turn has $2\\pi$ radians.",
            lambda: 360 * 10_000 ** (126 / 128),
        ),
        Misconception(
            "exponent_halved",
            "used the exponent $i/d$ in place of $2i/d$",
            "The last pair, $i = 63$, has the exponent $2 \\cdot 63 / 128$.",
            lambda: 2 * math.pi * 10_000 ** (63 / 128),
        ),
        Misconception(
            "the_base_itself",
            "gave the base",
            "A base is no number of tokens. The slowest clock of a wide head takes nearly 10,000 tokens for one *radian*; a full turn has $2\\pi$.",
            lambda: 10_000,
        ),
        Misconception(
            "fastest_pair",
            "gave the fastest pair, $i = 0$",
            "That one comes round every 6.28 tokens. The slowest is $i = 63$.",
            lambda: 2 * math.pi,
        ),
    ),
    variants=(Variant("rounded", lambda: 54_400),),
)
