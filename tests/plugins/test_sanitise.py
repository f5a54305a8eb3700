"""Feedback pages: nothing that a learner wrote is live, and what the page says is all there."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbgrader.converters import GenerateFeedback
from traitlets.config import Config

from autograder.authoring.course import find_lesson
from autograder.diagnosis import hidden, panel
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import make_report
from autograder.judging.exercise import Exercise
from autograder.notebooks.html_page import maths_to_mathml
from autograder.packs.make_pack import VISIBLE_SEED, make_record
from autograder.plugins.sanitise import POLICY, Defuse, FeedbackExporter, clean

LESSON = "00_start_here"
JS = "document.title='pwned'"
MARKUP = [
    f"<script>{JS}</script>",
    f'<img src="x" onerror="{JS}">',
    f'<svg onload="{JS}"><script>{JS}</script></svg>',
    f'<svg><animate onbegin="{JS}" attributeName="x" dur="1s"></svg>',
    f'<iframe srcdoc="<script>parent.{JS}</script>"></iframe>',
    f'<object data="data:text/html,<script>{JS}</script>"></object>',
    f'<details open ontoggle="{JS}"><summary>x</summary></details>',
    f'<math><mtext><style><img src=x onerror="{JS}"></style></mtext></math>',
    f'<a href="javascript:{JS}" id="bait">x</a>',
    f'<a href="&#106;avascript:{JS}">x</a>',
    f'<form action="http://example.org"><input autofocus onfocus="{JS}"></form>',
    f'<style>@import "http://example.org/x.css"; *{{display:none}}</style><body onload="{JS}">',
    '<img src="http://example.org/who-reads-me.png">',
    '<div style="position:fixed;top:0;left:0;width:100%;height:100%;background:url(http://example.org/x)">cover</div>',
    '<meta http-equiv="refresh" content="0;url=http://example.org"><base href="http://example.org/"><link rel=stylesheet href=x>',
    # what one parser takes for text or an attribute and the next for a tag
    f'<svg></p><style><a id="</style><img src=1 onerror={JS}>">',
    f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror={JS}&gt;">',
    f'<noscript><p title="</noscript><img src=x onerror={JS}>">',
    f'<math><mi//xlink:href="data:x,<script>{JS}</script>">x</mi></math>',
    f'<textarea><img title="</textarea><img src=x onerror={JS}>">',
]


def hostile() -> Any:
    """A notebook as a learner might send it, with markup in every place of it that a page shows."""
    notebook = nbformat.v4.new_notebook()
    everything = "\n\n".join(MARKUP)
    notebook.cells = [nbformat.v4.new_markdown_cell(f"{markup}\n\n[l](javascript:{JS})") for markup in MARKUP]
    notebook.cells[0].attachments = {"a.svg": {"image/svg+xml": MARKUP[2]}}
    data = {"text/html": everything, "image/svg+xml": MARKUP[2], "application/javascript": JS, "text/markdown": everything}
    data |= {"image/png": f'AAAA" onerror="{JS}'}
    data |= {"text/plain": everything, "text/latex": rf"$\href{{javascript:{JS}}}{{x}}$ {MARKUP[0]}"}
    outputs = [nbformat.v4.new_output("display_data", {kind: content, "text/plain": "x"}) for kind, content in data.items()]
    outputs.append(nbformat.v4.new_output("stream", text=everything))
    outputs.append(nbformat.v4.new_output("error", ename=MARKUP[0], evalue=MARKUP[1], traceback=MARKUP))
    outputs[0].metadata = {"text/html": {"isolated": True}, "image/png": {"width": f'1" onload="{JS}'}}
    cell = nbformat.v4.new_code_cell(f"# {everything}", outputs=outputs)
    cell.metadata = nbformat.from_dict({"tags": [f'"><script>{JS}</script>'], "magics_language": MARKUP[0]})
    forged = {"grade_id": f'"><script>{JS}</script>', "solution": True, "grade": True, "points": 1, "score": 0}
    answer = nbformat.v4.new_markdown_cell("answer", metadata={"nbgrader": {**forged, "comment": everything}})
    notebook.cells += [cell, answer]
    notebook.metadata.widgets = {"application/vnd.jupyter.widget-state+json": {"x": "</script>" + MARKUP[0]}}
    notebook.metadata.language_info = {"name": MARKUP[0]}
    return notebook


def page_of(notebook: Any) -> str:
    """The page as `nbgrader generate_feedback` makes it with the course's setting."""
    converter = GenerateFeedback(
        config=Config({"GenerateFeedback": {"exporter_class": "autograder.plugins.sanitise.FeedbackExporter"}})
    )
    exporter = FeedbackExporter(parent=converter, config=converter.config)
    told = {"notebook": "n", "score": 0, "max_score": 1, "late_penalty": 0}
    page, _ = exporter.from_notebook_node(notebook, resources={"nbgrader": told})
    return page


