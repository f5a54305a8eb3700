"""The class report as one HTML page: no script, no network, light and dark, fit for print. Everything is escaped here."""

import html
from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlsplit

from autograder.authoring.course import CourseError
from autograder.diagnosis.panel import SYMBOL, WORD, inline
from autograder.grading.reports.class_report import Held, Passed, View, score

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
FORMGRADER = "http://localhost:8888/formgrader"
MANY = 8  # misconceptions, students and names shown before the fold
_CSS = """
:root { color-scheme: light dark; --ink: #1c1c1e; --faint: #5f6368; --paper: #fbfbfa; --card: #fff; --line: #dcdcd8;
  --pass: #1b7f4b; --part: #e0a030; --fail: #c0392b; --todo: #c9c9c4; --accent: #1f5fa8; --warn: #fdecea; }
@media (prefers-color-scheme: dark) { :root { --ink: #e9e9e6; --faint: #a3a6aa; --paper: #141416; --card: #1d1d20;
  --line: #3a3a3e; --pass: #4cba80; --part: #d9a441; --fail: #e8776b; --todo: #4a4a4f; --accent: #7fb2ea; --warn: #3d1d1b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.1rem 1.4rem 4rem; font: 15px/1.45 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.45rem; margin: 0; } h2 { font-size: 1.05rem; margin: 0 0 .5rem; } p { margin: .2rem 0; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
.faint { color: var(--faint); } .small { font-size: .87rem; }
header { display: flex; justify-content: space-between; align-items: baseline; gap: 1rem; flex-wrap: wrap; }
.tier { border: 1px solid var(--line); border-radius: 1rem; padding: .1rem .7rem; font-size: .87rem; }
.alarm { background: var(--warn); border: 2px solid var(--fail); border-radius: 6px; padding: .6rem .9rem; margin: .8rem 0;
  font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: .7rem; margin: .8rem 0; }
.tiles > *, section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .95rem; }
.tiles b { display: block; font-size: 1.5rem; line-height: 1.25; }
.two { display: grid; grid-template-columns: 3fr 2fr; gap: .8rem; margin-bottom: .8rem; align-items: start; }
.even { grid-template-columns: 1fr 1fr; }
@media screen and (max-width: 52rem) { .two, .even, .tiles { grid-template-columns: 1fr; } }
ol, ul { list-style: none; margin: 0; padding: 0; } li { padding: .45rem 0; border-top: 1px solid var(--line); }
li:first-child { border-top: 0; padding-top: 0; }
.held { display: grid; grid-template-columns: 3.2rem 1fr; gap: .7rem; } .held > b { font-size: 1.35rem; text-align: right; }
.held > b small { display: block; font-size: .68rem; font-weight: 400; color: var(--faint); }
.bar { height: 4px; border-radius: 2px; background: var(--accent); margin: .3rem 0; }
.who { display: flex; flex-wrap: wrap; gap: .1rem .6rem; font-size: .87rem; }
.who details, details.who { display: block; } summary { cursor: pointer; color: var(--accent); font-size: .87rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; } th { text-align: left; font-weight: 600; }
td, th { padding: .22rem .5rem .22rem 0; border-top: 1px solid var(--line); vertical-align: top; } .n { text-align: right; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.pass { fill: var(--pass); } .part { fill: var(--part); } .fail { fill: var(--fail); } .todo { fill: var(--todo); }
.score { fill: var(--accent); } .axis { stroke: var(--line); } svg text.faint { fill: var(--faint); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .25em; }
@media print { :root { color-scheme: light; --ink: #000; --faint: #444; --paper: #fff; --card: #fff; --line: #bbb;
  --pass: #1b7f4b; --part: #e0a030; --fail: #c0392b; --todo: #c9c9c4; --accent: #1f5fa8; }
  html { font-size: 11px; } body { font-size: 11px; padding: 0; max-width: none; }
  section, li, tr { break-inside: avoid; } details::details-content { content-visibility: visible; block-size: auto; }
  * { print-color-adjust: exact; } }
"""


