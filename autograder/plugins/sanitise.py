"""Make feedback pages in which nothing that a learner wrote is live, for `nbgrader generate_feedback` and for `attn`.

`FeedbackExporter` is set as `GenerateFeedback.exporter_class`. It renders with nbgrader's own template, but all HTML from
Markdown, outputs and comments passes an allow-list, and formulas become MathML. A content security policy forbids scripts,
frames, forms and loading from any address. `Defuse` follows `Execute` in `Autograde.autograde_preprocessors`, so formgrader
shows the same submission just as safely.
"""

import copy
import functools
import html
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import nbformat
import nh3
from jinja2 import DictLoader, pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.notebooks.html_page import POLICY, maths_to_mathml, prose
from autograder.notebooks.roles import grade_id, is_answer

_META = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
_MATHML = {"math", "mrow", "mi", "mo", "mn", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle", "msub", "msup"}
_MATHML |= {"msubsup", "munder", "mover", "munderover", "mtable", "mtr", "mtd", "mpadded", "mphantom"}
_TEXT = {"a", "b", "blockquote", "br", "code", "del", "details", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i"}
_TEXT |= {"img", "kbd", "li", "ol", "p", "pre", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead"}
_TEXT |= {"tr", "ul"}
_STYLES = {"background", "background-color", "border", "border-collapse", "border-left", "border-radius", "color", "cursor"}
_STYLES |= {"display", "flex-wrap", "font-size", "font-style", "font-variant-numeric", "font-weight", "gap", "justify-content"}
_STYLES |= {"line-height", "margin", "max-width", "outline", "outline-offset", "overflow-x", "padding", "text-align"}
_STYLES |= {"flex", "height", "margin-right", "overflow-wrap", "text-decoration", "white-space", "width"}
_SHAPES = {"display", "columnalign", "columnspacing", "rowspacing", "mathvariant", "stretchy", "fence", "separator", "accent"}
_SHAPES |= {"linethickness", "width", "height", "depth", "lspace", "rspace", "minsize", "maxsize", "movablelimits", "xmlns"}
# the start of a tag that is not allowed; nh3 would drop it, but the page has to show everything a learner wrote
_UNLISTED = re.compile(rf"<(?!/?(?:{'|'.join(sorted(_TEXT | _MATHML))})[\s/>]|!--)", re.IGNORECASE)
_HTML = ("text/html", "text/markdown")
_SHOWN = {"text/plain", "image/png", "image/jpeg", *_HTML}
_MAX_HTML = 400_000  # characters of one output, all of which the allow-list has to read
_FORMATS = frozenset({"a", "b", "code", "em", "i", "strong"})  # if one is left open, each following paragraph opens it again
_MAX_OPEN, _MAX_FORMATS = 200, 20  # tags that are open at once
_UNCOUNTED = {"br", "hr", "img", "li", "p", "tbody", "td", "th", "thead", "tr"}  # these end where the next one begins, or at once
_TAG = re.compile(rf"<(/?)({'|'.join(sorted(_TEXT - _UNCOUNTED))})[\s/>]", re.IGNORECASE)


def clean(text: str) -> str:
    """Return `text` with only the tags, attributes and styles of an allow-list. Everything else in it becomes visible text.

    >>> clean('<b onclick="x()">bold</b> <script>x()</script>')
    '<b>bold</b> &lt;script&gt;x()&lt;/script&gt;'
    """
    if "<" not in text and "&" not in text:
        return text
    if len(text) > _MAX_HTML:
        return f"<p>(An output of {len(text):,} characters is left out.)</p>"
    if _is_tangled(text):
        return f"<p>(An output with more than {_MAX_OPEN} tags open at once, or {_MAX_FORMATS} of them formats, is left out.)</p>"
    tags, end, rest = text.rpartition(">")  # an unfinished tag would swallow the rest of the text
    return _cleaner().clean(_UNLISTED.sub("&lt;", tags + end) + rest.replace("<", "&lt;"))


def _is_tangled(text: str) -> bool:
    """Return whether so many tags are open at once that a parser needs time and memory quadratic in their number.

    >>> _is_tangled("<b>x</b>" * 99), _is_tangled("<p>" + "<b>" * 99 + "</p>" + "<p>x</p>" * 99)
    (False, True)
    """
    left, opened, formats = Counter[str](), 0, 0
    for closing, name in _TAG.findall(text):
        name = name.lower()
        step = -1 if closing else 1
        if left[name] + step >= 0:
            left[name] += step
            opened += step
            formats += step if name in _FORMATS else 0
        if opened > _MAX_OPEN or formats > _MAX_FORMATS:
            return True
    return False


@functools.cache
def _cleaner() -> nh3.Cleaner:
    written = {"style", "class", "alt", "title", "open", "colspan", "rowspan", "start", "role"}
    attributes = dict.fromkeys(_TEXT, written) | dict.fromkeys(_MATHML, _SHAPES)
    return nh3.Cleaner(
        tags=_TEXT | _MATHML,
        clean_content_tags=set(),
        attributes=attributes | {"a": written | {"href"}, "img": written | {"src"}},
        attribute_filter=_safe_value,
        url_schemes={"http", "https", "mailto", "data"},
        filter_style_properties=_STYLES,
        link_rel=None,
    )


def _safe_value(tag: str, name: str, value: str) -> str | None:
    """Return an allowed attribute's `value`, or None if it would load something or link to anything but a web or mail address."""
    if name == "style":  # no style that contains an address or hides one in escapes
        safe = re.search(r"(?i)url|image|[\\@]", value) is None
    elif name == "src":  # only pictures inside the page: loading an address would reveal who reads the page, and when
        safe = re.match(r"data:image/(?:png|jpeg|gif);base64,", value) is not None
    else:
        safe = name != "href" or re.match(r"#|https?:|mailto:", value) is not None
    return value if safe else None


class _CleanExporter(HTMLExporter):
    """nbconvert's page, in which the HTML of Markdown and outputs passes the allow-list."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)  # type: ignore[no-untyped-call]  # nbconvert's constructor has no types
        self.sanitize_html = True  # drops script outputs and widgets, and passes HTML outputs through `clean_html`

    def default_filters(self) -> Any:
        yield from super().default_filters()  # type: ignore[no-untyped-call]  # this has no types either
        yield "markdown2html", self.markdown2html
        yield "clean_html", lambda text: clean(text.decode() if isinstance(text, bytes) else str(text))


class PageExporter(_CleanExporter):
    """The page that formgrader shows: nbconvert's page, in which the HTML of Markdown and outputs passes the allow-list.

    The allow-list is applied after rendering, when every entity and backslash in an address has been decoded.
    """

    def from_notebook_node(self, nb: Any, resources: Any = None, **named: Any) -> tuple[str, Any]:  # type: ignore[override]  # as in nbconvert
        self._spent_s = 0.0  # seconds spent on text that a learner may have written; meanwhile other requests wait
        nb = copy.deepcopy(nb)
        for cell in nb.cells:
            if cell.cell_type == "code" and _slow(cell.source, code=True):
                short = re.sub(r"\s{300,}", "\n", cell.source)[:_LONG]  # Pygments is quadratic in the number of blank lines
                cell.source = "\n".join(line[:_WIDE] for line in short.splitlines())
                cell.source += "\n# (The grader left out the rest: it is made to be slow to show. The file has it all.)"
        lexer = nb.metadata.get("language_info", {}).get("pygments_lexer", "ipython3")
        colour = Highlight2HTML(pygments_lexer=lexer, parent=self)
        self.filters["highlight_code"] = lambda source, **more: self._in_time(source, lambda: colour(source, **more))
        return super().from_notebook_node(nb, resources, **named)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Return the sanitised HTML of Markdown `source`. Text that is slow to render stays plain. (`context` is Jinja's.)"""
        if _slow(source):
            return _plain(source)
        cell, render = context.get("cell"), super().markdown2html
        if cell is not None and not is_answer(cell) and not cell.get("id", "").startswith("extra-"):  # the lesson's own text
            return clean(render(context, source))
        return self._in_time(source, lambda: clean(render(context, source)))

    def _in_time(self, source: str, make: Callable[[], str]) -> str:
        """Return `make()`, or the plain text once the page has used up its time."""
        if self._spent_s > _PATIENCE_S:
            return _plain(source)
        began = time.thread_time()
        rendered = make()
        self._spent_s += time.thread_time() - began + len(rendered) / _PER_S
        return rendered


def _plain(source: str) -> str:
    return f"<pre>{html.escape(source)}</pre>"


_PATIENCE_S = 3.0
_PER_S = 200_000  # characters of rendered HTML that nbconvert processes again in a second
_LONG, _WIDE = 30_000, 2_000


def _slow(source: str, *, code: bool = False) -> bool:
    """Return whether a renderer may take long over `source`. No lesson and no honest answer has such text."""
    if code and max(map(len, source.splitlines()), default=0) > _WIDE:
        return True
    return len(source) > _LONG or re.search(r"\s{300}|`{60}|\[{30}|(?:[*_][^\W_]?){300}", source) is not None


class FeedbackExporter(_CleanExporter):
    """nbgrader's feedback page, sanitised and readable without a network."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        # nbgrader's template loads MathJax from the network; here formulas are MathML
        named["extra_loaders"] = [DictLoader({"mathjax.html.j2": '{% macro mathjax(url="") %}{% endmacro %}'})]
        super().__init__(*arguments, **named)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Return the sanitised HTML of Markdown `source`, with formulas as MathML. (`context` is Jinja's.)"""
        return clean(super().markdown2html(context, _formulas(source)))

    def from_notebook_node(self, nb: Any, resources: Any = None, **named: Any) -> tuple[str, Any]:  # type: ignore[override]  # as in nbconvert
        nb = copy.deepcopy(nb)
        for number, cell in enumerate(nb.cells):
            _bare(cell, number)
        nb.metadata = nbformat.from_dict({"language_info": {"name": "python", "pygments_lexer": "ipython3"}})
        page, resources = super().from_notebook_node(nb, resources, **named)
        return page.replace("<head>", f"<head>{_META}", 1), resources


def _bare(cell: Any, number: int) -> None:
    """Reduce a cell's metadata to what the template needs, without markup."""
    grader = dict(cell.metadata.get("nbgrader", {}))
    if "grade_id" in grader:
        grader["grade_id"] = re.sub(r"[^\w.-]", "_", str(grader["grade_id"]))
    cell.metadata = nbformat.from_dict({"nbgrader": grader} if grader else {})
    cell.id = f"cell-{number}"
    cell.pop("attachments", None)
    for output in cell.get("outputs", []):
        output["metadata"] = nbformat.from_dict({})
        if "data" in output:
            output["data"] = _harmless(output["data"])


def _harmless(data: Any) -> Any:
    """Return what may be shown of an output's data: text, HTML to be cleaned, and valid pictures."""
    shown = {kind: content for kind, content in data.items() if kind in _SHOWN}
    broken = [kind for kind in shown if kind.startswith("image/") and not re.fullmatch(r"[A-Za-z0-9+/=\s]*", str(shown[kind]))]
    return nbformat.from_dict({kind: content for kind, content in shown.items() if kind not in broken})


def _formulas(source: str) -> str:
    """Return `source` with formulas as MathML; if that fails, return it unchanged."""
    if "$" not in source or len(source) > 20_000:
        return source
    try:
        return maths_to_mathml(source)
    except Exception:  # on a learner's TeX the converter may raise anything
        return source


class Defuse(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """Remove whatever a browser would run from what a learner wrote or printed, in the notebook that a person marks."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        if cell.cell_type == "markdown" and (is_answer(cell) or grade_id(cell) is None):
            cell.source = prose(cell.source)
        cell.pop("attachments", None)
        for output in cell.get("outputs", []):
            if "data" in output:
                output["data"] = _harmless(output["data"])
                for kind in _HTML:
                    if kind in output["data"]:
                        output["data"][kind] = clean(output["data"][kind])
        return cell, resources
