"""The trusted end of one warm worker: start it, order submissions and sweeps, end it. See `autograder.sandbox.inside.worker`."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder.sandbox import cgroup, clock, launch, wire
from autograder.sandbox.inside import wipe
from autograder.sandbox.refusals import Refusals
from autograder.sandbox.wire import WireError

START_S = 120.0  # importing torch from a cold network disk is slow
SWEEP_S = 2.0  # after this, ending the worker together with its disk is quicker
END_S = 4.0
MAX_SEEN = 200  # most processes to inspect, and most threads of one: three times what a submission may have
CROWD = 16  # processes and threads, including the worker's own
TELLS = Path("/proc/self/schedstat").exists()  # whether the kernel reports how long a process waited for a processor
FORK_S = 20.0  # the worker may still be tidying up after the first submission


class SandboxUnavailable(RuntimeError):  # noqa: N818 - says what is the matter, as FileNotFoundError would not
    """No isolation is available here. The message says why and what to do."""


class Host:
    """A running worker in `tier`; `limits` is `submission_limits.Limits` as a dict.

    Raises SandboxUnavailable if the worker does not start.
    """

    def __init__(
        self, tier: str, limits: dict[str, Any], preload: Sequence[str], *, given: Sequence[str] = (), warm: bool = True
    ):
        if (reason := launch.unsupported(tier)) is not None:
            raise SandboxUnavailable(f"The {tier} sandbox is not available: {reason}.")
        clock.start()
        self.tier, self.limits = tier, limits
        self._private = Path(tempfile.mkdtemp(prefix="attn-"))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._process: subprocess.Popen[bytes] | None = None
        self._inner: int | None = None
        self._refusals: Refusals | None = None
        self._user = launch.User()
        self._group = cgroup.make(limits["tree_bytes"])
        self.capped = self._group is not None and self._group.capped  # whether memory is limited for all processes together
        self._control, theirs = socket.socketpair()
        try:
            self.ready = self._start(theirs, preload, given, warm)
        except (OSError, ValueError, WireError) as error:
            reason = self._last_line() or str(error)
            self.close()
            raise SandboxUnavailable(f"The {tier} sandbox is not available: {reason}") from None
        finally:
            theirs.close()

    def _start(self, theirs: socket.socket, preload: Sequence[str], given: Sequence[str], warm: bool) -> wire.Header:
        reader, writer = os.pipe()
        try:
            bubblewrap = self.tier == "bubblewrap"
            descriptor = theirs.fileno()
            info = writer if bubblewrap else None
            plan = launch.make_plan(self.tier, self._private, descriptor, self.limits, info, given, self._user.uid)
            keep = [descriptor, *([writer] if bubblewrap else [])]
            argv = launch.first_to_go(plan.argv)
            argv = argv if self._group is None else self._group.entering(argv)
            self._process = launch.start(argv, plan.env, keep=keep, stderr=self._log.fileno())
            theirs.close()  # otherwise a worker that ends at once would look like a slow one
            os.close(writer)
            writer = -1
            config = {
                "tier": self.tier,
                "scratch": plan.scratch,
                "readable": plan.readable,
                "hidden": plan.hidden,
                "preload": list(preload),
                "limits": self.limits,
                "warm": warm,
                "fonts": launch.matplotlib_fonts() if warm else {},
            }
            until = clock.now() + START_S
            wire.send(self._control, config, deadline=until)
            ready, _, listener = wire.receive_fd(self._control, deadline=until)
            if ready.get("op") == "filtered":
                self._refusals = None if listener is None else Refusals(listener)
                ready, _ = wire.receive(self._control, deadline=until)
            if bubblewrap:
                self._inner = _child_pid(reader)
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)
        if ready.get("op") != "ready":
            raise WireError("expected the worker to be ready.")
        return ready

    @property
    def shared(self) -> tuple[str, ...]:
        """Return what submissions in this worker share with those in other workers: any of "processes", "disk" and "files"."""
        if self.tier == "bubblewrap":
            return () if self.ready.get("files") else ("files",)
        alone = {"processes": self.tier == "landlock" and self._user.own, "disk": bool(self.ready.get("disk"))}
        return tuple(name for name, own in alone.items() if not own)

    def open(self) -> socket.socket:
        """Start a fresh process for a submission and return our end of its channel. Raises WireError if the worker is gone.

        The process exists when this returns, so starting it isn't charged to the submission.
        """
        ours, theirs = socket.socketpair()
        limits = dict(self.limits)
        if "processes" in self.shared:  # otherwise the limit counts only processes in the sandbox
            limits["processes"] += launch.task_count(int(self.ready["uid"]))
        try:
            if not self._order({"op": "submission", "limits": limits}, "forked", FORK_S, fds=[theirs.fileno()]):
                raise WireError("expected the worker to start a process.")
        except WireError:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours

    def refused(self) -> dict[str, int]:
        """Return how often each system call was refused since the last call; empty if the kernel doesn't report it."""
        return {} if self._refusals is None else self._refusals.take()

    def sweep(self) -> bool:
        """Kill and wipe whatever the last submission left. Returns False if the worker failed and must be replaced."""
        try:
            return self._order({"op": "sweep"}, "swept", SWEEP_S)
        except WireError:
            return False

    def _order(self, order: wire.Header, done: str, patience_s: float, fds: Sequence[int] = ()) -> bool:
        """Send an order, and return whether the worker answers within `patience_s` seconds that it is `done`."""
        ticket, until = secrets.token_hex(8), clock.now() + patience_s
        wire.send(self._control, {**order, "id": ticket}, deadline=until, fds=fds)
        reply, _ = wire.receive(self._control, deadline=until)
        return reply == {"op": done, "id": ticket}

    def cpu_s(self) -> float:
        """Return the processor seconds that the worker and everything it started have used."""
        if self._group is not None and (used := self._group.cpu_s()) is not None:
            return used
        return sum(_cpu_s(pid) for _, pid in self._tree())

    def delays(self, first: int) -> dict[int, float]:
        """Return, per process id, the seconds that each process was ready to run but waited for a processor.

        `first=2` covers the processes of the exercises, `first=1` also the one that runs the cells. Returns nothing if the
        kernel doesn't report it, or if the submission itself crowds the processors with more than `CROWD` threads.
        """
        waits, crowd = {}, 0
        for depth, pid in self._tree():
            with contextlib.suppress(OSError, ValueError, IndexError):
                crowd += len(os.listdir(f"/proc/{pid}/task"))
                if depth >= first:  # the worker, and the process that ran the cells, also waited for other reasons
                    waits[pid] = int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
        return waits if crowd <= CROWD else {}

    def _tree(self) -> Iterator[tuple[int, int]]:
        """Yield depth and process id of the worker and of what it started, `MAX_SEEN` processes at most."""
        assert self._process is not None
        processes = [(0, self._inner or self._process.pid)]
        for depth, pid in processes:  # grows while we iterate
            yield depth, pid
            processes += [(depth + 1, child) for child in _children(pid)][: MAX_SEEN - len(processes)]

    def memory_bytes(self) -> int:
        """Return the worker's resident memory in bytes."""
        assert self._process is not None
        status = Path(f"/proc/{self._inner or self._process.pid}/status").read_text(encoding="ascii")
        return 1024 * int(status.split("VmRSS:")[1].split()[0])

    def close(self, *, at_once: bool = False) -> None:
        """End the worker and everything below it. With `at_once`, it gets no time to tidy up, because its disk goes with it."""
        self._control.close()  # makes the worker sweep and end
        if self._process is not None:
            try:
                self._process.wait(END_S if self._process.poll() is None and not at_once else 0)
            except subprocess.TimeoutExpired:
                for pid in filter(None, (self._inner, self._process.pid)):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                self._process.wait()
        if self._refusals is not None:
            self._refusals.close()
        self._log.close()
        self._user.release()
        if self._group is not None:
            self._group.remove()
        with contextlib.suppress(OSError):
            wipe.empty(str(self._private))
            self._private.rmdir()

    def _last_line(self) -> str:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
        self._log.seek(0)
        lines = self._log.read()[-4000:].decode(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else ""


def _child_pid(reader: int) -> int | None:
    """Return the worker's process id outside the sandbox, from bubblewrap's --info-fd."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(os.read(reader, 4096))["child-pid"])
    return None


def _children(pid: int) -> Iterator[int]:
    """Yield the processes that the threads of process `pid` have started; none if it is gone."""
    with contextlib.suppress(OSError, ValueError):
        for thread in os.listdir(f"/proc/{pid}/task")[:MAX_SEEN]:
            yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").split())


def _cpu_s(pid: int) -> float:
    """Return the processor seconds of process `pid` and of its children that have ended; 0 if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0
