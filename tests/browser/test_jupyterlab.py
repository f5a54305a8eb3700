"""A learner in JupyterLab, in a real browser: mouse and keyboard, light and dark, nothing that scrolls sideways."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.authoring import book
from autograder.authoring.course import course_root, lessons
from autograder.diagnosis.explain import MAX_SIDE, Grid, Report, make_report
from autograder.diagnosis.panel import to_html
from autograder.judging.compare import CHECKS, judge_choice
from autograder.workspace import folder as workspace
from autograder.workspace import index, progress
from autograder.workspace.in_cells.check import find_record

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


def _cell(page: Any, text: str) -> Any:
    """The code cell whose editor contains `text`, scrolled into view."""
    cell = page.locator(".jp-CodeCell", has_text=text).first
    cell.scroll_into_view_if_needed()
    return cell


def _replace(page: Any, cell: Any, source: str) -> None:
    cell.locator(".cm-content").click()
    type_source(page, source)
    page.keyboard.press("Control+Enter")


def type_source(page: Any, source: str) -> None:
    """Replace the text of the cell that is being edited, once its editor has the keyboard."""
    # JupyterLab marks the next cell before it unmarks the last one
    page.wait_for_function("document.querySelectorAll('.jp-Cell.jp-mod-active').length === 1", timeout=120_000)
    page.wait_for_selector(".jp-Cell.jp-mod-active .cm-content:focus", timeout=120_000)
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(source)
    page.locator(".jp-Cell.jp-mod-active .cm-content", has_text=source.splitlines()[-1].strip()).wait_for()


def open_lesson(page: Any, url: str, lesson: str) -> None:
    page.goto(f"{url}/lab/tree/{lesson}/{lesson}.ipynb")
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell >> visible=true", timeout=60_000)  # cells far away are not drawn
    page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', state="attached", timeout=60_000)
    page.locator("#jp-main-statusbar", has_text="| Idle").wait_for(timeout=60_000)


def test_a_learner_sees_the_misconception_named_and_then_the_right_answer_pass(
    jupyter: tuple[str, Path], browser: Any, tmp_path: Path
) -> None:
    url, _ = jupyter
    page = browser.new_page(viewport={"width": 1024, "height": 900})
    open_lesson(page, url, "00_start_here")
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


def test_the_panel_leads_to_the_next_answer_the_next_question_and_the_next_lesson(
    jupyter: tuple[str, Path], browser: Any
) -> None:
    """Each link is clicked: JupyterLab follows no link to a heading out of what a cell shows."""
    from playwright.sync_api import expect

    url, work = jupyter
    lesson = work / "00_start_here"
    (lesson / "00_start_here.ipynb").unlink()
    workspace.prepare(work)
    progress.forget(work, lesson.name, ["predict_shape", "average_pool"])
    page = browser.new_page(viewport={"width": 1024, "height": 500})
    open_lesson(page, url, lesson.name)
    _cell(page, "from jaxtyping import Float").locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    _replace(page, _cell(page, "predict_shape = None"), 'predict_shape = "b"')
    check = _cell(page, 'check("predict_shape")')
    check.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    check.locator(".attn-panel a", has_text="average_pool").click(timeout=60_000)
    answer = page.locator(".jp-CodeCell", has_text="def average_pool")
    expect(answer).to_be_in_viewport()
    progress.record(lesson, "average_pool", Report("pass", "t", 1, 1, "Correct."))
    check.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    check.locator(".attn-panel", has_text="1 question in words is open").wait_for(timeout=60_000)
    check.locator(".attn-panel a", has_text="Exercise 00.2: In words").click()
    expect(page.locator(".jp-MarkdownCell", has_text="Your answer:")).to_be_in_viewport()
    check.scroll_into_view_if_needed()
    check.locator(".attn-panel a", has_text="next lesson").click()
    page.locator(".lm-TabBar-tab.jp-mod-current", has_text="01_soft_lookup").wait_for(timeout=60_000)
    page.close()


SLIDER = """from attention_course.drawing import Drawing
from attention_course.moving import slider


def row(n):
    d = Drawing(alt="a row of cells")
    d.vector(n, "cells", role="query")
    return d


