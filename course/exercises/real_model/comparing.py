"""Which layer of a port is the wrong one?"""

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import real_model as ref

CLOSE = 1e-3
ROUNDING = 1e-4  # the noise of a right layer, as a share of its largest number


def _one_number_less(theirs):
    """One number of many, too small by a little more than is allowed."""
    wrong = theirs.copy()
    wrong.flat[theirs.size // 2] -= 3 * CLOSE * np.abs(theirs).max()
    return wrong


def _all_numbers_less(theirs):
    return theirs - 0.5 * np.abs(theirs)


def _no_number(theirs):
    wrong = theirs.copy()
    wrong[0, -1, 0] = np.nan
    return wrong


def _models(sizes, wrong, how=lambda theirs: 1.5 * theirs, *, tokens=11, negative=(), close=CLOSE, exchanged=False):
    """Layers whose largest numbers are about `sizes`; those in `wrong` are spoiled, all are rounded. `exchanged`: theirs are spoiled."""

    def make(draw: Draw):
        theirs = [size * draw.normal(1, tokens, 7) / 3 for size in sizes]
        theirs = [-np.abs(x) if i in negative else x for i, x in enumerate(theirs)]
        ours = [how(x) if i in wrong else x for i, x in enumerate(theirs)]
        ours = [
            a + ROUNDING * np.abs(b).max() * draw.uniform(*b.shape, low=-1.0, high=1.0) for a, b in zip(ours, theirs, strict=True)
        ]
        return {"ours": theirs, "theirs": ours, "close": close} if exchanged else {"ours": ours, "theirs": theirs, "close": close}

    return make


def _first(
    *,
    measure=torch.max,
    among=lambda b, theirs: b,
    of=lambda a, b: b,
    size=lambda b, measure: measure(b.abs()),
    gap=torch.abs,
    agree=lambda gap, limit: gap <= limit,
    order=lambda layers: layers,
    counted_from=0,
    none=len,
    lost=lambda a, b: torch.tensor(False),
):
    """The first of some layers whose `gap`, measured, is beyond the limit that the `size` of its numbers allows, or that are `lost`."""

    def answer(ours, theirs, close):
        for i, (a, b) in order(list(enumerate(zip(ours, theirs, strict=True)))):
            if lost(a, b) or not agree(measure(gap(a - b)), close * size(among(of(a, b), theirs), measure)).all():
                return i + counted_from
        return none(theirs) + counted_from

    return answer


def _by_infinity_norm(ours, theirs, close):
    found = [
        i
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True))
        if bool((a - b).isnan().any())
        or float(torch.linalg.vector_norm(a - b, torch.inf)) > close * float(torch.linalg.vector_norm(b, torch.inf))
    ]
    return found[0] if found else len(theirs)


def _entry_by_entry(ours, theirs, close):
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        limit = close * max(abs(float(x)) for x in b.flatten())
        if not all(abs(float(x) - float(y)) <= limit for x, y in zip(a.flatten(), b.flatten(), strict=True)):
            return i
    return len(ours)


