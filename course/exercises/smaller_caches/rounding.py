"""Notebook 12: a rounding that is too good to be true."""

import numpy as np
import torch

from autograder import Before, Case, Draw, Exercise, Instead, Misconception, Tolerance, Variant
from solutions import smaller_caches as ref


def _numbers(shape, bits, dim):
    """Random numbers off zero."""

    def make(draw: Draw):
        while True:
            x = (draw.normal(*shape, scale=2.0) + draw.uniform(low=0.5, high=1.5)).round(2)
            ends = [*_all_ends(x)]
            if all(_clear(x, *both, gaps) for both in ends for gaps in (2**bits - 1, 2**bits)) and all(
                _nearest_to_zero(*both, bits) > 0.02 for both in ends[: x.ndim + 1]
            ):
                return {"x": x, "bits": bits, "dim": dim}

    return make


def _all_ends(x):
    """The ends of the groups along every axis, of the whole, and from zero: along the right axis, and as mistakes take them."""
    for axis in range(x.ndim):
        yield x.min(axis, keepdims=True), x.max(axis, keepdims=True)
    yield x.min(), x.max()
    for axis in range(x.ndim):
        yield 0.0, x.max(axis, keepdims=True)


def _clear(x, least, largest, gaps):
    """Whether float32 rounds as float64 does: no number half-way between levels."""
    return np.all(largest != least) and abs((x - least) / (largest - least) * gaps % 1 - 0.5).min() > 1e-4


def _nearest_to_zero(least, largest, bits):
    """The absolute value of the level nearest to zero: float32 has few digits of it, because the start and the steps cancel."""
    return min(np.abs(least + share * (largest - least)).min() for share in np.linspace(0, 1, 2**bits))


def _with_a_constant_group(draw: Draw):
    given = _numbers((3, 5), 2, 1)(draw)
    given["x"][1] = given["x"][1, 0]
    return given


def _nearly_equal(draw: Draw):
    """Groups whose numbers differ by less than 1e-8, and not by 0: the levels lie as close."""
    given = _numbers((3, 5), 2, 1)(draw)
    return {**given, "x": given["x"] * 2e-10}


def _ends(x, dim):
    return x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)


def _round(
    x,
    bits,
    dim,
    *,
    ends=_ends,
    gaps=lambda bits: 2**bits - 1,
    how=torch.round,
    most=None,
    above_zero=lambda step: step.clamp(min=1e-30),
    back=lambda code, step, least: code * step + least,
):
    """From one of the `ends` to the other in so many steps; with `most`, codes are cut there."""
    least, largest = ends(x, dim)
    step = (largest - least) / gaps(bits)
    code = how((x - least) / above_zero(step))
    return back(code if most is None else code.clamp(max=most(bits)), step, least)


def _as_it_is(step):
    return step


def _down(y):
    return torch.floor(y + 1e-6)


def _from_zero(x, dim):
    largest = x.abs().amax(dim, keepdim=True)
    return torch.zeros_like(largest), largest


def _to_a_table(x, bits, dim):
    """All levels written down; each number takes the nearest."""
    least, largest = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    share = torch.arange(2**bits, dtype=x.dtype) / (2**bits - 1)
    levels = least[..., None] * (1 - share) + largest[..., None] * share
    nearest = (x[..., None] - levels).abs().argmin(-1, keepdim=True)
    return levels.expand(*x.shape, -1).gather(-1, nearest)[..., 0]


def _between_zero_and_one(x, bits, dim):
    least, spread = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True) - x.amin(dim, keepdim=True)
    unit = torch.where(spread > 0, (x - least) / spread.where(spread > 0, torch.ones_like(spread)), 0.0)
    return (unit * (2**bits - 1)).round() / (2**bits - 1) * spread + least


def _codes_without_nan(x, bits, dim):
    least, largest = _ends(x, dim)
    step = (largest - least) / (2**bits - 1)
    return ((x - least) / step).round().nan_to_num() * step + least


