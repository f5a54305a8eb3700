"""Compare plain `nbgrader autograde` with `attn grade` on the same class and machine, one after the other (`attn bench
grading`).

Each runs as a user would run it, in a separate process, with its start-up. Quote the ratios rather than the times.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.authoring.course import FILE, CourseError, Lesson, course_root
from autograder.authoring.make_release import nbgrader_api
from autograder.grading.marking.scheme import given_paths, read_release, setup_for
from autograder.grading.trials import course_copy, demo
from autograder.judging.exercise import Exercise
from autograder.sandbox.isolation_tiers import choose_tier
from autograder.sandbox.submission_limits import Limits


def run(lesson: Lesson, students: int, *, workers: int, feedback: bool = True) -> dict[str, Any]:
    """Time both graders on a class of `students`. Returns seconds, ratios (plain / ours), and whether scores agree.

    With `feedback` both also write their feedback pages. Raises CourseError if one of them fails.
    """
    if students < 1:
        raise CourseError(f"expected at least one student, got {students}.")
    with tempfile.TemporaryDirectory(prefix="attn-bench-") as temporary:
        ours, plain = Path(temporary) / "ours" / "course", Path(temporary) / "plain"
        _make_course(ours, lesson, students)
        shutil.copytree(ours, plain, symlinks=True)
        ours_wall, ours_cpu, began = _time(ours, [_attn_grade(lesson, workers, feedback=feedback)])
        first = min(path.stat().st_mtime for path in ours.glob("autograded/*/*/*.ipynb")) - began
        commands = [["-m", "nbgrader", "autograde", lesson.name]]
        commands += [["-m", "nbgrader", "generate_feedback", lesson.name]] if feedback else []
        plain_wall, plain_cpu, _ = _time(plain, commands)
        scores, plain_scores = _scores(ours, lesson), _scores(plain, lesson)
        memory = _worker_memory(ours, lesson)
    return {
        "lesson": lesson.name,
        "students": students,
        "workers": workers,
        "feedback": feedback,
        "plain": {"wall_s": plain_wall, "cpu_s": plain_cpu, "per_minute": 60 * students / plain_wall},
        "ours": {"wall_s": ours_wall, "cpu_s": ours_cpu, "per_minute": 60 * students / ours_wall, "first_grade_s": first},
        "wall_ratio": plain_wall / ours_wall,
        "cpu_ratio": plain_cpu / ours_cpu,
        "scores_equal": scores == plain_scores,
        "differing": sorted(name for name in scores | plain_scores if scores.get(name) != plain_scores.get(name)),
        "worker_memory_mib": memory,
    }


def growth(lesson: Lesson, sizes: Sequence[int], *, workers: int) -> list[dict[str, float]]:
    """Measure how the cost of `attn grade --feedback` grows with the class. Returns a row per size, smallest first."""
    rows = []
    for students in sorted(sizes):
        with tempfile.TemporaryDirectory(prefix="attn-bench-") as temporary:
            root = Path(temporary) / "course"
            _make_course(root, lesson, students)
            wall, cpu, _ = _time(root, [_attn_grade(lesson, workers, feedback=True)])
            if len(_scores(root, lesson)) != students:
                raise CourseError(f"expected {students} students in the gradebook, got {len(_scores(root, lesson))}.")
            size = (root / "gradebook.db").stat().st_size
        rows.append({"students": students, "wall_s": wall, "cpu_s": cpu, "cpu_s_each": cpu / students, "gradebook_bytes": size})
    return rows


def _attn_grade(lesson: Lesson, workers: int, *, feedback: bool) -> list[str]:
    command = ["-m", "autograder.cli", "grade", lesson.name, "--workers", str(workers), "--json"]
    return [*command, "--feedback"] if feedback else command


def _make_course(root: Path, lesson: Lesson, students: int) -> None:
    """Make a course folder with one lesson, a gradebook, and honest submissions: right, mistaken, some blank.

    It has neither follow-through nor partial credit, because plain nbgrader knows neither and both must do the same work and
    reach the same scores.
    """
    course_copy.make(root, [lesson])
    (root / FILE).unlink()
    own = (course_root() / FILE).read_text(encoding="utf-8")
    own = re.sub(r"^follow_through.*\n|^\[keeps\]\n[^\[]*", "", own, flags=re.MULTILINE)
    nothing = [f'"{key}" = 0' for key in sorted(_keys(lesson))]
    (root / FILE).write_text("\n".join(['follow_through = "none"', own, "[keeps]", *nothing, ""]), encoding="utf-8")
    api = nbgrader_api(root)
    outcome = api.generate_assignment(lesson.name, force=True, create=True)
    if not outcome["success"]:
        raise CourseError(f"{lesson.name}: nbgrader generate_assignment failed.\n{outcome.get('log')}")
    exercises = lesson.in_code()
    kinds = [_notebook(root, lesson, exercises, number) for number in range(min(students, 4 * len(exercises)))]
    for number in range(students):
        notebook = read_release(root, lesson.name) if number % 20 == 19 else kinds[number % len(kinds)]
        demo.submit(root, lesson, f"student{number:04d}", notebook)


def _keys(lesson: Lesson) -> set[str]:
    """Return the keys of `[keeps]` for which a wrong answer in the lesson would keep a share."""
    return {
        f"{lesson.name}.{exercise}{name if name.startswith('[') else f'.{name}'}"
        for exercise, shares in lesson.shares().items()
        for name in shares
    }


def _notebook(root: Path, lesson: Lesson, exercises: Sequence[Exercise], number: int) -> Any:
    """Return a perfect notebook or, for three numbers out of four, one with a mistake in one exercise."""
    notebook = demo.perfect(root, lesson)
    exercise = exercises[number % len(exercises)]
    mistakes = [text for known in exercise.misconceptions if (text := demo.as_source(exercise, known))]
    if number % 4 and mistakes:
        demo.set_answer(notebook, exercise.id, mistakes[number % len(mistakes)])
    return notebook


def _time(root: Path, commands: Sequence[Sequence[str]]) -> tuple[float, float, float]:
    """Return wall and CPU seconds of `commands`, including all that they start, and the time of day at the start."""
    paths = [str(course_root().parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "ATTN_COURSE": str(root), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    before, began, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.time(), time.perf_counter()
    for command in commands:
        done = subprocess.run([sys.executable, *command], cwd=root, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CourseError(
                f"expected {' '.join(command)} to end well, got {done.returncode}:\n{(done.stderr or done.stdout)[-2000:]}"
            )
    wall, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, began


def _scores(root: Path, lesson: Lesson) -> dict[str, float]:
    """Return the autograded score of each student in the gradebook."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        return {
            submission.student.id: round(sum(g.auto_score or 0.0 for n in submission.notebooks for g in n.grades), 6)
            for submission in gradebook.assignment_submissions(lesson.name)
        }


def _worker_memory(root: Path, lesson: Lesson) -> float:
    """Return the memory of a warm sandbox for the lesson in MiB. Submissions share it until they write."""
    setup = setup_for(read_release(root, lesson.name), Limits(), given_paths())
    with setup.sandbox(choose_tier()) as sandbox:
        return sandbox.memory_bytes() / 2**20
