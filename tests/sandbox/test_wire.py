"""The wire refuses everything that is not exactly a frame, and what it accepts it gives back unchanged."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.values import Code, encode, store
from autograder.sandbox import clock, codec, wire
from autograder.sandbox.wire import WireClosedError, WireError, WireTimeoutError

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ARRAYS = hnp.arrays(
    st.sampled_from([np.dtype(name) for name in sorted(wire.DTYPES)]), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0)
)
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("acdfklost", max_size=1), inner, max_size=2),
    max_leaves=12,
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def soon(seconds: float = 2.0) -> float:
    return clock.now() + seconds


def read(data: bytes, *, seconds: float = 2.0) -> tuple[dict[str, Any], list[Any]]:
    """What `receive` makes of `data` followed by the end of the connection."""
    left, right = socket.socketpair()
    with right:
        writer = threading.Thread(target=_write_and_close, args=(left, data))
        writer.start()
        try:
            return wire.receive(right, deadline=soon(seconds))
        finally:
            right.close()
            writer.join()


def _write_and_close(sock: socket.socket, data: bytes) -> None:
    with sock:
        try:
            sock.sendall(data)
        except OSError:
            return


def frame(head: Any, body: bytes = b"", *, magic: bytes = b"ATW1", length: int | None = None) -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return magic + struct.pack("<I", len(text) if length is None else length) + text + body


@QUICK
@given(st.lists(ARRAYS, max_size=4), st.dictionaries(st.text("abc", max_size=3), st.integers(-5, 5), max_size=3))
def test_a_frame_comes_back_as_it_was_sent(arrays: list[Any], header: dict[str, int]) -> None:
    got, back = read(wire.pack(header, arrays))
    assert got == header
    assert [a.dtype for a in back] == [a.dtype for a in arrays]
    for one, two in zip(arrays, back, strict=True):
        np.testing.assert_array_equal(one, two)
        assert two.flags.writeable


@QUICK
@given(st.binary(max_size=300))
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        read(data)


@QUICK
@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_frame_is_refused_or_still_a_frame(tail: bytes, place: int, value: int) -> None:
    data = bytearray(wire.pack({"op": "x", "n": 3}, [np.arange(6.0).reshape(2, 3)]) + tail)
    data[place % len(data)] = value
    try:
        header, arrays = read(bytes(data))
    except WireError:
        return
    assert isinstance(header, dict)
    assert sum(a.nbytes for a in arrays) <= len(data)


@QUICK
@given(JSON)
def test_any_json_for_a_spec_is_refused_or_a_tree(spec: Any) -> None:
    try:
        tree = codec.fetch_tree([spec, 0, 1], [np.zeros(3)])
    except WireError:
        return
    assert tree is not None
    assert store(tree, [])[0] == spec
    assert not any(isinstance(leaf, Code) for leaf in tree.flat())


@pytest.mark.parametrize(
    "data",
    [
        frame({"m": {}, "a": []}, magic=b"ATW2"),
        frame({"m": {}, "a": []}, length=wire.MAX_HEADER + 1),
        frame({"m": {}, "a": []}, length=0xFFFFFFFF),
        frame({"m": {}}),
        frame({"m": [], "a": []}),
        frame([1, 2]),
        frame(b"\xff\xfe"),
        frame(b'{"m": {"x": NaN}, "a": []}'),
        frame(b'{"m": {"x": 1e999}, "a": []}'),
        frame(b'{"m": {"x": "\\ud800"}, "a": []}'),
        frame(b'{"m": {"x": ' + b"[" * 100_000),
        frame(b'{"m": {"x": ' + b"[" * 60 + b"]" * 60 + b'}, "a": []}'),
        frame(b'{"m": {"x": ' + b"9" * 10_000 + b'}, "a": []}'),
        frame({"m": {"x": [0] * 60_000}, "a": []}),
        frame({"m": {}, "a": [["|O", [1]]]}, b"\0" * 8),
        frame({"m": {}, "a": [["<U4", [1]]]}, b"\0" * 16),
        frame({"m": {}, "a": [["<M8[s]", [1]]]}, b"\0" * 8),
        frame({"m": {}, "a": [["<f8", [2**20, 2**20]]]}),
        frame({"m": {}, "a": [["<f8", [2**39, 2**39, 0]]]}),
        frame({"m": {}, "a": [["<f8", [-1]]]}),
        frame({"m": {}, "a": [["<f8", [True]]]}, b"\0" * 8),
        frame({"m": {}, "a": [["<f8", [1.0]]]}, b"\0" * 8),
        frame({"m": {}, "a": [["<f8", "1"]]}, b"\0" * 8),
        frame({"m": {}, "a": [["<f8", [1] * 40]]}, b"\0" * 8),
        frame({"m": {}, "a": [[["<f8"], [1]]]}, b"\0" * 8),
        frame({"m": {}, "a": [["<f8", [1]]] * 5000}),
        frame({"m": {}, "a": [["<f8", [4]]]}, b"\0" * 31),
        frame({"m": {}, "a": [["|b1", [2]]]}, b"\0\2"),
    ],
)
def test_hostile_frames_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        read(data)


def test_a_slow_writer_runs_into_the_absolute_deadline(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    data = wire.pack({"op": "x"}, [np.arange(100)])
    enough = threading.Event()

    def trickle() -> None:
        for byte in data:  # never silent, and for longer than anybody waits
            if enough.wait(0.02):
                return
            left.send(bytes([byte]))

    writer = threading.Thread(target=trickle)
    writer.start()
    with pytest.raises(WireTimeoutError):
        wire.receive(right, deadline=soon(0.2))
    enough.set()
    writer.join()


def test_a_reader_that_does_not_read_runs_into_the_deadline(pair: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(WireTimeoutError):
        wire.send(pair[0], {}, [np.zeros(1_000_000)], deadline=soon(0.2))


def test_a_closed_connection_says_so(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].close()
    with pytest.raises(WireClosedError):
        wire.receive(pair[1], deadline=soon())


@pytest.mark.parametrize("array", [np.zeros(2, object), np.zeros(2, "M8[s]"), np.zeros((2, 0), "V3"), np.array("text")])
def test_dtypes_without_a_place_are_not_sent(array: Any) -> None:
    with pytest.raises(WireError, match="expected a dtype"):
        wire.pack({}, [array])


def test_a_frame_above_the_caps_is_not_sent() -> None:
    with pytest.raises(WireError, match="at most"):
        wire.pack({}, [np.zeros(wire.MAX_BYTES // 8 + 1)])
    with pytest.raises(WireError, match="at most"):
        wire.pack({"x": "y" * wire.MAX_HEADER})
    with pytest.raises(WireError, match="JSON"):
        wire.pack({"x": float("nan")})


def test_big_endian_arrays_arrive_in_native_order() -> None:
    _, (back,) = read(wire.pack({}, [np.arange(3, dtype=">f8")]))
    assert back.dtype == np.float64
    np.testing.assert_array_equal(back, np.arange(3.0))


def test_a_probe_comes_back_as_it_was_sent() -> None:
    probe = Probe(encode({"x": np.ones((2, 3)), "n": 2, "inf": float("inf")}), ("x",), encode(np.ones(2)))
    header, arrays = codec.probe_to_wire(probe)
    back = codec.probe_from_wire(*read(wire.pack(header, arrays)))
    assert (store(back.inputs, []), back.grad) == ([store(probe.inputs, [])[0], 0, 1], probe.grad)
    np.testing.assert_array_equal(back.inputs.arrays[0], np.ones((2, 3)))
    assert back.cotangent is not None


def test_an_observation_comes_back_without_message_and_notes() -> None:
    failure = Failure("raised", "ValueError", "secret 0.25", (3, "return x"))
    header, arrays = codec.observation_to_wire(Observation(failure=failure, notes=("secret",)))
    assert "secret" not in json.dumps(header)
    back = codec.observation_from_wire(header, arrays)
    assert back.failure == Failure("raised", "ValueError", "", (3, "return x"))


def test_code_travels_to_the_sandbox_and_not_back() -> None:
    spec = {"d": [["f", {"c": "lambda x: x"}]]}
    assert codec.probe_from_wire({"inputs": [spec, 0, 0], "grad": [], "cotangent": None}, []).inputs == encode(
        {"f": Code("lambda x: x")}
    )
    with pytest.raises(WireError):
        codec.observation_from_wire({"value": [spec, 0, 0], "grads": {}, "mutated": [], "failure": None}, [])


@pytest.mark.parametrize(
    "spec",
    [
        None, [], {}, {"a": 0}, {"a": 1, "k": "array"}, {"a": -1, "k": "array"}, {"a": True, "k": "array"},
        {"a": 0, "k": "pickle"},
        {"s": [1]}, {"s": 2**63}, {"s": 1, "f": "nan"}, {"s": 1, "k": "array"}, {"f": "1e5"}, {"o": "x" * 81},
        {"o": 1}, {"c": "1"},
        {"z": 1}, {"l": {}}, {"d": {}}, {"d": [["a", {"s": 1}], ["a", {"s": 2}]]}, {"d": [[1, {"s": 1}]]}, {"d": [["a"]]},
    ],
)  # fmt: skip
def test_specs_that_are_no_trees_are_refused(spec: Any) -> None:
    with pytest.raises(WireError):
        codec.fetch_tree([spec, 0, 1], [np.zeros(3)])


def test_a_deep_spec_is_refused() -> None:
    spec: dict[str, Any] = {"s": 1}
    for _ in range(9):
        spec = {"l": [spec]}
    with pytest.raises(WireError, match="deep"):
        codec.fetch_tree([spec, 0, 0], [])


@pytest.mark.parametrize(
    "change",
    [
        {"value": None}, {"value": [{"s": 1}, 0]}, {"value": [{"s": 1}, 0, 5]}, {"value": [{"s": 1}, -1, 0]}, {"grads": {"x": 7}},
        {"grads": {"x": True}}, {"grads": []}, {"mutated": "x"}, {"mutated": [1]},
        {"mutated": ["x"] * 101}, {"failure": "raised"},
        {"failure": ["raised", "x" * 300, None]}, {"failure": ["raised", "E", [1]]}, {"failure": ["raised", "E", ["1", "x"]]},
    ],
)  # fmt: skip
def test_forged_observations_are_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"value": [{"s": 1}, 0, 0], "grads": {}, "mutated": [], "failure": None}
    codec.observation_from_wire(good, [])
    with pytest.raises(WireError):
        codec.observation_from_wire(good | change, [])
