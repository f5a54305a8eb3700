"""Two layouts of the same rotation, and the permutation between them."""

import torch

from autograder import Case, Draw, Exercise, Misconception, Variant
from course.exercises.positions import probes
from course.exercises.positions.rotary import ROTATION
from solutions import positions as ref


def _one_head(draw: Draw):
    return {"d": 2 * draw.integer(3, 99)}  # from 6: at d = 4 the permutation is its own inverse


def _several(draw: Draw):
    return {"d": 2 * draw.integer(3, 32), "heads": draw.integer(2, 5)}


def _inverse(d, heads=1):
    return torch.arange(heads * d).view(heads, d // 2, 2).transpose(1, 2).flatten()


def _partners_swapped(d, heads=1):
    return ref.interleave_permutation(d, heads).view(-1, 2).flip(-1).flatten()


def _mirrored(d, heads=1):
    i = torch.arange(d // 2)
    one = torch.stack([i, d - 1 - i], dim=-1).flatten()
    return (one + d * torch.arange(heads)[:, None]).flatten()


def _across_heads(d, heads=1):
    return ref.interleave_permutation(heads * d)


def _first_head_only(d, heads=1):
    return ref.interleave_permutation(d).repeat(heads)


def _comprehension(d, heads=1):
    return torch.tensor([h * d + i + s * (d // 2) for h in range(heads) for i in range(d // 2) for s in (0, 1)])


def _sorted(d, heads=1):
    return torch.argsort(_inverse(d, heads))


INTERLEAVE_PERMUTATION = Exercise(
    "interleave_permutation",
    title="From half-split to interleaved",
    points=1,
    difficulty=3,
    minutes=10,
    reference=ref.interleave_permutation,
    tensors=True,
    cases=(Case("one head", _one_head), Case("several heads", _several)),
    hints=(
        "`x[..., perm]` puts entry `perm[c]` of `x` into column `c`. For a head of width 6: which old entry must come to stand "
        "in column 0? Which in column 1, beside it?",
        "One head reads $0, d/2, 1, d/2 + 1, 2, \\dots$ That is a table of 2 rows and d/2 columns, filled row by row and read "
        "column by column. The next head does the same with `d` added.",
        "`torch.arange(heads * d)` in the shape (heads, 2, d/2) is that table, once for each head. Which two axes must change "
        "places before it is flattened?",
    ),
    misconceptions=(
        Misconception(
            "inverse",
            "built the way back, from interleaved to half-split: 0, 2, 4, …, 1, 3, 5, …",
            "Indexing **gathers**: `perm[c]` says where column `c` comes from. Start 0, d/2, 1, d/2 + 1, …",
            _inverse,
        ),
        Misconception(
            "partners_swapped",
            "put the second member of each pair first, which turns every rotation around",
            "Entry $i$ stays the first of its pair, entry $i + d/2$ the second.",
            _partners_swapped,
        ),
        Misconception(
            "mirrored_pairs",
            "paired the ends: 0 with d - 1, 1 with d - 2, and so on",
            "The partner of $i$ is $i + d/2$: both halves run forwards.",
            _mirrored,
        ),
        Misconception(
            "across_heads",
            "split the whole row in half, across the heads: members of one pair come from different heads",
            "Each head is half-split by itself. Rearrange `d` columns at a time.",
            _across_heads,
        ),
        Misconception(
            "head_offset_missing",
            "repeated the indices of the first head for all heads",
            "Head $h$ starts at column $h \\cdot d$: add that to its indices.",
            _first_head_only,
        ),
    ),
    variants=(Variant("comprehension", _comprehension), Variant("argsort_of_the_inverse", _sorted)),
)


# ---------------------------------------------------------------------------------------------- half-split rotation


def _two_rows(draw: Draw):
    return {"x": draw.normal(2, 6), "pos": probes.positions(draw, 2), "base": probes.base(draw)}


def _heads(draw: Draw):
    heads, n, half = draw.sizes(3, high=5)
    return {"x": draw.normal(heads, n, 2 * half), "pos": probes.positions(draw, n, last=40), "base": probes.base(draw)}


def _with(rotate, *, repeat=lambda a: torch.cat([a, a], dim=-1)):
    """The usual two-term form `x cos + rotate(x) sin`, with its own idea of `rotate` and of how angles line up."""

    def answer(x, pos, base):
        angles = repeat(ref.rope_angles(pos, x.shape[-1], base))
        return x * angles.cos() + rotate(x) * angles.sin()

    return answer


def _turned(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


def _unsigned(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([b, a], dim=-1)


def _left_interleaved(x, pos, base):
    return ref.apply_rope(x[..., ref.interleave_permutation(x.shape[-1])], pos, base)


def _there_and_back(x, pos, base):
    perm = ref.interleave_permutation(x.shape[-1])
    return ref.apply_rope(x[..., perm], pos, base)[..., perm.argsort()]


def _permuted_the_wrong_way(x, pos, base):
    perm = ref.interleave_permutation(x.shape[-1])
    return ref.apply_rope(x[..., perm.argsort()], pos, base)[..., perm]


def _complex(x, pos, base):
    a, b = x.chunk(2, dim=-1)
    angles = ref.rope_angles(pos, x.shape[-1], base).to(x.dtype)
    z = torch.complex(a.contiguous(), b.contiguous()) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], dim=-1)


ROTATE_HALF_ROPE = Exercise(
    "rotate_half_rope",
    title="The half-split layout",
    points=1,
    difficulty=2,
    minutes=8,
    reference=ref.rotate_half_rope,
    tensors=True,
    tolerance=ROTATION,
    cases=(Case("two rows, three pairs", _two_rows), Case("heads", _heads, grad=("x",))),
    hints=(
        "The rotation is the one you wrote. Only the partners change. How do you cut the last axis into its two halves?",
        "Either rotate the halves `x[..., :d // 2]` and `x[..., d // 2:]` into each other and `cat` the results; or go through "
        "`apply_rope` with `interleave_permutation`, and come back.",
        "The longer way in one line has three parts: index with the permutation, `apply_rope`, index with the permutation that "
        "undoes it. (`perm.argsort()` undoes `perm`.)",
    ),
    misconceptions=(
        Misconception(
            "interleaved_pairs",
            "rotated neighbours: that is `apply_rope` again",
            "Here entry $i$ turns with entry $i + d/2$.",
            ref.apply_rope,
        ),
        Misconception(
            "left_interleaved",
            "rotated rightly, but returned the result in the interleaved layout",
            "What comes in half-split goes out half-split: index with the inverse, `perm.argsort()`, at the end.",
            _left_interleaved,
        ),
        Misconception(
            "permuted_the_wrong_way",
            "went to the other layout with the inverse permutation, and back with the permutation",
            "`x[..., perm]` **interleaves**. Rotate, then index with `perm.argsort()`.",
            _permuted_the_wrong_way,
        ),
        Misconception(
            "angles_repeated_in_place",
            "paired the halves, but lined the angles up as $\\theta_0, \\theta_0, \\theta_1, \\theta_1, \\dots$, which fits neighbours",
            "Partners $i$ and $i + d/2$ share an angle: $\\theta_0, \\theta_1, \\dots, \\theta_0, \\theta_1, \\dots$ (`cat`).",
            _with(_turned, repeat=lambda a: a.repeat_interleave(2, dim=-1)),
        ),
        Misconception(
            "rotated_backwards",
            "rotated by $-p\\,\\theta_i$: the minus stands at the wrong half",
            "The turned vector is `cat([-b, a])`: the **second** half, negated, comes first.",
            _with(lambda x: -_turned(x)),
        ),
        Misconception(
            "minus_forgotten",
            "swapped the halves without a minus, which is no rotation: lengths change",
            "The turned vector is `cat([-b, a])`.",
            _with(_unsigned),
        ),
        Misconception(
            "base_not_passed_on",
            "did not hand `base` on: the angles are those of the default",
            "Hand `base` on to `rope_angles` (or to `apply_rope`).",
            lambda x, pos, base: ref.rotate_half_rope(x, pos),
        ),
    ),
    variants=(
        Variant("x_cos_plus_turned_sin", _with(_turned)),
        Variant("there_and_back", _there_and_back),
        Variant("complex_numbers", _complex),
    ),
)
