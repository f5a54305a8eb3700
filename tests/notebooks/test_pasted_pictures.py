"""A picture pasted into an answer is drawn again, and neither one nor all of them make a page that cannot be sent."""

import base64
import io

import numpy as np

from autograder.grading.marking.read_submission import draw
from autograder.notebooks import pictures


def pasted(width: int, height: int, seed: int = 0, kind: str = "JPEG") -> str:
    """A picture of noise, which no format can pack well, as base64."""
    from PIL import Image

    file, noise = io.BytesIO(), np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


def size(encoded: str) -> tuple[int, int]:
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(encoded)), formats=["PNG"]) as picture:
        return picture.size


def test_a_small_picture_keeps_every_pixel() -> None:
    from PIL import Image

    original = pasted(60, 40, kind="PNG")
    drawn = pictures.drawn_again(original)
    assert drawn is not None
    before, after = (Image.open(io.BytesIO(base64.b64decode(each))).convert("RGB").tobytes() for each in (original, drawn))
    assert before == after


def test_a_large_photograph_is_shown_smaller_and_keeps_its_shape() -> None:
    drawn = pictures.drawn_again(pasted(3000, 1500))
    assert drawn is not None
    assert len(drawn) <= pictures.MAX_SHOWN
    width, height = size(drawn)
    assert width in pictures.SIDES
    assert abs(width - 2 * height) <= 2


def test_the_pictures_of_a_submission_are_bounded_together_and_the_first_are_kept() -> None:
    several = {f"written_{number}": tuple(pasted(800, 600, 10 * number + one) for one in range(6)) for number in range(3)}
    drawn = draw(several)
    assert sum(len(one) for each in drawn.values() for one in each) <= pictures.MAX_SHOWN_TOGETHER
    assert len(drawn["written_0"]) == 6
    assert len(drawn["written_2"]) < 6
