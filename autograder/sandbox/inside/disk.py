"""Mount disks in memory for a submission, with a limit on bytes and on files. Runs inside the sandbox, before any submission.

`bwrap --tmpfs` limits bytes alone: a submission could make hundreds of thousands of folders, each in the kernel's memory, and
tidying up would take its time. So the worker, which bubblewrap starts with two capabilities in its own user namespace, mounts
its scratch folders again with a limit on files, and gives the capabilities up for good.
"""

import ctypes
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

NEW_MOUNTS, BIND, RECURSIVE, PRIVATE = 0x20000, 4096, 16384, 1 << 18
_NO_SETUID, _NO_DEVICES = 2, 4
_BOUNDING_DROP, _AMBIENT, _CLEAR_ALL = 24, 47, 4  # of prctl(2)
_CAPABILITIES_3 = 0x20080522
_SETS = ("CapInh:", "CapPrm:", "CapEff:", "CapAmb:")


def mount(path: str, size: int, files: int, mode: int, uid: int) -> bool:
    """Mount a disk of `size` bytes and `files` files and folders at `path`, for `uid`; False where the kernel refuses."""
    options = f"mode={mode:04o},size={size},nr_inodes={files},uid={uid},gid={uid}"
    return _mount("tmpfs", path, "tmpfs", _NO_SETUID | _NO_DEVICES, options) == 0


def own_mounts() -> bool:
    """Give this process mounts of its own, of which nobody else sees a change; False where the kernel refuses."""
    return ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS) == 0 and _mount("none", "/", "", RECURSIVE | PRIVATE, "") == 0


def renew(folders: Sequence[str], size: int, files: int, inside: Iterable[str]) -> bool:
    """Mount each of `folders` again, with a limit on `files`; what is mounted at the paths `inside` them stays there.

    Returns False where the kernel or its security module allows no mounts: they are then as bubblewrap made them. Raises OSError
    where something of `inside` is lost.
    """
    if not own_mounts():
        return False
    kept = [(path, os.open(path, os.O_PATH)) for path in inside if any(path.startswith(f"{folder}/") for folder in folders)]
    try:
        done = [folder for folder in folders if mount(folder, size, files, 0o755, os.geteuid())]
        for path, descriptor in kept:
            if any(path.startswith(f"{folder}/") for folder in done):
                os.makedirs(path)
                if _mount(f"/proc/self/fd/{descriptor}", path, "", BIND | RECURSIVE, "") != 0:
                    raise OSError(ctypes.get_errno(), f"expected {path} to be mounted again")
    finally:
        for _, descriptor in kept:
            os.close(descriptor)
    return done == list(folders)


def give_up_capabilities() -> None:
    """Drop every capability. Raises OSError where one is left.

    The bounding set stays as it is where a security module forbids to change it; without new privileges it gives nothing.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    number = 0
    while libc.prctl(_BOUNDING_DROP, ctypes.c_ulong(number), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) == 0:
        number += 1
    libc.prctl(_AMBIENT, ctypes.c_ulong(_CLEAR_ALL), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
    libc.capset((ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)())
    if left := capabilities():
        raise OSError(1, f"expected no capability, but {', '.join(left)} are left")


def capabilities() -> list[str]:
    """The sets of this process in which a capability is left, as /proc/self/status names them, short of the bounding set."""
    lines = [line.split() for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines()]
    return [line[0].rstrip(":") for line in lines if line[0] in _SETS and int(line[1], 16)]


def _mount(source: str, target: str, kind: str, flags: int, options: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    return result
