"""Convert an exercise's record to JSON and a flat list of arrays, as a pack's file stores them, and back."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from autograder.judging.exercise import Prediction, Property, Tolerance
from autograder.judging.fact import Fact, fact
from autograder.judging.fingerprint import LENGTH
from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.records import AnyRecord, CaseRecord, ExerciseRecord, Known, NearSlip
from autograder.judging.values import Array, ArrayNode, fetch, store

PLAIN = ("id", "title", "points", "timeout_s", "kind", "difficulty", "minutes", "behaviour")  # fields stored as they are


def _observation_to_json(observation: Observation, arrays: list[Array]) -> dict[str, Any]:
    failure = observation.failure
    return {
        "value": store(observation.value, arrays),
        "grads": {name: store(None if g is None else ArrayNode(g), arrays) for name, g in sorted(observation.grads.items())},
        "mutated": list(observation.mutated),
        "failure": None if failure is None else [failure.kind, failure.type, failure.message[:200]],
    }


def _table(case: CaseRecord, pairs: Sequence[str], near: Sequence[str], arrays: list[Array]) -> Any:
    """Store the fingerprints of one case, a column for each name (NaN if it has none). Return where, or None without any."""
    if not pairs and not near:
        return None
    lost = np.full(LENGTH, np.nan, np.float32)
    rows = [*(case.pairs.get(name, lost) for name in pairs), *(case.near.get(name, lost) for name in near)]
    return [{"a": 0}, _place(np.stack(rows).T, arrays), 1]  # compresses better, because each row has like numbers


def _place(array: Array, arrays: list[Array]) -> int:
    """Append an array to the others and return its index."""
    arrays.append(array)
    return len(arrays) - 1


def _array_at(arrays: Sequence[Array], index: int) -> Array:
    """Return an array by its index. Raises ValueError if it is not there."""
    if index >= len(arrays):
        raise ValueError(f"expected an array among {len(arrays)}, got index {index}")
    return arrays[index]


def _observation_from_json(item: dict[str, Any], arrays: list[Array]) -> Observation:
    grads = {name: None if stored is None else _array_at(arrays, stored[1]) for name, stored in item["grads"].items()}
    failure = None if item["failure"] is None else Failure(*item["failure"])
    return Observation(fetch(item["value"], arrays), grads, tuple(item["mutated"]), failure)


def to_json(record: AnyRecord, arrays: list[Array]) -> dict[str, Any]:
    """Return `record` as JSON data, and append its arrays to `arrays`."""
    return _prediction_to_json(record) if isinstance(record, Prediction) else _exercise_to_json(record, arrays)


def _prediction_to_json(record: Prediction) -> dict[str, Any]:
    """Return a prediction as an exercise with choices and without cases, because format 3 has only one kind of entry."""
    bare = ExerciseRecord(
        record.id, record.title, record.points, [], (), (), difficulty=record.difficulty, minutes=record.minutes
    )
    return {**_exercise_to_json(bare, []), "choices": record.choices, "holds": record.holds, "reveal": record.reveal}


def _exercise_to_json(exercise: ExerciseRecord, arrays: list[Array]) -> dict[str, Any]:
    pairs = list(dict.fromkeys(name for case in exercise.cases for name in case.pairs))
    near = list(dict.fromkeys(name for case in exercise.cases for name in case.near))
    cases = [
        {
            "name": case.name,
            "edge": case.edge,
            "inputs": store(case.probe.inputs, arrays),
            "grad": list(case.probe.grad),
            "cotangent": store(case.probe.cotangent, arrays),
            **({"room": case.probe.room} if case.probe.room else {}),
            **({"by_hand": True} if case.probe.by_hand else {}),
            **({"elsewhere": True} if case.probe.elsewhere else {}),
            "expected": _observation_to_json(case.expected, arrays),
            "mistakes": {name: _observation_to_json(observation, arrays) for name, observation in sorted(case.mistakes.items())},
            "composed": _table(case, pairs, near, arrays),
            **({"trail": _place(case.trail, arrays)} if len(case.trail) else {}),
        }
        for case in exercise.cases
    ]
    return {
        **{name: getattr(exercise, name) for name in PLAIN},
        "cases": cases,
        "known": [[k.id, k.says, k.fix] for k in exercise.known],
        "hints": list(exercise.hints),
        "properties": [asdict(law) for law in exercise.properties],
        "tolerance": [exercise.tolerance.rtol, exercise.tolerance.atol],
        "choices": {},
        "holds": "",
        "reveal": "",
        "forbid": list(exercise.forbid),
        "programs": [*pairs, *near],
        "pairs": len(pairs),
        "near": [[slip.id, fact_to_json(slip.what)] for slip in exercise.near],
        **({} if exercise.repairs else {"repairs": False}),
        **({"operators": exercise.operators} if exercise.operators else {}),
    }


def from_json(item: dict[str, Any], arrays: list[Array]) -> AnyRecord:
    """Return the record that `to_json` stored. Raises ValueError for an array that is not there."""
    if item["choices"]:
        return Prediction(**{field.name: item[field.name] for field in fields(Prediction) if field.name in item})
    cases = []
    programs, paired = item.get("programs", []), item["pairs"]
    for case in item["cases"]:
        inputs = fetch(case["inputs"], arrays)
        assert inputs is not None  # the schema says so
        how = case.get("room", 0.0), case.get("by_hand", False), case.get("elsewhere", False)
        probe = Probe(inputs, tuple(case["grad"]), fetch(case["cotangent"], arrays), *how)
        mistakes = {name: _observation_from_json(entry, arrays) for name, entry in case["mistakes"].items()}
        expected = _observation_from_json(case["expected"], arrays)
        table = case.get("composed")
        named = [] if table is None else list(zip(programs, np.ascontiguousarray(_array_at(arrays, table[1]).T), strict=True))
        pairs, near = ({name: row for name, row in part if not np.isnan(row[0])} for part in (named[:paired], named[paired:]))
        record = CaseRecord(case["name"], probe, case["edge"], expected, mistakes, pairs, near)
        if case.get("trail") is not None:
            record.trail = _array_at(arrays, case["trail"])
        cases.append(record)
    return ExerciseRecord(
        **{name: item[name] for name in (*PLAIN, "operators") if name in item},
        cases=cases,
        known=tuple(Known(*known) for known in item["known"]),
        hints=tuple(item["hints"]),
        properties=tuple(Property(**law) for law in item["properties"]),
        tolerance=Tolerance(*item["tolerance"]),
        forbid=tuple(item["forbid"]),
        repairs=item.get("repairs", True),
        near=tuple(NearSlip(name, fact_from_json(stored)) for name, stored in item.get("near", [])),
    )


def fact_to_json(what: Fact) -> list[Any]:
    """Return a fact as `[key, values]`. A fact among the values becomes another such list."""
    return [what.key, {name: _value_to_json(value) for name, value in what.values}]


def _value_to_json(value: object) -> object:
    if isinstance(value, Fact):
        return {"fact": fact_to_json(value)}
    return list(map(_value_to_json, value)) if isinstance(value, tuple) else value


def fact_from_json(stored: Any) -> Fact:
    """Return the fact that `fact_to_json` stored."""
    key, values = stored
    return fact(key, **{name: _value_from_json(value) for name, value in values.items()})


def _value_from_json(stored: Any) -> object:
    if isinstance(stored, dict):
        return fact_from_json(stored["fact"])
    return tuple(map(_value_from_json, stored)) if isinstance(stored, list) else stored


def nearly(one: object, two: object) -> bool:
    """Return whether two JSON values are equal up to rounding of their numbers."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(nearly(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(nearly, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return bool(np.isclose(one, two, rtol=1e-6, atol=1e-9, equal_nan=True))
    return type(one) is type(two) and one == two
