"""The permutation between the two layouts of the same rotation."""

import torch

from autograder import Case, Draw, Exercise, Instead, Misconception, Variant
from solutions import positions as ref


def _one_head(draw: Draw):
    return {"d": 2 * draw.integer(3, 99)}  # from 6: at d = 4 the permutation is its own inverse


def _several(draw: Draw):
    return {"d": 2 * draw.integer(3, 32), "heads": draw.integer(2, 5)}


def _permutation(d, heads=1, *, back=False, partners=(0, 1), offset=True, halves=lambda d, heads: (heads, 2, d // 2)):
    """The permutation with one part replaced by a mistake, so that two mistakes at once are recognised too."""
    shape = halves(d, heads)
    table = torch.arange(heads * d).view(*((shape[0], shape[2], 2) if back else shape)).transpose(1, 2)
    table = table.flatten(1) if back else table[..., list(partners)].flatten(1)
    return table.flatten() if offset else table.flatten() % d


def _mirrored(d, heads=1):
    i = torch.arange(d // 2)
    one = torch.stack([i, d - 1 - i], dim=-1).flatten()
    return (one + d * torch.arange(heads)[:, None]).flatten()


def _comprehension(d, heads=1):
    return torch.tensor([h * d + i + s * (d // 2) for h in range(heads) for i in range(d // 2) for s in (0, 1)])


def _sorted(d, heads=1):
    return torch.argsort(_permutation(d, heads, back=True))


INTERLEAVE_PERMUTATION = Exercise(
    "interleave_permutation",
    title="From one layout to the other",
    points=1,
    difficulty=3,
    minutes=9,
    reference=ref.interleave_permutation,
    recipe=_permutation,
    tensors=True,
    cases=(Case("one head", _one_head), Case("several heads", _several)),
    hints=(
        "`x[..., perm]` puts entry `perm[c]` of `x` into column `c`. For a head with 6 features, which old feature belongs in column 0, and "
        "which one in column 1 beside it?",
        "For one head the answer reads $0, d/2, 1, d/2 + 1, 2, \\dots$ This is a table with 2 rows and d/2 columns, which is filled row by row "
        "and read column by column. The next head does the same with `d` added.",
        "`torch.arange(heads * d)` in the shape (heads, 2, d/2) is such a table for every head. Which two axes must you swap before you flatten "
        "it?",
    ),
    misconceptions=(
        Misconception(
            "inverse",
            "built the permutation in the other direction, from interleaved to half-split",
            "Indexing **gathers**, so `perm[c]` says where column `c` comes from. Begin with 0, d/2, 1, d/2 + 1.",
            Instead(back=True),
        ),
        Misconception(
            "partners_swapped",
            "put the second member of each pair first, which reverses every rotation",
            "Feature $i$ stays the first member of its pair, and feature $i + d/2$ the second.",
            Instead(partners=(1, 0)),
        ),
        Misconception(
            "mirrored_pairs",
            "paired feature 0 with $d - 1$, feature 1 with $d - 2$, and so on",
            "The partner of feature $i$ is $i + d/2$, so both halves run forwards.",
            _mirrored,
        ),
        Misconception(
            "across_heads",
            "split the whole row in half across the heads, so the members of a pair come from different heads",
            "Each head is half-split by itself. Rearrange `d` columns at a time.",
            Instead(halves=lambda d, heads: (1, 2, heads * d // 2)),
        ),
        Misconception(
            "head_offset_missing",
            "repeated the indices of the first head for every head",
            "Head $h$ begins at column $h \\cdot d$, so add that to its indices.",
            Instead(offset=False),
        ),
    ),
    variants=(Variant("comprehension", _comprehension), Variant("argsort_of_the_inverse", _sorted)),
)
