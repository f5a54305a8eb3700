"""The book: a site that reads offline, on a phone, in the dark, by keyboard and by a screen reader."""

import html
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring import book
from autograder.authoring.course import CourseError, course_root, lessons
from autograder.judging import pack

PHONE = 390


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book of all lessons."""
    folder = tmp_path_factory.mktemp("book")
    assert book.build(lessons(), folder)[-1] == folder / "index.html"
    return folder


def texts(site: Path) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(site.glob("*.html"))}


class Pictures(HTMLParser):
    """Collects pictures without words, and what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.mute: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "img" and len(given.get("alt") or "") < 15:
            self.mute.append(str(given)[:120])
        if tag in ("img", "script", "link", "iframe"):
            address = given.get("src") or (given.get("href") if tag == "link" else "") or ""
            if re.match(r"(https?:)?//", address):
                self.fetched.append(address)


def test_every_picture_has_words_and_no_page_fetches_anything(site: Path) -> None:
    for name, text in texts(site).items():
        found = Pictures()
        found.feed(text)
        assert found.mute == [], name
        assert found.fetched == [], name


def test_every_page_has_sidebar_search_contents_and_neighbours(site: Path) -> None:
    every, pages = lessons(), texts(site)
    for at, lesson in enumerate(every):
        text = pages[lesson.name]
        assert f"<title>{lesson.number:02d} " in text
        assert 'class="sidebar-search"' in text
        assert 'class="toc-tree"' in text
        for other in every:
            assert f'href="{other.name}.html"' in text or other == lesson
        if at:
            assert f'href="{every[at - 1].name}.html"' in text.partition("related-pages")[2]
    assert (site / "searchindex.js").stat().st_size > 1000


def test_hints_and_solutions_are_folded_at_each_exercise_and_formulas_need_no_script(site: Path) -> None:
    for lesson in lessons():
        text = texts(site)[lesson.name]
        records = pack.load(course_root() / "source" / lesson.name / f"{lesson.slug}{pack.SUFFIX}").exercises
        assert text.count('<details class="solution">') >= len(records)
        assert text.count('<details class="hint">') >= sum(len(record.hints) for record in records.values())
        assert "### BEGIN SOLUTION" not in html.unescape(text)
        assert "tex-mml" not in text
        prose = re.sub(r"<(pre|code|style|script)\b.*?</\1>", "", text, flags=re.DOTALL)
        assert not re.search(r"\$[^$<>]{1,80}\$|\\(frac|sqrt|sum|mathbb)\b", prose), lesson.name
        assert "once you have written, compare" not in prose  # the model answer stands there
    shown = re.sub(r"<details.*?</details>", "", texts(site)["01_soft_lookup"], flags=re.DOTALL)
    assert "The Gaussian score of each key" in shown  # the task; the answer is folded
    assert "u = np.linalg.norm(K" not in html.unescape(re.sub(r"<[^>]+>", "", shown))
    assert "<math" in texts(site)["01_soft_lookup"]
    assert '<details class="figure">' in texts(site)["01_soft_lookup"]


