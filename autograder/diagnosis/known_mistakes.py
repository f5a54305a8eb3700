"""Match an answer with known mistakes and programs near a right one: one mistake, two at once, or two in different cases.

In: an exercise with the outputs of its mistakes, and the judged cases. Out: a `Diagnosis`, or None. A mistake is certain only if
it explains every case and enough was observed to rule out a coincidence. A single number is weak evidence. It has to match a
mistake's number far more closely than the exercise requires, and it never makes two mistakes at once certain.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from autograder.diagnosis import python_errors
from autograder.diagnosis.finding import Diagnosis, Manner, Matched
from autograder.diagnosis.outcome import Case, reason, same_in, same_value, values
from autograder.diagnosis.thresholds import LIKELY, MOST_OTHERS, NEARLY, NUMBER, SURE
from autograder.judging.compare import close
from autograder.judging.exercise import Tolerance
from autograder.judging.fingerprint import LENGTH, alike, alike_each, fingerprint
from autograder.judging.observation import Failure
from autograder.judging.records import PAIR, UNLISTED, CaseResult, ExerciseRecord, Known, NearSlip
from autograder.judging.values import Array
from autograder.mutants.source import plain_slip


def match_listed(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    """Return the diagnosis of a known mistake that does what was observed in every case."""
    mistake = next(listed_matches(exercise, cases), None)
    return named(cases, mistake) if mistake is not None else None


def listed_matches(exercise: ExerciseRecord, cases: Sequence[Case]) -> Iterator[Known]:
    """Yield every known mistake that does what was observed in every case."""
    tolerance = exercise.tolerance
    if one_number(exercise):
        tolerance = Tolerance(min(tolerance.rtol, NUMBER.rtol), min(tolerance.atol, NUMBER.atol))
    for known in exercise.known:
        if any(_explains(name, cases, tolerance) for name in _programs_of(known, cases)):
            yield known


def _programs_of(known: Known, cases: Sequence[Case]) -> list[str]:
    """Return the names of the programs with this mistake that differ from a right answer in some case: `id`, `id#1`, …."""
    return list(dict.fromkeys(name for record, _ in cases for name in record.mistakes if name.partition("#")[0] == known.id))


def one_number(exercise: ExerciseRecord) -> bool:
    """Return whether the exercise asks for a single number, which many calculations reach by accident."""
    if exercise.kind == "estimate":
        return True
    if len(exercise.cases) != 1 or exercise.cases[0].probe.inputs.flat():
        return False
    asked = exercise.cases[0].expected.value
    return asked is None or not asked.arrays


def match_composed(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    """Return the diagnosis of two known mistakes at once."""
    by_id = {known.id: known for known in exercise.known}
    pairs = dict.fromkeys(name for record, _ in cases for name in record.pairs)
    if not pairs or one_number(exercise):  # many pairs reach one number by accident, so two mistakes would be the wrong story
        return None
    fingerprints = [fingerprint(result.observation) for _, result in cases]
    tolerance = _exact(cases, exercise.tolerance)
    matching = [name for name in pairs if _pair_explains(name, cases, fingerprints, tolerance)]
    if not matching:
        return None
    matching_pairs = [set(_parts(name)) for name in matching]
    common = set.intersection(*matching_pairs)
    first = _parts(matching[0])
    if all(pair == matching_pairs[0] for pair in matching_pairs):  # one pair, perhaps in either order
        return named(cases, *(by_id[name] for name in first))
    if not common:
        return named(cases, *(by_id[name] for name in first), certain=False)
    shared = [by_id[name] for name in first if name in common]  # in all of the pairs, so certain; the others are alternatives
    others = [by_id[name] for name in dict.fromkeys(name for pair in matching for name in _parts(pair)) if name not in common]
    diagnosis = named(cases, *shared)
    if not diagnosis.certain:
        return diagnosis
    (matched,) = diagnosis.findings
    assert isinstance(matched, Matched)
    finding = replace(matched, more=True) if len(others) > MOST_OTHERS else replace(matched, either=tuple(others))
    return replace(diagnosis, findings=(finding,))


def _parts(pair: str) -> list[str]:
    """Return the ids of the two mistakes, without the number of the program."""
    return [name.partition("#")[0] for name in pair.split(PAIR)]


def _pair_explains(name: str, cases: Sequence[Case], fingerprints: Sequence[Array | None], tolerance: Tolerance) -> bool:
    """Return whether the two mistakes together give what was observed in every case.

    Where they raise together, the answer only has to raise too.
    """
    shown = False
    for (record, result), numbers in zip(cases, fingerprints, strict=True):
        stored = record.pairs.get(name)
        if stored is None:
            if record.pairs and result.observation.failure is None:
                return False  # together they raise in this case
            continue
        if numbers is None or not alike(stored, numbers, tolerance):
            return False
        shown = shown or _wrong_in_value(result)
    return shown


def _wrong_in_value(result: CaseResult) -> bool:
    """Return whether something other than a changed input is wrong. Right numbers are no evidence of a mistake in them."""
    return result.mismatch is not None and result.mismatch.check != "inputs unchanged"


def match_unlisted(exercise: ExerciseRecord, cases: Sequence[Case], *, single: bool) -> Diagnosis | None:
    """Return the diagnosis of one small slip in a right program (`single`), or of two slips or a listed mistake and a slip."""
    names = [name for name in dict.fromkeys(name for record, _ in cases for name in record.near) if (PAIR in name) != single]
    if not names or (one_number(exercise) and not single) or _all_raise(cases):
        return None
    fits, shows = np.ones(len(names), bool), np.zeros(len(names), bool)
    tolerance, lost = _exact(cases, exercise.tolerance), np.full(LENGTH, np.nan, np.float32)
    for record, result in cases:
        numbers = fingerprint(result.observation)
        rows = np.stack([record.near.get(name, lost) for name in names])
        there = ~np.isnan(rows[:, 0])
        same = np.zeros(len(names), bool) if numbers is None else alike_each(rows, numbers, tolerance)
        fails = result.observation.failure is not None
        fits &= np.where(there, same, fails or not record.near)  # where the program raises, the answer has to raise too
        shows |= there & _wrong_in_value(result)
    by_id: dict[str, Known | NearSlip] = {known.id: known for known in exercise.known}
    by_id |= {slip.id: slip for slip in exercise.near}
    if _only_lost(cases, exercise.tolerance):
        fits &= [not any(_is_of_result(by_id[part]) for part in name.split(PAIR)) for name in names]
    fitting = np.flatnonzero(fits & shows)
    if len(fitting) == 0:
        return None
    bits_left = evidence(cases) - math.log2(int(fitting[0]) + len(names) / 8)  # common slips are stored first, after fewer tries
    if bits_left < LIKELY:
        return None
    sure = bits_left >= SURE and not exercise.behaviour  # a design is judged coarsely, so many programs match
    parts = names[fitting[0]].split(PAIR)
    if not sure and any(part.startswith(UNLISTED) for part in parts):
        return None  # such guesses are seldom right; the line where the numbers become wrong says more
    return named(cases, *(by_id[part] for part in parts), certain=sure)


def _only_lost(cases: Sequence[Case], tolerance: Tolerance) -> bool:
    """Return whether every wrong entry of the results is NaN or infinite, in arrays of the right shape."""
    for record, result in cases:
        if result.passed:
            continue
        want, got = values(record.expected), values(result.observation)
        if want.keys() != got.keys() or result.observation.failure is not None:
            return False
        if not all(same_value(want[path], got[path], tolerance) or _is_lost(want[path], got[path], tolerance) for path in want):
            return False
    return True


def _is_lost(want: object, got: object, tolerance: Tolerance) -> bool:
    if not isinstance(want, np.ndarray) or not isinstance(got, np.ndarray) or want.shape != got.shape or got.dtype.kind != "f":
        return False
    return bool((np.isfinite(want) & ~np.isfinite(got))[~close(want, got, tolerance)].all())


def _is_of_result(mistake: Known | NearSlip) -> bool:
    """Return whether the mistake changes a right result afterwards, which would show in its finite entries too."""
    return isinstance(mistake, NearSlip) and plain_slip(mistake.what).key.startswith("slip.result.")


def _exact(cases: Sequence[Case], tolerance: Tolerance) -> Tolerance:
    """Return a tolerance that allows only for rounding, because a mistake has to match more closely than a right answer."""
    arrays = [array for _, result in cases if result.observation.value for array in result.observation.value.arrays]
    arrays += [array for record, _ in cases for array in record.probe.inputs.arrays]  # a behaviour is double whatever its inputs
    double = all(array.dtype.kind != "f" or array.dtype.itemsize == 8 for array in arrays)
    rtol, atol = (1e-7, 1e-10) if double else (1e-5, 1e-6)
    return Tolerance(min(tolerance.rtol, rtol), min(tolerance.atol, atol))


def evidence(cases: Sequence[Case]) -> float:
    """Return roughly how many bits of evidence were observed. About 2^n programs have to be tried to match n bits by chance."""
    bits = 0.0
    for record, result in cases:
        if not result.passed:
            want, got = values(record.expected), values(result.observation)
            wrong = [value for path, value in got.items() if not _right(want.get(path), value)]
            bits += sum(worth(value) for value in wrong if isinstance(value, np.ndarray)) + 4.0 * (set(want) != set(got))
    return bits


def expected_evidence(exercise: ExerciseRecord, results: Sequence[CaseResult], *, missed: bool = False) -> float:
    """Return how many bits the right results of the failing cases are worth, or with `missed` only the parts that are wrong."""
    bits = 0.0
    for record, result in zip(exercise.cases, results, strict=True):
        if not result.passed:
            got = values(result.observation) if missed else {}
            bits += sum(worth(want) for path, want in values(record.expected).items() if not _right(want, got.get(path)))
    return bits


def _right(want: object, got: object) -> bool:
    kinds = {value.dtype.kind for value in (want, got) if isinstance(value, np.ndarray)}
    return len(kinds) == 1 and same_value(want, got, NEARLY)


def worth(value: object) -> float:
    """Return roughly how many bits an array is worth, and 0 for any other value."""
    if not isinstance(value, np.ndarray):
        return 0.0
    if value.dtype.kind == "b":
        return value.size / 3
    numbers = np.unique(np.real(value[np.isfinite(value)]).astype(np.float64).round(6))
    places = value.size / 3 if 1 < len(numbers) <= 8 else 0.0  # if few numbers are distinct, their places say more than they do
    whole = numbers[:8] == np.round(numbers[:8])
    return places + float(np.where(whole, np.log2(1 + np.abs(numbers[:8])), 18.0).sum())


def match_here_and_there(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    """Return the diagnosis of two mistakes that each explain some of the failing cases, if no other case contradicts either."""
    if one_number(exercise):  # two mistakes reach one number by accident
        return None
    shown = [
        (known, name, {i for i, case in enumerate(cases) if _shows(name, case, exercise.tolerance)})
        for known in exercise.known
        for name in _programs_of(known, cases)
    ]
    useful = [(known, name, hit) for known, name, hit in shown if hit]
    failing = {i for i, (_, result) in enumerate(cases) if not result.passed}
    fits: list[tuple[tuple[Known, Known], bool]] = []  # two mistakes, and whether no case shows both
    for (first, name_1, hit_1), (second, name_2, hit_2) in itertools.combinations(useful, 2):
        touched = {i for i, (record, _) in enumerate(cases) if name_1 in record.mistakes or name_2 in record.mistakes}
        if first is not second and hit_1 | hit_2 == failing == touched:
            overlap = any(name_1 in record.mistakes and name_2 in record.mistakes for record, _ in cases)
            fits.append(((first, second), not overlap))
    if not fits or any(pair != fits[0][0] for pair, _ in fits):
        return None
    return named(cases, *fits[0][0], certain=all(apart for _, apart in fits))


def match_most(exercise: ExerciseRecord, cases: Sequence[Case]) -> Diagnosis | None:
    """Return the diagnosis, never certain, of the known mistake that explains most failing cases, if these are more than half.

    An exception from shapes that don't fit is no evidence.
    """
    failing = sum(not result.passed for _, result in cases)

    def explained(known: Known) -> int:
        shown = ((case for case in cases if _shows(name, case, exercise.tolerance)) for name in _programs_of(known, cases))
        return max((sum(_own_exception([case], known) for case in of_program) for of_program in shown), default=0)

    best = max(exercise.known, key=explained, default=None)
    return named(cases, best, certain=False) if best is not None and 2 * explained(best) > failing else None


def _explains(name: str, cases: Sequence[Case], tolerance: Tolerance) -> bool:
    """Return whether the mistake `name` does what was observed in every case."""
    shown = 0
    for record, result in cases:
        mistake = record.mistakes.get(name)
        if not (result.passed if mistake is None else same_in(record, mistake, result.observation, tolerance)):
            return False
        shown += mistake is not None
    return shown > 0


def _shows(name: str, case: Case, tolerance: Tolerance) -> bool:
    record, result = case
    return not result.passed and name in record.mistakes and same_in(record, record.mistakes[name], result.observation, tolerance)


def named(cases: Sequence[Case], *names: Known | NearSlip, certain: bool = True) -> Diagnosis:
    """Return the diagnosis that these mistakes were made."""
    # if every failing case raises, a name is certain only if no other mistake raises the same exceptions
    sure = certain and (not _all_raise(cases) or (len(names) == 1 and _own_exception(cases, names[0])))
    # other numbers often have the same effect in these cases, so a wrong number beside a second mistake is a guess
    sure = sure and not (len(names) > 1 and any(_is_number(known) for known in names))
    return Diagnosis((Matched(names, manner_of(cases) if sure else Manner.HEDGED),), names, sure)


def _is_number(known: Known | NearSlip) -> bool:
    return isinstance(known, NearSlip) and plain_slip(known.what).key == "slip.number"


def manner_of(cases: Sequence[Case]) -> Manner:
    """Return how to tell certain mistakes: we know what came out, but not how it was written."""
    if _all_raise(cases):
        return Manner.STOPS
    estimated = len(cases) == 1 and not cases[0][0].probe.inputs.flat()
    returned = [result.observation.value for _, result in cases if not result.passed]
    return Manner.NUMBER if estimated and all(value is None or value.is_number for value in returned) else Manner.RESULT


def _all_raise(cases: Sequence[Case]) -> bool:
    """Return whether every failing case ends without a value."""
    return all(result.observation.failure is not None for _, result in cases if not result.passed)


def _own_exception(cases: Sequence[Case], known: Known | NearSlip) -> bool:
    """Return whether only this mistake can raise the exception: no shapes that don't fit, and no other mistake that raises it."""
    for record, result in cases:
        failure = result.observation.failure
        if result.passed or failure is None:
            continue
        raisers = {name: other.failure for name, other in record.mistakes.items() if _same_reason(other.failure, failure)}
        if not failure.message or {name.partition("#")[0] for name in raisers} != {known.id}:
            return False
        if failure.type == "MemoryError":
            if not any(other and _as_much(other.message, failure.message) for other in raisers.values()):
                return False
        elif (slip := python_errors.raised(failure)) is not None and not slip.plain:
            return False
    return True


def _same_reason(first: Failure | None, second: Failure) -> bool:
    return first is not None and first.type == second.type and reason(first.message) == reason(second.message)


def _as_much(first: str, second: str) -> bool:
    """Return whether two messages name the same amount of memory, or the second half of it, as in single precision."""
    sizes = [int(match[0]) for text in (first, second) if (match := re.search(r"\d+", text))]
    if len(sizes) < 2:
        return False
    ratio = sizes[0] / max(1, sizes[1])
    return min(abs(ratio - 1), abs(ratio - 2)) < 0.05