slider(row, n=[1, 2, 3, 4, 5], alt="A row that grows cell by cell.")"""


def test_arrow_keys_on_a_slider_move_it_and_not_the_notebook_and_ctrl_s_saves(jupyter: tuple[str, Path], browser: Any) -> None:
    from playwright.sync_api import expect

    url, work = jupyter
    (work / "00_start_here" / "00_start_here.ipynb").unlink()
    file = workspace.prepare(work) / "00_start_here" / "00_start_here.ipynb"
    page = browser.new_page(viewport={"width": 1024, "height": 900})
    open_lesson(page, url, "00_start_here")
    _replace(page, _cell(page, "def average_pool"), SLIDER)
    moves = page.locator(".ac-moving input[type=range]")
    moves.wait_for(timeout=60_000)
    saved = file.read_text(encoding="utf-8")
    moves.click()  # in the middle: the notebook is in command mode now
    expect(moves).to_have_value("2")
    here = page.locator(".jp-Cell.jp-mod-active .ac-moving")
    for key, value in {"ArrowLeft": "1", "ArrowRight": "2", "ArrowUp": "3", "ArrowDown": "2", "Home": "0", "End": "4"}.items():
        page.keyboard.press(key)
        expect(moves).to_have_value(value)
        expect(moves).to_be_focused()
        expect(here).to_be_visible()
    page.keyboard.press("Control+s")
    page.locator(".lm-TabBar-tab.jp-mod-current:not(.jp-mod-dirty)", has_text="00_start_here").wait_for(timeout=60_000)
    assert file.read_text(encoding="utf-8") != saved
    page.keyboard.press("ArrowLeft")
    expect(moves).to_have_value("3")
    page.close()


THEME = """async theme => {
  const token = (document.cookie.match(/_xsrf=([^;]*)/) || [])[1] || "";
  const answer = await fetch("/lab/api/settings/@jupyterlab/apputils-extension:themes", {
    method: "PUT",
    headers: {"Content-Type": "application/json", "X-XSRFToken": token},
    body: JSON.stringify({raw: JSON.stringify({theme})}),
  });
  return answer.ok;
}"""
# The lowest contrast (WCAG 2) of any text in the panel with what is behind it, and that text.
CONTRAST = """panel => {
  const read = text => { const n = text.match(/[\\d.]+/g).map(Number); return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1]; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = element => {
    if (!element) return [255, 255, 255, 1];
    const own = read(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, ground(element.parentElement));
  };
  const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * linear(c[0] / 255) + 0.7152 * linear(c[1] / 255) + 0.0722 * linear(c[2] / 255);
  const walker = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
  let worst = [99, ""];
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text) continue;
    const below = ground(element), [a, b] = [light(over(read(getComputedStyle(element).color), below)), light(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, text];
  }
  return worst;
}"""
# Elements that stick out of the panel sideways, unless a box around them scrolls by itself; and the page, where it does.
OVERFLOW = """panel => {
  const edge = panel.getBoundingClientRect(), out = [];
  const scrolls = e => e !== panel && (getComputedStyle(e).overflowX === "auto" || scrolls(e.parentElement));
  for (const e of panel.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    const outside = box.width && (box.right > edge.right + 1 || box.left < edge.left - 1);
    if (outside && !scrolls(e.parentElement)) out.push(e.outerHTML.slice(0, 80));
  }
  const cell = panel.closest(".jp-OutputArea-output");
  if (cell.scrollWidth > cell.clientWidth + 1) out.push("the output area scrolls");
  if (edge.right > window.innerWidth) out.push("the panel leaves the window");
  return out;
}"""


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_the_panels_are_readable_in_each_theme_on_a_small_screen_and_by_keyboard_alone(
    theme: str, jupyter: tuple[str, Path], browser: Any, tmp_path: Path
) -> None:
    url, work = jupyter
    (work / "00_start_here" / "00_start_here.ipynb").unlink()  # as released, whatever ran before
    workspace.prepare(work)
    page = browser.new_page(viewport={"width": 1024, "height": 900})
    page.goto(f"{url}/lab", wait_until="domcontentloaded")
    assert page.evaluate(THEME, theme)
    open_lesson(page, url, "00_start_here")
    assert page.evaluate("document.body.dataset.jpThemeName") == theme
    keys = page.keyboard
    _go_to(page, "from jaxtyping import Float")
    keys.press("Shift+Enter")
    _go_to(page, "def average_pool")
    keys.press("Enter")
    type_source(page, "def average_pool(V):\n    return V.sum(axis=0)")
    keys.press("Shift+Enter")
    keys.press("Shift+Enter")
    panel = page.locator(".attn-panel")
    panel.wait_for(timeout=60_000)
    keys.press("ArrowUp")  # back to the check; Tab goes through its toolbar, where it shows, and then its hints
    opened, folded = panel.locator("details[open]"), panel.locator("details").count()
    for _ in range(25):
        if opened.count() == folded:
            break
        keys.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            keys.press("Enter")
    assert opened.count() == folded >= 4  # the failing input and the hints
    assert "which axis should disappear" in panel.inner_text()  # the last hint
    _look(panel, tmp_path / "failing.png")
    page.screenshot(path=str(tmp_path / "page.png"))
    keys.press("Escape")
    _go_to(page, 'check("average_pool")')
    keys.press("b")  # a cell of one's own, below
    keys.press("Enter")
    type_source(page, "check()")
    keys.press("Shift+Enter")
    overview = page.locator(".attn-panel", has_text="predict_shape")
    overview.wait_for(timeout=60_000)
    assert "you added the rows but did not divide" in overview.inner_text()
    _look(overview, tmp_path / "overview.png")
    assert page.locator(".Toastify__toast").count() == 0  # nothing asks for anything
    page.close()


@pytest.mark.parametrize("theme", ["JupyterLab Light", pytest.param("JupyterLab Dark", marks=pytest.mark.slow)])
def test_the_index_shows_each_lesson_and_leads_to_the_next(
    jupyter: tuple[str, Path], browser: Any, tmp_path: Path, theme: str
) -> None:
    url, home = jupyter
    index.write(home)
    page = browser.new_page(viewport={"width": 1024, "height": 800})
    page.goto(f"{url}/lab")
    page.wait_for_selector("#jp-main-dock-panel", timeout=60_000)
    assert page.evaluate(THEME, theme)
    page.goto(f"{url}/lab/tree/{index.NAME}")
    page.locator("#jp-main-statusbar", has_text="| Idle").wait_for(timeout=60_000)
    seen = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")  # of several tabs
    table = seen.locator(".jp-OutputArea .jp-RenderedMarkdown table")
    table.locator("tr").nth(len(lessons())).wait_for(timeout=60_000)  # below its heads a row for each
    page.screenshot(path=str(tmp_path / "index.png"))
    contrast, text = table.evaluate(CONTRAST)
    assert contrast >= 4.5, text
    progress.record(home / "01_soft_lookup", "attention_pool", make_report(judge_choice(find_record("predict_shape"), "b")))
    seen.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Control+Enter")
    row = table.locator("tr", has_text="Soft lookup")
    row.locator("td", has_text="begun").wait_for(timeout=60_000)
    assert row.locator("td", has_text="1 of 5").count() == 1
    page.screenshot(path=str(tmp_path / "after.png"))
    table.locator("a", has_text="02 Scoring functions").click()
    seen.locator("h1", has_text="Scoring functions").wait_for(timeout=60_000)
    page.close()


def _go_to(page: Any, text: str) -> None:
    """Make the first cell with `text` the active one, by the arrow keys, in command mode."""
    find = "text => [...document.querySelectorAll('.jp-Cell')].findIndex(cell => cell.innerText.includes(text))"
    here = "[...document.querySelectorAll('.jp-Cell')].findIndex(cell => cell.classList.contains('jp-mod-active'))"
    for _ in range(100):
        found = page.evaluate(find, text)  # -1 where the cell is too far away to be drawn yet: it lies below
        steps = found - page.evaluate(here)
        if found >= 0 and steps == 0:
            break
        page.keyboard.press("ArrowUp" if found >= 0 and steps < 0 else "ArrowDown")
    page.locator(".jp-Cell.jp-mod-active", has_text=text).wait_for()


def test_the_measures_of_a_panel_find_faint_text_and_what_sticks_out(browser: Any) -> None:
    page = browser.new_page(viewport={"width": 500, "height": 300})
    box = '<div class="jp-OutputArea-output" style="width:300px"><div id="p" style="background:rgb(0,0,0)">{}</div></div>'
    page.set_content(box.format('<b style="color:rgba(255,255,255,0.4)">faint</b><b style="color:#fff">clear</b>'))
    contrast, text = page.locator("#p").evaluate(CONTRAST)
    assert (round(contrast, 1), text) == (3.7, "faint")  # of #666666 on black, by WCAG's formula
    assert page.locator("#p").evaluate(OVERFLOW) == []
    page.set_content(box.format('<pre style="width:400px">wide</pre>'))
    assert len(page.locator("#p").evaluate(OVERFLOW)) == 2
    page.set_content(box.format('<div style="overflow-x:auto"><pre style="width:400px">wide</pre></div>'))
    assert page.locator("#p").evaluate(OVERFLOW) == []
    page.close()


def test_a_large_matrix_and_long_words_stay_inside_a_narrow_panel(browser: Any, tmp_path: Path) -> None:
    cells = np.linspace(-1234.5, 1234.5, MAX_SIDE**2).reshape(MAX_SIDE, MAX_SIDE)
    grids = tuple(Grid(title, cells, cells > 0, (3, 4)) for title in ("expected", "yours", "yours − expected"))
    report = Report("part", "A title " * 12, 0.5, 2, f"You wrote `{'long_name_' * 12}`.", detail="Words " * 60, grids=grids,
                    snippet="x = np.array(" + "[0.123], " * 60 + ")", checks=tuple((name, "pass") for name in CHECKS),
                    hints=("A hint with `code`.",) * 3)  # fmt: skip
    page = browser.new_page(viewport={"width": 620, "height": 900})
    page.set_content(f'<div class="jp-OutputArea-output" style="width:560px">{to_html(report)}</div>')
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    _look(page.locator(".attn-panel"), tmp_path / "wide.png")
    page.close()


def _look(panel: Any, picture: Path) -> None:
    """The panel can be read and fits; its picture is kept for people."""
    panel.screenshot(path=str(picture))
    contrast, text = panel.evaluate(CONTRAST)
    assert contrast >= 4.5, text
    assert panel.evaluate(OVERFLOW) == []


WIDE = """selector => [...document.querySelectorAll(selector)]
  .filter(e => !e.closest(".katex-mathml"))  // for screen readers alone: one pixel wide
  .filter(e => e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1)  // 1: widths are rounded
  .map(e => `${e.tagName} ${e.scrollWidth} > ${e.clientWidth}: ${e.textContent.trim().slice(0, 80)}`)"""


@pytest.mark.slow
def test_no_page_of_the_book_and_nothing_on_it_scrolls_sideways(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1024, "height": 768})
    boxes = "html, pre, table, math, .katex-display, img, svg, .jp-OutputArea-output, .attn-panel"
    for path in book.build(lessons(), tmp_path):
        if not path.stem[:2].isdigit() and path.stem != "index":
            continue  # lines of code in the appendix and the documents may be longer than a lesson's
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        assert page.evaluate(WIDE, boxes) == [], path.name
    page.set_viewport_size({"width": 500, "height": 768})
    page.goto((tmp_path / "01_soft_lookup.html").as_uri())
    assert page.evaluate(WIDE, "pre") != []  # what does scroll is found
    page.close()


DRAWN = "[...document.querySelectorAll('[data-windowed-list-index]')].map(e => e.dataset.windowedListIndex)"


@pytest.mark.slow
def test_no_cell_of_an_executed_lesson_scrolls_sideways_in_jupyterlab(jupyter: tuple[str, Path], browser: Any) -> None:
    url, folder = jupyter
    name = "03_scaled_dot_product"
    shutil.copyfile(course_root() / "source" / name / f"{name}.ipynb", folder / name / f"{name}.ipynb")
    page = browser.new_page(viewport={"width": 1024, "height": 1400})
    open_lesson(page, url, name)
    assert page.locator("#jp-left-stack").bounding_box()["width"] > 200  # the file browser is open and takes its part
    selector = ", ".join(
        f".jp-Notebook {part}" for part in (".cm-scroller", ".jp-OutputArea-output", "table", "pre", "mjx-container")
    )
    shown, below = set[str](), True
    while below:  # JupyterLab draws only the cells near the window
        assert page.evaluate(WIDE, selector) == []
        shown |= set(page.evaluate(DRAWN))
        below = page.evaluate(
            "() => { const e = document.querySelector('.jp-WindowedPanel-outer'), before = e.scrollTop;"
            " e.scrollTop += 1000; return e.scrollTop > before; }"
        )
        page.wait_for_timeout(250)
    assert len(shown) > 10  # how many are drawn before they have been passed depends on the machine
    page.close()
