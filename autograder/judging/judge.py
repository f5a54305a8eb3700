"""Compare an observation with what was expected, in a fixed order.

Pure NumPy on plain data: this is the code that awards marks, and it never sees the learner's function.
Order: callable -> value -> shape -> dtype -> finite -> properties -> values -> gradients -> inputs not changed.
The first check that fails decides; later ones are *skipped*, not failed.
"""

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograder.judging.behaviour import UNFIT, shown
from autograder.judging.exercise import Property, Tolerance
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import CaseRecord, CaseResult, ExerciseRecord, Mismatch, Result
from autograder.judging.values import Array, EncodedValue, Spec

CHECKS = ("runs", "kind", "shape", "dtype", "finite", "properties", "values", "gradients", "inputs unchanged")
KINDS = {"b": "boolean", "i": "integer", "u": "integer", "f": "floating", "c": "complex"}


def judge(exercise: ExerciseRecord, observations: Sequence[Observation]) -> Result:
    """Score `observations`, one for each of the exercise's cases."""
    if len(observations) != len(exercise.cases):
        raise ValueError(f"{exercise.id}: expected {len(exercise.cases)} observations, got {len(observations)}.")
    cases = []
    for record, seen in zip(exercise.cases, observations, strict=True):
        seen = shown(exercise.behaviour, seen, record.probe)
        size = sum(array.size for array in record.probe.inputs.arrays)
        cases.append(CaseResult(record.name, record.edge, _mismatch_of(exercise, record, seen), seen, size))
    result = Result(exercise, _score(exercise.points, cases), cases)
    if not result.passed:
        failures = [c.observation.failure for c in cases if c.observation.failure and not c.passed]
        result.failure = failures[0] if failures else None
    return result


def mismatch(exercise: ExerciseRecord, record: CaseRecord, seen: Observation) -> Mismatch | None:
    """The first check of one case that fails, or None."""
    return _mismatch_of(exercise, record, shown(exercise.behaviour, seen, record.probe))


def _mismatch_of(exercise: ExerciseRecord, record: CaseRecord, seen: Observation) -> Mismatch | None:
    return compare(record.expected, seen, exercise.tolerance, exercise.properties) or imprecise(record, seen)


def imprecise(record: CaseRecord, seen: Observation) -> Mismatch | None:
    """Where tensors come in double precision, the results must have it too; and of 16 bits, where a right result has no more."""
    if seen.value is None or record.expected.value is None:
        return None
    double = in_double(record)
    for (path, one), (_, two) in zip(record.expected.value.leaves(), seen.value.leaves(), strict=False):
        want, got = (np.asarray(_leaf(*each)) for each in ((one, record.expected.value), (two, seen.value)))
        if "a" not in two or got.dtype.kind != "f":
            continue
        if double and got.dtype.itemsize < 8:
            return Mismatch(
                "dtype", f"expected float64 entries, as the inputs have, got {got.dtype}: was a tensor made without `dtype`", path
            )
        if want.dtype == np.float16 and got.dtype.itemsize > 2:
            return Mismatch("dtype", f"expected entries of 16 bits, as the inputs have, got {got.dtype}", path)
    return None


def in_double(record: CaseRecord) -> bool:
    """Whether the case hands tensors over in double precision."""
    held = record.probe.inputs
    return any(leaf.get("k") == "tensor" and held.arrays[leaf["a"]].dtype == np.float64 for _, leaf in held.leaves())


def judge_choice(exercise: ExerciseRecord, value: Any) -> Result:
    """Score a prediction: full marks for any of the choices, none for anything else."""
    chosen = value if isinstance(value, str) and value in exercise.choices else None
    result = Result(exercise, exercise.points if chosen is not None else 0.0, [], chosen=chosen)
    if chosen is None:
        result.failure = Failure("blank", message="" if value is None else f"got {str(value)[:40]!r}")
    return result


def _score(points: float, cases: Sequence[CaseResult]) -> float:
    if not all(case.passed for case in cases if case.edge == 0):
        return 0.0
    lost = sum(case.edge for case in cases if not case.passed)
    return round(points * max(0.0, 1.0 - lost), 2)


