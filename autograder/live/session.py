"""Check an exercise in a browser tab: run the cells that it needs in a fresh namespace, and return the notebook's own panel.

The page's worker calls `check` with the text of every answer, or `run` with the text of a given cell. Nothing is kept
between two calls, so the order in which a reader edits the cells never matters.
"""

import ast
import contextlib
import dataclasses
import html
import io
import json
import linecache
import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from autograder.authoring.course import CourseError
from autograder.diagnosis import panel
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import say
from autograder.live.needed_cells import needed, needed_by_cell
from autograder.workspace.in_cells.check import judge_in

MOST_PRINTED = 20_000  # characters of an answer's output, because a page that shows more gets slow


class Checked(TypedDict):
    """What the page shows: the panel as HTML, its status and marks, and what the cells printed.

    `needs` names a module that a cell imports and that isn't loaded; the worker loads the module and calls again.
    """

    html: str
    status: str
    score: float
    points: float
    printed: str
    needs: str


def check(folder: Path, exercise: str, answers: Mapping[str, str]) -> Checked:
    """Check `exercise` of the released notebook in `folder` with the learner's `answers` (source by exercise)."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed, ran = io.StringIO(), [""]
    for name, source in needed(_opened(folder), exercise, answers):
        ran.append(source)
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                _run(name, source, names)
        except ModuleNotFoundError as error:
            if error.name and name != exercise:
                return _say(say(fact("live.imports", name=error.name)), printed, needs=error.name)
            return _broken(name, exercise, error, printed, needs=error.name or "")
        except BaseException as error:  # SystemExit and KeyboardInterrupt in an answer are failures too
            return _broken(name, exercise, error, printed)
    names["_ih"] = [*ran, f"check({exercise!r})"]  # as in a notebook, where a check can see which cell ran before it
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            result = judge_in(names, exercise)
            report = make_report(result)
    except CourseError as error:
        return _say(str(error), printed)
    report = dataclasses.replace(report, hints=())  # the page has a button for them
    if result.failure is not None and result.failure.kind == "blank":
        report = dataclasses.replace(report, advice=say(fact("live.blank")))
    status = "noted" if report.surprise else report.status
    return _shown(panel.to_html(report), status, printed, score=float(report.score), points=float(report.points))


def run(folder: Path, cell: str, source: str, answers: Mapping[str, str]) -> Checked:
    """Run the given cell called `cell` with the text `source`, and return the value of its last expression as HTML."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed, shown = io.StringIO(), None
    for name, text in needed_by_cell(_opened(folder), cell, source, answers):
        own = name == cell
        try:
            with contextlib.redirect_stdout(printed if own else io.StringIO()), contextlib.redirect_stderr(printed):
                shown = _run(name, text, names)
        except BaseException as error:  # SystemExit and KeyboardInterrupt in a cell are failures too
            missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
            return _broken(name, cell, error, printed, needs=missing, given=True)
    return _shown("" if shown is None else _displayed(shown), "pass", printed)


def _opened(folder: Path) -> list[dict[str, Any]]:
    """Return the cells of the released notebook in `folder`, and change to that folder, where the check looks for the pack."""
    os.chdir(folder)
    cells: list[dict[str, Any]] = json.loads(Path(f"{folder.name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return cells


def _run(name: str, source: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last statement if that is an expression, otherwise None.

    The source is stored where tracebacks and the grader look it up.
    """
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source, file)
    last = tree.body[-1] if tree.body else None
    value = last.value if isinstance(last, ast.Expr) else None
    if value is not None:
        tree.body.pop()
    exec(compile(tree, file, "exec", dont_inherit=True), names)
    return None if value is None else eval(compile(ast.Expression(value), file, "eval", dont_inherit=True), names)


def _displayed(value: object) -> str:
    """Return what a notebook shows for a value: a drawing or a table if it has one, otherwise its representation."""
    bundle = getattr(value, "_repr_mimebundle_", None)
    data: Mapping[str, str] = bundle() if bundle else {}
    for kind, method in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
        markup = data.get(kind) or (getattr(value, method)() if hasattr(value, method) else "")
        if markup:
            return str(markup)
    return f"<pre>{html.escape(repr(value)[:MOST_PRINTED])}</pre>"


def _broken(
    name: str, exercise: str, error: BaseException, printed: io.StringIO, *, needs: str = "", given: bool = False
) -> Checked:
    """Return a panel that says which cell failed at which line. `given` means that a reader ran the given cell `exercise`."""
    if isinstance(error, SyntaxError):
        line, message = error.lineno or 0, f"{type(error).__name__}: {error.msg}"
    else:
        lines = [frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == f"<{name}>"]
        line, message = (lines[-1] if lines else 0), f"{type(error).__name__}: {error}"
    where = fact("live.line", line=line) if line else ""
    if given and isinstance(error, NotImplementedError):  # an answer above is still blank
        blank = traceback.extract_tb(error.__traceback__)[-1].filename.strip("<>")
        return _say(say(fact("live.open", name=blank)), printed)
    if name == exercise:
        stopped = fact("live.stopped", where=where)
    elif given:
        stopped = fact("live.cell_above", name=name, where=where)
    else:
        stopped = fact("live.above", name=name, where=where, needs=exercise)
    if isinstance(error, NameError) and len(error.name or "") == 1 and exercise.startswith("predict"):
        message += f"\n{say(fact('live.quotes', letter=error.name))}"
    return _say(say(stopped), printed, detail=message, needs=needs)


def _say(headline: str, printed: io.StringIO, *, detail: str = "", needs: str = "") -> Checked:
    """Return a panel, framed like the others, for an error that keeps the answer from being judged."""
    body = f"<p style='margin:2px 0'><b>{panel.inline(headline)}</b></p>"
    if detail:
        body += f"<pre style='margin:6px 0 0;white-space:pre-wrap'>{html.escape(detail)}</pre>"
    return _shown(panel.framed(body, "fail"), "fail", printed, needs=needs)


def _shown(
    markup: str, status: str, printed: io.StringIO, *, score: float = 0.0, points: float = 0.0, needs: str = ""
) -> Checked:
    text = printed.getvalue()[:MOST_PRINTED]
    return Checked(html=markup, status=status, score=score, points=points, printed=text, needs=needs)
