"""Pictures that a learner pasted into an answer: found in the cell, drawn again, shown as PNG and nothing else.

In: a cell's JSON. Out: the base64 of at most `MAX_PICTURES` pictures of the kinds that `KINDS` names. What is shown was decoded
and encoded again (`drawn_again`, in a process that may fail): no byte of the learner's file reaches a browser.
"""

import base64
import binascii
import io
import re
from collections.abc import Mapping
from typing import Any

MAX_PICTURES = 6  # of a cell
MAX_ENCODED = 12 << 20  # characters of base64
MAX_PIXELS = 40_000_000
SIDES = (1600, 1200, 900, 640)  # pixels of the longer side that are kept: the first at which a picture is small enough
MAX_COLOURS = 1 << 16  # of a picture that may keep them all
MAX_SHOWN = 1 << 20  # characters of base64 of a picture as it is shown
MAX_SHOWN_TOGETHER = 8 << 20  # of all pictures of a submission
KINDS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
_INLINE = re.compile(r"data:(image/(?:png|jpe?g|gif|webp));base64,([A-Za-z0-9+/=\s%]{40,})")
_MARKS = re.compile(
    r"!\[[^\[\]\n]{0,200}\]\((?:attachment:|data:image/)[^)\n]{0,200}\)"
    r"|<img\b[^<>]{0,200}\bsrc=[\"'](?:attachment:|data:image/)[^<>]{0,200}>",
    re.IGNORECASE,
)


def pasted(item: Mapping[str, Any]) -> tuple[str, ...]:
    """The base64 of the pictures in a cell's attachments and in its text."""
    found: list[str] = []
    attachments = item.get("attachments")
    for kinds in attachments.values() if isinstance(attachments, dict) else ():
        for kind, data in kinds.items() if isinstance(kinds, dict) else ():
            text = "".join(part for part in data if isinstance(part, str)) if isinstance(data, list) else data
            if kind in KINDS and isinstance(text, str):
                found.append(text)
    source = item.get("source")
    text = "".join(part for part in source if isinstance(part, str)) if isinstance(source, list) else source
    if isinstance(text, str) and "data:image/" in text:
        found += [match[2] for match in _INLINE.finditer(text)]
    return tuple(text for text in found[:MAX_PICTURES] if len(text) <= MAX_ENCODED)


def unmarked(text: str, most: int) -> str:
    """The first `most` characters of `text`, its pictures left out, without the places where they stood: they follow it.

    >>> unmarked("see ![](attachment:a.png) there", 99)
    'see (picture) there'
    """
    return _MARKS.sub("(picture)", _INLINE.sub("data:image/", text)[:most])


def drawn_again(encoded: str) -> str | None:
    """The picture in `encoded` (base64) as the base64 of a PNG of at most `MAX_SHOWN` characters; None where it is none.

    A large photograph keeps 256 colours, and a smaller side where that does not suffice.
    """
    try:
        from PIL import Image
    except ImportError:  # Matplotlib brings it; without it pictures are not shown
        return None
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        data = base64.b64decode(re.sub(r"\s", "", encoded), validate=True)
        with Image.open(io.BytesIO(data), formats=list(KINDS.values())) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                return None
            drawn = picture.convert("RGB")
    except (ValueError, OSError, SyntaxError, binascii.Error, Image.DecompressionBombError):
        return None
    for side in SIDES:
        drawn.thumbnail((side, side))
        exact = [drawn] if drawn.getcolors(MAX_COLOURS) else []  # of a photograph all its colours would never be small enough
        for made in (*exact, drawn.quantize(256, method=Image.Quantize.FASTOCTREE)):
            file = io.BytesIO()
            made.save(file, "PNG", optimize=False)
            if len(shown_again := base64.b64encode(file.getvalue()).decode("ascii")) <= MAX_SHOWN:
                return shown_again
    return None


def shown(source: str, number: int) -> str:
    """`source` with `number` pictures behind it, as Markdown attachments."""
    marks = "".join(f"\n\n![pasted picture {one}](attachment:picture-{one}.png)" for one in range(1, number + 1))
    return f"{source.rstrip()}{marks}"


def without(source: str) -> str:
    """`source` without what `shown` put behind it.

    >>> without(shown("see", 2))
    'see'
    """
    return re.sub(r"\n\n!\[pasted picture \d\]\(attachment:picture-\d\.png\)", "", source)


def attachments(encoded: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """nbformat's attachments for `shown`."""
    return {f"picture-{number}.png": {"image/png": data} for number, data in enumerate(encoded, 1)}
