"""The drawings: well-formed, described, alike in every process, readable on light and on dark."""

import base64
import io
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from attention_course.drawing import Drawing
from attention_course.drawing.arrows import _ends
from attention_course.drawing.colours import PAPER, ROLES, bright, contrast, mix, paint
from attention_course.thread import INDEX, TOKENS, VECTORS
from PIL import Image

EXAMPLE = """
from attention_course.drawing import Drawing
d = Drawing(alt="Q times K transposed gives the scores S.")
Q = d.matrix((3, 4), "Q", role="query", sizes=("n", "d_k"))
d.text("x")
K = d.matrix((4, 5), "K^T", role="key", sizes=("d_k", "m"))
S = d.matrix((3, 5), "S", role="score", below=Q, highlight=[(1, 2)])
d.arrow(Q, S, "d_k")
d.brace([Q, K], "two tables", side="above")
print(d.svg())
"""


def example() -> str:
    return subprocess.run([sys.executable, "-c", EXAMPLE], capture_output=True, text=True, check=True).stdout


def test_a_drawing_needs_a_description() -> None:
    for alt in ("", "Q", "a matrix"):
        with pytest.raises(ValueError, match="alt: expected a sentence"):
            Drawing(alt=alt)


def test_the_same_drawing_is_the_same_text_in_every_process() -> None:
    assert example() == example()


def test_it_is_well_formed_and_says_what_it_shows() -> None:
    root = ElementTree.fromstring(example())
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Q times K transposed gives the scores S."
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    assert not re.findall(r'\bid="', example()), "ids would have to be unique on a page of many drawings"


def test_letters_are_never_smaller_than_twelve() -> None:
    assert min(float(size) for size in re.findall(r'font-size="([\d.]+)"', example())) >= 12


@pytest.mark.parametrize("role", sorted(ROLES))
def test_lines_and_letters_are_readable_on_light_and_on_dark(role: str) -> None:
    shades = ROLES[role]
    assert contrast(shades.light, PAPER[0]) >= 4.5
    assert contrast(shades.dark, PAPER[1]) >= 4.5


def test_an_unknown_role_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean query"):
        Drawing(alt="one row of a table").vector(3, "q", role="querry")


def test_an_array_is_drawn_with_its_numbers_and_what_is_masked_is_hatched() -> None:
    d = Drawing(alt="a two by two table of weights, one of them masked")
    d.matrix(np.array([[1.0, 0.0], [0.25, 0.75]]), "A", role="weight", entries="{:.2f}", mask=np.tri(2, dtype=bool))
    text = d.svg()
    assert "0.25" in text
    assert "0.00" not in text, "a masked cell has no number"


def test_the_thread_has_a_vector_for_each_word_and_it_prefers_the_pear() -> None:
    assert VECTORS.shape == (len(TOKENS), 2)
    scores = VECTORS @ VECTORS[INDEX["it"]]
    assert scores.argmax() == INDEX["pear"]


def test_a_large_matrix_is_a_small_image_with_a_dot_for_each_number() -> None:
    numbers = np.random.default_rng(0).standard_normal((64, 64))

    def drawn() -> str:
        d = Drawing(alt="sixty-four keys as an image")
        d.picture(numbers, "keys", low=-3, high=3, sizes=("64 tokens", "64 features"))
        return d.svg()

    assert drawn() == drawn()
    assert len(drawn()) < 9000
    (data,) = re.findall(r'href="data:image/png;base64,([^"]+)"', drawn())
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        assert image.size == (64, 64)
        red, _, blue = image.convert("RGB").getpixel((0, 0))  # the first number is a little above 0, in red and blue
    assert (red > blue) == (numbers[0, 0] > 0)


def test_a_wide_drawing_is_shown_as_wide_as_a_column_and_remembers_its_width() -> None:
    d = Drawing(alt="a row of forty cells")
    d.vector(40, "x", role="input")
    text = d.svg()
    assert ' width="840"' in text
    assert re.search(r'viewBox="\S+ \S+ 982 ', text)
    assert 'style="--wide:982px;' in text


def test_a_level_arrow_meets_a_narrow_column_with_a_wide_label_below_it() -> None:
    d = Drawing(alt="a column with a long name, and a box on its right")
    column = d.vector(5, "a very wide label", role="score", vertical=True)
    box = d.box("next", gap=40)
    assert column.extent[2] - (column.x + column.w) > 40
    (start, _), (end, _) = _ends(column, box, "")
    assert 0 < start - (column.x + column.w) <= 6
    assert 0 < box.x - end <= 6
    assert column.reach[1] == column.x + column.w
    d.brace(column, "5", side="right")
    assert column.reach[1] == column.extent[2], "the brace stands beside the label, in the way of an arrow"


@pytest.mark.parametrize("role", sorted(ROLES))
@pytest.mark.parametrize("opacity", [0.0, 0.15, 0.3, 0.45, 0.6, 0.75])
def test_numbers_on_coloured_cells_are_readable_on_light_and_on_dark(role: str, opacity: float) -> None:
    kind = ("bright", role) if bright(role, opacity) else ("line", "plain")
    for letters, cell, page in zip(paint(*kind), paint("heat", role), PAPER, strict=True):
        assert contrast(letters, mix(cell, page, opacity)) >= 4.2
