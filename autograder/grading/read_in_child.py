"""Read a student's text in a child process that may fail, because some texts keep parsers and highlighters busy for minutes.

    found = read([Task("scopes", source), Task("coloured", source)])   # {task: result}, without tasks that took too long

In: texts, and what to make of each. Out: plain data for as many texts as the student's seconds and memory allow. A small
server, started at first use, loads the libraries and forks a child for each reading. The child has its own limits of
processor time and memory and may write no file. It answers the tasks in order, so a text that ends the child costs only its
own task and the later ones. All readings of a submission share one `Seconds`, which is charged with the child's own
processor time. If the kernel has Landlock and seccomp, the child can read only Python and its packages, and has no network.
"""

import atexit
import contextlib
import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from autograder.grading.marking import forbidden_names
from autograder.notebooks import scopes
from autograder.notebooks.grammars import spare_grammars
from autograder.notebooks.html_page import coloured, markdown, prose
from autograder.notebooks.pictures import drawn_again
from autograder.sandbox import clock, launch
from autograder.sandbox.budget import Budget
from autograder.sandbox.inside import confine

CPU_S = 2  # processor seconds for all texts of one reading
READ_S = 4.0  # processor seconds for all readings of one submission
LEAST_S = 0.02  # with less than this, nothing is read
WALL_S = 30.0  # elapsed seconds, for a busy machine
START_S = 60.0
MEMORY_BYTES = 2 << 30
MAX_ANSWER = 64 << 20


class Task(NamedTuple):
    """A text to read, and `what` to make of it: a key of `MAKERS`."""

    what: str
    source: str


@dataclass
class Seconds:
    """The processor seconds that the readings of a submission may still take. Its `budget` is charged as well.

    `short` says whether the seconds were too few for some text.
    """

    left_s: float
    budget: Budget | None = None
    short: bool = False

    @property
    def next_s(self) -> float:
        """The limit for the next reading, in seconds."""
        return max(0.0, min(CPU_S, self.left_s, self.left_s if self.budget is None else self.budget.left_s))

    def spend(self, seconds: float) -> None:
        """Subtract `seconds` here and from the budget."""
        self.left_s = max(0.0, self.left_s - seconds)
        if self.budget is not None:
            self.budget.spend(seconds)


