"""What a learner reads about hidden probes cannot carry anything that their code chose after seeing those probes."""

import enum
import functools
import re
import typing
from dataclasses import fields, replace

import numpy as np
import pytest

from autograder.authoring.course import course_root, find_lesson, lessons
from autograder.diagnosis import hidden, panel
from autograder.diagnosis.attempt import explained
from autograder.diagnosis.explain import Report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import briefly, clause
from autograder.diagnosis.sentences import ENGLISH
from autograder.grading.marking import decide_marks
from autograder.grading.marking.credit import Credit, said
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import CaseRecord, ExerciseRecord, Known
from autograder.judging.values import ArrayNode, Container, EncodedValue, ObjectNode, PlainNode
from autograder.packs import pack_file
from autograder.sandbox import untrusted

MARK = "pwned"  # is part of each text that these answers send, and of no text of the course
NUMBERS = (-1.5947583, 7.3190264)  # what two learners who do the same would read off two hidden inputs
LEADS = "On hidden tests, your answer behaves as if you|This looks as if you"
LESSONS = [lesson.name for lesson in lessons()]


@functools.cache
def _records(lesson: str) -> list[ExerciseRecord]:
    path = course_root() / "release" / lesson / f"{find_lesson(lesson).slug}{pack_file.SUFFIX}"
    return list(pack_file.load(path).in_code.values())


def test_findings_have_no_field_for_text_or_measured_numbers() -> None:
    def parts(hint: object) -> set[object]:
        inner = {part for each in typing.get_args(hint) if each is not ... for part in parts(each)}
        return inner or {hint}

    held = {part for hint in typing.get_type_hints(hidden.Findings).values() for part in parts(hint)}
    assert {each for each in held if not (isinstance(each, type) and issubclass(each, enum.Enum))} == {bool, int}


def _answers(record: ExerciseRecord, case: CaseRecord, number: float) -> list[Observation]:
    """What an answer could send back to spell `number`, one way each; always as many, in the same order."""
    text = f"H{number}{MARK}".replace("-", "m").replace(".", "p")
    line = (abs(int(number * 1000)), f"raise {text}")
    found = [
        case.expected,
        Observation(failure=Failure("raised", text, text, line)),
        Observation(failure=Failure("raised", "OSError", text, line)),
        Observation(failure=Failure("weights", text, f'Missing key(s) in state_dict: "{text}". ')),
        Observation(failure=Failure("crashed", text, text)),
        Observation(PlainNode(text)),
        Observation(ObjectNode(text)),
        Observation(PlainNode(number)),
        Observation(Container((PlainNode(number),), "dict", (text,))),
        Observation(ArrayNode(np.array([number], np.float64))),
    ]
    if case.expected.value is not None:
        swaps = (PlainNode(text), ObjectNode(text), Container((PlainNode(1),), "dict", (text,)))
        found += [Observation(_with_last(case.expected.value, swap), notes=(text,)) for swap in swaps]
        found += [Observation(_filled(case.expected.value, number, last)) for last in (False, True)]
        found += [replace(case.expected, mutated=(next(iter(case.probe.inputs.items()), ""),))]
    for seen in [*case.mistakes.values()][:2]:
        found.append(seen)
        if seen.value is not None:
            found.append(Observation(_filled(seen.value, number, last=True)))
    return found


def _with_last(value: EncodedValue, swap: EncodedValue) -> EncodedValue:
    leaves = value.flat()
    return value.map(lambda leaf: swap if leaf is leaves[-1] else leaf)


def _filled(value: EncodedValue, number: float, last: bool) -> EncodedValue:
    """`value` with `number` in each entry of its arrays, or of the last one alone."""
    arrays = [leaf for leaf in value.flat() if isinstance(leaf, ArrayNode)][-1 if last else 0 :]

    def fill(leaf: EncodedValue) -> EncodedValue:
        if not isinstance(leaf, ArrayNode) or not any(leaf is each for each in arrays):
            return leaf
        return ArrayNode(np.full(leaf.content.shape, number).astype(leaf.content.dtype), leaf.kind)

    return value.map(fill)


UNLISTED = ENGLISH["unlisted.fix"]


def _report(record: ExerciseRecord, seen: list[Observation]) -> tuple[hidden.Findings, Report]:
    verdict = decide_marks.Verdict(decide_marks.judged_hidden(record, seen), hidden=True)
    report = verdict.report()
    return hidden.findings_of(explained(verdict.result)), report


