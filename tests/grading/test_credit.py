"""A wrong answer keeps what a fair person would leave it: for a named mistake, for right outputs, for a slip in the form."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import Case, Exercise, Instead, Misconception
from autograder.authoring.points_and_credit import SLIPS, check_names, shares_of, with_points
from autograder.authoring.settings import read
from autograder.authoring.verify import grade as judged_here
from autograder.cli import main
from autograder.diagnosis.phrase import say
from autograder.grading.grade import grade_assignment
from autograder.grading.marking.credit import credit_for
from autograder.grading.marking.decide_marks import Verdict
from autograder.grading.marking.scheme import make_mark_scheme
from autograder.grading.trials import course_copy, demo
from autograder.notebooks.lesson_names import LessonName
from autograder.packs import make_pack
from autograder.sandbox.isolation_tiers import available_tiers
from tests import sample

ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())
needs_sandbox = pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine")
LESSON = LessonName(3, "", "numbers")


def _both(x: Any, *, mean: Any = np.mean, spread: Any = np.std) -> Any:
    return mean(x, axis=-1), spread(x, axis=-1)


def _median(x: Any, axis: int) -> Any:
    return np.median(x, axis=axis)


def _none(x: Any, axis: int) -> Any:
    return 0 * x.sum(axis)


TWO = Exercise(
    "two",
    title="Mean and spread",
    points=2,
    reference=_both,
    recipe=_both,
    cases=(
        Case("a row", lambda draw: {"x": draw.normal(5)}),
        Case("three rows", lambda draw: {"x": draw.normal(3, 7)}),
    ),
    hints=("a", "b", "c"),
    misconceptions=(
        Misconception("median", "took the median", "Take the mean.", Instead(mean=_median), keeps=0.75),
        Misconception("no_spread", "left out the spread", "Compute it.", Instead(spread=_none), keeps=0.0),
    ),
    outputs=(0.5, 0.25),
)
SHARES = shares_of(LESSON, (TWO,), {})["two"]


def points(answer: Any, shares: Any = SHARES, exercise: Exercise = TWO) -> tuple[float, str] | None:
    """What `answer` keeps, with the reason."""
    found = credit_for(judged_here(make_pack.make_record("numbers", exercise, 7), answer), shares)
    return None if found is None else (found.points, say(found.reason))


def test_a_named_mistake_keeps_the_share_that_is_set_for_it_and_0_counts_as_set() -> None:
    assert points(lambda x: _both(x, mean=_median)) == (1.5, "because nothing else is wrong")
    assert points(lambda x: _both(x, spread=_none)) is None  # although its first output is right
    assert points(lambda x: _both(x, mean=_median), {"median": 0.25}) == (0.5, "because nothing else is wrong")


def test_points_that_only_edge_cases_took_are_explained_too() -> None:
    edges = dataclasses.replace(TWO, cases=(TWO.cases[0], dataclasses.replace(TWO.cases[1], edge=0.25)))
    result = judged_here(make_pack.make_record("numbers", edges, 7), lambda x: (x.mean(), x.std()))
    report = Verdict(result).report(explain=False)
    why = "because the ordinary inputs pass and each edge case decides a share of the points"
    assert (report.status, report.advice.endswith(f"You get 1.5 of 2 points, {why}.")) == ("part", True)


def test_each_right_output_keeps_its_share_where_no_name_decides() -> None:
    assert points(lambda x: (x.mean(-1), 7 * x.std(-1))) == (1.0, "because output `[0]` is right")
    assert points(lambda x: (None, x.std(-1))) == (0.5, "because output `[1]` is right")
    assert points(lambda x: (x.mean(), x.std())) is None  # right for one row alone
    assert points(lambda x: (x.mean(-1) + 9, None)) is None
    assert points(lambda x: None) is None


def test_right_numbers_in_another_form_keep_most_and_a_right_answer_needs_no_credit() -> None:
    assert points(lambda x: tuple(one.tolist() for one in _both(x))) == (1.5, "because the numbers in your list are right")
    assert points(lambda x: (x.mean(-1, keepdims=True), x.std(-1, keepdims=True)))[0] == 1.2  # type: ignore[index]
    assert points(_both) is None


def test_right_outputs_in_another_order_and_a_number_in_an_array_keep_a_part() -> None:
    import torch

    count = Exercise(
        "count", title="Count", points=2, reference=lambda x: int((x > 0).sum()), hints=("a", "b", "c"),
        cases=(Case("a row", lambda draw: {"x": draw.normal(5)}), Case("more", lambda draw: {"x": draw.normal(9)})),
    )  # fmt: skip
    own = shares_of(LESSON, (count,), {})["count"]
    assert points(lambda x: np.array((x > 0).sum()), own, count) is None  # as good as a number
    said = "because the number is right, though it stands in an array"
    assert points(lambda x: torch.tensor(x > 0).sum(), own, count) == (1.5, said)
    assert points(lambda x: (x > 0).sum(keepdims=True), own, count) == (1.5, said)
    assert points(lambda x: torch.tensor(x < 0).sum(), own, count) is None
    plain = shares_of(LESSON, (TWO,), {})["two"] | {"[0]": 0.0, "[1]": 0.0}
    assert points(lambda x: _both(x)[::-1], plain) == (1.0, "because the outputs are right, only in another order")
    assert points(lambda x: (x.std(-1) + 1, x.mean(-1)), plain) is None


def test_a_course_can_set_a_share_for_every_named_mistake() -> None:
    exercise = dataclasses.replace(TWO, misconceptions=(dataclasses.replace(TWO.misconceptions[0], keeps=None),), outputs=())
    own = shares_of(LESSON, (exercise,), {})["two"]
    assert points(lambda x: _both(x, mean=_median), own, exercise) is None
    assert points(lambda x: _both(x, mean=_median), own | {"named_mistake": 0.4}, exercise) == (
        0.8,
        "because nothing else is wrong",
    )
    assert points(lambda x: _both(x, mean=_none), own | {"named_mistake": 0.4}, exercise) is None


def test_values_without_their_gradients_and_a_changed_input_keep_half() -> None:
    import torch

    squares = Exercise(
        "squares", title="Squares", points=2, reference=lambda x: x * x, tensors=True, hints=("a", "b", "c"),
        cases=(Case("a row", lambda draw: {"x": draw.normal(5)}, grad=("x",)),),
    )  # fmt: skip
    own = shares_of(LESSON, (squares,), {})["squares"]

    def detached(x: Any) -> Any:
        with torch.no_grad():
            return x * x

    def changing(x: Any) -> Any:
        found = _both(x)
        x += 1
        return found

    assert points(detached, own, squares) == (1.0, "because the values are right and only the gradients are not")
    assert points(lambda x: 2 * x * x, own, squares) is None
    assert points(changing, SLIPS) == (1.0, "because the result is right and only an input was changed")
    assert points(detached, own | {"no_gradients": 0.0}, squares) is None


def test_the_tables_of_a_course_override_what_authors_and_the_engine_set(tmp_path: Path) -> None:
    text = 'title = "x"\n[points]\n"03.two" = 5\n[keeps]\n"03.two.median" = 0.2\n"numbers.two[1]" = 0\nas_list = 0.9\n'
    (tmp_path / "course.toml").write_text(text)
    found = read(tmp_path / "course.toml")
    assert [each.points for each in with_points(LESSON, (TWO,), found.points)] == [5.0]
    assert [each.points for each in with_points(LessonName(3, "b", "other"), (TWO,), found.points)] == [2]
    shares = shares_of(LESSON, (TWO,), found.keeps)["two"]
    assert shares == SLIPS | {"as_list": 0.9, "median": 0.2, "no_spread": 0.0, "[0]": 0.5, "[1]": 0.0}


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ("points", "03.tow", r"expected an exercise of lesson 03, got 'tow'. Did you mean 'two'"),
        ("points", "two", "expected a name like"),
        ("points", "03.two.median", "expected a name like"),
        ("keeps", "03.two.medain", "Did you mean 'median'"),
        ("keeps", "as_lists", "Did you mean 'as_list'"),
    ],
)
def test_a_name_that_is_not_in_the_lesson_is_refused_with_the_nearest(table: str, key: str, said: str) -> None:
    tables: dict[str, dict[str, float]] = {"points": {}, "keeps": {}, table: {key: 0.5}}
    with pytest.raises(ValueError, match=said):
        check_names(LESSON, (TWO,), tables["points"], tables["keeps"])


@pytest.mark.parametrize("keeps", [-0.1, 1.1])
def test_a_share_outside_0_to_1_is_refused(keeps: float) -> None:
    with pytest.raises(ValueError, match="expected keeps between 0 and 1"):
        Misconception("a", "b", "c", None, keeps=keeps)
    with pytest.raises(ValueError, match="sum to at most 1"):
        Exercise("a", title="A", points=1, reference=_both, cases=TWO.cases, hints=("a", "b", "c"), outputs=(0.75, 0.5))


LISTED = """
def normalize(s):
    total = s.sum(axis=-1, keepdims=True)
    return np.divide(s, total, out=np.zeros_like(s), where=total > 0).tolist()
