"""Give marks to an answer that fails only because an earlier answer does, by trying it with the earlier reference.

In: a marked submission and the cells it ran. Out: better marks, explained on the page. Each such answer runs in a separate
sandbox and only its points come back, so nothing from the reference reaches the student. An answer depends on another answer
if its code names it, and it counts as the student's own work only if it does more than call the other.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from autograder.diagnosis.explain import Report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import next_step, say
from autograder.grading import read_in_child
from autograder.grading.marking.forbidden_names import Bindings, bindings
from autograder.judging.records import ExerciseRecord

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
    """Return the earlier failing exercises that the answer to `exercise` needs.

    An exercise is needed if the answer names it directly, through the learner's own `cells`, or through a reference that
    will replace another answer.
    """
    if exercise not in answers:
        return []
    earlier = [name for name in order[: order.index(exercise)] if name in failing and name in answers and name in references]
    # `cells` include answers that pass, because they may call one that fails
    texts = [answers[exercise], *cells.leaned_on(answers[exercise])]
    read = {name for text in texts for name in bindings(text)[1]}
    needed: set[str] = set()
    while new := {name for name in earlier if name in read and name not in needed}:
        needed |= new
        read |= {word for name in new for word in bindings(references.get(name, ""))[1]}
    return [name for name in earlier if name in needed]


def calls(answers: Collection[str], seconds: read_in_child.Seconds | None = None) -> dict[str, list[str] | None]:
    """Return `scopes.calls` of each of `answers`, read in a child process; empty for an answer that is too slow to read."""
    tasks = {answer: read_in_child.Task("calls", answer) for answer in answers}
    results = read_in_child.read(list(tasks.values()), seconds)
    return {answer: results.get(task, []) for answer, task in tasks.items()}


def only_calls(called: Collection[str] | None, below: Collection[str]) -> bool:
    """Return whether an answer with these calls does nothing but call the exercises `below` it and return their results.

    >>> only_calls(["g"], ["g"]), only_calls(["sum", "g"], ["g"]), only_calls(None, ["g"])
    (True, False, False)
    """
    return called is not None and set(called) <= set(below)


def carried(report: Report, record: ExerciseRecord, score: float, below: Sequence[str], policy: Policy) -> Report:
    """Return the report on an answer that gets `score` once the answers `below` it are right."""
    points = round(SHARE[policy] * score, 2)
    if points <= report.score:
        return report
    key = "carried.right" if score >= record.points else "carried.partly"
    reason = fact(key, count=len(below), names=tuple(below), points=points, of=record.points)
    headline, advice = say(reason), next_step(reason)
    status = "pass" if points >= record.points else "part"
    return replace(
        report, status=status, score=points, headline=headline, advice=advice, detail="", grids=(), snippet="", checks=(),
        cases=(), known=(), carried=tuple(below),
    )  # fmt: skip
