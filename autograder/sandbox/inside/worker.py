"""The warm worker: imports once, gives its rights away, then forks a process for each submission. Runs inside the sandbox.

It takes orders on one socket whose other end the trusted process holds: ``submission`` (with the descriptor of the
channel to hand on) and ``sweep`` (kill whatever is left, wipe the scratch space). It never reads anything a submission
sent. When the socket closes, it sweeps and ends, and so does everything it started.
"""

import contextlib
import ctypes
import gc
import importlib
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from autograder.judging import elsewhere, limits
from autograder.sandbox import clock, wire
from autograder.sandbox.inside import confine, disk, wipe
from autograder.sandbox.wire import Header, WireClosedError, WireError

HUGE = 2 << 20
MADV_COLLAPSE = 25  # Linux 6.1
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def main(descriptor: int) -> None:
    """Serve the socket on `descriptor` until it closes. Never returns."""
    control = socket.socket(fileno=descriptor)
    status = 1
    try:
        control.set_inheritable(False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        config, _ = wire.receive(control, deadline=clock.now() + 30)
        if config["tier"] == "bubblewrap":
            config["limited"] = _limit_files(config)
        worker = Worker(control, config)
        worker.prepare()
        worker.serve()
        status = 0
    except WireClosedError:
        status = 0
    except BaseException as error:  # the trusted process shows the last line of stderr
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


class Worker:
    """`config` holds tier, scratch (folders to wipe), readable and hidden paths, preload, limits, `warm`, Matplotlib's fonts."""

    def __init__(self, control: socket.socket, config: Header):
        self.control, self.config = control, config
        self.tier: str = config["tier"]
        self.scratch: list[str] = config["scratch"]
        self.shell: Any = None
        self.onto_huge_pages: Callable[[], None] | None = None
        self.folders, self.kept = _existing(self.scratch)  # where Python is below /tmp, its mount point stays there
        self.marks = {folder: _marks(folder) for folder in self.folders}

    def prepare(self) -> None:
        """Import, confine, prove it, and report to the trusted process."""
        os.chdir(self.scratch[0])
        gc.disable()  # it would look through all that is imported, again and again: a third of the time
        missing = self._preload() if self.config["warm"] else []
        gc.enable()
        threads = len(os.listdir("/proc/self/task"))  # more than one would make forked copies unsafe; the tests look at it
        # What the imports have mapped is not the learner's: with a build of torch for CUDA, 3 GB more than with one for the CPU.
        self.mapped = _mapped_bytes()
        gc.freeze()  # forked copies then share these pages for longer
        self.onto_huge_pages = _onto_huge_pages() if self.config["warm"] else None
        self._confine()
        self._wipe()  # what the imports left
        ready: Header = {"op": "ready", "missing": missing, "pid": os.getpid(), "uid": os.geteuid(), "threads": threads}
        ready["disk"] = os.path.ismount(self.scratch[0])
        ready["files"] = self.config.get("limited", ready["disk"])
        wire.send(self.control, ready, deadline=clock.now() + 10)

    def _preload(self) -> list[str]:
        missing = []
        from autograder.sandbox.inside import cells, runner  # noqa: F401 - imported here, while everything is still readable

        for name, text in self.config["fonts"].items():
            os.makedirs(os.environ["MPLCONFIGDIR"], exist_ok=True)
            with open(os.path.join(os.environ["MPLCONFIGDIR"], name), "w", encoding="utf-8") as file:
                file.write(text)

        for name in (
            *(f"autograder.workspace.in_cells.{module}" for module in ("check", "hint_status_solution")),
            *self.config["preload"],
        ):
            try:
                importlib.import_module(name)
            except ImportError:
                missing.append(name)
        if "torch" in sys.modules:
            _warm_torch()
        self.shell = cells.make_shell(self.config["limits"]["output_bytes"])
        cells.warm_up(self.shell)
        return missing

    def _confine(self) -> None:
        confine.adopt_orphans()
        if self.tier == "landlock":
            confine.landlock(self.config["readable"], [*self.scratch, *DEVICES])
        if self.tier != "none":
            self._filter()
            self._prove()
        confine.hide_memory()

    def _filter(self) -> None:
        """Refuse most system calls, and hand over the descriptor at which the kernel tells of each refusal."""
        listener = confine.seccomp(metadata=self.tier == "bubblewrap", listen=True)
        fds = [] if listener is None else [listener]
        wire.send(self.control, {"op": "filtered"}, deadline=clock.now() + 10, fds=fds)
        if listener is not None:
            os.close(listener)

    def _prove(self) -> None:
        """Try what must not work; raises ConfineError where it does. Nothing is assumed about the tool that confined us."""
        problems = []
        if os.geteuid() == 0:
            problems.append("it runs as root")
        if self.tier == "bubblewrap" and os.getpid() != 1:
            problems.append("it is not the first process of its own process namespace")
        if left := disk.capabilities() if self.tier == "bubblewrap" else []:
            problems.append(f"it has capabilities ({', '.join(left)})")
        for path in self.config["hidden"]:
            if _readable(path):
                problems.append(f"it can read {path}")
        if _succeeds(lambda: open("/usr/.attn", "w").close()):
            problems.append("it can write outside its scratch folder")
        if _succeeds(lambda: socket.socket(socket.AF_INET).close()):
            problems.append("it can open a network socket")
        if self.tier == "landlock" and _succeeds(lambda: os.kill(os.getppid(), 0)):
            problems.append("it can send signals to the process that started it")
        if problems:
            raise confine.ConfineError(1, f"expected the {self.tier} sandbox to isolate, but " + " and ".join(problems))

    def serve(self) -> None:
        """Take orders until the socket closes."""
        while True:
            try:
                order, _, channel = wire.receive_fd(self.control, deadline=math.inf)
            except WireClosedError:
                self._sweep()
                raise
            if order.get("op") == "submission" and channel is not None:
                self._fork(channel, order)
            elif order.get("op") == "sweep":
                self._sweep()
                wire.send(self.control, {"op": "swept", "id": order["id"]}, deadline=clock.now() + 10)
                self._settle()
            else:
                raise WireError(f"expected an order, got {str(order.get('op'))[:40]!r}.")

    def _settle(self) -> None:
        """Make each further fork cheap, once: it takes most of a second, so the first submission does not wait for it."""
        if self.onto_huge_pages is not None:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self.onto_huge_pages()
            self.onto_huge_pages = None

    def _fork(self, channel: int, order: Header) -> None:
        if confine.fork():
            os.close(channel)
            wire.send(self.control, {"op": "forked", "id": order["id"]}, deadline=clock.now() + 10)
            return
        try:
            self.control.close()
            from autograder.sandbox.inside import runner

            runner.main(channel, self.shell, self.config | {"limits": order["limits"], "mapped": self.mapped})
        finally:
            os._exit(1)

    def _sweep(self) -> None:
        """Kill every descendant, however it hid, and empty the scratch folders."""
        while True:
            self._kill_all()
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:  # orphans become our children, so none left means none at all
                break
            time.sleep(0.001)
        self._wipe()

    def _kill_all(self) -> None:
        if self.tier == "none":  # -1 would be every process of the user
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                pids = [int(pid) for pid in file.read().split()]
        else:
            pids = [-1]  # the process namespace, or Landlock's signal scope, is the limit; it is atomic against fork bombs
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _wipe(self) -> None:
        for folder in self.folders:
            kept = [os.path.basename(path) for path in self.kept if os.path.dirname(path) == folder]
            if left := wipe.empty(folder, kept):
                raise OSError(f"expected an empty {folder}, but {left[:3]} cannot be deleted")
            with contextlib.suppress(PermissionError):  # Landlock's filter: there nobody could set a time
                os.utime(folder, (0, 0))
            if _marks(folder) != self.marks[folder]:  # a message to the next submission, or a door shut before it
                raise OSError(f"expected {folder} as it was, but its mode or attributes were changed")


def _limit_files(config: Header) -> bool:
    """Whether the scratch folders hold no more files than they may; the rights that this takes are gone afterwards."""
    try:
        return disk.renew(
            config["scratch"], config["limits"]["scratch_bytes"], config["limits"]["scratch_files"], config["readable"]
        )
    finally:
        disk.give_up_capabilities()


def _paths(folder: str) -> set[str]:
    return {os.path.join(folder, name) for name in os.listdir(folder)}


def _marks(folder: str) -> tuple[int, dict[str, bytes]]:
    """What can be written on the folder itself."""
    return os.stat(folder).st_mode, {name: os.getxattr(folder, name) for name in os.listxattr(folder)}


def _existing(scratch: list[str]) -> tuple[list[str], set[str]]:
    """The folders of `scratch` and those that are in them from the start, short of other mounts; and all that is in these."""
    folders, kept = list(scratch), set()
    for folder in folders:  # grows while we walk
        kept |= _paths(folder)
        folders += [path for path in _paths(folder) if os.path.isdir(path) and os.lstat(path).st_dev == os.lstat(folder).st_dev]
    return folders, kept


def _mapped_bytes() -> int:
    """The size of this process's address space; 0 where that cannot be read."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _onto_huge_pages() -> Callable[[], None]:
    """What puts memory that is there now on huge pages, where the kernel can: with torch, a fork then takes half the time.

    Most of a fork is copying page tables; 130 MB of small pages are 33,000 entries, of huge ones 65. The memory is looked up at
    once: a confined process may not be able to.
    """
    library = ctypes.CDLL(None)
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with open("/proc/self/maps") as file:
        maps = [line.split() for line in file]
    spans = [line[0].split("-") for line in maps if line[1].startswith("rw") and line[5:] in ([], ["[heap]"])]
    whole = [(-(-int(low, 16) // HUGE) * HUGE, int(high, 16) // HUGE * HUGE) for low, high in spans]

    def collapse() -> None:
        for low, high in whole:
            if high > low:
                library.madvise(low, high - low, MADV_COLLAPSE)  # an older kernel refuses, and nothing is lost

    return collapse


def _warm_torch() -> None:
    """One thread (forked copies of a thread pool hang), for good, and the slow first operations done once."""
    import torch

    limits.from_torch()  # as they are now, whatever an answer makes of torch
    elsewhere.device()
    torch.set_num_threads(1)
    vars(torch)["set_num_threads"] = lambda _threads: None
    layer = torch.nn.Linear(3, 3)
    inputs = torch.ones(2, 3).requires_grad_()
    layer(inputs).softmax(-1).sum().backward()
    value = torch.einsum("ij,kj->ik", inputs, inputs) @ inputs
    torch.autograd.grad(value, [inputs], torch.ones(2, 3), allow_unused=True)
    query = torch.ones(1, 1, 2, 2)
    torch.nn.functional.scaled_dot_product_attention(query, query, query)
    repr(torch.ones(2))


def _readable(path: str) -> bool:
    return _succeeds(lambda: os.listdir(path)) or _succeeds(lambda: open(path, "rb").close())


def _succeeds(action: Any) -> bool:
    try:
        action()
    except OSError:
        return False
    return True
