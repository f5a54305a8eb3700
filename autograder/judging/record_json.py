"""An exercise's record as JSON and a flat list of arrays, and back: what a pack's file holds."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from autograder.judging.exercise import Property, Tolerance
from autograder.judging.fingerprint import LENGTH
from autograder.judging.near import programs as nearby
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.records import CaseRecord, ExerciseRecord, Known
from autograder.judging.values import Array, EncodedValue, encode, fetch, store


def _observation_to_json(seen: Observation, arrays: list[Array]) -> dict[str, Any]:
    failure = None if seen.failure is None else [seen.failure.kind, seen.failure.type, seen.failure.message[:200]]
    return {
        "value": store(seen.value, arrays),
        "grads": {name: None if g is None else store(encode(g), arrays) for name, g in sorted(seen.grads.items())},
        "mutated": list(seen.mutated),
        "failure": failure,
    }


def _programs(cases: Sequence[CaseRecord]) -> list[str]:
    """The names of all composed programs of an exercise: pairs of listed mistakes, then those that are near a right answer."""
    return [*dict.fromkeys(n for c in cases for n in c.pairs), *dict.fromkeys(n for c in cases for n in c.near)]


def _table(case: CaseRecord, names: Sequence[str], arrays: list[Array]) -> Any:
    """The fingerprints of one case, a row for each name; NaN where a program has none."""
    if not names:
        return None
    lost = np.full(LENGTH, np.nan, np.float32)
    rows = [case.pairs.get(name, case.near.get(name, lost)) for name in names]
    return store(EncodedValue({"a": 0}, [np.stack(rows).T]), arrays)  # a column of like numbers packs better


def _rows(stored: Any, names: Sequence[str], arrays: list[Array]) -> dict[str, Array]:
    if stored is None:
        return {}
    table = fetch(stored, arrays)
    assert table is not None
    rows = np.ascontiguousarray(table.arrays[0].T)
    return {name: row for name, row in zip(names, rows, strict=True) if not np.isnan(row[0])}


def _observation_from_json(item: dict[str, Any], arrays: list[Array]) -> Observation:
    grads: dict[str, Array | None] = {}
    for name, stored in item["grads"].items():
        tree = fetch(stored, arrays)
        grads[name] = None if tree is None else tree.arrays[0]
    failure = None if item["failure"] is None else Failure(*item["failure"])
    return Observation(fetch(item["value"], arrays), grads, tuple(item["mutated"]), failure)


def to_json(exercise: ExerciseRecord, arrays: list[Array]) -> dict[str, Any]:
    """`exercise` as JSON-able data over `arrays`, to which its own are appended."""
    programs = _programs(exercise.cases)
    cases = [
        {
            "name": case.name,
            "edge": case.edge,
            "inputs": store(case.probe.inputs, arrays),
            "grad": list(case.probe.grad),
            "cotangent": store(case.probe.cotangent, arrays),
            "expected": _observation_to_json(case.expected, arrays),
            "mistakes": {name: _observation_to_json(seen, arrays) for name, seen in sorted(case.mistakes.items())},
            "composed": _table(case, programs, arrays),
        }
        for case in exercise.cases
    ]
    return {
        "id": exercise.id,
        "title": exercise.title,
        "points": exercise.points,
        "cases": cases,
        "known": [[k.id, k.says, k.fix] for k in exercise.known],
        "hints": list(exercise.hints),
        "properties": [asdict(law) for law in exercise.properties],
        "tolerance": [exercise.tolerance.rtol, exercise.tolerance.atol],
        "choices": exercise.choices,
        "holds": exercise.holds,
        "reveal": exercise.reveal,
        "forbid": list(exercise.forbid),
        "timeout_s": exercise.timeout_s,
        "kind": exercise.kind,
        "difficulty": exercise.difficulty,
        "minutes": exercise.minutes,
        "behaviour": exercise.behaviour,
        "programs": programs,
        "near": [[slip.id, slip.says] for slip in exercise.near],
    }


def from_json(item: dict[str, Any], arrays: list[Array]) -> ExerciseRecord:
    """The inverse of `to_json`."""
    cases = []
    programs = item.get("programs", [])
    for case in item["cases"]:
        inputs = fetch(case["inputs"], arrays)
        assert inputs is not None
        probe = Probe(inputs, tuple(case["grad"]), fetch(case["cotangent"], arrays))
        mistakes = {name: _observation_from_json(seen, arrays) for name, seen in case["mistakes"].items()}
        expected, rows = _observation_from_json(case["expected"], arrays), _rows(case.get("composed"), programs, arrays)
        listed = {name: row for name, row in rows.items() if "~" not in name}
        near = {name: row for name, row in rows.items() if "~" in name}
        cases.append(CaseRecord(case["name"], probe, case["edge"], expected, mistakes, listed, near))
    return ExerciseRecord(
        id=item["id"],
        title=item["title"],
        points=item["points"],
        cases=cases,
        known=tuple(Known(*known) for known in item["known"]),
        hints=tuple(item["hints"]),
        properties=tuple(Property(**law) for law in item["properties"]),
        tolerance=Tolerance(*item["tolerance"]),
        choices=dict(item["choices"]),
        holds=item.get("holds", ""),
        reveal=item["reveal"],
        forbid=tuple(item["forbid"]),
        timeout_s=item["timeout_s"],
        **{name: item[name] for name in ("kind", "difficulty", "minutes", "behaviour") if name in item},
        near=tuple(Known(name, says, nearby.ADVICE) for name, says in item.get("near", [])),
    )
