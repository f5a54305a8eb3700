"""What a learner may call in a cell beside `check`: `hint("softmax")`, `status()`, `solution("softmax")`."""

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError, did_you_mean
from autograder.diagnosis.panel import HINT, inline, overview_html, overview_text, plain
from autograder.workspace import folder as workspace
from autograder.workspace import progress
from autograder.workspace.in_cells import hints
from autograder.workspace.in_cells.check import find_packs, find_record
from autograder.workspace.in_cells.overview import Contents, contents

HINTS_FIRST = 3


@dataclass(frozen=True)
class Shown:
    """A text that a notebook shows as HTML and anything else as it is."""

    text: str
    markup: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<div class="attn-panel" role="status">{self.markup}</div>'


@dataclass(frozen=True)
class Words:
    """An answer in words: Markdown, which a notebook typesets with its formulas."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


def hint(exercise: str) -> Shown:
    """The next hint of an exercise of this lesson; it is remembered how far you have read."""
    if _alone():
        given = hints.hint_alone(exercise, find_record(exercise).hints)
    else:
        home, lesson = _here("hint")
        _known(home, lesson, exercise)
        given = hints.hint(home, lesson, exercise)
    if not given.text:
        return Shown("There are no hints for this one.", "There are no hints for this one.")
    head = f"Hint {given.level} of {given.total}: {HINT[given.level - 1].lower()}"
    return Shown(f"{head}\n{plain(given.text)}", f"<b>{html.escape(head)}</b><br>{inline(given.text)}")


def status() -> Shown | Contents:
    """Your progress in all lessons that you have begun, and in this one; in the workspace's own folder: all lessons."""
    if (Path.cwd() / progress.MARKER).is_dir():
        return contents(Path.cwd())
    home, lesson = _here("status")
    rows = [row for row in workspace.status(home) if row["score"] > 0 or row["lesson"] == lesson]
    return Shown("\n\n".join(map(overview_text, rows)), "".join(map(overview_html, rows)))


def solution(exercise: str, *, sure: bool = False) -> "Shown | Words":
    """The reference's answer: once yours passes, or after the last hint with `sure=True`. What you looked up is noted.

    Of a question in words: what we would write, once you have written something and saved the notebook. Raises CourseError
    before that, and where the course's answers are not on this machine.
    """
    home, lesson = _here("solution")
    _known(home, lesson, exercise, written=True)
    if exercise not in workspace.load_pack(home, lesson).exercises:
        return _in_words(home, lesson, exercise)
    entry = progress.read(home).get((lesson, exercise))
    passed = entry is not None and entry.status == "pass"
    seen = progress.last_hint(home, lesson, exercise)
    if not passed and (seen < HINTS_FIRST or not sure):
        rest = f'`hint("{exercise}")` has {HINTS_FIRST - seen} more for you' if seen < HINTS_FIRST else "all hints are read"
        raise CourseError(
            f"solution({exercise!r}): your own answer comes first. {rest[0].upper()}{rest[1:]}; after the last one, "
            f'`solution("{exercise}", sure=True)` shows the reference.'
        )
    source = _source(lesson, exercise)
    if not passed:
        progress.looked_up(home, lesson, exercise)
    return Shown(source, f"<pre>{html.escape(source)}</pre>")


def _alone() -> bool:
    """Whether the notebook stands in no workspace, as in Colab: then the packs of the installed course know its exercises."""
    return not (Path.cwd().parent / progress.MARKER).is_dir() and bool(find_packs())


def _here(name: str) -> tuple[Path, str]:
    folder = Path.cwd()
    if not (folder.parent / progress.MARKER).is_dir() or folder.name not in workspace.names(folder.parent):
        raise CourseError(f"{name}(): expected a notebook in a workspace, got {folder}. `attn lab` makes one and opens it.")
    return folder.parent, folder.name


def _in_words(home: Path, lesson: str, question: str) -> Words:
    if question not in workspace.answered(home, lesson):
        raise CourseError(
            f"solution({question!r}): your own answer comes first. Write it in its cell, save the notebook (Ctrl+S), "
            "and run this again."
        )
    return Words(_source(lesson, question))


def _known(home: Path, lesson: str, exercise: Any, *, written: bool = False) -> None:
    names = workspace.answer_ids(home, lesson, written)
    if exercise not in names:
        raise CourseError(f"expected an exercise of this lesson, got {exercise!r}.{did_you_mean(str(exercise), names)}")


def _source(lesson: str, exercise: str) -> str:
    """The reference's source, where the course itself is on this machine; the released lessons hold no answers."""
    from autograder.authoring.course import find_lesson
    from autograder.authoring.read_lesson import read_lesson
    from autograder.authoring.reference_source import BEGIN, END, injected
    from autograder.notebooks.roles import grade_id, is_answer

    missing = f"solution({exercise!r}): the answers come with the course's repository, and are not on this machine."
    try:
        cells = [cell for cell in read_lesson(find_lesson(lesson)).cells if is_answer(cell) and grade_id(cell) == exercise]
    except CourseError:
        raise CourseError(missing) from None
    if not cells:
        raise CourseError(missing)
    lines = [line for line in injected(cells[0]).splitlines() if line.strip() not in (BEGIN, END)]
    return "\n".join(lines)
