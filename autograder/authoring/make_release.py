"""Build source notebooks from lessons and releases from source notebooks (`attn build`); `--check` reports differences.

A lesson is edited only in `course/lessons/*.md`. Everything below `course/source` and `course/release` is generated here and
can be made again.
"""

import filecmp
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import nbformat

from autograder.authoring import course, pack_digests
from autograder.authoring.course import CourseError, Lesson, by_chapter, course_root
from autograder.authoring.digests import pack_digest, source_digest
from autograder.authoring.lesson_links import broken_links, wrong_needs
from autograder.authoring.pack_process import PackMakers
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import injected, origin_of
from autograder.authoring.workload import minutes
from autograder.notebooks.atomic_write import write_whole
from autograder.notebooks.grammars import spare_grammars
from autograder.packs import pack_file

# Characters per line of code. In a window of 1024 pixels, a page of `attn book` holds 91 and a cell of JupyterLab 106 (74
# beside its file browser, too few for this course's code).
LINE_LIMIT = 88
CELL_S = 1800  # elapsed seconds before a cell counts as hanging; training takes ten times as long on a busy machine


@dataclass(frozen=True)
class BuildStep:
    """A step of building a lesson, which begins, or the end of it: its files were "written", or are "unchanged".

    `detail` holds the files that were written, or the exercises for which the new pack recognises fewer programs.
    """

    lesson: str
    kind: Literal["pack", "shrunken", "execute", "renew", "release", "written", "unchanged"]
    detail: str = ""

    @property
    def finished(self) -> bool:
        """Whether the lesson is built."""
        return self.kind in ("written", "unchanged")


def build(lessons: Sequence[Lesson], *, again: bool = False) -> Iterator[BuildStep]:
    """Make packs, source notebooks and releases of `lessons`, yielding each step as it begins, and the end of each lesson.

    `again` also executes unchanged lessons. Each lesson is made in a separate folder and replaces the old files at the end,
    so an interrupted build leaves every lesson either old or new. Raises CourseError if the lesson's author has to correct
    something.
    """
    root = course_root()
    for lesson in lessons:
        if wrong := wide_lines(lesson) + unstated(lesson):
            raise CourseError("\n".join(wrong))
    digests = {lesson.name: pack_digest(lesson) for lesson in lessons}
    stale = [lesson for lesson in lessons if not _has_pack(lesson, root, digests[lesson.name])]
    with tempfile.TemporaryDirectory(prefix=".build-", dir=root) as folder, PackMakers(stale, Path(folder) / "packs") as makers:
        aside = Path(folder)
        api = nbgrader_api(aside, config=root / "nbgrader_config.py", gradebook=root / "gradebook.db") if lessons else None
        for lesson in lessons:
            source = aside / "source" / lesson.name
            source.mkdir(parents=True)
            if (root / "source" / lesson.name).is_dir():
                shutil.copytree(root / "source" / lesson.name, source, dirs_exist_ok=True)
            changes: dict[Path, Path | None] = {}
            if lesson in stale:
                yield BuildStep(lesson.name, "pack")
                shutil.copy(makers.wait(lesson), source)
                entries = pack_digests.read(root)
                before = entries.get(lesson.name)
                pack = pack_file.load(lesson.pack_in(aside / "source"))
                entries[lesson.name] = pack_digests.entry_of(pack, digests[lesson.name])
                for line in pack_digests.shrunken(before["near"] if before else {}, pack.near_counts):
                    yield BuildStep(lesson.name, "shrunken", line)
                write_whole(record := aside / pack_digests.FILE, pack_digests.text_of(entries))
                changes[root / pack_digests.FILE] = record
            yield from _renew_source(lesson, lesson.notebook_in(aside / "source"), again=again)
            yield BuildStep(lesson.name, "release")
            _generate(api, lesson.name)
            changes |= _changed_files(lesson, aside, root)
            replace_all(changes, aside / "replaced")
            names = ", ".join(sorted(path.relative_to(root).as_posix() for path in changes))
            yield BuildStep(lesson.name, "written", names) if names else BuildStep(lesson.name, "unchanged")
    for page in _pages_beside(root):
        write_whole(page, (root / page.name).read_bytes())


