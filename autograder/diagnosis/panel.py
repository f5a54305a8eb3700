"""Render a `Report` as an HTML panel for notebooks and feedback, and as plain text.

Every string is escaped here and nowhere else. Colours come from JupyterLab's theme variables, with fallbacks for plain HTML. No
meaning depends on colour, because symbols and words say the same.
"""

import functools
import html
import re
import textwrap
from collections.abc import Iterable

import numpy as np

from autograder.diagnosis.explain import ExerciseRow, Grid, LessonRow, QuestionRow, Report
from autograder.diagnosis.finding import fact
from autograder.diagnosis.formulas import spell
from autograder.diagnosis.phrase import say

SYMBOL = {"pass": "✓", "noted": "•", "part": "◐", "fail": "✗", "todo": "·"}
ACCENT = {"pass": "#1b7f4b", "noted": "#2b5c9e", "part": "#a15c00", "fail": "#b3261e", "todo": "#5f6368"}
STATE = {"pass": "✓", "fail": "✗", "skip": "–"}
_INK = "var(--jp-ui-font-color1, #1f1f1f)"
_FAINT = "var(--jp-ui-font-color2, #5f6368)"
_PAPER = "var(--jp-layout-color1, #ffffff)"
_LINE = "var(--jp-border-color2, #d0d0d0)"

_FRAME = (
    f"border:1px solid {_LINE};border-radius:4px;padding:10px 14px;margin:4px 0;max-width:860px;color:{_INK};"
    f"background:{_PAPER};line-height:1.45;overflow-wrap:anywhere"
)


def status_word(status: str) -> str:
    """Return the word for a report's status."""
    return say(fact(f"status.{status}"))


def hint_name(level: int) -> str:
    """Return what the hint of this level, from 1 to 3, gives away."""
    return say(fact(f"hint.name.{level}"))


def inline(text: str) -> str:
    """Return escaped text with `code`, *emphasis*, **bold** and $maths$ as HTML."""
    safe, code = _without_code(text)
    safe = spell(html.escape(safe, quote=True), html=True)
    safe = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", safe)
    safe = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<i>\1</i>", safe)
    return _with_code(safe, [f"<code>{html.escape(part, quote=True)}</code>" for part in code])


def plain(text: str) -> str:
    """Return the text for terminals: maths is spelled out and emphasis marks are removed, while `code` keeps its backticks."""
    bare, code = _without_code(text)
    bare = re.sub(r"(?<![\w*])(\*{1,2})([^*\s][^*]*)\1(?![\w*])", r"\2", spell(bare))
    return _with_code(bare, [f"`{part}`" for part in code])


_CODE = "\ue000"  # replaces `code` while the rest is marked up, because a `**` in code is a power and not emphasis


def _without_code(text: str) -> tuple[str, list[str]]:
    text = text.replace(_CODE, "\ufffd")
    return re.sub(r"`[^`]+`", _CODE, text), re.findall(r"`([^`]+)`", text)


def _with_code(text: str, code: Iterable[str]) -> str:
    parts = iter(code)
    return re.sub(_CODE, lambda _: next(parts), text)


def framed(body: str, status: str) -> str:
    """Return HTML in the panel's frame."""
    return f'<div class="attn-panel" role="status" style="{_FRAME};border-left:6px solid {ACCENT[status]}">{body}</div>'


def to_html(report: Report) -> str:
    """Return the panel as one self-contained `<div>`, without script, style sheet or network."""
    looks = _looks(report)
    parts = [
        '<div style="display:flex;justify-content:space-between;gap:16px">'
        f"<b>{_badge(looks, status_word(looks))} &nbsp;{inline(report.title)}</b>"
        f'<b style="white-space:nowrap">{_number(report.score)} / {_number(report.points)}</b></div>',
        f'<p style="font-size:115%;margin:8px 0 2px"><b>{inline(report.headline)}</b></p>',
    ]
    parts += [f'<p style="margin:2px 0">{inline(text)}</p>' for text in (report.advice, report.detail) if text]
    if report.grids:
        parts.append(
            '<div style="display:flex;flex-wrap:wrap;gap:18px;margin:8px 0">' + "".join(map(_grid_html, report.grids)) + "</div>"
        )
    if report.checks:
        parts.append(_row(say(fact("panel.checks")), report.checks))
    if len(report.cases) > 1:
        cases = ((name, "pass" if ok else "fail") for name, ok in report.cases)
        parts.append(_row(say(fact("panel.hidden" if report.hidden else "panel.inputs")), cases))
    if report.snippet:
        frame = f"overflow-x:auto;margin:3px 0 6px;padding:6px 10px;border:1px solid {_LINE};border-radius:3px;background:none"
        pasted = f'<pre style="{frame}">{html.escape(report.snippet)}</pre>'
        parts.append(_details(say(fact("panel.snippet")), pasted))
    if report.notes:
        items = "".join(f"<li>{html.escape(note)}</li>" for note in report.notes)
        parts.append(_details(say(fact("panel.warned")), f"<ul>{items}</ul>"))
    folded = [
        (say(fact("panel.hint", level=level, name=hint_name(level))), hint) for level, hint in enumerate(report.hints, start=1)
    ]
    if report.change:
        folded.append((say(fact("panel.show_change")), report.change))
    parts += [_details(title, f"<p style='margin:2px 0 2px 16px'>{inline(text)}</p>") for title, text in folded]
    if report.following:
        links = [_link(text, to) for text, to in report.following]
        parts.append(f'<p style="margin:8px 0 2px">{" · ".join(links)}</p>')
    if report.effort:
        parts.append(f'<p style="margin:6px 0 0;font-size:90%;color:{_FAINT}">{inline(report.effort)}</p>')
    return framed("".join(parts), looks)


