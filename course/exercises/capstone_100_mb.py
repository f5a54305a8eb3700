"""Workshop 12d: what fits, what is counted, and what is refused."""

import math

import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import capstone_100_mb as ref


def _cache(numbers, budget, bits, scale_bytes):
    return lambda draw: {"numbers": numbers, "budget": budget, "bits": bits, "scale_bytes": scale_bytes}


def _drawn(draw: Draw):
    numbers, bits = 64 * int(draw.rng.integers(50, 400)), int(draw.rng.integers(2, 9))
    scale_bytes = int(draw.rng.integers(2, 6))
    return {
        "numbers": numbers,
        "budget": float(round(numbers * bits / 8 * draw.rng.uniform(1.02, 1.11))),
        "bits": bits,
        "scale_bytes": scale_bytes,
    }


def _sharing(
    *,
    codes=lambda numbers, bits: numbers * bits / 8,
    scales=lambda numbers, scale_bytes: numbers * scale_bytes,
    whole=math.ceil,
    refuse=True,
):
    """The smallest n, with one part replaced by a mistake."""

    def answer(numbers, budget, bits, scale_bytes):
        left = budget - codes(numbers, bits)
        if left <= 0:
            if refuse:
                raise ValueError("no room for scales")
            return 0
        return whole(scales(numbers, scale_bytes) / left)

    return answer


def _by_trying(numbers, budget, bits, scale_bytes):
    if numbers * bits / 8 >= budget:
        raise ValueError("not even the codes fit")
    n = 1
    while numbers * bits / 8 + numbers * scale_bytes / n > budget:
        n += 1
    return n


LEAST_SHARING = Exercise(
    "least_sharing",
    title="Estimate: how many numbers to a scale?",
    kind="estimate",
    points=1,
    difficulty=2,
    minutes=7,
    reference=ref.least_sharing,
    recipe=Made(_sharing),
    cases=(
        Case("by hand", _cache(100, 110, 8, 2)),
        Case("SmolLM2, 8 bits and one scale", _cache(11_520, 12_207, 8, 2)),
        Case("SmolLM2, 8 bits, a least number and a step", _cache(11_520, 12_207, 8, 4)),
        Case("another model", _drawn),
        Case("a third", _drawn),
        Case("no room for any scale", _cache(11_520, 12_207, 9, 2), raises=ValueError, edge=0.2),
    ),
    hints=(
        "How many bytes of the budget are left once every number has its bits? The scales have to fit into these.",
        "The codes take numbers · bits / 8 bytes. There are numbers / n groups, and each has `scale_bytes` bytes of scales.",
        "Solve numbers · bits / 8 + numbers · scale_bytes / n ≤ budget for n. Which way do you round, and when does no n help?",
    ),
    misconceptions=(
        Misconception(
            "rounded_down",
            "rounded n down, so the cache is a little too large",
            "With a smaller n there are more scales. Round up.",
            Instead(whole=math.floor),
            also=(Instead(whole=round),),
        ),
        Misconception(
            "bits_as_bytes",
            "counted the bits of the codes as bytes",
            "Eight bits are one byte, so the codes take numbers · bits / 8 bytes.",
            Instead(codes=lambda numbers, bits: numbers * bits),
            also=(Instead(codes=lambda numbers, bits: numbers * bits, refuse=False),),
            raises=True,
        ),
        Misconception(
            "scale_in_bits",
            "counted the bytes of a scale as bits",
            "`scale_bytes` is in bytes already.",
            Instead(scales=lambda numbers, scale_bytes: numbers * scale_bytes / 8),
        ),
        Misconception(
            "one_scale_for_all",
            "counted the scales of a single group, although there are numbers / n of them",
            "Every group of n numbers has scales of its own.",
            Instead(scales=lambda numbers, scale_bytes: scale_bytes),
        ),
        Misconception(
            "whole_budget",
            "gave the scales the whole budget, although the codes have to fit as well",
            "Subtract the bytes of the codes first.",
            Instead(codes=lambda numbers, bits: 0),
        ),
        Misconception(
            "nothing_for_impossible",
            "returned a number where no n is large enough",
            "If the codes alone fill the budget, raise a ValueError.",
            Instead(refuse=False),
        ),
    ),
    variants=(Variant("by_trying", _by_trying),),
)


def _codes(n, bits):
    return lambda draw: {"codes": torch.from_numpy(draw.rng.integers(0, 2**bits, n)), "bits": bits}


def _bits_of(codes, bits):
    return (codes[:, None] >> torch.arange(bits)) & 1


def _filled(row):
    return torch.cat([row, row.new_zeros(-len(row) % 8)])


