"""Compare an observation with the expected one, in a fixed order of checks.

This code awards the marks. It works on plain data with NumPy and never sees the learner's function. The order is that of
`CHECKS`. The first check that fails decides, and the later ones are *skipped*, not failed. One part of "dtype", the precision of
a result, comes after all others (see `imprecise`), so a result in the wrong precision is reported only if nothing else is wrong.
"""

import builtins
import itertools
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from autograder.judging.behaviour import UNFIT, shown
from autograder.judging.exercise import Prediction, Property, Tolerance
from autograder.judging.fact import Fact, fact
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import CaseRecord, CaseResult, Check, ExerciseRecord, Mismatch, PredictionResult, Result
from autograder.judging.values import Array, ArrayNode, Container, EncodedValue, ObjectNode, PlainNode

CHECKS: tuple[Check, ...] = get_args(Check)
KINDS = {"b": "boolean", "i": "integer", "u": "integer", "f": "floating", "c": "complex"}  # end of the fact key `entries.…`


def judge(exercise: ExerciseRecord, observations: Sequence[Observation]) -> Result:
    """Score `observations`, one for each case of the exercise. Raises ValueError if their number differs."""
    if len(observations) != len(exercise.cases):
        raise ValueError(f"{exercise.id}: expected {len(exercise.cases)} observations, got {len(observations)}.")
    cases = []
    for record, observation in zip(exercise.cases, observations, strict=True):
        observation = shown(exercise.behaviour, observation, record.probe)
        size = sum(array.size for array in record.probe.inputs.arrays)
        cases.append(CaseResult(record.name, record.edge, _mismatch_of(exercise, record, observation), observation, size))
    return Result(exercise, score_of(exercise, [case.passed for case in cases]), cases)


def mismatch(exercise: ExerciseRecord, record: CaseRecord, observation: Observation) -> Mismatch | None:
    """Return the first check that fails in one case, or None."""
    return _mismatch_of(exercise, record, shown(exercise.behaviour, observation, record.probe))


def _mismatch_of(exercise: ExerciseRecord, record: CaseRecord, observation: Observation) -> Mismatch | None:
    return compare(record.expected, observation, exercise.tolerance, exercise.properties) or imprecise(record, observation)


def imprecise(record: CaseRecord, observation: Observation) -> Mismatch | None:
    """Return a mismatch of the check "dtype" if the result has the wrong precision, else None. `judge` applies this check last.

    If a case passes tensors in double precision, the results must be double too. If the right result is float16, the answer's
    result must not have more bits.
    """
    if observation.value is None or record.expected.value is None:
        return None
    double = in_double(record)
    for (path, want), (_, got) in zip(record.expected.value.leaves(), observation.value.leaves(), strict=False):
        if not isinstance(got, ArrayNode) or got.content.dtype.kind != "f":
            continue
        dtype = got.content.dtype
        if double and dtype.itemsize < 8:
            return Mismatch("dtype", fact("mismatch.precision.double", got=str(dtype)), path)
        if dtype.itemsize > 2 and isinstance(want, ArrayNode) and want.content.dtype == np.float16:
            return Mismatch("dtype", fact("mismatch.precision.half", got=str(dtype)), path)
    return None


def in_double(record: CaseRecord) -> bool:
    """Return whether the case passes tensors in double precision."""
    return any(leaf.kind == "tensor" and leaf.content.dtype == np.float64 for leaf in record.probe.inputs.flat())


def judge_choice(prediction: Prediction, value: Any) -> PredictionResult:
    """Score a prediction: full marks for any of the choices, in upper or lower case, and none for anything else."""
    if isinstance(value, list | tuple | set) and len(value) == 1:  # ["b"]
        (value,) = value
    text = value.strip(" \t\n.,:;()[]'\"`").lower() if isinstance(value, str) else None  # "b)"
    chosen = next((choice for choice in prediction.choices if choice.lower() == text), None)
    if chosen is not None:
        return PredictionResult(prediction, chosen)
    got, kind = (repr(value[:40]), "text") if isinstance(value, str) else (type(value).__name__, "value")
    return PredictionResult(prediction, failure=Failure("blank", kind, "" if value is None else got))


def score_of(exercise: ExerciseRecord, passed: Sequence[bool]) -> float:
    """Return the points of an answer, given which cases of `exercise` it passed."""
    failing = [case for case, good in zip(exercise.cases, passed, strict=True) if not good]
    if any(case.edge == 0 for case in failing):
        return 0.0
    return round(exercise.points * max(0.0, 1.0 - sum(case.edge for case in failing)), 2)


