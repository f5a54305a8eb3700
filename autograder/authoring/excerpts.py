"""Write the search excerpts: the text of each section of the site, as a script that the search page loads.

Sphinx would fetch a whole page for each result, which a page opened as a file may not do.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.diagnosis.formulas import spell

DATA = "excerpts.js"  # written into the site's static files
_SCRIPT = "search.js"  # in `book_static`; shows the excerpts below the results


def setup(app: Any) -> None:
    """Add the excerpts to a Sphinx site."""
    app.connect("html-page-context", _load)
    app.connect("build-finished", _write)


def _load(app: Any, page: str, _template: str, _context: dict[str, Any], _doctree: Any) -> None:
    if page == "search":
        app.add_js_file(DATA)
        app.add_js_file(_SCRIPT)


def _write(app: Any, error: Exception | None) -> None:
    if error is None:
        pages = {page: list(sections(app.env.get_and_resolve_doctree(page, app.builder))) for page in sorted(app.env.found_docs)}
        text = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
        (Path(app.outdir) / "_static" / DATA).write_text(f"window.excerpts = {text};\n", encoding="utf-8")


def sections(doctree: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the anchor, heading and prose of each section of a page, without code and folded parts such as solutions."""
    from docutils import nodes

    for section in doctree.findall(nodes.section):
        paragraphs, folded = list[str](), 0
        for part in section.children:
            if isinstance(part, nodes.raw):
                folded += part.astext().count("<details") - part.astext().count("</details>")
            elif not folded and not isinstance(part, nodes.section):
                # a line in italics below a heading says how long something takes
                plain = [p for p in part.findall(nodes.paragraph) if [type(child) for child in p.children] != [nodes.emphasis]]
                paragraphs += map(_words, plain)
        title = section.next_node(nodes.title)
        yield section["ids"][0], _words(title), " ".join(filter(None, paragraphs))


def _words(paragraph: Any) -> str:
    """Return a paragraph's text on one line, with its formulas spelled out."""
    from docutils import nodes

    texts = []
    for leaf in paragraph.findall(nodes.Text):
        text = leaf.astext()
        markup, formula = (isinstance(leaf.parent, kind) for kind in (nodes.raw, nodes.math))
        texts.append(" " if markup else spell(f"${text}$") if formula else text)  # markup such as a line break becomes a space
    return " ".join("".join(texts).split())
