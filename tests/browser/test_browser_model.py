"""A learner's own attention, from the notebooks of lessons 06, 07 and 09, runs the real model in a real browser."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import find_lesson
from autograder.authoring.reference_source import solution_source
from autograder.notebooks.roles import grade_id
from autograder.workspace import export

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
LESSON = "11_real_model"
HOMES = {"GroupedAttention": "real_model"}


def _written(work: Path, set_answer: Callable[[Path, str, str], None]) -> None:
    """The reference's answers in the learner's notebooks, exported; of lesson 11 what its chat needs, with no other cells."""
    for name in ("06_positions", "07_kv_cache", "09b_without_copies"):
        for exercise in find_lesson(name).in_code():
            module = exercise.reference.__module__.removeprefix("solutions.")
            set_answer(work / name / f"{name}.ipynb", exercise.id, solution_source(module, exercise.id))
    export.export(work)
    path = work / LESSON / f"{LESSON}.ipynb"
    for name, home in HOMES.items():
        set_answer(path, name, solution_source(home, name))
    notebook = nbformat.read(path, as_version=4)
    needed = ("load_model()", "mine = bring(", "SENTENCE = ", "compare(GroupedAttention)", "say(decoder", "Chat(decoder")
    notebook.cells = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code"
        and (grade_id(cell) in (*HOMES, "setup", "as_shown") or any(text in cell.source for text in needed))
    ]
    nbformat.write(notebook, path)


def _run_all(page: Any) -> None:
    """Run all cells; on a busy machine a notebook looks idle before its kernel is there, and the first click is lost."""
    from playwright.sync_api import TimeoutError as Late

    begun = page.locator(".jp-CodeCell .jp-InputPrompt", has_text=re.compile(r"\[(\*|\d+)\]")).first
    for patience in (15_000, 30_000, 60_000):
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()
        with contextlib.suppress(Late):
            begun.wait_for(timeout=patience)
            return
    raise AssertionError("no cell begins to run")


def test_the_learners_attention_generates_text_and_the_panel_answers(
    jupyter: tuple[str, Path], browser: Any, tmp_path: Path, set_answer: Callable[[Path, str, str], None]
) -> None:
    url, work = jupyter
    _written(work, set_answer)
    page = browser.new_page(viewport={"width": 1100, "height": 1000})
    # JupyterLab draws what is in sight only, and while outputs grow it may draw nothing: here it draws all
    settings = work.parent / "jupyter-home/config/lab/user-settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('{"windowingMode": "none"}')
    page.goto(f"{url}/lab/tree/{LESSON}/{LESSON}.ipynb")
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
    page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', state="attached", timeout=60_000)
    _run_all(page)
    panel = page.locator(".jp-OutputArea-output", has=page.get_by_role("button", name="Ask"))
    panel.wait_for(timeout=240_000)

    def output(text: str) -> Any:
        """The output that contains `text`, scrolled into view and drawn."""
        found = page.locator(".jp-OutputArea-output", has_text=text).first
        found.scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        return found

    brought = output("it passes its check of lesson").text_content()
    for slug in ("positions", "kv_cache", "without_copies"):
        assert f"yours, and it passes its check of lesson {slug}" in brought
    assert "the given one is used" not in brought
    page.screenshot(path=str(tmp_path / "brought.png"))
    written = output("all at once: the logits are off by 0.0")
    assert "The capital of France is Paris" in written.text_content()
    page.screenshot(path=str(tmp_path / "generated.png"))
    panel.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("per second with the cache").wait_for(timeout=120_000)
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped").or_(page.get_by_text("done")).first.wait_for(timeout=60_000)
    assert len(panel.locator("p").text_content()) > 3
    page.screenshot(path=str(tmp_path / "chat.png"))
    page.close()
