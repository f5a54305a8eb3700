"""The warm worker: imports once, gives up its rights, then forks a process for each submission. Runs inside the sandbox.

It takes orders on one socket whose other end the trusted process holds: ``submission`` (with the descriptor of the channel
to pass on) and ``sweep`` (kill whatever is left and wipe the scratch space). It never reads anything that a submission sent.
When the socket closes, it sweeps and ends, and so does everything it started.
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

import autograder
from autograder.judging import call_limits, other_device
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
    """Prepares itself from `config` and then serves orders.

    `config` holds the tier, scratch folders to wipe, readable and hidden paths, modules to preload, limits, `warm`, and
    Matplotlib's fonts.
    """

    def __init__(self, control: socket.socket, config: Header):
        self.control, self.config = control, config
        self.tier: str = config["tier"]
        self.scratch: list[str] = config["scratch"]
        self.shell: Any = None
        self.onto_huge_pages: Callable[[], None] | None = None
        self.folders, self.kept = _existing(self.scratch)  # if Python lives below /tmp, its mount point stays there
        self.marks = {folder: _marks(folder) for folder in self.folders}

    def prepare(self) -> None:
        """Import, confine, prove the confinement, and report to the trusted process."""
        os.chdir(self.scratch[0])
        gc.disable()  # otherwise it scans all imported objects again and again, a third of the start time
        missing = self._preload() if self.config["warm"] else []
        gc.enable()
        threads = len(os.listdir("/proc/self/task"))  # with more than one, forked copies would be unsafe; the tests check this
        # The learner is not charged for memory that the imports mapped: 3 GB more with torch for CUDA than with torch for the
        # CPU.
        self.mapped = _mapped_bytes()
        gc.freeze()  # forked copies then share these pages for longer
        self.onto_huge_pages = _onto_huge_pages() if self.config["warm"] else None
        self._confine()
        self._wipe()  # remove what the imports left
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

        for name in self.config["preload"]:
            try:
                importlib.import_module(name)
            except ImportError:
                missing.append(name)
        for name in ("check", "hint"):  # what cells call: it is imported here, from wherever the package has it
            with contextlib.suppress(ImportError):
                getattr(autograder, name)
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
        """Refuse most system calls, and pass on the descriptor through which the kernel reports each refusal."""
        listener = confine.seccomp(metadata=self.tier == "bubblewrap", listen=True)
        fds = [] if listener is None else [listener]
        wire.send(self.control, {"op": "filtered"}, deadline=clock.now() + 10, fds=fds)
        if listener is not None:
            os.close(listener)

    def _prove(self) -> None:
        """Try what must not work, trusting no tool that confined this process. Raises ConfineError if any of it works."""
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
        """Make further forks cheap, once. This takes most of a second, so it happens after the first submission."""
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
        """Kill every descendant, however well hidden, and empty the scratch folders."""
        while True:
            self._kill_all()
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:  # orphans become our children, so if we have none, none exist
                break
            time.sleep(0.001)
        self._wipe()

    def _kill_all(self) -> None:
        if self.tier == "none":  # here -1 would mean every process of the user
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                pids = [int(pid) for pid in file.read().split()]
        else:
            pids = [-1]  # limited to the process namespace or to Landlock's signal scope; atomic, so fork bombs cannot outrun it
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _wipe(self) -> None:
        for folder in self.folders:
            kept = [os.path.basename(path) for path in self.kept if os.path.dirname(path) == folder]
            if left := wipe.empty(folder, kept):
                raise OSError(f"expected an empty {folder}, but {left[:3]} cannot be deleted")
            with contextlib.suppress(PermissionError):  # Landlock's filter: no submission could set a time either
                os.utime(folder, (0, 0))
            if _marks(folder) != self.marks[folder]:  # a message to the next submission, or a way to lock it out
                raise OSError(f"expected {folder} as it was, but its mode or attributes were changed")


def _limit_files(config: Header) -> bool:
    """Limit the files in the scratch folders, then give up the rights needed for it. Returns whether the limit holds."""
    try:
        return disk.renew(
            config["scratch"], config["limits"]["scratch_bytes"], config["limits"]["scratch_files"], config["readable"]
        )
    finally:
        disk.give_up_capabilities()


def _paths(folder: str) -> set[str]:
    return {os.path.join(folder, name) for name in os.listdir(folder)}


def _marks(folder: str) -> tuple[int, dict[str, bytes]]:
    """Return the mode and the extended attributes of the folder, where a submission could leave a message."""
    return os.stat(folder).st_mode, {name: os.getxattr(folder, name) for name in os.listxattr(folder)}


def _existing(scratch: list[str]) -> tuple[list[str], set[str]]:
    """Return the `scratch` folders with the subfolders they start with (on the same device), and the paths in all of these."""
    folders, kept = list(scratch), set()
    for folder in folders:  # grows while we iterate
        kept |= _paths(folder)
        folders += [path for path in _paths(folder) if os.path.isdir(path) and os.lstat(path).st_dev == os.lstat(folder).st_dev]
    return folders, kept


def _mapped_bytes() -> int:
    """Return the size of this process's address space in bytes, or 0 if it cannot be read."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _onto_huge_pages() -> Callable[[], None]:
    """Return a function that moves the memory allocated so far to huge pages, if the kernel can.

    With torch, this halves the time of a fork. Most of a fork is copying page tables, and 130 MB take 33,000 entries in
    small pages but 65 in huge ones. The memory map is read right away, because a confined process may not be able to.
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
                library.madvise(low, high - low, MADV_COLLAPSE)  # an older kernel refuses, which does no harm

    return collapse


def _warm_torch() -> None:
    """Fix torch to one thread, because forked copies of a thread pool hang, and run its slow first operations once."""
    import torch

    call_limits.from_torch()  # cached now, before an answer can change torch
    other_device.device()
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
