"""Find what the checks themselves prove, because it has only one possible cause.

In: an exercise and the judged cases. Out: a `Diagnosis` if every failing case shows the same thing: an input changed in place,
no gradient, another exception than the requested one, or a name that NumPy or PyTorch does not have. Otherwise None.
`partial_findings` returns such proofs for some of the failing cases, which leaves room for a named mistake beside them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autograder.diagnosis import python_errors
from autograder.diagnosis.finding import Diagnosis, Fact, Finding, Manner, Matched, Mistake, Remark, error_of, fact
from autograder.diagnosis.outcome import reason, same_in
from autograder.judging.call_answer import NOTHING_RAISED
from autograder.judging.compare import imprecise
from autograder.judging.exercise import Tolerance
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import CaseRecord, CaseResult, ExerciseRecord
from autograder.judging.script import PARTS, Read, encoded_script

_ERROR = re.compile(r"[A-Z]\w*(?:Error|Exception|Iteration|Interrupt)")  # the name of an exception, by its ending
_A_METHOD = fact("kind.python", name="method")


def diagnose_from_checks(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    """Return what the checks prove without any known mistake, or None."""
    proof = _exact(exercise, results)
    return _diagnosis_of(proof) if proof is not None else None


def _exact(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Fact | None:
    failing = [result for result in results if not result.passed]
    if (unknown := [result for result in failing if result.unknown_name]) and (proof := _python(unknown)) is not None:
        return proof
    checks = {result.mismatch.check for result in failing if result.mismatch is not None}
    if "inputs unchanged" in checks and all(_is_in_place(result) for result in failing):
        return _changed([result for result in failing if result.observation.mutated])
    if (weights := _other_parameters(failing)) is not None:
        return weights
    if checks == {"kind"} and all(dict(what.values).get("got") == _A_METHOD for what in _mismatches(failing)):
        return _method(exercise)
    proofs = {"gradients": _no_gradient, "values": _other_exception, "runs": _python}
    return proofs[checks.pop()](failing) if len(checks) == 1 and checks <= proofs.keys() else None


def _mismatches(failing: Sequence[CaseResult]) -> list[Fact]:
    return [result.mismatch.what for result in failing if result.mismatch is not None]


@dataclass(frozen=True)
class PartialFinding:
    """A proven part of what is wrong. `places` are the indices of the cases in which nothing else was observed."""

    proof: Fact
    places: frozenset[int]

    def shown(self, results: Sequence[CaseResult]) -> bool:
        """Return whether `places` has the case on show: the smallest failing core case or, without one, edge case."""
        failing = [place for place, result in enumerate(results) if not result.passed]
        return min(failing, key=lambda place: (results[place].edge > 0, results[place].size)) in self.places

    def implied_by(self, exercise: ExerciseRecord, results: Sequence[CaseResult], names: Sequence[Mistake]) -> bool:
        """Return whether one of the mistakes in `names`, which explain all cases, already implies this finding."""
        if any(exercise.cases[place].expected.failure is None for place in self.places):
            return True  # a program that explains an answer also stops where the answer stops
        ids = {known.id for known in names}
        return any(
            self._matches(record, stored, result, exercise.tolerance)
            for place, (record, result) in enumerate(zip(exercise.cases, results, strict=True))
            for name, stored in record.mistakes.items()
            if name.partition("#")[0] in ids and (place in self.places or not self.places)
        )

    def _matches(self, record: CaseRecord, stored: Observation, result: CaseResult, tolerance: Tolerance) -> bool:
        if self.places:
            return same_in(record, stored, result.observation, tolerance)
        return imprecise(record, stored) is not None if self.proof is _IMPRECISE else bool(stored.mutated)


_IMPRECISE = fact("exact.precision")


def partial_findings(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Iterator[PartialFinding]:
    """Yield what the checks prove about some or all of the failing cases, while leaving room for another mistake."""
    failing = {place for place, result in enumerate(results) if not result.passed}
    refusing = {place for place in failing if exercise.cases[place].expected.failure is not None}
    if any(_kind(results[place]) == "raised" for place in failing - refusing):
        refusing = set()  # an answer that stops on valid inputs too may never reach the check that should refuse invalid ones
    if any(result.observation.mutated for result in results):
        yield PartialFinding(_changed([result for result in results if result.observation.mutated]), frozenset())
    if any(imprecise(record, result.observation) for record, result in zip(exercise.cases, results, strict=True)):
        yield PartialFinding(_IMPRECISE, frozenset())
    groups = (
        (refusing, _other_exception),
        ({place for place in failing if _kind(results[place]) == "weights"}, _other_parameters),
        ({place for place in failing - refusing if _kind(results[place]) == "raised"}, _stopped),
    )
    for places, prove in groups:
        if places and (proof := prove([results[place] for place in sorted(places)])) is not None:
            yield PartialFinding(proof, frozenset(places))


def _stopped(failing: Sequence[CaseResult]) -> Fact | None:
    """Return the exception that some cases end with and, if it says little by itself, the names of those cases."""
    if (plain := _python(failing)) is not None:
        return plain
    failure = failing[0].observation.failure
    reasons = {reason(result.observation.failure.message) for result in failing if result.observation.failure}
    if failure is None or len(reasons) != 1:
        return None
    where = tuple(result.name for result in failing)
    if (slip := python_errors.raised(failure)) is not None:
        return fact("exact.stopped.known", sentence=slip.what, cases=where)
    line = {"line": failure.line[0]} if failure.line else {}
    return fact("exact.stopped.line" if line else "exact.stopped", type=failure.type, cases=where, **line)


def diagnose_proven_part(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    """Return a diagnosis of the part that the checks prove, for an answer that nothing explains completely; None without one."""
    parts = list(partial_findings(exercise, results))
    proofs = [part.proof for part in parts if part.proof is not _IMPRECISE and not part.proof.key.startswith("exact.stopped")]
    if not proofs or all(result.passed for result in results_without(exercise, results, parts)[1]):
        return None
    raised = [proof for proof in proofs if proof.key == "exact.raised"]
    done = tuple(proof for proof in proofs if proof not in raised)
    findings: list[Finding] = [error_of(proof) for proof in raised]
    findings += [Matched(done, Manner.DONE)] if done else []
    return Diagnosis((*findings, Remark(fact("exact.not_all"))), (proofs[0],), complete=False)


def results_without(
    exercise: ExerciseRecord, results: Sequence[CaseResult], parts: Sequence[PartialFinding]
) -> tuple[ExerciseRecord, list[CaseResult]]:
    """Return the exercise and the verdicts without what `parts` explain."""
    explained = frozenset[int]().union(*(part.places for part in parts))
    places = [place for place in range(len(results)) if place not in explained]
    remaining = []
    for result in (results[place] for place in places):
        mismatch = None if result.mismatch and result.mismatch.check == "inputs unchanged" else result.mismatch
        remaining.append(replace(result, mismatch=mismatch, observation=replace(result.observation, mutated=())))
    return replace(exercise, cases=[exercise.cases[place] for place in places]), remaining


def _kind(result: CaseResult) -> str:
    return "" if result.observation.failure is None else result.observation.failure.kind


def _diagnosis_of(proof: Fact) -> Diagnosis:
    manner = {"exact.changed": Manner.RIGHT_RESULT, "exact.no_gradient": Manner.RIGHT_VALUES}.get(proof.key, Manner.DONE)
    return Diagnosis((error_of(proof) if proof.key == "exact.raised" else Matched((proof,), manner),), (proof,))


def _changed(failing: Sequence[CaseResult]) -> Fact:
    names = dict.fromkeys(name for result in failing for name in result.observation.mutated)
    inputs = tuple(fact(f"changed.{name}") if name in PARTS else fact("changed.input", name=name) for name in names)
    returned = [result.observation.value for result in failing if result.observation.value is not None]
    tensors = any(leaf.kind == "tensor" for value in returned for leaf in value.flat())
    return fact("exact.changed", what=inputs, copy="x.clone()" if tensors else "x.copy()")


def _is_in_place(result: CaseResult) -> bool:
    """Return whether the case fails because an input was changed in place. PyTorch may raise before the check notices it."""
    failure = result.observation.failure
    if failure is not None:
        return "in-place operation" in failure.message or "inplace operation" in failure.message
    return result.mismatch is not None and result.mismatch.check == "inputs unchanged"


def _other_parameters(failing: Sequence[CaseResult]) -> Fact | None:
    """Return a fact about a module whose parameters differ in name or shape from the weights that it is given."""
    if not failing or any(_kind(result) != "weights" for result in failing):
        return None
    failure = failing[0].observation.failure
    text = failure.message if failure else ""
    theirs, given = (_listed(text, words) for words in ("Missing key(s) in state_dict:", "Unexpected key(s) in state_dict:"))
    if theirs and given:
        return fact("exact.parameters.renamed", theirs=theirs, given=given)
    if theirs:
        return fact("exact.parameters.more", theirs=theirs)
    if given:
        return fact("exact.parameters.fewer", given=given)
    match = re.search(r"size mismatch for (\S+): .*?Size\((\[.*?\])\) from checkpoint.*?Size\((\[.*?\])\)", text)
    return fact("exact.parameters.shape", name=match[1], got=match[3], want=match[2]) if match else None


def _listed(text: str, words: str) -> tuple[str, ...]:
    """Return the first few parameters that PyTorch lists after `words` in its message."""
    match = re.search(re.escape(words) + r" (.*?)\.\s", text + " \n", re.DOTALL)
    names = re.findall(r'"([\w.]+)"', match[1]) if match else []
    return (*names[:4], *(["…"] if len(names) > 4 else []))


def _method(exercise: ExerciseRecord) -> Fact | None:
    scripts = filter(None, (encoded_script(record.probe.inputs) for record in exercise.cases))
    read = {call.attribute for script in scripts for call in script.calls if isinstance(call, Read)}
    return fact("exact.method", name=read.pop()) if len(read) == 1 else None


def _no_gradient(failing: Sequence[CaseResult]) -> Fact | None:
    if any(what.key != "mismatch.no_gradient" for what in _mismatches(failing)):
        return None
    lost = {name for result in failing for name, grad in result.observation.grads.items() if grad is None}
    return fact("exact.no_gradient", names=tuple(sorted(lost)))


def _other_exception(failing: Sequence[CaseResult]) -> Fact | None:
    exceptions = {_raised_instead(what) for what in _mismatches(failing)}
    return exceptions.pop() if len(exceptions) == 1 else None


def _raised_instead(what: Fact) -> Fact | None:
    """Return which exception was requested, and which was raised instead, if any."""
    values = dict(what.values)
    if what.key == "mismatch.raised_nothing":
        return fact("exact.raised_nothing", wanted=values["wanted"])
    if what.key == "mismatch.raised_other":
        return fact("exact.raised_other", wanted=values["wanted"], got=values["type"])
    if what.key != "mismatch.plain" or not _is_error(values["want"]):
        return None
    if values["got"] == NOTHING_RAISED:
        return fact("exact.raised_nothing", wanted=values["want"])
    return fact("exact.raised_other", wanted=values["want"], got=values["got"]) if _is_error(values["got"]) else None


def _is_error(name: object) -> bool:
    return isinstance(name, str) and _ERROR.fullmatch(name) is not None


def _python(failing: Sequence[CaseResult]) -> Fact | None:
    """Return a fact about an exception that reveals by itself what was written, or None."""
    failures = [result.observation.failure for result in failing]
    kinds = {(failure.type, re.sub(r"\d+", "#", failure.message)) for failure in failures if failure is not None}
    if len(kinds) != 1 or failures[0] is None or failures[0].kind != "raised":
        return None
    if (proof := _unpacked_shape(failures[0]) or _missing_key(failing, failures[0])) is not None:
        return proof
    slip = python_errors.raised(failures[0])
    return fact("exact.raised", sentence=slip.what) if slip is not None and slip.plain else None


def _unpacked_shape(failure: Failure) -> Fact | None:
    """Return a fact about `B, T, C = x.shape` for an array with another number of axes."""
    match = re.search(r"values to unpack \(expected (\d+)(?:, got (\d+))?", failure.message)
    if failure.type != "ValueError" or match is None or failure.line is None:
        return None
    if not re.match(r"[\w, *()\[\]]+=\s*[\w.\[\]]+\.(?:shape|size\(\))$", failure.line[1]):
        return None
    here: object = match[2] or fact("exact.axes.more")
    return fact("exact.axes", count_on=match[1], line=failure.line[0], code=failure.line[1], here=here)


def _missing_key(failing: Sequence[CaseResult], failure: Failure) -> Fact | None:
    if failure.type != "KeyError" or failure.line is None:
        return None
    return fact("exact.key", name=failure.message, line=failure.line[0], cases=tuple(result.name for result in failing))
