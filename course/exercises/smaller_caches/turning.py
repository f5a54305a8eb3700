"""Positions on some of the features."""

import torch

from autograder import Before, Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import smaller_caches as ref
from solutions.positions import apply_rope, rotate_half_rope

PREDICT_PARTIAL = Exercise(
    "predict_partial",
    title="Predict: half of the pairs stand still",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "about 15: it hardly notices",
        "b": "about 60",
        "c": "about 290, as without any positions (lesson 11)",
        "d": "more than 1,000: worse than without positions",
    },
    holds="a",
    reveal="**a**: 15.2 instead of 14.2, with no training. Of the 16 slow pairs 14 turn by less than one radian in 512 tokens, so that "
    "these features hardly change on a text of this length. So they can carry *what* a token is, and leave *where* to the fast pairs.",
)


def _heads(n, d, pairs, *, first=0):
    def make(draw: Draw):
        pos = first + draw.rng.permutation(2 * n)[:n]
        return {"x": draw.normal(2, n, d).round(2), "pos": pos, "pairs": pairs, "base": draw.choice((20.0, 50.0, 100.0))}

    return make


def _by_angles(x, pos, pairs, base):
    """The angles of the other pairs set to 0."""
    d = x.shape[-1]
    angle = pos[:, None] * base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    angle[:, pairs:] = 0
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], -1).flatten(-2)


def _both_parts(x, pos, pairs, base):
    return torch.cat([apply_rope(x, pos, base)[..., : 2 * pairs], x[..., 2 * pairs :]], dim=-1)


def _partial(
    *, turns=lambda pairs, d: slice(2 * pairs), narrow=False, rotate=apply_rope, with_base=lambda base: base, rest=torch.clone
):
    """The features `turns` are taken from rotated rows, the others from the `rest`; `narrow` rotates these features alone."""

    def answer(x, pos, pairs, base):
        y, those = rest(x), turns(pairs, x.shape[-1])
        if narrow:
            y[..., those] = rotate(x[..., those], pos, with_base(base))
        else:
            y[..., those] = rotate(x, pos, with_base(base))[..., those]
        return y

    return answer


def _overwriting(x, pos, base):
    """Each pair's first number is turned, and the second out of what it has become."""
    angle = pos[:, None] * base ** (-torch.arange(0, x.shape[-1], 2, dtype=x.dtype) / x.shape[-1])
    even = x[..., 0::2] * angle.cos() - x[..., 1::2] * angle.sin()
    return torch.stack([even, even * angle.sin() + x[..., 1::2] * angle.cos()], -1).flatten(-2)


def _first_of_each_half(pairs, d):
    return [i for i in range(d) if i % (d // 2) < pairs]


PARTIAL_ROPE = Exercise(
    "partial_rope",
    title="Turn the fast pairs alone",
    points=1,
    difficulty=2,
    minutes=6,
    reference=ref.partial_rope,
    recipe=Made(_partial),
    tensors=True,
    cases=(
        Case("one of two pairs", _heads(3, 4, 1)),
        Case("two of five pairs", _heads(3, 10, 2, first=2)),
        Case("five of seven pairs", _heads(5, 14, 5, first=1)),
        Case("all pairs", _heads(3, 6, 3), edge=0.2),
        Case("none", _heads(3, 6, 0), edge=0.2),
    ),
    hints=(
        "Which features belong to pair $i$, and which pairs turn fastest? What does `apply_rope` do to those that shall turn?",
        "Pair 0 is the fastest, and in the interleaved layout its features come first. So the answer is made of two slices: one of the "
        "rotated rows, one of `x`.",
        "`pairs` pairs are `2 * pairs` features. Rotate **all** features first: what would change if you handed `apply_rope` a narrower `x`?",
    ),
    misconceptions=(
        Misconception(
            "angles_of_a_narrower_head",
            "rotated the first features as if they were a whole head: other angles than the model was trained with",
            "The angles depend on $d$. Rotate all features, then keep the ones you want.",
            Instead(narrow=True),
        ),
        Misconception(
            "slowest_pairs",
            "turned the **slowest** pairs and left the fast ones",
            "Pair 0 is the fastest: the first `2 * pairs` features.",
            Instead(turns=lambda pairs, d: slice(d - 2 * pairs, d)),
            also=(Instead(turns=lambda pairs, d: slice(-2 * pairs, None)),),  # with no pairs these are all
        ),
        Misconception(
            "features_for_pairs",
            "turned `pairs` features, not pairs",
            "A pair has two features: `2 * pairs`.",
            Instead(turns=lambda pairs, d: slice(pairs)),
        ),
        Misconception(
            "half_split",
            "looked for the two features of a pair in two halves, as in the half-split layout, and not side by side",
            "The interleaved layout: neighbours are partners.",
            Instead(rotate=rotate_half_rope, turns=_first_of_each_half),
            also=(Instead(rotate=rotate_half_rope), Instead(turns=_first_of_each_half)),
        ),
        Misconception(
            "all_pairs",
            "turned all pairs",
            "Only the `pairs` fastest; the others stay as they are in `x`.",
            Instead(turns=lambda pairs, d: slice(d)),
        ),
        Misconception(
            "others_dropped",
            "set the other features to 0: they must stay, they only do not turn",
            "Take them from `x`.",
            Instead(rest=torch.zeros_like),
        ),
        Misconception(
            "base_ignored",
            "rotated with the base 10000, whatever was given",
            "Pass `base` on.",
            Instead(with_base=lambda base: 10_000.0),
        ),
        Misconception(
            "half_the_exponent",
            "turned pair $i$ by $base^{-i/d}$ a position",
            "By $base^{-2i/d}$: the exponents go from 0 to nearly -1 over all pairs. `apply_rope` does it.",
            Instead(with_base=lambda base: base**0.5),
        ),
        Misconception(
            "twice_the_exponent",
            "turned pair $i$ by $base^{-4i/d}$ a position",
            "By $base^{-2i/d}$, with $i$ the number of the **pair**, not of its first feature. `apply_rope` does it.",
            Instead(with_base=lambda base: base**2),
        ),
        Misconception(
            "turned_already",
            "made the second number of each pair out of the first one that had been turned already",
            "Both are made of the old pair: $(a \\cos \\varphi - b \\sin \\varphi,\\; a \\sin \\varphi + b \\cos \\varphi)$. Keep $a$ until both are done.",
            Instead(rotate=_overwriting),
        ),
        Misconception(
            "rows_numbered",
            "numbered the rows 0, 1, 2, … instead of taking `pos`",
            "Row $i$ of `x` stands at `pos[i]`: pass `pos` on.",
            Before(lambda pos, **_: {"pos": torch.arange(len(pos))}),
        ),
        Misconception(
            "turned_backwards",
            "turned the pairs the other way round",
            "$(a, b)$ becomes $(a \\cos \\varphi - b \\sin \\varphi,\\; a \\sin \\varphi + b \\cos \\varphi)$, as `apply_rope` does it.",
            Before(lambda pos, **_: {"pos": -pos}),
        ),
    ),
    variants=(Variant("by_angles", _by_angles), Variant("two_slices", _both_parts)),
)
