"""Explain what an answer's mark doesn't: parameters with other names, missing modules, errors and random numbers."""

import re
from dataclasses import dataclass, replace
from typing import Any

from autograder.diagnosis.explain import Report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import next_step, say
from autograder.grading.marking.read_submission import Imports
from autograder.judging.records import AnyResult, ExerciseRecord, Result
from autograder.notebooks.roles import grade_id

_DRAWS = re.compile(  # calls that draw random numbers
    r"\b(?:torch\.(?:randn?|randint|randperm|normal|bernoulli|multinomial)|random\.\w+|default_rng)\(|\.(?:normal_|uniform_|bernoulli_)\("
)
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w.]*(?:[ \t]*,[ \t]*[A-Za-z_][\w.]*)*)", re.MULTILINE)


@dataclass(frozen=True)
class CellError:
    """The error with which a cell stopped. Neither part has line breaks."""

    type: str
    message: str

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"


def explained(report: Report, cell: Any) -> Report:
    """Return the report on the answer in `cell`, with the reason that the cell itself gives.

    If an answer is missing because its cell stopped, the reason is the cell's error. If an answer with wrong values draws
    random numbers and no known mistake explains the values, the reason is the random numbers.
    """
    error = error_of(cell)
    if report.status == "todo" and error is not None and error.type != "NotImplementedError":
        message = error.message[:200] or error.type
        reason = fact("report.cell_stopped", name=str(grade_id(cell)), type=error.type, message=message)
        return replace(report, status="fail", headline=say(reason), advice=next_step(reason), hints=())
    close = report.status in ("fail", "part") and not report.known and ("values", "fail") in report.checks
    if close and _DRAWS.search(cell.source):
        reason = fact("report.draws")
        return replace(report, headline=say(reason), advice=next_step(reason))
    return report


def error_of(cell: Any) -> CellError | None:
    """Return the error with which `cell` stopped, or None if it did not stop."""
    output = next((output for output in cell.outputs if output.output_type == "error"), None)
    if output is None:
        return None
    return CellError(re.sub(r"\s+", " ", output.ename), re.sub(r"\s+", " ", output.evalue.lstrip()))


def renamed(record: ExerciseRecord, source: str) -> str | None:
    """Return a note if the answer's parameters have other names than the lesson's, in which case it was called by position.

    Only the text is read, because a sandboxed function's own account of itself is not trusted.
    """
    signature = re.search(rf"^def[ \t]+{re.escape(record.id)}[ \t]*\(([^()=]*)\)", source, re.MULTILINE)
    asked = list(record.cases[0].probe.inputs.items()) if signature and record.cases else []
    theirs = _parameters(signature[1]) if signature else []
    if len(theirs) != len(asked) or theirs == asked or not all(name.isidentifier() for name in theirs):
        return None
    theirs_said, ours_said = ", ".join(theirs), ", ".join(asked)
    return f"{record.id} was called by position, since its parameters are {theirs_said} where the lesson has {ours_said}"


def _parameters(signature: str) -> list[str]:
    """Return the names of the parameters, without annotations, whose commas may stand in brackets or quotes.

    >>> _parameters('Q: Float[Tensor, "n d"], K')
    ['Q', 'K']
    """
    plain, depth = "", 0
    for token in re.findall(r"\"[^\"]*\"|'[^']*'|.", signature, re.DOTALL):
        depth += (token in "[{") - (token in "]}")
        plain += "" if depth else token
    return [part.partition(":")[0].strip() for part in plain.split(",")]


def lacks_module(visible: AnyResult) -> bool:
    """Return whether an answer failed because it asked for a module that is not installed here."""
    failures = [case.observation.failure for case in visible.cases if not case.passed] if isinstance(visible, Result) else []
    return any(failure is not None and failure.type == "ModuleNotFoundError" for failure in failures)


def missing_module(name: str, source: str, imports: Imports) -> str:
    """Return the note for an answer that fails to import a module: it may be right where the module is installed."""
    asked = [module for match in _IMPORT.finditer(source) for module in map(str.strip, match[1].split(","))]
    module = next((repr(module) for module in asked if not imports.has(module)), "a module")
    return f"{name!r} imports {module}, which the grader doesn't have: the answer may be right, so a person should look at it"
