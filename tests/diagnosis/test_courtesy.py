"""An explanation that fails costs no mark, and fails a test; what a learner's code raises does neither."""

from typing import Any

import pytest

from autograder.authoring.course import course_root
from autograder.diagnosis import attempt
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.best_effort import STRICT
from autograder.diagnosis.repair.answer_source import NoProgramError, source_of
from autograder.diagnosis.repair.first_wrong_step import first_wrong_steps
from autograder.packs import make_pack, pack_file
from tests.diagnosis.test_repair import ATTEND, cell

# wrong in a way that nobody listed, so that all of the explaining code runs
UNKNOWN = """
    def attend(Q, K, V):
        S = Q @ K.T / np.sqrt(Q.shape[-1])
        E = np.cosh(S) + 0.25 * np.sin(K.sum() + S) ** 2 + 0.3
        return E / E.sum(axis=-1, keepdims=True) @ V
"""
RECORD = make_pack.make_record("a_lesson", ATTEND, 0, naming="listed")


@pytest.mark.parametrize("part", ["diagnose", "find_repair", "diagnose_first_wrong_steps", "source_of"])
def test_an_explanation_that_fails_costs_no_mark_and_is_seen_where_it_is_asked_for(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("an error of ours")

    monkeypatch.setattr(attempt, part, broken)
    answer = cell("attend", UNKNOWN)
    with pytest.raises(KeyError, match="an error of ours"):
        check_answer(RECORD, answer)
    monkeypatch.delenv(STRICT)
    result = check_answer(RECORD, answer)
    assert not result.passed
    assert [case.observation.failure for case in result.cases] == [None, None]


def test_what_a_definition_raises_when_a_change_of_it_is_tried_is_no_error_of_the_explanation() -> None:
    """The default value is computed anew with each change, and lets itself be computed only once."""
    once = UNKNOWN.replace("def attend(Q, K, V):", "left = [1]\n\n    def attend(Q, K, V, first=left.pop()):")
    source = source_of(cell("attend", once))
    assert source is not None
    with pytest.raises(NoProgramError):
        source.build([])
    assert first_wrong_steps(RECORD.cases[0], source) == []
    assert not check_answer(RECORD, cell("attend", once)).passed


def test_a_docstring_that_is_no_text_and_an_integer_that_no_float_holds_cost_no_explanation() -> None:
    """Beside a slip that is found in other programs, whose numbers and names are looked for in the answer."""
    pack = pack_file.load(next((course_root() / "release" / "03_scaled_dot_product").glob(f"*{pack_file.SUFFIX}")))
    answer = cell("scaled_scores", f"""
        import math

        def scaled_scores(Q, K):
            large = {10**400}
            return Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[0])
    """)  # fmt: skip
    answer.__doc__ = 5
    result = check_answer(pack.exercises["scaled_scores"], answer)
    assert result.diagnosis is not None
    assert result.diagnosis.certain
