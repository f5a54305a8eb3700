"""What an exercise forbids, looked for in the text of an answer: a flag for a person, never a mark.

Values cannot prove how they were computed, and a name can be reached in many ways, so nothing here is a proof.
"""

import ast
import re
import threading
import unicodedata
import warnings
from collections.abc import Collection, Mapping, Sequence

from autograder.notebooks.scopes import scopes


def uses(source: str, forbidden: Sequence[str]) -> list[str]:
    """Those of `forbidden` that `source` names: as a dotted path, by its last part, as an import, or inside a string.

    Where `source` is no Python (a line magic, an error), any word of it counts.

    >>> uses("y = F.softmax(x)", ["F.softmax", "torch.einsum"])
    ['F.softmax']
    """
    seen = names(source)
    return [name for name in forbidden if re.findall(r"\w+", name)[-1] in seen]


def leaned_on(answer: str, others: Mapping[str, tuple[set[str], set[str]]], apart: Collection[str]) -> list[str]:
    """Those of `others` (each with its `bindings`) that `answer` takes names from, itself or by way of another; none by `apart`.

    >>> helper, user = "def h(x): return F.softmax(x)", "def g(x): return h(x)"
    >>> leaned_on("def f(x): return g(x)", {text: bindings(text) for text in (helper, user)}, []) == [user, helper]
    True
    """
    found: list[str] = []
    wanted = bindings(answer)[1] - set(apart)
    while new := [source for source, (bound, _) in others.items() if source not in found and bound & wanted]:
        found += new
        wanted |= {name for source in new for name in others[source][1]} - set(apart)
    return found


def bindings(source: str) -> tuple[set[str], set[str]]:
    """The global names that `source` sets and reads; where it is no Python, each word may be either."""
    try:
        return scopes(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _words(source), _words(source)


def _words(source: str) -> set[str]:
    return set(re.findall(r"\w+", unicodedata.normalize("NFKC", source)))  # as Python reads names


_told = threading.local()


def tell(known: Mapping[str, set[str] | None]) -> None:
    """For this thread, from now on: what `names` says of these texts, found elsewhere (None: any word counts)."""
    _told.known = known


def names(source: str) -> set[str]:
    """Every name in `source`; where it is no Python, or too slow to read, every word."""
    known = getattr(_told, "known", {})
    if source in known:
        found = known[source]
        return _words(source) if found is None else set(found)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a learner's invalid escapes are no news to the grader
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last: "too complex to parse"
        return _words(source)
    seen: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            seen.add(node.attr)
        elif isinstance(node, ast.Name):
            seen.add(node.id)
        elif isinstance(node, ast.alias):
            seen.add(node.name.rpartition(".")[2])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            seen.add(node.value)  # getattr(F, "softmax")
    return seen
