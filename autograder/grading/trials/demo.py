"""Grade a class of eight, from perfect to hostile, end to end, and compare with the scores they deserve (`attn demo`).

The deserved scores are computed here without the sandbox or nbgrader, so agreement is evidence for the whole pipeline.
"""

import ast
import builtins
import contextlib
import copy
import inspect
import io
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring.course import CourseError, Lesson, find_lesson, lessons, settings
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import injected
from autograder.authoring.verify import grade as grade_here
from autograder.grading.grade import grade_assignment
from autograder.grading.ledger import ClassReport
from autograder.grading.marking.follow_through import SHARE
from autograder.grading.marking.needed_cells import to_run
from autograder.grading.marking.scheme import read_release, secret
from autograder.grading.trials import course_copy
from autograder.judging.exercise import Exercise, Misconception, Prediction
from autograder.notebooks.roles import grade_id, is_answer
from autograder.packs import make_pack

_PASTEABLE = {"np", "torch", "math", "F"}


def run(folder: Path | None, *, unsafe: bool = False) -> tuple[ClassReport, dict[str, float]]:
    """Make and grade the class in `folder` (default: a temporary one). Returns the report and each student's deserved score."""
    if folder is not None:
        return _run(folder.resolve(), unsafe)
    with tempfile.TemporaryDirectory(prefix="attn-demo-") as temporary:
        return _run(Path(temporary), unsafe)


def as_deserved(graded: ClassReport, expected: dict[str, float]) -> bool:
    """Return whether every student got exactly the deserved score."""
    return {row.student: row.score for row in graded.rows} == expected


def _run(folder: Path, unsafe: bool) -> tuple[ClassReport, dict[str, float]]:
    lesson = _lesson()
    if (folder / "course").exists():
        raise CourseError(f"expected a folder without a class in it, but {folder}/course exists. Choose another --folder.")
    root = folder / "course"
    course_copy.make(root, [lesson])
    expected = _make_class(root, lesson)
    return grade_assignment(root, lesson.name, unsafe=unsafe), expected


def _lesson() -> Lesson:
    """Return the lesson that course.toml names, or the first with more than predictions. Raises CourseError if there is none."""
    if named := settings().demo:
        return find_lesson(named)
    first = next((lesson for lesson in lessons() if lesson.in_code()), None)
    if first is None:
        raise CourseError("expected a lesson with an exercise, found none. `attn new-lesson` makes one.")
    return first


def _make_class(root: Path, lesson: Lesson) -> dict[str, float]:
    """Write eight submissions below `root/submitted`, and return the score each student deserves."""
    exercises = lesson.in_code()
    total = round(sum(e.points for e in lesson.exercises()), 2)
    last = exercises[-1]  # nothing else builds on the last exercise, so breaking it costs exactly its points
    signature = f"def {last.id}(*arguments, **named):\n    "
    broken = {
        "loops_forever": signature + "while True:\n        pass",
        "fails_at_import": f"import a_module_nobody_has\n\n{signature}return 1",
        "exits": "import os\n\n" + signature + "os._exit(0)",
    }
    for name, source in broken.items():
        submit(root, lesson, name, set_answer(perfect(root, lesson), last.id, source))
    lost, doubled = perfect(root, lesson), perfect(root, lesson)
    lost.cells.remove(_answer(lost, last.id))
    again = copy.deepcopy(cell := _answer(doubled, last.id))
    again.id = f"{last.id}-copy"  # as JupyterLab does; the grade_id in its metadata is what is duplicated
    doubled.cells.insert(doubled.cells.index(cell) + 1, again)
    mistaken, deserved = _with_misconceptions(root, lesson, exercises)
    whole = {"perfect": perfect(root, lesson), "duplicated_a_cell": doubled, "blank": read_release(root, lesson.name)}
    for name, notebook in {"lost_a_cell": lost, **whole, "misconceptions": mistaken}.items():
        submit(root, lesson, name, notebook)
    expected = {name: round(total - last.points, 2) for name in [*broken, "lost_a_cell"]}
    return {**expected, "perfect": total, "duplicated_a_cell": total, "blank": 0.0, "misconceptions": deserved}


