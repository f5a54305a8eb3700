"""Read written questions from the lesson's source, each with its model answer and its marking scheme."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

from autograder.authoring.course import CourseError
from autograder.hand_marking.rubric import Item, items
from autograder.notebooks.html_page import markdown
from autograder.notebooks.roles import grade_id, grader, is_answer, is_grade
from autograder.plugins.sanitise import clean

_SCHEME = re.compile(r"\*\*Marking scheme\.?\*\*")
_MODEL = re.compile(r"^\s*\*\*Model answer\.?\*\*\s*")


@dataclass(frozen=True)
class Question:
    """A question that a person marks. Texts are HTML; `stub` is the released text of the answer cell."""

    name: str
    title: str
    points: float
    asked: str
    model: str
    scheme: str
    rubric: tuple[Item, ...]
    rubric_html: tuple[str, ...]
    stub: str


def read(root: Path, assignment: str) -> dict[str, Question]:
    """Return the questions of `assignment` by grade_id, in the lesson's order. Raises CourseError if there are none."""
    source, release = (root / kind / assignment / f"{assignment}.ipynb" for kind in ("source", "release"))
    for path in (source, release):
        if not path.is_file():
            raise CourseError(f"expected {path}, found none. Run `attn build`.")
    questions = _read(source, source.stat().st_mtime_ns, release)
    if not questions:
        raise CourseError(f"expected questions that are answered in words in {assignment}, found none: nothing to mark by hand.")
    return questions


@functools.lru_cache(maxsize=4)
def _read(path: Path, _modified: int, release: Path) -> dict[str, Question]:
    cells = nbformat.read(path, as_version=4).cells
    stubs = {grade_id(cell): cell.source for cell in nbformat.read(release, as_version=4).cells if is_answer(cell)}
    questions = {}
    for at, cell in enumerate(cells):
        name = grade_id(cell)
        if not name or not (is_answer(cell) and is_grade(cell)):
            continue
        start = at
        while start and cells[start - 1].cell_type == "markdown" and not is_answer(cells[start - 1]):
            start -= 1
            if re.match(r"#+ ", cells[start].source):
                break
        asked = "\n\n".join(part.source for part in cells[start:at])
        heading = re.search(r"^#+ (?:Exercise )?(.+)$", asked, re.MULTILINE)
        model, scheme = _halves(cell.source)
        points = float(grader(cell)["points"])
        parts = len(set(re.findall(r"\(([a-h])\)", asked)))
        rubric = tuple(items(scheme, points, parts))
        texts = [clean(markdown(text, trusted=True)) for text in (asked, model, scheme)]
        labels = tuple(clean(markdown(item.text, trusted=True)) for item in rubric)
        title = heading[1] if heading else name
        questions[name] = Question(name, title, points, texts[0], texts[1], texts[2], rubric, labels, stubs.get(name, ""))
    return questions


def _halves(source: str) -> tuple[str, str]:
    """Return the model answer and the marking scheme in `source`."""
    model, *scheme = _SCHEME.split(source, maxsplit=1)
    return _MODEL.sub("", model), scheme[0] if scheme else ""
