"""Measure how a lesson's prose reads: the length of its sentences, and its colons and brackets.

Code, formulas, tables, headings, HTML and the list of sources are left out. A range tells habits apart and does not judge
sense. The targets are what well-edited texts on the same subject measure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

SHORT = 6  # a sentence of at most this many words counts as short
FEW = 60  # with fewer words, the measures say nothing

_FENCE = re.compile(r"\s*(?:`{3,}|~{3,}|:{3,})")
_HEADING = re.compile(r"#+ +(.*)")
_SOURCES = re.compile(r"(?:Sources|References)\b")
_NO_PROSE = re.compile(r"\s*(?:\||<|\+\+\+|:\w|!\[)")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+(.*)")
_WORD = re.compile(r"[A-Za-z0-9][\w'’-]*")
_COLON = re.compile(r":(?=\s|$)")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|cf|vs|Eq|Fig|Sec|sec|eq|ch|No)\.")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"”’]*\s+(?=[A-Z(\"“0-9X])")
_CLEAN = (  # a formula or a piece of code reads as one word
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\$[^$]*\$|\\\(.*?\\\)|`[^`]*`"), "X"),
    (re.compile(r"<[^>]*>|\{[^}]*\}|[*_]{1,3}"), ""),
)


@dataclass(frozen=True)
class Measures:
    """Counts in a text."""

    words: int = 0
    sentences: int = 0
    short: int = 0
    colons: int = 0
    brackets: int = 0
    bracketed_sentences: int = 0

    def __add__(self, other: "Measures") -> "Measures":
        return Measures(*(a + b for a, b in zip(self._counts(), other._counts(), strict=True)))

    def _counts(self) -> tuple[int, ...]:
        return self.words, self.sentences, self.short, self.colons, self.brackets, self.bracketed_sentences

    @property
    def words_per_sentence(self) -> float:
        return self.words / max(self.sentences, 1)

    @property
    def short_percent(self) -> float:
        return 100 * self.short / max(self.sentences, 1)

    @property
    def colons_per_1000(self) -> float:
        return 1000 * self.colons / max(self.words, 1)

    @property
    def brackets_per_1000(self) -> float:
        return 1000 * self.brackets / max(self.words, 1)


@dataclass(frozen=True)
class Target:
    """The range for one measure, and its name in messages."""

    measure: str
    name: str
    most: float
    least: float = 0.0

    def missed_by(self, measures: Measures) -> str:
        """Return what was expected and what was found, or "" if the text is in range."""
        got = float(getattr(measures, self.measure))
        if self.least <= got <= self.most:
            return ""
        wanted = f"{self.least:g} to {self.most:g}" if self.least else f"at most {self.most:g}"
        return f"{self.name}: expected {wanted}, got {got:.1f}"


TARGETS = (
    Target("words_per_sentence", "words per sentence", 20, 14.5),
    Target("short_percent", f"percent of sentences with {SHORT} words or fewer", 12),
    Target("colons_per_1000", "colons per 1,000 words", 9),
    Target("brackets_per_1000", "brackets per 1,000 words", 11),
    Target("bracketed_sentences", "whole sentences in brackets", 2),
)


def misses(text: str) -> list[str]:
    """Return a message for each target that the prose of a Markdown `text` misses; none for a very short text."""
    found = measure(text)
    return [said for target in TARGETS if (said := target.missed_by(found))] if found.words >= FEW else []


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
    found = _sentences(plain)
    lengths = [len(_WORD.findall(sentence)) for sentence in found]
    return Measures(
        words=sum(lengths),
        sentences=len(found),
        short=sum(length <= SHORT for length in lengths),
        colons=len(_COLON.findall(plain)),
        brackets=plain.count("("),
        bracketed_sentences=sum(sentence.startswith("(") for sentence in found),
    )


def _sentences(plain: str) -> list[str]:
    pieces = _SENTENCE_END.split(_ABBREVIATION.sub(r"\1", plain))
    return [piece.strip() for piece in pieces if re.search(r"\w", piece)]


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs and list items in the prose of a Markdown `text`, each on one line."""
    held: list[str] = []
    for line in [*_prose_lines(text), ""]:
        item = _ITEM.match(line)
        if (item or not line) and held:
            yield " ".join(held)
            held = []
        if line:
            held.append(item[1] if item else line.strip().removeprefix("> "))


def _prose_lines(text: str) -> Iterator[str]:
    """Yield the lines of prose, and an empty line for every other line."""
    lines = text.splitlines()
    start = lines.index("---", 1) + 1 if lines[:1] == ["---"] and "---" in lines[1:] else 0
    in_fence = in_formula = in_sources = in_comment = False
    for line in lines[start:]:
        heading = _HEADING.match(line)
        if in_formula or line.lstrip().startswith("$$"):
            in_formula ^= line.count("$$") % 2 == 1
            continue  # a displayed formula does not end its sentence
        if in_comment or line.lstrip().startswith("<!--"):
            in_comment = "-->" not in line
            yield ""
        elif _FENCE.match(line):
            in_fence = not in_fence
            yield ""
        elif in_fence:
            yield ""
        elif heading:
            in_sources = bool(_SOURCES.match(heading[1]))
            yield ""
        elif in_sources or _NO_PROSE.match(line):
            yield ""
        else:
            yield line.rstrip()
