"""Find the global names that code sets and reads, by the compiler's symbol tables, and parse code into statements."""

import ast
import re
import symtable
import threading
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

KEPT = 1000  # texts whose names are cached
MAX_STATEMENTS = 2000  # in a cell; further ones count as part of the last
_WORD = re.compile(r"\w+")
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
_MAGIC = re.compile(r"^([ \t]*)[%!?].*$|^([ \t]*)[\w.]+\?{1,2}[ \t]*$", re.MULTILINE)

_HARMLESS = re.compile(
    r"^([ \t]*)(?:!|%%?(?:matplotlib|time|timeit|pip|conda|config|load_ext|autoreload|capture|whos?|env|cd|ls|pwd|prun)\b).*$"
    r"|^([ \t]*)[\w.]+\?{1,2}[ \t]*$",
    re.MULTILINE,
)


class _Told(threading.local):
    """What this thread may parse (None: everything), and what another process found in other texts (None: not valid Python)."""

    def __init__(self) -> None:
        self.ours: Collection[str] | None = None
        self.known: dict[str, tuple[set[str], set[str]] | None] = {}
        self.statements: dict[str, list[Statement] | None] = {}


_told = _Told()
T = TypeVar("T")


class Statement(NamedTuple):
    """A top-level statement with the comments before it: its lines from `first` to `last`, and the `names` that it binds.

    - `modules`: the modules that it imports, if it is an import and nothing else.
    - `calls`: the names that it reads, if it is a single expression.
    - `changes`: global names whose objects it may change, directly or in a function that it defines.
    - `spelt`: words in its strings that its lines don't contain literally.
    - `alters`: whether a function in it changes its arguments.
    """

    first: int
    last: int
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    spelt: tuple[str, ...] = ()
    alters: bool = False


def tell_statements(known: Mapping[str, Sequence[Sequence[object]] | None]) -> None:
    """Tell this thread what `statements` returns for these texts. Another process found it, as in `tell` for `scopes`."""
    for text, found in known.items():
        _told.statements.setdefault(text, None if found is None else [_statement(each) for each in found])


def _statement(plain: Sequence[object]) -> Statement:
    first, last, *more, alters = plain
    names, modules, calls, changes, spelt = (tuple(map(str, each)) for each in more if isinstance(each, list | tuple))
    return Statement(int(str(first)), int(str(last)), names, modules, calls, changes, spelt, bool(alters))


def statements(source: str) -> list[Statement]:
    """Return the statements of `source`, which together cover all its lines. Lines for IPython (`%`, `!`) count as `pass`.

    Raises SyntaxError, ValueError, RecursionError or MemoryError if the parser does.

    >>> [tuple(each)[:3] for each in statements("# why\\n%time 3\\nimport numpy as np\\ndef f(x):\\n    return x")]
    [(1, 2, ()), (3, 3, ('np',)), (4, 5, ('f',))]
    """
    if (told := _told_of(source, _told.statements)) is not None:
        return list(told)
    body = _parsed(_MAGIC.sub(lambda line: f"{line[1] or line[2] or ''}pass", source)).body
    rows = source.split("\n")
    statements_read: list[Statement] = []
    for node in body:
        (changes, alters), last = changed_in(node), node.end_lineno or node.lineno
        first = statements_read[-1].last + 1 if statements_read else 1
        statement = Statement(first, last, _bound(node), _modules(node), _calls(node), tuple(changes), _spelt(node, rows), alters)
        if statements_read and (
            node.lineno < first or len(statements_read) == MAX_STATEMENTS
        ):  # after a semicolon, or beyond the limit
            statement = _joined(statements_read.pop(), statement)
        statements_read.append(statement)
    if statements_read:
        statements_read[-1] = statements_read[-1]._replace(last=max(statements_read[-1].last, len(rows)))
    return statements_read


def _told_of(source: str, known: Mapping[str, T | None]) -> T | None:
    """Return what is `known` of a text, or None if this thread should parse it.

    Raises ValueError if the text is known to be unreadable, or if it is unknown and this thread must not parse it.
    """
    if source in known:
        if known[source] is None:
            raise ValueError("no Python, or too slow to read")
        return known[source]
    may_parse(source)
    return None


