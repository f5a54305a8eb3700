"""Estimate the work in an exercise and a lesson: the lines under their headings, and a lesson's minutes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from autograder.authoring.course import Lesson
from autograder.diagnosis.explain import effort
from autograder.judging.exercise import AnyExercise
from autograder.notebooks.roles import exercise_of, grade_id, grader, is_answer, is_figure, is_grade

# With these figures, the sums come within about a tenth of the times noted by people who solved the lessons.
WORDS_A_MINUTE = 140  # mathematical text, read for understanding
LINES_A_MINUTE = 8  # given code that has to be read
FIGURE_MINUTES = 0.75  # for looking at what a folded cell draws
WRITTEN_MINUTES = 6
COMPARE = "when you have written your answer, compare it with ours:"
HEADING = re.compile(r"^### Exercise (\d\d[a-z]?)\.(\d+): +(\S.*)$", re.MULTILINE)
STOP = "**A good place to stop.**"  # a paragraph that begins like this ends a sitting; the lesson's first part must stand alone
_STOP = re.compile(rf"^(?={re.escape(STOP)})", re.MULTILINE)
_ANY_HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)


def announce(notebook: Any, exercises: Mapping[str, AnyExercise]) -> None:
    """Write the lesson's duration under its title, and points and effort under each exercise's heading, in place."""
    spent = sittings(notebook, exercises)
    at: tuple[Any, int] | None = None
    asked: list[Any] = []
    for cell in [*notebook.cells, None]:
        starts = cell is None or (cell.cell_type == "markdown" and not is_answer(cell) and _ANY_HEADING.search(cell.source))
        if starts and at is not None and asked:
            _insert(*at, _line(asked, exercises))
        if starts and cell is not None:
            headings = list(HEADING.finditer(cell.source))
            at, asked = (cell, headings[-1].end()) if headings else None, []
        elif cell is not None and is_answer(cell):
            asked.append(cell)
    title = next((cell for cell in notebook.cells if cell.cell_type == "markdown" and cell.source.startswith("# ")), None)
    if title is not None:
        _insert(title, len(title.source.partition("\n")[0]), _time(spent))


def _insert(cell: Any, end: int, line: str) -> None:
    cell.source = f"{cell.source[:end]}\n\n{line}{cell.source[end:]}"


def _line(answers: Sequence[Any], exercises: Mapping[str, AnyExercise]) -> str:
    """Return the line for the answers under one heading: the sum of their points, and the effort of each."""
    declared = [exercises[name] for cell in answers if (name := str(grade_id(cell))) in exercises]
    written = [cell for cell in answers if grade_id(cell) not in exercises and is_grade(cell)]
    parts = [effort(exercise) for exercise in declared]
    parts += [f"about {_written_minutes(cell):g} minutes · in words" for cell in written]
    asked = [_points(sum(exercise.points for exercise in declared))] if declared or not written else []
    if written:  # no check counts these
        asked.append(f"{_points(sum(float(grader(cell).get('points', 0)) for cell in written))} marked by hand")
    line = f"*{' and '.join(asked)} · {'; '.join(dict.fromkeys(parts))}*"
    ours = ", ".join(f'`solution("{grade_id(cell)}")`' for cell in written)
    return f"{line} · *{COMPARE}* {ours}" if ours else line


def _points(points: float) -> str:
    return f"{points:g} point{'' if points == 1 else 's'}"


def _written_minutes(cell: Any) -> float:
    """Return the author's estimate for a written question: `+++ {"nbgrader": {…}, "minutes": 12}`."""
    return float(cell.metadata.get("minutes", WRITTEN_MINUTES))


def minutes(lesson: Lesson) -> int:
    """Estimate a lesson's minutes, rounded up to five: reading text and given code, looking at figures, and each exercise."""
    import jupytext  # with its imports, a third of the time that `attn grade` takes to start

    exercises = {exercise.id: exercise for exercise in lesson.exercises()}
    return _round(sum(sittings(jupytext.read(lesson.path), exercises)))


def sittings(notebook: Any, exercises: Mapping[str, AnyExercise]) -> list[float]:
    """Return the minutes of each sitting. A paragraph that begins with `STOP` ends one; without it, there is one sitting."""
    spent, left = [0.0], dict(exercises)
    for cell in notebook.cells:
        asked = left.pop(str(exercise_of(cell) or grade_id(cell)), None)
        spent[-1] += asked.minutes if asked else 0
        if cell.cell_type == "markdown" and not is_answer(cell):
            before, *after = re.split(_STOP, cell.source)
            spent[-1] += len(before.split()) / WORDS_A_MINUTE
            spent += [len(text.split()) / WORDS_A_MINUTE for text in after]
        elif is_answer(cell):
            spent[-1] += _written_minutes(cell) if cell.cell_type == "markdown" else 0
        elif is_figure(cell):
            spent[-1] += FIGURE_MINUTES
        elif exercise_of(cell) is None:
            spent[-1] += sum(bool(line.strip()) for line in cell.source.splitlines()) / LINES_A_MINUTE
    return [*spent[:-1], spent[-1] + sum(exercise.minutes for exercise in left.values())]


def _round(spent: float) -> int:
    return 5 * -(-round(spent) // 5)


def _time(spent: Sequence[float]) -> str:
    """Return the line under a lesson's title.

    >>> _time([31.0]), _time([52.0, 66.0])
    ('*About 35 minutes.*', '*Two sittings: about 55 minutes to the good place to stop, then about 70.*')
    >>> _time([28.0, 49.0, 24.0])
    '*Three sittings: about 30 minutes to the good place to stop, then about 50 and 25.*'
    >>> _time([28.0, 49.0, 44.0, 24.0])
    '*Four sittings: about 30 minutes to the good place to stop, then about 50, 45 and 25.*'
    """
    first, *later = map(_round, spent)
    if not later:
        return f"*About {first} minutes.*"
    count = {1: "Two", 2: "Three", 3: "Four"}.get(len(later), str(len(spent)))
    then = " and ".join(", ".join(map(str, part)) for part in (later[:-1], later[-1:]) if part)
    return f"*{count} sittings: about {first} minutes to the good place to stop, then about {then}.*"
