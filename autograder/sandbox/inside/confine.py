"""Take rights away from the current process, for good: Landlock, seccomp, prctl and resource limits, through ctypes.

Linux on x86_64 and aarch64; importing it is harmless elsewhere. Every function raises `ConfineError` where the kernel
refuses, so a caller that gets past it is confined (nothing here degrades silently).
"""

import ctypes
import os
import platform
import struct
import time
from collections.abc import Iterable
from pathlib import Path

MIN_LANDLOCK = 6  # below it signals are not scoped: a submission could kill every process of its user

# name: (x86_64, aarch64); None where the machine has no such call
DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes' memory and registers
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "move_pages": (279, 239), "migrate_pages": (256, 238),
    # ways around seccomp and Landlock
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "userfaultfd": (323, 282),
    "bpf": (321, 280), "perf_event_open": (298, 241), "personality": (135, 92), "memfd_secret": (447, 447),
    # who makes which file where: Landlock lets a folder be watched that it lets nobody list
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    # network: sockets come as connected pairs only
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    # what would outlive a submission in the kernel
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "shmget": (29, 194), "shmat": (30, 196),
    "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    # the scheduling of other processes of the same user (the warm worker)
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    # the machine
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "syslog": (103, 116), "quotactl": (179, 60), "quotactl_fd": (443, 443), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None), "_sysctl": (156, None),
}  # fmt: skip
# Landlock does not know these, and they work on any file of the same user; in bubblewrap every such file is read-only.
METADATA: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip

# Calls from here on are younger than these lists (file_setattr of Linux 6.17 sets what the ioctls below may not): there are none.
NEWER = 467

# TIOCSTI and TIOCLINUX type into somebody's terminal; FS_IOC_SETFLAGS (two widths) and FS_IOC_FSSETXATTR leave a mark on a folder
_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820)
_EPERM, _ENOSYS = 1, 38
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NEW_NAMESPACES = 0x20000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06


class ConfineError(OSError):
    """The kernel did not take a right away."""


def fork(patience_s: float = 5.0) -> int:
    """fork(2), tried again where another submission of the same user holds all its processes for a moment (Landlock)."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return os.fork()
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def prctl(option: int, *arguments: int) -> int:
    """prctl(2); raises ConfineError."""
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    result: int = _libc().prctl(option, *padded)
    if result < 0:
        raise ConfineError(ctypes.get_errno(), f"prctl({option}) was refused")
    return result


def die_with_parent() -> None:
    """SIGKILL for this process when the thread that forked it ends."""
    prctl(1, 9)


def adopt_orphans() -> None:
    """Descendants whose parent ends become this process's children, so that a double fork escapes nobody."""
    prctl(36, 1)


def hide_memory() -> None:
    """No ptrace, /proc/PID/mem or /proc/PID/fd for other processes of the same user."""
    prctl(4, 0)


def no_new_privileges() -> None:
    """setuid programs and file capabilities have no effect from here on."""
    prctl(38, 1)


# ---------------------------------------------------------------------------------------------- seccomp


def seccomp(*, metadata: bool) -> None:
    """Refuse (EPERM) the system calls of `DENIED`, in every thread; with `metadata` also chmod and its family."""
    no_new_privileges()
    program = seccomp_program(platform.machine(), metadata=metadata)
    buffer = ctypes.create_string_buffer(program, len(program))
    number = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    # SECCOMP_SET_MODE_FILTER with TSYNC: prctl would reach the calling thread only
    if _syscall(number, 1, 1, ctypes.create_string_buffer(head, len(head))) != 0:
        raise ConfineError(ctypes.get_errno(), "seccomp was refused")


