"""The map of the transformer block: one drawing, described, with one part highlighted."""

import pytest
from attention_course.here import PARTS, you_are_here


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_highlighted_in_both_colour_schemes_and_described(part: str) -> None:
    svg = you_are_here(part).svg()
    assert "data-jp-theme-light" in svg  # with the colours of a dark page
    assert "you are here" in svg
    named = {"mlp": "MLP", "whole": "The whole block"}.get(part, part)
    assert named.lower() in svg.partition(" is highlighted.")[0].rpartition("logits. ")[2].lower()
    for word in ("tokens", "attention", "residual stream", "norm", "MLP", "logits"):
        assert f">{word}<" in svg


def test_maps_differ_only_in_what_is_highlighted() -> None:
    assert len({you_are_here(part).svg() for part in PARTS}) == len(PARTS)
    assert you_are_here("attention").svg() == you_are_here("attention").svg()


def test_an_unknown_part_is_refused_and_the_known_ones_are_listed() -> None:
    with pytest.raises(ValueError, match=r"expected one of tokens, positions, .*, got 'atention'"):
        you_are_here("atention")
