"""Grading a class: what each submission deserves, by `attn grade` and by plain nbgrader, and nothing leaks."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from autograder import check
from autograder.authoring.course import CourseError, course_root, find_lesson, lessons
from autograder.authoring.make_release import nbgrader_api
from autograder.authoring.reference_source import BEGIN, solution_source
from autograder.cli import main
from autograder.grading.grade import grade_assignment
from autograder.grading.gradebook import ensure_assignment
from autograder.grading.marking.mark_submission import ATTEMPTS, mark
from autograder.grading.marking.scheme import make_mark_scheme, secret
from autograder.grading.trials import demo
from autograder.judging.exercise import Prediction
from autograder.notebooks.rebuild_submission import UnreadableError, read, rebuild
from autograder.packs import make_pack, pack_file
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import available_tiers
from tests import sample

ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())
needs_sandbox = pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine")
LESSON = sample.LESSON
in_sample_course = pytest.mark.usefixtures("sample_course")


def _submission(root: Path, student: str, lesson: str = LESSON) -> Path:
    path = root / "submitted" / student / lesson / f"{lesson}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / "release" / lesson / f"{lesson}.ipynb", path)
    return path


def _answer_all(path: Path, lesson: str, set_answer: Callable[[Path, str, str], None]) -> None:
    found = find_lesson(lesson)
    homes = {
        name: home
        for home, name in re.findall(r"^from (?:answers|solutions)\.(\w+) import (\w+)$", found.path.read_text(), re.MULTILINE)
    }
    for exercise in found.exercises():
        text = (
            f'{exercise.id} = "{min(exercise.choices)}"'
            if isinstance(exercise, Prediction)
            else solution_source(homes[exercise.id], exercise.id)
        )
        set_answer(path, exercise.id, text)


def _nbgrader(root: Path, *command: str) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *command], cwd=root, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _scores(root: Path, lesson: str = LESSON) -> dict[str, float]:
    """The autograded score of each student in the gradebook."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        found = {}
        for submission in gradebook.assignment_submissions(lesson):
            found[submission.student.id] = sum(
                grade.auto_score or 0.0 for notebook in submission.notebooks for grade in notebook.grades
            )
    return found


def _is_quick_by_nbgrader(lesson: str) -> bool:
    """Whether plain nbgrader grades the lesson within half a minute or so. 05c trains a model."""
    return lesson[:2] in {"00", "01", "02", "05", "07"} and lesson != "05c_a_block_of_your_own"


@in_sample_course
@needs_sandbox
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_a_mark_by_hand_asks_for_a_second_look_only_where_the_answer_has_changed(scratch_course: Path) -> None:
    from nbgrader.api import Gradebook

    def waiting() -> list[str]:
        with Gradebook(f"sqlite:///{scratch_course / 'gradebook.db'}") as book:
            (one,) = book.assignment_submissions(LESSON)[0].notebooks
            return [grade.name for grade in one.grades if grade.needs_manual_grade]

    path = _submission(scratch_course, "ann")
    ensure_assignment(nbgrader_api(scratch_course), scratch_course, LESSON)
    grade_assignment(scratch_course, LESSON)
    with Gradebook(f"sqlite:///{scratch_course / 'gradebook.db'}") as book:
        for name in [*waiting(), "gaussian_check"]:
            grade = book.find_grade(name, LESSON, LESSON, "ann")
            grade.manual_score, grade.needs_manual_grade = 1.0, False
        book.db.commit()
    grade_assignment(scratch_course, LESSON, again=True)
    assert waiting() == []
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    written = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "written_where")
    written.source = "The query says what a word looks for, the key what it offers."
    nbformat.write(notebook, path)
    grade_assignment(scratch_course, LESSON)
    assert waiting() == ["written_where"]


