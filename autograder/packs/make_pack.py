"""Make a probe pack: run the reference and every misconception on seeded inputs, and store their results.

The *visible* pack (seed 0) is part of the release. The *hidden* pack is made on the grading side from a secret and is never
released.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from autograder.judging.behaviour import find, shown
from autograder.judging.call_answer import observe
from autograder.judging.combined_mistakes import answer_of, pairs
from autograder.judging.compare import is_kind_of, judge
from autograder.judging.exercise import AnyExercise, Case, Draw, Exercise, Prediction, Tolerance
from autograder.judging.filled_memory import filled_memory
from autograder.judging.fingerprint import alike, fingerprint
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.records import PAIR, CaseRecord, ExerciseRecord, Known, NearSlip
from autograder.judging.script import Script, script_to_data
from autograder.judging.values import ArrayNode, EncodedValue, encode
from autograder.mutants import generate, value_trace
from autograder.mutants.course_operators import load
from autograder.packs.pack_file import Pack

VISIBLE_SEED = 0
TRAILS = 4  # cases of an exercise in which the intermediate values of right programs are stored
AS_DECLARED = (
    "id", "title", "points", "hints", "properties", "tolerance", "forbid", "timeout_s", "kind", "difficulty", "minutes",
    "behaviour",
)  # fmt: skip
Naming = Literal["listed", "pairs", "near"]


def seed_from(secret: str, lesson: str) -> int:
    """Return a seed that nobody can guess without the `secret`."""
    return int.from_bytes(hashlib.sha256(f"{secret}\0{lesson}".encode()).digest()[:8], "big")


def make(
    lesson: str,
    title: str,
    exercises: Sequence[AnyExercise],
    *,
    seed: int = VISIBLE_SEED,
    naming: Naming = "pairs",
    operators: str = "",
) -> Pack:
    """Return the pack of a lesson. Raises ValueError if a reference fails on its probe or `operators` is missing."""
    records = [
        each if isinstance(each, Prediction) else make_record(lesson, each, seed, naming=naming, operators=operators)
        for each in exercises
    ]
    return Pack(lesson, title, {record.id: record for record in records})


@filled_memory()
def make_record(lesson: str, exercise: Exercise, seed: int, *, naming: Naming = "pairs", operators: str = "") -> ExerciseRecord:
    """Return `exercise` as data: each case drawn from `seed`, answered by the reference and by every misconception.

    `naming` says which wrong answers the record can recognise: the "listed" misconceptions, "pairs" of them too, or also programs
    that are "near" a right one, with slips from the engine and from the course's module `operators`.
    """
    if exercise.behaviour:
        find(exercise.behaviour)
    cases = [_make_case(lesson, exercise, case, index, seed, naming != "listed") for index, case in enumerate(exercise.cases)]
    near: tuple[NearSlip, ...] = ()
    _drop_idle_pairs(cases, exercise.tolerance)
    if naming == "near" and cases:
        programs, near = generate.find(exercise, cases, load(operators))
        for name, rows in programs.items():
            for record, row in zip(cases, rows, strict=True):
                if row is not None:
                    record.near[name] = row
        add_trails(exercise, cases)
    known = tuple(Known(m.id, m.says, m.fix) for m in exercise.misconceptions)
    declared = {name: getattr(exercise, name) for name in AS_DECLARED}
    return ExerciseRecord(**declared, cases=cases, known=known, near=near, operators=operators)


def add_trails(exercise: Exercise, cases: Sequence[CaseRecord]) -> None:
    """Store the intermediate values of right programs in the first `TRAILS` cases that have a value. Changes `cases`."""
    programs = [exercise.reference, *(variant.answer for variant in exercise.variants)]
    wanted = [record for record in cases if record.expected.failure is None and not exercise.behaviour]
    for record in wanted[:TRAILS]:
        record.trail = value_trace.rows_of(programs, record.probe)


def _make_case(lesson: str, exercise: Exercise, case: Case, index: int, seed: int, composed: bool) -> CaseRecord:
    where = f"{lesson}.{exercise.id}, case {case.name!r}"
    draw, inputs = drawn_inputs(exercise, case, index, seed)
    probe = Probe(inputs, room=case.room, by_hand=case.by_hand, elsewhere=case.elsewhere)
    expected = observe(exercise.reference, probe, dtype="float64")
    if expected.failure is None and case.grad and expected.value is not None:
        _, first = next(expected.value.leaves())
        cotangent = ArrayNode(draw.normal(*first.content.shape).astype(np.float32), "tensor")
        probe = replace(probe, grad=case.grad, cotangent=cotangent)
        expected = observe(exercise.reference, probe, dtype="float64")
    expected = shown(exercise.behaviour, expected, probe)
    if case.raises is not None:
        expected = _expected_failure(where, expected, case.raises)
    elif expected.failure is not None:
        raise ValueError(f"{where}: the reference itself failed: {expected.failure.type}: {expected.failure.message}.")
    if expected.value is not None and (strange := expected.value.strange):
        raise ValueError(
            f"{where}: the reference returns a {strange}, which cannot be compared. "
            "Return numbers (integers below 2**63), text, arrays, or lists, tuples and dicts of them."
        )
    if expected.mutated:
        raise ValueError(f"{where}: the reference changes its input {expected.mutated}.")
    record = CaseRecord(case.name, probe, case.edge, expected)
    probing = ExerciseRecord(exercise.id, "", 1.0, [record], (), (), exercise.properties, exercise.tolerance)
    for name, answer in (pair for mistake in exercise.misconceptions for pair in mistake.answers().items()):
        observation = shown(exercise.behaviour, observe(answer_of(exercise, answer), probe, dtype="float64"), probe)
        observation.notes, observation.seconds = (), 0.0
        if not judge(probing, [observation]).cases[0].passed:
            record.mistakes[name] = observation
    for outer, inner, function in pairs(exercise) if composed and case.raises is None else ():
        observation = shown(exercise.behaviour, observe(function, probe, dtype="float64"), probe)
        if (numbers := fingerprint(observation)) is not None:
            record.pairs[f"{outer}{PAIR}{inner}"] = numbers
    expected.notes, expected.seconds = (), 0.0
    return record


def drawn_inputs(exercise: Exercise, case: Case, index: int, seed: int) -> tuple[Draw, EncodedValue]:
    """Return the generator of case `index` and the inputs drawn with it."""
    draw = Draw([seed, index, *exercise.id.encode()])
    drawn = case.make(draw)
    inputs = encode(script_to_data(drawn) if isinstance(drawn, Script) else drawn)
    if exercise.tensors:
        inputs = inputs.map(lambda leaf: _tensor(leaf, np.float64 if case.double else np.float32))
    return draw, inputs


def _expected_failure(where: str, observation: Observation, wanted: type[Exception]) -> Observation:
    """Return the observation expected of a reference that must raise `wanted`. Raises ValueError if it does not."""
    failure = observation.failure
    if failure is None or failure.kind != "raised" or not is_kind_of(failure.type, wanted.__name__):
        got = "returned a value" if failure is None else f"ended with {failure.type or failure.kind}"
        raise ValueError(f"{where}: expected the reference to raise {wanted.__name__}, but it {got}.")
    return Observation(failure=Failure("raised", wanted.__name__))


def _drop_idle_pairs(cases: Sequence[CaseRecord], tolerance: Tolerance) -> None:
    """Remove each pair that does only what one of its mistakes or a right answer does, or the same as its opposite order."""
    for pair in sorted({name for record in cases for name in record.pairs}):
        turned = PAIR.join(reversed(pair.split(PAIR)))
        again = all(turned in record.pairs and alike(record.pairs[turned], record.pairs[pair], tolerance) for record in cases)
        if again or any(_idle(cases, pair, alone, tolerance) for alone in (*pair.split(PAIR), "")):
            for record in cases:
                record.pairs.pop(pair, None)


def _idle(cases: Sequence[CaseRecord], pair: str, alone: str, tolerance: Tolerance) -> bool:
    """Return whether the pair does what the mistake `alone` does, or with "" what a right answer does, in each of its cases."""
    for record in cases:
        if (numbers := record.pairs.get(pair)) is not None:
            other = fingerprint(record.mistakes.get(alone, record.expected))
            if other is None or not alike(other, numbers, tolerance):
                return False
    return True


def _tensor(leaf: EncodedValue, dtype: type[np.float32 | np.float64]) -> EncodedValue:
    if not isinstance(leaf, ArrayNode):
        return leaf
    return ArrayNode(leaf.content.astype(dtype) if leaf.content.dtype.kind == "f" else leaf.content, "tensor")
