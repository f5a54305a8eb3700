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

from autograder.sandbox.inside.confine import NEWER

RECEIVE, SEND = 0xC0502100, 0xC0182101  # the ioctls SECCOMP_IOCTL_NOTIF_RECV and _SEND
ASKED_BYTES = 80  # struct seccomp_notif: id, pid, flags, then the call's number
AT_ONCE = 512  # this many answers come without delay
PAUSE_S = 0.01  # delay of each further answer, because answering keeps this process from its other work
# Names of the calls that people are most likely to try; other calls are reported by number.
NAMES: dict[str, dict[int, str]] = {
    "x86_64": {
        41: "socket", 42: "connect", 49: "bind", 50: "listen", 101: "ptrace", 90: "chmod", 91: "fchmod", 268: "fchmodat",
        92: "chown", 260: "fchownat", 280: "utimensat", 161: "chroot", 165: "mount", 272: "unshare", 308: "setns", 73: "flock",
        72: "fcntl", 16: "ioctl", 53: "socketpair", 56: "clone", 302: "prlimit64", 203: "sched_setaffinity", 105: "setuid",
        106: "setgid", 117: "setresuid", 119: "setresgid", 116: "setgroups", 133: "mknod", 259: "mknodat", 141: "setpriority",
        310: "process_vm_readv", 311: "process_vm_writev", 317: "seccomp", 321: "bpf", 425: "io_uring_setup", 162: "sync",
        254: "inotify_add_watch", 294: "inotify_init1", 29: "shmget", 64: "semget", 68: "msgget", 250: "keyctl",
    },
    "aarch64": {
        198: "socket", 203: "connect", 200: "bind", 201: "listen", 117: "ptrace", 52: "fchmod", 53: "fchmodat", 54: "fchownat",
        88: "utimensat", 51: "chroot", 40: "mount", 97: "unshare", 268: "setns", 32: "flock", 25: "fcntl", 29: "ioctl",
        199: "socketpair", 220: "clone", 261: "prlimit64", 122: "sched_setaffinity", 146: "setuid", 144: "setgid",
        147: "setresuid", 149: "setresgid", 159: "setgroups", 33: "mknodat", 140: "setpriority", 270: "process_vm_readv",
        271: "process_vm_writev", 277: "seccomp", 280: "bpf", 425: "io_uring_setup", 81: "sync", 27: "inotify_add_watch",
        26: "inotify_init1", 194: "shmget", 190: "semget", 186: "msgget", 219: "keyctl",
    },
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
        names = NAMES.get(platform.machine(), {})
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