def write_packs(lessons: Sequence[Lesson], folder: Path) -> Iterator[str]:
    """Make the packs of `lessons` in `folder`, and nothing else, yielding the path of each."""
    with PackMakers(lessons, folder) as makers:
        for lesson in lessons:
            yield str(makers.wait(lesson))


def _has_pack(lesson: Lesson, root: Path, made_from: str) -> bool:
    """Return whether the lesson's pack is the one that its exercises and the engine would make now."""
    path, entry = lesson.pack_in(root / "source"), pack_digests.read(root).get(lesson.name)
    return path.exists() and not pack_digests.problems_of(pack_file.load(path), entry, made_from)


def _renew_source(lesson: Lesson, path: Path, *, again: bool) -> Iterator[BuildStep]:
    """Write the source notebook, executing it if its outputs may have changed."""
    wanted, stated = _provenance(lesson), _made_from(path)
    notebook = read_lesson(lesson)
    if again or stated.get("built_from") != wanted["built_from"]:
        yield BuildStep(lesson.name, "execute")
        _execute(notebook, path.parent)
    elif stated != wanted or _plain(path) != _plain_cells(notebook):  # the text that the engine adds has changed
        yield BuildStep(lesson.name, "renew")
        _keep_outputs(notebook, nbformat.read(path, as_version=4))
    else:
        return
    notebook.metadata["attn"] = wanted
    nbformat.validate(notebook)
    write_whole(path, nbformat.writes(notebook, version=4) + "\n")


def _changed_files(lesson: Lesson, aside: Path, root: Path) -> dict[Path, Path | None]:
    """Return the course files that a lesson made in `aside` changes, each with its replacement (None: delete it)."""
    changes: dict[Path, Path | None] = {}
    for kind in ("source", "release"):
        fresh, current = aside / kind / lesson.name, root / kind / lesson.name
        for path in sorted(fresh.iterdir()):
            old = current / path.name
            if path.is_file() and not (old.exists() and filecmp.cmp(path, old, shallow=False)):
                changes[old] = path
        if kind == "release" and current.is_dir():
            changes |= {old: None for old in current.iterdir() if not (fresh / old.name).exists()}
    return changes


def replace_all(changes: Mapping[Path, Path | None], saved: Path) -> None:
    """Put each file in its place, or none of them: after an exception, the old files are restored from the folder `saved`."""
    shutil.rmtree(saved, ignore_errors=True)
    saved.mkdir(parents=True)
    olds = {target: saved / str(number) for number, target in enumerate(changes) if target.exists()}
    for target, old in olds.items():
        shutil.copy2(target, old)
    try:
        for target, fresh in changes.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            if fresh is None:
                target.unlink()
            else:
                fresh.replace(target)
    except BaseException:
        for target in changes:
            if target in olds:
                olds[target].replace(target)
            else:
                target.unlink(missing_ok=True)
        raise


def _pages_beside(root: Path) -> list[Path]:
    """Return the paths below `source` and `release` for copies of the pages that lessons link to, such as an appendix."""
    pages = course.linked_pages(root, (root / "lessons").glob("*.md"))
    return [root / kind / page.name for kind in ("source", "release") for page in pages]


def check(lessons: Sequence[Lesson], *, search: bool = False) -> list[str]:
    """Return how the generated files differ from their sources. Each line says what to edit or run.

    `search` also makes each pack again and compares all of it, which takes as long as building the pack.
    """
    root, every, problems = course_root(), course.lessons(), list[str]()
    chapters = by_chapter(every)
    for number in by_chapter(lessons):
        problems += course.shared_out(chapters[number])
    for lesson in lessons:
        problems += [*broken_links(lesson, every), *wrong_needs(lesson, every)]
    for page in _pages_beside(root):
        if not page.exists() or page.read_bytes() != (root / page.name).read_bytes():
            problems.append(f"{page.relative_to(root.parent)} differs from {course.shown(root / page.name)}: run `attn build`")
    with tempfile.TemporaryDirectory() as temporary:
        fresh = Path(temporary)
        for lesson in lessons:
            problems += _check_source(lesson, root, fresh)
            problems += _check_pack(lesson, root, search=search)
        api = nbgrader_api(fresh, config=root / "nbgrader_config.py")
        for lesson in lessons:
            _generate(api, lesson.name)
            new, old = (lesson.notebook_in(folder / "release") for folder in (fresh, root))
            if not old.exists() or _plain(new) != _plain(old) or _made_from(new) != _made_from(old):
                problems.append(f"{course.shown(old)} differs from what {lesson.shown_path} makes: run `attn build`")
    return problems


