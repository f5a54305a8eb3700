"""How much a head matters, compared with other heads of its layer."""

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import multi_head as ref


def _two_layers(draw: Draw):
    """In hundredths: falls and a rise, with the largest fall of each layer at another head."""
    without = draw.rng.permutation([0.12, 0.48, 0.55, 0.83]).round(2)
    more = draw.rng.permutation([0.31, 0.57, 0.6, 0.64]).round(2)
    return {"whole": np.array(0.62), "without": np.stack([without, more])}


def _as_in_the_model(draw: Draw):
    layers, heads = draw.sizes(2, low=5, high=9)
    without = 0.7 + 0.1 * draw.rng.normal(size=(layers, heads))
    without[draw.integer(0, layers - 1), draw.integer(0, heads - 1)] = 0.05
    return {"whole": np.array(0.7), "without": without}


def _copies(draw: Draw):
    """Several copying heads at once: leading axes."""
    whole = draw.rng.uniform(0.4, 0.9, size=(3,))
    return {"whole": whole, "without": (whole[:, None, None] + 0.2 * draw.rng.normal(size=(3, 4, 6)))}


def _others(falls, reduce):
    """For each head, what `reduce` makes of the other heads of its layer."""
    H = falls.shape[-1]
    return torch.stack([reduce(torch.cat([falls[..., :h], falls[..., h + 1 :]], dim=-1)) for h in range(H)], dim=-1)


def _largest(falls):
    return falls.amax(-1)


def _beyond(
    *,
    fall=lambda whole, without: whole[..., None, None] - without,
    control=lambda falls: _others(falls, _largest),
):
    """The fall beyond the controls, with one of the two replaced."""

    def answer(whole, without):
        falls = fall(whole, without)
        return falls - control(falls)

    return answer


def _all_other_heads(falls):
    flat = falls.flatten(-2)
    return _others(flat, _largest).unflatten(-1, falls.shape[-2:])


def _by_the_two_largest(whole, without):
    falls = whole[..., None, None] - without
    two = falls.topk(2, dim=-1).values
    first, second = two[..., :1], two[..., 1:]
    return falls - torch.where(falls == first, second, first)


def _diagonal_masked(whole, without):
    falls = whole[..., None, None] - without
    H = falls.shape[-1]
    table = falls.unsqueeze(-2).expand(*falls.shape[:-1], H, H)
    return falls - table.masked_fill(torch.eye(H).bool(), -torch.inf).amax(-1)


FALL_BEYOND_CONTROLS = Exercise(
    "fall_beyond_controls",
    title="Compare a head with its neighbours",
    points=2,
    kind="design",
    difficulty=3,
    minutes=8,
    reference=ref.fall_beyond_controls,
    recipe=Made(_beyond),
    tensors=True,
    cases=(
        Case("two layers of four heads", _two_layers),
        Case("one head that matters", _as_in_the_model),
        Case("three copying heads at once", _copies),
    ),
    hints=(
        "First compute how much the share falls without each head. Which heads are the controls of head $h$ in layer $l$?",
        "For each head you need the largest fall among the *other* heads of its layer. For all heads but one that is the largest fall of the "
        "layer. Which head is the exception, and what is its control?",
        "`falls.topk(2, dim=-1).values` holds the largest and the second largest fall of each layer. The head with the largest fall has the "
        "second largest as its control, and all others have the largest.",
    ),
    misconceptions=(
        Misconception(
            "rise_for_fall",
            "subtracted in the wrong order, so a head that matters gets a negative number",
            "The fall is the share of the whole model minus the share without the head.",
            Instead(fall=lambda whole, without: without - whole[..., None, None]),
        ),
        Misconception(
            "size_of_the_change",
            "took the absolute change, so a head whose removal *raises* the share seems to feed it",
            "A feeding head makes the share fall when it is removed. Keep the sign.",
            Instead(fall=lambda whole, without: (whole[..., None, None] - without).abs()),
        ),
        Misconception(
            "no_controls",
            "returned the fall itself, without any control",
            "Subtract the largest fall among the other heads of the same layer.",
            Instead(control=lambda falls: 0.0),
        ),
        Misconception(
            "its_own_control",
            "counted each head among its own controls, so no number is above 0",
            "The controls of a head are the *other* heads of its layer.",
            Instead(control=lambda falls: falls.amax(-1, keepdim=True)),
        ),
        Misconception(
            "average_control",
            "compared with the mean of the other heads, which hides a second head that matters just as much",
            "Compare with the largest fall among them.",
            Instead(control=lambda falls: _others(falls, lambda f: f.mean(-1))),
        ),
        Misconception(
            "average_of_the_layer",
            "compared with the mean of the layer, in which the head itself is counted",
            "Compare with the largest fall among the *other* heads of the layer.",
            Instead(control=lambda falls: falls.mean(-1, keepdim=True)),
        ),
        Misconception(
            "least_control",
            "compared with the smallest fall among the other heads",
            "The hardest control is the other head with the **largest** fall.",
            Instead(control=lambda falls: _others(falls, lambda f: f.amin(-1))),
        ),
        Misconception(
            "controls_of_all_layers",
            "took the heads of all layers as controls, and not only those of the same layer",
            "A matched control comes from the same layer, so take the largest fall along the last axis.",
            Instead(control=_all_other_heads),
        ),
        Misconception(
            "controls_across_layers",
            "compared with the same head number in other layers",
            "The last axis holds the heads of one layer, and the axis before it the layers.",
            Instead(control=lambda falls: _others(falls.mT, _largest).mT),
        ),
    ),
    variants=(
        Variant("two_largest", _by_the_two_largest),
        Variant("diagonal_masked", _diagonal_masked),
    ),
)
