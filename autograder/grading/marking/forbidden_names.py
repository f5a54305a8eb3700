"""What an exercise forbids, looked for in the text of an answer: a flag for a person, never a mark.

Values cannot prove how they were computed, and a name can be reached in many ways, so nothing here is a proof.
"""

import ast
import re
import threading
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from autograder.notebooks.normal_form import normalised
from autograder.notebooks.roles import grade_id, is_answer
from autograder.notebooks.scopes import KEPT, may_parse, scopes

if TYPE_CHECKING:  # it brings NumPy, and the reader of texts (`bounded`) starts without
    from autograder.judging.records import ExerciseRecord

_LAYERS = frozenset({"Transformer", *(f"Transformer{part}{kind}" for part in ("Encoder", "Decoder") for kind in ("", "Layer"))})
# what does the same work under another name
_ALSO = {
    "autograd": frozenset({"vjp", "jvp", "jacrev", "jacfwd", "hessian", "functional"}),
    "backward": frozenset({"vjp", "jacrev", "jacfwd"}),
    "jacobian": frozenset({"vjp", "jacrev", "jacfwd"}),
    "MultiheadAttention": _LAYERS,
    "scaled_dot_product_attention": _LAYERS | {"MultiheadAttention", "multi_head_attention_forward", "flex_attention"},
}
_BUILDS = frozenset({"getattr", "eval", "exec", "compile", "__import__", "import_module", "attrgetter", "methodcaller"})
_BUILDS |= {"get_ipython", "run_cell", "runpy", "run_path", "open", "write_text", "marshal", "FunctionType", "CodeType"}
_BUILDS |= {"__dict__", "__getattribute__", "__getattr__", "vars", "globals", "locals", "__builtins__"}
# ways to what runs the answer, and to those who look whether it changes its inputs, copies, or lets PyTorch derive
_INWARD = frozenset({"_getframe", "currentframe", "get_objects", "get_referrers", "settrace", "setprofile", "addaudithook"})
_INWARD |= {"__globals__", "__import__", "import_module", "f_globals", "f_back", "tracemalloc", "_disable_profiler", "ctypes"}
_LIBRARIES = frozenset({"np", "numpy", "torch", "F", "nn", "math", "builtins", "check", "warnings"})  # as lessons call them
_PATCHED = "=library"  # among the names of a text: it puts something in a library's place, or runs text
_HARMLESS = frozenset({"matplotlib", "plt", "backends", "rcParams"})
_ENGINE = re.compile(r"\bautograder\s*\.\s*[a-z]")
_REORDERS = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
# Cyrillic, Armenian, Cherokee; of Greek what looks like a Latin letter and stands for nothing in mathematics
_LOOKS_LATIN = re.compile("[\u0400-\u058f\u13a0-\u13ffΑΒΕΖΗΙΚΜΝΟΡΤΥΧοϲϳϹͿ]")


def flags(exercises: "Mapping[str, ExerciseRecord]", notebook: Any, modules: Collection[str] = ()) -> list[str]:
    """A flag for each name that an exercise forbids: in its answer, the learner's own cells and `modules`, what it leans on."""
    records = [record for record in exercises.values() if record.forbid]
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and (grade_id(cell) is None or is_answer(cell))]
    own = [*modules, *(cell.source for cell in code if cell.id.startswith("extra-"))]
    others = Bindings(cell.source for cell in code if records)
    found = []
    for record in records:
        answers = [cell.source for cell in code if grade_id(cell) == record.id]
        helpers = [source for answer in answers for source in others.leaned_on(answer, exercises)]
        named = {name for source in [*own, *answers, *helpers] for name in uses(source, record.forbid)}
        found += [f"{record.id} names {name}: see whether it was the exercise" for name in record.forbid if name in named]
        if not named and any(builds_names(source) for source in [*own, *answers, *helpers]):
            found.append(f"{record.id} may build a name at run time: see whether it is one that the exercise forbids")
    found += [f"a cell holds {what}: read it with care" for cell in code if (what := disguises(cell.source))]
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown" and is_answer(cell)]
    found += [f"a written answer holds {what}: read it with care" for text in prose if (what := disguises(text, prose=True))]
    found += [f"a module holds {what}: read it with care" for text in modules if (what := disguises(text))]
    if any(reaches_inward(source) for source in [*modules, *(cell.source for cell in code)]):
        found.append("a cell reaches into what runs it: whether inputs were changed or copied is not certain here")
    return found


def builds_names(source: str) -> bool:
    """Whether `source` holds what can reach a name that is not written in it: no proof, a reason to read it.

    >>> builds_names("y = getattr(F, 'soft' + 'max')(x)"), builds_names("y = F.relu(x)")
    (True, False)
    """
    return bool(names(source) & _BUILDS)


