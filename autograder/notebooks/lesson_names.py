"""Parse the names of lessons: `03_scaled_dot_product` is the core of chapter 3, and `03b_two_matrices` one of its workshops.

Names sort in the order of the course: first the core of a chapter, then its workshops by letter.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PATTERN = r"\d\d[a-z]?_[a-z][a-z0-9_]*"
_NAME = re.compile(r"(?P<chapter>\d\d)(?P<workshop>[a-z]?)_(?P<slug>[a-z][a-z0-9_]*)")


@dataclass(frozen=True)
class LessonName:
    """The parts of a lesson's name. `workshop` is its letter, which is empty for the core of a chapter."""

    chapter: int
    workshop: str
    slug: str

    def __str__(self) -> str:
        return f"{self.label}_{self.slug}"

    @property
    def label(self) -> str:
        """Return the short name, such as "03" or "03b"."""
        return f"{self.chapter:02d}{self.workshop}"

    def is_called(self, word: str) -> bool:
        """Return whether `word` means this lesson: its label (`03b` or `3b`), its slug or its full name."""
        return word in (str(self), self.slug, self.label, f"{self.chapter}{self.workshop}")


def parse(name: str) -> LessonName | None:
    """Return the parts of `name`, or None if it is not the name of a lesson.

    >>> parse("03b_two_matrices")
    LessonName(chapter=3, workshop='b', slug='two_matrices')
    >>> parse("appendix") is None
    True
    """
    match = _NAME.fullmatch(name)
    return LessonName(int(match["chapter"]), match["workshop"], match["slug"]) if match else None


def label_of(name: str) -> str:
    """Return the short name of the lesson called `name`: "03b" for `03b_two_matrices`."""
    return name.partition("_")[0]


def slug_of(name: str) -> str:
    """Return the slug of the lesson called `name`: "two_matrices" for `03b_two_matrices`."""
    return name.partition("_")[2]


def chapter_of(name: str) -> str:
    """Return the chapter of the lesson called `name`, as two digits."""
    return name[:2]


def is_workshop(name: str) -> bool:
    """Return whether the lesson called `name` is a workshop and not the core of its chapter."""
    return len(label_of(name)) > 2


def next_core(names: Sequence[str], name: str) -> str | None:
    """Return the core of the chapter after the lesson called `name`; None after the last chapter.

    >>> next_core(["03_scores", "03b_rings", "04_masking"], "03b_rings")
    '04_masking'
    """
    return next((other for other in names if not is_workshop(other) and chapter_of(other) > chapter_of(name)), None)


def workshops_beside(names: Sequence[str], name: str) -> list[str]:
    """Return the other workshops in the chapter of the lesson called `name`.

    >>> workshops_beside(["03_scores", "03b_rings", "03c_slopes", "04_masking"], "03b_rings")
    ['03c_slopes']
    """
    return [other for other in names if is_workshop(other) and chapter_of(other) == chapter_of(name) and other != name]


def folders(place: Path) -> list[Path]:
    """Return the folders in `place` that are named like lessons, in order."""
    lessons = [path for path in place.glob("[0-9][0-9]*_*") if parse(path.name) and path.is_dir()]
    return sorted(lessons, key=lambda path: path.name)