def _parsed(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a learner's invalid escapes don't concern the grader
        return ast.parse(source)


def _joined(first: Statement, second: Statement) -> Statement:
    """Return two statements as one, which is then neither an import nor an expression alone."""
    names, changes, spelt = (
        tuple(dict.fromkeys(pair))
        for pair in (first.names + second.names, first.changes + second.changes, first.spelt + second.spelt)
    )
    return Statement(first.first, max(first.last, second.last), names, (), (), changes, spelt, first.alters or second.alters)


def without_magics(source: str) -> str:
    """Return `source` with `pass` for each IPython line that cannot bind a name; other IPython lines stay."""
    return _HARMLESS.sub(lambda line: f"{line[1] or line[2] or ''}pass", source)


def texts_of(source: str, chosen: Iterable[Statement]) -> list[str]:
    """Return the lines in `source` of each of the `chosen` statements."""
    lines = source.split("\n")
    return ["\n".join(lines[statement.first - 1 : statement.last]) for statement in chosen]


def put_together(source: str, chosen: Sequence[Statement]) -> str:
    """Return a cell of only the `chosen` statements of `source`, recorded so that this thread does not parse the new cell."""
    text = "\n".join(texts_of(source, chosen))
    known, line = [], 0
    for statement in chosen:
        length = statement.last - statement.first + 1
        known.append(statement._replace(first=line + 1, last=line + length))
        line += length
    if _told.ours is not None:
        _told.statements.setdefault(text, known)
    return text


def _bound(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (node.name,)
    names: dict[str, None] = {}
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            names[child.id] = None
        elif isinstance(child, _NAMED) and child.name:
            names[child.name] = None
        elif isinstance(child, ast.MatchMapping) and child.rest:
            names[child.rest] = None
        elif isinstance(child, ast.alias):
            names[child.asname or child.name.partition(".")[0]] = None
    return tuple(names)


def _spelt(node: ast.stmt, rows: Sequence[str]) -> tuple[str, ...]:
    """Return the words in the node's strings that its lines don't contain, as in `"soft" "max"` or in escaped letters."""
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str | bytes)]
    words = {word for text in texts for word in _WORD.findall(text if isinstance(text, str) else text.decode("latin-1"))}
    return tuple(words.difference(*(_WORD.findall(row) for row in rows[node.lineno - 1 : node.end_lineno])) if words else ())


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# methods of containers and equivalent functions that change their object or first argument
_CHANGING = frozenset({
    "__setattr__", "__setitem__", "add", "append", "appendleft", "extend", "extendleft", "heappush", "insert", "insort",
    "insort_left", "insort_right", "put", "register", "setattr", "setdefault", "setitem", "update",
})  # fmt: skip
# classes and modules: in `list.append(x, …)`, the changed object is the argument `x` and not `list`
_APART = frozenset({"bisect", "collections", "deque", "dict", "heapq", "list", "object", "operator", "set"})


def changed_in(root: ast.stmt) -> tuple[dict[str, None], bool]:
    """Return the global names whose objects `root` may change, and whether a function in it changes its arguments.

    >>> list(changed_in(ast.parse("for t['a'] in [f]: u.v = 1; _ = w.append(f)").body[0])[0])
    ['t', 'u', 'w']
    >>> changed_in(ast.parse("def fill(d):\\n    made = []\\n    made[0] = d[0] = f").body[0])
    ({}, True)
    """
    found, alters = dict[str, None](), False
    left: list[tuple[ast.AST, frozenset[str], frozenset[str]]] = [(root, frozenset(), frozenset())]
    for node, own, given in left:  # grows while we walk
        for name in _changed(node):
            alters = alters or name in given
            found |= {} if name in own else {name: None}
        if isinstance(node, _FUNCTIONS) and (more := _arguments(node) | _stored(node)):
            own, given = own | more, given | _arguments(node)
        left += [(each, own, given) for each in ast.iter_child_nodes(node)]
    return found, alters


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    return {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}


