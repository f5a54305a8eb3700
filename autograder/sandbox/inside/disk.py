"""Mount in-memory disks for a submission that limit both bytes and files. Runs inside the sandbox, before any submission.

`bwrap --tmpfs` limits bytes only, so a submission could make hundreds of thousands of folders, which use kernel memory and
take long to clean up. Bubblewrap therefore starts the worker with two capabilities in its user namespace; the worker
remounts its scratch folders with a limit on files, and then gives the capabilities up for good.
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
    """Mount a disk of `size` bytes and `files` files and folders at `path` for `uid`. Returns False if the kernel refuses."""
    options = f"mode={mode:04o},size={size},nr_inodes={files},uid={uid},gid={uid}"
    return call_mount("tmpfs", path, "tmpfs", _NO_SETUID | _NO_DEVICES, options) == 0


def own_mounts() -> bool:
    """Move this process into its own mount namespace, hidden from everybody else. Returns False if the kernel refuses."""
    unshared = ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS) == 0
    return unshared and call_mount("none", "/", "", RECURSIVE | PRIVATE, "") == 0


def renew(folders: Sequence[str], size: int, files: int, inside: Iterable[str]) -> bool:
    """Remount each of `folders` with a limit on `files`, keeping what is mounted at the paths `inside` them.

    Returns False if the kernel or its security module allows no mounts; the folders then stay as bubblewrap made them.
    Raises OSError if something in `inside` is lost.
    """
    if not own_mounts():
        return False
    kept = [(path, os.open(path, os.O_PATH)) for path in inside if any(path.startswith(f"{folder}/") for folder in folders)]
    try:
        done = [folder for folder in folders if mount(folder, size, files, 0o755, os.geteuid())]
        for path, descriptor in kept:
            if any(path.startswith(f"{folder}/") for folder in done):
                os.makedirs(path)
                if call_mount(f"/proc/self/fd/{descriptor}", path, "", BIND | RECURSIVE, "") != 0:
                    raise OSError(ctypes.get_errno(), f"expected {path} to be mounted again")
    finally:
        for _, descriptor in kept:
            os.close(descriptor)
    return done == list(folders)


def give_up_capabilities() -> None:
    """Drop every capability. Raises OSError if one is left.

    If a security module forbids changing the bounding set, it stays as it is; without new privileges it grants nothing.
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
    """Return the names, as in /proc/self/status, of this process's non-empty capability sets, apart from the bounding set."""
    lines = [line.split() for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines()]
    return [line[0].rstrip(":") for line in lines if line[0] in _SETS and int(line[1], 16)]


def call_mount(source: str, target: str, kind: str, flags: int, options: str) -> int:
    """Call mount(2). Returns 0, or -1 with the reason in `ctypes.get_errno()`."""
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    return result