ROUND_TO_BITS = Exercise(
    "round_to_bits",
    title="Find the bug: a perplexity too good to be true",
    points=1.5,
    kind="bug",
    difficulty=3,
    minutes=6,
    reference=ref.round_to_bits,
    recipe=_round,
    tensors=True,
    cases=(
        Case("two bits, by rows", _numbers((2, 7), 2, 1)),
        Case("three bits, by columns", _numbers((11, 5), 3, 0)),
        Case("one bit, the last axis but one", _numbers((2, 5, 3), 1, -2)),
        Case("a group of equal numbers", _with_a_constant_group, edge=0.2),
        Case("groups of nearly equal numbers", _nearly_equal, edge=0.1),
    ),
    tolerance=Tolerance(rtol=1e-4, atol=1e-14),  # numbers of 1e-10 are compared; 1e-4 for a level near zero in float32
    hints=(
        "Don't look at the size of the errors. Round a few hundred random numbers to 2 bits, and count with `unique` how many different "
        "numbers come out. How many can two bits encode?",
        "Draw the levels of a group on a line, with the least number at one end and the largest at the other. How many gaps are there "
        "between four levels?",
        "The step is the range of the group divided by the number of gaps. In a group of equal numbers the range is 0, so what does the "
        "function compute for `code`?",
    ),
    misconceptions=(
        Misconception(
            "one_level_too_many",
            "made $2^{bits}$ gaps between the levels, which gives $2^{bits} + 1$ levels, one more than the bits can encode",
            "Count the different numbers that come out. Between $2^{bits}$ levels there are $2^{bits} - 1$ gaps.",
            Instead(gaps=lambda bits: 2**bits),
        ),
        Misconception(
            "largest_cut",
            "removed the extra level by cutting it off, so the largest number of a group is no longer a level",
            "Make the steps wider instead. Both the least and the largest number are levels.",
            Instead(gaps=lambda bits: 2**bits, most=lambda bits: 2**bits - 1),
        ),
        Misconception(
            "equal_bins",
            "cut the range into $2^{bits}$ bins of equal width and took the lower edge of each, so the largest number is no longer a level",
            "Both the least and the largest number are levels, with $2^{bits} - 1$ steps between them. Round each number to the nearest level.",
            Instead(gaps=lambda bits: 2**bits, how=_down, most=lambda bits: 2**bits - 1),
        ),
        Misconception(
            "rounded_down",
            "rounded down instead of to the nearest level",
            "Use `round` instead of `floor`. Then an error is half a step at most.",
            Instead(how=_down),
        ),
        Misconception(
            "codes",
            "returned the codes, which count the levels, instead of the numbers that they encode",
            "Multiply the codes by the step and add the least number.",
            Instead(back=lambda code, step, least: code),
        ),
        Misconception(
            "least_forgotten",
            "did not add the least number back",
            "A code counts steps from the least number of its group.",
            Instead(back=lambda code, step, least: code * step),
        ),
        Misconception(
            "symmetric",
            "placed the levels symmetrically around zero, which wastes half of them where a group lies on one side of zero",
            "Space the levels from the least to the largest number of the group.",
            Instead(ends=_from_zero, gaps=lambda bits: 2 ** (bits - 1) - 1 or 1),
            also=(
                Instead(ends=_from_zero, gaps=lambda bits: 2 ** (bits - 1) - 1),  # with one bit none is left: 0 · inf
                Instead(ends=_from_zero, gaps=lambda bits: 2 ** (bits - 1), most=lambda bits: 2 ** (bits - 1) - 1),
            ),
        ),
        Misconception(
            "one_spread_for_all",
            "used the least and the largest number of the whole tensor for every group",
            "Take both along `dim` with `keepdim=True`, so that each group has its own.",
            Instead(ends=lambda x, dim: (x.min(), x.max())),
        ),
        Misconception(
            "another_axis",
            "took the least and the largest number along another axis",
            "A group lies along the axis `dim`.",
            Before(lambda dim, **_: {"dim": {1: 0, 0: 1, -2: -1}[dim]}),
        ),
        Misconception(
            "equal_numbers_lost",
            "divided by a step of 0, so a group of equal numbers becomes NaN",
            "Keep the step above 0, for example with `clamp`. Then all codes of such a group are 0.",
            Instead(above_zero=_as_it_is),
        ),
        Misconception(
            "small_steps_lost",
            "kept the step above a number that some steps are smaller than, so numbers that differ very little become equal",
            "Only a step of 0 needs a replacement. Use the smallest positive number, `torch.finfo(x.dtype).tiny`, as the minimum.",
            Instead(above_zero=lambda step: step.clamp(min=1e-8)),
            also=(Instead(above_zero=lambda step: step + 1e-8), Instead(above_zero=lambda step: step.clamp(min=1e-6))),
        ),
        Misconception(
            "equal_numbers_zero",
            "replaced the NaN of 0 / 0 by zeros in the result, so a group of equal numbers does not stay as it is",
            "Fix the division instead of the result. Keep the step above 0, or set the code to 0 where the step is 0.",
            Instead(above_zero=_as_it_is, back=lambda code, step, least: torch.nan_to_num(code * step + least)),
        ),
        Misconception(
            "from_zero",
            "started the levels at zero instead of at the least number",
            "The first level is the least number of the group, and the last level is the largest.",
            Instead(ends=lambda x, dim: (x.amin(dim, keepdim=True) * 0, x.amax(dim, keepdim=True))),
        ),
        Misconception(
            "step_forgotten",
            "added the least number to the codes without multiplying them by the step",
            "A code counts steps, so multiply it by the step before you add the least number.",
            Instead(back=lambda code, step, least: code + least),
        ),
    ),
    variants=(
        Variant("to_a_table", _to_a_table),
        Variant("between_zero_and_one", _between_zero_and_one),
        Variant("codes_without_nan", _codes_without_nan),
    ),
)
