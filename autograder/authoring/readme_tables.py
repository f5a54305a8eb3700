"""Generate the tables and references in the README and other documents from their sources, so they cannot drift."""

import functools
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autograder.authoring import author_reference
from autograder.authoring.course import CourseError, Lesson, by_chapter, core_of, course_root
from autograder.authoring.verify import Verdict, verify_lesson
from autograder.authoring.workload import minutes

_GRADER = "docs/grader.md"  # the page about the grader, which quotes the score too


def lesson_table(lessons: Sequence[Lesson]) -> str:
    """Return a Markdown table with a row for each chapter (core notebook, minutes, workshops) and a last row with the sums."""
    lines = ["| core path | minutes | workshops |", "|---|---|---|"]
    for number, notebooks in by_chapter(lessons).items():
        core = [lesson for lesson in notebooks if not lesson.workshop]
        workshops = ", ".join(_link(lesson) for lesson in notebooks if lesson.workshop)
        lines.append(f"| {number:02d} {', '.join(map(_link, core))} | {sum(map(minutes, core))} | {workshops} |")
    spent = hours(lessons)
    return "\n".join([*lines, f"| **{spent[0]} hours** | | {f'**{spent[1]} hours**' if spent[1] else ''} |"])


def hours(lessons: Sequence[Lesson]) -> tuple[int, int]:
    """Return the hours of the core path and of the workshops."""
    core = sum(minutes(lesson) for lesson in lessons if not lesson.workshop)
    return round(core / 60), round((sum(map(minutes, lessons)) - core) / 60)


def _link(lesson: Lesson) -> str:
    """Return the lesson's title as a link from the README to the released notebook."""
    return f"[{lesson.title}](course/release/{lesson.name}/{lesson.name}.ipynb)"


def syllabus_table(lessons: Sequence[Lesson]) -> str:
    """Return a Markdown table of lessons: released notebook, objectives, checks, points, misconceptions, minutes, answers."""
    lines = [
        "| lesson | you will learn | checks | points by checks | misconceptions | minutes | with answers |",
        "|---|---|---|---|---|---|---|",
    ]
    for lesson in lessons:
        exercises = lesson.exercises()
        points, mistakes = sum(each.points for each in exercises), sum(len(each.misconceptions) for each in lesson.in_code())
        link = f"[{lesson.label} {lesson.title}](release/{lesson.name}/{lesson.name}.ipynb){_remarks(lesson)}"
        solved = f"[answers](source/{lesson.name}/{lesson.name}.ipynb)"
        goals = "; ".join(objectives(lesson))
        lines.append(f"| {link} | {goals} | {len(exercises)} | {points:g} | {mistakes} | {minutes(lesson)} | {solved} |")
    return "\n".join(lines)


def term_table(lessons: Sequence[Lesson]) -> str:
    """Return a Markdown table: week, assignment, points by the grader and by hand, minutes.

    A chapter is a week. Its workshops follow its core notebook, and the last row but one sums up the core path alone.
    """
    lines = ["| week | assignment | points, graded | points, by hand | minutes |", "|---|---|---|---|---|"]
    rows = {each: (sum(one.points for one in each.exercises()), hand_points(each), minutes(each)) for each in lessons}
    weeks = {number: week for week, number in enumerate(by_chapter(lessons), start=1)}

    def add(start: str, some: Sequence[Lesson]) -> None:
        graded, by_hand, spent = (sum(rows[lesson][column] for lesson in some) for column in range(3))
        lines.append(f"| {start} | {graded:g} | {by_hand:g} | {spent} |")

    for lesson in lessons:
        week = "" if lesson.workshop and core_of(lesson.chapter) in lessons else weeks[lesson.chapter]
        add(f"{week} | `{lesson.name}`{_remarks(lesson)}", [lesson])
    core = [lesson for lesson in lessons if not lesson.workshop]
    if len(core) < len(lessons):
        add("| core path", core)
        add("| with all workshops", lessons)
    else:
        add("|", lessons)
    return "\n".join(lines)


