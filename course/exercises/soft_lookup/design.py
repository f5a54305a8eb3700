"""One query for three sentences: where to ask from, and what the output does as the kernel grows wider."""

from typing import Any

import numpy as np

from autograder import Case, Draw, Exercise, Misconception, Prediction, Variant
from solutions import soft_lookup as ref


def _nothing(draw: Draw) -> dict[str, object]:
    return {}


def _query(x: float, y: float) -> Any:
    return lambda: np.array([x, y], dtype=float)


ASK_FOR_A_THING = Exercise(
    "ask_for_a_thing",
    title="Design: one query for three sentences",
    kind="design",
    points=2,
    difficulty=2,
    minutes=7,
    reference=ref.ask_for_a_thing,
    behaviour="attention_course.designs:finds_the_thing",
    cases=(Case("pear, knife and letter", _nothing),),
    hints=(
        "Start at the things, near (2, -1), and print the weights. Which words take weight away from the thing, and on which side of "
        "it do they lie?",
        "Walk away from those words instead of towards the things. A query need not lie where a key lies, and only *ratios* of "
        "scores matter for the weights.",
        "Seen from far away to the right, only the direction decides who is nearest. If *knife* wins and *letter* does not, tilt the "
        "direction downwards, and the other way round. Stop before every score is rounded to 0.",
    ),
    misconceptions=(
        Misconception(
            "among_the_things",
            "asked from so near the things that their neighbours, such as *ripe* and *sweet*, keep much of the weight",
            "Move the query away from the adjectives, past the things. The ratio of two scores grows as you go.",
            _query(2, -1),
            also=(_query(3, -1), _query(1.8, -0.8)),
        ),
        Misconception(
            "too_far",
            "asked from so far away that every score is rounded to 0, so the query finds nothing",
            "The Gaussian is rounded to 0 from a distance of 39 on. Come closer and keep the direction.",
            _query(100, -30),
            also=(_query(60, -15),),
        ),
        Misconception(
            "too_level",
            "asked along the first axis, where *letter* lies too low to get 0.9 of the weight",
            "Tilt the query downwards, because *letter* has the second number -1.5.",
            _query(5, 0),
            also=(_query(5, -1),),
        ),
        Misconception(
            "too_steep",
            "asked for words that are acted on or describe, so a sentence's last adjective wins over its thing",
            "The first number tells things from adjectives. Let it grow more than the second one.",
            _query(1, -2),
            also=(_query(0, -3),),
        ),
        Misconception(
            "persons",
            "asked for persons, because the first number is negative",
            "Things have a positive first number.",
            _query(-5, 2),
            also=(_query(-7, 2),),
        ),
        Misconception(
            "with_its_own_vector",
            "asked with the vector of *it*, which then finds itself or *the*",
            "Ask for something that *it* is not: a thing that is acted on.",
            _query(1, 0),
            also=(_query(0.5, 0),),
        ),
    ),
    variants=(
        Variant("nearer", _query(5, -2)),
        Variant("farther", _query(20, -5)),
    ),
)

PREDICT_WIDE = Prediction(
    "predict_wide",
    title="Predict: a wider and wider kernel",
    points=0.5,
    choices={
        "a": "it stays at pear, the nearest key",
        "b": "to it, the word that asked",
        "c": "to the mean of all nine vectors",
        "d": "to zero, because every score becomes small",
    },
    holds="c",
    reveal="Dividing by a large width brings all distances close to 0, so all scores come close to 1. Equal scores are equal shares, and "
    "the output is the mean of all values. A *narrow* kernel gives the nearest key.",
)
