"""Grading a class whatever happens: resumed, killed, on several workers, on a cluster, into PostgreSQL."""

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.course import CourseError, find_lesson
from autograder.authoring.make_release import nbgrader_api
from autograder.cli import main
from autograder.grading import ledger
from autograder.grading.grade import grade_assignment
from autograder.grading.marking.scheme import read_release
from autograder.grading.trials import course_copy, demo
from autograder.sandbox.isolation_tiers import available_tiers
from autograder.sandbox.submission_limits import Limits
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.skipif(
        not any(tier.available and tier.name != "none" for tier in available_tiers()),
        reason="neither bubblewrap nor Landlock isolates on this machine",
    ),
]
LESSON = "00_start_here"  # small, and without torch: what is tested here does not depend on the lesson
STUDENTS = 6
Rows = dict[str, Any]


def make_course(root: Path) -> Path:
    """A course with a gradebook and six submissions of lesson 00, some of them wrong."""
    lesson = find_lesson(LESSON)
    course_copy.make(root, [lesson])
    (root / ".secret").write_text("7" * 64)
    (exercise,) = lesson.in_code()
    for number in range(STUDENTS):
        notebook = demo.perfect(root, lesson)
        demo.set_answer(notebook, "written_average", f"An answer for a person to read, by {number}.")
        if number % 3 == 1:
            demo.set_answer(notebook, exercise.id, f"def {exercise.id}(*given, **named):\n    return 0.0")
        elif number % 3 == 2:
            notebook = read_release(root, lesson.name)
        demo.submit(root, lesson, f"s{number}", notebook)
    return root


def make_gradebook(root: Path) -> Path:
    outcome = nbgrader_api(root).generate_assignment(LESSON, force=True, create=True)
    assert outcome["success"], outcome["log"]
    return root


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course with submissions and a gradebook that holds the assignment alone."""
    return make_gradebook(make_course(tmp_path_factory.mktemp("prepared") / "course"))


@pytest.fixture
def course(prepared: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared, tmp_path / "course")
    return tmp_path / "course"


@pytest.fixture(scope="module")
def undisturbed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The gradebook of a run that nothing disturbs."""
    root = tmp_path_factory.mktemp("undisturbed") / "course"
    shutil.copytree(prepared, root)
    grade_assignment(root, LESSON, workers=2)
    return rows(root)


