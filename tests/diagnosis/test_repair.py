"""What would make a wrong answer right: small changes of the learner's own code, tried until every check passes."""

import linecache
import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from autograder import Call, Case, Exercise, Misconception, Script
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import Report, make_report
from autograder.diagnosis.repair.answer_source import source_of
from autograder.diagnosis.repair.expressions import expression
from autograder.diagnosis.repair.insertions import changes
from autograder.diagnosis.repair.search import _is_factor
from autograder.judging.values import encode
from autograder.mutants.source import Edit
from autograder.packs import make_pack, pack_file
from autograder.workspace.in_cells.check import check_in
from course.exercises.smaller_caches.factors import OUTPUT_FACTORS
from tests.drawn import Counter, tables


def attend(Q: Any, K: Any, V: Any) -> Any:
    S = Q @ K.T / np.sqrt(Q.shape[-1])
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True) @ V


ATTEND = Exercise(
    "attend",
    title="Attend",
    points=1,
    reference=attend,
    cases=(Case("one", tables), Case("two", tables)),
    hints=("a", "b", "c"),
    misconceptions=(
        Misconception("by_d", "divided by d", "Divide by its root.", lambda Q, K, V: attend(Q, K * Q.shape[-1] ** -0.5, V)),
    ),
)


COUNTER = Exercise(
    "Counter",
    title="Count",
    points=1,
    reference=Counter,
    cases=(
        Case("twice", lambda draw: Script({}, None, (Call("add", {"k": 3}), Call("add", {"k": draw.integer(4, 9)})))),
        Case("reset", lambda draw: Script({}, None, (Call("add", {"k": 3}), Call("reset"), Call("add", {"k": 5})))),
    ),
    hints=("a", "b", "c"),
)


def cell(name: str, text: str) -> Any:
    """What a notebook's cell defines under `name`."""
    place = f"<cell {name} {hash(text)}>"
    text = textwrap.dedent(text).strip() + "\n"
    linecache.cache[place] = (len(text), None, text.splitlines(True), place)
    namespace: dict[str, Any] = {"np": np, "torch": torch, "__name__": "__main__"}
    exec(compile(text, place, "exec"), namespace)
    return namespace[name]


def said(exercise: Exercise, text: str, naming: Any = "listed") -> Report:
    return make_report(check_answer(make_pack.make_record("a_lesson", exercise, 0, naming=naming), cell(exercise.id, text)))


OWN_WAY = """
    def weights(S):
        E = np.exp(S - S.max(axis=-1, keepdims=True))
        return E / E.sum(axis={axis}, keepdims=True)

    def attend(Q, K, V):
        width = {width}
        S = np.einsum("nd,md->nm", Q, K) / np.sqrt(width)
        return weights(S) @ V
"""


def test_a_right_answer_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.diagnosis.attempt.find_repair", lambda *_: pytest.fail("nothing is to be mended"))
    assert said(ATTEND, OWN_WAY.format(axis=-1, width="K.shape[1]")).status == "pass"


def test_the_place_is_named_in_the_learners_own_code_and_helpers() -> None:
    report = said(ATTEND, OWN_WAY.format(axis=0, width="K.shape[1]"))
    assert report.headline == "The mistake is in line 3, in `E / E.sum(axis=0, keepdims=True)`: `sum` runs along the wrong axis."
    assert "with `E / E.sum(axis=-1, keepdims=True)`" in report.change
    assert report.recorded == "~mended"
    assert "makes every check pass" in report.advice


def test_two_places_are_named_where_the_first_alone_leaves_a_known_mistake() -> None:
    report = said(ATTEND, OWN_WAY.format(axis=0, width="K.shape[1] ** 2"))
    assert "divided by d" in report.headline
    assert "in line 3, in `E / E.sum(axis=0, keepdims=True)`" in report.headline
    assert set(report.recorded.split("+")) == {"by_d", "~mended"} if report.recorded else False


