"""Which ways to isolate a learner's code work on this machine, best first, and what a submission may use. Trusted side."""

import functools
from dataclasses import asdict, dataclass

from autograder.sandbox import launch
from autograder.sandbox.process import Host, SandboxUnavailable


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Memory is per process; files, processes and output are per submission."""

    budget_s: float = 60.0  # everything: cells, exercises, attempts (`autograder.sandbox.budget`)
    wall_s: float = 60.0  # all cells together
    cell_s: float = 20.0  # one cell; less once one ran out of time
    cpu_s: int = 90
    memory_bytes: int = 4 << 30
    tree_bytes: int = 6 << 30  # all processes together, and the worker; where a control group can be made
    processes: int = 64
    file_bytes: int = 8 << 20
    open_files: int = 128
    output_bytes: int = 1 << 20  # text and figures
    scratch_bytes: int = 256 << 20  # /tmp, and as much again in /dev/shm (bubblewrap only)
    scratch_files: int = 20_000  # files and folders there, and as many again in /dev/shm


@dataclass(frozen=True)
class Tier:
    """A way to isolate, whether it works here, and the reason where it does not; what submissions in it share (`Host.shared`)."""

    name: str
    available: bool
    reason: str = ""
    shared: tuple[str, ...] = ()


def available_tiers() -> tuple[Tier, ...]:
    """Each tier, tried for real, best first."""
    return tuple(try_tier(name) for name in launch.TIERS)


@functools.cache
def try_tier(name: str) -> Tier:
    """The tier `name`: a worker is started in it and must prove that it is confined. Cached."""
    try:
        host = Host(name, asdict(Limits()), (), warm=False)
        host.close()
        return Tier(name, True, shared=host.shared)
    except SandboxUnavailable as error:
        return Tier(name, False, str(error))


def likely_tier() -> str:
    """What `choose_tier` will most likely say, at once: the first tier for which this machine has what it needs, untried."""
    return next((name for name in launch.TIERS if launch.unsupported(name) is None), "none")


def choose_tier(unsafe: bool = False) -> str:
    """The first tier that isolates. Raises SandboxUnavailable where none does, unless `unsafe` allows "none"."""
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
