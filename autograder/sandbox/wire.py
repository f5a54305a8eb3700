"""Frames between the marking process and the sandbox: strict, bounded, never unpickled.

A frame is ``ATW1``, the header's length (u32, little-endian), a JSON header and the raw little-endian arrays that the header
announces. The reader trusts nothing: it checks each length, depth, dtype, shape and character against a cap before it
allocates an array, and raises `WireError` if anything is wrong. Every read and write takes an absolute deadline (in seconds
of `clock.now()`), so the other end can stall nobody.

>>> import socket
>>> a, b = socket.socketpair()
>>> send(a, {"op": "hello"}, [np.arange(3)], deadline=clock.now() + 1)
>>> receive(b, deadline=clock.now() + 1)
({'op': 'hello'}, [array([0, 1, 2])])
>>> a.close(), b.close()
(None, None)
"""

import json
import math
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from autograder.judging.values import MAX_ARRAYS, MAX_BYTES, MAX_DIMS, Array
from autograder.sandbox import clock

MAGIC = b"ATW1"
LOOK_S = 0.5
MAX_HEADER = 256 * 1024
MAX_NODES = 50_000
MAX_JSON_DEPTH = 40  # a spec nests two JSON levels per list and three per dict; `codec` bounds the spec itself
DTYPES = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"})

Header = dict[str, Any]
T = TypeVar("T")
Deadline = float | Callable[[], float]  # a function is called again and again, because its deadline may move


class WireError(Exception):
    """The other end sent something that isn't a valid frame, or a frame is too large. The connection can no longer be used."""


class WireTimeoutError(WireError):
    """The deadline passed before the frame was complete."""


class WireClosedError(WireError):
    """The other end closed the connection."""


# ---------------------------------------------------------------------------------------------- frames


def pack(header: Header, arrays: Sequence[Array] = ()) -> bytes:
    """Return the frame as bytes. Raises WireError if it exceeds a cap or an array's dtype cannot be sent."""
    plain = [little_endian(array) for array in arrays]
    announced = [[array.dtype.str, list(array.shape)] for array in plain]
    try:
        head = json.dumps({"m": header, "a": announced}, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"expected a header of plain finite values, got one that is not JSON: {error}.") from None
    body = sum(array.nbytes for array in plain)
    if len(head) > MAX_HEADER or body > MAX_BYTES or len(plain) > MAX_ARRAYS:
        raise WireError(
            f"expected at most {MAX_HEADER} header bytes, {MAX_BYTES} body bytes and {MAX_ARRAYS} arrays, "
            f"got {len(head)}, {body} and {len(plain)}. Use a smaller case."
        )
    return b"".join([MAGIC, struct.pack("<I", len(head)), head, *(array.tobytes() for array in plain)])


def send(
    sock: socket.socket, header: Header, arrays: Sequence[Array] = (), *, deadline: Deadline, fds: Sequence[int] = ()
) -> None:
    """Write one frame before `deadline`, passing the descriptors `fds` with its first bytes (SCM_RIGHTS). Raises WireError."""
    view = memoryview(pack(header, arrays))
    done = 0
    while done < len(view):
        if fds and not done:
            done = attempt(sock, deadline, socket.send_fds, sock, [view[: 1 << 16]], list(fds))
        else:
            done += attempt(sock, deadline, sock.send, view[done : done + (1 << 20)])


def receive(sock: socket.socket, *, deadline: Deadline) -> tuple[Header, list[Array]]:
    """Read one frame before `deadline`. Returns header and arrays (copies, native byte order, writable). Raises WireError."""
    return _finish(sock, _exactly(sock, 8, deadline), deadline)


def receive_fd(sock: socket.socket, *, deadline: Deadline) -> tuple[Header, list[Array], int | None]:
    """Read like `receive`, and return the file descriptor that came with the frame, if any. Not for a submission's frames."""
    prefix, fds, _, _ = attempt(sock, deadline, socket.recv_fds, sock, 8, 1)
    if not prefix:
        raise WireClosedError("expected a frame, but the other end closed the connection.")
    header, arrays = _finish(sock, bytes(prefix) + _exactly(sock, 8 - len(prefix), deadline), deadline)
    return header, arrays, fds[0] if fds else None


def _finish(sock: socket.socket, prefix: bytes, deadline: Deadline) -> tuple[Header, list[Array]]:
    if prefix[:4] != MAGIC:
        raise WireError(f"expected a frame to start with {MAGIC!r}, got {prefix[:4]!r}.")
    (length,) = struct.unpack("<I", prefix[4:])
    if length > MAX_HEADER:
        raise WireError(f"expected a header of at most {MAX_HEADER} bytes, got {length}.")
    header, announced = _parse(_exactly(sock, length, deadline))
    return header, [_read_array(sock, dtype, shape, deadline) for dtype, shape in announced]