def _remarks(lesson: Lesson) -> str:
    """Return the remark after a lesson's name in a table: whether it is a workshop, and what it needs; often empty."""
    needs = f"needs {', '.join(lesson.about.needs)}" if lesson.about.needs else ""
    remarks = ", ".join(filter(None, ["workshop" if lesson.workshop else "", needs]))
    return f" ({remarks})" if remarks else ""


def hand_points(lesson: Lesson) -> float:
    """Return the points of the lesson's written questions."""
    cells = re.findall(r"^\+\+\+ (\{.*\})\s*$", lesson.path.read_text(encoding="utf-8"), re.MULTILINE)
    written = [cell["nbgrader"] for cell in map(json.loads, cells) if cell.get("nbgrader", {}).get("grade")]
    return float(sum(cell["points"] for cell in written if cell.get("solution")))


def objectives(lesson: Lesson) -> list[str]:
    """Return the lesson's question, or the items after "**You will learn**". Raises CourseError if there is neither."""
    if lesson.about.question:
        return [lesson.about.question.replace("|", "\\|")]
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
    """Return two Markdown tables from `course/glossary.toml`: axes, and symbols with shape and defining lesson."""
    data = tomllib.loads((course_root() / "glossary.toml").read_text(encoding="utf-8"))
    axes = ["| axis | means |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in data["axes"].items())]
    symbols = ["| symbol | shape | means | from lesson |", "|---|---|---|---|"]
    symbols += [f"| {s['name']} | {s['shape']} | {s['meaning']} | {s['lesson']:02d} |" for s in data["symbol"]]
    return "\n".join([*axes, "", *symbols])


def score_line(verdicts: Sequence[Verdict]) -> str:
    """Return one sentence with the mutation score."""
    mistakes, caught = sum(v.misconceptions for v in verdicts), sum(v.caught for v in verdicts)
    variants, full = sum(v.variants for v in verdicts), sum(v.variants_full for v in verdicts)
    share = 100 * caught / mistakes if mistakes else 100.0
    return (
        f"Mutation score today: **{share:.1f}%** ({caught} of {mistakes} misconceptions in {len(verdicts)} exercises); "
        f"{full} of {variants} accepted variants get full marks."
    )


def filled(text: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """Return `text` with each of `parts` generated again between its markers. Raises CourseError if a marker is missing."""
    for name, make in parts.items():
        pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise CourseError(f"expected the markers <!-- {name}: … --> and <!-- /{name} -->, found none. Put them back.")
        body = make()
        text = pattern.sub(lambda match, body=body: f"{match[1]}{body}\n{match[2]}", text)  # type: ignore[misc]  # mypy cannot infer a lambda's default
    return text


def refresh(lessons: Sequence[Lesson], *, write: bool) -> list[Path]:
    """Return the documents whose generated parts are out of date; `write` updates them.

    Measuring the mutation score takes minutes, so the score is renewed only with `write`. `attn verify`, which measures it
    anyway, calls `has_score` to compare it.
    """
    root = course_root()
    front: dict[str, Callable[[], str]] = {"lessons": lambda: lesson_table(lessons)}
    grader: dict[str, Callable[[], str]] = {}
    if write:
        measured = functools.cache(lambda: score_line([verdict for lesson in lessons for verdict in verify_lesson(lesson)]))
        front["score"] = grader["score"] = measured
    documents: dict[Path, dict[str, Callable[[], str]]] = {
        root.parent / "README.md": front,
        root / "README.md": {"syllabus": lambda: syllabus_table(lessons), "glossary": glossary},
        root.parent / _GRADER: grader,
        root.parent / "docs" / "teaching" / "term.md": {"term": lambda: term_table(lessons)},
        root.parent / "docs" / "authors.md": {"reference": author_reference.reference},
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
    """Return whether the README and the page about the grader quote the mutation score of `verdicts`.

    A file that is missing, or has no place for the score, counts as correct.
    """
    paths = [course_root().parent / name for name in ("README.md", _GRADER)]
    texts = [path.read_text(encoding="utf-8") for path in paths if path.exists()]
    return all(score_line(verdicts) in text for text in texts if "<!-- score:" in text)
