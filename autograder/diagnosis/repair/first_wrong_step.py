"""Find the first steps of an answer whose numbers no right program has, although their inputs are right.

In: the code of an answer, an exercise and the judged cases. Out: `Step`s, or a `Diagnosis` without a name, or None. A step may be
right in its own way, so the learner is told where to look first and not that the step is wrong. Steps that later lead to a
right value are left out.
"""

import ast
import contextlib
import io
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autograder.diagnosis.facts import facts
from autograder.diagnosis.finding import Departed, Diagnosis, Fact, fact
from autograder.diagnosis.repair.answer_source import NoProgramError, Written, source_of
from autograder.diagnosis.thresholds import WATCHED
from autograder.judging.call_answer import bare, observe_within
from autograder.judging.observation import Probe
from autograder.judging.records import CaseRecord, CaseResult, ExerciseRecord
from autograder.judging.values import Array
from autograder.mutants.call_operators import called
from autograder.mutants.source import Source
from autograder.mutants.value_trace import Trail, given, inner, known, parents_of, walked

RIGHT, FREE, OFF, NONE = "right", "free", "off", ""  # FREE: depends on no input, so it reveals nothing; NONE: not an array
LITTLE = {"beside.written", "beside.mixed"}  # facts about numbers that the panel shows anyway
LONGER = 76  # only the beginning of a longer line is quoted


@dataclass(frozen=True)
class Step:
    """An expression whose numbers are the first wrong ones."""

    function: str
    node: ast.expr


def diagnose_first_wrong_steps(exercise: ExerciseRecord, answer: object, results: Sequence[CaseResult]) -> Diagnosis | None:
    """Return the first wrong steps of an answer, in the smallest case that shows any; None if there are none."""
    source = source_of(answer)
    if source is None:
        return None
    steps = next(filter(None, (first_wrong_steps(record, source) for record in telling_cases(exercise, results))), None)
    if steps is None:
        return None
    result_fact = next((sentence for sentence in facts(exercise, results) if not _is_little(sentence)), None)
    return _describe_steps(source, steps, result_fact)


