"""Run one submission's cells once in the sandbox, then question its functions, each in a separate process. Trusted side."""

import contextlib
import json
import math
import secrets
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.values import Array
from autograder.sandbox import clock, codec, process, untrusted, wire
from autograder.sandbox.budget import LEAST_FIRST_S, WALL_TIMES, Budget, shorter
from autograder.sandbox.submission_time import OwnTime
from autograder.sandbox.wire import Header, WireError, WireTimeoutError

if TYPE_CHECKING:
    from autograder.sandbox.client import Sandbox


MAX_RESTARTS = 3
ENOUGH = 0.75  # fraction of a limit; a cell or question that had so much time of its own was not cut short by other processes
REPLY_BYTES = 4 << 20  # most bytes of arrays kept from one reply, because a grader keeps the replies to all probes
GRACE_S = 2.0  # the sandbox stops an overlong cell itself; after this much longer it is stopped from outside


@dataclass(frozen=True)
class Cell:
    """A code cell with its `id` and `source`. `limit_s` is a time limit of its own, which can only shorten the general one."""

    id: str
    source: str
    limit_s: float = math.inf


@dataclass
class CellOutput:
    """The result of a cell: `status` is "ok", "error", "timeout", "crashed" or "not run"; `outputs` are nbformat dicts."""

    id: str
    status: str = "not run"
    outputs: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Question:
    """A question about the learner's `name`: its probes, the seconds for all of them, and the bytes kept of each reply."""

    name: str
    probes: Sequence[Probe]
    timeout_s: float
    reply_bytes: int = REPLY_BYTES


