"""Marks for an answer that is right but for an earlier one: it is asked again, the earlier one replaced by the reference.

In: a marked submission and the cells it ran. Out: better marks, said on the page, for exercises that fail only because an
answer before them fails. Each is asked in a sandbox of its own, so nothing of the reference reaches what a student is shown:
of that run the number of points alone comes back. An answer counts as leaning on another where its code names it, and as work
of its own only where it does more than call that one.
"""

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from autograder import sandbox as box
from autograder.diagnosis.explain import Report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import next_step, say
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


_WORK = (
    ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.AugAssign, ast.For, ast.While, ast.If, ast.IfExp, ast.ListComp,
    ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def only_calls(answer: str, below: Collection[str]) -> bool:
    """Whether `answer` does nothing but call the exercises `below` it, pick from what they return, and hand that on.

    >>> only_calls("def f(x):\\n    y = g(x)\\n    return y[0]", ["g"]), only_calls("def f(x): return x / g(x)", ["g"])
    (True, False)
    """
    try:
        tree = ast.parse(answer)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # IPython may run it all the same; whoever reads the flag sees what it does
    return not any(_is_work(node, below) for node in ast.walk(tree))


def _is_work(node: ast.AST, below: Collection[str]) -> bool:
    if isinstance(node, ast.Call):
        return not (isinstance(node.func, ast.Name) and node.func.id in below)
    if isinstance(node, ast.BinOp):
        return not any(isinstance(side, ast.Constant) and side.value in (0, 1) for side in (node.left, node.right))
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.operand, ast.Constant)  # -1, as an index
    return isinstance(node, _WORK)


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
