"""Which layers to convert."""

import math

from autograder import Case, Draw, Exercise, Misconception, Variant
from solutions import smaller_caches as ref


def _harms(draw: Draw, layers):
    """Distinct harms with two decimals, neither rising nor falling; two are below zero, as happens with measured ones."""
    numbers = draw.rng.permutation(range(-13, -13 + 7 * layers, 7)) + draw.integer(0, 2)
    return [int(k) / 100 for k in numbers]


def _pooling(layers, count, remainder):
    """`count` layers save just enough, with `remainder` bytes to spare."""

    def make(draw: Draw):
        saved = draw.choice((20, 30, 50))
        while True:
            harm = _harms(draw, layers)
            least = sorted(range(layers), key=lambda i: harm[i])[:count]
            telling = least != sorted(least) and sorted(least) not in (list(range(count)), list(range(layers - count, layers)))
            if telling or count == 0:
                return {"harm": harm, "saved": saved, "excess": count * saved - remainder}

    return make


def _too_much(draw: Draw):
    saved = draw.choice((20, 30, 50))
    return {"harm": _harms(draw, 5), "saved": saved, "excess": 5 * saved + draw.integer(1, 9)}


def _by_harm(harm, count):
    return sorted(range(len(harm)), key=lambda i: harm[i])[:count]


def _count(saved, excess):
    return max(0, math.ceil(excess / saved))


def _one_after_another(harm, saved, excess):
    chosen = set()
    if saved * len(harm) < excess:
        raise ValueError("not enough layers")
    while len(chosen) * saved < excess:
        chosen.add(min((h, i) for i, h in enumerate(harm) if i not in chosen)[1])
    return sorted(chosen)


LAYERS_TO_POOL = Exercise(
    "layers_to_pool",
    title="Which layers to convert",
    points=1.5,
    minutes=8,
    reference=ref.layers_to_pool,
    cases=(
        Case("two of four layers", _pooling(4, 2, 5)),
        Case("three of seven", _pooling(7, 3, 11)),
        Case("the bytes come out even", _pooling(6, 2, 0), edge=0.2),
        Case("nothing to save", _pooling(5, 0, 57), edge=0.2),
        Case("more than all layers together can save", _too_much, edge=0.2, raises=ValueError),
    ),
    hints=(
        "All layers save the same number of bytes. How many of them do you need, and which?",
        "Round excess / saved **up**: that many. Sort the layers by their harm, take the first ones, and sort these by number.",
        "`math.ceil(excess / saved)`, never below 0, is the count; `sorted(range(len(harm)), key=...)` orders the layers. Two things are left: "
        "the order of the answer, and what to raise where the count is larger than the number of layers.",
    ),
    misconceptions=(
        Misconception(
            "most_harmful",
            "took the layers that suffer most",
            "The **least** harm: sort ascending.",
            lambda harm, saved, excess: sorted(_by_harm([-h for h in harm], _count(saved, excess))),
        ),
        Misconception(
            "first_layers",
            "took the first layers, whatever their harm",
            "Order the layers by `harm` before you take some.",
            lambda harm, saved, excess: list(range(_count(saved, excess))),
        ),
        Misconception(
            "last_layers",
            "took the last layers, whatever their harm",
            "Order the layers by `harm` before you take some.",
            lambda harm, saved, excess: list(range(len(harm) - _count(saved, excess), len(harm))),
        ),
        Misconception(
            "one_too_few",
            "rounded down: the cache is still too large",
            "Round **up**, `math.ceil`: a layer cannot be converted by half.",
            lambda harm, saved, excess: sorted(_by_harm(harm, max(0, excess // saved))),
        ),
        Misconception(
            "one_too_many",
            "took one layer more than needed where the bytes come out even",
            "`excess // saved + 1` is right only where there is a remainder: `math.ceil(excess / saved)`.",
            lambda harm, saved, excess: sorted(_by_harm(harm, max(0, excess // saved + 1))),
        ),
        Misconception(
            "in_order_of_harm",
            "chose the right layers, and left them in the order of their harm",
            "Sort the chosen numbers once more.",
            lambda harm, saved, excess: _by_harm(harm, _count(saved, excess)),
        ),
        Misconception(
            "too_little_saved_in_silence",
            "returned all layers where even they save too little: the caller believes that the budget is kept",
            "Raise ValueError if more layers are needed than there are.",
            lambda harm, saved, excess: sorted(_by_harm(harm, _count(saved, excess))),
        ),
        Misconception(
            "negative_count",
            "did not stop where nothing is to be saved: a negative count takes most layers",
            "`[:count]` with a negative count drops from the end. Use `max(0, …)`.",
            lambda harm, saved, excess: sorted(_by_harm(harm, math.ceil(excess / saved))),
        ),
    ),
    variants=(Variant("one_after_another", _one_after_another),),
)