@pytest.fixture(scope="module")
def seconds(prepared: Path, undisturbed: Rows, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long such a run takes, once everything is imported."""
    root = tmp_path_factory.mktemp("timed") / "course"
    shutil.copytree(prepared, root)
    return grade_assignment(root, LESSON, workers=2, feedback=True).seconds


def rows(root: Path, url: str = "") -> Rows:
    """All that the gradebook says of the class, by names instead of ids."""
    from nbgrader.api import Gradebook

    with Gradebook(url or f"sqlite:///{root / 'gradebook.db'}", "attention") as book:
        found: Rows = {}
        for submission in book.assignment_submissions(LESSON):
            (notebook,) = submission.notebooks
            grades = {g.name: (g.auto_score, g.manual_score, g.needs_manual_grade, g.max_score) for g in notebook.grades}
            comments = {c.name: (c.auto_comment, c.manual_comment) for c in notebook.comments}
            late = notebook.late_submission_penalty
            found[submission.student.id] = (grades, comments, submission.timestamp, late, notebook.score)
    return found


# ---------------------------------------------------------------------------------------------- the same rows


def test_the_gradebook_is_the_one_that_plain_nbgrader_would_have_written(course: Path) -> None:
    shutil.copytree(course, plain := course.parent / "plain")
    (course / "submitted" / "s0" / LESSON / "timestamp.txt").write_text("2026-01-02 03:04:05 UTC")
    (plain / "submitted" / "s0" / LESSON / "timestamp.txt").write_text("2026-01-02 03:04:05 UTC")
    grade_assignment(course, LESSON, workers=3)
    command = [sys.executable, "-m", "nbgrader", "autograde", LESSON]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(command, cwd=plain, env=environment, check=True, capture_output=True, timeout=280)
    ours = rows(course)
    assert len(ours) == STUDENTS
    assert ours == rows(plain)
    assert {score for *_, score in ours.values()} == {0.0, 0.5, 1.5}


# ---------------------------------------------------------------------------------------------- again, and not again


def test_what_is_graded_is_not_graded_again_until_something_changes(course: Path) -> None:
    first = grade_assignment(course, LESSON)
    assert (first.graded_now, len(first.rows)) == (STUDENTS, STUDENTS)
    second = grade_assignment(course, LESSON)
    assert (second.graded_now, second.rows) == (0, first.rows)
    path = course / "submitted" / "s2" / LESSON / f"{LESSON}.ipynb"
    shutil.copyfile(course / "submitted" / "s0" / LESSON / f"{LESSON}.ipynb", path)
    third = grade_assignment(course, LESSON)
    assert third.graded_now == 1
    assert {row.student: row.score for row in third.rows}["s2"] == first.rows[0].score
    assert grade_assignment(course, LESSON, again=True).graded_now == STUDENTS
    assert grade_assignment(course, LESSON, limits=Limits(wall_s=59)).graded_now == STUDENTS
    assert grade_assignment(course, LESSON, limits=Limits(wall_s=59), feedback=True).graded_now == STUDENTS  # no pages yet
    (course / "autograded" / "s1" / LESSON / f"{LESSON}.ipynb").unlink()
    assert grade_assignment(course, LESSON, limits=Limits(wall_s=59)).graded_now == 1
    assert ledger.load(course, LESSON).rows == grade_assignment(course, LESSON, limits=Limits(wall_s=59)).rows


def test_a_mark_by_hand_stays_and_asks_for_a_second_look_where_the_answer_has_changed(course: Path) -> None:
    from nbgrader.api import Gradebook

    lesson = find_lesson(LESSON)
    grade_assignment(course, LESSON, students=["s0"])
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as book:
        written = next(g for g in book.find_submission(LESSON, "s0").notebooks[0].grades if g.needs_manual_grade)
        name, written.manual_score, written.needs_manual_grade = written.name, 0.75, False
        book.db.commit()
    grade_assignment(course, LESSON, students=["s0"], again=True)
    assert rows(course)["s0"][0][name][1:3] == (0.75, False)

    notebook = demo.perfect(course, lesson)
    demo.set_answer(notebook, "written_average", "Another answer.")
    shutil.rmtree(course / "submitted" / "s0" / LESSON)
    demo.submit(course, lesson, "s0", notebook)
    grade_assignment(course, LESSON, students=["s0"])
    assert rows(course)["s0"][0][name][1:3] == (0.75, True)


def test_a_ledger_entry_that_is_damaged_counts_as_none(course: Path) -> None:
    grade_assignment(course, LESSON)
    folder = course / "reports" / LESSON
    (folder / "s0.json").write_text('{"key": ')
    (folder / "s1.json").write_text("[]")
    assert grade_assignment(course, LESSON).graded_now == 2
    with pytest.raises(CourseError, match="attn grade 01_soft_lookup"):
        ledger.load(course, "01_soft_lookup")


def test_progress_counts_up_to_the_class(course: Path) -> None:
    seen: list[tuple[int, int]] = []
    grade_assignment(course, LESSON, progress=lambda row, done, total: seen.append((done, total)))
    assert seen == [(number + 1, STUDENTS) for number in range(STUDENTS)]


@pytest.mark.parametrize(
    ("option", "says"),
    [(["--workers", "0"], "--workers"), (["--memory", "-1"], "--memory")],
)
def test_an_option_that_cannot_be_says_what_is_expected(option: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", LESSON, *option]) == 2
    assert says in capsys.readouterr().err


def test_a_scheduler_that_is_not_there_says_how_to_start_one(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.grading.workers.CONNECT_S", 0.5)
    with pytest.raises(CourseError, match=r"tcp://127.0.0.1:1(.|\n)*dask scheduler"):
        grade_assignment(course, LESSON, scheduler="tcp://127.0.0.1:1")


# ---------------------------------------------------------------------------------------------- killed


def _grade_for_kill(root: str, began: Any) -> None:
    began.set()
    grade_assignment(Path(root), LESSON, workers=2, feedback=True)


@pytest.mark.slowest
@pytest.mark.timeout(600)
def test_a_coordinator_killed_at_twenty_random_moments_leaves_what_a_new_run_completes(
    prepared: Path, undisturbed: Rows, seconds: float, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["autograder.grading.grade", "nbgrader.apps.api"])
    dice = random.Random(0)
    halfway = 0
    for number in range(20):
        root = tmp_path / str(number)
        shutil.copytree(prepared, root)
        began = context.Event()
        process = context.Process(target=_grade_for_kill, args=(str(root), began))
        process.start()
        assert began.wait(60)
        time.sleep(dice.uniform(0.0, 1.2 * seconds))
        process.kill()
        process.join(60)
        done = len(list((root / "autograded").glob("*/*/*.ipynb")))
        halfway += 0 < done < STUDENTS
        grade_assignment(root, LESSON, workers=2)
        assert rows(root) == undisturbed, number
        shutil.rmtree(root)
    assert halfway > 0


def test_sandbox_workers_killed_at_random_cost_nobody_anything(
    course: Path, undisturbed: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autograder.grading import workers

    dice, over, killed = random.Random(1), threading.Event(), [0]

    def kill_now_and_then() -> None:
        while not over.wait(dice.uniform(0.3, 0.9)):
            hosts = [box._host for box in list(workers._all) if box._host is not None]
            if hosts and killed[0] < 6:
                host = dice.choice(hosts)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(host._inner or host._process.pid, signal.SIGKILL)
                    killed[0] += 1

    thread = threading.Thread(target=kill_now_and_then)
    thread.start()
    try:
        for times in range(30):
            if times >= 3 and killed[0] >= 2:  # a fast machine is done before many are killed
                break
            grade_assignment(course, LESSON, workers=2, again=True)
            assert rows(course) == undisturbed
    finally:
        over.set()
        thread.join()
    assert killed[0] >= 2


# ---------------------------------------------------------------------------------------------- a cluster


@contextlib.contextmanager
def dask(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "dask", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


@pytest.mark.timeout(240)
def test_a_dask_cluster_of_two_gives_the_same_rows_when_one_worker_is_killed(
    course: Path, undisturbed: Rows, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    address = tmp_path / "scheduler.json"
    started: Callable[..., Any] = dask
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            started("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(address))
        )
        until = time.monotonic() + 60
        while not address.exists():
            assert time.monotonic() < until
            time.sleep(0.1)
        here = ["--scheduler-file", str(address), "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory"]
        workers = [stack.enter_context(started("worker", *here, str(tmp_path / f"w{number}"))) for number in range(2)]
        url = json.loads(address.read_text())["address"]
        seen: list[str] = []

        def kill_one(row: ledger.StudentRow, done: int, total: int) -> None:
            seen.append(row.student)
            if done == 2:
                workers[0].kill()

        report = grade_assignment(course, LESSON, scheduler=url, progress=kill_one)
    assert sorted(seen) == sorted(undisturbed)
    assert [row.problem for row in report.rows] == [None] * STUDENTS
    assert rows(course) == undisturbed


# ---------------------------------------------------------------------------------------------- PostgreSQL


def _postgres() -> Path | None:
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb"), *map(Path, filter(None, [shutil.which("initdb")]))]
    return found[0].parent if found else None


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server of our own on a socket; the address of a fresh database in it."""
    programs = _postgres()
    if programs is None:
        pytest.skip("no PostgreSQL server on this machine: apt install postgresql")
    psycopg = pytest.importorskip("psycopg")
    folder = Path("/tmp") / f"attn-postgres-{os.getpid()}"  # a socket's path must be short
    folder.mkdir()
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        import pwd

        account = next((a for a in pwd.getpwall() if a.pw_name == "postgres"), pwd.getpwnam("nobody"))
        os.chown(folder, account.pw_uid, account.pw_gid)
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    data = folder / "data"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **user}
    subprocess.run([programs / "initdb", "-D", data, "-U", "attn", "-A", "trust", "--no-sync"], check=True, timeout=120, **quiet)
    options = ["-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
    server = subprocess.Popen([programs / "postgres", *options], **quiet)

    def accepts() -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(host=str(folder), user="attn", dbname="postgres").close()
            return True
        return False

    try:
        wait_until(accepts)
        yield f"postgresql+psycopg://attn@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def test_a_postgresql_gradebook_holds_the_same_rows(tmp_path: Path, postgres: str, undisturbed: Rows) -> None:
    root = make_course(tmp_path / "course")
    with (root / "nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write(f"\nc.CourseDirectory.db_url = {postgres!r}\n")
    make_gradebook(root)
    grade_assignment(root, LESSON, workers=2)
    assert rows(root, postgres) == undisturbed
    assert not (root / "gradebook.db").exists()
    assert grade_assignment(root, LESSON).graded_now == 0


# ---------------------------------------------------------------------------------------------- the bench


@pytest.mark.slowest
def test_the_bench_finds_equal_scores_and_measures_both_graders(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "grading", "--students", "4", "--lesson", "03", "--workers", "1", "--json"]) == 0  # partial credit
    found = json.loads(capsys.readouterr().out)
    assert found["scores_equal"]
    assert found["differing"] == []
    assert {"wall_ratio", "cpu_ratio", "worker_memory_mib"} <= set(found)
    assert 0 < found["ours"]["first_grade_s"] <= found["ours"]["wall_s"]
    assert found["wall_ratio"] == found["plain"]["wall_s"] / found["ours"]["wall_s"]


def test_the_bench_shows_how_cost_grows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "grading", "--sizes", "2", "4", "--lesson", "00", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["2", "4"]
