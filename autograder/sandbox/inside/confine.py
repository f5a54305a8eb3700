"""Take rights away from the current process for good: Landlock, seccomp, prctl and resource limits, through ctypes.

Works on Linux on x86_64 and aarch64; importing the module is harmless elsewhere. Every function raises `ConfineError` if the
kernel refuses, so nothing degrades silently and a caller that gets past the call is confined.
"""

import contextlib
import ctypes
import os
import platform
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

MIN_LANDLOCK = 6  # older versions don't scope signals, so a submission could kill every process of its user

# The calls that Python, NumPy, PyTorch, Matplotlib and their C libraries make, found with `strace -f` over the lessons, plus
# older and newer variants of the same calls. name: (x86_64, aarch64); None if the machine has no such call
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # files: mounts or Landlock restrict which ones, and the disk restricts how much
    "read": (0, 63), "write": (1, 64), "open": (2, None), "creat": (85, None), "openat": (257, 56), "openat2": (437, 437),
    "close": (3, 57), "close_range": (436, 436), "stat": (4, None), "fstat": (5, 80), "lstat": (6, None),
    "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "lseek": (8, 62), "pread64": (17, 67), "pwrite64": (18, 68),
    "readv": (19, 65), "writev": (20, 66), "preadv": (295, 69), "pwritev": (296, 70), "preadv2": (327, 286),
    "pwritev2": (328, 287), "getdents": (78, None), "getdents64": (217, 61), "getcwd": (79, 17), "chdir": (80, 49),
    "fchdir": (81, 50), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "mkdir": (83, None),
    "mkdirat": (258, 34), "rmdir": (84, None), "link": (86, None), "linkat": (265, 37), "unlink": (87, None),
    "unlinkat": (263, 35), "symlink": (88, None), "symlinkat": (266, 36), "truncate": (76, 45), "ftruncate": (77, 46),
    "fallocate": (285, 47), "fsync": (74, 82), "fdatasync": (75, 83), "copy_file_range": (326, 285), "sendfile": (40, 71),
    "splice": (275, 76), "tee": (276, 77), "umask": (95, 166), "statfs": (137, 43), "fstatfs": (138, 44), "getxattr": (191, 8),
    "lgetxattr": (192, 9), "fgetxattr": (193, 10), "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13),
    "fadvise64": (221, 223), "readahead": (187, 213), "memfd_create": (319, 279), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "fcntl": (72, 25), "ioctl": (16, 29),
    # pipes, waiting on several of them, and connected pairs of sockets
    "pipe": (22, None), "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "epoll_create": (213, None), "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None),
    "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441), "eventfd": (284, None), "eventfd2": (290, 19),
    "signalfd": (282, None), "signalfd4": (289, 74), "timerfd_create": (283, 85), "timerfd_settime": (286, 86),
    "timerfd_gettime": (287, 87), "socketpair": (53, 199), "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211),
    "recvmsg": (47, 212), "sendmmsg": (307, 269), "recvmmsg": (299, 243), "shutdown": (48, 210), "getsockname": (51, 204),
    "getpeername": (52, 205), "getsockopt": (55, 209), "setsockopt": (54, 208),
    # memory
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "msync": (26, 227), "mincore": (27, 232),
    "madvise": (28, 233), "brk": (12, 214), "membarrier": (324, 283), "mseal": (462, 462), "mbind": (237, 235),
    "get_mempolicy": (239, 236),
    # the process's own processes and threads
    "clone": (56, 220), "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "exit": (60, 93),
    "exit_group": (231, 94), "wait4": (61, 260), "waitid": (247, 95), "kill": (62, 129), "tkill": (200, 130),
    "tgkill": (234, 131), "pidfd_open": (434, 434), "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178),
    "getpgrp": (111, None), "getpgid": (121, 155), "setpgid": (109, 154), "getsid": (124, 156), "setsid": (112, 157),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148),
    "getresgid": (120, 150), "getgroups": (115, 158), "capget": (125, 90), "prctl": (157, 167), "arch_prctl": (158, None),
    "set_tid_address": (218, 96), "set_robust_list": (273, 99), "get_robust_list": (274, 100), "rseq": (334, 293),
    "futex": (202, 98), "futex_waitv": (449, 449), "futex_wake": (454, 454), "futex_wait": (455, 455),
    "futex_requeue": (456, 456),
    # its share of the machine
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "sched_setaffinity": (203, 122),
    "sched_getscheduler": (145, 120), "sched_getparam": (143, 121), "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126), "getpriority": (140, 141), "getrlimit": (97, 163), "setrlimit": (160, 164),
    "prlimit64": (302, 261), "getrusage": (98, 165), "times": (100, 153), "sysinfo": (99, 179), "uname": (63, 160),
    "getcpu": (309, 168),
    # time and signals
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "alarm": (37, None), "pause": (34, None), "getitimer": (36, 102),
    "setitimer": (38, 103), "timer_create": (222, 107), "timer_settime": (223, 110), "timer_gettime": (224, 108),
    "timer_getoverrun": (225, 109), "timer_delete": (226, 111), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137), "rt_sigqueueinfo": (129, 138),
    "rt_sigsuspend": (130, 133), "sigaltstack": (131, 132), "restart_syscall": (219, 128), "getrandom": (318, 278),
    # giving up rights
    "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446),
}  # fmt: skip
# Allowed only in bubblewrap, where every file but the submission's own is read-only. Landlock doesn't cover these calls, and
# they work on any file of the same user.
METADATA: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip

