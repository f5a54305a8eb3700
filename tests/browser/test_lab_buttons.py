"""Check, Hint and Reset at an exercise in JupyterLab, and Run at a folded cell: clicked in a real browser."""

from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import CourseError
from autograder.workspace import folder as workspace
from autograder.workspace.in_cells.released import released_source
from tests.browser.test_jupyterlab import open_lesson, type_source

LESSON, EXERCISE = "00_start_here", "average_pool"
BROWSER = (pytest.mark.browser, pytest.mark.timeout(600))


def marked(test: Any) -> Any:
    for mark in BROWSER:
        test = mark(test)
    return test


def test_the_released_text_of_an_answer_is_found_and_nothing_else(tmp_path: Path) -> None:
    work = workspace.prepare(tmp_path / "work")
    assert released_source(work, LESSON, EXERCISE).startswith(f"def {EXERCISE}(")
    with pytest.raises(CourseError, match="expected an answer cell `no_such`"):
        released_source(work, LESSON, "no_such")
    with pytest.raises(CourseError, match="expected the release of 99_none"):
        released_source(work, "99_none", EXERCISE)


def test_without_a_workspace_the_released_text_is_the_courses(tmp_path: Path) -> None:
    """A student on a hub has the notebook from nbgrader's exchange."""
    assert released_source(tmp_path, LESSON, EXERCISE).startswith(f"def {EXERCISE}(")


@pytest.fixture
def page(jupyter: tuple[str, Path], browser: Any) -> Any:
    """Lesson 00 as it was released, in JupyterLab."""
    url, work = jupyter
    (work / LESSON / f"{LESSON}.ipynb").unlink()
    workspace.prepare(work)
    opened = browser.new_page(viewport={"width": 1024, "height": 900})
    open_lesson(opened, url, LESSON)
    yield opened
    opened.close()


def pressed(page: Any, label: str) -> None:
    button = page.get_by_role("button", name=label, exact=True)
    button.scroll_into_view_if_needed()
    button.click()


@marked
def test_a_learner_sees_no_menu_of_nbgraders(page: Any) -> None:
    pytest.importorskip("nbgrader", reason="nbgrader is not installed, so it has no menu")
    page.locator(".lm-MenuBar-item", has_text="Kernel").wait_for()
    assert page.locator(".lm-MenuBar-item", has_text="Nbgrader").count() == 0
    assert page.get_by_role("button", name="Validate").count() == 0


@marked
def test_check_runs_the_answer_and_its_check_in_a_fresh_kernel(page: Any, tmp_path: Path) -> None:
    page.locator(".jp-CodeCell", has_text=f"def {EXERCISE}").first.locator(".cm-content").click()
    type_source(page, f"def {EXERCISE}(V):\n    return V.mean(axis=1)")
    pressed(page, f"Check {EXERCISE}")
    panel = page.locator(".jp-CodeCell", has_text=f'check("{EXERCISE}")').locator(".attn-panel")
    panel.wait_for(timeout=120_000)
    assert "not yet" in panel.inner_text()
    page.screenshot(path=str(tmp_path / "buttons.png"))


@marked
def test_hint_is_shown_below_the_panel_and_changes_no_cell(page: Any) -> None:
    check = page.locator(".jp-CodeCell", has_text=f'check("{EXERCISE}")')
    pressed(page, f"Check {EXERCISE}")
    check.locator(".attn-panel").wait_for(timeout=120_000)
    pressed(page, f"Hint {EXERCISE}")
    check.locator(".jp-OutputArea-child", has_text="Hint 1 of").last.wait_for(timeout=120_000)
    assert "not started" in check.locator(".attn-panel").first.inner_text(), "what the check said stays"


@marked
def test_reset_asks_first_and_can_be_undone(page: Any) -> None:
    answer = page.locator(".jp-CodeCell", has_text=f"def {EXERCISE}").first
    answer.locator(".cm-content").click()
    type_source(page, f"def {EXERCISE}(V):\n    return V.sum()  # mine")
    page.wait_for_timeout(1000)  # the editor undoes together what follows within half a second
    pressed(page, f"Reset {EXERCISE}")
    page.get_by_role("button", name="Cancel").click()
    answer.locator(".cm-content", has_text="# mine").wait_for()
    pressed(page, f"Reset {EXERCISE}")
    page.locator(".jp-Dialog").get_by_role("button", name="Reset").click()
    answer.locator(".cm-content", has_text="YOUR CODE HERE").wait_for(timeout=120_000)
    answer.locator(".cm-content").click()
    page.keyboard.press("Control+Z")
    answer.locator(".cm-content", has_text="# mine").wait_for()


@marked
def test_a_folded_cell_runs_and_stays_folded(page: Any) -> None:
    pressed(page, f"Check {EXERCISE}")  # runs the set-up too
    folded = page.locator(".jp-CodeCell:has(> .attn-buttons button[aria-label='Run the folded cell'])").nth(1)  # a figure
    button = folded.get_by_role("button", name="Run the folded cell")
    button.scroll_into_view_if_needed()
    button.click()
    folded.locator(".jp-OutputArea-child").first.wait_for(timeout=120_000)
    assert folded.locator(".jp-InputPlaceholder, .jp-Placeholder").first.is_visible()
    assert not folded.locator(".cm-content").is_visible()


@marked
def test_a_notebook_without_checks_gets_no_buttons(jupyter: tuple[str, Path], browser: Any) -> None:
    url, work = jupyter
    cells = [nbformat.v4.new_code_cell("1 + 1", metadata={"jupyter": {"source_hidden": True}}), nbformat.v4.new_code_cell("2")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}  # or JupyterLab would ask
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), work / "own.ipynb")
    page = browser.new_page()
    page.goto(f"{url}/lab/tree/own.ipynb")
    shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")  # of several tabs
    page.locator(".lm-TabBar-tab.jp-mod-current", has_text="own.ipynb").wait_for(timeout=60_000)
    shown.locator(".jp-CodeCell").nth(1).wait_for(timeout=60_000)
    page.locator("#jp-main-statusbar", has_text="| Idle").wait_for(timeout=60_000)
    assert shown.locator(".attn-buttons").count() == 0
    page.close()
