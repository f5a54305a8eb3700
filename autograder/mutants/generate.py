"""Make programs that are one or two small slips from a right one and record what they do, so that unlisted slips get a name.

In: an exercise, and its cases with what is expected and what the listed mistakes do. Out: fingerprints for each case, by the
slips that were made. A slip is a small edit of the text of the reference, of another right answer or of a listed mistake
(`operators`), or a change of any result or input (`result_and_input_operators`); a course may add its own (`course_operators`).
If several programs do the same, only the one with the commonest slip is kept. A program that does what a listed mistake does
counts as that mistake.

The search is limited by a number of programs and never by time, so what it finds depends on the exercise alone and not on the
machine. An exercise whose reference is slow asks for a smaller share of these programs (`Exercise.search`).
"""

import contextlib
import functools
import io
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from autograder.judging.behaviour import shown
from autograder.judging.call_answer import bare
from autograder.judging.combined_mistakes import apply_step, program_of, with_settings
from autograder.judging.exercise import After, Before, Exercise, Instead, Misconception, Tolerance
from autograder.judging.fact import Fact
from autograder.judging.fingerprint import LENGTH, alike_each, fingerprint
from autograder.judging.records import PAIR, UNLISTED, CaseRecord, NearSlip
from autograder.judging.values import Array, decode
from autograder.mutants.course_operators import Operators, StepSlip
from autograder.mutants.line_limit import observe_bounded
from autograder.mutants.operators import edits
from autograder.mutants.partial_evaluation import settled
from autograder.mutants.result_and_input_operators import slips
from autograder.mutants.source import Edit, Source, source_of

OF_VARIANTS = 3  # rarer slips are tried in the reference alone
LISTED = -1.0  # the rank of a listed mistake, which counts as commoner than other slips
ASKED_ALONE, ASKED_TWICE = 900, 1600  # programs that are run, with one slip and with two
KEPT_ALONE, KEPT_TWICE = 240, 330
SAME = Tolerance(1e-7, 1e-9)

Answer = Callable[..., Any]


@dataclass(frozen=True)
class Start:
    """A program whose text can be edited. `wrap` turns it into an answer, and `listed` is the mistake that it already makes."""

    source: Source
    wrap: Callable[[Any], Answer]
    listed: str | None = None


@dataclass(frozen=True)
class Try:
    """A slip to try: an `edit` of the text of `start`, a `step` that fits any program, or the mistake that `start` already makes.

    `listed` is the id of the listed mistake that the slip amounts to, if any.
    """

    rank: float
    what: Fact | None = None
    start: Start | None = None
    edit: Edit | None = None
    step: Any = None
    listed: str | None = None
    undone: str = ""


@dataclass
class _Found:
    """The programs found so far. The table of a program's fingerprints has a row of `LENGTH` numbers for each case."""

    cases: Sequence[CaseRecord]
    exercise: Exercise
    watched: bool = False  # whether an edited program might not end
    buckets: dict[bytes, tuple[list[Array], list[str]]] = field(default_factory=dict)
    kept: dict[str, list[Array | None]] = field(default_factory=dict)

    def look(self, make: Callable[[], Answer]) -> list[Array | None] | None:
        """Return the program's fingerprint in each case, or None if it cannot be built or fails in the first case."""
        try:
            answer = make()
        except Exception:  # an edited text may not be a valid program
            return None
        watch = observe_bounded if self.watched else bare
        rows: list[Array | None] = []
        for record in self.cases:
            if record.expected.failure is not None:
                rows.append(None)
                continue
            observation = shown(self.exercise.behaviour, watch(answer, record.probe, dtype="float64"), record.probe)
            rows.append(fingerprint(observation))
            if len(rows) == 1 and rows[0] is None:
                return None
        return rows

    def register(self, rows: Sequence[Array | None], name: str) -> str | None:
        """Return the name of an earlier program that does the same ("" for the right one), or add this one and return None."""
        table = np.stack([np.full(LENGTH, np.nan, np.float32) if row is None else row for row in rows])
        key = np.nan_to_num(table[:, 0], nan=-1).tobytes()
        others, names = self.buckets.setdefault(key, ([], []))
        if others:
            many = np.stack(others)  # (programs, cases, LENGTH)
            same = np.ones(len(others), bool)
            for case in np.flatnonzero(~np.isnan(table[:, 0])):
                same &= alike_each(many[:, case], table[case], SAME)
            if same.any():
                return names[int(np.argmax(same))]
        others.append(table)
        names.append(name)
        return None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
        yield


