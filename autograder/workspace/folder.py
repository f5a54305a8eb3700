"""The learner's own copy of the lessons: made once, never overwritten, and what is in it.

Layout: `work/NN_slug/NN_slug.ipynb` beside its probe pack; `work/.attn/` holds progress, backups, and each lesson as it
was released (`.attn/release`), which tells an answer from a blank and an edit from an update.
"""

import filecmp
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder.authoring.course import BESIDE, CourseError, course_root, did_you_mean, learners_course
from autograder.notebooks import lesson_names
from autograder.notebooks.atomic_write import write_whole
from autograder.notebooks.released import Release, is_stub
from autograder.notebooks.roles import grade_id, is_answer
from autograder.packs import pack_file
from autograder.workspace import progress

DEFAULT = Path("work")


def locate(folder: Path | None) -> Path:
    """The workspace: `folder`, or the nearest one at, above or beside the working folder. Raises CourseError if none."""
    if folder is not None:
        candidates = [folder]
    else:
        here = Path.cwd()
        candidates = [place for up in (here, *here.parents) for place in (up, up / DEFAULT)]
    for candidate in candidates:
        if (candidate / progress.MARKER).is_dir():
            return candidate.resolve()
    raise CourseError(
        "expected a workspace, found none. Go to the course's folder first (the one with `work` in it), or say "
        "--workspace FOLDER. Where there is none yet, `attn lab` (or `make lab`) makes one in ./work."
    )


def prepare(folder: Path | None) -> Path:
    """Make the workspace, or add the lessons and files that it lacks. What is there is never touched (see `carry.update`)."""
    lessons = released()
    target = (folder or _home()).resolve()
    for lesson, source in lessons.items():
        kept = release(target, lesson).parent
        if not kept.exists():
            _copy_whole(source, kept)
        _copy_files(kept, target / lesson)
    for name, source in pages().items():
        copy, kept = target / name, target / progress.MARKER / "release" / name
        if not copy.exists() or (kept.exists() and filecmp.cmp(copy, kept, shallow=False)):  # the learner's own is left alone
            write_whole(copy, source.read_bytes())
        if not (kept.exists() and filecmp.cmp(source, kept, shallow=False)):
            write_whole(kept, source.read_bytes())
    return target


def _home() -> Path:
    """Where the workspace is, or is to be made: in a clone beside the course; else the nearest one, or `work` here."""
    try:
        return course_root().parent / DEFAULT
    except CourseError:
        pass
    try:
        return locate(None)
    except CourseError:
        return Path.cwd() / DEFAULT


def _copy_whole(source: Path, target: Path) -> None:
    """A new folder with all files of `source`, or none: which version it holds is asked later."""
    aside = target.with_name(f"{target.name}.new")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        _copy_files(source, aside)
        aside.rename(target)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _copy_files(source: Path, target: Path) -> None:
    """The files of `source` that `target` lacks, without the rights that an installed file may have (read-only)."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if not (target / path.name).exists():
            write_whole(target / path.name, path.read_bytes())  # a full disk leaves no half of a file


def released() -> dict[str, Path]:
    """The course's released lessons, in order, and the folder of each."""
    root = learners_course()
    found = lesson_names.folders(root / "release")
    if not found:
        raise CourseError(f"expected released lessons in {root / 'release'}, found none. Run `attn build`.")
    return {folder.name: folder for folder in found}


def pages() -> dict[str, Path]:
    """The course's pages that lessons lead to beside their folders, such as an appendix."""
    root = learners_course()
    texts = [path.read_text(encoding="utf-8") for path in sorted((root / "release").glob("*/*.ipynb"))]
    names = sorted({name for text in texts for name in BESIDE.findall(text)})
    return {name: root / name for name in names if (root / name).is_file()}


def outdated(workspace: Path) -> list[str]:
    """The lessons of which the course has another version than the workspace."""
    return [lesson for lesson, folder in released().items() if not _same(folder, release(workspace, lesson).parent)]


def _same(one: Path, two: Path) -> bool:
    files = [path.name for path in one.iterdir()]
    match, _, _ = filecmp.cmpfiles(one, two, files, shallow=False)
    return len(match) == len(files)


def names(workspace: Path) -> list[str]:
    """The lessons in the workspace, in order."""
    return [folder.name for folder in lesson_names.folders(workspace)]


def notebook(workspace: Path, lesson: str) -> Path:
    """The learner's notebook of `lesson`."""
    return workspace / lesson / f"{lesson}.ipynb"


def release(workspace: Path, lesson: str) -> Path:
    """The notebook of `lesson` as it was released to this workspace."""
    return workspace / progress.MARKER / "release" / lesson / f"{lesson}.ipynb"


def as_released(workspace: Path, lesson: str) -> Any:
    """The lesson as released; the learner's own notebook where no copy was kept, as in a folder that was checked out."""
    path = release(workspace, lesson)
    return load(path if path.exists() else notebook(workspace, lesson))


