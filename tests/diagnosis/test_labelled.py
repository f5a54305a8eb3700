"""Labelled answers: no right one is refused, no mistake is named that is not there, and as many are named as were measured."""

import math
from pathlib import Path

import pytest

from tests import ablation
from tests.labelled_answers import Answer, answers

ANSWERS = list(answers())
POINT = 0.01  # of all wrong answers so many may lose their name: the search for a change ends by the time that it took
PARTS = [pytest.param(ANSWERS[::10], id="sample"), pytest.param(ANSWERS, id="all", marks=pytest.mark.slow)]


class Said(dict[Answer, ablation.Row]):
    """What was said of each answer, looked at once."""

    def __missing__(self, answer: Answer) -> ablation.Row:
        self[answer] = ablation.measure(answer, watch=False)
        return self[answer]


@pytest.fixture(scope="module")
def said() -> Said:
    return Said()


@pytest.mark.parametrize("chosen", PARTS)
def test_no_right_answer_is_refused(chosen: list[Answer], said: Said) -> None:
    right = [answer for answer in chosen if answer.labelled.right]
    assert right
    assert [answer.id for answer in right if said[answer].outcome != ablation.PASSED] == []


@pytest.mark.parametrize("chosen", PARTS)
def test_what_is_named_for_certain_is_true(chosen: list[Answer], said: Said) -> None:
    """A name that is new has to be read: if it is true of the answer, it belongs in its cell."""
    wrong = [answer for answer in chosen if not answer.labelled.right]
    untrue = {answer.labelled.truth: said[answer].names for answer in wrong if said[answer].outcome == ablation.UNTRUE}
    assert not untrue, "\n".join(f"{truth}: {'; '.join(names)}" for truth, names in untrue.items())


@pytest.mark.parametrize("chosen", PARTS)
def test_as_many_mistakes_are_named_for_certain_as_were_measured(chosen: list[Answer], said: Said) -> None:
    wrong = [answer for answer in chosen if not answer.labelled.right]
    lost = [answer.id for answer in wrong if answer.true and said[answer].outcome != ablation.NAMED]
    won = [answer.id for answer in wrong if not answer.true and said[answer].outcome == ablation.NAMED]
    assert len(lost) - len(won) <= math.ceil(POINT * len(wrong)), lost


def test_a_stage_is_switched_off_where_it_found_something_and_the_table_says_what_is_lost(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ablation.main(["--each", "60", "--stage", "one known mistake", "--save", str(tmp_path / "rows")])
    told = capsys.readouterr().out.splitlines()
    found, named, more = told[3].split("|")[2:5]
    assert int(found) >= int(named) > 0
    wrong = sum(not answer.labelled.right for answer in ANSWERS[::60])
    assert -int(found) <= round(float(more) * wrong / 100) < 0
    ablation.main(["--each", "60", "--stage", "one known mistake", "--save", str(tmp_path / "rows")])
    assert capsys.readouterr().out.splitlines() == told
