"""Probe packs: a lesson's probes, expected outputs and the outputs of each named mistake, in one small file.

`make` runs the reference and every misconception on seeded inputs; `save` and `load` store the result as `.npz`
without pickle, so a learner's machine needs neither the answers nor the exercise declarations. The *visible* pack
(seed 0) travels with the release; the *hidden* one is made on the grading side from a secret and is never released.
"""

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from autograder.judging.behaviour import find, shown
from autograder.judging.compose import answer_of, pairs
from autograder.judging.exercise import Case, Draw, Exercise, Script, Tolerance
from autograder.judging.fingerprint import alike, fingerprint
from autograder.judging.judge import is_kind_of, judge
from autograder.judging.near import programs as nearby
from autograder.judging.near import trail
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.observe import observe, script_to_data
from autograder.judging.record_json import from_json, nearly, to_json
from autograder.judging.records import CaseRecord, ExerciseRecord, Known
from autograder.judging.values import Array, ArrayNode, EncodedValue, encode

FORMAT = 2
PAIR = "+"  # joins the ids of two mistakes that are made at once
VISIBLE_SEED = 0
TRAILS = 4  # cases of an exercise that know what right programs compute on the way
SUFFIX = ".probes.npz"
Naming = Literal["listed", "pairs", "near"]


@dataclass(frozen=True)
class Pack:
    """A lesson's exercises as data."""

    lesson: str
    title: str
    exercises: dict[str, ExerciseRecord]

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises.values())

    @property
    def without_mending(self) -> "Pack":
        """The same for a course in which `check` looks for nothing in a learner's code."""
        return replace(self, exercises={name: replace(each, mends=False) for name, each in self.exercises.items()})

    @functools.cached_property
    def digest(self) -> str:
        """A hash of all that is in it."""
        arrays: list[Array] = []
        text = json.dumps([to_json(exercise, arrays) for exercise in self.exercises.values()], sort_keys=True)
        return hashlib.sha256(b"\0".join([text.encode(), *(a.tobytes() for a in arrays)])).hexdigest()


def seed_from(secret: str, lesson: str) -> int:
    """A seed nobody can guess without the `secret`."""
    return int.from_bytes(hashlib.sha256(f"{secret}\0{lesson}".encode()).digest()[:8], "big")


def make(lesson: str, title: str, exercises: Sequence[Exercise], *, seed: int = VISIBLE_SEED, naming: Naming = "pairs") -> Pack:
    """The pack of a lesson for `seed`. Raises ValueError where a reference fails on its own probe."""
    return Pack(lesson, title, {exercise.id: make_record(lesson, exercise, seed, naming=naming) for exercise in exercises})


def make_record(lesson: str, exercise: Exercise, seed: int, *, naming: Naming = "pairs") -> ExerciseRecord:
    """`exercise` as data: each case drawn from `seed`, answered by the reference and by every misconception.

    `naming` says what wrong answers are to be known by: the listed misconceptions, pairs of them too, or also what is `near`.
    """
    if exercise.behaviour:
        find(exercise.behaviour)
    cases = [_make_case(lesson, exercise, case, index, seed, naming != "listed") for index, case in enumerate(exercise.cases)]
    near: tuple[Known, ...] = ()
    _drop_idle_pairs(cases, exercise.tolerance)
    if naming == "near" and cases:
        found, near = nearby.find(exercise, cases)
        for name, rows in found.items():
            for record, row in zip(cases, rows, strict=True):
                if row is not None:
                    record.near[name] = row
        add_trails(exercise, cases)
    return ExerciseRecord(
        id=exercise.id,
        title=exercise.title,
        points=exercise.points,
        cases=cases,
        known=tuple(Known(m.id, m.says, m.fix) for m in exercise.misconceptions),
        hints=exercise.hints,
        properties=exercise.properties,
        tolerance=exercise.tolerance,
        choices=exercise.choices,
        holds=exercise.holds,
        reveal=exercise.reveal,
        forbid=exercise.forbid,
        timeout_s=exercise.timeout_s,
        kind=exercise.kind,
        difficulty=exercise.difficulty,
        minutes=exercise.minutes,
        behaviour=exercise.behaviour,
        near=near,
    )