def perfect(root: Path, lesson: Lesson) -> Any:
    """Return the release of `lesson` in the course folder `root` with every exercise answered correctly."""
    notebook = read_release(root, lesson.name)
    answers = {grade_id(cell): injected(cell) for cell in read_lesson(lesson).cells if is_answer(cell)}
    for exercise in lesson.exercises():
        text = f'{exercise.id} = "{next(iter(exercise.choices))}"' if isinstance(exercise, Prediction) else answers[exercise.id]
        set_answer(notebook, exercise.id, text)
    return notebook


def _with_misconceptions(root: Path, lesson: Lesson, exercises: Sequence[Exercise]) -> tuple[Any, float]:
    """Return a notebook with a misconception in every exercise that has a pasteable one, and the points it deserves.

    Right answers may depend on wrong ones, so the answers are run together here and graded one by one.
    """
    notebook = perfect(root, lesson)
    for exercise in exercises:
        if pasteable := [source for m in exercise.misconceptions if (source := as_source(exercise, m))]:
            set_answer(notebook, exercise.id, pasteable[0])
    namespace: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):  # given cells may print
        for cell in to_run(read_release(root, lesson.name), notebook):
            exec(cell.source, namespace)  # the course's own text, chosen a few lines above
    seed = make_pack.seed_from(secret(root), lesson.slug)
    records = {exercise.id: make_pack.make_record(lesson.slug, exercise, seed) for exercise in exercises}
    scores = {name: grade_here(record, namespace[name]).score for name, record in records.items()}
    failing = [name for name, record in records.items() if scores[name] < record.points]
    sources = {str(grade_id(cell)): injected(cell) for cell in read_lesson(lesson).cells if is_answer(cell)}
    for place, name in enumerate(failing):  # again with the earlier answers right, as `follow_through` does
        again = {**namespace}
        for other in failing[:place]:
            exec(sources[other], again)
        exec(_answer(notebook, name).source, again)
        share = SHARE[settings().follow_through]
        scores[name] = max(scores[name], round(share * grade_here(records[name], again[name]).score, 2))
    deserved = sum(scores.values()) + sum(asked.points for asked in lesson.exercises() if isinstance(asked, Prediction))
    return notebook, round(deserved, 2)


def as_source(exercise: Exercise, mistake: Misconception) -> str | None:
    """Return the misconception as a learner would have written it, or None if it depends on helpers in its module."""
    answer = mistake.answer
    if not inspect.isfunction(answer):
        return None
    used = inspect.getclosurevars(answer)
    if used.nonlocals or set(used.globals) - _PASTEABLE or any(not hasattr(builtins, name) for name in used.builtins):
        return None
    if answer.__name__ != "<lambda>":
        return textwrap.dedent(inspect.getsource(answer)).replace(f"def {answer.__name__}(", f"def {exercise.id}(", 1)
    module = ast.parse(Path(inspect.getfile(answer)).read_text(encoding="utf-8"))
    for node in ast.walk(module):
        if isinstance(node, ast.Lambda) and node.lineno == answer.__code__.co_firstlineno:
            return f"{exercise.id} = {ast.unparse(node)}"
    return None


def _answer(notebook: Any, name: str) -> Any:
    return next(cell for cell in notebook.cells if is_answer(cell) and grade_id(cell) == name)


def set_answer(notebook: Any, name: str, source: str) -> Any:
    """Write `source` into the answer cell `name` of `notebook`, and return the notebook."""
    _answer(notebook, name).source = source
    return notebook


def submit(root: Path, lesson: Lesson, student: str, notebook: Any) -> None:
    """Write `notebook` as the submission of `student`."""
    path = root / "submitted" / student / lesson.name / f"{lesson.name}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