FIRST_DIFFERENCE = Exercise(
    "first_difference",
    title="Which layer is it?",
    points=2,
    kind="use",
    difficulty=2,
    minutes=9,
    reference=ref.first_difference,
    recipe=Made(_first),
    tensors=True,
    cases=(
        Case("wrong from the second layer on", _models((1, 3, 9), (1, 2))),
        Case("larger and larger numbers", _models((1, 20, 400, 8000), (3,), _all_numbers_less)),
        Case("one number of many", _models((5, 2, 3), (1,), _one_number_less, tokens=37)),
        Case("a small layer among large ones", _models((900, 0.5, 900, 700), (1, 3))),
        Case("a layer of negative numbers", _models((6, 3, 4), (2,), negative=(0,))),
        Case("a number that is none", _models((2, 3, 5, 7), (1,), _no_number), edge=0.1),
        Case("a number of theirs that is none", _models((2, 5, 3, 7), (2,), _no_number, exchanged=True), edge=0.1),
        Case("no difference", _models((3, 2, 11, 5, 7), ()), edge=0.2),
        Case("a wide limit", _models((3, 5, 2), (1,), lambda theirs: 1.6 * theirs, close=0.5), edge=0.2),
        Case("a layer of zeros", _models((3, 0, 2), (2,)), edge=0.2),
    ),
    hints=(
        "What may two right layers differ by, and what makes that small for one layer and large for another?",
        "For each layer compare two numbers: the largest absolute difference, and `close` times the largest absolute value of `theirs`. "
        "Go from the first layer on, and stop at the first that fails.",
        "`(a - b).abs().max()` and `b.abs().max()` are the two. With NaN on one side every comparison is False: which way round must you "
        'ask, so that False means "they differ"?',
    ),
    misconceptions=(
        Misconception(
            "absolute",
            "compared the difference with `close` itself: rounding in a layer of large numbers looks like a mistake",
            "Rounding errors grow with the numbers. Allow `close * b.abs().max()`.",
            Instead(size=lambda b, measure: 1.0),
        ),
        Misconception(
            "nan_passes",
            "let NaN pass: where a number is NaN, no difference is seen",
            "A comparison with NaN is False. Ask of the numbers as they are whether they **agree**, `difference <= limit`, and take `not` of that.",
            Instead(agree=lambda gap, limit: ~(gap > limit)),
        ),
        Misconception(
            "nan_of_one_side_passes",
            "saw NaN in one of the two models only, and let it pass in the other",
            "Either may hold NaN, and then they differ. Ask whether they **agree**, `difference <= limit`, and take `not` of that: it sees both.",
            Instead(agree=lambda gap, limit: ~(gap > limit), lost=lambda a, b: a.isnan().any()),
            also=(Instead(agree=lambda gap, limit: ~(gap > limit), lost=lambda a, b: b.isnan().any()),),
        ),
        Misconception(
            "limit_excluded",
            "called two layers different that differ by the limit itself: two layers of zeros do",
            "They differ by **more** than the limit: what is equal to it is allowed. Ask for `<=`, then take `not`.",
            Instead(agree=lambda gap, limit: gap < limit),
        ),
        Misconception(
            "mean_difference",
            "measured all differences of a layer together, by a mean or a norm: one wrong number among many does not show",
            "The **largest** difference. One token may be wrong where all others are right.",
            Instead(measure=torch.mean),
            also=(Instead(measure=torch.mean, size=lambda b, measure: b.abs().max()), Instead(measure=torch.linalg.vector_norm)),
        ),
        Misconception(
            "signed",
            "took no absolute value: where ours are too small, the difference is negative and nothing is seen",
            "`(a - b).abs()`.",
            Instead(gap=lambda gap: gap),
        ),
        Misconception(
            "signed_limit",
            "took the largest number of `theirs` with its sign: where the large numbers are negative, rounding looks like a mistake",
            "The largest **absolute** value: `b.abs().max()`.",
            Instead(size=lambda b, measure: measure(b)),
        ),
        Misconception(
            "each_by_its_own_size",
            "allowed each number a share of its own size: rounding in a number near 0 looks like a mistake",
            "The limit is one number for a layer: `close` times its **largest** absolute value. (`allclose` has `atol` for this.)",
            Instead(measure=lambda x: x),
        ),
        Misconception(
            "limit_of_ours",
            "took the limit from the largest number of ours: where ours are too large, more is forgiven",
            "What is right is `theirs`: the limit is `close` times *its* largest absolute value.",
            Instead(of=lambda a, b: a),
        ),
        Misconception(
            "one_scale_for_all",
            "measured all layers by the largest number of all: a mistake in a layer of small numbers is not seen",
            "Each layer has a limit of its own.",
            Instead(among=lambda b, theirs: torch.cat([x.flatten() for x in theirs])),
        ),
        Misconception(
            "last_difference",
            "found the last layer that differs; what comes after the first only passes its mistake on",
            "Return at the first one.",
            Instead(order=reversed),
        ),
        Misconception(
            "counted_from_one",
            "counted layers from 1",
            "`enumerate` counts from 0, as the course does.",
            Instead(counted_from=1),
            also=(Instead(counted_from=1, none=lambda theirs: len(theirs) - 1),),
        ),
        Misconception(
            "minus_one",
            "returned -1 where nothing differs: used as an index, that is the last layer",
            "Return how many layers there are: `len(theirs)`.",
            Instead(none=lambda theirs: -1),
        ),
        Misconception(
            "last_where_none",
            "returned the number of the last layer where nothing differs: it is accused, and is right",
            "Return how many layers there are: `len(theirs)`.",
            Instead(none=lambda theirs: len(theirs) - 1),
        ),
    ),
    variants=(Variant("by_infinity_norm", _by_infinity_norm), Variant("entry_by_entry", _entry_by_entry)),
)