"""


def _files(root: Path) -> dict[str, str]:
    """A hash of each file of a course, links left out."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@needs_sandbox
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_teacher_changes_a_share_sees_who_would_change_and_then_changes_it(
    sample_course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, lesson = tmp_path / "course", sample.lesson()
    course_copy.make(root, [lesson])
    (root / "course.toml").unlink()
    settings = (sample_course / "course.toml").read_text()
    (root / "course.toml").write_text(settings)
    for student, source in (("ada", None), ("ben", LISTED)):
        notebook = demo.perfect(root, lesson)
        if source:
            demo.set_answer(notebook, "normalize", source)
        demo.submit(root, lesson, student, notebook)
    first = {row.student: row for row in grade_assignment(root, lesson.name, workers=1).rows}
    assert first["ben"].exercises["normalize"].score == 1.5
    assert first["ben"].exercises["normalize"].status == "part"
    lists = '"01.normalize.as_list" = 0.5'
    (root / "course.toml").write_text(f'{settings}\n[points]\n"01.normalize" = 4\n[keeps]\n{lists}\n')
    monkeypatch.setenv("ATTN_COURSE", str(root))
    from autograder.authoring import course

    course.course_root.cache_clear()
    try:
        before = _files(root)
        assert main(["grade", "01", "--again", "--dry-run", "--workers", "1"]) == 0
        said = capsys.readouterr().out
        assert "Marks of 2 students would change:" in said
        assert "(normalize 1.5 → 2)" in said
        assert "(normalize 2 → 4)" in said
        assert "Nothing was written." in said
        assert _files(root) == before
        assert main(["grade", "01", "--workers", "1", "--json"]) == 0  # a changed rule alone has everybody graded again
        graded = json.loads(capsys.readouterr().out)
        assert {(each["student"], each["before"], each["after"]) for each in graded["changed"]} == {
            ("ada", 2.0, 4.0),
            ("ben", 1.5, 2.0),
        }
        assert main(["grade", "01", "--again", "--dry-run", "--workers", "1"]) == 0
        assert "No marks change." in capsys.readouterr().out
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
            cells = {cell.name: cell.max_score for cell in gradebook.find_notebook(lesson.name, lesson.name).grade_cells}
        assert cells["normalize_check"] == 4
        scheme = make_mark_scheme(root, lesson.name)
        assert scheme.visible.exercises["normalize"].points == scheme.hidden.exercises["normalize"].points == 4
        assert main(["grade", "01", "--dry-run", "--feedback"]) == 2
    finally:
        monkeypatch.delenv("ATTN_COURSE")
        course.course_root.cache_clear()