def _looks(report: Report) -> str:
    """Return the status to draw. A wrong prediction gets its points but is not shown in green."""
    return "noted" if report.surprise else report.status


def to_text(report: Report, *, width: int = 88) -> str:
    """Return the panel for a terminal, where nothing can be folded.

    It shows only the first hint. There is no hint before the first try, and none if a mistake is named, because the hint may be
    about something else.
    """
    looks = _looks(report)
    lines = [head_text(looks, report.title, status_word(looks), report.score, report.points)]
    wrap = functools.partial(textwrap.wrap, width=width, initial_indent="  ", subsequent_indent="  ")
    for text in (report.headline, report.advice, report.detail):
        lines += wrap(plain(text))
    for grid in report.grids:
        lines += ["", f"  {grid.title}", *(f"    {row}" for row in _grid_rows(grid))]
    if report.checks:
        checks = "  ".join(f"{STATE[state]} {name}" for name, state in report.checks)
        lines += ["", "  " + say(fact("panel.text.checks", items=checks))]
    if len(report.cases) > 1:
        cases = "  ".join(f"{STATE['pass' if ok else 'fail']} {name}" for name, ok in report.cases)
        lines.append("  " + say(fact("panel.text.hidden" if report.hidden else "panel.text.inputs", items=cases)))
    if report.snippet:
        lines += ["", "  " + say(fact("panel.text.snippet")), *(f"    {line}" for line in report.snippet.splitlines())]
    lines += ["  " + say(fact("panel.text.warned", note=note)) for note in report.notes]
    if report.following:
        lines.append("  " + " · ".join(plain(text) for text, _ in report.following))
    if report.hints and not report.known and report.status != "todo":
        lines += ["", *wrap(say(fact("panel.text.hint", text=plain(report.hints[0]))))]
    if report.change:
        lines += ["", "  " + say(fact("panel.text.show_change"))]
    if report.effort:
        lines += ["", f"  {report.effort}"]
    return "\n".join(lines)


def head_text(status: str, title: str, word: str, score: float, points: float) -> str:
    """Return the first line of a panel for a terminal; `word` says what the symbol of `status` shows."""
    return f"{SYMBOL[status]} {title} · {word} · {_number(score)} / {_number(points)}"


def overview_html(row: LessonRow) -> str:
    """Return the progress panel of one lesson: a bar, and a line for each exercise."""
    share = 100 * row.score / row.points if row.points else 0.0
    lines = []
    for exercise in row.exercises:
        mistake = f'<span style="color:{_FAINT}">{inline(_mistake_text(exercise))}</span>' if _mistake_text(exercise) else ""
        badge = _badge(exercise.status, status_word(exercise.status))
        points = f"{_number(exercise.score)} / {_number(exercise.points)}"
        lines.append(_standing(badge, f"<code>{html.escape(exercise.id)}</code> {mistake}", points))
    for question in row.questions:
        badge = _badge(*(("noted", status_word("answered")) if question.answered else ("todo", status_word("open"))))
        lines.append(_standing(badge, _link(question.title, question.link), html.escape(say(fact("panel.in_words")))))
    if open_text := open_words(row.questions):
        saved = html.escape(f"{open_text}. {say(fact('panel.saved'))}")
        lines.append(f'<p style="margin:8px 0 2px">{saved}</p>')
    return (
        f'<div class="attn-panel" role="status" style="{_FRAME}">'
        f'<div style="display:flex;justify-content:space-between;gap:16px"><b>{inline(row.title)}</b>'
        f'<b style="white-space:nowrap">{html.escape(_lesson_score(row))}</b></div>'
        f'<div style="height:6px;margin:8px 0;border-radius:3px;background:{_LINE}">'
        f'<div style="height:6px;border-radius:3px;width:{share:.0f}%;background:{ACCENT["pass"]}"></div></div>'
        f"{''.join(lines)}</div>"
    )


def _standing(badge: str, what: str, points: str) -> str:
    return (
        f'<div style="display:flex;gap:12px;margin:5px 0"><div style="flex:none;width:8em">{badge}</div>'
        f'<div style="flex:auto">{what}</div><div style="white-space:nowrap">{points}</div></div>'
    )


