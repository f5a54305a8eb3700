"""Workshop 04d: the references against independent oracles, and the dates that the model is trained on."""

import datetime
import random

import pytest
import torch
from attention_course.dates import START, draw_dates, to_numbers, to_text, who_sees_what

from solutions.cross_attention import shifted, three_masks


def test_an_encoder_and_decoder_hide_blanks_and_the_future_and_nothing_else() -> None:
    masks = three_masks(torch.tensor([[5, 6, 0], [7, 0, 0]]), n=2)
    seen = who_sees_what(masks, torch.tensor([[5, 6, 0], [7, 0, 0]]), 2)
    assert seen["encoder"].tolist() == [[[1, 1, 0], [1, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0], [0, 0, 0]]]
    assert seen["decoder"].tolist() == [[[1, 0], [1, 1]]] * 2
    assert seen["cross"].tolist() == [[[1, 1, 0]] * 2, [[1, 0, 0]] * 2]


@pytest.mark.parametrize(
    ("masks", "problem"),
    [
        ((torch.ones(2, 2).bool(),), "expected three masks"),
        ((torch.ones(1, 1), torch.ones(1, 1), torch.ones(1, 1)), "encoder: expected a mask of bool"),
        (
            (torch.ones(1, 1).bool(), torch.ones(3, 3).bool(), torch.ones(1, 1).bool()),
            "decoder: expected a shape that broadcasts",
        ),
    ],
)
def test_what_is_no_triple_of_masks_is_named(masks: tuple[torch.Tensor, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        who_sees_what(masks, torch.tensor([[5, 6, 0]]), 2)


def test_the_decoder_reads_the_start_and_all_earlier_characters() -> None:
    inputs, answers = shifted(torch.tensor([[5, 6, 7], [8, 9, 4]]), start=1)
    assert inputs.tolist() == [[1, 5, 6], [1, 8, 9]]
    assert answers.tolist() == [[5, 6, 7], [8, 9, 4]]


def test_a_source_and_its_target_are_the_same_day_and_held_out_days_never_occur_in_training() -> None:
    for held_out in (False, True):
        for source, target in draw_dates(200, random.Random(0), held_out=held_out):
            day = datetime.date.fromisoformat(target)
            assert (day.toordinal() % 10 == 0) == held_out
            assert str(day.year) in source
            assert str(day.day) in source


def test_characters_survive_their_numbers_and_no_date_needs_more_places_than_the_model_has() -> None:
    dates = draw_dates(2000, random.Random(0))
    numbers = to_numbers([source for source, _ in dates])
    assert [to_text(row) for row in numbers] == [source for source, _ in dates]
    assert numbers.shape[1] <= 48  # the places of the notebook's model
    assert {len(target) for _, target in dates} == {10}
    assert START != 0  # the blank
