"""One memory limit, and one count of processor time, for a worker and all that it starts, by control groups. Trusted side.

Resource limits count each process alone: sixty-four of them may take sixty-four times as much. Both versions of control groups
are known. Where this user may make none, nothing is capped (`Host.capped` says so), and processor time is read from /proc.
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
    """The folders of a control group, one for each hierarchy; `capped` says whether one of them limits memory."""

    folders: tuple[Path, ...]
    capped: bool

    def cpu_s(self) -> float | None:
        """The processor seconds of all processes that were ever in the group; None where the kernel does not count them."""
        for folder in self.folders:
            with contextlib.suppress(OSError, ValueError):
                return int((folder / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
            with contextlib.suppress(OSError, ValueError, IndexError):
                return int((folder / "cpu.stat").read_text(encoding="ascii").split("usage_usec", 1)[1].split()[0]) / 1e6
        return None

    def entering(self, argv: list[str]) -> list[str]:
        """A command that enters the group and becomes `argv`."""
        enter = "".join('echo $$ >"$1" && shift && ' for _ in self.folders)
        return ["/bin/sh", "-c", f'{enter}exec "$@"', "sh", *(str(f / "cgroup.procs") for f in self.folders), *argv]

    def remove(self) -> None:
        """Delete the group when it is empty; one that is not stays, with its processes capped."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def make(limit_bytes: int) -> Group | None:
    """A new group whose processes have at most `limit_bytes` of memory together; None where none can be made."""
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
    """Limit the memory of the group at `folder`, where its hierarchy can."""
    for file in LIMITS:
        if (folder / file).exists():
            with contextlib.suppress(OSError):
                (folder / file).write_text(str(limit_bytes), encoding="ascii")
                return True
    return False


def _parents() -> Iterator[Path]:
    """The groups that this process is in, in the hierarchies that limit memory or count processor time."""
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
