"""Where learners' code runs when it is graded: a confined warm worker, and the strict pipe to it.

In: cells and questions of a submission. Out: its outputs and observations, made harmless. `client` is what the grader uses
(`Sandbox`, `Submission`); `tiers` says which isolation works here. Trusted side: `client`, `submission`, `process`, `budget`,
`tiers`, `launch`, `cgroup`, `untrusted`. Between the sides: `wire`, `codec`, `clock`. Confined side: the folder `inside`.
May import `judging`, `notebooks`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.sandbox.budget import Budget, Purse
    from autograder.sandbox.client import Sandbox
    from autograder.sandbox.process import SandboxUnavailable
    from autograder.sandbox.submission import REPLY_BYTES, Cell, CellOutput, Question, Submission
    from autograder.sandbox.tiers import Limits, Tier, available_tiers, choose_tier, likely_tier

_HOME = {  # looked up when asked for: who needs the clock or a wall alone starts without NumPy
    **dict.fromkeys(("Budget", "Purse"), "budget"),
    "Sandbox": "client",
    "SandboxUnavailable": "process",
    **dict.fromkeys(("REPLY_BYTES", "Cell", "CellOutput", "Question", "Submission"), "submission"),
    **dict.fromkeys(("Limits", "Tier", "available_tiers", "choose_tier", "likely_tier"), "tiers"),
}

__all__ = [
    "REPLY_BYTES",
    "Budget",
    "Cell",
    "CellOutput",
    "Limits",
    "Purse",
    "Question",
    "Sandbox",
    "SandboxUnavailable",
    "Submission",
    "Tier",
    "available_tiers",
    "choose_tier",
    "likely_tier",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'autograder.sandbox' has no attribute {name!r}")
    return getattr(importlib.import_module(f"autograder.sandbox.{_HOME[name]}"), name)
