"""A learner in JupyterLab, in a real browser: a wrong answer is named, a right one passes."""

from pathlib import Path
from typing import Any

import pytest

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
