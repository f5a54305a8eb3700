"""`attn mark` in Chromium: 300 answers, two markers at once, by keyboard, and nothing is lost."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.hand_marking.marking_class import LESSON, QUESTION, api, drawn, make, marks, serving

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
]


CONSTANT, FLAT = (re.compile(text).search for text in ("no weight changes|is constant", "almost everywhere"))


class Marker:
    """Somebody at a browser of their own."""

    def __init__(self, browser: Any, address: str):
        self.context = browser.new_context(viewport={"width": 1280, "height": 1000})
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.page.goto(address)
        self.page.wait_for_url(address.partition("enter")[0])
        self.page.goto(address.partition("/enter")[0] + f"/question/{QUESTION}")
        self.idle()

    def idle(self) -> None:
        """Wait until nothing is being saved or fetched. (The page's policy forbids Playwright's own waiting for a condition.)"""
        self.page.wait_for_selector('body[data-idle="1"]', timeout=60_000)

    def text(self, place: str) -> str:
        return str(self.page.locator(f"#{place}").inner_text())

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def mark_one(self) -> bool:
        """Mark what is shown by what it says; whether there was something."""
        page, said = self.page, self.text("text")
        if int(page.evaluate("document.body.dataset.waiting")) == 0:
            return False
        self.press("0", *(["1"] if CONSTANT(said) else []), *(["2"] if FLAT(said) else []))
        if "infinite" in said and "infinite" not in self.page.input_value("#comment"):
            self.press("c")
            page.keyboard.insert_text("It is zero, not infinite.")
            self.press("Escape")
        self.press("Enter")
        self.idle()
        if page.locator("#conflict").is_visible():
            page.click("#keep")
            page.wait_for_timeout(300)
        return True


def fair(text: str) -> float:
    return 0.5 * (CONSTANT(text) is not None) + (FLAT(text) is not None)


def test_two_markers_mark_three_hundred_answers_and_nothing_is_lost(tmp_path: Path, browser: Any, sample_course: Path) -> None:
    answers = drawn(300)
    root = make(tmp_path / "course", answers)
    with serving(root, "grace", "linus") as addresses:
        markers = [Marker(browser, addresses[name]) for name in ("grace", "linus")]
        markers[0].page.screenshot(path=str(tmp_path / "page.png"), full_page=True)
        turns = 0
        while sum(marker.mark_one() for marker in markers):
            turns += 1
            assert turns < 400
        for marker in markers:
            marker.page.reload()
            marker.idle()
            assert marker.text("state") == "all 300 are graded"
            assert not marker.wrong
            assert not re.search(r"\bs\d{3}\b", marker.page.content()), "a name is shown"
    given = marks(root)
    assert {name: score for name, (score, _) in given.items()} == {name: fair(text) for name, text in answers.items()}
    for name, text in answers.items():
        assert ("infinite." in given[name][1]) == ("infinite" in text), name
    from autograder.hand_marking.store import Store

    with Store(api(root), LESSON) as store:
        lines = store.trail(QUESTION)
    assert {line.student for line in lines} == set(answers)
    by = Counter(line.marker for line in lines)
    assert min(by.values()) > 50, by
    assert len(lines) == 300, "an answer was marked twice"


def test_after_the_last_answer_keys_change_no_mark_until_one_is_chosen(tmp_path: Path, browser: Any, sample_course: Path) -> None:
    root = make(tmp_path / "course", {"ada": "One."})
    with serving(root, "grace") as addresses:
        grace = Marker(browser, addresses["grace"])
        grace.press("f", "Enter")
        grace.page.locator("#said", has_text="every answer here is graded").wait_for()
        grace.idle()
        grace.press("0", "1", "c", "Enter")
        assert grace.page.input_value("#score") == "2"
        grace.press("ArrowRight", "0")
        assert grace.page.input_value("#score") == "0"
        grace.press("Enter")
        grace.page.wait_for_selector('body[data-saved="2"]')
        grace.page.set_viewport_size({"width": 390, "height": 800})
        grace.page.goto(addresses["grace"].partition("enter")[0])
        assert grace.page.evaluate("document.documentElement.scrollWidth") <= 390, "the table of questions is wider than a phone"
    assert [score for score, _ in marks(root).values()] == [0]


def test_who_marks_what_another_has_marked_is_told_and_decides(tmp_path: Path, browser: Any, sample_course: Path) -> None:
    root = make(tmp_path / "course", {"ada": "One.", "ben": "<img src=x onerror=\"document.title='caught'\"> Two."})
    with serving(root, "grace", "linus") as addresses:
        grace, linus = (Marker(browser, addresses[name]) for name in ("grace", "linus"))
        while grace.text("place") != linus.text("place"):
            linus.press("ArrowRight")
            linus.page.wait_for_timeout(200)
            if grace.text("place") != linus.text("place"):
                linus.press("ArrowLeft")
                linus.page.wait_for_timeout(200)
        linus.press("f", "Enter")
        linus.page.wait_for_selector('body[data-saved="1"]')
        grace.page.locator("#busy", has_text="linus has graded this meanwhile").wait_for()  # its page has asked since
        grace.press("0", "Enter")
        grace.page.wait_for_selector("#conflict:not([hidden])")
        assert "linus gave 2" in grace.text("conflict")
        assert sorted(score or 0 for score, _ in marks(root).values()) == [0, 2]
        grace.page.click("#mine")
        grace.page.wait_for_selector('body[data-saved="1"]')
        assert sorted(score is None for score, _ in marks(root).values()) == [False, True]
        assert 2 not in [score for score, _ in marks(root).values()]
        grace.press("u")
        grace.page.locator("#said", has_text="undone").wait_for()
        assert 2 in [score for score, _ in marks(root).values()]
        assert grace.page.title() != "caught"
        assert linus.page.title() != "caught"
