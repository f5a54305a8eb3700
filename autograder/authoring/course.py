"""Find the course: its folder, its lessons, and the exercises that each lesson declares.

A learner's machine has releases and packs but no lessons, so `learners_course` and `given_here` work without lessons.
"""

import functools
import importlib
import importlib.util
import os
import re
import sys
import types
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.authoring import points_and_credit
from autograder.judging.exercise import AnyExercise, Exercise
from autograder.notebooks import lesson_names
from autograder.notebooks.lesson_names import LessonName
from autograder.notebooks.roles import CHECK
from autograder.packs import pack_file

if TYPE_CHECKING:
    from autograder.authoring.front_matter import FrontMatter
    from autograder.authoring.settings import Settings
    from autograder.packs.make_pack import Naming

FILE = "course.toml"
MANY = 16  # most names listed in a message
# a lesson's link to a page of the course, which lies beside the lesson's folder
BESIDE = re.compile(r"\]\(\.\./([\w-]+\.md)")
INSTALLED = "autograder.courses"  # entry points that name the package which holds a distribution's course or lies inside it
# a cell of a lesson's text that is exactly a check, as `roles.exercise_of` reads it
_CHECK_CELL = re.compile(rf"{CHECK.pattern}(?=\s*^(?:```|~~~))", re.MULTILINE)
PACKAGE = "course"  # exercises import one another under this name, whatever the course folder is called


class CourseError(Exception):
    """A course file is wrong. The message says what was expected, where, and what to do."""

    def _render_traceback_(self) -> list[str]:
        """Return the message alone as IPython's traceback, because our own source would explain nothing to a learner."""
        return [str(self)]


@dataclass(frozen=True)
class Lesson(LessonName):
    """A notebook of the course, whose text is at `path`: the core of a chapter, or one of its workshops.

    `name` is the assignment's name (`01_soft_lookup`, `03b_two_matrices`), `label` the short form (`03b`), and `slug` the rest,
    after which its modules and packs are named.
    """

    path: Path

    @property
    def name(self) -> str:
        return str(self)

    @property
    def shown_path(self) -> str:
        """The path of the lesson's text in the form for messages: see `shown`."""
        return shown(self.path)

    def notebook_in(self, folder: Path) -> Path:
        """Return the path of the lesson's notebook below `folder`, such as the course's `source` or `release`."""
        return folder / self.name / f"{self.name}.ipynb"

    def pack_in(self, folder: Path) -> Path:
        """Return the path of the lesson's pack below `folder`."""
        return folder / self.name / f"{self.slug}{pack_file.SUFFIX}"

    @property
    def title(self) -> str:
        """The first heading in the lesson's text. Raises CourseError if there is none."""
        match = re.search(r"^# (.+)$", self.path.read_text(encoding="utf-8"), re.MULTILINE)
        if match is None:
            raise CourseError(f"{self.path}: expected one '# Title' heading, got none. Add it to the first text cell.")
        return match.group(1).strip()

    @property
    def about(self) -> "FrontMatter":
        """The lesson's front matter. Raises CourseError if it is wrong."""
        from autograder.authoring import front_matter  # a learner's check doesn't need it

        stated = front_matter.read(self.path)
        if stated.kind and (stated.kind == "workshop") != bool(self.workshop):
            wanted = "workshop" if self.workshop else "core"
            raise CourseError(f"{self.path}: expected `kind: {wanted}` for the name {self.label}, got `kind: {stated.kind}`.")
        return stated

    @property
    def exercises_slug(self) -> str:
        """The slug of the module that declares the lesson's exercises: its own module if it has one, else the chapter core's.

        Raises CourseError if the lesson is a workshop without a module, and its chapter has no core.
        """
        own = course_root() / "exercises" / self.slug
        if not self.workshop or own.with_suffix(".py").exists() or own.is_dir():
            return self.slug
        core = core_of(self.chapter)
        if core is None:
            raise CourseError(
                f"lesson {self.name}: expected exercises in {own}, or a core notebook {self.chapter:02d}_….md whose exercises "
                "it shares; found neither."
            )
        return core.slug

    @property
    def shares_exercises(self) -> bool:
        """Whether the module declares exercises for several notebooks, so that this lesson has only those that it checks."""
        if self.exercises_slug != self.slug or self.about.kind:
            return True
        workshops = [other for other in lessons() if other.chapter == self.chapter and other.workshop]
        return not self.workshop and any(other.exercises_slug == self.slug for other in workshops)

    @property
    def checked(self) -> list[str]:
        """The exercises named in the lesson's check cells, in order."""
        return list(dict.fromkeys(_CHECK_CELL.findall(self.path.read_text(encoding="utf-8"))))

    def exercises(self) -> tuple[AnyExercise, ...]:
        """Return the lesson's exercises: all of its module, or if it shares the module, those that its check cells name."""
        declared = self.declared_exercises()
        if self.shares_exercises:
            known = {exercise.id: exercise for exercise in declared}
            declared = tuple(known[name] for name in self.checked if name in known)
        points = settings().points
        return points_and_credit.with_points(self, declared, points) if points else declared

    def in_code(self) -> tuple[Exercise, ...]:
        """Return the exercises that are answered by code: all except the predictions."""
        return tuple(exercise for exercise in self.exercises() if isinstance(exercise, Exercise))

    def shares(self) -> dict[str, dict[str, float]]:
        """Return the shares of points that wrong answers keep, by exercise and then by mistake, slip or output.

        Raises CourseError if course.toml names something that is not in the lesson.
        """
        declared, own = self.exercises(), settings()
        try:
            points_and_credit.check_names(self, declared, own.points, own.keeps)
        except ValueError as error:
            raise CourseError(f"{course_root() / FILE}: {error}") from None
        return points_and_credit.shares_of(self, declared, own.keeps)

    def declared_exercises(self) -> tuple[AnyExercise, ...]:
        """Return `EXERCISES` from `exercises/<slug>.py` or a package of that name. Raises CourseError if there is none."""
        root, slug = course_root(), self.exercises_slug
        adopt(root)
        name = f"{PACKAGE}.exercises.{slug}"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, f"{PACKAGE}.exercises"):
                raise
            raise CourseError(
                f"lesson {self.name}: expected {root / 'exercises' / slug}.py, found none. Create it: see `attn new-lesson`."
            ) from None
        exercises: Sequence[AnyExercise] = module.EXERCISES
        return tuple(exercises)

    def pack(self, *, seed: int | None = None, naming: "Naming | None" = None) -> pack_file.Pack:
        """Return the exercises as data, by default the visible pack.

        Unless `naming` says otherwise, only the visible pack knows every mistake that can be named, because it is made once and
        explains mistakes. A hidden pack only decides marks. Raises CourseError if a reference fails or returns what cannot be
        compared, or if the module that course.toml names as `operators` is missing.
        """
        from autograder.packs import make_pack  # a learner's check doesn't need it

        seed = make_pack.VISIBLE_SEED if seed is None else seed
        naming = naming or ("near" if seed == make_pack.VISIBLE_SEED else "listed")
        try:
            pack = make_pack.make(
                self.slug, self.title, self.exercises(), seed=seed, naming=naming, operators=settings().operators
            )
        except ValueError as error:
            raise CourseError(str(error)) from None
        return pack if settings().mend else pack.without_repair


