"""The source of a reference, as a release needs it: read as text, its body between nbgrader's solution markers."""

import ast
import re
from typing import Any

from autograder.authoring.course import CourseError, references_folder, settings
from autograder.notebooks.roles import is_answer

_IMPORT = re.compile(r"^from (\w+)\.(\w+) import (\w+(?:\s*,\s*\w+)*)$")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def solution_source(module: str, name: str) -> str:
    """The source of `name` in `module` of the package of references, its body between nbgrader's solution markers.

    Signature and docstring stay outside the markers: they are the task. A class keeps its own signature and docstring,
    and each of its methods is treated like a function. Read as text: nothing is imported or run.
    """
    folder = references_folder()
    path = folder / f"{module}.py"
    if not path.exists():
        wanted = f"from {folder.name}.{module} import {name}"
        raise CourseError(f"expected {path} for `{wanted}`, found none. Correct the lesson's import.")
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return _marked(node, text.splitlines())
    raise CourseError(f"{path}: expected a function or class {name!r}, found none. Correct the lesson's import.")


def injected(cell: Any) -> str:
    """The cell's source; where an answer cell imports references, the sources of what it imports."""
    match = _IMPORT.match(cell.source.strip()) if cell.cell_type == "code" and is_answer(cell) else None
    if match is None or match[1] != settings().references:
        return str(cell.source)
    return "\n\n\n".join(solution_source(match[2], name) for name in re.split(r"\s*,\s*", match[3]))


def modules_of(text: str) -> list[str]:
    """The modules of references that a lesson's text imports from."""
    return re.findall(rf"^from {settings().references}\.(\w+) import", text, re.MULTILINE)


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
