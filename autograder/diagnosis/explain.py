"""Turn a `Result` into a `Report`: what the learner is told, as plain data. `panel` renders it as HTML and as text.

The report quotes inputs, expected values and the learner's output. `hidden` makes the report if none of these may be shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autograder.diagnosis import python_errors
from autograder.diagnosis.calls import place
from autograder.diagnosis.facts import BY_HAND, diagnose_from_facts, meaning
from autograder.diagnosis.failing_input import snippet
from autograder.diagnosis.finding import Diagnosis, Fact, Mistake, Quoted, Remark, fact
from autograder.diagnosis.known_mistakes import one_number
from autograder.diagnosis.outcome import right_outputs
from autograder.diagnosis.phrase import advice_of, change_of, headline_of, next_step, say, text_of
from autograder.diagnosis.single_numbers import diagnose_number, is_few, precision
from autograder.judging.compare import CHECKS
from autograder.judging.exercise import AnyExercise, Prediction
from autograder.judging.observation import RUNNING
from autograder.judging.records import (
    AnyRecord,
    AnyResult,
    CaseRecord,
    CaseResult,
    ExerciseRecord,
    Mismatch,
    PredictionResult,
    Result,
)
from autograder.judging.script import is_script
from autograder.judging.values import Array

MAX_SIDE = 16
FEW_CODES, LARGEST_CODE = 64, 10


@dataclass(frozen=True)
class Grid:
    """A matrix to draw.

    `cells` has shape (rows, columns), `wrong` marks the differing entries, and `box` is the first wrong one.
    """

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
    surprise: bool = False  # a prediction that earned its points but was wrong
    following: tuple[tuple[str, str], ...] = ()  # what to do next: pairs of a text and a link or ""
    carried: tuple[str, ...] = ()  # failing exercises that the answer calls, each replaced by its reference
    known: tuple[Mistake, ...] = field(default=(), repr=False)  # the mistakes that the headline names for certain
    effort: str = ""
    change: str = ""  # the change that would pass the checks, shown on request
    unknown: bool = False  # nothing was found about the answer
    hedged: bool = False  # the named mistake is not certain
    unfinished: bool = False  # a call took too long
    unread: bool = False  # the prediction is none of the choices

    @property
    def recorded(self) -> str | None:
        """Return the ids of the mistakes that are named for certain, as progress and reports store them, or None."""
        return "+".join(known.id for known in self.known) or None


@dataclass(frozen=True)
class ExerciseRow:
    """How far a learner is with one exercise: the state of its last check, and the `mistake` that it named ("You …"), if any."""

    id: str
    title: str
    score: float
    points: float
    status: str  # as in `Report`
    attempts: int
    mistake: str | None


@dataclass(frozen=True)
class QuestionRow:
    """A question in words, and whether it is answered. `title` is the heading above it, and `link` leads to its cell."""

    id: str
    title: str
    link: str
    points: float
    answered: bool


@dataclass(frozen=True)
class LessonRow:
    """How far a learner is with one lesson. `question` and `minutes` describe the lesson, and `needs` lists earlier lessons."""

    lesson: str
    title: str
    workshop: bool
    needs: tuple[str, ...]
    question: str
    minutes: int | None
    score: float
    points: float
    done: bool
    exercises: tuple[ExerciseRow, ...]
    questions: tuple[QuestionRow, ...]


def effort(exercise: AnyExercise | AnyRecord) -> str:
    """Say how hard an exercise is, how long it takes and what kind it is.

    >>> effort(Prediction("p", "Guess", 1, {"a": "so"}))
    'about 1 minute · prediction'
    """
    minutes = fact("effort.minutes", count=exercise.minutes)
    if isinstance(exercise, Prediction):
        return say(fact("effort.prediction", minutes=minutes))
    kind = fact(f"effort.{exercise.kind}", **{"precision": precision(exercise)} if exercise.kind == "estimate" else {})
    dots = "●" * exercise.difficulty + "○" * (5 - exercise.difficulty)
    return say(fact("effort", dots=dots, minutes=minutes, kind=kind))


def make_report(result: AnyResult) -> Report:
    """Make the report of `result` for a learner who may see the probes."""
    return replace(_report_without_effort(result), effort=effort(result.exercise))


@np.errstate(all="ignore")  # learners' numbers may overflow
def _report_without_effort(result: AnyResult) -> Report:
    if isinstance(result, PredictionResult):
        return _prediction_report(result)
    exercise = result.exercise
    if result.passed:
        return _report(result, "pass", say(fact("report.correct")), hints=())
    if result.failure is not None and result.failure.kind in ("blank", "missing"):
        return _not_started(result)
    assert result.worst is not None
    record, case = result.worst
    mismatch = case.mismatch
    assert mismatch is not None
    diagnosis = _explanation(result, mismatch)
    detail, codes = _detail(case.name, mismatch, result), _are_codes(mismatch, exercise)
    if codes and diagnosis.known and (meant := meaning(exercise)) is not None:
        detail = f"{next_step(meant)} {detail}".strip()  # if no mistake is named, the advice already says what the numbers mean
    return _report(
        result,
        "part" if result.score > 0 else "fail",
        headline_of(diagnosis),
        advice_of(diagnosis),
        detail,
        grids=_grids(mismatch)[: 2 if codes else 3],
        snippet=snippet(exercise.id, case.name, record.probe.inputs),
        checks=_checks(mismatch, exercise, record),
        hints=exercise.hints,
        known=diagnosis.known if diagnosis.certain else (),
        change=change_of(diagnosis),
        unknown=_is_unknown(diagnosis),
        hedged=bool(diagnosis.known) and not diagnosis.certain,
        unfinished=case.observation.failure is not None and case.observation.failure.kind == "timeout",
    )


def _report(result: Result, status: str, headline: str, advice: str = "", detail: str = "", **more: object) -> Report:
    exercise = result.exercise
    cases = tuple((case.name, case.passed) for case in result.cases)
    shown = result.worst[1] if result.worst else next(iter(result.cases), None)
    notes = tuple(map(text_of, _notes(exercise, shown))) if shown is not None else ()
    return Report(
        status, exercise.title, result.score, exercise.points, headline, advice, detail,
        cases=cases, notes=notes, **more,  # type: ignore[arg-type]  # fields of Report
    )  # fmt: skip


def _notes(exercise: ExerciseRecord, shown: CaseResult) -> list[str | Fact]:
    """Return what was noticed besides the verdict.

    A class has no note about renamed parameters, because its script calls it by name.
    """
    of_a_class = any(is_script(record.probe.inputs) for record in exercise.cases)
    notes = shown.observation.notes
    return [note for note in notes if not (of_a_class and isinstance(note, Fact) and note.key == "note.by_position")]


def _not_started(result: Result) -> Report:
    exercise = result.exercise
    missing = result.failure is not None and result.failure.kind == "missing"
    sentence = fact("report.missing" if missing else "report.blank", name=exercise.id)
    return Report("todo", exercise.title, 0.0, exercise.points, say(sentence), next_step(sentence), hints=exercise.hints[:1])


def _prediction_report(result: PredictionResult) -> Report:
    exercise = result.exercise
    if result.chosen is None:
        got = result.failure.message if result.failure else ""
        kind = f"choice.unread.{result.failure.type}" if result.failure and got else "choice.none"
        advice = say(fact("choice.advice", name=exercise.id, options=tuple(f'"{key}"' for key in exercise.choices)))
        return Report("todo", exercise.title, 0.0, exercise.points, say(fact(kind, got=got)), advice, unread=bool(got))
    text = say(fact("choice.yours", choice=result.chosen, text=exercise.choices[result.chosen]))
    surprise = exercise.holds not in ("", result.chosen)
    right = fact("report.correct" if exercise.holds else "choice.recorded")
    headline = say(fact("choice.other", holds=exercise.holds) if surprise else right)
    return Report("pass", exercise.title, result.score, exercise.points, headline, text, exercise.reveal, surprise=surprise)


def _is_unknown(diagnosis: Diagnosis) -> bool:
    first = diagnosis.findings[0]
    return isinstance(first, Remark) and first.sentence == UNKNOWN


UNKNOWN = fact("report.unknown")
SENTENCED = ("shape", "dtype", "finite", "properties", "gradients", "inputs unchanged")  # their mismatches explain themselves


def _explanation(result: Result, mismatch: Mismatch) -> Diagnosis:
    """Return the explanation that was found, or what the failed check itself says."""
    if result.below is not None:
        first = Remark(fact("report.below", name=result.exercise.id, below=result.below))
        then = _explanation(replace(result, below=None), mismatch)
        quoted = () if _is_unknown(then) else (Quoted("quoted.below", then.findings),)
        return Diagnosis((first, *quoted))
    diagnosis = result.diagnosis
    slip = python_errors.returned(mismatch) if mismatch.check == "kind" else None
    if slip is not None and (diagnosis is None or not diagnosis.known):  # a certain finding comes first
        return Diagnosis((Remark(slip.what), *((Quoted("quoted.beside", diagnosis.findings),) if diagnosis is not None else ())))
    if diagnosis is not None:
        return diagnosis
    if mismatch.check == "runs":
        return Diagnosis((Remark(_stopped(result)),))
    if mismatch.check in SENTENCED:
        assert result.worst is not None
        where = place(result.worst[0].probe.inputs, mismatch.path)
        return Diagnosis((Remark(fact(f"check.{mismatch.check.replace(' ', '_')}", where=where, what=mismatch.what)),))
    want, got = mismatch.expected, mismatch.got
    single = want is not None and got is not None and want.ndim == got.ndim == 0
    if single and not (result.exercise.behaviour and _are_codes(mismatch, result.exercise)):
        assert want is not None
        assert got is not None
        coarse = result.exercise.kind == "estimate"
        return diagnose_number(float(want), float(got), coarse=coarse, few=is_few(want), path=mismatch.path)
    if (raised := python_errors.in_any(result.cases)) is not None:
        return Diagnosis((Remark(raised),))
    return diagnose_from_facts(result.exercise, result.cases) or Diagnosis((Remark(UNKNOWN, (BY_HAND,)),))


def _stopped(result: Result) -> Fact:
    """Return why the case on show has no result."""
    failure = result.worst[1].observation.failure if result.worst else result.failure
    if failure is None:
        return fact("stopped.error")
    if failure.kind == "timeout":
        return fact("stopped.running" if failure.type == RUNNING else "stopped.timeout")
    if (slip := python_errors.raised(failure)) is not None:
        return slip.what
    if failure.kind == "raised" and failure.line:
        return fact("stopped.line", line=failure.line[0], code=failure.line[1].strip())
    return fact("stopped.print" if failure.kind == "raised" else "stopped.error")


def _detail(case: str, mismatch: Mismatch, result: Result) -> str:
    failure = result.worst[1].observation.failure if result.worst else None
    if failure is not None and failure.kind == "weights" and result.diagnosis is not None:
        return ""  # PyTorch's long message only repeats the headline
    if mismatch.check == "values" and one_number(result.exercise):  # showing the expected number would give the answer away
        if result.exercise.kind != "estimate":
            return ""
        near = precision(result.exercise)
        key = f"{'detail.estimates' if mismatch.path else 'detail.estimate'}{'.exact' if near == fact('precision.exact') else ''}"
        return " ".join(map(say, [fact(key, precision=near), *_right(result)]))
    assert result.worst is not None
    where = place(result.worst[0].probe.inputs, mismatch.path)
    sentence = fact("detail.case", case=case, where=where, what=mismatch.what)
    if mismatch.at and mismatch.expected is not None and mismatch.got is not None and mismatch.check != "shape":
        want, got = (f"{array[mismatch.at]:.6g}" for array in (mismatch.expected, mismatch.got))
        sentence = fact(
            "detail.first", case=case, where=where, what=mismatch.what, index=str(list(mismatch.at)), want=want, got=got
        )
    return " ".join(map(say, [sentence, *_right(result)]))


def _right(result: Result) -> list[Fact]:
    """Return which outputs are right, if there are several; nothing for a class, because each of its cases has other calls."""
    if any(is_script(record.probe.inputs) for record in result.exercise.cases):
        return []
    right, _ = right_outputs(result.exercise, result.cases)
    return [fact("detail.right", count=len(right), paths=tuple(right))] if right else []


def _are_codes(mismatch: Mismatch, exercise: ExerciseRecord) -> bool:
    """Return whether the compared values are a few small whole numbers that only stand for something, like codes.

    The difference of two codes means nothing.
    """
    want, got = mismatch.expected, mismatch.got
    if want is None or got is None or want.size > FEW_CODES or not (exercise.behaviour or want.dtype.kind in "iu"):
        return False
    both = np.concatenate([want.ravel(), got.ravel()])
    if both.dtype.kind not in "iuf" or np.isin(both, (0, 1)).all():  # for truth values, the difference shows which are wrong
        return False
    return bool((np.abs(both) < LARGEST_CODE).all() and (both == np.round(both)).all())


def _checks(mismatch: Mismatch, exercise: ExerciseRecord, record: CaseRecord) -> tuple[tuple[str, str], ...]:
    """Return the checks of this case in order, each as passed, failed or skipped."""
    failed = CHECKS.index(mismatch.check)
    absent = {name for name, has in (("properties", exercise.properties), ("gradients", record.probe.grad)) if not has}
    states = [(name, "pass" if i < failed else "fail" if i == failed else "skip") for i, name in enumerate(CHECKS)]
    laws = tuple(dict.fromkeys(fact(f"law.{law.kind}") for law in exercise.properties))
    named = {"properties": fact("law", laws=laws)}  # list only the laws of this exercise
    return tuple((say(named.get(name, name_of_check(name))), state) for name, state in states if name not in absent)


def name_of_check(check: str) -> Fact:
    """Return the name of a check."""
    return fact(f"check.{check.replace(' ', '_')}.name")


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
    crop = fact("grid.crop", index=str(list(first[:-2]))) if len(first) > 2 else ""
    return (
        Grid(say(fact("grid.expected", crop=crop)), expected, wrong, box),
        Grid(say(fact("grid.yours", crop=crop)), got, wrong, box),
        Grid(say(fact("grid.difference")), difference, wrong, box, diverging=True),
    )


def _two_d(a: Array, first: Sequence[int]) -> Array:
    return a[None, :] if a.ndim == 1 else a[tuple(first[:-2])]


def _window(length: int, at: int) -> slice:
    start = max(0, min(at - MAX_SIDE // 2, length - MAX_SIDE))
    return slice(start, min(length, start + MAX_SIDE))