# Calls from here on are newer than these lists. They get ENOSYS, so libraries fall back to older calls.
NEWER = 467

# TIOCSTI and TIOCLINUX type into another user's terminal; FS_IOC_SETFLAGS (two widths) and FS_IOC_FSSETXATTR leave a mark on a
# folder
_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820)
# F_SETLEASE and F_NOTIFY, then the locks F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK and F_OFD_SETLKW
_FCNTLS = (1024, 1026, 5, 6, 7, 36, 37, 38)
_EPERM, _ENOSYS = 1, 38
_ALLOW, _ERRNO, _KILL, _ASK = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
_EVERY_THREAD, _LISTENER, _NAME_NO_THREAD = 1, 8, 16  # flags of seccomp(2): TSYNC, NEW_LISTENER, TSYNC_ESRCH
_NEW_NAMESPACES = 0x20000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06


class ConfineError(OSError):
    """The kernel refused to take a right away."""


def fork(patience_s: float = 5.0) -> int:
    """Call fork(2), retrying for `patience_s` seconds while another submission of this user holds all processes (Landlock)."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return os.fork()
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def prctl(option: int, *arguments: int) -> int:
    """Call prctl(2). Raises ConfineError."""
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    result: int = _libc().prctl(option, *padded)
    if result < 0:
        raise ConfineError(ctypes.get_errno(), f"prctl({option}) was refused")
    return result


def die_with_parent() -> None:
    """Have the kernel kill this process (SIGKILL) when the thread that forked it ends."""
    prctl(1, 9)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so a double fork cannot escape."""
    prctl(36, 1)


def hide_memory() -> None:
    """Deny other processes of the same user ptrace, /proc/PID/mem and /proc/PID/fd."""
    prctl(4, 0)


def no_new_privileges() -> None:
    """Make setuid programs and file capabilities ineffective from here on."""
    prctl(38, 1)


# ---------------------------------------------------------------------------------------------- seccomp


def seccomp(*, metadata: bool, listen: bool = False) -> int | None:
    """Refuse (EPERM) every system call that is not in `ALLOWED`, in every thread. With `metadata`, allow `METADATA` too.

    With `listen`, returns the descriptor of a listener that is asked about each refusal and must answer it (see
    `autograder.sandbox.refusals`). A refused call waits until somebody listens. Returns None if the kernel offers no
    listener; the kernel then refuses the calls itself and reports them to nobody.
    """
    no_new_privileges()
    machine = platform.machine()
    if listen:
        asking = seccomp_program(machine, metadata=metadata, refuse=_ASK)
        if (listener := _install(_EVERY_THREAD | _NAME_NO_THREAD | _LISTENER, asking)) >= 0:
            return listener
    if _install(_EVERY_THREAD, seccomp_program(machine, metadata=metadata)) != 0:
        raise ConfineError(ctypes.get_errno(), "seccomp was refused")
    return None


def _install(flags: int, program: bytes) -> int:
    buffer = ctypes.create_string_buffer(program, len(program))
    number = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    return _syscall(number, 1, flags, ctypes.create_string_buffer(head, len(head)))  # 1: SECCOMP_SET_MODE_FILTER