def test_a_feedback_page_forbids_scripts_and_addresses_before_anything_else() -> None:
    page = page_of(hostile())
    assert re.match(
        rf'\s*<!DOCTYPE html>\s*<html>\s*<head><meta content="{POLICY}"',
        page.replace('http-equiv="Content-Security-Policy" content', "content"),
    )
    assert not re.search(r"<(script|iframe|object|form|input|base|link|svg)\b", page)
    for tag in BeautifulSoup(page, "html.parser").body.find_all(True):
        assert re.match(r"#|https?://|data:image/(png|jpeg)|$", tag.get("href") or tag.get("src") or ""), tag
        assert not [name for name in tag.attrs if name.startswith("on") or name in ("srcdoc", "action")], tag
    assert "cover</div>" in page
    assert "position" not in page.split("cover</div>")[0].rpartition("<div")[2]


@pytest.mark.browser
@pytest.mark.parametrize("policy", [True, False], ids=["with its policy", "with the allow-list alone"])
def test_nothing_hostile_runs_or_loads_in_a_browser(browser: Any, tmp_path: Path, policy: bool) -> None:
    path = tmp_path / "page.html"
    text = page_of(hostile())
    path.write_text(text if policy else text.replace("Content-Security-Policy", "nothing"), encoding="utf-8")
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_timeout(200)
    for link in page.locator("a", has_text="x").all():
        assert "javascript" not in (link.get_attribute("href") or "")
    assert page.title() == "n"
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert page.locator("text=cover").first.is_visible()
    page.close()


def _exercise() -> Exercise:
    return next(e for e in find_lesson(LESSON).exercises() if e.id == "average_pool")


def test_a_panel_passes_the_allow_list_unchanged() -> None:
    record = make_record("start_here", _exercise(), VISIBLE_SEED)
    for answer in (_exercise().reference, *(mistake.answer for mistake in _exercise().misconceptions)):
        shown = panel.to_html(make_report(check_answer(record, answer)))
        assert _events(clean(shown)) == _events(shown)


def test_feedback_on_hidden_inputs_names_the_mistake_and_hints_but_shows_no_number_of_them() -> None:
    record = make_record("start_here", _exercise(), [1, 2, 3])
    for mistake in _exercise().misconceptions:
        report = hidden.report(record, hidden.findings_of(check_answer(record, mistake.answer)))
        cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("execute_result", {"text/html": panel.to_html(report)})])
        text = BeautifulSoup(page_of(nbformat.v4.new_notebook(cells=[cell])), "html.parser").body.get_text()
        for said in (mistake.says, mistake.fix, *_exercise().hints):
            assert panel.plain(said).replace("`", "")[:40] in text.replace("\n", " "), said
        assert (report.grids, report.snippet) == ((), "")
        assert not re.search(r"\d\.\d{2}", text)


def _events(page: str) -> list[Any]:
    """Tags with their attributes, and texts, in order: what a browser makes of it."""
    soup = BeautifulSoup(page, "html.parser")
    found: list[Any] = list(soup.stripped_strings)
    for tag in soup.find_all(True):
        style = re.sub(r"(\.\d*[1-9])0+\b", r"\1", re.sub(r"\s", "", tag.attrs.pop("style", "")))  # a browser reads 0.30 as 0.3
        styles = set(style.split(";")) - {""}
        if tag.name != "tbody":  # which a browser puts in
            found.append((tag.name, tag.attrs, styles))
    return found


def test_formulas_need_no_network_and_broken_ones_stay_as_written() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text) for text in ("$x_1$ ok", r"$\frac{$ bad")])
    page = page_of(notebook)
    assert "<math" in page
    assert r"\frac{" in page
    assert "mathjax" not in page.lower().split("</style>")[-1]


