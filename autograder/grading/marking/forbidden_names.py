"""Look for forbidden names in the text of an answer. A hit is a flag for a person and never changes a mark.

Values cannot prove how they were computed, and a name can be reached in many ways, so nothing here is a proof.
"""

import ast
import re
import sys
import threading
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from autograder.grading.marking.disguised_text import disguises
from autograder.notebooks.normal_form import normalised
from autograder.notebooks.roles import grade_id, is_answer
from autograder.notebooks.scopes import KEPT, may_parse, scopes, statements, texts_of

if TYPE_CHECKING:  # imports NumPy, which the reader of texts (`read_in_child`) doesn't load
    from autograder.judging.records import ExerciseRecord

_FUSED = frozenset({f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn")})
_FUSED |= {"_scaled_dot_product_flash_attention_for_cpu"}
_NORMS = frozenset({"rms_norm", "_fused_rms_norm", "layer_norm", "native_layer_norm"})
_NORMS |= {"GroupNorm", "group_norm", "native_group_norm"}
_LAYERS = frozenset({"Transformer", *(f"Transformer{part}{kind}" for part in ("Encoder", "Decoder") for kind in ("", "Layer"))})
_LAYERS |= {"_native_multi_head_attention", "_transformer_encoder_layer_fwd"}
_FUNCTIONS = frozenset({"multi_head_attention_forward", "flex_attention", "varlen_attn"})
# other names that do the same work
_ALSO = {
    "autograd": frozenset({"vjp", "jvp", "jacrev", "jacfwd", "hessian"}),
    "backward": frozenset({"vjp", "jacrev", "jacfwd"}),
    "jacobian": frozenset({"vjp", "jacrev", "jacfwd"}),
    "LayerNorm": _NORMS,
    "MultiheadAttention": _LAYERS,
    "RMSNorm": _NORMS,
    "multi_head_attention_forward": _LAYERS,
    "scaled_dot_product_attention": _LAYERS | _FUSED | {"MultiheadAttention", *_FUNCTIONS},
}
MAX_PARTS = 5000  # statements that are examined one by one; a cell beyond this limit counts as one
_UNPICKLES = "=unpickles"  # stands among a text's names for unpickling, which builds objects from bytes and can find them by name
_SEARCHES = "=searches"  # stands for importing a module that can find a name or run a text
# Python's own modules that a lesson may well use; most others can find names in one way or another
_PLAIN_MODULES = frozenset({
    "__future__", "_pickle", "abc", "array", "ast", "base64", "bisect", "builtins", "bz2", "calendar", "cmath", "collections",
    "colorsys", "concurrent", "contextlib", "contextvars", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib",
    "dis", "enum", "errno", "fractions", "functools", "gc", "getpass", "glob", "graphlib", "gzip", "hashlib", "heapq", "html",
    "importlib", "inspect", "io", "itertools", "json", "keyword", "locale", "logging", "lzma", "math",
    "numbers", "operator", "os", "pathlib", "pickle", "pickletools", "pkgutil", "platform", "pprint", "pydoc", "random", "re",
    "reprlib", "secrets", "shutil", "signal", "statistics", "string", "struct", "sys", "sysconfig", "tempfile",
    "textwrap", "threading", "time", "timeit", "token", "tokenize", "traceback", "tracemalloc", "types", "typing", "unicodedata",
    "urllib", "uuid", "warnings", "weakref", "zipfile", "zlib",
})  # fmt: skip
_OTHERS = frozenset({"IPython", "setuptools", "sympy", "traitlets"})
_PARTS = frozenset({"importlib.machinery", "logging.config", "logging.handlers"})  # parts of the plain modules
# PyTorch's own parts that find an operation by its name, run a text or load objects
_INNER = frozenset({"classes", "export", "fx", "hub", "jit", "library", "multiprocessing", "ops", "overrides", "package"})
_SCRIPTS = frozenset({"script", "trace", "ignore", "unused"})  # the parts of `torch.jit` that a lesson may well use
_STARTS = re.compile(r"system|popen|fork|(?:exec|spawn|posix_spawn)\w*")  # how `os` starts another program
_RUNS = frozenset({"measure", "rundocs", "runstring"})  # how `numpy.testing` runs a text
_SHOWING = frozenset({"IPython", "IPython.display"})
_PICKLES = frozenset({"pickle", "_pickle", "cPickle", "cloudpickle", "dill"})
_LOADS = frozenset({"load", "loads", "Unpickler", "*"})
_BUILDS = frozenset({"getattr", "eval", "exec", "compile", "__import__", "import_module", "attrgetter", "methodcaller"})
_BUILDS |= {"get_ipython", "run_cell", "runpy", "run_path", "open", "write_text", "marshal", "FunctionType", "CodeType"}
_BUILDS |= {"__dict__", "__getattribute__", "__getattr__", "vars", "globals", "locals", "__builtins__", "builtins"}
_BUILDS |= {"getmembers", "getmembers_static", "getattr_static", "pydoc", "resolve_name", "CompilationUnit", "_jit_get_operation"}
_BUILDS |= {"get_testing_overrides", "get_overridable_functions", "get_ignored_functions", _UNPICKLES, _SEARCHES}
_BUILDS |= {"get_field", "get_type_hints", "ForwardRef", "EntryPoint", "call_method", "BaseConfigurator", "dictConfig"}
_BUILDS |= {"_get_operation_overload", "parse_ir", "_create_function_from_graph", "op_db", "_load_attr_from_module"}
_BUILDS |= {"load_module", "get_code", "module_from_spec", "SourceFileLoader", "start_ipython", "f_builtins", "f_locals"}
_BUILDS |= {"PackageImporter", "ForkingPickler", "load_inline"}
_BUILDS |= {"__match_args__", "__subclasses__", "__code__", "get_referents", "update_wrapper", "wraps", "eval_str"}
_BUILDS |= {"get_annotations"}
_BUILDS |= {"DictConfigurator", "dictConfigClass", "fileConfig", "exec_module", "read_array", "recv", "send_bytes"}
_BUILDS |= {"savetxt", "write_bytes", "FileIO", "NamedTemporaryFile", "mkstemp"}  # writes a module while the cell runs
# ways to reach the code that runs the answer, or that checks for changed inputs, copies or PyTorch's gradients
_INWARD = frozenset({"_getframe", "currentframe", "get_objects", "get_referrers", "settrace", "setprofile", "addaudithook"})
_INWARD |= {"__globals__", "__import__", "import_module", "f_globals", "f_back", "tracemalloc", "_disable_profiler", "ctypes"}
_METHODS = frozenset({"eval", "compile", "open"})  # also names of methods: of models, of `re` and `torch`, and of paths
_OPENERS = frozenset({"", "builtins", "__builtins__", "io", "os", "codecs", "gzip", "bz2", "lzma"})
_MAGICS = frozenset({"matplotlib", "config", "load_ext", "autoreload", "precision", "pip", "pylab"})  # magics that run no text
_OWNERS = frozenset({"autograd"})  # modules that count as named if something is imported from them
# IPython may run such text although it is not Python
_IPYTHON = re.compile(
    r"\A\s*>>>(?:\s|\Z)|^[ \t]*(?:\.{3,}:|(?:\[\w+\][ \t]*)?In[ \t]*\[)"  # IPython's prompts
    r"|=[ \t]*[!%]|^[ \t]*(?:[%!?]|[,;/][A-Za-z_]|[\w.*]+\?{1,2}[ \t]*$)",
    re.MULTILINE,
)
_DEFINES = re.compile(r"\b(?:def|lambda)\b")
_LIBRARIES = frozenset({"np", "numpy", "torch", "F", "nn", "math", "builtins", "check", "warnings"})  # the names that lessons use
_PATCHED = "=library"  # stands for replacing something in a library, or running text
_HARMLESS = frozenset({"matplotlib", "plt", "backends", "rcParams"})
_ENGINE = re.compile(r"\bautograder\s*\.\s*[a-z]")


def flags(
    exercises: "Mapping[str, ExerciseRecord]", notebook: Any, modules: Collection[str] = (), released: Collection[str] = ()
) -> list[str]:
    """Return flags for answers that use forbidden names, directly or through other cells, and for cells to read with care.

    `modules` are the texts of files beside the notebook. Cells whose text is in `released` are the lesson's own, so nothing
    they do counts as the learner's.
    """
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and (grade_id(cell) is None or is_answer(cell))]
    code = [cell for cell in code if grade_id(cell) or cell.source not in released]
    records = [record for record in exercises.values() if record.forbid]
    offered = {name for text in modules for name in bindings(text)[0]}
    texts = dict.fromkeys([*modules, *(cell.source for cell in code)]) if records else ()
    parts = list[_Part]()
    for text in texts:
        parts += _parts(text, offered) if len(parts) < MAX_PARTS else _whole(text)
    leaning = _Leaning(parts)
    own = [*modules, *(cell.source for cell in code if not grade_id(cell))]
    remarks = []
    for record in records:
        answers = [cell.source for cell in code if grade_id(cell) == record.id]
        used = [part.names for part in leaning.needed(record.id, answers, exercises)]
        named = [name for name in record.forbid if any(names_it(name, words) for words in used)]
        longest = {_last_word(name): name for name in sorted(named, key=len)}.values()  # one remark per function
        remarks += [f"{record.id} names {name}: check whether the exercise was to write it" for name in longest]
        if not named and any(builds_names(source) for source in [*own, *answers]):
            remarks.append(f"{record.id} may build a name at run time: check whether it is one that the exercise forbids")
    remarks += [f"a cell holds {what}: read it with care" for cell in code if (what := disguises(cell.source))]
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown" and is_answer(cell)]
    remarks += [f"a written answer holds {what}: read it with care" for text in prose if (what := disguises(text, prose=True))]
    remarks += [f"a module holds {what}: read it with care" for text in modules if (what := disguises(text))]
    if any(reaches_inward(source) for source in [*modules, *(cell.source for cell in code)]):
        remarks.append("a cell reaches into what runs it: whether inputs were changed or copied is not certain here")
    return remarks


@dataclass(frozen=True)
class _Part:
    """A statement of a cell: the global names it sets, the names it may read, and every name in it.

    `changes` are names whose objects the statement, or a function it defines, may change. `calls` are the names in a bare
    expression, and `alters` says whether a function it defines changes its arguments.
    """

    text: str
    sets: frozenset[str]
    reads: frozenset[str]
    names: frozenset[str]
    changes: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    alters: bool = False


def _parts(source: str, attributes: Collection[str] = ()) -> list[_Part]:
    """Return the statements of `source`: as one part if they cannot be separated, and none if it cannot run.

    `attributes` are names that `source` may read from a module, after a dot.

    >>> [sorted(part.sets) for part in _parts("import math\\ndef f(x): return math.exp(x)\\nprint(f(1))")]
    [['math'], ['f'], []]
    """
    every, (bound, read) = names(source), bindings(source)
    try:
        parsed = statements(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _whole(source)
    parts, aside = [], _LIBRARIES | _HARMLESS | {name for statement in parsed if statement.modules for name in statement.names}
    for statement, text in zip(parsed, texts_of(source, parsed), strict=True):
        words = set(re.findall(r"\w+", normalised("NFKC", text)))
        words.update(statement.spelt)
        sets = frozenset(statement.names).union(bound & words if "global" in words else ())
        reads = frozenset(word for word in words if word in read or word in attributes)
        changes = frozenset(statement.changes).difference(aside)
        parts.append(_Part(text, sets, reads, frozenset(every & words), changes, frozenset(statement.calls), statement.alters))
    return parts


def _whole(source: str) -> list[_Part]:
    every, (bound, read) = names(source), bindings(source)
    return [_Part(source, frozenset(bound), frozenset(read), frozenset(every))] if bound or every else []


class _Leaning:
    """Finds the statements that set, change or read a name."""

    def __init__(self, parts: Sequence[_Part]):
        self.setting, self.changing, self.reading = (dict[str, list[_Part]]() for _ in range(3))
        altering = {name for part in parts if part.alters for name in part.sets}
        for part in parts:
            given = () if altering.isdisjoint(part.calls) else part.calls - altering
            named = part.sets, part.changes.union(given), part.reads
            for index, words in zip((self.setting, self.changing, self.reading), named, strict=True):
                for name in words:
                    index.setdefault(name, []).append(part)

    def needed(self, exercise: str, answers: Collection[str], apart: Collection[str]) -> list[_Part]:
        """Return the statements that make up the answer to `exercise`, directly or through names that others set or change.

        A test below an answer is not part of it, because the answer reads nothing from the test. Other exercises are
        examined separately, so a name in `apart` leads no further.
        """
        own = dict.fromkeys(part for index in (self.setting, self.changing) for part in index.get(exercise, ()))
        parts = own or dict.fromkeys(part for text in answers for part in _parts(text))
        asked, called, new = {*apart}, {*apart}, list(parts)
        while new:
            wanted = {name for part in new for name in part.reads} - asked
            asked |= wanted
            changing = dict.fromkeys(part for name in wanted for part in self.changing.get(name, ()))
            more = dict.fromkeys(part for name in wanted for part in self.setting.get(name, ())) | changing
            # also the statements that call a function which changes a wanted name
            while acting := {name for part in changing if _DEFINES.search(part.text) for name in part.sets} - called:
                called |= acting
                changing = dict.fromkeys(part for name in acting for part in self.reading.get(name, ()))
                more |= changing
            new = [part for part in more if part not in parts]
            parts |= dict.fromkeys(new)
        return list(parts)


def builds_names(source: str) -> bool:
    """Return whether `source` can reach a name that isn't written in it. This proves nothing; it is a reason to read the text.

    >>> builds_names("y = getattr(F, 'soft' + 'max')(x)"), builds_names("y = F.relu(x)")
    (True, False)
    """
    return bool(names(source) & _BUILDS)


def reaches_inward(source: str) -> bool:
    """Return whether `source` names the engine's own modules or a way to reach them, or changes a library that they use.

    >>> reaches_inward("sys.modules['autograder.judging.compare'].close = f"), reaches_inward("for m in self.modules(): pass")
    (True, False)
    >>> reaches_inward("from autograder import check"), reaches_inward("import numpy as n\\nn.array_equal = f")
    (False, True)
    """
    words = names(source)
    return bool(words & _INWARD) or _PATCHED in words or {"sys", "modules"} <= words or _ENGINE.search(source) is not None


def _last_word(forbidden: str) -> str:
    """Return the function's own name, without the modules before it."""
    return str(re.findall(r"\w+", forbidden)[-1])


def names_it(forbidden: str, words: Collection[str]) -> bool:
    """Return whether a text with the names `words` uses `forbidden`, under its own or another name.

    >>> seen = names("y = F.softmax(x)")
    >>> names_it("F.softmax", seen), names_it("torch.einsum", seen)
    (True, False)
    """
    last = _last_word(forbidden)
    inner = f"_{last}_"  # PyTorch's own parts of a built-in, such as _scaled_dot_product_attention_math
    return last in words or not _ALSO.get(last, frozenset()).isdisjoint(words) or any(word.startswith(inner) for word in words)


class Bindings:
    """The names that each cell sets and reads, found once per submission."""

    def __init__(self, sources: Iterable[str]):
        self._of = {source: bindings(source) for source in dict.fromkeys(sources)}
        self._setting: dict[str, list[str]] = {}
        for source, (bound, _) in self._of.items():
            for name in bound:
                self._setting.setdefault(name, []).append(source)

    def leaned_on(self, answer: str) -> list[str]:
        """Return the cells that `answer` takes names from, directly or through other cells.

        >>> helper, user = "def h(x): return F.softmax(x)", "def g(x): return h(x)"
        >>> Bindings([helper, user]).leaned_on("def f(x): return g(x)") == [user, helper]
        True
        """
        cells: dict[str, None] = {}
        asked: set[str] = set()
        wanted = sorted(bindings(answer)[1])
        while wanted:
            asked |= set(wanted)
            new = dict.fromkeys(cell for name in wanted for cell in self._setting.get(name, ()) if cell not in cells)
            cells |= new
            wanted = sorted({name for cell in new for name in self._of[cell][1] if name not in asked})
        return list(cells)


def bindings(source: str) -> tuple[set[str], set[str]]:
    """Return the global names that `source` sets and reads. If only IPython may run it, any word counts as both."""
    try:
        return scopes(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        words = names(source)
        return words, set(words)


def _words(source: str) -> set[str]:
    """Return every word of `source`, normalised as Python normalises names. Cached for the texts of a submission."""
    kept: dict[str, set[str]] = getattr(_told, "words", {})
    if source not in kept:
        kept[source] = set(re.findall(r"\w+", normalised("NFKC", source)))
    return kept[source]


_told = threading.local()


def tell(known: Mapping[str, set[str] | None]) -> None:
    """Store, for this thread and until `forget`, what `names` returns for these texts (None: every word counts)."""
    _told.known = {**getattr(_told, "known", {}), **known}
    _told.words = getattr(_told, "words", {})


def forget() -> None:
    """Forget what `tell` stored."""
    _told.known = {}
    vars(_told).pop("words", None)


def names(source: str) -> set[str]:
    """Return every name in `source`.

    The result is empty if Python refuses the text. It holds every word if only IPython may run it, or if it is too slow to
    read.

    >>> names("import math\\nmath.exp("), sorted(names("%precision 3\\nexp(x)"))
    (set(), ['3', 'exp', 'precision', 'x'])
    """
    known = getattr(_told, "known", {})
    if source in known:
        words = known[source]
        return _words(source) if words is None else set(words)
    try:
        may_parse(source)
        return set(_parsed(source))
    except SyntaxError:
        return _words(source) if source[:1].isspace() or _IPYTHON.search(source) else set()
    except (ValueError, RecursionError, MemoryError):  # MemoryError means "too complex to parse"
        return _words(source)


@lru_cache(KEPT)
def _parsed(source: str) -> frozenset[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a learner's invalid escapes don't concern the grader
        tree = ast.parse(source)
    words: set[str] = set()
    plain = _plain_calls(tree)
    for node in ast.walk(tree):
        if node in plain:
            continue
        if isinstance(node, ast.Attribute):
            if node.attr not in _METHODS or _root(node.value) in _OPENERS:
                words.add(node.attr)
        elif isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.alias):
            words.add(node.name.rpartition(".")[2] if (node.name, node.asname) != ("wraps", None) else "")
        elif isinstance(node, ast.ImportFrom):
            words |= _OWNERS.intersection((node.module or "").split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            words.add(node.value)  # getattr(F, "softmax")
        elif isinstance(node, ast.Constant) and (path := _path_in(node.value)):
            words |= set(re.findall(r"\w+", path)) - _BUILDS - _INWARD - {"sys", "modules"}
        elif isinstance(node, ast.keyword) and node.arg == "eval_str":
            words.add(node.arg)
        elif isinstance(node, ast.MatchClass):  # case object(softmax=f)
            words |= set(node.kwd_attrs)
    words |= {_UNPICKLES} if _unpickles(tree) else set()
    words |= {_SEARCHES} if _searches(tree) or _times_text(tree) or _reaches_for(tree) else set()
    return frozenset(words | {_PATCHED} if _patches(tree) else words)


def _path_in(value: object) -> str:
    """Return the text of a constant that may lead to a name: bytes, or a dotted path such as "torch.nn.functional:softmax"."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) and ("." in value or ":" in value) and not re.search(r"\s", value) else ""


def _unpickles(tree: ast.AST) -> bool:
    """Return whether the program may load pickled bytes. Importing `pickle`, or writing with it, doesn't count.

    >>> [_unpickles(ast.parse(f"import pickle\\n{line}")) for line in ("pickle.dumps(x)", "pickle.loads(x)", "p = pickle")]
    [False, True, True]
    """
    nodes = list(ast.walk(tree))
    modules = set(_PICKLES)
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules |= {alias.asname or alias.name for alias in node.names if alias.name in _PICKLES}
        if isinstance(node, ast.ImportFrom) and node.module in _PICKLES and not _LOADS.isdisjoint(a.name for a in node.names):
            return True
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only"):
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "load" and len(node.args) > 2:
            return True  # np.load(path, None, True)
    writes = {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr not in _LOADS}
    return any(
        (isinstance(node, ast.Name) and node.id in modules) or (isinstance(node, ast.Attribute) and node.attr in _PICKLES)
        for node in nodes
        if node not in writes
    )


def _searches(tree: ast.AST) -> bool:
    """Return whether the program imports a module that can find a name which isn't written in it."""
    asked: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            asked |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            asked |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    tops = {name.partition(".")[0] for name in asked if _SHOWING.isdisjoint((name, name.rpartition(".")[0]))}
    return not asked.isdisjoint(_PARTS) or not tops.isdisjoint(_OTHERS | (sys.stdlib_module_names - _PLAIN_MODULES))


def _reaches_for(tree: ast.AST) -> bool:
    """Return whether the program uses a part of a library that finds a function by name, runs a text, or starts a program.

    >>> _reaches_for(ast.parse("import torch as t\\nt._C._get_x()")), _reaches_for(ast.parse("torch.jit.script(f)"))
    (True, False)
    """
    nodes, paths = list(ast.walk(tree)), list[list[str]]()
    named = {"np": ["numpy"], "nn": ["torch", "nn"], "F": ["torch", "nn", "functional"]}
    owners = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        bound = dict[str, list[str]]()
        if isinstance(node, ast.Import):
            bound = {alias.asname or alias.name: alias.name.split(".") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            bound = {alias.asname or alias.name: [*node.module.split("."), alias.name] for alias in node.names}
        elif isinstance(node, ast.Assign) and (path := _path(node.value)):
            bound = {
                target.id: [*named.get(path[0], path[:1]), *path[1:]] for target in node.targets if isinstance(target, ast.Name)
            }
        named |= bound
        paths += bound.values()
    for node in nodes:
        if isinstance(node, ast.Attribute) and node not in owners and (path := _path(node)):
            paths.append([*named.get(path[0], path[:1]), *path[1:]])
    return any(map(_is_inner, paths))


def _path(node: ast.AST) -> list[str]:
    """Return the names in a chain of attributes, from its root; empty if the root is not a name.

    >>> _path(ast.parse("a.b.c").body[0].value), _path(ast.parse("a().b").body[0].value)
    (['a', 'b', 'c'], [])
    """
    parts = list[str]()
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def _is_inner(path: Sequence[str]) -> bool:
    """Return whether `path` leads to something that finds a function by name, runs a text, or starts a program."""
    top, *parts = path
    if top == "torch":
        inner = any(re.match(r"_(?!_)", part) for part in parts) or not _INNER.isdisjoint(parts[:1])
        return inner and not (parts[0] == "jit" and set(parts[1:]) <= _SCRIPTS)
    if top == "numpy":
        return parts[:1] == ["testing"] and not _RUNS.isdisjoint(parts)
    if top == "IPython":
        return parts[:1] not in ([], ["display"], ["get_ipython"], ["__version__"])
    return parts[:1] == ["path"] if top == "sys" else top == "os" and any(map(_STARTS.fullmatch, parts))


def _times_text(tree: ast.AST) -> bool:
    """Return whether `timeit` may run a text: something timed is neither a lambda nor a function's bare name.

    >>> _times_text(ast.parse("timeit.timeit(lambda: f(x), number=9)")), _times_text(ast.parse("timeit.timeit('f()')"))
    (False, True)
    """
    nodes = list(ast.walk(tree))
    called = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    owners = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    texts = set[str]()  # names that may refer to a text
    for node in nodes:
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            continue
        if not isinstance(node.value, ast.Lambda | ast.Name | ast.Attribute):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            texts |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Import) and any(alias.name == "timeit" and alias.asname for alias in node.names):
            return True  # another cell could use it under that name
        if isinstance(node, ast.ImportFrom) and node.module == "timeit":
            plain = all(alias.name == "default_timer" or (alias.name, alias.asname) == ("timeit", None) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "timeit":
            runs = node.attr in ("timeit", "repeat", "Timer") and node in called
            plain = node.attr == "default_timer" or (runs and _times_functions(called[node], texts))
        else:
            timed = isinstance(node, ast.Name) and node.id == "timeit" and node not in owners
            plain = not timed or (node in called and _times_functions(called[node], texts))
        if not plain:
            return True
    return False


def _times_functions(call: ast.Call, texts: Collection[str]) -> bool:
    """Return whether the timed and setup arguments are lambdas or names that are not in `texts`."""
    if any(keyword.arg is None for keyword in call.keywords):
        return False
    timed = [*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg in ("stmt", "setup"))]
    return all(isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id not in texts) for node in timed)


def _plain_calls(tree: ast.AST) -> set[ast.AST]:
    """Return the function nodes that could build a name but are called with a literal one, as in `getattr(x, "T")`."""
    plain: set[ast.AST] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        texts = [arg.value if isinstance(arg, ast.Constant) and isinstance(arg.value, str) else "" for arg in node.args]
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and any(texts[1:2]):
            plain.add(node.func)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "wraps" and len(node.args) == 1 and not node.keywords:  # more arguments would say which attributes to copy
            plain.add(node.func)
        shell = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "run_line_magic" else None
        if isinstance(shell, ast.Call) and texts and texts[0] in _MAGICS and all(texts):  # how scripts spell `%matplotlib inline`
            plain.add(shell.func)
    return plain


def _patches(tree: ast.AST) -> bool:
    """Return whether the program sets an attribute of a module or of something in one, or runs text that nobody can read."""
    modules = set(_LIBRARIES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    modules -= _HARMLESS
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and _root(node) in modules:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("exec", "eval"):
                return True
            if node.func.id in ("setattr", "delattr", "vars") and node.args and _root(node.args[0]) in modules:
                return True
        if isinstance(node, ast.Attribute) and node.attr in ("__dict__", "__setattr__") and _root(node.value) in modules:
            return True
    return False


def _root(node: ast.AST) -> str:
    """Return the name at the start of a chain of attributes, or "" if the chain contains a harmless part."""
    path = _path(node)
    return path[0] if path and _HARMLESS.isdisjoint(path[1:]) else ""
