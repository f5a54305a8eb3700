"""The Errata of all lessons: every claim is refuted by code that runs, and stands in one lesson only."""

import re

import nbformat
import pytest

from autograder.authoring.course import Lesson, course_root, lessons

ROW = re.compile(r"^\| (\d+) \| (.+?) \|", re.MULTILINE)  # lessons with a table: its cells print "3: …" for number 3
PARAGRAPH = re.compile(r"^\*\*(\d+)\. (.+?)\*\*", re.MULTILINE | re.DOTALL)  # others: each is followed by its own cell
LESSONS = [lesson for lesson in lessons() if "## Errata" in lesson.path.read_text(encoding="utf-8")]


def errata(lesson: Lesson) -> list[nbformat.NotebookNode]:
    """The executed cells of the lesson's Errata section."""
    path = course_root() / "source" / lesson.name / f"{lesson.name}.ipynb"
    cells, inside = [], False
    for cell in nbformat.read(path, as_version=4).cells:
        heading = re.search(r"^## (.+)$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else None
        inside = heading[1] == "Errata" if heading else inside
        cells += [cell] if inside else []
    return cells


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.get("outputs", []))


def claims(lesson: Lesson) -> list[tuple[int, str]]:
    text = "\n".join(cell.source for cell in errata(lesson) if cell.cell_type == "markdown")
    return [(int(number), claim) for pattern in (ROW, PARAGRAPH) for number, claim in pattern.findall(text)]


def test_lessons_01_to_10_have_errata() -> None:
    assert set(range(1, 11)) <= {lesson.number for lesson in LESSONS}


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.slug for lesson in LESSONS])
def test_errata_are_numbered_from_one_and_each_is_met_by_what_a_cell_prints(lesson: Lesson) -> None:
    numbers = [number for number, _ in claims(lesson)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 4
    cells = errata(lesson)
    output = "\n".join(printed(cell) for cell in cells)
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        if cell.cell_type != "markdown":
            continue
        for number, _ in ROW.findall(cell.source):
            assert re.search(rf"^{number}: ", output, re.MULTILINE), f"nothing printed begins with '{number}: '"
        if found := PARAGRAPH.findall(cell.source):
            assert len(found) == 1, f"{[number for number, _ in found]} share one cell"
            assert after is not None
            assert after.cell_type == "code"
            assert printed(after)


def test_no_erratum_stands_in_two_lessons() -> None:
    seen: dict[str, str] = {}
    for lesson in LESSONS:
        for number, claim in claims(lesson):
            words = re.sub(r"[^a-z0-9]+", " ", claim.lower()).strip()
            assert words not in seen, f"{lesson.name} #{number} is {seen[words]}"
            seen[words] = f"{lesson.name} #{number}"
