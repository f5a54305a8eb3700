"""Lessons in a real browser: a wrong answer is named, a right one passes, and at 1024 pixels nothing scrolls sideways."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from autograder import book
from autograder.registry import course_root, lessons

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


def _cell(page: Any, text: str) -> Any:
    """The code cell whose editor contains `text`, scrolled into view."""
    cell = page.locator(".jp-CodeCell", has_text=text).first
    cell.scroll_into_view_if_needed()
    return cell


def _replace(page: Any, cell: Any, source: str) -> None:
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(source)
    page.keyboard.press("Control+Enter")


def _open(page: Any, url: str, lesson: str) -> None:
    page.goto(f"{url}/lab/tree/{lesson}/{lesson}.ipynb")
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
    page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', state="attached", timeout=60_000)


def test_a_learner_sees_the_misconception_named_and_then_the_right_answer_pass(
    jupyter: tuple[str, Path], browser: Any, tmp_path: Path
) -> None:
    url, _ = jupyter
    page = browser.new_page(viewport={"width": 1024, "height": 900})
    _open(page, url, "00_start_here")
    _cell(page, "from jaxtyping import Float").locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    answer, check = _cell(page, "def average_pool"), _cell(page, 'check("average_pool")')
    _replace(page, answer, "def average_pool(V):\n    return V.mean(axis=1)")
    check.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    panel = check.locator(".attn-panel")
    panel.wait_for(timeout=60_000)
    assert "inside" in panel.inner_text()
    assert "not yet" in panel.inner_text()
    panel.screenshot(path=str(tmp_path / "failing.png"))
    page.screenshot(path=str(tmp_path / "page.png"))
    _replace(page, answer, "def average_pool(V):\n    return V.mean(axis=0)")
    check.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    check.locator(".attn-panel", has_text="passed").wait_for(timeout=60_000)
    panel.screenshot(path=str(tmp_path / "passing.png"))
    page.close()


WIDE = """selector => [...document.querySelectorAll(selector)]
  .filter(e => e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1)  // 1: widths are rounded
  .map(e => `${e.tagName} ${e.scrollWidth} > ${e.clientWidth}: ${e.textContent.trim().slice(0, 80)}`)"""


def test_no_page_of_the_book_and_nothing_on_it_scrolls_sideways(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1024, "height": 768})
    for path in book.build(lessons(), tmp_path):
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        assert page.evaluate(WIDE, "html, pre, table, math, img, svg, .jp-OutputArea-output, .attn-panel") == [], path.name
    page.set_viewport_size({"width": 500, "height": 768})
    page.goto((tmp_path / "03_scaled_dot_product.html").as_uri())
    assert page.evaluate(WIDE, "pre") != []  # what does scroll is found
    page.close()


def test_no_cell_of_an_executed_lesson_scrolls_sideways_in_jupyterlab(jupyter: tuple[str, Path], browser: Any) -> None:
    url, folder = jupyter
    name = "03_scaled_dot_product"
    shutil.copyfile(course_root() / "source" / name / f"{name}.ipynb", folder / name / f"{name}.ipynb")
    page = browser.new_page(viewport={"width": 1024, "height": 1400})
    _open(page, url, name)
    _cell(page, "import torch").locator(".cm-content").click()
    page.keyboard.press("Control+b")  # hides the file browser, which takes a third of so small a window
    page.wait_for_function("[...document.querySelectorAll('.jp-CodeCell .cm-scroller')].some(e => e.clientWidth > 800)")
    selector = ", ".join(
        f".jp-Notebook {part}" for part in (".cm-scroller", ".jp-OutputArea-output", "table", "pre", "mjx-container")
    )
    below, cells = True, 0
    while below:  # JupyterLab draws only the cells near the window
        assert page.evaluate(WIDE, selector) == []
        cells = max(cells, page.evaluate("document.querySelectorAll('.jp-Notebook .jp-Cell').length"))
        below = page.evaluate(
            "() => { const e = document.querySelector('.jp-WindowedPanel-outer'), before = e.scrollTop;"
            " e.scrollTop += 1000; return e.scrollTop > before; }"
        )
        page.wait_for_timeout(250)
    assert cells > 5
    page.close()
