"""Labelled answers in `tests/labelled`, a file for each lesson: written from the released notebooks alone, right ones and wrong.

A cell is headed as `attn verify --blind` reads it, with the truth about the answer. Where `check` names mistakes for certain, a
line below the heading lists those that somebody has read and found true: the ids of listed mistakes, `~mended` and the like for
what an engine finds by itself, and the key and the code of a slip that nobody listed.
"""

import contextlib
import io
import json
import linecache
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from autograder import Exercise
from autograder.authoring.course import course_root, find_lesson
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import Report, make_report
from autograder.diagnosis.finding import Mistake
from autograder.grading.trials import unseen_answers
from autograder.grading.trials.unseen_answers import Labelled
from autograder.judging.records import ExerciseRecord, NearSlip
from autograder.live.needed_cells import needed
from autograder.mutants.source import plain_slip
from autograder.packs import pack_file

FOLDER = Path(__file__).parent / "labelled"
_TRUE = re.compile(r"\A# true: (.+)\n")


@dataclass(frozen=True)
class Answer:
    """One labelled answer, its place in its file, and the names of mistakes that are true of it."""

    labelled: Labelled
    number: int
    true: frozenset[str]

    @property
    def id(self) -> str:
        """What the answer is called: `exercise.number`, counted within the file."""
        return f"{self.labelled.exercise}.{self.number}"


@dataclass(frozen=True)
class Checked:
    """What `check` says of an answer, what it names, and the seconds of the processor that it took."""

    report: Report
    seconds: float

    @property
    def outcome(self) -> str:
        """One of `unseen_answers.OUTCOMES`."""
        return unseen_answers.outcome_of(self.report)

    @property
    def names(self) -> tuple[str, ...]:
        """The mistakes that are named for certain."""
        return tuple(map(name_of, self.report.known))


def name_of(mistake: Mistake) -> str:
    """The name of a mistake that stays the same when packs are made anew: a slip that nobody listed has no id of that kind."""
    if not isinstance(mistake, NearSlip):
        return mistake.id
    plain = plain_slip(mistake.what)
    return f"{plain.key}({', '.join(plain.code)})"


def answers() -> Iterator[Answer]:
    """All labelled answers, lesson by lesson."""
    for path in sorted(FOLDER.glob("*.py")):
        for number, labelled in enumerate(unseen_answers.read(path)):
            stated = _TRUE.match(labelled.source)
            source = _TRUE.sub("", labelled.source)
            true = frozenset(stated[1].split("; ")) if stated else frozenset[str]()
            yield Answer(replace(labelled, source=source), number, true)


@cache
def _lesson(slug: str) -> tuple[list[dict[str, Any]], Mapping[str, Any], pack_file.Pack]:
    """The cells of a released notebook, the right answers to its exercises, and its pack."""
    lesson = find_lesson(slug)
    folder = course_root() / "release" / lesson.name
    cells = json.loads((folder / f"{lesson.name}.ipynb").read_text(encoding="utf-8"))["cells"]
    right = {exercise.id: exercise.reference for exercise in lesson.exercises() if isinstance(exercise, Exercise)}
    return cells, right, pack_file.load(folder / f"{lesson.slug}{pack_file.SUFFIX}")


def record_of(answer: Labelled) -> ExerciseRecord:
    """The exercise that is answered, as the released pack has it."""
    return _lesson(answer.lesson)[2].exercises[answer.exercise]


def defined(answer: Labelled) -> Any:
    """The function or class that the answer defines, in a notebook whose other exercises are solved."""
    cells, right, _ = _lesson(answer.lesson)
    names: dict[str, Any] = {"__name__": "__main__"}
    os.environ.setdefault("MPLBACKEND", "Agg")
    for name, source in needed(cells, answer.exercise, {answer.exercise: answer.source}):
        if name in right and name != answer.exercise:
            names[name] = right[name]
            continue
        file = f"<{answer.lesson}.{name} {hash(source)}>"  # where the diagnosis looks for the source of a function
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec", dont_inherit=True), names)
    found = names[answer.exercise]
    found.__doc__ = found.__doc__ or right[answer.exercise].__doc__  # which the learner's cell still has
    return found


def checked(answer: Labelled) -> Checked:
    """What `check` says of the answer in its notebook."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        written, record = defined(answer), record_of(answer)
        begun = time.process_time()
        report = make_report(check_answer(record, written))
    return Checked(report, time.process_time() - begun)
