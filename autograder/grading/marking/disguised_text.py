"""Find text that a person would read differently from Python: hidden or reordered text, and look-alike letters."""

import re
import unicodedata

_REORDERS = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
# Cyrillic, Armenian, Cherokee, and the Greek letters that look Latin and have no use in mathematics
_LOOKS_LATIN = re.compile("[\u0400-\u058f\u13a0-\u13ffΑΒΕΖΗΙΚΜΝΟΡΤΥΧοϲϳϹͿ]")


def disguises(source: str, *, prose: bool = False) -> str | None:
    """Return what makes a person read `source` differently from Python, or None.

    >>> disguises("def f(x): return x"), disguises("σ = 1  # сумма")
    (None, None)
    >>> disguises("s\u043eftmax = 1")
    'letters of two alphabets in one word'
    >>> disguises("The s\u03bfftmax of \u211d", prose=True), disguises("\u211d and \ufb01", prose=True)
    ('letters of two alphabets in one word', None)
    """
    if _REORDERS.search(source.replace("\u200d", "") if prose else source):  # U+200D joins the parts of an emoji
        return "characters that reorder or hide text"
    if source.isascii():
        return None
    for word in set(re.findall(r"\w+", source)):
        if word.isascii():
            continue
        if re.search("[A-Za-z]", word) and _LOOKS_LATIN.search(word):
            return "letters of two alphabets in one word"
        letters = [c for c in word if not c.isascii() and unicodedata.category(c)[0] == "L"]  # x² is no disguise
        if not prose and any(unicodedata.normalize("NFKC", c).isascii() for c in letters):
            return "letters that Python reads as plain ones"
    return None
