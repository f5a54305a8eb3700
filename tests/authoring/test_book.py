"""The book: a site that reads offline, on a phone, in the dark, by keyboard and by a screen reader."""

import dataclasses
import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from docutils.core import publish_doctree

from autograder.authoring import book, excerpts, site_docs
from autograder.authoring.course import CourseError, course_root, lessons
from autograder.packs import pack_file

PHONE = 390


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book of all lessons."""
    folder = tmp_path_factory.mktemp("book")
    assert book.build(lessons(), folder)[-1] == folder / "index.html"
    return folder


def texts(site: Path) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(site.glob("*.html"))}


def publish(text: str) -> Any:
    """The document tree of reStructuredText."""
    settings = {"doctitle_xform": False, "report_level": 5}
    return publish_doctree(text, settings_overrides=settings)


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
        assert f"<title>{lesson.label} " in text
        assert 'class="sidebar-search"' in text
        assert 'class="toc-tree"' in text
        for other in every:
            assert f'href="{other.name}.html"' in text or other == lesson
        before = [other for other in every[:at] if lesson.workshop or not other.workshop]
        if before:
            assert f'href="{before[-1].name}.html"' in text.partition("related-pages")[2]
    assert (site / "searchindex.js").stat().st_size > 1000


def test_an_excerpt_has_prose_and_neither_code_nor_what_is_folded() -> None:
    document = publish(
        ".. role:: raw-html(raw)\n   :format: html\n\n"
        "Title\n=====\n\n*About 5 minutes.*\n\nShown, :raw-html:`<br>` and :math:`d_k`.\n\n::\n\n   code()\n\n"
        ".. raw:: html\n\n   <details>\n\nfolded\n\n.. raw:: html\n\n   </details>\n\n- a list\n\nPart\n----\n\nbelow\n"
    )
    assert list(excerpts.sections(document)) == [("title", "Title", "Shown, and d_k. a list"), ("part", "Part", "below")]


def test_hints_and_solutions_are_folded_at_each_exercise_and_formulas_need_no_script(site: Path) -> None:
    for lesson in lessons():
        text = texts(site)[lesson.name]
        records = pack_file.load(course_root() / "source" / lesson.name / f"{lesson.slug}{pack_file.SUFFIX}").exercises
        assert text.count('<details class="solution">') >= len(records)
        assert text.count('<details class="hint">') >= sum(len(record.hints) for record in records.values())
        assert "### BEGIN SOLUTION" not in html.unescape(text)
        assert "tex-mml" not in text
        prose = re.sub(r"<(pre|code|style|script)\b.*?</\1>|data-tex=\"[^\"]*\"", "", text, flags=re.DOTALL)
        assert not re.search(r"\$[^$<>]{1,80}\$|\\(frac|sqrt|sum|mathbb)\b", prose), lesson.name
        assert "once you have written, compare" not in prose  # the model answer stands there
    shown = re.sub(r"<details.*?</details>", "", texts(site)["01_soft_lookup"], flags=re.DOTALL)
    assert "Turn scores into weights" in shown  # the task; the answer is folded
    assert "total = s.sum(axis" not in html.unescape(re.sub(r"<[^>]+>", "", shown))
    assert "<math" in texts(site)["01_soft_lookup"]
    assert '<details class="figure">' in texts(site)["01_soft_lookup"]


def test_every_page_is_described_and_the_docs_are_pages(site: Path) -> None:
    pages = texts(site)
    for name, text in pages.items():
        assert text.count('<meta name="description" content="') == 1, name
        assert 'property="og:title"' in text, name
        assert "og:image" not in text  # nobody has said where the site will be published
    assert {"learning", "teaching", "teaching-marks", "teaching-hub", "grader"} <= {*pages}
    assert 'href="teaching-marks.html' in pages["teaching"]
    assert 'href="authors.html' in pages["architecture"]
    assert 'src="_images/architecture.svg"' in pages["architecture"]
    assert 'href="teaching-hub.html' in pages["teaching"]


def test_the_start_page_says_how_long_a_lesson_takes_and_what_it_asks(site: Path) -> None:
    shown = " ".join(html.unescape(re.sub(r"<[^>]+>", "", texts(site)["index"])).split())
    for lesson in (lesson for lesson in lessons() if lesson.about.question):
        said = rf"{lesson.label} {re.escape(lesson.title)} · \d+ min {re.escape(lesson.about.question)}"
        assert re.search(said, shown), lesson.name


def test_the_start_page_of_a_live_book_marks_what_runs_in_the_browser() -> None:
    first, last = lessons()[0], lessons()[-1]
    live = frozenset({first.name})
    assert "min · runs in the browser" in book._entry(first, live)
    assert "runs in the browser" not in book._entry(last, live)


def test_a_live_page_says_its_own_words_where_a_lesson_has_them() -> None:
    def nothing(*_: object) -> str:
        return ""

    added = book.Additions(Path(), (), (), nothing, nothing)
    assert "<kbd>Shift</kbd>" in book._page(lessons()[0], added)
    alive = book._page(lessons()[0], dataclasses.replace(added, live=frozenset({lessons()[0].name})))
    assert "<kbd>" not in alive
    assert "*Run* runs a cell that you have changed" in alive
    assert "in the browser:" not in alive
    assert alive.index("Go on there.") > alive.index("## Your average in a trained model")  # and nothing else is gone
    assert len(re.findall("^## ", alive, re.MULTILINE)) == len(
        re.findall("^## ", lessons()[0].path.read_text(encoding="utf-8"), re.MULTILINE)
    )


def test_a_card_needs_to_know_where_the_site_is() -> None:
    tags = book.card_tags("A title", "What it is about.", "01_soft_lookup", "https://someone.example/course/")
    assert 'property="og:image" content="https://someone.example/course/card.png"' in tags
    assert 'property="og:url" content="https://someone.example/course/01_soft_lookup.html"' in tags
    assert len(book.shortened("word " * 100)) <= 201


def test_links_of_the_docs_lead_to_pages_or_to_the_repository(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    (folder / "more").mkdir(parents=True)
    (folder / "more" / "deep.md").write_text("# Deep\n\n[up](../Top.md#a) and [code](../../src/x.py)\n", encoding="utf-8")
    (folder / "Top.md").write_text(
        "# Top\n\n[down](more/deep.md), [away](https://example.org/a.md), [here](#a)\n", encoding="utf-8"
    )
    made = site_docs.pages(folder, "https://github.com/someone/course")
    assert made["more-deep"] == "# Deep\n\n[up](top.md#a) and [code](https://github.com/someone/course/blob/main/src/x.py)\n"
    assert made["top"] == "# Top\n\n[down](more-deep.md), [away](https://example.org/a.md), [here](#a)\n"
    assert "and code\n" in site_docs.pages(folder)["more-deep"]
    assert site_docs.pages(tmp_path / "no such folder") == {}


@pytest.mark.slow
@pytest.mark.browser
def test_katex_draws_every_formula_of_the_course(site: Path, browser: Any) -> None:
    page = browser.new_page()
    drawn = 0
    for path in sorted(site.glob("*.html")):
        page.goto(path.as_uri())
        left = "[...document.querySelectorAll('[data-tex]')].filter(e => !e.querySelector('.katex')).map(e => e.dataset.tex)"
        assert page.evaluate(left) == [], path.name
        drawn += page.locator("[data-tex] .katex").count()
    assert drawn > 500
    page.close()


def test_what_is_missing_is_said_in_two_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(book.NEEDS, "no_such_module_here", "no-such-package")
    with pytest.raises(CourseError, match="found no no-such-package") as caught:
        book.build(lessons(), tmp_path)
    assert str(caught.value).count("\n") == 1


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
LOST = """() => [...document.querySelectorAll('.katex-html, svg, img, table, pre')].filter(e => {
  if (!e.closest('article')) return false;
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    page.locator(".search-field input").fill("masked averages")
    page.keyboard.press("Enter")
    found = page.locator("#search-results li", has_text="04 Masking").first.locator(".excerpt")
    found.first.wait_for(timeout=20_000)
    assert {word.lower()[:4] for word in found.locator("mark").all_inner_texts()} <= {"mask", "aver"}
    found.locator("a").first.click()
    page.wait_for_url("**/04_masking.html#*")
    assert page.locator(page.url[page.url.index("#") :]).count() == 1  # an excerpt leads to its section
    page.goto((site / "search.html").as_uri() + "?q=zzzz")
    page.get_by_text("No page of the course has these words").wait_for(timeout=20_000)
    page.close()


# Characters in a line of each long paragraph without a formula.
LINE_LENGTHS = """() => [...document.querySelectorAll('article section > p')]
  .filter(p => p.textContent.length > 300 && !p.querySelector('[data-tex]'))
  .map(p => p.textContent.length / Math.round(p.clientHeight / parseFloat(getComputedStyle(p).lineHeight)))"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1200, 1280, 1440, 1920])
def test_a_wide_page_has_its_contents_on_the_right_and_lines_that_can_be_read(site: Path, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto((site / "08c_the_whole_step.html").as_uri())
    text, contents = (page.locator(part).bounding_box() for part in ("article", ".toc-drawer"))
    assert text["x"] + text["width"] <= contents["x"]
    assert contents["x"] + contents["width"] <= width
    assert not page.locator(".toc-content-icon").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    lengths = page.evaluate(LINE_LENGTHS)
    assert lengths
    assert all(50 <= length <= 85 for length in lengths), lengths
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("chosen", ["light", "dark"])
def test_drawings_follow_the_theme_that_a_reader_chose_whatever_the_systems_is(site: Path, browser: Any, chosen: str) -> None:
    seen = set()
    for system in ("light", "dark"):
        page = browser.new_page(color_scheme=system)
        page.add_init_script(f"localStorage.setItem('theme', '{chosen}')")
        page.goto((site / "01_soft_lookup.html").as_uri())
        seen.add(page.evaluate("getComputedStyle(document.querySelector('article svg.ac text')).fill"))
        page.close()
    assert len(seen) == 1, seen