def add_trails(exercise: Exercise, cases: Sequence[CaseRecord]) -> None:
    """What right programs compute on their way, for the cases in which a wrong one is looked at."""
    programs = [exercise.reference, *(variant.answer for variant in exercise.variants)]
    wanted = [record for record in cases if record.expected.failure is None and not exercise.behaviour]
    for record in wanted[:TRAILS]:
        record.trail = trail.rows_of(programs, record.probe)


def _make_case(lesson: str, exercise: Exercise, case: Case, index: int, seed: int, composed: bool) -> CaseRecord:
    where = f"{lesson}.{exercise.id}, case {case.name!r}"
    draw, inputs = drawn_inputs(exercise, case, index, seed)
    probe = Probe(inputs, room=case.room, by_hand=case.by_hand)
    expected = observe(exercise.reference, probe, dtype="float64")
    if expected.failure is None and case.grad and expected.value is not None:
        probe = replace(probe, grad=case.grad, cotangent=_cotangent(expected.value, draw))
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
        seen = shown(exercise.behaviour, observe(answer_of(exercise, answer), probe, dtype="float64"), probe)
        seen.notes, seen.seconds = (), 0.0
        if not judge(probing, [seen]).cases[0].passed:
            record.mistakes[name] = seen
    for one, two, function in pairs(exercise) if composed and case.raises is None else ():
        seen = shown(exercise.behaviour, observe(function, probe, dtype="float64"), probe)
        if (numbers := fingerprint(seen)) is not None:
            record.pairs[f"{one}{PAIR}{two}"] = numbers
    expected.notes, expected.seconds = (), 0.0
    return record


def drawn_inputs(exercise: Exercise, case: Case, index: int, seed: int) -> tuple[Draw, EncodedValue]:
    """The inputs of case number `index` for `seed`, and what else of it is drawn from."""
    draw = Draw([seed, index, *exercise.id.encode()])
    made = case.make(draw)
    inputs = encode(script_to_data(made) if isinstance(made, Script) else made)
    if exercise.tensors:
        inputs = inputs.map(lambda leaf: _tensor(leaf, np.float64 if case.double else np.float32))
    return draw, inputs


def _expected_failure(where: str, seen: Observation, wanted: type[Exception]) -> Observation:
    """What is expected where the reference has to raise `wanted`. Raises ValueError where it does not."""
    if seen.failure is None or seen.failure.kind != "raised" or not is_kind_of(seen.failure.type, wanted.__name__):
        got = "returned a value" if seen.failure is None else f"ended with {seen.failure.type or seen.failure.kind}"
        raise ValueError(f"{where}: expected the reference to raise {wanted.__name__}, but it {got}.")
    return Observation(failure=Failure("raised", wanted.__name__))


def _drop_idle_pairs(cases: Sequence[CaseRecord], tolerance: Tolerance) -> None:
    """Forget the pairs in which one mistake changes nothing that the other has left, and one order of two that are alike."""
    for pair in sorted({name for record in cases for name in record.pairs}):
        turned = PAIR.join(reversed(pair.split(PAIR)))
        again = all(turned in record.pairs and alike(record.pairs[turned], record.pairs[pair], tolerance) for record in cases)
        if again or any(_idle(cases, pair, alone, tolerance) for alone in (*pair.split(PAIR), "")):
            for record in cases:
                record.pairs.pop(pair, None)


def _idle(cases: Sequence[CaseRecord], pair: str, alone: str, tolerance: Tolerance) -> bool:
    """Whether the pair does in every case what the mistake `alone` does (or the right answer, where that does not fail)."""
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


def _cotangent(value: EncodedValue, draw: Draw) -> EncodedValue:
    _, first = next(value.leaves())
    return ArrayNode(draw.normal(*first.content.shape).astype(np.float32), "tensor")


