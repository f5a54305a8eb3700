"""Check an answer in a notebook: `check("name")` returns a `Score`, which nbgrader reads as a number and people as a panel."""

import ast
import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from autograder.authoring.course import CourseError, course_root, did_you_mean, installed_courses
from autograder.diagnosis import panel, phrase
from autograder.diagnosis.attempt import check_answer, judge_missing, with_repair
from autograder.diagnosis.explain import Report, make_report
from autograder.diagnosis.finding import fact
from autograder.judging.compare import judge_choice
from autograder.judging.exercise import Prediction
from autograder.judging.records import AnyRecord, AnyResult, Result
from autograder.packs import pack_file
from autograder.workspace.in_cells import missing_exercise
from autograder.workspace.in_cells.earlier_calls import leans_on

if TYPE_CHECKING:
    from autograder.workspace.in_cells.shown import Shown


class Score(float):
    """The points of one check. `repr` is the bare number (nbgrader parses it), `str` the text panel, HTML the rich one.

    If `repr` were not a number, or the result were HTML only, nbgrader would award *full* marks.
    """

    report: Report

    def __new__(cls, report: Report) -> "Score":
        score = super().__new__(cls, report.score)
        score.report = report
        return score

    def __repr__(self) -> str:
        return float.__repr__(self)

    def __str__(self) -> str:
        return panel.to_text(self.report)

    def _repr_html_(self) -> str:
        return panel.to_html(self.report)

    @property
    def change(self) -> str:
        """What to change in your code so that every check passes, if that was found; else ""."""
        return panel.plain(self.report.change)


@overload
def check(exercise: str | Callable[..., Any], answer: Any = None) -> Score: ...
@overload
def check() -> "Shown": ...
def check(exercise: str | Callable[..., Any] | None = None, answer: Any = None) -> "Score | Shown":
    """Check your answer to `exercise` (the name you defined) and show what is right, or which mistake it makes.

    Without `answer`, the name is looked up where `check` is called. Without a name, you see your progress in the lesson.
    Nothing leaves this machine.

    Raises CourseError if there is no probe pack beside the notebook, or the name is not one of its exercises.
    """
    if exercise is None:
        from autograder.workspace.in_cells.overview import overview  # imports sqlite, which isn't needed before

        return overview(Path.cwd())
    if not isinstance(exercise, str):  # the function itself instead of its name
        name = getattr(exercise, "__name__", None)
        if name is None:
            raise CourseError(f'check(...): expected the name of an exercise, as in check("softmax"), got {exercise!r:.60}.')
        exercise, answer = str(name), exercise if answer is None else answer
    return check_in(sys._getframe(1).f_globals, exercise, answer)


def check_in(namespace: Mapping[str, Any], exercise: str, answer: Any = None) -> Score:
    """Check as `check` does, where `namespace` holds the names that the learner's notebook defines."""
    return _done(judge_in(namespace, exercise, answer), ran=answer is not None or exercise in namespace)


def judge_in(namespace: Mapping[str, Any], exercise: str, answer: Any = None) -> AnyResult:
    """Judge an answer, by default `namespace[exercise]`, and record nothing. Raises CourseError if that is an older version."""
    record = find_record(exercise)
    if answer is None:
        if exercise not in namespace:
            return judge_choice(record, None) if isinstance(record, Prediction) else judge_missing(record)
        if (trouble := _does_not_compile(namespace, exercise)) is not None:
            raise CourseError(
                f"check({exercise!r}): the last cell that defines it does not compile ({trouble}), so what would be checked is "
                "an older version. Correct that cell, run it, then check again."
            )
        answer = namespace[exercise]
    if isinstance(record, Prediction):
        return judge_choice(record, answer)
    result = check_answer(record, answer, repair=False)
    if not result.passed:
        if (other := _other_name(namespace, exercise)) is not None:
            raise CourseError(
                f"check({exercise!r}): the cell that you ran last defines {other!r}, so an older version would be checked. "
                f"Rename the function to {exercise!r}, run its cell, then check again."
            )
        below = _failing_below(namespace, result, answer)
        return with_repair(result, answer) if below is None else dataclasses.replace(result, below=below)
    return result


_PASSED_BEFORE = fact("report.passed_before")


def _failing_below(namespace: Mapping[str, Any], result: Result, answer: Any) -> str | None:
    """Return the first other exercise of the lesson that `answer` calls and that fails its own check, or None.

    An exercise that fails only in an edge case, such as float64, counts only if `answer` fails only in edge cases and its own
    mistake is unknown, because otherwise it hardly explains the failure.
    """
    exercise = result.exercise.id
    known = result.diagnosis is not None and result.diagnosis.known
    at_the_edge = not known and all(case.edge > 0 for case in result.cases if not case.passed)
    functions = {name: record for pack in _packs() if exercise in pack.exercises for name, record in pack.in_code.items()}
    for name in leans_on(answer, namespace, functions, own=exercise):
        other = check_answer(functions[name], namespace[name], repair=False)
        core = not other.cases or any(not case.edge and not case.passed for case in other.cases)
        if not other.passed and (core or at_the_edge):
            return name
    return None


