"""A class whose written answers wait for a person: what tests of the marking page share."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring.course import find_lesson
from autograder.authoring.make_release import nbgrader_api
from autograder.grading.gradebook import Gradebook
from autograder.grading.trials import course_copy
from autograder.grading.write_results import place
from autograder.notebooks.roles import grade_id, grader, is_answer, is_grade
from tests import sample

LESSON = sample.LESSON
QUESTION = "written_where"
SAID = (
    "Around such a place no weight changes.", "There the output is constant.", "The weights are equal.",
    "The derivative is zero almost everywhere, so nothing can be learned.", "The derivative is zero.",
    "The derivative is infinite at a key.", "Gradient descent gets no signal.", "It jumps.",
)  # fmt: skip


def api(root: Path) -> Any:
    """nbgrader's interface to the course at `root`."""
    return nbgrader_api(root)


def make(root: Path, answers: Mapping[str, str | Mapping[str, str]]) -> Path:
    """A course at `root` in which each student's `answers` (to `QUESTION`, or by question) wait for a person."""
    from nbgrader.api import Gradebook as Tables
    from sqlalchemy import text

    course_copy.make(root, [find_lesson(LESSON)])
    released = nbformat.read(root / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)
    interface = api(root)
    with Tables(interface.coursedir.db_url, interface.course_id) as book:
        book.db.execute(text("PRAGMA synchronous = OFF"))  # nbgrader commits each cell by itself
        book.add_assignment(LESSON)
        book.add_notebook(LESSON, LESSON)
        for cell in released.cells:
            if is_grade(cell):
                points, kind = grader(cell)["points"], cell.cell_type
                book.add_grade_cell(grade_id(cell), LESSON, LESSON, max_score=points, cell_type=kind)
            if is_answer(cell):
                book.add_solution_cell(grade_id(cell), LESSON, LESSON)
    written = [cell for cell in released.cells if is_answer(cell) and is_grade(cell)]
    stubs = {str(grade_id(cell)): cell.source for cell in written}
    with Gradebook(interface, LESSON) as book:
        for student, said in answers.items():
            by_question = {QUESTION: said} if isinstance(said, str) else said
            for cell in written:
                cell.source = by_question.get(str(grade_id(cell)), stubs[str(grade_id(cell))])
            book.put(student, released, None)
            path = place(interface.coursedir, "autograded", student, LESSON)
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"cells": written, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
        book.commit()
    return root


def drawn(count: int) -> dict[str, str]:
    """`count` answers, drawn from a seed: some say the same, some are like others, all are of sentences of `SAID`."""
    chance = random.Random(7)
    texts = [" ".join(chance.sample(SAID, chance.randint(1, 4))) + f" ({number})" for number in range(count)]
    return {f"s{number:03d}": texts[number if number % 5 else 0] for number in range(count)}


def marks(root: Path, question: str = QUESTION) -> dict[str, tuple[float | None, str]]:
    """Each student's mark by hand and comment, as nbgrader's gradebook has them."""
    from nbgrader.api import Gradebook as Tables

    found = {}
    with Tables(f"sqlite:///{root / 'gradebook.db'}", "attention") as book:
        for one in book.assignment_submissions(LESSON):
            grade = book.find_grade(question, LESSON, LESSON, one.student.id)
            comment = book.find_comment(question, LESSON, LESSON, one.student.id)
            assert grade.needs_manual_grade == (grade.manual_score is None and grade.auto_score is None)
            found[one.student.id] = grade.manual_score, comment.manual_comment or ""
    return found


@contextmanager
def serving(root: Path, *markers: str, options: tuple[str, ...] = ()) -> Iterator[dict[str, str]]:
    """`attn mark` for `markers`, in a process of its own: {marker: address}."""
    words = [sys.executable, "-m", "autograder.cli", "mark", LESSON, "--no-browser", *options]
    words += [word for marker in markers for word in ("--as", marker)]
    with subprocess.Popen(words, env={**os.environ, "ATTN_COURSE": str(root)}, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = {}
            for line in server.stdout:
                if match := re.fullmatch(r"(.+?): (http://127\.0\.0\.1:\d+/enter\?token=\S+)", line.strip()):
                    found[match[1]] = match[2]
                if len(found) == len(markers):
                    break
            assert len(found) == len(markers), "the server ended"
            yield found
        finally:
            server.terminate()
            server.wait(20)