def test_what_is_forgotten_is_found_too() -> None:
    report = said(ATTEND, """
        def attend(Q, K, V):
            S = Q @ K.T / K.shape[-1] ** 0.5
            E = np.exp(S - S.max(axis=-1, keepdims=True))
            return E / E.sum(axis=-1) @ V
    """)  # fmt: skip
    assert "keepdims=True" in report.change
    assert "in line 4" in report.headline


def test_an_answer_that_raises_is_mended() -> None:
    report = said(ATTEND, """
        def attend(Q, K, V):
            S = Q @ K / K.shape[-1] ** 0.5
            E = np.exp(S - S.max(axis=-1, keepdims=True))
            return E / E.sum(axis=-1, keepdims=True) @ V
    """)  # fmt: skip
    assert "in line 2, in `Q @ K / K.shape[-1] ** 0.5`" in report.headline
    assert "K.T" in report.change
    assert "K.T" not in report.headline + report.advice


def test_two_steps_in_the_wrong_order() -> None:
    report = said(COUNTER, """
        class Counter:
            def __init__(self):
                self.n = 0
            def add(self, k):
                before = self.n
                self.n += k
                return before
            def reset(self):
                self.n = 0
    """)  # fmt: skip
    assert report.headline.startswith("Two steps are in the wrong order: `self.n += k` has to come before `before = self.n`")


def test_nothing_is_said_where_no_small_change_helps() -> None:
    report = said(ATTEND, "def attend(Q, K, V):\n    return np.cumsum(Q, 0) @ np.sin(K[:1].T) * V[0]\n")
    assert report.recorded is None


@pytest.mark.parametrize("kind", ["estimate", "use"])
def test_a_single_number_is_not_mended(kind: Any) -> None:
    """It is soon hit, and would be given away."""
    asked = (Case("your answer", lambda draw: {}),)
    number = Exercise("number", "Number", 1, reference=lambda: 42.0, cases=asked, hints=("a", "b", "c"), kind=kind)
    assert said(number, "def number():\n    return 6 * 6.0\n").recorded is None


def test_the_code_is_run_in_its_own_names_and_changes_none() -> None:
    found = cell("attend", "SCALE = [1]\ndef attend(Q, K, V):\n    SCALE.append(1)\n    return V[0] * 2\n")
    source = source_of(found)
    assert source is not None
    before = dict(found.__globals__)
    source.build([next(edit for edit in changes(source, encode({})))])
    assert found.__globals__.keys() == before.keys()
    assert found.__globals__["attend"] is found


@pytest.mark.parametrize(
    "answer", [len, np.sum, 3, None, lambda Q, K, V: Q], ids=["built in", "of NumPy", "number", "nothing", "typed in"]
)
def test_what_has_no_text_of_its_own_is_left_alone(answer: Any) -> None:
    assert source_of(answer) is None


@pytest.mark.parametrize(
    ("before", "after", "factor"),
    [
        ("s / np.sqrt(h)", "s", True),
        ("s / Q.shape[-1]", "s", True),
        ("s", "s * width", True),
        ("s * keep", "s", False),
        ("x * np.sqrt((x ** 2).mean(-1))", "x", False),
        ("S + keep", "S * keep", False),
        ("X @ W", "X @ W.T", False),
        ("Z", "X", False),
    ],
)
def test_only_a_number_is_a_factor_that_brings_no_other_mistake_about(before: str, after: str, factor: bool) -> None:
    """A change that leaves a known mistake may have brought it about: a mask taken away leaves an answer without a mask."""
    given = {"keep": np.ones((2, 2)), "X": np.ones((2, 2)), "width": 0.5}
    edit = Edit("f", expression(before), lambda node: expression(after), None, 0)
    assert _is_factor((edit,), encode(given)) is factor


