"""The errata: each wrong claim stands in one place, says whose it is, and is refuted by code that runs.

In a lesson an erratum stands where its idea is taught, a paragraph (or quotation) that begins `**Erratum NN.k.**`, links
its source, and is followed by a code cell with output. The others of lesson NN stand in `course/appendix.md` under
`## Lesson NN` and go on counting; there each has a Python block of its own, and the blocks of a section are run in order
after `import numpy as np`.
"""

import contextlib
import io
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

from autograder.authoring.course import Lesson, course_root, lessons

WHERE_IT_ARISES = re.compile(r"\*\*Erratum (\d\d)\.(\d+)\.\*\*(.*?)(?=\n(?:>\s*)?\n|\Z)", re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
APPENDIX = course_root() / "appendix.md"
LESSONS = [lesson for lesson in lessons() if WHERE_IT_ARISES.search(lesson.path.read_text(encoding="utf-8"))]


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


def test_lessons_01_to_10_have_errata() -> None:
    assert set(range(1, 11)) <= {lesson.number for lesson in LESSONS} | set(sections())


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.slug for lesson in LESSONS])
def test_errata_where_they_arise_link_their_source_and_are_met_by_the_cell_after_them(lesson: Lesson) -> None:
    cells, found = cells_of(lesson), []
    if not any(WHERE_IT_ARISES.search(cell.source) for cell in cells):
        pytest.skip("the built notebook is older than the lesson; `attn build --check` says so")
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        for number, k, claim in WHERE_IT_ARISES.findall(cell.source) if cell.cell_type == "markdown" else ():
            assert int(number) == lesson.number
            assert re.search(r"\]\(https?://", claim), f"erratum {number}.{k} names no source with a link"
            assert after is not None
            assert after.cell_type == "code", f"no code cell follows erratum {number}.{k}"
            assert after.get("outputs"), f"no output follows erratum {number}.{k}"
            found.append(int(k))
    in_appendix = [int(k) for _, k, _ in WHERE_IT_ARISES.findall(sections().get(lesson.number, ""))]
    assert found + in_appendix == list(range(1, len(found) + len(in_appendix) + 1))


@pytest.mark.parametrize("number", sections(), ids=lambda number: f"{number:02d}")
def test_each_erratum_of_the_appendix_is_refuted_by_a_block_that_runs_and_prints(number: int) -> None:
    names: dict[str, object] = {"np": np}
    text = sections()[number]
    errata = list(WHERE_IT_ARISES.finditer(text))
    assert all(int(match[1]) == number for match in errata)
    for match, end in zip(errata, [*(after.start() for after in errata[1:]), len(text)], strict=True):
        blocks = BLOCK.findall(text[match.end() : end])
        assert blocks, f"no Python block refutes erratum {match[1]}.{match[2]}"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for block in blocks:
                exec(compile(block, f"{APPENDIX.name}, erratum {match[1]}.{match[2]}", "exec"), names)
        assert out.getvalue().strip(), f"the block of erratum {match[1]}.{match[2]} prints nothing"


def test_no_erratum_stands_in_two_places() -> None:
    seen: dict[str, str] = {}

    def once(claim: str, place: str) -> None:
        words = re.sub(r"[^a-z0-9]+", " ", claim.lower()).strip()
        assert words not in seen, f"{place} is {seen[words]}"
        seen[words] = place

    texts = [lesson.path.read_text(encoding="utf-8") for lesson in LESSONS] + list(sections().values())
    for text in texts:
        for number, k, claim in WHERE_IT_ARISES.findall(text):
            once(claim, f"erratum {number}.{k}")
