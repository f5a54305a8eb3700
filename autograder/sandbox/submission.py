"""One submission in the sandbox: its cells run once, then its functions are asked, each in a process of its own. Trusted side."""

import contextlib
import json
import math
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.values import Array, EncodedValue
from autograder.sandbox import clock, codec, process, untrusted, wire
from autograder.sandbox.budget import Budget, shorter
from autograder.sandbox.wire import Header, WireError, WireTimeoutError

if TYPE_CHECKING:
    from autograder.sandbox.client import Sandbox


MAX_RESTARTS = 3
PATIENCE = 5  # times its seconds: as long as an answer may take that only ever waits for a processor
REPLY_BYTES = 4 << 20  # arrays that are kept of a reply: a grader keeps those of all probes
GRACE_S = 2.0  # the sandbox stops an overlong cell by itself; after this much more it is stopped from outside


@dataclass(frozen=True)
class Cell:
    """A code cell: its `id` and `source`, and the seconds for it where they are fewer than for any cell."""

    id: str
    source: str
    limit_s: float = math.inf


@dataclass
class CellOutput:
    """What a cell did: `status` is "ok", "error", "timeout", "crashed" or "not run"; `outputs` are nbformat dicts."""

    id: str
    status: str = "not run"
    outputs: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Question:
    """What is asked of the learner's `name`: its probes, the seconds for all of them, and the bytes kept of each reply."""

    name: str
    probes: Sequence[Probe]
    timeout_s: float
    reply_bytes: int = REPLY_BYTES


