"""What a student gets back, and which of a lesson's own cells grading runs."""

import html
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import CourseError, course_root, find_lesson
from autograder.cli import main
from autograder.grading.collect import Hit
from autograder.grading.grade import grade_assignment, write_feedback
from autograder.grading.gradebook import Mark
from autograder.grading.grades import Grade
from autograder.grading.ledger import ExerciseRow
from autograder.grading.marking.needed_cells import needed, to_run
from autograder.grading.marking.scheme import make_mark_scheme, read_release
from autograder.grading.reports.feedback import Pages
from autograder.grading.reports.return_pages import name_for, pack
from autograder.grading.trials import demo
from autograder.notebooks.archives import File
from autograder.notebooks.html_page import POLICY, markdown, prose
from autograder.notebooks.roles import exercise_of, grade_id, is_grade
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import available_tiers, choose_tier
from autograder.sandbox.run_submission import Question

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
LESSON = "00_start_here"
NONE = Grade("ann", LESSON)
ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())
needs_sandbox = pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine")


@pytest.mark.parametrize(
    ("theirs", "run"),
    [
        ("def f(x):\n    return np.sum(x)", False),
        ("def f(Q):\n    K = Q\n    return K @ Q", False),
        ("def f(x):\n    return x @ Q", True),
        ("def f(x):\n    return [Q for _ in x]", True),
        ("y = Q + 1", True),
        ("Q = 1\ny = Q + 1", False),
        ("def f(x):\n    return eval('Q')", True),
        ("%timeit 3", False),
        ("%%time\ny = Q", True),
        ("%run other.py", True),  # IPython may run what Python cannot
        ("def f(:", False),
        ("files = !ls", True),
        ("def f(x):\n    import __main__\n    return __main__.Q", True),
        ("def f(x):\n    return f.__globals__['Q']", True),
        ("raise NotImplementedError()", False),
    ],
)
def test_demonstrations_run_where_an_answer_leans_on_one(theirs: str, run: bool) -> None:
    found = needed(["import numpy as np"], [theirs], {"a": "Q = np.ones(3)", "b": "plt.show()", "c": "Q[0] = 2", "d": "Z = 1"})
    assert bool(found) is run
    assert {"a", "c"} <= found or not run
    assert len(found) in ((0,) if not run else (2, 4))


def test_a_notebook_whose_lines_an_editor_ended_otherwise_runs_no_demonstration_more() -> None:
    released = read_release(course_root(), LESSON)
    edited = nbformat.from_dict(released)
    for cell in edited.cells:
        cell.source = "".join(f"{line}\r\n" for line in cell.source.split("\n"))
    edited.cells.append(nbformat.v4.new_code_cell("", id="extra-0"))
    assert [cell.id for cell in to_run(released, edited)] == [*(cell.id for cell in to_run(released, released)), "extra-0"]


def test_a_page_shows_student_content_as_text_and_forbids_the_rest() -> None:
    released = read_release(course_root(), LESSON)
    notebook = nbformat.from_dict(released)
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    cell = nbformat.v4.new_code_cell(f"x = '{evil}'", id="extra-0")
    cell.outputs = [
        nbformat.v4.new_output("stream", text=evil),
        nbformat.v4.new_output("error", ename="E", evalue=evil, traceback=[evil]),
        nbformat.v4.new_output("display_data", data={"text/plain": evil, "text/html": evil}),
    ]
    notebook.cells += [cell, nbformat.v4.new_markdown_cell(f"{evil} [a](javascript:alert(3))", id="extra-1")]
    page = Pages(released).page(f"eve{evil}", notebook, {}, NONE)
    assert "<script" not in page
    assert "<img src=x" not in page
    assert 'href="javascript' not in page
    assert POLICY.split(";")[0] in page.replace("&#x27;", "'")
    assert page.count("alert(1)") == 7  # title, head, code, three outputs, text


