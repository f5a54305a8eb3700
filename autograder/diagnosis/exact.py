"""What the checks themselves say for certain, because it can come about in one way only.

In: an exercise and the judged cases. Out: a `Diagnosis` where every failing case says the same: an input changed in place, no
gradient, another exception than the one asked for, a name that NumPy or PyTorch does not have; or None. `aside` are the parts
of what fails that say so for themselves, beside which a name may be looked for.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autograder.diagnosis import slips
from autograder.diagnosis.outcome import reason, same_in
from autograder.judging.exercise import Tolerance
from autograder.judging.judge import imprecise
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import CaseRecord, CaseResult, Diagnosis, ExerciseRecord, Known

EXACT = "~exact"
NOT_ALL = "That is not all that is wrong."
_ERROR = r"[A-Z]\w*(?:Error|Exception|Iteration|Interrupt)"
_AS_A_WORD = re.compile(rf"expected '({_ERROR})', got '({_ERROR}|nothing raised)'")
_AS_A_RESULT = re.compile(rf"expected a ({_ERROR}) to be raised, (?:but (something was returned)|got ({_ERROR}))")


def exact(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    """What can be said without any known mistake."""
    failing = [result for result in results if not result.passed]
    if (unknown := [result for result in failing if result.unknown_name]) and (said := _python(unknown)) is not None:
        return said
    checks = {result.mismatch.check for result in failing if result.mismatch is not None}
    if "inputs unchanged" in checks and all(_is_in_place(result) for result in failing):
        return _changed([result for result in failing if result.observation.mutated])
    if (weights := _other_parameters(failing)) is not None:
        return weights
    if checks == {"kind"} and all(
        re.search(r"but got method$", result.mismatch.message) for result in failing if result.mismatch
    ):
        return _method(exercise, failing)
    if checks == {"gradients"}:
        return _no_gradient(failing)
    if checks == {"values"}:
        return _other_exception(failing)
    if checks == {"runs"}:
        return _python(failing)
    return None


@dataclass(frozen=True)
class Aside:
    """A part of what is wrong that says so for itself, and the cases, by their places, in which that is all that is seen."""

    said: Known
    places: frozenset[int]

    def told_by(self, exercise: ExerciseRecord, results: Sequence[CaseResult], names: Sequence[Known]) -> bool:
        """Whether one of the mistakes in `names`, which explain all cases, does this too, and so needs no words of its own."""
        if any(exercise.cases[place].expected.failure is None for place in self.places):
            return True  # where an answer stops, so does a program that explains it
        ids = {known.id for known in names}
        return any(
            self._does(record, stored, result, exercise.tolerance)
            for place, (record, result) in enumerate(zip(exercise.cases, results, strict=True))
            for name, stored in record.mistakes.items()
            if name.partition("#")[0] in ids and (place in self.places or not self.places)
        )

    def _does(self, record: CaseRecord, stored: Observation, result: CaseResult, tolerance: Tolerance) -> bool:
        if self.places:
            return same_in(record, stored, result.observation, tolerance)
        return imprecise(record, stored) is not None if self.said is _IMPRECISE else bool(stored.mutated)


_WHICH = "Print the `dtype` of each step; the docstring says which one the result has."
_IMPRECISE = Known(EXACT, "returned another precision than that of the inputs", _WHICH)


def aside(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Iterator[Aside]:
    """What can be said of some of the failing cases, or of all, and leaves room for another mistake."""
    failing = {place for place, result in enumerate(results) if not result.passed}
    refusing = {place for place in failing if exercise.cases[place].expected.failure is not None}
    if any(_kind(results[place]) == "raised" for place in failing - refusing):
        refusing = set()  # where it also stops on what is allowed, it has not come to the refusal
    if any(result.observation.mutated for result in results):
        said = _changed([result for result in results if result.observation.mutated])
        yield Aside(said.known[0], frozenset())
    if any(imprecise(record, result.observation) for record, result in zip(exercise.cases, results, strict=True)):
        yield Aside(_IMPRECISE, frozenset())
    groups = (
        (refusing, _other_exception),
        ({place for place in failing if _kind(results[place]) == "weights"}, _other_parameters),
        ({place for place in failing - refusing if _kind(results[place]) == "raised"}, _stopped),
    )
    for places, says in groups:
        if places and (found := says([results[place] for place in sorted(places)])) is not None:
            yield Aside(found.known[0], frozenset(places))


def _stopped(failing: Sequence[CaseResult]) -> Diagnosis | None:
    """The exception that some of the cases end with, and where it says nothing by itself, in which cases that is."""
    if (plain := _python(failing)) is not None:
        return plain
    failure = failing[0].observation.failure
    if failure is None or len({reason(each.observation.failure.message) for each in failing if each.observation.failure}) != 1:
        return None
    where = " and ".join(f"“{result.name}”" for result in failing)
    line = f" in your line {failure.line[0]}" if failure.line else ""
    article = "an" if failure.type[:1] in "AEIOU" else "a"
    return _said(f"stop with {article} {failure.type}{line} on {where}", "Look at that case by itself: what is special about it?")


def partly(exercise: ExerciseRecord, results: Sequence[CaseResult]) -> Diagnosis | None:
    """Where nothing explains all that is seen: the part of it that says so for itself."""
    parts = list(aside(exercise, results))
    said = [part.said for part in parts if part.said is not _IMPRECISE and not part.said.says.startswith("stop with")]
    if not said or all(result.passed for result in without(exercise, results, parts)[1]):
        return None
    headline = f"You {', and you '.join(known.says for known in said)}. {NOT_ALL}"
    return Diagnosis(headline, " ".join(dict.fromkeys(known.fix for known in said)), (said[0],))


def without(
    exercise: ExerciseRecord, results: Sequence[CaseResult], parts: Sequence[Aside]
) -> tuple[ExerciseRecord, list[CaseResult]]:
    """The exercise and the verdicts without what `parts` say."""
    gone = frozenset[int]().union(*(part.places for part in parts))
    kept = [place for place in range(len(results)) if place not in gone]
    cases: list[CaseRecord] = [exercise.cases[place] for place in kept]
    left = []
    for place in kept:
        result, mismatch = results[place], results[place].mismatch
        if mismatch is not None and mismatch.check == "inputs unchanged":
            mismatch = None
        left.append(replace(result, mismatch=mismatch, observation=replace(result.observation, mutated=())))
    return replace(exercise, cases=cases), left


def _kind(result: CaseResult) -> str:
    return "" if result.observation.failure is None else result.observation.failure.kind


def refused(results: Sequence[CaseResult]) -> Diagnosis | None:
    """The learner's own `raise`, reached where something should come out."""
    failures = [result.observation.failure for result in results if not result.passed]
    lines = {failure.line if failure else None for failure in failures}
    (line,) = lines if len(lines) == 1 else (None,)
    if line is None or not re.match(r"raise\b", line[1]):
        return None
    first = next(result for result in results if not result.passed)
    says = f"refuse what should be accepted: your line {line[0]}, `{line[1]}`, is reached on “{first.name}”"
    fix = "Look at the condition above it: which inputs does it let through, the limit itself included?"
    return _said(says, fix)


