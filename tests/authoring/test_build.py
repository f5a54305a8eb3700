"""Lessons, source notebooks, releases: one way, complete, and without a leak."""

import ast
import builtins
import functools
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import numpy as np
import pytest

import autograder
from autograder.authoring import course, digests, make_release
from autograder.authoring.course import CourseError, course_root, find_lesson, lessons
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import BEGIN, END, definition, solution_source
from autograder.authoring.scaffold import new_lesson
from autograder.judging.call_answer import same
from autograder.judging.exercise import Prediction
from autograder.judging.values import EncodedValue
from autograder.notebooks.roles import INSTALL, exercise_of, is_answer, is_grade
from autograder.packs import make_pack, pack_file

ROOT = course_root()
LESSONS = [pytest.param(lesson, id=lesson.slug) for lesson in lessons()]


def _released(lesson: course.Lesson) -> list[Path]:
    return sorted((ROOT / "release" / lesson.name).iterdir())


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_release_is_one_notebook_and_one_pack(lesson: course.Lesson) -> None:
    assert [path.name for path in _released(lesson)] == [f"{lesson.name}.ipynb", f"{lesson.slug}{pack_file.SUFFIX}"]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_release_holds_no_reference_code_no_model_answer_and_no_output(lesson: course.Lesson) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in _released(lesson) if path.suffix == ".ipynb")
    notebook = nbformat.reads(text, as_version=4)
    assert "solutions" not in "".join(c.source for c in notebook.cells if c.cell_type == "code")
    assert "BEGIN SOLUTION" not in text
    assert "Model answer" not in text
    assert "Marking scheme" not in text
    assert not any(cell.get("outputs") for cell in notebook.cells)
    # in answer cells; what a lesson shows of itself (code with a bug to be found) stands in its text, for everybody
    sources = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code" and is_answer(cell))
    for line in _body_lines(lesson):
        assert line not in sources, line
    own = {cell.source for cell in read_lesson(lesson).cells if cell.cell_type == "code" and not is_answer(cell)}
    given = {cell.source for cell in notebook.cells if cell.cell_type == "code" and not is_answer(cell) and cell.id != INSTALL}
    assert given <= own


def _body_lines(lesson: course.Lesson) -> set[str]:
    """The telling lines of the reference answers: long enough that they are nobody's by chance."""
    lines: set[str] = set()
    found = re.findall(r"^from solutions\.(\w+) import (\w+)$", lesson.path.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for _, name in found} == {exercise.id for exercise in lesson.in_code()}
    for module, name in found:
        marked = solution_source(module, name).split(BEGIN)
        for part in marked[1:]:
            lines |= {line.strip() for line in part.split(END)[0].splitlines() if len(line.strip()) > 24}
    return lines


@functools.cache
def _drawn(lesson: course.Lesson, seed: int) -> dict[str, list[EncodedValue]]:
    """The inputs of each exercise's cases, as drawn from `seed`."""
    return {
        exercise.id: [make_pack.drawn_inputs(exercise, case, index, seed)[1] for index, case in enumerate(exercise.cases)]
        for exercise in lesson.in_code()
    }


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_visible_pack_holds_no_hidden_input(lesson: course.Lesson) -> None:
    hidden, others = (_drawn(lesson, make_pack.seed_from(secret, lesson.slug)) for secret in ("a secret", "another"))
    shown = _drawn(lesson, make_pack.VISIBLE_SEED)
    with np.load(ROOT / "release" / lesson.name / f"{lesson.slug}{pack_file.SUFFIX}") as data:
        visible = np.concatenate([np.ravel(data[name]).astype(float) for name in data.files if name != "manifest"])
    telling = []
    for name, cases in hidden.items():
        # round numbers (0, 0.5, a boundary) may be in both packs; any other drawn one has digits that do not come twice
        numbers = _floats(cases)
        numbers = numbers[np.abs(numbers * 100 - np.round(numbers * 100)) > 1e-4]
        if numbers.size and np.isin(numbers, _floats(others[name])).mean() < 0.5:
            telling.append(numbers)
    if telling:
        # two draws of single precision agree by chance about once in ten million pairs: one number in a thousand, at most
        assert np.isin(np.concatenate(telling), visible).mean() < 1e-2
    else:  # sizes, round numbers or those of a fixed table, which can come twice: not all of them do
        assert not all(same(a, b) for name in hidden for a, b in zip(hidden[name], shown[name], strict=True))