@np.errstate(all="ignore")  # learners' numbers overflow where they like
def compare(
    expected: Observation, seen: Observation, tolerance: Tolerance, properties: Sequence[Property], *, finite: bool = True
) -> Mismatch | None:
    """The first check that fails, or None. `finite=False` lets NaN match NaN silently (mistakes may be NaN)."""
    if expected.failure is not None:
        return _raising(expected.failure, seen)
    if seen.failure is not None:
        return Mismatch("shape" if seen.failure.kind == UNFIT else "runs", _failure_text(seen.failure))
    if expected.value is None or seen.value is None:
        return Mismatch("runs", "nothing was returned")
    if (problem := _structure(expected.value, seen.value)) is not None:
        return problem
    pairs = [
        (path, _leaf(a, expected.value), _leaf(b, seen.value))
        for (path, a), (_, b) in zip(expected.value.leaves(), seen.value.leaves(), strict=True)
    ]
    for path, want, got in pairs:
        if (problem := _shape_and_dtype(path, want, got)) is not None:
            return problem
    arrays = [(path, want, got) for path, want, got in pairs if isinstance(want, np.ndarray) and isinstance(got, np.ndarray)]
    if finite:
        for path, want, got in arrays:
            bad = np.isnan(got) & ~np.isnan(want) if want.dtype.kind in "fc" else np.zeros(0, bool)
            if bad.any():
                return _mismatch("finite", f"{int(bad.sum())} of {got.size} entries are NaN", path, want, got, bad)
    for law in properties:
        if (problem := _property(law, arrays)) is not None:
            return problem
    for path, want, got in pairs:
        if (problem := _values(path, want, got, tolerance)) is not None:
            return problem
    for name, grad in expected.grads.items():
        if (problem := _gradient(name, grad, seen.grads.get(name), tolerance)) is not None:
            return problem
    if seen.mutated and set(seen.mutated) != set(expected.mutated):
        names = ", ".join(f"`{name}`" for name in seen.mutated)
        return Mismatch("inputs unchanged", f"the function changed its input {names} in place; work on a copy")
    return None


def _raising(wanted: Failure, seen: Observation) -> Mismatch | None:
    """The verdict where a right answer ends with the exception `wanted`."""
    if seen.failure is None:
        return Mismatch("values", f"expected a {wanted.type} to be raised, but something was returned")
    if seen.failure.kind != "raised":
        return Mismatch("runs", _failure_text(seen.failure))
    if not is_kind_of(seen.failure.type, wanted.type):
        return Mismatch("values", f"expected a {wanted.type} to be raised, got {_failure_text(seen.failure)}")
    return None


def is_kind_of(name: str, wanted: str) -> bool:
    """Whether the exception called `name` is the one called `wanted`, or one of Python's own kinds of it.

    >>> is_kind_of("IndexError", "LookupError"), is_kind_of("KeyError", "ValueError")
    (True, False)
    """
    one, other = getattr(builtins, name, None), getattr(builtins, wanted, None)
    return name == wanted or (isinstance(one, type) and isinstance(other, type) and issubclass(one, other))


def _failure_text(failure: Failure) -> str:
    where = f" at your line {failure.line[0]}: `{failure.line[1]}`" if failure.line else ""
    return {
        "blank": "not written yet",
        "missing": "the name is not defined",
        "timeout": f"no answer within {failure.message}: an endless loop?",
        "weights": f"the given weights do not fit your module: {failure.message}",
        "crashed": "the process ended while your function ran",
        UNFIT: failure.message or "what was returned does not fit",
    }.get(failure.kind, f"{failure.type}: {failure.message}{where}")


def _leaf(spec: Spec, tree: EncodedValue) -> Any:
    if "a" in spec:
        return tree.arrays[spec["a"]]
    if "f" in spec:
        return float(spec["f"])
    return spec.get("s")


def _type_name(spec: Spec) -> str:
    if "a" in spec:
        return "torch.Tensor" if spec["k"] == "tensor" else "numpy array"
    if "o" in spec:
        return str(spec["o"])
    for tag, name in (("l", "list"), ("t", "tuple"), ("d", "dict"), ("f", "float")):
        if tag in spec:
            return name + (f" of {len(spec[tag])}" if tag in "lt" else "")
    return "None" if spec.get("s") is None else type(spec["s"]).__name__


def _is_number(spec: Spec) -> bool:
    return "f" in spec or (isinstance(spec.get("s"), int | float) and not isinstance(spec.get("s"), bool))


def _structure(expected: EncodedValue, got: EncodedValue) -> Mismatch | None:
    def walk(a: Spec, b: Spec, path: str) -> Mismatch | None:
        for tag in ("l", "t"):
            if tag in a:
                items = b.get("l", b.get("t"))
                if items is None or len(items) != len(a[tag]):
                    return Mismatch("kind", f"expected a {_type_name(a)} but got {_type_name(b)}", path)
                return next(
                    (p for i, (x, y) in enumerate(zip(a[tag], items, strict=True)) if (p := walk(x, y, f"{path}[{i}]"))), None
                )
        if "d" in a:
            if "d" not in b or {k for k, _ in a["d"]} != {k for k, _ in b["d"]}:
                return Mismatch("kind", f"expected a dict with keys {sorted(k for k, _ in a['d'])}, got {_type_name(b)}", path)
            other = dict(b["d"])
            return next((p for k, x in a["d"] if (p := walk(x, other[k], f"{path}[{k!r}]"))), None)
        zero_d = ("a" in a and expected.arrays[a["a"]].ndim == 0 and _is_number(b)) or (
            _is_number(a)
            and "a" in b
            and b["k"] == "array"
            and got.arrays[b["a"]].ndim == 0
            and got.arrays[b["a"]].dtype.kind in "iuf"
        )
        if zero_d or (_is_number(a) and _is_number(b)) or ("a" in a and "a" in b and a["k"] == b["k"]):
            return None
        if "s" in a and "s" in b and type(a["s"]) is type(b["s"]):
            return None
        if (
            "s" in a
            and isinstance(a["s"], bool)
            and "a" in b
            and got.arrays[b["a"]].shape == ()
            and got.arrays[b["a"]].dtype.kind == "b"
        ):
            return None
        return Mismatch("kind", f"expected a {_type_name(a)} but got {_type_name(b)}", path)

    return walk(expected.spec, got.spec, "")


