"""An engine for exercises that tell the learner which mistake was made, and that grades without running student code
in the process that marks. The whole public API is here; it knows nothing about what is taught.

In a notebook: `from autograder import check`, then `check("normalize")`; `hint`, `status` and `solution` help on;
`bring` fetches answers of earlier lessons. To declare exercises: `Exercise`, `Case`, `Misconception`, `Variant`,
and `Prediction` for a question with choices.
Everything is imported on first use, so `import autograder` is quick and light.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.judging.exercise import (
        After,
        Before,
        Case,
        Code,
        Draw,
        Exercise,
        Instead,
        Made,
        Misconception,
        Of,
        Prediction,
        Property,
        Tolerance,
        Variant,
    )
    from autograder.judging.script import Call, Construct, Keeps, Read, Script
    from autograder.workspace.export import bring
    from autograder.workspace.in_cells.check import Score, check
    from autograder.workspace.in_cells.hint_status_solution import hint, solution, status

__version__ = "0.2.0"

_HOME = {  # all others are in `judging.exercise`
    "bring": "autograder.workspace.export",
    **dict.fromkeys(("Call", "Construct", "Keeps", "Read", "Script"), "autograder.judging.script"),
    **dict.fromkeys(("Score", "check"), "autograder.workspace.in_cells.check"),
    **dict.fromkeys(("hint", "solution", "status"), "autograder.workspace.in_cells.hint_status_solution"),
}

__all__ = [
    "After",
    "Before",
    "Call",
    "Case",
    "Code",
    "Construct",
    "Draw",
    "Exercise",
    "Instead",
    "Keeps",
    "Made",
    "Misconception",
    "Of",
    "Prediction",
    "Property",
    "Read",
    "Score",
    "Script",
    "Tolerance",
    "Variant",
    "bring",
    "check",
    "hint",
    "solution",
    "status",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'autograder' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME.get(name, "autograder.judging.exercise")), name)
