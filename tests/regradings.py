"""`python -m tests.regradings 5` marks the kept submissions that often, and says which marks differ from the first time.

The submissions are those of `tests.fair_answers` (answers as students write them) and `tests.shapes` (how notebooks come back).
To see that no mark depends on what else the machine does, run it beside a few busy loops.
"""

import argparse
import os
import tempfile
from pathlib import Path

import nbformat

from autograder.authoring.course import course_root, find_lesson
from autograder.authoring.make_release import nbgrader_api
from autograder.grading.grade import grade_assignment
from autograder.grading.gradebook import ensure_assignment
from autograder.grading.marking.mark_submission import mark
from autograder.grading.marking.scheme import make_mark_scheme, read_release
from autograder.grading.trials import course_copy, demo
from autograder.sandbox.isolation_tiers import choose_tier
from tests import sample
from tests.fair_answers import ANSWERS
from tests.grading.test_fair_answers import LESSONS, submission
from tests.shapes import SHAPES, Work

Marks = dict[str, dict[str, float]]


def answers_marked(root: Path) -> Marks:
    """The points of each exercise, by submission, for the answers that students write."""
    course_copy.make(root, [find_lesson(lesson) for lesson in LESSONS])
    found: Marks = {}
    for lesson in LESSONS:
        scheme = make_mark_scheme(root, lesson)
        with scheme.setup.sandbox(choose_tier()) as sandbox:
            for answer in ANSWERS:
                if answer.lesson == lesson:
                    marked = mark(scheme, sandbox, submission(root, answer))
                    found[f"{lesson} {answer.name}"] = {name: report.score for name, report in marked.reports.items()}
    return found


def shapes_marked(root: Path) -> Marks:
    """The same for a right notebook that comes back in many shapes."""
    other = (course_root() / "release" / "00_start_here" / "00_start_here.ipynb").read_text(encoding="utf-8")
    with sample.in_use():
        lesson = find_lesson(sample.LESSON)
        course_copy.make(root, [lesson])
        ensure_assignment(nbgrader_api(root), root, sample.LESSON)
        work = [nbformat.writes(demo.perfect(root, lesson)), nbformat.writes(read_release(root, sample.LESSON)), other]
        for name, shape in SHAPES.items():
            folder = root / "submitted" / name / sample.LESSON
            for path, data in shape.make(Work(*work)).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)
            if shape.older:
                os.utime(folder / shape.older, (0, 0))
        rows = grade_assignment(root, sample.LESSON, workers=2).rows
    return {f"shape {row.student}": {name: state.score for name, state in row.exercises.items()} for row in rows}


def main() -> None:
    """Mark them, and print the differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("times", type=int)
    first: Marks = {}
    for number in range(parser.parse_args().times):
        with tempfile.TemporaryDirectory(prefix="regradings-") as folder:
            found = answers_marked(Path(folder) / "answers") | shapes_marked(Path(folder) / "shapes")
        first = first or found
        differing = [name for name in first.keys() | found.keys() if first.get(name) != found.get(name)]
        total = sum(sum(marks.values()) for marks in found.values())
        print(f"{number + 1}: {len(found)} submissions, {total:g} points, {len(differing)} differ", *differing, flush=True)


if __name__ == "__main__":
    main()