def render(shown: View, formgrader: str = FORMGRADER) -> str:
    """The page. `formgrader` is where the links lead. Raises CourseError where that is no address of the web."""
    if urlsplit(formgrader).scheme not in ("http", "https"):
        raise CourseError(f"expected formgrader's address, such as {FORMGRADER}, got {formgrader!r}.")
    links = _Links(shown, formgrader.rstrip("/"))
    title = html.escape(f"{shown.title}: the class")
    body = [_head(shown), _silent(shown, links), _tiles(shown, links)]
    body.append(f'<div class="two">{_misconceptions(shown, links)}{_needy(shown, links)}</div>')
    body.append(f'<div class="two even">{_distribution(shown)}{_exercises(shown.passed)}</div>')
    body.append(f'<div class="two even">{_waiting(shown, links)}{_late_and_slow(shown, links)}</div>')
    body += [_sections(shown), _across(shown, links), _everybody(shown, links), _foot(shown)]
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">'
    head += f'<meta name="viewport" content="width=device-width"><title>{title}</title><style>{_CSS}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


class _Links:
    """Where a student's work, or the assignment's, is marked."""

    def __init__(self, shown: View, base: str):
        self._shown, self._base = shown, base

    def student(self, student: str) -> str:
        facts = self._shown.facts.get(student)
        known = facts.grade.submission if facts and facts.grade else ""
        path = f"submissions/{quote(known, safe='')}/" if known else self._page(student)
        name = f"{facts.name} " if facts and facts.name else ""
        return f'<a href="{html.escape(f"{self._base}/{path}")}" title="{html.escape(name + student)}">{_text(student)}</a>'

    def _page(self, student: str) -> str:
        return f"manage_students/{quote(student, safe='')}/{quote(self._shown.assignment, safe='')}"

    def manual(self, text: str) -> str:
        name = quote(self._shown.assignment, safe="")
        return f'<a href="{html.escape(f"{self._base}/gradebook/{name}/{name}")}">{_text(text)}</a>'

    def students(self, names: Sequence[str]) -> str:
        shown = " ".join(f"<span>{self.student(name)}</span>" for name in names[:MANY])
        if len(names) <= MANY + 1:
            return f'<div class="who">{" ".join(f"<span>{self.student(name)}</span>" for name in names)}</div>'
        rest = " ".join(f"<span>{self.student(name)}</span>" for name in names[MANY:])
        more = f'<details><summary>and {len(names) - MANY} more</summary><div class="who">{rest}</div></details>'
        return f'<div class="who">{shown}</div>{more}'


def _head(shown: View) -> str:
    tiers = [part.strip() for part in shown.tier.split(",") if part.strip()]
    badge = f'<span class="tier">sandbox: {_text(shown.tier or "unknown")}</span>'
    alarm = ""
    if "none" in tiers or not tiers:
        alarm = (
            '<p class="alarm" role="alert">⚠ Graded WITHOUT isolation: student code ran with your rights. '
            "Where a submission may be hostile, trust neither the scores nor this machine; grade on Linux with bubblewrap.</p>"
        )
    elif "landlock" in tiers:
        alarm = (
            '<p class="alarm" role="alert">⚠ Graded without bubblewrap (Landlock): submissions share one user, so one that '
            "starts many processes or fills the disk can slow or fail others. "
            "<code>apt install bubblewrap</code>, then grade again.</p>"
        )
    return f"<header><h1>{_text(shown.title)} <span class='faint'>· the class</span></h1>{badge}</header>{alarm}"


def _silent(shown: View, links: _Links) -> str:
    """Who handed nothing in: first of all, because it can still be mended."""
    if not shown.silent:
        return ""
    of = len({*shown.facts, *(row.student for row in shown.rows)})
    title = f"Silent: {len(shown.silent)} of {of} handed nothing in"
    return f'<section id="silent"><h2>{title}</h2>{links.students(shown.silent)}</section>'


def _sections(shown: View) -> str:
    if not shown.sections:
        return ""
    rows = [
        (_text(each.name or "none"), _text(", ".join(each.markers)), f"{each.handed_in} of {each.students}",
         f"{each.median:g}", str(each.waiting))
        for each in shown.sections
    ]  # fmt: skip
    table = _table(("section", "marked by", "handed in", "median", "answers to mark"), rows)
    return f'<section id="sections"><h2>Sections</h2>{table}</section>'


def _across(shown: View, links: _Links) -> str:
    if not shown.across:
        return ""
    rows = []
    for each in shown.across[: 2 * MANY]:
        where = ", ".join(f"{_text(place)}: {count}" for place, count in each.places.items())
        rows.append((_text(each.id.replace("_", " ")), where, links.students(each.again) if each.again else ""))
    table = _table(("mistake", "students by lesson", "who made it again"), rows)
    return f'<section id="across"><h2>Mistakes that come back</h2>{table}</section>'


