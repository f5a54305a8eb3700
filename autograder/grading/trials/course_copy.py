"""Make a course folder beside this course, with the same lessons, exercises and answers but its own gradebook and submissions."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from autograder.authoring.course import FILE, Lesson, course_root, references_folder, settings


def make(root: Path, lessons: Sequence[Lesson]) -> None:
    """Make the copy at `root`. It gets copies of the source and release of `lessons`, and links to everything else."""
    course = course_root()
    root.mkdir(parents=True, exist_ok=True)
    for lesson in lessons:
        for kind in ("source", "release"):
            shutil.copytree(course / kind / lesson.name, root / kind / lesson.name)
    for name in (FILE, "lessons", "exercises", *settings().given):
        if not (root / name).exists():
            (root / name).symlink_to(course / name)
    references = root.parent / references_folder().name
    if not references.exists():
        references.symlink_to(references_folder())
    config = course / "nbgrader_config.py"
    if config.exists():
        shutil.copyfile(config, root / config.name)
