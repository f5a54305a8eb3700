"""Claims that the course tests: each is discussed in one place, names its source, and is tested by code that runs.

The appendix numbers its claims A.1, A.2, … in the order of the lessons. Each has a heading that asks a question, and a
Python block of its own; the blocks of a section (`## Lesson NN`) run in order after `import numpy as np`. In a lesson, a
claim is a paragraph (or quotation) that begins `**Erratum NN.k.**`, links its source, and is followed by a code cell with
output.
"""

import contextlib
import io
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

from autograder.authoring.course import Lesson, course_root, lessons

IN_A_LESSON = re.compile(r"\*\*Erratum (\d\d)\.(\d+)\.\*\*(.*?)(?=\n(?:>\s*)?\n|\Z)", re.DOTALL)
ENTRY = re.compile(r"^### (?:A\.(\d+) )?([^\n]+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REFERENCE = re.compile(r"\bA\.(\d+) in the \[?appendix\b")
APPENDIX = course_root() / "appendix.md"
LESSONS = [lesson for lesson in lessons() if IN_A_LESSON.search(lesson.path.read_text(encoding="utf-8"))]
UNLINKED = ("slides", "blog post", "notes", "index text", "manual")
"""Names of the texts without a public address; the appendix says at its start which they are."""


def cells_of(lesson: Lesson) -> list[nbformat.NotebookNode]:
    path = course_root() / "source" / lesson.name / f"{lesson.name}.ipynb"
    found: list[nbformat.NotebookNode] = nbformat.read(path, as_version=4).cells
    return found


def sections(path: Path = APPENDIX) -> dict[int, str]:
    """The appendix's sections by the lesson's number."""
    if not path.exists():
        return {}
    parts = re.split(r"^## Lesson (\d\d).*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def numbers() -> list[int]:
    """The numbers of the appendix's claims in the order of the page."""
    return [int(n) for n, _, _ in ENTRY.findall(APPENDIX.read_text(encoding="utf-8")) if n]


def test_the_appendix_counts_its_claims_from_1_in_the_order_of_the_lessons() -> None:
    assert list(sections()) == list(range(1, 11))
    assert numbers() == list(range(1, len(numbers()) + 1))


def test_each_claim_of_the_appendix_asks_a_question_and_quotes_it() -> None:
    for n, question, text in ENTRY.findall(APPENDIX.read_text(encoding="utf-8")):
        if n:
            assert question.endswith("?"), f"A.{n} asks no question"
            quoted = '"' in text or "$" in text or "`" in text
            assert quoted or any(name in text for name in UNLINKED), f"A.{n} neither quotes nor names a source"


def test_the_appendix_says_which_texts_it_names_without_a_link() -> None:
    opening = APPENDIX.read_text(encoding="utf-8").split("\n## Lesson")[0]
    assert all(f"*The {name}*" in opening or f"*the {name}*" in opening for name in UNLINKED)


def test_references_to_numbered_claims_lead_somewhere() -> None:
    for lesson in lessons():
        for n in REFERENCE.findall(lesson.path.read_text(encoding="utf-8")):
            assert int(n) in numbers(), f"{lesson.name} refers to A.{n}"


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.slug for lesson in LESSONS])
def test_errata_where_they_arise_link_their_source_and_are_met_by_the_cell_after_them(lesson: Lesson) -> None:
    cells, found = cells_of(lesson), []
    if not any(IN_A_LESSON.search(cell.source) for cell in cells):
        pytest.skip("the built notebook is older than the lesson; `attn build --check` says so")
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        for number, k, claim in IN_A_LESSON.findall(cell.source) if cell.cell_type == "markdown" else ():
            assert int(number) == lesson.chapter
            assert re.search(r"\]\(https?://", claim), f"erratum {number}.{k} names no source with a link"
            assert after is not None
            assert after.cell_type == "code", f"no code cell follows erratum {number}.{k}"
            assert after.get("outputs"), f"no output follows erratum {number}.{k}"
            found.append(int(k))
    assert found == sorted(set(found))


@pytest.mark.parametrize("number", sections(), ids=lambda number: f"{number:02d}")
def test_each_claim_of_the_appendix_is_tested_by_a_block_that_runs_and_prints(number: int) -> None:
    names: dict[str, object] = {"np": np}
    for n, title, text in ENTRY.findall(sections()[number]):
        blocks = BLOCK.findall(text)
        assert blocks or not n, f"no Python block tests A.{n}"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for block in blocks:
                exec(compile(block, f"{APPENDIX.name}, {title}", "exec"), names)
        assert out.getvalue().strip() or not blocks, f"the block of '{title}' prints nothing"


def test_the_table_of_key_norms_is_what_its_block_prints() -> None:
    text = next(text for n, _, text in ENTRY.findall(APPENDIX.read_text(encoding="utf-8")) if n == "6")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(BLOCK.findall(text)[0], {"np": np})
    rows = [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in text.splitlines() if line.startswith("|")]
    columns = [f"{name.replace(' ', '_')} {norms} {median}" for name, norms, median in zip(rows[0], *rows[2:], strict=True)]
    pattern = r"^(\w+) +key norms +([\d.]+) to +([\d.]+), median change of a weight ([\d.]+)$"
    printed = re.findall(pattern, out.getvalue(), flags=re.MULTILINE)
    assert columns == [f"{name} {shortest}, {longest} {median}" for name, shortest, longest, median in printed]


def test_no_claim_is_discussed_in_two_places() -> None:
    seen: dict[str, str] = {}
    claims = [
        (f"erratum {number}.{k}", claim)
        for lesson in LESSONS
        for number, k, claim in IN_A_LESSON.findall(lesson.path.read_text(encoding="utf-8"))
    ]
    claims += [(f"A.{n}", text) for text in sections().values() for n, _, text in ENTRY.findall(text) if n]
    for place, claim in claims:
        words = re.sub(r"[^a-z0-9]+", " ", claim.lower()).strip()
        assert words not in seen, f"{place} is {seen[words]}"
        seen[words] = place
