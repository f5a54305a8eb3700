"""The sample course: lessons that stay as they are, for tests of the engine, whatever the real course teaches.

`tests/sample_course/` holds a course folder and its answers. `in_use` makes it the course that the engine finds.
The fixtures `sample_course` and `sample_course_of_module` do so for a test and for a module.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from autograder.authoring.course import Lesson, course_root

HOME = Path(__file__).resolve().parent / "sample_course"
ROOT = HOME / "course"
LESSON = "01_soft_lookup"
_PACKAGES = ("answers", "course")


def lesson(name: str = LESSON) -> Lesson:
    """Return a lesson of the sample course. Its exercises can be read only while the course is in use."""
    label, _, slug = name.partition("_")
    return Lesson(int(label), "", slug, ROOT / "lessons" / f"{name}.md")


@contextmanager
def in_use(home: Path = HOME) -> Iterator[Path]:
    """Work in `home`, so that the engine and the programs that it starts find the course there; yield the course's folder."""
    folder, path, named = Path.cwd(), list(sys.path), os.environ.pop("ATTN_COURSE", None)
    modules = _take_modules()
    os.chdir(home)
    course_root.cache_clear()
    try:
        yield home / "course"
    finally:
        os.chdir(folder)
        course_root.cache_clear()
        _take_modules()
        sys.modules.update(modules)
        sys.path[:] = path
        if named is not None:
            os.environ["ATTN_COURSE"] = named


def _take_modules() -> dict[str, ModuleType]:
    """Remove the modules of a course's packages from those that are imported, and return them."""
    names = [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]
    return {name: sys.modules.pop(name) for name in names}
