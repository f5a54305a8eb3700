"""Export a learner's answers from their notebooks as a package, and bring them into later lessons.

`work/answers/` holds one module per lesson, with the answer cells and only those definitions from other cells that they need.
`bring` rewrites the module of a lesson that it is asked for if the notebook has been saved since; `attn export-answers`
rewrites all modules. Export reads notebooks as data and runs nothing; `bring` then imports the module.
"""

import ast
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError, did_you_mean
from autograder.judging.records import ExerciseRecord
from autograder.notebooks.lesson_names import is_workshop, slug_of, workshops_beside
from autograder.notebooks.rebuild_submission import Cell, UnreadableError, read
from autograder.notebooks.roles import CHECK
from autograder.notebooks.scopes import scopes
from autograder.workspace import folder as workspace

FOLDER, UNWRITTEN = "answers", "not written yet"
_HEAD = '"""Your answers to lesson {name}, written by `bring` or `attn export-answers`: change the notebook instead."""\n'


@dataclass(frozen=True)
class Exported:
    """The outcome for one answer. `problem` is empty if the answer was written to the package."""

    lesson: str
    exercise: str
    problem: str = ""


def export(folder: Path) -> list[Exported]:
    """Rewrite the package of answers of the workspace `folder`, and return the outcome for each exercise."""
    for old in (folder / FOLDER).glob("*.py"):
        old.unlink()
    _make_package(folder)
    return [answer for name in workspace.names(folder) for answer in export_lesson(folder, name)]


def export_lesson(folder: Path, name: str) -> list[Exported]:
    """Rewrite the module of one lesson, or delete it if there is nothing to export. Returns the outcome for each exercise."""
    asked = list(workspace.load_pack(folder, name).in_code)
    try:
        source, problems = module_source(read(workspace.notebook(folder, name)), asked)
    except UnreadableError as error:
        source, problems = "", dict.fromkeys(asked, f"the notebook cannot be read: {error}")
    path = _module(folder, name)
    if source:
        _make_package(folder)
        path.write_text(_HEAD.format(name=name) + source, encoding="utf-8")
    else:
        path.unlink(missing_ok=True)
    return [Exported(name, exercise, problems.get(exercise, "")) for exercise in asked]


def _make_package(folder: Path) -> None:
    (folder / FOLDER).mkdir(exist_ok=True)
    (folder / FOLDER / "__init__.py").write_text('"""Your answers, one module for each lesson, made from your notebooks."""\n')


def _module(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{slug_of(name)}.py"


def _is_stale(folder: Path, name: str) -> bool:
    """Return whether a lesson's module is missing or older than its notebook."""
    module, notebook = _module(folder, name), workspace.notebook(folder, name)
    return not module.exists() or (notebook.exists() and notebook.stat().st_mtime_ns > module.stat().st_mtime_ns)


def module_source(cells: list[Cell], asked: list[str]) -> tuple[str, dict[str, str]]:
    """Return the source of a lesson's module, and the reason for each answer in `asked` that is missing from it."""
    problems, definitions, wanted = {}, [], set()
    answers = {cell.grade_id: cell for cell in cells if cell.kind == "code" and cell.grade_id in asked}
    for name in asked:
        if name not in answers:
            problems[name] = "its answer cell is missing: copy it from the release, by its name"
        elif problem := _problem(answers[name].source, name):
            problems[name] = problem
        else:
            wanted.add(name)
    for cell in cells:
        blank = cell.grade_id in asked and cell.grade_id not in wanted
        if cell.kind == "code" and not blank and not CHECK.match(cell.source.strip()):
            definitions += _definitions(cell, own=cell.grade_id in wanted)
    return _needed(definitions), problems


def _problem(source: str, name: str) -> str:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        return f"its cell is not valid Python: {getattr(error, 'msg', error)}" + (f" (line {line})" if line else "")
    definitions = [node for node in tree.body if name in _defined(node)]
    if not definitions:
        return f"its cell does not define {name}"
    # as released: ClearSolutions leaves `raise NotImplementedError(…)` in place of the solution
    raised = [ast.dump(node) for node in ast.walk(definitions[-1]) if isinstance(node, ast.Raise)]
    return UNWRITTEN if any("NotImplementedError" in error for error in raised) else ""


@dataclass(frozen=True)
class _Definition:
    """A statement that binds `names` and reads the global names in `needs`. `own` means that it is in an answer cell."""

    names: frozenset[str]
    needs: frozenset[str]
    source: str
    own: bool


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}


def _definitions(cell: Cell, *, own: bool) -> list[_Definition]:
    try:
        body = ast.parse(cell.source).body
    except (SyntaxError, ValueError, RecursionError):  # a magic or an unfinished cell has nothing to take
        return []
    definitions = []
    for node in body:
        if names := _defined(node):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            source = "\n".join(cell.source.splitlines()[first - 1 : node.end_lineno])
            if node.col_offset > 0 or ";" in source:
                source = ast.unparse(node)
            definitions.append(_Definition(frozenset(names), frozenset(scopes(source)[1]), source, own))
    return definitions


