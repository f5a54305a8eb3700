"""A right submission keeps its marks in whatever shape it comes back: sixty and more shapes, graded in one class."""

import html
import os
import time
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import course_root, find_lesson
from autograder.authoring.make_release import nbgrader_api
from autograder.grading import ledger
from autograder.grading.grade import grade_assignment
from autograder.grading.gradebook import ensure_assignment
from autograder.grading.marking.scheme import read_release
from autograder.grading.reports.class_report import view
from autograder.grading.trials import course_copy, demo
from autograder.notebooks.rebuild_submission import parse, rebuild
from autograder.sandbox.isolation_tiers import available_tiers
from tests import sample
from tests.shapes import EVERYTHING, LESSON, SHAPES, WRITTEN, Work

REAL = sample.HOME.parent.parent / "course"
ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())
pytestmark = [
    pytest.mark.usefixtures("sample_course_of_module"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine"),
]
Graded = dict[str, tuple[ledger.StudentRow, str, set[str]]]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    """Each shape, handed in by a student of its name and graded in one run: the row, the student's page, what waits."""
    from nbgrader.api import Gradebook

    root, lesson = tmp_path_factory.mktemp("shapes") / "course", find_lesson(LESSON)
    course_copy.make(root, [lesson])
    ensure_assignment(nbgrader_api(root), root, LESSON)
    perfect, released = nbformat.writes(demo.perfect(root, lesson)), nbformat.writes(read_release(root, LESSON))
    other = (REAL / "release" / "00_start_here" / "00_start_here.ipynb").read_text(encoding="utf-8")
    for name, shape in SHAPES.items():
        folder = root / "submitted" / name / LESSON
        folder.mkdir(parents=True)
        for path, data in shape.make(Work(perfect, released, other)).items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(data)
        if shape.older:
            os.utime(folder / shape.older, (time.time() - 9999,) * 2)
    rows = {row.student: row for row in grade_assignment(root, LESSON, workers=2, feedback=True).rows}
    pages = {name: (root / "feedback" / name / LESSON / f"{LESSON}.html").read_text(encoding="utf-8") for name in SHAPES}
    waits: dict[str, set[str]] = {}
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "attention") as book:
        for one in book.assignment_submissions(LESSON):
            waits[one.student_id] = {grade.name for note in one.notebooks for grade in note.grades if grade.needs_manual_grade}
    return {name: (rows[name], pages[name], waits[name]) for name in SHAPES}


def points() -> dict[str, float]:
    return {exercise.id: exercise.points for exercise in find_lesson(LESSON).exercises()}


def test_there_are_sixty_shapes_and_more() -> None:
    assert len(SHAPES) >= 60


@pytest.mark.parametrize("name", list(SHAPES))
def test_a_shape_gets_what_a_fair_person_gives(name: str, graded: Graded) -> None:
    shape, (row, page, waits) = SHAPES[name], graded[name]
    lost = list(points()) if shape.lost == EVERYTHING else list(shape.lost)
    got = {each: state.score for each, state in row.exercises.items()}
    assert got == {each: 0.0 if each in lost else most for each, most in points().items()}, (row.flags, row.notes)
    assert row.problem is None or shape.lost == EVERYTHING
    assert shape.told in html.unescape(page), row.notes
    assert waits == set(shape.waits)


def test_nothing_is_said_of_a_submission_that_came_back_as_it_should(graded: Graded) -> None:
    row, page, _ = graded["as_released"]
    assert row.flags == row.notes == []
    assert "How your submission was read" not in page


def test_what_is_said_to_the_student_is_said_to_the_grader(graded: Graded) -> None:
    for row, _, _ in graded.values():
        assert set(row.notes) <= {*row.flags, f"unreadable: {row.problem}"}


def test_an_answer_that_asks_for_a_package_that_is_not_there_is_to_be_looked_at(graded: Graded) -> None:
    for name, module in (("pandas_wanted_within", "pandas"), ("pandas_wanted_in_the_function", "pandas.core")):
        row, page, _ = graded[name]
        said = f"'gaussian' imports '{module}', which the grader doesn't have: the answer may be right, so a person should look"
        assert said in html.unescape(page)
        (needy,) = view(ledger.ClassReport(LESSON, "bubblewrap", ["gaussian"], [row])).needy
        assert f"{said} at it" in needy.reasons


def test_a_pasted_picture_is_drawn_again(graded: Graded) -> None:
    page = graded["photo_pasted"][1]
    assert 'alt="pasted picture 1"' in page
    assert "onload" not in graded["photo_that_is_none"][1].replace("&lt;", "")


def test_the_words_of_a_neighbouring_cell_stand_in_the_answer(graded: Graded) -> None:
    for name in ("words_in_a_new_cell_below", "words_in_the_lessons_own_text", "words_in_a_code_cell_below"):
        page: Any = graded[name][1]
        section = page[page.index('<section id="written_where">') :]
        assert "lies between the two" in section[: section.index("</section>")], name


def test_the_text_of_an_earlier_release_is_nobodys_answer() -> None:
    released = nbformat.read(course_root() / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)
    place = next(number for number, cell in enumerate(released.cells) if cell.id == WRITTEN[0])
    older = nbformat.from_dict(released)
    older.cells[place - 1].source = "The same idea in other words, as it stood here last year."
    older.cells.insert(place + 1, nbformat.v4.new_markdown_cell("A paragraph that is gone now.", id="soft_lookup-99"))
    rebuilt = rebuild(released, parse(nbformat.writes(older).encode()))
    assert rebuilt.flags == []
    assert next(cell.source for cell in rebuilt.notebook.cells if cell.id == WRITTEN[0]) == released.cells[place].source