def _tiles(shown: View, links: _Links) -> str:
    cells = sum(map(len, shown.waiting.values()))
    first = shown.held[0] if shown.held else None
    wide = f"{len(first.students)} of {len(shown.rows)}: “you {inline(first.says)}”" if first else "no misconception found"
    tiles = [
        (f"{len(shown.needy)}", f"of {len(shown.rows)} students need you"),
        (f"{len(shown.held)}", f"misconceptions held; {wide}"),
        (f"{shown.median:g} / {shown.points:g}", "median of the points, by machine and by hand"),
        (
            f"{cells}",
            links.manual(f"written answers of {len(shown.waiting)} students wait for your mark")
            if cells
            else "written answers wait for your mark",
        ),
    ]
    return (
        '<div class="tiles">'
        + "".join(f"<div><b>{number}</b><span class='small'>{text}</span></div>" for number, text in tiles)
        + "</div>"
    )


def _misconceptions(shown: View, links: _Links) -> str:
    items = [_held(each, len(shown.rows), links) for each in shown.held]
    body = f"<ol>{''.join(items[:MANY])}</ol>" if items else '<p class="faint">Nobody\'s answer equals a known mistake.</p>'
    if len(items) > MANY:
        body += f"<details><summary>{len(items) - MANY} rarer ones</summary><ol>{''.join(items[MANY:])}</ol></details>"
    if shown.unexplained:
        rows = "".join(_held(each, len(shown.rows), links) for each in shown.unexplained)
        title = f"Wrong, and no known mistake: {len(shown.unexplained)} exercises"
        body += f"<details><summary>{title}</summary><ol>{rows}</ol></details>"
    if shown.carried:
        rows = "".join(_held(each, len(shown.rows), links) for each in shown.carried)
        title = f"Right but for an earlier answer: {len(shown.carried)} exercises, not counted above"
        body += f"<details><summary>{title}</summary><ol>{rows}</ol></details>"
    return f'<section id="misconceptions"><h2>What they misunderstood</h2>{body}</section>'


def _held(each: Held, of: int, links: _Links) -> str:
    share = 100 * len(each.students) / max(of, 1)
    fix = f'<p class="small">{inline(each.fix)}</p>' if each.fix else ""
    said, where = (f"“You {inline(each.says)}.”", _text(each.title)) if each.id else (_text(each.title), "")
    return (
        f'<li class="held"><b>{len(each.students)}<small>of {of}</small></b><div><p><b>{said}</b> '
        f'<span class="faint small">{where}</span></p><div class="bar" style="width:{share:.0f}%"></div>'
        f"{fix}{links.students(each.students)}</div></li>"
    )


def _needy(shown: View, links: _Links) -> str:
    items = []
    for each in shown.needy:
        said = "".join(f'<p class="small">{_text(reason)}</p>' for reason in each.reasons[:3])
        more = f'<p class="small faint">and {len(each.reasons) - 3} more remarks</p>' if len(each.reasons) > 3 else ""
        items.append(f"<li><b>{links.student(each.student)}</b>{said}{more}</li>")
    body = (
        f"<ul>{''.join(items[: MANY + 2])}</ul>"
        if items
        else '<p class="faint">Nobody: no problem, no flag, nobody below half.</p>'
    )
    if len(items) > MANY + 2:
        body += f"<details><summary>{len(items) - MANY - 2} more</summary><ul>{''.join(items[MANY + 2 :])}</ul></details>"
    return f'<section id="needy"><h2>Who needs you</h2>{body}</section>'


def _distribution(shown: View) -> str:
    bins = [0] * 10
    for total in shown.scores:
        bins[min(9, int(10 * total / shown.points)) if shown.points else 0] += 1
    tallest = max([*bins, 1])
    bars = []
    for i, count in enumerate(bins):
        height = 120 * count / tallest
        low, high = shown.points * i / 10, shown.points * (i + 1) / 10
        bars.append(
            f'<rect class="score" x="{10 + 46 * i}" y="{140 - height:.1f}" width="40" height="{height:.1f}" rx="2">'
            f"<title>{count} students with {low:g} to {high:g} points</title></rect>"
            f'<text x="{30 + 46 * i}" y="{135 - height:.1f}" text-anchor="middle">{count or ""}</text>'
            f'<text class="faint" x="{30 + 46 * i}" y="155" text-anchor="middle">{low:g}</text>'
        )
    axis = '<line class="axis" x1="5" x2="475" y1="140.5" y2="140.5"/>'
    axis += f'<text class="faint" x="240" y="172" text-anchor="middle">points, of {shown.points:g}</text>'
    label = f"Scores of {len(shown.scores)} students; median {shown.median:g} of {shown.points:g}"
    picture = f'<svg viewBox="0 0 480 178" role="img" aria-label="{html.escape(label)}">{"".join(bars)}{axis}</svg>'
    return f"<section><h2>Scores</h2>{picture}</section>"


