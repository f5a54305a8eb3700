"""nbgrader preprocessors: how solutions enter a release, and how plain nbgrader gets a submission that it can trust the form of.

`InjectSolutions` and `StubPredictions` stand in `GenerateAssignment.preprocessors`, `Rebuild` is the first in
`Autograde.sanitize_preprocessors`. `attn grade` needs none of them: see `autograder.oracle` and `autograder.gradebook`.
"""

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.notebook import is_answer
from autograder.registry import CourseError, course_root
from autograder.submission import cell_of, rebuild

_IMPORT = re.compile(r"^from solutions\.(\w+) import (\w+(?:\s*,\s*\w+)*)$")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def solution_source(module: str, name: str) -> str:
    """The source of `solutions.<module>.<name>`, its body between nbgrader's solution markers.

    Signature and docstring stay outside the markers: they are the task. A class keeps its own signature and docstring,
    and each of its methods is treated like a function. Read as text: nothing is imported or run.
    """
    path = course_root().parent / "solutions" / f"{module}.py"
    if not path.exists():
        raise CourseError(
            f"expected {path} for `from solutions.{module} import {name}`, found none. Correct the lesson's import."
        )
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return _marked(node, text.splitlines())
    raise CourseError(f"{path}: expected a function or class {name!r}, found none. Correct the lesson's import.")


def injected(cell: Any) -> str:
    """The cell's source; where an answer cell imports from `solutions`, the sources of what it imports."""
    match = _IMPORT.match(cell.source.strip()) if cell.cell_type == "code" and is_answer(cell) else None
    if match is None:
        return str(cell.source)
    return "\n\n\n".join(solution_source(match[1], name) for name in re.split(r"\s*,\s*", match[2]))


def _marked(node: ast.FunctionDef | ast.ClassDef, lines: list[str]) -> str:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
    out = lines[first : node.end_lineno]
    functions = [node] if isinstance(node, ast.FunctionDef) else [n for n in node.body if isinstance(n, ast.FunctionDef)]
    for function in sorted(functions, key=lambda f: f.lineno, reverse=True):
        body = function.body
        has_doc = (
            isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str)
        )
        if has_doc and len(body) == 1:
            continue
        start = (body[0].end_lineno or 0) if has_doc else body[0].lineno - 1
        indent = " " * body[-1].col_offset
        stop = function.end_lineno or 0
        out[start - first : stop - first] = [indent + BEGIN, *out[start - first : stop - first], indent + END]
    return "\n".join(out)


class InjectSolutions(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """Replace `from solutions.x import f` in answer cells by `f`'s source, ready for ClearSolutions."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        cell.source = injected(cell)
        return cell, resources


class StubPredictions(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """After ClearSolutions: a prediction's stub is `name = None`, not a NotImplementedError that would litter the notebook."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        from autograder.registry import find_lesson

        notebook = resources["nbgrader"]["notebook"]
        choices = {e.id: e.choices for e in find_lesson(notebook).exercises() if e.choices}
        for cell in nb.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if is_answer(cell) and name in choices:
                options = " or ".join(f'"{key}"' for key in choices[name])
                cell.source = f"{name} = None  # your prediction: {options}"
        return nb, resources


class Rebuild(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """The released notebook with only the learner's answers in it: deleted, doubled, moved, tagged or forged cells do nothing."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        assignment, notebook = resources["nbgrader"]["assignment"], resources["nbgrader"]["notebook"]
        coursedir = self.parent.parent.coursedir  # of the converter, whose exporter owns this step
        path = Path(coursedir.format_path(coursedir.release_directory, ".", assignment)) / f"{notebook}.ipynb"
        if not path.exists():
            raise CourseError(f"expected the released notebook at {path}, found none. Run `attn build`.")
        rebuilt = rebuild(nbformat.read(path, as_version=4), [cell_of(cell) for cell in nb.cells])
        for flag in rebuilt.flags:
            self.log.warning("%s: %s", resources["nbgrader"]["student"], flag)
        return rebuilt.notebook, resources
