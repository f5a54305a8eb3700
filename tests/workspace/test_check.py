"""`check` as a learner and as nbgrader see it: the number, the panel, the pack beside the notebook."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import check
from autograder.authoring.course import CourseError, course_root, find_lesson, lessons
from autograder.diagnosis.attempt import check_answer
from autograder.judging.observation import Observation
from autograder.judging.values import decode, encode
from autograder.packs import pack_file
from autograder.workspace.progress import MARKER, Entry, read

PACKS = {one.slug: pack_file.load(course_root() / "release" / one.name / f"{one.slug}{pack_file.SUFFIX}") for one in lessons()}


@pytest.fixture
def notebook_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lesson's folder in a workspace, with its pack, as the current folder."""
    folder = tmp_path / "00_start_here"
    folder.mkdir()
    (tmp_path / MARKER).mkdir()
    pack_file.save(PACKS["start_here"], folder / f"start_here{pack_file.SUFFIX}")
    monkeypatch.chdir(folder)
    return folder


def test_the_repr_is_the_bare_number_that_nbgrader_reads(notebook_folder: Path) -> None:
    from nbformat.v4 import new_code_cell, new_output
    from nbgrader.utils import determine_grade

    for answer, points in ((lambda V: V.mean(axis=0), 1.0), (lambda V: V.sum(axis=0), 0.0)):
        score = check("average_pool", answer)
        data = {"text/plain": repr(score), "text/html": score._repr_html_()}
        meta = {"nbgrader": {"grade": True, "solution": False, "points": 1, "grade_id": "x"}}
        cell = new_code_cell(metadata=meta, outputs=[new_output("execute_result", data=data)])
        assert determine_grade(cell) == (points, 1.0)
        assert float(repr(score)) == score == points


def test_the_name_is_looked_up_where_check_is_called(notebook_folder: Path) -> None:
    namespace: dict[str, Any] = {"check": check}
    exec("score = check('average_pool')", namespace)
    assert "not defined yet" in str(namespace["score"])
    exec("average_pool = lambda V: V.mean(axis=0)\nscore = check('average_pool')", namespace)
    assert namespace["score"] == 1


