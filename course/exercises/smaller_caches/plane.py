"""Notebook 12b: the best line in the plane."""

import math

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from course.exercises.smaller_caches.factors import draw_moment
from solutions import smaller_caches as ref


def _by_hand(draw: Draw):
    """Uncorrelated inputs, of which the first varies most."""
    turn = math.radians(30.0 + 30.0 * float(draw.uniform()))
    W = np.array([[math.cos(turn), math.sin(turn)], [-2 * math.sin(turn), 2 * math.cos(turn)]])
    return {"W": W, "moment": np.diag([9.0, 0.25])}


def _clear(W, moment):
    """Whether one direction is clearly the best, away from both ends of the scale, and every known mistake is far from it."""
    values = np.linalg.eigvalsh(W.T @ moment @ W)
    found = [float(_angle(**change)(*map(torch.from_numpy, (W, moment)))) for change in ({}, *_CHANGES)]
    apart = [min(abs(found[0] - other), 180 - abs(found[0] - other)) for other in found[1:]]
    return values[1] > 2 * values[0] and 15 < found[0] < 165 and min(apart) > 4


def _correlated(draw: Draw):
    while True:
        W, moment = draw.normal(2, 2).round(2), draw_moment(draw, 2)
        if _clear(W, moment):
            return {"W": W, "moment": moment}


def _angle(
    *,
    outputs=lambda W, moment: W.mT @ moment @ W,
    half=lambda whole: whole / 2,
    shift=0.0,
    out=lambda radians: math.degrees(radians) % 180,
):
    """The angle with one part replaced by a mistake."""

    def answer(W, moment):
        (a, b), (_, c) = outputs(W, moment).tolist()
        return out(half(math.atan2(2 * b, a - c)) + shift)

    return answer


_CHANGES = (
    {"outputs": lambda W, moment: W.mT @ W},
    {"outputs": lambda W, moment: moment},
    {"outputs": lambda W, moment: W @ moment @ W.mT},
    {"outputs": lambda W, moment: W.mT @ moment @ moment @ W},
    {"half": lambda whole: whole},
    {"shift": math.pi / 2},
    {"out": lambda radians: radians % math.pi},
    {"out": lambda radians: 180 - math.degrees(radians) % 180},
)


def _by_eigenvector(W, moment):
    x, y = torch.linalg.eigh(W.mT @ moment @ W)[1][:, -1].tolist()
    return math.degrees(math.atan2(y, x)) % 180


def _by_turning(W, moment):
    angles = torch.arange(0, 180, 0.05)
    lines = torch.stack([angles.deg2rad().cos(), angles.deg2rad().sin()]).to(W.dtype)
    kept = ((moment @ W @ lines) * (W @ lines)).sum(0)
    return float(angles[kept.argmax()])


BEST_ANGLE = Exercise(
    "best_angle",
    title="Design: the best line",
    kind="design",
    points=1,
    difficulty=3,
    minutes=7,
    tensors=True,
    tolerance=Tolerance(rtol=0.0, atol=0.3),  # a search in steps of a quarter of a degree is good enough
    reference=ref.best_angle,
    recipe=Made(_angle),
    cases=(
        Case("uncorrelated inputs", _by_hand),
        Case("correlated inputs", _correlated),
        Case("others", _correlated),
    ),
    hints=(
        "By Pythagoras, what is lost and what is kept add up to the mean square of the output. So which line loses least?",
        "A unit vector u at angle t keeps the mean square of y · u. Write y as x W, and the mean of (x W u)² becomes a product of u, W and "
        "`moment`. In which order?",
        "You have $M = W^\\top \\Sigma W$, and u keeps $u^\\top M u$. You could try all angles in small steps, or take an eigenvector of $M$ and "
        "turn it into an angle with `atan2`. What if the angle is negative?",
    ),
    misconceptions=(
        Misconception(
            "inputs_ignored",
            "found the line for inputs that are alike in all directions, because `moment` was not used",
            "The outputs have the second moment $W^\\top \\Sigma W$. With $\\Sigma$ left out, only the weights are compared.",
            Instead(outputs=lambda W, moment: W.mT @ W),
        ),
        Misconception(
            "inputs_direction",
            "found the line along which the inputs vary most instead of the outputs",
            "The line lies in the plane of $y = x W$, so use the second moment of the outputs.",
            Instead(outputs=lambda W, moment: moment),
        ),
        Misconception(
            "other_side",
            "computed $W \\Sigma W^\\top$, although rows are multiplied by W from the right",
            "With $y = x W$, $y^\\top y$ is $W^\\top x^\\top x W$, and its mean is $W^\\top \\Sigma W$.",
            Instead(outputs=lambda W, moment: W @ moment @ W.mT),
        ),
        Misconception(
            "moment_squared",
            "used the second moment of the inputs twice",
            "It occurs once in $W^\\top \\Sigma W$.",
            Instead(outputs=lambda W, moment: W.mT @ moment @ moment @ W),
        ),
        Misconception(
            "worst_line",
            "found the line that loses most, at a right angle to the best one",
            "`eigh` sorts eigenvalues from the smallest to the largest, and a search needs the maximum of what is kept.",
            Instead(shift=math.pi / 2),
        ),
        Misconception(
            "twice_the_angle",
            "returned twice the angle, because `atan2(2b, a − c)` is the double angle",
            "Divide by two before you convert to degrees.",
            Instead(half=lambda whole: whole),
        ),
        Misconception(
            "radians",
            "returned the angle in radians",
            "Convert it to degrees, and take the remainder by 180 afterwards.",
            Instead(out=lambda radians: radians % math.pi),
        ),
        Misconception(
            "mirrored",
            "measured the angle in the other direction",
            "The angle grows from the first axis towards the second, so its tangent is the second entry over the first.",
            Instead(out=lambda radians: 180 - math.degrees(radians) % 180),
        ),
    ),
    variants=(Variant("by_eigenvector", _by_eigenvector), Variant("by_turning", _by_turning)),
)
