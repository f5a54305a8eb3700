"""Run a learner's notebook from top to bottom in a fresh kernel, and return the verdict of each check (`attn check`).

A fresh kernel knows nothing of cells that were deleted or run out of order, so what passes here passes for others too.
"""

import asyncio
import dataclasses
import os
import re
import subprocess
from collections.abc import Collection, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring.course import CourseError
from autograder.diagnosis.finding import fact
from autograder.diagnosis.panel import head_text, status_word, to_text
from autograder.diagnosis.phrase import next_step, say
from autograder.judging.records import AnyRecord
from autograder.notebooks.roles import exercise_of, grade_id, grader, is_figure
from autograder.workspace import folder as workspace
from autograder.workspace import lab
from autograder.workspace.in_cells import check

CELL_S = 120  # seconds before a cell is interrupted; no cell of a lesson takes a tenth of it
MOST_SAID = 300  # characters of an error's message, because an assertion may quote whole tensors
_MIME = "application/vnd.attn.check+json"
_TELL = "__import__('autograder.workspace.rerun').workspace.rerun.tell({!r}, globals())"


@dataclasses.dataclass(frozen=True)
class Checked:
    """The verdict of one check. `text` is its panel for a terminal, and `stopped` the error that ended the answer cell."""

    lesson: str
    exercise: str
    status: str
    score: float
    points: float
    headline: str
    advice: str
    misconception: str | None
    text: str
    unread: bool = False  # the prediction is none of the choices
    stopped: str = ""


def started(folder: Path) -> tuple[list[str], list[str]]:
    """Return the lessons in which the learner has written an answer, and a message for each lesson that cannot be read."""
    lessons, problems = [], []
    for lesson in workspace.names(folder):
        try:
            if workspace.answered(folder, lesson):
                lessons.append(lesson)
        except CourseError as error:
            problems.append(str(error))
    return lessons, problems


def run(folder: Path, lesson: str, only: Collection[str] | None = None) -> list[Checked]:
    """Run the notebook of `lesson` with all its checks, or those of the exercises in `only`, and record the progress.

    Cells that fail, hang or end the kernel cost only the exercises that need them. KeyboardInterrupt ends the kernel too.
    Raises CourseError if the notebook cannot be read or a package is missing.
    """
    every = workspace.load_pack(folder, lesson).exercises
    records = {name: record for name, record in every.items() if only is None or name in only}
    path = workspace.notebook(folder, lesson)
    notebook = workspace.load(path)
    figures = {cell.id: cell.source for cell in workspace.as_released(folder, lesson).cells if is_figure(cell)}
    checks: dict[str, Any] = {}
    kept = []
    for cell in notebook.cells:
        name = exercise_of(cell)
        if name in records and name not in checks:
            cell.source, checks[name] = _TELL.format(name), cell
        # nothing depends on the lesson's own figures, and drawing them takes longest
        if cell.cell_type == "code" and figures.get(cell.id) != cell.source and (not name or checks.get(name) is cell):
            kept.append(cell)
    for name in records:
        if name not in checks:  # if a check cell was deleted or rewritten, check at the end
            checks[name] = nbformat.v4.new_code_cell(_TELL.format(name))
            kept.append(checks[name])
    notebook.cells = kept
    trouble = _execute(notebook, path.parent)
    _every_package(lesson, notebook)
    answers = {grade_id(cell): cell for cell in reversed(kept) if grade_id(cell)}
    verdicts = [_verdict(lesson, record, checks[name], trouble) for name, record in records.items()]
    return [dataclasses.replace(verdict, stopped=_error(answers.get(verdict.exercise))) for verdict in verdicts]


def _every_package(lesson: str, notebook: Any) -> None:
    """Raise CourseError if one of the course's own cells failed for lack of a package, because then no answer is to blame."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []) if grader(cell).get("locked") else []:
            if output.output_type == "error" and output.ename == "ModuleNotFoundError":
                name = re.search(r"'([\w.]+)'|of ([\w.]+)", output.evalue)
                package = next(filter(None, name.groups())) if name else output.evalue
                raise CourseError(f"{lesson}: expected the package {package!r}, found none. `attn doctor` says what to install.")


def tell(exercise: str, namespace: Mapping[str, Any]) -> None:
    """Check `exercise` as defined in `namespace` and show the verdict as data. Runs in the kernel."""
    from IPython.display import display

    score = check.check_in(namespace, exercise)
    report = dataclasses.replace(score.report, following=())  # the next step is shown once, after all panels
    verdict = {name: getattr(report, name) for name in ("status", "score", "points", "headline", "advice", "unread")}
    display({_MIME: {**verdict, "misconception": report.recorded, "text": to_text(report)}}, raw=True)


def _execute(notebook: Any, folder: Path) -> str:
    """Run the cells in place. Returns why the kernel ended before the last cell, or "" if it did not."""
    from nbclient import NotebookClient
    from nbclient.exceptions import DeadKernelError

    at: list[int] = []
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        interrupt_on_timeout=True,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
        on_cell_execute=lambda cell, cell_index: at.append(cell_index),
    )
    try:
        environment = {**os.environ, **lab.kernel_environment()}
        _interruptible(client.async_execute(stderr=subprocess.DEVNULL, env=environment))  # cells' output comes in messages
    except DeadKernelError:
        cell = notebook.cells[at[-1]]
        name = f"`{grade_id(cell)}`" if grade_id(cell) else f"`{cell.source.strip().partition(chr(10))[0]} …`"
        return f"the cell {name} ended the kernel (an `exit`, or more memory than there is)"
    return ""


def _interruptible(work: Coroutine[Any, Any, Any]) -> None:
    """Run `work` to its end. Ctrl-C cancels `work` and is raised again once `work` has tidied up.

    `work` runs in another thread, because in this thread nbclient would catch the signal and lose its kernel.
    """
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def run() -> None:
        ready.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        await work

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(asyncio.run, run())
        try:
            done.result()
        except KeyboardInterrupt:
            loop, task = ready.result()
            assert task is not None
            loop.call_soon_threadsafe(task.cancel)
            done.exception()
            raise


def _verdict(lesson: str, record: AnyRecord, cell: Any, trouble: str) -> Checked:
    for output in cell.outputs:
        if output.output_type == "display_data" and _MIME in output.data:
            return Checked(lesson, record.id, **output.data[_MIME])
    reason = fact("rerun.stopped", reason=_error(cell) or trouble or fact("rerun.no_verdict"))
    headline, advice = say(reason), next_step(reason)
    head = head_text("fail", record.title, status_word("unchecked"), 0.0, record.points)
    text = f"{head}\n  {headline}\n  {advice}"
    return Checked(lesson, record.id, "fail", 0.0, record.points, headline, advice, None, text)


def _error(cell: Any) -> str:
    """Return the error that ended the cell on one line: its type and the beginning of its message."""
    outputs = [] if cell is None else cell.outputs
    message = next((f"{output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"), "")
    message = " ".join(message.split())
    message = message if len(message) <= MOST_SAID else f"{message[:MOST_SAID]} …"
    message = message.replace("_IncompleteInputError:", "SyntaxError:")  # how IPython shows errors of Python 3.13's parser
    return re.sub(r" \(\d+\.py, line (\d+)\)$", r" (line \1)", message)  # IPython numbers cells like files
