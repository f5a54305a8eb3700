"""Limit the memory and count the processor time of a worker and everything it starts, with control groups. Trusted side.

Resource limits apply to each process separately, so sixty-four processes could take sixty-four times as much. Both versions of
control groups are supported. If this user may not create any, memory is not capped (see `Host.capped`) and processor time is
read from /proc.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
LIMITS = ("memory.max", "memory.limit_in_bytes")


@dataclass(frozen=True)
class Group:
    """The folders of a control group, one per hierarchy; `capped` says whether one of them limits memory."""

    folders: tuple[Path, ...]
    capped: bool

    def cpu_s(self) -> float | None:
        """Return the processor seconds of all processes that were ever in the group, or None if the kernel doesn't count them."""
        for folder in self.folders:
            with contextlib.suppress(OSError, ValueError):
                return int((folder / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
            with contextlib.suppress(OSError, ValueError, IndexError):
                return int((folder / "cpu.stat").read_text(encoding="ascii").split("usage_usec", 1)[1].split()[0]) / 1e6
        return None

    def entering(self, argv: list[str]) -> list[str]:
        """Return a command that enters the group and then becomes `argv`."""
        enter = "".join('echo $$ >"$1" && shift && ' for _ in self.folders)
        return ["/bin/sh", "-c", f'{enter}exec "$@"', "sh", *(str(f / "cgroup.procs") for f in self.folders), *argv]

    def remove(self) -> None:
        """Delete the group if it is empty. A group that isn't empty stays, and its processes stay capped."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def make(limit_bytes: int) -> Group | None:
    """Create a group whose processes together have at most `limit_bytes` of memory. Returns None if no group can be made."""
    name = f"attn-{os.getpid()}-{secrets.token_hex(4)}"
    folders: list[Path] = []
    capped = False
    for parent in _parents():
        folder = parent / name
        with contextlib.suppress(OSError):
            folder.mkdir()
            folders.append(folder)
            limited = not capped and _limit(folder, limit_bytes)
            capped = capped or limited
            if not limited and not any((folder / file).exists() for file in ("cpuacct.usage", "cpu.stat")):
                folders.pop().rmdir()
    return Group(tuple(folders), capped) if folders else None


def _limit(folder: Path, limit_bytes: int) -> bool:
    """Limit the memory of the group at `folder`. Returns whether its hierarchy can do that."""
    for file in LIMITS:
        if (folder / file).exists():
            with contextlib.suppress(OSError):
                (folder / file).write_text(str(limit_bytes), encoding="ascii")
                return True
    return False


def _parents() -> Iterator[Path]:
    """Yield this process's groups in the hierarchies that limit memory or count processor time."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                mounts = [mount for mount in (ROOT, ROOT / "unified") if (mount / "cgroup.procs").exists()]
            elif {"memory", "cpuacct"} & set(controllers.split(",")):
                mounts = [ROOT / controllers]
            else:
                continue
            yield from (mount / path.lstrip("/") for mount in mounts)