def _floats(drawn: list[EncodedValue]) -> np.ndarray:
    arrays = [np.ravel(array).astype(float) for inputs in drawn for array in inputs.arrays if array.dtype.kind == "f"]
    numbers = np.concatenate(arrays or [np.empty(0)])
    return numbers[np.isfinite(numbers)]


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_hidden_case_has_the_inputs_of_a_visible_one(lesson: course.Lesson) -> None:
    one, two = (_drawn(lesson, seed) for seed in (make_pack.VISIBLE_SEED, make_pack.seed_from("a secret", lesson.slug)))
    for name, cases in one.items():
        for number, (a, b) in enumerate(zip(cases, two[name], strict=True)):
            drawn = any(array.dtype.kind == "f" for array in a.arrays)  # sizes alone can come twice
            with np.errstate(invalid="ignore"):  # NaN may be part of an input
                assert not (drawn and same(a, b)), f"{name}: case {number}"


@pytest.mark.parametrize("lesson", LESSONS)
def test_stubs_keep_signature_and_docstring(lesson: course.Lesson) -> None:
    notebook = nbformat.read(ROOT / "release" / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    stubs = {c.metadata.nbgrader.grade_id: c.source for c in notebook.cells if is_answer(c) and c.cell_type == "code"}
    for exercise in lesson.exercises():
        stub = stubs[exercise.id]
        if isinstance(exercise, Prediction):
            assert stub.startswith(f"{exercise.id} = None")
            continue
        node = ast.parse(stub).body[-1]
        assert isinstance(node, ast.FunctionDef | ast.ClassDef)
        assert ast.get_docstring(node)
        assert 'raise NotImplementedError("not written yet")' in stub


def _bound(source: str) -> set[str]:
    """List the names that a cell's top level binds: by import, assignment, loop or definition."""
    names: set[str] = set()
    left: list[ast.AST] = list(ast.parse(source).body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            left += ast.iter_child_nodes(node)
    return names


def _read_by_definition(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    """List the names that Python reads when it runs a definition: annotations, decorators, defaults and base classes."""
    if isinstance(node, ast.FunctionDef):
        read: list[ast.AST | None] = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults, node.returns]
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        read += [argument.annotation for argument in every if argument]
        inner: set[str] = set()
    else:
        read = [*node.decorator_list, *node.bases, *node.keywords]
        own = [part for part in node.body if not isinstance(part, ast.FunctionDef | ast.ClassDef)]
        parts = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.ClassDef)]
        read += own
        bound = set().union(*(_bound(ast.unparse(part)) for part in node.body))
        inner = set().union(*(_read_by_definition(part) for part in parts)) - bound
    nodes = [part for tree in read if tree is not None for part in ast.walk(tree)]
    return inner | {part.id for part in nodes if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def test_a_name_that_a_definition_reads_is_found_in_classes_and_in_functions_and_not_in_bodies() -> None:
    cell = "@d\nclass A(B):\n    x: C = y\n    def f(self, a: D[E, 'F'] = g, *b: H) -> I:\n        return z\n"
    node = ast.parse(cell).body[0]
    assert isinstance(node, ast.ClassDef)
    assert _read_by_definition(node) == set("dBCyDEgHI")
    assert _bound("import a.b\nfrom c import d as e\nfor f in x:\n    g, h = y\n[k for k in z]\ndef m(): n = 1") == set("aefghm")


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_name_that_a_stub_reads_is_defined_above_it(lesson: course.Lesson) -> None:
    """A learner runs a stub before it is written: a missing import would end in a NameError that is none of theirs."""
    notebook = nbformat.read(ROOT / "release" / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    known = set(dir(builtins))
    for cell in notebook.cells:
        if cell.cell_type != "code" or cell.id == INSTALL:
            continue
        if is_answer(cell):
            for node in ast.parse(cell.source).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    missing = _read_by_definition(node) - known
                    assert not missing, f"{cell.id}: {node.name} reads {missing}"
                known |= _bound(ast.unparse(node))
        else:
            known |= _bound(cell.source)


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_cell_has_an_id_and_graded_cells_have_it_as_grade_id(lesson: course.Lesson) -> None:
    for cell in read_lesson(lesson).cells:
        if "nbgrader" in cell.metadata:
            assert cell.id == cell.metadata.nbgrader.grade_id


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_one_title_and_a_shallow_outline(lesson: course.Lesson) -> None:
    text = [line for cell in read_lesson(lesson).cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    levels = [len(line) - len(line.lstrip("#")) for line in text if line.startswith("#")]
    assert levels.count(1) == 1
    assert max(levels) <= 3


@pytest.mark.parametrize("lesson", LESSONS)
def test_source_notebooks_write_nothing_to_stderr_and_end_with_full_marks(lesson: course.Lesson) -> None:
    notebook = nbformat.read(ROOT / "source" / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr"
            assert output.output_type != "error"
        if exercise_of(cell):
            assert float(cell.outputs[0]["data"]["text/plain"]) == cell.metadata.nbgrader.points


@pytest.fixture
def scratch_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of course/ and solutions/ that a test may edit, standing in for the real ones."""
    for name in ("course", "solutions"):
        shutil.copytree(ROOT.parent / name, tmp_path / name, ignore=shutil.ignore_patterns("gradebook.db*", "__pycache__"))
    (tmp_path / "tests").mkdir()
    monkeypatch.setenv("ATTN_COURSE", str(tmp_path / "course"))
    course.course_root.cache_clear()
    yield tmp_path / "course"
    course.course_root.cache_clear()


def test_a_hand_edit_of_a_generated_file_is_found_and_the_file_to_edit_is_named(scratch_clone: Path) -> None:
    path = scratch_clone / "release" / "00_start_here" / "00_start_here.ipynb"
    path.write_text(path.read_text().replace("Start here", "Start there"))
    (problem,) = [line for line in make_release.check([find_lesson("start_here")]) if "00_start_here" in line]
    assert "course/lessons/00_start_here.md" in problem


def test_a_page_that_lessons_lead_to_stands_where_their_links_look(scratch_clone: Path) -> None:
    def wrong() -> list[str]:
        return [line for line in make_release.check([]) if "appendix" in line]

    for kind in ("source", "release"):
        (scratch_clone / kind / "appendix.md").unlink(missing_ok=True)
    assert len(wrong()) == 2
    list(make_release.build([]))
    assert wrong() == []
    for lesson in lessons():
        path = scratch_clone / "release" / lesson.name / f"{lesson.name}.ipynb"
        for name in course.BESIDE.findall(path.read_text(encoding="utf-8")):
            assert (path.parent / ".." / name).read_bytes() == (scratch_clone / name).read_bytes()
    (scratch_clone / "release" / "appendix.md").write_text("edited here")
    assert wrong() == ["course/release/appendix.md differs from course/appendix.md: run `attn build`"]


def test_a_changed_lesson_is_found(scratch_clone: Path) -> None:
    path = scratch_clone / "lessons" / "00_start_here.md"
    path.write_text(path.read_text() + "\nOne more sentence.\n")
    assert make_release.check([find_lesson("start_here")])


def test_a_lesson_is_built_anew_where_what_it_is_given_or_what_its_answers_import_changes(scratch_clone: Path) -> None:
    changed = {}
    some = [find_lesson(slug) for slug in ("soft_lookup", "a_river", "masking", "kv_cache", "smaller_caches")]
    before = {lesson.slug: digests.source_digest(lesson) for lesson in some}
    for name in ("course/given/attention_course/heads.npz", "course/given/attention_course/nile.py", "solutions/lib/cache.py"):
        path = scratch_clone.parent / name
        with path.open("ab") as file:
            file.write(b"\n# another line\n")
        now = {lesson.slug: digests.source_digest(lesson) for lesson in some}
        changed[path.name] = [slug for slug in now if now[slug] != before[slug]]
        before = now
    assert changed["heads.npz"] == ["soft_lookup", "masking"]
    assert changed["nile.py"] == ["a_river"]
    assert changed["cache.py"] == ["kv_cache", "smaller_caches"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('check("average_pool")', 'check("averge_pool")', "Did you mean 'average_pool'"),
        ('check("average_pool")', "assert True", "exactly check"),
        ("grade_id: average_pool_check", "grade_id: setup", "used twice"),
        ("grade_id: average_pool, solution", "grade_id: another, solution", "expected an answer cell and a check cell"),
    ],
)
def test_a_broken_lesson_says_which_cell_and_why(scratch_clone: Path, old: str, new: str, message: str) -> None:
    path = scratch_clone / "lessons" / "00_start_here.md"
    text = path.read_text()
    # the words also occur in the prose: change the cell, which is the last place
    head, _, tail = text.rpartition(old)
    path.write_text(head + new + tail)
    with pytest.raises(CourseError, match=message):
        read_lesson(find_lesson("start_here"))


def test_a_build_demands_minutes_and_difficulty_as_its_check_does(scratch_clone: Path) -> None:
    path = scratch_clone / "exercises" / "start_here.py"
    text = path.read_text()
    assert text.count("minutes=") == 1
    path.write_text(re.sub(r"\n *minutes=[^\n]*", "", text))
    with pytest.raises(CourseError, match=r"course/exercises/start_here: `average_pool`: expected minutes and difficulty"):
        list(make_release.build([find_lesson("start_here")]))


def test_a_line_too_wide_for_a_cell_fails_the_build_and_its_check_and_is_named(scratch_clone: Path) -> None:
    text, answer = scratch_clone / "lessons" / "00_start_here.md", scratch_clone.parent / "solutions" / "start_here.py"
    text.write_text(text.read_text().replace("V = np.array", f"{'too_wide' * 10} = V = np.array", 1))
    answer.write_text(answer.read_text().replace("    total:", f"    {'wide' * 23} = 0\n    total:"))
    in_lesson, in_answer = make_release.wide_lines(find_lesson("start_here"))
    assert re.match(r"course/lessons/00_start_here\.md, cell 'start_here-\d+', line 1: expected at most 88", in_lesson)
    assert re.match(r"solutions/start_here\.py, cell 'average_pool', line \d+: .* got 100: widewide", in_answer)
    with pytest.raises(CourseError, match="expected at most 88 characters"):
        list(make_release.build([find_lesson("start_here")]))
    assert {in_lesson, in_answer} < set(make_release.check([find_lesson("start_here")]))


def test_an_answer_that_its_module_imports_from_another_is_read_there(scratch_clone: Path) -> None:
    lib = scratch_clone.parent / "solutions" / "lib"
    assert definition("positions", "apply_rope")[0] == lib / "rope.py"
    source = solution_source("positions", "apply_rope")
    assert source == solution_source("lib.rope", "apply_rope")
    assert source.startswith("def apply_rope(")
    assert BEGIN in source


def test_an_answer_that_is_defined_nowhere_is_refused_by_the_file_where_it_was_looked_for(scratch_clone: Path) -> None:
    lib = scratch_clone.parent / "solutions" / "lib"
    with pytest.raises(CourseError, match=r"positions\.py: expected a function or class 'attend', found none"):
        solution_source("positions", "attend")
    (lib / "rope.py").write_text((lib / "rope.py").read_text().replace("def apply_rope(", "def turn("))
    with pytest.raises(CourseError, match=r"lib/rope\.py: expected a function or class 'apply_rope', found none"):
        solution_source("positions", "apply_rope")
    (lib / "rope.py").unlink()
    with pytest.raises(CourseError, match=r"expected .*lib/rope\.py for `from solutions\.lib\.rope import apply_rope`"):
        solution_source("positions", "apply_rope")


def test_a_line_too_wide_is_named_by_the_file_that_defines_the_answer(scratch_clone: Path) -> None:
    answer = scratch_clone.parent / "solutions" / "lib" / "rope.py"
    answer.write_text(answer.read_text().replace("    even, odd =", f"    {'wide' * 23} = 0\n    even, odd ="))
    (problem,) = make_release.wide_lines(find_lesson("positions"))
    assert re.match(r"solutions/lib/rope\.py, cell 'apply_rope', line \d+: .* got 100: widewide", problem)


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_code_line_of_a_release_is_wider_than_a_cell(lesson: course.Lesson) -> None:
    for path in (path for path in _released(lesson) if path.suffix == ".ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                assert max(map(len, cell.source.splitlines())) <= make_release.LINE_LIMIT, cell.id


def test_a_new_lesson_builds_and_verifies_before_the_first_edit(scratch_clone: Path) -> None:
    files = new_lesson("77_doubling")
    assert [path.exists() for path in files] == [True] * 4
    code = "import sys; from autograder.cli import main; sys.exit(main(sys.argv[1:]))"
    run = {"cwd": scratch_clone.parent, "capture_output": True, "text": True, "timeout": 120}
    for command in (["build", "77"], ["verify", "77"], ["build", "--check", "77"]):
        done = subprocess.run([sys.executable, "-c", code, *command], **run)
        assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(CourseError, match="expected a free number and slug"):
        new_lesson("77_another")
    with pytest.raises(CourseError, match="expected a name like"):
        new_lesson("Doubling")


def test_every_autograded_cell_of_the_course_is_a_check() -> None:
    for lesson in lessons():
        for cell in read_lesson(lesson).cells:
            if is_grade(cell) and not is_answer(cell):
                assert exercise_of(cell)


def test_a_released_notebook_works_with_the_wheel_and_without_the_answers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT.parent)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        archive.extractall(tmp_path / "site")
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"autograder", "attention_course"}
    folder = tmp_path / "work"
    shutil.copytree(ROOT / "release" / "00_start_here", folder)
    code = (
        f"import sys; sys.path[:] = [{str(tmp_path / 'site')!r}] + [p for p in sys.path if p != {str(ROOT.parent)!r}]\n"
        "from autograder import check\nimport autograder\nassert 'site' in autograder.__file__\n"
        "def average_pool(V):\n    return V.mean(axis=0)\n"
        "assert check('average_pool') == 1\nassert 'solutions' not in sys.modules\n"
        "try:\n    import solutions\nexcept ModuleNotFoundError:\n    pass\nelse:\n    sys.exit('solutions can be imported')"
    )
    # -P: the current folder is not searched first; -S would lose numpy
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=folder, timeout=60)


def test_the_answers_are_a_library_of_their_own_that_names_the_course_as_what_it_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*command, str(ROOT.parent / "solutions")], check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (facts,) = (tmp_path / "site").glob("*.dist-info/METADATA")
    assert f"\nVersion: {autograder.__version__}\n" in facts.read_text(encoding="utf-8")
    assert "\nRequires-Dist: attention-course\n" in facts.read_text(encoding="utf-8")
    packed = sorted(path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.py"))
    assert packed == sorted(path.relative_to(ROOT.parent).as_posix() for path in (ROOT.parent / "solutions").rglob("*.py"))
    code = (
        f"import sys; sys.path[:] = {[str(tmp_path / 'site'), str(ROOT / 'given')]!r} + "
        f"[p for p in sys.path if p not in {[str(ROOT.parent), str(ROOT / 'given')]!r}]\n"
        "import torch, solutions\nassert 'site' in solutions.__file__\n"
        "module = solutions.LatentAttention(d_model=24, H=3, d=8, d_v=5, d_c=12, d_rope=4)\n"
        "assert module(torch.randn(2, 7, 24)).shape == (2, 7, 24)\n"
        "assert all(hasattr(solutions, name) for name in solutions.__all__)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=tmp_path, timeout=120)


def test_the_manifest_of_a_pack_is_plain_json() -> None:
    with np.load(ROOT / "release" / "00_start_here" / f"start_here{pack_file.SUFFIX}", allow_pickle=False) as data:
        manifest = json.loads(data["manifest"].tobytes())
    assert [exercise["id"] for exercise in manifest["exercises"]] == ["predict_shape", "average_pool"]