@np.errstate(all="ignore")  # learners' numbers may overflow
def compare(
    expected: Observation, observation: Observation, tolerance: Tolerance, properties: Sequence[Property], *, finite: bool = True
) -> Mismatch | None:
    """Return the first check that fails, or None. `finite=False` skips the check for NaN, because a mistake may return NaN."""
    if expected.failure is not None:
        return _raising(expected.failure, observation)
    if observation.failure is not None:
        return Mismatch("shape" if observation.failure.kind == UNFIT else "runs", reason_of(observation.failure))
    if expected.value is None or observation.value is None:
        return Mismatch("runs", fact("mismatch.nothing"))
    if (problem := _structure(expected.value, observation.value)) is not None:
        return problem
    leaves = zip(expected.value.leaves(), observation.value.leaves(), strict=True)
    pairs = [(path, want.content, got.content) for (path, want), (_, got) in leaves]
    arrays = [(path, want, got) for path, want, got in pairs if isinstance(want, np.ndarray) and isinstance(got, np.ndarray)]
    problems = itertools.chain(  # in the order of `CHECKS`; a check runs only if all checks before it pass
        (_shape_and_dtype(*each) for each in pairs),
        (_finite(*each) for each in arrays if finite),
        (_property(law, arrays) for law in properties),
        (_values(*each, tolerance) for each in pairs),
        (_gradient(name, grad, observation.grads.get(name), tolerance) for name, grad in expected.grads.items()),
    )
    if (problem := next(filter(None, problems), None)) is not None:
        return problem
    if observation.mutated and set(observation.mutated) != set(expected.mutated):
        return Mismatch("inputs unchanged", fact("mismatch.changed", names=tuple(observation.mutated)))
    return None


def _raising(wanted: Failure, observation: Observation) -> Mismatch | None:
    """Return the mismatch, if any, in a case where a right answer raises the exception `wanted`."""
    if observation.failure is None:
        return Mismatch("values", fact("mismatch.raised_nothing", wanted=wanted.type))
    if observation.failure.kind != "raised":
        return Mismatch("runs", reason_of(observation.failure))
    if not is_kind_of(observation.failure.type, wanted.type):
        how = reason_of(observation.failure)
        return Mismatch("values", fact("mismatch.raised_other", wanted=wanted.type, type=observation.failure.type, got=how))
    return None


def is_kind_of(name: str, wanted: str) -> bool:
    """Return whether the exception called `name` is `wanted`, or a subclass of it among Python's built-in exceptions.

    >>> is_kind_of("IndexError", "LookupError"), is_kind_of("KeyError", "ValueError")
    (True, False)
    """
    kind, base = getattr(builtins, name, None), getattr(builtins, wanted, None)
    return name == wanted or (isinstance(kind, type) and isinstance(base, type) and issubclass(kind, base))


def reason_of(failure: Failure) -> Fact:
    """Return a fact that says why there is no value."""
    if failure.kind == UNFIT:
        said = fact("failure.unfit", message=failure.message) if failure.message else fact("failure.unfit.silently")
        return failure.what or said
    if failure.kind in ("blank", "missing", "crashed"):
        return fact(f"failure.{failure.kind}")
    if failure.kind == "timeout" and not failure.message:
        return fact("failure.timeout.left")
    if failure.kind in ("timeout", "weights"):
        return fact(f"failure.{failure.kind}", message=failure.message)
    where = fact("failure.line", line=failure.line[0], code=failure.line[1]) if failure.line else ""
    key = "failure.raised" if failure.message else "failure.raised.silently"
    return fact(key, type=failure.type, message=failure.message, where=where)


def kind_of(node: EncodedValue) -> Fact:
    """Return a fact that says what kind of value this is."""
    if node.entries is not None:
        return fact("kind.sequence", kind=node.kind, length=len(node.entries))
    if isinstance(node, ArrayNode):
        return fact("kind.tensor" if node.kind == "tensor" else "kind.array")
    if isinstance(node, ObjectNode) or node.content is None:
        return fact("kind.python", name=node.name if isinstance(node, ObjectNode) else node.kind or "None")
    return fact("kind.python", name=type(node.content).__name__)


def _structure(a: EncodedValue, b: EncodedValue, path: str = "") -> Mismatch | None:
    """Return where the second value is not of the same kind as the first. Lists count as tuples, and 0-d arrays as numbers."""
    if not isinstance(a, Container):
        return None if _fits(a, b) else _other_kind(a, b, path)
    if a.entries is None:
        other = b.items()
        if b.kind != "dict" or set(other) != set(a.keys):
            return Mismatch("kind", fact("mismatch.keys", keys=tuple(sorted(a.keys)), got=kind_of(b)), path)
        steps = [(f"{path}[{key!r}]", part, other[key]) for key, part in a.items().items()]
    else:
        if b.entries is None or len(b.entries) != len(a.entries):
            return _other_kind(a, b, path)
        steps = [(f"{path}[{i}]", x, y) for i, (x, y) in enumerate(zip(a.entries, b.entries, strict=True))]
    return next((problem for step, x, y in steps if (problem := _structure(x, y, step))), None)