class Submission:
    """One learner's notebook in the sandbox: `outputs`, one for each cell, then `observe`, `observe_all` and `values`.

    A cell or function that ends or blocks the process costs itself: the process is started again without that cell
    (at most three times, within the time for all cells).
    """

    def __init__(self, sandbox: "Sandbox", cells: Sequence[Cell], files: Mapping[str, bytes], budget: Budget):
        self.outputs = [CellOutput(cell.id) for cell in cells]
        self._sandbox, self._cells, self._files = sandbox, list(cells), dict(files)
        self._written = untrusted.Written(tuple(cell.source for cell in cells))
        self._lost: set[int] = set()
        self._sock: socket.socket | None = None
        self._left_s, self._starts = sandbox.limits.wall_s, 0
        self._cell_s = sandbox.limits.cell_s
        self.budget = budget

    def run(self) -> None:
        """Start the process and run the cells, again without the offender where one ends the process."""
        while self._starts <= MAX_RESTARTS and self._left_s > 0 and not self.budget.spent:
            self._left_s = min(self._left_s, self.budget.left_s)
            self._starts += 1
            began = clock.now()
            try:
                self._sock = self._sandbox.open()
                self._run_once(self._sock)
                return
            except WireError as error:
                culprit = next(
                    (i for i, done in enumerate(self.outputs) if i not in self._lost and done.status == "not run"), None
                )
                if culprit is not None:
                    self._lost.add(culprit)
                    late = isinstance(error, WireTimeoutError)
                    self.outputs[culprit].status = "timeout" if late else "crashed"
                    if late:
                        self._run_out()
                self._drop()
            finally:
                self._left_s -= clock.now() - began
                self.budget.spend(clock.now() - began)

    def _run_once(self, sock: socket.socket) -> None:
        budget = self._sandbox.limits.output_bytes
        todo = [i for i in range(len(self._cells)) if i not in self._lost]
        for i in todo:
            self.outputs[i] = CellOutput(self._cells[i].id)
        text = json.dumps([[i, self._cells[i].source, min(self._cells[i].limit_s, self._cell_s)] for i in todo]).encode()
        arrays = [np.frombuffer(data, np.uint8) for data in (text, *self._files.values())]
        order: Header = {"op": "run", "id": secrets.token_hex(8), "files": list(self._files)}
        order |= {"cell_s": self._cell_s, "wall_s": self._left_s, "patience": PATIENCE if process.TELLS else 1}
        until = clock.now() + self._left_s + GRACE_S
        wire.send(sock, order, arrays, deadline=until)
        for i in todo:
            soon = self._soon(min(self._cells[i].limit_s, self._cell_s), until)
            reply, (raw,) = _reply(sock, "cell", order["id"], soon, arrays=1)
            if reply.get("index") != i or reply.get("status") not in ("ok", "error", "timeout", "not run"):
                raise WireError(f"expected the outputs of cell {i}.")
            self.outputs[i].outputs, budget = untrusted.clean_outputs(reply.get("shown"), raw.tobytes(), budget)
            self.outputs[i].status = reply["status"]
            if reply["status"] == "timeout":
                self._run_out()
        _reply(sock, "ran", order["id"], until)

    def _soon(self, limit_s: float, until: float) -> wire.Deadline:
        """When a cell must have ended that begins now: it rests while the cell stands in line for a processor."""
        began = clock.now()

        def soon() -> float:
            end = min(until, began + limit_s + GRACE_S)
            return end if clock.now() < end else min(until, began + PATIENCE * limit_s + GRACE_S, end + self._sandbox.waited_s(1))

        return soon

    def _run_out(self) -> None:
        self._cell_s = shorter(self._cell_s)  # the sandbox does so by itself
        self.budget.ran_out()

    def observe(self, name: str, probes: Sequence[Probe], timeout_s: float) -> list[Observation]:
        """What the learner's `name` does on each probe, in a process of its own with `timeout_s` seconds for all of them.

        A crash or hang fails its probe and the remaining ones, as Failure("crashed") or Failure("timeout").
        """
        try:
            with self._call(timeout_s) as channel:
                return self._observe(channel, Question(name, probes, timeout_s))
        except WireError:
            return [untrusted.failed("crashed")] * len(probes)

    def observe_all(self, questions: Sequence[Question], *, apart: bool = False) -> dict[str, list[Observation]]:
        """What each name in `questions` does, in one process as far as that lives: quicker than one for each, and less apart.

        An answer that ends the process, or comes too late in the short time of a first round, counts only if it does so again
        in a process of its own, with the seconds that `budget` has for it. With `apart` each is asked in its own from the start.
        """
        seen: dict[str, list[Observation]] = {}
        left, late = list(questions), []
        while left:
            try:
                with self._call(sum(question.timeout_s for question in left)) as channel:
                    alone = True
                    while left:
                        question = replace(left[0], timeout_s=self.budget.first(left[0].timeout_s))
                        found = self._observe(channel, question)
                        if _ended(found, "timeout"):
                            self.budget.late += 1
                            if question.timeout_s < left[0].timeout_s or not alone:
                                late.append(left.pop(0))
                                break
                        ended = _ended(found, "timeout", "crashed")
                        if alone or not ended:
                            seen[left.pop(0).name] = found
                        if ended or apart:
                            break
                        alone = False
            except WireError:
                seen |= {each.name: [untrusted.failed("crashed")] * len(each.probes) for each in left}
                break
        for number, question in enumerate(late):
            began = clock.now()
            seconds = self.budget.second(question.timeout_s, len(late) - number)
            seen[question.name] = self.observe(question.name, question.probes, seconds)
            self.budget.shared_s = max(0.0, self.budget.shared_s - (clock.now() - began))
        return {question.name: seen[question.name] for question in questions}

    def _observe(self, channel: socket.socket, question: Question) -> list[Observation]:
        seen: list[Observation] = []
        began = started = clock.now()
        most = started + max(question.timeout_s, min(PATIENCE * question.timeout_s, self.budget.left_s))

        def until() -> float:
            end = started + question.timeout_s
            return end if clock.now() < end else min(most, end + self._sandbox.waited_s())

        try:
            for probe in question.probes:
                began = clock.now()
                header, arrays = codec.probe_to_wire(probe)
                reply, body = _ask(channel, "observe", {"name": question.name, **header}, arrays, until)
                large = sum(array.nbytes for array in body) > question.reply_bytes
                found = (
                    Observation(failure=Failure("raised", "OutputTooLarge"))
                    if large
                    else codec.observation_from_wire(reply, body)
                )
                seen.append(untrusted.clean_observation(found, probe, self._written, clock.now() - began))
        except WireTimeoutError:
            seen.append(untrusted.failed("timeout", f"{question.timeout_s:g} s", clock.now() - began))
        except WireError:
            seen.append(untrusted.failed("crashed", seconds=clock.now() - began))
        finally:
            self.budget.spend(clock.now() - started)
        # a crash or hang stands for the remaining probes as well
        return (seen + seen[-1:] * len(question.probes))[: len(question.probes)]

    def values(self, names: Sequence[str]) -> dict[str, EncodedValue | None]:
        """The plain values (text, number, bool, or containers of them) that the learner gave `names`; None for anything else."""
        found: dict[str, EncodedValue | None] = dict.fromkeys(names)
        try:
            with self._call(GRACE_S) as channel:
                for name in names:
                    reply, arrays = _ask(channel, "value", {"name": name}, [], clock.now() + GRACE_S)
                    tree = codec.fetch_tree(reply.get("value"), arrays)
                    found[name] = None if tree is None or arrays or tree.strange else tree
        except WireError:
            pass
        return found

    @contextlib.contextmanager
    def _call(self, timeout_s: float) -> Iterator[socket.socket]:
        """A channel to a fresh process that holds the learner's names. Whatever happens there, the next one works."""
        if self._sock is None:
            self.run()
        if self._sock is None:
            raise WireError("the submission's process cannot be kept alive.")
        ours, theirs = socket.socketpair()
        order = {"op": "call", "timeout_s": timeout_s, "id": secrets.token_hex(8)}
        try:
            with theirs:
                wire.send(self._sock, order, deadline=clock.now() + GRACE_S, fds=[theirs.fileno()])
            yield ours
        finally:
            ours.close()
            self._reap()

    def _reap(self) -> None:
        """End the exercise's process; where its parent does not answer any more, drop that too."""
        if self._sock is None:
            return
        began = clock.now()
        ticket, until = secrets.token_hex(8), began + GRACE_S
        try:
            wire.send(self._sock, {"op": "reap", "id": ticket}, deadline=until)
            _reply(self._sock, "reaped", ticket, until)
        except WireError:
            self._drop()
        self.budget.spend(clock.now() - began)

    def _drop(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        self._sandbox.sweep()

    def close(self) -> None:
        """End the submission and wipe its traces, which takes a while where it left a million files."""
        began = clock.now()
        self._drop()
        self.budget.spend(clock.now() - began)


def _ended(seen: Sequence[Observation], *kinds: str) -> bool:
    return any(one.failure is not None and one.failure.kind in kinds for one in seen)


def _reply(sock: socket.socket, op: str, ticket: str, until: wire.Deadline, arrays: int = 0) -> tuple[Header, list[Array]]:
    reply, body = wire.receive(sock, deadline=until)
    if reply.get("op") != op or reply.get("id") != ticket or len(body) != arrays:
        raise WireError(f"expected the reply {op!r} to request {ticket}.")
    return reply, body


def _ask(
    channel: socket.socket, op: str, header: Header, arrays: list[Array], until: wire.Deadline
) -> tuple[Header, list[Array]]:
    ticket = secrets.token_hex(8)
    wire.send(channel, {"op": op, "id": ticket, **header}, arrays, deadline=until)
    reply, body = wire.receive(channel, deadline=until)
    if reply.get("op") != "seen" or reply.get("id") != ticket:
        raise WireError(f"expected the reply to request {ticket}.")
    return reply, body
