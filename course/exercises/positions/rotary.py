"""The angles and the rotation, in the interleaved layout."""

import numpy as np
import torch

from autograder import After, Before, Case, Code, Draw, Exercise, Instead, Misconception, Tolerance, Variant
from course.exercises.positions import probes
from solutions import positions as ref

ROTATION = Tolerance(rtol=1e-4, atol=5e-5)  # float32: an angle of 60 radians is known to 4e-6, and entries reach 4


# ---------------------------------------------------------------------------------------------- angles


def _few(draw: Draw):
    pos = probes.positions(draw, 3).tolist()
    return {"pos": Code(f"torch.tensor({pos})"), "d": 6, "base": probes.base(draw)}


def _any_order(draw: Draw):
    n, half = draw.sizes(2, low=3, high=7)
    return {"pos": draw.rng.permutation(probes.positions(draw, n, last=60, gap=9)), "d": 2 * half, "base": probes.base(draw)}


def _batch(draw: Draw):
    pos = probes.positions(draw, 15, gap=5).reshape(5, 3)
    return {"pos": pos, "d": 14, "base": probes.base(draw)}


def _bfloat16(draw: Draw):
    """Positions near 1000 that bfloat16 holds exactly (multiples of 4): what it does not hold are the angles."""
    numbers = [4.0 * draw.integer(225, 255) for _ in range(3)]
    return {"pos": Code(f"torch.tensor({numbers}, dtype=torch.bfloat16)"), "d": 10, "base": probes.base(draw)}


def _float64(draw: Draw):
    return {"pos": probes.positions(draw, 5, last=40) + 0.5, "d": 6, "base": probes.base(draw)}


def _at_least_float32(dtype):
    return torch.promote_types(dtype, torch.float32)