@_quietly()
def find(
    exercise: Exercise, cases: Sequence[CaseRecord], operators: Operators
) -> tuple[dict[str, list[Array | None]], tuple[NearSlip, ...]]:
    """Return the fingerprints of each kept program (one per case), keyed by the joined ids of its slips, and the slips."""
    inputs = frozenset(cases[0].probe.inputs.items())
    starts = [start for start in _starts(exercise, inputs) if _is_built(start)]
    programs = _Found(cases, exercise, watched=any(start.source.loops for start in starts))
    _add_known(programs, cases)
    ids: dict[Fact | None, str] = {}
    anywhere = [Try(slip.rank, slip.what, step=slip.step, undone=slip.undone) for slip in _steps(exercise, cases, operators)]
    right = [start for start in starts if start.listed is None]
    candidates = [
        Try(edit.rank, edit.what, start, edit)
        for start in right
        for edit in edits(start.source, operators)
        if start is right[0] or edit.rank <= OF_VARIANTS
    ]
    alone: list[Try] = []  # includes edits that amount to a listed mistake, because they can be combined with other edits
    listed, joined = {mistake.id for mistake in exercise.misconceptions}, set[tuple[str, int]]()
    for each in sorted([*candidates, *anywhere], key=attrgetter("rank"))[: int(ASKED_ALONE * exercise.search)]:
        rows = programs.look(functools.partial(_program, exercise, each))
        if rows is None:
            continue
        before = programs.register(rows, UNLISTED)
        if before is None:
            alone.append(each)
            if len(programs.kept) < KEPT_ALONE:
                programs.kept.setdefault(_id(each, ids), rows)
        elif before in listed and (before, id(each.start)) not in joined:
            joined.add((before, id(each.start)))
            alone.append(replace(each, rank=LISTED, listed=before))
    for first, second in itertools.islice(_twice(starts, anywhere, alone, operators), int(ASKED_TWICE * exercise.search)):
        if len(programs.kept) >= KEPT_ALONE + KEPT_TWICE:
            break
        rows = programs.look(functools.partial(_program, exercise, first, second))
        if rows is not None and programs.register(rows, UNLISTED) is None:
            programs.kept.setdefault(f"{_id(first, ids)}{PAIR}{_id(second, ids)}", rows)
    used = {part for label in programs.kept for part in label.split(PAIR)}
    return programs.kept, tuple(NearSlip(name, what) for what, name in ids.items() if name in used and what is not None)


def _is_built(start: Start) -> bool:
    """Return whether the program can be built outside the place where it was defined."""
    try:
        start.wrap(start.source.build([]))
    except Exception:
        return False
    return True


def _id(slip: Try, ids: dict[Fact | None, str]) -> str:
    return slip.listed or ids.setdefault(slip.what, f"~{len(ids)}")


def _add_known(programs: _Found, cases: Sequence[CaseRecord]) -> None:
    """Register the right answer, the listed mistakes and their pairs, so that no program that does the same is kept."""
    listed = dict.fromkeys(name for record in cases for name in record.mistakes)
    pairs = dict.fromkeys(name for record in cases for name in record.pairs)
    programs.register([fingerprint(record.expected) for record in cases], "")
    for name in listed:
        programs.register([fingerprint(record.mistakes.get(name, record.expected)) for record in cases], name.partition("#")[0])
    for name in pairs:
        programs.register([record.pairs.get(name) for record in cases], name)


