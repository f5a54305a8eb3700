"""How far the learner is, and what is next: `check()` without a name, the line after an exercise that passes, all lessons."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from autograder.authoring.course import CourseError
from autograder.diagnosis import panel
from autograder.notebooks.roles import grade_id, is_answer
from autograder.workspace import folder as workspace
from autograder.workspace import progress

Step = tuple[str, str]  # what to do, and a link to where ("" where there is none)


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


@dataclass(frozen=True)
class Contents:
    """The rows of `workspace.status`: in a notebook a table of all lessons, with links; elsewhere text."""

    rows: list[dict[str, Any]]
    following: Step

    def __repr__(self) -> str:
        return "\n".join([f"Next: {panel.plain(self.following[0])}", "", *map(self._line, self.rows)])

    def _repr_markdown_(self) -> str:
        text, link = self.following
        lines = [f"**Next:** [{text}]({link})" if link else f"**{text}**", "", "| lesson | state | exercises done | points |"]
        lines.append("|:--|:--|:--|:--|")
        for row in self.rows:
            name = f"[{row['lesson'][:2]} {row['title']}]({row['lesson']}/{row['lesson']}.ipynb)"
            points = f"{row['score']:g} of {row['points']:g}"
            lines.append(f"| {name} | {self._state(row)} | {self._done(row)} of {len(row['exercises'])} | {points} |")
        return "\n".join(lines)

    def _line(self, row: dict[str, Any]) -> str:
        said = f"{row['lesson'][:2]} {row['title']}: {self._done(row)} of {len(row['exercises'])} exercises"
        return f"{said} {self._state(row)}".rstrip()

    @staticmethod
    def _done(row: dict[str, Any]) -> int:
        return sum(exercise["status"] == "pass" for exercise in row["exercises"])

    @staticmethod
    def _state(row: dict[str, Any]) -> str:
        if row["done"]:
            return f"{panel.SYMBOL['pass']} done"
        begun = any(exercise["status"] != "todo" for exercise in row["exercises"])
        return f"{panel.SYMBOL['part']} begun" if begun else ""


def contents(home: Path) -> Contents:
    """All lessons of the workspace `home`, and the first exercise that is not done."""
    rows = workspace.status(home)
    for row in rows:
        for exercise in row["exercises"]:
            if exercise["status"] != "pass":
                lesson = row["lesson"]
                link = f"{lesson}/{lesson}.ipynb{_anchor(home, lesson, exercise['id'])}"
                if row["exercises"][0] == exercise:  # a lesson that is not begun is read from its top
                    return Contents(rows, (f"{lesson[:2]} {row['title']}", f"{lesson}/{lesson}.ipynb"))
                return Contents(rows, (f"{lesson[:2]} {row['title']}: {exercise['title']}", link))
    return Contents(rows, ("All lessons are done.", ""))


def next_step(folder: Path, exercise: str) -> tuple[Step, ...]:
    """ "5 of 10", and the next exercise that is not done: after this one, else from the top; else the next lesson.

    `folder` is a lesson's folder in a workspace; nothing is said elsewhere.
    """
    home, lesson = folder.parent, folder.name
    if not (home / progress.MARKER).is_dir():
        return ()
    try:
        exercises = workspace.status(home, only=(lesson,))[0]["exercises"]
        done = [each["status"] == "pass" for each in exercises]
        ids = [each["id"] for each in exercises]
        steps = [(f"{sum(done)} of {len(done)} exercises of this lesson done", "")]
        at = ids.index(exercise) + 1
        left = [name for name, passed in zip(ids[at:] + ids[:at], done[at:] + done[:at], strict=True) if not passed]
        if left:
            return (*steps, (f"next: `{left[0]}`", _anchor(home, lesson, left[0])))
        every = [("all lessons", "../index.ipynb")] if (home / "index.ipynb").exists() else []
        later = [name for name in workspace.names(home) if name > lesson]
        if later:
            title = workspace.load_pack(home, later[0]).title
            return (*steps, (f"next lesson: {later[0][:2]} {title}", f"../{later[0]}/{later[0]}.ipynb"), *every)
        return (*steps, ("that was the last lesson", ""), *every)
    except (CourseError, OSError, ValueError, IndexError):
        return ()  # a damaged workspace must not cost the check


def _anchor(home: Path, lesson: str, exercise: str) -> str:
    """The link to the last heading above the answer cell of `exercise`, as JupyterLab names headings; "" without one."""
    heading = ""
    for cell in workspace.as_released(home, lesson).cells:
        if cell.cell_type == "markdown":
            found = re.findall(r"^#+ +(.+?)\s*$", cell.source, re.MULTILINE)
            heading = found[-1] if found else heading
        elif is_answer(cell) and grade_id(cell) == exercise:
            break
    return "#" + quote(re.sub(r"[`*]", "", heading).replace(" ", "-")) if heading else ""
