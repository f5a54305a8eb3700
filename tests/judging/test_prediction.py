"""A prediction is declared by a class of its own, is graded for being made, and travels in a pack as it is declared."""

from pathlib import Path
from typing import Any

import pytest

from autograder import Case, Exercise, Prediction
from autograder.authoring.verify import verify_exercise
from autograder.diagnosis.explain import make_report
from autograder.judging.compare import judge_choice
from autograder.packs import make_pack, pack_file
from autograder.packs.record_json import from_json, to_json

GUESS = Prediction("guess", "Guess", 0.5, {"a": "more", "b": "less"}, holds="b", reveal="Less.", difficulty=1, minutes=2)
TWICE = Exercise(
    "twice", "Twice", 1, lambda x: 2 * x, (Case("one", lambda draw: {"x": draw.normal(3)}),), hints=("a", "b", "c")
)  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"choices": {}}, "prediction 'guess': expected choices, got none"),
        ({"holds": "c"}, "prediction 'guess': expected `holds` to be one of a, b, got 'c'"),
        ({"id": "a guess"}, "expected an identifier"),
        ({"points": 0}, "expected points > 0, got 0"),
        ({"difficulty": 6}, "expected difficulty 1 to 5 and minutes > 0, got 6"),
        ({"minutes": 0}, "minutes > 0"),
    ],
)
def test_a_prediction_that_makes_no_sense_is_refused(settings: dict[str, Any], said: str) -> None:
    declared: dict[str, Any] = {"id": "guess", "title": "Guess", "points": 1, "choices": {"a": "more", "b": "less"}}
    with pytest.raises(ValueError, match=said):
        Prediction(**{**declared, **settings})


def test_any_choice_has_all_points_and_the_panel_says_which_holds() -> None:
    assert [judge_choice(GUESS, value).score for value in ("a", "b", "c", None)] == [0.5, 0.5, 0, 0]
    wrong, right = (make_report(judge_choice(GUESS, choice)) for choice in "ab")
    assert (wrong.status, wrong.surprise, wrong.detail) == ("pass", True, "Less.")
    assert (right.status, right.surprise, right.detail) == ("pass", False, "Less.")
    assert verify_exercise("a_lesson", GUESS).problems == []


def test_a_prediction_travels_in_the_pack_beside_exercises_in_code(tmp_path: Path) -> None:
    made = make_pack.make("a_lesson", "A lesson", [GUESS, TWICE])
    path = tmp_path / f"a_lesson{pack_file.SUFFIX}"
    pack_file.save(made, path)
    found = pack_file.load(path)
    assert found.digest == made.digest
    assert found.exercises["guess"] == GUESS
    assert list(found.exercises) == ["guess", "twice"]
    assert list(found.in_code) == list(found.near_counts) == ["twice"]
    assert found.points == 1.5
    assert [record.hints for record in found.exercises.values()] == [(), ("a", "b", "c")]
    assert pack_file.differences(found, made.without_repair) == ["twice: declaration or shapes differ"]


def test_packs_of_format_3_keep_one_kind_of_entry() -> None:
    """An engine of version 0.2 reads a prediction as an exercise without cases."""
    arrays: list[Any] = []
    entry, other = to_json(GUESS, arrays), to_json(make_pack.make_record("a_lesson", TWICE, 0, naming="listed"), arrays)
    assert entry.keys() == other.keys()
    assert (entry["cases"], entry["hints"], entry["programs"], entry["choices"]) == ([], [], [], GUESS.choices)
    assert (other["choices"], other["holds"], other["reveal"]) == ({}, "", "")
    del entry["holds"]  # as in packs that were made before a choice could hold
    assert from_json(entry, []) == Prediction("guess", "Guess", 0.5, GUESS.choices, "", "Less.", difficulty=1, minutes=2)