def adopt(root: Path) -> None:
    """Make imports find the packages of the course at `root`. It is imported as `course`, whatever its folder is called."""
    places = {PACKAGE: [str(root)], f"{PACKAGE}.exercises": [str(root / "exercises")]}
    for name, path in places.items():
        if list(getattr(sys.modules.get(name), "__path__", [])) != path:
            _forget(name)
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = path
    references = settings().references
    loaded = sys.modules.get(references)
    if loaded is not None and not (getattr(loaded, "__file__", None) or "").startswith(f"{root.parent}{os.sep}"):
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
    """Return the course folder: `ATTN_COURSE`, or the nearest among the working folder, those above, and a `course` in them.

    Raises CourseError if there is none.
    """
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
    """Return the course folders of installed distributions, inside a wheel's package or around that of an editable clone.

    A wheel holds what a learner gets (the releases and the pages that they link to), but no lesson texts and no answers.
    """
    specs = [importlib.util.find_spec(announced.value) for announced in metadata.entry_points(group=INSTALLED)]
    places = [Path(place) for spec in specs if spec for place in spec.submodule_search_locations or ()]
    homes = [next((folder for folder in _around(place) if (folder / FILE).is_file()), None) for place in places]
    return tuple(dict.fromkeys(home.resolve() for home in homes if home))


def learners_course() -> Path:
    """Return the folder of the course whose releases a learner uses: the course here, or else the installed one.

    Raises CourseError if there is none, or if several are installed.
    """
    try:
        return course_root()
    except CourseError:
        installed = installed_courses()
        if len(installed) > 1:
            several = ", ".join(map(str, installed))
            raise CourseError(f"several courses are installed. Say which one, by ATTN_COURSE=FOLDER: {several}.") from None
        if "ATTN_COURSE" in os.environ:
            raise
        if installed:
            return installed[0]
        raise CourseError(
            f"expected a course, found none in {Path.cwd()} or above, and none that is installed.\n"
            "Go to the folder of its clone, or install its package with pip."
        ) from None


