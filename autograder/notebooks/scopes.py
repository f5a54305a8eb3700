"""The global names that a piece of code sets and reads, by the compiler's own symbol tables."""

import symtable
import threading
from collections.abc import Mapping

_told = threading.local()


def tell(known: Mapping[str, tuple[set[str], set[str]] | None]) -> None:
    """For this thread, from now on: what `scopes` says of these texts (None: it refuses), found elsewhere.

    The compiler takes seconds over some texts that are made for it, and nobody else runs meanwhile.
    """
    _told.known = known


def scopes(source: str) -> tuple[set[str], set[str]]:
    """`(set, read)`: a function's own variables are not among them, what it takes from around it is.

    Raises SyntaxError, ValueError, RecursionError or MemoryError where the compiler does.

    >>> sorted(scopes("import numpy as np\\ndef f(x): return np.sum(x) + y")[0])
    ['f', 'np']
    >>> sorted(scopes("def f(x): return np.sum(x) + y")[1])
    ['np', 'y']
    """
    known = getattr(_told, "known", {})
    if source in known:
        if (found := known[source]) is None:
            raise ValueError("no Python, or too slow to read")
        return set(found[0]), set(found[1])
    defines: set[str] = set()
    reads: set[str] = set()
    tables = [symtable.symtable(source, "cell", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            if table.get_type() == "module" or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported():
                    defines.add(symbol.get_name())
                if symbol.is_referenced():
                    reads.add(symbol.get_name())
    return defines, reads
