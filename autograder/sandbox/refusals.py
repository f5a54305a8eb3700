"""Answer the system calls that the sandbox refuses, and count them by name. Trusted side.

The kernel stops a process at a refused call and asks here (seccomp's user notification, Linux 5.7). The count therefore
shows what was tried, whatever the submission says about it. Every answer is EPERM. If the kernel cannot ask, it refuses the
calls all the same.
"""

import contextlib
import errno
import fcntl
import os
import platform
import select
import struct
import threading
import time
from collections import Counter

from autograder.sandbox.inside.confine import ALLOWED, METADATA, NEWER

RECEIVE, SEND = 0xC0502100, 0xC0182101  # the ioctls SECCOMP_IOCTL_NOTIF_RECV and _SEND
ASKED_BYTES = 80  # struct seccomp_notif: id, pid, flags, then the call's number
AT_ONCE = 512  # this many answers come without delay
PAUSE_S = 0.01  # delay of each further answer, because answering keeps this process from its other work
# Names of the calls that people are most likely to try, besides those in `confine`; other calls are reported by number.
NAMES: dict[str, tuple[int | None, int | None]] = {  # x86_64 and aarch64
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "ptrace": (101, 117), "chroot": (161, 51),
    "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268), "flock": (73, 32), "setuid": (105, 146), "setgid": (106, 144),
    "setresuid": (117, 147), "setresgid": (119, 149), "setgroups": (116, 159), "mknod": (133, None), "mknodat": (259, 33),
    "setpriority": (141, 140), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "seccomp": (317, 277),
    "bpf": (321, 280), "io_uring_setup": (425, 425), "sync": (162, 81), "inotify_add_watch": (254, 27),
    "inotify_init1": (294, 26), "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "keyctl": (250, 219),
}  # fmt: skip


class Refusals:
    """A thread that answers at `listener`, the descriptor from `confine.seccomp`, until everything behind it has ended."""

    def __init__(self, listener: int) -> None:
        self._listener = listener
        self._counted: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._closed, self._close = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="sandbox refusals", daemon=True)
        self._thread.start()

    def take(self) -> dict[str, int]:
        """Return how often each system call was refused since the last call, by name."""
        with self._lock:
            counted, self._counted = self._counted, Counter()
        column = ("x86_64", "aarch64").index(platform.machine())  # no other machine has the filter
        names = {numbers[column]: name for name, numbers in (ALLOWED | METADATA | NAMES).items()}
        return {names.get(number, f"system call {number}"): count for number, count in sorted(counted.items())}

    def close(self) -> None:
        """Stop answering. A refused call made after this fails as if the system call didn't exist."""
        os.write(self._close, b".")
        self._thread.join()
        for descriptor in (self._close, self._closed, self._listener):
            os.close(descriptor)

    def _serve(self) -> None:
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        waiting.register(self._closed, select.POLLIN)
        while True:
            ready = dict(waiting.poll())
            if self._closed in ready or not ready.get(self._listener, 0) & select.POLLIN:  # or no process is left that could ask
                return
            self._answer()

    def _answer(self) -> None:
        asked = bytearray(ASKED_BYTES)
        with contextlib.suppress(OSError):  # ENOENT: the process was killed meanwhile
            fcntl.ioctl(self._listener, RECEIVE, asked)
            number = min(struct.unpack_from("i", asked, 16)[0], NEWER)
            with self._lock:
                self._counted[number] += 1
                many = self._counted.total() > AT_ONCE
            if many:
                time.sleep(PAUSE_S)
            fcntl.ioctl(self._listener, SEND, struct.pack("=QqiI", *struct.unpack_from("Q", asked), 0, -errno.EPERM, 0))
