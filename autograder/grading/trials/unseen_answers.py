"""Show how the grader describes answers that its authors have not seen (`attn verify --blind FILE`).

In: a file of labelled answers, either last year's real ones or answers written from the released notebooks alone. Out: what
the panel said about each, and a table. Every answer runs in the sandbox, in a fresh copy of its lesson's release in which all
other exercises are solved, so the result is about this answer only.

The file is a Python script in cells, and the first line of each cell labels it:

    # %% scaled_dot_product.sdpa wrong single: divides by d instead of its root
    def sdpa(Q, K, V): ...

    # %% scaled_dot_product.sdpa right: einsum throughout
    # %% masking.masked_sdpa wrong double public: softmax over queries, and the mask inverted

Whether a reported name is the truth is for a person to decide; the command counts what needs no judgement. Repairs that
`check` finds by changing the learner's own code (`diagnosis.repair`) are not included, because the sandbox only answers
probes.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from autograder.authoring.course import CourseError, course_root, find_lesson
from autograder.diagnosis.explain import Report
from autograder.grading.marking.mark_submission import mark
from autograder.grading.marking.scheme import MarkScheme, make_mark_scheme, read_release
from autograder.notebooks.roles import grade_id, is_answer
from autograder.sandbox.client import Sandbox

_HEAD = re.compile(r"# %% (?P<lesson>\w+)\.(?P<exercise>\w+) (?P<kind>right|wrong)(?P<tags>(?: \w+)*): *(?P<truth>.+)")
OUTCOMES = ("full marks", "named for certain", "named with a hedge", "told what is off", "no help")


@dataclass(frozen=True)
class Labelled:
    """One answer, and what its author says about it."""

    lesson: str
    exercise: str
    right: bool
    tags: tuple[str, ...]
    truth: str
    source: str


@dataclass(frozen=True)
class Told:
    """What the grader said about an answer; `named` holds the ids of the mistakes that it recorded."""

    answer: Labelled
    outcome: str
    score: float
    headline: str
    advice: str
    detail: str
    named: str | None


def read(path: Path) -> list[Labelled]:
    """Return the answers in the file. Raises CourseError with the line of a heading that cannot be read."""
    answers: list[Labelled] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("# %%")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        match = _HEAD.fullmatch(lines[start].strip())
        if match is None:
            wanted = "# %% lesson.exercise right|wrong [single|double] [public]: the truth in a sentence"
            raise CourseError(f"{path}, line {start + 1}: expected `{wanted}`, got {lines[start]!r}.")
        source = "\n".join(lines[start + 1 : end]).strip() + "\n"
        tags = tuple(match["tags"].split())
        answers.append(Labelled(match["lesson"], match["exercise"], match["kind"] == "right", tags, match["truth"], source))
    if not answers:
        raise CourseError(f"{path}: expected cells that begin with `# %% lesson.exercise right|wrong: …`, found none.")
    return answers


def chosen(answers: Sequence[Labelled], words: Sequence[str]) -> list[Labelled]:
    """Return the answers to the exercises in `words` (a lesson, `lesson.exercise` or an exercise), or all if there are none."""
    lessons = {answer.lesson for answer in answers}
    exercises = {name for answer in answers for name in (answer.exercise, f"{answer.lesson}.{answer.exercise}")}
    wanted = {word if word in exercises | lessons else find_lesson(word).slug for word in words}
    if not words:
        return list(answers)
    return [one for one in answers if wanted & {one.lesson, one.exercise, f"{one.lesson}.{one.exercise}"}]


def ask(answers: Sequence[Labelled], tier: str) -> Iterator[Told]:
    """Yield what the grader says about each answer, lesson by lesson. Raises CourseError for an unknown exercise."""
    for lesson in dict.fromkeys(answer.lesson for answer in answers):
        name = find_lesson(lesson).name
        scheme = make_mark_scheme(course_root(), name)
        with scheme.setup.sandbox(tier) as sandbox:
            for answer in answers:
                if answer.lesson == lesson:
                    report = _report(answer, scheme, sandbox, name)
                    yield Told(
                        answer, outcome_of(report), report.score, report.headline, report.advice, report.detail, report.recorded
                    )


def _report(answer: Labelled, scheme: MarkScheme, sandbox: Sandbox, name: str) -> Report:
    notebook = read_release(course_root(), name)
    cells = [cell for cell in notebook.cells if is_answer(cell) and grade_id(cell) == answer.exercise]
    if not cells:
        raise CourseError(f"{answer.lesson}: expected an exercise of that lesson, got {answer.exercise!r}.")
    cells[0].source = answer.source
    for cell in notebook.cells:
        if is_answer(cell) and cell is not cells[0]:
            cell.source = scheme.references.get(str(grade_id(cell)), cell.source)
    return mark(scheme, sandbox, nbformat.writes(notebook).encode()).reports[answer.exercise]


def outcome_of(report: Report) -> str:
    """Return the entry of `OUTCOMES` that fits a report."""
    if report.score >= report.points:
        return "full marks"
    if report.known:
        return "named for certain"
    if report.hedged:
        return "named with a hedge"
    return "no help" if report.unknown else "told what is off"


def tally(replies: Sequence[Told]) -> dict[str, Counter[str]]:
    """Count the outcomes for the right answers, for all wrong ones, and for each tag of the wrong ones."""
    rows: dict[str, Counter[str]] = {"right": Counter(), "wrong": Counter()}
    for reply in replies:
        groups = ["right"] if reply.answer.right else ["wrong", *reply.answer.tags]
        for group in groups:
            rows.setdefault(group, Counter())[reply.outcome] += 1
    return rows