def test_an_einsum_for_one_batch_axis_is_mended() -> None:
    scores = Exercise(
        "scores",
        title="Scores",
        points=1,
        reference=lambda Q, K: np.einsum("...nd,...md->...nm", Q, K),
        cases=(
            Case("plain", lambda draw: {"Q": draw.normal(2, 5), "K": draw.normal(3, 5)}),
            Case("two axes", lambda draw: {"Q": draw.normal(2, 3, 2, 5), "K": draw.normal(2, 3, 3, 5)}),
        ),
        hints=("a", "b", "c"),
    )
    report = said(scores, 'def scores(Q, K):\n    return np.einsum("bnd,bmd->bnm", Q, K)\n')
    assert "`np.einsum('...nd,...md->...nm', Q, K)`" in report.change


def test_an_answer_that_calls_a_failing_one_is_not_mended(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is mended would be the right function, to fit the wrong one."""
    weights = Exercise(
        "weights",
        title="Weights",
        points=1,
        reference=lambda S: np.exp(S) / np.exp(S).sum(axis=-1, keepdims=True),
        cases=(Case("one", lambda draw: {"S": draw.normal(2, 3)}),),
        hints=("a", "b", "c"),
    )
    pack_file.save(make_pack.make("a_lesson", "A lesson", (weights, ATTEND)), tmp_path / f"a_lesson{pack_file.SUFFIX}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "autograder.workspace.in_cells.check.with_repair", lambda *_: pytest.fail("the other one is to be mended")
    )
    text = """
        def weights(S):
            E = np.exp(S)
            return E / E.sum(axis=0, keepdims=True)

        def attend(Q, K, V):
            return weights(Q @ K.T / K.shape[1] ** 0.5) @ V
    """
    attend = cell("attend", text)
    report = check_in(attend.__globals__, "attend").report
    assert report.headline == "`attend` calls your `weights`, which does not pass its own check yet."


def test_two_changes_that_hit_one_small_number_are_no_explanation() -> None:
    count = Exercise(
        "count",
        title="Count",
        points=1,
        reference=lambda n, d, kind: 2 * n * d if kind == "a" else n,
        cases=(Case("a", lambda draw: {"n": 4, "d": 2, "kind": "a"}), Case("b", lambda draw: {"n": 4, "d": 2, "kind": "b"})),
        hints=("a", "b", "c"),
    )
    text = 'def count(n, d, kind):\n    if kind == "a":\n        return (n + 3) // 5 - d * d\n    return n\n'
    report = said(count, text)
    assert report.recorded is None or report.headline.count("in line") == 1


def test_another_width_under_the_root_is_found() -> None:
    text = OWN_WAY.format(axis=-1, width="1").replace("np.sqrt(width)", "np.sqrt((Q.shape[1] + V.shape[1]) / 2)")
    report = said(ATTEND, text)
    assert report.recorded == "~mended"
    assert "np.sqrt(Q.shape[-1])`" in report.change


def test_a_vector_that_should_meet_itself_is_found() -> None:
    def products(a: Any) -> Any:
        return np.diag(a) - np.outer(a, a)

    exercise = Exercise(
        "products",
        title="Products",
        points=1,
        reference=products,
        cases=tuple(Case(name, lambda draw: {"a": draw.normal(draw.integer(3, 7))}) for name in ("one", "two")),
        hints=("a", "b", "c"),
    )
    report = said(exercise, "def products(a):\n    return np.diag(a) - a\n")
    assert report.headline.startswith("The mistake is in line 2, in `np.diag(a) - a`")
    assert "`np.diag(a) - a[..., None] * a`" in report.change


def test_two_changes_of_one_line_are_told_as_that_line_with_both() -> None:
    others = tuple(mistake for mistake in OUTPUT_FACTORS.misconceptions if mistake.id != "sizes_shared")
    record = make_pack.make_record("smaller_caches", replace(OUTPUT_FACTORS, misconceptions=others), 0)
    text = """
    def output_factors(W, moment):
        e, U = torch.linalg.eigh(W.mT @ moment @ W)
        e, U = e.flip(0), U.flip(1)
        root = e.clamp(min=1e-9).sqrt().sqrt()
        return (W @ U) / root, root[:, None] * U.mT
    """
    report = make_report(check_answer(record, cell("output_factors", text)))
    assert "`W @ U, U.mT`" in report.change
    assert report.change.count("replace") == 1