@needs_sandbox
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize(
    "lesson",  # where plain nbgrader takes half a minute and more for a notebook, before a release only
    [
        lesson.name if _is_quick_by_nbgrader(lesson.name) else pytest.param(lesson.name, marks=pytest.mark.slowest)
        for lesson in lessons()
    ],
)
def test_perfect_is_full_marks_and_blank_is_zero_by_our_grader_and_by_plain_nbgrader(
    lesson: str, scratch_course: Path, set_answer: Callable[[Path, str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTN_MODEL", str(scratch_course / "none"))  # no exercise needs the language model
    _answer_all(_submission(scratch_course, "perfect", lesson), lesson, set_answer)
    _submission(scratch_course, "blank", lesson)
    points = sum(exercise.points for exercise in find_lesson(lesson).exercises())
    ensure_assignment(nbgrader_api(scratch_course), scratch_course, lesson)
    other = shutil.copytree(scratch_course, scratch_course.with_name("plain"))
    with ThreadPoolExecutor() as both:  # at once, on two cores: half the time
        plain = both.submit(_nbgrader, other, "autograde", lesson, "--force")
        grade_assignment(scratch_course, lesson)
        plain.result()
    for root in (scratch_course, other):
        assert _scores(root, lesson) == {"perfect": points, "blank": 0.0}, root


@in_sample_course
@needs_sandbox
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_a_demo_class_gets_exactly_what_each_deserves_and_nbgrader_can_go_on_from_there(tmp_path: Path) -> None:
    graded, expected = demo.run(tmp_path)
    root = tmp_path / "course"
    assert {row.student: row.score for row in graded.rows} == expected
    assert len(expected) == 8
    assert _scores(root) == expected
    assert len({row.score for row in graded.rows}) >= 3
    named = next(row for row in graded.rows if row.student == "misconceptions")
    assert sum(state.misconception is not None for state in named.exercises.values()) >= 2  # whole answers alone can be pasted
    _nbgrader(root, "generate_feedback", LESSON)
    pages = {path.parts[-3]: path.read_text(encoding="utf-8") for path in (root / "feedback").glob(f"*/{LESSON}/*.html")}
    assert set(pages) == set(expected)
    assert "not yet" in pages["misconceptions"]
    _nothing_hidden_in(pages, root)
    _nbgrader(root, "export")
    assert (root / "grades.csv").read_text().count(LESSON) == 8


class _Panels(HTMLParser):
    """Collects the text inside the elements of class `attn-panel`."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.text = 0, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        opens = "attn-panel" in (dict(attrs).get("class") or "").split()
        if tag not in ("br", "hr", "img", "input", "wbr") and (self.depth or opens):
            self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= bool(self.depth)

    def handle_data(self, data: str) -> None:
        self.text += data if self.depth else ""


def _telling(numbers: Iterable[float]) -> set[str]:
    """Numbers as a panel shows them, without the round ones that two packs share by chance."""
    shown = (f"{abs(number):.6g}" for number in numbers if np.isfinite(number))
    return {text for text in shown if len(text.replace(".", "").strip("0")) >= 5}


def _numbers_in(text: str) -> set[str]:
    return _telling(float(number) for number in re.findall(r"\d+\.\d+(?:e[-+]?\d+)?", text))


def _numbers_of(found: pack_file.Pack) -> set[str]:
    cases = [case for exercise in found.in_code.values() for case in exercise.cases]
    arrays = [array for case in cases for array in case.probe.inputs.arrays]
    arrays += [array for case in cases if case.expected.value for array in case.expected.value.arrays]
    return _telling(np.concatenate([np.ravel(array).astype(float) for array in arrays]))


def _panels(page: str) -> str:
    parser = _Panels()
    parser.feed(page)
    return parser.text


@in_sample_course
def test_a_number_of_a_pack_that_a_panel_shows_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    lesson = find_lesson(LESSON)
    monkeypatch.chdir(lesson.path.parent.parent / "release" / LESSON)
    panel = check("gaussian", lambda q, K: np.exp(-((K - q) ** 2).sum(axis=-1)))._repr_html_()
    assert _numbers_in(_panels(f"<p>0.123456</p>{panel}")) & _numbers_of(pack_file.load(Path(f"{lesson.slug}{pack_file.SUFFIX}")))
    assert _panels("<p>0.123456</p>") == ""


def _nothing_hidden_in(pages: dict[str, str], root: Path) -> None:
    """No number drawn for the hidden pack is in anybody's panels, and no line of the reference on a blank's page."""
    lesson = find_lesson(LESSON)
    hidden = make_pack.make(lesson.slug, lesson.title, lesson.exercises(), seed=make_pack.seed_from(secret(root), lesson.slug))
    visible = pack_file.load(root / "release" / LESSON / f"{lesson.slug}{pack_file.SUFFIX}")
    released = (root / "release" / LESSON / f"{LESSON}.ipynb").read_text(encoding="utf-8")
    telling = _numbers_of(hidden) - _numbers_of(visible) - _numbers_in(released)
    telling -= _telling(part / whole for whole in range(2, 13) for part in range(1, 5 * whole))  # a third tells nothing
    assert len(telling) > 50
    for student, page in pages.items():
        panels = _panels(page)
        assert all(exercise.title in panels for exercise in lesson.exercises()), student
        assert not telling & _numbers_in(panels), student
    blank = html.unescape(re.sub(r"<[^>]+>", "", pages["blank"]))
    for exercise in lesson.in_code():
        body = solution_source(lesson.slug, exercise.id).split(BEGIN)[1]
        assert not [line for line in body.splitlines() if len(line.strip()) > 24 and line.strip() in blank]


@in_sample_course
@needs_sandbox
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_right_answers_that_warn_print_or_lean_on_extra_cells_lose_nothing(
    scratch_course: Path, set_answer: Callable[[Path, str, str], None]
) -> None:
    path = _submission(scratch_course, "chatty")
    _answer_all(path, LESSON, set_answer)
    notebook = nbformat.read(path, as_version=4)
    helper = nbformat.v4.new_code_cell("def my_helper(s):\n    return s.sum(axis=-1, keepdims=True)")
    position = next(i for i, c in enumerate(notebook.cells) if c.id == "normalize")
    notebook.cells.insert(position, helper)
    nbformat.write(notebook, path)
    set_answer(
        path,
        "normalize",
        "import sys, warnings\n\ndef normalize(s):\n    print('noise', file=sys.stderr)\n    warnings.warn('careful')\n"
        "    total = my_helper(s)\n    return np.divide(s, total, out=np.zeros_like(s, dtype=float), where=total != 0)",
    )
    graded = grade_assignment(scratch_course, LESSON)
    assert graded.rows[0].score == graded.rows[0].points


@needs_sandbox
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_a_forbidden_name_is_flagged_for_a_person_and_costs_nothing_by_itself(
    scratch_course: Path, set_answer: Callable[[Path, str, str], None]
) -> None:
    lesson = "03_scaled_dot_product"
    path = _submission(scratch_course, "quick", lesson)
    _answer_all(path, lesson, set_answer)
    record = next(e for e in find_lesson(lesson).in_code() if e.forbid)
    quick = f"quick = getattr(torch.nn.functional, {record.forbid[0].rpartition('.')[2]!r})"
    again = f"ours = {record.id}\ndef {record.id}(Q, K, V):\n    assert quick\n    return ours(Q, K, V)"
    set_answer(path, record.id, solution_source("scaled_dot_product", record.id) + f"\n\n{quick}\n{again}")
    (row,) = grade_assignment(scratch_course, lesson).rows
    assert row.score == row.points
    assert any(f"{record.id} names" in flag for flag in row.flags)


@in_sample_course
@needs_sandbox
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_visible_answers_learned_by_heart_earn_nothing(
    scratch_course: Path, set_answer: Callable[[Path, str, str], None]
) -> None:
    path = _submission(scratch_course, "parrot")
    lesson = find_lesson(LESSON)
    record = pack_file.load(scratch_course / "release" / LESSON / f"{lesson.slug}{pack_file.SUFFIX}").exercises["gaussian"]
    seen = [(case.probe.inputs.arrays[0], case.expected.value.arrays[0]) for case in record.cases if case.expected.value]
    known = [(np.round(q, 6).tolist(), output.tolist()) for q, output in seen]
    text = f"KNOWN = {known!r}\n\ndef gaussian(q, K):\n"
    text += "    return np.array(next(output for query, output in KNOWN if query == np.round(q, 6).tolist()))"
    set_answer(path, "gaussian", text)
    graded = grade_assignment(scratch_course, LESSON)
    assert graded.rows[0].exercises["gaussian"].score == 0


@in_sample_course
@needs_sandbox
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_an_unreadable_submission_costs_itself_alone_and_says_why(
    scratch_course: Path, set_answer: Callable[[Path, str, str], None]
) -> None:
    _answer_all(_submission(scratch_course, "fine"), LESSON, set_answer)
    _submission(scratch_course, "broken").write_bytes(b"\x00\xff not json")
    target = _submission(scratch_course, "linked")
    target.unlink()
    target.symlink_to("/etc/hostname")
    other = scratch_course / "submitted" / "wrong_name" / LESSON
    other.mkdir(parents=True)
    (other / "homework.ipynb").write_text("{}")
    graded = grade_assignment(scratch_course, LESSON)
    rows = {row.student: row for row in graded.rows}
    assert rows["fine"].score == rows["fine"].points
    assert "not a notebook" in rows["broken"].flags[0]
    assert "not a link" in rows["linked"].flags[0]
    assert "no list of cells" in rows["wrong_name"].notes[0]
    assert "read from homework.ipynb" in rows["wrong_name"].notes[1]
    assert {rows[name].score for name in ("broken", "linked", "wrong_name")} == {0.0}


def _cell(source: str, grade_id: str | None = None, kind: str = "code", **meta: Any) -> dict[str, Any]:
    grader = {"nbgrader": {"grade_id": grade_id, **meta}} if grade_id else {}
    return {"cell_type": kind, "source": source, "metadata": grader}


@in_sample_course
def test_a_rebuilt_notebook_has_the_releases_cells_whatever_was_submitted(tmp_path: Path) -> None:
    released = nbformat.read(find_lesson(LESSON).path.parent.parent / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)
    cells = [
        _cell("raise SystemExit", "setup"),
        _cell("check = lambda name: 99", "gaussian_check", grade=True, points=999),
        _cell("def gaussian(q, K): return 1", "gaussian", grade=True, solution=False),
        _cell("def gaussian(q, K): return 2", "gaussian"),
        _cell("x = 1", "made_up"),
        _cell("my_helper = 3"),
    ]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    rebuilt = rebuild(released, read(path))
    by_id = {cell.id: cell for cell in rebuilt.notebook.cells}
    original = {cell.id: cell for cell in released.cells}
    assert by_id["setup"].source == original["setup"].source
    assert by_id["gaussian_check"] == original["gaussian_check"]
    assert by_id["gaussian"].source.endswith("return 1")
    assert by_id["gaussian"].metadata == original["gaussian"].metadata
    flags = [str(flag) for flag in rebuilt.flags]
    assert any("more than once" in flag for flag in flags)
    assert any("unknown grade_id 'made_up'" in flag for flag in flags)
    assert any("missing answer cells" in flag for flag in flags)
    assert [cell.source for cell in rebuilt.notebook.cells if cell.id.startswith("extra")][-1] == "my_helper = 3"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"cells": 3}', b"\xff\xfe", b"[" * 100_000, b'{"cells": [' + b"{}," * 3000 + b"{}]}"]
)
def test_what_is_no_notebook_is_refused_in_words(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match=r"\w+ \w+"):
        read(path)


def test_odd_cells_are_read_as_data_or_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    odd = [None, 7, {"cell_type": 3, "source": {"a": 1}}, {"cell_type": "code", "source": ["a", 1, "b"], "metadata": [1]}]
    path.write_text(json.dumps({"cells": odd}))
    assert [cell.source for cell in read(path)] == ["", "ab"]


@in_sample_course
def test_missing_submissions_and_unknown_students_say_what_to_do(scratch_course: Path) -> None:
    with pytest.raises(CourseError, match="Collect first"):
        grade_assignment(scratch_course, LESSON)
    _submission(scratch_course, "ada")
    with pytest.raises(CourseError, match="Did you mean 'ada'"):
        grade_assignment(scratch_course, LESSON, students=["adah"])


@in_sample_course
def test_grading_refuses_where_nothing_isolates(
    scratch_course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from autograder.sandbox import isolation_tiers

    _submission(scratch_course, "ada")
    monkeypatch.setattr(isolation_tiers, "try_tier", lambda name: isolation_tiers.Tier(name, False, "not installed"))
    with pytest.raises(isolation_tiers.SandboxUnavailable, match="--unsafe"):
        grade_assignment(scratch_course, LESSON)
    assert main(["grade", "nothing"]) == 2
    assert "expected" in capsys.readouterr().err


@pytest.mark.slow
def test_plain_nbgrader_validate_passes_what_is_right_and_fails_what_is_blank(
    scratch_course: Path, set_answer: Callable[[Path, str, str], None]
) -> None:
    lesson = "00_start_here"
    blank, right = _submission(scratch_course, "blank", lesson), _submission(scratch_course, "right", lesson)
    _answer_all(right, lesson, set_answer)
    set_answer(right, "written_average", "Good for repeated measurements, bad where few items matter.")
    assert "Success" in _nbgrader(scratch_course, "validate", str(right))
    assert "failed" in _nbgrader(scratch_course, "validate", str(blank))


@pytest.mark.filterwarnings("default")
def test_plain_generate_assignment_makes_the_release_that_build_makes(scratch_course: Path) -> None:
    lesson = "00_start_here"
    made = scratch_course / "release" / lesson / f"{lesson}.ipynb"
    before = made.read_text(encoding="utf-8")
    _nbgrader(scratch_course, "generate_assignment", lesson, "--force", "--create")
    assert nbformat.reads(made.read_text(encoding="utf-8"), as_version=4) == nbformat.reads(before, as_version=4)


@in_sample_course
def test_a_sandbox_that_ends_each_time_under_a_submission_is_said_to_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = make_mark_scheme(course_root(), LESSON)

    def lose(marking: Any) -> None:
        marking.fixed.verdicts = {}
        marking.sandbox.lost += bool(ends.pop(0))

    monkeypatch.setattr("autograder.grading.marking.mark_submission._Marking.ask", lose)
    said = "its sandbox ended each time it was marked: the submission may end it, or something on this machine"
    for ends, flags in (([True, True, False], []), ([True] * ATTEMPTS, [said])):
        assert mark(scheme, Sandbox("none"), json.dumps(scheme.released).encode()).flags == flags
        assert ends == []
