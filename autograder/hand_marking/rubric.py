"""Divide a marking scheme in prose into items, one for each button.

In: a scheme such as "1 point for the one-hot weights. Half a point for each part, with its reason." Out: items whose points
add up to the question's. If the scheme's points don't add up, there is a single item for all points, so a page never offers
more points than the question has.
"""

import re
from typing import NamedTuple

_WORDS = {"half a": 0.5, "a": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "one and a half": 1.5}
_NUMBER = r"(?:\d+(?:\.\d+)?|[Oo]ne and a half|[Hh]alf a|[Oo]ne|[Tt]wo|[Tt]hree|[Ff]our)"
# "1 point for …", "Give half a point for …", "One point: …"; a lower-case "half of it where …" belongs to the item before it
_ITEM = re.compile(rf"(?:^|(?<=[.;,)] )|(?<=and )|(?<=[Gg]ive )|(?<=\n))({_NUMBER})\s+points?(?=\s+(?:for|each|if|to)\b|:)")
_EACH = re.compile(r"^(?:for )?each\b")


class Item(NamedTuple):
    """The text on a button, and the points that it gives."""

    text: str
    points: float


def items(scheme: str, points: float, parts: int = 0) -> list[Item]:
    """Return the items of `scheme`, which add up to `points`. `parts` is how many parts, (a) and so on, the question has.

    >>> items("1 point for the weights. Half a point for (b), half a point for (c).", 2.0)
    [Item(text='the weights', points=1.0), Item(text='(b)', points=0.5), Item(text='(c)', points=0.5)]
    >>> items("Half a point for each part, with its reason.", 1.0, parts=2)
    [Item(text='(a): each part, with its reason', points=0.5), Item(text='(b): each part, with its reason', points=0.5)]
    >>> [item.text for item in items("Half a point each for the bound, the proof and an example.", 1.5)]
    ['the bound', 'the proof', 'an example']
    >>> items("Give 1 point for the bound and half a point for its proof.", 1.5)
    [Item(text='the bound', points=1.0), Item(text='its proof', points=0.5)]
    >>> items("As you see fit.", 2.0)
    [Item(text='As you see fit', points=2.0)]
    """
    text = re.sub(r"\s+", " ", scheme).strip()
    starts = list(_ITEM.finditer(text))
    divided = []
    for start, after in zip(starts, [*starts[1:], None], strict=False):
        label = text[start.end() : after.start() if after else len(text)].strip(" :")
        label = re.split(r"(?<=[.;]) (?=[A-Z])", label.removeprefix("for "), maxsplit=1)[0]  # remarks stay in the scheme only
        divided.append(Item(_tidied(label), _WORDS.get(start[1].lower()) or float(start[1])))
    divided = _repeated(divided, points, parts)
    if not divided or abs(sum(item.points for item in divided) - points) > 1e-9:
        return [Item(_tidied(text) or "all of it", points)]
    return divided


def _repeated(divided: list[Item], points: float, parts: int) -> list[Item]:
    """Repeat an item "for each …" as often as the points require."""
    repeated = [item for item in divided if _EACH.match(item.text)]
    if len(repeated) != 1 or not repeated[0].points:
        return divided
    left = points - sum(item.points for item in divided if item is not repeated[0])
    times = round(left / repeated[0].points)
    at = divided.index(repeated[0])
    listed = re.split(r", (?:and )?| and ", repeated[0].text.removeprefix("each for "))
    if repeated[0].text.startswith("each for ") and len(listed) == times > 1:
        return [*divided[:at], *(Item(text, repeated[0].points) for text in listed), *divided[at + 1 :]]
    names = [f"({chr(ord('a') + number)})" if times == parts else f"{number + 1}" for number in range(times)]
    many = [Item(f"{name}: {repeated[0].text}", repeated[0].points) for name in names]
    return [*divided[:at], *many, *divided[at + 1 :]]


def _tidied(text: str) -> str:
    return re.sub(r"[\s.,;]*(?:\band)?[\s.]*(?:\b[Gg]ive)?\s*$", "", text)