class Submission:
    """One learner's notebook in the sandbox. `run` fills `outputs`, and `observe`, `observe_all` and `texts` ask about its names.

    After it is closed, `refused` says how often each system call was refused. If a cell or function ends or blocks the
    process, only that cell or function is lost: the process is started again without it, at most three times and within the
    time for all cells.
    """

    def __init__(self, sandbox: "Sandbox", cells: Sequence[Cell], files: Mapping[str, bytes], budget: Budget):
        self.outputs = [CellOutput(cell.id) for cell in cells]
        self._sandbox, self._cells, self._files = sandbox, list(cells), dict(files)
        self._written = untrusted.Written(tuple(cell.source for cell in cells))
        self.refused: Counter[str] = Counter()  # how often the sandbox refused each system call
        self._lost: set[int] = set()
        self._sock: socket.socket | None = None
        self._left_s, self._starts = sandbox.limits.wall_s, 0
        self._cell_s = sandbox.limits.cell_s
        self.budget = budget
        self._stood: Mapping[int, float] = {}  # how long each process had waited for a processor when the last question ended

    def run(self) -> None:
        """Start the process and run the cells. If a cell ends the process, run them again without it."""
        while self._starts <= MAX_RESTARTS and self._left_s > 0 and not self.budget.spent:
            self._left_s = min(self._left_s, self.budget.left_s)
            self._starts += 1
            began = clock.now()
            try:
                self._sock = self._sandbox.open()
                self._sandbox.refused()  # not the submission's: a new worker tries forbidden calls as a proof
                if self._starts > 1 or self.budget.untidy:  # the first start isn't charged
                    self._spend(clock.now() - began)
                self.budget.untidy = False
                self.budget.start()
                timer = OwnTime(self._sandbox, 1, {})
                try:
                    self._run_once(self._sock, timer)
                finally:
                    self._spend(timer.spent_s())
                return
            except WireError as error:
                left = [i for i, done in enumerate(self.outputs) if i not in self._lost and done.status == "not run"]
                if left:
                    culprit = left[0]
                    self._lost.add(culprit)
                    late = isinstance(error, WireTimeoutError)
                    self.outputs[culprit].status = "timeout" if late else "crashed"
                    if late:
                        self._run_out()
                began = clock.now()
                self._drop()
                self._spend(clock.now() - began)

    def _spend(self, seconds: float) -> None:
        self._left_s -= seconds
        self.budget.spend(seconds)

    def _run_once(self, sock: socket.socket, timer: OwnTime) -> None:
        room = untrusted.Room(self._sandbox.limits.output_bytes)
        todo = [i for i in range(len(self._cells)) if i not in self._lost]
        for i in todo:
            self.outputs[i] = CellOutput(self._cells[i].id)
        text = json.dumps([[i, self._cells[i].source, min(self._cells[i].limit_s, self._cell_s)] for i in todo]).encode()
        arrays = [np.frombuffer(data, np.uint8) for data in (text, *self._files.values())]
        order: Header = {"op": "run", "id": secrets.token_hex(8), "files": list(self._files), "cell_s": self._cell_s}
        order |= {"own_s": self._left_s, "wall_s": max(0.0, self.budget.until - clock.now())}
        order["patience"] = WALL_TIMES if process.TELLS else 1
        whole = self._left_s >= self.budget.left_s  # the cells may use the whole budget
        until = timer.deadline(self._left_s + GRACE_S, self.budget.until)
        wire.send(sock, order, arrays, deadline=until)
        for i in todo:
            limit_s = min(self._cells[i].limit_s, self._cell_s)
            watch = OwnTime(self._sandbox, 1)
            left_s = self._left_s - timer.spent_s() if i != todo[0] else self._left_s
            try:
                reply, (raw,) = _reply(sock, "cell", order["id"], watch.deadline(limit_s + GRACE_S, self.budget.until), arrays=1)
            except WireTimeoutError:
                self._note_starved(watch, min(limit_s, left_s))
                raise
            if reply.get("index") != i or reply.get("status") not in ("ok", "error", "timeout", "not run"):
                raise WireError(f"expected the outputs of cell {i}.")
            if reply["status"] == "timeout":
                self._note_starved(watch, min(limit_s, left_s))
                self._run_out()
                if whole and left_s < limit_s:  # the budget ended here; the sandbox counts its seconds slightly differently
                    self.budget.spend(self.budget.left_s)
            self.outputs[i].outputs, room = untrusted.clean_outputs(reply.get("shown"), raw.tobytes(), room)
            self.outputs[i].status = reply["status"]
        _reply(sock, "ran", order["id"], until)

    def _note_starved(self, watch: OwnTime, limit_s: float) -> None:
        """Record whether something ran out of time only because other processes had the processors, before it had its seconds."""
        had = watch.spent_s() if process.TELLS else watch.worked_s()
        self.budget.starved = self.budget.starved or had < ENOUGH * limit_s

    def _run_out(self) -> None:
        self._cell_s = shorter(self._cell_s)  # the sandbox does the same
        self.budget.ran_out()

    def observe(self, name: str, probes: Sequence[Probe], timeout_s: float, reply_bytes: int = REPLY_BYTES) -> list[Observation]:
        """Observe the learner's `name` on each probe, in a separate process with `timeout_s` seconds for all probes.

        A crash or hang fails its probe and all later ones, as Failure("crashed") or Failure("timeout").
        """
        try:
            with self._call(timeout_s) as channel:
                return self._observe(channel, Question(name, probes, timeout_s, reply_bytes))
        except WireError:
            return [untrusted.failed("crashed")] * len(probes)

    def observe_all(self, questions: Sequence[Question], *, apart: bool = False) -> dict[str, list[Observation]]:
        """Observe each name in `questions` in one process for as long as it survives, which is quicker than one process each.

        An answer that ends the process, or misses the short limit of a first round, counts only if it does so again in a
        separate process, with the seconds that `budget` grants. With `apart`, each question has a separate process from the
        start.
        """
        observations: dict[str, list[Observation]] = {}
        left, late = list(questions), []
        while left and not self._is_over():
            try:
                with self._call(sum(question.timeout_s for question in left)) as channel:
                    alone = True
                    while left:
                        question = replace(left[0], timeout_s=self.budget.first(left[0].timeout_s))
                        answers = self._observe(channel, question)
                        if _ended(answers, "timeout"):
                            self.budget.late += 1
                            if question.timeout_s < left[0].timeout_s or not alone:
                                late.append(left.pop(0))
                                break
                            self.budget.second_took(0.0, in_vain=True)
                        ended = _ended(answers, "timeout", "crashed")
                        if alone or not ended:
                            observations[left.pop(0).name] = answers
                        if ended or apart:
                            break
                        alone = False
            except WireError:
                observations |= {question.name: [untrusted.failed("crashed")] * len(question.probes) for question in left}
                left = []
        observations |= {question.name: [untrusted.failed("timeout")] * len(question.probes) for question in (*left, *late)}
        for number, question in enumerate(late):
            if self._is_over():
                break
            before = self.budget.left_s
            seconds = self.budget.second(question.timeout_s, len(late) - number)
            observations[question.name] = self.observe(question.name, question.probes, seconds)
            self.budget.second_took(before - self.budget.left_s, in_vain=_ended(observations[question.name], "timeout"))
        return {question.name: observations[question.name] for question in questions}

    def _is_over(self) -> bool:
        """Return whether nothing more can be asked, and note if the clock alone is the reason."""
        over = self.budget.spent
        self.budget.starved = self.budget.starved or (over and self.budget.left_s >= LEAST_FIRST_S)
        return over

    def _observe(self, channel: socket.socket, question: Question) -> list[Observation]:
        observations: list[Observation] = []
        began = clock.now()
        watch = OwnTime(self._sandbox, 2, self._stood)
        until = watch.deadline(question.timeout_s, self.budget.until)
        try:
            for probe in question.probes:
                began = clock.now()
                header, arrays = codec.probe_to_wire(probe)
                reply, body = _ask(channel, "observe", {"name": question.name, **header}, arrays, until)
                large = sum(array.nbytes for array in body) > question.reply_bytes
                cut = Observation(failure=Failure("raised", "OutputTooLarge"))
                observation = cut if large else codec.observation_from_wire(reply, body)
                observations.append(untrusted.clean_observation(observation, probe, self._written, clock.now() - began))
        except WireTimeoutError:
            self._note_starved(watch, question.timeout_s)
            observations.append(untrusted.failed("timeout", f"{question.timeout_s:g} s", clock.now() - began))
        except WireError:
            observations.append(untrusted.failed("crashed", seconds=clock.now() - began))
        finally:
            self.budget.spend(watch.spent_s())
            self._stood = watch.delays or {}
        # a crash or hang also counts for the remaining probes
        return (observations + observations[-1:] * len(question.probes))[: len(question.probes)]

    def texts(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return the text that each of the learner's `names` holds, alone or in a list of one; None for anything else."""
        texts: dict[str, str | None] = dict.fromkeys(names)
        try:
            with self._call(GRACE_S) as channel:
                watch = OwnTime(self._sandbox, 2, {})
                try:
                    for name in names:
                        until = watch.deadline(min(GRACE_S, self.budget.left_s), self.budget.until)
                        reply, arrays = _ask(channel, "value", {"name": name}, [], until)
                        tree = codec.fetch_tree(reply.get("value"), arrays)
                        if tree is not None and tree.entries is not None and len(tree.entries) == 1:  # ["b"]
                            tree = tree.entries[0]
                        texts[name] = tree.content if tree is not None and isinstance(tree.content, str) else None
                finally:
                    self.budget.spend(watch.spent_s())
        except WireError:
            pass
        return texts

    @contextlib.contextmanager
    def _call(self, timeout_s: float) -> Iterator[socket.socket]:
        """Yield a channel to a fresh process that holds the learner's names. Whatever happens there, the next call works."""
        if self._sock is None:
            self.run()
        if self._sock is None:
            raise WireError("the submission's process cannot be kept alive.")
        ours, theirs = socket.socketpair()
        self._stood = {}
        order = {"op": "call", "timeout_s": timeout_s, "id": secrets.token_hex(8)}
        try:
            with theirs:
                wire.send(self._sock, order, deadline=clock.now() + GRACE_S, fds=[theirs.fileno()])
            yield ours
        finally:
            ours.close()
            self._reap()

    def _reap(self) -> None:
        """End the exercise's process. If its parent no longer answers, end that too."""
        if self._sock is None:
            return
        watch, ticket = OwnTime(self._sandbox, 1), secrets.token_hex(8)
        until = watch.deadline(GRACE_S, max(self.budget.until, clock.now() + GRACE_S))
        try:
            wire.send(self._sock, {"op": "reap", "id": ticket}, deadline=until)
            _reply(self._sock, "reaped", ticket, until)
        except WireError:
            self._drop()
        self.budget.spend(watch.spent_s())

    def _drop(self, *, done: bool = False) -> bool:
        """End the process and whatever it left running. Returns whether the worker tidied up in time and can go on."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        self.refused.update(self._sandbox.refused())
        kept = self._sandbox.sweep(done=done)
        self._sandbox.refused()  # refusals during the clean-up are not the submission's
        return kept

    def close(self) -> None:
        """End the submission and wipe its traces. If that takes too long, the worker is replaced."""
        began = clock.now()
        self.budget.untidy = not self._drop(done=self._sock is not None)
        self.budget.spend(clock.now() - began)


def _ended(observations: Sequence[Observation], *kinds: str) -> bool:
    return any(observation.failure is not None and observation.failure.kind in kinds for observation in observations)


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
