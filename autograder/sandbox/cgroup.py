"""One memory limit for a worker and all that it starts, by a control group, where this user may make one. Trusted side.

Resource limits count each process alone: sixty-four of them may take sixty-four times as much. Both versions of control groups
are known; where neither can be had nothing is capped, and `Host.capped` says so.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def make(limit_bytes: int) -> Path | None:
    """A new group whose processes have at most `limit_bytes` of memory together; None where none can be made."""
    for folder, limit in _parents():
        group = folder / f"attn-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(limit_bytes), encoding="ascii")
            return group
        except OSError:
            remove(group)
    return None


def entering(group: Path, argv: list[str]) -> list[str]:
    """A command that enters `group` and becomes `argv`."""
    return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs"), *argv]


def remove(group: Path) -> None:
    """Delete an empty group; one that is not stays, with its processes capped."""
    with contextlib.suppress(OSError):
        group.rmdir()


def _parents() -> Iterator[tuple[Path, str]]:
    """The groups that this process is in, with the file that holds a group's limit."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                for mount in (ROOT, ROOT / "unified"):
                    yield mount / path.lstrip("/"), "memory.max"
            elif controllers == "memory":
                yield ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
