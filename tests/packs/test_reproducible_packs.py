"""A build makes the same packs everywhere, makes no more than what has changed, and leaves nothing half made."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from autograder.authoring import course, digests, make_release, pack_digests
from autograder.authoring.course import course_root, find_lesson
from autograder.authoring.make_release import BuildStep
from autograder.authoring.reference_source import pack_files_of
from autograder.packs import pack_file

FIRST = "00_start_here"
# Ten seconds pass in each second, for whoever looks at a clock.
SLOW_CLOCK = """import pathlib, time
pathlib.Path(__file__).with_name("was_used").touch()
for name in ("time", "perf_counter", "process_time", "thread_time", "monotonic"):
    setattr(time, name, lambda clock=getattr(time, name): 10 * clock())
    setattr(time, name + "_ns", lambda clock=getattr(time, name + "_ns"): 10 * clock())
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of course/ and solutions/ that a test may edit; its first lesson is built."""
    root = course_root().parent
    for name in ("course", "solutions"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("gradebook.db*", "__pycache__", ".build-*"))
    monkeypatch.setenv("ATTN_COURSE", str(tmp_path / "course"))
    course.course_root.cache_clear()
    list(make_release.build([find_lesson(FIRST)]))
    yield tmp_path / "course"
    course.course_root.cache_clear()


def _state(root: Path) -> dict[str, bytes]:
    """Everything that a build writes but for the gradebook, by its place in the course."""
    files = [path for kind in ("source", "release") for path in (root / kind).rglob("*") if path.is_file()]
    state = {path.relative_to(root).as_posix(): path.read_bytes() for path in [*files, root / pack_digests.FILE]}
    return state | {path.name: b"left behind" for path in root.glob(".build-*")}


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def _changed(root: Path, before: dict[str, bytes]) -> list[str]:
    now = _state(root)
    return sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))


def test_a_pack_is_the_same_byte_for_byte_where_the_clock_runs_ten_times_as_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = find_lesson("soft_lookup")
    (usual,) = make_release.write_packs([lesson], tmp_path / "usual")
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(SLOW_CLOCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "clock"))
    (slow,) = make_release.write_packs([lesson], tmp_path / "slow")
    assert (tmp_path / "clock" / "was_used").exists()
    assert Path(slow).read_bytes() == Path(usual).read_bytes()
    assert min(pack_file.load(Path(usual)).near_counts[name] for name in ("mix_words", "attention_pool")) > 300


def test_the_pack_in_a_clone_is_the_one_that_its_exercises_make(tmp_path: Path) -> None:
    """Up to the last digits of numbers: another processor may round them otherwise."""
    (made,) = make_release.write_packs([find_lesson(FIRST)], tmp_path)
    shipped = course_root() / "source" / FIRST / f"start_here{pack_file.SUFFIX}"
    assert pack_file.differences(pack_file.load(Path(made)), pack_file.load(shipped)) == []


def test_an_edit_of_the_text_touches_the_two_notebooks_and_no_pack(clone: Path) -> None:
    before = _state(clone)
    path = clone / "lessons" / f"{FIRST}.md"
    path.write_text(path.read_text() + "\nOne more sentence.\n")
    steps = list(make_release.build([find_lesson(FIRST)]))
    assert not any(step.kind == "pack" for step in steps)
    assert BuildStep(FIRST, "execute") in steps
    assert _changed(clone, before) == [f"release/{FIRST}/{FIRST}.ipynb", f"source/{FIRST}/{FIRST}.ipynb"]
    assert make_release.check([find_lesson(FIRST)]) == []


def test_an_edit_of_an_exercise_makes_its_pack_again_and_writes_down_what_it_holds(clone: Path) -> None:
    before = _state(clone)
    _edit(clone / "exercises" / "start_here.py", "reference=", "search=0.05,\n        reference=")
    steps = list(make_release.build([find_lesson(FIRST)]))
    assert BuildStep(FIRST, "pack") in steps
    assert any(step.kind == "shrunken" and "near programs," in step.detail for step in steps), "a pack that shrinks is said"
    assert f"source/{FIRST}/start_here{pack_file.SUFFIX}" in _changed(clone, before)
    assert make_release.check([find_lesson(FIRST)]) == []


def test_what_is_built_is_not_built_again(clone: Path) -> None:
    before = _state(clone)
    assert list(make_release.build([find_lesson(FIRST)])) == [BuildStep(FIRST, "release"), BuildStep(FIRST, "unchanged")]
    assert _changed(clone, before) == []


@pytest.mark.parametrize("step", ["_execute", "_generate"])
def test_an_interrupted_build_leaves_everything_as_it_was(clone: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    before = _state(clone)
    _edit(clone / "exercises" / "start_here.py", "reference=", "search=0.05,\n        reference=")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(make_release, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(make_release.build([find_lesson(FIRST)]))
    assert _changed(clone, before) == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_files_are_replaced_all_together_or_not_at_all(tmp_path: Path, number: int) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
        (tmp_path / f"{name}.new").write_text("new")
    changes: dict[Path, Path | None] = {tmp_path / name: tmp_path / f"{name}.new" for name in ("a", "b")}
    (tmp_path / "c.new").write_text("new")
    changes[tmp_path / "c"] = tmp_path / "c.new"  # there was none
    list(changes.values())[number - 1].unlink()  # type: ignore[union-attr]  # a file, as all of them
    with pytest.raises(FileNotFoundError):
        make_release.replace_all(changes, tmp_path / "saved")
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["old", "old"]
    assert not (tmp_path / "c").exists()


def test_a_pack_that_has_shrunk_is_found_and_so_is_one_with_another_content(clone: Path) -> None:
    lesson = find_lesson(FIRST)
    path = clone / "source" / FIRST / f"start_here{pack_file.SUFFIX}"
    found = pack_file.load(path)
    case = found.exercises["average_pool"].cases[0]
    count, name = found.near_counts["average_pool"], next(iter(case.near))
    for each in found.exercises["average_pool"].cases:
        each.near.pop(name, None)
    pack_file.save(found, path)
    shutil.copy(path, clone / "release" / FIRST)
    (problem,) = make_release.check([lesson])
    assert problem.startswith(
        f"course/source/{FIRST}/start_here{pack_file.SUFFIX}: `average_pool` recognises {count - 1} near programs"
    )
    assert f"expected {count}" in problem
    list(make_release.build([lesson]))
    assert make_release.check([lesson]) == []
    found = pack_file.load(path)
    case = found.exercises["average_pool"].cases[0]
    case.near[next(iter(case.near))][1] += 1
    pack_file.save(found, path)
    assert any("its content is not what course/packs.json says" in line for line in make_release.check([lesson]))
    assert any("is not the pack of course/source" in line for line in make_release.check([lesson]))


@pytest.mark.slow
def test_a_search_is_repeated_on_demand_and_finds_what_the_record_cannot_know(clone: Path) -> None:
    lesson = find_lesson(FIRST)
    path = clone / "source" / FIRST / f"start_here{pack_file.SUFFIX}"
    assert make_release.check([lesson], search=True) == []
    found = pack_file.load(path)
    for each in found.exercises["average_pool"].cases:
        each.near.clear()
    pack_file.save(found, path)
    shutil.copy(path, clone / "release" / FIRST)
    entries = json.loads((clone / pack_digests.FILE).read_text())
    entries[FIRST] = pack_digests.entry_of(
        pack_file.load(path), digests.pack_digest(lesson)
    )  # as if a build had made no more than this
    (clone / pack_digests.FILE).write_text(pack_digests.text_of(entries))
    assert make_release.check([lesson]) == []
    (problem,) = make_release.check([lesson], search=True)
    assert "`average_pool` recognises 0 near programs, a new search finds" in problem


def test_a_pack_depends_on_what_its_exercises_do_and_on_no_text(clone: Path) -> None:
    lesson = find_lesson("masking")
    before = digests.pack_digest(lesson)
    with lesson.path.open("a") as file:
        file.write("\nOne more sentence.\n")
    for path in [each for each in pack_files_of(lesson) if each.suffix == ".py"]:
        with path.open("a") as file:
            file.write("\n\n# one more comment\n")
    assert digests.pack_digest(lesson) == before
    with (clone.parent / "solutions" / "masking.py").open("a") as file:
        file.write("\nONE_MORE = 1\n")
    assert digests.pack_digest(lesson) != before


def test_a_pack_depends_on_a_given_function_that_a_string_names(clone: Path) -> None:
    files = {path.relative_to(clone.parent).as_posix() for path in pack_files_of(find_lesson("multi_head"))}
    assert "course/given/attention_course/designs.py" in files
    assert "course/exercises/multi_head/module.py" in files
    assert "course/exercises/masking/layer.py" not in files


def test_a_pack_depends_on_the_courses_operators(clone: Path) -> None:
    lesson = find_lesson("masking")
    before = digests.pack_digest(lesson)
    with (clone / "given" / "attention_course" / "operators.py").open("a") as file:
        file.write("\nONE_MORE = 1\n")
    assert digests.pack_digest(lesson) != before


def test_the_engine_that_makes_packs_is_what_the_maker_imports_and_no_diagnosis() -> None:
    names = {path.name for path in digests.engine_files()}
    assert {
        "make_pack.py",
        "generate.py",
        "operators.py",
        "call_answer.py",
        "exercise.py",
        "fingerprint.py",
        "value_trace.py",
    } <= names
    assert not {"explain.py", "panel.py", "make_release.py", "check.py"} & names


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('"""A module."""\nx = 1\n', "x = 1  # as it was\n"),
        ('def f(x):\n    """Doc\n\n    of f."""\n    return x\n', "def f(x):\n\n    return x\n"),
        ('class A:\n    "Größe"\n    y = 2\n', "class A:\n    y = 2  # \u00e4\n"),
    ],
)
def test_comments_and_docstrings_are_no_code(one: str, two: str) -> None:
    assert digests.bare_code(one) == digests.bare_code(two)


def test_a_string_that_is_no_docstring_is_code() -> None:
    assert digests.bare_code('x = "# not a comment"\n') == 'x = "# not a comment"'


def test_a_pack_in_an_older_format_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "old.probes.npz"
    np.savez(path, manifest=np.frombuffer(json.dumps({"format": 2}).encode(), np.uint8))
    with pytest.raises(ValueError, match=r"expected pack format 3, got 2. Run `attn update`"):
        pack_file.load(path)