def test_a_blank_answer_says_what_to_do_and_shows_no_traceback(notebook_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def average_pool(V: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    score = check("average_pool", average_pool)
    assert score == 0
    assert "Replace the line `raise NotImplementedError(…)`" in str(score)
    assert "Traceback" not in str(score) + score._repr_html_()
    assert capsys.readouterr().err == ""


def test_a_missing_pack_and_an_unknown_exercise_say_what_to_do(notebook_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CourseError, match="Did you mean 'average_pool'"):
        check("averge_pool")
    monkeypatch.chdir(notebook_folder.parent)
    monkeypatch.setattr("autograder.workspace.in_cells.check.course_root", lambda: notebook_folder)
    with pytest.raises(CourseError, match=r"expected a file .*beside the notebook"):
        check("average_pool")


def test_progress_is_kept_in_the_workspace_and_counts_attempts(notebook_folder: Path) -> None:
    check("average_pool", lambda V: V.sum(axis=0))
    check("average_pool", lambda V: V.mean(axis=0))
    assert read(notebook_folder.parent) == {("00_start_here", "average_pool"): Entry(1.0, "pass", 2, None)}


def test_a_damaged_progress_file_never_costs_the_check(notebook_folder: Path) -> None:
    (notebook_folder.parent / MARKER / "progress.sqlite3").write_bytes(b"not a database" * 100)
    assert check("average_pool", lambda V: V.mean(axis=0)) == 1


def test_nothing_a_learner_writes_reaches_the_panel_unescaped(notebook_folder: Path) -> None:
    def answer(V: np.ndarray) -> np.ndarray:
        raise ValueError("<script>alert(1)</script><img src=x onerror=alert(1)>")

    shown = check("average_pool", answer)._repr_html_()
    assert "<script" not in shown
    assert "<img" not in shown
    assert "&lt;script&gt;" in shown


def test_a_hang_gives_a_panel_and_not_a_dead_notebook(notebook_folder: Path) -> None:
    record = PACKS["start_here"].exercises["average_pool"]
    record = type(record)(**{**vars(record), "timeout_s": 0.3})

    def forever(V: np.ndarray) -> np.ndarray:
        while True:
            pass

    result = check_answer(record, forever)
    assert result.score == 0
    assert result.failure is not None
    assert result.failure.kind == "timeout"


def test_half_of_the_checks_answer_within_a_tenth_of_a_second() -> None:
    """Over all lessons: those that watch the memory of tensors take longer, because PyTorch's profiler has to be started."""
    times = []
    for slug in sorted(PACKS):
        for exercise in find_lesson(slug).in_code():
            started = time.process_time()  # a busy machine makes nothing slower by this clock
            assert check_answer(PACKS[slug].exercises[exercise.id], exercise.reference).passed
            times.append(time.process_time() - started)
    assert statistics.median(times) < 0.1, sorted(times)


def _recast(value: Any, how: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_recast(item, how) for item in value)
    return how(value) if hasattr(value, "dtype") and hasattr(value, "ndim") else value


def _strided(x: Any) -> Any:
    """The same values in another memory layout: every other entry of a buffer twice as wide."""
    if x.ndim == 0:
        return x
    wide = np.repeat(np.asarray(x), 2, axis=-1) if isinstance(x, np.ndarray | np.generic) else x.repeat_interleave(2, dim=-1)
    return wide[..., ::2]


def _double(x: Any) -> Any:
    floating = x.dtype.kind == "f" if isinstance(x, np.ndarray | np.generic) else x.is_floating_point()
    return x if not floating else x.astype(np.float64) if isinstance(x, np.ndarray | np.generic) else x.double()


@pytest.mark.parametrize("how", [_double, _strided], ids=["float64", "non-contiguous"])
@pytest.mark.parametrize("slug", sorted(PACKS))
def test_a_right_answer_in_another_precision_or_layout_gets_full_marks(slug: str, how: Callable[[Any], Any]) -> None:
    for exercise in find_lesson(slug).in_code():
        # two say which dtype is asked for: another precision is another answer there; one has no room for a copy of all inputs,
        # and one none for the scores, which PyTorch's kernel writes for inputs that do not lie in one piece
        apart = exercise.id in ("additive_mask", "apply_rope", "pool_in_blocks", *(["grouped_chunk"] if how is _strided else []))
        if isinstance(exercise.reference, type) or apart:
            continue

        def answer(reference: Any = exercise.reference, **inputs: Any) -> Any:
            return _recast(reference(**{name: _recast(value, how) for name, value in inputs.items()}), how)

        assert check_answer(PACKS[slug].exercises[exercise.id], answer).passed, exercise.id


def test_importing_the_engine_loads_no_heavy_package() -> None:
    code = (
        "import sys, autograder\n"
        "assert not {'torch', 'matplotlib', 'IPython', 'nbgrader', 'numpy'} & set(sys.modules)\n"
        "from autograder import check; assert not {'torch', 'matplotlib', 'nbgrader'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


@pytest.mark.parametrize("slug", sorted(PACKS))
def test_a_pack_survives_the_file_and_is_written_the_same_twice(slug: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one.npz", tmp_path / "two.npz"
    pack_file.save(PACKS[slug], one)
    pack_file.save(PACKS[slug], two)
    assert one.read_bytes() == two.read_bytes()
    assert pack_file.differences(PACKS[slug], pack_file.load(one)) == []
    assert one.stat().st_size < 800_000


def test_a_changed_expected_value_is_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    pack_file.save(PACKS["start_here"], path)
    other = pack_file.load(path)
    value = other.exercises["average_pool"].cases[0].expected.value
    assert value is not None
    value.arrays[0][0] += 1
    assert pack_file.differences(PACKS["start_here"], other) != []


@pytest.mark.parametrize(("factor", "same"), [(1 + 2e-15, True), (1 + 1e-4, False)])
def test_a_number_may_differ_in_its_last_digits(factor: float, same: bool) -> None:
    made = PACKS["a_river"]
    exercise = made.exercises["leave_one_out"]
    case = exercise.cases[1]
    assert case.expected.value is not None
    rounded = Observation(encode(decode(case.expected.value) * factor))
    other = replace(exercise, cases=[replace(x, expected=rounded) if x is case else x for x in exercise.cases])
    found = pack_file.differences(made, replace(made, exercises={**made.exercises, exercise.id: other}))
    assert (found == []) is same


def test_every_panel_has_hints_in_three_levels_and_words_beside_colours() -> None:
    from autograder.diagnosis.explain import make_report
    from autograder.diagnosis.panel import to_html

    for found in PACKS.values():
        for record in found.in_code.values():
            result = check_answer(record, lambda *a, **k: np.zeros(1))
            shown = to_html(make_report(result))
            assert shown.count("<details") >= 4, record.id
            assert "✗ not yet" in shown or "◐" in shown


def _run(name: str, answer: Callable[..., Any]) -> str:
    from autograder.diagnosis.explain import make_report
    from autograder.diagnosis.panel import to_html

    return to_html(make_report(check_answer(PACKS["start_here"].exercises[name], answer)))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("pass", lambda V: V.mean(axis=0)),
        ("named_mistake", lambda V: V.sum(axis=0)),
        ("unknown_mistake", lambda V: V.mean(axis=0) + 0.1 * (np.arange(V.shape[1]) == 1)),
        ("raises", lambda V: V.no_such_thing),
    ],
)
def test_panels_look_as_they_did(name: str, answer: Callable[..., Any], golden: Callable[[str, str], None]) -> None:
    shown = re.sub(r"your line \d+", "your line 7", _run("average_pool", answer))  # where this file has it does not matter
    golden(f"{name}.html", shown)


@pytest.mark.slow
def test_a_golden_file_is_written_on_demand_and_compared_otherwise(tmp_path: Path) -> None:
    """With the fixture of these tests, in a folder of its own."""
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text("def test_it(golden):\n    golden('it.txt', 'as it is')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def passes(*words: str) -> bool:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", *words]
        run = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(course_root().parent)}, "check": False}
        return subprocess.run(command, **run, capture_output=True).returncode == 0

    assert not passes()
    assert passes("--golden-update")
    assert (tmp_path / "golden" / "it.txt").read_text() == "as it is\n"
    assert passes()
    (tmp_path / "golden" / "it.txt").write_text("as it was\n")
    assert not passes()
