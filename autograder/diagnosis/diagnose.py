"""Which mistake was it? From the stored outputs alone, the first explanation that explains every failing case wins.

In: an exercise with the outputs of its known mistakes, and the judged cases of an answer. Out: a `Diagnosis`, or None.
In this order: a known mistake; two that were composed when the pack was made; one mistake here and another there; a mistake
for each output of a tuple; two factors or summands at once; a simple relation to the right result, or to a known mistake's;
last, hedged, a known mistake that explains most of what fails. A name is certain only where it explains *every* case.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence

import numpy as np

from autograder.diagnosis.relations import Relation, leaves, relations, sizes
from autograder.judging.exercise import Tolerance
from autograder.judging.fingerprint import alike, fingerprint
from autograder.judging.judge import close, compare
from autograder.judging.observation import Observation
from autograder.judging.pack import PAIR
from autograder.judging.records import CaseRecord, CaseResult, Diagnosis, ExerciseRecord, Known
from autograder.judging.values import Array

LIKELY = 4.0
SURE = 8.0  # bits that must be left over when a name is said for certain
ENOUGH = 4  # that many entries cannot agree by chance
VAGUE = ("is the right one times a number", "differs from the right one", "holds exactly", "is right along", "is the same")

Case = tuple[CaseRecord, CaseResult]


def diagnose(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    """What explains the failing cases of an answer, or None."""
    cases = list(zip(exercise.cases, results, strict=True))
    failing = [case for case in cases if not case[1].passed]
    if not failing:
        return None
    tolerance = exercise.tolerance
    found = (
        _one(exercise, cases)
        or _near(exercise, cases, alone=True)
        or _composed(exercise, cases)
        or _here_and_there(exercise, cases)
        or _near(exercise, cases, alone=False)
    )
    if found is None and all(case[1].observation.failure is None for case in failing):
        found = (
            _two_terms(exercise, failing) or _by_output(exercise, cases) or _mistake_and_relation(exercise, failing, tolerance)
        )
    return found or _most(exercise, cases)


def right_outputs(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> tuple[list[str], list[str]]:
    """The paths of a result's parts that are right in every case, and those that are not; two empty lists for a single output."""
    right, wrong = set[str](), set[str]()
    for record, result in zip(exercise.cases, results, strict=True):
        want, got = _values(record.expected), _values(result.observation)
        if set(want) != set(got) or len(want) < 2:
            return [], []
        for path, value in want.items():
            (right if _alike(value, got[path], exercise.tolerance) else wrong).add(path)
    return sorted(right - wrong), sorted(wrong)


# ------------------------------------------------------------------------------------------ known mistakes


