"""Slips that no list has: small edits of a right program, alone, two at a time, and beside a listed mistake."""

import functools
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autograder import Case, Draw, Exercise, Misconception
from autograder.authoring.verify import grade
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.finding import Diagnosis
from autograder.diagnosis.phrase import headline_of, say
from autograder.judging.exercise import Tolerance
from autograder.judging.filled_memory import filled_memory
from autograder.judging.fingerprint import alike_each, fingerprint
from autograder.judging.observation import Observation, Probe
from autograder.judging.records import ExerciseRecord
from autograder.judging.values import encode
from autograder.mutants import line_limit
from autograder.mutants.operators import edits
from autograder.mutants.source import source_of
from autograder.packs import make_pack, pack_file
from tests.drawn import tables


def weights(s: Any) -> Any:
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attend(Q: Any, K: Any, V: Any) -> Any:
    """A docstring is no code."""
    scores = Q @ K.T / np.sqrt(Q.shape[-1])
    return weights(scores) @ V


def _uniform(Q: Any, K: Any, V: Any) -> Any:
    return np.full((len(Q), len(K)), 1 / len(K)) @ V


ATTEND = Exercise(
    "attend",
    title="Attend",
    points=1,
    reference=attend,
    cases=(Case("one", tables), Case("two", tables)),
    hints=("a", "b", "c"),
    misconceptions=(Misconception("uniform", "weighed all keys alike", "Use the scores.", _uniform),),
)


def sizes(draw: Draw) -> dict[str, Any]:
    return dict(zip(("n", "d", "layers"), draw.sizes(3, low=3, high=17), strict=True))


def count(n: int, d: int, layers: int) -> int:
    return 2 * n * d * layers


COUNT = Exercise(
    "count",
    title="Count",
    points=1,
    reference=count,
    cases=tuple(Case(name, sizes) for name in ("one", "two", "three")),
    hints=("a", "b", "c"),
)


@functools.cache
def records() -> dict[str, ExerciseRecord]:
    return make_pack.make("a_lesson", "A lesson", (ATTEND, COUNT), naming="near").in_code


def said(exercise: Exercise, answer: Callable[..., Any]) -> Diagnosis | None:
    return grade(records()[exercise.id], answer).diagnosis


def softmax(s: Any, axis: int = -1) -> Any:
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda Q, K, V: softmax(Q @ K.T) @ V, ["did not divide by `np.sqrt(Q.shape[-1])`"]),
        (lambda Q, K, V: softmax(Q @ K.T / Q.shape[-1]) @ V, ["left out `sqrt`"]),
        (lambda Q, K, V: softmax(Q @ K.T / V.shape[-1] ** 0.5) @ V, ["took `V` where `Q` belongs"]),
        (lambda Q, K, V: (softmax(Q @ K.T / Q.shape[-1] ** 0.5) @ V).T, ["returned the transpose"]),
        (lambda Q, K, V: softmax(Q @ K.T / Q.shape[-1] ** 0.5), ["left out the product with `V`"]),
        (lambda Q, K, V: -softmax(Q @ K.T) @ V, ["did not divide by `np.sqrt(Q.shape[-1])`", "with the opposite sign"]),
        (lambda Q, K, V: _uniform(Q, K, V).T, ["weighed all keys alike", "returned the transpose"]),
    ],
)
def test_a_slip_that_nobody_listed_is_named(answer: Callable[..., Any], words: list[str]) -> None:
    found = said(ATTEND, answer)
    assert found is not None
    assert found.certain
    assert [word for word in words if word not in headline_of(found)] == []
    assert len(found.known) == len(words)


def test_a_listed_mistake_keeps_its_own_name() -> None:
    found = said(ATTEND, lambda Q, K, V: np.repeat(V.mean(0)[None], len(Q), axis=0))
    assert found is not None
    assert [known.id for known in found.known] == ["uniform"]


def test_an_answer_that_is_wrong_all_over_has_no_name() -> None:
    found = said(ATTEND, lambda Q, K, V: np.cos(Q @ K.T) @ np.exp(V))
    assert found is None or not found.known


def test_a_forgotten_factor_is_named() -> None:
    found = said(COUNT, lambda n, d, layers: 2 * n * d)
    assert found is not None
    assert "layers" in headline_of(found)


def test_a_small_number_proves_nothing() -> None:
    """Among hundreds of programs some return 1: a name would be a guess."""
    found = said(COUNT, lambda n, d, layers: 1)
    assert found is None or not found.certain


def test_edits_leave_the_program_alone_and_quote_it() -> None:
    source = source_of(attend)
    assert source is not None
    assert set(source.trees) == {"attend", "weights"}, "the helper of the same module is edited too"
    before = source.build([])
    made = edits(source)
    given = tables(Draw(0))
    assert np.array_equal(before(**given), attend(**given))
    for edit in made:
        assert edit.what is not None
        assert "docstring" not in say(edit.what)
    assert np.array_equal(source.build([])(**given), attend(**given)), "an edit is made to a copy"


def test_a_program_without_text_has_no_edits() -> None:
    assert source_of(np.exp) is None
    assert source_of(eval("lambda x: x")) is None


