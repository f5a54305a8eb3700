"""Which layers to convert, and which caches are worth having."""

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


def _by_harm(harm, count):
    return sorted(range(len(harm)), key=lambda i: harm[i])[:count]


def _count(saved, excess):
    return max(0, math.ceil(excess / saved))


def _one_after_another(harm, saved, excess):
    chosen = set()
    while len(chosen) * saved < excess:
        chosen.add(min((h, i) for i, h in enumerate(harm) if i not in chosen)[1])
    return sorted(chosen)


LAYERS_TO_POOL = Exercise(
    "layers_to_pool",
    title="Which layers to convert",
    points=1.5,
    reference=ref.layers_to_pool,
    cases=(
        Case("two of four layers", _pooling(4, 2, 5)),
        Case("three of seven", _pooling(7, 3, 11)),
        Case("the bytes come out even", _pooling(6, 2, 0), edge=0.2),
        Case("nothing to save", _pooling(5, 0, 57), edge=0.2),
    ),
    hints=(
        "All layers save the same number of bytes. How many of them do you need, and which?",
        "Round excess / saved **up**: that many. Sort the layers by their harm, take the first ones, and sort these by number.",
        "`count = max(0, math.ceil(excess / saved))`; `sorted(sorted(range(len(harm)), key=lambda i: harm[i])[:count])`",
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
            "negative_count",
            "did not stop where nothing is to be saved: a negative count takes most layers",
            "`[:count]` with a negative count drops from the end. Use `max(0, …)`.",
            lambda harm, saved, excess: sorted(_by_harm(harm, math.ceil(excess / saved))),
        ),
    ),
    variants=(Variant("one_after_another", _one_after_another),),
)


def _points(draw: Draw):
    """A front that is not convex, a waste, a point as dear as a better one, one as lossy as a cheaper one, and a twin."""
    costs = sorted(draw.rng.choice(range(2, 60), 5, replace=False).tolist())
    a, b, c, d, e = (float(cost) for cost in costs)
    high = round(float(draw.uniform(low=8.0, high=9.0)), 2)
    names = [f"{letter}{draw.integer(1, 99)}" for letter in draw.rng.permutation(list("pqrstuvw")).tolist()]
    losses = (high, high - 0.5, high - 5.0, high - 5.2)
    made = [(a, losses[0]), (b, losses[1]), (c, losses[2]), (e, losses[3])]
    made += [(d, losses[2] + 1.0), (c, losses[2] + 0.3), (d, losses[2]), (c, losses[2])]
    order = draw.rng.permutation(len(made)).tolist()
    if (order.index(2) < order.index(7)) == (names[2] < names[7]):  # the twins come in the wrong order
        names[2], names[7] = names[7], names[2]
    return {"points": {names[i]: made[i] for i in order}}


def _three(draw: Draw):
    cost, loss = draw.integer(1, 9), round(float(draw.uniform(low=3.0, high=4.0)), 1)
    return {"points": {"b": (cost + 2.0, loss - 1.0), "c": (cost + 3.0, loss + 1.0), "a": (float(cost), loss)}}


def _kept(points, beats, order=lambda name, points: (points[name][0], name)):
    kept = [n for n, p in points.items() if not any(beats(q, p) for m, q in points.items() if m != n)]
    return sorted(kept, key=lambda name: order(name, points))


def _beats(q, p):
    return q[0] <= p[0] and q[1] <= p[1] and q != p


def _sweep(points):
    """From cheap to dear, each that is better than all before, or the twin of the last that was kept."""
    kept, best = [], math.inf
    for name in sorted(points, key=lambda n: (points[n], n)):
        cost, loss = points[name]
        if loss < best or (kept and points[kept[-1]] == (cost, loss)):
            kept.append(name)
            best = loss
    return kept


def _one_twin(points):
    """A sweep that keeps only what is better than all before."""
    kept, best = [], math.inf
    for name in sorted(points, key=lambda n: (points[n], n)):
        if points[name][1] < best:
            kept.append(name)
            best = points[name][1]
    return kept


def _hull(points):
    front = _kept(points, _beats)

    def above(p, a, b):
        return (b[0] - a[0]) * (p[1] - a[1]) > (p[0] - a[0]) * (b[1] - a[1])

    spans = [(points[a], points[b]) for a in front for b in front if points[a][0] < points[b][0]]
    return [n for n in front if not any(a[0] < points[n][0] < b[0] and above(points[n], a, b) for a, b in spans)]


PARETO = Exercise(
    "pareto",
    title="What is worth having",
    points=1,
    reference=ref.pareto,
    cases=(Case("three points", _three), Case("eight points", _points), Case("eight others", _points)),
    hints=(
        "When would nobody take a certain cache? When there is another that is … and … Write that down for equal costs, too.",
        "For each point ask all others: is one of them `<=` in both and not equal to it? Then drop it. Sort the rest by (cost, name).",
        "`beaten = any(c <= cost and q <= loss and (c, q) != (cost, loss) for c, q in points.values())`",
    ),
    misconceptions=(
        Misconception(
            "strictly_in_both",
            "dropped a point only if another is better in **both**: points as dear as a better one stayed",
            "Equal in one and better in the other is enough to beat a point.",
            lambda points: _kept(points, lambda q, p: q[0] < p[0] and q[1] < p[1]),
        ),
        Misconception(
            "twins_dropped",
            "dropped points because of their equals: both of a pair are gone",
            "A point is not beaten by one that is equal to it in both.",
            lambda points: _kept(points, lambda q, p: q[0] <= p[0] and q[1] <= p[1]),
        ),
        Misconception(
            "one_twin_dropped",
            "kept only one of two equal points",
            "Neither beats the other: both stay.",
            _one_twin,
        ),
        Misconception(
            "beaten_ones_kept",
            "kept the beaten points and dropped the good ones",
            "Keep those that **no** other point beats.",
            lambda points: sorted((n for n in points if n not in _kept(points, _beats)), key=lambda n: (points[n][0], n)),
        ),
        Misconception(
            "convex_hull",
            "kept only the corners of the convex hull: a good point behind the line between two others is gone",
            "A mixture of two caches cannot be built. Compare with single points.",
            _hull,
        ),
        Misconception(
            "by_loss",
            "sorted by loss",
            "By rising **cost**.",
            lambda points: _kept(points, _beats, lambda name, points: (points[name][1], name)),
        ),
        Misconception(
            "as_given",
            "left the points in the order in which they were given",
            "By rising cost, and equal costs by name.",
            lambda points: [name for name in points if name in _kept(points, _beats)],
        ),
        Misconception(
            "equal_costs_as_given",
            "left points of equal cost in the order in which they were given",
            "Sort by (cost, name).",
            lambda points: _kept(points, _beats, lambda name, points: points[name][0]),
        ),
        Misconception(
            "more_is_better",
            "took more to be better",
            "Cost and loss: less is better in both.",
            lambda points: _kept(points, lambda q, p: q[0] >= p[0] and q[1] >= p[1] and q != p),
        ),
    ),
    variants=(Variant("a_sweep", _sweep),),
)
