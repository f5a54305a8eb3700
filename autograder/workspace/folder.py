"""Manage the learner's own copy of the lessons, which is made once and never overwritten.

Layout: `work/NN_slug/NN_slug.ipynb` beside its probe pack. `work/.attn/` holds progress, backups, and each lesson as it was
released (`.attn/release`), with which an answer can be told from a blank and an edit from an update.
"""

import filecmp
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError, course_root, did_you_mean, learners_course, linked_pages
from autograder.notebooks import lesson_names
from autograder.notebooks.atomic_write import write_whole
from autograder.notebooks.released import Release, is_stub
from autograder.notebooks.roles import grade_id, is_answer
from autograder.packs import pack_file
from autograder.workspace import progress

DEFAULT = Path("work")


def locate(folder: Path | None) -> Path:
    """Return the workspace: `folder`, or the nearest one around the working folder. Raises CourseError if there is none."""
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
    """Make the workspace, or add the lessons and files that it lacks, and return it.

    Existing notebooks are never touched (see `update.update`). Pages that lessons link to are renewed if unedited.
    """
    lessons = released()
    target = (folder or _home()).resolve()
    for lesson, source in lessons.items():
        kept = release(target, lesson).parent
        if not kept.exists():
            _copy_whole(source, kept)
        _copy_files(kept, target / lesson)
    for source in pages():
        copy, kept = target / source.name, target / progress.MARKER / "release" / source.name
        if not copy.exists() or (kept.exists() and filecmp.cmp(copy, kept, shallow=False)):  # not the learner's own edits
            write_whole(copy, source.read_bytes())
        if not (kept.exists() and filecmp.cmp(source, kept, shallow=False)):
            write_whole(kept, source.read_bytes())
    return target


def _home() -> Path:
    """Return the workspace's place, made or not: beside the course in a clone, else the nearest one, or `work` here."""
    try:
        return course_root().parent / DEFAULT
    except CourseError:
        pass
    try:
        return locate(None)
    except CourseError:
        return Path.cwd() / DEFAULT


def _copy_whole(source: Path, target: Path) -> None:
    """Make the new folder `target` with all files of `source`, or not at all, because a part would pass for another version."""
    aside = target.with_name(f"{target.name}.new")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        _copy_files(source, aside)
        aside.rename(target)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files that `target` lacks, without the read-only rights that an installed file may have."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if not (target / path.name).exists():
            write_whole(target / path.name, path.read_bytes())  # atomic, so a full disk leaves no partial file


def released() -> dict[str, Path]:
    """Return the course's released lessons in order, each with its folder. Raises CourseError if there are none."""
    root = learners_course()
    folders = lesson_names.folders(root / "release")
    if not folders:
        raise CourseError(f"expected released lessons in {root / 'release'}, found none. Run `attn build`.")
    return {folder.name: folder for folder in folders}


def pages() -> list[Path]:
    """Return the course's pages that lessons link to, such as an appendix."""
    root = learners_course()
    return linked_pages(root, (root / "release").glob("*/*.ipynb"))


def outdated(workspace: Path) -> list[str]:
    """Return the lessons whose version in the course differs from the workspace's."""
    waiting = []
    for lesson, folder in released().items():
        names = [path.name for path in folder.iterdir()]
        _, changed, missing = filecmp.cmpfiles(folder, release(workspace, lesson).parent, names, shallow=False)
        waiting += [lesson] if changed or missing else []
    return waiting


def names(workspace: Path) -> list[str]:
    """Return the lessons in the workspace, in order."""
    return [folder.name for folder in lesson_names.folders(workspace)]


def is_lesson(folder: Path) -> bool:
    """Return whether `folder` is a lesson's folder in a workspace."""
    return (folder.parent / progress.MARKER).is_dir() and folder.name in names(folder.parent)


def notebook(workspace: Path, lesson: str) -> Path:
    """Return the path of the learner's notebook of `lesson`."""
    return workspace / lesson / f"{lesson}.ipynb"


def release(workspace: Path, lesson: str) -> Path:
    """Return the path of the notebook of `lesson` as it was released to this workspace."""
    return workspace / progress.MARKER / "release" / lesson / f"{lesson}.ipynb"


def as_released(workspace: Path, lesson: str) -> Any:
    """Return the lesson as released, or the learner's own notebook if no copy was kept, as in a checked-out folder."""
    path = release(workspace, lesson)
    return load(path if path.exists() else notebook(workspace, lesson))