def seccomp_program(machine: str, *, metadata: bool, refuse: int = _ERRNO | _EPERM) -> bytes:
    """Return the BPF program that answers a refused call by `refuse`. Raises ConfineError for an unknown `machine`."""
    if machine not in ("x86_64", "aarch64"):
        raise ConfineError(_ENOSYS, f"expected x86_64 or aarch64, got {machine}: no system call table for it")
    column = 0 if machine == "x86_64" else 1
    code = [
        _op(_LOAD, 4),  # seccomp_data.arch
        _op(_JUMP_EQUAL, 0xC000003E if column == 0 else 0xC00000B7, 1, 0),
        _op(_RETURN, _KILL),  # a 32-bit call would have other numbers
        _op(_LOAD, 0),  # seccomp_data.nr
    ]
    code += [_op(_JUMP_AT_LEAST, NEWER, 0, 1), _op(_RETURN, _ERRNO | _ENOSYS)]  # also refuses x32
    code += [_op(_JUMP_EQUAL, 435, 0, 1), _op(_RETURN, _ERRNO | _ENOSYS)]  # clone3: a filter cannot see its flags
    # clone, argument 0: no new namespaces
    code += _rule((56, 220)[column], 0, [_op(_JUMP_BITS, _NEW_NAMESPACES, 0, 1)], refuse)
    # socketpair: AF_UNIX only, and no datagrams, because a datagram could be addressed to another process's socket
    code += _rule((53, 199)[column], 0, [_op(_JUMP_EQUAL, 1, 1, 0)], refuse)
    code += _rule((53, 199)[column], 1, [_op(_AND, 0xF), _op(_JUMP_EQUAL, 2, 0, 1)], refuse)
    # prlimit64 and sched_setaffinity: this process only (pid 0)
    code += _rule((302, 261)[column], 0, [_op(_JUMP_EQUAL, 0, 1, 0)], refuse)
    code += _rule((203, 122)[column], 0, [_op(_JUMP_EQUAL, 0, 1, 0)], refuse)
    # fcntl: opening a leased file waits for the lease's holder, watching a folder shows who reads in it, and every worker sees
    # a lock on a file that they can all read
    code += _rule((72, 25)[column], 1, _any_of(_FCNTLS), refuse)
    code += _rule((16, 29)[column], 1, _any_of(_IOCTLS), refuse)
    table = ALLOWED | METADATA if metadata else ALLOWED
    for numbers in table.values():
        number = numbers[column]
        if number is not None:
            code += [_op(_JUMP_EQUAL, number, 0, 1), _op(_RETURN, _ALLOW)]
    return b"".join([*code, _op(_RETURN, refuse)])


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("HBBI", code, true, false, value)


def _any_of(numbers: Sequence[int]) -> list[bytes]:
    """Return a test for `_rule` that refuses each of `numbers`."""
    *others, last = numbers
    return [*(_op(_JUMP_EQUAL, number, len(others) - at, 0) for at, number in enumerate(others)), _op(_JUMP_EQUAL, last, 0, 1)]


def _rule(number: int, argument: int, test: list[bytes], refuse: int) -> list[bytes]:
    """Return code that loads `argument` (low word) of call `number` for `test`, which falls through to `refuse` or skips it."""
    body = [_op(_LOAD, 16 + 8 * argument), *test, _op(_RETURN, refuse), _op(_LOAD, 0)]
    return [_op(_JUMP_EQUAL, number, 0, len(body)), *body]


# ---------------------------------------------------------------------------------------------- Landlock

_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read directory
_ALL = (1 << 16) - 1
_FILE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # the rights that a rule for a single file may name


def landlock_abi() -> int:
    """Return the kernel's Landlock version, or 0 if it has none."""
    return max(0, _syscall(444, None, 0, 1))


def landlock(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Confine this thread and its children to the `readable` and `writable` paths, without TCP or signals to others."""
    if (abi := landlock_abi()) < MIN_LANDLOCK:
        raise ConfineError(_ENOSYS, f"expected Landlock ABI {MIN_LANDLOCK} or newer (Linux 6.12), got {abi}")
    with _restricted(_ALL, net=3) as ruleset:
        for paths, rights in ((readable, _READ), (writable, _ALL & ~(1 << 6 | 1 << 11))):  # no device nodes
            for path in paths:
                _allow(ruleset, path, rights)


def scope_signals() -> None:
    """Restrict signals and abstract sockets to this process and its later children."""
    with _restricted(0, net=0):
        pass


@contextlib.contextmanager
def _restricted(fs: int, net: int) -> Iterator[int]:
    """Yield a rule set for the rights `fs` and `net`, and restrict the process to it when the block ends without an error."""
    no_new_privileges()
    attributes = struct.pack("QQQ", fs, net, 3)  # scoped: abstract sockets and signals
    ruleset = _syscall(444, ctypes.create_string_buffer(attributes, 24), 24, 0)
    if ruleset < 0:
        raise ConfineError(ctypes.get_errno(), "Landlock refused the rule set")
    try:
        yield ruleset
        if _syscall(446, ruleset, 0) != 0:
            raise ConfineError(ctypes.get_errno(), "Landlock refused to restrict the process")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rule = struct.pack("=Qi", rights if Path(path).is_dir() else rights & _FILE, parent)
        if _syscall(445, ruleset, 1, ctypes.create_string_buffer(rule, len(rule)), 0) != 0:
            raise ConfineError(ctypes.get_errno(), f"Landlock refused a rule for {path}")
    finally:
        os.close(parent)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: object) -> int:
    call = _libc().syscall
    call.restype = ctypes.c_long
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = call(ctypes.c_long(number), *wide)
    return result