@needs_sandbox
def test_feedback_is_written_again_with_marks_and_comments_by_hand(scratch_course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbgrader.api import Gradebook

    lesson = find_lesson(LESSON)
    notebook = demo.perfect(scratch_course, lesson)
    demo.set_answer(notebook, "written_average", "Averages are for repeated measurements.")
    demo.submit(scratch_course, lesson, "ada", notebook)
    with pytest.raises(CourseError, match="attn grade"):
        write_feedback(scratch_course, LESSON)
    grade_assignment(scratch_course, LESSON, feedback=True)
    path = scratch_course / "feedback" / "ada" / LESSON / f"{LESSON}.html"
    before = path.read_text(encoding="utf-8")
    assert "not graded yet" in before
    assert "Total so far" in before
    with Gradebook(f"sqlite:///{scratch_course / 'gradebook.db'}", "attention") as book:
        submitted = book.find_submission(LESSON, "ada").notebooks[0]
        next(g for g in submitted.grades if g.name == "written_average").manual_score = 0.5
        next(c for c in submitted.comments if c.name == "written_average").manual_comment = "Say <when> not."
        book.db.commit()
    monkeypatch.setenv("ATTN_COURSE", str(scratch_course))
    course_root.cache_clear()
    try:
        assert main(["feedback", LESSON]) == 0
    finally:
        monkeypatch.undo()
        course_root.cache_clear()
    after = path.read_text(encoding="utf-8")
    assert "Say &lt;when&gt; not." in after
    assert "not graded yet" not in after
    total = sum(e.points for e in lesson.exercises()) + 0.5
    assert f"<th>Total</th><th>{total:g}</th>" in after


@needs_sandbox
def test_folders_that_are_no_names_cost_nobody_else_anything(scratch_course: Path) -> None:
    lesson = find_lesson(LESSON)
    demo.submit(scratch_course, lesson, "ada", demo.perfect(scratch_course, lesson))
    for name in (b"\xff\xfe", b"line\nbreak", b"x" * 200, "漢".encode() * 83):
        target = scratch_course / "submitted" / name.decode("utf-8", "surrogateescape")
        shutil.copytree(scratch_course / "submitted" / "ada", target)
    report = grade_assignment(scratch_course, LESSON)
    rows = {row.student: row for row in report.rows}
    assert rows.pop("ada").problem is None
    assert len(rows) == 4
    assert all("Rename it" in str(row.problem) and row.student.isprintable() for row in rows.values())


@needs_sandbox
@needs_sandbox
def test_a_page_that_cannot_be_made_costs_its_student_no_mark_and_nobody_else_anything(
    scratch_course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson, make = find_lesson(LESSON), Pages.page
    for student in ("ada", "eve"):
        demo.submit(scratch_course, lesson, student, demo.perfect(scratch_course, lesson))

    def page(pages: Pages, student: str, *given: Any, **more: Any) -> str:
        if student == "ada":
            raise RecursionError("too deep")
        return make(pages, student, *given, **more)

    monkeypatch.setattr(Pages, "page", page)
    ada, eve = grade_assignment(scratch_course, LESSON, feedback=True).rows
    assert ada.score == eve.score == ada.points
    assert "without a feedback page: RecursionError: too deep" in str(ada.problem)
    assert eve.problem is None
    assert [path.parts[-3] for path in (scratch_course / "feedback").glob("*/*/*.html")] == ["eve"]


def test_answers_asked_together_are_blamed_only_for_what_they_do_alone() -> None:
    scheme = make_mark_scheme(course_root(), LESSON)
    probe: Any = next(iter(scheme.visible.in_code.values())).cases[0].probe
    from autograder.sandbox.run_submission import Cell

    source = """
import os, threading
def exits(**given): os._exit(0)
def plants(**given):
    threading.Timer(0.05, lambda: os._exit(1)).start()
    return 1
def slow(**given):
    import time
    time.sleep(0.3)
    return 2
def fine(**given): return 3
def large(**given):
    import numpy as np
    return np.zeros(1 << 20)
"""
    with Sandbox(choose_tier(), preload=()) as sandbox, sandbox.submission([Cell("a", source)]) as submission:
        names = ["fine", "exits", "plants", "slow", "fine2"]
        seen = submission.observe_all([Question(name, [probe, probe], 5.0) for name in names])
        few, most = (submission.observe_all([Question("large", [probe], 5.0, *room)])["large"][0] for room in ((), (9 << 20,)))
    assert (few.value, few.failure and few.failure.type) == (None, "OutputTooLarge")  # no grader need keep 8 MiB of each probe
    assert most.nbytes == 8 << 20
    kinds = {name: [one.failure.kind if one.failure else "value" for one in found] for name, found in seen.items()}
    assert kinds == {
        "fine": ["value"] * 2,
        "exits": ["crashed"] * 2,
        "plants": ["value"] * 2,
        "slow": ["value"] * 2,  # what `plants` left behind ended the process under it; alone it is right
        "fine2": ["missing"] * 2,
    }


def test_of_a_learners_markdown_no_language_is_coloured_but_python_and_only_so_much_is_rendered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pygments.lexers.get_lexer_by_name", _only_python)
    released = read_release(course_root(), LESSON)
    fences = "```abap\n((\n```\n\n> ~~~~ &#97;bap\n> ((\n\n```python\nx = 1\n```\n\n```\nplain\n```\n"
    pages = [_page_with(released, text) for text in (fences, "**bold** " * 500, "**bold** " * 1000)]
    assert '<span class="mi">1</span>' in pages[0]
    assert "<pre><code>plain" in pages[0]
    assert [page.count("<strong>bold</strong>") for page in pages[1:]] == [500, 0]
    assert pages[2].count("**bold**") == 1000


def test_a_learners_markdown_keeps_its_formulas_and_its_tags_as_text_and_links_to_nothing_that_runs() -> None:
    made = markdown("$a_1 + b_1$ and <b>x</b> [go](javascript:alert(1)) ~~old~~\n\n$$\na_1 < b_1\n$$\n", trusted=False)
    assert "$a_1 + b_1$" in made
    assert "a_1 &lt; b_1" in made
    assert "<em>" not in made
    assert "&lt;b&gt;x&lt;/b&gt;" in made
    assert "javascript" not in made
    assert "<del>old</del>" in made
    ours = markdown("$a_1$ <b>x</b>\n\n| a |\n|---|\n| 1 |\n", trusted=True)
    assert "<math" in ours
    assert "<b>x</b>" in ours
    assert "<td>1</td>" in ours


def test_the_reader_of_texts_starts_without_numpy_nbconvert_and_nbgrader() -> None:
    code = "import sys; from autograder.grading import read_in_child; [make('x = 1') for make in read_in_child.MAKERS.values()]"
    code += "; print(*({'numpy', 'nbconvert', 'nbformat', 'nbgrader', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def _only_python(name: str, **options: Any) -> Any:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    if name.startswith("."):
        raise ClassNotFound(name)
    assert name == "python", name
    return get_lexer_by_name(name, **options)


def _page_with(released: Any, text: str) -> str:
    notebook = nbformat.from_dict(released)
    cell = nbformat.v4.new_markdown_cell(prose(text), id="extra-0")
    return Pages(released).page("ann", nbformat.from_dict({**notebook, "cells": [*notebook.cells, cell]}), {}, NONE)


def test_a_page_begins_with_five_lines_and_folds_the_lessons_own_text() -> None:
    released = read_release(course_root(), LESSON)
    known = {str(grade_id(cell)): float(cell.metadata.nbgrader.points) for cell in released.cells if is_grade(cell)}
    marks = {name: Mark(automatic=points) for name, points in known.items()}
    grade = Grade("ann", LESSON, 1.5, 0.0, sum(known.values()), penalty=0.5)
    states = {
        "predict_shape": ExerciseRow(0.0, 0.5, "fail", "You counted `rows` <b>twice</b>.", "rows"),
        "average_pool": ExerciseRow(1.0, 1.0, "part", "", None, ("predict_shape",)),
    }
    marks |= {"predict_shape_check": Mark(automatic=0.0), "written_average": Mark()}
    page = Pages(released).page("ann", released, marks, grade, (), states)
    brief = page[page.index('<dl class="brief">') : page.index("</dl>")]
    said = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", brief)))
    assert "1 of 2.5 points so far. One written answer is not graded yet. 0.5 points were taken off" in said
    assert "What went wrongPrediction: A weighted average: You counted rows <b>twice</b>." in said
    assert "00.1: Average the values was graded with a correct Prediction: A weighted average in place of yours" in said
    assert "Start with Prediction: A weighted average, because 00.1: Average the values uses it." in said
    assert "ask your instructor" in said
    assert "<b>twice" not in page
    shown = re.sub(r"<details class=\"lesson\">.*?</details>", "", page, flags=re.DOTALL)
    assert "About 25 minutes." in page
    assert "About 25 minutes." not in shown
    assert "average_pool_check" in shown
    done = Pages(released).page("ann", released, {name: Mark(automatic=points) for name, points in known.items()}, grade)
    assert "Everything is right." in done


@pytest.mark.parametrize(
    ("comment", "advice"),
    [
        ("You forgot the units.", "The comment below your answer says what is missing."),
        ("", "Read the question again, and compare your answer with what it asks."),
    ],
)
def test_a_page_does_not_send_to_the_panel_of_a_question_that_a_person_marks(comment: str, advice: str) -> None:
    released = read_release(course_root(), LESSON)
    known = {str(grade_id(cell)): float(cell.metadata.nbgrader.points) for cell in released.cells if is_grade(cell)}
    marks = {name: Mark(automatic=points) for name, points in known.items()} | {"written_average": Mark(None, 0.5, comment)}
    page = Pages(released).page("ann", released, marks, NONE)
    said = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page[: page.index("</dl>")])))
    assert f"Start with 00.2: In words. {advice}" in said
    assert "panel" not in said[said.index("Start with") :]


