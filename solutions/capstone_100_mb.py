"""Workshop 12d: what fits into 100 MB, codes of a few bits in whole bytes, and which entries count."""

import math

import torch
from jaxtyping import Int, UInt8
from torch import Tensor


def least_sharing(
    numbers: int,
    budget: int | float,
    bits: int,
    scale_bytes: int,
) -> int:
    """How many numbers have to share their scales, at least, so that a cache fits.

    A token has `numbers` numbers in all layers together, each in `bits` bits. Every n
    of them share scales of `scale_bytes` bytes. On average a token may take `budget`
    bytes, scales included. Returns the smallest whole n that fits.

    Raises ValueError where no n is large enough.

    >>> least_sharing(numbers=100, budget=110, bits=8, scale_bytes=2)  # 100 + 200 / n
    20
    """
    codes = numbers * bits / 8
    if codes >= budget:
        raise ValueError(f"expected more than {codes:,} bytes, got {budget}.")
    return math.ceil(numbers * scale_bytes / (budget - codes))


def pack_codes(codes: Int[Tensor, " n"], bits: int) -> UInt8[Tensor, " bytes"]:
    r"""Pack codes from 0 to $2^{bits} - 1$ into as few bytes as possible.

    All bits stand in one row, first those of code 0, its lowest bit first, then those
    of code 1, and so on. Each 8 of the row make a byte, the first of them its lowest
    bit, so a code may begin in one byte and end in the next. The last byte is filled
    up with zeros.

    >>> pack_codes(torch.tensor([5, 1]), bits=3)  # the row is 101 100
    tensor([13], dtype=torch.uint8)

    and 13 = 1 + 4 + 8.
    """
    row = (codes[:, None] >> torch.arange(bits, device=codes.device)) & 1
    row = row.flatten()
    row = torch.cat([row, row.new_zeros(-len(row) % 8)])
    places = torch.arange(8, device=codes.device)
    return (row.reshape(-1, 8) << places).sum(1).to(torch.uint8)


def rulings() -> dict[str, bool]:
    """Which of five entries count (True), and which are refused (False).

    - compressed: packs its codes with zlib and keeps the bytes as a field. It declares
      what they took on its author's own texts, and 5 % more.
    - calibrated: reads its scales from a table of 30 kB in the file, which its author
      measured on other texts.
    - shared: all layers of a conversation use the scales that layer 0 measured in it.
      They are a class attribute, so that they are held once and not 30 times.
    - newest: keeps the newest 64 tokens in 16 bits, and all others in 4 bits with 4
      bytes of scales for every 64 numbers. It declares 6,480 bytes per token.
    - identities: finds each token in the keys of layer 0, which depend on nothing but
      the token and its position. It keeps two bytes for each token and declares them.
      To read, it runs the model over these tokens again.
    """
    return {
        "compressed": True,
        "calibrated": True,
        "shared": False,
        "newest": False,
        "identities": False,
    }