def _does_not_compile(namespace: Mapping[str, Any], exercise: str) -> str | None:
    """Return the syntax error in the last cell that defines `exercise`, or None. Only IPython remembers the cells."""
    cells = namespace.get("_ih")
    defines = re.compile(rf"^(?:def|class)\s+{re.escape(exercise)}\b|^{re.escape(exercise)}\s*=", re.MULTILINE)
    last = next((cell for cell in reversed(cells or []) if isinstance(cell, str) and defines.search(cell)), None)
    if last is None:
        return None
    try:
        compile(last, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    return None


def _other_name(namespace: Mapping[str, Any], exercise: str) -> str | None:
    """Return the similar name that the cell run just before the check defines instead of `exercise`, or None.

    Such a cell is usually a copy in which the function was not renamed back.
    """
    cells = [cell for cell in namespace.get("_ih") or [] if isinstance(cell, str)]
    if len(cells) < 2 or cells[-2] in cells[:-2]:  # a lesson's own cell that was run again is not a copy
        return None
    if re.search(rf"^(?:def|class)\s+{re.escape(exercise)}\b", cells[-1], re.MULTILINE) or re.search(
        rf"\b{re.escape(exercise)}\s*=[^=]", cells[-2]
    ):
        return None
    defined = re.findall(r"^(?:def|class)\s+(\w+)", cells[-2], re.MULTILINE)
    near = [name for name in defined if exercise in name]
    return near[-1] if near and exercise not in defined else None


def find_record(exercise: str, call: str = "check", what: str = "a check") -> AnyRecord:
    """Return the exercise's record from the pack beside the notebook, or else from the releases.

    A notebook may be alone, or in a folder with another lesson's pack. If there is no such exercise, raises a CourseError
    that names the `call` and `what` it needs.
    """
    packs = _packs()
    for pack in packs:
        if exercise in pack.exercises:
            return pack.exercises[exercise]
    if not packs:
        raise CourseError(
            f"{call}({exercise!r}): expected a file *{pack_file.SUFFIX} beside the notebook ({Path.cwd()}), found none.\n"
            "Open the notebook from its lesson's folder (`attn lab`), or install the course's package, which holds all of them."
        )
    if not _in_workspace():
        for pack in map(pack_file.load, _released_packs()):
            if exercise in pack.exercises:
                return pack.exercises[exercise]
    else:
        from autograder.workspace.folder import say_if_in_words

        say_if_in_words(Path.cwd().parent, Path.cwd().name, exercise)
    names = [name for pack in packs for name in pack.exercises]
    expected = f"{call}({exercise!r}): expected an exercise of this lesson that has {what} (a question in words has none)."
    raise CourseError(expected + did_you_mean(exercise, names))


def _packs() -> list[pack_file.Pack]:
    return [pack_file.load(path) for path in find_packs()]


def find_packs() -> list[Path]:
    """Return the packs in the working folder, or else those of the releases, for a notebook in Colab or a download folder."""
    return sorted(Path.cwd().glob(f"*{pack_file.SUFFIX}")) or _released_packs()


def _released_packs() -> list[Path]:
    """Return the packs in the releases of the course here, or else of the installed courses."""
    try:
        courses: tuple[Path, ...] = (course_root(),)
    except CourseError:
        courses = installed_courses()
    return [path for course in courses for path in sorted((course / "release").glob(f"*/*{pack_file.SUFFIX}"))]


def _in_workspace() -> bool:
    """Return whether the working folder is a lesson in a workspace, where only its own pack counts."""
    from autograder.workspace.progress import MARKER  # imports sqlite, which isn't needed before the first check

    return (Path.cwd().parent / MARKER).is_dir()


def _done(result: AnyResult, *, ran: bool = True) -> Score:
    """Record the result and return its panel. An answer whose cell has not run in this kernel keeps its earlier result."""
    report = make_report(result)
    from autograder.workspace import progress  # imports sqlite, which isn't needed before the first check

    if not ran and progress.passed(Path.cwd(), result.exercise.id):
        return Score(dataclasses.replace(report, headline=phrase.say(_PASSED_BEFORE), advice=phrase.next_step(_PASSED_BEFORE)))
    progress.record(Path.cwd(), result.exercise.id, report)
    if report.status == "pass":
        from autograder.workspace.in_cells.overview import next_step

        report = dataclasses.replace(report, following=next_step(Path.cwd(), result.exercise.id))
    return Score(report)


missing_exercise.explain_here()
