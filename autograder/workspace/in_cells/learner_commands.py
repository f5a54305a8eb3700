"""Define what a learner may call in a cell besides `check`: `hint("softmax")`, `status()`, `solution("softmax")`."""

import html
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError, did_you_mean
from autograder.diagnosis.finding import fact
from autograder.diagnosis.panel import hint_name, inline, plain
from autograder.diagnosis.phrase import say
from autograder.workspace import folder as workspace
from autograder.workspace import learner_status, progress
from autograder.workspace.in_cells import choose_hint, solutions
from autograder.workspace.in_cells.check import find_packs, find_record
from autograder.workspace.in_cells.overview import Contents, contents, of_lessons
from autograder.workspace.in_cells.shown import Shown, panel


def hint(exercise: str | None = None) -> Shown:
    """Show the next hint for an exercise of this lesson. The workspace remembers how many you have read."""
    if exercise is None:
        raise _say_which("hint")
    if not (Path.cwd().parent / progress.MARKER).is_dir() and find_packs():  # as in Colab: the installed course's packs
        given = choose_hint.hint_alone(exercise, find_record(exercise, "hint", "hints").hints)
    else:
        home, lesson = _here("hint")
        _known(home, lesson, exercise)
        given = choose_hint.hint(home, lesson, exercise)
    if not given.text:
        none = say(fact("hint.none"))
        return panel(none, none)
    head = say(fact("hint.head", level=given.level, total=given.total, name=hint_name(given.level).lower()))
    last = given.level == given.total and bool(given.lesson) and solutions.are_here(given.lesson)
    after = say(fact("hint.last", exercise=exercise)) if last else ""
    text, markup = f"{head}\n{plain(given.text)}", f"<b>{html.escape(head)}</b><br>{inline(given.text)}"
    return panel(f"{text}\n{after}", f"{markup}<br>{inline(after)}") if after else panel(text, markup)


def status() -> Shown | Contents:
    """Show your progress in this lesson and all lessons you have begun; in the workspace's own folder, all lessons."""
    if (Path.cwd() / progress.MARKER).is_dir():
        return contents(Path.cwd())
    home, lesson = _here("status")
    rows = []
    for row in learner_status.status(home):
        if row.lesson == lesson:
            rows.append(row)
        elif row.score > 0:  # with links that work from this notebook
            questions = [replace(question, link=f"../{row.lesson}/{question.link}") for question in row.questions]
            rows.append(replace(row, questions=tuple(questions)))
    return of_lessons(rows)


def solution(exercise: str | None = None, *, sure: bool = False) -> Shown:
    """Show our answer once yours passes, or after the last hint with `sure=True`. Looking it up early is recorded.

    For a question in words, you see what we would write, once you have written something and saved the notebook. Raises
    CourseError before that, or if the course's answers are not on this machine.
    """
    if exercise is None:
        raise _say_which("solution")
    home, lesson = _here("solution")
    _known(home, lesson, exercise, written=True)
    calls = {"call": f"solution({exercise!r})", "hint_call": f'hint("{exercise}")'}
    return solutions.solution(home, lesson, exercise, sure=sure, sure_call=f'solution("{exercise}", sure=True)', **calls)


def _here(name: str) -> tuple[Path, str]:
    folder = Path.cwd()
    if not workspace.is_lesson(folder):
        raise CourseError(f"{name}(): expected a notebook in a workspace, got {folder}. `attn lab` makes one and opens it.")
    return folder.parent, folder.name


def _say_which(name: str) -> CourseError:
    """Return the error for a call such as `hint()`, with the first open exercise of this lesson as its example."""
    try:
        (row,) = learner_status.status(Path.cwd().parent, only=(Path.cwd().name,))
        exercise = next((each.id for each in row.exercises if each.status != "pass"), row.exercises[0].id)
    except (CourseError, OSError, ValueError, IndexError):
        exercise = "NAME"
    return CourseError(f'{name}(): expected the name of an exercise. Say which: {name}("{exercise}")')


def _known(home: Path, lesson: str, exercise: Any, *, written: bool = False) -> None:
    names = workspace.answer_ids(home, lesson, written)
    if exercise not in names:
        if not written:
            workspace.say_if_in_words(home, lesson, exercise)
        raise CourseError(f"expected an exercise of this lesson, got {exercise!r}.{did_you_mean(str(exercise), names)}")
