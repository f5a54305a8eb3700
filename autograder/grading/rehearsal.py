"""Check before grading that the lesson itself runs in the sandbox and its own answers get full marks there.

A given cell that fails, or a package that the sandbox lacks, is the instructor's error and would silently cost every learner
marks. So the release, answered with the references, is marked like a submission, once per version.
"""

from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring.course import FILE, CourseError
from autograder.grading import ledger
from autograder.grading.marking.mark_submission import mark
from autograder.grading.marking.scheme import MarkScheme
from autograder.judging.exercise import Prediction
from autograder.notebooks.atomic_write import write_whole
from autograder.notebooks.roles import grade_id, is_answer
from autograder.sandbox.client import Sandbox
from autograder.sandbox.run_submission import Cell

DONE = ".rehearsed"
_LACKS = "from importlib.util import find_spec\nprint(*[n for n in {!r} if find_spec(n) is None])"


def answered(scheme: MarkScheme) -> bytes:
    """Return the release with every exercise answered by its reference, as a learner would hand it in."""
    asked = scheme.visible.exercises.values()
    choices = {record.id: f'{record.id} = "{next(iter(record.choices))}"' for record in asked if isinstance(record, Prediction)}
    notebook: Any = nbformat.reads(nbformat.writes(scheme.released), as_version=4)
    for cell in notebook.cells:
        if is_answer(cell):
            cell.source = {**scheme.references, **choices}.get(str(grade_id(cell)), cell.source)
    return str(nbformat.writes(notebook)).encode()


def problems(scheme: MarkScheme, sandbox: Sandbox, data: bytes, requires: tuple[str, ...]) -> list[str]:
    """Return the problems that keep the sandbox from marking fairly, as sentences. `data` comes from `answered`."""
    with sandbox.submission([Cell("requires", _LACKS.format(requires))]) as submission:
        missing = "".join(str(output.get("text", "")) for output in submission.outputs[0].outputs)
    lacking = [f"the sandbox has no package {name!r}, which {FILE} requires" for name in missing.split()]
    marked = mark(scheme, sandbox, data)
    lacking += [f"its given cell {cell}" for cell in marked.broken]
    if lacking:
        return lacking
    return [
        f"its own answer to {name!r} gets {report.score:g} of {report.points:g}: {report.headline}"
        for name, report in marked.reports.items()
        if report.score < report.points and not report.unfinished  # timeouts don't count, because the machine may be busy
    ]


def refuse(scheme: MarkScheme, problems: list[str]) -> None:
    """Raise CourseError with advice for the instructor if there are `problems`."""
    if problems:
        raise CourseError(
            f"{scheme.assignment}: expected the lesson with its own answers to get full marks in the sandbox, but "
            + "; ".join(problems)
            + f". Nobody was graded. Give the sandbox what it lacks (`given` in {FILE}, or install it here), or mend the lesson."
        )


def remember(root: Path, scheme: MarkScheme) -> None:
    """Record that the rehearsal of `scheme` passed."""
    write_whole(_path(root, scheme), _key(scheme) + "\n")


def is_known(root: Path, scheme: MarkScheme) -> bool:
    """Return whether this version of the assignment was rehearsed here with these versions of the libraries."""
    path = _path(root, scheme)
    return path.exists() and path.read_text(encoding="utf-8").strip() == _key(scheme)


def _path(root: Path, scheme: MarkScheme) -> Path:
    return root / ledger.FOLDER / scheme.assignment / DONE


def _key(scheme: MarkScheme) -> str:
    return ledger.key(scheme.digest, str(sorted(ledger.versions().items())).encode(), "")
