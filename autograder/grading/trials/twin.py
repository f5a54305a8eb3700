"""A course folder beside this course: the same lessons, exercises and answers, and a gradebook and submissions of its own."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from autograder.authoring.course import FILE, Lesson, course_root, references_folder, settings


def make(root: Path, lessons: Sequence[Lesson]) -> None:
    """Make the twin at `root`; of `lessons` it gets its own source and release, all else is shared by links."""
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
