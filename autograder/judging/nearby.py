"""Programs that are one or two small slips from a right one, and what they do: so that a slip is named that nobody listed.

In: an exercise, and its cases with what is expected and what the listed mistakes do. Out: fingerprints for each case, by the
slips that were made. A slip is a small edit of the text of the reference, of another right answer or of a listed mistake
(`edits`), or one that can be made anywhere (`anywhere`). Of programs that do the same the commonest slip is kept, and a slip
that does what a listed mistake does is that mistake.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autograder.judging.anywhere import slips
from autograder.judging.behaviour import shown
from autograder.judging.compose import apply_step
from autograder.judging.edits import Edit, Source, source_of
from autograder.judging.exercise import After, Before, Exercise, Instead, Made, Misconception
from autograder.judging.fingerprint import LENGTH, alike_each, fingerprint
from autograder.judging.observe import observe, observe_within
from autograder.judging.records import CaseRecord, Known
from autograder.judging.values import Array, decode

JOIN = "+"
ASKED_ALONE, ASKED_TWICE = 1200, 1500  # programs that are run, with one slip and with two
KEPT_ALONE, KEPT_TWICE = 250, 250
ENTRIES = 40_000  # in the inputs of all cases: where there are more, fewer programs are run
SECONDS = 2.0
ADVICE = "A right program with this one change returns exactly what you return. Find the place in yours."

Answer = Callable[..., Any]


@dataclass(frozen=True)
class Start:
    """A program whose text can be edited; `wrap` makes the answer of it, `listed` is the mistake that it already makes."""

    source: Source
    wrap: Callable[[Any], Answer]
    listed: str | None = None


@dataclass
class _Found:
    """The programs found so far: the table of their fingerprints has a row of `LENGTH` numbers for each case."""

    cases: Sequence[CaseRecord]
    exercise: Exercise
    buckets: dict[bytes, list[Array]] = field(default_factory=dict)
    kept: dict[str, list[Array | None]] = field(default_factory=dict)

    def look(self, answer: Answer, watched: bool) -> list[Array | None] | None:
        """What the program does in each case; None where it fails in the first. `watched` where it might not end."""
        watch = functools.partial(observe_within, SECONDS) if watched else observe
        rows: list[Array | None] = []
        for record in self.cases:
            if record.expected.failure is not None:
                rows.append(None)
                continue
            seen = shown(self.exercise.behaviour, watch(answer, record.probe, dtype="float64"), record.probe)
            rows.append(fingerprint(seen))
            if len(rows) == 1 and rows[0] is None:
                return None
        return rows

    def add(self, rows: Sequence[Array | None]) -> bool:
        """Whether no program before did the same."""
        table = np.stack([np.full(LENGTH, np.nan, np.float32) if row is None else row for row in rows])
        key = np.nan_to_num(table[:, 0], nan=-1).tobytes()
        others = self.buckets.setdefault(key, [])
        lost = np.isnan(table[:, 0])
        if others:
            many = np.stack(others)  # (programs, cases, LENGTH)
            same = np.ones(len(others), bool)
            for case in np.flatnonzero(~lost):
                same &= alike_each(many[:, case], table[case], self.exercise.tolerance)
            if same.any():
                return False
        others.append(table)
        return True


def find(exercise: Exercise, cases: Sequence[CaseRecord]) -> tuple[dict[str, list[Array | None]], tuple[Known, ...]]:
    """For each program, by the ids of its slips: its fingerprints; and the slips in words."""
    found = _Found(cases, exercise)
    _add_known(found, cases)
    names: dict[str, str] = {}  # what is said -> id
    scale = min(1.0, ENTRIES / max(1, sum(array.size for record in cases for array in record.probe.inputs.arrays)))
    starts = list(_starts(exercise))
    watched = any(start.source.loops for start in starts)
    right = [start for start in starts if start.listed is None]
    steps = list(_steps(exercise, cases[0]))
    alone: list[tuple[int, str, Start | None, Edit | None, Any]] = []
    candidates = [(edit.rank, edit.says, start, edit, None) for start in right for edit in start.source.edits()]
    candidates += [(slip.rank, slip.says, None, None, slip.step) for slip in steps]
    candidates.sort(key=lambda each: each[0])
    for rank, says, start, edit, step in candidates[: int(ASKED_ALONE * scale)]:
        rows = _ask(found, lambda: _program(exercise, start, [edit] if edit else [], [step] if step else []), watched)
        if rows is not None and found.add(rows):
            name = names.setdefault(says, f"{len(names)}")
            alone.append((rank, name, start, edit, step))
            if len(found.kept) < KEPT_ALONE and f"~{name}" not in found.kept:
                found.kept[f"~{name}"] = rows
    twice = _twice(exercise, starts, steps, alone, names)
    asked = 0
    for label, make in twice:
        if asked >= ASKED_TWICE * scale or len(found.kept) >= KEPT_ALONE + KEPT_TWICE:
            break
        asked += 1
        if label in found.kept:
            continue
        rows = _ask(found, make, watched)
        if rows is not None and found.add(rows):
            found.kept[label] = rows
    used = {part for label in found.kept for part in label.split(JOIN)}
    known = tuple(Known(f"~{name}", says, ADVICE) for says, name in names.items() if f"~{name}" in used)
    return found.kept, known


def _add_known(found: _Found, cases: Sequence[CaseRecord]) -> None:
    """The right answer, the listed mistakes and their pairs: programs that do the same are no news."""
    listed = dict.fromkeys(name for record in cases for name in record.mistakes)
    pairs = dict.fromkeys(name for record in cases for name in record.pairs)
    found.add([fingerprint(record.expected) for record in cases])
    for name in listed:
        found.add([fingerprint(record.mistakes.get(name, record.expected)) for record in cases])
    for name in pairs:
        found.add([record.pairs.get(name) for record in cases])


def _ask(found: _Found, make: Callable[[], Answer], watched: bool) -> list[Array | None] | None:
    try:
        answer = make()
    except Exception:  # an edited text may be no program at all
        return None
    return found.look(answer, watched)


def _starts(exercise: Exercise) -> Iterator[Start]:
    """The programs whose text is edited: the right answers first, then the listed mistakes."""
    for answer in (exercise.reference, *(variant.answer for variant in exercise.variants)):
        if (source := source_of(answer)) is not None:
            yield Start(source, lambda program: program)
    recipe = exercise.recipe
    setting = source_of(recipe.factory if isinstance(recipe, Made) else recipe) if recipe is not None else None
    if setting is not None:
        yield Start(setting, lambda program: _set(recipe, program, Instead()))
    for mistake in exercise.misconceptions:
        for answer in mistake.answers().values():
            yield from _starts_of(exercise, mistake, answer, setting)


def _starts_of(exercise: Exercise, mistake: Misconception, answer: Any, setting: Source | None) -> Iterator[Start]:
    if isinstance(answer, Instead):
        if setting is not None:
            yield Start(setting, lambda program: _set(exercise.recipe, program, answer), mistake.id)
    elif isinstance(answer, Before | After):
        if (source := source_of(exercise.reference)) is not None:
            yield Start(source, lambda program: apply_step(answer, program), mistake.id)
    elif (source := source_of(answer)) is not None:
        yield Start(source, lambda program: program, mistake.id)


def _set(recipe: Any, program: Any, step: Instead) -> Answer:
    """The recipe, edited, with the settings of `step`."""
    if not isinstance(recipe, Made):
        return lambda **inputs: program(**inputs, **step.of(**inputs))
    if step.depends:
        return lambda **inputs: program(**step.of(**inputs))(**inputs)
    made: Answer = program(**step.settings)
    return made


def _steps(exercise: Exercise, record: CaseRecord) -> list[Any]:
    inputs = decode(record.probe.inputs, dtype="float64")
    if isinstance(exercise.reference, type) or not isinstance(inputs, dict) or record.expected.value is None:
        return []
    return list(slips(inputs, decode(record.expected.value)))


def _program(exercise: Exercise, start: Start | None, edits: Sequence[Edit], steps: Sequence[Any]) -> Answer:
    answer: Answer = exercise.reference if start is None else start.wrap(start.source.build(edits))
    for step in sorted(steps, key=lambda step: isinstance(step, After)):
        answer = apply_step(step, answer)
    return answer


def _twice(
    exercise: Exercise, starts: Sequence[Start], steps: Sequence[Any], alone: Sequence[tuple[Any, ...]], names: dict[str, str]
) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Programs with two slips, the commonest first: a listed mistake and a slip, or two slips."""
    found: list[tuple[float, str, Callable[[], Answer]]] = []
    for start in starts:
        if start.listed is None:
            continue
        for edit in start.source.edits():
            label = f"{start.listed}{JOIN}~{names.setdefault(edit.says, str(len(names)))}"
            found.append((edit.rank, label, lambda start=start, edit=edit: _program(exercise, start, [edit], [])))
        for slip in steps:
            label = f"{start.listed}{JOIN}~{names.setdefault(slip.says, str(len(names)))}"
            found.append((slip.rank, label, lambda start=start, slip=slip: _program(exercise, start, [], [slip.step])))
    for number, (rank, name, start, edit, step) in enumerate(alone):
        for other_rank, other, other_start, other_edit, other_step in alone[number + 1 :]:
            if start is not None and other_start is not None and start is not other_start:
                continue
            if edit is not None and other_edit is not None and edit.node is other_edit.node:
                continue
            both = [each for each in (edit, other_edit) if each is not None]
            done = [each for each in (step, other_step) if each is not None]
            found.append(
                (
                    rank + other_rank + 1.0,
                    f"~{name}{JOIN}~{other}",
                    lambda start=start or other_start, both=both, done=done: _program(exercise, start, both, done),
                )
            )
    for _, label, make in sorted(found, key=lambda each: each[0]):
        yield label, make
