"""Find pictures that a learner pasted into an answer, and redraw them as PNG before anybody sees them.

In: a cell's JSON. Out: the base64 of at most `MAX_PICTURES` pictures of the kinds in `KINDS`. A picture is decoded and encoded
again before it is shown (`drawn_again`, in a process that may fail), so no byte of the learner's file reaches a browser.
"""

import base64
import binascii
import io
import re
from collections.abc import Mapping
from typing import Any

MAX_PICTURES = 6  # in a cell
MAX_ENCODED = 12 << 20  # characters of base64
MAX_PIXELS = 40_000_000
SIDES = (1600, 1200, 900, 640)  # pixels of the longer side; the first that makes the picture small enough is used
MAX_COLOURS = 1 << 16  # a picture with at most this many may keep all its colours
MAX_SHOWN = 1 << 20  # characters of base64 of a redrawn picture
MAX_SHOWN_TOGETHER = 8 << 20  # of all pictures in a submission together
KINDS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
_INLINE = re.compile(r"data:(image/(?:png|jpe?g|gif|webp));base64,([A-Za-z0-9+/=\s%]{40,})")
_MARKS = re.compile(
    r"!\[[^\[\]\n]{0,200}\]\((?:attachment:|data:image/)[^)\n]{0,200}\)"
    r"|<img\b[^<>]{0,200}\bsrc=[\"'](?:attachment:|data:image/)[^<>]{0,200}>",
    re.IGNORECASE,
)


def pasted(item: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the base64 of the pictures in a cell's attachments and in its text."""
    pictures: list[str] = []
    attachments = item.get("attachments")
    for kinds in attachments.values() if isinstance(attachments, dict) else ():
        for kind, data in kinds.items() if isinstance(kinds, dict) else ():
            text = "".join(part for part in data if isinstance(part, str)) if isinstance(data, list) else data
            if kind in KINDS and isinstance(text, str):
                pictures.append(text)
    source = item.get("source")
    text = "".join(part for part in source if isinstance(part, str)) if isinstance(source, list) else source
    if isinstance(text, str) and "data:image/" in text:
        pictures += [match[2] for match in _INLINE.finditer(text)]
    return tuple(text for text in pictures[:MAX_PICTURES] if len(text) <= MAX_ENCODED)


def unmarked(text: str, most: int) -> str:
    """Return the first `most` characters of `text` without its pictures, each replaced by "(picture)".

    The pictures follow the text.

    >>> unmarked("see ![](attachment:a.png) there", 99)
    'see (picture) there'
    """
    return _MARKS.sub("(picture)", _INLINE.sub("data:image/", text)[:most])


def drawn_again(encoded: str) -> str | None:
    """Redraw the picture in `encoded` (base64) as the base64 of a PNG with at most `MAX_SHOWN` characters, or return None.

    A large photograph is reduced to 256 colours, and to a smaller size if that does not suffice.
    """
    try:
        from PIL import Image
    except ImportError:  # Matplotlib installs Pillow; without it pictures are not shown
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
        exact = [drawn] if drawn.getcolors(MAX_COLOURS) else []  # a photograph with all its colours would never be small enough
        for made in (*exact, drawn.quantize(256, method=Image.Quantize.FASTOCTREE)):
            file = io.BytesIO()
            made.save(file, "PNG", optimize=False)
            if len(shown_again := base64.b64encode(file.getvalue()).decode("ascii")) <= MAX_SHOWN:
                return shown_again
    return None


def shown(source: str, number: int) -> str:
    """Return `source` followed by `number` pictures, as Markdown attachments."""
    marks = "".join(f"\n\n![pasted picture {place}](attachment:picture-{place}.png)" for place in range(1, number + 1))
    return f"{source.rstrip()}{marks}"


def without(source: str) -> str:
    """Return `source` without what `shown` added.

    >>> without(shown("see", 2))
    'see'
    """
    return re.sub(r"\n\n!\[pasted picture \d\]\(attachment:picture-\d\.png\)", "", source)


def attachments(encoded: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return nbformat's attachments for `shown`."""
    return {f"picture-{number}.png": {"image/png": data} for number, data in enumerate(encoded, 1)}
