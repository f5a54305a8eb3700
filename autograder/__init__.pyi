from .judging.exercise import (
    After as After,
    Before as Before,
    Case as Case,
    Code as Code,
    Draw as Draw,
    Exercise as Exercise,
    Instead as Instead,
    Made as Made,
    Misconception as Misconception,
    Of as Of,
    Prediction as Prediction,
    Property as Property,
    Tolerance as Tolerance,
    Variant as Variant,
)
from .judging.script import (
    Call as Call,
    Construct as Construct,
    Keeps as Keeps,
    Read as Read,
    Script as Script,
)
from .workspace.export import bring as bring
from .workspace.in_cells.check import Score as Score, check as check
from .workspace.in_cells.learner_commands import (
    hint as hint,
    solution as solution,
    status as status,
)

__version__: str
