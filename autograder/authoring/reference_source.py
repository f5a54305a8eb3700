"""Find what a lesson takes from other files: the sources of its references, and the files that it depends on."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder.authoring.course import PACKAGE, CourseError, Lesson, course_root, given_folders, references_folder, settings
from autograder.notebooks.roles import is_answer

_IMPORT = re.compile(r"^from (\w+)\.(\w+) import (\w+(?:\s*,\s*\w+)*)$")
_NAMED = re.compile(r"[a-zA-Z_][\w.]*:[a-zA-Z_]\w*")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def solution_source(module: str, name: str) -> str:
    """Return the source of `name` in `module` of the references package, with its body between nbgrader's solution markers.

    Signature and docstring stay outside the markers, because they are the task. A class keeps its own signature and docstring,
    and each of its methods is treated like a function. The module is read as text, and nothing is imported or run. If it
    imports `name` from another module of the package, the source is taken from there. Raises CourseError if there is no such
    definition.
    """
    path, node = definition(module, name)
    return _marked(node, path.read_text(encoding="utf-8").splitlines())


def definition(module: str, name: str) -> tuple[Path, ast.FunctionDef | ast.ClassDef]:
    """Return the file that defines `name`, and the definition. The file is `module` of the references, or one that it imports.

    Raises CourseError if there is none.
    """
    folder = references_folder()
    path = folder.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        wanted = f"from {folder.name}.{module} import {name}"
        raise CourseError(f"expected {path} for `{wanted}`, found none. Correct this import.")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return path, node
    for node in body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name and alias.asname in (None, name) for alias in node.names):
            package, _, origin = (node.module or "").partition(".")
            if package == folder.name and origin and not node.level:
                return definition(origin, name)
    raise CourseError(f"{path}: expected a function or class {name!r}, found none. Correct the import.")


def injected(cell: Any) -> str:
    """Return the cell's source or, if it is an answer cell that imports references, the sources of these."""
    match = _IMPORT.match(cell.source.strip()) if cell.cell_type == "code" and is_answer(cell) else None
    if match is None or match[1] != settings().references:
        return str(cell.source)
    return "\n\n\n".join(solution_source(match[2], name) for name in re.split(r"\s*,\s*", match[3]))


def origin_of(cell: Any) -> Path | None:
    """Return the file that defines the first reference that an answer cell imports; None if it imports none."""
    match = _IMPORT.match(cell.source.strip())
    return definition(match[2], re.split(r"\s*,\s*", match[3])[0])[0] if match else None


def files_of(lesson: Lesson) -> list[Path]:
    """Return all files that an executed lesson depends on.

    These are its text, its exercises, and what it imports from references and given packages, directly or indirectly. Data
    files that share a module's name belong to the module.
    """
    import jupytext

    code = [cell.source for cell in jupytext.read(lesson.path).cells if cell.cell_type == "code"]
    asked = [name for source in code for name in imported_names(source)]
    asked += [f"{references_folder().name}.{slug}" for slug in {lesson.slug, lesson.exercises_slug}]
    files = files_behind(asked, _packages())
    exercises, slug = course_root() / "exercises", lesson.exercises_slug
    declared = [exercises / f"{slug}.py", *(exercises / slug).rglob("*.py")]
    return [lesson.path, *sorted(files), *sorted(path for path in declared if path.exists())]


def pack_files_of(lesson: Lesson) -> list[Path]:
    """Return the files that a lesson's pack depends on: its exercises and their imports from the course, direct or indirect.

    The files include the course's operators. A function named by `behaviour="package.module:function"` counts as imported.
    """
    packages = {**_packages(), PACKAGE: course_root()}
    operators = settings().operators
    asked, files = [f"{PACKAGE}.exercises.{lesson.exercises_slug}", *([operators] if operators else [])], dict[Path, None]()
    while asked:
        fresh = [path for path in files_behind(asked, packages) if path not in files]
        files |= dict.fromkeys(fresh)
        sources = [path.read_text(encoding="utf-8") for path in fresh if path.suffix == ".py"]
        texts = [node.value for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
        asked = [text.partition(":")[0] for text in texts if isinstance(text, str) and _NAMED.fullmatch(text)]
    return sorted(files)


def _packages() -> dict[str, Path]:
    """Return the course's packages by name: the given ones and the references."""
    references = references_folder()
    return {path.stem: path for folder in given_folders() for path in folder.iterdir()} | {references.name: references}


def files_behind(names: Sequence[str], packages: dict[str, Path]) -> list[Path]:
    """Return the files in `packages` that importing `names` runs, including indirect imports and the data beside them."""
    left, asked, files = [*names], set[str](), dict[Path, None]()
    while left:
        name = left.pop()
        for path, module in modules_of(name, packages) if name not in asked else ():
            source = path.read_text(encoding="utf-8")
            inside = module if path.stem == "__init__" else module.rpartition(".")[0]
            left += imported_names(source, inside, lazy=name.removeprefix(f"{module}."))
            left += imported_names(source, inside) if path not in files else []
            files |= dict.fromkeys(each for each in path.parent.glob(f"{path.stem}.*") if each.is_file())
        asked.add(name)
    return list(files)


def modules_of(name: str, packages: dict[str, Path]) -> Iterator[tuple[Path, str]]:
    """Yield the files that `import name` runs, each with its module's name. `name` may continue inside the last module."""
    module, *parts = name.split(".")
    place = packages.get(module)
    while place is not None:
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if path.exists():
            yield path, module
        elif not place.is_dir():
            return
        place, module = (place / parts[0], f"{module}.{parts.pop(0)}") if parts and place.is_dir() else (None, "")


def imported_names(source: str, package: str = "", *, lazy: str = "") -> list[str]:
    """Return the dotted names that `source` (a cell, or a module in `package`) imports; empty if it is not plain Python.

    With `lazy`, returns only where that name comes from, for a package whose `__getattr__` imports it on demand. The package's
    imports for type checkers say so.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    for_types = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    if not lazy:
        tree.body = [node for node in tree.body if node not in for_types]
    names = []
    for node in ast.walk(tree) if not lazy else (each for block in for_types for each in ast.walk(block)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            origin = [*above, *filter(None, [node.module])]
            names += [".".join([*origin, alias.name]) for alias in node.names if lazy in ("", alias.name)]
    return names


def _marked(node: ast.FunctionDef | ast.ClassDef, lines: list[str]) -> str:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
    out = lines[first : node.end_lineno]
    functions = [node] if isinstance(node, ast.FunctionDef) else [n for n in node.body if isinstance(n, ast.FunctionDef)]
    for function in sorted(functions, key=lambda f: f.lineno, reverse=True):
        body = function.body
        has_doc = ast.get_docstring(function) is not None
        if has_doc and len(body) == 1:
            continue
        start = (body[0].end_lineno or 0) if has_doc else body[0].lineno - 1
        indent = " " * body[-1].col_offset
        stop = function.end_lineno or 0
        out[start - first : stop - first] = [indent + BEGIN, *out[start - first : stop - first], indent + END]
    return "\n".join(out)
