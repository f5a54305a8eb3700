"""A class gets what a fair person gives: no right answer loses a mark to an earlier slip.

The submissions are drawn from seeds that are kept. What each answer deserves is computed here, without sandbox or grader: the
answer beside the reference's other answers.
"""

import io
import random
import re
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.course import Lesson, find_lesson
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import injected
from autograder.authoring.verify import grade as grade_here
from autograder.grading.grade import grade_assignment
from autograder.grading.marking.scheme import secret
from autograder.grading.trials import course_copy, demo
from autograder.notebooks.roles import grade_id, is_answer, is_grade
from autograder.packs import make_pack
from autograder.sandbox.isolation_tiers import available_tiers

ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine"),
]
LESSONS = ("06_positions", "07b_a_decoder_in_chunks")  # the given cells of both stand alone, without a language model
STUB = "raise NotImplementedError"
KINDS = ("right", "mistaken", "blank", "broken")
SHARES = (60, 25, 10, 5)


@dataclass(frozen=True)
class Answer:
    """What a student wrote for an exercise, of which kind."""

    kind: str
    source: str


def draw(lesson: Lesson, references: dict[str, str], seed: int) -> dict[str, Answer]:
    """The answers of the student with this seed."""
    chance, found = random.Random(f"{lesson.slug} {seed}"), {}
    for exercise in lesson.in_code():
        mistakes = [text for known in exercise.misconceptions if (text := demo.as_source(exercise, known))]
        mistakes = mistakes or [re.sub(r"return [^\n]+(?![\s\S]*return )", "return None", references[exercise.id])]
        (kind,) = chance.choices(KINDS, SHARES)
        made = {"right": references[exercise.id], "blank": "", "broken": f"def {exercise.id}(:\n    return"}
        found[exercise.id] = Answer(kind, made[kind] if kind in made else chance.choice(mistakes))
    return found


def deserved(root: Path, lesson: Lesson, references: dict[str, str], notebook: Any) -> Any:
    """A function that says what an answer is worth beside the reference's other answers."""
    seed = make_pack.seed_from(secret(root), lesson.slug)
    records = {each.id: make_pack.make_record(lesson.slug, each, seed) for each in lesson.in_code()}
    known: dict[tuple[str, str], float] = {}

    def worth(name: str, answer: Answer) -> float:
        if answer.kind in ("blank", "broken"):
            return 0.0
        if (name, answer.source) not in known:
            namespace: dict[str, Any] = {}
            with redirect_stdout(io.StringIO()):
                for cell in notebook.cells:
                    if cell.cell_type == "code" and grade_id(cell) and not is_grade(cell):
                        exec(references.get(str(grade_id(cell)), cell.source) if is_answer(cell) else cell.source, namespace)
                exec(answer.source, namespace)  # our own text: the reference's, or a misconception's
            known[name, answer.source] = grade_here(records[name], namespace[name]).score
        return known[name, answer.source]

    return worth


def run(root: Path, slug: str, seeds: range) -> None:
    """Draw, hand in and grade a class; compare, and print the table."""
    lesson = find_lesson(slug)
    course_copy.make(root, [lesson])
    references = {str(grade_id(cell)): injected(cell) for cell in read_lesson(lesson).cells if is_answer(cell)}
    points = {each.id: each.points for each in lesson.exercises()}
    worth = deserved(root, lesson, references, demo.perfect(root, lesson))
    answers = {f"seed{seed:03d}": draw(lesson, references, seed) for seed in seeds}
    for student, theirs in answers.items():
        notebook = demo.perfect(root, lesson)
        for name, answer in theirs.items():
            demo.set_answer(notebook, name, answer.source or f"def {name}(*given, **named):\n    {STUB}")
        demo.submit(root, lesson, student, notebook)
    rows = {row.student: row for row in grade_assignment(root, slug, workers=2).rows}
    table: dict[str, Counter[str]] = {}
    unfair = []
    for student, theirs in answers.items():
        for name, answer in theirs.items():
            got, fair = rows[student].exercises[name].score, worth(name, answer)
            counts = table.setdefault(name, Counter())
            counts[answer.kind] += 1
            counts["full"] += answer.kind == "right" and got == points[name]
            counts["carried"] += bool(rows[student].exercises[name].carried)
            counts["zero"] += answer.kind == "right" and got == 0
            counts["as fair"] += abs(got - fair) <= 0.01
            if got < fair - 0.01 or (answer.kind == "right" and got != points[name]):
                said = rows[student].exercises[name].headline
                unfair.append(f"{student} {name} ({answer.kind}): got {got:g}, deserves {fair:g}: {said}")
            if answer.kind in ("blank", "broken") and got:
                unfair.append(f"{student} {name} ({answer.kind}): got {got:g} for nothing")
    print(f"\n{len(answers)} submissions of {slug}")
    row = "{:<20}" + 8 * "{:>10}"
    print(row.format("exercise", "points", "right", "at full", "at zero", "carried", "mistaken", "blank", "as fair"))
    for name, counts in table.items():
        cells = [counts[key] for key in ("right", "full", "zero", "carried", "mistaken")]
        cells += [counts["blank"] + counts["broken"], counts["as fair"]]
        print(row.format(name, f"{points[name]:g}", *cells))
    every = sum(table.values(), Counter())
    kinds = ", ".join(f"{every[kind]} {kind}" for kind in KINDS)
    print(f"{len(answers) * len(table)} answers ({kinds}); {every['as fair']} got exactly what is fair; lower: {len(unfair)}")
    assert not unfair, "\n".join(unfair[:20])
    assert sum(counts["carried"] for counts in table.values()), "expected a class that needs follow-through"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("slug", LESSONS)
def test_six_submissions_get_what_a_fair_person_gives(tmp_path: Path, slug: str) -> None:
    run(tmp_path / "course", slug, range(6))


@pytest.mark.slowest
@pytest.mark.timeout(1800)
def test_a_hundred_submissions_get_what_a_fair_person_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():  # the table is what one runs it for
        run(tmp_path / "course", LESSONS[0], range(100))