def seccomp_program(machine: str, *, metadata: bool) -> bytes:
    """The BPF program for `machine`. Raises ConfineError for one it does not know."""
    if machine not in ("x86_64", "aarch64"):
        raise ConfineError(_ENOSYS, f"expected x86_64 or aarch64, got {machine}: no system call table for it")
    column = 0 if machine == "x86_64" else 1
    code = [
        _op(_LOAD, 4),  # seccomp_data.arch
        _op(_JUMP_EQUAL, 0xC000003E if column == 0 else 0xC00000B7, 1, 0),
        _op(_RETURN, _KILL),  # a 32-bit call would have other numbers
        _op(_LOAD, 0),  # seccomp_data.nr
    ]
    code += [_op(_JUMP_AT_LEAST, NEWER, 0, 1), _op(_RETURN, _ERRNO | _ENOSYS)]  # x32 too
    table = DENIED | METADATA if metadata else DENIED
    for numbers in table.values():
        number = numbers[column]
        if number is not None:
            code += [_op(_JUMP_EQUAL, number, 0, 1), _op(_RETURN, _ERRNO | _EPERM)]
    code += [_op(_JUMP_EQUAL, 435, 0, 1), _op(_RETURN, _ERRNO | _ENOSYS)]  # clone3: its flags are out of reach; libc falls back
    # clone, argument 0: no new namespaces
    code += _rule((56, 220)[column], 0, [_op(_JUMP_BITS, _NEW_NAMESPACES, 0, 1)])
    # socketpair: AF_UNIX only, and no datagrams, which could be addressed to somebody else's socket
    code += _rule((53, 199)[column], 0, [_op(_JUMP_EQUAL, 1, 1, 0)])
    code += _rule((53, 199)[column], 1, [_op(_AND, 0xF), _op(_JUMP_EQUAL, 2, 0, 1)])
    # prlimit64 and sched_setaffinity: this process only (pid 0)
    code += _rule((302, 261)[column], 0, [_op(_JUMP_EQUAL, 0, 1, 0)])
    code += _rule((203, 122)[column], 0, [_op(_JUMP_EQUAL, 0, 1, 0)])
    # fcntl F_SETLEASE: who opens a leased file waits for its holder; whoever grades may own the interpreter's files
    code += _rule((72, 25)[column], 1, [_op(_JUMP_EQUAL, 1024, 0, 1)])
    *others, last = _IOCTLS
    tests = [_op(_JUMP_EQUAL, number, len(others) - at, 0) for at, number in enumerate(others)]
    code += _rule((16, 29)[column], 1, [*tests, _op(_JUMP_EQUAL, last, 0, 1)])
    return b"".join([*code, _op(_RETURN, _ALLOW)])


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("HBBI", code, true, false, value)


def _rule(number: int, argument: int, test: list[bytes]) -> list[bytes]:
    """For call `number`: load `argument` (low word) and run `test`, which falls through to EPERM or skips one."""
    body = [_op(_LOAD, 16 + 8 * argument), *test, _op(_RETURN, _ERRNO | _EPERM), _op(_LOAD, 0)]
    return [_op(_JUMP_EQUAL, number, 0, len(body)), *body]


# ---------------------------------------------------------------------------------------------- Landlock

_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read directory
_ALL = (1 << 16) - 1
_FILE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # the rights a rule on a single file may name


def landlock_abi() -> int:
    """The kernel's Landlock version, 0 where it has none."""
    return max(0, _syscall(444, None, 0, 1))


def landlock(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Confine this thread and its children to `readable` and `writable` paths, no TCP, signals among themselves."""
    if (abi := landlock_abi()) < MIN_LANDLOCK:
        raise ConfineError(_ENOSYS, f"expected Landlock ABI {MIN_LANDLOCK} or newer (Linux 6.12), got {abi}")
    no_new_privileges()
    ruleset = _ruleset(_ALL, net=3)
    try:
        for paths, rights in ((readable, _READ), (writable, _ALL & ~(1 << 6 | 1 << 11))):  # no device nodes
            for path in paths:
                _allow(ruleset, path, rights)
        _restrict(ruleset)
    finally:
        os.close(ruleset)


def scope_signals() -> None:
    """From here on, signals and abstract sockets reach only this process and its later children."""
    no_new_privileges()
    ruleset = _ruleset(0, net=0)
    try:
        _restrict(ruleset)
    finally:
        os.close(ruleset)


def _ruleset(fs: int, net: int) -> int:
    attributes = struct.pack("QQQ", fs, net, 3)  # scoped: abstract sockets and signals
    ruleset = _syscall(444, ctypes.create_string_buffer(attributes, 24), 24, 0)
    if ruleset < 0:
        raise ConfineError(ctypes.get_errno(), "Landlock refused the rule set")
    return ruleset


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


def _restrict(ruleset: int) -> None:
    if _syscall(446, ruleset, 0) != 0:
        raise ConfineError(ctypes.get_errno(), "Landlock refused to restrict the process")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: object) -> int:
    call = _libc().syscall
    call.restype = ctypes.c_long
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = call(ctypes.c_long(number), *wide)
    return result
