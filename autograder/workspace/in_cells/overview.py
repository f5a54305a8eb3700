"""How far the learner is, and what is next: `check()` without a name, the line after an exercise that passes, all lessons."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError
from autograder.diagnosis import panel
from autograder.workspace import folder as workspace
from autograder.workspace import progress, standing

Step = tuple[str, str]  # what to do, and a link to where ("" where there is none)


@dataclass(frozen=True)
class Overview:
    """A lesson's row of `standing.status`; shown as a panel in a notebook and as text elsewhere."""

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
    return Overview(standing.status(folder.parent, only=(folder.name,))[0])


@dataclass(frozen=True)
class Contents:
    """The rows of `standing.status`: in a notebook a table of all lessons, with links; elsewhere text."""

    rows: list[dict[str, Any]]
    following: Step

    def __repr__(self) -> str:
        return "\n".join([f"Next: {panel.plain(self.following[0])}", "", *map(self._line, self.rows)])

    def _repr_markdown_(self) -> str:
        text, link = self.following
        lines = [f"**Next:** [{text}]({link})" if link else f"**{text}**", ""]
        lines += ["| lesson | state | checks passed | in words | points by checks |", "|:--|:--|:--|:--|:--|"]
        for row in self.rows:
            name = f"[{row['lesson'][:2]} {row['title']}]({row['lesson']}/{row['lesson']}.ipynb)"
            points = f"{row['score']:g} of {row['points']:g}"
            words = f"{sum(one['answered'] for one in row['questions'])} of {len(row['questions'])}" if row["questions"] else ""
            lines.append(f"| {name} | {self._state(row)} | {self._done(row)} of {len(row['exercises'])} | {words} | {points} |")
        return "\n".join(lines)

    def _line(self, row: dict[str, Any]) -> str:
        said = f"{row['lesson'][:2]} {row['title']}: {self._done(row)} of {len(row['exercises'])} exercises"
        words = panel.open_words(row["questions"]) if self._begun(row) else ""
        return f"{said} {self._state(row)}".rstrip() + (f"; {words}" if words else "")

    @staticmethod
    def _done(row: dict[str, Any]) -> int:
        return sum(exercise["status"] == "pass" for exercise in row["exercises"])

    @staticmethod
    def _begun(row: dict[str, Any]) -> bool:
        tried = any(exercise["status"] != "todo" for exercise in row["exercises"])
        return tried or any(question["answered"] for question in row["questions"])

    def _state(self, row: dict[str, Any]) -> str:
        if row["done"]:
            return f"{panel.SYMBOL['pass']} done"
        return f"{panel.SYMBOL['part']} begun" if self._begun(row) else ""


def contents(home: Path) -> Contents:
    """All lessons of the workspace `home`, and what is next: the first open one, a lesson's exercises before its questions."""
    rows = standing.status(home)
    for row in rows:
        for exercise in row["exercises"]:
            if exercise["status"] != "pass":
                lesson = row["lesson"]
                link = f"{lesson}/{standing.link(home, lesson, exercise['id'])}"
                if row["exercises"][0] == exercise:  # a lesson that is not begun is read from its top
                    return Contents(rows, (f"{lesson[:2]} {row['title']}", f"{lesson}/{lesson}.ipynb"))
                return Contents(rows, (f"{lesson[:2]} {row['title']}: {exercise['title']}", link))
        for question in row["questions"]:
            if not question["answered"]:
                link = f"{row['lesson']}/{question['link']}"
                return Contents(rows, (f"{row['lesson'][:2]} {row['title']}: {question['title']} (in words)", link))
    return Contents(rows, ("All lessons are done.", ""))


def ahead(folder: Path, exercise: str) -> str:
    """`next_step` as a line for a terminal: how far the lesson is, and the next exercise or lesson."""
    steps = [text for text, _ in next_step(folder, exercise)]
    return panel.plain(" · ".join([*steps[:1], *(text for text in steps[1:] if text.startswith(("next", "that was")))]))


def next_step(folder: Path, exercise: str) -> tuple[Step, ...]:
    """ "5 of 10", and the next exercise that is not done: after this one, else from the top; else questions in words that are
    open, and the next lesson.

    `folder` is a lesson's folder in a workspace; nothing is said elsewhere.
    """
    home, lesson = folder.parent, folder.name
    if not (home / progress.MARKER).is_dir():
        return ()
    try:
        row = standing.status(home, only=(lesson,))[0]
        exercises = row["exercises"]
        done = [each["status"] == "pass" for each in exercises]
        ids = [each["id"] for each in exercises]
        steps = [(f"{sum(done)} of {len(done)} exercises of this lesson done", "")]
        at = ids.index(exercise) + 1
        left = [name for name, passed in zip(ids[at:] + ids[:at], done[at:] + done[:at], strict=True) if not passed]
        if left:
            return (*steps, (f"next: `{left[0]}`", standing.link(home, lesson, left[0])))
        if said := panel.open_words(row["questions"]):
            steps += [
                (f"{said} (once answered, save: Ctrl+S)", ""),
                *((one["title"], one["link"]) for one in row["questions"] if not one["answered"]),
            ]
        every = [("all lessons", "../index.ipynb")] if (home / "index.ipynb").exists() else []
        later = [name for name in workspace.names(home) if name > lesson]
        if later:
            title = workspace.load_pack(home, later[0]).title
            return (*steps, (f"next lesson: {later[0][:2]} {title}", f"../{later[0]}/{later[0]}.ipynb"), *every)
        return (*steps, ("that was the last lesson", ""), *every)
    except (CourseError, OSError, ValueError, IndexError):
        return ()  # a damaged workspace must not cost the check
