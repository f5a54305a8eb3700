"""Figures that move: in Chromium, on a static page with no Python behind, by keyboard; without scripts a described image."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attention_course.drawing import Drawing
from attention_course.moving import MOST_FRAMES, _looking, attention_viewer, slider, steps
from attention_course.thread import INDEX, TOKENS


def row(n: int) -> Drawing:
    d = Drawing(alt=f"a row of {n} cells")
    d.vector(n, f"{n} cells", role="query")
    return d


def figures() -> str:
    grown = slider(row, n=[1, 2, 3, 4], alt="A row that grows cell by cell.", start={"n": 2}, labels={"n": "cells"})
    built = steps([("one cell", row(1)), ("two cells", row(2))], alt="A row is built in two steps.")
    n = len(TOKENS)
    weights = {"itself": np.eye(n), "evenly": np.full((n, n), 1 / n)}
    viewer = attention_viewer(TOKENS, weights, alt="Where each word of the sentence looks.", start=INDEX["it"])
    return grown.html() + grown.html() + built.html() + viewer.html()


def test_the_same_figure_is_the_same_text() -> None:
    assert figures() == figures()


def test_without_scripts_the_first_frame_stands_there_with_its_description() -> None:
    page = figures()
    assert len(re.findall(r'<div class="ac-stage"[^>]*><img alt=', page)) == 4
    assert not re.findall(r'\bid="', page)
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_notebook_is_asked_to_leave_the_keys_of_every_control_alone() -> None:
    controls = re.findall(r'<(?:input|button|div class="ac-stage")[^>]*>', figures())
    assert len(controls) == 4 + 2 + 2 + len(TOKENS)  # stages, sliders, steps, words
    assert all(" data-lm-suppress-shortcuts=" in control for control in controls)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: slider(row, alt="no slider at all"), "one or two sliders"),
        (lambda: slider(row, n=range(1, MOST_FRAMES + 2), alt="far too many frames"), "1 to 200 frames"),
        (lambda: slider(row, n=[1, 2], alt=""), "alt: expected a sentence"),
        (lambda: slider(lambda n: n, n=[1, 2], alt="a frame of the wrong kind"), "expected a frame to be a Drawing"),
        (lambda: steps([("one", row(1))], alt="a single lonely step"), "at least two steps"),
        (lambda: attention_viewer(["a", "b"], {"h": np.eye(3)}, alt="weights that do not fit"), r"shape \(2, 2\)"),
        (lambda: attention_viewer(["a"], {}, alt="no heads at all"), "at least one head"),
    ],
)
def test_bad_input_says_what_was_expected(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Any]:
    """The figures on a page without a network, in Chromium."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><title>figures</title>{figures()}", encoding="utf-8")
    opened = browser.new_page(viewport={"width": 390, "height": 800})
    opened.goto(Path(file).as_uri())
    yield opened
    opened.close()


@pytest.mark.browser
def test_a_slider_moves_by_keyboard_and_its_copy_stays(page: Any) -> None:
    first, second = page.locator("input[type=range]").all()
    assert "2 cells" in page.locator(".ac-stage").nth(0).inner_html()
    first.focus()
    page.keyboard.press("ArrowRight")
    assert "3 cells" in page.locator(".ac-stage").nth(0).inner_html()
    assert "2 cells" in page.locator(".ac-stage").nth(1).inner_html()
    assert first.get_attribute("aria-valuetext") == "3"
    assert second.get_attribute("aria-valuetext") == "2"


@pytest.mark.browser
def test_steps_go_on_and_back(page: Any) -> None:
    page.get_by_role("button", name="next").click()
    assert page.locator(".ac-caption").nth(0).inner_text() == "two cells"
    page.get_by_role("button", name="back").click()
    assert page.locator(".ac-caption").nth(0).inner_text() == "one cell"


@pytest.mark.browser
def test_a_word_that_is_focused_shows_where_it_looks(page: Any) -> None:
    caption = page.locator(".ac-caption").nth(1)
    assert caption.inner_text() == "“it” looks most at “it” 1.00 (itself), “she” 0.11 (evenly)."
    page.get_by_role("button", name="pear").focus()
    assert caption.inner_text() == "“pear” looks most at “pear” 1.00 (itself), “she” 0.11 (evenly)."
    shares = page.locator(".ac-head").nth(1).locator("small")
    assert shares.all_inner_texts() == ["0.11"] * len(TOKENS)
    page.locator(".ac-head").nth(1).locator(".ac-at").nth(INDEX["ate"]).hover()
    assert caption.inner_text().startswith("“ate” looks most at “ate”")


def test_in_the_first_frame_of_a_viewer_no_arc_runs_through_the_words_above_it() -> None:
    n = 14
    ends = np.eye(n)
    ends[-1] = np.eye(n)[5]  # the last word looks far back: the highest arc
    d = _looking(["because"] * n, {"a": ends, "b": ends}, n - 1, "Two heads on the same fourteen words.")  # more than fit
    tops = [float(y) for y in re.findall(r'<rect [^>]*y="([-.\d]+)"[^>]*height="28"', d.svg())]
    above, below = min(tops) + 28, max(tops)
    high = [float(y) for y in re.findall(r"C[-.\d]+,([-.\d]+)", d.svg())]
    assert len(high) == 2
    assert below - 0.75 * (below - max(high)) > above


@pytest.mark.browser
def test_every_head_draws_arcs_to_where_the_word_looks(page: Any) -> None:
    page.get_by_role("button", name="pear").click()
    assert page.locator(".ac-head").nth(0).locator(".ac-arcs path").count() == 0  # it looks at itself alone
    assert 1 <= page.locator(".ac-head").nth(1).locator(".ac-arcs path").count() < len(TOKENS)  # in the line of pear


@pytest.mark.browser
def test_on_paper_a_viewer_is_its_first_frame_without_controls(page: Any) -> None:
    stage, controls = page.locator(".ac-live > .ac-stage"), page.locator(".ac-live > .ac-controls")
    assert not stage.is_visible()
    assert controls.is_visible()
    page.emulate_media(media="print")
    assert stage.is_visible()
    assert not controls.is_visible()
    page.emulate_media(media="screen")


@pytest.mark.browser
def test_nothing_is_wider_than_a_phone(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.browser
def test_on_a_phone_letters_keep_their_size_and_a_wide_frame_scrolls_also_by_keyboard(page: Any) -> None:
    stage = page.locator(".ac-stage").first
    assert stage.locator("svg").evaluate("e => getComputedStyle(e).zoom") == "0.75"
    assert stage.get_attribute("tabindex") is None
    page.set_viewport_size({"width": 60, "height": 800})
    page.wait_for_function("document.querySelector('.ac-stage').tabIndex === 0")
    page.set_viewport_size({"width": 390, "height": 800})


@pytest.mark.browser
def test_a_frame_that_is_a_little_wider_than_a_phone_is_shown_whole(page: Any) -> None:
    stage = page.locator(".ac-stage").first
    drawn = float(stage.locator("svg").get_attribute("width"))
    for room, zoom in ((0.735 * drawn, "1"), (0.6 * drawn, "0.75"), (0.8 * drawn, "0.75")):
        stage.evaluate("(e, room) => e.style.width = room + 'px'", room)
        page.wait_for_function("z => getComputedStyle(document.querySelector('.ac-stage svg')).zoom === z", arg=zoom)
        assert stage.evaluate("e => e.scrollWidth <= e.clientWidth + 1") == (room > 0.7 * drawn)
    stage.evaluate("e => e.style.width = ''")
