"""The global names that a piece of code sets and reads, by the compiler's own symbol tables."""

import symtable


def scopes(source: str) -> tuple[set[str], set[str]]:
    """`(set, read)`: a function's own variables are not among them, what it takes from around it is.

    Raises SyntaxError, ValueError, RecursionError or MemoryError where the compiler does.

    >>> sorted(scopes("import numpy as np\\ndef f(x): return np.sum(x) + y")[0])
    ['f', 'np']
    >>> sorted(scopes("def f(x): return np.sum(x) + y")[1])
    ['np', 'y']
    """
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