def about(workspace: Path, lesson: str) -> dict[str, Any]:
    """Return the metadata of the notebook of `lesson`: `question`, `minutes`, and the labels of the lessons that it `needs`.

    They are missing for a lesson without `kind`. The result is empty if the notebook cannot be read.
    """
    path = release(workspace, lesson)
    try:
        text = (path if path.exists() else notebook(workspace, lesson)).read_text(encoding="utf-8")
        return dict(json.loads(text)["metadata"]["attn"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def load(path: Path) -> Any:
    """Return the notebook at `path`. Raises CourseError if it is missing or is not a notebook."""
    import nbformat  # slow to import, and a notebook's set-up cell imports this module

    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise CourseError(f"expected a notebook at {path}, found none. `attn lab` copies the released one there.") from None
    except Exception as error:  # nbformat raises errors from several libraries
        raise CourseError(
            f"{path}: expected a notebook, got a file that cannot be read ({type(error).__name__}). Open it in JupyterLab and "
            "save it; or `attn reset` the lesson, which keeps a backup of the file."
        ) from None


def save(made: Any, path: Path) -> None:
    """Write a notebook atomically: `path` always holds the old one or the new one."""
    import nbformat

    write_whole(path, nbformat.writes(made) + "\n")


def backup(workspace: Path, lesson: str) -> Path:
    """Copy the learner's notebook of `lesson` to a new file in `.attn/backups`, named by the time, and return the copy."""
    folder = workspace / progress.MARKER / "backups"
    folder.mkdir(parents=True, exist_ok=True)
    stamp, number = datetime.now().strftime("%Y-%m-%d_%H-%M-%S"), 0
    while True:
        copy = folder / f"{lesson}_{stamp}{f'_{number}' if number else ''}.ipynb"
        try:
            with copy.open("xb") as file:  # never overwrites another backup
                file.write(notebook(workspace, lesson).read_bytes())
            return copy
        except FileExistsError:
            number += 1


def find(workspace: Path, word: str) -> str:
    """Return the lesson in the workspace with this label ("03b"), slug or full name. Raises CourseError if there is none."""
    every = names(workspace)
    if named := [name for name in every if _names(word, name)]:
        return named[0]
    raise CourseError(f"expected a lesson, got {word!r}.{did_you_mean(word, every)}")


def _names(word: str, lesson: str) -> bool:
    name = lesson_names.parse(lesson)
    return name is not None and name.is_called(word)


def resolve(workspace: Path, word: str, *, written: bool = False) -> tuple[str, str | None]:
    """Return `(lesson, exercise)` for `LESSON.EXERCISE` or an unambiguous `EXERCISE`, or `(lesson, None)` for `LESSON`.

    `written` includes the written questions. Raises CourseError if there is no such lesson or exercise, or several.
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
    """Raise CourseError, saying what to do instead, if `name` is a written question, which has no check and no hints."""
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
    """Return the exercises of a lesson in order; `written` adds its written questions."""
    ids = list(load_pack(workspace, lesson).exercises)
    if written:
        ids += [str(grade_id(c)) for c in as_released(workspace, lesson).cells if is_answer(c) and grade_id(c) not in ids]
    return ids


def load_pack(workspace: Path, lesson: str) -> pack_file.Pack:
    """Return the visible pack of a lesson in the workspace. Raises CourseError if it is missing."""
    path = workspace / lesson / f"{lesson_names.slug_of(lesson)}{pack_file.SUFFIX}"
    if not path.exists():
        raise CourseError(f"expected the lesson's probe pack at {path}, found none. `attn lab` copies it there.")
    return pack_file.load(path)


def answered(workspace: Path, lesson: str) -> set[str]:
    """Return the `grade_id`s of the answer cells that, as last saved, differ from every released text of the cell."""
    kept = release(workspace, lesson)
    known = Release(load(kept)) if kept.exists() else None
    done = set()
    for cell in load(notebook(workspace, lesson)).cells:
        name = str(grade_id(cell))
        if not is_answer(cell) or not cell.source.strip():
            continue
        if known and name in known.cells:
            blank = known.untouched(name, cell.source)
        else:  # without a release, as in a checked-out folder, a code answer looks like a released cell
            blank = cell.cell_type == "code" or is_stub(cell.source)
        if not blank:
            done.add(name)
    return done
