"""Step down from root before anything else: hide private folders, become an unprivileged user, then execute a command.

`autograder.sandbox.launch` runs this program if the grader is root. The interpreter may live below a folder that only root
can enter, such as `/root`. In its own mount namespace, this program replaces that folder by an empty one and mounts only the
needed paths in it. These paths keep their names, and nothing else in the folder can be reached.
"""

import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path

from autograder.sandbox.inside import disk
from autograder.sandbox.inside.confine import ConfineError, no_new_privileges, prctl

_MOVE = 8192


def main(text: str) -> None:
    """Carry out the plan in `text` (JSON) for good: uid, readable paths, disk (path, size, files) or null, argv and env."""
    plan = json.loads(text)
    closed = closed_folders(plan["paths"])
    if closed:
        _open(closed)
    # Only this process and those it starts see the disk, and it ends with them. Without mounts, the folder stays as it is.
    if plan["disk"] and disk.own_mounts():
        disk.mount(**plan["disk"], mode=0o700, uid=plan["uid"])
    step_down(plan["uid"])
    os.execve(plan["argv"][0], plan["argv"], plan["env"])


def closed_folders(paths: list[str]) -> dict[str, list[str]]:
    """Return the topmost folders above `paths` that others may not enter, each with its paths below."""
    closed: dict[str, list[str]] = {}
    for path in paths:
        for folder in reversed(Path(path).parents):
            if folder.is_dir() and not folder.stat().st_mode & 0o001:
                closed.setdefault(str(folder), []).append(path)
                break
    return closed


def step_down(uid: int) -> None:
    """Become user and group `uid` without groups, capabilities or a way back."""
    for capability in range(64):
        try:
            prctl(24, capability)
        except ConfineError:  # past the last capability, or not ours to drop; then no_new_privileges keeps it out of reach
            break
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    no_new_privileges()


def _open(closed: dict[str, list[str]]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(result: int, what: str) -> None:
        if result != 0:
            code = ctypes.get_errno()
            needed = ", ".join(path for paths in closed.values() for path in paths)
            sys.exit(
                f"expected Python to be readable by the sandbox's user, but {needed} is below a folder for root alone, "
                f"and it could not be opened ({what}: {os.strerror(code)}). Install Python in /usr/local or /opt."
            )

    def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        call(disk.call_mount(source, target, kind, flags, options), "mount")

    call(libc.unshare(disk.NEW_MOUNTS), "unshare")
    mount("none", "/", "", disk.RECURSIVE | disk.PRIVATE)
    holding = tempfile.mkdtemp(dir="/tmp")  # TMPDIR may be below one of the closed folders
    mount("tmpfs", holding, "tmpfs", 0, "mode=0700")
    for folder, paths in closed.items():
        outermost = [path for path in paths if not any(other != path and Path(path).is_relative_to(other) for other in paths)]
        for number, path in enumerate(outermost):
            os.mkdir(f"{holding}/{number}")
            mount(path, f"{holding}/{number}", "", disk.BIND | disk.RECURSIVE)
        mount("tmpfs", folder, "tmpfs", 0, "mode=0755,size=1m")
        for number, path in enumerate(outermost):
            os.makedirs(path, exist_ok=True)
            mount(f"{holding}/{number}", path, "", _MOVE)
            os.rmdir(f"{holding}/{number}")
    call(libc.umount2(holding.encode(), 2), "umount")
    os.rmdir(holding)
