"""`attn verify --blind`: what is said of labelled answers, each run in the sandbox."""

from pathlib import Path

import pytest

from autograder.authoring.course import CourseError
from autograder.grading.trials import unseen_answers
from autograder.sandbox.isolation_tiers import choose_tier

ANSWERS = """# %% start_here.average_pool right: the mean over the first axis
def average_pool(V):
    return V.mean(axis=0)
# %% start_here.average_pool wrong single: the mean over the features
def average_pool(V):
    return V.mean(axis=1)
# %% start_here.average_pool wrong double public: an eighth of the sum, turned round
def average_pool(V):
    return -V.sum(axis=0) / 8
"""


def test_each_answer_is_told_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "answers.py"
    path.write_text(ANSWERS, encoding="utf-8")
    answers = unseen_answers.read(path)
    assert [(answer.right, answer.tags) for answer in answers] == [
        (True, ()),
        (False, ("single",)),
        (False, ("double", "public")),
    ]
    told = list(unseen_answers.ask(answers, choose_tier()))
    assert [one.outcome for one in told][:2] == ["full marks", "named for certain"]
    counts = unseen_answers.tally(told)
    assert counts["right"].total() == 1
    assert counts["wrong"].total() == 2
    assert counts["public"].total() == 1
    assert "full marks" not in counts["wrong"]


def test_a_heading_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.py"
    path.write_text("# %% average_pool wrong\n", encoding="utf-8")
    with pytest.raises(CourseError, match=r"line 1: expected `# %% lesson\.exercise right\|wrong"):
        unseen_answers.read(path)