# ---------------------------------------------------------------------------------------------- files


def save(pack: Pack, path: Path) -> None:
    """Write `pack`, deterministically (same content, same bytes on one machine).

    All arrays of a dtype lie in one, for a file of its own costs each of them 200 bytes: `layout` says which is where.
    """
    arrays: list[Array] = []
    manifest = {
        "format": FORMAT,
        "lesson": pack.lesson,
        "title": pack.title,
        "exercises": [to_json(exercise, arrays) for exercise in pack.exercises.values()],
    }
    manifest["layout"] = [[array.dtype.name, list(array.shape)] for array in arrays]
    joined = {
        dtype: np.concatenate([array.ravel() for array in arrays if array.dtype.name == dtype])
        for dtype in sorted({array.dtype.name for array in arrays})
    }
    text = np.frombuffer(json.dumps(manifest, sort_keys=True).encode(), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, manifest=text, **{f"a{dtype}": numbers for dtype, numbers in joined.items()})  # type: ignore[arg-type]  # numpy's stub lacks **kwargs of arrays


def load(path: Path) -> Pack:
    """The pack at `path`; cached until the file changes."""
    return _load(str(path), path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=32)
def _load(path: str, _modified: int) -> Pack:
    with np.load(path, allow_pickle=False) as data:
        manifest = json.loads(data["manifest"].tobytes())
        if manifest.get("format") == FORMAT:
            arrays = _parted(manifest["layout"], {name[1:]: data[name] for name in data.files if name != "manifest"})
        elif manifest.get("format") == 1:  # an array for each file
            arrays = [data[f"a{i}"] for i in range(len(data.files) - 1)]
        else:
            raise ValueError(f"{path}: expected pack format {FORMAT}, got {manifest.get('format')}. Run `attn build`.")
    exercises = [from_json(item, arrays) for item in manifest["exercises"]]
    return Pack(manifest["lesson"], manifest["title"], {exercise.id: exercise for exercise in exercises})


def _parted(layout: Sequence[tuple[str, Sequence[int]]], joined: Mapping[str, Array]) -> list[Array]:
    """The arrays that were joined, each with its own memory."""
    begun = dict.fromkeys(joined, 0)
    arrays = []
    for dtype, shape in layout:
        first, begun[dtype] = begun[dtype], begun[dtype] + math.prod(shape)
        arrays.append(joined[dtype][first : begun[dtype]].reshape(shape).copy())
    return arrays


def differences(one: Pack, two: Pack) -> list[str]:
    """Where two packs differ by more than rounding (another machine's BLAS may round its last digit otherwise).

    What is near a right answer decides no mark, and takes long to make: it is compared only where both packs have it.
    """
    if not (_has_near(one) and _has_near(two)):
        one, two = _without_near(one), _without_near(two)
    left: list[Array] = []
    right: list[Array] = []
    a = [to_json(e, left) for e in one.exercises.values()]
    b = [to_json(e, right) for e in two.exercises.values()]
    found = [f"{x['id']}: declaration or shapes differ" for x, y in zip(a, b, strict=False) if not nearly(x, y)]
    if [x["id"] for x in a] != [y["id"] for y in b] or len(left) != len(right):
        return [*found, f"exercises: {[x['id'] for x in a]} against {[y['id'] for y in b]}"]
    for x, y in zip(left, right, strict=True):
        if x.shape != y.shape or not np.allclose(x, y, rtol=1e-6, atol=1e-9, equal_nan=True):
            found.append(f"an array of shape {x.shape} differs")
            break
    return found


def _has_near(held: Pack) -> bool:
    return any(case.near for exercise in held.exercises.values() for case in exercise.cases)


def _without_near(held: Pack) -> Pack:
    exercises = {
        name: replace(exercise, near=(), cases=[replace(case, near={}, trail=case.trail[:0]) for case in exercise.cases])
        for name, exercise in held.exercises.items()
    }
    return replace(held, exercises=exercises)