def telling_cases(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> list[CaseRecord]:
    """Return the smallest cases with a wrong result; none if another failing case ends with an error."""
    failing = [place for place, result in enumerate(results) if not result.passed]
    if exercise.behaviour or any(results[place].observation.failure is not None for place in failing):
        return []
    failing.sort(key=lambda place: (results[place].edge > 0, results[place].size))
    return [exercise.cases[place] for place in failing if len(exercise.cases[place].trail)][:3]


def first_wrong_steps(record: CaseRecord, source: Written) -> list[Step]:
    """Return the first wrong steps of a program in one case; none if the text is not a program."""
    right = np.concatenate([record.trail, *(row[None] for row in given(record.probe.inputs))])

    def run(program: object) -> None:
        observe_within(WATCHED, program, Probe(record.probe.inputs), how=bare)

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            trail = walked(source, run)
        except NoProgramError:
            return []
        return _Way(source, trail, right).steps()


class _Way:
    """The observed values of an answer's expressions, and which of them occur in a right program."""

    def __init__(self, source: Source, trail: Trail, right: Array) -> None:
        self.source, self.trail, self.right = source, trail, right
        self.state: dict[int, str] = {}
        self.nodes = [node for _, node in trail.nodes]
        self.children = inner(trail.nodes)
        self.around = parents_of(self.children)
        self.stored = self._assigned()
        for place in range(len(self.nodes)):
            self._judge(place, ())

    def _assigned(self) -> dict[tuple[str, str], list[int]]:
        """Return the places of the expressions stored under each name of each function."""
        places = {id(node): place for place, node in enumerate(self.nodes)}
        stored = defaultdict[tuple[str, str], list[int]](list)
        for function, tree in self.source.trees.items():
            assigned = [target for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets]
            begun = {part.id for target in assigned for part in ast.walk(target) if isinstance(part, ast.Name)}
            for node in ast.walk(tree):
                if not isinstance(node, ast.Assign | ast.AugAssign):
                    continue
                if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id not in begun:
                    continue  # an input changed in place does not originate from the change
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                parts = [node.value] if id(node.value) in places else ast.walk(node.value)
                sources = [places[id(part)] for part in parts if id(part) in places]
                for name in (part for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)):
                    stored[function, name.id] += sources
        return stored

    def _judge(self, place: int, above: tuple[int, ...]) -> str:
        """Classify the values of an expression. The values of a name are free if everything stored under it is free."""
        if place in self.state:
            return self.state[place]
        if place not in self.trail.seen:
            return self.state.setdefault(place, NONE)
        value = self.trail.seen[place]
        if value.among(self.right) or value.turned.among(self.right):
            return self.state.setdefault(place, RIGHT)
        if value.same in (0.0, 1.0) or _makes_array(self.nodes[place]):  # an array to fill, or a constant to count with
            return self.state.setdefault(place, FREE)
        if place in above:
            return FREE  # the value depends on itself
        origins = self._origins(place)
        inside = [self._judge(part, (*above, place)) for part in origins]
        given_in = not origins and isinstance(self.nodes[place], ast.Name | ast.Attribute)
        free = all(state in (FREE, NONE) for state in inside) and not given_in
        return self.state.setdefault(place, FREE if free else OFF)

    def _origins(self, place: int) -> list[int]:
        """Return what a value is made of: the parts of the expression, or what is stored under the name."""
        node = self.nodes[place]
        if isinstance(node, ast.Name):
            stored = self.stored.get((self.trail.nodes[place][0], node.id), [])
            return [origin for origin in stored if self._same(origin, place)] or stored
        return self.children[place]

    def _same(self, first: int, second: int) -> bool:
        values = self.trail.seen
        return first in values and second in values and known(values[first].row[None], values[second].row, 1e-9)

    def steps(self) -> list[Step]:
        """Return the first wrong expressions in the order in which they were evaluated."""
        excused = self._excused()
        wrong = []
        for place, state in self.state.items():
            if state != OFF or place in excused or isinstance(self.nodes[place], ast.Name):
                continue
            inside = {self.state.get(part, NONE) for part in self._origins(place)}
            if RIGHT in inside and OFF not in inside:
                wrong.append((self.trail.seen[place].first, place))
        return [Step(*self.trail.nodes[place]) for _, place in sorted(wrong)]

    def _excused(self) -> set[int]:
        """Return the expressions that later lead to a right value."""
        excused: set[int] = set()
        while True:
            led = {place for place in range(len(self.nodes)) if self._leads(place, excused)}
            names = (place for place in led | excused if isinstance(self.nodes[place], ast.Name))
            new = excused.union(led, *map(self._origins, names))
            if new == excused:
                return excused
            excused = new

    def _leads(self, place: int, excused: set[int]) -> bool:
        """Return whether an expression around this one has a right value or is excused."""
        outer = self.around.get(place)
        if outer is None or self.state.get(outer, NONE) == NONE:  # its length or type reveals nothing about its numbers
            return False
        return self.state[outer] == RIGHT or outer in excused or self._leads(outer, excused)


def _makes_array(node: ast.AST) -> bool:
    """Return whether the expression makes a new array, whatever its content."""
    name = called(node).removesuffix("_like").removeprefix("new_") if isinstance(node, ast.Call) else ""
    return name in ("empty", "zeros", "ones", "full")


def statement_of(tree: ast.stmt, step: ast.AST) -> ast.AST:
    """Return the simple statement that contains an expression, or the expression itself if there is none."""
    simple = (node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AugAssign | ast.Return | ast.Expr))
    return next((node for node in simple if any(part is step for part in ast.walk(node))), step)


def _is_little(sentence: Fact) -> bool:
    content = sentence["said"] if sentence.key == "fact.beside" else sentence
    return isinstance(content, Fact) and content.key in LITTLE


def _describe_steps(source: Source, steps: Sequence[Step], result_fact: Fact | None) -> Diagnosis:
    lines: dict[int, Fact] = {}
    for step in steps:
        statement, part = _short(statement_of(source.trees[step.function], step.node)), _short(step.node)
        key, line = ("line.whole" if statement.endswith(part) else "line.part"), step.node.lineno
        lines.setdefault(line, fact(key, line=line, code=statement, part=part))
    return Diagnosis((Departed(tuple(lines.values())[:2], result_fact),))


def _short(step: ast.AST) -> str:
    text = ast.unparse(step).splitlines()[0]
    return text if len(text) <= LONGER else f"{text[: LONGER - 2]}…"