def _without_names(report: Report, record: ExerciseRecord, found: hidden.Findings) -> str:
    """The page without what the catalogue says of the mistakes in `found`."""
    listed = [hidden.catalogue(record)[place] for place in found.mistakes]
    headline = report.headline
    # what the points are for is said of every such answer, and follows from points that the page shows anyhow
    advice = report.advice.replace(said(Credit(report.score, fact("credit.edges")), report.points), "")
    for known in listed:
        headline = headline.replace(clause(known), "").replace(briefly(known), "")
        advice = advice.replace(known.fix if isinstance(known, Known) else UNLISTED, "")
    if listed:
        assert re.fullmatch(rf"({LEADS})([\s,.]|and you)*", headline), headline
        assert not advice.strip(), advice
        headline = advice = ""
    return panel.to_html(replace(report, headline=headline, advice=advice, known=()))


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_page_differs_only_in_mistakes_cases_and_checks(lesson: str) -> None:
    """Two answers that do the same to different hidden inputs give the same page, but for listed mistakes."""
    compared = 0
    for record in _records(lesson):
        rng = np.random.default_rng(len(record.id))
        ways = [len(_answers(record, case, 0.0)) for case in record.cases]
        choices = [[min(way, count - 1) for count in ways] for way in range(max(ways))]
        choices += [[int(rng.integers(count)) for count in ways] for _ in range(4)]
        for chosen in choices:
            both = [
                _report(record, [_answers(record, case, number)[way] for case, way in zip(record.cases, chosen, strict=True)])
                for number in NUMBERS
            ]
            for found, report in both:
                assert MARK not in panel.to_html(report) + repr(report), (record.id, chosen)
                assert all(type(place) is int for place in (found.case, found.check, *found.mistakes))
                assert report.recorded is None or {*report.recorded.split("+")} <= {k.id for k in hidden.catalogue(record)}
            (one, first), (two, second) = both
            first_page, second_page = (_without_names(report, record, found) for found, report in both)
            if (one.passed, one.case, one.check, one.stop) == (two.passed, two.case, two.check, two.stop):
                compared += 1
                assert first_page == second_page or bool(one.mistakes) != bool(two.mistakes), (record.id, chosen)
                if one == two:
                    assert first == second, (record.id, chosen)
    assert compared or not _records(lesson)


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_text_of_the_learner_reaches_the_judge(lesson: str) -> None:
    for record in _records(lesson):
        for case in record.cases if not record.behaviour else ():
            for seen in _answers(record, case, NUMBERS[0]):
                assert MARK not in repr(untrusted.clean_hidden(seen, case)), (record.id, case.name)


@pytest.mark.parametrize("lesson", LESSONS)
def test_cleaning_changes_no_verdict_on_the_course_own_programs(lesson: str) -> None:
    """What right programs and listed mistakes give passes through unchanged, so the marks and the names are the same."""
    for record in _records(lesson):
        for case in record.cases:
            for seen in (case.expected, *case.mistakes.values()):
                clean = untrusted.clean_hidden(seen, case, behaviour=bool(record.behaviour))
                assert repr(clean.value) == repr(seen.value)
                assert (clean.failure and (clean.failure.kind, clean.failure.type)) == (
                    seen.failure and (seen.failure.kind, seen.failure.type)
                )


def test_an_exception_of_a_kind_that_is_asked_for_counts_as_that_one() -> None:
    record = next(each for each in _records("07_kv_cache") if any(case.expected.failure for case in each.cases))
    case = next(case for case in record.cases if case.expected.failure is not None)
    wanted = case.expected.failure
    assert wanted is not None
    assert wanted.type == "ValueError"
    seen = untrusted.clean_hidden(Observation(failure=Failure("raised", "UnicodeDecodeError")), case)
    assert seen.failure == Failure("raised", "ValueError")


def test_a_listed_mistake_is_named_without_the_values_it_gave() -> None:
    record = next(each for each in _records("03_scaled_dot_product") if each.id == "sdpa")
    known = record.known[0]
    seen = [
        next((o for n, o in case.mistakes.items() if n.partition("#")[0] == known.id), case.expected) for case in record.cases
    ]
    found, report = _report(record, seen)
    assert [hidden.catalogue(record)[place].id for place in found.mistakes] == [known.id]
    assert report.known == (known,)
    assert report.headline == f"On hidden tests, your answer behaves as if you {known.says}."
    assert not report.grids
    assert not report.snippet
    assert {field.name for field in fields(report)} >= {"notes", "checks"}
    assert report.notes == report.checks == ()


def test_explaining_leaves_the_score_alone() -> None:
    record = next(each for each in _records("03_scaled_dot_product") if each.id == "sdpa")
    for seen in ([case.expected for case in record.cases], [Observation(PlainNode(MARK))] * len(record.cases)):
        result = decide_marks.judged_hidden(record, seen)
        assert hidden.report(record, hidden.findings_of(result)).score == result.score
        assert hidden.report(record, hidden.findings_of(explained(result))).score == result.score
