"""What one weighted sum can keep of two answers."""

import numpy as np
import torch

from autograder import After, Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Variant
from solutions import multi_head as ref


def _equal(draw: Draw):
    return {"a": draw.rng.uniform(0.49, 0.51, size=())}


def _one_weight(draw: Draw):
    return {"a": draw.rng.uniform(0.6, 0.9, size=())}


def _several(draw: Draw):
    return {"a": draw.rng.uniform(0.05, 0.95, size=(2, 3)).round(2)}


def _one_word(draw: Draw):
    return {"a": np.array([0.0, 1.0, draw.rng.uniform(0.9, 0.99)])}


def _size(a):
    return a**2 + (1 - a) ** 2


def _errors(*, factor=lambda a: a / _size(a), signal=True, noise=True, power=1.0):
    """The two errors with another factor in place of the best, or with one of the two parts left out."""

    def error(a):
        u = factor(a)
        return (signal * (1 - u * a) ** 2 + noise * (u * (1 - a)) ** 2) ** power

    def answer(a):
        return error(a), error(1 - a)

    return answer


def _by_least_squares(a):
    """The best factor by the normal equation, from the moments of $x$, $y$ and $z$."""
    mix = torch.stack([a, 1 - a], dim=-1)
    factors = mix / mix.square().sum(-1, keepdim=True)
    left = 1 - factors * mix
    return left[..., 0], left[..., 1]


def _multiplied_out(a):
    size = 2 * a * a - 2 * a + 1
    who = 1 - a * a / size
    return who, 1 - who


ONE_HEAD_ERRORS = Exercise(
    "one_head_errors",
    title="What does one head lose?",
    points=2,
    kind="estimate",
    difficulty=2,
    minutes=5,
    reference=ref.one_head_errors,
    recipe=Made(_errors),
    tensors=True,
    cases=(
        Case("nearly equal weights", _equal),
        Case("more weight on who", _one_weight),
        Case("several weights at once", _several),
        Case("all the weight on one word, or nearly all", _one_word, edge=0.2),
    ),
    hints=(
        "Put $z = a x + (1 - a) y$ into $u z - x$ and sort by $x$ and $y$. What are the means of $x^2$, $y^2$ and $x y$?",
        "The error of *who* is $(u a - 1)^2 + u^2 (1 - a)^2$. Set the derivative with respect to $u$ to 0.",
        "The best factor is $u = a / (a^2 + (1 - a)^2)$. Put it into the error of the second hint. For *what*, exchange $a$ and $1 - a$.",
    ),
    misconceptions=(
        Misconception(
            "factor_of_one",
            "took $z$ itself as the answer, with the factor $u = 1$",
            "A smaller or larger factor may be better. Find the $u$ at which the error of *who* is smallest.",
            Instead(factor=torch.ones_like),
        ),
        Misconception(
            "undoes_the_weight",
            "chose $u = 1/a$, which brings $x$ back at full size but also enlarges the other word's share",
            "The best $u$ balances both. Set the derivative of $(u a - 1)^2 + u^2 (1 - a)^2$ to 0.",
            Instead(factor=lambda a: 1 / a),
        ),
        Misconception(
            "weight_as_the_factor",
            "took the weight itself as the factor, $u = a$",
            "That would be best if $z$ had variance 1. Its variance is $a^2 + (1 - a)^2$, so divide by it.",
            Instead(factor=lambda a: a),
        ),
        Misconception(
            "exchanged",
            "exchanged the two errors, or returned what is kept of each answer and not what is lost",
            "With $a = 1$ the word *ate* attends only to the word that acts, so the error of *who* is 0 there.",
            After(lambda out, **_: (out[1], out[0])),
        ),
        Misconception(
            "share_of_the_weight",
            "took the missing weight for the error, $1 - a$ for *who* and $a$ for *what*",
            "An error is the mean of a square. Put $z$ into $(u z - x)^2$ and take the mean first.",
            lambda a: (1 - a, 1.0 * a),
        ),
        Misconception(
            "squared_weights",
            "returned $(1 - a)^2$ and $a^2$, which lack the variance of $z$",
            "Put the best factor $u = a / (a^2 + (1 - a)^2)$ into **both** parts of the error and simplify.",
            lambda a: ((1 - a) ** 2, a**2),
        ),
        Misconception(
            "other_word_forgotten",
            "counted only the part of $x$ that is missing, and not the part of $y$ that is added",
            "The error of *who* has two parts, $(u a - 1)^2$ and $u^2 (1 - a)^2$.",
            Instead(noise=False),
        ),
        Misconception(
            "missing_part_forgotten",
            "counted only the part of $y$ that is added, and not the part of $x$ that is missing",
            "The error of *who* has two parts, $(u a - 1)^2$ and $u^2 (1 - a)^2$.",
            Instead(signal=False),
        ),
        Misconception(
            "root",
            "took the square root of the errors",
            "The error is the mean of the square itself.",
            Instead(power=0.5),
        ),
    ),
    variants=(
        Variant("least_squares", _by_least_squares),
        Variant("multiplied_out", _multiplied_out),
    ),
)

PREDICT_BEST_SHARE = Prediction(
    "predict_best_share",
    title="Predict: the best weight for two answers",
    points=0.5,
    minutes=2,
    choices={
        "a": "1/2, because both words get a fair share",
        "b": "0 or 1, because at least one answer is then exact",
        "c": "the sum is the same for every a",
        "d": "about 0.8, because most of one answer and some of the other survive",
    },
    holds="c",
    reveal="**c.** The sum of the two errors is 1 for every $a$. With fixed factors, one number gives back no more than half of the variance "
    "of two independent answers of equal variance, however the weight is divided. You will derive it in the next exercise.",
)
