"""Convert and check the links between notebooks, and check the notebooks that each one needs.

A lesson's text links to another one as `[masking](04_masking.md)`, which an editor can follow. Each notebook has its own
folder, so the build writes `../04_masking/04_masking.ipynb` instead, and `attn book` links to the page.
"""

import re
from collections.abc import Sequence

from autograder.authoring.course import Lesson, did_you_mean
from autograder.notebooks.lesson_names import PATTERN

_TO_TEXT = re.compile(rf"\]\(({PATTERN})\.md(#[^)\s]*)?\)")
_TO_NOTEBOOK = re.compile(rf"\]\(\.\./({PATTERN})/\1\.ipynb(?:#[^)\s]*)?\)")


def to_notebooks(text: str) -> str:
    """Replace each link to another lesson's text by a link to its notebook.

    >>> to_notebooks("See [masking](04_masking.md#padding).")
    'See [masking](../04_masking/04_masking.ipynb#padding).'
    """
    return _TO_TEXT.sub(lambda link: f"](../{link[1]}/{link[1]}.ipynb{link[2] or ''})", text)


def broken_links(lesson: Lesson, every: Sequence[Lesson]) -> list[str]:
    """Return a line for each link in the lesson's text to a notebook that the course does not have."""
    names = [other.name for other in every]
    problems = []
    for number, line in enumerate(lesson.path.read_text(encoding="utf-8").splitlines(), start=1):
        for pattern in (_TO_TEXT, _TO_NOTEBOOK):
            problems += [
                f"{lesson.shown_path}, line {number}: expected a link to a notebook of the course, got "
                f"{name!r}.{did_you_mean(name, names)}"
                for name in (link[1] for link in pattern.finditer(line))
                if name not in names
            ]
    return problems


def wrong_needs(lesson: Lesson, every: Sequence[Lesson]) -> list[str]:
    """Return a message for each label in a lesson's `needs` that doesn't exist, or whose notebook needs this lesson first."""
    known = {other.label: other for other in every}
    where = f"{lesson.shown_path}: needs"
    problems = [
        f"{where}: expected labels of notebooks of the course, got {label!r}.{did_you_mean(label, list(known))}"
        for label in lesson.about.needs
        if label not in known
    ]
    for label in lesson.about.needs:
        if back := _way(label, lesson.label, known):
            problems.append(f"{where}: expected an order without a circle, got {' needs '.join([lesson.label, *back])}.")
    return problems


def _way(start: str, goal: str, known: dict[str, Lesson]) -> list[str]:
    """Return the labels from `start` to `goal`, each needing the next; empty if there is no such path."""
    ways, reached = [[start]], {start}
    while ways:
        way = ways.pop(0)
        if way[-1] == goal:
            return way
        for label in known[way[-1]].about.needs if way[-1] in known else ():
            if label not in reached:
                reached.add(label)
                ways.append([*way, label])
    return []