@pytest.mark.parametrize(
    "text", ["List<int>", "a<b && c", "x < y", "<!DOCTYPE html>", "</nothing>", "<b!x>", "<?php 1 ?>", "x <!-- open"]
)
def test_what_is_not_an_allowed_tag_is_shown_as_it_was_written(text: str) -> None:
    assert BeautifulSoup(clean(f"<p>{text}"), "html.parser").get_text() == text


@pytest.mark.parametrize(
    ("style", "kept"),
    [
        ("color: red; position: fixed", "color:red"),
        ("color: red; background: URL(x)", None),
        (r"color: r\65 d", None),
        ("background-image: x; color: red", None),
        ("@import 'x'", None),
        ("border-left: 3px solid var(--jp-border, #333)", "border-left:3px solid var(--jp-border, #333)"),
    ],
)
def test_a_style_keeps_the_allowed_properties_and_no_address(style: str, kept: str | None) -> None:
    assert BeautifulSoup(clean(f'<i style="{style}">x</i>'), "html.parser").i.get("style") == kept


def test_an_output_too_long_to_sanitise_is_left_out_and_said() -> None:
    assert clean("<b>" * 200_000) == "<p>(An output of 600,000 characters is left out.)</p>"


def test_tags_that_are_left_open_take_no_square_of_their_number() -> None:
    """Nine thousand characters became three million, and four hundred thousand took all memory there is."""
    left_open = "<p>" + "".join(f'<b title="{number}">' for number in range(400)) + "</p>" + "<p>x</p>" * 400
    for text in (left_open, left_open.replace("</p>", "</i></p>"), "<div>" * 80_000, "<ul><li>" * 40_000):
        started = time.process_time()
        assert len(clean(text)) < 200
        assert time.process_time() - started < 1.0
    rows = "<table><tr><td><b>1</b><td><a href='#'>2</a>" * 30 + "<tr><td>3" * 5000 + "</table>" * 30
    assert "is left out" not in clean(rows)
    assert "is left out" not in clean(maths_to_mathml("$a \\quad b \\; c$ " * 300))


def test_the_notebook_that_a_person_marks_holds_nothing_live() -> None:
    notebook, _ = Defuse().preprocess(hostile(), {})
    kinds = {kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})}
    assert kinds == {"text/plain", "text/html", "text/markdown"}
    html = [output.data[kind] for output in notebook.cells[-2].outputs for kind in output.get("data", {}) if kind != "text/plain"]
    markdown = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    for text in [*html, *markdown]:
        assert not re.search(r"<(script|iframe|object|form|svg|style|meta)\b|<\w[^>]+\son\w+=|<\w[^>]+javascript:", text)


def _nbgrader(root: Path, *command: str) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *command], cwd=root, env=environment, capture_output=True, text=True, timeout=280
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_plain_nbgrader_with_our_settings_gives_surgery_on_cells_nothing_and_its_page_is_harmless(scratch_course: Path) -> None:
    folder = scratch_course / "submitted" / "eve" / LESSON
    folder.mkdir(parents=True)
    notebook = json.loads((scratch_course / "release" / LESSON / f"{LESSON}.ipynb").read_text())
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution", "raises-exception"]
    answers = [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    checks = [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]
    notebook["cells"].remove(checks[0])
    notebook["cells"] += [dict(answers[0], id="again"), *(nbformat.v4.new_markdown_cell(markup) for markup in MARKUP)]
    notebook["cells"].append(nbformat.v4.new_code_cell(f"from IPython.display import HTML\nHTML({MARKUP[1]!r})"))
    (folder / f"{LESSON}.ipynb").write_text(json.dumps(notebook))
    (folder / "numpy.py").write_text("raise SystemExit('shadowed')")
    shutil.copytree(folder, scratch_course / "submitted" / "zoe" / LESSON)  # and the class goes on
    _nbgrader(scratch_course, "generate_assignment", LESSON, "--force", "--create")
    log = _nbgrader(scratch_course, "autograde", LESSON)
    assert "more than once" in log
    _nbgrader(scratch_course, "generate_feedback", LESSON)
    for student in ("eve", "zoe"):
        page = (scratch_course / "feedback" / student / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
        assert "Score: 0.0 /" in page
        assert "shadowed" not in page
        assert POLICY in page
        assert not re.search(r"<script\b|<[^>]+\sonerror=", page)