def overview_text(row: LessonRow) -> str:
    """Return the progress of one lesson for a terminal."""
    lines = [f"{row.title} · {_lesson_score(row)}"]
    for exercise in row.exercises:
        mistake = f" · {plain(_mistake_text(exercise))}" if _mistake_text(exercise) else ""
        lines.append(f"  {SYMBOL[exercise.status]} {exercise.id}{mistake}")
    for question in row.questions:
        symbol = SYMBOL["noted" if question.answered else "todo"]
        lines.append(f"  {symbol} {question.id} · {say(fact('panel.in_words'))} · {question.title}")
    if open_text := open_words(row.questions):
        lines.append(f"  {open_text}. {say(fact('panel.saved'))}")
    return "\n".join(lines)


def _lesson_score(row: LessonRow) -> str:
    return say(fact("panel.score", score=_number(row.score), points=_number(row.points)))


def open_words(questions: Iterable[QuestionRow]) -> str:
    """Return "2 questions in words are open" for these questions, and "" if none is open."""
    count = sum(not question.answered for question in questions)
    return say(fact("panel.open", count=count)) if count else ""


def _mistake_text(exercise: ExerciseRow) -> str:
    """Return what the last check said if it named a mistake, else ""."""
    if exercise.status in ("pass", "todo") or not exercise.mistake:
        return ""
    return say(fact("panel.mistake", told=exercise.mistake))


def _badge(status: str, word: str) -> str:
    """Return a word on a background of its own colour, which is readable on any theme."""
    style = f"background:{ACCENT[status]};color:#ffffff;padding:1px 7px;border-radius:3px;white-space:nowrap"
    return f'<span style="{style}">{SYMBOL[status]} {html.escape(word)}</span>'


def _row(title: str, items: Iterable[tuple[str, str]]) -> str:
    """Return names with the symbols of their states, in a line that may break only between pairs."""
    style = "white-space:nowrap;margin-right:10px"
    row = " ".join(f'<span style="{style}">{STATE[state]} {html.escape(name)}</span>' for name, state in items)
    return f'<p style="margin:4px 0;font-size:90%;color:{_FAINT}">{html.escape(title)}: {row}</p>'


def _link(text: str, to: str) -> str:
    return f'<a href="{html.escape(to, quote=True)}">{inline(text)}</a>' if to else inline(text)


def _details(title: str, body: str) -> str:
    summary = f'<summary style="cursor:pointer;display:list-item">{html.escape(title)}</summary>'
    return f'<details style="margin:3px 0">{summary}{body}</details>'


def _number(value: float) -> str:
    return f"{value:g}"


def _entry(value: float | bool) -> str:
    if isinstance(value, bool | np.bool_):
        return "T" if value else "F"
    if 99.5 <= abs(value) < 1000:
        return f"{value:.0f}"  # `.2g` would write 1.2e+02
    return f"{value:.2g}" if abs(value) < 1000 else f"{value:.0e}"


def _grid_html(grid: Grid) -> str:
    finite = np.abs(grid.cells[np.isfinite(grid.cells)]) if grid.cells.size else np.zeros(1)
    scale = float(np.abs(finite).max(initial=0.0)) or 1.0
    rows = []
    for i, row in enumerate(grid.cells):
        cells = []
        for j, value in enumerate(row):
            strength = min(1.0, float(abs(value)) / scale) if np.isfinite(value) else 1.0
            rgb = ("213,94,0" if value.real < 0 else "0,114,178") if np.isfinite(value) else "204,121,167"
            box = "outline:3px solid #d55e00;outline-offset:-2px;font-weight:bold;" if (i, j) == grid.box else ""
            mark = "text-decoration:underline;" if grid.diverging and grid.wrong[i, j] else ""
            cells.append(
                f'<td style="padding:2px 5px;text-align:right;border:1px solid {_LINE};{box}{mark}'
                f'background:rgba({rgb},{0.5 * strength:.2f})">{html.escape(_entry(value.item()))}</td>'
            )
        rows.append("<tr>" + "".join(cells) + "</tr>")
    style = "border-collapse:collapse;margin:0;white-space:nowrap;font-size:85%;font-variant-numeric:tabular-nums"
    table = f'<table style="{style}">{"".join(rows)}</table>'
    return f'<div style="overflow-x:auto"><div style="font-size:85%;color:{_FAINT}">{html.escape(grid.title)}</div>{table}</div>'


def _grid_rows(grid: Grid) -> Iterable[str]:
    texts = [[_entry(value.item()) for value in row] for row in grid.cells]
    width = max((len(text) for row in texts for text in row), default=1) + 1
    for i, row in enumerate(texts):
        yield " ".join((f">{text}" if (i, j) == grid.box else text).rjust(width) for j, text in enumerate(row))
