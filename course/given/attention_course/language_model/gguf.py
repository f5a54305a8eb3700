"""Read a GGUF file with NumPy alone: its metadata, and its tensors as float32.

GGUF is llama.cpp's file format: a header of key-value pairs, a table of tensors, then their bytes, aligned. Quantised
tensors come in blocks of 32 numbers with a scale of their own. Only what the course's model uses is read: F32, F16, Q4_1, Q8_0.

Source: the specification in ggml's docs/gguf.md; the block layouts are those of ggml's `block_q4_1` and `block_q8_0`.
"""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

MAGIC, ALIGNMENT = b"GGUF", 32
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

Blocks = UInt8[np.ndarray, "blocks bytes"]
Numbers = Float[np.ndarray, "blocks numbers"]


def _f32(blocks: Blocks) -> Numbers:
    return blocks.view("<f4").astype(np.float32)


def _f16(blocks: Blocks) -> Numbers:
    return blocks.view("<f2").astype(np.float32)


def _q4_1(blocks: Blocks) -> Numbers:
    """A scale and a minimum in half precision, then 32 numbers of 4 bits: the low halves of 16 bytes, then the high ones."""
    scale, least = (blocks[:, i : i + 2].view("<f2").astype(np.float32) for i in (0, 2))
    nibbles = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
    numbers: Numbers = scale * nibbles.astype(np.float32) + least
    return numbers


def _q8_0(blocks: Blocks) -> Numbers:
    """A scale in half precision, then 32 numbers of 8 bits with a sign."""
    numbers: Numbers = blocks[:, 2:].view(np.int8).astype(np.float32) * blocks[:, :2].view("<f2").astype(np.float32)
    return numbers


@dataclass(frozen=True)
class Kind:
    """How numbers of one type are stored: `bytes` hold `numbers`, and `read` turns rows of such blocks into float32."""

    name: str
    numbers: int
    bytes: int
    read: Callable[[Blocks], Numbers]


KINDS = {
    0: Kind("F32", 1, 4, _f32),
    1: Kind("F16", 1, 2, _f16),
    3: Kind("Q4_1", 32, 20, _q4_1),
    8: Kind("Q8_0", 32, 34, _q8_0),
}


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies: its shape (row-major, as NumPy counts), its kind, and its bytes."""

    shape: tuple[int, ...]
    kind: Kind
    data: memoryview

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return int(np.prod(self.shape))

    def read(self) -> Float[np.ndarray, "..."]:
        """The tensor in float32."""
        blocks = np.frombuffer(self.data, np.uint8).reshape(-1, self.kind.bytes)
        return self.kind.read(blocks).reshape(self.shape)


@dataclass(frozen=True)
class GGUF:
    """A file's `metadata`, and its `tensors` by name, in the order of the file."""

    metadata: dict[str, Any]
    tensors: dict[str, Entry]


def read_gguf(path: Path) -> GGUF:
    """The GGUF file at `path`, mapped into memory: a tensor is read when it is asked for.

    Raises ValueError where the file is not GGUF of version 2 or 3, is cut short, or holds a tensor of a kind not known here.
    """
    with path.open("rb") as file:
        try:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:  # an empty file cannot be mapped
            view = memoryview(b"")
    try:
        return _parse(view)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise ValueError(f"{path}: expected a whole GGUF file, it ends early or is damaged. Install its package again.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _parse(view: memoryview) -> GGUF:
    reader = _Reader(view)
    magic, version = bytes(view[:4]), reader.scalar("I", at=4)
    if magic != MAGIC or version not in (2, 3):
        raise ValueError(f"expected a GGUF file of version 2 or 3, got {magic!r} with version {version}.")
    reader.place = 8
    tensors, pairs = reader.scalar("Q"), reader.scalar("Q")
    metadata = {reader.text(): reader.value(reader.scalar("I")) for _ in range(pairs)}
    table = [reader.tensor() for _ in range(tensors)]
    alignment = metadata.get("general.alignment", ALIGNMENT)
    start = -(-reader.place // alignment) * alignment
    found = {}
    for name, shape, kind, offset in table:
        if kind not in KINDS:
            raise ValueError(f"tensor {name!r} is of kind {kind}; expected one of {sorted(k.name for k in KINDS.values())}.")
        length = int(np.prod(shape)) // KINDS[kind].numbers * KINDS[kind].bytes
        data = view[start + offset : start + offset + length]
        if len(data) != length:
            raise IndexError(name)
        found[name] = Entry(shape, KINDS[kind], data)
    return GGUF(metadata, found)


class _Reader:
    """Reads one value after another; `place` is the next byte."""

    def __init__(self, view: memoryview):
        self.view, self.place = view, 0

    def scalar(self, code: str, at: int | None = None) -> Any:
        """One number."""
        self.place = self.place if at is None else at
        (value,) = struct.unpack_from(f"<{code}", self.view, self.place)
        self.place += struct.calcsize(f"<{code}")
        return value

    def text(self) -> str:
        """A length, then so many bytes of UTF-8."""
        length = self.scalar("Q")
        if self.place + length > len(self.view):
            raise IndexError(length)
        self.place += length
        return str(self.view[self.place - length : self.place], "utf-8")

    def value(self, kind: int) -> Any:
        """A metadata value: a number, a text, or a list of either."""
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            if kind not in _SCALARS:
                raise IndexError(kind)
            return self.scalar(_SCALARS[kind])
        kind, length = self.scalar("I"), self.scalar("Q")
        if length > len(self.view):
            raise IndexError(length)
        if kind in _SCALARS:
            values = np.frombuffer(self.view, f"<{_SCALARS[kind]}", length, self.place)
            self.place += values.nbytes
            return values.tolist()
        return [self.value(kind) for _ in range(length)]

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """An entry of the tensors' table: name, shape (GGUF counts from the fastest axis), kind, offset."""
        name = self.text()
        shape = tuple(self.scalar("Q") for _ in range(self.scalar("I")))
        return name, shape[::-1], self.scalar("I"), self.scalar("Q")
