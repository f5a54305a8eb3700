"""Run learners' code for grading in a confined warm worker, and talk to it over a strict pipe.

In: a submission's cells and questions. Out: its outputs and observations, made harmless. The grader uses `client`
(`Sandbox`, `Submission`), `limits` states what a submission may use, and `tiers` says which isolation works on this machine.
Trusted side: `client`, `run_submission`, `process`, `limits`, `budget`, `own_time`, `tiers`, `launch`, `cgroup`, `untrusted`.
Shared by both sides: `wire`, `codec`, `clock`. Confined side: the folder `inside`. May import `judging`, `notebooks`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.sandbox.budget import Budget, Purse
    from autograder.sandbox.client import Sandbox
    from autograder.sandbox.limits import Limits
    from autograder.sandbox.process import SandboxUnavailable
    from autograder.sandbox.run_submission import REPLY_BYTES, Cell, CellOutput, Question, Submission
    from autograder.sandbox.tiers import Tier, available_tiers, choose_tier, likely_tier

_HOME = {  # imported on first use, because a caller that needs only the clock should not have to load NumPy
    **dict.fromkeys(("Budget", "Purse"), "budget"),
    "Sandbox": "client",
    "SandboxUnavailable": "process",
    **dict.fromkeys(("REPLY_BYTES", "Cell", "CellOutput", "Question", "Submission"), "run_submission"),
    "Limits": "limits",
    **dict.fromkeys(("Tier", "available_tiers", "choose_tier", "likely_tier"), "tiers"),
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