def _exercises(passed: Sequence[Passed]) -> str:
    rows = []
    for i, each in enumerate(passed):
        total, x = max(sum(each.counts.values()), 1), 190.0
        parts = []
        for status, count in each.counts.items():
            width = 230 * count / total
            title = f"<title>{html.escape(each.title)}: {count} {WORD[status]}</title>"
            parts.append(f'<rect class="{status}" x="{x:.1f}" y="{6 + 22 * i}" width="{width:.1f}" height="13">{title}</rect>')
            x += width
        share = f"{100 * each.counts['pass'] / total:.0f}%"
        name = each.exercise if len(each.exercise) <= 27 else f"{each.exercise[:26]}…"
        rows.append(f'<text x="182" y="{17 + 22 * i}" text-anchor="end">{_text(name)}</text>{"".join(parts)}')
        rows.append(f'<text x="428" y="{17 + 22 * i}">{share}</text>')
    label = "Share of students who passed each exercise"
    picture = f'<svg viewBox="0 0 470 {10 + 22 * len(passed)}" role="img" aria-label="{label}">{"".join(rows)}</svg>'
    names = " &nbsp; ".join(
        f'<span class="key" style="background:var(--{each})"></span>{SYMBOL[each]} {WORD[each]}' for each in WORD
    )
    return f'<section><h2>Exercises</h2>{picture}<p class="small faint">{names}</p></section>'


def _waiting(shown: View, links: _Links) -> str:
    if not shown.waiting:
        return '<section><h2>To mark by hand</h2><p class="faint">Nothing waits.</p></section>'
    cells: dict[str, int] = {}
    for names in shown.waiting.values():
        for name in names:
            cells[name] = cells.get(name, 0) + 1
    rows = _table(("question", "answers"), [(_text(name), str(count)) for name, count in sorted(cells.items())])
    return (
        f"<section><h2>To mark by hand</h2><p>{links.manual('Open them in formgrader')}</p>{rows}"
        f"{links.students(list(shown.waiting))}</section>"
    )


def _late_and_slow(shown: View, links: _Links) -> str:
    late = [
        (links.student(name), _duration(grade.late_s), f"−{grade.penalty:g}" if grade.penalty else "none")
        for name, each in shown.late.items()
        if (grade := each.grade)
    ]
    slow = [(links.student(name), f"{seconds:.1f} s") for name, seconds in shown.slowest]
    first = _table(("late", "by", "penalty"), late) if late else '<p class="faint">Nobody was late.</p>'
    return f"<section><h2>Late, and slow to grade</h2>{first}{_table(('slowest', 'took'), slow)}</section>"


def _everybody(shown: View, links: _Links) -> str:
    rows = []
    for row in shown.rows:
        marks = " ".join(
            f'<span title="{html.escape(f"{name}: {WORD[state.status]}")}">{SYMBOL[state.status]}</span>'
            for name, state in row.exercises.items()
        )
        remarks = _text("; ".join([*([row.problem] if row.problem else []), *row.flags]))
        rows.append((links.student(row.student), f"{score(row, shown.facts):g}", marks, remarks))
    return (
        f'<section id="everybody"><details><summary>All {len(shown.rows)} students</summary>'
        f"{_table(('student', 'points', 'exercises in order', 'remarks'), rows)}</details></section>"
    )


def _foot(shown: View) -> str:
    versions = ", ".join(f"{_text(name)} {_text(number)}" for name, number in sorted(shown.versions.items()))
    known = f"{_text(shown.assignment)} · sandbox {_text(shown.tier or 'unknown')} · {versions or 'versions unknown'}"
    return f'<p class="small faint">{known}</p>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def _duration(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours" if hours >= 1 else f"{seconds / 60:.0f} minutes"


def _text(text: str) -> str:
    return html.escape(text)
