"""Read the answers to a question, and find those that say the same.

In: the graded notebooks (`autograded/<student>/<assignment>/`), whose answers are learners' words and never trusted. Out: each
answer's text and pictures; groups of answers that are equal apart from spaces and a final full stop; the groups most similar
to each; and an order that puts similar groups next to each other. `shown` renders an answer as HTML in a child process that
may fail, and sanitises it.
"""

import functools
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from autograder.grading import read_in_child
from autograder.notebooks import pictures
from autograder.notebooks.normal_form import normalised
from autograder.notebooks.rebuild_submission import MAX_PROSE
from autograder.plugins.sanitise import clean

MAX_LIKE = 4  # similar groups shown beside a group
LIKE = 0.35  # minimum share of common words and pairs of words
WIDTH = 4096  # entries in the vector for an answer's words


@dataclass(frozen=True)
class Answer:
    """An answer's text, and its pictures as base64 PNG."""

    text: str
    pictures: tuple[str, ...] = ()
    code: bool = False


@dataclass(frozen=True)
class Group:
    """Answers that say the same, by their ids, and the groups most similar to them."""

    id: str
    answer: Answer
    members: tuple[str, ...]
    blank: bool = False
    like: tuple[str, ...] = ()


def read(path: Path) -> Mapping[str, Answer]:
    """Return the manually marked cells of the graded notebook at `path` by grade_id; empty if it cannot be read."""
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


@functools.lru_cache(maxsize=4096)
def _read(path: Path, _modified: int) -> Mapping[str, Answer]:
    answers = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        about = cell.get("metadata", {}).get("nbgrader", {})
        if about.get("solution") and about.get("grade") and isinstance(about.get("grade_id"), str):
            text, pasted = pictures.without(_text(cell.get("source"))), _pictures(cell.get("attachments"))
            answers[about["grade_id"]] = Answer(text, pasted, cell.get("cell_type") == "code")
    return answers


def _text(source: Any) -> str:
    text = "".join(part for part in source if isinstance(part, str)) if isinstance(source, list) else source
    return text[:MAX_PROSE] if isinstance(text, str) else ""


def _pictures(attachments: Any) -> tuple[str, ...]:
    kinds = attachments.values() if isinstance(attachments, dict) else ()
    encoded = [kind.get("image/png") for kind in kinds if isinstance(kind, dict)]
    return tuple(data for data in encoded if isinstance(data, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]*", data))


def same(answer: Answer) -> str:
    """Return a hash that is equal for answers that say the same: spaces, Unicode spellings and a final full stop don't count.

    >>> same(Answer("It is zero.")) == same(Answer("It  is zero\\n")), same(Answer("k = 1")) == same(Answer("K = 1"))
    (True, False)
    >>> same(Answer("2\u00b9\u2070")) == same(Answer("210")), same(Answer("e\u0301")) == same(Answer("\u00e9"))
    (False, True)
    """
    text = re.sub(r"\s+", " ", normalised("NFC", answer.text)).strip().rstrip(".").rstrip()
    return hashlib.sha256("\0".join([text, *answer.pictures]).encode("utf-8", "replace")).hexdigest()[:20]


def grouped(answers: Mapping[str, Answer], stub: str = "") -> list[Group]:
    """Return the groups of `answers`: the blank ones (or equal to `stub`), then each followed by its most similar one."""
    members: dict[str, list[str]] = {}
    for key, answer in answers.items():
        members.setdefault(same(answer), []).append(key)
    groups = {name: Group(name, answers[keys[0]], tuple(sorted(keys))) for name, keys in members.items()}
    nothing = {same(Answer("")), same(Answer(stub))}
    blank = [replace(group, blank=True) for name, group in groups.items() if name in nothing]
    written = [group for name, group in groups.items() if name not in nothing]
    written.sort(key=lambda group: (-len(group.members), group.id))
    if len(written) < 2:
        return [*blank, *written]
    alike = _likeness([group.answer.text for group in written])
    order, left = [0], set(range(1, len(written)))
    while left:
        order.append(max(left, key=lambda other: (alike[order[-1], other], -other)))
        left.remove(order[-1])
    for row, group in enumerate(written):
        near = [int(other) for other in np.argsort(-alike[row], kind="stable") if other != row and alike[row, other] >= LIKE]
        written[row] = replace(group, like=tuple(written[other].id for other in near[:MAX_LIKE]))
    return [*blank, *(written[other] for other in order)]


def _likeness(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return, for every two of `texts`, the share of words and neighbouring pairs that they have in common (Jaccard)."""
    table = np.zeros((len(texts), WIDTH), dtype=np.float32)
    for row, text in enumerate(texts):
        words = re.findall(r"\w+|[=<>+*/^-]", text.casefold())[:2000]
        for part in {*words, *(f"{first} {second}" for first, second in pairwise(words))}:
            table[row, int.from_bytes(hashlib.blake2b(part.encode("utf-8", "replace"), digest_size=4).digest()) % WIDTH] = 1
    common, sizes = table @ table.T, table.sum(axis=1)
    shares: np.ndarray[Any, Any] = common / np.maximum(sizes[:, None] + sizes[None, :] - common, 1)
    return shares


def shown(group: Group) -> str:
    """Return the answer as HTML in which nothing is live: formulas are typeset, tags are text, pictures are embedded."""
    return "<p><em>Not answered.</em></p>" if group.blank else _shown(group.answer)


@functools.lru_cache(maxsize=2048)
def _shown(answer: Answer) -> str:
    task = read_in_child.Task("coloured" if answer.code else "answer", answer.text)
    rendered = read_in_child.read([task]).get(task)
    text = clean(rendered) if isinstance(rendered, str) else f"<pre>{html.escape(answer.text)}</pre>"
    drawn = [
        f'<p><img alt="pasted picture {number}" src="data:image/png;base64,{html.escape(data)}"></p>'
        for number, data in enumerate(answer.pictures, 1)
    ]
    return text + "".join(drawn)