def _said(says: str, fix: str, lead: str = "You") -> Diagnosis:
    return Diagnosis(f"{lead} {says}.", fix, (Known(EXACT, says, fix),))


def _changed(failing: Sequence[CaseResult]) -> Diagnosis:
    names = dict.fromkeys(name for result in failing for name in result.observation.mutated)
    said = " and ".join(_OF_A_SCRIPT.get(name, f"your input `{name}`") for name in names)
    fix = "Copy what you change (`x.copy()`, `x.clone()`), or build a new array."
    return _said(f"changed {said} in place", fix, "The result is right, but you")


# what the parts of a sequence of calls are to somebody who wrote a class
_OF_A_SCRIPT = {
    "init": "what the object is made from",
    "weights": "the weights that it is given",
    "calls": "what a method is given",
}


def _is_in_place(result: CaseResult) -> bool:
    """Whether the case fails because an input is changed in place, which PyTorch may notice first."""
    failure = result.observation.failure
    if failure is not None:
        return "in-place operation" in failure.message or "inplace operation" in failure.message
    return result.mismatch is not None and result.mismatch.check == "inputs unchanged"


def _other_parameters(failing: Sequence[CaseResult]) -> Diagnosis | None:
    """A module whose parameters have other names, or other shapes, than the weights that it is given."""
    failures = [result.observation.failure for result in failing]
    if not failures or any(failure is None or failure.kind != "weights" for failure in failures):
        return None
    text = failures[0].message if failures[0] else ""
    theirs, given = (_listed(text, words) for words in ("Missing key(s) in state_dict:", "Unexpected key(s) in state_dict:"))
    fix = "Keep the names, and the layers, as the stub and its docstring have them: saved weights are found by name."
    if theirs and given:
        says = f"call your parameters {theirs}, where the weights that are given are called {given}"
    elif theirs:
        says = f"have parameters for which there are no weights: {theirs}"
    elif given:
        says = f"lack parameters for which there are weights: {given}"
    elif (
        match := re.search(r"size mismatch for (\S+): .*?Size\((\[.*?\])\) from checkpoint.*?Size\((\[.*?\])\)", text)
    ) is not None:
        says = f"made `{match[1]}` in the shape {match[3]}, where the weights that are given have {match[2]}"
    else:
        return None
    return _said(says, fix)