def _needed(definitions: list[_Definition]) -> str:
    """Return the source of the answers and of all that they need, in the notebook's order. Answers win over other cells."""
    place: dict[str, int] = {}
    for index, definition in enumerate(definitions):
        for name in definition.names:
            if definition.own or name not in place or not definitions[place[name]].own:
                place[name] = index
    todo = [index for index, definition in enumerate(definitions) if definition.own]
    kept = set(todo)
    while todo:
        for name in definitions[todo.pop()].needs:
            if name in place and place[name] not in kept:
                kept.add(place[name])
                todo.append(place[name])
    texts = [definitions[index].source for index in sorted(kept)]
    blocks = ["" if text.startswith(("import ", "from ")) else "\n\n" for text in texts]
    return "".join(f"{gap}\n{text}" for gap, text in zip(blocks, texts, strict=True)) + ("\n" if texts else "")


class Brought(dict[str, Any]):
    """A dictionary of answers by name. Its `repr` says of each requested answer whether it is the learner's own."""

    def __init__(self, lines: list[str], answers: dict[str, Any]) -> None:
        super().__init__(answers)
        self._lines = lines

    def __repr__(self) -> str:
        return "\n".join(self._lines)


def bring(*wanted: str, even_wrong: bool = False) -> Brought:
    """Return your own answers from earlier lessons that pass their checks, as `{name: answer}`.

    For example, `bring("positions.apply_rope")`. The answers come from the notebooks as last saved. An answer is left out, and
    you are told why, if there is no workspace, if you have not written it, or if it fails its lesson's visible check. With
    `even_wrong`, failing answers are included too. The slug of a chapter's core also covers the exercises in its workshops.

    Raises CourseError if the workspace has no such lesson or exercise.
    """
    try:
        folder = workspace.locate(None)
    except CourseError:
        return Brought(["No workspace here (`attn lab` makes one), so the given code is used."], {})
    lines, answers = [], {}
    width = max(len(name.partition(".")[2]) for name in wanted)
    for dotted in wanted:
        slug, _, name = dotted.partition(".")
        lesson, record = _asked_in(folder, workspace.find(folder, slug), name)
        answer, line = _own(folder, lesson, record, even_wrong=even_wrong)
        if answer is not None:
            answers[name] = answer
        lines.append(f"{name:{width}}  {line}")
    return Brought(lines, answers)


def _asked_in(folder: Path, lesson: str, name: str) -> tuple[str, ExerciseRecord]:
    """Return the notebook that has the exercise `name`, and the exercise's record.

    If `lesson` is a chapter's core, the chapter's workshops are searched too, so a name stays valid when an exercise moves to
    a workshop. Raises CourseError if there is no such exercise.
    """
    beside = [] if is_workshop(lesson) else workshops_beside(workspace.names(folder), lesson)
    known = []
    for notebook in (lesson, *beside):
        records = workspace.load_pack(folder, notebook).in_code
        if name in records:
            return notebook, records[name]
        known += list(records)
    raise CourseError(f"expected an exercise of {lesson}, got {name!r}.{did_you_mean(name, known)}")


def _own(folder: Path, lesson: str, record: ExerciseRecord, *, even_wrong: bool) -> tuple[Any, str]:
    from autograder.diagnosis.attempt import check_answer
    from autograder.diagnosis.phrase import clause

    given, slug = "the given one is used", slug_of(lesson)
    problem = ""
    if _is_stale(folder, lesson):
        problem = {answer.exercise: answer.problem for answer in export_lesson(folder, lesson)}.get(record.id, "")
    path = _module(folder, lesson)
    try:
        answer = getattr(_load(path, slug), record.id, None) if path.exists() else None
    except Exception as error:
        return None, f"{path.name} cannot be imported ({type(error).__name__}: {error}); {given}"
    if answer is None:
        return None, f"{problem or UNWRITTEN}; {given}"
    result = check_answer(record, answer)
    if result.passed:
        return answer, f"yours, and it passes its check of lesson {slug}"
    diagnosis = result.diagnosis
    known = f"you {clause(diagnosis.known[0])}" if diagnosis and diagnosis.certain and diagnosis.known else "run that check again"
    if even_wrong:
        return answer, f"yours, though it fails its check: {known}"
    return None, f"yours fails its check: {known}; {given}"


def _load(path: Path, slug: str) -> Any:
    """Load the module at `path` afresh, so that a new export takes effect without restarting the kernel."""
    name = f"{FOLDER}.{slug}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # inspect and pickle look up classes there
    spec.loader.exec_module(module)
    return module
