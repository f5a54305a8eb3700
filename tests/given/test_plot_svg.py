"""Plots as SVG: described, the same each time, in their own names, and readable on light and on dark."""

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from attention_course.drawing.colours import PAPER, contrast
from attention_course.plot_svg import plot_svg
from attention_course.plots import COLOURS, figure, heatmap


def drawn(alt: str = "A line that rises, and beside it four weights.") -> str:
    fig, (left, right) = figure(2)
    left.plot([1, 2, 3], [1, 2, 4], color=COLOURS[0], marker="o")
    left.plot([1, 2, 3], [2, 2, 2], color="0.5", label="one $d_k$")
    left.text(1, 2, "rises", color=COLOURS[4])
    left.legend()
    heatmap(right, np.array([[1.0, 0.0], [0.25, 0.75]]), mask=np.tri(2, dtype=bool))
    return plot_svg(fig, alt)


def test_it_is_well_formed_described_and_the_same_each_time() -> None:
    root = ElementTree.fromstring(drawn())
    assert root.get("role") == "img"
    assert root.get("aria-label") == "A line that rises, and beside it four weights."
    assert (root.get("width"), root.get("height")) == ("806", "288")
    assert drawn() == drawn()
    assert "DejaVu Sans', 'Bitstream" not in drawn()
    assert not re.search(r"<style>[^<]*\*\{", drawn()), "a rule for everything would change a whole page"


def test_two_on_a_page_share_no_names() -> None:
    names = [set(re.findall(r'\bid="([^"]+)"', drawn(alt))) for alt in ("The first of two plots.", "The second of two plots.")]
    assert names[0]
    assert not names[0] & names[1]
    assert all(f"#{name}" in drawn("The first of two plots.") for name in names[0])


@pytest.mark.parametrize("what", ["pl-f", "pl-s"])
def test_what_is_seen_on_light_is_seen_on_dark(what: str) -> None:
    text = drawn()
    found = dict(re.findall(rf"--({what}-[0-9a-f]{{6}}):(#[0-9a-f]{{6}})", text))
    assert found
    for name, dark in found.items():
        light = f"#{name[5:]}"
        assert contrast(dark, PAPER[1]) >= min(3.0, contrast(light, PAPER[0]))
    assert "--pl-f-8a5f00:#f2b134" in text, "letters take the shade that can be read on white"


def test_letters_on_a_coloured_cell_stay_as_they_are() -> None:
    text = drawn()
    black, white = (re.findall(rf">{number}</text>", text) for number in ("1.00", "0.25"))
    assert black
    assert white
    assert "pl-f-ffffff" not in text


def test_numbers_are_short() -> None:
    lines: list[Any] = re.findall(r' d="([^"]*)"', drawn())
    assert lines
    assert not re.search(r"\d\.\d{3}", " ".join(lines))
