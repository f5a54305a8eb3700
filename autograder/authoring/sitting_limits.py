"""Check the limits on what a core notebook or a workshop may ask of its reader in one sitting, and check its claim box.

The limits apply to a lesson whose front matter states its `kind`. A claim box is a section `## Common claim, tested`: the
claim as a block quotation, a decision by the learner (a prediction's check, or an answer folded in `<details>`), then the
test.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autograder.authoring import prose, workload
from autograder.authoring.course import Lesson
from autograder.judging.exercise import AnyExercise, Prediction

CLAIM = "Common claim, tested"
MIN_EXERCISES, MAX_CLAIMS = 2, 1
_CLAIM = re.compile(rf"^#+ +{CLAIM}\s*$", re.MULTILINE | re.IGNORECASE)
_SECTION = re.compile(r"^## ", re.MULTILINE)
_CODE_CELL = re.compile(r"^(`{3,})\{code-cell\}[^\n]*\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
_CHECK = re.compile(r"""^check\(\s*["'](\w+)["']\s*\)$""", re.MULTILINE)


MAX_WORDS = {"core": 1000, "workshop": 1200}  # of prose
MAX_MINUTES = {"core": 45, "workshop": 60}


@dataclass(frozen=True)
class Miss:
    """A rule that a lesson breaks, the line in its text, and what to fix there."""

    rule: str
    line: int
    says: str


def misses(lesson: Lesson) -> Iterator[Miss]:
    """Yield the rules that the lesson breaks; none if its front matter states no `kind`."""
    about = lesson.about
    if about.kind is None:
        return
    text, exercises = lesson.path.read_text(encoding="utf-8"), lesson.exercises()
    title = text[: text.find("\n# ") + 1].count("\n") + 1
    for miss in prose.misses(text):
        yield Miss("prose", title, miss)
    if (words := prose.measure(text).words) > (most := MAX_WORDS[about.kind]):
        yield Miss("limit", title, f"a {about.kind} has at most {most} words of prose, this one has {words}")
    if (minutes := workload.minutes(lesson)) > (most := MAX_MINUTES[about.kind]):
        yield Miss("limit", title, f"a {about.kind} takes at most {most} minutes, this one takes {minutes}")
    asked = lesson.in_code()
    if len(asked) < MIN_EXERCISES:
        yield Miss("limit", title, f"expected at least {MIN_EXERCISES} exercises besides predictions, got {len(asked)}")
    yield from _claims(text, exercises)


def _claims(text: str, exercises: Sequence[AnyExercise]) -> Iterator[Miss]:
    boxes = list(_CLAIM.finditer(text))
    for box in boxes[MAX_CLAIMS:]:
        yield Miss("limit", _line(text, box.start()), f"a notebook has at most {MAX_CLAIMS} box `{CLAIM}`")
    predictions = {exercise.id for exercise in exercises if isinstance(exercise, Prediction)}
    for box in boxes:
        after = _SECTION.search(text, box.end())
        section = text[box.end() : after.start() if after else len(text)]
        decision = _decision(section, predictions)
        line = _line(text, box.start())
        if not re.search(r"^> \S", section, re.MULTILINE):
            yield Miss("limit", line, "the box quotes no claim: put it into a block quotation (`> …`)")
        if decision is None:
            yield Miss("limit", line, "the learner decides nothing: ask for a prediction, or fold the answer in <details>")
        elif all("solution: true" in cell[2] or _CHECK.search(cell[2]) for cell in _CODE_CELL.finditer(section, decision)):
            yield Miss("limit", line, "no cell tests the claim after the learner's decision")


def _decision(section: str, predictions: set[str]) -> int | None:
    """Return the offset in `section` at which the learner decides, or None if nothing asks for a decision."""
    places = [match.end() for match in _CHECK.finditer(section) if match[1] in predictions]
    folded = section.find("<details")
    return min([*places, *([folded] if folded >= 0 else [])], default=None)


def _line(text: str, offset: int) -> int:
    return text[:offset].count("\n") + 1
