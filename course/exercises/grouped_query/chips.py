"""What a chip must store when the query heads are spread over several chips."""

import math

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import grouped_query as ref

_DRAWN = ((60, 4, 5), (60, 6, 4), (60, 10, 4), (60, 15, 4), (90, 6, 5), (90, 10, 9), (84, 6, 4))


def _sizes(H, G, chips):
    return lambda draw: {"H": H, "G": G, "chips": chips}


def _drawn(draw: Draw):
    return _sizes(*draw.choice(_DRAWN))(draw)


def _stored(*, group=lambda h, H, G: h * G // H, chosen=max):
    """The groups of each chip's heads counted, with one part replaced by a mistake."""

    def answer(H, G, chips):
        share = H // chips
        return chosen([len({group(h, H, G) for h in range(c * share, (c + 1) * share)}) for c in range(chips)])

    return answer


def _ratio(rounded):
    return lambda H, G, chips: rounded(G / chips)


def _first_and_last(H, G, chips):
    share, size = H // chips, H // G
    return max((h + share - 1) // size - h // size + 1 for h in range(0, H, share))


MOST_ON_A_CHIP = Exercise(
    "most_on_a_chip",
    title="What must a chip store?",
    kind="estimate",
    points=1.5,
    reference=ref.most_on_a_chip,
    recipe=Made(_stored),
    difficulty=2,
    minutes=8,
    tolerance=Tolerance(rtol=1e-6, atol=0.0),  # a whole number
    cases=(
        Case("twelve heads in three groups, two chips", _sizes(12, 3, 2)),
        Case("more groups than chips", _sizes(24, 12, 4)),
        Case("fewer groups than chips", _sizes(24, 3, 12)),
        Case("24 heads in three groups, four chips", _sizes(24, 3, 4)),
        Case("other sizes", _drawn),
    ),
    hints=(
        "Draw twelve heads in a row. Mark where the three groups begin, then cut the row in the middle. How many groups does each half touch?",
        "The heads of one chip are neighbours, so their groups are neighbours as well. Which is the group of its first head, and which of "
        "its last?",
        "On a chip with the heads from h to h + H/chips − 1, count the groups from that of the first head to that of the last, both included. "
        "Do this for every chip, because a group may cross the border between two chips.",
    ),
    misconceptions=(
        Misconception(
            "a_fraction_of_a_group",
            "divided the groups evenly among the chips, even where this leaves a fraction of a group",
            "A head needs all features of its keys, so a chip stores whole groups.",
            _ratio(float),
        ),
        Misconception(
            "rounded_down",
            "divided the groups by the chips and rounded down",
            "What is left over must be stored as well. Count the groups that the heads of a chip really touch.",
            _ratio(lambda x: max(1, math.floor(x))),
        ),
        Misconception(
            "borders_ignored",
            "assumed that a chip's first head is also the first of its group, as it is on chip 0",
            "A group may begin in the middle of a chip. Look at every chip and return the largest count.",
            _ratio(math.ceil),
            also=(Instead(chosen=min), Instead(chosen=lambda counts: counts[0])),
        ),
        Misconception(
            "every_group_everywhere",
            "let every chip store all groups",
            "A chip needs only the groups that its own heads attend to.",
            lambda H, G, chips: G,
        ),
        Misconception(
            "one_for_each_head",
            "counted a head of keys for every query head, as in multi-head attention",
            "Heads of the same group share. Two of them on one chip need their group only once.",
            lambda H, G, chips: H // chips,
        ),
        Misconception(
            "heads_modulo_groups",
            "gave head $h$ the group h mod G",
            "Neighbouring heads share, so head $h$ belongs to group ⌊h / (H/G)⌋.",
            Instead(group=lambda h, H, G: h % G),
        ),
        Misconception(
            "all_chips_together",
            "counted what all chips store together",
            "Return the count of the one chip that stores the most.",
            Instead(chosen=sum),
        ),
        Misconception(
            "group_number_by_groups",
            "divided the number of a head by the number of groups",
            "Divide by the **size** of a group, H/G, to find the group of a head.",
            Instead(group=lambda h, H, G: h // G),
        ),
    ),
    variants=(Variant("from_the_first_to_the_last", _first_and_last),),
)
