"""Run one submission's cells inside the sandbox, then fork a process for each exercise that is asked about.

Everything here shares its memory with the learner's code and is therefore untrusted. It holds no expected values, and the
other end of its channel believes only what `autograder.sandbox.wire` and `autograder.sandbox.codec` let through.
"""

import contextlib
import gc
import json
import math
import os
import resource
import signal
import socket
import sys
import time
from typing import Any

import numpy as np

from autograder.judging.call_answer import observe
from autograder.judging.observation import Failure, Observation
from autograder.judging.values import Array, ArrayNode, EncodedValue, ObjectNode, encode, store
from autograder.sandbox import codec, wire
from autograder.sandbox.inside import cells, confine
from autograder.sandbox.wire import Header, WireError

NO_DISPLAY = "module://autograder.sandbox.inside.no_display"


def main(channel: int, shell: cells.Shell, config: Header) -> None:
    """Run the submission's process on the socket `channel`. Never returns normally."""
    limits = config["limits"]
    _detach(channel, config["tier"])
    _limit(limits, config["mapped"])
    home = os.path.join(config["scratch"][0], "work")
    os.mkdir(home)
    os.chdir(home)
    sys.path.insert(0, "")  # as in Jupyter, cells can import a file next to the notebook
    gc.set_threshold(20_000, 20, 20)  # scanning all of torch's objects costs more than a learner's garbage does
    sock = socket.socket(fileno=channel)
    namespace = shell.user_ns
    child = 0
    while True:
        order, arrays, passed = wire.receive_fd(sock, deadline=math.inf)
        if order["op"] == "run":
            _run_cells(sock, shell, order, arrays)
        elif order["op"] == "call" and passed is not None:
            child = confine.fork()
            if child == 0:
                _exercise(passed, namespace, order, config["tier"])
            os.close(passed)
        elif order["op"] == "reap":
            _kill_children(child, config["tier"])
            wire.send(sock, {"op": "reaped", "id": order["id"]}, deadline=math.inf)


def _detach(keep: int, tier: str) -> None:
    """Start a new session that dies with its parent, and close all descriptors but `keep`.

    Signals cannot leave it if Landlock can restrict them, except in the tier "none".
    """
    os.setsid()
    confine.die_with_parent()
    confine.adopt_orphans()
    if tier != "none" and (tier == "landlock" or confine.landlock_abi() >= confine.MIN_LANDLOCK):
        confine.scope_signals()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    os.closerange(3, keep)
    os.closerange(keep + 1, 65536)
    sys.stdin = os.fdopen(0, closefd=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _limit(limits: Header, mapped: int) -> None:
    for kind, value in (
        (resource.RLIMIT_AS, mapped + limits["memory_bytes"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _run_cells(sock: socket.socket, shell: cells.Shell, order: Header, arrays: list[Array]) -> None:
    sources, *contents = arrays
    for name, content in zip(order["files"], contents, strict=True):
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "wb") as file:
            file.write(content.tobytes())
    work = [(int(index), str(source), float(limit_s)) for index, source, limit_s in json.loads(sources.tobytes())]
    until = time.monotonic() + order["wall_s"]
    limits = {"cell_s": order["cell_s"], "own_s": order["own_s"], "until": until, "patience": order["patience"]}
    for index, status, outputs in cells.run(shell, work, **limits):
        shown, texts = codec.outputs_to_wire(outputs)
        reply = {"op": "cell", "id": order["id"], "index": index, "status": status, "shown": shown}
        wire.send(sock, reply, [np.frombuffer(texts, np.uint8)], deadline=math.inf)
    wire.send(sock, {"op": "ran", "id": order["id"]}, deadline=math.inf)


def _kill_children(child: int, tier: str) -> None:
    """End the exercise's process and everything it started, and if the tier allows it, whatever the cells left running."""
    if child == 0:
        return
    with contextlib.suppress(OSError):
        if tier == "none":
            os.killpg(child, signal.SIGKILL)
        else:
            os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.waitpid(child, 0)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _exercise(channel: int, namespace: dict[str, Any], order: Header, tier: str) -> None:
    """Answer questions about the learner's names in a separate process until the other side closes the channel."""
    try:
        _detach(channel, tier)
        seconds = math.ceil(order["timeout_s"]) + 1
        seconds = min(seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]) if tier != "none" else seconds
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        sys.stdout = sys.stderr = cells.Stream("stdout", None)
        _show_nothing()
        sock = socket.socket(fileno=channel)
        while True:
            request, arrays = wire.receive(sock, deadline=math.inf)
            reply, body = _answer(request, arrays, namespace, request["name"])
            wire.send(sock, {"op": "seen", "id": request["id"], **reply}, body, deadline=math.inf)
    finally:
        os._exit(0)


def _show_nothing() -> None:
    """Close figures instead of showing them, whether Matplotlib is already loaded or the answer imports it."""
    os.environ["MPLBACKEND"] = NO_DISPLAY
    with contextlib.suppress(Exception):  # a learner's module may have this name
        if (library := sys.modules.get("matplotlib")) is not None:
            library.rcParams.update({"backend": NO_DISPLAY, "figure.max_open_warning": 0})
        if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
            pyplot.switch_backend(NO_DISPLAY)


def _answer(request: Header, arrays: list[Array], namespace: dict[str, Any], name: str) -> tuple[Header, list[Array]]:
    if request["op"] == "value":
        stored: list[Array] = []
        tree = encode(namespace[name]) if name in namespace else None
        return {"value": store(tree, stored)}, stored
    if name not in namespace:
        return codec.observation_to_wire(Observation(failure=Failure("missing")))
    try:
        observation = observe(namespace[name], codec.probe_from_wire(request, arrays))
    except KeyboardInterrupt:  # raised by the answer itself, because nobody presses Ctrl-C here
        observation = Observation(failure=Failure("raised", "KeyboardInterrupt"))
    if observation.value is not None:
        observation.value = observation.value.map(_sendable)
        observation.grads = {key: None if grad is None else _sendable_array(grad) for key, grad in observation.grads.items()}
    try:
        header, body = codec.observation_to_wire(observation)
        wire.pack({"op": "seen", "id": request["id"], **header}, body)
    except WireError:
        return codec.observation_to_wire(Observation(failure=Failure("raised", "OutputTooLarge")))
    return header, body


def _sendable(leaf: EncodedValue) -> EncodedValue:
    """Return `leaf`, or a named object in its place if it is an array whose dtype the wire doesn't know (float128)."""
    if not isinstance(leaf, ArrayNode):
        return leaf
    array = _sendable_array(leaf.content)
    return ObjectNode(f"array of {leaf.content.dtype}") if array is None else ArrayNode(array, leaf.kind)


def _sendable_array(array: Array) -> Array | None:
    try:
        return wire.little_endian(array)
    except WireError:
        return None
