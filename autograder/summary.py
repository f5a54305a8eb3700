"""The tables that the README quotes: generated from the sources, so they cannot drift."""

import re
from collections.abc import Sequence
from pathlib import Path

from autograder.registry import CourseError, Lesson
from autograder.verify import Verdict, verify_lesson


def lesson_table(lessons: Sequence[Lesson]) -> str:
    """A markdown table: lesson, exercises, points, named misconceptions."""
    lines = ["| lesson | | exercises | points | mistakes it names |", "|---|---|---|---|---|"]
    for lesson in lessons:
        exercises = lesson.exercises()
        points = sum(exercise.points for exercise in exercises)
        mistakes = sum(len(exercise.misconceptions) for exercise in exercises)
        link = f"[{lesson.title}](course/source/{lesson.name}/{lesson.name}.ipynb)"
        lines.append(f"| {lesson.number:02d} | {link} | {len(exercises)} | {points:g} | {mistakes} |")
    return "\n".join(lines)


def score_line(lessons: Sequence[Lesson]) -> str:
    """One sentence with the mutation score, measured now."""
    verdicts: list[Verdict] = [verdict for lesson in lessons for verdict in verify_lesson(lesson)]
    mistakes, caught = sum(v.misconceptions for v in verdicts), sum(v.caught for v in verdicts)
    variants, full = sum(v.variants for v in verdicts), sum(v.variants_full for v in verdicts)
    share = 100 * caught / mistakes if mistakes else 100.0
    return (
        f"Mutation score today: **{share:.1f}%** ({caught} of {mistakes} misconceptions in {len(verdicts)} exercises); "
        f"{full} of {variants} accepted variants get full marks."
    )


def filled(text: str, lessons: Sequence[Lesson]) -> str:
    """The README's `text` with both generated parts renewed. Raises CourseError where a marker is missing."""
    for name, body in (("lessons", lesson_table(lessons)), ("score", score_line(lessons))):
        pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise CourseError(
                f"README.md: expected the markers <!-- {name}: … --> and <!-- /{name} -->, found none. Put them back."
            )
        text = pattern.sub(lambda match, body=body: f"{match[1]}{body}\n{match[2]}", text)  # type: ignore[misc]  # mypy cannot infer a lambda's default
    return text


def refresh(path: Path, lessons: Sequence[Lesson], *, write: bool) -> bool:
    """Whether the README at `path` was up to date; with `write`, it is now."""
    old = path.read_text(encoding="utf-8")
    new = filled(old, lessons)
    if write and new != old:
        path.write_text(new, encoding="utf-8")
    return new == old
