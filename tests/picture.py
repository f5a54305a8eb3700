"""Draw the README's picture: a failing panel beside a passing one, as the engine renders them. Needs Chromium.

Run: python tests/picture.py
"""

import os
from pathlib import Path

from playwright.sync_api import sync_playwright

from autograder.authoring.course import find_lesson
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.panel import to_html
from autograder.judging import pack

TARGET = Path(__file__).parent.parent / ".github" / "panels.png"


def main() -> None:
    """Write the picture."""
    lesson = find_lesson("scaled_dot_product")
    exercise = next(e for e in lesson.exercises() if e.id == "scaled_scores")
    record = pack.make_record(lesson.slug, exercise, pack.VISIBLE_SEED)
    mistake = next(m for m in exercise.misconceptions if m.id == "scaled_by_d")
    panels = [to_html(make_report(check_answer(record, answer))) for answer in (mistake.answer, exercise.reference)]
    columns = "".join(f'<div style="flex:1">{panel}</div>' for panel in panels)
    page_html = (
        f'<meta charset="utf-8"><body style="font:14px sans-serif;margin:12px"><div style="display:flex;gap:14px">{columns}</div>'
    )
    with sync_playwright() as playwright:
        path = os.environ.get("ATTN_CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1240, "height": 300}, device_scale_factor=1.5)
        page.set_content(page_html)
        page.screenshot(path=str(TARGET), full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