def _never_ends(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = n // 2, steps + 1
    return steps


def test_an_edit_that_never_ends_is_left_behind_after_a_number_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.mutants.generate.ASKED_TWICE", 0)
    asked = Exercise(
        "halves", "Halves", 1, _never_ends, (Case("one", lambda draw: {"n": draw.integer(100, 200)}),), hints=("a", "b", "c")
    )
    record = make_pack.make_record("a_lesson", asked, 0, naming="near")
    assert record.near


def test_a_program_that_the_clock_would_have_to_stop_fails_the_build_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_limit, "LONGEST", 0.2)
    asleep = threading.Event()
    try:
        with pytest.raises(line_limit.UnboundedError, match="expected every program near the reference to end"):
            line_limit.observe_bounded(lambda x: asleep.wait(), Probe(encode({"x": 1.0})))
    finally:
        asleep.set()


def test_a_bounded_program_is_observed_like_any_other_and_a_library_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_limit, "MOST_LINES", 20)
    probe = Probe(encode({"x": np.arange(3.0)}))
    seen = line_limit.observe_bounded(lambda x: json.loads(json.dumps([[0]] * 500, indent=1)) and x + 1, probe)
    assert seen.value is not None
    assert np.array_equal(seen.value.arrays[0], [1.0, 2.0, 3.0])
    assert line_limit.observe_bounded(_never_ends, Probe(encode({"n": 2**40}))).failure is not None


def test_a_program_that_reads_memory_before_writing_it_reads_the_same_in_every_run() -> None:
    before = np.empty, np.empty_like
    with filled_memory():
        given = [np.empty(3), np.empty_like(np.ones((2, 2))), torch.empty(4).numpy(), torch.ones(2).new_empty(3).numpy()]
        counts = [np.empty(2, int), np.empty(2, bool), torch.empty(2, dtype=torch.int64).numpy()]
    assert all(np.isnan(array).all() for array in given)
    assert all((array == array[0]).all() and array[0] >= 1 for array in counts)
    assert (np.empty, np.empty_like) == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_fingerprint_does_not_depend_on_where_an_object_lies() -> None:
    def seen(key: Any) -> Any:
        return fingerprint(Observation(encode({key: np.arange(3.0)})))

    one, two = (type("Thing", (), {})() for _ in range(2))
    assert repr(one) != repr(two)
    assert np.array_equal(seen(one), seen(two))
    assert not np.array_equal(seen("one"), seen("two"))


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_the_share_of_the_search_is_between_none_and_all(share: float) -> None:
    with pytest.raises(ValueError, match="expected search between 0 and 1"):
        replace(ATTEND, search=share)


def test_an_exercise_may_declare_a_smaller_search() -> None:
    counts = [
        len(make_pack.make_record("a_lesson", replace(ATTEND, search=share), 0, naming="near").cases[0].near)
        for share in (0, 0.1)
    ]
    assert counts[0] == 0 < counts[1] < len(records()["attend"].cases[0].near)


def test_what_is_near_survives_the_file_and_is_in_the_visible_pack_alone(tmp_path: Path) -> None:
    made = pack_file.Pack("a_lesson", "A lesson", records())
    path = tmp_path / f"a_lesson{pack_file.SUFFIX}"
    pack_file.save(made, path)
    again = pack_file.load(path)
    assert again.digest == made.digest
    assert again.exercises["attend"].near == made.exercises["attend"].near
    result = grade(again.exercises["attend"], lambda Q, K, V: softmax(Q @ K.T) @ V)
    assert "did not divide by `np.sqrt(Q.shape[-1])`" in make_report(result).headline
    assert not any(case.near for case in make_pack.make("a_lesson", "A lesson", (ATTEND,), seed=1).exercises["attend"].cases)


def _twice_listed() -> ExerciseRecord:
    """A record in which two listed mistakes are near a right answer, as a name that a pair has too, and as one that none has."""
    made = make_pack.make_record("a_lesson", ATTEND, 0, naming="near")
    for number, case in enumerate(made.cases):
        case.pairs["uniform+lost"] = np.array([1, number], np.float32)
        case.near["uniform+lost"] = np.array([2, number], np.float32)
        case.near["lost+uniform"] = np.array([3, number], np.float32)
    return made


def _same_programs(one: ExerciseRecord, two: ExerciseRecord) -> bool:
    return all(
        {name: row.tolist() for name, row in getattr(a, which).items()}
        == {name: row.tolist() for name, row in getattr(b, which).items()}
        for a, b in zip(one.cases, two.cases, strict=True)
        for which in ("pairs", "near")
    )


def test_two_listed_mistakes_that_are_near_stay_near_in_the_file(tmp_path: Path) -> None:
    made = pack_file.Pack("a_lesson", "A lesson", {"attend": _twice_listed()})
    path = tmp_path / f"a_lesson{pack_file.SUFFIX}"
    pack_file.save(made, path)
    again = pack_file.load(path)
    assert again.digest == made.digest
    assert _same_programs(again.exercises["attend"], made.exercises["attend"])


def test_a_sum_that_overflows_is_like_no_other() -> None:
    huge = np.array([[7.0, np.inf]], np.float32)
    for number in (3.0, np.inf):
        assert not alike_each(huge, np.array([7.0, number], np.float32), Tolerance())[0]
