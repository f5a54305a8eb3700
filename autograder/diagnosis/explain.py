"""What a learner is told about a `Result`, as plain data; `panel` renders it as HTML and as text.

With `reveal=False` (hidden probes) nothing of the inputs, the expected values or the learner's output is in it: only
which check failed and, where the outputs match a known mistake, its name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autograder.diagnosis import slips
from autograder.diagnosis.mistakes import one_number
from autograder.diagnosis.numbers import off, precision
from autograder.diagnosis.outcome import right_outputs
from autograder.diagnosis.related.facts import BY_HAND, described
from autograder.diagnosis.related.places import where_wrong
from autograder.diagnosis.related.relations import is_few
from autograder.judging.exercise import Exercise
from autograder.judging.judge import CHECKS
from autograder.judging.observation import RUNNING
from autograder.judging.records import CaseRecord, Diagnosis, ExerciseRecord, Known, Mismatch, Result
from autograder.judging.values import Array, EncodedValue, PlainNode, show

MAX_SIDE = 16
UNKNOWN = "Wrong, and in none of the ways I know."


@dataclass(frozen=True)
class Grid:
    """A matrix to draw: `cells` (rows, columns), `wrong` marks differing entries, `box` is the first wrong one."""

    title: str
    cells: Array
    wrong: Array
    box: tuple[int, int] | None
    diverging: bool = False


@dataclass(frozen=True)
class Report:
    """One panel: `status` is "pass", "part" (partial credit), "fail" or "todo" (not started)."""

    status: str
    title: str
    score: float
    points: float
    headline: str
    advice: str = ""
    detail: str = ""
    grids: tuple[Grid, ...] = ()
    snippet: str = ""
    checks: tuple[tuple[str, str], ...] = ()  # (name, "pass" | "fail" | "skip")
    cases: tuple[tuple[str, bool], ...] = ()
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    hidden: bool = False
    surprise: bool = False  # a prediction that got its marks and is not so
    following: tuple[tuple[str, str], ...] = ()  # what to do next: texts, each with a link or ""
    carried: tuple[str, ...] = ()  # the failing exercises below it that were replaced by the reference
    known: tuple[Known, ...] = field(default=(), repr=False)  # the mistakes that the headline names for certain
    effort: str = ""

    @property
    def recorded(self) -> str | None:
        """What progress and reports keep: the ids of the mistakes that were said for certain, else None."""
        return "+".join(known.id for known in self.known) or None


def effort(exercise: Exercise | ExerciseRecord) -> str:
    """How hard an exercise is, how long it takes and of which kind it is.

    >>> effort(Exercise("p", "Guess", 1, choices={"a": "so"}))
    'about 1 minute · prediction'
    """
    minutes = f"about {exercise.minutes:g} minute{'' if exercise.minutes == 1 else 's'}"
    if exercise.choices:
        return f"{minutes} · prediction"
    kind = f"estimate, {precision(exercise)}" if exercise.kind == "estimate" else exercise.kind
    return f"difficulty {'●' * exercise.difficulty}{'○' * (5 - exercise.difficulty)} · {minutes} · {kind}"


def make_report(result: Result, *, reveal: bool = True) -> Report:
    """The report of `result`; `reveal=False` where its probes are hidden ones."""
    return replace(_made(result, reveal), effort=effort(result.exercise))


def _made(result: Result, reveal: bool) -> Report:
    exercise = result.exercise
    if exercise.choices:
        return _choice_report(result)
    if result.passed:
        headline = "All hidden tests pass." if not reveal else "Correct."
        return _report(result, "pass", headline, reveal=reveal, hints=())
    if result.failure is not None and result.failure.kind in ("blank", "missing"):
        return _not_started(result)
    assert result.worst is not None
    record, case = result.worst
    mismatch = case.mismatch
    assert mismatch is not None
    status = "part" if result.score > 0 else "fail"
    said = _say(result, mismatch, reveal)
    known = said.known if said.certain else ()
    detail = _detail(case.name, mismatch, result, reveal)
    if not reveal:
        return _report(result, status, said.headline, said.advice, detail, reveal=False, hints=exercise.hints, known=known)
    return _report(
        result,
        status,
        said.headline,
        said.advice,
        detail,
        grids=_grids(mismatch),
        snippet=_snippet(exercise.id, record.probe.inputs),
        checks=_checks(mismatch, exercise, record),
        notes=case.observation.notes,
        hints=exercise.hints,
        known=known,
    )


def _report(
    result: Result, status: str, headline: str, advice: str = "", detail: str = "", *, reveal: bool = True, **more: object
) -> Report:
    exercise = result.exercise
    cases = tuple((case.name, case.passed) for case in result.cases)
    notes = more.pop("notes", result.cases[0].observation.notes if reveal and result.cases else None)
    return Report(
        status, exercise.title, result.score, exercise.points, headline, advice, detail,
        cases=cases, notes=tuple(notes or ()), hidden=not reveal, **more,  # type: ignore[arg-type]  # fields of Report, checked by its callers above
    )  # fmt: skip


def _not_started(result: Result) -> Report:
    name = result.exercise.id
    missing = result.failure is not None and result.failure.kind == "missing"
    headline = f"`{name}` is not defined yet." if missing else "Not started yet."
    advice = (
        f"Run the cell that defines `{name}`, then this one."
        if missing
        else "Replace the line `raise NotImplementedError(…)` in the answer's cell, run it, then check again."
    )
    return Report("todo", result.exercise.title, 0.0, result.exercise.points, headline, advice, hints=result.exercise.hints[:1])


def _choice_report(result: Result) -> Report:
    exercise = result.exercise
    if result.chosen is None:
        options = ", ".join(f'"{key}"' for key in exercise.choices)
        said = f" ({result.failure.message})" if result.failure and result.failure.message else ""
        advice = f"Set `{exercise.id}` to one of {options}. Any choice gets the marks: what counts is to commit before you look."
        return Report("todo", exercise.title, 0.0, exercise.points, f"No prediction yet{said}.", advice)
    text = f'You predicted "{result.chosen}": {exercise.choices[result.chosen]}'
    if exercise.holds in ("", result.chosen):
        headline = "So it is." if exercise.holds else "Prediction recorded."
        return Report("pass", exercise.title, result.score, exercise.points, headline, text, exercise.reveal)
    headline = f'Not so: it is "{exercise.holds}".'
    return Report("pass", exercise.title, result.score, exercise.points, headline, text, exercise.reveal, surprise=True)


def _say(result: Result, mismatch: Mismatch, reveal: bool) -> Diagnosis:
    """The headline, what to do next, and the mistakes that the headline names for certain."""
    if result.below is not None:
        first = Diagnosis(f"`{result.exercise.id}` calls your `{result.below}`, which does not pass its own check yet.", "")
        then = _say(replace(result, below=None), mismatch, reveal).headline
        seen = "" if then == UNKNOWN else f" What is seen here: {then}"
        return replace(first, advice=f"Mend `{result.below}` first, then check this one again.{seen}")
    found = result.diagnosis
    failure = result.worst[1].observation.failure if result.worst else result.failure  # of the case that is shown
    slip = slips.returned(mismatch) if reveal and mismatch.check == "kind" else None
    if slip is not None and (found is None or not found.known):  # what is certain comes first
        return Diagnosis(slip.headline, slip.advice + (f" Beside that: {found.headline}" if found is not None else ""))
    if found is not None and (reveal or found.known):
        return found
    if mismatch.check == "runs":
        if failure is not None and failure.kind == "timeout":
            advice = "Look for a loop whose condition never becomes false."
            if failure.type == RUNNING:
                advice += " It could not be stopped, and keeps a core busy: once it is mended, restart the kernel (Kernel menu)."
            return Diagnosis("Your function does not finish.", advice)
        slip = slips.raised(failure) if reveal and failure is not None else None
        if slip is None and reveal and failure is not None and failure.kind == "raised":
            place = f" in line {failure.line[0]}, `{failure.line[1].strip()}`" if failure.line else ""
            return Diagnosis(f"Your function stops with an error{place}.", "Print what goes into that line, and its shape.")
        return Diagnosis(slip.headline, slip.advice) if slip else Diagnosis("Your function stops with an error.", "")
    if not reveal:
        advice = "Your function is asked the same on other inputs: try other sizes, and extreme values."
        return Diagnosis("Wrong on a hidden test.", advice)
    where = f" of output `{mismatch.path}`" if mismatch.path.startswith("[") else ""
    exact = {
        "shape": (f"The shape{where} is wrong", "Write the shape of every intermediate beside its line; the first surprise is the bug."),
        "dtype": (f"The type of the entries{where} is wrong", "Check the types you create arrays with (`np.zeros` is float, `np.arange` is integer)."),
        "finite": (f"There are NaN{where.replace(' of ', ' in ', 1)}", "NaN is what 0/0, ∞ − ∞ and 0 · ∞ give. Print each intermediate: where does the first one appear?"),
        "properties": (f"A law{where} is broken", "Check the law after each step: where is it first broken?"),
        "gradients": ("The values are right, the way back is not", "Look for `detach`, `no_grad`, `.data`, or a tensor made anew."),
        "inputs unchanged": ("The result is right, but an input has changed", "Copy what you change (`x.copy()`, `x.clone()`), or build a new array."),
    }.get(mismatch.check)  # fmt: skip
    if exact is not None:
        return Diagnosis(f"{exact[0]}: {mismatch.message.rstrip('.')}.".replace("?.", "?"), exact[1])
    if mismatch.expected is not None and mismatch.got is not None and mismatch.expected.ndim == mismatch.got.ndim == 0:
        coarse, few = result.exercise.kind == "estimate", is_few(mismatch.expected)
        return off(float(mismatch.expected), float(mismatch.got), coarse=coarse, few=few)
    if (slip := slips.in_any(result.cases)) is not None:
        return Diagnosis(slip.headline, slip.advice)
    place = where_wrong(mismatch.wrong) if mismatch.wrong is not None and not result.exercise.behaviour else ""
    return described(result.exercise, result.cases, place) or Diagnosis(UNKNOWN, BY_HAND)


# which of sixty types an answer raises could spell a digit of a hidden input; of these two, little
_TOLD = ("TypeError", "ValueError")


def _detail(case: str, mismatch: Mismatch, result: Result, reveal: bool) -> str:
    if not reveal:
        if mismatch.check == "runs" and result.failure is not None:
            kind = {"timeout": "it takes too long", "crashed": "the process ends"}.get(result.failure.kind)
            error = result.failure.type if result.failure.type in _TOLD else "an error"
            return f"On a hidden test ({case}), {kind or f'it raises {error}'}."
        return f"On a hidden test ({case}), the check “{mismatch.check}” fails."
    if mismatch.check == "values" and one_number(result.exercise):  # shown, it would be the answer
        return f"The number is asked for {precision(result.exercise)}." if result.exercise.kind == "estimate" else ""
    where = f" in output `{mismatch.path}`" if mismatch.path.startswith("[") else ""
    text = f"On “{case}”{where}: {mismatch.message}"
    if mismatch.at and mismatch.expected is not None and mismatch.got is not None and mismatch.check != "shape":
        want, got = mismatch.expected[mismatch.at], mismatch.got[mismatch.at]
        text += f"; the first at index {list(mismatch.at)}: expected {want:.6g}, yours {got:.6g}"
    text = text if text.endswith("?") else text.rstrip(".") + "."
    right, _ = right_outputs(result.exercise, result.cases)
    if right:
        names = [f"`{path}`" for path in right]
        text += f" Right in every case: output{'s' if len(names) > 1 else ''} {', '.join(names)}."
    return text


_LAWS = {"non_negative": "not negative", "at_most_one": "at most 1", "sums_to_one": "sums of 1"}


def _checks(mismatch: Mismatch, exercise: ExerciseRecord, record: CaseRecord) -> tuple[tuple[str, str], ...]:
    """The checks that this case has, in order: passed, failed, skipped."""
    failed = CHECKS.index(mismatch.check)
    absent = {name for name, has in (("properties", exercise.properties), ("gradients", record.probe.grad)) if not has}
    states = [(name, "pass" if i < failed else "fail" if i == failed else "skip") for i, name in enumerate(CHECKS)]
    laws = ", ".join(dict.fromkeys(_LAWS[law.kind] for law in exercise.properties))
    named = {"properties": f"properties ({laws})"}  # no others are looked at
    return tuple((named.get(name, name), state) for name, state in states if name not in absent)


def _snippet(name: str, inputs: EncodedValue) -> str:
    """The smallest failing input, ready to paste into a cell."""
    items = inputs.items()
    if set(items) == {"init", "weights", "calls"}:
        lines = [f"obj = {name}(**{show(items['init'])})"]
        if not isinstance(items["weights"], PlainNode):
            lines.append("# obj.load_state_dict(...): the given weights are in the lesson's probe pack")
        for call in items["calls"].entries or ():
            method, arguments, attribute, *wanted = call.entries or ()
            if method.content == "__kept__":
                lines.append(f"# may now keep {show(arguments.items()['numbers'])} numbers, beside what it was made from")
                continue
            target = "obj" if method.content == "__call__" else f"obj.{method.content}"
            given = ", ".join(f"{key}={show(value)}" for key, value in arguments.items().items())
            lines.append(target if attribute.content else f"{target}({given})")
            if wanted and wanted[0].content:
                lines[-1] += f"  # raises {wanted[0].content}"
    else:
        lines = [f"{key} = {show(value)}" for key, value in items.items()]
        lines.append(f"{name}({', '.join(f'{key}={key}' for key in items)})")
    text = "\n".join(lines)
    return text if len(text) <= 6000 else text[:6000] + "\n# (shortened)"


def _grids(mismatch: Mismatch) -> tuple[Grid, ...]:
    expected, got, wrong = mismatch.expected, mismatch.got, mismatch.wrong
    if expected is None or got is None or wrong is None or expected.ndim == 0 or mismatch.at is None:
        return ()
    first = mismatch.at
    expected, got, wrong = (_two_d(a, first) for a in (expected, got, wrong))
    row, column = (0, *first)[-2:]
    rows, columns = (_window(length, at) for length, at in zip(expected.shape, (row, column), strict=True))
    box = (row - rows.start, column - columns.start)
    expected, got, wrong = (a[rows, columns] for a in (expected, got, wrong))
    with np.errstate(invalid="ignore"):
        wide = complex if "c" in got.dtype.kind + expected.dtype.kind else float
        difference = np.where(wrong, got.astype(wide) - expected.astype(wide), 0)  # rounding is not worth showing
    crop = f" (entries {list(first[:-2])})" if len(first) > 2 else ""
    return (
        Grid(f"expected{crop}", expected, wrong, box),
        Grid(f"yours{crop}", got, wrong, box),
        Grid("yours − expected", difference, wrong, box, diverging=True),
    )


def _two_d(a: Array, first: Sequence[int]) -> Array:
    return a[None, :] if a.ndim == 1 else a[tuple(first[:-2])]


def _window(length: int, at: int) -> slice:
    start = max(0, min(at - MAX_SIDE // 2, length - MAX_SIDE))
    return slice(start, min(length, start + MAX_SIDE))