def _one(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    for known in exercise.known:
        programs = dict.fromkeys(name for record, _ in cases for name in record.mistakes if name.partition("#")[0] == known.id)
        if any(_explains(name, cases, exercise.tolerance) for name in programs):
            return _named(cases, known)
    return None


def _composed(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    by_id = {known.id: known for known in exercise.known}
    pairs = dict.fromkeys(name for record, _ in cases for name in record.pairs)
    if not pairs:
        return None
    seen = [fingerprint(result.observation) for _, result in cases]
    matching = [name for name in pairs if _pair_explains(name, cases, seen, exercise.tolerance)]
    if not matching:
        return None
    both = [set(name.split(PAIR)) for name in matching]
    sure = all(pair == both[0] for pair in both)  # one pair, perhaps in either order
    common = set.intersection(*both)  # where several pairs do the same, what they share is said
    names = [by_id[name] for name in matching[0].split(PAIR) if name in common or not common]
    return _named(cases, *names, certain=sure)


def _near(exercise: ExerciseRecord, cases: Sequence[Case], *, alone: bool) -> Diagnosis | None:
    """A right program, or a listed mistake, with one small slip (`alone`), or two, that does what was seen."""
    names = dict.fromkeys(name for record, _ in cases for name in record.near if (PAIR in name) != alone)
    if not names or all(result.observation.failure is not None for _, result in cases if not result.passed):
        return None
    by_id = {known.id: known for known in (*exercise.known, *exercise.near)}
    seen = [fingerprint(result.observation) for _, result in cases]
    for name in names:
        if _explained(name, [record.near for record, _ in cases], cases, seen, _exact(cases, exercise.tolerance)):
            left = evidence(cases) - math.log2(len(names))
            return _named(cases, *(by_id[part] for part in name.split(PAIR)), certain=left >= SURE) if left >= LIKELY else None
    return None


def _exact(cases: Sequence[Case], tolerance: Tolerance) -> Tolerance:
    """As near as two ways to compute the same come: an exercise may forgive more, a name may not."""
    arrays = [array for _, result in cases if result.observation.value for array in result.observation.value.arrays]
    double = all(array.dtype.kind != "f" or array.dtype.itemsize == 8 for array in arrays)
    rtol, atol = (1e-7, 1e-10) if double else (1e-5, 1e-6)
    return Tolerance(min(tolerance.rtol, rtol), min(tolerance.atol, atol))


def evidence(cases: Sequence[Case]) -> float:
    """How many bits what was seen is worth, roughly: so much does it take for a coincidence among as many programs."""
    bits = 0.0
    for record, result in cases:
        want, got = _values(record.expected), _values(result.observation)
        if result.passed or set(want) != set(got):
            bits += 0.0 if result.passed else 4.0
            continue
        for path, value in got.items():
            if not isinstance(value, np.ndarray) or (
                isinstance(want[path], np.ndarray) and _alike(want[path], value, Tolerance(1e-4, 1e-6))
            ):
                continue
            bits += _bits(value)
    return bits


def _bits(value: Array) -> float:
    if value.dtype.kind == "b":
        return value.size / 3
    numbers = np.unique(value[np.isfinite(value)].astype(np.float64).round(6))[:8]
    whole = numbers == np.round(numbers)
    return float(np.where(whole, np.log2(1 + np.abs(numbers)), 18.0).sum())


def _pair_explains(name: str, cases: Sequence[Case], seen: Sequence[Array | None], tolerance: Tolerance) -> bool:
    return _explained(name, [record.pairs for record, _ in cases], cases, seen, tolerance)


def _explained(
    name: str, tables: Sequence[dict[str, Array]], cases: Sequence[Case], seen: Sequence[Array | None], tolerance: Tolerance
) -> bool:
    """Whether the program `name` gives in every case just what was seen; a case in which it raises says nothing."""
    shown = False
    for table, (_, result), numbers in zip(tables, cases, seen, strict=True):
        stored = table.get(name)
        if stored is None:
            if table and result.observation.failure is None:
                return False  # here it raises
            continue
        if numbers is None or not alike(stored, numbers, tolerance):
            return False
        shown = shown or not result.passed
    return shown


def _here_and_there(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    """Two mistakes, of which each explains some of the failing cases and none is contradicted by the others."""
    useful = {}
    for known in exercise.known:
        hit = {i for i, case in enumerate(cases) if _shows(known.id, case, exercise.tolerance)}
        if hit:
            useful[known.id] = (known, hit)
    failing = {i for i, (_, result) in enumerate(cases) if not result.passed}
    fits = []
    for (one, hit_one), (two, hit_two) in itertools.combinations(useful.values(), 2):
        touched = {i for i, (record, _) in enumerate(cases) if one.id in record.mistakes or two.id in record.mistakes}
        if hit_one | hit_two == failing == touched:
            fits.append((one, two))
    if len(fits) != 1:
        return None
    one, two = fits[0]
    apart = not any(one.id in record.mistakes and two.id in record.mistakes for record, _ in cases)
    return _named(cases, one, two, certain=apart)


def _most(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    failing = sum(not result.passed for _, result in cases)
    best: tuple[int, Known] | None = None
    for known in exercise.known:
        explained = sum(_shows(known.id, case, exercise.tolerance) for case in cases)
        if 2 * explained > failing and (best is None or explained > best[0]):
            best = (explained, known)
    return _named(cases, best[1], certain=False) if best else None


def _explains(name: str, cases: Sequence[Case], tolerance: Tolerance) -> bool:
    """Whether the mistake `name` does in every case just what was seen."""
    shown = 0
    for record, result in cases:
        mistake = record.mistakes.get(name)
        if not (result.passed if mistake is None else _same(record, mistake, result.observation, tolerance)):
            return False
        shown += mistake is not None
    return shown > 0


def _shows(name: str, case: Case, tolerance: Tolerance) -> bool:
    record, result = case
    return not result.passed and name in record.mistakes and _same(record, record.mistakes[name], result.observation, tolerance)


def _same(record: CaseRecord, mistake: Observation, seen: Observation, tolerance: Tolerance) -> bool:
    """`same_outcome`, but where an exception is expected it does not matter what was returned instead."""
    if record.expected.failure is not None and mistake.failure is None:
        return seen.failure is None
    return same_outcome(mistake, seen, tolerance)


def _named(cases: Sequence[Case], *names: Known, certain: bool = True) -> Diagnosis:
    # other mistakes can end in the same exception, so a name that rests on exceptions alone is never certain
    raised = all(result.observation.failure is not None for _, result in cases if not result.passed)
    sure = certain and not raised
    lead = "You" if sure else "This looks as if you"
    says = ", and you ".join(known.says for known in names)
    return Diagnosis(f"{lead} {says}.", " ".join(known.fix for known in names), names, sure)


def same_outcome(mistake: Observation, seen: Observation, tolerance: Tolerance) -> bool:
    """Whether `seen` is what the mistake does: the same value and gradients, or the same exception for the same reason."""
    if mistake.failure is not None or seen.failure is not None:
        if mistake.failure is None or seen.failure is None:
            return False
        same_kind = (mistake.failure.kind, mistake.failure.type) == (seen.failure.kind, seen.failure.type)
        return same_kind and (not mistake.failure.message or reason(mistake.failure.message) == reason(seen.failure.message))
    if mistake.mutated and set(mistake.mutated) != set(seen.mutated) and _unchanged_value(mistake, seen, tolerance):
        return False
    if any((grad is None) != (seen.grads.get(name) is None) for name, grad in mistake.grads.items()):
        return False
    return compare(mistake, Observation(seen.value, seen.grads, mistake.mutated), tolerance, (), finite=False) is None


def _unchanged_value(mistake: Observation, seen: Observation, tolerance: Tolerance) -> bool:
    """Whether the mistake's value says nothing, so that only what it changes in place tells it from a right answer."""
    return compare(Observation(mistake.value), Observation(seen.value), tolerance, (), finite=False) is None


def reason(message: str) -> str:
    """An exception's message without the sizes in it."""
    return re.sub(r"\d+(?:\.\d+)?", "#", message)[:160]


# ------------------------------------------------------------------------------------------ output by output


def _values(seen: Observation) -> dict[str, object]:
    return {} if seen.value is None else dict(leaves(seen.value))


def _alike(want: object, got: object, tolerance: Tolerance) -> bool:
    if isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        return want.shape == got.shape and bool(close(want, got, tolerance).all())
    return type(want) is type(got) and want == got


def _by_output(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    """A known mistake or a relation for each wrong part of the result; gradients only where all parts are right."""
    parts: list[tuple[str, Known | Relation]] = []
    paths = dict.fromkeys(path for record, _ in cases for path in _values(record.expected))
    wrong_paths = [path for path in paths if any(_wrong_at(path, case, exercise.tolerance) for case in cases)]
    for path in wrong_paths:
        part = _part(exercise, path, cases)
        if part is None:
            return None
        parts.append((path, part))
    if not parts:
        return _gradient(exercise, cases)
    names = list(dict.fromkeys(part for _, part in parts if isinstance(part, Known)))
    single = len(paths) == 1
    said, fixes = [], []
    for part in dict.fromkeys(part for _, part in parts):
        at = [path for path, other in parts if other == part]
        where = "" if single or len(at) == len(paths) else "In " + " and ".join(_output(path) for path in at) + " "
        if isinstance(part, Known):
            said.append(f"{where}you {part.says}." if where else f"You {part.says}.")
        else:
            said.append(f"{where.strip()}, what you return {part.says}." if where else f"Your result {part.says}.")
        fixes.append(part.fix)
    return Diagnosis(" ".join(said), " ".join(dict.fromkeys(fixes)), tuple(names), certain=True)


def _output(path: str) -> str:
    return f"output `{path}`" if path else "your result"


def _wrong_at(path: str, case: Case, tolerance: Tolerance) -> bool:
    want, got = _values(case[0].expected), _values(case[1].observation)
    return path in want and not (path in got and _alike(want[path], got[path], tolerance))


def _part(exercise: ExerciseRecord, path: str, cases: Sequence[Case]) -> Known | Relation | None:
    """What explains the part of the result at `path` in every case in which it is wrong."""
    wrong = [case for case in cases if _wrong_at(path, case, exercise.tolerance)]
    many_paths = len(_values(cases[0][0].expected)) > 1
    if many_paths:  # for a single output the whole was compared before
        for known in exercise.known:
            if all(_known_at(known.id, path, case, exercise.tolerance) for case in wrong):
                return known
    return _common(
        [
            _related(_values(record.expected).get(path), _values(result.observation).get(path), record, exercise)
            for record, result in wrong
        ]
    )


def _known_at(name: str, path: str, case: Case, tolerance: Tolerance) -> bool:
    mistake, got = case[0].mistakes.get(name), _values(case[1].observation)
    if mistake is None or path not in got:
        return False
    would = _values(mistake)
    return path in would and _alike(would[path], got[path], tolerance)


def _related(want: object, got: object, record: CaseRecord, exercise: ExerciseRecord) -> Iterator[Relation]:
    if isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        yield from relations(got, want, sizes(record.probe.inputs), exercise.tolerance)


def _common(each: Sequence[Iterator[Relation]]) -> Relation | None:
    """The first relation of the first case that holds in all of them."""
    if not each:
        return None
    first, *others = (list(dict.fromkeys(found)) for found in each)
    return next((relation for relation in first if all(relation in other for other in others)), None)


def _gradient(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    """All values are right: what is it with the gradients?"""
    names = dict.fromkeys(name for record, _ in cases for name in record.expected.grads)
    said, fixes = [], []
    for name in names:
        pairs = [(record.expected.grads.get(name), result.observation.grads.get(name), record) for record, result in cases]
        both = [(want, got, record) for want, got, record in pairs if want is not None and got is not None]
        if len(both) < sum(want is not None for want, _, _ in pairs):
            return None  # none arrives: the message says so
        wrong = [(want, got, record) for want, got, record in both if not _alike(want, got, exercise.tolerance)]
        if not wrong:
            continue
        relation = _common([_related(want, got, record, exercise) for want, got, record in wrong])
        if relation is None:
            return None
        said.append(f"Your values are right, but the gradient with respect to `{name}` {relation.says}.")
        fixes.append(relation.fix)
    return Diagnosis(" ".join(said), " ".join(dict.fromkeys(fixes)), (), certain=True) if said else None


# ------------------------------------------------------------------------------------------ two at once


def _arrays(seen: Observation) -> list[Array] | None:
    values = list(_values(seen).values())
    if not values or not all(isinstance(value, np.ndarray) and value.dtype.kind in "fiu" for value in values):
        return None
    return [np.asarray(value, dtype=np.float64) for value in values]


def _two_terms(exercise: ExerciseRecord, failing: Sequence[Case]) -> Diagnosis | None:
    """Two mistakes that each change a factor (or a summand): together they change both."""
    rows = []
    for record, result in failing:
        want, got = _arrays(record.expected), _arrays(result.observation)
        if want is None or got is None or [a.shape for a in want] != [a.shape for a in got]:
            return None
        options = {name: _arrays(seen) for name, seen in record.mistakes.items() if seen.failure is None}
        shapes = [a.shape for a in want]
        rows.append((want, got, {name: a for name, a in options.items() if a is not None and [x.shape for x in a] == shapes}))
    common = [known for known in exercise.known if all(known.id in options for _, _, options in rows)]
    if sum(a.size for want, _, _ in rows for a in want) < ENOUGH and len(rows) < 2:
        return None
    fits = []
    for one, two in itertools.combinations_with_replacement(common, 2):
        if one is not two and (
            _all(rows, one, two, np.multiply, exercise.tolerance) or _all(rows, one, two, np.add, exercise.tolerance)
        ):
            fits.append((one, two))
    if len(fits) != 1:
        return None
    return _named(failing, *fits[0])


def _all(
    rows: Sequence[tuple[list[Array], list[Array], dict[str, list[Array]]]],
    one: Known,
    two: Known,
    join: np.ufunc,
    tolerance: Tolerance,
) -> bool:
    wide = Tolerance(tolerance.rtol * 10, tolerance.atol * 10)
    with np.errstate(all="ignore"):
        return all(
            bool(close(join(a, b), join(g, w), wide).all()) and bool(np.isfinite(join(g, w)).all())
            for want, got, options in rows
            for w, g, a, b in zip(want, got, options[one.id], options[two.id], strict=True)
        )


def _mistake_and_relation(exercise: ExerciseRecord, failing: Sequence[Case], tolerance: Tolerance) -> Diagnosis | None:
    """A known mistake, and beyond it a simple relation to what it does."""
    fits: list[tuple[Known, Relation]] = []
    for known in exercise.known:
        each = []
        for record, result in failing:
            mistake = record.mistakes.get(known.id)
            would, got = (_values(mistake) if mistake else {}), _values(result.observation)
            if len(would) != 1 or len(got) != 1:
                break
            (want,), (seen,) = would.values(), got.values()
            if not isinstance(want, np.ndarray) or want.size < ENOUGH:
                break
            each.append(_related(want, seen, record, exercise))
        if len(each) != len(failing):
            continue
        relation = _common(each)
        if relation is not None and not relation.says.startswith(VAGUE):
            fits.append((known, relation))
    if len(fits) != 1:
        return None
    known, relation = fits[0]
    head = f"This looks as if you {known.says}; and beside that, what comes out {relation.says.replace('the right one', 'what that gives')}."
    return Diagnosis(head, f"{known.fix} {relation.fix}", (known,), certain=False)
