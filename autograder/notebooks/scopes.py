"""The global names that a piece of code sets and reads, by the compiler's own symbol tables; its statements, by the parser."""

import ast
import re
import symtable
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_told = threading.local()
_MAGIC = re.compile(r"^([ \t]*)[%!?].*$|^([ \t]*)[\w.]+\?{1,2}[ \t]*$", re.MULTILINE)

_HARMLESS = re.compile(
    r"^([ \t]*)(?:!|%%?(?:matplotlib|time|timeit|pip|conda|config|load_ext|autoreload|capture|whos?|env|cd|ls|pwd|prun)\b).*$"
    r"|^([ \t]*)[\w.]+\?{1,2}[ \t]*$",
    re.MULTILINE,
)


class Statement(NamedTuple):
    """A statement at the top of a cell, with the comments before it: lines `first` to `last`, and the names that it binds.

    `modules` are what it imports where it does nothing else, `calls` the names that it reads where it is one bare expression.
    """

    first: int
    last: int
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


def tell_statements(known: Mapping[str, Sequence[Sequence[object]] | None]) -> None:
    """For this thread, from now on: what `statements` says of these texts, found elsewhere, as `tell` does for `scopes`."""
    _told.statements = {text: None if found is None else [_statement(each) for each in found] for text, found in known.items()}


def _statement(plain: Sequence[object]) -> Statement:
    first, last, *more = plain
    return Statement(
        int(str(first)), int(str(last)), *(tuple(map(str, names)) for names in more if isinstance(names, list | tuple))
    )


def statements(source: str) -> list[Statement]:
    """The statements of `source`, which together are all its lines; lines for IPython (`%`, `!`) count as `pass`.

    Raises SyntaxError, ValueError, RecursionError or MemoryError where the parser does.

    >>> [tuple(each)[:3] for each in statements("# why\\n%time 3\\nimport numpy as np\\ndef f(x):\\n    return x")]
    [(1, 2, ()), (3, 3, ('np',)), (4, 5, ('f',))]
    """
    known = getattr(_told, "statements", {})
    if source in known:
        if (found := known[source]) is None:
            raise ValueError("no Python, or too slow to read")
        return list(found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a learner's invalid escapes are no news to the grader
        body = ast.parse(_MAGIC.sub(lambda line: f"{line[1] or line[2] or ''}pass", source)).body
    found = []
    for node in body:
        first, last = (found[-1].last + 1 if found else 1), node.end_lineno or node.lineno
        names, modules, calls = _bound(node), _modules(node), _calls(node)
        if found and node.lineno <= found[-1].last:  # behind a semicolon
            before = found.pop()
            found.append(Statement(before.first, max(last, before.last), (*before.names, *names)))
        else:
            found.append(Statement(first, last, names, modules, calls))
    lines = source.count("\n") + 1
    if found and found[-1].last < lines:
        found[-1] = found[-1]._replace(last=lines)
    return found


def without_magics(source: str) -> str:
    """`source` with `pass` for each line that IPython alone understands and that can bind no name; other such lines stay."""
    return _HARMLESS.sub(lambda line: f"{line[1] or line[2] or ''}pass", source)


def text_of(source: str, statement: Statement) -> str:
    """The lines of `statement` in `source`."""
    return "\n".join(source.split("\n")[statement.first - 1 : statement.last])


def _bound(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (node.name,)
    found: dict[str, None] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found[each.id] = None
        elif isinstance(each, ast.FunctionDef | ast.ClassDef):
            found[each.name] = None
        elif isinstance(each, ast.alias):
            found[each.asname or each.name.partition(".")[0]] = None
    return tuple(found)


def _modules(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, ast.Import):
        return tuple(alias.name for alias in node.names)
    return (node.module,) if isinstance(node, ast.ImportFrom) and node.module and not node.level else ()


def _calls(node: ast.stmt) -> tuple[str, ...]:
    if not isinstance(node, ast.Expr):
        return ()
    return tuple(dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name)))


def tell(known: Mapping[str, tuple[set[str], set[str]] | None]) -> None:
    """For this thread, from now on: what `scopes` says of these texts (None: it refuses), found elsewhere.

    The compiler takes seconds over some texts that are made for it, and nobody else runs meanwhile.
    """
    _told.known = known


def scopes(source: str) -> tuple[set[str], set[str]]:
    """`(set, read)`: a function's own variables are not among them, what it takes from around it is.

    Lines for IPython that bind no name (`%matplotlib`, `!pip`) are passed over.

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
    try:
        tables = [symtable.symtable(source, "cell", "exec")]
    except SyntaxError:
        if (plain := without_magics(source)) == source:
            raise
        tables = [symtable.symtable(plain, "cell", "exec")]
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
