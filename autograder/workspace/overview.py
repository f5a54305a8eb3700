"""`check()` without a name: how far the learner is in this lesson, and what is next."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError
from autograder.diagnosis import panel
from autograder.workspace import folder as workspace
from autograder.workspace import progress


@dataclass(frozen=True)
class Overview:
    """A lesson's row of `workspace.status`; shown as a panel in a notebook and as text elsewhere."""

    row: dict[str, Any]

    def __repr__(self) -> str:
        return panel.overview_text(self.row)

    def _repr_html_(self) -> str:
        return panel.overview_html(self.row)


def overview(folder: Path) -> Overview:
    """The progress of the lesson in `folder`. Raises CourseError where that is not a lesson of a workspace."""
    if not (folder.parent / progress.MARKER).is_dir() or folder.name not in workspace.names(folder.parent):
        raise CourseError(
            f"check(): progress is kept in a workspace, and {folder} is not a lesson of one. `attn lab` makes one and opens it; "
            'check("name") works everywhere.'
        )
    return Overview(workspace.status(folder.parent, only=(folder.name,))[0])