def _stored(function: ast.AST) -> set[str]:
    """Return the names of a function's own variables."""
    nodes = list(ast.walk(function))
    shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)} - shared


def _changed(node: ast.AST) -> list[str]:
    """Return the objects that this node itself may change: `x[0] =`, `x.y =`, `x.append(…)`, `list.append(x, …)`, `@x.add`."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return [each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        return _root(node.value.func)
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = [name for name in _root(node.func) if name not in _APART]
        given = [each.id for each in node.args[:1] if isinstance(each, ast.Name)]
        return (owner or given) if called in _CHANGING else []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [name for each in node.decorator_list for name in _root(each)]
    return []


def _root(node: ast.AST) -> list[str]:
    """Return the name at the start of a chain of attributes and items."""
    chain = isinstance(node, ast.Attribute)
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return [node.id] if chain and isinstance(node, ast.Name) else []


_WORK = (
    ast.BoolOp, ast.Compare, ast.AugAssign, ast.For, ast.While, ast.If, ast.IfExp, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp,
)  # fmt: skip


def calls(source: str) -> list[str] | None:
    """Return the functions that `source` calls, if it only calls functions by name and selects from their results; else None.

    >>> calls("def f(x):\\n    y = g(x)\\n    return y[0]"), calls("def f(x): return x / g(x)")
    (['g'], None)
    """
    may_parse(source)
    try:
        tree = _parsed(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # IPython may still run it; whoever reads the flag sees what it does
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names[node.func.id] = None
        elif isinstance(node, ast.Call) or _is_work(node):
            return None
    return list(names)


def _is_work(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return not any(isinstance(side, ast.Constant) and side.value in (0, 1) for side in (node.left, node.right))
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.operand, ast.Constant)  # -1, as an index
    return isinstance(node, _WORK)


def _modules(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, ast.Import):
        return tuple(alias.name for alias in node.names)
    return (node.module,) if isinstance(node, ast.ImportFrom) and node.module and not node.level else ()


def _calls(node: ast.stmt) -> tuple[str, ...]:
    if not isinstance(node, ast.Expr):
        return ()
    return tuple(dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name)))


def only(ours: Collection[str] | None) -> None:
    """Let this thread parse only the texts in `ours` from now on (None: all). What it needs of others is passed to `tell`."""
    _told.ours, _told.known, _told.statements = ours, {}, {}


def is_told(source: str) -> bool:
    """Return whether this thread knows the `scopes` of `source` or may compute them."""
    return _told.ours is None or source in _told.ours or source in _told.known


def may_parse(source: str) -> None:
    """Raise ValueError if this thread must leave the parsing of `source` to a child process, which is allowed to fail."""
    if _told.ours is not None and source not in _told.ours:
        raise ValueError("not to be parsed here")


def tell(known: Mapping[str, tuple[set[str], set[str]] | None]) -> None:
    """Tell this thread, until the next `only`, what `scopes` returns for these texts (None: it raises). Another process found it.

    The compiler takes seconds for some texts that are made to be slow, and no other thread runs meanwhile.
    """
    _told.known |= known


def scopes(source: str) -> tuple[set[str], set[str]]:
    """Return `(set, read)`, the global names that the code sets and reads, without the local variables of functions.

    IPython lines that bind no name (`%matplotlib`, `!pip`) are ignored.

    Raises SyntaxError, ValueError, RecursionError or MemoryError if the compiler does.

    >>> sorted(scopes("import numpy as np\\ndef f(x): return np.sum(x) + y")[0])
    ['f', 'np']
    >>> sorted(scopes("def f(x): return np.sum(x) + y")[1])
    ['np', 'y']
    """
    defines, reads = _told_of(source, _told.known) or _compiled(source)
    return set(defines), set(reads)


@lru_cache(KEPT)  # all students share the lesson's own cells, and in a grader no other text gets here
def _compiled(source: str) -> tuple[frozenset[str], frozenset[str]]:
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
    return frozenset(defines), frozenset(reads)
