"""Find the ways to isolate a learner's code that work on this machine, and define what a submission may use. Trusted side."""

import functools
from dataclasses import asdict, dataclass

from autograder.sandbox import launch
from autograder.sandbox.process import Host, SandboxUnavailable


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Memory is per process; files, processes and output are per submission."""

    budget_s: float = 60.0  # everything: cells, exercises, attempts (`autograder.sandbox.budget`)
    wall_s: float = 60.0  # all cells together
    cell_s: float = 20.0  # one cell; less once a cell has run out of time
    cpu_s: int = 90
    memory_bytes: int = 4 << 30
    tree_bytes: int = 6 << 30  # the worker and all its processes together, if a control group can be made
    processes: int = 64
    file_bytes: int = 8 << 20
    open_files: int = 128
    output_bytes: int = 1 << 20  # text and figures
    scratch_bytes: int = 256 << 20  # /tmp, and as much again in /dev/shm (bubblewrap only)
    scratch_files: int = 20_000  # files and folders in /tmp, and as many again in /dev/shm


@dataclass(frozen=True)
class Tier:
    """A way to isolate, whether it works here, why it doesn't, and what submissions in it share (`Host.shared`)."""

    name: str
    available: bool
    reason: str = ""
    shared: tuple[str, ...] = ()


def available_tiers() -> tuple[Tier, ...]:
    """Return every tier, best first, after trying each one."""
    return tuple(try_tier(name) for name in launch.TIERS)


@functools.cache
def try_tier(name: str) -> Tier:
    """Try the tier `name` by starting a worker in it, which must prove that it is confined. Cached."""
    try:
        host = Host(name, asdict(Limits()), (), warm=False)
        host.close()
        return Tier(name, True, shared=host.shared)
    except SandboxUnavailable as error:
        return Tier(name, False, str(error))


def likely_tier() -> str:
    """Return the tier that `choose_tier` will most likely return, without trying: the first whose requirements this machine
    meets.
    """
    return next((name for name in launch.TIERS if launch.unsupported(name) is None), "none")


def choose_tier(unsafe: bool = False) -> str:
    """Return the first tier that isolates. Raises SandboxUnavailable if none does, unless `unsafe` allows "none"."""
    isolating = [name for name in launch.TIERS if name != "none"]
    for name in isolating:
        if try_tier(name).available:
            return name
    if unsafe:
        return "none"
    reasons = "".join(f"\n  {try_tier(name).reason}" for name in isolating)
    raise SandboxUnavailable(
        f"expected a sandbox for the learners' code, found none that works here:{reasons}\n"
        "Grade on a machine that has one. `--unsafe` runs learners' code with your own rights: only for code you trust."
    )
