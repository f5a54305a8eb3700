"""The tables that the README and two documents of the course quote: generated from the sources, so they cannot drift."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autograder.authoring.course import CourseError, Lesson, course_root
from autograder.authoring.verify import Verdict, verify_lesson
from autograder.authoring.workload import minutes


def lesson_table(lessons: Sequence[Lesson]) -> str:
    """A markdown table: lesson, checks, their points, named misconceptions."""
    lines = ["| lesson | | checks | points by checks | mistakes it names |", "|---|---|---|---|---|"]
    for lesson in lessons:
        checks, points, mistakes = _counts(lesson)
        link = f"[{lesson.title}](course/release/{lesson.name}/{lesson.name}.ipynb)"
        lines.append(f"| {lesson.number:02d} | {link} | {checks} | {points:g} | {mistakes} |")
    return "\n".join(lines)


def syllabus_table(lessons: Sequence[Lesson]) -> str:
    """A markdown table: lesson as a learner gets it, objectives, checks, their points, misconceptions, minutes; answers apart."""
    lines = [
        "| lesson | you will learn | checks | points by checks | misconceptions | minutes | with answers |",
        "|---|---|---|---|---|---|---|",
    ]
    for lesson in lessons:
        checks, points, mistakes = _counts(lesson)
        link = f"[{lesson.number:02d} {lesson.title}](release/{lesson.name}/{lesson.name}.ipynb)"
        solved = f"[answers](source/{lesson.name}/{lesson.name}.ipynb)"
        goals = "; ".join(objectives(lesson))
        lines.append(f"| {link} | {goals} | {checks} | {points:g} | {mistakes} | {minutes(lesson)} | {solved} |")
    return "\n".join(lines)


def _counts(lesson: Lesson) -> tuple[int, float, int]:
    """The checks of a lesson, their points, the mistakes that they name."""
    exercises = lesson.exercises()
    return len(exercises), sum(each.points for each in exercises), sum(len(each.misconceptions) for each in exercises)


def term_table(lessons: Sequence[Lesson]) -> str:
    """A markdown table: week, assignment, points by the grader and by hand, minutes."""
    lines = ["| week | assignment | points, graded | points, by hand | minutes |", "|---|---|---|---|---|"]
    sums = [0.0, 0.0, 0]
    for week, lesson in enumerate(lessons, start=1):
        row = (sum(exercise.points for exercise in lesson.exercises()), hand_points(lesson), minutes(lesson))
        sums = [total + value for total, value in zip(sums, row, strict=True)]
        lines.append(f"| {week} | `{lesson.name}` | {row[0]:g} | {row[1]:g} | {row[2]} |")
    return "\n".join([*lines, f"| | | {sums[0]:g} | {sums[1]:g} | {sums[2]} |"])


def hand_points(lesson: Lesson) -> float:
    """The points of the lesson's written questions."""
    cells = re.findall(r"^\+\+\+ (\{.*\})\s*$", lesson.path.read_text(encoding="utf-8"), re.MULTILINE)
    written = [cell["nbgrader"] for cell in map(json.loads, cells) if cell.get("nbgrader", {}).get("grade")]
    return float(sum(cell["points"] for cell in written if cell.get("solution")))


def objectives(lesson: Lesson) -> list[str]:
    """What the lesson says one will learn: the list or sentence after "**You will learn**". Raises CourseError if none."""
    text = lesson.path.read_text(encoding="utf-8")
    match = re.search(r"^\*\*You will learn\*\*:?(.*?)\n\s*\n(?=[^-*\s]|\*\*|```)", text, re.DOTALL | re.MULTILINE)
    if match is None:
        raise CourseError(
            f"{lesson.path}: expected a paragraph or list that begins **You will learn**, found none. Say what for."
        )
    items = re.split(r"\n\s*[-*] ", match[1])
    goals = [re.sub(r"\s+", " ", item).strip(" .;,:…") for item in items]
    return [goal.replace("|", "\\|") for goal in goals if goal]


def glossary() -> str:
    """Two markdown tables from `course/glossary.toml`: axes, and symbols with shape and the lesson that defines them."""
    data = tomllib.loads((course_root() / "glossary.toml").read_text(encoding="utf-8"))
    axes = ["| axis | means |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in data["axes"].items())]
    symbols = ["| symbol | shape | means | from lesson |", "|---|---|---|---|"]
    symbols += [f"| {s['name']} | {s['shape']} | {s['meaning']} | {s['lesson']:02d} |" for s in data["symbol"]]
    return "\n".join([*axes, "", *symbols])


def score_line(verdicts: Sequence[Verdict]) -> str:
    """One sentence with the mutation score."""
    mistakes, caught = sum(v.misconceptions for v in verdicts), sum(v.caught for v in verdicts)
    variants, full = sum(v.variants for v in verdicts), sum(v.variants_full for v in verdicts)
    share = 100 * caught / mistakes if mistakes else 100.0
    return (
        f"Mutation score today: **{share:.1f}%** ({caught} of {mistakes} misconceptions in {len(verdicts)} exercises); "
        f"{full} of {variants} accepted variants get full marks."
    )


def filled(text: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """`text` with each generated part renewed between its markers. Raises CourseError where a marker is missing."""
    for name, make in parts.items():
        pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise CourseError(f"expected the markers <!-- {name}: … --> and <!-- /{name} -->, found none. Put them back.")
        body = make()
        text = pattern.sub(lambda match, body=body: f"{match[1]}{body}\n{match[2]}", text)  # type: ignore[misc]  # mypy cannot infer a lambda's default
    return text


def refresh(lessons: Sequence[Lesson], *, write: bool) -> list[Path]:
    """The documents whose generated parts were out of date; with `write`, they no longer are.

    The mutation score takes minutes: it is renewed where it is written, and compared by `has_score` where it is measured.
    """
    root = course_root()
    front: dict[str, Callable[[], str]] = {"lessons": lambda: lesson_table(lessons)}
    if write:
        front["score"] = lambda: score_line([verdict for lesson in lessons for verdict in verify_lesson(lesson)])
    documents: dict[Path, dict[str, Callable[[], str]]] = {
        root.parent / "README.md": front,
        root / "README.md": {"syllabus": lambda: syllabus_table(lessons), "glossary": glossary},
        root / "INSTRUCTORS.md": {"term": lambda: term_table(lessons)},
    }
    stale = []
    for path, parts in documents.items():
        if not path.exists():
            continue
        old = path.read_text(encoding="utf-8")
        new = filled(old, parts)
        if new != old:
            stale.append(path)
            if write:
                path.write_text(new, encoding="utf-8")
    return stale


def has_score(verdicts: Sequence[Verdict]) -> bool:
    """Whether the README quotes the mutation score of `verdicts`; a course without a README, or without one there, is fine."""
    path = course_root().parent / "README.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return "<!-- score:" not in text or score_line(verdicts) in text