def _starts(exercise: Exercise, inputs: frozenset[str]) -> Iterator[Start]:
    """Yield the programs whose text is edited: the right answers first, then the listed mistakes."""
    for answer in (exercise.reference, *(variant.answer for variant in exercise.variants)):
        if (source := source_of(answer)) is not None:
            yield Start(source, lambda program: program)
    recipe = exercise.recipe
    setting = source_of(program_of(recipe))
    if setting is not None:
        yield Start(_settled(setting, {}, inputs), lambda program: with_settings(recipe, program, Instead()))
    for mistake in exercise.misconceptions:
        for answer in mistake.answers().values():
            yield from _starts_of(exercise, mistake, answer, setting, inputs)


def _settled(recipe: Source, settings: Mapping[str, Any], inputs: frozenset[str]) -> Source:
    return replace(recipe, trees={**recipe.trees, recipe.name: settled(recipe.trees[recipe.name], settings, inputs)})


def _starts_of(
    exercise: Exercise, mistake: Misconception, answer: Any, setting: Source | None, inputs: frozenset[str]
) -> Iterator[Start]:
    if isinstance(answer, Instead):
        if setting is not None:
            edited = _settled(setting, answer.settings, inputs)
            yield Start(edited, lambda program: with_settings(exercise.recipe, program, answer), mistake.id)
    elif isinstance(answer, Before | After):
        if (source := source_of(exercise.reference)) is not None:
            yield Start(source, lambda program: apply_step(answer, program), mistake.id)
    elif (source := source_of(answer)) is not None:
        yield Start(source, lambda program: program, mistake.id)


def _steps(exercise: Exercise, cases: Sequence[CaseRecord], operators: Operators) -> list[StepSlip]:
    """Return the slips that are possible with the inputs of the cases and with a result like the first case's."""
    inputs: dict[str, Any] = {}
    for record in cases:
        given = decode(record.probe.inputs, dtype="float64")
        if isinstance(given, dict):
            inputs |= {name: value for name, value in given.items() if inputs.get(name) is None}
    if isinstance(exercise.reference, type) or cases[0].expected.value is None:
        return []
    return list(slips(inputs, decode(cases[0].expected.value), operators))


def _program(exercise: Exercise, *slips: Try) -> Answer:
    """Return the program that makes all of `slips`. Those that have a start must have the same one."""
    start = next((slip.start for slip in slips if slip.start is not None), None)
    changes = [slip.edit for slip in slips if slip.edit is not None]
    answer: Answer = exercise.reference if start is None else start.wrap(start.source.build(changes))
    for step in sorted((slip.step for slip in slips if slip.step is not None), key=lambda step: isinstance(step, After)):
        answer = apply_step(step, answer)
    return answer


def _twice(
    starts: Sequence[Start], anywhere: Sequence[Try], alone: Sequence[Try], operators: Operators
) -> Iterator[tuple[Try, Try]]:
    """Yield pairs of slips, the commonest first: a listed mistake and a slip, or two slips."""
    slips: list[tuple[float, Try, Try]] = []
    edited = [(start, edits(start.source, operators)) for start in starts]
    of_right = {edit.what for start, own in edited if start.listed is None for edit in own}
    for start, own in edited:
        if start.listed is not None:
            mistake = Try(LISTED, None, start, listed=start.listed)
            beside = [edit for edit in own if edit.what in of_right]  # leaves out edits of the mistake itself
            slips += [(edit.rank + 0.5, mistake, Try(edit.rank, edit.what, start, edit)) for edit in beside]
            slips += [(slip.rank + 0.5, mistake, slip) for slip in anywhere]
    for first, second in itertools.combinations(alone, 2):
        if first.undone and first.undone == second.undone:
            continue  # for example, a square and a root
        apart = first.start is not None and second.start is not None and first.start is not second.start
        if not apart and not (first.edit is not None and second.edit is not None and first.edit.node is second.edit.node):
            slips.append((first.rank + second.rank + 1.0, first, second))
    for _, first, second in sorted(slips, key=itemgetter(0)):
        yield first, second