def test_a_page_begins_a_letter_about_marks_below_their_points_where_the_course_says_to_whom() -> None:
    from urllib.parse import parse_qs, urlsplit

    released = read_release(course_root(), LESSON)
    marks = {"written_average": Mark(by_hand=0.5), "average_pool_check": Mark(automatic=0.0)}
    known = {str(grade_id(cell)) for cell in released.cells if is_grade(cell)}
    marks = {name: marks.get(name, Mark(automatic=9.0)) for name in known}
    evil = 'ann"><script>&body=x'
    page = Pages(released, "marks@example.org").page(evil, released, marks, NONE)
    (link,) = re.findall(r'href="(mailto:[^"]*)"', page)
    fields = parse_qs(urlsplit(html.unescape(link)).query)
    assert set(fields) == {"subject", "body"}
    assert f"Student: {evil}" in fields["body"][0]
    assert "00.2: In words (0.5 of 1)" in fields["body"][0]
    assert "<script>" not in page
    assert "mailto:" not in Pages(released).page("ann", released, marks, NONE)
    assert "mailto:" not in Pages(released, "a@b.org").page("ann", released, dict.fromkeys(known, Mark(automatic=9.0)), NONE)


def _said(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page[: page.index("</table>")])))


def _nothing_found(notes: tuple[str, ...], **more: Any) -> str:
    """A page of somebody none of whose answers was found."""
    released = read_release(course_root(), LESSON)
    graded = {str(grade_id(cell)): cell for cell in released.cells if is_grade(cell)}
    states = {name: ExerciseRow(0.0, 1.0, "todo", "", None) for cell in graded.values() if (name := exercise_of(cell))}
    return _said(Pages(released).page("ann", released, dict.fromkeys(graded, Mark(automatic=0.0)), NONE, notes, states, **more))


