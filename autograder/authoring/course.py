"""Find the course: its folder, its lessons, and the exercises each declares.

Only the instructor side uses this module. A learner's machine has packs instead.
"""

import functools
import importlib
import os
import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from autograder.judging.exercise import Exercise


class CourseError(Exception):
    """Something about the course's files is wrong; the message says what was expected, where, and what next."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the message. Our own source would explain nothing to a learner."""
        return [str(self)]


def spare_grammars() -> None:
    """Save a second and a half at the start of a command: call it before nbformat is imported.

    jsonschema compiles grammars, for checks of addresses that nobody asks for, when it finds the package rfc3987_syntax.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None is Python's own mark for "do not import"


@dataclass(frozen=True)
class Lesson:
    """One lesson: `slug` is the file name everywhere, `name` the assignment (`01_soft_lookup`)."""

    number: int
    slug: str
    path: Path

    @property
    def name(self) -> str:
        return f"{self.number:02d}_{self.slug}"

    @property
    def title(self) -> str:
        """The first heading of the lesson's text."""
        match = re.search(r"^# (.+)$", self.path.read_text(encoding="utf-8"), re.MULTILINE)
        if match is None:
            raise CourseError(f"{self.path}: expected one '# Title' heading, got none. Add it to the first text cell.")
        return match.group(1).strip()

    def exercises(self) -> tuple[Exercise, ...]:
        """`EXERCISES` of `course/exercises/<slug>.py`."""
        root = str(course_root().parent)
        if root not in sys.path:
            sys.path.insert(0, root)
        sys.path += [str(folder) for folder in given_folders() if str(folder) not in sys.path]
        try:
            module = importlib.import_module(f"course.exercises.{self.slug}")
        except ModuleNotFoundError as error:
            if error.name != f"course.exercises.{self.slug}":
                raise
            raise CourseError(
                f"lesson {self.name}: expected course/exercises/{self.slug}.py. Create it: see `attn new-lesson`."
            ) from None
        exercises: Sequence[Exercise] = module.EXERCISES
        return tuple(exercises)


@functools.cache
def course_root() -> Path:
    """The `course/` folder: `ATTN_COURSE`, or the nearest one at or above the working folder, or beside this package."""
    if configured := os.environ.get("ATTN_COURSE"):
        candidates = [Path(configured)]
    else:
        here = Path.cwd()
        candidates = [folder for up in (here, *here.parents) for folder in (up, up / "course")]
        candidates.append(Path(__file__).resolve().parents[2] / "course")
    for folder in candidates:
        if (folder / "lessons").is_dir() and (folder / "exercises").is_dir():
            return folder.resolve()
    raise CourseError(
        "expected a course folder (with lessons/ and exercises/) here or above, found none. "
        "Run this in a clone, or set ATTN_COURSE."
    )


def setting(name: str, default: Any) -> Any:
    """What course.toml says about `name`."""
    path = course_root() / "course.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")).get(name, default) if path.exists() else default


def given_folders() -> tuple[Path, ...]:
    """The folders whose packages lessons are given (`given` in course.toml): what released cells and the sandbox may import."""
    named = setting("given", [])
    return tuple(course_root() / name for name in ([named] if isinstance(named, str) else named))


def lessons() -> tuple[Lesson, ...]:
    """All lessons in order."""
    found = []
    for path in sorted((course_root() / "lessons").glob("*.md")):
        match = re.fullmatch(r"(\d\d)_([a-z][a-z0-9_]*)", path.stem)
        if match is None:
            raise CourseError(f"{path}: expected a name like 01_soft_lookup.md. Rename the file.")
        found.append(Lesson(int(match[1]), match[2], path))
    return tuple(found)


def find_lesson(word: str) -> Lesson:
    """The lesson named by its number, slug or full name; an unknown word suggests the nearest."""
    every = lessons()
    for lesson in every:
        if word in (lesson.slug, lesson.name, str(lesson.number), f"{lesson.number:02d}"):
            return lesson
    raise CourseError(f"expected a lesson, got {word!r}.{did_you_mean(word, [name for x in every for name in (x.slug, x.name)])}")


def did_you_mean(word: str, options: Sequence[str]) -> str:
    """` Did you mean 'x'?`, or the list of options."""
    near = get_close_matches(word, options, n=1)
    return f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(options)}."