def _check_source(lesson: Lesson, root: Path, fresh: Path) -> list[str]:
    problems = wide_lines(lesson)
    wanted, path = read_lesson(lesson), lesson.notebook_in(root / "source")
    if not path.exists() or _plain(path) != _plain_cells(wanted) or _made_from(path) != _provenance(lesson):
        edit = f"edit {lesson.shown_path} (or its exercises and solutions) and run `attn build`"
        problems.append(f"{course.shown(path)} is not what its lesson makes: {edit}")
    if path.parent.is_dir():
        shutil.copytree(path.parent, fresh / "source" / lesson.name, dirs_exist_ok=True)
    return problems


def _check_pack(lesson: Lesson, root: Path, *, search: bool) -> list[str]:
    paths = [lesson.pack_in(root / kind) for kind in ("source", "release")]
    if missing := [path for path in paths if not path.exists()]:
        return [f"{path.relative_to(root.parent)} is missing: run `attn build`" for path in missing]
    pack = pack_file.load(paths[0])
    wrong = pack_digests.problems_of(pack, pack_digests.read(root).get(lesson.name), pack_digest(lesson))
    wrong += _search_again(lesson, pack) if search else []
    problems = [f"{paths[0].relative_to(root.parent)}: {line}: run `attn build {lesson.name}`" for line in wrong]
    if paths[0].read_bytes() != paths[1].read_bytes():
        release, source = course.shown(paths[1]), course.shown(root / "source")
        problems.append(f"{release} is not the pack of {source}: run `attn build {lesson.name}`")
    return problems


def _search_again(lesson: Lesson, pack: pack_file.Pack) -> list[str]:
    """Make the lesson's pack again and return how the existing one differs by more than rounding."""
    with tempfile.TemporaryDirectory() as folder:
        (path,) = write_packs([lesson], Path(folder))
        new = pack_file.load(Path(path))
    fewer = [
        f"`{name}` recognises {pack.near_counts.get(name, 0)} near programs, a new search finds {count}"
        for name, count in new.near_counts.items()
        if pack.near_counts.get(name, 0) != count
    ]
    return fewer or pack_file.differences(new, pack)


def unstated(lesson: Lesson) -> list[str]:
    """Return a line for each exercise without minutes or difficulty, if the course enforces the style: `--check` would fail."""
    if not course.settings().style.enforced:
        return []
    where = course.shown(course_root() / "exercises" / lesson.exercises_slug)
    return [
        f"{where}: `{exercise.id}`: expected minutes and difficulty, got none. "
        "Add them where it is declared, for example `difficulty=2, minutes=8`."
        for exercise in lesson.in_code()
        if not exercise.stated
    ]


def wide_lines(lesson: Lesson) -> list[str]:
    """Return the code lines in the lesson's cells and imported answers that are too wide to read without scrolling."""
    problems = []
    for cell in read_lesson(lesson).cells:
        source = injected(cell) if cell.cell_type == "code" else ""
        where = lesson.shown_path
        if source != cell.source and (origin := origin_of(cell)):
            where = origin.relative_to(course.references_folder().parent).as_posix()
        for number, line in enumerate(source.splitlines(), start=1):
            if len(line) > LINE_LIMIT:
                got = f"expected at most {LINE_LIMIT} characters, got {len(line)}: {line.strip()[:60]}…"
                problems.append(f"{where}, cell {cell.id!r}, line {number}: {got} Break the line or name a part of it.")
    return problems


