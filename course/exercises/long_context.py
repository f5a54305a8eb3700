"""Workshop 06d: stretching rotary positions beyond the length of training."""

import math

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Tolerance, Variant
from solutions import long_context as ref

TURN = 2 * math.pi


def _head(d: int, base: float, trained: int):
    return lambda draw: {"d": d, "base": base, "trained": trained}


def _drawn_head(draw: Draw):
    return {
        "d": 2 * int(draw.rng.integers(12, 70)),
        "base": float(draw.rng.integers(5_000, 600_000)),
        "trained": int(draw.rng.integers(500, 20_000)),
    }


def _pairs(
    *,
    turn=TURN,
    exponent=lambda i, d: 2 * i / d,
    count=lambda d: range(d // 2),
    asked=lambda angle, turn: angle < turn,
):
    """The count with one part replaced by a mistake."""

    def answer(d, base, trained):
        return sum(bool(asked(trained * base ** -exponent(i, d), turn)) for i in count(d))

    return answer


def _by_wavelength(d, base, trained):
    theta = base ** (-np.arange(0, d, 2) / d)
    return int((2 * np.pi / theta > trained).sum())


def _solved_for_i(d, base, trained):
    """The first pair that is too slow, from the inequality solved for i."""
    first = d * math.log(trained / TURN) / (2 * math.log(base))
    return d // 2 - min(d // 2, max(0, math.floor(first) + 1))


UNFINISHED_PAIRS = Exercise(
    "unfinished_pairs",
    title="Estimate: which pairs never completed a turn?",
    kind="estimate",
    points=1,
    difficulty=2,
    minutes=7,
    reference=ref.unfinished_pairs,
    recipe=Made(_pairs),
    cases=(
        Case("two pairs", _head(4, 10_000.0, 100)),
        Case("SmolLM2", _head(64, 1e5, 8192)),
        Case("another head", _drawn_head),
        Case("and another", _drawn_head),
        Case("a text so long that every pair completes a turn", _head(8, 100.0, 5000), edge=0.15),
        Case("a text so short that no pair completes a turn", _head(8, 100.0, 6), edge=0.15),
    ),
    hints=(
        "By what angle does pair i rotate over all the tokens of training? What angle is one full turn?",
        "Pair i rotates by θ_i = b^(−2i/d) radians per token, so by L θ_i radians in L tokens. Compare that with 2π for each of the "
        "d/2 pairs.",
        "Pair i makes `trained * base ** (-2 * i / d) / (2 * math.pi)` full turns. For how many i from 0 to d/2 − 1 is that below 1?",
    ),
    misconceptions=(
        Misconception(
            "one_radian",
            "took one radian for a full turn",
            "The frequencies are in radians per token, and a full turn has 2π radians.",
            Instead(turn=1.0),
        ),
        Misconception(
            "half_a_turn",
            "took π for a full turn",
            "A full turn has 2π radians.",
            Instead(turn=math.pi),
        ),
        Misconception(
            "degrees",
            "compared radians with 360",
            "The frequencies are in radians per token, and a full turn has 2π radians.",
            Instead(turn=360.0),
        ),
        Misconception(
            "finished_counted",
            "counted the pairs that did complete a turn",
            "The question is how many pairs rotated by less than 2π.",
            Instead(asked=lambda angle, turn: angle >= turn),
        ),
        Misconception(
            "exponent_halved",
            "took i/d for the exponent, so the frequencies fall half as fast as they should",
            "Pair i has the frequency b^(−2i/d).",
            Instead(exponent=lambda i, d: i / d),
        ),
        Misconception(
            "features_for_pairs",
            "counted d pairs, although a head of width d has d/2",
            "Two features make a pair, so i runs from 0 to d/2 − 1.",
            Instead(count=lambda d: range(d)),
        ),
        Misconception(
            "pairs_from_one",
            "numbered the pairs from 1",
            "Pair 0 rotates by one radian per token, so i runs from 0 to d/2 − 1.",
            Instead(count=lambda d: range(1, d // 2 + 1)),
        ),
    ),
    variants=(Variant("by_wavelength", _by_wavelength), Variant("solved_for_i", _solved_for_i)),
)


def _stretch(d: int, base: float, factor: float):
    return lambda draw: {"d": d, "base": base, "factor": factor}


def _drawn_stretch(draw: Draw):
    return {
        "d": 2 * int(draw.rng.integers(5, 65)),
        "base": float(draw.rng.integers(5_000, 600_000)),
        "factor": float(draw.rng.uniform(1.5, 9.0)),
    }


def _base(*, exponent=lambda d: d / (d - 2), times=lambda base, factor, power: base * factor**power):
    """The base with one part replaced by a mistake."""

    def answer(d, base, factor):
        return times(base, factor, exponent(d))

    return answer


STRETCHED_BASE = Exercise(
    "stretched_base",
    title="Design: a base for a longer text",
    kind="design",
    points=1.5,
    difficulty=3,
    minutes=8,
    reference=ref.stretched_base,
    recipe=Made(_base),
    tolerance=Tolerance(rtol=1e-6, atol=0.0),  # exact up to rounding: d/(d − 1) for d/(d − 2) is off by 0.01 % at d = 128
    cases=(
        Case("two pairs", _stretch(4, 10_000.0, 3.0)),
        Case("SmolLM2, twice the length", _stretch(64, 1e5, 2.0)),
        Case("another head", _drawn_stretch),
        Case("nothing to stretch", _stretch(16, 500.0, 1.0), edge=0.1),
    ),
    hints=(
        "Which i belongs to the slowest pair? Write its frequency with the old base b and with the new base b′.",
        "The slowest pair is i = d/2 − 1, so its exponent is −(d − 2)/d. You want b′^(−(d − 2)/d) = b^(−(d − 2)/d) / s. Solve for b′.",
        "Raise both sides to the power −d/(d − 2). What remains of s on the right-hand side?",
    ),
    misconceptions=(
        Misconception(
            "base_times_factor",
            "multiplied the base by the factor, which slows the slowest pair by a little less",
            "The slowest pair has the exponent −(d − 2)/d and not −1, so the base must grow by slightly more than s.",
            Instead(exponent=lambda d: 1.0),
        ),
        Misconception(
            "inverse_exponent",
            "raised the factor to the power (d − 2)/d",
            "Solving b′^(−(d − 2)/d) = b^(−(d − 2)/d) / s for b′ turns the exponent of s upside down.",
            Instead(exponent=lambda d: (d - 2) / d),
        ),
        Misconception(
            "base_lowered",
            "lowered the base, which makes the slowest pair faster",
            "The frequency is b^(−2i/d), so a larger base makes every pair but the first slower.",
            Instead(times=lambda base, factor, power: base / factor**power),
        ),
        Misconception(
            "feature_for_pair",
            "took (d − 1)/d for the exponent of the slowest pair",
            "Its exponent is 2i/d with i = d/2 − 1, which is (d − 2)/d.",
            Instead(exponent=lambda d: d / (d - 1)),
        ),
        Misconception(
            "only_the_factor",
            "returned the number by which the base grows, without the base",
            "Multiply it by the old base.",
            Instead(times=lambda base, factor, power: factor**power),
        ),
        Misconception(
            "everything_to_the_power",
            "raised the old base to the power as well",
            "On the right-hand side only s keeps the exponent d/(d − 2).",
            Instead(times=lambda base, factor, power: (base * factor) ** power),
        ),
        Misconception(
            "all_pairs_at_once",
            "chose the base for which pair 1 slows down by the factor",
            "Pair 1 has the exponent −2/d. The condition is on the slowest pair.",
            Instead(exponent=lambda d: d / 2),
        ),
    ),
    variants=(
        Variant("by_pairs", lambda d, base, factor: base * factor ** ((d // 2) / (d // 2 - 1))),
        Variant("by_logarithms", lambda d, base, factor: math.exp(math.log(base) + math.log(factor) * d / (d - 2))),
        Variant("through_the_slowest", lambda d, base, factor: ((base ** (-(d - 2) / d)) / factor) ** (-d / (d - 2))),
    ),
)


def _longer(d: int, base: float, trained: int, text: int):
    return lambda draw: {"d": d, "base": base, "trained": trained, "text": text}


def _drawn_text(draw: Draw):
    """A head some of whose pairs are unfinished, and a text at least half as long again as those of training."""
    trained = int(draw.rng.integers(500, 9000))
    return {
        "d": 2 * int(draw.rng.integers(14, 50)),
        "base": float(draw.rng.integers(20_000, 600_000)),
        "trained": trained,
        "text": int(trained * draw.rng.uniform(1.5, 6.0)),
    }


def _needed(
    *,
    first=lambda d, unfinished: d // 2 - unfinished,
    exponent=lambda d, i: (d - 2) / (2 * i),
    longer=lambda text, trained: text / trained,
    least=1.0,
    given=lambda factor, d, base: factor,
):
    """The factor with one part replaced by a mistake."""

    def answer(d, base, trained, text):
        unfinished = ref.unfinished_pairs(d, base, trained)
        if not unfinished:
            return given(1.0, d, base)
        factor = longer(text, trained) ** exponent(d, first(d, unfinished))
        return given(max(least, float(factor)), d, base)

    return answer


def _by_bisection(d, base, trained, text):
    """The factor at which the last pair leaves the new angles, found by halving."""
    old = base ** (-np.arange(0, d, 2) / d)
    slow = trained * old < TURN

    def fits(factor: float) -> bool:
        new = ref.stretched_base(d, base, factor) ** (-np.arange(0, d, 2) / d)
        return bool((text * new[slow] <= trained * old[slow] * (1 + 1e-12)).all())

    low, high = 1.0, 1.0
    while not fits(high):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _largest_of_all(d, base, trained, text):
    wanted = [1.0]
    for i in range(1, d // 2):
        if trained * base ** (-2 * i / d) < TURN:
            wanted.append((text / trained) ** ((d / 2 - 1) / i))
    return max(wanted)


FACTOR_NEEDED = Exercise(
    "factor_needed",
    title="Design: how large must the factor be?",
    kind="design",
    points=2,
    difficulty=3,
    minutes=10,
    reference=ref.factor_needed,
    recipe=Made(_needed),
    tolerance=Tolerance(rtol=1e-6, atol=0.0),  # a closed formula
    cases=(
        Case("four pairs, twice the length", _longer(8, 10_000.0, 100, 200)),
        Case("SmolLM2, twice the length", _longer(64, 1e5, 8192, 16_384)),
        Case("another head", _drawn_text),
        Case("and another", _drawn_text),
        Case("a text shorter than those of training", _longer(16, 10_000.0, 900, 300), edge=0.15),
        Case("every pair completed a turn", _longer(8, 100.0, 5000, 20_000), edge=0.15),
    ),
    hints=(
        "By what number does the new base divide the frequency of pair i? Divide the old frequency by the new one.",
        "With the factor s, pair i rotates s^(2i/(d − 2)) times as slowly as before. In a text that is r times as long as those of "
        "training it reaches no new angle if this number is at least r. Which of the unfinished pairs is slowed down least?",
        "The pair that decides is the fastest one that made no full turn. `unfinished_pairs` tells you its number i. Solve "
        "s^(2i/(d − 2)) = r for s, and look at the two cases in which nothing has to be stretched.",
    ),
    misconceptions=(
        Misconception(
            "slowest_pair",
            "made sure of the slowest pair only, although the base slows all others down by less",
            "Every unfinished pair must stay within its old angles. Which of them is slowed down least?",
            Instead(first=lambda d, unfinished: d // 2 - 1),
        ),
        Misconception(
            "last_finished_pair",
            "took the slowest pair that did complete a turn, which has no new angles",
            "The pairs are numbered from 0, so the first unfinished one has the number d/2 minus their count.",
            Instead(first=lambda d, unfinished: d // 2 - unfinished - 1),
        ),
        Misconception(
            "one_pair_too_slow",
            "counted the pairs from 1, so the fastest unfinished pair still reaches new angles",
            "The pairs are numbered from 0, so the first unfinished one has the number d/2 minus their count.",
            Instead(first=lambda d, unfinished: d // 2 - unfinished + 1),
        ),
        Misconception(
            "count_for_the_pair",
            "took the number of unfinished pairs for the number of the pair that decides",
            "The unfinished pairs are the *last* ones. With 12 of 32 pairs unfinished, the first of them is pair 20.",
            Instead(first=lambda d, unfinished: unfinished),
        ),
        Misconception(
            "exponent_of_the_base",
            "took the exponent d/2i, which leaves out how `stretched_base` enlarges the base",
            "The new base is b s^(d/(d − 2)), so pair i rotates s^(2i/(d − 2)) times as slowly.",
            Instead(exponent=lambda d, i: d / (2 * i)),
        ),
        Misconception(
            "upside_down",
            "turned the exponent upside down, so the factor is smaller than the text is longer",
            "You need s^(2i/(d − 2)) ≥ r. Raise both sides to the power (d − 2)/2i.",
            Instead(exponent=lambda d, i: (2 * i) / (d - 2)),
        ),
        Misconception(
            "pairs_for_features",
            "left out the 2 of the exponent 2i",
            "Pair i has the frequency b^(−2i/d).",
            Instead(exponent=lambda d, i: (d - 2) / i),
        ),
        Misconception(
            "the_base",
            "returned the new base instead of the factor",
            "The question asks for the factor s that you would give to `stretched_base`.",
            Instead(given=lambda factor, d, base: ref.stretched_base(d, base, factor)),
        ),
        Misconception(
            "below_one",
            "returned a factor below 1 for a short text",
            "A text no longer than those of training needs no stretching, and the factor is 1.",
            Instead(least=0.0),
        ),
        Misconception(
            "only_what_is_added",
            "compared the tokens beyond the training length with that length",
            "A pair rotates over the whole text, so the ratio that counts is `text / trained`.",
            Instead(longer=lambda text, trained: max(text - trained, 0) / trained),
        ),
    ),
    variants=(Variant("by_bisection", _by_bisection), Variant("largest_of_all", _largest_of_all)),
)


def _turning(*turns: float, factor: float, trained: int, slow: float, fast: float):
    """Pairs with about so many turns in training: each is moved by at most 4 %, which takes none across a border."""

    def make(draw: Draw):
        moved = np.array(turns) * draw.rng.uniform(0.96, 1.04, len(turns))
        return {"theta": TURN * moved / trained, "factor": factor, "trained": trained, "slow": slow, "fast": fast}

    return make


def _drawn_theta(draw: Draw):
    """Frequencies on both sides of both borders, and some between."""
    trained = int(draw.rng.integers(300, 9000))
    slow, fast = float(draw.rng.uniform(0.5, 2.0)), float(draw.rng.uniform(6.0, 30.0))
    below, between, above = draw.rng.uniform(0.1, 0.9, 3), draw.rng.uniform(0.1, 0.9, 4), draw.rng.uniform(1.2, 9.0, 3)
    turns = np.concatenate([above * fast, slow + between * (fast - slow), below * slow])
    factor = float(draw.rng.uniform(1.5, 8.0))
    return {"theta": TURN * turns / trained, "factor": factor, "trained": trained, "slow": slow, "fast": fast}


def _parts(
    *,
    turns=lambda theta, trained: trained * theta / TURN,
    ramp=lambda turns, slow, fast: (turns - slow) / (fast - slow),
    clamp=lambda kept: kept.clamp(0, 1),
    mix=lambda kept, theta, slowed: kept * theta + (1 - kept) * slowed,
    slowed=lambda theta, factor: theta / factor,
):
    """The stretching with one part replaced by a mistake."""

    def answer(theta, factor, trained, slow, fast):
        kept = clamp(ramp(turns(theta, trained), slow, fast))
        return mix(kept, theta, slowed(theta, factor))

    return answer


def _with_where(theta, factor, trained, slow, fast):
    t = trained * theta / TURN
    between = theta / factor + (t - slow) / (fast - slow) * (theta - theta / factor)
    return torch.where(t <= slow, theta / factor, torch.where(t >= fast, theta, between))


def _with_wavelengths(theta, factor, trained, slow, fast):
    wavelength = TURN / theta
    smooth = (trained / wavelength - slow) / (fast - slow)
    out = torch.where(wavelength > trained / slow, theta / factor, theta)
    medium = (wavelength <= trained / slow) & (wavelength >= trained / fast)
    return torch.where(medium, (1 - smooth) * theta / factor + smooth * theta, out)


def _with_lerp(theta, factor, trained, slow, fast):
    kept = ((trained * theta / TURN - slow) / (fast - slow)).clamp(0, 1)
    return torch.lerp(theta / factor, theta, kept)


def _one_by_one(theta, factor, trained, slow, fast):
    new = []
    for x in theta.tolist():
        t = trained * x / TURN
        kept = min(1.0, max(0.0, (t - slow) / (fast - slow)))
        new.append(kept * x + (1 - kept) * x / factor)
    return torch.tensor(new, dtype=theta.dtype)


BY_PARTS = Exercise(
    "by_parts",
    title="Find the bugs: stretch by parts",
    kind="bug",
    points=2,
    difficulty=3,
    minutes=9,
    tensors=True,
    reference=ref.by_parts,
    recipe=Made(_parts),
    cases=(
        Case("about 100, 3 and half a turn", _turning(100.0, 3.0, 0.5, factor=2.0, trained=100, slow=1, fast=5)),
        Case("many pairs", _drawn_theta),
        Case("other pairs", _drawn_theta),
        Case("no pair between the borders", _turning(30.0, 9.0, 1.5, 0.2, factor=4.0, trained=512, slow=2, fast=8), edge=0.1),
        Case("nothing to stretch", _turning(20.0, 4.0, 0.5, factor=1.0, trained=64, slow=1, fast=9), edge=0.1),
    ),
    hints=(
        "For each pair of the draft, ask what `turns` counts, at how many turns `kept` reaches 1, and what a pair does whose `kept` is 1/2.",
        "One bug is in the unit of `turns`. Another moves the upper border. For the third, take a pair with `kept` 1/2 and a factor of 3. "
        "Halfway between θ and θ/3 lies 2θ/3. What does the draft return?",
        "A full turn has 2π radians. `kept` should be 0 at `slow` and 1 at `fast`, so divide by the distance between them. And mix the two "
        "*frequencies* instead of their inverses.",
    ),
    misconceptions=(
        Misconception(
            "draft_unchanged",
            "left all three bugs in the draft",
            "Check the unit of `turns`, the number of turns at which `kept` reaches 1, and what becomes of a pair halfway between the borders.",
            Instead(
                turns=lambda theta, trained: trained * theta,
                ramp=lambda turns, slow, fast: (turns - slow) / fast,
                mix=lambda kept, theta, slowed: 1 / (kept / theta + (1 - kept) / slowed),
            ),
        ),
        Misconception(
            "radians_for_turns",
            "counted radians where the borders are in full turns",
            "A pair makes L θ / 2π full turns in L tokens.",
            Instead(turns=lambda theta, trained: trained * theta),
        ),
        Misconception(
            "fast_for_slow",
            "slowed down the fast pairs and kept the slow ones",
            "Fast pairs have seen the whole circle and keep their frequency. The slow pairs are divided by the factor.",
            Instead(mix=lambda kept, theta, slowed: (1 - kept) * theta + kept * slowed),
        ),
        Misconception(
            "not_cut_off",
            "let the line run on beyond the two borders",
            "The share of the old frequency lies between 0 and 1. Use `.clamp(0, 1)`.",
            Instead(clamp=lambda kept: kept),
        ),
        Misconception(
            "cut_off_below_only",
            "cut the line off below 0 but not above 1",
            "Pairs faster than `fast` keep exactly their old frequency, so cut the share off at 1 as well.",
            Instead(clamp=lambda kept: kept.clamp(min=0)),
        ),
        Misconception(
            "step_at_slow",
            "left out the part in between, so frequencies jump at `slow`",
            "Between `slow` and `fast` the new frequency mixes θ/s and θ, and the share of θ rises linearly with t.",
            Instead(ramp=lambda turns, slow, fast: (turns > slow) * 1.0),
        ),
        Misconception(
            "step_at_fast",
            "left out the part in between, so frequencies jump at `fast`",
            "Between `slow` and `fast` the new frequency mixes θ/s and θ, and the share of θ rises linearly with t.",
            Instead(ramp=lambda turns, slow, fast: (turns >= fast) * 1.0),
        ),
        Misconception(
            "line_from_zero",
            "began the line at 0 turns instead of at `slow`",
            "The share is 0 at `slow` and 1 at `fast`: (t − slow)/(fast − slow).",
            Instead(ramp=lambda turns, slow, fast: turns / fast),
            also=(Instead(ramp=lambda turns, slow, fast: turns / (fast - slow)),),
        ),
        Misconception(
            "divided_by_fast",
            "divided by `fast` where the length of the line is needed",
            "The line is `fast − slow` long, so that the share reaches 1 at `fast`.",
            Instead(ramp=lambda turns, slow, fast: (turns - slow) / fast),
        ),
        Misconception(
            "logarithmic",
            "let the share rise linearly with the logarithm of the turns",
            "Many implementations of YaRN do this, but here the share rises linearly with t itself, as in the paper.",
            Instead(ramp=lambda turns, slow, fast: torch.log(turns / slow) / math.log(fast / slow)),
        ),
        Misconception(
            "multiplied",
            "multiplied the slow frequencies by the factor",
            "A text that is s times as long needs frequencies that are s times as small.",
            Instead(slowed=lambda theta, factor: theta * factor),
        ),
        Misconception(
            "periods_mixed",
            "mixed the periods instead of the frequencies",
            "Mix θ and θ/s, not their inverses.",
            Instead(mix=lambda kept, theta, slowed: 1 / (kept / theta + (1 - kept) / slowed)),
        ),
        Misconception(
            "interpolated_everywhere",
            "divided all frequencies by the factor",
            "Only pairs with at most `slow` turns are divided by the whole factor.",
            Instead(mix=lambda kept, theta, slowed: slowed),
        ),
    ),
    variants=(
        Variant("where", _with_where),
        Variant("wavelengths", _with_wavelengths),
        Variant("lerp", _with_lerp),
        Variant("one_by_one", _one_by_one),
    ),
)


PREDICT_SHORT = Prediction(
    "predict_short",
    title="Predict: the price of a short text",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "halving all frequencies costs by far the most, and the others cost little",
        "b": "none of them costs anything, since a short text contains no unseen angle",
        "c": "leaving the slow pairs unrotated costs by far the most, since they lose their positions",
        "d": "all of them cost about the same, since each makes the slowest pairs half as fast or slower",
    },
    holds="a",
    reveal="**a.** Halving all frequencies also moves the previous token to half a token away, where no key has ever been. The other "
    "ways keep the fast pairs. The slow pairs hardly turn within 512 tokens, so it makes no great difference whether they turn at all.",
)

EXERCISES = (UNFINISHED_PAIRS, STRETCHED_BASE, FACTOR_NEEDED, BY_PARTS, PREDICT_SHORT)