def test_a_page_on_which_no_answer_was_found_begins_with_the_reason() -> None:
    said = _nothing_found(("unreadable: it is a PDF",))
    assert "No answer was found in what you handed in. Unreadable: it is a PDF. " in said
    assert "How your submission was read" not in said
    assert "Check which file you handed in." in said
    assert "In words." not in said, "a question that nobody answered did not go wrong"
    crowded = _nothing_found(("one", "two?", "three"))
    assert "One. Two? What was carried forward" in crowded, "the rest follows the table"
    blank = _nothing_found(())
    assert "exercises were not started." in blank
    assert "which has no answer yet." in blank


def test_a_page_names_the_student_and_says_that_the_platforms_lateness_costs_nothing() -> None:
    said = _nothing_found((), called="Ann Lee", marked_late=True)
    assert "Ann Lee (ann)" in said
    assert "marked the work as late, and nothing was taken off" in said
    assert "marked late by the platform 0" in said


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Ann Smith_4711_assignsubmission_file/01.ipynb", f"Ann Smith_4711_assignsubmission_file_{LESSON}.html"),
        ("Ann Smith_4711_assignsubmission_onlinetext_/onlinetext.html", f"Ann Smith_4711_assignsubmission_file_{LESSON}.html"),
        ("smithann_LATE_4711_815_=evil.ipynb", f"smithann_4711_815_{LESSON}.html"),
        ("smithann_4711_text.html", None),
        ("ann/work.ipynb", f"ann/{LESSON}.html"),
    ],
)
def test_a_page_goes_back_under_a_name_by_which_its_platform_finds_the_student(path: str, name: str | None) -> None:
    assert name_for(Hit(File(path, b"", datetime(2030, 1, 1)), "ann", (datetime(2030, 1, 1), 0, 0), False), LESSON) == name


def test_the_pages_of_a_class_are_packed_for_the_platform(scratch_course: Path) -> None:
    download = scratch_course / "moodle.zip"
    with zipfile.ZipFile(download, "w") as archive:
        archive.writestr(f"Ann Lee_5_assignsubmission_file/{LESSON}.ipynb", "{}")
    for student in ("ann-lee-5", "ben"):
        page = scratch_course / "feedback" / student / LESSON / f"{LESSON}.html"
        page.parent.mkdir(parents=True)
        page.write_text(student)
    packed = pack(scratch_course, LESSON, download, ["ann-lee-5", "ben"])
    assert (packed.pages, packed.left_out) == (1, ("ben",))
    with zipfile.ZipFile(packed.path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            f"Ann Lee_5_assignsubmission_file_{LESSON}.html": b"ann-lee-5"
        }
    with pytest.raises(CourseError, match="Is it the download of"):
        pack(scratch_course, LESSON, download, ["ben"])
    with pytest.raises(CourseError, match="expected the download that you collected"):
        pack(scratch_course, LESSON, scratch_course / "no.zip", ["ben"])
