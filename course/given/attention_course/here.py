"""`you_are_here`: the map of a transformer block at the top of every notebook, with the current part highlighted."""

from typing import Any

from attention_course.drawing import Drawing, Part

# what each name highlights: a part of the map, and the words over it
_PARTS = {
    "tokens": ("tokens", "you are here"),
    "positions": ("tokens", "you are here: positions"),
    "attention": ("attention", "you are here"),
    "scores": ("attention", "you are here: the scores"),
    "mask": ("attention", "you are here: the mask"),
    "heads": ("attention", "you are here: the heads"),
    "cache": ("attention", "you are here: keys and values"),
    "residual": ("residual stream", "you are here"),
    "norm": ("norm", "you are here"),
    "mlp": ("MLP", "you are here"),
    "logits": ("logits", "you are here"),
    "whole": ("block", "you are here: the whole block"),
}
PARTS = tuple(_PARTS)
_HIGHLIGHT = "query"


def you_are_here(part: str) -> Drawing:
    """Draw the transformer block with `part`, one of `PARTS`, highlighted.

    Tokens become vectors on the residual stream. Attention and the MLP each read the stream through a normalisation, "norm",
    and add their output to it. The stream ends in logits.
    """
    if part not in _PARTS:
        raise ValueError(f"part: expected one of {', '.join(PARTS)}, got {part!r}.")
    highlighted, words = _PARTS[part]
    d = Drawing(alt=_describe(part, highlighted))

    def role(name: str) -> str:
        inside = highlighted == "block" and name not in ("tokens", "logits")
        return _HIGHLIGHT if inside or name == highlighted else "plain"

    tokens = d.box("tokens", role=role("tokens"))
    add_1 = d.node("+", role=role("residual stream"), right_of=tokens, gap=270)
    add_2 = d.node("+", role=role("residual stream"), right_of=add_1, gap=250)
    logits = d.box("logits", role=role("logits"), right_of=add_2, gap=70)
    stream = role("residual stream")
    d.arrow(tokens.right, add_1.left, role=stream)
    d.arrow(add_1.right, add_2.left, role=stream)
    d.arrow(add_2.right, logits.left, role=stream)
    made: dict[str, list[Part]] = {"tokens": [tokens], "logits": [logits]}
    for name, add in (("attention", add_1), ("MLP", add_2)):
        unit = d.box(name, role=role(name), above=add, shift=(-72, 0), gap=34)
        norm = d.box("norm", role=role("norm"), left_of=unit, gap=26)
        d.arrow((norm.centre[0], add.centre[1]), norm.bottom, role=stream)
        d.arrow(norm.right, unit.left, role=role(name))
        d.arrow(unit.right, add.top, elbow="h", role=role(name))
        made[name] = [unit]
        made.setdefault("norm", []).append(norm)
    label = d.text("residual stream", size=14, muted=stream == "plain", role=stream, below=add_1, shift=(120, 0), gap=8)
    made["residual stream"] = [label]
    if highlighted == "block":
        around = d.frame([*made["norm"], *made["attention"], *made["MLP"], add_1, add_2], role=_HIGHLIGHT)
        d.text(words, role=_HIGHLIGHT, size=14, bold=True, above=around, gap=6)
    else:
        beside = "below" if highlighted == "residual stream" else "above"
        for place in made[highlighted]:
            where: dict[str, Any] = {beside: place, "gap": 6}
            d.text(words, role=_HIGHLIGHT, size=14, bold=True, **where)
    return d


def _describe(part: str, highlighted: str) -> str:
    """The alternative text: the map, and which part is highlighted."""
    where = "The whole block" if highlighted == "block" else f"{highlighted[:1].upper()}{highlighted[1:]}"
    about = "" if part in (highlighted.lower(), "residual", "whole") else f", where the notebook is about {part},"
    return (
        "You are here. Tokens become vectors on the residual stream. Attention reads the stream through a normalisation and adds "
        f"its output to it, then an MLP does the same, and the stream ends in logits. {where}{about} is highlighted."
    )