def about(workspace: Path, lesson: str) -> dict[str, Any]:
    """What the notebook of `lesson` says about itself: its `question`, `minutes`, and the lessons that it `needs`, by label.

    Empty where it says nothing, as in a lesson without `kind`, or cannot be read.
    """
    path = release(workspace, lesson)
    try:
        text = (path if path.exists() else notebook(workspace, lesson)).read_text(encoding="utf-8")
        return dict(json.loads(text)["metadata"]["attn"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def load(path: Path) -> Any:
    """The notebook at `path`. Raises CourseError where it is missing or is not one."""
    import nbformat  # slow to import, and a notebook's set-up cell imports this module

    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise CourseError(f"expected a notebook at {path}, found none. `attn lab` copies the released one there.") from None
    except Exception as error:  # nbformat raises errors of several libraries
        raise CourseError(
            f"{path}: expected a notebook, got a file that cannot be read ({type(error).__name__}). Open it in JupyterLab and "
            "save it; or `attn reset` the lesson, which keeps a backup of the file."
        ) from None


def save(made: Any, path: Path) -> None:
    """Write a notebook so that `path` holds the old one or the new one at every moment."""
    import nbformat

    write_whole(path, nbformat.writes(made) + "\n")


def backup(workspace: Path, lesson: str) -> Path:
    """Copy the learner's notebook of `lesson` to a new file in `.attn/backups`, named by the time; returns it."""
    folder = workspace / progress.MARKER / "backups"
    folder.mkdir(parents=True, exist_ok=True)
    stamp, number = datetime.now().strftime("%Y-%m-%d_%H-%M-%S"), 0
    while True:
        copy = folder / f"{lesson}_{stamp}{f'_{number}' if number else ''}.ipynb"
        try:
            with copy.open("xb") as file:  # never onto another backup
                file.write(notebook(workspace, lesson).read_bytes())
            return copy
        except FileExistsError:
            number += 1


def find(workspace: Path, word: str) -> str:
    """The lesson in the workspace that `word` names: its label ("03b"), slug or full name."""
    every = names(workspace)
    for name in every:
        if _names(word, name):
            return name
    raise CourseError(f"expected a lesson, got {word!r}.{did_you_mean(word, every)}")


def _names(word: str, lesson: str) -> bool:
    name = lesson_names.parse(lesson)
    return name is not None and name.is_called(word)


def resolve(workspace: Path, word: str, *, written: bool = False) -> tuple[str, str | None]:
    """`(lesson, exercise)` of `LESSON.EXERCISE`, `EXERCISE` alone where one lesson has it, or `(lesson, None)` of `LESSON`.

    `written` counts the written questions among the exercises.
    """
    head, dot, tail = word.partition(".")
    if dot or any(_names(head, name) for name in names(workspace)):
        lesson = find(workspace, head)
        ids = answer_ids(workspace, lesson, written)
        if tail and tail not in ids:
            say_if_in_words(workspace, lesson, tail)
            raise CourseError(f"expected an exercise of {lesson}, got {tail!r}.{did_you_mean(tail, ids)}")
        return lesson, tail or None
    every = {name: answer_ids(workspace, name, written) for name in names(workspace)}
    homes = [name for name, ids in every.items() if word in ids]
    if len(homes) == 1:
        return homes[0], word
    if homes:
        raise CourseError(
            f"{word!r} is in several lessons. Say which: {', '.join(f'{lesson_names.label_of(name)}.{word}' for name in homes)}."
        )
    for name in () if written else every:
        say_if_in_words(workspace, name, word)
    options = [*every, *(name for ids in every.values() for name in ids)]
    near = did_you_mean(word, options) if word else ""
    raise CourseError(
        f"expected a lesson or an exercise, got {word!r}."
        + (near if "Did you mean" in near else " `attn status --all` lists them.")
    )


def say_if_in_words(workspace: Path, lesson: str, name: object) -> None:
    """Raises CourseError, saying what to do instead, where `name` is a question in words: it has no check and no hints."""
    try:
        asked = name in answer_ids(workspace, lesson, True) and name not in answer_ids(workspace, lesson, False)
    except CourseError:  # a damaged lesson: the caller's own error says more
        return
    if asked:
        raise CourseError(
            f"`{name}` is answered in words: it has no check and no hints. Write in its cell and save; then "
            f'`attn solution {name}`, or in a cell `solution("{name}")`, shows what we would write.'
        )


def answer_ids(workspace: Path, lesson: str, written: bool) -> list[str]:
    """The exercises of a lesson in order; `written` adds its written questions."""
    ids = list(load_pack(workspace, lesson).exercises)
    if written:
        ids += [str(grade_id(c)) for c in as_released(workspace, lesson).cells if is_answer(c) and grade_id(c) not in ids]
    return ids


def load_pack(workspace: Path, lesson: str) -> pack_file.Pack:
    """The visible pack of a lesson in the workspace."""
    path = workspace / lesson / f"{lesson_names.slug_of(lesson)}{pack_file.SUFFIX}"
    if not path.exists():
        raise CourseError(f"expected the lesson's probe pack at {path}, found none. `attn lab` copies it there.")
    return pack_file.load(path)


def answered(workspace: Path, lesson: str) -> set[str]:
    """The `grade_id`s of the answer cells in which something is written that no release had there, as saved last."""
    kept = release(workspace, lesson)
    known = Release(load(kept)) if kept.exists() else None
    done = set()
    for cell in load(notebook(workspace, lesson)).cells:
        name = str(grade_id(cell))
        if not is_answer(cell) or not cell.source.strip():
            continue
        if known and name in known.cells:
            blank = known.untouched(name, cell.source)
        else:  # a folder that was checked out: nothing tells a code cell's answer from what was released
            blank = cell.cell_type == "code" or is_stub(cell.source)
        if not blank:
            done.add(name)
    return done