def settings() -> "Settings":
    """Return the course's settings. Raises CourseError if course.toml is wrong."""
    return _settings(course_root() / FILE, (course_root() / FILE).stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _settings(path: Path, _modified: int) -> "Settings":
    from autograder.authoring.settings import read  # a learner's check doesn't need it

    return read(path)


def shown(path: Path) -> str:
    """Return `path` in the form for messages: relative to the folder that contains the course."""
    home = course_root().parent
    return (path.relative_to(home) if path.is_relative_to(home) else path).as_posix()


def references_folder() -> Path:
    """Return the folder of the package with the answers."""
    return course_root().parent / settings().references


def given_folders() -> tuple[Path, ...]:
    """Return the folders of given packages, which lessons and the sandbox may import. Raises CourseError if one is missing."""
    folders = tuple(course_root() / name for name in settings().given)
    if missing := next((folder for folder in folders if not folder.is_dir()), None):
        raise CourseError(
            f"{course_root() / FILE}: given: expected a folder {missing}, found none. Make it, or correct the name."
        )
    return folders


def search_path(*folders: Path) -> str:
    """Return a PYTHONPATH for a kernel: `folders`, followed by this process's PYTHONPATH."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


def given_here() -> tuple[Path, ...]:
    """Return `given_folders`; empty if there is no course here, as with an installed package."""
    try:
        return given_folders()
    except CourseError:
        return ()


def lessons() -> tuple[Lesson, ...]:
    """Return all lessons in order: each chapter's core, then its workshops. Raises CourseError for a wrong or repeated name."""
    found = [lesson_at(path) for path in sorted((course_root() / "lessons").glob("*.md"), key=lambda path: path.stem)]
    for label, count in Counter(lesson.label for lesson in found).items():
        if count > 1:
            twice = [lesson.path.name for lesson in found if lesson.label == label]
            raise CourseError(f"expected one lesson {label}, found {' and '.join(twice)}. Rename one of them.")
    return tuple(found)


def lesson_at(path: Path) -> Lesson:
    """Return the lesson in the file at `path`. Raises CourseError if the file is not named like a lesson."""
    name = lesson_names.parse(path.stem)
    if name is None:
        raise CourseError(f"{path}: expected a name like 01_soft_lookup.md or 01b_a_river.md. Rename the file.")
    return Lesson(name.chapter, name.workshop, name.slug, path)


def by_chapter(lessons: Iterable[Lesson]) -> dict[int, list[Lesson]]:
    """Return the lessons of each chapter, in order."""
    chapters: dict[int, list[Lesson]] = {}
    for lesson in lessons:
        chapters.setdefault(lesson.chapter, []).append(lesson)
    return chapters


def core_of(chapter: int) -> Lesson | None:
    """Return the core of a chapter, or None if it has none."""
    return next((lesson for lesson in lessons() if lesson.chapter == chapter and not lesson.workshop), None)


def shared_out(chapter: Sequence[Lesson]) -> list[str]:
    """Return a message for each shared exercise of a chapter that none of its notebooks checks, or that several check."""
    problems = []
    for slug in dict.fromkeys(lesson.exercises_slug for lesson in chapter if lesson.shares_exercises):
        sharing = [lesson for lesson in chapter if lesson.exercises_slug == slug and lesson.shares_exercises]
        where = shown(course_root() / "exercises" / slug)
        for exercise in sharing[0].declared_exercises():
            homes = [lesson.label for lesson in sharing if exercise.id in lesson.checked]
            if not homes:
                labels = ", ".join(lesson.label for lesson in sharing)
                problems.append(
                    f'{where}: `{exercise.id}` is asked in none of {labels}: add check("{exercise.id}"), or delete it'
                )
            elif len(homes) > 1:
                problems.append(f"{where}: `{exercise.id}` is asked in {' and '.join(homes)}: keep it in one of them")
    return problems


def linked_pages(home: Path, lessons: Iterable[Path]) -> list[Path]:
    """Return the pages of the course in `home`, such as an appendix, to which the files in `lessons` link."""
    names = {name for path in lessons for name in BESIDE.findall(path.read_text(encoding="utf-8"))}
    return [home / name for name in sorted(names) if (home / name).is_file()]


def find_lesson(word: str) -> Lesson:
    """Return the lesson with this label ("03b"), slug or full name. Raises a CourseError that suggests the nearest name."""
    every = lessons()
    if lesson := next((lesson for lesson in every if lesson.is_called(word)), None):
        return lesson
    raise CourseError(f"expected a lesson, got {word!r}.{did_you_mean(word, [name for x in every for name in (x.slug, x.name)])}")


def find_lessons(word: str) -> tuple[Lesson, ...]:
    """Return the lesson that `word` names, or all notebooks of a chapter for `03*` (a shell may need quotes).

    Raises CourseError if there is none.
    """
    if not re.fullmatch(r"\d{1,2}\*", word):
        return (find_lesson(word),)
    chapter = tuple(lesson for lesson in lessons() if lesson.chapter == int(word[:-1]))
    if not chapter:
        raise CourseError(f"expected a chapter, got {word!r}: there is no lesson {word[:-1]}.")
    return chapter


def did_you_mean(word: str, options: Sequence[str]) -> str:
    """Return ` Did you mean 'x'?` with the option nearest to `word`, or a short list of the options if none is near."""
    near = get_close_matches(word, options, n=1)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" There are: {', '.join(options[:MANY])}{', …' if len(options) > MANY else ''}."
