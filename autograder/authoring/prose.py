"""Measure how a lesson's prose reads: the length of its sentences, and its colons and brackets.

Code, formulas, tables, headings, HTML and the list of sources are left out. The targets are what well-edited texts on the
same subject measure. They detect habits of style and cannot tell whether a text makes sense.
"""

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from mdit_py_plugins.front_matter import front_matter_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin

SHORT = 6  # a sentence of at most this many words counts as short
FEW = 60  # with fewer words, the measures say nothing

TEXT = MarkdownIt().enable("table")
LESSON = MarkdownIt().enable("table").use(front_matter_plugin).use(myst_block_plugin)
DISPLAYED = re.compile(r"^[ \t]*\$\$.*?\$\$[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)  # a formula on lines of its own
_SOURCES = re.compile(r"(?:Sources|References)\b")
_WORD = re.compile(r"[A-Za-z0-9][\w'’-]*")
_COLON = re.compile(r":(?=\s|$)")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|cf|vs|Eq|Fig|Sec|sec|eq|ch|No)\.")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"”’]*\s+(?=[A-Z(\"“0-9X])")
_CLEAN = (  # a formula or a piece of code counts as one word
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\$[^$]*\$|\\\(.*?\\\)|`[^`]*`"), "X"),
    (re.compile(r"<[^>]*>|\{[^}]*\}|[*_]{1,3}"), ""),
)


@dataclass(frozen=True)
class Measures:
    """Counts of words, sentences, colons and brackets in a text."""

    words: int = 0
    sentences: int = 0
    short: int = 0
    colons: int = 0
    brackets: int = 0
    bracketed_sentences: int = 0

    def __add__(self, other: "Measures") -> "Measures":
        return Measures(*map(operator.add, astuple(self), astuple(other)))


# name in messages, value for a text, and its range
TARGETS: tuple[tuple[str, Callable[[Measures], float], float, float], ...] = (
    ("words per sentence", lambda counts: counts.words / max(counts.sentences, 1), 14.5, 20),
    (f"percent of sentences with {SHORT} words or fewer", lambda counts: 100 * counts.short / max(counts.sentences, 1), 0, 12),
    ("colons per 1,000 words", lambda counts: 1000 * counts.colons / max(counts.words, 1), 0, 9),
    ("brackets per 1,000 words", lambda counts: 1000 * counts.brackets / max(counts.words, 1), 0, 11),
    ("whole sentences in brackets", lambda counts: counts.bracketed_sentences, 0, 2),
)


def misses(text: str) -> list[str]:
    """Return a message for each target that the prose of a Markdown `text` misses; none for a very short text."""
    measures, missed = measure(text), []
    for name, value, least, most in TARGETS if measures.words >= FEW else ():
        if not least <= (got := value(measures)) <= most:
            wanted = f"{least:g} to {most:g}" if least else f"at most {most:g}"
            missed.append(f"{name}: expected {wanted}, got {got:.1f}")
    return missed


def measure(text: str) -> Measures:
    """Return the measures of all prose in a Markdown `text`.

    >>> measure("One idea: attend. (See below.)").colons
    1
    """
    return sum((_measure(paragraph) for paragraph in paragraphs(text)), Measures())


def _measure(paragraph: str) -> Measures:
    plain = paragraph
    for pattern, replacement in _CLEAN:
        plain = pattern.sub(replacement, plain)
    pieces = _SENTENCE_END.split(_ABBREVIATION.sub(r"\1", plain))
    sentences = [piece.strip() for piece in pieces if re.search(r"\w", piece)]
    lengths = [len(_WORD.findall(sentence)) for sentence in sentences]
    return Measures(
        words=sum(lengths),
        sentences=len(sentences),
        short=sum(length <= SHORT for length in lengths),
        colons=len(_COLON.findall(plain)),
        brackets=plain.count("("),
        bracketed_sentences=sum(sentence.startswith("(") for sentence in sentences),
    )


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs and list items in the prose of a Markdown `text`, each on one line."""
    in_sources = False
    for opening, token in pairwise(LESSON.parse(DISPLAYED.sub("", text))):  # a displayed formula does not end its sentence
        if opening.type == "heading_open":
            in_sources = bool(_SOURCES.match(token.content))
        elif opening.type == "paragraph_open" and not in_sources and not token.content.startswith(("![", "|", ":::")):
            yield token.content.replace("\n", " ")