def _parse(text: bytes) -> tuple[Header, list[tuple[str, tuple[int, ...]]]]:
    try:
        head = json.loads(text.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise WireError(f"expected a JSON header: {type(error).__name__}.") from None
    _bounded(head)
    if not isinstance(head, dict) or set(head) != {"m", "a"} or not isinstance(head["m"], dict):
        raise WireError("expected a header with a message `m` and arrays `a`.")
    if not isinstance(head["a"], list) or len(head["a"]) > MAX_ARRAYS:
        raise WireError(f"expected a list of at most {MAX_ARRAYS} arrays.")
    announced, total = [], 0
    for item in head["a"]:
        if not (isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and item[0] in DTYPES):
            raise WireError(f"expected [dtype, shape] with a dtype of {sorted(DTYPES)}.")
        shape = item[1]
        if not (isinstance(shape, list) and len(shape) <= MAX_DIMS and all(type(n) is int and 0 <= n < 2**40 for n in shape)):
            raise WireError(f"expected a shape of at most {MAX_DIMS} sizes >= 0.")
        total += math.prod(shape) * np.dtype(item[0]).itemsize
        if total > MAX_BYTES or math.prod(n for n in shape if n) > 2**60:  # NumPy refuses (0, huge, huge) too
            raise WireError(f"expected at most {MAX_BYTES} bytes of arrays, got {total} announced.")
        announced.append((item[0], tuple(shape)))
    return head["m"], announced


def _read_array(sock: socket.socket, dtype: str, shape: tuple[int, ...], deadline: Deadline) -> Array:
    data = _exactly(sock, math.prod(shape) * np.dtype(dtype).itemsize, deadline)
    if dtype == "|b1" and data.strip(b"\0\1"):
        raise WireError("expected booleans stored as 0 and 1.")
    array: Array = np.frombuffer(data, np.dtype(dtype)).reshape(shape)
    return array.astype(array.dtype.newbyteorder("="))


def _exactly(sock: socket.socket, size: int, deadline: Deadline) -> bytes:
    parts, missing = [], size
    while missing:
        part = attempt(sock, deadline, sock.recv, min(missing, 1 << 20))
        if not part:
            raise WireClosedError(f"expected {missing} more bytes, but the other end closed the connection.")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def attempt(sock: socket.socket, deadline: Deadline, step: Callable[..., T], *arguments: Any) -> T:
    """Return `step(*arguments)`, which is one read or write on `sock`, and repeat it until `deadline`. Raises WireError."""
    while True:
        _arm(sock, deadline)
        try:
            return step(*arguments)
        except TimeoutError:
            continue
        except OSError as error:
            raise WireClosedError(f"expected an open connection, got {error.strerror or error}.") from None


def _arm(sock: socket.socket, deadline: Deadline) -> None:
    if deadline == math.inf:
        sock.settimeout(None)
        return
    left = (deadline() if callable(deadline) else deadline) - clock.now()
    if left <= 0:
        raise WireTimeoutError("the deadline passed.")
    sock.settimeout(min(left, LOOK_S))  # the clock may have stood still, so check it again regularly


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _bounded(root: Any) -> None:
    """Check depth, count and text of parsed JSON, without recursion. Raises WireError."""
    stack, count = [(root, 0)], 0
    while stack:
        node, depth = stack.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_JSON_DEPTH:
            raise WireError(f"expected at most {MAX_NODES} values, {MAX_JSON_DEPTH} deep.")
        if isinstance(node, dict):
            stack.extend((key, depth + 1) for key in node)
            stack.extend((item, depth + 1) for item in node.values())
        elif isinstance(node, list):
            stack.extend((item, depth + 1) for item in node)
        elif isinstance(node, str) and any("\ud800" <= c <= "\udfff" for c in node):
            raise WireError("expected Unicode text, got half of a surrogate pair.")
        elif isinstance(node, float) and not math.isfinite(node):
            raise WireError('expected finite numbers (a tree spells the others {"f": …}).')


def little_endian(array: Array) -> Array:
    """Return `array`, contiguous and little-endian. Raises WireError for a dtype that cannot be sent."""
    plain = np.ascontiguousarray(array).reshape(array.shape)
    if plain.dtype.byteorder == ">" or (plain.dtype.byteorder == "=" and not np.little_endian):
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    if plain.dtype.str not in DTYPES:
        raise WireError(f"expected a dtype of {sorted(DTYPES)}, got {array.dtype}.")
    return plain
