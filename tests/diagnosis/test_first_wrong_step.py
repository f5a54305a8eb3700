"""Where an answer leaves the right ones: found by what is computed on the way, said without a name, and of help to the search."""

from pathlib import Path

import numpy as np
import pytest

from autograder import Case, Exercise, Variant
from autograder.authoring.settings import read
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import Report, make_report
from autograder.diagnosis.repair.answer_source import source_of
from autograder.diagnosis.repair.first_wrong_step import first_wrong_steps
from autograder.judging.records import ExerciseRecord
from autograder.mutants.value_trace import MOMENTS, Sums, known
from autograder.packs import make_pack, pack_file
from autograder.packs.record_json import from_json, to_json
from tests.diagnosis.test_repair import ATTEND, cell
from tests.drawn import tables


def kernel(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    squares = ((Q[:, None] - K[None]) ** 2).sum(axis=-1)
    E = np.exp(-squares / 2)
    return np.asarray(E / E.sum(axis=-1, keepdims=True) @ V)


KERNEL = Exercise(
    "kernel", title="Kernel", points=1, reference=kernel, cases=(Case("one", tables), Case("two", tables)), hints=("a", "b", "c")
)


def record_of(exercise: Exercise) -> ExerciseRecord:
    record = make_pack.make_record("a_lesson", exercise, 0, naming="listed")
    make_pack.add_trails(exercise, record.cases)
    return record


def said(exercise: Exercise, text: str) -> Report:
    return make_report(check_answer(record_of(exercise), cell(exercise.id, text)))


MANHATTAN = """
    def kernel(Q, K, V):
        weights = []
        for q in Q:
            u = sum(abs(q[i] - K[:, i]) for i in range(len(q)))
            e = np.exp(-u ** 2 / 2)
            weights.append(e / e.sum())
        return np.stack(weights) @ V
"""


def test_the_first_step_that_no_right_solution_has_is_quoted_with_its_line() -> None:
    report = said(
        KERNEL,
        """
    def kernel(Q, K, V):
        gaps = Q[:, None] - K
        far = np.abs(gaps).max(axis=-1) ** 3
        E = np.exp(-far)
        return E / E.sum(axis=-1, keepdims=True) @ V
    """,
    )
    assert report.headline.startswith("The values computed in line 3, `far = ")
    assert "first at `np.abs(gaps)`" in report.headline
    assert report.known == ()


def test_what_is_computed_in_a_loop_is_recognised_as_what_is_computed_at_once() -> None:
    record = record_of(ATTEND)
    text = """
    def attend(Q, K, V):
        O = []
        for q in Q:
            s = np.array([q @ k for k in K])
            s = s / np.sqrt(len(q))
            e = np.exp(s - s.max())
            a = e / (e.sum() + 1) ** 2
            O.append(a @ V)
        return np.stack(O)
    """
    source = source_of(cell("attend", text))
    assert source is not None
    (step,) = first_wrong_steps(record.cases[0], source)
    assert step.node.lineno == 7


def test_a_way_of_its_own_that_comes_to_a_right_value_is_not_blamed() -> None:
    record = record_of(ATTEND)
    text = """
    def attend(Q, K, V):
        half = Q / np.sqrt(Q.shape[-1]) * 2
        S = half @ K.T / 2
        E = np.exp(S - S.max(axis=-1, keepdims=True))
        return E / E.sum() @ V
    """
    source = source_of(cell("attend", text))
    assert source is not None
    assert {step.node.lineno for step in first_wrong_steps(record.cases[0], source)} == {5}


def both(Q: np.ndarray, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.exp(Q).sum(axis=0), np.tanh(K).sum(axis=0)


def test_an_array_that_is_made_to_be_filled_is_no_departure() -> None:
    record = record_of(ATTEND)
    text = """
    def attend(Q, K, V):
        S = np.empty_like(Q @ K.T) + np.zeros_like(Q[:, :1])
        for i in range(len(Q)):
            S[i] = K @ Q[i] / np.sqrt(Q.shape[-1])
        E = np.exp(S)
        return E / E.sum(axis=0) @ V
    """
    source = source_of(cell("attend", text))
    assert source is not None
    assert 2 not in {step.node.lineno for step in first_wrong_steps(record.cases[0], source)}


def test_two_places_are_both_quoted() -> None:
    report = said(
        Exercise(
            "both",
            title="Both",
            points=1,
            reference=both,
            cases=(Case("one", lambda draw: {name: tables(draw)[name] for name in "QK"}),),
            hints=("a", "b", "c"),
        ),
        """
    def both(Q, K):
        first = np.cosh(Q).sum(axis=0)
        second = np.sinh(K).sum(axis=0)
        return first, second
    """,
    )
    assert "line 2, `first = np.cosh(Q).sum(axis=0)` (first at `np.cosh(Q)`), or in line 3" in report.headline


def test_where_a_course_wants_no_looking_into_code_nothing_is_said_of_it() -> None:
    record = record_of(KERNEL)
    record.repairs = False
    report = make_report(check_answer(record, cell("kernel", MANHATTAN)))
    assert "line" not in report.headline


def test_the_setting_travels_with_the_pack(tmp_path: Path) -> None:
    (tmp_path / "course.toml").write_text('title = "x"\nmend = false\n')
    assert not read(tmp_path / "course.toml").mend
    made = make_pack.make("a_lesson", "A lesson", [KERNEL], naming="listed")
    pack_file.save(made.without_repair, tmp_path / "a.probes.npz")
    assert not pack_file.load(tmp_path / "a.probes.npz").exercises["kernel"].repairs
    assert pack_file.differences(made, made.without_repair)


def test_another_right_solution_counts_too() -> None:
    def by_products(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
        S = Q @ K.T - (K**2).sum(axis=-1) / 2
        E = np.exp(S - S.max(axis=-1, keepdims=True))
        return np.asarray(E / E.sum(axis=-1, keepdims=True) @ V)

    exercise = Exercise(
        "kernel", title="Kernel", points=1, reference=kernel, variants=(Variant("products", by_products),),
        cases=(Case("one", tables),), hints=("a", "b", "c"),
    )  # fmt: skip
    record = record_of(exercise)
    text = """
    def kernel(Q, K, V):
        S = Q @ K.T - (K**2).sum(axis=-1) / 2
        E = np.exp(S - S.max(axis=-1, keepdims=True))
        return E / E.sum(axis=0, keepdims=True) @ V
    """
    source = source_of(cell("kernel", text))
    assert source is not None
    assert {step.node.lineno for step in first_wrong_steps(record.cases[0], source)} == {4}


def test_a_pack_keeps_the_trail() -> None:
    record = record_of(KERNEL)
    arrays: list[np.ndarray] = []
    again = from_json(to_json(record, arrays), arrays)
    assert [case.trail.shape[1] for case in again.cases] == [MOMENTS] * 2
    assert all((one.trail == two.trail).all() for one, two in zip(record.cases, again.cases, strict=True))
    assert again.repairs


@pytest.mark.parametrize(
    "change", [lambda a: a.T, lambda a: np.tile(a, (3, 1)), lambda a: a[::-1], lambda a: a.astype(np.float32)]
)
def test_moments_know_no_order_and_no_repetition(change: object) -> None:
    a = np.random.default_rng(0).standard_normal((3, 4))
    one, two = Sums(0), Sums(0)
    one.add([a])
    two.add([change(a)])  # type: ignore[operator]  # each is a function
    assert known(one.row[None], two.row)
    three = Sums(0)
    three.add([np.abs(a)])
    assert not known(one.row[None], three.row)


def test_the_unknown_is_said_of_no_answer_that_returns_numbers() -> None:
    report = said(KERNEL, "def kernel(Q, K, V):\n    return np.sqrt(np.abs(V[:1] + np.zeros((len(Q), 1)))) * 3\n")
    assert not report.unknown


def test_a_result_of_another_kind_comes_before_the_line_whose_numbers_are_off() -> None:
    report = said(
        KERNEL,
        """
    def kernel(Q, K, V):
        E = np.exp(-np.abs(Q[:, None] - K).max(axis=-1) ** 3)
        return E / E.sum(axis=-1, keepdims=True) @ V, E
    """,
    )
    assert report.headline.startswith("You return several results, a tuple of 2,")
    assert "Apart from that: The values computed in line 2" in report.advice
