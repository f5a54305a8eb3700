"""A score after two rotations, worked out on paper."""

import math

from autograder import Case, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import positions as ref

PAPER = Tolerance(rtol=0.02, atol=0.0)


def _nothing(draw: object) -> dict[str, object]:
    return {}


def _score(*, query=150.0, key=75.0, lengths=8**0.5, radians=math.radians):
    """The dot product of two vectors at these angles in degrees, whose lengths, 2 and √2, multiply to `lengths`."""
    return lambda: lengths * math.cos(radians(query - key))


TURNED_SCORE = Exercise(
    "turned_score",
    title="A score after two rotations",
    points=1,
    reference=ref.turned_score,
    recipe=Made(_score),
    tensors=True,
    tolerance=PAPER,
    kind="estimate",
    difficulty=2,
    minutes=5,
    cases=(Case("the number", _nothing),),
    hints=(
        "Draw both arrows where they point *after* their rotations. What does a dot product depend on, besides the two lengths?",
        "At first the query points along the axis and the key at 45°. By how many degrees is each of them rotated, and how large is the "
        "angle between them then?",
        "The query ends at 5 · 30° = 150° and the key at 45° + 30° = 75°. The dot product is the product of the lengths, 2 and √2, and the "
        "cosine of the angle between them. `math.cos` expects radians.",
    ),
    misconceptions=(
        Misconception(
            "not_turned",
            "gave the score before any rotation",
            "The query is rotated by 5 · 30° and the key by 1 · 30°, so the angle between them changes.",
            Instead(query=0.0, key=45.0),
        ),
        Misconception(
            "turned_backwards",
            "rotated clockwise, or gave the offset or the angle from key to query the wrong sign",
            "Counter-clockwise the query goes from 0° to 150° and the key from 45° to 75°.",
            Instead(query=-150.0, key=15.0),
        ),
        Misconception(
            "key_turned_the_other_way",
            "rotated the key in the opposite direction, so the score depends on the **sum** of the positions",
            "Both arrows rotate counter-clockwise, the query to 150° and the key to 75°.",
            Instead(key=15.0),
        ),
        Misconception(
            "query_only",
            "rotated the query only",
            "The key is at position 1, so it is rotated by 30° as well.",
            Instead(key=45.0),
        ),
        Misconception(
            "key_along_the_axis",
            "used the angle of the two rotations alone, although the key points at 45° before them",
            "The rotations contribute 4 · 30° to the angle. What did the angle between the arrows look like before?",
            Instead(query=120.0, key=0.0),
        ),
        Misconception(
            "degrees_as_radians",
            "passed degrees to a cosine that expects radians",
            "Convert with `math.radians`, or multiply by $\\pi / 180$.",
            Instead(radians=float),
        ),
        Misconception(
            "degrees_and_turned_backwards",
            "passed degrees to a cosine that expects radians, and also rotated clockwise or gave an angle the wrong sign",
            "Counter-clockwise the query goes from 0° to 150° and the key from 45° to 75°. Convert the angle between them to radians.",
            Instead(query=-150.0, key=15.0, radians=float),
        ),
        Misconception(
            "divided_by_sqrt_d",
            "left out the length of $k$ or divided by the square root of the width, which are both √2",
            "The raw score is the product of **both** lengths and the cosine. The length of $k = (1, 1)$ is √2, and nothing is divided.",
            Instead(lengths=2.0),
        ),
        Misconception(
            "query_only_and_divided_by_sqrt_d",
            "rotated the query only, and left out the length of $k$ or divided by the square root of the width, which are both √2",
            "The key is rotated by 30° as well, and the raw score is the product of **both** lengths and the cosine.",
            Instead(key=45.0, lengths=2.0),
        ),
        Misconception(
            "lengths_forgotten",
            "gave the cosine alone",
            "Multiply it by the two lengths, 2 and √2.",
            Instead(lengths=1.0),
        ),
    ),
    variants=(Variant("in_closed_form", lambda: math.sqrt(3) - 1), Variant("rounded", lambda: 0.73)),
)