def _clocks(pos, d, base, *, factor=2.0, first=0, sign=-1.0, width=lambda d: d, dtype=_at_least_float32, on_its_device=True):
    wanted = dtype(pos.dtype)
    # rounded as learners' are: of an angle of 1000 radians modulo one turn that is all one can compare
    device = pos.device if on_its_device else None
    i = torch.arange(first, first + d // 2, dtype=_at_least_float32(wanted), device=device)
    theta = base ** (sign * factor * i / width(d))
    return pos[..., None].to(wanted) * theta.to(wanted)


def _row_numbers(pos, d, base):
    return _clocks(torch.arange(pos.shape[-1], device=pos.device), d, base, dtype=lambda _: torch.float32)


def _row_numbers_of_the_first_axis(pos, d, base):
    return _clocks(torch.arange(len(pos), device=pos.device), d, base, dtype=lambda _: torch.float32)


def _outer(pos, d, base):
    wide = torch.promote_types(pos.dtype, torch.float32)
    theta = torch.exp(-torch.arange(0, d, 2, dtype=wide, device=pos.device) * torch.log(torch.tensor(base, dtype=wide)) / d)
    return torch.outer(pos.flatten().to(wide), theta).view(*pos.shape, d // 2)


ROPE_ANGLES = Exercise(
    "rope_angles",
    title="How fast is each pair?",
    points=1,
    difficulty=2,
    minutes=6,
    reference=ref.rope_angles,
    recipe=_clocks,
    tensors=True,
    cases=(
        Case("three positions", _few),
        Case("positions in any order", _any_order),
        Case("a batch with positions of its own", _batch),
        Case("positions in bfloat16", _bfloat16, edge=0.2),
        Case("positions in float64", _float64, double=True, edge=0.1),
        Case("positions on another device", _any_order, edge=0.1, elsewhere=True),
    ),
    hints=(
        "Let $r$ be the factor from one frequency to the next, so that $\\theta_i = r^i$. What is $r$ if $\\theta_{d/2}$ would be $1/b$?",
        "From $r^{d/2} = 1/b$ it follows that $r = b^{-2/d}$, and therefore $\\theta_i = b^{-2i/d}$. Compute these d/2 numbers in float32. Then "
        "give the positions a new last axis and multiply.",
        "The exponents $-2i/d$ are `-torch.arange(0, d, 2, dtype=torch.float32) / d`. Add `device=pos.device`, because the "
        "positions may be on another device. Convert positions that arrive as integers or in bfloat16 **up** to float32 before you multiply, and leave float64 as it is.",
    ),
    misconceptions=(
        Misconception(
            "exponent_i_over_d",
            "used the exponent $-i/d$, so the slowest pair rotates far too fast",
            "There are only $d/2$ pairs, so the factor from one frequency to the next is $b^{-2/d}$ and not $b^{-1/d}$.",
            Instead(factor=1.0),
        ),
        Misconception(
            "exponent_doubled",
            "doubled the exponent. `arange(0, d, 2)` already contains $2i$, and you multiplied it by 2 once more",
            "Divide `torch.arange(0, d, 2)` by `d`, without another factor.",
            Instead(factor=4.0),
        ),
        Misconception(
            "pairs_from_one",
            "counted the pairs from 1, so even the fastest pair rotates by less than one radian per token",
            "Pair 0 has the frequency 1. The paper counts from 1 and therefore writes $2(i-1)/d$ where we write $2i/d$.",
            Instead(first=1),
        ),
        Misconception(
            "frequencies_rise",
            "let the frequencies grow from pair to pair up to almost $b$",
            "Every pair is slower than the one before it, so the frequencies fall from 1 towards $1/b$. Check the sign of the exponent.",
            Instead(sign=1.0),
        ),
        Misconception(
            "positions_ignored",
            "numbered the rows 0, 1, 2, … and ignored the entries of `pos`",
            "The index of a row in the tensor need not be its position in the text. Use the entries of `pos`.",
            Before(lambda pos, **_: {"pos": torch.arange(pos.shape[-1], device=pos.device).expand(pos.shape).to(pos.dtype)}),
            also=(_row_numbers, _row_numbers_of_the_first_axis),
        ),
        Misconception(
            "base_ignored",
            "used 10000 instead of the argument `base`",
            "Models use different bases, such as 10,000, 100,000 and 500,000.",
            Before(lambda **_: {"base": 10_000.0}),
        ),
        Misconception(
            "angles_in_the_dtype_of_pos",
            "computed the angles in the dtype of `pos`. In bfloat16, which keeps 8 bits, angles near 1000 are far off",
            "Compute $\\theta$ in float32 and convert `pos` **up** before you multiply, with "
            "`pos.to(torch.promote_types(pos.dtype, torch.float32))`.",
            Instead(dtype=lambda dtype: dtype if dtype.is_floating_point else torch.float64),
        ),
        Misconception(
            "angles_always_in_float32",
            "computed the angles in float32 although the positions are float64",
            "Use at least float32 and at least the precision of `pos`, which is `torch.promote_types(pos.dtype, torch.float32)`.",
            After(lambda out, **_: out.float()),
        ),
        Misconception(
            "slowest_at_one_over_the_base",
            "let the last pair reach exactly $1/b$, because the exponents were divided by $d - 2$",
            "Only pair $d/2$, which doesn't exist, would reach $1/b$. The last pair stays a little above it.",
            Instead(width=lambda d: d - 2),
        ),
        Misconception(
            "one_angle_per_column",
            "returned each angle twice, one for each of the $d$ columns",
            "Return one angle for each **pair**, so d/2 columns. `apply_rope` assigns them to the features.",
            After(lambda out, **_: torch.cat([out, out], dim=-1)),
            also=(After(lambda out, **_: out.repeat_interleave(2, dim=-1)),),
        ),
        Misconception(
            "frequencies_on_the_cpu",
            "made the frequencies on the CPU, although the positions may be on another device",
            "Pass `device=pos.device` where you make a tensor.",
            Instead(on_its_device=False),
            also=(lambda pos, d, base: _clocks(pos.cpu(), d, base),),
            raises=True,
        ),
        Misconception(
            "reduced_to_one_turn",
            "took the angles modulo $2\\pi$",
            "Leave full turns in the angle, because sine and cosine ignore them.",
            After(lambda out, **_: torch.remainder(out, 2 * torch.pi)),
        ),
    ),
    variants=(
        Variant("outer", _outer),
        Variant("divide", lambda pos, d, base: pos[..., None] / base ** (torch.arange(0, d, 2, device=pos.device) / d)),
    ),
)


# ---------------------------------------------------------------------------------------------- rotation


def _two_rows(draw: Draw):
    return {"x": draw.normal(2, 4), "pos": probes.positions(draw, 2), "base": probes.base(draw)}


def _heads(draw: Draw):
    heads, n, half = draw.sizes(3, high=5)
    return {"x": draw.normal(heads, n, 2 * half), "pos": probes.positions(draw, n, last=40), "base": probes.base(draw)}


def _own_positions(draw: Draw):
    """(batch, head, n, d) with (batch, 1, n) positions: a batch whose sequences are padded on the left."""
    pos = probes.positions(draw, 6, gap=4).reshape(3, 2).T.copy()
    return {"x": draw.normal(2, 5, 3, 6), "pos": pos[:, None, :], "base": probes.base(draw)}


def _rough(draw: Draw):
    """bfloat16 rows far into a text. Small entries: rounding them stays within the tolerance, turning them wrongly does not.

    Between 512 and 1024 bfloat16 holds the multiples of 4, so the fastest angle at these positions is off by 2 radians.
    """
    x = torch.tensor(draw.uniform(5, 6, low=0.003, high=0.0035) * draw.rng.choice((-1, 1), (5, 6))).bfloat16()
    return {
        "x": Code(f"torch.tensor({[[float(f'{v:.4g}') for v in row] for row in x.tolist()]}, dtype=torch.bfloat16)"),
        "pos": 4 * np.sort(draw.rng.choice(range(200, 255), 5, replace=False)) + 2,
        "base": probes.base(draw),
    }


def _all_in_the_dtype_of_x(x, pos, base):
    d = x.shape[-1]
    theta = (base ** (-torch.arange(0, d, 2) / d)).to(x.dtype)
    return _rotated(x, pos.to(x.dtype)[..., None] * theta)


def _cosines_in_the_dtype_of_x(x, pos, base):
    """Right, as Hugging Face's Llama does it: angles in float32, their sines and cosines rounded."""
    angles = ref.rope_angles(pos, x.shape[-1], base)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def _rotated(x, angles):
    cos, sin, a, b = angles.cos(), angles.sin(), x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def _each_twice(angles):
    return angles.repeat_interleave(2, dim=-1)


def _side_by_side(angles):
    return torch.cat([angles, angles], dim=-1)


def _partners(x):
    """The two members of each pair exchanged."""
    return x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


def _turned(x):
    """Each pair turned by a right angle."""
    return torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)


def _halves_turned(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def _two_terms(x, pos, base, *, line_up=_each_twice, quarter=_turned, cos=torch.cos, sin=torch.sin, narrow=False, back=True):
    """A turn in two terms: `x` times the cosine, and `x` turned by a right angle times the sine."""
    angles = line_up(ref.rope_angles(pos, x.shape[-1], base))
    if narrow:
        angles = angles.to(x.dtype)
    y = x * cos(angles) + quarter(x) * sin(angles)
    return y.to(x.dtype) if back else y


def _overwrites(x, pos, base):
    angles, y = ref.rope_angles(pos, x.shape[-1], base), x.clone()
    even, odd = y[..., 0::2], y[..., 1::2]  # views of y: writing one changes what the other line reads
    y[..., 0::2] = even * angles.cos() - odd * angles.sin()
    y[..., 1::2] = even * angles.sin() + odd * angles.cos()
    return y


def _complex(x, pos, base):
    angles = ref.rope_angles(pos, x.shape[-1], base).double()
    z = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(z).flatten(-2).to(x.dtype)


def _matrices(x, pos, base):
    angles = ref.rope_angles(pos, x.shape[-1], base).double()
    cos, sin = angles.cos(), angles.sin()
    R = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)  # (..., n, d/2, 2, 2)
    return (R @ x.double().unflatten(-1, (-1, 2)).unsqueeze(-1)).squeeze(-1).flatten(-2).to(x.dtype)


APPLY_ROPE = Exercise(
    "apply_rope",
    title="Rotate queries and keys",
    points=3,
    difficulty=3,
    minutes=11,
    reference=ref.apply_rope,
    recipe=_two_terms,
    tensors=True,
    tolerance=ROTATION,
    cases=(
        Case("two rows, two pairs", _two_rows),
        Case("heads that share their positions", _heads, grad=("x",)),
        Case("sequences with positions of their own", _own_positions),
        Case("bfloat16, a thousand tokens on", _rough, edge=0.25),
    ),
    hints=(
        "A rotation is linear, and $(x_0, x_1) = x_0 \\cdot (1, 0) + x_1 \\cdot (0, 1)$. You know where the two unit arrows go.",
        "The pair goes to $(x_0 \\cos\\varphi - x_1 \\sin\\varphi,\\; x_0 \\sin\\varphi + x_1 \\cos\\varphi)$. "
        "`rope_angles(pos, x.shape[-1], base)` has one angle per row and pair, which is the shape of `x[..., 0::2]` and of `x[..., 1::2]`.",
        "`x[..., 0::2]` and `x[..., 1::2]` are the first and the second members of all pairs. Compute the two new members from them, each of "
        "shape (..., n, d/2). `torch.stack(..., dim=-1)` and then `flatten(-2)` bring them into the old order. Finally convert the result to "
        "the dtype of `x`.",
    ),
    misconceptions=(
        Misconception(
            "identity",
            "returned `x` unchanged",
            "Only the row at position 0 stays as it is. All others are rotated by $p\\,\\theta_i$.",
            lambda x, pos, base: x.clone(),
        ),
        Misconception(
            "positions_ignored",
            "numbered the rows 0, 1, 2, … and ignored `pos`",
            "The index of a row in the tensor need not be its position in the text. Pass `pos` to `rope_angles`.",
            Before(lambda x, **_: {"pos": torch.arange(x.shape[-2])}),
        ),
        Misconception(
            "half_split_pairs",
            "paired the features $i$ and $i + d/2$, which is the half-split layout that other code uses",
            "Here the features $2i$ and $2i + 1$ form a pair, so combine `x[..., 0::2]` with `x[..., 1::2]`.",
            Instead(line_up=_side_by_side, quarter=_halves_turned),
        ),
        Misconception(
            "angles_tiled",
            "paired neighbours but ordered the angles as $\\theta_0, \\theta_1, \\dots, \\theta_0, \\theta_1, \\dots$, which fits the half-split layout",
            "Neighbours share an angle, so the order is $\\theta_0, \\theta_0, \\theta_1, \\theta_1, \\dots$, as `repeat_interleave` gives it.",
            Instead(line_up=_side_by_side),
        ),
        Misconception(
            "partners_half_a_width_away",
            "gave neighbours the same angle but took the partner of each feature from half a width away, as in the half-split layout",
            "The partner of feature $2i$ is feature $2i + 1$.",
            Instead(quarter=_halves_turned),
        ),
        Misconception(
            "rotated_backwards",
            "rotated by $-p\\,\\theta_i$, because the minus is at the wrong sine",
            "The pair (0, 1) goes to $(-\\sin\\varphi, \\cos\\varphi)$, so the minus belongs to the first new member. A model trained with your own "
            "function would survive the mistake, but weights trained by others would not.",
            Before(lambda x, pos, base: {"pos": -pos}),
        ),
        Misconception(
            "minus_forgotten",
            "left out the minus, so lengths change and this is no rotation",
            "The pair (0, 1) goes to $(-\\sin\\varphi, \\cos\\varphi)$, and (1, 0) goes to $(\\cos\\varphi, \\sin\\varphi)$, so one sine has a minus and the other a plus.",
            Instead(quarter=_partners),
        ),
        Misconception(
            "two_minuses",
            "wrote a minus at both sines, so lengths change",
            "The pair (0, 1) goes to $(-\\sin\\varphi, \\cos\\varphi)$, and (1, 0) goes to $(\\cos\\varphi, \\sin\\varphi)$, so one sine has a minus and the other a plus.",
            Instead(quarter=lambda x: -_partners(x)),
        ),
        Misconception(
            "overwrote_its_own_input",
            "overwrote the first member of each pair before computing the second, which then used the **new** value",
            "Slices of a tensor are views. Compute both new members from the old values and then combine them.",
            _overwrites,
        ),
        Misconception(
            "not_woven_back",
            "rotated correctly but returned all first members followed by all second members",
            "The two members of a pair must be neighbours again. Along which axis must you stack them, so that `flatten(-2)` alternates them?",
            After(lambda out, **_: torch.cat([out[..., 0::2], out[..., 1::2]], dim=-1)),
        ),
        Misconception(
            "base_not_passed_on",
            "did not pass `base` on, so `rope_angles` used its default",
            "Call `rope_angles(pos, x.shape[-1], base)`.",
            Before(lambda **_: {"base": 10000.0}),
        ),
        Misconception(
            "angles_in_the_dtype_of_x",
            "converted angles or positions to the dtype of `x`. In bfloat16, which keeps 8 bits, angles near 1000 are far off",
            "Leave `pos` and the angles as they are, and convert only the **result** to the dtype of `x`.",
            Instead(narrow=True),
            also=(Before(lambda x, pos, **_: {"pos": pos.to(x.dtype)}), _all_in_the_dtype_of_x),
        ),
        Misconception(
            "result_not_in_the_dtype_of_x",
            "returned float32 although `x` is bfloat16",
            "Compute with float32 angles and convert the result with `.to(x.dtype)`.",
            Instead(back=False),
        ),
        Misconception(
            "sine_and_cosine_exchanged",
            "swapped sine and cosine, so the row at position 0 doesn't stay as it is",
            "At the angle 0 each feature must keep its value, so it is multiplied by the cosine and its partner by the sine.",
            Instead(cos=torch.sin, sin=torch.cos),
        ),
        Misconception(
            "partners_exchanged",
            "returned the two members of each pair in the wrong order",
            "At the angle 0 the pair must come back as it went in. Which member comes first?",
            After(lambda out, **_: _partners(out)),
        ),
        Misconception(
            "one_step_further",
            "counted the positions from 1, so every row is rotated by one token too many",
            "A row at position 0 stays as it is. Pass `pos` on unchanged.",
            Before(lambda pos, **_: {"pos": pos + 1}),
        ),
    ),
    variants=(
        Variant("cosines_in_the_dtype_of_x", _cosines_in_the_dtype_of_x),
        Variant("complex_numbers", _complex),
        Variant("rotation_matrices", _matrices),
        Variant("repeat_interleave", _two_terms),
    ),
)
