"""Define a text that shows itself in a notebook and in a terminal."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shown:
    """A text that a notebook shows as `html`, or as `markdown` if there is no HTML; everything else shows the text."""

    text: str
    html: str = ""
    markdown: str = ""

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str | None:
        return self.html or None

    def _repr_markdown_(self) -> str | None:
        return self.markdown or None


def panel(text: str, html: str) -> Shown:
    """Return a text with its HTML in a frame whose content screen readers announce."""
    return Shown(text, f'<div class="attn-panel" role="status">{html}</div>')