def _other_kind(a: EncodedValue, b: EncodedValue, path: str) -> Mismatch:
    return Mismatch("kind", fact("mismatch.kind", want=kind_of(a), got=kind_of(b)), path)


def _fits(a: EncodedValue, b: EncodedValue) -> bool:
    """Return whether leaf `b` is of the expected kind, that of `a`. Any number fits a number, so 960.0 is as right as 960."""
    if isinstance(a, ArrayNode):
        return a.kind == b.kind if isinstance(b, ArrayNode) else a.content.ndim == 0 and b.is_number
    if isinstance(b, ArrayNode):
        wanted = "iuf" if a.is_number and b.kind == "array" else "b" if isinstance(a.content, bool) else ""
        return b.content.ndim == 0 and b.content.dtype.kind in wanted
    same = isinstance(a, PlainNode) and isinstance(b, PlainNode) and type(a.content) is type(b.content)
    return same or (a.is_number and b.is_number)


def _shape_and_dtype(path: str, want: Any, got: Any) -> Mismatch | None:
    if not isinstance(want, np.ndarray) or not isinstance(got, np.ndarray):
        return None
    if want.shape != got.shape:
        turned = want.shape == got.shape[::-1] and want.ndim > 1
        what = fact("mismatch.shape.turned" if turned else "mismatch.shape", want=want.shape, got=got.shape)
        return Mismatch("shape", what, path, expected=want, got=got)
    want_kind, got_kind = (KINDS[array.dtype.kind] for array in (want, got))
    if want_kind != got_kind:
        return Mismatch("dtype", fact("mismatch.dtype", want=fact(f"entries.{want_kind}"), got=fact(f"entries.{got_kind}")), path)
    return None


def _finite(path: str, want: Array, got: Array) -> Mismatch | None:
    bad = np.isnan(got) & ~np.isnan(want) if want.dtype.kind in "fc" else np.zeros(0, bool)
    if not bad.any():
        return None
    return _mismatch("finite", fact("mismatch.nan", count=int(bad.sum()), of=got.size), path, want, got, bad)


def _property(law: Property, arrays: Sequence[tuple[str, Array, Array]]) -> Mismatch | None:
    prefix = "" if law.output is None else f"[{law.output}]"
    for path, want, got in arrays:
        if path != prefix or got.size == 0:
            continue
        if law.kind == "non_negative":
            bad, what = got < 0, fact("mismatch.negative")
        elif law.kind == "at_most_one":
            bad, what = got > 1 + 1e-6, fact("mismatch.above_one")
        else:
            target = want.sum(axis=law.axis, keepdims=True)  # 1, or 0 in a case whose rows should be empty
            total = got.sum(axis=law.axis, keepdims=True)
            off = ~(np.abs(total - target) <= 1e-4) & ~np.isnan(target)  # if NaN is expected, the check of the values decides
            bad = np.broadcast_to(off, got.shape)
            first, wanted = (float(sums[off][0]) if off.any() else 0.0 for sums in (total, target))
            which = {(-1, 1): "mismatch.sum", (-1, 2): "mismatch.sum.row"}.get((law.axis, got.ndim), "mismatch.sum.axis")
            what = fact(which, want=wanted, got=first, axis=law.axis)
        if bad.any():
            return _mismatch("properties", what, path, want, got, bad)
    return None


def _values(path: str, want: Any, got: Any, tolerance: Tolerance) -> Mismatch | None:
    if isinstance(want, str | bool) or want is None:
        value = got.item() if isinstance(got, np.ndarray) else got
        return None if value == want else Mismatch("values", fact("mismatch.plain", want=want, got=value), path)
    a, b = np.asarray(want), np.asarray(got)
    wrong = ~close(a, b, tolerance)
    if not wrong.any():
        return None
    what = (
        fact("mismatch.entries", count=int(wrong.sum()), of=wrong.size)
        if a.ndim
        else fact("mismatch.number", want=a.item(), got=b.item())
    )
    return _mismatch("values", what, path, a, b, wrong)


def close(a: Array, b: Array, tolerance: Tolerance) -> Array:
    """Compare elementwise: within tolerance, the same infinity, or both NaN. `a` is the expected array."""
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
        return Mismatch("gradients", fact("mismatch.no_gradient", name=name))
    if got.shape != want.shape or got.dtype.kind != want.dtype.kind:
        return Mismatch("gradients", fact("mismatch.gradient.shape", name=name))
    wide = Tolerance(tolerance.rtol * 10, tolerance.atol * 10)  # a backward pass adds about as much rounding again
    wrong = ~close(want, got, wide)
    if not wrong.any():
        return None
    what = fact("mismatch.gradient", name=name, count=int(wrong.sum()), of=wrong.size)
    return _mismatch("gradients", what, f".grad({name})", want, got, wrong)


def _mismatch(check: Check, what: Fact, path: str, want: Array, got: Array, wrong: Array) -> Mismatch:
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    return Mismatch(check, what, path, at, want, got, wrong)
