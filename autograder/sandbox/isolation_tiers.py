"""Find the ways to isolate a learner's code that work on this machine. Trusted side."""

import functools
from dataclasses import asdict, dataclass

from autograder.sandbox import launch
from autograder.sandbox.process import Host, SandboxUnavailable
from autograder.sandbox.submission_limits import Limits


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
    """Return, without trying it, the tier that `choose_tier` will most likely return: the first whose requirements are met."""
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