def test_what_is_missing_is_said_in_two_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(book.NEEDS, "no_such_module_here", "no-such-package")
    with pytest.raises(CourseError, match="found no no-such-package") as caught:
        book.build(lessons(), tmp_path)
    assert str(caught.value).count("\n") == 1


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core's script: `ATTN_AXE` names it, else npm brings it."""
    if named := os.environ.get("ATTN_AXE"):
        return Path(named).read_text(encoding="utf-8")
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("no npm, so no axe-core: install Node.js, or set ATTN_AXE to axe.min.js")
    try:
        done = subprocess.run(
            [npm, "install", "--silent", "--prefix", str(folder), "axe-core@4"], capture_output=True, text=True, timeout=100
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm brought no axe-core within 100 s")
    if done.returncode:
        pytest.skip(f"npm brought no axe-core: {done.stderr.strip()[-200:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(params=["light", pytest.param("dark", marks=pytest.mark.slow)])
def phone(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": PHONE, "height": 800}, color_scheme=request.param)
    yield page
    page.close()


def opened(page: Any, path: Path) -> Any:
    page.goto(path.as_uri() + ("?q=softmax" if path.stem == "search" else ""))
    page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    return page


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_axe_finds_no_violation_on_any_page_in_either_theme(
    site: Path, phone: Any, axe: str, request: pytest.FixtureRequest
) -> None:
    dark = "dark" in request.node.callspec.id  # the same page in other colours: what depends on colours is asked again
    rules = ", runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}" if dark else ""
    for path in sorted(site.glob("*.html")):
        opened(phone, path).evaluate(axe)
        found = phone.evaluate(f"axe.run({{resultTypes: ['violations']{rules}}})")["violations"]
        said = [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
        assert said == [], path.name


# What sticks out of the page and cannot be scrolled to, and drawings whose words a phone would make too small to read.
LOST = """() => [...document.querySelectorAll('article math, article svg, article img, article table, article pre')].filter(e => {
  const box = e.getBoundingClientRect();
  if (box.width === 0 || box.right <= innerWidth + 1) return false;
  for (let up = e.parentElement; up.tagName !== 'ARTICLE'; up = up.parentElement)
    if (/auto|scroll/.test(getComputedStyle(up).overflowX)) return false;
  return !/auto|scroll/.test(getComputedStyle(e).overflowX);
}).map(e => e.outerHTML.slice(0, 80))"""
SMALL = """() => [...document.querySelectorAll('.output > svg[width]')].filter(e => {
  const width = e.getBoundingClientRect().width;
  return width > 0 && width < 0.7 * e.getAttribute('width');
}).length"""


@pytest.mark.browser
def test_no_page_is_wider_than_a_phone_and_nothing_is_fetched(site: Path, phone: Any) -> None:
    asked: list[str] = []
    phone.on("request", lambda request: asked.append(request.url))
    for path in sorted(site.glob("*.html")):
        assert opened(phone, path).evaluate("document.documentElement.scrollWidth") <= PHONE, path.name
        assert phone.evaluate(LOST) == [], path.name
        assert phone.evaluate(SMALL) == 0, path.name
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


# What is wider than paper, which does not scroll, and what is of use on a screen only.
CUT_OFF = """() => [...document.querySelectorAll('article .output, article pre, article .table-wrapper, article .ac-stage')]
  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML.slice(0, 120))"""
PRINTED = """() => [...document.querySelectorAll('.skip-to-content, .ac-controls, .copybtn, .sidebar-drawer')]
  .filter(e => e.getClientRects().length).map(e => e.className)"""


@pytest.mark.browser
def test_on_paper_nothing_is_cut_off_and_no_control_is_printed(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 700, "height": 1000})  # A4 less its margins
    page.emulate_media(media="print")
    for path in sorted(site.glob("*.html")):
        page.goto(path.as_uri())
        assert page.evaluate(CUT_OFF) == [], path.name
        assert page.evaluate(PRINTED) == [], path.name
    page.close()


@pytest.mark.browser
def test_a_figure_of_the_book_moves_by_keyboard_and_the_search_finds_a_lesson(site: Path, browser: Any) -> None:
    page = browser.new_page()
    moving = [path for path in sorted(site.glob("[0-9]*.html")) if "data-moving" in path.read_text(encoding="utf-8")]
    opened(page, moving[0])
    slider = page.locator(".ac-moving input[type=range]").first
    before = page.locator(".ac-moving .ac-stage").first.inner_html()
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".ac-moving .ac-stage").first.inner_html() != before
    page.goto((site / "search.html").as_uri() + "?q=lookup")
    page.locator("#search-results a", has_text="Soft lookup").first.wait_for(timeout=20_000)
    page.close()