def _cut(row):
    return row[: len(row) // 8 * 8]


def _filled_in_front(row):
    return torch.cat([row.new_zeros(-len(row) % 8), row])


def _packed(*, of_code=_bits_of, row=torch.flatten, whole=_filled, places=lambda: torch.arange(8)):
    """Bits of codes in a row, the row in bytes, with one step replaced by a mistake."""

    def answer(codes, bits):
        bytes_ = whole(row(of_code(codes, bits))).reshape(-1, 8)
        return (bytes_ << places()).sum(1).to(torch.uint8)

    return answer


def _whole_codes_to_a_byte(codes, bits):
    """No code is cut in two: of three bits, two to a byte."""
    per = 8 // bits
    codes = torch.cat([codes, codes.new_zeros(-len(codes) % per)]).reshape(-1, per)
    return (codes << (bits * torch.arange(per))).sum(1).to(torch.uint8)


def _by_one_number(codes, bits):
    """All codes are the digits of one large number."""
    number = sum(code << (bits * i) for i, code in enumerate(codes.tolist()))
    return torch.tensor(list(number.to_bytes(-(-len(codes) * bits // 8), "little")), dtype=torch.uint8)


PACK_CODES = Exercise(
    "pack_codes",
    title="Three bits in whole bytes",
    kind="design",
    points=2,
    difficulty=3,
    minutes=12,
    tensors=True,
    reference=ref.pack_codes,
    recipe=Made(_packed),
    cases=(
        Case("two codes of three bits", lambda draw: {"codes": torch.tensor([5, 1]), "bits": 3}),
        Case("eight codes of three bits", _codes(8, 3)),
        Case("seven codes of four bits", _codes(7, 4)),
        Case("eleven codes of five bits", _codes(11, 5)),
        Case("codes of eight bits", _codes(5, 8), edge=0.15),
    ),
    hints=(
        "Draw the row of bits for the codes 5 and 1. What is bit k of a code, and where in the row does code i begin?",
        "`(code >> k) & 1` is bit k. Broadcasting over `torch.arange(bits)` gives a table with a row for each code, and flattening it gives the "
        "row. What has to happen before you can cut it into eights?",
        "Fill the row up with zeros after its end, reshape it to (bytes, 8), and let column k count 2^k times. A sum along the columns is the byte.",
    ),
    misconceptions=(
        Misconception(
            "highest_bit_first",
            "wrote the highest bit of each code first",
            "Bit k of a code is `(code >> k) & 1`, and bit 0 comes first.",
            Instead(of_code=lambda codes, bits: _bits_of(codes, bits).flip(1)),
        ),
        Misconception(
            "bytes_turned_round",
            "made the first bit of the row the highest of its byte",
            "The first of eight bits counts 1, and the last counts 128.",
            Instead(places=lambda: torch.arange(8).flip(0)),
        ),
        Misconception(
            "all_turned_round",
            "wrote both codes and bytes with the highest bit first",
            "The lowest bit comes first in codes and in bytes.",
            Instead(of_code=lambda codes, bits: _bits_of(codes, bits).flip(1), places=lambda: torch.arange(8).flip(0)),
        ),
        Misconception(
            "codes_not_cut",
            "let no code begin in one byte and end in the next, so that a byte holds two codes of three bits and two unused bits",
            "Put all bits in one row first, then cut the row into eights.",
            _whole_codes_to_a_byte,
        ),
        Misconception(
            "one_code_a_byte",
            "gave every code a byte of its own",
            "A code of three bits then takes eight. Put the bits of all codes in one row.",
            lambda codes, bits: codes.to(torch.uint8),
        ),
        Misconception(
            "filled_in_front",
            "filled up the first byte and not the last one",
            "The zeros come after the row's end.",
            Instead(whole=_filled_in_front),
        ),
        Misconception(
            "rest_cut_off",
            "dropped the bits that don't fill a byte",
            "Fill the last byte up with zeros.",
            Instead(whole=_cut),
        ),
        Misconception(
            "bits_of_all_codes_together",
            "wrote bit 0 of all codes first, then bit 1 of all codes",
            "The bits of one code stay together: flatten a table with one row for each code.",
            Instead(row=lambda table: table.T.flatten()),
        ),
    ),
    variants=(Variant("one_number", _by_one_number),),
)


def _ruled(**changed):
    return lambda: ref.rulings() | changed


RULINGS = Exercise(
    "rulings",
    title="You are the referee",
    kind="design",
    points=1,
    difficulty=2,
    minutes=6,
    reference=ref.rulings,
    outputs=(0.2,),
    cases=(Case("the five entries", lambda draw: {}),),
    hints=(
        "Ask of each entry what passes from one process to the next. Is everything that `read` needs among the bytes that are counted?",
        "The file starts every process, so what stands in it is no memory of a conversation. A class attribute is set in one process and gone in "
        "the next.",
        "Work out 64 tokens of 16 bits per 8,192 tokens, and how long a pass over 1,024 tokens takes compared with the 4 seconds that are allowed on "
        "one core.",
    ),
    misconceptions=(
        Misconception(
            "compression_refused",
            "refused the entry that compresses its bytes",
            "Whatever is held is counted, so anything that makes it smaller is fair. If a text compresses badly, the entry holds more than it "
            "declares and is refused on that text.",
            _ruled(compressed=False),
        ),
        Misconception(
            "calibration_refused",
            "refused the entry that brings a table from other texts",
            "The file may have 64 kB. It knows nothing of the conversation, just like the weights of the model.",
            _ruled(calibrated=False),
        ),
        Misconception(
            "class_attribute_counts",
            "accepted an entry whose scales are a class attribute",
            "`read` runs in a process that starts from the file and the fields. The scales are in neither.",
            _ruled(shared=True),
        ),
        Misconception(
            "newest_forgotten",
            "accepted an entry that declares its 4-bit codes and scales, but not the tokens it keeps in 16 bits",
            "64 · (23,040 − 6,480) / 8,192 are another 129 bytes per token, 2 % more than declared.",
            _ruled(newest=True),
        ),
        Misconception(
            "running_the_model_again",
            "accepted an entry that runs the model again",
            "Two bytes per token are held, but a cache exists to save exactly this pass. It takes longer than a reading may.",
            _ruled(identities=True),
        ),
        Misconception(
            "all_that_is_declared",
            "accepted every entry that says what it holds",
            "A declaration is compared with the bytes that leave the process.",
            _ruled(newest=True, shared=True, identities=True),
        ),
    ),
    variants=(Variant("as_a_dict", lambda: {**ref.rulings()}),),
)

EXERCISES = (LEAST_SHARING, RULINGS, PACK_CODES)
