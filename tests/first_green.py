"""Measure the way from opening the landing page to the first green check: seconds, and bytes that the browser loads.

A script opens the page, replaces the wrong divisor at typing speed and presses Check. Needs Chromium and a copy of Pyodide.

Run, on a machine that does nothing else: python -m tests.first_green
"""

import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from autograder.authoring.course import lessons
from autograder.live import serve, site
from tests.conftest import CHROMIUM, FLAGS

LONG = 240_000  # ms
TYPED = "np.sqrt(d)"  # in place of the last letter of the code that the editor begins with
KEY_MS = 120  # between two keys: about 100 a word and minute


@dataclass(frozen=True)
class FirstGreen:
    """Seconds from opening the page until its editor could be used and until the check was green; bytes, as they were sent."""

    editor_s: float
    green_s: float
    sent: int


def measure(browser: Any, address: str) -> FirstGreen:
    """Visit the landing page at `address` with an empty cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    sent: list[int] = []
    context.on("response", lambda answer: sent.append(int(answer.headers.get("content-length", 0))))
    page = context.new_page()
    begun = time.monotonic()
    page.goto(address)
    page.wait_for_selector("html[data-live=on]", timeout=LONG)
    editor_s = time.monotonic() - begun
    page.locator(".cm-content").focus()
    page.keyboard.press("Control+End")
    page.keyboard.press("Backspace")
    page.keyboard.type(TYPED, delay=KEY_MS)
    page.locator(".live-main").click()
    page.locator(".live-panel[data-shown]", has_text="✓ passed").wait_for(timeout=LONG)
    green_s = time.monotonic() - begun
    context.close()
    return FirstGreen(editor_s, green_s, sum(sent))


def main() -> None:
    """Build the site, visit it three times and print what each visit took."""
    with tempfile.TemporaryDirectory() as scratch:
        site.build(lessons(), Path(scratch) / "site")
        with serve.server(Path(scratch) / "site", 0) as running, sync_playwright() as playwright:
            threading.Thread(target=running.serve_forever, daemon=True).start()
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            for _ in range(3):
                found = measure(browser, f"http://127.0.0.1:{running.server_address[1]}")
                load = f", load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs" if hasattr(os, "getloadavg") else ""
                print(f"editor {found.editor_s:.1f} s, green {found.green_s:.1f} s, {found.sent / 1e6:.1f} MB{load}", flush=True)
            browser.close()
            running.shutdown()


if __name__ == "__main__":
    main()
