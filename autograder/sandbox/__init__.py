"""Where learners' code runs when it is graded: a confined warm worker, and the strict pipe to it.

In: cells and questions of a submission. Out: its outputs and observations, made harmless. `client` is what the grader uses
(`Sandbox`, `Submission`); `tiers` says which isolation works here. Trusted side: `client`, `submission`, `process`, `budget`,
`tiers`, `launch`, `cgroup`, `untrusted`. Between the sides: `wire`, `codec`, `clock`. Confined side: the folder `inside`.
May import `judging`, `notebooks`.
"""

from autograder.sandbox.budget import Budget, Purse
from autograder.sandbox.client import Sandbox
from autograder.sandbox.process import SandboxUnavailable
from autograder.sandbox.submission import REPLY_BYTES, Cell, CellOutput, Question, Submission
from autograder.sandbox.tiers import Limits, Tier, available_tiers, choose_tier, likely_tier

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