def reaches_inward(source: str) -> bool:
    """Whether `source` names the engine's own modules or a way to them, or changes a library by which they look.

    >>> reaches_inward("sys.modules['autograder.judging.observe']._changed = f"), reaches_inward("for m in self.modules(): pass")
    (True, False)
    >>> reaches_inward("from autograder import check"), reaches_inward("import numpy as n\\nn.array_equal = f")
    (False, True)
    """
    seen = names(source)
    return bool(seen & _INWARD) or _PATCHED in seen or {"sys", "modules"} <= seen or _ENGINE.search(source) is not None


def disguises(source: str, *, prose: bool = False) -> str | None:
    """What a person would read otherwise than Python does: marks that reorder or hide text, letters that look like others.

    >>> disguises("def f(x): return x"), disguises("σ = 1  # сумма")
    (None, None)
    >>> disguises("s\u043eftmax = 1")
    'letters of two alphabets in one word'
    >>> disguises("The s\u03bfftmax of \u211d", prose=True), disguises("\u211d and \ufb01", prose=True)
    ('letters of two alphabets in one word', None)
    """
    if _REORDERS.search(source.replace("\u200d", "") if prose else source):  # U+200D joins what makes one emoji
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


def uses(source: str, forbidden: Sequence[str]) -> list[str]:
    """Those of `forbidden` that `source` names: as a dotted path, by its last part, as an import, or inside a string.

    Where `source` is no Python (a line magic, an error), any word of it counts.

    >>> uses("y = F.softmax(x)", ["F.softmax", "torch.einsum"])
    ['F.softmax']
    """
    seen = names(source)
    found = []
    for name in forbidden:
        last = re.findall(r"\w+", name)[-1]
        inner = f"_{last}_"  # PyTorch's own parts of a built-in: _scaled_dot_product_attention_math
        if last in seen or _ALSO.get(last, frozenset()) & seen or any(word.startswith(inner) for word in seen):
            found.append(name)
    return found


class Bindings:
    """What each of some cells sets and reads, and which of them set a name: found once for a submission."""

    def __init__(self, sources: Iterable[str]):
        self._of = {source: bindings(source) for source in dict.fromkeys(sources)}
        self._setting: dict[str, list[str]] = {}
        for source, (bound, _) in self._of.items():
            for name in bound:
                self._setting.setdefault(name, []).append(source)

    def leaned_on(self, answer: str, apart: Collection[str] = ()) -> list[str]:
        """The cells that `answer` takes names from, itself or by way of another; none by a name that is `apart`.

        >>> helper, user = "def h(x): return F.softmax(x)", "def g(x): return h(x)"
        >>> Bindings([helper, user]).leaned_on("def f(x): return g(x)") == [user, helper]
        True
        """
        found: dict[str, None] = {}
        asked = set(apart)
        wanted = sorted(bindings(answer)[1] - asked)
        while wanted:
            asked |= set(wanted)
            new = dict.fromkeys(cell for name in wanted for cell in self._setting.get(name, ()) if cell not in found)
            found |= new
            wanted = sorted({name for cell in new for name in self._of[cell][1] if name not in asked})
        return list(found)


def bindings(source: str) -> tuple[set[str], set[str]]:
    """The global names that `source` sets and reads; where it is no Python, each word may be either."""
    try:
        return scopes(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _words(source), _words(source)


def _words(source: str) -> set[str]:
    """Every word, as Python reads names; of a submission's texts found once."""
    kept: dict[str, set[str]] = getattr(_told, "words", {})
    if source not in kept:
        kept[source] = set(re.findall(r"\w+", normalised("NFKC", source)))
    return kept[source]


_told = threading.local()


def tell(known: Mapping[str, set[str] | None]) -> None:
    """For this thread, until `forget`: what `names` says of these texts, found elsewhere (None: any word counts)."""
    _told.known = {**getattr(_told, "known", {}), **known}
    _told.words = getattr(_told, "words", {})


def forget() -> None:
    """What was told."""
    _told.known = {}
    vars(_told).pop("words", None)


def names(source: str) -> set[str]:
    """Every name in `source`; where it is no Python, or too slow to read, every word."""
    known = getattr(_told, "known", {})
    if source in known:
        found = known[source]
        return _words(source) if found is None else set(found)
    try:
        may_parse(source)
        return set(_parsed(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last: "too complex to parse"
        return _words(source)


@lru_cache(KEPT)
def _parsed(source: str) -> frozenset[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a learner's invalid escapes are no news to the grader
        tree = ast.parse(source)
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
    return frozenset(seen | {_PATCHED} if _patches(tree) else seen)


def _patches(tree: ast.AST) -> bool:
    """Whether the program sets an attribute of a module, or of what is in one, or runs text that nobody can read."""
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
    """The name that a chain of attributes begins with; none where a harmless part is in it."""
    while isinstance(node, ast.Attribute):
        if node.attr in _HARMLESS:
            return ""
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
