"""Find the course: its folder, its lessons, and the exercises each declares.

Only the instructor side uses this module. A learner's machine has packs instead.
"""

import functools
import importlib
import importlib.util
import os
import re
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.judging import pack
from autograder.judging.exercise import Exercise

if TYPE_CHECKING:
    from autograder.authoring.settings import Settings

FILE = "course.toml"
MANY = 16  # of names, in a message
# in a lesson, a link to a page of the course, which stands beside the lesson's folder
BESIDE = re.compile(r"\]\(\.\./([\w-]+\.md)")
INSTALLED = "autograder.courses"  # entry points: a distribution names the package that holds its course, or stands in it
PACKAGE = "course"  # the name under which exercises import one another, wherever the folder is and whatever it is called


class CourseError(Exception):
    """Something about the course's files is wrong; the message says what was expected, where, and what next."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the message. Our own source would explain nothing to a learner."""
        return [str(self)]


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
        """`EXERCISES` of `exercises/<slug>.py` in the course folder, or of a package of that name."""
        root = course_root()
        _adopt(root)
        name = f"{PACKAGE}.exercises.{self.slug}"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, f"{PACKAGE}.exercises"):
                raise
            raise CourseError(
                f"lesson {self.name}: expected {root / 'exercises' / self.slug}.py, found none. Create it: see `attn new-lesson`."
            ) from None
        exercises: Sequence[Exercise] = module.EXERCISES
        return tuple(exercises)

    def pack(self, *, seed: int = pack.VISIBLE_SEED, naming: pack.Naming | None = None) -> pack.Pack:
        """The exercises as data. Raises CourseError where a reference fails, or returns what cannot be compared.

        Only the visible pack, which is made once and explains, knows all that can be named (`naming` may say otherwise); a
        hidden one decides marks.
        """
        naming = naming or ("near" if seed == pack.VISIBLE_SEED else "listed")
        try:
            made = pack.make(self.slug, self.title, self.exercises(), seed=seed, naming=naming)
        except ValueError as error:
            raise CourseError(str(error)) from None
        return made if settings().mend else made.without_mending


def _adopt(root: Path) -> None:
    """Make this course's packages the ones that are imported: `course` is its folder, whatever that is called."""
    places = {PACKAGE: [str(root)], f"{PACKAGE}.exercises": [str(root / "exercises")]}
    for name, path in places.items():
        if list(getattr(sys.modules.get(name), "__path__", [])) != path:
            _forget(name)
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = path
    references = settings().references
    found = sys.modules.get(references)
    if found is not None and not (getattr(found, "__file__", None) or "").startswith(f"{root.parent}{os.sep}"):
        _forget(references)
    if sys.path[:1] != [str(root.parent)]:
        sys.path.insert(0, str(root.parent))
    sys.path += [str(folder) for folder in given_folders() if str(folder) not in sys.path]
    importlib.invalidate_caches()


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


@functools.cache
def course_root() -> Path:
    """The course folder: `ATTN_COURSE`, or the nearest at or above the working folder, or a folder `course` in one of these."""
    configured = os.environ.get("ATTN_COURSE")
    candidates = [Path(configured)] if configured else _around(Path.cwd())
    for folder in candidates:
        if (folder / FILE).is_file():
            return folder.resolve()
    where = f"in {configured} (ATTN_COURSE)" if configured else "here or above"
    raise CourseError(f"expected a course folder, with a {FILE}, {where}; found none. `attn init` makes one.")


def _around(place: Path) -> list[Path]:
    return [folder for up in (place, *place.parents) for folder in (up, up / PACKAGE)]


def installed_courses() -> tuple[Path, ...]:
    """The course folders of installed distributions: of a wheel inside its package, of an editable clone around it.

    A wheel holds what a learner gets (the releases, and the pages that they lead to): no lesson's text, no answers.
    """
    found: dict[Path, None] = {}
    for announced in metadata.entry_points(group=INSTALLED):
        spec = importlib.util.find_spec(announced.value)
        for place in (spec.submodule_search_locations or []) if spec else []:
            home = next((folder for folder in _around(Path(place)) if (folder / FILE).is_file()), None)
            if home is not None:
                found[home.resolve()] = None
    return tuple(found)


def learners_course() -> Path:
    """The folder with the released lessons: of the course here, else of the one that is installed."""
    try:
        return course_root()
    except CourseError:
        found = installed_courses()
        if len(found) == 1 and "ATTN_COURSE" not in os.environ:
            return found[0]
        if len(found) > 1:
            several = ", ".join(map(str, found))
            raise CourseError(f"several courses are installed. Say which one, by ATTN_COURSE=FOLDER: {several}.") from None
        if "ATTN_COURSE" in os.environ:
            raise
        raise CourseError(
            f"expected a course, found none in {Path.cwd()} or above, and none that is installed.\n"
            "Go to the folder of its clone, or install its package with pip."
        ) from None


def settings() -> "Settings":
    """What the course says about itself."""
    return _settings(course_root() / FILE, (course_root() / FILE).stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _settings(path: Path, _modified: int) -> "Settings":
    from autograder.authoring.settings import SettingsError, read  # a learner's check needs none

    try:
        return read(path)
    except SettingsError as error:
        raise CourseError(str(error)) from None


def references_folder() -> Path:
    """The folder of the package with the answers."""
    return course_root().parent / settings().references


def given_folders() -> tuple[Path, ...]:
    """The folders whose packages lessons are given: what released cells and the sandbox may import of the course."""
    folders = tuple(course_root() / name for name in settings().given)
    if missing := next((folder for folder in folders if not folder.is_dir()), None):
        raise CourseError(
            f"{course_root() / FILE}: given: expected a folder {missing}, found none. Make it, or correct the name."
        )
    return folders


def search_path(*folders: Path) -> str:
    """PYTHONPATH for a kernel that shall find `folders` before all that this process was told to search."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


def given_here() -> tuple[Path, ...]:
    """`given_folders`; none where there is no course, as on the machine of somebody who installed the packages."""
    try:
        return given_folders()
    except CourseError:
        return ()


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
    """` Did you mean 'x'?`, or the list of options, as far as it can be read at a glance."""
    near = get_close_matches(word, options, n=1)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" There are: {', '.join(options[:MANY])}{', …' if len(options) > MANY else ''}."
