"""Text in a drawing: `d_k`, `W_{UV}`, `K^T` become sub- and superscripts, `kv_lora_rank` stays; and how wide it will be."""

import re
import unicodedata

SIZE = 16.0  # px; sub- and superscripts are three quarters of it: 12
_RAISED = re.compile(r"([_^])(?:\{([^{}]*)\}|([^\W_])(?![\w{]|_))")
_NARROW, _WIDE = set("iljtf.,:;'|!()[]/ ·"), set("mwMW@%—…")


def runs(text: str) -> list[tuple[str, int]]:
    """`text` in pieces, each with its level: 0 on the line, -1 below, 1 above.

    >>> runs("W_Q x^{(1)} of kv_lora_rank")
    [('W', 0), ('Q', -1), (' x', 0), ('(1)', 1), (' of kv_lora_rank', 0)]
    """
    pieces, at = [], 0
    for match in _RAISED.finditer(text):
        if match.start() == 0:
            continue
        pieces += [(text[at : match.start()], 0), (match[2] or match[3] or "", -1 if match[1] == "_" else 1)]
        at = match.end()
    return [(piece, level) for piece, level in [*pieces, (text[at:], 0)] if piece]


def width(text: str, size: float = SIZE) -> float:
    """How wide the widest line of `text` is in px, about: fonts differ, so it is on the wide side."""
    return max(sum(_width(piece) * size * (0.75 if level else 1) for piece, level in runs(line)) for line in text.split("\n"))


def _width(piece: str) -> float:
    return sum(
        0.0 if unicodedata.combining(c) else 0.36 if c in _NARROW else 0.92 if c in _WIDE else 0.68 if c.isupper() else 0.58
        for c in piece
    )
