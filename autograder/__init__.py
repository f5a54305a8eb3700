"""An engine for exercises that tell the learner which mistake was made, and that grades without running student code
in the process that marks. The whole public API is here; it knows nothing about what is taught.

In a notebook: `from autograder import check`, then `check("normalize")`; `bring` fetches answers of earlier lessons. To
declare exercises: `Exercise`, `Case`, `Misconception`, `Variant`. Everything is imported on first use, so `import autograder`
is quick and light.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.judging.exercise import Call, Case, Code, Draw, Exercise, Misconception, Property, Script, Tolerance, Variant
    from autograder.workspace.check import Score, check
    from autograder.workspace.export import bring

__version__ = "0.1.0"

_HOME = {
    "bring": "autograder.workspace.export",
    **dict.fromkeys(("Score", "check"), "autograder.workspace.check"),
    **dict.fromkeys(
        ("Call", "Case", "Code", "Draw", "Exercise", "Misconception", "Property", "Script", "Tolerance", "Variant"),
        "autograder.judging.exercise",
    ),
}

__all__ = [
    "Call",
    "Case",
    "Code",
    "Draw",
    "Exercise",
    "Misconception",
    "Property",
    "Score",
    "Script",
    "Tolerance",
    "Variant",
    "bring",
    "check",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'autograder' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
