"""The learner's own copy of the lessons: made once, never overwritten, opened in JupyterLab.

Layout: `work/NN_slug/NN_slug.ipynb` beside its probe pack, and `work/.attn/` for progress.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from autograder import pack, progress
from autograder.notebook import exercise_of
from autograder.registry import CourseError, course_root, did_you_mean

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
        "expected a workspace, found none. `attn lab` (or `make lab`) makes one in ./work; or say --workspace FOLDER."
    )


def prepare(folder: Path | None) -> Path:
    """Make the workspace, or add the lessons that it lacks. A notebook that is there is never touched; packs are refreshed."""
    target = (folder or course_root().parent / DEFAULT).resolve()
    (target / progress.MARKER).mkdir(parents=True, exist_ok=True)
    released = sorted((course_root() / "release").glob("[0-9][0-9]_*"))
    if not released:
        raise CourseError("expected released lessons in course/release, found none. Run `attn build`.")
    for lesson in released:
        for path in lesson.iterdir():
            copy = target / lesson.name / path.name
            if path.suffix == ".ipynb" and copy.exists():
                continue
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy)
    return target


def names(workspace: Path) -> list[str]:
    """The lessons in the workspace, in order."""
    return [folder.name for folder in sorted(workspace.glob("[0-9][0-9]_*")) if folder.is_dir()]


def find(workspace: Path, word: str) -> str:
    """The lesson in the workspace that `word` names: number, slug or full name."""
    every = names(workspace)
    for name in every:
        number, _, slug = name.partition("_")
        if word in (name, slug, number, str(int(number))):
            return name
    raise CourseError(f"expected a lesson, got {word!r}.{did_you_mean(word, every)}")


def load_pack(workspace: Path, lesson: str) -> pack.Pack:
    """The visible pack of a lesson in the workspace."""
    return pack.load(workspace / lesson / f"{lesson.partition('_')[2]}{pack.SUFFIX}")


def status(workspace: Path) -> list[dict[str, Any]]:
    """One row for each lesson: points, and each exercise's score, status and attempts."""
    done = progress.read(workspace)
    rows: list[dict[str, Any]] = []
    for name in names(workspace):
        lesson = load_pack(workspace, name)
        exercises: list[dict[str, Any]] = []
        for exercise in lesson.exercises.values():
            score, state, attempts = done.get((name, exercise.id), (0.0, "todo", 0))
            exercises.append(
                {"id": exercise.id, "score": score, "points": exercise.points, "status": state, "attempts": attempts}
            )
        done_all = all(exercise["status"] == "pass" for exercise in exercises)
        score = sum(exercise["score"] for exercise in exercises)
        row = {"lesson": name, "title": lesson.title, "score": score, "points": lesson.points, "done": done_all}
        rows.append({**row, "exercises": exercises})
    return rows


def next_notebook(workspace: Path, lesson: str | None) -> Path:
    """The notebook to open: the one asked for, else the first lesson that is not finished, else the last."""
    if lesson is not None:
        name = find(workspace, lesson)
    else:
        rows = status(workspace)
        open_ones = [row["lesson"] for row in rows if not row["done"]]
        name = open_ones[0] if open_ones else rows[-1]["lesson"]
    return Path(name) / f"{name}.ipynb"


def open_lab(workspace: Path, notebook: Path, *, port: int, browser: bool) -> int:
    """Run JupyterLab in the workspace until it is closed; returns its exit status."""
    if not shutil.which("jupyter-lab", path=str(Path(sys.executable).parent)):
        raise CourseError(
            "expected JupyterLab in this environment, found none. Install it: pip install 'attention-course[learn]'."
        )
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={workspace}", f"--port={port}"]
    command += [f"--LabApp.default_url=/lab/tree/{notebook.as_posix()}"]
    if not browser:
        command += ["--no-browser"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command += ["--allow-root"]
    return subprocess.call(command, cwd=workspace)


def check(workspace: Path, target: str) -> list[str]:
    """Run the notebook of `LESSON` or `LESSON.EXERCISE` in a fresh kernel; the text panel of each of its checks."""
    import nbformat
    from nbclient import NotebookClient

    word, _, only = target.partition(".")
    name = find(workspace, word)
    lesson = load_pack(workspace, name)
    if only and only not in lesson.exercises:
        raise CourseError(f"expected an exercise of {name}, got {only!r}.{did_you_mean(only, list(lesson.exercises))}")
    path = workspace / name / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    kept = []
    for cell in notebook.cells:
        exercise = exercise_of(cell)
        if exercise and only in ("", exercise):
            cell.source = f"print(check({exercise!r}))"
            cell.metadata["attn"] = exercise
        if cell.cell_type == "code" and (not exercise or "attn" in cell.metadata):
            kept.append(cell)
    notebook.cells = kept
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    panels = []
    for cell in notebook.cells:
        if "attn" in cell.metadata:
            text = "".join(o.get("text", "") for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")
            failed = next((f"{o.ename}: {o.evalue}" for o in cell.outputs if o.output_type == "error"), "")
            panels.append(text.rstrip() or f"✗ {cell.metadata['attn']} · the check could not run: {failed}")
    return panels