def _made_from(path: Path) -> dict[str, Any]:
    """Return what the executed notebook at `path` was made from; empty if there is none."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["metadata"]["attn"])
    except (OSError, ValueError, KeyError):  # no file, half a file, or one from a version that didn't write this
        return {}


def _provenance(lesson: Lesson) -> dict[str, Any]:
    """Return the metadata that says what a notebook was made from.

    If the lesson states its `kind`, the metadata also says what a learner's machine, which lacks the text, must know.
    """
    about, made_from = lesson.about, {"built_from": source_digest(lesson)}
    if about.kind is None:
        return made_from
    stated = {"kind": about.kind, "question": about.question, "needs": list(about.needs), "minutes": minutes(lesson)}
    return {**made_from, **stated}


def _keep_outputs(notebook: Any, executed: Any) -> None:
    """Copy the outputs of an executed notebook to the same cells of `notebook`, in place."""
    shown = {cell.id: cell for cell in executed.cells if cell.cell_type == "code"}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.id in shown:
            cell.outputs, cell.execution_count = shown[cell.id].outputs, shown[cell.id].execution_count


def _execute(notebook: Any, folder: Path) -> None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook, timeout=CELL_S, kernel_name="python3", resources=resources, record_timing=False, coalesce_streams=True
    )
    try:
        # this clone's solutions, whatever is installed
        client.execute(env={**os.environ, "PYTHONPATH": course.search_path(course_root().parent, *course.given_folders())})
    except CellExecutionError as error:
        text = course.shown(course_root() / "lessons" / f"{folder.name}.md")
        said = f"{folder.name}: a cell of the lesson fails. Correct it in {text}."
        raise CourseError(f"{said}\n{error}") from None
    notebook.metadata.pop("widgets", None)  # random ids, which nbclient needs while a widget draws but a reader doesn't
    language = notebook.metadata["language_info"]
    notebook.metadata["language_info"] = {k: v for k, v in language.items() if k in ("name", "mimetype", "file_extension")}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            if output.get("name") == "stderr":
                where = f"{folder.name}: cell {cell.id!r}"
                raise CourseError(f"{where} writes to stderr, for which nbgrader awards 0: {output['text'][:200]}")


def _plain(path: Path) -> list[Any]:
    return _plain_cells(nbformat.read(path, as_version=4))


def _plain_cells(notebook: Any) -> list[Any]:
    """Return what must be the same whichever machine executed the notebook: each cell's type, id, text and metadata."""
    return [(c.cell_type, c.id, c.source, json.dumps(c.metadata, sort_keys=True)) for c in notebook.cells]


def nbgrader_api(root: Path, *, config: Path | None = None, gradebook: Path | None = None) -> Any:
    """Return an `NbGraderAPI` for the course at `root` with its settings, or those in `config`.

    With settings from another folder, the course gets a gradebook of its own. If `gradebook` is given, the database that the
    settings name is used instead, or `gradebook` if they name none. Raises CourseError if there are no settings.
    """
    config = config or root / "nbgrader_config.py"
    spare_grammars()
    # nbgrader starts `alembic` by its bare name, which is not on PATH if the environment isn't activated
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import PyFileConfigLoader

    if not config.exists():
        raise CourseError(
            f"expected nbgrader's settings in {config}, found none. `attn init` writes such a file: copy its lines."
        )
    loaded = PyFileConfigLoader(config.name, path=str(config.parent)).load_config()
    loaded.CourseDirectory.root = str(root)
    if gradebook is not None:
        loaded.CourseDirectory.setdefault("db_url", f"sqlite:///{gradebook}")
    elif str(root) != str(config.parent):
        loaded.CourseDirectory.pop("db_url", None)
    return NbGraderAPI(coursedir=CourseDirectory(config=loaded), config=loaded)


def _generate(api: Any, name: str) -> None:
    outcome = api.generate_assignment(name, force=True, create=True)
    if not outcome["success"]:
        log = "\n".join(outcome.get(key) or "" for key in ("error", "log"))
        raise CourseError(f"{name}: nbgrader generate_assignment failed.\n{log}")