def _parsed(parse: Callable[[str], Iterable[Any]], source: str) -> list[list[Any]] | None:
    """Return what `parse` finds, as lists, or None if the text is not Python."""
    try:
        return [sorted(part) if isinstance(part, set) else list(part) for part in parse(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _answer(source: str) -> str:
    """Return the text as HTML with formulas.

    Whatever looks like HTML in the text is made harmless first. The caller must still pass the result through the allow-list.
    """
    try:
        return markdown(prose(source), trusted=True)
    except Exception:  # on a learner's TeX the converter may raise anything
        return markdown(source, trusted=False)


MAKERS: dict[str, Callable[[str], Any]] = {
    "scopes": partial(_parsed, scopes.scopes),
    "statements": partial(_parsed, scopes.statements),
    "calls": scopes.calls,
    "names": lambda source: sorted(forbidden_names.names(source)),
    "coloured": coloured,
    "markdown": partial(markdown, trusted=False),
    "answer": _answer,
    "picture": drawn_again,
}


def read(tasks: Sequence[Task], seconds: Seconds | None = None) -> dict[Task, Any]:
    """Return the result of each of `tasks`.

    Tasks that took too long or ended the child are missing, and so are the tasks after them. The time comes off the
    submission's `seconds`.
    """
    seconds = Seconds(READ_S) if seconds is None else seconds
    wanted = list(dict.fromkeys(tasks))
    results: dict[Task, Any] = {}
    if not wanted:
        return results
    request = json.dumps(wanted).encode("utf-8", "replace")
    for _ in range(2):
        if (limit_s := seconds.next_s) < LEAST_S:
            break
        began = time.monotonic()
        raw = _server.ask(request, limit_s)
        passed_s = time.monotonic() - began
        used_s = min(limit_s, passed_s)  # an upper bound, in case the child cannot report its time
        for line in raw.split(b"\n")[:-1]:  # the last part is empty or was cut off
            number, result = json.loads(line)
            if number == _USED:
                used_s = result
            else:
                results[wanted[number]] = result
        seconds.spend(used_s)
        if raw or passed_s >= CPU_S:  # otherwise the child, or the server itself, was killed from outside
            break
    seconds.short = seconds.short or any(task not in results and task.what != "picture" for task in wanted)
    return results


_USED = -1  # stands in place of a task's number before the processor time that the child used
_HEAD = struct.Struct("<Id")  # length of a request in bytes, and its limit in processor seconds


class _Server:
    """The trusted end: starts the server, and lets several threads ask it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> None:
        """Start the server now, so that it loads its libraries while the caller does something else."""
        with self._lock:
            self._started()

    def _started(self) -> socket.socket:
        if self._process is None or self._process.poll() is not None or self._control is None:
            self._end()
            self._control, theirs = socket.socketpair()
            place = str(Path(__file__).resolve().parent.parent.parent)
            start = f"import gc, sys; gc.disable(); sys.path.insert(0, {place!r}); "
            start += f"from autograder.grading.read_in_child import serve; serve({theirs.fileno()})"
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-B", "-c", start], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
        return self._control

    def ask(self, request: bytes, limit_s: float) -> bytes:
        """Return what a child answers to `request` until it ends or has used `limit_s` processor seconds."""
        from autograder.sandbox import wire  # loads NumPy, which the reader itself doesn't need

        ours, theirs = socket.socketpair()
        with ours:
            with theirs, self._lock:
                try:
                    socket.send_fds(self._started(), [b"x"], [theirs.fileno()])
                except BrokenPipeError:  # the server has just ended
                    self._end()
                    socket.send_fds(self._started(), [b"x"], [theirs.fileno()])
            until, answer = clock.now() + START_S + WALL_S, bytearray()
            left = memoryview(_HEAD.pack(len(request), limit_s) + request)
            with contextlib.suppress(wire.WireError):  # too late, or closed: what is there counts
                while left:
                    left = left[wire.attempt(ours, until, ours.send, left) :]
                while len(answer) < MAX_ANSWER and (part := wire.attempt(ours, until, ours.recv, 1 << 20)):
                    answer += part
            return bytes(answer)

    def stop(self) -> None:
        """End the server. Its children die with it."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None


_server = _Server()
start = _server.start
atexit.register(_server.stop)


# ---------------------------------------------------------------------------------------------- the other end


def serve(descriptor: int) -> None:
    """Fork a child for each descriptor received, until the other end closes. Never returns."""
    control = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    spare_grammars()
    for what in MAKERS.values():
        what("x = 1")  # loads what the readers need
    gc.collect()
    gc.freeze()  # children then share these pages
    gc.enable()
    readable = launch.readable_paths() if sys.platform == "linux" else []
    while True:
        word, fds, _, _ = socket.recv_fds(control, 1, 1)
        if not word:
            os._exit(0)
        if fds and os.fork() == 0:
            try:
                control.close()
                _child(socket.socket(fileno=fds[0]), readable)
            finally:
                os._exit(1)
        for passed in fds:
            os.close(passed)


def _child(channel: socket.socket, readable: Sequence[str]) -> None:
    import resource

    _confine(readable)
    for kind, value in ((resource.RLIMIT_CPU, CPU_S), (resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_FSIZE, 0)):
        with contextlib.suppress(ValueError, OSError):  # macOS has no limit on memory
            resource.setrlimit(kind, (value, value))
    with contextlib.suppress(OSError, AttributeError):  # if the kernel supports it
        confine.die_with_parent()
    signal.setitimer(signal.ITIMER_REAL, WALL_S)  # ends the process
    size, limit_s = _HEAD.unpack(_exactly(channel, _HEAD.size))
    signal.setitimer(signal.ITIMER_PROF, limit_s)  # also ends it, because the kernel's own limit takes only whole seconds
    for number, (what, source) in enumerate(json.loads(_exactly(channel, size))):
        try:
            result = MAKERS[what](source)
        except Exception:
            continue
        channel.sendall(json.dumps([number, result]).encode() + b"\n")
    channel.sendall(json.dumps([_USED, time.process_time()]).encode() + b"\n")
    channel.close()
    os._exit(0)


def _confine(readable: Sequence[str]) -> None:
    """Give up every right that reading a text doesn't need, as far as this kernel supports it."""
    for give_up in (partial(confine.landlock, readable, []), partial(confine.seccomp, metadata=False)):
        with contextlib.suppress(OSError, AttributeError, KeyError):
            give_up()


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = channel.recv(size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
