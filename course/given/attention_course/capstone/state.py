"""An object's fields as bytes, and back. Whatever a cache remembers between two steps has to pass through here.

Allowed are tensors, numbers, texts, bytes, None, and lists, tuples and dictionaries of them. Each tensor costs its numbers and a
few bytes for dtype and shape.

>>> packed = pack({"keys": torch.zeros(3, 2, dtype=torch.bfloat16), "length": 2})
>>> len(packed)  # 12 bytes of numbers; the rest are names, a shape and a length
54
>>> unpack(packed)["keys"].shape
torch.Size([3, 2])
"""

import struct
from collections.abc import Iterator
from typing import Any

import torch

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.uint16, torch.uint32),
)
MAX_DEPTH = 20


class UnpackableError(ValueError):
    """A field holds something that cannot be counted; the message says which."""


def pack(value: Any, where: str = "the cache") -> bytes:
    """`value` as bytes. Raises UnpackableError, naming the place of what has no size that could be counted."""
    return b"".join(_packed(value, where, 0))


def _packed(value: Any, where: str, depth: int) -> Iterator[bytes]:
    if depth > MAX_DEPTH:
        raise UnpackableError(f"{where} is nested too deeply.")
    if isinstance(value, torch.Tensor):
        if value.dtype not in DTYPES:
            raise UnpackableError(f"{where} is a tensor of {value.dtype}, which is not counted here. Use another dtype.")
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        yield struct.pack(f"<cBB{value.dim()}I", b"T", DTYPES.index(value.dtype), value.dim(), *value.shape)
        yield flat.numpy().tobytes()
    elif value is None or isinstance(value, bool):
        yield {None: b"N", True: b"Y", False: b"F"}[value]
    elif type(value) is int:
        raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        yield struct.pack("<cI", b"I", len(raw)) + raw
    elif type(value) is float:
        yield struct.pack("<cd", b"D", value)
    elif type(value) in (str, bytes):
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        yield struct.pack("<cI", b"S" if isinstance(value, str) else b"B", len(raw)) + raw
    elif type(value) in (list, tuple):
        yield struct.pack("<cI", b"L" if isinstance(value, list) else b"U", len(value))
        for i, part in enumerate(value):
            yield from _packed(part, f"{where}[{i}]", depth + 1)
    elif type(value) is dict:
        yield struct.pack("<cI", b"M", len(value))
        for key, part in value.items():
            yield from _packed(key, f"a key of {where}", depth + 1)
            yield from _packed(part, f"{where}[{key!r}]", depth + 1)
    else:
        raise UnpackableError(
            f"{where} is a {type(value).__name__}. A cache may keep tensors, numbers, texts, and lists or dictionaries of them."
        )


def unpack(data: bytes) -> Any:
    """The inverse of `pack`. Raises UnpackableError for bytes that `pack` cannot have made."""
    try:
        value, end = _unpacked(memoryview(data), 0)
    except (struct.error, IndexError, RuntimeError, ValueError, RecursionError) as error:
        raise UnpackableError(f"expected a packed state, but {error}.") from None
    if end != len(data):
        raise UnpackableError(f"expected a state of {end} bytes, got {len(data)}.")
    return value


def _unpacked(data: memoryview, at: int) -> tuple[Any, int]:
    kind = bytes(data[at : at + 1])
    at += 1
    if kind in (b"N", b"Y", b"F"):
        return {b"N": None, b"Y": True, b"F": False}[kind], at
    if kind == b"D":
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind == b"T":
        number, dims = struct.unpack_from("<BB", data, at)
        shape = struct.unpack_from(f"<{dims}I", data, at + 2)
        at += 2 + 4 * dims
        size = torch.Size(shape).numel() * DTYPES[number].itemsize
        if size > len(data) - at:
            raise ValueError("a tensor is cut off")
        flat = torch.frombuffer(bytearray(data[at : at + size]), dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)
        return flat.view(DTYPES[number]).reshape(shape), at + size
    (count,) = struct.unpack_from("<I", data, at)
    at += 4
    if kind in (b"I", b"S", b"B"):
        raw = bytes(data[at : at + count])
        if kind == b"I":
            return int.from_bytes(raw, "little", signed=True), at + count
        return (raw.decode("utf-8", "surrogatepass") if kind == b"S" else raw), at + count
    parts: list[Any] = []
    for _ in range(count * (2 if kind == b"M" else 1)):
        part, at = _unpacked(data, at)
        parts.append(part)
    if kind == b"M":
        return dict(zip(parts[::2], parts[1::2], strict=True)), at
    if kind not in (b"L", b"U"):
        raise ValueError(f"there is no kind {kind!r}")
    return (parts if kind == b"L" else tuple(parts)), at
