"""Make the README's pictures. Needs Chromium.

`python -m tools.readme_pictures` films JupyterLab, where a check fails, names the mistake, and passes once it is mended.
`python -m tools.readme_pictures figure` draws the figure of the landing page.
"""

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from autograder.authoring import front_door
from tests.browser.test_jupyterlab import open_lesson, type_source
from tests.conftest import CHROMIUM, FLAGS, lab

TARGET = Path(__file__).parent.parent / ".github" / "check.gif"
FIGURE = TARGET.with_name("attention.png")
LESSON = "03_scaled_dot_product"
HEAD = "def scaled_scores(Q, K):\n"
WRONG = "    return Q @ K.transpose(-2, -1) / Q.shape[-1]"
RIGHT = "    return Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])"
COLOURS = 64
SCALE = 1.5  # pixels of the film for each of the page: sharp on most screens


class Film:
    """Frames with their durations; written as a GIF that plays once and stops at its last frame."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._frames: list[Image.Image] = []
        self._ms: list[int] = []

    def shoot(self, ms: int) -> None:
        shot = Image.open(io.BytesIO(self._page.screenshot())).convert("RGB")
        self._frames.append(shot.quantize(COLOURS, dither=Image.Dither.NONE))
        self._ms.append(ms)

    def write(self, path: Path) -> None:
        first, *rest = self._frames
        first.save(path, save_all=True, append_images=rest, duration=self._ms, optimize=True)


def main() -> None:
    """Write the film."""
    with tempfile.TemporaryDirectory() as folder, lab(Path(folder)) as (url, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 900, "height": 600}, device_scale_factor=SCALE)
        open_lesson(page, url, LESSON)
        page.keyboard.press("Control+B")  # the file browser away
        button = page.get_by_role("button", name="Check scaled_scores", exact=True)
        check = page.locator(".jp-CodeCell", has_text='check("scaled_scores")').first
        answer = page.locator(".jp-CodeCell", has_text="def scaled_scores").first
        film = Film(page)
        for source, verdict in ((WRONG, "not yet"), (RIGHT, "passed")):
            answer.locator(".cm-content").click()
            type_source(page, HEAD + "    ")
            _top(answer)
            film.shoot(700)
            for end in range(4 + 8, len(source) + 8, 8):
                type_source(page, HEAD + source[:end])
                film.shoot(120)
            button.hover()
            _top(answer)
            film.shoot(600)
            button.click()
            check.locator(".attn-panel", has_text=verdict).wait_for(timeout=120_000)
            page.mouse.move(0, 0)
            _top(answer)
            film.shoot(5000)
        browser.close()
        film.write(TARGET)


def draw_figure() -> None:
    """Write the figure."""
    door = front_door.find()
    assert door is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 900, "height": 600}, device_scale_factor=2, color_scheme="light")
        page.set_content(f'<body style="background: white">{door.figure_html()}</body>')
        shot = Image.open(io.BytesIO(page.locator(".ac-stage svg").screenshot())).convert("RGB")
        browser.close()
    shot.quantize(4 * COLOURS, dither=Image.Dither.NONE).save(FIGURE, optimize=True)


def _top(cell: Any) -> None:
    cell.evaluate("cell => cell.scrollIntoView({block: 'start'})")


if __name__ == "__main__":
    draw_figure() if "figure" in sys.argv else main()
