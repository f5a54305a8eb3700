"""Positions on some of the features."""

import torch

from autograder import Before, Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Variant
from solutions import smaller_caches as ref
from solutions.lib.rope import apply_rope, rotate_half_rope

PREDICT_PARTIAL = Prediction(
    "predict_partial",
    title="Predict: half of the pairs don't rotate",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "about 15",
        "b": "about 60",
        "c": "about 290, as without any positions",
        "d": "more than 1,000",
    },
    holds="a",
    reveal="**a**, 15.2 instead of 14.2. Of the 16 slow pairs 14 move by less than one radian in 512 tokens, so the model can hardly use "
    "them for positions on a text of this length.",
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
    title="Find the bug: the model that lost its positions",
    kind="bug",
    points=1,
    difficulty=2,
    minutes=8,
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
        "With all pairs the draft is right, so compare what `apply_rope` gets in the two cases. Apart from the values, what is different about "
        "its input?",
        "By which angle does `apply_rope` rotate pair 1 of a row of 64 features, and by which angle in a row of 32? The model was trained with "
        "one of the two.",
        "The angles are powers of the base with the exponents $-2i/d$, so a narrower row gets other angles. Let `apply_rope` see the whole row, "
        "and decide afterwards which features you take from its result and which from `x`.",
    ),
    misconceptions=(
        Misconception(
            "angles_of_a_narrower_head",
            "rotated the first features as if they were a whole head, as the draft does, so the angles are not those of training",
            "The angles depend on $d$. Rotate all features, then keep the ones you want.",
            Instead(narrow=True),
        ),
        Misconception(
            "slowest_pairs",
            "rotated the **slowest** pairs and left the fast ones as they are",
            "Pair 0 is the fastest, so take the first `2 * pairs` features.",
            Instead(turns=lambda pairs, d: slice(d - 2 * pairs, d)),
            also=(Instead(turns=lambda pairs, d: slice(-2 * pairs, None)),),  # with no pairs these are all
        ),
        Misconception(
            "features_for_pairs",
            "rotated `pairs` features instead of `pairs` pairs",
            "A pair has two features, so use `2 * pairs`.",
            Instead(turns=lambda pairs, d: slice(pairs)),
        ),
        Misconception(
            "half_split",
            "looked for the two features of a pair in two halves, as in the half-split layout",
            "In the interleaved layout the two features of a pair are neighbours.",
            Instead(rotate=rotate_half_rope, turns=_first_of_each_half),
            also=(Instead(rotate=rotate_half_rope), Instead(turns=_first_of_each_half)),
        ),
        Misconception(
            "all_pairs",
            "rotated all pairs",
            "Rotate only the `pairs` fastest ones. The others stay as they are in `x`.",
            Instead(turns=lambda pairs, d: slice(d)),
        ),
        Misconception(
            "others_dropped",
            "set the other features to 0, although they only should not rotate",
            "Take the other features from `x`.",
            Instead(rest=torch.zeros_like),
        ),
        Misconception(
            "base_ignored",
            "rotated with the base 10000, whatever was given",
            "Pass `base` on to `apply_rope`.",
            Instead(with_base=lambda base: 10_000.0),
        ),
        Misconception(
            "half_the_exponent",
            "rotated pair $i$ by $base^{-i/d}$ per position",
            "The angle is $base^{-2i/d}$, so the exponents go from 0 to nearly -1 over all pairs. `apply_rope` computes it.",
            Instead(with_base=lambda base: base**0.5),
        ),
        Misconception(
            "twice_the_exponent",
            "rotated pair $i$ by $base^{-4i/d}$ per position",
            "The angle is $base^{-2i/d}$, where $i$ counts **pairs** and not features. `apply_rope` computes it.",
            Instead(with_base=lambda base: base**2),
        ),
        Misconception(
            "turned_already",
            "computed the second number of each pair from the first one after it had been rotated",
            "Both numbers come from the old pair. Keep the old first number until both are computed.",
            Instead(rotate=_overwriting),
        ),
        Misconception(
            "rows_numbered",
            "numbered the rows 0, 1, 2, … instead of using `pos`",
            "Row $i$ of `x` is at position `pos[i]`, so pass `pos` on.",
            Before(lambda pos, **_: {"pos": torch.arange(len(pos))}),
        ),
        Misconception(
            "turned_backwards",
            "rotated the pairs in the opposite direction",
            "$(a, b)$ becomes $(a \\cos \\varphi - b \\sin \\varphi,\\; a \\sin \\varphi + b \\cos \\varphi)$, as `apply_rope` does it.",
            Before(lambda pos, **_: {"pos": -pos}),
        ),
    ),
    variants=(Variant("by_angles", _by_angles), Variant("two_slices", _both_parts)),
)