def _listed(text: str, words: str) -> str:
    found = re.search(re.escape(words) + r" (.*?)\.\s", text + " \n", re.DOTALL)
    names = re.findall(r'"([\w.]+)"', found[1]) if found else []
    return ", ".join(f"`{name}`" for name in names[:4]) + (", …" if len(names) > 4 else "")


def _method(exercise: ExerciseRecord, failing: Sequence[CaseResult]) -> Diagnosis | None:
    read = set()
    for record in exercise.cases:
        calls = record.probe.inputs.items().get("calls")
        for call in (calls and calls.entries) or ():
            method, _, attribute, *_ = call.entries or ()
            if attribute.content:
                read.add(method.content)
    if len(read) != 1:
        return None
    (name,) = read
    return _said(
        f"made `{name}` a method, which has to be called, where it is read without brackets",
        "Put `@property` above it, or set it as an attribute.",
    )


def _no_gradient(failing: Sequence[CaseResult]) -> Diagnosis | None:
    found = [re.search(r"no gradient reaches `(\w+)`", result.mismatch.message) for result in failing if result.mismatch]
    if not all(found):
        return None
    lost = {name for result in failing for name, grad in result.observation.grads.items() if grad is None}
    names = " and ".join(f"`{name}`" for name in sorted(lost))
    fix = "Look for `detach`, `no_grad`, `.data`, `.item()`, a way through NumPy, or a tensor made anew."
    return _said(f"cut the way back: no gradient reaches {names}", fix, "The values are right, but you")


def _other_exception(failing: Sequence[CaseResult]) -> Diagnosis | None:
    found = set()
    for result in failing:
        message = result.mismatch.message if result.mismatch else ""
        if (match := _AS_A_WORD.search(message)) is not None:
            found.add((match[1], None if match[2] == "nothing raised" else match[2]))
        elif (match := _AS_A_RESULT.search(message)) is not None:
            found.add((match[1], match[3]))
        else:
            return None
    if len(found) != 1:
        return None
    ((wanted, got),) = found
    article = "an" if wanted[0] in "AEIOU" else "a"
    if got is None:
        return _said(
            f"raise nothing where {article} {wanted} is asked for",
            f"Look at the input first, and `raise {wanted}(…)` before anything else.",
        )
    return _said(
        f"end with {got} where {article} {wanted} is asked for",
        f"Say it yourself: look at the input first, and `raise {wanted}(…)`.",
    )


def _python(failing: Sequence[CaseResult]) -> Diagnosis | None:
    """An exception that says by itself what was written."""
    failures = [result.observation.failure for result in failing]
    kinds = {(failure.type, re.sub(r"\d+", "#", failure.message)) for failure in failures if failure is not None}
    if len(kinds) != 1 or failures[0] is None or failures[0].kind != "raised":
        return None
    if (unpacked := _unpacked_shape(failures[0])) is not None:
        return unpacked
    if failures[0].type == "KeyError" and (missing := _missing_key(failing, failures[0])) is not None:
        return missing
    slip = slips.raised(failures[0])
    if slip is None or not slip.plain:
        return None
    text = slip.headline.rstrip(".")
    return Diagnosis(slip.headline, slip.advice, (Known(EXACT, f"stop with an error: {text[0].lower()}{text[1:]}", slip.advice),))


def _unpacked_shape(failure: Failure) -> Diagnosis | None:
    """`B, T, C = x.shape` of something with another number of axes."""
    found = re.search(r"values to unpack \(expected (\d+)(?:, got (\d+))?", failure.message)
    if failure.type != "ValueError" or found is None or failure.line is None:
        return None
    if not re.match(r"[\w, *()\[\]]+=\s*[\w.\[\]]+\.(?:shape|size\(\))$", failure.line[1]):
        return None
    here = found[2] or "more"
    says = f"count on exactly {found[1]} axes in your line {failure.line[0]}, `{failure.line[1]}`; here there are {here}"
    return _said(
        says, "Any number of leading axes may come: name the axes from the end, `*lead, n, d = x.shape`, or `x.shape[-1]`."
    )


def _missing_key(failing: Sequence[CaseResult], failure: Failure) -> Diagnosis | None:
    if failure.line is None:
        return None
    where = " and ".join(f"“{result.name}”" for result in failing)
    says = f"take the key {failure.message} for granted in your line {failure.line[0]}; on {where} it is not there"
    return _said(says, "What is to be done where it is missing? `config.get(key, instead)` takes a value for that case.")