def _shape_and_dtype(path: str, want: Any, got: Any) -> Mismatch | None:
    if not isinstance(want, np.ndarray) or not isinstance(got, np.ndarray):
        return None
    if want.shape != got.shape:
        hint = ". Transposed?" if want.shape == got.shape[::-1] and want.ndim > 1 else ""
        return Mismatch("shape", f"expected shape {want.shape}, got {got.shape}{hint}", path, expected=want, got=got)
    if KINDS[want.dtype.kind] != KINDS[got.dtype.kind]:
        return Mismatch("dtype", f"expected {KINDS[want.dtype.kind]} entries, got {KINDS[got.dtype.kind]}", path)
    return None


def _property(law: Property, arrays: Sequence[tuple[str, Array, Array]]) -> Mismatch | None:
    prefix = "" if law.output is None else f"[{law.output}]"
    for path, want, got in arrays:
        if path != prefix or got.size == 0:
            continue
        if law.kind == "non_negative":
            bad, text = got < 0, "entries must not be negative"
        elif law.kind == "at_most_one":
            bad, text = got > 1 + 1e-6, "entries must not exceed 1"
        else:
            target = want.sum(axis=law.axis, keepdims=True)  # 1, or 0 where the case's policy says so
            total = got.sum(axis=law.axis, keepdims=True)
            off = ~(np.abs(total - target) <= 1e-4) & ~np.isnan(target)  # where NaN is right, the values say so
            bad = np.broadcast_to(off, got.shape)
            named = {(-1, 1): "the weights must sum to", (-1, 2): "each row must sum to"}
            where = named.get((law.axis, got.ndim), f"sums along axis {law.axis} must be")
            first, wanted = (float(sums[off][0]) if off.any() else 0.0 for sums in (total, target))
            text = f"{where} {wanted:.4g} here; the first of yours that is not, is {first:.4g}"
        if bad.any():
            return _mismatch("properties", text, path, want, got, bad)
    return None


def _values(path: str, want: Any, got: Any, tolerance: Tolerance) -> Mismatch | None:
    if isinstance(want, str | bool) or want is None:
        value = got.item() if isinstance(got, np.ndarray) else got
        return None if value == want else Mismatch("values", f"expected {want!r}, got {value!r}", path)
    a, b = np.asarray(want), np.asarray(got)
    wrong = ~close(a, b, tolerance)
    if not wrong.any():
        return None
    text = f"{int(wrong.sum())} of {wrong.size} entries differ" if a.ndim else f"expected {a.item():.6g}, got {b.item():.6g}"
    return _mismatch("values", text, path, a, b, wrong)


def close(a: Array, b: Array, tolerance: Tolerance) -> Array:
    """Elementwise: within tolerance, or the same infinity, or both NaN. `a` is the expected one."""
    if a.dtype.kind not in "fc" and b.dtype.kind not in "fc":
        return np.asarray(a == b)
    with np.errstate(invalid="ignore", over="ignore"):
        wide = np.complex128 if "c" in a.dtype.kind + b.dtype.kind else np.float64
        near = np.abs(b.astype(wide) - a.astype(wide)) <= tolerance.atol + tolerance.rtol * np.abs(a)
        near &= np.isfinite(a) & np.isfinite(b)
    return np.asarray(near | (a == b) | (np.isnan(a) & np.isnan(b)))


def _gradient(name: str, want: Array | None, got: Array | None, tolerance: Tolerance) -> Mismatch | None:
    if want is None:
        return None
    if got is None:
        return Mismatch("gradients", f"no gradient reaches `{name}`: was it detached, or copied through NumPy?")
    if got.shape != want.shape or got.dtype.kind != want.dtype.kind:
        return Mismatch("gradients", f"the gradient with respect to `{name}` has the wrong shape or dtype")
    wide = Tolerance(tolerance.rtol * 10, tolerance.atol * 10)  # a backward pass rounds about as often again
    wrong = ~close(want, got, wide)
    if not wrong.any():
        return None
    text = f"the gradient with respect to `{name}` is wrong in {int(wrong.sum())} of {wrong.size} entries"
    return _mismatch("gradients", text, f".grad({name})", want, got, wrong)


def _mismatch(check: str, text: str, path: str, want: Array, got: Array, wrong: Array) -> Mismatch:
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    return Mismatch(check, text, path, at, want, got, wrong)
