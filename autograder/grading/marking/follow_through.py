"""Marks for an answer that is right but for an earlier one: it is asked again, the earlier one replaced by the reference.

In: a marked submission and the cells it ran. Out: better marks, said on the page, for exercises that fail only because an
answer before them fails. Each is asked in a sandbox of its own, so nothing of the reference reaches what a student is shown:
of that run the number of points alone comes back. An answer counts as leaning on another where its code names it, and as work
of its own only where it does more than call that one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from autograder import sandbox as box
from autograder.diagnosis.explain import Report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import next_step, say
from autograder.grading import bounded
from autograder.grading.marking.forbidden_names import Bindings, bindings
from autograder.judging.records import ExerciseRecord
from autograder.notebooks.roles import grade_id, is_answer

Policy = Literal["full", "half", "none"]
SHARE: dict[str, float] = {"full": 1.0, "half": 0.5, "none": 0.0}


def failing_below(
    exercise: str,
    answers: Mapping[str, str],
    cells: Bindings,
    failing: Collection[str],
    order: Sequence[str],
    references: Mapping[str, str],
) -> list[str]:
    """The earlier exercises that fail and that the answer to `exercise` needs: it names them, itself, through `cells` of the
    learner's own, or through the references that will stand in for them."""
    if exercise not in answers:
        return []
    earlier = [name for name in order[: order.index(exercise)] if name in failing and name in answers and name in references]
    # through the answers of exercises that pass too: what they call may be what fails
    texts = [answers[exercise], *cells.leaned_on(answers[exercise])]
    read = {name for text in texts for name in bindings(text)[1]}
    found: set[str] = set()
    while new := {name for name in earlier if name in read and name not in found}:
        found |= new
        read |= {word for name in new for word in bindings(references.get(name, ""))[1]}
    return [name for name in earlier if name in found]


def calls(answers: Collection[str], seconds: bounded.Seconds | None = None) -> dict[str, list[str] | None]:
    """`scopes.calls` of each of `answers`, found by a child that may fail; nothing of one that takes too long to read."""
    tasks = {answer: bounded.Task("calls", answer) for answer in answers}
    found = bounded.read(list(tasks.values()), seconds)
    return {answer: found.get(task, []) for answer, task in tasks.items()}


def only_calls(called: Collection[str] | None, below: Collection[str]) -> bool:
    """Whether an answer that `called` these does nothing but call the exercises `below` it and hand on what they return.

    >>> only_calls(["g"], ["g"]), only_calls(["sum", "g"], ["g"]), only_calls(None, ["g"])
    (True, False, False)
    """
    return called is not None and set(called) <= set(below)


def with_references(cells: Sequence[Any], replaced: Collection[str], references: Mapping[str, str]) -> list[box.Cell]:
    """The cells to run, the answers of `replaced` being the reference's."""
    return [
        box.Cell(cell.id, references[str(grade_id(cell))] if is_answer(cell) and grade_id(cell) in replaced else cell.source)
        for cell in cells
    ]


def carried(report: Report, record: ExerciseRecord, score: float, below: Sequence[str], policy: Policy) -> Report:
    """The report on an answer that gets `score` once the answers `below` it are right."""
    points = round(SHARE[policy] * score, 2)
    if points <= report.score:
        return report
    key = "carried.right" if score >= record.points else "carried.partly"
    said = fact(key, count=len(below), names=tuple(below), points=points, of=record.points)
    headline, advice = say(said), next_step(said)
    status = "pass" if points >= record.points else "part"
    return replace(
        report, status=status, score=points, headline=headline, advice=advice, detail="", grids=(), snippet="", checks=(),
        cases=(), known=(), carried=tuple(below),
    )  # fmt: skip
